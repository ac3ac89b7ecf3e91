//! Work division of one operation: which part of its loops each core takes.
//!
//! An operation is an [`IterationSpace`]: loops in output-then-reduction order and the tensors they touch. A
//! division cuts every loop into slices of whole sticks; each core takes one combination.
//!
//! | file | holds |
//! |---|---|
//! | `iteration_space` | loops, and what a point costs |
//! | `tensor_access` | the tensors they touch |
//! | `op_sizes` | the spaces of common operations in default layouts |
//! | `span` | what a core reaches of a tensor, and the fewest splits that bring it under the limit |
//! | `distribute` | the default distribution |
//! | `cost_model` | torch-spyre's model of matrix products |
//! | `hint` | splits that the user fixes |
//! | `work` | what each core does, for the hardware's latency |
//! | `search` | the search for the lowest latency |
//! | `core_map` | core numbers and slices |
//! | `check` | the independent check |
//!
//! # Policies
//! - **baseline**: what torch-spyre (summer 2026) decides. Spans first, then its cost model for matrix
//!   products, else the default distribution; hints replace all of it.
//! - **best**: the lowest latency on the given hardware over all divisions, slices that differ
//!   by one unit among them; hints fix their dimensions, and the others are searched. Never slower
//!   than the baseline where that has a legal division.

mod check;
mod core_map;
mod cost_model;
mod distribute;
mod hint;
mod iteration_space;
mod op_sizes;
mod search;
mod span;
mod tensor_access;
mod work;

pub use check::check_division;
pub use core_map::{assign_slice_owners, map_cores_to_slices};
pub use cost_model::{SplitAxis, matmul_cost};
pub use distribute::distribute_cores;
pub use hint::SplitHint;
pub use iteration_space::{IterationSpace, LoopDim, PointCost};
pub use op_sizes::{OpSizes, build_iteration_space};
pub use span::{reduce_spans, tensor_span};
pub use tensor_access::{AccessRole, TensorAccess};
pub use work::{division_latency, plan_core_work};

use crate::error::{CompileError, Result};
use crate::options::CompilePolicy;
use hint::FixedSplits;
use zellige_machine::{Hardware, Key};

/// A division and why it was chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct DivisionPlan {
    /// Slices of every dimension.
    pub splits: Vec<u64>,
    /// Cores with a slice.
    pub cores_used: u64,
    /// Of every tensor, what the core with the largest window reaches over.
    pub span_bytes: Vec<u64>,
    /// The cost by which it was chosen; none where no cost was looked at.
    pub cost_us: Option<f64>,
    /// The latency on the given hardware.
    pub latency_us: f64,
    /// Which rule: `hint`, `cost_model`, `work_distribution`, `search`, or `nothing_to_do`.
    pub decided_by: &'static str,
    /// The same in a sentence.
    pub reason: String,
}

/// Splits and the reason for them.
#[derive(Debug, Clone, PartialEq)]
struct SplitChoice {
    splits: Vec<u64>,
    cost_us: Option<f64>,
    decided_by: &'static str,
    reason: String,
}

/// Divides an operation over at most `cores` cores.
///
/// # Errors
/// More cores than the hardware has or none, hints that cannot hold, a tensor that stays over the span
/// limit whatever is split.
pub fn divide_iterations(
    space: &IterationSpace,
    hardware: &Hardware,
    cores: i64,
    policy: CompilePolicy,
    hints: &[SplitHint],
) -> Result<DivisionPlan> {
    let most = hardware.core_count();
    let accepted = u64::try_from(cores).ok().filter(|c| *c > 0 && *c <= most as u64);
    let count = accepted.ok_or(CompileError::Cores { cores, most })?;
    let limit = hardware.figure_count(Key::Span);
    let fixed = hint::fix_hinted_splits(space, hints, count)?;
    // Hints are checked before this, so that a wrong hint is an error for every size of a symbolic dimension, 0
    // included.
    if let Some(empty) = space.dims().iter().find(|d| d.size == 0) {
        let reason = format!("nothing to do: dimension {} has size 0", empty.name);
        let span_bytes = vec![0; space.tensors().len()];
        let splits = vec![1; space.dims().len()];
        return Ok(DivisionPlan {
            splits,
            cores_used: 1,
            span_bytes,
            cost_us: None,
            latency_us: 0.0,
            decided_by: "nothing_to_do",
            reason,
        });
    }
    let hinted = !hints.is_empty();
    let choice = match policy {
        CompilePolicy::Baseline => divide_as_baseline(space, count, limit, &fixed, hinted)?,
        CompilePolicy::Best => {
            // The baseline may have no legal division where uneven slices would fit, so that its error is not the
            // error of the search.
            let first = divide_as_baseline(space, count, limit, &fixed, hinted).ok();
            let first = first.as_ref().map(|c| &c.splits[..]);
            search::search_divisions(space, hardware, count, limit, &fixed, first)?
        }
    };
    Ok(DivisionPlan {
        cores_used: choice.splits.iter().product(),
        span_bytes: space.tensors().iter().map(|t| tensor_span(space, t, &choice.splits)).collect(),
        cost_us: choice.cost_us,
        latency_us: division_latency(space, hardware, &choice.splits).1,
        decided_by: choice.decided_by,
        reason: choice.reason,
        splits: choice.splits,
    })
}

fn divide_as_baseline(
    space: &IterationSpace,
    cores: u64,
    limit: u64,
    fixed: &FixedSplits,
    hinted: bool,
) -> Result<SplitChoice> {
    if hinted {
        let splits = fixed.splits_or_one();
        span::refuse_over_limit(space, &splits, limit)?;
        let reason = format!("hint: {}", space.format_splits(&splits));
        return Ok(SplitChoice { splits, cost_us: None, decided_by: "hint", reason });
    }
    // torch-spyre's order: spans are a limit of the hardware, so that they commit their splits before anything
    // distributes the cores that are left.
    let committed = reduce_spans(space, cores, limit)?;
    let default = distribute_cores(space, cores, &committed);
    let choice = match cost_model::choose_by_cost_model(space, cores, &committed, &default) {
        Ok(chosen) => SplitChoice {
            reason: format!(
                "cost_model: the cheapest of {} even divisions, {:.3} us",
                chosen.tried, chosen.cost_us
            ),
            splits: chosen.splits,
            cost_us: Some(chosen.cost_us),
            decided_by: "cost_model",
        },
        Err(declined) => {
            // The reason is part of the report: it says why the cost model did not decide, because that is what a
            // reader of a slow matrix product asks first.
            let spans = match committed.iter().any(|s| *s > 1) {
                true => format!("spans need {}; ", space.format_splits(&committed)),
                false => String::new(),
            };
            SplitChoice {
                splits: default,
                cost_us: None,
                decided_by: "work_distribution",
                reason: format!(
                    "work_distribution: {spans}largest output dims first; no cost model: {declined}"
                ),
            }
        }
    };
    span::refuse_over_limit(space, &choice.splits, limit)?;
    Ok(choice)
}
