//! Notations: the ways in which the field writes layouts, each read into and printed from the one
//! algebra of [`zellige_layout`].
//!
//! | notation | module | text |
//! |---|---|---|
//! | TIRx / Axe | [`tirx`] | `S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid` |
//! | PyTorch | [`torch`] | `size=[4, 6] stride=[6, 1]` |
//! | IBM Spyre | [`spyre`] | `SpyreTensorLayout(device_size=[4, 40, 64], stride_map =[64, 240, 1], device_dtype=DataFormats.SEN169_FP16)` |
//!
//! [`parse`] tells them apart; [`Parsed`] is what it answers; [`convert`](mod@convert) goes from
//! one to another, or says why it cannot. A notation that comes later is one more file here with its
//! row, and that row in the table of `notation.rs`; a test there checks that it is complete.
//!
//! ```
//! use zellige_layout::AxisTable;
//! use zellige_notation::{parse, tirx};
//! let layout = parse("Swizzle(3,3,3) o S[(8,64):(64,1)]", &AxisTable::new())?.layout(None)?;
//! assert_eq!(tirx::print(&layout), "Swizzle(3,3,3) o S[(8,64):(64,1)]");
//! let error = parse("S[(8,4,2):(4,1)]", &AxisTable::new()).unwrap_err();
//! assert_eq!(error.message, "3 extents but 2 strides");
//! # Ok::<(), zellige_notation::Diagnostic>(())
//! ```
//!
//! [`visible`] shows names and texts of others without what a terminal would obey.
//!
//! # What it may not do
//! Hold mapping logic: a module here knows how a layout is written, never where an element lives.

#![forbid(unsafe_code)]

pub mod convert;
pub mod cursor;
mod diagnostic;
pub mod json;
mod notation;
mod parsed;
pub mod preset;
pub mod spyre;
pub mod tirx;
pub mod torch;
mod visible;

pub use diagnostic::Diagnostic;
pub use notation::{Notation, parse, parse_as};
pub use parsed::Parsed;
pub use visible::{quote, visible, visible_json, visible_lines};
