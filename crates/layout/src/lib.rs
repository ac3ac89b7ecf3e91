//! The algebra of tensor layouts.
//!
//! Tensors look multidimensional; memory is a line, threads are numbered, devices form a mesh. A [`Layout`]
//! maps the logical index of every element to a **set of coordinates on named axes**. Everything else in
//! Zellige (notations, moves, the compiler, the drawings) reads this one type. Each of them is a
//! [`PhysicalCoordinate`]: one integer for each axis that the layout mentions. Messages and names such as
//! [`PlaceContent`] call it a *place*.
//!
//! # Semantics
//! An [`Iter`] is `(extent, stride, axis)`. A [`TileLayout`] is a shard `D` (ordered iters), a
//! replica `R` (a multiset of iters) and an offset `O` (one integer per axis):
//!
//! ```text
//! L(x) = { D(x) + r + O | r in R }
//! ```
//!
//! 1. The logical coordinate is flattened row-major over the shape.
//! 2. The flat index is split over the extents of the shard, last iter fastest.
//! 3. Each digit adds `digit * stride` on its axis; then the offset.
//! 4. Each combination of replica digits gives one coordinate of the set.
//!
//! A [`Layout`] adds a [`Swizzle`], an XOR permutation of the coordinate on `m`, and a [`ValidWindow`]:
//! the valid extents inside padded ones. Nothing assumes powers of two; arithmetic is checked, and
//! overflow is an error.
//!
//! ```
//! use zellige_layout::{Axis, AxisTable, Iter, TileLayout, Layout};
//! let axes = AxisTable::new();
//! let (lane, warp) = (axes.get("laneid")?, axes.get("warpid")?);
//! // (8,16) on two of four warps, five warps into the block.
//! let tile = TileLayout::new(
//!     vec![Iter::new(8, 4, lane), Iter::new(2, 1, warp), Iter::new(4, 1, lane), Iter::in_memory(2, 1)],
//!     vec![Iter::new(2, 4, warp)],
//!     [(warp, 5)],
//! )?;
//! let layout = Layout::from(tile);
//! let places = layout.apply_to_coordinate(&[8, 16], &[7, 15])?.sorted_coordinates();
//! assert_eq!(places.len(), 2);
//! assert_eq!(places[0].get(lane), 31);
//! assert_eq!((places[0].get(warp), places[1].get(warp)), (6, 10));
//! assert_eq!(places[0].get(Axis::M), 1);
//! # Ok::<(), zellige_layout::LayoutError>(())
//! ```
//!
//! # What it may not do
//! Touch bytes, text, threads or files, or know a vendor's format. There is no `unsafe` here.

#![forbid(unsafe_code)]

mod analysis;
mod axis;
mod error;
pub mod int;
mod layout;
mod linear;
mod ops;
mod proof;
mod radix;
mod strided;
mod swizzle;
mod table;
mod tile;
mod view;
mod window;

pub use analysis::{
    BANK_BYTES, BANKS, BankConflictReport, BankPhase, ConflictRemedy, LaneAccessPattern,
    LayoutLint, LintSeverity, SwizzleChoice, VectorWidth, WARP, bank_and_line,
};
pub use axis::{Axis, AxisKind, AxisTable, ExecutionScope, MAX_AXIS_NAME, thread_scope_pair};
pub use error::{LayoutError, LayoutWitness, Result};
pub use layout::{
    CoordinateSet, Layout, MAX_PLACES, PhysicalCoordinate, flatten_coordinate, unflatten_index,
};
pub use linear::{
    LinearAxis, LinearLayout, MAX_LINEAR_BITS, SharedSwizzle, count_bank_conflicts,
    find_optimal_swizzle,
};
pub use proof::{
    InverseLayout, LayoutDifference, LayoutImage, PlaceContent, find_common_refinement,
};
pub use strided::{StridedLayout, check_nonnegative_sizes};
pub use swizzle::Swizzle;
pub use tile::{AxisBounds, Iter, TileLayout};
pub use view::wrap_negative_dim;
pub use window::{PaddedExtent, ValidWindow};
