//! The hardware and the options of a compilation.

use crate::LaunchUnitName;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figures of the hardware that a reader of a report needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MachineFigures {
    /// The name of the hardware preset.
    pub name: String,
    /// Number of cores.
    pub cores: usize,
    /// Peak of all cores, in TFLOP/s.
    pub peak_tflops: f64,
    /// What a matrix product sustains on all cores, in TFLOP/s.
    pub matmul_tflops: f64,
    /// Peak bandwidth of device memory, in GB/s.
    pub memory_gb_s: f64,
    /// What reading or writing alone sustains, in GB/s.
    pub sustained_gb_s: f64,
    /// Bandwidth of the link to the host, in GB/s.
    pub host_gb_s: f64,
    /// What the host takes for one launch, in microseconds; 0 where the preset has no such figure.
    pub launch_us: f64,
    /// What it launches at once.
    pub launch_unit: LaunchUnitName,
    /// Bytes of a core's scratchpad.
    pub lx_bytes: u64,
    /// Clock of the cores, in GHz.
    pub clock_ghz: f64,
}

words! {
    /// How the compiler decides.
    pub enum PolicyName {
        /// The least cost of the whole graph.
        #[default]
        Best = "best",
        /// As torch-spyre (summer 2026) decides.
        Baseline = "baseline",
    }
}

words! {
    /// Which operations the card runs itself.
    pub enum CoverageName {
        /// All of them.
        #[default]
        Full = "full",
        /// Those that torch-spyre has; the host computes the others.
        Card = "card",
    }
}

words! {
    /// Which layouts weights may have.
    pub enum WeightLayouts {
        /// The compiler chooses their layouts.
        #[default]
        Free = "free",
        /// They keep the layout in which they come.
        Given = "given",
    }
}

words! {
    /// Which layouts the outputs of the graph have.
    pub enum OutputLayouts {
        /// The default layout of their shape.
        #[default]
        Default = "default",
        /// The layout in which they were computed.
        AsComputed = "as_computed",
    }
}

/// The options of a compilation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CompileSettings {
    /// How the compiler decides.
    pub policy: PolicyName,
    /// Which operations the card runs itself.
    pub coverage: CoverageName,
    /// Number of cores that operations are divided over.
    pub cores: usize,
    /// Which layouts weights may have.
    pub weights: WeightLayouts,
    /// Which layouts the outputs have.
    pub outputs: OutputLayouts,
    /// Whether a layout that torch-spyre refuses is an error, instead of repaired by a move.
    pub strict: bool,
    /// How scratchpads are planned; null where everything stays in device memory.
    pub scratchpads: Option<String>,
    /// Whether operations may run at the same time: in a bundle they follow each other.
    pub concurrent: bool,
    /// How 16-bit floats are stored.
    pub mode: String,
    /// Whether float32 keeps its 32 bits on the card.
    pub keep_fp32: bool,
    /// Whether int64 keeps its 64 bits on the card.
    pub keep_int64: bool,
}
