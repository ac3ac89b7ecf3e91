//! Exact conversion between number formats, one value or millions at a time.
//!
//! [`Element::cast_from`] is the definition, one value at a time; [`Converter`] does the same to
//! arrays, at the speed of memory, with the widest instructions that the machine has. Both agree in
//! every bit.
//!
//! ```
//! use zellige_float::{Converter, Format};
//! let to_device = Converter::new(Format::F32, Format::DL16);
//! let host: Vec<u8> = [1.0_f32, -2.5, 1e-12, 1e12].iter().flat_map(|x| x.to_le_bytes()).collect();
//! let mut device = [0; 8];
//! to_device.convert(&host, &mut device, 4)?;
//! assert_eq!(device, [0x00, 0x3e, 0x80, 0xc0, 0x00, 0x00, 0xff, 0x7f]);
//! # Ok::<(), zellige_float::ConvertError>(())
//! ```
//!
//! # Rules
//! - **Every rounding happens once**, from the exact value of the source: float64 or int64 to
//!   float16 does not pass through a rounded float32.
//! - **To a float**: to nearest, ties to even, subnormals included. DL16 has a rule of its own
//!   ([`Dl16`]): ties away from zero, no subnormals.
//! - **Past the largest number** comes an infinity, as in IEEE 754. Of the formats without one, E4M3
//!   saturates: what is too large, infinities included, becomes 448 with its sign. DL16 and E5M2FNUZ
//!   give their NaN. This is what PyTorch 2.15 does on purpose: eager conversions to `float8_e4m3fn`
//!   saturate since its change 178817, as its compiled ones and the instructions of GPUs did before;
//!   `float8_e5m2` overflows to an infinity, the formats `fnuz` to their NaN. `ml_dtypes` and ONNX
//!   with `saturate = 0` give a NaN for E4M3.
//! - **Zero keeps its sign** in every format that has a minus zero.
//! - **A NaN stays a NaN.** It comes out quiet, with its sign and the leading bits of its payload, as
//!   far as the destination has them. The one NaN of DL16 and E4M3 has a sign and no payload, that of
//!   E5M2FNUZ neither: reading them gives a float32 NaN without payload.
//! - **Float to integer**: truncated toward zero, then saturated to the range; a NaN gives 0. (PyTorch
//!   on a CPU truncates too and leaves out-of-range values undefined.)
//! - **Integer to integer**: the low bits, two's complement, as in PyTorch. So int64 values outside 32
//!   bits change on their way to int32.
//! - **To bool**: nonzero is 1, and a NaN is nonzero. **From bool**: any nonzero byte is 1.
//! - **A format to itself** is a copy of the bytes, signalling NaNs and odd booleans included.
//!
//! Bytes are little endian, at any alignment.
//!
//! # What it may not do
//! Know of layouts, files or threads: a caller that moves data cuts it into rows and calls a
//! [`Converter`] on each.

#[cfg(target_endian = "big")]
compile_error!("elements are little endian in memory, and the kernels read them as they are");

mod arithmetic;
mod convert;
mod dtype;
mod element;
mod format;
mod hub;
mod kernel;
mod loss;
mod minifloat;
pub mod packed;
mod row;
mod small;

pub use arithmetic::{PAIR_STEP, PairArithmetic, PairKernel, select_pair_kernel};
pub use convert::{ConvertError, Converter, fence_stores};
pub use dtype::{Dtype, UnknownDtype};
pub use element::{Bool, Element};
pub use format::Format;
pub use kernel::{ConvertKernel, RowStrides};
pub use loss::{ConversionLoss, conversion_losses, count_changed, format_bounds, largest_finite};
pub use row::{PANEL_COLUMNS, RowKernel, select_panel_kernel};
pub use small::{Bf16, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2, F8E5M2Fnuz, F16};
pub use zellige_isa::{Isa, IsaKind};
