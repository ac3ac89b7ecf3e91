//! The report of a compiled program, as plain data.
//!
//! These types are the only description of a report. `zellige_compile::report` fills them, serde writes and
//! reads them as JSON, `zellige_view::page` draws them, and the tests of this crate generate from them
//! `docs/schemas/report.schema.json` and the explorer's `src/model/report.ts`; the doc comments here become the
//! descriptions there. Nothing is computed in this crate.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | the hardware and the options of the compilation |
//! | `totals` | totals of a run, the proof about the layouts, the comparison of two policies |
//! | `buffers` | buffers, their layouts, the moves between two layouts, memory over time |
//! | `steps` | the steps of the program |
//! | `bundles` | the steps that the host launches at once |
//! | `notes` | what deserves the reader's attention |
//! | `generated` | tests: the schema and the TypeScript, held against these types |
//! | `explanation` | why a tensor has its layout: an answer of its own, not a part of the report |
//! | `collective` | what a run exchanged with other cards, not a part of the report either |
//!
//! # Adding a field
//! Write the field with its doc comment here, fill it in `zellige_compile::report`, and run
//! `ZELLIGE_BLESS=1 cargo test -p zellige-report`, which writes the schema and the TypeScript again.
//! A change that readers of older reports would stumble over also raises [`VERSION`].

#![forbid(unsafe_code)]

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An enum of a report whose values are words in JSON.
// A macro, because the word of a variant is needed in three places: serde, `name` and the schema. Written by hand
// they could drift apart, and a reader of the JSON would meet a word that the schema does not have.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$of_word:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[cfg_attr(test, derive(JsonSchema))]
        pub enum $name {
            $($(#[$of_word])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Its word in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

mod buffers;
mod bundles;
mod collective;
mod explanation;
#[cfg(test)]
mod generated;
mod notes;
mod settings;
mod steps;
mod totals;

pub use buffers::{
    BufferOrigin, BufferPlace, LayoutSummary, MemoryOccupancy, MoveEnd, ReportedBuffer,
    ReportedMove,
};
pub use bundles::{BundleWorker, LaunchUnitName, ReportedBundle};
pub use collective::ReportedCollective;
pub use explanation::{CandidateLayout, LayoutExplanation, RequiredMove};
pub use notes::{HostFallback, NarrowedTensor, ReportNote};
pub use settings::{
    CompileSettings, CoverageName, MachineFigures, OutputLayouts, PolicyName, WeightLayouts,
};
pub use steps::{
    BusyCores, LoopDimension, ReportedStep, StepFamily, StepKind, StepOperand, StepTimeTerm,
};
pub use totals::{BottleneckTime, LayoutCertificate, PolicyComparison, RunTotals};

/// The version of the format that these types describe.
// Readers compare it before anything else: a field that is missing or new is an error, because all objects are
// closed.
pub const VERSION: u32 = 5;

/// What `zellige compile --json` writes: what the compiler decided, why, and what it costs. Times are
/// simulated microseconds (`us`) from the beginning of a run; bytes are bytes of device memory, padding
/// included.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(title = "The report of a compiled program"))]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The version of this format.
    #[cfg_attr(test, schemars(extend("const" = VERSION)))]
    pub version: u32,
    /// The name of the graph.
    pub graph: String,
    /// The hardware, with the figures that a roofline needs.
    pub machine: MachineFigures,
    /// The options of the compilation.
    pub options: CompileSettings,
    /// Totals of a run.
    pub summary: RunTotals,
    /// What is proved about the choice of layouts.
    pub certificate: LayoutCertificate,
    /// The time of a run by bottleneck, the longest first.
    pub units: Vec<BottleneckTime>,
    /// Every buffer.
    pub tensors: Vec<ReportedBuffer>,
    /// Every move that the compiler inserted.
    pub moves: Vec<ReportedMove>,
    /// Every step, moves included, in an order in which they can run.
    pub steps: Vec<ReportedStep>,
    /// What the host launches, in order: all steps, each in one bundle.
    pub bundles: Vec<ReportedBundle>,
    /// Bytes in use of one core's scratchpad.
    pub lx: MemoryOccupancy,
    /// Bytes in use of the program's pool of device memory.
    pub pool: MemoryOccupancy,
    /// Operations that the host computes.
    pub fallbacks: Vec<HostFallback>,
    /// Tensors whose elements are narrower on the card than in the graph.
    pub casts: Vec<NarrowedTensor>,
    /// What else deserves attention.
    pub notes: Vec<ReportNote>,
    /// The same graph under another policy, where the comparison was requested.
    pub comparison: Option<PolicyComparison>,
}
