//! Work division of a whole program: which part of every step each core takes, and which results stay in
//! the scratchpads because of it.
//!
//! | file | holds |
//! |---|---|
//! | `laid_op` | an operation on tensors in known layouts: what each core has of them under a division |
//! | `span_reduction` | for every step by itself, the divisions that keep all spans under the limit |
//! | `work_distribution` | one division for every step and the results that stay, as one choice |
//!
//! How one operation by itself is divided is a plain problem, solved in [`division`](crate::solve::division).

mod laid_op;
mod span_reduction;
mod work_distribution;

pub(crate) use laid_op::LaidOutOp;
pub(crate) use span_reduction::{AnsweredSteps, DivisionCandidates, reduce_step_spans};
pub(crate) use work_distribution::{DividedSteps, ResidencyCandidate, distribute_work};

use std::rc::Rc;
use zellige_device::WorkDivision;
use zellige_machine::OperationWork;

/// A division of a step, what each core then does, and who proposed it.
#[derive(Debug, Clone)]
pub(crate) struct StepDivision {
    /// How the loops are cut.
    pub(crate) division: WorkDivision,
    /// What each core does with everything in device memory.
    pub(crate) work: Rc<OperationWork>,
    /// Who decided it, and why.
    pub(crate) decided: (String, String),
    /// A loop that is gone through in this many rounds, each divided like the whole; none at once.
    pub(crate) rounds: Option<(usize, usize)>,
}
