//! Measured rows as cases that can be predicted: the graphs and the compiler options of a row, or the reason why it is
//! excluded.

use super::row::ProductSplit;

/// A group of rows whose figures are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Products of two matrices, without a batch or with a batch of one.
    Matmul,
    /// Batches of products, each with its own weight.
    Bmm,
    /// Batches of products with one weight.
    SharedWeight,
    /// Products of 8-bit floats, including the operations that pack and scale their operands.
    Fp8Linear,
    /// One operation on each element.
    Pointwise,
    /// Operations with an operand of one row or one column.
    Broadcast,
    /// Several additions in one graph.
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
    /// Measured rates of memory traffic.
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

    /// The name in tables.
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

/// The software stack on which a figure was measured. Figures of different stacks are never counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MeasuredStack {
    /// torch-spyre, which compiles every bundle of operations to a program.
    TorchSpyre,
    /// The older stack, which compiles a whole phase of a model to one program.
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

/// A graph and the number of times that it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct CasePart {
    /// The text of the graph.
    pub graph: String,
    /// How often it runs.
    pub times: u64,
}

/// The quantity that a row reports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MeasuredQuantity {
    /// The time of the graphs.
    Time,
    /// A rate: this many bytes divided by the time of the graphs.
    RateOfBytes(u64),
}

/// A measured row in a form that the compiler can predict.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredCase {
    /// The group that it is counted in.
    pub category: Category,
    /// The graphs whose times add up to the figure.
    pub parts: Vec<CasePart>,
    /// Cores that the compiler may use.
    pub cores: usize,
    /// Whether the compiler may place tensors in scratchpads.
    pub lx: bool,
    /// The fraction of every scratchpad that is reserved for the backend.
    pub lx_reserved: f64,
    /// Whether results may be copied between the scratchpads of different divisions.
    pub copies: bool,
    /// The quantity that the row reports.
    pub quantity: MeasuredQuantity,
    /// A key that is equal in rows which differ only in the work division; empty for rows that are not products.
    pub shape: String,
    /// The work division, if the measurement forced one.
    pub split: Option<ProductSplit>,
}

/// The reason why a row is excluded from the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exclusion {
    /// The figure is neither a time nor a rate of the card. Such rows count neither as predicted nor as missing.
    NotATime,
    /// The time includes the host, or work of the card other than kernels.
    NotOfKernels,
    /// The figure is 0, or the row marks it as suspicious or as not to be used.
    Doubtful,
    /// The row does not have enough detail to write its graph.
    Unstated,
    /// The measured program cannot be written as a graph with the options of this compiler.
    NotExpressible,
    /// This compiler refuses the graph, although the card ran it.
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

/// A row that is excluded from the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ExcludedRow {
    /// The kind of the reason.
    pub exclusion: Exclusion,
    /// The reason, as text of the report.
    pub reason: String,
}

impl ExcludedRow {
    pub(super) fn new(exclusion: Exclusion, reason: impl Into<String>) -> ExcludedRow {
        ExcludedRow { exclusion, reason: reason.into() }
    }
}
