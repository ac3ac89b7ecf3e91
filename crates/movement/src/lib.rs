//! Moves: any layout to any layout.
//!
//! A move is a pair of layouts over one logical shape. [`Plan::between`] refines both to common
//! digits and yields loop nests (ranges, source strides, destination strides, offsets) and fills
//! for padding. Host to device, restickify, transposes, repacking of weights are all that one
//! thing. [`mod@reference`] is the obvious mover that every other one is compared with.
//!
//! ```
//! use zellige_layout::{StickLayout, Dtype, Strided};
//! use zellige_movement::{Fill, Plan};
//! let host = Strided::contiguous(&[1024, 256])?.to_layout()?;
//! let device = StickLayout::default(&[1024, 256], Dtype::Float16)?.lower()?;
//! let plan = Plan::between(&host, &device, &[1024, 256], Fill::Leave)?;
//! assert_eq!(
//!     plan.to_string(),
//!     "for i in 4, j in 1024, k in 64: dst[i*65536 + j*64 + k] = src[i*64 + j*256 + k]\n"
//! );
//! # Ok::<(), zellige_layout::Error>(())
//! ```
//!
//! A [`Mover`] runs a plan on bytes: SIMD, streaming stores, threads, conversion of elements on the
//! way. [`Plan::clip`] cuts a plan into slabs for destinations larger than memory; [`Transfer`]
//! writes one as the device's descriptor.
//!
//! # What it may not do
//! Know of devices or graphs: a device layout comes in as a layout like any other.

mod between;
mod buffer;
mod clip;
mod cover;
mod dci;
mod engine;
#[cfg(unix)]
mod mapped;
mod plan;
pub mod reference;
mod side;

pub use between::Fill;
pub use buffer::Buffer;
pub use dci::{Dcsi, Descriptor, Direction, NamedNest, Transfer};
pub use engine::{MoveError, Mover};
#[cfg(unix)]
pub use mapped::Mapped;
pub use plan::{Cost, FillNest, Loop, Nest, Plan};
