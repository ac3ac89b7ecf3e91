//! The passes by name: the one list that the program's help, its documents and [`compile_graph`](crate::compile())
//! follow.

mod text;

use crate::choose::LayoutAssignment;
use crate::draft::{CandidateDraft, DividedDraft, PlacedDraft, ResidentDraft, WavedDraft};
use crate::lower::LoweredProgram;
use crate::options::CompilerOptions;
use crate::program::CompiledProgram;
use crate::propagate::GraphCandidates;
use zellige_graph::{Graph, text::print_graph};

/// A pass of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompilerPass {
    /// What `--pass` and the documents call it.
    pub name: &'static str,
    /// What torch-spyre calls the stage, or parts of it; `--pass` takes these names too.
    pub also: &'static [&'static str],
    /// What it decides.
    pub decides: &'static str,
}

impl CompilerPass {
    /// The pass of that name, or of the name that torch-spyre has for it.
    pub fn find_named(name: &str) -> Option<&'static CompilerPass> {
        PASSES.iter().find(|p| p.name == name || p.also.contains(&name))
    }
}

/// The passes in the order they run.
pub static PASSES: [CompilerPass; 13] = [
    CompilerPass {
        name: "read",
        also: &[],
        decides: "nothing: the graph, with every view as a strided map",
    },
    CompilerPass {
        name: "decompose",
        also: &["decompositions"],
        decides: "which operations composite ones are made of",
    },
    CompilerPass {
        name: "fold",
        also: &["dedup_and_promote_constants"],
        decides: "what need not be computed, or only once",
    },
    CompilerPass {
        name: "split_views",
        also: &[],
        decides: "in which dimensions element by element operations on merged views are done",
    },
    CompilerPass {
        name: "propagate",
        also: &["propagate_spyre_tensor_layouts", "stickify", "layout_propagation"],
        decides: "which layouts every tensor and operation may have",
    },
    CompilerPass {
        name: "choose",
        also: &["optimize_restickify_locations", "plan_restickify", "layout_choice"],
        decides: "one layout for every tensor: those of the fastest program that was tried",
    },
    CompilerPass {
        name: "lower",
        also: &["insert_restickify", "finalize_layouts"],
        decides: "the steps, with a restickify where layouts differ",
    },
    CompilerPass {
        name: "span_reduction",
        also: &[],
        decides: "which divisions every step may have, within the span limit",
    },
    CompilerPass {
        name: "work_distribution",
        also: &[
            "work_division",
            "core_division_planning",
            "distribute_work",
            "k_fast_division",
            "cost_model_matmul_division",
        ],
        decides: "one division for every step, together with the results that scratchpads may keep",
    },
    CompilerPass {
        name: "waves",
        also: &[],
        decides: "which steps run at the same time, and on which cores",
    },
    CompilerPass {
        name: "scratchpads",
        also: &["scratchpad_planning", "lx_planning"],
        decides: "addresses in scratchpads; what finds none goes to memory",
    },
    CompilerPass {
        name: "pool",
        also: &["hbm_pool_planning", "memory_planning"],
        decides: "addresses in device memory",
    },
    CompilerPass { name: "schedule", also: &[], decides: "when every step starts" },
];

/// What a pass made, as it is shown to who observes the passes: a variant for every row of [`PASSES`].
#[derive(Clone, Copy)]
pub(crate) enum PassOutput<'a> {
    Read(&'a Graph),
    Decompose(&'a Graph),
    Fold(&'a Graph),
    SplitViews(&'a Graph),
    Propagate(&'a Graph, &'a CompilerOptions, &'a GraphCandidates),
    Choose(&'a Graph, &'a CompilerOptions, &'a LayoutAssignment),
    Lower(&'a LoweredProgram),
    SpanReduction(&'a CandidateDraft),
    WorkDistribution(&'a DividedDraft),
    Waves(&'a WavedDraft),
    Scratchpads(&'a ResidentDraft),
    Pool(&'a PlacedDraft),
    Schedule(&'a CompiledProgram),
}

impl PassOutput<'_> {
    /// The name of the pass in [`PASSES`].
    pub(crate) fn pass_name(&self) -> &'static str {
        match self {
            PassOutput::Read(_) => "read",
            PassOutput::Decompose(_) => "decompose",
            PassOutput::Fold(_) => "fold",
            PassOutput::SplitViews(_) => "split_views",
            PassOutput::Propagate(..) => "propagate",
            PassOutput::Choose(..) => "choose",
            PassOutput::Lower(_) => "lower",
            PassOutput::SpanReduction(_) => "span_reduction",
            PassOutput::WorkDistribution(_) => "work_distribution",
            PassOutput::Waves(_) => "waves",
            PassOutput::Scratchpads(_) => "scratchpads",
            PassOutput::Pool(_) => "pool",
            PassOutput::Schedule(_) => "schedule",
        }
    }

    /// What it made, as text that can be compared.
    pub(crate) fn print_output(&self) -> String {
        match self {
            PassOutput::Read(graph)
            | PassOutput::Decompose(graph)
            | PassOutput::Fold(graph)
            | PassOutput::SplitViews(graph) => print_graph(graph),
            PassOutput::Propagate(graph, options, found) => {
                text::print_candidates(graph, options, found)
            }
            PassOutput::Choose(graph, options, chosen) => {
                text::print_assignment(graph, options, chosen)
            }
            PassOutput::Lower(lowered) => text::print_lowered(lowered),
            PassOutput::SpanReduction(draft) => text::print_divisions(draft),
            PassOutput::WorkDistribution(draft) => text::print_divided(draft),
            PassOutput::Waves(draft) => text::print_waves(draft),
            PassOutput::Scratchpads(draft) => text::print_residents(draft),
            PassOutput::Pool(draft) => text::print_addresses(draft),
            PassOutput::Schedule(program) => text::print_schedule(program),
        }
    }
}
