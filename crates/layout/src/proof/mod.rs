//! Proofs about layouts that need no enumeration of their elements, and the operators that rest on them: equality, image,
//! injectivity, inverses, composition, complement, and lookup.

mod bounds;
mod complement;
mod compose;
mod digit_search;
mod effective;
mod equal;
mod image;
mod integer_system;
mod inverse;
mod left_inverse;
mod longest;
mod lookup;
mod refine;
mod replicas;
mod right_inverse;
mod search;
mod solve;

pub(crate) use bounds::{StepBudget, swizzled_bounds, swizzled_bounds_within};
pub(crate) use compose::{compose_through, compose_tiles};
pub use equal::LayoutDifference;
pub use image::LayoutImage;
pub use inverse::InverseLayout;
pub use lookup::PlaceContent;
pub use refine::find_common_refinement;
pub(crate) use refine::refine_extents;
pub(crate) use replicas::find_remaining_replicas;
