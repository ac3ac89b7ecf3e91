//! Buffers and their layouts, the moves between two layouts, and memory in use over time.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The layout of a tensor on the card.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LayoutSummary {
    /// Extents of the tensor.
    pub size: Vec<i64>,
    /// The dimension along the lanes of a stick; null where each stick holds one element, or where
    /// kernels cannot read the layout.
    pub stick: Option<usize>,
    /// Device dimensions from the slowest, such as `d1/64 d0 d1%64`.
    pub order: String,
    /// Extents on the device.
    pub device_size: Vec<i64>,
    /// Host strides of the device dimensions.
    pub stride_map: Vec<i64>,
    /// The number format of the elements.
    pub format: String,
}

words! {
    /// Where the elements of a buffer come from.
    pub enum BufferOrigin {
        /// An input of the graph.
        Input = "input",
        /// A weight.
        Weight = "weight",
        /// A state that lives from run to run.
        State = "state",
        /// A constant of the graph.
        Constant = "constant",
        /// The result of an operation.
        #[default]
        Result = "result",
        /// A copy that a move makes in another layout.
        Copy = "copy",
    }
}

words! {
    /// Where a buffer lives.
    pub enum BufferPlace {
        /// In a block of device memory of its own.
        #[default]
        Own = "own",
        /// In the program's pool of device memory.
        Pool = "pool",
        /// In the scratchpads of the cores.
        Lx = "lx",
        /// In the place of another buffer, which it overwrites.
        Over = "over",
    }
}

/// A buffer of the program.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReportedBuffer {
    /// Its name.
    pub name: String,
    /// The tensor of the graph that it holds.
    pub tensor: String,
    /// Where its elements come from.
    pub origin: BufferOrigin,
    /// The dtype of its elements in the graph.
    pub dtype: String,
    /// Its layout.
    pub layout: LayoutSummary,
    /// Bytes, padding included.
    pub bytes: u64,
    /// The share of these bytes that is padding, from 0 to 1.
    pub padding: f64,
    /// Where it lives.
    pub place: BufferPlace,
    /// Its first byte in the pool or in the scratchpads.
    pub address: Option<u64>,
    /// The buffer in whose place it lives.
    pub over: Option<String>,
    /// Whether it is on the card before a run begins.
    pub loaded: bool,
    /// The step that writes it, as a place in `steps`.
    pub written_by: Option<usize>,
    /// The steps that read it, as places in `steps`.
    pub read_by: Vec<usize>,
    /// Whether it is an output of the graph.
    pub output: bool,
}

/// The source or the destination of a move.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MoveEnd {
    /// The name of the buffer.
    pub buffer: String,
    /// Its layout.
    pub layout: LayoutSummary,
}

/// A move that the compiler inserted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReportedMove {
    /// The step that does it, as a place in `steps`.
    pub step: usize,
    /// The tensor of the graph.
    pub tensor: String,
    /// The source.
    pub from: MoveEnd,
    /// The destination.
    pub to: MoveEnd,
    /// Why it is needed.
    pub reason: String,
    /// The operation that needed it first; null where that was the caller.
    pub reader: Option<String>,
    /// Number of readers that share the copy.
    pub readers: usize,
    /// Bytes read and written.
    pub bytes: u64,
    /// How long it takes.
    pub us: f64,
    /// Whether it is done once, when weights are loaded, and not in every run.
    pub load: bool,
}

/// Bytes of a memory in use over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MemoryOccupancy {
    /// Bytes of that memory; 0 where nothing limits them.
    pub limit: u64,
    /// The most bytes in use.
    pub peak: u64,
    /// Pairs of a time in microseconds and the bytes in use from then on.
    pub points: Vec<(f64, u64)>,
}
