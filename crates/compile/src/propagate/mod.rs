//! Layout propagation: for every operation, the ways it can run and the layouts that its results then
//! have.
//!
//! This pass holds no rules for operations. Each rule is the kernel's own, which plans on tensors without memory here,
//! so that the compiler cannot promise layouts that the kernel then refuses. An **alternative** is a layout for each
//! operand with which the kernel needs no further move, the layouts of its results, and what the operation itself
//! costs. Operands are tried in every layout that their tensor can have, seen through their view, and in the layouts
//! that kernels need:
//!
//! - where an operand has another layout than its kernel needs, a copy of the operand in that one;
//! - the stick dimensions of the other operands, where kernels need one for all;
//! - the same stick with batches outermost, where the account calls a product's batches slow;
//! - under the policy `best`, in graphs of at most 256 operations, every stick dimension, so that a layout
//!   that a reader or a programmer needs of a result can also be had by moving an operand, where that is the smaller
//!   tensor.
//!
//! Results are written in the kernel's own layout, and under `best` also directly in the other orders of dimensions
//! that are needed of them: those of pins, of the caller, of readers through merged views, and the usual ones; in
//! graphs of at most 12 operations, results of at most three dimensions in every order, so that no order that a pin may
//! name is missing.
//!
//! Repeated layers meet the same operations on the same candidates, which are asked once. The search for the
//! alternatives of one operation is in `probe`.

mod copies;
mod costs;
mod orders;
mod probe;
mod replay;
mod strict;

use crate::choose::demanded_output_layout;
use crate::error::Result;
use crate::options::{CompilePolicy, CompilerOptions, WeightLayoutRule};
pub(crate) use copies::{CopyBytes, copy_bytes, view_in_copy, whole_copy};
use costs::OpCosts;
use probe::AlternativeProbe;
pub(crate) use replay::{ChosenAlternatives, ReplayedLayouts};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use zellige_device::PlanOp;
use zellige_device::{LayoutNeed, TensorLayout};
use zellige_graph::{Graph, GraphNode, GraphTensor, InputRole, NodeId, TensorId, TensorOrigin};
use zellige_layout::StridedLayout;
use zellige_stick::LayoutRequest;
use zellige_stick::StickLayout;

/// How an operand is read: the tensor in this layout, or a copy of the operand's view in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperandLayout {
    /// The view that was copied; none reads the tensor itself, through the operand's view.
    pub view: Option<StridedLayout>,
    /// The layout of the tensor, or of the copy.
    pub layout: StickLayout,
}

/// Whether two layouts of one tensor have every element at the same coordinates: they differ at most in device
/// dimensions of extent 1.
pub(crate) fn have_same_coordinates(a: &StickLayout, b: &StickLayout) -> bool {
    let steps = |l: &StickLayout| -> Vec<(i64, i64)> {
        let all = l.device_size().iter().zip(l.stride_map());
        // A device dimension of extent 1 has the one coordinate 0, whatever its stride says. The stick dimension is
        // kept: its extent says how many lanes a stick has.
        let last = l.device_rank() - 1;
        let kept = all.enumerate().filter(|(d, (n, _))| *d == last || **n != 1);
        kept.map(|(_, (n, s))| (*n, *s)).collect()
    };
    let same = a.device_dtype() == b.device_dtype() && a.arrangement() == b.arrangement();
    a == b || (same && steps(a) == steps(b))
}

/// One way to run an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OpAlternative {
    /// How each operand is read; none accepts it in any layout.
    pub operands: Vec<Option<OperandLayout>>,
    /// The layout of each result.
    pub results: Vec<StickLayout>,
    /// Cycles of the operation alone, in the default division.
    pub cycles: u64,
    /// The operation takes no fewer cycles in any division, whatever stays in the scratchpads.
    pub least: u64,
}

/// All operations' alternatives, and all tensors' layouts.
#[derive(Debug, Clone)]
pub struct GraphCandidates {
    /// By operation.
    pub nodes: Vec<Rc<Vec<OpAlternative>>>,
    /// By tensor: the layouts it may have; none for views.
    pub tensors: Vec<Vec<StickLayout>>,
}

/// The most layouts of one operand that are tried.
// Two operands with 20 layouts each are the 400 combinations that `probe` tries.
const MAX_OPERAND_LAYOUTS: usize = 20;
/// Graphs of at most this many operations have every stick of every operand as candidates; larger ones have what
/// kernels, readers, pins and the caller need, so that compiling them stays quick.
const MAX_OPS_WITH_EVERY_STICK: usize = 256;
/// Graphs of at most this many operations have every order of the dimensions of a result as candidates.
// An order that a pin can name has to be a candidate for the search to be as good as the pin. Only small graphs can
// afford the larger lists; the limit is that of `single_pins`, which compares with pins.
const MAX_OPS_WITH_EVERY_ORDER: usize = 12;

/// The layout that a pin means for a tensor.
///
/// # Errors
/// Pins that do not fit the size.
pub fn resolve_pin(
    pin: &LayoutRequest,
    size: &[i64],
    default: &StickLayout,
) -> Result<StickLayout> {
    let format = default.device_dtype();
    let laid = |want: LayoutNeed| -> Result<StickLayout> {
        let storage = zellige_device::StoragePolicy::default();
        // The need is expressed with a dtype of 16 bits and then written in the format of the tensor: a pin names
        // dimensions, and their order does not depend on the format.
        let dtype = zellige_float::Dtype::Float16;
        let plain = StickLayout::default_for_dtype(size, dtype)?;
        let like = want.fitting_layout(&TensorLayout::new(storage, dtype, &plain)?)?;
        Ok(if like.device_dtype() == format {
            like
        } else {
            like.with_device_format(format, None)?
        })
    };
    Ok(match pin {
        LayoutRequest::Stick(d) => {
            laid(LayoutNeed::Along(usize::try_from(*d).unwrap_or(usize::MAX)))?
        }
        LayoutRequest::Sparse => laid(LayoutNeed::Sparse)?,
        LayoutRequest::Order(order) => {
            StickLayout::with_dim_order_in_format(size, None, format, order)?
        }
        LayoutRequest::Exactly(layout) => layout.with_host(size, None)?,
    })
}

/// The candidates of every operation of a graph, in order.
///
/// # Errors
/// Operations that run with no layouts at all, with the reason of the kernel; with `strict`, what torch-spyre refuses.
pub fn propagate_layouts(graph: &Graph, options: &CompilerOptions) -> Result<GraphCandidates> {
    propagate_known(graph, options, &mut AskedOps::default())
}

/// The same, with what is known about operations under the same options or under their other policy.
///
/// # Errors
/// As [`propagate_layouts`].
pub(crate) fn propagate_known(
    graph: &Graph,
    options: &CompilerOptions,
    asked: &mut AskedOps,
) -> Result<GraphCandidates> {
    let small = graph.nodes().count() <= MAX_OPS_WITH_EVERY_STICK;
    collect_candidates(graph, options, options.policy == CompilePolicy::Best && small, asked)
}

/// The same without every stick of every operand.
///
/// # Errors
/// As [`propagate_layouts`].
pub(crate) fn propagate_asked_layouts(
    graph: &Graph,
    options: &CompilerOptions,
    asked: &mut AskedOps,
) -> Result<GraphCandidates> {
    collect_candidates(graph, options, false, asked)
}

fn collect_candidates(
    graph: &Graph,
    options: &CompilerOptions,
    every_stick: bool,
    asked: &mut AskedOps,
) -> Result<GraphCandidates> {
    let every_order = every_stick && graph.nodes().count() <= MAX_OPS_WITH_EVERY_ORDER;
    let AskedOps { answers, costs } = asked;
    let asked = answers.entry((options.policy, every_stick, every_order)).or_default();
    let mut pass = LayoutPropagation {
        graph,
        options,
        tensors: vec![Vec::new(); graph.tensors().count()],
        wanted: collect_wanted_results(graph, options)?,
        returned: find_returned_tensors(graph),
        every_stick,
        every_order,
        asked,
        costs,
    };
    let nodes = pass.propagate_all()?;
    Ok(GraphCandidates { nodes, tensors: pass.tensors })
}

/// Layouts that pins, readers or the caller need of a tensor, beside those that kernels lead to.
type WantedLayouts = BTreeMap<usize, Vec<StickLayout>>;

/// Which tensors the caller gets, or views of them.
fn find_returned_tensors(graph: &Graph) -> Vec<bool> {
    let mut returned = vec![false; graph.tensors().count()];
    graph.outputs().iter().for_each(|o| returned[graph.base_and_view(*o).0.0] = true);
    returned
}

/// Per tensor, the layouts in which its operation would best write it: what it is pinned to, what the caller
/// needs of it or of a view of it, and what readers through merged views need.
fn collect_wanted_results(graph: &Graph, options: &CompilerOptions) -> Result<WantedLayouts> {
    let mut wanted = WantedLayouts::new();
    // torch-spyre has no such candidates: the results of its kernels have the kernel's own layouts.
    if options.policy != CompilePolicy::Best {
        return Ok(wanted);
    }
    for (id, t) in graph.tensors() {
        if let (TensorOrigin::Result(..), Some(pin)) = (&t.def, &t.pin) {
            let default =
                zellige_device::default_layout(&t.size, None, t.dtype, options.storage.keep)?;
            wanted.entry(id.0).or_default().push(resolve_pin(pin, &t.size, &default)?);
        }
    }
    for output in graph.outputs() {
        let base = graph.base_and_view(*output).0;
        if let Some(key) = demanded_output_layout(graph, options, *output)?
            && let Some(layout) = layout_behind_view(options, graph.get(base), &key)
        {
            wanted.entry(base.0).or_default().push(layout);
        }
    }
    for (_, node) in graph.nodes() {
        for operand in &node.inputs {
            let (base, view) = graph.base_and_view(*operand);
            let (t, seen) = (graph.get(base), graph.get(*operand));
            // A view of the same rank is a permutation or a slice, for which the tensor's own layouts serve. A merged
            // or split dimension needs an order of the tensor's dimensions that no kernel would choose by itself.
            let Some(view) = view.filter(|v| {
                matches!(t.def, TensorOrigin::Result(..))
                    && t.pin.is_none()
                    && v.rank() != t.size.len()
            }) else {
                continue;
            };
            // A tensor that is read through a merged or split view, in the default layout of that view.
            let layout =
                zellige_device::default_layout(&seen.size, None, t.dtype, options.storage.keep)?;
            let key = OperandLayout { view: Some(view.clone()), layout };
            if let Some(layout) = layout_behind_view(options, t, &key) {
                wanted.entry(base.0).or_default().push(layout);
            }
        }
    }
    Ok(wanted)
}

/// The layout of a tensor whose view then has the layout of the key without a copy; none where there is no such layout.
fn layout_behind_view(
    options: &CompilerOptions,
    t: &GraphTensor,
    key: &OperandLayout,
) -> Option<StickLayout> {
    let Some(view) = &key.view else { return Some(key.layout.clone()) };
    let plain = StridedLayout::new_contiguous(view.size()).ok()?;
    let step = |stride: i64| {
        if stride <= 0 || *view == plain {
            return Some(stride);
        }
        // A step of the device in the view has to become the same step in the tensor.
        // The dimension of the view that this step of the device moves along.
        let d = (0..plain.rank())
            .filter(|d| plain.size()[*d] > 1 && stride % plain.stride()[*d] == 0)
            .max_by_key(|d| plain.stride()[*d])?;
        Some(stride / plain.stride()[d] * view.stride()[d])
    };
    let map: Option<Vec<i64>> = key.layout.stride_map().iter().map(|s| step(*s)).collect();
    let format = key.layout.device_dtype();
    let layout =
        StickLayout::from_size_and_stride_map(key.layout.device_size(), &map?, format).ok()?;
    let layout = layout.with_host(&t.size, None).ok()?;
    is_read_in_place(options, t, &layout, key).then_some(layout)
}

/// Whether a reader finds its operand in place where the tensor has layout `own`: the tensor in exactly the layout of
/// the key, or a view of it whose elements have the coordinates that they would have in the copy.
pub(crate) fn is_read_in_place(
    options: &CompilerOptions,
    t: &GraphTensor,
    own: &StickLayout,
    key: &OperandLayout,
) -> bool {
    let Some(view) = &key.view else { return key.layout == *own };
    // A copy in another format holds other bytes.
    if own.device_dtype() != key.layout.device_dtype() {
        return false;
    }
    if key.layout == *own
        && StridedLayout::new_contiguous(&t.size).is_ok_and(|plain| plain == *view)
    {
        return true;
    }
    let dtype = t.dtype;
    let as_is = OperandLayout { view: None, layout: own.clone() };
    let seen =
        bind_operand_layout(options, dtype, &as_is, Some(view)).and_then(|l| Ok(l.stick_form()?));
    let copy = bind_operand_layout(options, dtype, key, None).and_then(|l| Ok(l.stick_form()?));
    matches!((seen, copy), (Ok(a), Ok(b)) if a == b)
}

struct LayoutPropagation<'a> {
    graph: &'a Graph,
    options: &'a CompilerOptions,
    tensors: Vec<Vec<StickLayout>>,
    wanted: WantedLayouts,
    /// Which tensors the caller gets, or views of them.
    returned: Vec<bool>,
    /// Whether every stick and the usual orders are candidates, and not only what pins, readers and the caller need.
    every_stick: bool,
    /// Whether every order of the dimensions of a result is a candidate, as far as the kernel writes it.
    every_order: bool,
    asked: &'a mut AnsweredOps,
    costs: &'a mut OpCosts,
}

/// Alternatives by what they depend on.
type AnsweredOps = HashMap<OpQuestion, Rc<Vec<OpAlternative>>>;

/// The alternatives of operations that are known: of repeated layers, and of the same graph with other pins.
#[derive(Default)]
pub(crate) struct AskedOps {
    /// By policy, and by whether every stick and every order are candidates.
    answers: HashMap<(CompilePolicy, bool, bool), AnsweredOps>,
    costs: OpCosts,
}

/// Everything that the alternatives of an operation depend on.
#[derive(PartialEq, Eq, Hash)]
struct OpQuestion {
    op: &'static str,
    attributes: String,
    operands: Vec<AskedOperand>,
    wanted: Vec<StickLayout>,
    /// Which of the operands and results never stay in the scratchpads.
    through_memory: Vec<bool>,
    /// Per operand, the first that is of the same tensor.
    same: Vec<usize>,
}

/// An operand: size and dtype of its tensor, its view, and the layouts that the tensor may have.
type AskedOperand = (Vec<i64>, zellige_float::Dtype, Option<StridedLayout>, Vec<StickLayout>);

impl LayoutPropagation<'_> {
    /// The alternatives of every operation, in order.
    fn propagate_all(&mut self) -> Result<Vec<Rc<Vec<OpAlternative>>>> {
        let graph = self.graph;
        for (id, t) in graph.tensors() {
            if matches!(t.def, TensorOrigin::Input(_) | TensorOrigin::Constant(_)) {
                let layout = input_layout(graph, self.options, id)?;
                self.tensors[id.0].push(layout);
            }
        }
        // Before the operations, because their alternatives combine the layouts that their operands may have.
        self.add_weight_layouts()?;
        let mut nodes = Vec::with_capacity(graph.nodes().count());
        for (id, node) in graph.nodes() {
            let list = self.ask_kernel(id, node).map_err(|e| e.at_operation(graph, id))?;
            for (k, out) in node.outputs.iter().enumerate() {
                let mut layouts: Vec<StickLayout> = Vec::new();
                for a in list.iter() {
                    if !layouts.contains(&a.results[k]) {
                        layouts.push(a.results[k].clone());
                    }
                }
                self.tensors[out.0] = match &graph.get(*out).pin {
                    // Readers of a pinned tensor see its pin alone; the operation still writes any of its own
                    // layouts, and a move follows.
                    Some(pin) => vec![resolve_pin(pin, &graph.get(*out).size, &layouts[0])?],
                    None => layouts,
                };
            }
            nodes.push(list);
        }
        Ok(nodes)
    }

    /// Adds the layouts that readers of a weight need: it may be loaded in one of them.
    fn add_weight_layouts(&mut self) -> Result<()> {
        if self.options.weights == WeightLayoutRule::Given {
            return Ok(());
        }
        for (_, node) in self.graph.nodes() {
            for (k, operand) in node.inputs.iter().enumerate() {
                let (base, view) = self.graph.base_and_view(*operand);
                let t = self.graph.get(base);
                if t.def != TensorOrigin::Input(InputRole::Weight)
                    || t.pin.is_some()
                    || view.is_some()
                {
                    continue;
                }
                // The kernel's need beside operands in their first layouts: an approximation, because the need may
                // depend on layouts that are chosen later. A wrong guess only adds a candidate.
                let firsts: Result<Vec<TensorLayout>> = node
                    .inputs
                    .iter()
                    .map(|o| {
                        let (base, view) = self.graph.base_and_view(*o);
                        let layout = match self.tensors[base.0].first() {
                            Some(l) => l.clone(),
                            None => input_layout(self.graph, self.options, base)?,
                        };
                        self.operand_tensor_layout(*o, &OperandLayout { view: None, layout }, view)
                    })
                    .collect();
                let Ok(firsts) = firsts else { continue };
                let Ok((_, lay)) = node.op.plan_layouts(&firsts) else { continue };
                if !lay.inputs[k].accepts_layout(&firsts[k]) {
                    let wanted = lay.inputs[k].fitting_layout(&firsts[k])?;
                    let list = &mut self.tensors[base.0];
                    if !list.contains(&wanted) && list.len() < MAX_OPERAND_LAYOUTS {
                        list.push(wanted);
                    }
                }
            }
        }
        Ok(())
    }

    /// The layout of an operand when it is read in this way.
    fn operand_tensor_layout(
        &self,
        operand: TensorId,
        key: &OperandLayout,
        view: Option<&StridedLayout>,
    ) -> Result<TensorLayout> {
        bind_operand_layout(self.options, self.graph.get(operand).dtype, key, view)
    }

    /// The layouts that pins, the caller or readers through views need of a result.
    fn wanted_layouts(&self, id: TensorId) -> &[StickLayout] {
        self.wanted.get(&id.0).map_or(&[], Vec::as_slice)
    }

    /// Whether a tensor is read from or written to device memory whatever is decided: it comes from outside, is read
    /// through a view, or goes to the caller.
    fn passes_through_memory(&self, id: TensorId) -> bool {
        !matches!(self.graph.get(id).def, TensorOrigin::Result(..)) || self.returned[id.0]
    }

    fn ask_kernel(&mut self, id: NodeId, node: &GraphNode) -> Result<Rc<Vec<OpAlternative>>> {
        let bases: Vec<TensorId> =
            node.inputs.iter().map(|o| self.graph.base_and_view(*o).0).collect();
        let operands = node.inputs.iter().map(|o| {
            let (base, view) = self.graph.base_and_view(*o);
            let t = self.graph.get(base);
            (t.size.clone(), t.dtype, view.cloned(), self.tensors[base.0].clone())
        });
        // The question holds everything that the answer depends on and no names, so that the layers of a model, which
        // differ in names alone, are asked once.
        let question = OpQuestion {
            op: node.op.name(),
            attributes: serde_json::to_string(&node.attributes).unwrap_or_default(),
            operands: operands.collect(),
            wanted: node.outputs.iter().flat_map(|o| self.wanted_layouts(*o)).cloned().collect(),
            through_memory: node
                .inputs
                .iter()
                .chain(&node.outputs)
                .map(|t| self.passes_through_memory(*t))
                .collect(),
            same: bases.iter().map(|b| bases.iter().position(|o| o == b).unwrap_or(0)).collect(),
        };
        if let Some(known) = self.asked.get(&question) {
            return Ok(known.clone());
        }
        // Taken out while the probe borrows the pass: costs outlive the question, because another pin asks about
        // other lists of the same layouts.
        let mut costs = std::mem::take(self.costs);
        let asked = format!("{} {}", question.op, question.attributes);
        let probe = AlternativeProbe {
            pass: self,
            node,
            name: self.graph.get(node.outputs[0]).name.clone(),
            costs: RefCell::new(costs.of(asked)),
        };
        let list = probe.find_alternatives(id);
        drop(probe);
        *self.costs = costs;
        let list = Rc::new(list?);
        self.asked.insert(question, list.clone());
        Ok(list)
    }
}

/// The layout of a tensor from outside.
///
/// # Errors
/// Sizes without a default layout, and pins that do not fit the size.
fn input_layout(graph: &Graph, options: &CompilerOptions, id: TensorId) -> Result<StickLayout> {
    let t = graph.get(id);
    let default = zellige_device::default_layout(&t.size, None, t.dtype, options.storage.keep)?;
    match &t.pin {
        Some(pin) => resolve_pin(pin, &t.size, &default),
        None => Ok(default),
    }
}

/// The layout of an operand of that dtype when it is read in this way through its view.
pub(crate) fn bind_operand_layout(
    options: &CompilerOptions,
    dtype: zellige_float::Dtype,
    key: &OperandLayout,
    view: Option<&StridedLayout>,
) -> Result<TensorLayout> {
    let whole = TensorLayout::new(options.storage, dtype, &key.layout)?;
    match (view, &key.view) {
        (Some(view), None) => Ok(whole.view_layout(|_| Ok(view.clone()))?),
        _ => Ok(whole),
    }
}
