//! Why a tensor has its layout, with the price of every other one.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a tensor has its layout.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LayoutExplanation {
    /// The tensor that holds the elements of the tensor in question.
    pub tensor: String,
    /// The view that was named, where the name was that of a view.
    pub view: Option<String>,
    /// Its dtype.
    pub dtype: String,
    /// Who decides its layout.
    pub decided_by: String,
    /// The reason, as a sentence.
    pub why: String,
    /// What costs are counted in.
    pub unit: String,
    /// Every layout that it may have, the cheapest first.
    pub options: Vec<CandidateLayout>,
}

/// A layout that a tensor may have.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CandidateLayout {
    /// The layout.
    pub layout: crate::LayoutSummary,
    /// The layout in words.
    pub text: String,
    /// Whether the program has it.
    pub chosen: bool,
    /// The least cost of the whole graph with it; null where no plan has it.
    pub cost: Option<u64>,
    /// How much more the whole graph costs than with the chosen one; negative where it costs less.
    pub extra: Option<i64>,
    /// The same in microseconds, where costs are times.
    pub extra_us: Option<f64>,
    /// Whether that is proved to be the least sum of costs with it.
    pub least_sum: bool,
    /// The moves of every run with it.
    pub moves: Vec<RequiredMove>,
    /// Why no plan has it.
    pub refused: Option<String>,
}

/// A move that a layout makes necessary.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequiredMove {
    /// The tensor that is moved.
    pub tensor: String,
    /// Why it is moved.
    pub reason: String,
    /// How long that takes.
    pub us: f64,
}
