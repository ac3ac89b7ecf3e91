//! Moves: any layout to any layout.
//!
//! A move is a pair of layouts over one logical shape. [`MovePlan::between`] refines both to common
//! digits and yields loop nests (ranges, source strides, destination strides, offsets) and fills
//! for padding. Copies from host to device, restickify, transposes and repacking of weights are all moves.
//! [`mod@reference`] is the mover straight from the definition, with which every other one is compared.
//!
//! ```
//! use zellige_float::Dtype;
//! use zellige_layout::StridedLayout;
//! use zellige_movement::{MovePlan, PaddingFill};
//! use zellige_stick::StickLayout;
//! let host = StridedLayout::new_contiguous(&[1024, 256])?.to_layout()?;
//! let device = StickLayout::default_for_dtype(&[1024, 256], Dtype::Float16)?.lower_to_layout()?;
//! let plan = MovePlan::between(&host, &device, &[1024, 256], PaddingFill::Leave)?;
//! assert_eq!(
//!     plan.to_string(),
//!     "for i in 4, j in 1024, k in 64: dst[i*65536 + j*64 + k] = src[i*64 + j*256 + k]\n"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Mover::between`] makes a mover from two layouts, which runs: it checks the buffers, moves with threads and
//! SIMD, converts elements on the way, fills padding, and knows the cost of that.
//!
//! ```
//! use zellige_float::{Dtype, Format};
//! use zellige_host::AlignedBuffer;
//! use zellige_layout::StridedLayout;
//! use zellige_movement::{Mover, PaddingFill, PaddingValue};
//! use zellige_stick::StickLayout;
//! let shape = [3, 100];
//! let host = StridedLayout::new_contiguous(&shape)?.to_layout()?;
//! let device = StickLayout::default_for_dtype(&shape, Dtype::Float16)?.lower_to_layout()?;
//! let mover = Mover::between(&host, &device, &shape, (Format::F32, Format::F16), PaddingFill::Padding)?;
//! assert_eq!((mover.cost().bytes_read, mover.cost().bytes_written), (1200, 768));
//!
//! let from: Vec<u8> = (0..300).flat_map(|i| (i as f32).to_le_bytes()).collect();
//! let mut to = AlignedBuffer::new_zeroed(mover.dst_bytes());
//! let lowest = PaddingValue::Max.element_for_dtype(Dtype::Float16)?.expect("padding is filled");
//! mover.run_on_slices(&from, &mut to, Some(&lowest.bytes), 2)?;
//! // Row 1, column 70 is lane 6 of the second stick of its row; lane 36 is the first of padding.
//! let stick = (3 + 1) * 64;
//! assert_eq!(to[2 * (stick + 6)..][..2], [0x50, 0x59], "170 as float16");
//! assert_eq!(to[2 * (stick + 36)..][..2], [0x00, 0xfc], "minus infinity");
//! assert!(mover.run_on_slices(&from[1..], &mut to, None, 1).is_err(), "a source that is too short");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`PlanCache`] remembers movers for moves that are repeated. [`MovePlan::clip_destination`] cuts a plan into
//! slabs for destinations larger than memory. `docs/engine.md` is the design of the planner and the engine.
//!
//! # What it may not do
//! Know of devices or graphs: a device layout is a layout like any other.

mod address_function;
mod between;
mod builder;
mod cache;
mod checked;
mod clip;
mod dtypes;
mod engine;
mod gaps;
mod linear_pieces;
mod padding;
mod plan;
pub mod reference;
mod tabulate;

pub use between::PaddingFill;
pub use cache::{CacheStats, PlanCache};
pub use dtypes::MoveDtypes;
pub use engine::{MoveError, Mover};
pub use padding::{FillElement, PaddingError, PaddingValue};
pub use plan::{CopyLoop, CopyNest, FillNest, MovePlan, PlanCost};
pub use zellige_host::crew::ThreadPool;
