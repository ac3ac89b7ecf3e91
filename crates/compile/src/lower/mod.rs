//! From layouts to steps: every operation with its operands in the layouts that its alternative needs, and a restickify
//! wherever a tensor has another. It does the work of torch-spyre's `insert_restickify` and `finalize_layouts`.

mod copies;
mod lowered;

pub(crate) use lowered::{LoweredBuffer, LoweredProgram, LoweredStep, MemoryClass};

use crate::choose::{LayoutAssignment, demanded_output_layout, find_loaded_tensors};
use crate::divide::{AnsweredSteps, StepDivision};
use crate::error::Result;
use crate::options::{CompilerOptions, WeightLayoutRule};
use crate::padding::find_summed_dim;
use crate::program::{BufferId, BufferRead, ElementOrigin, StepAction};
use crate::propagate::{CopyBytes, OperandLayout, bind_operand_layout, is_read_in_place};
use copies::{MadeCopy, collect_wanted_layouts};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use zellige_device::PlanOp;
use zellige_device::{TensorLayout, WorkDivision};
use zellige_graph::{Graph, GraphNode, InputRole, NodeId, TensorId, TensorOrigin};
use zellige_machine::{OperationWork, WorkKind};
use zellige_op::{OpForm, TensorOp};
use zellige_stick::StickLayout;

/// The steps of a graph under an assignment of layouts, one after the other, in default divisions.
///
/// # Errors
/// Layouts that do not fit their tensors.
pub(crate) fn lower_graph(
    graph: Rc<Graph>,
    options: &CompilerOptions,
    assignment: &LayoutAssignment,
    answered: &mut AnsweredSteps,
) -> Result<LoweredProgram> {
    let mut pass = GraphLowering {
        loads: find_loaded_tensors(&graph, options),
        graph: &graph,
        options,
        assignment,
        buffers: Vec::new(),
        steps: Vec::new(),
        of: HashMap::new(),
        copies: HashMap::new(),
        wanted: collect_wanted_layouts(&graph, options, assignment)?,
        copied: HashMap::new(),
        answered,
        names: graph.tensors().map(|(_, t)| t.name.clone()).collect(),
        uses: collect_uses(&graph),
        returned: graph.outputs().iter().map(|o| graph.base_and_view(*o).0).collect(),
        readers: 0,
    };
    for (id, t) in graph.tensors() {
        let origin = match t.def {
            TensorOrigin::Input(role) => ElementOrigin::Input(role),
            TensorOrigin::Constant(value) => ElementOrigin::Constant(value),
            _ => continue,
        };
        pass.add_tensor_buffer(id, origin)?;
    }
    // Before any reader: a weight that is loaded with its rows of zeros needs no copy for them, and every reader then
    // finds it so.
    pass.pad_weights()?;
    for (id, node) in graph.nodes() {
        pass.lower_node(id, node).map_err(|e| e.at_operation(&graph, id))?;
    }
    let mut outputs = Vec::new();
    for output in graph.outputs() {
        let key = demanded_output_layout(&graph, options, *output)?;
        outputs.push(pass.read_operand(*output, key.as_ref(), None)?);
    }
    let inputs = graph.inputs().iter().map(|t| pass.of[t]).collect();
    let mut states = Vec::new();
    for (k, output) in graph.outputs().iter().enumerate() {
        match find_state(&graph, *output) {
            Some(state) if state != *output => states.push((pass.of[&state], k)),
            _ => {}
        }
    }
    let (buffers, steps) = (pass.buffers, pass.steps);
    Ok(LoweredProgram {
        graph,
        options: options.clone(),
        division_policy: assignment.divisions,
        buffers,
        steps,
        inputs,
        outputs,
        states,
    })
}

struct GraphLowering<'a> {
    graph: &'a Graph,
    options: &'a CompilerOptions,
    assignment: &'a LayoutAssignment,
    loads: Vec<bool>,
    buffers: Vec<LoweredBuffer>,
    steps: Vec<LoweredStep>,
    of: HashMap<TensorId, BufferId>,
    copies: HashMap<(TensorId, CopyBytes, usize), MadeCopy>,
    /// Of every tensor, the layouts that readers need, each once.
    wanted: HashMap<TensorId, Vec<OperandLayout>>,
    /// How many copies a tensor has.
    copied: HashMap<TensorId, usize>,
    answered: &'a mut AnsweredSteps,
    /// Names of the graph.
    names: HashSet<String>,
    /// Of every tensor, the operations that read it or a view of it, with the number of the operand.
    uses: Vec<Vec<(NodeId, usize)>>,
    /// Tensors that the caller gets, or views of them.
    returned: HashSet<TensorId>,
    readers: usize,
}

/// Of every tensor, the operations that read it or a view of it, with the number of the operand.
fn collect_uses(graph: &Graph) -> Vec<Vec<(NodeId, usize)>> {
    let mut uses = vec![Vec::new(); graph.tensors().count()];
    for (id, node) in graph.nodes() {
        for (k, operand) in node.inputs.iter().enumerate() {
            uses[graph.base_and_view(*operand).0.0].push((id, k));
        }
    }
    uses
}

impl GraphLowering<'_> {
    /// The name, or one like it that no tensor has.
    fn free_name(&self, name: String) -> String {
        let taken = |n: &str| self.names.contains(n);
        if !taken(&name) {
            return name;
        }
        let more = (2..).map(|k| format!("{name}.{k}"));
        more.into_iter().find(|n| !taken(n)).unwrap_or(name)
    }

    fn push_buffer(&mut self, buffer: LoweredBuffer) -> BufferId {
        self.buffers.push(buffer);
        BufferId(self.buffers.len() - 1)
    }

    /// The buffer of a tensor in its own layout.
    fn add_tensor_buffer(&mut self, id: TensorId, origin: ElementOrigin) -> Result<BufferId> {
        let t = self.graph.get(id);
        let layout = self.assignment.tensors[id.0].as_ref().expect("a tensor that is no view");
        let given = matches!(origin, ElementOrigin::Input(_) | ElementOrigin::Constant(_));
        let laid = TensorLayout::new(self.options.storage, t.dtype, layout)?;
        let buffer = self.push_buffer(LoweredBuffer {
            name: t.name.clone(),
            tensor: id,
            laid,
            // A constant is written when the program is loaded, even where weights are given and nothing else is made
            // then.
            loaded: self.loads[id.0] || matches!(origin, ElementOrigin::Constant(_)),
            origin,
            memory: if given { MemoryClass::Own } else { MemoryClass::Temporary },
        });
        self.of.insert(id, buffer);
        Ok(buffer)
    }

    fn push_move_step(
        &mut self,
        name: String,
        read: BufferRead,
        to: BufferId,
        reader: Option<NodeId>,
        why: String,
        load: bool,
    ) -> Result<()> {
        let work = self.plan_move_work(&read.laid, &self.buffers[to.0].laid.clone())?;
        // A move is not divided by its loops: its plan is a list of bursts, which all cores share.
        let division = WorkDivision::on_one_core(read.laid.size().len());
        let decided = ("move".into(), "its bursts are shared by all cores".into());
        self.steps.push(LoweredStep {
            name,
            action: StepAction::Move { reader, why },
            reads: vec![read],
            writes: vec![to],
            load,
            space: None,
            default: StepDivision { division, work, decided, rounds: None },
        });
        Ok(())
    }

    /// What the cores do for a move, computed once for the same two layouts.
    fn plan_move_work(
        &mut self,
        from: &TensorLayout,
        to: &TensorLayout,
    ) -> Result<Rc<OperationWork>> {
        let ends = (from.clone(), to.clone());
        if let Some(known) = self.answered.moves.get(&ends) {
            return Ok(known.clone());
        }
        let moved = from.plan_padded_copy_to(to)?;
        let work = Rc::new(moved.device_work("move", WorkKind::Restickify, self.options.cores));
        self.answered.moves.insert(ends, work.clone());
        Ok(work)
    }

    /// A copy whose result is pinned, as one move from the operand into the pinned layout. A kernel cannot change the
    /// stick dimension while it copies, so that the copy as an operation would take a move beside it. False where the
    /// operation alone gives that layout, or where the programmer divides it.
    fn move_pinned_copy(&mut self, id: NodeId, node: &GraphNode) -> Result<bool> {
        let ([operand], [out]) = (&node.inputs[..], &node.outputs[..]) else { return Ok(false) };
        let host = self.options.coverage.runs_on_host(node.op.layer());
        let pinned = self.graph.get(*out).pin.is_some();
        // With a hint the programmer divides the copy, and a move has no loops that could be divided.
        if !is_copy(node) || !pinned || host || !node.hint.is_empty() {
            return Ok(false);
        }
        let chosen = &self.assignment.nodes[id.0];
        let own = self.assignment.tensors[out.0].as_ref().expect("a tensor that is no view");
        let (base, _) = self.graph.base_and_view(*operand);
        let mine = self.buffers[self.of[&base].0].laid.stick_layout();
        let in_place =
            |key: &OperandLayout| is_read_in_place(self.options, self.graph.get(base), mine, key);
        if chosen.results[0] == *own && chosen.operands[0].as_ref().is_none_or(in_place) {
            return Ok(false);
        }
        let read = self.read_operand(*operand, None, Some(id))?;
        let load = self.loads[out.0];
        let to = self.add_tensor_buffer(*out, ElementOrigin::Result)?;
        if load {
            self.buffers[to.0].memory = MemoryClass::Own;
        }
        let name = self.graph.get(*out).name.clone();
        self.push_move_step(name, read, to, None, "its layout is pinned".into(), load)?;
        Ok(true)
    }

    fn lower_node(&mut self, id: NodeId, node: &GraphNode) -> Result<()> {
        self.readers += 1;
        if self.move_pinned_copy(id, node)? {
            return Ok(());
        }
        let chosen = self.assignment.nodes[id.0].clone();
        let mut reads = Vec::with_capacity(node.inputs.len());
        for (k, (operand, key)) in node.inputs.iter().zip(&chosen.operands).enumerate() {
            let padded = match self.product_summed_dim(node, k) {
                Some(dim) => self.pad_operand_layout(*operand, key.as_ref(), dim)?,
                None => None,
            };
            reads.push(self.read_operand(*operand, padded.as_ref().or(key.as_ref()), Some(id))?);
        }
        let load = self.loads[node.outputs[0].0];
        let (mut writes, mut repinned) = (Vec::new(), Vec::new());
        for (out, layout) in node.outputs.iter().zip(&chosen.results) {
            let own = self.add_tensor_buffer(*out, ElementOrigin::Result)?;
            if load {
                self.buffers[own.0].memory = MemoryClass::Own;
            }
            if self.buffers[own.0].laid.stick_layout() == layout {
                writes.push(own);
                continue;
            }
            let t = self.graph.get(*out);
            let made = self.push_buffer(LoweredBuffer {
                name: self.free_name(format!("{}.unpinned", t.name)),
                tensor: *out,
                laid: TensorLayout::new(self.options.storage, t.dtype, layout)?,
                origin: ElementOrigin::Result,
                memory: if load { MemoryClass::Own } else { MemoryClass::Temporary },
                loaded: load,
            });
            // The pinned buffer is the tensor for all readers, so that the kernel's own result becomes a temporary
            // one beside it.
            self.buffers[own.0].origin = ElementOrigin::Copy(made);
            writes.push(made);
            repinned.push((made, own));
        }
        let op = self.write_in_place(id, node, &reads, &writes).unwrap_or_else(|| node.op.clone());
        let name = self.graph.get(node.outputs[0]).name.clone();
        let ins: Vec<TensorLayout> = reads.iter().map(|r| r.laid.clone()).collect();
        let outs: Vec<TensorLayout> =
            writes.iter().map(|b| self.buffers[b.0].laid.clone()).collect();
        let (action, space, default) = if self.options.coverage.runs_on_host(node.op.layer()) {
            let (division, work) =
                (WorkDivision::on_one_core(0), Rc::new(node.op.plan_round_trip(&ins, &outs)?));
            let decided = ("host".into(), "the card does not run it".into());
            let default = StepDivision { division, work, decided, rounds: None };
            (StepAction::Host(id, node.op.clone()), None, default)
        } else {
            let in_place = writes
                .iter()
                .any(|b| matches!(self.buffers[b.0].memory, MemoryClass::InPlaceOf(_)));
            let asked = self.answered.describe_op(self.graph, id);
            // Writing over an operand saves its copy in some kernels, so that the plan depends on it.
            let question = (asked, in_place, ins.iter().chain(&outs).cloned().collect::<Vec<_>>());
            let (space, default) = match self.answered.planned.get(&question) {
                Some(known) => known.clone(),
                None => {
                    let space = op.iteration_space(&ins, &outs)?;
                    let (division, work) = op.plan_work(&ins, &outs, None, self.options.cores)?;
                    let decided = ("work_distribution".into(), "the default distribution".into());
                    let work = Rc::new(work);
                    let default = StepDivision { division, work, decided, rounds: None };
                    self.answered.planned.insert(question, (space.clone(), default.clone()));
                    (space, default)
                }
            };
            (StepAction::Op(id, op), space, default)
        };
        self.steps.push(LoweredStep { name, action, reads, writes, load, space, default });
        for (made, own) in repinned {
            let read = BufferRead { buffer: made, laid: self.buffers[made.0].laid.clone() };
            let name = self.buffers[own.0].name.clone();
            self.push_move_step(name, read, own, None, "its layout is pinned".into(), load)?;
        }
        Ok(())
    }
}

impl GraphLowering<'_> {
    /// The summed dimension of an operand that is the right one of a product; none of any other.
    fn product_summed_dim(&self, node: &GraphNode, operand: usize) -> Option<usize> {
        let OpForm::Product(product) = node.op.form() else { return None };
        let rank = self.graph.get(node.inputs[operand]).size.len();
        (operand == product.roles.b).then(|| find_summed_dim(product, rank))?
    }

    /// Weights that only products read, and sum over, are written with their rows of zeros when they are loaded: what
    /// is transferred has zeros wherever there is no element.
    fn pad_weights(&mut self) -> Result<()> {
        if self.options.weights != WeightLayoutRule::Free {
            return Ok(());
        }
        let weights: Vec<TensorId> = self
            .graph
            .tensors()
            .filter(|(_, t)| t.def == TensorOrigin::Input(InputRole::Weight) && t.pin.is_none())
            .map(|(id, _)| id)
            .collect();
        for id in weights {
            let mut wanted: Option<StickLayout> = None;
            let mut all =
                !self.graph.outputs().iter().any(|o| self.graph.base_and_view(*o).0 == id);
            for (node, k) in self.graph.uses_of_tensor(id).collect::<Vec<_>>() {
                let (of, chosen) = (self.graph.node(node), &self.assignment.nodes[node.0]);
                let key = chosen.operands.get(k).and_then(Option::as_ref);
                let padded = match self.product_summed_dim(of, k) {
                    Some(dim) => self.pad_operand_layout(of.inputs[k], key, dim)?,
                    None => None,
                };
                let layout = padded.filter(|p| p.view.is_none()).map(|p| p.layout);
                all &=
                    layout.is_some() && wanted.as_ref().is_none_or(|w| Some(w) == layout.as_ref());
                wanted = layout;
            }
            if let (Some(layout), true) = (wanted, all) {
                let dtype = self.graph.get(id).dtype;
                let laid = TensorLayout::new(self.options.storage, dtype, &layout)?;
                let own = self.of[&id];
                self.buffers[own.0].laid = laid;
            }
        }
        Ok(())
    }

    /// How the right operand of a product is read where its summed dimension does not fill whole sticks: with rows of
    /// zeros up to there. None where it does, where lanes run along the dimension, or where it has one element.
    fn pad_operand_layout(
        &self,
        operand: TensorId,
        key: Option<&OperandLayout>,
        dim: usize,
    ) -> Result<Option<OperandLayout>> {
        let (base, view) = self.graph.base_and_view(operand);
        let dtype = self.graph.get(operand).dtype;
        let own = self.of[&base];
        let mine =
            OperandLayout { view: None, layout: self.buffers[own.0].laid.stick_layout().clone() };
        let key = key.unwrap_or(&mine);
        let laid = bind_operand_layout(self.options, dtype, key, view)?;
        let Ok(form) = laid.stick_form() else { return Ok(None) };
        let n = form.size[dim];
        let rows = n.next_multiple_of(form.eps);
        // A dimension of one element has no step of its own on the device, so that nothing tells its rows from others.
        if n == rows || n <= 1 || form.stick.is_none_or(|s| s == dim) || form.numel() == 0 {
            return Ok(None);
        }
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        if let Some(layout) = laid.with_padded_rows(form.stride[dim], whole(n), whole(rows)) {
            return Ok(Some(OperandLayout { view: key.view.clone(), layout }));
        }
        if laid.rows_past_the_end().is_some() {
            return Ok(None);
        }
        // A part of a longer dimension: what follows it are elements, so the part is copied.
        let stick = form.stick.map_or(-1, whole);
        let outer = (0..form.rank()).filter(|d| *d != dim && Some(*d) != form.stick).map(whole);
        let order: Vec<i64> = [whole(dim)].into_iter().chain(outer).chain([stick]).collect();
        let format = laid.stick_layout().device_dtype();
        let layout = StickLayout::with_dim_order_in_format(laid.size(), None, format, &order)?;
        let alone = TensorLayout::new(self.options.storage, dtype, &layout)?;
        let (view, step) = (Some(laid.view().clone()), form.eps);
        if key.view.is_some() {
            return Ok(None);
        }
        let layout = alone.with_padded_rows(step, whole(n), whole(rows));
        Ok(layout.map(|layout| OperandLayout { view, layout }))
    }

    /// The operation with its result in the place of an operand that has no later reader: a state, or
    /// a result of the program.
    fn write_in_place(
        &mut self,
        id: NodeId,
        node: &GraphNode,
        reads: &[BufferRead],
        writes: &[BufferId],
    ) -> Option<TensorOp> {
        if self.options.coverage.runs_on_host(node.op.layer()) {
            return None;
        }
        let ([out], (operand, op)) = (writes, node.op.overwriting_form()?) else { return None };
        let (read, tensor) = (&reads[operand], node.inputs[operand]);
        let from = &self.buffers[read.buffer.0];
        let mine = matches!(
            from.origin,
            ElementOrigin::Input(InputRole::State) | ElementOrigin::Result | ElementOrigin::Copy(_)
        );
        let whole = read.laid == from.laid && from.laid == self.buffers[out.0].laid;
        let last = self.uses[self.graph.base_and_view(tensor).0.0]
            .iter()
            .all(|(n, k)| *n < id || (*n == id && *k == operand));
        // Readers of a shared copy may come after this operation, and they would read the overwritten elements: the
        // copy is then no operand whose last use this is.
        let kept = self.returned.contains(&from.tensor);
        if !mine || !whole || !last || kept || from.loaded {
            return None;
        }
        self.buffers[out.0].memory = MemoryClass::InPlaceOf(read.buffer);
        Some(op)
    }
}

/// Whether an operation gives the elements of its operand, unchanged.
pub(crate) fn is_copy(node: &GraphNode) -> bool {
    matches!(node.op.name(), "clone" | "identity")
}

/// The state that a tensor is the next value of: operations that write into their operand are followed back to it.
fn find_state(graph: &Graph, mut id: TensorId) -> Option<TensorId> {
    loop {
        match &graph.get(id).def {
            TensorOrigin::Input(InputRole::State) => return Some(id),
            TensorOrigin::Result(node, 0) => {
                let node = graph.node(*node);
                let (operand, _) = node.op.overwriting_form()?;
                id = node.inputs[operand];
            }
            _ => return None,
        }
    }
}
