//! What the searches of a compilation found, apart from what follows from it.
//!
//! Layouts of a layer are found in a millisecond; dividing all its steps and saying what stays in the
//! scratchpads takes ten times that. Those are the decisions of a program. Given to
//! [`compile_again`](crate::compile_again), they take the place of the search:
//!
//! - the same graph with the same options becomes the same program (**law**);
//! - the same operations on tensors of other sizes are divided as they were, with no more slices than
//!   there are units, or as the default distribution does, whichever takes less time.
//!
//! Nothing of them is believed: what does not fit the graph, a limit or a hint is decided anew. So they
//! can come from a file.

use crate::divide::StepDivision;
use crate::lower::Lowered;
use crate::program::BufferId;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// How one step is divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DecidedStep {
    pub(crate) name: String,
    /// The sizes of its loops.
    pub(crate) loops: Vec<usize>,
    /// The slices of each.
    pub(crate) splits: Vec<usize>,
    /// Who decided it, and why.
    pub(crate) by: (String, String),
}

/// How the steps of a program are divided, and which results stay in the scratchpads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    steps: Vec<DecidedStep>,
    kept: Vec<String>,
    optimal: bool,
}

impl Decisions {
    /// Those of a program whose steps are divided.
    pub(crate) fn of(
        lowered: &Lowered,
        divided: &[StepDivision],
        kept: &[BufferId],
        optimal: bool,
    ) -> Decisions {
        let steps = lowered.steps.iter().zip(divided).filter_map(|(step, divided)| {
            let spans = step.space.as_ref()?;
            Some(DecidedStep {
                name: step.name.clone(),
                loops: spans.iter().map(|s| s.size).collect(),
                splits: divided.division.splits().to_vec(),
                by: divided.decided.clone(),
            })
        });
        let kept = kept.iter().map(|b| lowered.buffer(*b).name.clone()).collect();
        Decisions { steps: steps.collect(), kept, optimal }
    }

    /// Whether nothing that was considered takes less time.
    pub(crate) fn optimal(&self) -> bool {
        self.optimal
    }

    /// By the names of the steps.
    pub(crate) fn by_name(&self) -> HashMap<&str, &DecidedStep> {
        self.steps.iter().map(|d| (d.name.as_str(), d)).collect()
    }

    /// Names of results that stay in the scratchpads.
    pub(crate) fn kept(&self) -> HashSet<&str> {
        self.kept.iter().map(String::as_str).collect()
    }
}
