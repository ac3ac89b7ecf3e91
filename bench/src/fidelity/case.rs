//! What a measured row becomes: a graph and the settings of its compilation, or the reason why it has none.

use super::row::ProductSplit;

/// A group of rows whose figures are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Products of two matrices, the weight shared by a batch of one.
    Matmul,
    /// Batches of products, each with its own weight.
    Bmm,
    /// Batches of products with one weight.
    SharedWeight,
    /// Products of 8-bit floats, with what packs and scales them.
    Fp8Linear,
    /// One operation on each element.
    Pointwise,
    /// Operations with an operand of one row or one column.
    Broadcast,
    /// Several sums in one graph.
    Chain,
    /// Sums, means and maxima.
    Reduction,
    /// Changes of the order of dimensions.
    Transpose,
    /// Concatenations.
    Concatenation,
    /// Softmax without a loop.
    Softmax,
    /// Norms.
    Norm,
    /// Operations inside a loop over tiles.
    TiledLoop,
    /// Attention.
    Attention,
    /// Small graphs of several products.
    Network,
    /// Layers of Granite, and the whole model.
    Granite,
    /// Rates of memory.
    Bandwidth,
    /// Copies between scratchpads.
    OnChipCopy,
}

impl Category {
    /// All of them, in the order of tables.
    pub const ALL: [Category; 18] = [
        Category::Matmul,
        Category::Bmm,
        Category::SharedWeight,
        Category::Fp8Linear,
        Category::Pointwise,
        Category::Broadcast,
        Category::Chain,
        Category::Reduction,
        Category::Transpose,
        Category::Concatenation,
        Category::Softmax,
        Category::Norm,
        Category::TiledLoop,
        Category::Attention,
        Category::Network,
        Category::Granite,
        Category::Bandwidth,
        Category::OnChipCopy,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Category::Matmul => "matmul",
            Category::Bmm => "bmm",
            Category::SharedWeight => "bmm, shared weight",
            Category::Fp8Linear => "fp8 linear",
            Category::Pointwise => "pointwise",
            Category::Broadcast => "broadcast",
            Category::Chain => "chain of adds",
            Category::Reduction => "reduction",
            Category::Transpose => "transpose",
            Category::Concatenation => "cat",
            Category::Softmax => "softmax",
            Category::Norm => "norm",
            Category::TiledLoop => "tiled loop",
            Category::Attention => "attention",
            Category::Network => "small graph",
            Category::Granite => "Granite",
            Category::Bandwidth => "bandwidth",
            Category::OnChipCopy => "on-chip copy",
        }
    }
}

/// The software that a figure was measured on; figures of one are never counted with those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MeasuredStack {
    /// torch-spyre, one program for every bundle of operations.
    TorchSpyre,
    /// The older stack, one program for a whole phase.
    Sendnn,
}

impl MeasuredStack {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            MeasuredStack::TorchSpyre => "torch-spyre",
            MeasuredStack::Sendnn => "sendnn",
        }
    }
}

/// A graph that is run so many times.
#[derive(Debug, Clone, PartialEq)]
pub struct CasePart {
    /// The text of the graph.
    pub graph: String,
    /// How often it runs.
    pub times: u64,
}

/// What a row says of the time of its graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MeasuredQuantity {
    /// The row has the time itself.
    Time,
    /// The row has bytes per time, for so many bytes.
    RateOfBytes(u64),
}

/// A row as something that can be predicted.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredCase {
    /// The group that it is counted in.
    pub category: Category,
    /// The graphs whose times add up to the figure.
    pub parts: Vec<CasePart>,
    /// Cores that the compiler may use.
    pub cores: usize,
    /// Whether scratchpads are planned.
    pub lx: bool,
    /// The part of every scratchpad that plans leave to the backend.
    pub lx_reserved: f64,
    /// What the row says of the time.
    pub quantity: MeasuredQuantity,
    /// What is the same in rows that differ in the division alone; empty where that is no question.
    pub shape: String,
    /// The division, where it was forced.
    pub split: Option<ProductSplit>,
}

/// Why a row has no prediction that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exclusion {
    /// It is no time of the card; such rows are not counted at all.
    NotATime,
    /// It is a time that includes the host, or one of something else than kernels.
    NotOfKernels,
    /// It or its source doubts it.
    Doubtful,
    /// It does not say enough.
    Unstated,
    /// What was run cannot be written as a graph with the options of this compiler.
    NotExpressible,
    /// This compiler refuses what the card did.
    Refused,
}

impl Exclusion {
    /// All of them, in the order of tables.
    pub const ALL: [Exclusion; 6] = [
        Exclusion::NotATime,
        Exclusion::NotOfKernels,
        Exclusion::Doubtful,
        Exclusion::Unstated,
        Exclusion::NotExpressible,
        Exclusion::Refused,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Exclusion::NotATime => "no time of the card",
            Exclusion::NotOfKernels => "not of kernels alone",
            Exclusion::Doubtful => "doubtful",
            Exclusion::Unstated => "says too little",
            Exclusion::NotExpressible => "not expressible",
            Exclusion::Refused => "refused by the compiler",
        }
    }
}

/// A row that is left out, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct ExcludedRow {
    /// Of which kind the reason is.
    pub exclusion: Exclusion,
    /// The reason.
    pub reason: String,
}

impl ExcludedRow {
    pub(super) fn new(exclusion: Exclusion, reason: impl Into<String>) -> ExcludedRow {
        ExcludedRow { exclusion, reason: reason.into() }
    }
}
