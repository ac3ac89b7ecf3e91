//! Types of values.

use crate::affine::Set;
use std::fmt;
use zellige_float::Format;

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Elem {
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
    /// bfloat16.
    BF16,
    /// The device's 16-bit float: 1 sign, 6 exponent, 9 fraction bits.
    DF16,
    /// 8-bit float with 4 exponent bits; also written `f8`.
    F8E4M3,
    /// 8-bit float with 5 exponent bits.
    F8E5M2,
    /// A truth value, one byte in memory.
    I1,
    /// 8 bits.
    I8,
    /// 16 bits.
    I16,
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
    /// What counts and addresses, 64 bits.
    Index,
}

impl Elem {
    /// Every element type.
    pub const ALL: [Elem; 12] = [
        Elem::F16,
        Elem::F32,
        Elem::BF16,
        Elem::DF16,
        Elem::F8E4M3,
        Elem::F8E5M2,
        Elem::I1,
        Elem::I8,
        Elem::I16,
        Elem::I32,
        Elem::I64,
        Elem::Index,
    ];

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Elem::F16 => "f16",
            Elem::F32 => "f32",
            Elem::BF16 => "bf16",
            Elem::DF16 => "df16",
            Elem::F8E4M3 => "f8E4M3FN",
            Elem::F8E5M2 => "f8E5M2",
            Elem::I1 => "i1",
            Elem::I8 => "i8",
            Elem::I16 => "i16",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
            Elem::Index => "index",
        }
    }

    /// The type of a name; signed spellings and `f8` are understood too.
    pub fn from_name(name: &str) -> Option<Elem> {
        let name = match name {
            "f8" => "f8E4M3FN",
            "fp16" => "f16",
            "si8" | "ui8" => "i8",
            "si16" => "i16",
            "si32" | "ui32" => "i32",
            "si64" | "ui64" => "i64",
            other => other,
        };
        Elem::ALL.into_iter().find(|e| e.name() == name)
    }

    /// Its bits in memory.
    pub fn format(self) -> Format {
        match self {
            Elem::F16 => Format::F16,
            Elem::F32 => Format::F32,
            Elem::BF16 => Format::BF16,
            Elem::DF16 => Format::DL16,
            Elem::F8E4M3 => Format::F8E4M3FN,
            Elem::F8E5M2 => Format::F8E5M2,
            Elem::I1 => Format::Bool,
            Elem::I8 => Format::I8,
            Elem::I16 => Format::I16,
            Elem::I32 => Format::I32,
            Elem::I64 | Elem::Index => Format::I64,
        }
    }

    /// Bytes of one element in memory.
    pub fn size(self) -> usize {
        self.format().byte_size()
    }

    /// Bits of a value: what a bit pattern may have.
    pub fn bits(self) -> u32 {
        match self {
            Elem::I1 => 1,
            Elem::F8E4M3 | Elem::F8E5M2 | Elem::I8 => 8,
            Elem::F16 | Elem::BF16 | Elem::DF16 | Elem::I16 => 16,
            Elem::F32 | Elem::I32 => 32,
            Elem::I64 | Elem::Index => 64,
        }
    }

    /// Whether values have a fraction.
    pub fn is_float(self) -> bool {
        self.format().is_float()
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// One element.
    Scalar(Elem),
    /// A tile of elements; of rank 0 too.
    Tensor(Vec<i64>, Elem),
    /// Memory as a shape; `None` is a size that is known when it runs.
    MemRef(Vec<Option<i64>>, Elem),
    /// Coordinates of elements in a view.
    AccessTile(Vec<i64>),
    /// What other cores will contribute, and for which groups.
    TileFuture(Vec<Type>, Option<Set>),
    /// An argument that the runtime binds, by the text between the brackets.
    RuntimeArg(String),
}

impl Type {
    /// The type that counts.
    pub const INDEX: Type = Type::Scalar(Elem::Index);

    /// A tile.
    pub fn tensor(shape: &[i64], elem: Elem) -> Type {
        Type::Tensor(shape.to_vec(), elem)
    }

    /// Its elements, if it has any.
    pub fn elem(&self) -> Option<Elem> {
        match self {
            Type::Scalar(e) | Type::Tensor(_, e) | Type::MemRef(_, e) => Some(*e),
            _ => None,
        }
    }

    /// Its shape, if it is a tile; empty for one element.
    pub fn shape(&self) -> Option<&[i64]> {
        match self {
            Type::Scalar(_) => Some(&[]),
            Type::Tensor(shape, _) | Type::AccessTile(shape) => Some(shape),
            _ => None,
        }
    }

    /// The same shape with other elements: a scalar stays one.
    pub fn with_elem(&self, elem: Elem) -> Type {
        match self {
            Type::Tensor(shape, _) => Type::Tensor(shape.clone(), elem),
            Type::MemRef(shape, _) => Type::MemRef(shape.clone(), elem),
            _ => Type::Scalar(elem),
        }
    }
}

/// Dimensions of a shape, at most.
pub(crate) const MAX_RANK: usize = 64;

/// Whether a shape can be counted: the product of its sizes fits in 64 bits, and so does every partial
/// product, as sizes of 0 are left out of it.
pub(crate) fn countable(sizes: impl Iterator<Item = i64>, rank: usize) -> Result<(), String> {
    if rank > MAX_RANK {
        return Err(format!("a shape of {rank} dimensions; there are {MAX_RANK} at most"));
    }
    let mut count = Some(1_i64);
    for size in sizes {
        if size < 0 {
            return Err(format!("a size of {size}; sizes are 0 or more"));
        }
        count = count.and_then(|n| n.checked_mul(size.max(1)));
    }
    let message = "the number of elements does not fit in 64 bits, sizes of 0 left out";
    count.map(|_| ()).ok_or_else(|| message.into())
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = |shape: &[i64]| shape.iter().map(|n| format!("{n}x")).collect::<String>();
        match self {
            Type::Scalar(e) => write!(f, "{e}"),
            Type::Tensor(shape, e) => write!(f, "tensor<{}{e}>", dims(shape)),
            Type::MemRef(shape, e) => {
                let dim = |n: &Option<i64>| n.map_or("?x".into(), |n| format!("{n}x"));
                write!(f, "memref<{}{e}>", shape.iter().map(dim).collect::<String>())
            }
            Type::AccessTile(shape) => write!(f, "!ktdp.access_tile<{}index>", dims(shape)),
            Type::TileFuture(types, groups) => {
                let types: Vec<String> = types.iter().map(ToString::to_string).collect();
                write!(f, "!ktdp.tile_future<{}", types.join(", "))?;
                if let Some(groups) = groups {
                    write!(f, ", groups = {groups}")?;
                }
                f.write_str(">")
            }
            Type::RuntimeArg(text) => write!(f, "!ktdp.runtime_arg<{text}>"),
        }
    }
}
