//! From layouts to steps: every operation with its operands in the layouts that it wants, and a restickify
//! wherever a tensor has another.

mod lowered;

pub(crate) use lowered::{Lowered, LoweredBuffer, LoweredStep, MemoryClass};

use crate::choose::{Assignment, demanded, loaded, move_ends};
use crate::divide::StepDivision;
use crate::error::Result;
use crate::options::Options;
use crate::program::{Action, BufferId, BufferRead, Origin};
use crate::propagate::{OperandLayout, laid, reads_in_place, same_places};
use std::collections::{HashMap, HashSet};
use zellige_device::PlanOp;
use zellige_device::{Division, TensorLayout};
use zellige_graph::{Def, Graph, Node, NodeId, Role, TensorId};
use zellige_machine::WorkKind;
use zellige_op::Op;

/// The steps of a graph under an assignment of layouts, one after the other, in default divisions.
///
/// # Errors
/// Layouts that do not fit their tensors.
pub(crate) fn lower(graph: Graph, options: &Options, assignment: Assignment) -> Result<Lowered> {
    let mut pass = Lowering {
        loads: loaded(&graph, options),
        graph: &graph,
        options,
        assignment: &assignment,
        buffers: Vec::new(),
        steps: Vec::new(),
        of: HashMap::new(),
        copies: HashMap::new(),
        copied: HashMap::new(),
        names: graph.tensors().map(|(_, t)| t.name.clone()).collect(),
        uses: uses(&graph),
        returned: graph.outputs().iter().map(|o| graph.base(*o).0).collect(),
        readers: 0,
    };
    for (id, t) in graph.tensors() {
        let origin = match t.def {
            Def::Input(role) => Origin::Input(role),
            Def::Constant(value) => Origin::Constant(value),
            _ => continue,
        };
        pass.tensor(id, origin)?;
    }
    for (id, node) in graph.nodes() {
        pass.node(id, node)?;
    }
    let mut outputs = Vec::new();
    for output in graph.outputs() {
        let key = demanded(&graph, options, *output)?;
        outputs.push(pass.read(*output, key.as_ref(), None)?);
    }
    let inputs = graph.inputs().iter().map(|t| pass.of[t]).collect();
    let mut states = Vec::new();
    for (k, output) in graph.outputs().iter().enumerate() {
        match state_of(&graph, *output) {
            Some(state) if state != *output => states.push((pass.of[&state], k)),
            _ => {}
        }
    }
    let (buffers, steps) = (pass.buffers, pass.steps);
    let options = options.clone();
    Ok(Lowered { graph, options, assignment, buffers, steps, inputs, outputs, states })
}

struct Lowering<'a> {
    graph: &'a Graph,
    options: &'a Options,
    assignment: &'a Assignment,
    loads: Vec<bool>,
    buffers: Vec<LoweredBuffer>,
    steps: Vec<LoweredStep>,
    of: HashMap<TensorId, BufferId>,
    copies: HashMap<(TensorId, OperandLayout, usize), BufferId>,
    /// How many copies a tensor has.
    copied: HashMap<TensorId, usize>,
    /// Names of the graph.
    names: HashSet<String>,
    /// Of every tensor, the operations that read it or a view of it, with the number of the operand.
    uses: Vec<Vec<(NodeId, usize)>>,
    /// Tensors that the caller gets, or views of them.
    returned: HashSet<TensorId>,
    readers: usize,
}

/// Of every tensor, the operations that read it or a view of it, with the number of the operand.
fn uses(graph: &Graph) -> Vec<Vec<(NodeId, usize)>> {
    let mut uses = vec![Vec::new(); graph.tensors().count()];
    for (id, node) in graph.nodes() {
        for (k, operand) in node.inputs.iter().enumerate() {
            uses[graph.base(*operand).0.0].push((id, k));
        }
    }
    uses
}

impl Lowering<'_> {
    /// The name, or one like it that no tensor has.
    fn free_name(&self, name: String) -> String {
        let taken = |n: &str| self.names.contains(n);
        if !taken(&name) {
            return name;
        }
        let more = (2..).map(|k| format!("{name}.{k}"));
        more.into_iter().find(|n| !taken(n)).unwrap_or(name)
    }

    fn push(&mut self, buffer: LoweredBuffer) -> BufferId {
        self.buffers.push(buffer);
        BufferId(self.buffers.len() - 1)
    }

    /// The buffer of a tensor in its own layout.
    fn tensor(&mut self, id: TensorId, origin: Origin) -> Result<BufferId> {
        let t = self.graph.get(id);
        let layout = self.assignment.tensors[id.0].as_ref().expect("a tensor that is no view");
        let given = matches!(origin, Origin::Input(_) | Origin::Constant(_));
        let laid = TensorLayout::new(self.options.storage, t.dtype, layout)?;
        let buffer = self.push(LoweredBuffer {
            name: t.name.clone(),
            tensor: id,
            laid,
            loaded: self.loads[id.0] || matches!(origin, Origin::Constant(_)),
            origin,
            memory: if given { MemoryClass::Own } else { MemoryClass::Temporary },
        });
        self.of.insert(id, buffer);
        Ok(buffer)
    }

    /// An operand as a step reads it; where the reader wants another layout, a copy.
    fn read(
        &mut self,
        operand: TensorId,
        key: Option<&OperandLayout>,
        reader: Option<NodeId>,
    ) -> Result<BufferRead> {
        let (base, view) = self.graph.base(operand);
        let own = self.of[&base];
        let mine = self.buffers[own.0].laid.layout().clone();
        let dtype = self.graph.get(operand).dtype;
        let as_is = |layout| OperandLayout { view: None, layout };
        let in_place = |key: &OperandLayout| {
            let caller = reader.is_none() && key.view.is_none();
            reads_in_place(self.options, self.graph.get(base), &mine, key)
                || (caller && same_places(&key.layout, &mine))
        };
        let Some(key) = key.filter(|k| !in_place(k)) else {
            let laid = laid(self.options, dtype, &as_is(mine), view)?;
            return Ok(BufferRead { buffer: own, laid });
        };
        // Without sharing, every reader has copies of its own.
        let whose = if self.assignment.shared { 0 } else { self.readers };
        let copy = match self.copies.get(&(base, key.clone(), whose)) {
            Some(copy) => *copy,
            None => self.copy(base, key, reader, whose)?,
        };
        let laid = laid(self.options, dtype, key, view)?;
        Ok(BufferRead { buffer: copy, laid })
    }

    fn copy(
        &mut self,
        base: TensorId,
        key: &OperandLayout,
        reader: Option<NodeId>,
        whose: usize,
    ) -> Result<BufferId> {
        let t = self.graph.get(base);
        let own = self.of[&base];
        let from = self.buffers[own.0].laid.layout().clone();
        let (source, to) = move_ends(self.options, t.dtype, &from, key)?;
        let load = self.loads[base.0];
        let count = self.copied.entry(base).or_default();
        *count += 1;
        let suffix = if *count == 1 { String::new() } else { format!("{count}") };
        let name = self.free_name(format!("{}.moved{suffix}", t.name));
        let why = reason(&source, &to);
        let copy = self.push(LoweredBuffer {
            name: name.clone(),
            tensor: base,
            laid: to,
            origin: Origin::Copy(own),
            memory: if load { MemoryClass::Own } else { MemoryClass::Temporary },
            loaded: load,
        });
        self.copies.insert((base, key.clone(), whose), copy);
        self.step_move(name, BufferRead { buffer: own, laid: source }, copy, reader, why, load)?;
        Ok(copy)
    }

    fn step_move(
        &mut self,
        name: String,
        read: BufferRead,
        to: BufferId,
        reader: Option<NodeId>,
        why: String,
        load: bool,
    ) -> Result<()> {
        let moved = read.laid.moved_to(&self.buffers[to.0].laid)?;
        let work = moved.work(name.as_str(), WorkKind::Restickify, self.options.cores);
        let division = Division::one(read.laid.size().len());
        let decided = ("move".into(), "its bursts are shared by all cores".into());
        self.steps.push(LoweredStep {
            name,
            action: Action::Move { reader, why },
            reads: vec![read],
            writes: vec![to],
            load,
            space: None,
            default: StepDivision { division, work, decided },
        });
        Ok(())
    }

    fn node(&mut self, id: NodeId, node: &Node) -> Result<()> {
        self.readers += 1;
        let chosen = self.assignment.nodes[id.0].clone();
        let mut reads = Vec::with_capacity(node.inputs.len());
        for (operand, key) in node.inputs.iter().zip(&chosen.operands) {
            reads.push(self.read(*operand, key.as_ref(), Some(id))?);
        }
        let load = self.loads[node.outputs[0].0];
        let (mut writes, mut repinned) = (Vec::new(), Vec::new());
        for (out, layout) in node.outputs.iter().zip(&chosen.results) {
            let own = self.tensor(*out, Origin::Result)?;
            if load {
                self.buffers[own.0].memory = MemoryClass::Own;
            }
            if self.buffers[own.0].laid.layout() == layout {
                writes.push(own);
                continue;
            }
            let t = self.graph.get(*out);
            let made = self.push(LoweredBuffer {
                name: self.free_name(format!("{}.unpinned", t.name)),
                tensor: *out,
                laid: TensorLayout::new(self.options.storage, t.dtype, layout)?,
                origin: Origin::Result,
                memory: if load { MemoryClass::Own } else { MemoryClass::Temporary },
                loaded: load,
            });
            self.buffers[own.0].origin = Origin::Copy(made);
            writes.push(made);
            repinned.push((made, own));
        }
        let op = self.in_place(id, node, &reads, &writes).unwrap_or_else(|| node.op.clone());
        let name = self.graph.get(node.outputs[0]).name.clone();
        let ins: Vec<TensorLayout> = reads.iter().map(|r| r.laid.clone()).collect();
        let outs: Vec<TensorLayout> =
            writes.iter().map(|b| self.buffers[b.0].laid.clone()).collect();
        let (action, space, default) = if self.options.coverage.on_host(node.op.layer()) {
            let (division, work) = (Division::one(0), node.op.round_trip(&ins, &outs)?);
            let decided = ("host".into(), "the card does not run it".into());
            let default = StepDivision { division, work, decided };
            (Action::Host(id, node.op.clone()), None, default)
        } else {
            let space = op.space(&ins, &outs)?;
            let (division, work) = op.work(&ins, &outs, None, self.options.cores)?;
            let decided = ("work_distribution".into(), "the default distribution".into());
            (Action::Op(id, op), space, StepDivision { division, work, decided })
        };
        self.steps.push(LoweredStep { name, action, reads, writes, load, space, default });
        for (made, own) in repinned {
            let read = BufferRead { buffer: made, laid: self.buffers[made.0].laid.clone() };
            let name = self.buffers[own.0].name.clone();
            self.step_move(name, read, own, None, "its layout is pinned".into(), load)?;
        }
        Ok(())
    }
}

impl Lowering<'_> {
    /// The operation with its result in the place of an operand that nobody needs any more: a state, or
    /// a result of the program.
    fn in_place(
        &mut self,
        id: NodeId,
        node: &Node,
        reads: &[BufferRead],
        writes: &[BufferId],
    ) -> Option<Op> {
        if self.options.coverage.on_host(node.op.layer()) {
            return None;
        }
        let ([out], (operand, op)) = (writes, node.op.over()?) else { return None };
        let (read, tensor) = (&reads[operand], node.inputs[operand]);
        let from = &self.buffers[read.buffer.0];
        let mine =
            matches!(from.origin, Origin::Input(Role::State) | Origin::Result | Origin::Copy(_));
        let whole = read.laid == from.laid && from.laid == self.buffers[out.0].laid;
        let last = self.uses[self.graph.base(tensor).0.0]
            .iter()
            .all(|(n, k)| *n < id || (*n == id && *k == operand));
        // A copy that later readers share is not to be changed either; readers come later only then.
        let kept = self.returned.contains(&from.tensor);
        if !mine || !whole || !last || kept || from.loaded {
            return None;
        }
        self.buffers[out.0].memory = MemoryClass::InPlaceOf(read.buffer);
        Some(op)
    }
}

/// The state that a tensor is the next value of: operations that write into their operand lead to it.
fn state_of(graph: &Graph, mut id: TensorId) -> Option<TensorId> {
    loop {
        match &graph.get(id).def {
            Def::Input(Role::State) => return Some(id),
            Def::Result(node, 0) => {
                let node = graph.node(*node);
                let (operand, _) = node.op.over()?;
                id = node.inputs[operand];
            }
            _ => return None,
        }
    }
}

/// Why elements are moved, from how they lie and how they will.
fn reason(from: &TensorLayout, to: &TensorLayout) -> String {
    let dim = |d: Option<usize>| {
        d.map_or("one element in each stick".into(), |d| format!("sticks along dimension {d}"))
    };
    match (from.sticks(), to.sticks()) {
        (Err(e), _) => e.to_string(),
        (Ok(a), Ok(b)) if a.stick != b.stick => {
            format!("it has {}, and {} are wanted", dim(a.stick), dim(b.stick))
        }
        (Ok(_), Ok(_)) => "its dimensions are wanted in another order".into(),
        (Ok(_), Err(e)) => e.to_string(),
    }
}
