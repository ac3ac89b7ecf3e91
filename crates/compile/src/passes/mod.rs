//! The passes by name: the one list that the program's help, its documents and [`compile`](crate::compile())
//! follow.

pub(crate) mod text;

/// A pass of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// What `--pass` and the documents call it.
    pub name: &'static str,
    /// What it decides.
    pub decides: &'static str,
}

/// The passes in the order they run.
pub const PASSES: [Pass; 12] = [
    Pass { name: "read", decides: "nothing: the graph, with every view as a strided map" },
    Pass { name: "decompose", decides: "which operations composite ones are made of" },
    Pass { name: "fold", decides: "what need not be computed, or only once" },
    Pass { name: "propagate", decides: "which layouts every tensor and operation may have" },
    Pass { name: "choose", decides: "one layout for every tensor, at the least total latency" },
    Pass { name: "lower", decides: "the steps, with a restickify where layouts differ" },
    Pass {
        name: "span_reduction",
        decides: "which divisions every step may have, within the span limit",
    },
    Pass {
        name: "work_distribution",
        decides: "one division for every step, together with the results that scratchpads may keep",
    },
    Pass { name: "waves", decides: "which steps run at the same time, and on which cores" },
    Pass {
        name: "scratchpads",
        decides: "addresses in scratchpads; what finds none goes to memory",
    },
    Pass { name: "pool", decides: "addresses in device memory" },
    Pass { name: "schedule", decides: "when every step starts" },
];
