//! The passes by name: the one list that the program's help, its documents and [`compile_graph`](crate::compile())
//! follow.

pub(crate) mod text;

/// A pass of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompilerPass {
    /// What `--pass` and the documents call it.
    pub name: &'static str,
    /// What the device's own documents and compiler call the stage, or parts of it; `--pass` takes these too.
    pub also: &'static [&'static str],
    /// What it decides.
    pub decides: &'static str,
}

impl CompilerPass {
    /// The pass of that name, or of a name that the device's own compiler has for it.
    pub fn find_named(name: &str) -> Option<&'static CompilerPass> {
        PASSES.iter().find(|p| p.name == name || p.also.contains(&name))
    }
}

/// The passes in the order they run.
pub static PASSES: [CompilerPass; 12] = [
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
