//! A lowered program: steps and buffers, of which nothing is divided and nothing has an address.

use crate::divide::StepDivision;
use crate::options::{CompilePolicy, CompilerOptions};
use crate::program::{BufferId, BufferRead, ElementOrigin, StepAction};
use std::rc::Rc;
use zellige_device::{LoopSpan, TensorLayout};
use zellige_graph::{Graph, NodeId, TensorId};
use zellige_machine::SimulatedTime;
use zellige_op::TensorOp;

/// What kind of memory a buffer needs, before it has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryClass {
    /// A block of its own, of the caller or of the loaded model.
    Own,
    /// Memory while it is used: in the scratchpads or in the pool.
    Temporary,
    /// That of another buffer, whose elements it replaces.
    InPlaceOf(BufferId),
}

/// A buffer before it has a place.
#[derive(Debug, Clone)]
pub(crate) struct LoweredBuffer {
    /// Its name: that of its tensor, or of a copy of it.
    pub(crate) name: String,
    /// The tensor of the graph.
    pub(crate) tensor: TensorId,
    /// Its layout.
    pub(crate) laid: TensorLayout,
    /// Where its elements come from.
    pub(crate) origin: ElementOrigin,
    /// The memory that it needs.
    pub(crate) memory: MemoryClass,
    /// Whether it is there before a run begins, the same every time.
    pub(crate) loaded: bool,
}

impl LoweredBuffer {
    /// Bytes in device memory, padding included.
    pub(crate) fn bytes(&self) -> u64 {
        self.laid.stick_layout().device_bytes().map_or(0, i64::unsigned_abs)
    }
}

/// A step before it is divided: it reads, works and writes.
#[derive(Debug, Clone)]
pub(crate) struct LoweredStep {
    /// Its name, that of its first result.
    pub(crate) name: String,
    /// What it does.
    pub(crate) action: StepAction,
    /// What it reads, operand by operand.
    pub(crate) reads: Vec<BufferRead>,
    /// What it writes, result by result.
    pub(crate) writes: Vec<BufferId>,
    /// Whether it runs when weights are loaded, and not in every run.
    pub(crate) load: bool,
    /// The loops; none of a step that only moves.
    pub(crate) space: Option<Vec<LoopSpan>>,
    /// The division of the device where no other is chosen: the only one of a step without loops.
    pub(crate) default: StepDivision,
}

impl LoweredStep {
    /// The operation of the graph that it does.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.action.node()
    }

    /// The operation itself.
    pub(crate) fn op(&self) -> Option<&TensorOp> {
        self.action.op()
    }

    /// Whether it is a move.
    pub(crate) fn is_move(&self) -> bool {
        matches!(self.action, StepAction::Move { .. })
    }
}

/// Steps and buffers of a graph whose layouts are chosen.
#[derive(Debug, Clone)]
pub(crate) struct LoweredProgram {
    /// The graph, after the passes that rewrite graphs.
    pub(crate) graph: Rc<Graph>,
    /// The options of the compilation.
    pub(crate) options: CompilerOptions,
    /// Who divides the steps, as the choice of layouts says.
    pub(crate) division_policy: CompilePolicy,
    /// All buffers.
    pub(crate) buffers: Vec<LoweredBuffer>,
    /// All steps, in an order in which they can run.
    pub(crate) steps: Vec<LoweredStep>,
    /// The buffers of the graph's inputs, in order.
    pub(crate) inputs: Vec<BufferId>,
    /// What the caller gets, in order.
    pub(crate) outputs: Vec<BufferRead>,
    /// States with the output that is their next value: the graph writes into them.
    pub(crate) states: Vec<(BufferId, usize)>,
}

impl LoweredProgram {
    /// A buffer.
    pub(crate) fn buffer(&self, id: BufferId) -> &LoweredBuffer {
        &self.buffers[id.0]
    }

    /// The moves of every run: the tensor, the reason, and how long it takes.
    pub(crate) fn run_moves(&self) -> impl Iterator<Item = (TensorId, &str, SimulatedTime)> {
        self.steps.iter().filter(|s| !s.load).filter_map(|step| {
            let StepAction::Move { why, .. } = &step.action else { return None };
            let tensor = self.buffer(step.writes[0]).tensor;
            let time = self.options.hardware.operation_latency(&step.default.work).time;
            Some((tensor, why.as_str(), time))
        })
    }
}
