//! Totals of a run, what is proved about its layouts, and how another policy compares.

use crate::PolicyName;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Totals of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunTotals {
    /// How long a run takes.
    pub latency_us: f64,
    /// How much of that the host takes for launches.
    pub launch_us: f64,
    /// How often it launches something: a bundle of steps, or a wave of steps that run side by side.
    pub launches: usize,
    /// How long the moves and operations take that are done once, when weights are loaded.
    pub load_us: f64,
    /// Operations of the graph in every run.
    pub ops: usize,
    /// Moves in every run.
    pub moves: usize,
    /// Moves that are done once, when weights are loaded.
    pub load_moves: usize,
    /// Bytes of device memory read and written.
    pub bytes: u64,
    /// Useful floating-point operations.
    pub flops: u64,
    /// Bytes of that traffic that are padding.
    pub padding_bytes: u64,
    /// Padding as a share of that traffic, from 0 to 1.
    pub padding: f64,
    /// Bytes that the moves of every run read and write.
    pub move_bytes: u64,
    /// How long the moves of every run take.
    pub move_us: f64,
    /// How long the operations of the host take, transfers included.
    pub host_us: f64,
    /// The most cores that work at the same time.
    pub cores: usize,
    /// Mean work of the cores in use divided by that of the slowest, weighted by time.
    pub balance: f64,
    /// Busy time of all cores as a share of the run's time on all cores.
    pub utilisation: f64,
    /// Buffers that live in scratchpads.
    pub lx_buffers: usize,
    /// Operands that are read from a scratchpad.
    pub lx_hits: usize,
    /// Bytes of device memory traffic that scratchpads save.
    pub lx_saved_bytes: u64,
    /// The most bytes of the pool in use.
    pub pool_peak: u64,
    /// Bytes of weights and constants on the card.
    pub weight_bytes: u64,
    /// Bytes of inputs and states on the card.
    pub input_bytes: u64,
}

/// What is proved about the choice of layouts, and what was tried to find the program that they lead to. The sum of
/// costs is proved; the time of the program is that of the fastest one that was tried.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LayoutCertificate {
    /// The cost of the layouts, in `unit`: every operation in its default division, and all moves.
    pub cost: u64,
    /// A lower bound of the cost of all choices; 0 where nothing is proved.
    pub bound: u64,
    /// What `cost` and `bound` count.
    pub unit: String,
    /// Whether the two are equal, so that no choice of layouts has a smaller sum of costs. Another choice may have the
    /// faster program.
    pub least_sum: bool,
    /// How far the cost may be above the least, as a share of the bound; null where nothing is proved.
    pub gap: Option<f64>,
    /// Number of combinations of layouts, as a power of two.
    pub choices_log2: f64,
    /// The most variables in one table of the search.
    pub width: usize,
    /// Whether none of the work divisions and scratchpad plans that were considered takes less time.
    pub divisions_optimal: bool,
    /// Cycles of the steps of a run one after the other, each with its launch where steps have one, divided and with what the scratchpads
    /// keep; what is done when weights are loaded counts a thousandth.
    pub steps: u64,
    /// No program with the layouts that were considered has a smaller such sum, however it is divided and whatever its
    /// scratchpads keep; 0 where nothing is proved.
    pub steps_bound: u64,
    /// Different programs that were planned to their end, of which this one is the fastest. Those whose launches and
    /// moves alone take longer are not planned.
    pub programs: usize,
    /// Whether every other layout of every single tensor was tried, with everything else chosen anew.
    pub complete: bool,
    /// Pins of a single intermediate result with which the graph was compiled too; those that mean the same layout
    /// count once.
    pub pins: usize,
    /// Whether these are all pins of a stick, of an order and of one element a stick.
    pub pins_complete: bool,
    /// The pin with which the graph is faster, and its time; null where none of those that were tried is.
    pub faster_pin: Option<String>,
    /// What is proved, in sentences that name the scope.
    pub text: String,
}

/// The time of the steps that one bottleneck bounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BottleneckTime {
    /// The bottleneck: memory, pt, sfu, lx, ring or host; or the launches by the host.
    pub name: String,
    /// Number of steps in every run that it bounds.
    pub steps: usize,
    /// How long they take together.
    pub us: f64,
}

/// The same graph under another policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyComparison {
    /// The other policy.
    pub policy: PolicyName,
    /// Its latency.
    pub latency_us: f64,
    /// Its moves in every run.
    pub moves: usize,
    /// How long they take.
    pub move_us: f64,
    /// Bytes that they read and write.
    pub move_bytes: u64,
    /// Bytes of device memory that it reads and writes.
    pub bytes: u64,
    /// Its latency divided by that of this report.
    pub speedup: f64,
}
