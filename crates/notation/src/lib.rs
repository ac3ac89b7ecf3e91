//! Notations: the ways in which the field writes layouts, each read into and printed from the one
//! algebra of [`zellige_layout`].
//!
//! | notation | module | text |
//! |---|---|---|
//! | TIRx / Axe | [`tirx`] | `S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid` |
//! | CuTe | [`cute`] | `((2,2),8):((1,16),2)`, `Sw<3,3,3> o 0 o (8,64):(64,1)` |
//! | PyTorch | [`torch`] | `size=[4, 6] stride=[6, 1]` |
//! | IBM Spyre | [`spyre`] |
//! `SpyreTensorLayout(device_size=[4, 40, 64], stride_map =[64, 240, 1], device_dtype=DataFormats.SEN169_FP16)`
//! |
//! | Triton linear layouts | [`linear`] | `{register: [[0, 1]], lane: [[0, 2], [1, 0]]}` |
//! | Triton attributes | [`triton`] |
//! `#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>`
//! |
//! | XLA | [`xla`] | `f32[16,256]{1,0:T(8,128)}` |
//! | oneDNN tags | [`onednn`] | `aBcd16b`, `dims=[2, 3, 4, 5] tag=nChw16c` |
//! | MLIR `linalg.pack` | [`pack`] | `inner_dims_pos = [1] inner_tiles = [64] outer_dims_perm = [1, 0]` |
//! | MLIR memrefs | [`memref`] | `memref<4x6xf32, strided<[6, 1], offset: 2>>`, `affine_map<(d0, d1) -> (d1, d0)>` |
//! | JAX | [`jax`] | `Mesh('x': 2, 'y': 4) PartitionSpec('x', None)` |
//! | HLO shardings | [`hlo`] | `{devices=[2,4]<=[8]}` |
//! | Shardy | [`shardy`] | `#sdy.mesh<["x"=2]> #sdy.sharding<@mesh, [{"x"}, {}]>` |
//! | PyTorch `DTensor` | [`dtensor`] | `(Shard(dim=0), Replicate()) mesh=[2, 4]` |
//! | NumPy | [`numpy`] | `shape=(4, 6) order='F'`, and `__array_interface__` |
//!
//! [`parse`](crate::parse()) recognises the notation of a text and returns a [`ParsedText`];
//! [`convert_layout`](mod@convert) converts from one to another, or returns the reason why it cannot. A new
//! notation is one more file here with its row, and that row in the table of `notation.rs`; a test there
//! checks that it is complete.
//!
//! ```
//! use zellige_layout::AxisTable;
//! use zellige_notation::{parse, tirx};
//! let text = "Swizzle(3,3,3) o S[(8,64):(64,1)]";
//! let layout = parse(text, &AxisTable::new())?.layout_over_shape(None)?;
//! assert_eq!(tirx::print_tirx(&layout), "Swizzle(3,3,3) o S[(8,64):(64,1)]");
//! let error = parse("S[(8,4,2):(4,1)]", &AxisTable::new()).unwrap_err();
//! assert_eq!(error.message, "3 extents but 2 strides");
//! # Ok::<(), zellige_notation::Diagnostic>(())
//! ```
//!
//! [`make_visible`] escapes names and texts from outside, so that a terminal does not execute their control
//! characters.
//!
//! # What it may not do
//! Decide where an element is stored: operators, proofs and comparisons belong to the algebra. A notation
//! whose documentation defines the position of an element (tiles of XLA, blocks of oneDNN) states that
//! definition once, as a function of one coordinate, and tests compare its layout in the algebra with that
//! function.

#![forbid(unsafe_code)]

mod blocked;
pub mod convert;
pub mod cursor;
pub mod cute;
mod diagnostic;
pub mod dtensor;
pub mod hlo;
pub mod index_code;
pub mod jax;
pub mod json;
pub mod linear;
pub mod memref;
mod notation;
pub mod numpy;
pub mod onednn;
pub mod pack;
mod parsed;
pub mod preset;
pub mod sharding;
pub mod shardy;
pub mod spyre;
mod symbols;
pub mod tirx;
pub mod torch;
pub mod triton;
mod visible;
pub mod xla;

pub use diagnostic::Diagnostic;
pub use notation::{Notation, all_readings, parse, parse_as};
pub use parsed::{
    ElementSize, ElementSource, ParsedText, StoredElements, WrittenLayout, choose_shared_shape,
};
pub use visible::{make_json_visible, make_lines_visible, make_visible, quote_beginning};
