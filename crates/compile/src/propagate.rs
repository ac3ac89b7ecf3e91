//! Layout propagation: for every operation, the ways it can run and the layouts that its results then
//! have.
//!
//! Nothing of an operation is written down here: its kernel is asked, on tensors without memory. An
//! **alternative** is a layout for each operand with which the kernel needs no further move, the
//! layouts of its results, and what the operation itself costs. Operands are tried in every layout that
//! their tensor can have, seen through their view, and in the layouts that kernels ask for:
//!
//! - what a kernel wants of an operand that does not lie so, as a copy of that operand;
//! - the stick dimensions of the other operands, where kernels want one for all;
//! - the same stick with batches outermost, where the account calls a product's batches slow.
//!
//! Repeated layers meet the same operations on the same candidates, which are asked once.

use crate::divide::Policy;
use crate::error::{CompileError, Result};
use crate::options::{Options, Weights};
use std::collections::HashMap;
use std::rc::Rc;
use zellige_device::PlanOp;
use zellige_device::{Laid, Want};
use zellige_graph::{Def, Graph, Node, NodeId, Pin, Role, TensorId};
use zellige_layout::{StickLayout, Strided};
use zellige_machine::{Work, WorkKind};
use zellige_op::Form;
use zellige_op::Op;

/// How an operand is read: the tensor in this layout, or a copy of the operand's view in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The view that was copied; none reads the tensor itself, through the operand's view.
    pub view: Option<Strided>,
    /// The layout of the tensor, or of the copy.
    pub layout: StickLayout,
}

/// Whether two layouts of one tensor have every element in the same place: they differ at most in device
/// dimensions of extent 1.
pub(crate) fn alike(a: &StickLayout, b: &StickLayout) -> bool {
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
    pub operands: Vec<Option<Key>>,
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
/// The most combinations of layouts of all operands that are tried.
const TUPLES: usize = 96;

/// The layout that a pin means for a tensor.
///
/// # Errors
/// Pins that do not fit the size.
pub fn pinned(pin: &Pin, size: &[i64], default: &StickLayout) -> Result<StickLayout> {
    let format = default.device_dtype();
    let laid = |want: Want| -> Result<StickLayout> {
        let storage = zellige_device::Storage::default();
        let dtype = zellige_layout::Dtype::Float16;
        let plain = StickLayout::default(size, dtype)?;
        let like = want.layout(&Laid::new(storage, dtype, &plain)?)?;
        Ok(if like.device_dtype() == format { like } else { like.with_dtype(format, None)? })
    };
    Ok(match pin {
        Pin::Stick(d) => laid(Want::Along(*d))?,
        Pin::Sparse => laid(Want::Sparse)?,
        Pin::Order(order) => StickLayout::with_dim_order_in(size, None, format, order)?,
        Pin::Layout(layout) => layout.with_host(size, None)?,
    })
}

/// Asks every operation of a graph, in order.
///
/// # Errors
/// Operations that run with no layouts at all, with the reason of the kernel; with `strict`, what
/// upstream refuses.
pub fn propagate(graph: &Graph, options: &Options) -> Result<Candidates> {
    let mut pass = Pass {
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

struct Pass<'a> {
    graph: &'a Graph,
    options: &'a Options,
    tensors: Vec<Vec<StickLayout>>,
    asked: HashMap<Question, Rc<Vec<Alternative>>>,
}

/// Everything that the alternatives of an operation depend on.
#[derive(PartialEq, Eq, Hash)]
struct Question {
    op: &'static str,
    attributes: String,
    operands: Vec<Asked>,
}

/// An operand: size and dtype of its tensor, its view, and the layouts that the tensor may have.
type Asked = (Vec<i64>, zellige_layout::Dtype, Option<Strided>, Vec<StickLayout>);

impl Pass<'_> {
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
        if self.options.weights == Weights::Given {
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
                let firsts: Result<Vec<Laid>> = node
                    .inputs
                    .iter()
                    .map(|o| {
                        let (base, view) = self.graph.base(*o);
                        let layout = match self.tensors[base.0].first() {
                            Some(l) => l.clone(),
                            None => self.given(base)?,
                        };
                        self.laid(*o, &Key { view: None, layout }, view)
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
    fn laid(&self, operand: TensorId, key: &Key, view: Option<&Strided>) -> Result<Laid> {
        laid(self.options, self.graph.get(operand).dtype, key, view)
    }

    fn ask(&mut self, id: NodeId, node: &Node) -> Result<Rc<Vec<Alternative>>> {
        let operands = node.inputs.iter().map(|o| {
            let (base, view) = self.graph.base(*o);
            let t = self.graph.get(base);
            (t.size.clone(), t.dtype, view.cloned(), self.tensors[base.0].clone())
        });
        let question = Question {
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
    dtype: zellige_layout::Dtype,
    key: &Key,
    view: Option<&Strided>,
) -> Result<Laid> {
    let whole = Laid::new(options.storage, dtype, &key.layout)?;
    match (view, &key.view) {
        (Some(view), None) => Ok(whole.seen(|_| Ok(view.clone()))?),
        _ => Ok(whole),
    }
}

/// An operation whose alternatives are looked for.
struct Probe<'a, 'b> {
    pass: &'a Pass<'b>,
    node: &'a Node,
    name: String,
}

/// A layout of one operand that is tried.
struct Tried {
    key: Key,
    laid: Laid,
}

impl Probe<'_, '_> {
    /// An operation that the host does takes operands as they lie and gives default layouts.
    fn on_host(&self) -> Result<Alternative> {
        let mut operands = Vec::new();
        for o in &self.node.inputs {
            let (base, view) = self.pass.graph.base(*o);
            let layout = self.pass.tensors[base.0][0].clone();
            operands.push(self.pass.laid(*o, &Key { view: None, layout }, view)?);
        }
        let keep = self.pass.options.storage.keep;
        let results: Vec<Laid> = self
            .node
            .outputs
            .iter()
            .map(|o| {
                let t = self.pass.graph.get(*o);
                let layout = zellige_device::default_layout(&t.size, None, t.dtype, keep)?;
                Laid::new(self.pass.options.storage, t.dtype, &layout)
            })
            .collect::<zellige_device::Result<_>>()?;
        let work = self.node.op.round_trip(&operands, &results)?;
        Ok(Alternative {
            operands: vec![None; operands.len()],
            results: results.iter().map(|r| r.layout().clone()).collect(),
            cycles: self.pass.options.hardware.latency(&work).cycles,
        })
    }

    /// An operation without operands fills any layout.
    fn factory(&self) -> Result<Vec<Alternative>> {
        let (metas, lay) = self.node.op.lay(&[])?;
        let options = self.pass.options;
        let mut found: Vec<Alternative> = Vec::new();
        let dims = 0..metas.first().map_or(0, |m| m.size.len());
        let wants = std::iter::once(None).chain(dims.map(|d| Some(Want::Along(d))));
        for want in wants {
            let mut outs = Vec::new();
            for (m, l) in metas.iter().zip(&lay.outputs) {
                let plain = Laid::new(options.storage, m.dtype, l)?;
                let layout = want.as_ref().map_or(Ok(l.clone()), |w| w.layout(&plain))?;
                outs.push(Laid::new(options.storage, m.dtype, &layout)?);
            }
            let Ok((_, work)) = self.node.op.work(&[], &outs, None, options.cores) else {
                continue;
            };
            let results: Vec<StickLayout> = outs.iter().map(|o| o.layout().clone()).collect();
            if !found.iter().any(|a| a.results == results) {
                let cycles = options.hardware.latency(&work).cycles;
                found.push(Alternative { operands: Vec::new(), results, cycles });
            }
        }
        Ok(found)
    }

    fn alternatives(&self, id: NodeId) -> Result<Vec<Alternative>> {
        if self.pass.options.coverage.on_host(self.node.op.layer()) {
            return Ok(vec![self.on_host()?]);
        }
        if self.node.inputs.is_empty() {
            let list = self.factory()?;
            if !list.is_empty() {
                return Ok(list);
            }
        }
        let mut options: Vec<Vec<Tried>> = Vec::new();
        for o in &self.node.inputs {
            let (base, view) = self.pass.graph.base(*o);
            let mut list = Vec::new();
            for layout in &self.pass.tensors[base.0] {
                let key = Key { view: None, layout: layout.clone() };
                let laid = self.pass.laid(*o, &key, view)?;
                list.push(Tried { key, laid });
            }
            options.push(list);
        }
        let mut found: Vec<Alternative> = Vec::new();
        let mut done: std::collections::HashSet<Vec<usize>> = std::collections::HashSet::new();
        let mut refusal: Option<String> = None;
        loop {
            let mut wanted: Vec<(usize, StickLayout)> = Vec::new();
            for tuple in tuples(&options) {
                if !done.insert(tuple.clone()) {
                    continue;
                }
                let operands: Vec<Laid> =
                    tuple.iter().zip(&options).map(|(i, list)| list[*i].laid.clone()).collect();
                match self.try_one(&operands, &mut wanted) {
                    Ok(Some((results, work))) => {
                        let cycles = self.pass.options.hardware.latency(&work).cycles;
                        let keys = tuple.iter().zip(&options).map(|(i, list)| list[*i].key.clone());
                        found.push(Alternative {
                            operands: keys.map(Some).collect(),
                            results,
                            cycles,
                        });
                    }
                    Ok(None) => {}
                    Err(e) => refusal = Some(e.to_string()),
                }
            }
            let mut grown = false;
            for (k, layout) in wanted {
                grown |= self.add(&mut options[k], k, layout)?;
            }
            if !grown {
                break;
            }
        }
        if self.pass.options.strict {
            self.strictly(&options)?;
        }
        if found.is_empty() {
            match self.settled(&mut options) {
                Ok(alternative) => found.extend(alternative),
                Err(e) => refusal = Some(e.to_string()),
            }
        }
        if found.is_empty() {
            let reason = refusal.unwrap_or_else(|| "no layouts of its operands suit it".into());
            let op = self.node.op.name().to_string();
            return Err(CompileError::Infeasible {
                node: id.0,
                result: self.name.clone(),
                op,
                reason,
            });
        }
        Ok(found)
    }

    /// The combination to which the operation itself leads: every operand that does not fit is moved as it is wanted,
    /// as when operations run one by one. The combinations of many layouts are not all tried, and this one may not be
    /// among them.
    fn settled(&self, options: &mut [Vec<Tried>]) -> Result<Option<Alternative>> {
        let mut at = vec![0; options.len()];
        for _ in 0..=options.len() {
            let operands: Vec<Laid> =
                at.iter().zip(&*options).map(|(i, list)| list[*i].laid.clone()).collect();
            if let Some((results, work)) = self.try_one(&operands, &mut Vec::new())? {
                let keys = at.iter().zip(&*options).map(|(i, list)| Some(list[*i].key.clone()));
                let cycles = self.pass.options.hardware.latency(&work).cycles;
                return Ok(Some(Alternative { operands: keys.collect(), results, cycles }));
            }
            let (_, lay) = self.node.op.lay(&operands)?;
            for (k, (want, t)) in lay.inputs.iter().zip(&operands).enumerate() {
                if !want.fits(t) {
                    let operand = self.node.inputs[k];
                    let (_, view) = self.pass.graph.base(operand);
                    let key = Key { view: view.cloned(), layout: want.layout(t)? };
                    let laid = self.pass.laid(operand, &key, view)?;
                    at[k] = options[k].len();
                    options[k].push(Tried { key, laid });
                }
            }
        }
        Ok(None)
    }

    /// The results and the work of one combination; none where an operand has to be moved, and then the
    /// layouts that would do.
    fn try_one(
        &self,
        operands: &[Laid],
        wanted: &mut Vec<(usize, StickLayout)>,
    ) -> Result<Option<(Vec<StickLayout>, Work)>> {
        let op: &Op = &self.node.op;
        let (metas, lay) = op.lay(operands)?;
        let mut fits = true;
        for (k, (want, t)) in lay.inputs.iter().zip(operands).enumerate() {
            if want.fits(t) {
                continue;
            }
            fits = false;
            wanted.push((k, want.layout(t)?));
            // The other way round: everybody else as this operand lies.
            if let (Want::Along(_) | Want::Sparse, Ok(form)) = (want, t.sticks()) {
                self.suit_others(k, form.stick, operands, wanted)?;
            }
        }
        if !fits {
            return Ok(None);
        }
        let storage = self.pass.options.storage;
        let outs: Vec<Laid> = metas
            .iter()
            .zip(&lay.outputs)
            .map(|(m, l)| Laid::new(storage, m.dtype, l))
            .collect::<zellige_device::Result<_>>()?;
        let (_, work) = op.work(operands, &outs, None, self.pass.options.cores)?;
        let searches = self.pass.options.policy == Policy::Best;
        if searches && matches!(work.kind, WorkKind::BatchMatmulDefault { .. }) {
            for (k, t) in operands.iter().enumerate() {
                if let Some(layout) = outermost(t)? {
                    wanted.push((k, layout));
                }
            }
        }
        Ok(Some((lay.outputs, work)))
    }

    /// Layouts of the other operands with lanes along what is dimension `stick` of operand `k`, where
    /// sizes broadcast.
    fn suit_others(
        &self,
        k: usize,
        stick: Option<usize>,
        operands: &[Laid],
        wanted: &mut Vec<(usize, StickLayout)>,
    ) -> Result<()> {
        let rank = operands[k].size().len();
        for (i, t) in operands.iter().enumerate().filter(|(i, _)| *i != k) {
            let want = match stick.and_then(|s| (t.size().len() + s).checked_sub(rank)) {
                Some(d) if t.size()[d] > 1 => Want::Along(d),
                _ => continue,
            };
            if !want.fits(t) {
                wanted.push((i, want.layout(t)?));
            }
        }
        Ok(())
    }

    /// Adds a layout of an operand unless it is known or there are too many.
    fn add(&self, list: &mut Vec<Tried>, k: usize, layout: StickLayout) -> Result<bool> {
        let operand = self.node.inputs[k];
        let (_, view) = self.pass.graph.base(operand);
        let key = Key { view: view.cloned(), layout };
        if list.len() >= OPTIONS || list.iter().any(|t| t.key == key) {
            return Ok(false);
        }
        let laid = self.pass.laid(operand, &key, view)?;
        list.push(Tried { key, laid });
        Ok(true)
    }

    /// Refuses what upstream refuses at compile time.
    fn strictly(&self, options: &[Vec<Tried>]) -> Result<()> {
        let firsts: Vec<Laid> = options.iter().map(|list| list[0].laid.clone()).collect();
        let Ok((_, lay)) = self.node.op.lay(&firsts) else { return Ok(()) };
        let form = self.node.op.form();
        let whole_only = matches!(form, Form::Norm(norm) if norm.0.trailing().is_some());
        for (k, (want, t)) in lay.inputs.iter().zip(&firsts).enumerate() {
            let rule = match (t.sticks(), want) {
                _ if whole_only && k == 0 && !t.is_base() => "views are not supported".into(),
                _ if want.fits(t) => continue,
                (Err(e), _) => {
                    format!("stick expression with an offset or over several dimensions: {e}")
                }
                (Ok(form), Want::Along(_)) if form.stick.is_none() && t.numel() > 1 => {
                    "No mechanism to gather elements from multiple sticks into single stick".into()
                }
                _ => continue,
            };
            return Err(CompileError::Strict {
                op: self.node.op.name().into(),
                result: self.name.clone(),
                operand: k,
                layout: t.layout().to_string(),
                rule,
            });
        }
        Ok(())
    }
}

/// The same stick with the dimensions in their logical order, slowest first; none where it lies so.
fn outermost(t: &Laid) -> Result<Option<StickLayout>> {
    let Ok(form) = t.sticks() else { return Ok(None) };
    let rank = t.size().len();
    let Some(stick) = form.stick.filter(|_| rank > 2) else { return Ok(None) };
    let format = t.layout().device_dtype();
    let Some(eps) = format.elems_per_stick() else { return Ok(None) };
    let host = Strided::contiguous(t.size())?;
    let (mut device, mut map) = (Vec::new(), Vec::new());
    for d in 0..rank {
        let (n, stride) = (host.size()[d], host.stride()[d]);
        let lanes = if d == stick { eps } else { 1 };
        device.push(n / lanes + i64::from(n % lanes != 0));
        map.push(if n == 1 { -1 } else { stride * lanes });
    }
    device.push(eps);
    map.push(if host.size()[stick] == 1 { -1 } else { host.stride()[stick] });
    let layout = StickLayout::explicit(&device, &map, format)?.with_host(host.size(), None)?;
    Ok((layout != *t.layout()).then_some(layout))
}

/// Combinations of layouts: all of them, or where those are too many, the first layouts of all
/// operands with one varied, and all operands at the same place of their lists.
fn tuples(options: &[Vec<Tried>]) -> Vec<Vec<usize>> {
    let sizes: Vec<usize> = options.iter().map(Vec::len).collect();
    let all = sizes.iter().fold(1usize, |n, s| n.saturating_mul(*s));
    if all <= TUPLES {
        let mut list = vec![Vec::new()];
        for n in sizes {
            list = list
                .into_iter()
                .flat_map(|head: Vec<usize>| (0..n).map(move |i| [head.as_slice(), &[i]].concat()))
                .collect();
        }
        return list;
    }
    let mut list = vec![vec![0; sizes.len()]];
    for (k, n) in sizes.iter().enumerate() {
        list.extend((1..*n).map(|i| {
            let mut tuple = vec![0; sizes.len()];
            tuple[k] = i;
            tuple
        }));
    }
    let most = sizes.iter().copied().max().unwrap_or(0);
    list.extend((1..most).map(|i| sizes.iter().map(|n| i.min(n - 1)).collect()));
    list.truncate(TUPLES);
    list
}
