//! What a CuTe text says, before it is a layout: integers as they are written, strides on a basis,
//! swizzles, pointers, tilers and atoms.

use super::atom_text::AtomText;
use super::dsl::DslPointer;
use super::nest::Nest;
use std::fmt::Write;

/// An integer as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Int {
    /// `8`: known at run time (C++), or static (Python DSL).
    Bare(i64),
    /// `_8`: static (C++).
    Static(i64),
    /// `?` or `?{i64 div=8}`: not known before the program runs (Python DSL).
    Unknown {
        /// `i64` or `i32`, where it is said.
        width: Option<u32>,
        /// What it is a multiple of, where that is said.
        div: Option<i64>,
    },
}

impl Int {
    /// Its value, where the text says it.
    pub fn value(&self) -> Option<i64> {
        match self {
            Int::Bare(v) | Int::Static(v) => Some(*v),
            Int::Unknown { .. } => None,
        }
    }

    /// Its text.
    pub fn text(&self) -> String {
        match self {
            Int::Bare(v) => v.to_string(),
            Int::Static(v) => format!("_{v}"),
            Int::Unknown { width, div } => {
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
pub struct Stride {
    /// How far.
    pub scale: Int,
    /// The mode that it steps along, outermost first; empty for a plain number. `_1@1@0` is mode 1 of
    /// mode 0: `[0, 1]`.
    pub basis: Vec<usize>,
}

impl Stride {
    /// Its text.
    pub fn text(&self) -> String {
        let mut out = self.scale.text();
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
    pub extent: Int,
    /// How far each.
    pub stride: Stride,
}

/// `shape:stride` as it is written: both have the same nesting.
pub type WrittenModes = Nest<WrittenMode>;

/// The text of `shape:stride`.
pub fn modes_text(modes: &WrittenModes) -> String {
    format!("{}:{}", shape_text(modes), modes.print(&|m| m.stride.text()))
}

/// The text of the shape alone.
pub fn shape_text(modes: &WrittenModes) -> String {
    modes.print(&|m| m.extent.text())
}

/// An entry of a tuple that is no layout as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Int(Int),
    /// A scaled basis element: `_2@1`.
    Basis(Stride),
    /// A static ratio: `_1/_2`.
    Ratio(i64, i64),
    /// `_`, the whole of a mode.
    Wildcard,
    /// A layout, as in the tiler `(_4:_1,_8:_2)`.
    Modes(WrittenModes),
}

impl Value {
    /// Its text.
    pub fn text(&self) -> String {
        match self {
            Value::Int(int) => int.text(),
            Value::Basis(stride) => stride.text(),
            Value::Ratio(n, d) => format!("_{n}/_{d}"),
            Value::Wildcard => "_".into(),
            Value::Modes(modes) => modes_text(modes),
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
    pub fn text(&self) -> String {
        let word = if self.dsl { "S" } else { "Sw" };
        format!("{word}<{},{},{}>", self.bits, self.base, self.shift)
    }
}

/// What the offsets of a tensor are added to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
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
    Coordinates(Nest<Value>),
    /// `ptr<f16, gmem, align<16>>` of a tensor of the Python DSL.
    Dsl(DslPointer),
    /// `(0,0)`: the coordinates of a tensor of the Python DSL.
    DslCoordinates(Nest<Value>),
}

impl Engine {
    /// Its text.
    pub fn text(&self) -> String {
        match self {
            Engine::Pointer { word, bits, address } => format!("{word}[{bits}b]({address})"),
            Engine::Counting(first) => format!("counting_iter({first})"),
            Engine::Coordinates(at) => format!("ArithTuple{}", at.print(&Value::text)),
            Engine::Dsl(pointer) => pointer.text(),
            Engine::DslCoordinates(at) => at.print(&Value::text),
        }
    }
}

/// What a swizzle acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwizzleOf {
    /// `swizzle o offset o layout`: the element offsets. The offset is 0 where it is not written.
    Elements(Option<Int>),
    /// `swizzle o smem_ptr[16b](unset) o layout`: the byte addresses of elements of so many bits,
    /// from an aligned address on.
    UnsetPointer(Engine),
    /// `Sw<3,4,3>_smem_ptr[16b](0x..) o layout`: the byte addresses behind a pointer.
    Pointer(Engine),
}

/// A layout: modes, and what stands before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutText {
    /// A pointer or iterator at the very front.
    pub engine: Option<Engine>,
    /// A swizzle, and what it acts on.
    pub swizzle: Option<(SwizzleText, SwizzleOf)>,
    /// `shape:stride`.
    pub modes: WrittenModes,
}

impl LayoutText {
    /// Its text.
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.engine.as_ref().map(Engine::text));
        match &self.swizzle {
            Some((sw, SwizzleOf::Elements(offset))) => {
                parts.push(sw.text());
                parts.extend(offset.as_ref().map(Int::text));
            }
            Some((sw, SwizzleOf::UnsetPointer(ptr))) => parts.extend([sw.text(), ptr.text()]),
            Some((sw, SwizzleOf::Pointer(ptr))) => {
                parts.push(format!("{}_{}", sw.text(), ptr.text()));
            }
            None => {}
        }
        parts.push(modes_text(&self.modes));
        let text = parts.join(" o ");
        match &self.engine {
            Some(Engine::Dsl(_) | Engine::DslCoordinates(_)) => format!("tensor<{text}>"),
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
    Value(Nest<Value>),
    /// A swizzle alone.
    Swizzle(SwizzleText),
    /// The printed form of an atom, or of atoms that are tiled.
    Atom(AtomText),
}

impl CuteText {
    /// Its text.
    pub fn text(&self) -> String {
        match self {
            CuteText::Layout(layout) => layout.text(),
            CuteText::Value(value) => value.print(&Value::text),
            CuteText::Swizzle(sw) => sw.text(),
            CuteText::Atom(atom) => atom.text(),
        }
    }
}
