//! One layout for every tensor and one alternative for every operation, at the least total cost.
//!
//! | file | holds |
//! |---|---|
//! | `assign` | the least total latency, by elimination of variables |
//! | `move_costs` | what a move between two layouts costs |
//! | `beam` | what torch-spyre chooses |
//! | `search` | the layouts with which the whole program is fastest, once work is divided |

mod assign;
mod beam;
mod move_costs;
mod search;

pub use assign::{LayoutAssignment, assign_layouts};
pub(crate) use assign::{demanded_output_layout, find_loaded_tensors};
pub use beam::choose_by_beam;
pub(crate) use move_costs::{KnownMoves, move_ends};
pub(crate) use search::FastestLayoutSearch;
pub use search::{CandidateSet, SearchRecord};

use crate::error::Result;
use crate::options::{CompilePolicy, CompilerOptions};
use crate::propagate::GraphCandidates;
use zellige_graph::Graph;

/// What is done once, when weights are loaded, counts this fraction of what is done in every run.
// Loading happens once and a program runs many times. It is not free, so that of two equally fast programs the one
// with less to load is taken.
pub(crate) const LOAD_COST_DIVISOR: u64 = 1024;

/// The choice of the policy by the sum of costs alone.
///
/// # Errors
/// No alternative for some operation.
pub fn choose_layouts(
    graph: &Graph,
    options: &CompilerOptions,
    candidates: &GraphCandidates,
) -> Result<LayoutAssignment> {
    match options.policy {
        CompilePolicy::Baseline => choose_by_beam(graph, options, candidates),
        CompilePolicy::Best => assign_layouts(graph, options, candidates),
    }
}
