//! Copies between scratchpads.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A result that is copied from the scratchpads of its producer's division into those of its readers'.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReportedExchange {
    /// The step, as a place in `steps`.
    pub step: usize,
    /// The tensor.
    pub tensor: String,
    /// The buffer that is copied.
    pub from: String,
    /// The buffer that is made.
    pub to: String,
    /// The kinds of data movement: `select`, `split`, `gather`, `broadcast`, joined by `+`; `permutation` or `none`.
    pub movement: String,
    /// Cores that hold something before.
    pub source_cores: usize,
    /// Cores that hold something afterwards.
    pub destination_cores: usize,
    /// Steps that read the copy.
    pub readers: usize,
    /// Bytes that go to other cores, in whole sticks.
    pub remote_bytes: u64,
    /// Bytes that stay on their core.
    pub local_bytes: u64,
    /// How long it takes; its step has the terms.
    pub us: f64,
    /// Who sends what to whom, at most 1024 of them.
    pub sends: Vec<ReportedSend>,
    /// Sends that are not listed.
    pub unlisted: usize,
}

/// A box that one core sends.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReportedSend {
    /// The core that holds it.
    pub source: u32,
    /// The cores that get it; the source among them keeps it.
    pub destinations: Vec<u32>,
    /// Begin and end in every dimension of the tensor.
    pub ranges: Vec<[i64; 2]>,
    /// Its bytes, in whole sticks.
    pub bytes: u64,
}
