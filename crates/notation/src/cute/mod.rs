//! CuTe layouts: `((2,2),8):((1,16),2)`, `Sw<3,3,3> o 0 o (8,64):(64,1)`.
//!
//! A CuTe layout is a shape and a stride, both nested alike; indices are split colexicographically:
//! **the first mode is fastest**. [`parse()`] reads everything that CuTe prints: static integers
//! (`_8`, `Int<8>{}`), run-time ones (`8`, and `?{div=8}` of the Python DSL), strides on a basis
//! (`1@0`), swizzles, the types and calls of C++ sources (`Layout<Shape<_8,_64>>`, `make_layout(..)`), tensors behind pointers, tilers, and the blocks of MMA and copy atoms
//! ([`CuteText`]); and prints it again as CuTe does.
//!
//! # As a layout of the algebra
//! The coordinates of the layout are one per mode at the top level, so that `(i, j)` means what it means in
//! CuTe, and its shape is the sizes of these modes; a mode of several modes is split colexicographically
//! inside. The algebra numbers coordinates row-major, so its flat index is not the integer that CuTe would
//! accept as an index: the order of the top modes is reversed. Over another shape the coordinates are those
//! of CuTe's index, split over that shape with the first dimension fastest; over one dimension they are
//! that index.
//!
//! A stride on a basis steps along a mode of a coordinate instead of in memory: mode `0` is the axis
//! `crd0`, and `1@1@0`, mode 1 of mode 0, is on `crd0_1`.
//!
//! A swizzle before `offset o layout` acts on element offsets. With a pointer it acts on byte addresses: on
//! elements of `2^k` bytes its base M is smaller by `k`. An unset pointer is aligned; behind one with an
//! address, offsets are counted from the aligned address below it.
//!
//! **Law**: `parse(text(x)) == x`.
//!
//! # Operators
//! [`operators`] has composition, complement, inverses, divides and products on [`CuteModes`], with the
//! nesting that CuTe promises. [`atoms`] has the thread-value layouts of MMA and copy atoms by name.

mod atom_text;
pub mod atoms;
mod cpp;
mod dsl;
mod express;
mod lower;
mod modes;
mod nest;
pub mod operators;
mod parse;
mod read;
mod text;

pub use atom_text::{AtomBlock, AtomField, AtomText};
pub use dsl::DslPointer;
pub use express::express_as_cute;
pub use modes::{CuteMode, CuteModes, IntegerStyle, axis_of_mode_basis};
pub use nest::NestedTuple;
pub use parse::parse;
pub use text::{
    CuteInt, CuteStride, CuteText, CuteValue, LayoutText, SwizzleTarget, SwizzleText, TensorEngine,
    WrittenMode, WrittenModes, print_modes, print_shape,
};

use crate::notation::NotationRow;
use crate::{Notation, ParsedText};

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "cute",
    doc: "CuTe shape and stride",
    example: "Sw<3,3,3> o _0 o ((_8,_2),_64):((_64,_512),_1)",
    recognises: parse::recognises_cute,
    parse: |text, _| parse(text).map(|read| ParsedText::from_written(Notation::CUTE, read)),
    print: ParsedText::written_notation_text,
    express: |layout, shape, _| express_as_cute(layout, shape),
    needs_dtype: false,
};
