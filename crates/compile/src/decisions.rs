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
//! Nothing of them is trusted: what does not fit the graph, a limit or a hint is decided anew. So they can come from a
//! file.

use crate::choose::{CandidateSet, LayoutAssignment, SearchRecord};
use crate::compile::MergedViews;
use crate::divide::StepDivision;
use crate::lower::LoweredProgram;
use crate::options::{CompilePolicy, CompilerOptions};
use crate::program::BufferId;
use crate::propagate::{ChosenAlternatives, GraphCandidates, OpAlternative, ReplayedLayouts};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use zellige_graph::{Graph, InputRole, TensorId, TensorOrigin};
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
pub struct CompileDecisions {
    steps: Vec<DecidedStep>,
    kept: Vec<String>,
    /// Those of them that are copied between the scratchpads of different divisions.
    #[serde(default)]
    copied: Vec<String>,
    optimal: bool,
    /// The layouts, where a search found them.
    #[serde(default)]
    layouts: Option<DecidedLayouts>,
    /// Whether operations on merged views are done in the dimensions behind them.
    #[serde(default)]
    splits_views: bool,
}

/// The alternative of every operation, by its place among the candidates, with what is proved of the choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DecidedLayouts {
    pub(crate) set: CandidateSet,
    /// Whether the steps are divided as torch-spyre does.
    divides: bool,
    /// Per operation, how many alternatives there were, and which one was chosen; empty where one was none of them.
    nodes: Vec<(usize, usize)>,
    /// Weights that are not loaded in their first layout: the number, and its device sizes and strides.
    weights: Vec<(usize, Vec<i64>, Vec<i64>)>,
    cost: u64,
    bound: u64,
    least: u64,
    width: usize,
    search: SearchRecord,
    /// The alternatives with their layouts, so that the same graph needs no list of all of them.
    #[serde(default)]
    chosen: Option<ChosenAlternatives>,
}

impl DecidedLayouts {
    /// Those of an assignment; none where it is neither of these candidates nor one that kernels accept by itself.
    pub(crate) fn from_assignment(
        graph: &Graph,
        options: &CompilerOptions,
        from: &GraphCandidates,
        chosen: &LayoutAssignment,
    ) -> Option<DecidedLayouts> {
        let place = |(list, a): (&Rc<Vec<OpAlternative>>, &OpAlternative)| {
            Some((list.len(), list.iter().position(|b| a == b)?))
        };
        let nodes: Option<Vec<_>> = from.nodes.iter().zip(&chosen.nodes).map(place).collect();
        let moved = graph.tensors().filter_map(|(id, t)| {
            let layout = chosen.tensors[id.0].as_ref()?;
            let weight = t.def == TensorOrigin::Input(InputRole::Weight)
                && from.tensors[id.0].first() != Some(layout);
            weight.then(|| (id.0, layout.device_size().to_vec(), layout.stride_map().to_vec()))
        });
        // Two records of one choice: with their layouts the alternatives need no list of candidates, which takes most
        // of a compilation; their numbers prove the choice among the same candidates.
        let alone = ChosenAlternatives::from_alternatives(graph, options, &chosen.nodes);
        if nodes.is_none() && alone.is_none() {
            return None;
        }
        Some(DecidedLayouts {
            set: chosen.set,
            divides: chosen.divisions == CompilePolicy::Baseline,
            nodes: nodes.unwrap_or_default(),
            weights: moved.collect(),
            cost: chosen.cost,
            bound: chosen.bound,
            least: chosen.least,
            width: chosen.width,
            search: chosen.search.clone(),
            chosen: alone,
        })
    }

    /// Whether the alternatives are all among the candidates.
    pub(crate) fn has_candidates(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// The assignment again, from the recorded alternatives alone; none where one of them does not fit.
    pub(crate) fn replay_assignment(
        &self,
        graph: &Graph,
        options: &CompilerOptions,
    ) -> Option<LayoutAssignment> {
        let record = self.chosen.as_ref().filter(|_| !options.strict)?;
        let ReplayedLayouts { nodes, tensors } = record.check_alternatives(graph, options)?;
        self.build_assignment(graph, nodes, tensors)
    }

    /// The assignment again; none where the candidates are others.
    pub(crate) fn restore_assignment(
        &self,
        graph: &Graph,
        from: &GraphCandidates,
    ) -> Option<LayoutAssignment> {
        // A list of another length means other candidates, among which the number names another alternative.
        let same = from.nodes.len() == self.nodes.len()
            && from.nodes.iter().zip(&self.nodes).all(|(l, (n, at))| l.len() == *n && at < n);
        if !same {
            return None;
        }
        let nodes: Vec<OpAlternative> =
            from.nodes.iter().zip(&self.nodes).map(|(list, (_, at))| list[*at].clone()).collect();
        let tensors: Vec<Option<StickLayout>> = graph
            .tensors()
            .map(|(id, t)| match &t.def {
                TensorOrigin::Result(node, k) if t.pin.is_none() => {
                    Some(nodes[node.0].results[*k].clone())
                }
                _ => from.tensors[id.0].first().cloned(),
            })
            .collect();
        self.build_assignment(graph, nodes, tensors)
    }

    /// The assignment of these alternatives, with the weights in the layouts that were decided.
    fn build_assignment(
        &self,
        graph: &Graph,
        nodes: Vec<OpAlternative>,
        mut tensors: Vec<Option<StickLayout>>,
    ) -> Option<LayoutAssignment> {
        for (id, device, map) in &self.weights {
            let format = tensors.get(*id)?.as_ref()?.device_dtype();
            let t = graph.get(TensorId(*id));
            let layout = StickLayout::from_size_and_stride_map(device, map, format).ok()?;
            let layout = layout.with_host(&t.size, None).ok()?;
            // A record from a file may name any tensor: only a free weight has a layout of its own to choose.
            if t.def != TensorOrigin::Input(InputRole::Weight)
                || t.pin.is_some()
                || layout.lower_to_layout().is_err()
            {
                return None;
            }
            tensors[*id] = Some(layout);
        }
        let existing = self.set == CandidateSet::Existing;
        // What was searched for tensors of other sizes says nothing about these.
        let same = self.chosen.as_ref().is_some_and(|chosen| chosen.has_sizes_of(graph));
        let search = if same { self.search.clone() } else { SearchRecord::default() };
        Some(LayoutAssignment {
            nodes,
            tensors,
            shared: true,
            cost: self.cost,
            bound: self.bound,
            unit: if existing { "elements" } else { "cycles" },
            choices_log2: self.nodes.iter().map(|(n, _)| ((*n).max(1) as f64).log2()).sum(),
            width: self.width,
            divisions: if self.divides { CompilePolicy::Baseline } else { CompilePolicy::Best },
            set: self.set,
            search,
            least: self.least,
        })
    }
}

impl CompileDecisions {
    /// Those of a program whose steps are divided.
    pub(crate) fn from_divided(
        lowered: &LoweredProgram,
        divided: &[StepDivision],
        kept: &[BufferId],
        optimal: bool,
    ) -> CompileDecisions {
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
        CompileDecisions {
            steps: steps.collect(),
            kept,
            copied: Vec::new(),
            optimal,
            layouts: None,
            splits_views: false,
        }
    }

    /// The layouts, where a search found them.
    pub(crate) fn layouts(&self) -> Option<&DecidedLayouts> {
        self.layouts.as_ref()
    }

    pub(crate) fn set_layouts(&mut self, layouts: Option<DecidedLayouts>) {
        self.layouts = layouts;
    }

    /// Records what is proved of the layouts.
    pub(crate) fn set_proof(&mut self, bound: u64, least: u64) {
        if let Some(layouts) = &mut self.layouts {
            (layouts.bound, layouts.least) = (bound, least);
        }
    }

    /// Records what the search looked at.
    pub(crate) fn set_search(&mut self, search: &SearchRecord) {
        if let Some(layouts) = &mut self.layouts {
            layouts.search = search.clone();
        }
    }

    /// What became of operations on merged views.
    pub(crate) fn merged_views(&self) -> MergedViews {
        if self.splits_views { MergedViews::Split } else { MergedViews::Kept }
    }

    pub(crate) fn set_merged_views(&mut self, views: MergedViews) {
        self.splits_views = views == MergedViews::Split;
    }

    /// Whether nothing that was considered takes less time.
    pub(crate) fn is_optimal(&self) -> bool {
        self.optimal
    }

    /// By the names of the steps.
    pub(crate) fn steps_by_name(&self) -> HashMap<&str, &DecidedStep> {
        self.steps.iter().map(|d| (d.name.as_str(), d)).collect()
    }

    /// Records which results are copied between scratchpads.
    pub(crate) fn set_copied(&mut self, lowered: &LoweredProgram, copied: &[BufferId]) {
        self.copied = copied.iter().map(|b| lowered.buffer(*b).name.clone()).collect();
    }

    /// Names of results that are copied between scratchpads.
    pub(crate) fn copied_results(&self) -> HashSet<&str> {
        self.copied.iter().map(String::as_str).collect()
    }

    /// Names of results that stay in the scratchpads.
    pub(crate) fn kept_results(&self) -> HashSet<&str> {
        self.kept.iter().map(String::as_str).collect()
    }
}
