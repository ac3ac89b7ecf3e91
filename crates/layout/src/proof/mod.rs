//! What can be proved about a layout without enumerating it.

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
pub use equal::Difference;
pub use image::Image;
pub use inverse::Inverse;
pub use lookup::Held;
pub use refine::common_refinement;
pub(crate) use refine::refine_extents;
pub(crate) use replicas::left_over;
