//! What a pass refuses, one variant per violated precondition, each with its witness.

use zellige_graph::{Graph, NodeId, TensorId};

/// The result of every fallible function of this crate.
pub type Result<T, E = CompileError> = std::result::Result<T, E>;

/// What a refusal points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalWitness {
    /// A dimension of an iteration space.
    Dim(String),
    /// A tensor of an operation.
    Tensor(String),
    /// A buffer of a memory plan.
    Buffer(String),
    /// A core.
    Core(usize),
}

/// A refused request, or a plan that a checker refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A number of cores that the card does not have.
    #[error(
        "Unsupported: Spyre backend does not support: invalid SENCORES value {cores}; accepted \
         are 1 to {most}"
    )]
    Cores {
        /// The requested number.
        cores: i64,
        /// How many there are.
        most: usize,
    },
    /// A part of the scratchpads that is none.
    #[error("{part} is no part of the scratchpads to leave free; accepted are 0 to 1")]
    Reserved {
        /// The requested part.
        part: String,
    },
    /// A choice that has no answer.
    #[error("{reason}")]
    BadProblem {
        /// What is wrong.
        reason: String,
    },
    /// A dimension that no iteration space has.
    #[error("dimension `{dim}`: {reason}")]
    BadDim {
        /// Its name.
        dim: String,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// A tensor that does not fit its iteration space.
    #[error("tensor `{tensor}`: {reason}")]
    BadTensor {
        /// Its name.
        tensor: String,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// A stick dimension whose size is not known.
    #[error(
        "symbolic stick dim {dim} is not supported yet (tensor {tensor}); symbolic dims must be \
         non-stick, such as the leading batch dim"
    )]
    SymbolicStick {
        /// The dimension.
        dim: String,
        /// A tensor whose lanes run along it.
        tensor: String,
    },
    /// A tensor that is placed in the scratchpads and cannot be there.
    #[error(
        "`{tensor}` is placed in lx, and cannot be there: {reason}; `place memory`, or no place, is accepted"
    )]
    NotInScratchpads {
        /// Its name.
        tensor: String,
        /// Why.
        reason: String,
    },
    /// A hint for a dimension that the operation does not have.
    #[error("hint: the operation has no dim `{dim}`; its dims are {known}")]
    HintUnknown {
        /// The name given.
        dim: String,
        /// The names there are.
        known: String,
    },
    /// A hint below 1.
    #[error("hint: split value {split} for dim {dim} must be positive")]
    HintNotPositive {
        /// The dimension.
        dim: String,
        /// The requested split.
        split: i64,
    },
    /// A hint that does not divide its dimension.
    #[error(
        "hint: dim {dim} size={units} ({what}) is not evenly divisible by split={split}; accepted \
         are {accepted}"
    )]
    HintNotDivisible {
        /// The dimension.
        dim: String,
        /// What it counts.
        units: u64,
        /// Sticks or elements.
        what: &'static str,
        /// The requested split.
        split: i64,
        /// What would be accepted.
        accepted: String,
    },
    /// Hints that need more cores than there are.
    #[error(
        "hint: split={split} of dim {dim} needs more cores than there are: the hints before it take \
         {used} slices, and {cores} cores run the operation; accepted are {accepted}"
    )]
    HintCores {
        /// The dimension.
        dim: String,
        /// The requested split.
        split: i64,
        /// Slices of the hints before it.
        used: u64,
        /// The cores there are.
        cores: u64,
        /// What would be accepted.
        accepted: String,
    },
    /// Hints that split two reduction dimensions.
    #[error("hint: dims {first} and {second} are both reduction dimensions; at most one is split")]
    HintReductions {
        /// The first of them.
        first: String,
        /// The second.
        second: String,
    },
    /// A tensor that no division brings under the span limit.
    #[error(
        "tensor `{tensor}`: a core would span {bytes} bytes of it, more than the {limit} that it \
         can address; the smallest span found is with splits {splits}"
    )]
    Span {
        /// The tensor.
        tensor: String,
        /// The smallest span of it that was found.
        bytes: u64,
        /// What a core can address.
        limit: u64,
        /// The splits with that span.
        splits: String,
    },
    /// Numbers past 64 bits.
    #[error("{what} does not fit in 64 bits")]
    Overflow {
        /// What was computed.
        what: String,
    },
    /// A layout that could not be made.
    #[error(transparent)]
    Layout(#[from] zellige_stick::StickError),
    /// A buffer that no plan can have.
    #[error("buffer `{buffer}`: {reason}")]
    BadBuffer {
        /// Its name.
        buffer: String,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// In-place reuse that the rules forbid.
    #[error("buffer `{child}` in place of `{parent}`: {reason}")]
    BadParent {
        /// The buffer that would reuse.
        child: String,
        /// The buffer to be reused.
        parent: String,
        /// What is wrong and what is accepted.
        reason: String,
    },
    /// An alignment of 0.
    #[error("an alignment of {alignment} is not accepted; it is 1 or more")]
    BadAlignment {
        /// The alignment.
        alignment: i64,
    },
    /// Device memory that does not hold all buffers.
    #[error(
        "buffer `{buffer}` of {bytes} bytes or more does not fit into a segment of {limit} bytes of device \
         memory beside the buffers that live at the same time; the most bytes alive at once are {peak}"
    )]
    PoolFull {
        /// The first buffer without a place.
        buffer: String,
        /// Its size.
        bytes: u64,
        /// Bytes of the pool.
        limit: u64,
        /// The most bytes alive at once.
        peak: u64,
    },
    /// An operation that runs with no layouts.
    #[error("`{result} = {op}` cannot run: {reason}")]
    Infeasible {
        /// The number of the operation.
        node: usize,
        /// Its first result.
        result: String,
        /// Its name.
        op: String,
        /// Why.
        reason: String,
    },
    /// What torch-spyre refuses.
    #[error(
        "Spyre backend does not support: `{result} = {op}`, operand {operand} in {layout}: {rule}; \
         without `--strict` a move repairs it"
    )]
    Strict {
        /// The name of the operation.
        op: String,
        /// Its first result.
        result: String,
        /// The operand.
        operand: usize,
        /// Its layout.
        layout: String,
        /// The rule that it breaks.
        rule: String,
    },
    /// Refused by the device's rules.
    #[error(transparent)]
    Device(#[from] zellige_device::DeviceError),
    /// Refused by the graph's rules.
    #[error(transparent)]
    Graph(#[from] zellige_graph::GraphError),
    /// A plan that breaks a rule.
    #[error("the plan breaks a rule: {reason}")]
    Broken {
        /// Where.
        witness: RefusalWitness,
        /// Which rule, and how.
        reason: String,
    },
}

impl From<zellige_layout::LayoutError> for CompileError {
    fn from(e: zellige_layout::LayoutError) -> CompileError {
        CompileError::Layout(e.into())
    }
}

impl CompileError {
    pub(crate) fn bad_problem(reason: String) -> CompileError {
        CompileError::BadProblem { reason }
    }

    /// An error of the device or of a layout as one of the operation at which it arose, with the pins of the
    /// tensors that it reads and writes. Others name what they are about already.
    pub(crate) fn at_operation(self, graph: &Graph, id: NodeId) -> CompileError {
        if !matches!(self, CompileError::Device(_) | CompileError::Layout(_)) {
            return self;
        }
        let node = graph.node(id);
        let mut tensors: Vec<TensorId> =
            node.inputs.iter().map(|i| graph.base_and_view(*i).0).collect();
        tensors.extend(&node.outputs);
        let mut seen = Vec::new();
        let mut reason = self.to_string();
        for tensor in tensors {
            let t = graph.get(tensor);
            if let Some(pin) = t.pin.as_ref().filter(|_| !seen.contains(&tensor)) {
                let pin = zellige_graph::text::print_pin(pin);
                reason += &format!("; `{}` has `{pin}`, another pin or none may do", t.name);
                seen.push(tensor);
            }
        }
        let result = graph.get(node.outputs[0]).name.clone();
        CompileError::Infeasible { node: id.0, result, op: node.op.name().into(), reason }
    }

    /// A stable identifier in snake case.
    pub fn kind(&self) -> &'static str {
        match self {
            CompileError::BadProblem { .. } => "bad_problem",
            CompileError::Cores { .. } => "bad_cores",
            CompileError::Reserved { .. } => "bad_reserved",
            CompileError::BadDim { .. } => "bad_dim",
            CompileError::BadTensor { .. } => "bad_tensor",
            CompileError::SymbolicStick { .. } => "symbolic_stick",
            CompileError::NotInScratchpads { .. } => "bad_place",
            CompileError::HintUnknown { .. }
            | CompileError::HintNotPositive { .. }
            | CompileError::HintNotDivisible { .. }
            | CompileError::HintCores { .. }
            | CompileError::HintReductions { .. } => "bad_hint",
            CompileError::Span { .. } => "span_limit",
            CompileError::Overflow { .. } => "overflow",
            CompileError::Layout(e) => e.kind(),
            CompileError::BadBuffer { .. } => "bad_buffer",
            CompileError::BadParent { .. } => "bad_in_place_parent",
            CompileError::BadAlignment { .. } => "bad_alignment",
            CompileError::PoolFull { .. } => "pool_full",
            CompileError::Infeasible { .. } => "infeasible",
            CompileError::Strict { .. } => "infeasible_layout",
            CompileError::Device(e) => e.kind(),
            CompileError::Graph(e) => e.kind,
            CompileError::Broken { .. } => "broken_plan",
        }
    }

    /// The dimension, tensor or buffer it points at.
    pub fn witness(&self) -> Option<RefusalWitness> {
        match self {
            CompileError::BadDim { dim, .. }
            | CompileError::SymbolicStick { dim, .. }
            | CompileError::HintUnknown { dim, .. }
            | CompileError::HintNotPositive { dim, .. }
            | CompileError::HintNotDivisible { dim, .. }
            | CompileError::HintCores { dim, .. } => Some(RefusalWitness::Dim(dim.clone())),
            CompileError::HintReductions { second, .. } => {
                Some(RefusalWitness::Dim(second.clone()))
            }
            CompileError::BadTensor { tensor, .. }
            | CompileError::NotInScratchpads { tensor, .. }
            | CompileError::Span { tensor, .. } => Some(RefusalWitness::Tensor(tensor.clone())),
            CompileError::BadBuffer { buffer, .. } | CompileError::PoolFull { buffer, .. } => {
                Some(RefusalWitness::Buffer(buffer.clone()))
            }
            CompileError::BadParent { child, .. } => Some(RefusalWitness::Buffer(child.clone())),
            CompileError::Broken { witness, .. } => Some(witness.clone()),
            CompileError::Infeasible { result, .. } | CompileError::Strict { result, .. } => {
                Some(RefusalWitness::Tensor(result.clone()))
            }
            CompileError::BadProblem { .. }
            | CompileError::Cores { .. }
            | CompileError::Reserved { .. }
            | CompileError::Overflow { .. }
            | CompileError::Layout(_)
            | CompileError::Device(_)
            | CompileError::Graph(_)
            | CompileError::BadAlignment { .. } => None,
        }
    }
}
