//! The layout attributes of Triton's TTGIR: `#ttg.blocked<{sizePerThread = [1, 4], ..}>` and the others.
//!
//! The parser accepts what Triton 3.9.0 accepts, and the printer prints as it does. An attribute is a
//! layout for every shape, so its layout in the algebra needs one. [`TritonAttribute::to_linear_layout`] is
//! the linear layout over a shape; in the algebra it is on the axes that [`crate::linear`] names. A text
//! may also be lines of TTGIR with one type that has a layout, whose shape is then known, or with one
//! definition:
//!
//! ```text
//! #blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
//! tensor<128x64xf16, #blocked>
//! ```
//!
//! [`ttgir::list_layout_choices`] lists the layouts of a pasted module, and [`ttgir::pick_layout`] chooses one;
//! [`ttgir::survey_layouts`] lists also where parts of it cannot be read.
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
    AmdMfma, AmdWmma, BlockedEncoding, DimBases, NvidiaMma, NvmmaShared, PaddedShared,
    PartitionedShared, SwizzledShared, TensorMemory, TritonAttribute,
};

use crate::cursor::TextCursor;
use crate::notation::NotationRow;
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout, linear};
use value::AliasLookup;
use zellige_layout::{Layout, LayoutError, LinearLayout};

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "triton",
    doc: "Triton layout attributes",
    example: "tensor<32x16xf16, #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>>",
    recognises: recognises_triton,
    parse: |text, _| {
        let read = ttgir::parse(text)?;
        Ok(match read {
            ttgir::TtgirReading::Attribute(a) => ParsedText::from_written(Notation::TRITON, a),
            ttgir::TtgirReading::Tensor(t) => ParsedText::from_written(Notation::TRITON, t),
        })
    },
    print: |parsed| parsed.written_notation_text(),
    express: |layout, shape, _| express::express_as_triton(layout, shape),
    needs_dtype: false,
};

/// Whether a text begins with an attribute, an alias, a tensor type or a module.
fn recognises_triton(text: &str) -> bool {
    let mut c = TextCursor::with_comments_from(text, "//");
    let named = || text.contains("#ttg.") || text.contains("#ttng.");
    let typed = || text.contains("tensor<") || text.contains("!ttg.memdesc<");
    if c.eat_char('#') {
        // `#sdy` is Shardy's, and `#map = affine_map<..>` is of a memref.
        let ours = c.read_dotted_word().is_some_and(|w| !w.value.starts_with("sdy."));
        let map = c.eat_char('=') && (c.eat_word("affine_map") || c.eat_word("strided"));
        return ours && (!map || named());
    }
    if c.peek_char() == Some('%') {
        // A line of a function: `%0 = tt.load %1 : tensor<.., #blocked>`.
        return typed() && (named() || text.contains(", #"));
    }
    if c.eat_char('!') {
        return c.read_dotted_word().is_some_and(|w| w.value == "ttg.memdesc") && c.eat_char('<');
    }
    match c.read_word().map(|w| w.value) {
        // `tensor<ptr<..> o ..>` is a tensor of CuTe's Python DSL.
        Some("tensor") => {
            c.eat_char('<') && c.peek_char() != Some('(') && !c.clone().word_follows("ptr", '<')
        }
        Some("module") => named(),
        // Other lines: `tt.func @k(%arg0: tensor<..>)`.
        // Any other first word may begin a line of TTGIR, so both a type and an attribute are
        // required before the text is claimed.
        _ => typed() && named(),
    }
}

/// No aliases: an attribute by itself.
struct NoAliases;

impl AliasLookup for NoAliases {
    fn find_alias(&self, _: &str) -> Option<TritonAttribute> {
        None
    }

    fn alias_names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Reads one attribute.
pub fn parse_attribute(text: &str) -> Result<TritonAttribute, Diagnostic> {
    let mut c = TextCursor::new(text);
    let attribute = parse::read_attribute(&mut c, &NoAliases, 0)?;
    c.expect_end("the attribute")?;
    Ok(attribute)
}

/// An attribute is a layout of any shape: one has to be given.
pub(crate) fn shape_needed_error() -> Diagnostic {
    Diagnostic::syntax_error(
        0..0,
        "an attribute of Triton is a layout of any shape",
        "which shape?",
    )
    .with_id("Z005")
    .with_help("give the shape of the tensor, or write tensor<128x64xf16, #ttg..>")
}

impl TritonAttribute {
    /// The linear layout over a shape.
    ///
    /// # Errors
    /// A shape with another number of dimensions, with a size that is not a power of two, or too small for
    /// the attribute.
    pub fn to_linear_layout(&self, shape: &[i64]) -> Result<LinearLayout, Diagnostic> {
        let wrong = |message: String| {
            let label = "does not fit the shape";
            let help = "sizes are powers of two, one for each dimension of the attribute";
            Diagnostic::syntax_error(0..0, message, label).with_id("Z005").with_help(help)
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
        self.linear_layout_unchecked(shape).map_err(|e| Diagnostic::meaning_error(0..0, e))
    }

    fn linear_layout_unchecked(&self, shape: &[i64]) -> Result<LinearLayout, LayoutError> {
        self.check_has_layout()?;
        match self {
            TritonAttribute::Blocked(b) => distributed::blocked_layout(b, shape),
            // A slice has the layout of its parent over a shape with the sliced dimension of size 1
            // put back.
            TritonAttribute::Slice { dim, parent } => {
                let mut whole = shape.to_vec();
                whole.insert(*dim, 1);
                distributed::slice_parent_layout(
                    &parent.linear_layout_unchecked(&whole)?,
                    *dim,
                    shape.len(),
                )
            }
            TritonAttribute::DotOp { op_idx, parent, k_width } => match &**parent {
                TritonAttribute::Blocked(b) => {
                    distributed::blocked_operand_layout(b, *op_idx, shape)
                }
                TritonAttribute::NvidiaMma(m) => {
                    distributed::nvidia_operand_layout(m, *op_idx, *k_width, shape)
                }
                TritonAttribute::AmdMfma(m) => {
                    amd::mfma_operand_layout(m, *op_idx, *k_width, shape)
                }
                TritonAttribute::AmdWmma(m) => {
                    amd::wmma_operand_layout(m, *op_idx, *k_width, shape)
                }
                _ => {
                    Err(LayoutError::Undecided { reason: "an operand of no matrix product".into() })
                }
            },
            TritonAttribute::NvidiaMma(m) => distributed::nvidia_mma_layout(m, shape),
            TritonAttribute::AmdMfma(m) => amd::mfma_result_layout(m, shape),
            TritonAttribute::AmdWmma(m) => amd::wmma_result_layout(m, shape),
            TritonAttribute::Linear { bases, .. }
            | TritonAttribute::GenericLinear { bases, .. } => {
                distributed::linear_bases_layout(bases, shape)
            }
            TritonAttribute::SwizzledShared(s) => memory::swizzled_shared_layout(s, false, shape),
            TritonAttribute::AmdRotatingShared(s) => memory::swizzled_shared_layout(s, true, shape),
            TritonAttribute::NvmmaShared(s) => memory::nvmma_shared_layout(s, shape),
            TritonAttribute::PaddedShared(p) => {
                memory::shared_bases_layout(&p.offset, &p.block, shape)
            }
            TritonAttribute::SharedLinear { offset, block, .. } => {
                memory::shared_bases_layout(offset, block, shape)
            }
            TritonAttribute::TensorMemory(t) => memory::tensor_memory_layout(t, shape),
            TritonAttribute::TensorMemoryScales { cga, k_then_mn } => {
                memory::tensor_memory_scales_layout(cga, *k_then_mn, shape)
            }
            TritonAttribute::PartitionedShared(p) => {
                memory::partitioned_shared_layout(p, shape, |piece| {
                    p.partition_layout.linear_layout_unchecked(piece)
                })
            }
        }
    }

    /// Refuses attributes that Triton parses but has no layout for.
    fn check_has_layout(&self) -> Result<(), LayoutError> {
        let no = |call: &'static str, reason: String| Err(LayoutError::LinearDims { call, reason });
        let powers = |call: &'static str, key: &str, list: &[i64]| {
            let odd = list.iter().find(|v| **v < 1 || !v.cast_unsigned().is_power_of_two());
            odd.map_or(Ok(()), |v| no(call, format!("{key} has {v}, which is not a power of two")))
        };
        let matrix = |call: &'static str, rank: usize| match rank {
            2 | 3 => Ok(()),
            _ => no(call, format!("a matrix has 2 dimensions, or 3 in a batch, not {rank}")),
        };
        match self {
            TritonAttribute::DotOp { parent, .. } => {
                matrix("dot_op", parent.rank())?;
                parent.check_has_layout()
            }
            TritonAttribute::NvidiaMma(m) => {
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
            TritonAttribute::AmdMfma(m) => {
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
            TritonAttribute::AmdWmma(m) => matrix("amd_wmma", m.rank),
            TritonAttribute::NvmmaShared(s) if s.rank == 0 => {
                no("nvmma_shared", "a tensor without dimensions".into())
            }
            TritonAttribute::AmdRotatingShared(s) => {
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
        let bases = self.to_linear_layout(shape)?;
        let lowered =
            linear::axes_of_in_dims(&bases).and_then(|axes| match self.shared_memory_padding() {
                None => bases.to_layout(&axes),
                Some(padding) => {
                    bases.to_padded_layout(&axes, &padded_addresses(&bases, &padding)?)
                }
            });
        lowered.map_err(|e| Diagnostic::meaning_error(0..0, e))
    }
}

/// The address of each bit of an offset in padded memory: after every `interval` elements follow `pad` unused ones.
fn padded_addresses(bases: &LinearLayout, padding: &[(i64, i64)]) -> Result<Vec<i64>, LayoutError> {
    let size = bases.in_size("offset").unwrap_or(1);
    (0..size.trailing_zeros())
        .map(|k| {
            let offset = 1i64 << k;
            let mut pads =
                padding.iter().map(|(interval, pad)| (offset / interval).checked_mul(*pad));
            pads.try_fold(offset, |sum, pad| sum.checked_add(pad?))
                .ok_or_else(|| LayoutError::overflow_of("a padded offset"))
        })
        .collect()
}

impl WrittenLayout for TritonAttribute {
    fn notation_text(&self) -> String {
        self.to_string()
    }

    fn layout_over_shape(&self, shape: Option<&[i64]>) -> Result<Layout, Diagnostic> {
        match shape.map(<[i64]>::to_vec).or_else(|| self.default_shape()) {
            Some(shape) => self.layout_over(&shape),
            None => Err(shape_needed_error()),
        }
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        let (offset, block, rank) = match self {
            TritonAttribute::PaddedShared(p) => (&p.offset, &p.block, p.rank),
            TritonAttribute::SharedLinear { offset, block, rank, .. } => (offset, block, *rank),
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
            TritonAttribute::NvmmaShared(s) => Some(s.element_bit_width),
            _ => None,
        }
    }
}
