//! The layout attributes of Triton's TTGIR: `#ttg.blocked<{sizePerThread = [1, 4], ..}>` and the others.
//!
//! What is read is what Triton 3.9.0 accepts, printed as it prints it. An attribute is a layout for every shape, so its
//! layout in the algebra needs one. [`Attribute::to_linear`] is the linear layout over a shape; in the algebra it is on
//! the axes that [`crate::linear`] names. A text may also be lines of TTGIR with one type that has a layout, whose shape is then
//! known, or with one definition:
//!
//! ```text
//! #blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
//! tensor<128x64xf16, #blocked>
//! ```
//!
//! [`ttgir::choices`] lists what a pasted module has, and [`ttgir::pick`] chooses one; [`ttgir::survey`] lists also where parts of
//! it cannot be read.
//!
//! **Law**: `parse(print(a)) == a`.

mod amd;
mod attribute;
mod distributed;
mod express;
mod memory;
mod parse;
mod parse_memory;
pub mod ttgir;
mod value;

pub use attribute::{
    AmdMfma, AmdWmma, Attribute, Bases, Blocked, NvidiaMma, NvmmaShared, PaddedShared,
    PartitionedShared, SwizzledShared, TensorMemory,
};

use crate::cursor::Cursor;
use crate::notation::NotationRow;
use crate::{Diagnostic, Notation, Parsed, WrittenLayout, linear};
use value::Aliases;
use zellige_layout::{Error, Layout, LinearLayout};

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "triton",
    doc: "Triton layout attributes",
    example: "tensor<32x16xf16, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>>",
    recognises,
    parse: |text, _| {
        let read = ttgir::parse(text)?;
        Ok(match read {
            ttgir::Read::Attribute(a) => Parsed::of_written(Notation::TRITON, a),
            ttgir::Read::Tensor(t) => Parsed::of_written(Notation::TRITON, t),
        })
    },
    print: |parsed| parsed.written_text(),
    express: |layout, shape, _| express::express(layout, shape),
    needs_dtype: false,
};

/// Whether a text begins with an attribute, an alias, a tensor type or a module.
fn recognises(text: &str) -> bool {
    let mut c = Cursor::with_comments_from(text, "//");
    let named = || text.contains("#ttg.") || text.contains("#ttng.");
    let typed = || text.contains("tensor<") || text.contains("!ttg.memdesc<");
    if c.eat('#') {
        // `#sdy` is Shardy's, and `#map = affine_map<..>` is of a memref.
        let ours = c.dotted().is_some_and(|w| !w.value.starts_with("sdy."));
        let map = c.eat('=') && (c.eat_word("affine_map") || c.eat_word("strided"));
        return ours && (!map || named());
    }
    if c.peek() == Some('%') {
        // A line of a function: `%0 = tt.load %1 : tensor<.., #blocked>`.
        return typed() && (named() || text.contains(", #"));
    }
    if c.eat('!') {
        return c.dotted().is_some_and(|w| w.value == "ttg.memdesc") && c.eat('<');
    }
    match c.word().map(|w| w.value) {
        // `tensor<ptr<..> o ..>` is CuTe's.
        Some("tensor") => c.eat('<') && c.peek() != Some('(') && !c.clone().follows("ptr", '<'),
        Some("module") => named(),
        // Other lines: `tt.func @k(%arg0: tensor<..>)`.
        _ => typed() && named(),
    }
}

/// No aliases: an attribute by itself.
struct NoAliases;

impl Aliases for NoAliases {
    fn find(&self, _: &str) -> Option<Attribute> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Reads one attribute.
pub fn parse_attribute(text: &str) -> Result<Attribute, Diagnostic> {
    let mut c = Cursor::new(text);
    let attribute = parse::attribute(&mut c, &NoAliases, 0)?;
    c.finish("the attribute")?;
    Ok(attribute)
}

/// An attribute is a layout of any shape: one has to be given.
pub(crate) fn shape_needed() -> Diagnostic {
    Diagnostic::syntax(0..0, "an attribute of Triton is a layout of any shape", "which shape?")
        .id("Z005")
        .help("give the shape of the tensor, or write tensor<128x64xf16, #ttg..>")
}

impl Attribute {
    /// The linear layout over a shape.
    ///
    /// # Errors
    /// A shape with another number of dimensions, with a size that is not a power of two, or too small for the attribute.
    pub fn to_linear(&self, shape: &[i64]) -> Result<LinearLayout, Diagnostic> {
        let wrong = |message: String| {
            let label = "does not fit the shape";
            let help = "sizes are powers of two, one for each dimension of the attribute";
            Diagnostic::syntax(0..0, message, label).id("Z005").help(help)
        };
        if shape.len() != self.rank() {
            let (found, rank) = (shape.len(), self.rank());
            let dims = |n: usize| format!("{n} dimension{}", if n == 1 { "" } else { "s" });
            let message =
                format!("the shape has {}, and the attribute {}", dims(found), dims(rank));
            return Err(wrong(message));
        }
        if let Some((d, size)) =
            shape.iter().enumerate().find(|(_, s)| **s < 1 || !s.cast_unsigned().is_power_of_two())
        {
            let message =
                format!("dimension {d} of the shape is {size}, which is not a power of two");
            return Err(wrong(message));
        }
        self.linear(shape).map_err(|e| Diagnostic::meaning(0..0, e))
    }

    fn linear(&self, shape: &[i64]) -> Result<LinearLayout, Error> {
        self.check()?;
        match self {
            Attribute::Blocked(b) => distributed::blocked(b, shape),
            Attribute::Slice { dim, parent } => {
                let mut whole = shape.to_vec();
                whole.insert(*dim, 1);
                distributed::slice(&parent.linear(&whole)?, *dim, shape.len())
            }
            Attribute::DotOp { op_idx, parent, k_width } => match &**parent {
                Attribute::Blocked(b) => distributed::blocked_operand(b, *op_idx, shape),
                Attribute::NvidiaMma(m) => distributed::nvidia_operand(m, *op_idx, *k_width, shape),
                Attribute::AmdMfma(m) => amd::mfma_operand(m, *op_idx, *k_width, shape),
                Attribute::AmdWmma(m) => amd::wmma_operand(m, *op_idx, *k_width, shape),
                _ => Err(Error::Undecided { reason: "an operand of no matrix product".into() }),
            },
            Attribute::NvidiaMma(m) => distributed::nvidia_mma(m, shape),
            Attribute::AmdMfma(m) => amd::mfma(m, shape),
            Attribute::AmdWmma(m) => amd::wmma(m, shape),
            Attribute::Linear { bases, .. } | Attribute::GenericLinear { bases, .. } => {
                distributed::linear(bases, shape)
            }
            Attribute::SwizzledShared(s) => memory::swizzled(s, false, shape),
            Attribute::AmdRotatingShared(s) => memory::swizzled(s, true, shape),
            Attribute::NvmmaShared(s) => memory::nvmma(s, shape),
            Attribute::PaddedShared(p) => memory::bases(&p.offset, &p.block, shape),
            Attribute::SharedLinear { offset, block, .. } => memory::bases(offset, block, shape),
            Attribute::TensorMemory(t) => memory::tensor_memory(t, shape),
            Attribute::TensorMemoryScales { cga, k_then_mn } => {
                memory::tensor_memory_scales(cga, *k_then_mn, shape)
            }
            Attribute::PartitionedShared(p) => {
                memory::partitioned(p, shape, |piece| p.partition_layout.linear(piece))
            }
        }
    }

    /// Refuses what Triton reads, and has no layout for.
    fn check(&self) -> Result<(), Error> {
        let no = |call: &'static str, reason: String| Err(Error::LinearDims { call, reason });
        let powers = |call: &'static str, key: &str, list: &[i64]| {
            let odd = list.iter().find(|v| **v < 1 || !v.cast_unsigned().is_power_of_two());
            odd.map_or(Ok(()), |v| no(call, format!("{key} has {v}, which is not a power of two")))
        };
        let matrix = |call: &'static str, rank: usize| match rank {
            2 | 3 => Ok(()),
            _ => no(call, format!("a matrix has 2 dimensions, or 3 in a batch, not {rank}")),
        };
        match self {
            Attribute::DotOp { parent, .. } => {
                matrix("dot_op", parent.rank())?;
                parent.check()
            }
            Attribute::NvidiaMma(m) => {
                let (name, rank, instr) = ("nvidia_mma", m.warps_per_cta.len(), &m.instr_shape);
                matrix(name, rank)?;
                powers(name, "warpsPerCTA", &m.warps_per_cta)?;
                let fits = match (m.version_major, rank, instr.as_slice()) {
                    (2, 2, [16, 8]) | (2, 3, [1, 16, 8]) => true,
                    (3, 2, [16, n, _]) => *n > 0 && n % 8 == 0,
                    _ => false,
                };
                if fits {
                    return Ok(());
                }
                let expected = if m.version_major == 2 {
                    "[16, 8], or [1, 16, 8] in a batch"
                } else {
                    "[16, N, K] with N a multiple of 8"
                };
                let version = m.version_major;
                no(name, format!("instructions of version {version} are {expected}, not {instr:?}"))
            }
            Attribute::AmdMfma(m) => {
                let (name, rank, tiles) = ("amd_mfma", m.warps_per_cta.len(), &m.tiles_per_warp);
                matrix(name, rank)?;
                powers(name, "warpsPerCTA", &m.warps_per_cta)?;
                powers(name, "tilesPerWarp", tiles)?;
                if tiles.len() != rank {
                    let found = tiles.len();
                    let reason =
                        format!("tilesPerWarp has {found} entries, warpsPerCTA has {rank}");
                    return no(name, reason);
                }
                Ok(())
            }
            Attribute::AmdWmma(m) => matrix("amd_wmma", m.rank),
            Attribute::NvmmaShared(s) if s.rank == 0 => {
                no("nvmma_shared", "a tensor without dimensions".into())
            }
            Attribute::AmdRotatingShared(s) => {
                if (0..s.order.len()).all(|d| s.order.contains(&d)) {
                    return Ok(());
                }
                no("amd_rotating_shared", format!("{:?} has not every dimension once", s.order))
            }
            _ => Ok(()),
        }
    }

    /// The layout in the algebra over a shape.
    fn layout_over(&self, shape: &[i64]) -> Result<Layout, Diagnostic> {
        let bases = self.to_linear(shape)?;
        let lowered = linear::axes_of(&bases).and_then(|axes| match self.padding() {
            None => bases.to_layout(&axes),
            Some(padding) => bases.to_padded_layout(&axes, &padded_addresses(&bases, &padding)?),
        });
        lowered.map_err(|e| Diagnostic::meaning(0..0, e))
    }
}

/// Where each bit of an offset is in padded memory: after every `interval` elements there are `pad` more.
fn padded_addresses(bases: &LinearLayout, padding: &[(i64, i64)]) -> Result<Vec<i64>, Error> {
    let size = bases.in_size("offset").unwrap_or(1);
    (0..size.trailing_zeros())
        .map(|k| {
            let offset = 1i64 << k;
            let mut pads =
                padding.iter().map(|(interval, pad)| (offset / interval).checked_mul(*pad));
            pads.try_fold(offset, |sum, pad| sum.checked_add(pad?))
                .ok_or_else(|| Error::overflow("a padded offset"))
        })
        .collect()
}

impl WrittenLayout for Attribute {
    fn text(&self) -> String {
        self.to_string()
    }

    fn layout(&self, shape: Option<&[i64]>) -> Result<Layout, Diagnostic> {
        match shape.map(<[i64]>::to_vec).or_else(|| self.default_shape()) {
            Some(shape) => self.layout_over(&shape),
            None => Err(shape_needed()),
        }
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        let (offset, block, rank) = match self {
            Attribute::PaddedShared(p) => (&p.offset, &p.block, p.rank),
            Attribute::SharedLinear { offset, block, rank, .. } => (offset, block, *rank),
            _ => return None,
        };
        let size = |d: usize| {
            let largest = offset.iter().chain(block).map(|b| b[d]).max().unwrap_or(0);
            i64::try_from((largest.cast_unsigned() + 1).next_power_of_two()).unwrap_or(1)
        };
        Some((0..rank).map(size).collect())
    }

    fn element_bits(&self) -> Option<i64> {
        match self {
            Attribute::NvmmaShared(s) => Some(s.element_bit_width),
            _ => None,
        }
    }
}
