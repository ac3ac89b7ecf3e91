//! What every kernel has: views of memory, the slice of a core, loops.

use crate::emit::CardFloat;
use crate::program::{CompiledProgram, ProgramStep, StepAction};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use zellige_device::PlanOp;
use zellige_device::{LoopSpan, StickForm, TensorLayout, WorkDivision, core_order};
use zellige_float::Format;
use zellige_ktir::affine::{KtirAffineConstraint, KtirAffineExpr, KtirAffineSet};
use zellige_ktir::{
    KtirBuilder, KtirElem, KtirFunction, KtirMemorySpace, KtirOpKind, KtirType, KtirValue,
};

/// A tensor of a kernel.
pub(super) struct FrameOperand {
    pub(super) form: StickForm,
    pub(super) elem: KtirElem,
    /// The loop that every dimension follows.
    pub(super) follows: Vec<Option<usize>>,
    view: KtirValue,
    /// What the dimensions of the view are.
    axes: Vec<FrameAxis>,
}

/// A dimension of a view of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameAxis {
    /// A dimension of the tensor that has no lanes.
    Plain(usize),
    /// The sticks of the dimension that has them.
    Sticks,
    /// Their lanes.
    Lanes,
    /// The only element.
    One,
}

/// The slice of a core along a loop, counted in the loop's units.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameSlice {
    pub(super) first: KtirValue,
    pub(super) last: KtirValue,
    /// Units of every core; none where cores have different numbers.
    pub(super) units: Option<i64>,
}

/// The body of a nest of loops, called with the index of every loop.
pub(super) type KtirNestBody<'a> =
    dyn FnMut(&mut KtirKernelFrame, &[(usize, KtirValue)]) -> Result<(), String> + 'a;

/// A kernel in the making.
pub(super) struct KtirKernelFrame {
    pub(super) b: KtirBuilder,
    /// Operands, the result last.
    pub(super) tensors: Vec<FrameOperand>,
    pub(super) spans: Vec<LoopSpan>,
    pub(super) splits: Vec<usize>,
    pub(super) slices: Vec<FrameSlice>,
    pub(super) attributes: Map<String, Json>,
    pub(super) zero: KtirValue,
    pub(super) one: KtirValue,
    /// Numbers that are there from the beginning.
    numbers: BTreeMap<i64, KtirValue>,
    /// Loops and branches around what is added.
    depth: usize,
}

impl KtirKernelFrame {
    /// The beginning of a step's kernel; why where it has none.
    pub(super) fn new(
        program: &CompiledProgram,
        step: &ProgramStep,
        card_float: CardFloat,
    ) -> Result<KtirKernelFrame, String> {
        let [result] = step.writes.as_slice() else {
            return Err(format!("it has {} results, and a kernel has one", step.writes.len()));
        };
        let ins: Vec<TensorLayout> = step.reads.iter().map(|r| r.laid.clone()).collect();
        let outs = vec![program.buffer(*result).laid.clone()];
        let forms = |list: &[TensorLayout]| -> Result<Vec<StickForm>, String> {
            list.iter().map(|t| t.stick_form().map_err(|e| e.to_string())).collect()
        };
        let all = [forms(&ins)?, forms(&outs)?].concat();
        if all.iter().any(|f| f.numel() == 0) {
            return Err("it has no elements".into());
        }
        let (spans, splits, follows) = match &step.action {
            StepAction::Host(..) => return Err("the host does it".into()),
            StepAction::Exchange(_) => {
                return Err("a copy between scratchpads has no form in KTIR".into());
            }
            StepAction::Move { .. } => find_move_loops(program, &all),
            StepAction::Op(_, op) => {
                let loops = op.tensor_loops(&ins, &outs).map_err(|e| e.to_string())?;
                let loops = loops.ok_or("its slices are no boxes of its tensors")?;
                let follows =
                    (0..loops.tensor_count()).map(|t| loops.followed_loops(t).to_vec()).collect();
                (loops.loop_spans().to_vec(), step.division.splits().to_vec(), follows)
            }
        };
        if splits.len() != spans.len() {
            return Err("it is not divided by its loops".into());
        }
        let cores: usize = splits.iter().product();
        let mut b = KtirBuilder::new(&step.name, &[size_to_i64(cores)]);
        let pointers: Vec<KtirValue> = (0..all.len())
            .map(|t| {
                let name = if t + 1 == all.len() { "out".into() } else { format!("t{t}") };
                b.add_argument(&name, KtirType::INDEX)
            })
            .collect();
        let core = b.tile_id(1)[0];
        b.rename_value(core, "core");
        let (zero, one) = (b.index_constant(0), b.index_constant(1));
        let attributes = step.node().map(|n| program.graph.node(n).attributes.clone());
        let mut frame = KtirKernelFrame {
            b,
            tensors: Vec::new(),
            spans,
            splits,
            slices: Vec::new(),
            attributes: attributes.unwrap_or_default(),
            zero,
            one,
            numbers: BTreeMap::from([(0, zero), (1, one)]),
            depth: 0,
        };
        let lanes: Vec<i64> = all.iter().map(|t| size_to_i64(t.eps)).collect();
        // Constants are made before the loops, so that all nested regions can use them: a value is visible in its own
        // region and those inside it.
        lanes.into_iter().for_each(|n| {
            frame.index_constant(n);
        });
        frame.slices = frame.slice_loops(core);
        let follows: Vec<Vec<Option<usize>>> = follows;
        for ((form, follows), pointer) in all.into_iter().zip(follows).zip(pointers) {
            let operand = frame.add_operand(form, follows, pointer, card_float)?;
            frame.tensors.push(operand);
        }
        Ok(frame)
    }

    /// The function, verified.
    pub(super) fn finish_kernel(self) -> Result<KtirFunction, String> {
        self.b.finish_function().map_err(|d| d.message)
    }

    /// The result.
    pub(super) fn result_operand(&self) -> &FrameOperand {
        &self.tensors[self.tensors.len() - 1]
    }

    /// A number of places, made once where it can be.
    pub(super) fn index_constant(&mut self, n: i64) -> KtirValue {
        if let Some(known) = self.numbers.get(&n) {
            return *known;
        }
        let value = self.b.index_constant(n);
        // A constant made inside a loop is not visible after it, so that it must not be reused there.
        if self.depth == 0 {
            self.numbers.insert(n, value);
        }
        value
    }

    /// An attribute that is a number.
    pub(super) fn number_attribute(&self, name: &str, default: f64) -> f64 {
        match self.attributes.get(name) {
            Some(Json::String(s)) => s.parse().unwrap_or(default),
            other => other.and_then(Json::as_f64).unwrap_or(default),
        }
    }

    fn slice_loops(&mut self, core: KtirValue) -> Vec<FrameSlice> {
        let mut slices = Vec::with_capacity(self.spans.len());
        let order = core_order(self.spans.iter().map(|s| s.reduced));
        for l in 0..self.spans.len() {
            let (units, split) =
                (size_to_i64(self.spans[l].unit_count()), size_to_i64(self.splits[l]));
            if split == 1 {
                let last = self.index_constant(units);
                slices.push(FrameSlice { first: self.zero, last, units: Some(units) });
                continue;
            }
            let place = order.iter().position(|o| *o == l).unwrap_or(0);
            let inner: usize = order[..place].iter().map(|o| self.splits[*o]).product();
            let mut digit = core;
            if inner > 1 {
                let n = self.index_constant(size_to_i64(inner));
                digit = self.b.binary_op(KtirOpKind::DivSI, digit, n);
            }
            // The slowest digit is what is left of the core number; a remainder there would change nothing.
            if order[place + 1..].iter().any(|o| self.splits[*o] > 1) {
                let n = self.index_constant(split);
                digit = self.b.binary_op(KtirOpKind::RemSI, digit, n);
            }
            // The slices of the device's own divisions: the first ones are longer by one unit. A kernel that cut
            // otherwise would not compute the slice that the plan accounts for.
            let (base, extra) = (units / split, units % split);
            let first = self.slice_start(digit, base, extra);
            let last = if extra == 0 {
                let base = self.index_constant(base);
                self.b.binary_op(KtirOpKind::AddI, first, base)
            } else {
                let next = self.b.binary_op(KtirOpKind::AddI, digit, self.one);
                self.slice_start(next, base, extra)
            };
            slices.push(FrameSlice { first, last, units: (extra == 0).then_some(base) });
        }
        slices
    }

    /// Where slice number `digit` begins: the first `extra` ones are longer by one.
    fn slice_start(&mut self, digit: KtirValue, base: i64, extra: i64) -> KtirValue {
        let base = self.index_constant(base);
        let at = self.b.binary_op(KtirOpKind::MulI, digit, base);
        if extra == 0 {
            return at;
        }
        let extra = self.index_constant(extra);
        let more = self.b.binary_op(KtirOpKind::MinSI, digit, extra);
        self.b.binary_op(KtirOpKind::AddI, at, more)
    }

    fn add_operand(
        &mut self,
        form: StickForm,
        follows: Vec<Option<usize>>,
        pointer: KtirValue,
        card_float: CardFloat,
    ) -> Result<FrameOperand, String> {
        let elem = find_tile_element(form.format, card_float)
            .ok_or_else(|| format!("tiles hold no {}", form.format.name()))?;
        let (mut sizes, mut strides, mut axes) = (Vec::new(), Vec::new(), Vec::new());
        for d in 0..form.rank() {
            if form.stick == Some(d) {
                axes.push(FrameAxis::Sticks);
                sizes.push(size_to_i64(form.stick_count()));
                strides.push(size_to_i64(form.stride[d].max(form.eps)));
            } else if form.stride[d] > 0 && form.size[d] > 1 {
                // A repeated dimension, or one of a single element, adds nothing to the address, so that the view has
                // none.
                axes.push(FrameAxis::Plain(d));
                sizes.push(size_to_i64(form.size[d]));
                strides.push(size_to_i64(form.stride[d]));
            }
        }
        if form.stick.is_some() {
            axes.push(FrameAxis::Lanes);
            sizes.push(size_to_i64(form.eps));
            strides.push(1);
        }
        if axes.is_empty() {
            (axes, sizes, strides) = (vec![FrameAxis::One], vec![1], vec![1]);
        }
        let mut at = pointer;
        if form.offset > 0 {
            let offset = self.index_constant(size_to_i64(form.offset));
            at = self.b.binary_op(KtirOpKind::AddI, pointer, offset);
        }
        let view = self.b.memory_view(at, &sizes, &strides, elem, KtirMemorySpace::Global);
        Ok(FrameOperand { form, elem, follows, view, axes })
    }

    /// The access tile of a tensor: `at` gives where a dimension begins and how far it goes; the sticks
    /// begin at `sticks.0` and are `sticks.1` many, of which `lanes` are taken.
    pub(super) fn operand_access_tile(
        &mut self,
        tensor: usize,
        at: &dyn Fn(usize) -> (KtirValue, i64),
        sticks: (KtirValue, i64),
        lanes: Option<i64>,
    ) -> (KtirValue, Vec<i64>) {
        let t = &self.tensors[tensor];
        let (mut places, mut extents) = (Vec::new(), Vec::new());
        for axis in &t.axes {
            let (place, extent) = match axis {
                FrameAxis::Plain(d) => at(*d),
                FrameAxis::Sticks => sticks,
                FrameAxis::Lanes => (self.zero, lanes.unwrap_or(size_to_i64(t.form.eps))),
                FrameAxis::One => (self.zero, 1),
            };
            places.push(place);
            extents.push(extent);
        }
        let view = t.view;
        (self.b.access_tile(view, &places, &extents), extents)
    }

    /// Loads a tile, and gives its elements another shape. Both are written, because readers of
    /// tile programs give what they load the shape of the access tile, whatever its type says.
    pub(super) fn load_shaped(&mut self, tile: KtirValue, shape: &[i64]) -> KtirValue {
        let data = self.b.load_tile(tile);
        self.b.reshape_tile(data, shape)
    }

    /// Stores elements in the shape of the access tile.
    pub(super) fn store_shaped(&mut self, data: KtirValue, tile: KtirValue) {
        let shape = self.b.value_type(tile).shape().unwrap_or(&[]).to_vec();
        let data = self.b.reshape_tile(data, &shape);
        self.b.store_tile(data, tile);
    }

    /// Loads a tile in a shape, as float32.
    pub(super) fn load_float32(
        &mut self,
        tile: KtirValue,
        shape: &[i64],
        elem: KtirElem,
    ) -> KtirValue {
        let data = self.load_shaped(tile, shape);
        if elem == KtirElem::F32 {
            data
        } else {
            self.b.cast_elements(KtirOpKind::ExtF, data, KtirElem::F32)
        }
    }

    /// Rounds a tile of float32 to the elements of the result, and stores it.
    pub(super) fn store_rounded(&mut self, data: KtirValue, tile: KtirValue) {
        let elem = self.result_operand().elem;
        let data = if elem == KtirElem::F32 {
            data
        } else {
            self.b.cast_elements(KtirOpKind::TruncF, data, elem)
        };
        self.store_shaped(data, tile);
    }

    /// The only number of a tile, everywhere in a shape.
    pub(super) fn broadcast_scalar(&mut self, tile: KtirValue, shape: &[i64]) -> KtirValue {
        let number = self.b.extract_element(tile, &[self.zero]);
        self.b.splat_tile(number, shape)
    }

    /// A loop over every slice of `loops`, outermost first, the body with the place in each of them.
    pub(super) fn add_loop_nest(
        &mut self,
        loops: &[usize],
        at: &mut Vec<(usize, KtirValue)>,
        body: &mut KtirNestBody<'_>,
    ) -> Result<(), String> {
        let Some((l, rest)) = loops.split_first() else {
            return body(self, at);
        };
        // A loop of one iteration is left out: the text is shorter and means the same.
        if self.spans[*l].unit_count() == 1 {
            at.push((*l, self.zero));
            let done = self.add_loop_nest(rest, at, body);
            at.pop();
            return done;
        }
        let FrameSlice { first, last, .. } = self.slices[*l];
        self.add_loop((first, last, self.one), |f, i| {
            at.push((*l, i));
            let done = f.add_loop_nest(rest, at, body);
            at.pop();
            done
        })
    }

    /// A loop that carries nothing.
    pub(super) fn add_loop(
        &mut self,
        range: (KtirValue, KtirValue, KtirValue),
        body: impl FnOnce(&mut KtirKernelFrame, KtirValue) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut done = Ok(());
        self.add_carrying_loop(range, &[], |f, i, _| {
            done = body(f, i);
            Vec::new()
        });
        done
    }

    /// A loop that carries values.
    pub(super) fn add_carrying_loop(
        &mut self,
        range: (KtirValue, KtirValue, KtirValue),
        carried: &[KtirValue],
        body: impl FnOnce(&mut KtirKernelFrame, KtirValue, &[KtirValue]) -> Vec<KtirValue>,
    ) -> Vec<KtirValue> {
        self.with_builder(|f, b| {
            b.for_loop(range, carried, |b, i, inner| f.lend_builder(b, |f| body(f, i, inner)))
        })
    }

    /// Combines what the cores of a group have: those that share results are neighbours, `group` of them.
    pub(super) fn combine_across_cores(
        &mut self,
        kind: KtirOpKind,
        mine: KtirValue,
        identity: KtirValue,
        group: usize,
    ) -> KtirValue {
        let cores: usize = self.splits.iter().product();
        let size = size_to_i64(group);
        let (core, g) = (KtirAffineExpr::dim(0), KtirAffineExpr::symbol(0));
        let after = core.clone() - g.clone() * size;
        let before = g * size + KtirAffineExpr::constant(size - 1) - core;
        let within = |expr| KtirAffineConstraint { expr, equal: false };
        let tiles = KtirAffineSet::new(1, 1, vec![within(after), within(before)]);
        let Ok(tiles) = tiles else { return mine };
        // The set of cores of group `g` is `g * size <= core < (g + 1) * size`, because cores that share a sum have
        // neighbouring numbers.
        let groups = KtirAffineSet::from_extents(&[size_to_i64(cores / group)]);
        let future = self.b.inter_tile_produce(tiles.clone(), groups, |_, _| vec![mine]);
        let combine = |b: &mut KtirBuilder, x: &[KtirValue], y: &[KtirValue]| {
            vec![b.binary_op(kind, x[0], y[0])]
        };
        self.b.inter_tile_reduce(future, tiles, &[identity], combine)[0]
    }

    /// Does something on the first core of each group: the one whose slices of `loops` are the first.
    pub(super) fn run_on_first_core(
        &mut self,
        loops: &[usize],
        body: impl FnOnce(&mut KtirKernelFrame),
    ) {
        let mut first: Option<KtirValue> = None;
        for l in loops.iter().filter(|l| self.splits[**l] > 1) {
            let holds =
                self.b.compare_values(KtirOpKind::CmpI, "eq", self.slices[*l].first, self.zero);
            first = Some(match first {
                None => holds,
                Some(other) => self.b.binary_op(KtirOpKind::AndI, other, holds),
            });
        }
        match first {
            None => body(self),
            Some(holds) => {
                self.with_builder(|f, b| b.if_then(holds, |b| f.lend_builder(b, |f| body(f))));
            }
        }
    }

    /// Does something with the builder beside the frame.
    fn with_builder<T>(
        &mut self,
        f: impl FnOnce(&mut KtirKernelFrame, &mut KtirBuilder) -> T,
    ) -> T {
        // The builder calls a closure for the body of a loop, and the closure needs the frame: the builder is taken
        // out of the frame while it runs, and lent back inside the closure.
        let mut b = std::mem::replace(&mut self.b, KtirBuilder::new("", &[]));
        let given = f(self, &mut b);
        self.b = b;
        given
    }

    /// Gives the builder back to the frame for a while.
    fn lend_builder<T>(
        &mut self,
        b: &mut KtirBuilder,
        f: impl FnOnce(&mut KtirKernelFrame) -> T,
    ) -> T {
        std::mem::swap(&mut self.b, b);
        // Inside a region: constants made here are not visible outside of it.
        self.depth += 1;
        let given = f(self);
        self.depth -= 1;
        std::mem::swap(&mut self.b, b);
        given
    }
}

/// The loops of a move: a unit is a block of whole sticks of both sides, and cores share the blocks.
fn find_move_loops(
    program: &CompiledProgram,
    forms: &[StickForm],
) -> (Vec<LoopSpan>, Vec<usize>, Vec<Vec<Option<usize>>>) {
    let rank = forms[0].rank();
    let unit = |d: usize| {
        let lanes = forms.iter().filter(|f| f.stick == Some(d)).map(|f| f.eps);
        lanes.max().unwrap_or(1)
    };
    let spans: Vec<LoopSpan> =
        (0..rank).map(|d| LoopSpan::for_output(forms[0].size[d], unit(d))).collect();
    let splits =
        WorkDivision::distribute_units(&spans, program.options.cores, false).splits().to_vec();
    let follows = forms.iter().map(|_| (0..rank).map(Some).collect()).collect();
    (spans, splits, follows)
}

/// The elements of a tile in that format.
fn find_tile_element(format: Format, card_float: CardFloat) -> Option<KtirElem> {
    if format.arithmetic_format() == Format::DL16 && card_float == CardFloat::F16 {
        return Some(KtirElem::F16);
    }
    // Kernels compute with the encoding of infinity as with any number.
    [
        KtirElem::F16,
        KtirElem::F32,
        KtirElem::BF16,
        KtirElem::DF16,
        KtirElem::F8E4M3,
        KtirElem::F8E5M2,
    ]
    .into_iter()
    .find(|e| e.format() == format.arithmetic_format())
}

/// A size as the builder counts.
pub(super) fn size_to_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The place of a loop; 0 where it is no loop of the nest.
pub(super) fn loop_index_or_zero(
    at: &[(usize, KtirValue)],
    l: Option<usize>,
    zero: KtirValue,
) -> KtirValue {
    at.iter().find(|(k, _)| Some(*k) == l).map_or(zero, |(_, v)| *v)
}
