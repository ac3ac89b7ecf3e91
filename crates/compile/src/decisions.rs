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

use crate::choose::Assignment;
use crate::compile::MergedViews;
use crate::divide::StepDivision;
use crate::lower::Lowered;
use crate::options::Policy;
use crate::program::BufferId;
use crate::propagate::{Candidates, HeldLayouts};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use zellige_graph::{Graph, TensorId};
use zellige_stick::StickLayout;

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
    /// Layouts that the search for a faster program holds tensors to.
    #[serde(default)]
    held: Vec<DecidedLayout>,
    /// Whether the layouts of the existing compiler make the faster program, and whether its divisions do too.
    #[serde(default)]
    existing: (bool, bool),
    /// Whether operations on merged views are done in the dimensions behind them.
    #[serde(default)]
    splits_views: bool,
}

/// The layout of one tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DecidedLayout {
    tensor: String,
    size: Vec<i64>,
    device_size: Vec<i64>,
    stride_map: Vec<i64>,
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
        let Assignment { held, divisions, unit, .. } = &lowered.assignment;
        let held = held.iter().map(|(id, layout)| {
            let t = lowered.graph.get(TensorId(*id));
            DecidedLayout {
                tensor: t.name.clone(),
                size: t.size.clone(),
                device_size: layout.device_size().to_vec(),
                stride_map: layout.stride_map().to_vec(),
            }
        });
        // The existing compiler counts elements.
        let existing = (*unit == "elements", *divisions == Policy::Baseline);
        Decisions {
            steps: steps.collect(),
            kept,
            optimal,
            held: held.collect(),
            existing,
            splits_views: false,
        }
    }

    /// What became of operations on merged views.
    pub(crate) fn merged_views(&self) -> MergedViews {
        if self.splits_views { MergedViews::Split } else { MergedViews::Kept }
    }

    pub(crate) fn set_merged_views(&mut self, views: MergedViews) {
        self.splits_views = views == MergedViews::Split;
    }

    /// Who divides the steps, where the layouts are those of the existing compiler.
    pub(crate) fn existing(&self) -> Option<Policy> {
        let (layouts, divisions) = self.existing;
        layouts.then_some(if divisions { Policy::Baseline } else { Policy::Best })
    }

    /// The layouts that tensors are held to, of those that the graph has in the same sizes.
    pub(crate) fn held(&self, graph: &Graph, candidates: &Candidates) -> HeldLayouts {
        let fits = |d: &DecidedLayout| {
            let id = graph.id(&d.tensor)?;
            let format = candidates.tensors[id.0].first()?.device_dtype();
            let layout = StickLayout::explicit(&d.device_size, &d.stride_map, format).ok()?;
            let same = graph.get(id).size == d.size;
            same.then(|| layout.with_host(&d.size, None).ok()).flatten().map(|l| (id.0, l))
        };
        self.held.iter().filter_map(fits).collect()
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
