//! Layout propagation: for every operation, the ways it can run and the layouts that its results then
//! have.
//!
//! Nothing of an operation is written down here: its kernel is asked, on tensors without memory. An
//! **alternative** is a layout for each operand with which the kernel needs no further move, the
//! layouts of its results, and what the operation itself costs. Operands are tried in every layout that
//! their tensor can have, seen through their view, and in the layouts that kernels ask for:
//!
//! - where an operand has another layout than its kernel wants, a copy of the operand in that one;
//! - the stick dimensions of the other operands, where kernels want one for all;
//! - the same stick with batches outermost, where the account calls a product's batches slow.
//!
//! Repeated layers meet the same operations on the same candidates, which are asked once. The search for the
//! alternatives of one operation is in `probe`.

mod probe;

use crate::error::Result;
use crate::options::{Options, WeightLayouts};
use probe::Probe;
use std::collections::HashMap;
use std::rc::Rc;
use zellige_device::PlanOp;
use zellige_device::{LayoutNeed, TensorLayout};
use zellige_graph::{Def, Graph, Node, NodeId, Role, TensorId};
use zellige_layout::Strided;
use zellige_stick::LayoutRequest;
use zellige_stick::StickLayout;

/// How an operand is read: the tensor in this layout, or a copy of the operand's view in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperandLayout {
    /// The view that was copied; none reads the tensor itself, through the operand's view.
    pub view: Option<Strided>,
    /// The layout of the tensor, or of the copy.
    pub layout: StickLayout,
}

/// Whether two layouts of one tensor have every element in the same place: they differ at most in device
/// dimensions of extent 1.
pub(crate) fn same_places(a: &StickLayout, b: &StickLayout) -> bool {
    let steps = |l: &StickLayout| -> Vec<(i64, i64)> {
        let all = l.device_size().iter().zip(l.stride_map());
        let last = l.device_rank() - 1;
        let kept = all.enumerate().filter(|(d, (n, _))| *d == last || **n != 1);
        kept.map(|(_, (n, s))| (*n, *s)).collect()
    };
    let same = a.device_dtype() == b.device_dtype() && a.arrangement() == b.arrangement();
    a == b || (same && steps(a) == steps(b))
}

/// One way to run an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    /// How each operand is read; none as it lies, however that is.
    pub operands: Vec<Option<OperandLayout>>,
    /// How each result lies.
    pub results: Vec<StickLayout>,
    /// Cycles of the operation alone, in the default division.
    pub cycles: u64,
}

/// All operations' alternatives, and all tensors' layouts.
#[derive(Debug, Clone)]
pub struct Candidates {
    /// By operation.
    pub nodes: Vec<Rc<Vec<Alternative>>>,
    /// By tensor: the layouts it may have; none for views.
    pub tensors: Vec<Vec<StickLayout>>,
}

/// The most layouts of one operand that are tried.
const OPTIONS: usize = 8;
/// The layout that a pin means for a tensor.
///
/// # Errors
/// Pins that do not fit the size.
pub fn pinned(pin: &LayoutRequest, size: &[i64], default: &StickLayout) -> Result<StickLayout> {
    let format = default.device_dtype();
    let laid = |want: LayoutNeed| -> Result<StickLayout> {
        let storage = zellige_device::Storage::default();
        let dtype = zellige_float::Dtype::Float16;
        let plain = StickLayout::default(size, dtype)?;
        let like = want.layout(&TensorLayout::new(storage, dtype, &plain)?)?;
        Ok(if like.device_dtype() == format { like } else { like.with_dtype(format, None)? })
    };
    Ok(match pin {
        LayoutRequest::Stick(d) => {
            laid(LayoutNeed::Along(usize::try_from(*d).unwrap_or(usize::MAX)))?
        }
        LayoutRequest::Sparse => laid(LayoutNeed::Sparse)?,
        LayoutRequest::Order(order) => StickLayout::with_dim_order_in(size, None, format, order)?,
        LayoutRequest::Exactly(layout) => layout.with_host(size, None)?,
    })
}

/// Asks every operation of a graph, in order.
///
/// # Errors
/// Operations that run with no layouts at all, with the reason of the kernel; with `strict`, what
/// upstream refuses.
pub fn propagate(graph: &Graph, options: &Options) -> Result<Candidates> {
    let mut pass = Propagation {
        graph,
        options,
        tensors: vec![Vec::new(); graph.tensors().count()],
        asked: HashMap::new(),
    };
    for (id, t) in graph.tensors() {
        let given = matches!(t.def, Def::Input(_) | Def::Constant(_));
        if given {
            let layout = pass.given(id)?;
            pass.tensors[id.0].push(layout);
        }
    }
    pass.free_weights()?;
    let mut nodes = Vec::with_capacity(graph.nodes().count());
    for (id, node) in graph.nodes() {
        let list = pass.ask(id, node)?;
        for (k, out) in node.outputs.iter().enumerate() {
            let mut layouts: Vec<StickLayout> = Vec::new();
            for a in list.iter() {
                if !layouts.contains(&a.results[k]) {
                    layouts.push(a.results[k].clone());
                }
            }
            pass.tensors[out.0] = match &graph.get(*out).pin {
                Some(pin) => vec![pinned(pin, &graph.get(*out).size, &layouts[0])?],
                None => layouts,
            };
        }
        nodes.push(list);
    }
    Ok(Candidates { nodes, tensors: pass.tensors })
}

struct Propagation<'a> {
    graph: &'a Graph,
    options: &'a Options,
    tensors: Vec<Vec<StickLayout>>,
    asked: HashMap<OpQuestion, Rc<Vec<Alternative>>>,
}

/// Everything that the alternatives of an operation depend on.
#[derive(PartialEq, Eq, Hash)]
struct OpQuestion {
    op: &'static str,
    attributes: String,
    operands: Vec<Asked>,
}

/// An operand: size and dtype of its tensor, its view, and the layouts that the tensor may have.
type Asked = (Vec<i64>, zellige_float::Dtype, Option<Strided>, Vec<StickLayout>);

impl Propagation<'_> {
    /// The layout of a tensor from outside.
    fn given(&self, id: TensorId) -> Result<StickLayout> {
        let t = self.graph.get(id);
        let keep = self.options.storage.keep;
        let default = zellige_device::default_layout(&t.size, None, t.dtype, keep)?;
        match &t.pin {
            Some(pin) => pinned(pin, &t.size, &default),
            None => Ok(default),
        }
    }

    /// Weights may also be loaded in the layouts that their readers ask for.
    fn free_weights(&mut self) -> Result<()> {
        if self.options.weights == WeightLayouts::Given {
            return Ok(());
        }
        for (_, node) in self.graph.nodes() {
            for (k, operand) in node.inputs.iter().enumerate() {
                let (base, view) = self.graph.base(*operand);
                let t = self.graph.get(base);
                if t.def != Def::Input(Role::Weight) || t.pin.is_some() || view.is_some() {
                    continue;
                }
                // What the kernel wants of it beside operands in their first layouts.
                let firsts: Result<Vec<TensorLayout>> = node
                    .inputs
                    .iter()
                    .map(|o| {
                        let (base, view) = self.graph.base(*o);
                        let layout = match self.tensors[base.0].first() {
                            Some(l) => l.clone(),
                            None => self.given(base)?,
                        };
                        self.laid(*o, &OperandLayout { view: None, layout }, view)
                    })
                    .collect();
                let Ok(firsts) = firsts else { continue };
                let Ok((_, lay)) = node.op.lay(&firsts) else { continue };
                if !lay.inputs[k].fits(&firsts[k]) {
                    let wanted = lay.inputs[k].layout(&firsts[k])?;
                    let list = &mut self.tensors[base.0];
                    if !list.contains(&wanted) && list.len() < OPTIONS {
                        list.push(wanted);
                    }
                }
            }
        }
        Ok(())
    }

    /// How an operand lies when it is read so.
    fn laid(
        &self,
        operand: TensorId,
        key: &OperandLayout,
        view: Option<&Strided>,
    ) -> Result<TensorLayout> {
        laid(self.options, self.graph.get(operand).dtype, key, view)
    }

    fn ask(&mut self, id: NodeId, node: &Node) -> Result<Rc<Vec<Alternative>>> {
        let operands = node.inputs.iter().map(|o| {
            let (base, view) = self.graph.base(*o);
            let t = self.graph.get(base);
            (t.size.clone(), t.dtype, view.cloned(), self.tensors[base.0].clone())
        });
        let question = OpQuestion {
            op: node.op.name(),
            attributes: serde_json::to_string(&node.attributes).unwrap_or_default(),
            operands: operands.collect(),
        };
        if let Some(known) = self.asked.get(&question) {
            return Ok(known.clone());
        }
        let probe = Probe { pass: self, node, name: self.graph.get(node.outputs[0]).name.clone() };
        let list = Rc::new(probe.alternatives(id)?);
        self.asked.insert(question, list.clone());
        Ok(list)
    }
}

/// How an operand of that dtype lies when it is read so through its view.
pub(crate) fn laid(
    options: &Options,
    dtype: zellige_float::Dtype,
    key: &OperandLayout,
    view: Option<&Strided>,
) -> Result<TensorLayout> {
    let whole = TensorLayout::new(options.storage, dtype, &key.layout)?;
    match (view, &key.view) {
        (Some(view), None) => Ok(whole.seen(|_| Ok(view.clone()))?),
        _ => Ok(whole),
    }
}
