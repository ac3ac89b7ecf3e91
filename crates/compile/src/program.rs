//! A compiled program: what runs, in which order, on which memory.

use crate::choose::{CandidateSet, LayoutAssignment, SearchRecord};
use crate::decisions::{CompileDecisions, DecidedLayouts};
use crate::options::CompilerOptions;
use std::ops::Range;
use zellige_device::{LoopSpan, TensorLayout, WorkDivision};
use zellige_graph::{Graph, InputRole, NodeId, TensorId};
use zellige_machine::{OperationLatency, OperationWork, SimulatedTime};
use zellige_op::{HostScalar, TensorOp};

/// A buffer of a program, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub usize);

/// A step of a program, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub usize);

/// Where a buffer's elements come from.
#[derive(Debug, Clone, PartialEq)]
pub enum ElementOrigin {
    /// Outside.
    Input(InputRole),
    /// A number of the program.
    Constant(HostScalar),
    /// An operation.
    Result,
    /// Another buffer, of which it holds the elements in another layout.
    Copy(BufferId),
}

/// Where a buffer lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferLocation {
    /// In memory of the caller or of the loaded model: a block of its own.
    Own,
    /// In the program's pool of device memory, at this byte.
    Pool(u64),
    /// In the scratchpads, a slice on each core, at this byte of every one.
    Lx(u64),
    /// In the memory of another buffer, whose elements it replaces.
    Over(BufferId),
}

/// Memory for the elements of one tensor in one layout.
#[derive(Debug, Clone)]
pub struct ProgramBuffer {
    /// Its name: that of its tensor, or of a copy of it.
    pub name: String,
    /// The tensor of the graph.
    pub tensor: TensorId,
    /// Its layout.
    pub laid: TensorLayout,
    /// Where its elements come from.
    pub origin: ElementOrigin,
    /// Where it lives.
    pub place: BufferLocation,
    /// Whether it is there before a run begins, the same every time.
    pub loaded: bool,
}

impl ProgramBuffer {
    /// Bytes in device memory, padding included.
    pub fn bytes(&self) -> u64 {
        self.laid.stick_layout().device_bytes().map_or(0, i64::unsigned_abs)
    }
}

/// A buffer as a step reads it.
#[derive(Debug, Clone)]
pub struct BufferRead {
    /// Whose memory.
    pub buffer: BufferId,
    /// The layout through which it is read.
    pub laid: TensorLayout,
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum StepAction {
    /// An operation of the graph on the cores.
    Op(NodeId, TensorOp),
    /// An operation of the graph that the host does.
    Host(NodeId, TensorOp),
    /// Elements into another layout.
    Move {
        /// The operation that needs it; none is the caller.
        reader: Option<NodeId>,
        /// Why.
        why: String,
    },
}

impl StepAction {
    /// The operation of the graph that it does.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            StepAction::Op(node, _) | StepAction::Host(node, _) => Some(*node),
            StepAction::Move { .. } => None,
        }
    }

    /// Who does it.
    pub fn bundle_kind(&self) -> BundleKind {
        match self {
            StepAction::Op(..) | StepAction::Move { .. } => BundleKind::Device,
            StepAction::Host(..) => BundleKind::Host,
        }
    }

    /// The operation itself.
    pub fn op(&self) -> Option<&TensorOp> {
        match self {
            StepAction::Op(_, op) | StepAction::Host(_, op) => Some(op),
            StepAction::Move { .. } => None,
        }
    }
}

/// A step: it reads, works on some cores, and writes.
#[derive(Debug, Clone)]
pub struct ProgramStep {
    /// Its name, that of its first result.
    pub name: String,
    /// What it does.
    pub action: StepAction,
    /// What it reads, operand by operand.
    pub reads: Vec<BufferRead>,
    /// What it writes, result by result.
    pub writes: Vec<BufferId>,
    /// Whether it runs when weights are loaded, and not in every run.
    pub load: bool,
    /// The loops; none of a step that only moves.
    pub space: Option<Vec<LoopSpan>>,
    /// How the loops are cut.
    pub division: WorkDivision,
    /// A loop that is gone through in this many rounds, one after the other, each cut like the whole: a core addresses
    /// a limited part of a tensor at a time. None goes through all loops at once.
    pub rounds: Option<(usize, usize)>,
    /// Who decided the division, and why.
    pub decided: (String, String),
    /// What each core does with everything in device memory.
    pub full: OperationWork,
    /// The same with what stays in scratchpads left out.
    pub work: OperationWork,
    /// How long that takes.
    pub latency: OperationLatency,
    /// The wave it runs in: steps of one wave run at the same time.
    pub wave: usize,
    /// The first core it runs on.
    pub first_core: usize,
    /// When it starts, from the beginning of a run (or of loading).
    pub start: SimulatedTime,
    /// How long it takes beside what runs at the same time.
    pub duration: SimulatedTime,
}

impl ProgramStep {
    /// When it ends.
    pub fn end_time(&self) -> SimulatedTime {
        self.start + self.duration
    }

    /// The operation of the graph that it does.
    pub fn node(&self) -> Option<NodeId> {
        self.action.node()
    }

    /// The operation itself.
    pub fn op(&self) -> Option<&TensorOp> {
        self.action.op()
    }

    /// Whether it is a move.
    pub fn is_move(&self) -> bool {
        matches!(self.action, StepAction::Move { .. })
    }
}

/// Who does the steps of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleKind {
    /// The card.
    Device,
    /// The host: an operation that the card falls back on it for.
    Host,
}

/// A number of a bundle: its place among all of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub usize);

/// Steps that the host launches at once: one program of the card, prepared once and launched with the addresses of its
/// arguments; or one step of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramBundle {
    /// Its steps, by number.
    pub steps: Range<usize>,
    /// Who does them.
    pub kind: BundleKind,
    /// Whether it runs when weights are loaded, and not in every run.
    pub load: bool,
    /// What the host takes to launch it; none of what is not launched.
    pub launch: Option<SimulatedTime>,
    /// When its launch begins, from the beginning of a run (or of loading).
    pub start: SimulatedTime,
    /// When its last step ends.
    pub end: SimulatedTime,
}

impl ProgramBundle {
    /// What the host takes to launch it, nothing where it is not launched.
    pub fn launch_time(&self) -> SimulatedTime {
        self.launch.unwrap_or(SimulatedTime::ZERO)
    }
}

/// A compiled program.
#[derive(Debug, Clone)]
pub struct CompiledProgram {
    /// The graph that it runs, after the passes that rewrite graphs.
    pub graph: Graph,
    /// The options of the compilation.
    pub options: CompilerOptions,
    /// The layouts and what is proved of them.
    pub assignment: LayoutAssignment,
    /// All buffers.
    pub buffers: Vec<ProgramBuffer>,
    /// All steps, in an order in which they can run.
    pub steps: Vec<ProgramStep>,
    /// What the host launches, in order: all steps, each in one bundle.
    pub bundles: Vec<ProgramBundle>,
    /// The buffers of the graph's inputs, in order.
    pub inputs: Vec<BufferId>,
    /// What the caller gets, in order.
    pub outputs: Vec<BufferRead>,
    /// States with the output that is their next value: the graph writes into them.
    pub states: Vec<(BufferId, usize)>,
    /// Whether no other divisions and residents that were considered take less time.
    pub divided_optimally: bool,
    /// What was searched for, to compile it or one like it again.
    pub decisions: CompileDecisions,
}

impl CompiledProgram {
    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &ProgramBuffer {
        &self.buffers[id.0]
    }

    /// Layouts of what comes from outside.
    pub fn input_layouts(&self) -> impl Iterator<Item = &TensorLayout> {
        let outside = |b: &&ProgramBuffer| matches!(b.origin, ElementOrigin::Input(_));
        self.buffers.iter().filter(outside).map(|b| &b.laid)
    }

    /// Steps of every run.
    pub fn run_steps(&self) -> impl Iterator<Item = (StepId, &ProgramStep)> {
        self.steps.iter().enumerate().filter(|(_, s)| !s.load).map(|(i, s)| (StepId(i), s))
    }

    /// Steps that run once, when weights are loaded.
    pub fn load_steps(&self) -> impl Iterator<Item = (StepId, &ProgramStep)> {
        self.steps.iter().enumerate().filter(|(_, s)| s.load).map(|(i, s)| (StepId(i), s))
    }

    /// Bundles of every run.
    pub fn run_bundles(&self) -> impl Iterator<Item = (BundleId, &ProgramBundle)> {
        self.bundles.iter().enumerate().filter(|(_, b)| !b.load).map(|(i, b)| (BundleId(i), b))
    }

    /// The bundle of a step.
    ///
    /// # Panics
    /// Of a number that no step has.
    pub fn bundle_of(&self, step: StepId) -> BundleId {
        // Bundles are in the order of the steps, none is empty, and together they are all of them.
        BundleId(self.bundles.partition_point(|b| b.steps.end <= step.0))
    }

    /// How often the host launches something in a run.
    pub fn launch_count(&self) -> usize {
        self.run_bundles().filter(|(_, b)| b.launch.is_some()).count()
    }

    /// What the host takes in a run to launch its bundles, a part of [`latency`](CompiledProgram::latency).
    pub fn launch_time(&self) -> SimulatedTime {
        self.run_bundles().map(|(_, b)| b.launch_time()).sum()
    }

    /// The same with what is proved of another choice of layouts for the graph: it holds for all candidates. Where
    /// these layouts are not among them, nothing is proved.
    pub(crate) fn proved_as(mut self, other: &LayoutAssignment) -> CompiledProgram {
        let candidates = self.decisions.layouts().is_some_and(DecidedLayouts::has_candidates)
            && self.assignment.set != CandidateSet::Existing;
        let (bound, least) = if candidates { (other.bound, other.least) } else { (0, 0) };
        (self.assignment.bound, self.assignment.least) = (bound, least);
        self.decisions.set_proof(bound, least);
        self
    }

    /// Records what was looked at to find this program.
    pub(crate) fn set_search(&mut self, search: SearchRecord) {
        self.decisions.set_search(&search);
        self.assignment.search = search;
    }

    /// How long a run takes.
    pub fn latency(&self) -> SimulatedTime {
        self.run_steps().map(|(_, s)| s.end_time()).max().unwrap_or(SimulatedTime::ZERO)
    }

    /// How long loading takes beside the transfer of the weights.
    pub fn load_latency(&self) -> SimulatedTime {
        self.load_steps().map(|(_, s)| s.end_time()).max().unwrap_or(SimulatedTime::ZERO)
    }
}
