//! The syntax tree of CuTe texts: integers as they are written, strides on a basis, swizzles, pointers,
//! tilers and atoms.

use super::atom_text::AtomText;
use super::dsl::DslPointer;
use super::nest::NestedTuple;
use std::fmt::Write;

/// An integer as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CuteInt {
    /// `8`: known at run time (C++), or static (Python DSL).
    Bare(i64),
    /// `_8`: static (C++).
    Static(i64),
    /// `?` or `?{i64 div=8}`: not known before the program runs (Python DSL).
    Unknown {
        /// `i64` or `i32`, if it is given.
        width: Option<u32>,
        /// The number that it is a multiple of, if that is given.
        div: Option<i64>,
    },
}

impl CuteInt {
    /// Its value, if the text states it.
    pub fn known_value(&self) -> Option<i64> {
        match self {
            CuteInt::Bare(v) | CuteInt::Static(v) => Some(*v),
            CuteInt::Unknown { .. } => None,
        }
    }

    /// Its text.
    pub fn print_cute_text(&self) -> String {
        match self {
            CuteInt::Bare(v) => v.to_string(),
            CuteInt::Static(v) => format!("_{v}"),
            CuteInt::Unknown { width, div } => {
                let mut words = Vec::new();
                words.extend(width.map(|w| format!("i{w}")));
                words.extend(div.map(|d| format!("div={d}")));
                if words.is_empty() { "?".into() } else { format!("?{{{}}}", words.join(" ")) }
            }
        }
    }
}

/// A stride: a number, or a number of steps along one mode of a coordinate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuteStride {
    /// How far.
    pub scale: CuteInt,
    /// The mode that it steps along, outermost first; empty for a plain number. `_1@1@0` is mode 1 of
    /// mode 0: `[0, 1]`.
    pub basis: Vec<usize>,
}

impl CuteStride {
    /// Its text.
    pub fn print_cute_text(&self) -> String {
        let mut out = self.scale.print_cute_text();
        for mode in self.basis.iter().rev() {
            let _ = write!(out, "@{mode}");
        }
        out
    }
}

/// An extent and its stride, as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenMode {
    /// How many steps.
    pub extent: CuteInt,
    /// How far each.
    pub stride: CuteStride,
}

/// `shape:stride` as it is written: both have the same nesting.
pub type WrittenModes = NestedTuple<WrittenMode>;

/// The text of `shape:stride`.
pub fn print_modes(modes: &WrittenModes) -> String {
    format!("{}:{}", print_shape(modes), modes.print_nested(&|m| m.stride.print_cute_text()))
}

/// The text of the shape alone.
pub fn print_shape(modes: &WrittenModes) -> String {
    modes.print_nested(&|m| m.extent.print_cute_text())
}

/// An entry of a tuple that is not a layout as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CuteValue {
    /// An integer.
    Int(CuteInt),
    /// A scaled basis element: `_2@1`.
    Basis(CuteStride),
    /// A static ratio: `_1/_2`.
    Ratio(i64, i64),
    /// `_`, the whole of a mode.
    Wildcard,
    /// A layout, as in the tiler `(_4:_1,_8:_2)`.
    Modes(WrittenModes),
}

impl CuteValue {
    /// Its text.
    pub fn print_cute_text(&self) -> String {
        match self {
            CuteValue::Int(int) => int.print_cute_text(),
            CuteValue::Basis(stride) => stride.print_cute_text(),
            CuteValue::Ratio(n, d) => format!("_{n}/_{d}"),
            CuteValue::Wildcard => "_".into(),
            CuteValue::Modes(modes) => print_modes(modes),
        }
    }
}

/// `Sw<B,M,S>`: bits `M + S ..` are XORed into bits `M ..`, `B` of them; a negative `S` the other way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwizzleText {
    /// B: how many bits.
    pub bits: i64,
    /// M: how many low bits stay.
    pub base: i64,
    /// S: the distance between the two fields.
    pub shift: i64,
    /// Whether it is written `S<..>`, as the Python DSL does, instead of `Sw<..>`.
    pub dsl: bool,
}

impl SwizzleText {
    /// Its text.
    pub fn print_cute_text(&self) -> String {
        let word = if self.dsl { "S" } else { "Sw" };
        format!("{word}<{},{},{}>", self.bits, self.base, self.shift)
    }
}

/// The pointer or iterator to which the offsets of a tensor are added (CuTe's engine).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorEngine {
    /// `gmem_ptr[32b](0x55e5c573ac20)`: memory of elements of so many bits.
    Pointer {
        /// The word: `ptr`, `gmem_ptr`, `smem_ptr`, `rmem_ptr`, `tmem_`, ..
        word: String,
        /// Bits of an element.
        bits: i64,
        /// The address, or `unset`.
        address: String,
    },
    /// `counting_iter(3)`: the integers from 3 on.
    Counting(i64),
    /// `ArithTuple(0,_0)`: the coordinates themselves, from one on.
    Coordinates(NestedTuple<CuteValue>),
    /// `ptr<f16, gmem, align<16>>` of a tensor of the Python DSL.
    Dsl(DslPointer),
    /// `(0,0)`: the coordinates of a tensor of the Python DSL.
    DslCoordinates(NestedTuple<CuteValue>),
}

impl TensorEngine {
    /// Its text.
    pub fn print_cute_text(&self) -> String {
        match self {
            TensorEngine::Pointer { word, bits, address } => format!("{word}[{bits}b]({address})"),
            TensorEngine::Counting(first) => format!("counting_iter({first})"),
            TensorEngine::Coordinates(at) => {
                format!("ArithTuple{}", at.print_nested(&CuteValue::print_cute_text))
            }
            TensorEngine::Dsl(pointer) => pointer.print_cute_text(),
            TensorEngine::DslCoordinates(at) => at.print_nested(&CuteValue::print_cute_text),
        }
    }
}

/// The operand of a swizzle: element offsets or byte addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwizzleTarget {
    /// `swizzle o offset o layout`: the element offsets. The offset is 0 where it is not written.
    Elements(Option<CuteInt>),
    /// `swizzle o smem_ptr[16b](unset) o layout`: the byte addresses of elements of so many bits,
    /// from an aligned address on.
    UnsetPointer(TensorEngine),
    /// `Sw<3,4,3>_smem_ptr[16b](0x..) o layout`: the byte addresses behind a pointer.
    Pointer(TensorEngine),
}

/// A layout: modes, with an optional engine and swizzle before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutText {
    /// A pointer or iterator at the very front.
    pub engine: Option<TensorEngine>,
    /// A swizzle and its operand.
    pub swizzle: Option<(SwizzleText, SwizzleTarget)>,
    /// `shape:stride`.
    pub modes: WrittenModes,
}

impl LayoutText {
    /// Its text.
    pub fn print_cute_text(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.engine.as_ref().map(TensorEngine::print_cute_text));
        match &self.swizzle {
            Some((sw, SwizzleTarget::Elements(offset))) => {
                parts.push(sw.print_cute_text());
                parts.extend(offset.as_ref().map(CuteInt::print_cute_text));
            }
            Some((sw, SwizzleTarget::UnsetPointer(ptr))) => {
                parts.extend([sw.print_cute_text(), ptr.print_cute_text()]);
            }
            Some((sw, SwizzleTarget::Pointer(ptr))) => {
                parts.push(format!("{}_{}", sw.print_cute_text(), ptr.print_cute_text()));
            }
            None => {}
        }
        parts.push(print_modes(&self.modes));
        let text = parts.join(" o ");
        match &self.engine {
            Some(TensorEngine::Dsl(_) | TensorEngine::DslCoordinates(_)) => {
                format!("tensor<{text}>")
            }
            _ => text,
        }
    }
}

/// A CuTe text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CuteText {
    /// A layout or tensor.
    Layout(Box<LayoutText>),
    /// Integers, tuples, tilers: no layout as a whole.
    Value(NestedTuple<CuteValue>),
    /// A swizzle alone.
    Swizzle(SwizzleText),
    /// The printed form of an atom, or of atoms that are tiled.
    Atom(AtomText),
}

impl CuteText {
    /// Its text.
    pub fn print_cute_text(&self) -> String {
        match self {
            CuteText::Layout(layout) => layout.print_cute_text(),
            CuteText::Value(value) => value.print_nested(&CuteValue::print_cute_text),
            CuteText::Swizzle(sw) => sw.print_cute_text(),
            CuteText::Atom(atom) => atom.print_cute_text(),
        }
    }
}
