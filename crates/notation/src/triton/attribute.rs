//! The layout attributes of Triton: their fields, as `TritonGPUAttrDefs.td` documents them, and their printed form.

use std::fmt::{self, Write};

/// A layout attribute of TTGIR.
///
/// **Law**: `parse(attribute.to_string()) == attribute`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TritonAttribute {
    /// `#ttg.blocked`: elements of a thread, threads of a warp and warps of a CTA, each along every dimension.
    Blocked(BlockedEncoding),
    /// `#ttg.slice`: a layout without one of its dimensions.
    Slice {
        /// The dimension that is left out.
        dim: usize,
        /// The layout that has it.
        parent: Box<TritonAttribute>,
    },
    /// `#ttg.dot_op`: an operand of a matrix product.
    DotOp {
        /// 0 for the left operand, 1 for the right one.
        op_idx: usize,
        /// The layout of the result.
        parent: Box<TritonAttribute>,
        /// Consecutive elements along K of one thread; 0 where the parent is blocked.
        k_width: i64,
    },
    /// `#ttg.nvidia_mma`: the result of a tensor core instruction.
    NvidiaMma(NvidiaMma),
    /// `#ttg.amd_mfma`: the result of a matrix instruction of CDNA.
    AmdMfma(AmdMfma),
    /// `#ttg.amd_wmma`: the result of a matrix instruction of RDNA.
    AmdWmma(AmdWmma),
    /// `#ttg.linear`: the bases themselves, each of a single bit or none.
    Linear {
        /// The bases of `register`, `lane`, `warp` and `block`.
        bases: [DimBases; 4],
        /// How many dimensions the tensor has.
        rank: usize,
    },
    /// `#ttg.generic_linear`: bases that together reach every element, possibly in several ways; those of
    /// `warp` may have several bits.
    GenericLinear {
        /// The bases of `register`, `lane`, `warp` and `block`.
        bases: [DimBases; 4],
        /// How many dimensions the tensor has.
        rank: usize,
    },
    /// `#ttg.partitioned_shared`: pieces along one dimension, distributed in turn over several partitions
    /// of shared memory.
    PartitionedShared(PartitionedShared),
    /// `#ttg.swizzled_shared`: shared memory with rows that are XORed by their number.
    SwizzledShared(SwizzledShared),
    /// `#ttg.amd_rotating_shared`: the same, with phases that also change from block to block of rows.
    AmdRotatingShared(SwizzledShared),
    /// `#ttg.nvmma_shared`: shared memory as tensor cores and bulk copies read it.
    NvmmaShared(NvmmaShared),
    /// `#ttg.padded_shared`: shared memory with unused elements at regular intervals.
    PaddedShared(PaddedShared),
    /// `#ttg.shared_linear`: shared memory by its bases.
    SharedLinear {
        /// The bases of `offset`.
        offset: DimBases,
        /// The bases of `block`.
        block: DimBases,
        /// In bytes.
        alignment: i64,
        /// How many dimensions the tensor has.
        rank: usize,
    },
    /// `#ttng.tensor_memory_encoding`: the tensor memory of Blackwell.
    TensorMemory(TensorMemory),
    /// `#ttng.tensor_memory_scales_encoding`: block scales in tensor memory.
    TensorMemoryScales {
        /// Bases of the CTAs of a cluster, in units of what one CTA holds.
        cga: DimBases,
        /// Whether blocks repeat along K before they repeat along the other dimension.
        k_then_mn: bool,
    },
}

/// Bases of one in dimension.
pub type DimBases = Vec<Vec<i64>>;

/// The fields of `#ttg.blocked`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the text")]
pub struct BlockedEncoding {
    pub size_per_thread: Vec<i64>,
    pub threads_per_warp: Vec<i64>,
    pub warps_per_cta: Vec<i64>,
    /// The dimensions, fastest first.
    pub order: Vec<usize>,
    /// Bases of the CTAs of a cluster, in units of what one CTA holds.
    pub cga: DimBases,
}

/// The fields of `#ttg.nvidia_mma`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the text")]
pub struct NvidiaMma {
    pub version_major: i64,
    pub version_minor: i64,
    pub warps_per_cta: Vec<i64>,
    pub cga: DimBases,
    pub instr_shape: Vec<i64>,
}

/// The fields of `#ttg.amd_mfma`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the text")]
pub struct AmdMfma {
    pub version: i64,
    pub warps_per_cta: Vec<i64>,
    pub instr_shape: Vec<i64>,
    pub is_transposed: bool,
    pub cga: DimBases,
    pub tiles_per_warp: Vec<i64>,
    pub element_bit_width: i64,
}

/// The fields of `#ttg.amd_wmma`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the text")]
pub struct AmdWmma {
    pub version: i64,
    pub is_transpose: bool,
    /// Bases of registers and of warps beyond one instruction, in units of it.
    pub cta_register: DimBases,
    pub cta_warp: DimBases,
    pub cga: DimBases,
    pub instr_shape: Vec<i64>,
    pub rank: usize,
}

/// The fields of `#ttg.swizzled_shared`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the text")]
pub struct SwizzledShared {
    pub vec: i64,
    pub per_phase: i64,
    pub max_phase: i64,
    pub order: Vec<usize>,
    pub cga: DimBases,
}

/// The fields of `#ttg.nvmma_shared`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the text")]
pub struct NvmmaShared {
    pub swizzling_byte_width: i64,
    pub transposed: bool,
    pub element_bit_width: i64,
    pub fp4_padded: bool,
    pub cga: DimBases,
    pub rank: usize,
}

/// The fields of `#ttg.padded_shared`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaddedShared {
    /// `(interval, padding)` pairs in elements: after every `interval` elements follow `padding` unused ones.
    pub padding: Vec<(i64, i64)>,
    /// The bases of `offset` without padding.
    pub offset: DimBases,
    /// The bases of `block`, in elements.
    pub block: DimBases,
    /// How many dimensions the tensor has.
    pub rank: usize,
}

/// The fields of `#ttg.partitioned_shared`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the text")]
pub struct PartitionedShared {
    pub num_partitions: i64,
    pub num_groups: i64,
    pub partition_dim: usize,
    /// The layout of every piece.
    pub partition_layout: Box<TritonAttribute>,
}

/// The fields of `#ttng.tensor_memory_encoding`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the text")]
pub struct TensorMemory {
    pub block_m: i64,
    pub block_n: i64,
    pub col_stride: i64,
    pub cga: DimBases,
    pub two_ctas: bool,
    pub fp4_padded: bool,
}

impl TritonAttribute {
    /// The number of dimensions of the tensor, as far as the attribute determines it.
    pub fn rank(&self) -> usize {
        match self {
            TritonAttribute::Blocked(b) => b.order.len(),
            TritonAttribute::Slice { parent, .. } => parent.rank().saturating_sub(1),
            TritonAttribute::DotOp { parent, .. } => parent.rank(),
            TritonAttribute::NvidiaMma(m) => m.warps_per_cta.len(),
            TritonAttribute::AmdMfma(m) => m.warps_per_cta.len(),
            TritonAttribute::AmdWmma(m) => m.rank,
            TritonAttribute::Linear { rank, .. }
            | TritonAttribute::GenericLinear { rank, .. }
            | TritonAttribute::SharedLinear { rank, .. } => *rank,
            TritonAttribute::PartitionedShared(p) => p.partition_layout.rank(),
            TritonAttribute::SwizzledShared(s) | TritonAttribute::AmdRotatingShared(s) => {
                s.order.len()
            }
            TritonAttribute::NvmmaShared(s) => s.rank,
            TritonAttribute::PaddedShared(s) => s.rank,
            TritonAttribute::TensorMemory(_) | TritonAttribute::TensorMemoryScales { .. } => 2,
        }
    }

    /// Whether threads hold the tensor in registers; only such layouts have slices.
    pub fn is_distributed(&self) -> bool {
        matches!(
            self,
            TritonAttribute::Blocked(_)
                | TritonAttribute::Slice { .. }
                | TritonAttribute::DotOp { .. }
                | TritonAttribute::NvidiaMma(_)
                | TritonAttribute::AmdMfma(_)
                | TritonAttribute::AmdWmma(_)
                | TritonAttribute::Linear { .. }
                | TritonAttribute::GenericLinear { .. }
        )
    }

    /// The padding of shared memory as `(interval, padding)` pairs in elements: after every `interval`
    /// elements follow `padding` unused ones.
    pub fn shared_memory_padding(&self) -> Option<Vec<(i64, i64)>> {
        match self {
            TritonAttribute::PaddedShared(p) => Some(p.padding.clone()),
            TritonAttribute::PartitionedShared(p) => p.partition_layout.shared_memory_padding(),
            _ => None,
        }
    }
}

/// `, CGALayout = [[1, 0]]` where there is more than one CTA.
fn print_cga_field(cga: &DimBases) -> String {
    if cga.is_empty() { String::new() } else { format!(", CGALayout = {cga:?}") }
}

impl fmt::Display for TritonAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TritonAttribute::Blocked(b) => write!(
                f,
                "#ttg.blocked<{{sizePerThread = {:?}, threadsPerWarp = {:?}, warpsPerCTA = {:?}, order = {:?}{}}}>",
                b.size_per_thread,
                b.threads_per_warp,
                b.warps_per_cta,
                b.order,
                print_cga_field(&b.cga)
            ),
            TritonAttribute::Slice { dim, parent } => {
                write!(f, "#ttg.slice<{{dim = {dim}, parent = {parent}}}>")
            }
            TritonAttribute::DotOp { op_idx, parent, k_width } => {
                write!(f, "#ttg.dot_op<{{opIdx = {op_idx}, parent = {parent}")?;
                // Operands of blocked layouts have no `kWidth`, and Triton omits the field then.
                if *k_width != 0 {
                    write!(f, ", kWidth = {k_width}")?;
                }
                f.write_str("}>")
            }
            TritonAttribute::NvidiaMma(m) => write!(
                f,
                "#ttg.nvidia_mma<{{versionMajor = {}, versionMinor = {}, warpsPerCTA = {:?}{}, instrShape = {:?}}}>",
                m.version_major,
                m.version_minor,
                m.warps_per_cta,
                print_cga_field(&m.cga),
                m.instr_shape
            ),
            TritonAttribute::AmdMfma(m) => {
                write!(
                    f,
                    "#ttg.amd_mfma<{{version = {}, warpsPerCTA = {:?}, instrShape = {:?}, isTransposed = {}{}",
                    m.version,
                    m.warps_per_cta,
                    m.instr_shape,
                    m.is_transposed,
                    print_cga_field(&m.cga)
                )?;
                // Printed only if it is not the default, as Triton does.
                if m.tiles_per_warp.iter().any(|t| *t != 1) {
                    write!(f, ", tilesPerWarp = {:?}", m.tiles_per_warp)?;
                }
                // Triton omits fields with their default values, and so does this printer, so that
                // printed attributes compare equal as texts.
                if m.element_bit_width != 32 {
                    write!(f, ", elementBitWidth = {}", m.element_bit_width)?;
                }
                f.write_str("}>")
            }
            TritonAttribute::AmdWmma(m) => {
                let mut cta = Vec::new();
                for (name, bases) in [("register", &m.cta_register), ("warp", &m.cta_warp)] {
                    if !bases.is_empty() {
                        cta.push(format!("{name} = {bases:?}"));
                    }
                }
                let mut more = print_cga_field(&m.cga);
                if m.instr_shape != [16, 16, 16] {
                    let _ = write!(more, ", instrShape = {:?}", m.instr_shape);
                }
                // The rank is otherwise the length of the bases, and there are none.
                if m.rank != 2 && cta.is_empty() && m.cga.is_empty() {
                    let _ = write!(more, ", rank = {}", m.rank);
                }
                write!(
                    f,
                    "#ttg.amd_wmma<{{version = {}, isTranspose = {}, ctaLayout = {{{}}}{more}}}>",
                    m.version,
                    m.is_transpose,
                    cta.join(", ")
                )
            }
            TritonAttribute::Linear { bases: [register, lane, warp, block], .. }
            | TritonAttribute::GenericLinear { bases: [register, lane, warp, block], .. } => {
                write!(
                    f,
                    "#ttg.{}linear<{{register = {register:?}, lane = {lane:?}, warp = {warp:?}, block = {block:?}}}>",
                    if matches!(self, TritonAttribute::GenericLinear { .. }) {
                        "generic_"
                    } else {
                        ""
                    }
                )
            }
            TritonAttribute::PartitionedShared(p) => write!(
                f,
                "#ttg.partitioned_shared<{{numPartitions = {}, numGroups = {}, partitionDim = {}, partitionLayout = {}}}>",
                p.num_partitions, p.num_groups, p.partition_dim, p.partition_layout
            ),
            TritonAttribute::SwizzledShared(s) | TritonAttribute::AmdRotatingShared(s) => {
                let rotating = matches!(self, TritonAttribute::AmdRotatingShared(_));
                let name = if rotating { "amd_rotating_shared" } else { "swizzled_shared" };
                write!(
                    f,
                    "#ttg.{name}<{{vec = {}, perPhase = {}, maxPhase = {}, order = {:?}{}}}>",
                    s.vec,
                    s.per_phase,
                    s.max_phase,
                    s.order,
                    print_cga_field(&s.cga)
                )
            }
            TritonAttribute::NvmmaShared(s) => {
                write!(
                    f,
                    "#ttg.nvmma_shared<{{swizzlingByteWidth = {}, transposed = {}, elementBitWidth = {}",
                    s.swizzling_byte_width, s.transposed, s.element_bit_width
                )?;
                if s.fp4_padded {
                    f.write_str(", fp4Padded = true")?;
                }
                f.write_str(&print_cga_field(&s.cga))?;
                // The rank otherwise follows from the bases of CTAs, or is 2, the default.
                if s.rank != 2 && s.cga.is_empty() {
                    write!(f, ", rank = {}", s.rank)?;
                }
                f.write_str("}>")
            }
            TritonAttribute::PaddedShared(p) => {
                let pairs: Vec<String> =
                    p.padding.iter().map(|(interval, pad)| format!("{interval}:+{pad}")).collect();
                write!(f, "#ttg.padded_shared<[{}] {{", pairs.join(", "))?;
                match p.order_and_shape() {
                    Some((order, shape)) => write!(f, "order = {order:?}, shape = {shape:?}")?,
                    None => write!(f, "offset = {:?}, block = {:?}", p.offset, p.block)?,
                }
                f.write_str("}>")
            }
            TritonAttribute::SharedLinear { offset, block, alignment, .. } => {
                write!(f, "#ttg.shared_linear<{{offset = {offset:?}")?;
                // An attribute for one CTA has no `block` in Triton's printed form.
                if !block.is_empty() {
                    write!(f, ", block = {block:?}")?;
                }
                write!(f, "}}, alignment = {alignment}>")
            }
            TritonAttribute::TensorMemory(t) => {
                write!(
                    f,
                    "#ttng.tensor_memory_encoding<blockM = {}, blockN = {}, colStride = {}",
                    t.block_m, t.block_n, t.col_stride
                )?;
                f.write_str(&print_cga_field(&t.cga))?;
                for (name, set) in [("twoCTAs", t.two_ctas), ("fp4Padded", t.fp4_padded)] {
                    if set {
                        write!(f, ", {name} = true")?;
                    }
                }
                f.write_str(">")
            }
            TritonAttribute::TensorMemoryScales { cga, k_then_mn } => {
                let order = if *k_then_mn { ", blockRepOrder = kThenMn" } else { "" };
                let fields = print_cga_field(cga) + order;
                let fields = fields.strip_prefix(", ").unwrap_or(&fields);
                write!(f, "#ttng.tensor_memory_scales_encoding<{fields}>")
            }
        }
    }
}

impl PaddedShared {
    /// The order and shape of padded memory whose bases are whole dimensions one after the other, in one
    /// CTA: the short form in which Triton prints it.
    pub(super) fn order_and_shape(&self) -> Option<(Vec<usize>, Vec<i64>)> {
        // The short form has no field for blocks.
        if !self.block.is_empty() {
            return None;
        }
        let mut shape = vec![1i64; self.rank];
        let mut order: Vec<usize> = Vec::new();
        for basis in &self.offset {
            let dim = basis.iter().position(|v| *v != 0)?;
            let unit =
                basis.iter().enumerate().all(|(d, v)| *v == if d == dim { shape[dim] } else { 0 });
            if order.last() != Some(&dim) {
                if order.contains(&dim) {
                    return None;
                }
                order.push(dim);
            }
            // Each basis of a dimension must be the next power of two along it; otherwise the
            // offsets are not row-major over any shape.
            shape[dim] = shape[dim].checked_mul(2).filter(|_| unit)?;
        }
        let rest: Vec<usize> = (0..self.rank).rev().filter(|d| !order.contains(d)).collect();
        order.extend(rest);
        Some((order, shape))
    }
}
