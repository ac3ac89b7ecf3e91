//! The steps of a program.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// Who does a step.
    pub enum StepKind {
        /// An operation that the cores compute.
        #[default]
        Op = "op",
        /// An operation that the host computes.
        Host = "host",
        /// A move between two layouts.
        Move = "move",
        /// A copy between the scratchpads of two divisions.
        Exchange = "exchange",
    }
}

words! {
    /// Groups of steps by what limits them on the hardware.
    pub enum StepFamily {
        /// Matrix products.
        Matmul = "matmul",
        /// Operations on each element.
        Pointwise = "pointwise",
        /// Reductions over a dimension.
        Reduction = "reduction",
        /// Moves.
        Move = "move",
        /// Operations of the host.
        Host = "host",
        /// Everything else.
        #[default]
        Other = "other",
    }
}

/// A dimension of a step's loops.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoopDimension {
    /// Its name in hints.
    pub name: String,
    /// Number of iterations.
    pub size: usize,
    /// Iterations that one core must do together.
    pub unit: usize,
    /// Whether it is reduced over, so that the results of its slices are combined.
    pub reduced: bool,
    /// Number of slices that the cores share.
    pub split: usize,
}

/// An operand or a result of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StepOperand {
    /// The buffer, as a place in `tensors`.
    pub buffer: usize,
    /// The name of the buffer.
    pub name: String,
    /// The extents that the step sees.
    pub size: Vec<i64>,
    /// Whether it is read from or written to scratchpads.
    pub lx: bool,
}

/// Neighbouring cores that are busy equally long.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BusyCores {
    /// Number of these cores.
    pub cores: usize,
    /// How long each of them is busy.
    pub us: f64,
}

/// A term of the time of a step; the counted parts of all its terms add up to the time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StepTimeTerm {
    /// Its name.
    pub name: String,
    /// What stands behind it.
    pub meaning: String,
    /// What it would take alone.
    pub alone_us: f64,
    /// Its part of the time of the step; 0 where a longer term hides it.
    pub counted_us: f64,
}

/// A step of the program.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReportedStep {
    /// Its name: that of its first result.
    pub name: String,
    /// The operation; `move` for a move.
    pub op: String,
    /// Who does it.
    pub kind: StepKind,
    /// What limits it on the hardware.
    pub family: StepFamily,
    /// The attributes of the operation, as written.
    pub attributes: String,
    /// File and line of the model's source.
    pub at: Option<String>,
    /// Operands.
    pub reads: Vec<StepOperand>,
    /// Results.
    pub writes: Vec<StepOperand>,
    /// Whether it runs once, when weights are loaded, and not in every run.
    pub load: bool,
    /// Its loops and how they are split over the cores.
    pub dims: Vec<LoopDimension>,
    /// Who decided the splits.
    pub decided_by: String,
    /// Why the splits are these; for a move, why it is needed.
    pub reason: String,
    /// Number of cores that work.
    pub cores: usize,
    /// The first of these cores.
    pub first_core: usize,
    /// How long the cores are busy, in the order of the cores.
    pub busy: Vec<BusyCores>,
    /// When it starts.
    pub start_us: f64,
    /// How long it takes.
    pub us: f64,
    /// The unit of the hardware that bounds its time.
    pub bottleneck: String,
    /// The terms of its time on the core that finishes last.
    pub terms: Vec<StepTimeTerm>,
    /// Bytes of device memory read.
    pub bytes_in: u64,
    /// Bytes of device memory written.
    pub bytes_out: u64,
    /// Bytes of device memory traffic that scratchpads save.
    pub lx_saved_bytes: u64,
    /// Useful floating-point operations.
    pub flops: u64,
    /// FLOP per byte of device memory; null without traffic.
    pub intensity: Option<f64>,
    /// TFLOP/s that it reaches.
    pub tflops: f64,
}
