//! How long a run takes with some choice of layouts.
//!
//! **Idea.** The search for layouts, and the single pins after it, lead to the same program again and again: another
//! alternative of an operation that reads the same buffers, or a pin to the layout that a tensor has anyway. A program
//! is divided and planned once; [`LoweredKey`] says which lowered programs are the same.
//!
//! **Invariant.** Two lowered programs with equal keys differ in names alone, which no later pass looks at, so that
//! they take the same time.

use crate::choose::{KnownMoves, LayoutAssignment};
use crate::divide::{AnsweredSteps, distribute_work, reduce_step_spans};
use crate::error::Result;
use crate::lower::{LoweredProgram, MemoryClass, is_copy, lower_graph};
use crate::options::{CompilePolicy, CompilerOptions};
use crate::placement::missed_time;
use crate::program::{ElementOrigin, StepAction};
use crate::propagate::{AskedOps, OpAlternative};
use crate::schedule::run_time;
use crate::scratchpads::{ResidentProgram, place_in_scratchpads};
use crate::waves::assign_waves;
use std::collections::HashMap;
use std::rc::Rc;
use zellige_device::TensorLayout;
use zellige_graph::{Graph, RequestedMemory, TensorId, TensorOrigin};
use zellige_machine::SimulatedTime;
use zellige_stick::StickLayout;

/// How long a run of a program takes, and the program where it was made just now.
pub(crate) type Evaluated = (SimulatedTime, Option<ResidentProgram>);

/// What is known about steps and programs of a graph, and of the same graph with other pins, under the same options.
#[derive(Default)]
pub(crate) struct KnownPrograms {
    /// What is known about single steps.
    pub(crate) steps: AnsweredSteps,
    /// What is known about the alternatives of single operations.
    pub(crate) asked: AskedOps,
    /// What is known about single moves.
    pub(crate) moves: KnownMoves,
    /// The graphs so far, without pins, and the number of the present one.
    graphs: Vec<Graph>,
    graph: usize,
    chosen: HashMap<AssignmentKey, Result<SimulatedTime>>,
    /// Times that programs cannot pass, of those that were not planned because of them.
    floors: HashMap<AssignmentKey, SimulatedTime>,
    times: HashMap<LoweredKey, Result<SimulatedTime>>,
    /// Steps of all programs that were divided and planned.
    planned_steps: usize,
}

impl KnownPrograms {
    /// Says of which graph the next programs are.
    pub(crate) fn begin(&mut self, graph: &Graph) {
        let plain = graph.without_pins();
        let known = self.graphs.iter().position(|g| *g == plain);
        self.graph = known.unwrap_or_else(|| {
            self.graphs.push(plain);
            self.graphs.len() - 1
        });
        // Operations of another graph have other numbers.
        self.steps.forget_graph();
    }

    /// How many different programs were divided and planned.
    pub(crate) fn programs(&self) -> usize {
        self.times.len()
    }

    /// How many steps these have in all.
    pub(crate) fn planned_steps(&self) -> usize {
        self.planned_steps
    }

    /// How long a run takes with these layouts. Where it cannot take less than `best`, a time that is no less than that
    /// and no more than it takes.
    ///
    /// # Errors
    /// What the passes after the choice of layouts refuse.
    pub(crate) fn evaluate(
        &mut self,
        graph: &Rc<Graph>,
        options: &CompilerOptions,
        assignment: &LayoutAssignment,
        best: Option<SimulatedTime>,
    ) -> Result<Evaluated> {
        let chosen = AssignmentKey::of(self.graph, graph, assignment);
        if let Some(known) = self.chosen.get(&chosen) {
            return Ok((known.clone()?, None));
        }
        if let Some(floor) =
            self.floors.get(&chosen).filter(|floor| best.is_some_and(|b| **floor >= b))
        {
            return Ok((*floor, None));
        }
        let lowered = match lower_graph(graph.clone(), options, assignment.clone(), &mut self.steps)
        {
            Ok(lowered) => lowered,
            Err(e) => {
                self.chosen.insert(chosen, Err(e.clone()));
                return Err(e);
            }
        };
        let floor = least_time(&lowered);
        if best.is_some_and(|best| floor >= best) {
            self.floors.insert(chosen, floor);
            return Ok((floor, None));
        }
        let made = self.lowered_time(lowered);
        self.chosen.insert(chosen, made.as_ref().map(|(time, _)| *time).map_err(Clone::clone));
        made
    }

    fn lowered_time(&mut self, lowered: LoweredProgram) -> Result<Evaluated> {
        let key = LoweredKey::of(&lowered, &mut self.steps);
        if let Some(known) = self.times.get(&key) {
            return Ok((known.clone()?, None));
        }
        self.planned_steps += lowered.steps.len();
        let planned = self.planned(lowered);
        let time = planned.as_ref().map(|r| run_time(r) + missed_time(r)).map_err(Clone::clone);
        self.times.insert(key, time.clone());
        Ok((time?, planned.ok()))
    }

    fn planned(&mut self, lowered: LoweredProgram) -> Result<ResidentProgram> {
        let divided = distribute_work(reduce_step_spans(lowered, None, &mut self.steps)?, None)?;
        place_in_scratchpads(assign_waves(divided))
    }
}

/// A run of a lowered program takes no less, however its steps are divided and whatever stays in the scratchpads.
///
/// Moves and steps of the host have waves of their own, whose time is known. Of the operations, each of a chain has
/// another wave, and where they run one by one, every operation.
fn least_time(lowered: &LoweredProgram) -> SimulatedTime {
    let hardware = &lowered.options.hardware;
    let mut alone = SimulatedTime::ZERO;
    // Per buffer and in all, the time of the operations that come one after the other.
    let mut ends: Vec<SimulatedTime> = vec![SimulatedTime::ZERO; lowered.buffers.len()];
    let (mut chain, mut sum) = (SimulatedTime::ZERO, SimulatedTime::ZERO);
    for step in lowered.steps.iter().filter(|s| !s.load) {
        let mut end =
            step.reads.iter().map(|r| ends[r.buffer.0]).max().unwrap_or(SimulatedTime::ZERO);
        match step.action {
            StepAction::Op(node, _) => {
                let least = lowered.assignment.nodes[node.0].least;
                let time = hardware.launch_time() + hardware.cycles_to_time(least);
                end += time;
                sum += time;
            }
            StepAction::Move { .. } | StepAction::Host(..) => {
                alone +=
                    hardware.launch_time() + hardware.operation_latency(&step.default.work).time;
            }
        }
        chain = chain.max(end);
        step.writes.iter().for_each(|b| ends[b.0] = end);
    }
    alone + if lowered.options.concurrent { chain } else { sum }
}

/// A choice of layouts for a graph, which lowering makes the same program of.
#[derive(PartialEq, Eq, Hash)]
struct AssignmentKey {
    graph: usize,
    /// Copies that are pinned are lowered to one move.
    pinned_copies: Vec<TensorId>,
    divisions: CompilePolicy,
    shared: bool,
    nodes: Vec<OpAlternative>,
    tensors: Vec<Option<StickLayout>>,
}

impl AssignmentKey {
    fn of(number: usize, graph: &Graph, assignment: &LayoutAssignment) -> AssignmentKey {
        let pinned = graph.tensors().filter(|(_, t)| t.pin.is_some());
        let copies = pinned.filter(|(_, t)| match t.def {
            TensorOrigin::Result(node, _) => is_copy(graph.node(node)),
            _ => false,
        });
        AssignmentKey {
            graph: number,
            pinned_copies: copies.map(|(id, _)| id).collect(),
            divisions: assignment.divisions,
            shared: assignment.shared,
            nodes: assignment.nodes.clone(),
            tensors: assignment.tensors.clone(),
        }
    }
}

/// All of a lowered program but its names.
#[derive(PartialEq, Eq, Hash)]
struct LoweredKey {
    divisions: CompilePolicy,
    buffers: Vec<BufferKey>,
    steps: Vec<StepKey>,
    outputs: Vec<(usize, TensorLayout)>,
    states: Vec<(usize, usize)>,
}

#[derive(PartialEq, Eq, Hash)]
struct BufferKey {
    laid: TensorLayout,
    origin: OriginKey,
    /// The buffer whose memory it takes.
    over: Option<usize>,
    own: bool,
    loaded: bool,
    place: Option<RequestedMemory>,
}

#[derive(PartialEq, Eq, Hash)]
enum OriginKey {
    Given,
    Result,
    Copy(usize),
}

#[derive(PartialEq, Eq, Hash)]
struct StepKey {
    /// Of an operation, whether the host does it, and what it asks; none of a move.
    op: Option<(bool, Rc<str>)>,
    reads: Vec<(usize, TensorLayout)>,
    writes: Vec<usize>,
    load: bool,
}

impl LoweredKey {
    fn of(lowered: &LoweredProgram, steps: &mut AnsweredSteps) -> LoweredKey {
        let buffers = lowered.buffers.iter().map(|b| BufferKey {
            laid: b.laid.clone(),
            origin: match b.origin {
                ElementOrigin::Input(_) | ElementOrigin::Constant(_) => OriginKey::Given,
                ElementOrigin::Result => OriginKey::Result,
                ElementOrigin::Copy(of) => OriginKey::Copy(of.0),
            },
            over: if let MemoryClass::InPlaceOf(of) = b.memory { Some(of.0) } else { None },
            own: b.memory == MemoryClass::Own,
            loaded: b.loaded,
            place: lowered.graph.get(b.tensor).place,
        });
        let steps = lowered.steps.iter().map(|step| StepKey {
            op: match step.action {
                StepAction::Op(node, _) => Some((false, steps.describe_op(&lowered.graph, node))),
                StepAction::Host(node, _) => Some((true, steps.describe_op(&lowered.graph, node))),
                StepAction::Move { .. } => None,
            },
            reads: step.reads.iter().map(|r| (r.buffer.0, r.laid.clone())).collect(),
            writes: step.writes.iter().map(|b| b.0).collect(),
            load: step.load,
        });
        let outputs = lowered.outputs.iter().map(|r| (r.buffer.0, r.laid.clone()));
        LoweredKey {
            divisions: lowered.assignment.divisions,
            buffers: buffers.collect(),
            steps: steps.collect(),
            outputs: outputs.collect(),
            states: lowered.states.iter().map(|(b, k)| (b.0, *k)).collect(),
        }
    }
}
