//! What deserves the reader's attention: work of the host, narrowed elements, refusals.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An operation that the host computes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostFallback {
    /// The step, as a place in `steps`.
    pub step: usize,
    /// The name of its result.
    pub name: String,
    /// The operation.
    pub op: String,
    /// File and line of the model's source.
    pub at: Option<String>,
    /// The layer of the table of operations (`zellige ops`).
    pub layer: String,
    /// Bytes to the host and back.
    pub bytes: u64,
    /// How long the transfers to the host and back take.
    pub us: f64,
    /// What would keep it on the card.
    pub remedy: String,
}

/// A tensor whose elements are narrower on the card than in the graph.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NarrowedTensor {
    /// The tensor.
    pub tensor: String,
    /// Its dtype in the graph.
    pub dtype: String,
    /// The number format on the card.
    pub stored: String,
    /// What is lost.
    pub loss: String,
    /// What would keep all bits.
    pub remedy: String,
}

/// Something to know about the program, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReportNote {
    /// The kind of note, a word that does not change between versions.
    pub kind: String,
    /// The operation.
    pub op: Option<String>,
    /// The name of its result.
    pub name: Option<String>,
    /// File and line of the model's source.
    pub at: Option<String>,
    /// The note.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}
