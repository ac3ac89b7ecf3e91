//! Types of values.

use crate::affine::KtirAffineSet;
use std::fmt;
use zellige_float::Format;

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KtirElem {
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
    /// An integer that counts or addresses, 64 bits.
    Index,
}

impl KtirElem {
    /// Every element type.
    pub const ALL: [KtirElem; 12] = [
        KtirElem::F16,
        KtirElem::F32,
        KtirElem::BF16,
        KtirElem::DF16,
        KtirElem::F8E4M3,
        KtirElem::F8E5M2,
        KtirElem::I1,
        KtirElem::I8,
        KtirElem::I16,
        KtirElem::I32,
        KtirElem::I64,
        KtirElem::Index,
    ];

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            KtirElem::F16 => "f16",
            KtirElem::F32 => "f32",
            KtirElem::BF16 => "bf16",
            KtirElem::DF16 => "df16",
            KtirElem::F8E4M3 => "f8E4M3FN",
            KtirElem::F8E5M2 => "f8E5M2",
            KtirElem::I1 => "i1",
            KtirElem::I8 => "i8",
            KtirElem::I16 => "i16",
            KtirElem::I32 => "i32",
            KtirElem::I64 => "i64",
            KtirElem::Index => "index",
        }
    }

    /// The type of a name; signed spellings and `f8` are understood too.
    pub fn from_name(name: &str) -> Option<KtirElem> {
        let name = match name {
            // `f8`, `fp16` and the signed spellings stand in texts of the upstream interpreter.
            // Signedness belongs to operations in MLIR (`divsi`, `divui`), so both spellings mean
            // the same bits here.
            "f8" => "f8E4M3FN",
            "fp16" => "f16",
            "si8" | "ui8" => "i8",
            "si16" => "i16",
            "si32" | "ui32" => "i32",
            "si64" | "ui64" => "i64",
            other => other,
        };
        KtirElem::ALL.into_iter().find(|e| e.name() == name)
    }

    /// Its storage format in memory.
    pub fn format(self) -> Format {
        match self {
            KtirElem::F16 => Format::F16,
            KtirElem::F32 => Format::F32,
            KtirElem::BF16 => Format::BF16,
            KtirElem::DF16 => Format::DL16,
            KtirElem::F8E4M3 => Format::F8E4M3FN,
            KtirElem::F8E5M2 => Format::F8E5M2,
            KtirElem::I1 => Format::Bool,
            KtirElem::I8 => Format::I8,
            KtirElem::I16 => Format::I16,
            KtirElem::I32 => Format::I32,
            KtirElem::I64 | KtirElem::Index => Format::I64,
        }
    }

    /// Bytes of one element in memory.
    pub fn byte_size(self) -> usize {
        self.format().byte_size()
    }

    /// The number of significant bits of a value, which bounds the bit patterns in texts.
    pub fn value_bits(self) -> u32 {
        match self {
            // A truth value has one bit as a number and takes one byte in memory: casts and
            // literals go by this, and addresses by `byte_size`.
            KtirElem::I1 => 1,
            KtirElem::F8E4M3 | KtirElem::F8E5M2 | KtirElem::I8 => 8,
            KtirElem::F16 | KtirElem::BF16 | KtirElem::DF16 | KtirElem::I16 => 16,
            KtirElem::F32 | KtirElem::I32 => 32,
            KtirElem::I64 | KtirElem::Index => 64,
        }
    }

    /// Whether values have a fraction.
    pub fn is_float(self) -> bool {
        self.format().is_float()
    }
}

impl fmt::Display for KtirElem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KtirType {
    /// One element.
    Scalar(KtirElem),
    /// A tile of elements; of rank 0 too.
    Tensor(Vec<i64>, KtirElem),
    /// A view of memory with a shape; `None` is a size that is known only at run time.
    MemRef(Vec<Option<i64>>, KtirElem),
    /// Coordinates of elements in a view.
    AccessTile(Vec<i64>),
    /// A handle on the partial results that other cores will contribute, and the set of groups.
    TileFuture(Vec<KtirType>, Option<KtirAffineSet>),
    /// An argument that the runtime binds, by the text between the brackets.
    RuntimeArg(String),
}

impl KtirType {
    /// The type of counters and addresses.
    pub const INDEX: KtirType = KtirType::Scalar(KtirElem::Index);

    /// The type of a tile.
    pub fn tensor(shape: &[i64], elem: KtirElem) -> KtirType {
        KtirType::Tensor(shape.to_vec(), elem)
    }

    /// Its element type, if it has one.
    pub fn elem(&self) -> Option<KtirElem> {
        match self {
            KtirType::Scalar(e) | KtirType::Tensor(_, e) | KtirType::MemRef(_, e) => Some(*e),
            _ => None,
        }
    }

    /// Its shape, if it is a tile; empty for one element.
    pub fn shape(&self) -> Option<&[i64]> {
        match self {
            KtirType::Scalar(_) => Some(&[]),
            KtirType::Tensor(shape, _) | KtirType::AccessTile(shape) => Some(shape),
            _ => None,
        }
    }

    /// The same shape with another element type; a scalar stays a scalar.
    pub fn with_elem(&self, elem: KtirElem) -> KtirType {
        match self {
            KtirType::Tensor(shape, _) => KtirType::Tensor(shape.clone(), elem),
            KtirType::MemRef(shape, _) => KtirType::MemRef(shape.clone(), elem),
            _ => KtirType::Scalar(elem),
        }
    }
}

/// What the type of a runtime argument says: `index, granularity = 32, upperbound = 300`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RuntimeArgument {
    /// The type of its value, where that is one of a number.
    pub(crate) elem: Option<KtirElem>,
    pub(crate) granularity: Option<i64>,
    pub(crate) upperbound: Option<i64>,
}

impl RuntimeArgument {
    pub(crate) fn read(text: &str) -> Result<RuntimeArgument, String> {
        let mut parts = text.split(',');
        let elem = parts.next().and_then(|word| KtirElem::from_name(word.trim()));
        let mut argument = RuntimeArgument { elem, granularity: None, upperbound: None };
        for part in parts {
            // Anything else is kept word for word, as it has no meaning here.
            let Some((key, value)) = part.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            let field = match key {
                "granularity" => &mut argument.granularity,
                "upperbound" => &mut argument.upperbound,
                _ => continue,
            };
            match value.parse::<i64>() {
                Ok(n) if n > 0 => *field = Some(n),
                _ => return Err(format!("{key} is {value}; it is a whole number above 0")),
            }
        }
        Ok(argument)
    }
}

/// The largest number of dimensions of a shape.
// NumPy 2 has the same limit (`NPY_MAXDIMS`), so that every array that can be given fits. Without
// one, a short text could ask for loops over thousands of dimensions of size 1.
pub(crate) const MAX_RANK: usize = 64;

/// Checks that the number of elements of a shape fits in 64 bits. Sizes of 0 are left out of the
/// product, so that every partial product fits too.
pub(crate) fn check_countable(sizes: impl Iterator<Item = i64>, rank: usize) -> Result<(), String> {
    if rank > MAX_RANK {
        return Err(format!("a shape of {rank} dimensions; there are {MAX_RANK} at most"));
    }
    let mut count = Some(1_i64);
    for size in sizes {
        if size < 0 {
            return Err(format!("a size of {size}; sizes are 0 or more"));
        }
        // A size of 0 must not hide that the rest overflows: strides are products of some of the
        // sizes, and those have to fit as well.
        count = count.and_then(|n| n.checked_mul(size.max(1)));
    }
    let message = "the number of elements does not fit in 64 bits, sizes of 0 left out";
    count.map(|_| ()).ok_or_else(|| message.into())
}

impl fmt::Display for KtirType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = |shape: &[i64]| shape.iter().map(|n| format!("{n}x")).collect::<String>();
        match self {
            KtirType::Scalar(e) => write!(f, "{e}"),
            KtirType::Tensor(shape, e) => write!(f, "tensor<{}{e}>", dims(shape)),
            KtirType::MemRef(shape, e) => {
                let dim = |n: &Option<i64>| n.map_or("?x".into(), |n| format!("{n}x"));
                write!(f, "memref<{}{e}>", shape.iter().map(dim).collect::<String>())
            }
            KtirType::AccessTile(shape) => write!(f, "!ktdp.access_tile<{}index>", dims(shape)),
            KtirType::TileFuture(types, groups) => {
                let types: Vec<String> = types.iter().map(ToString::to_string).collect();
                write!(f, "!ktdp.tile_future<{}", types.join(", "))?;
                if let Some(groups) = groups {
                    write!(f, ", groups = {groups}")?;
                }
                f.write_str(">")
            }
            KtirType::RuntimeArg(text) => write!(f, "!ktdp.runtime_arg<{text}>"),
        }
    }
}
