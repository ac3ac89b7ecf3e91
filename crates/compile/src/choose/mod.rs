//! One layout for every tensor and one alternative for every operation, at the least total cost.
//!
//! | file | holds |
//! |---|---|
//! | `assign` | the least total latency, by elimination of variables |
//! | `move_costs` | what a move between two layouts costs |
//! | `beam` | what the existing compiler chooses |
//! | `search` | the layouts with which the whole program is fastest, once work is divided |

mod assign;
mod beam;
mod move_costs;
mod search;

pub use assign::{Assignment, assign};
pub(crate) use assign::{demanded, loaded};
pub use beam::beam;
pub(crate) use move_costs::{KnownMoves, move_ends};
pub(crate) use search::Search;
pub use search::{CandidateSet, SearchRecord};

use crate::error::Result;
use crate::options::{Options, Policy};
use crate::propagate::Candidates;
use zellige_graph::Graph;

/// What is done once, when weights are loaded, counts this fraction of what is done in every run.
pub(crate) const LOADS: u64 = 1024;

/// The choice of the policy by the sum of costs alone.
///
/// # Errors
/// No alternative for some operation.
pub fn choose(graph: &Graph, options: &Options, candidates: &Candidates) -> Result<Assignment> {
    match options.policy {
        Policy::Baseline => beam(graph, options, candidates),
        Policy::Best => assign(graph, options, candidates),
    }
}
