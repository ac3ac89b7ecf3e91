//! What the host launches at once.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// What the host launches at once.
    pub enum LaunchUnitName {
        /// A step, or several that run side by side.
        #[default]
        Wave = "wave",
        /// All steps of the card between two of the host.
        Bundle = "bundle",
    }
}

words! {
    /// Who does the steps of a bundle.
    pub enum BundleWorker {
        /// The card.
        #[default]
        Device = "device",
        /// The host.
        Host = "host",
    }
}

/// Steps that the host launches at once as one program of the card, or one step that the host does itself. A bundle is
/// prepared at its first launch; later launches give it the addresses of its arguments and nothing else.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReportedBundle {
    /// The number of its first step.
    pub first_step: usize,
    /// How many steps it has, which follow each other.
    pub steps: usize,
    /// Who does them.
    pub worker: BundleWorker,
    /// Whether it runs once, when weights are loaded, and not in every run.
    pub load: bool,
    /// Whether the host launches it.
    pub launched: bool,
    /// What the host takes to launch it.
    pub launch_us: f64,
    /// When its launch begins.
    pub start_us: f64,
    /// How long it takes, its launch included.
    pub us: f64,
    /// Buffers with memory of their own that it reads or writes, by number: what it is given the addresses of.
    pub arguments: Vec<usize>,
    /// Bytes of the program's pool that results take at most at a time which no other bundle uses: a pool of its own
    /// would need so many.
    pub pool_bytes: u64,
    /// Bytes of the results in the pool that it shares with other bundles or gives to the caller.
    pub shared_pool_bytes: u64,
}
