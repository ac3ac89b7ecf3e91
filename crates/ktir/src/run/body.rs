//! Runs bodies of elementwise operations on all elements at once: generic, reduce, map, generate,
//! pad.

use super::budget::KtirRunBudget;
use super::core::KtirCore;
use super::error::KtirFault;
use super::pointwise;
use super::step::constant_elements;
use super::value::{KtirElements, KtirRunValue, element_count, nest_offsets, row_major_strides};
use crate::affine::KtirAffineMap;
use crate::ir::{KtirBlock, KtirOp, KtirValue};
use crate::op::KtirOpKind;
use crate::types::KtirElem;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// A nest of loops, the last one innermost.
pub(super) struct KtirLoopNest {
    sizes: Vec<usize>,
}

impl KtirLoopNest {
    pub(super) fn from_shape(shape: &[i64]) -> KtirLoopNest {
        KtirLoopNest { sizes: shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect() }
    }

    fn point_count(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Charges a step for every point and returns their number; refused where the budget does not
    /// suffice.
    fn charge_points(&self, meter: &KtirRunBudget) -> Result<usize, KtirFault> {
        // The product may not fit: a `linalg.generic` with reduction loops of 2^40 rounds each is a
        // valid text.
        let rounds = self.sizes.iter().fold(1_usize, |n, d| n.saturating_mul(*d));
        meter.take_steps(rounds as u64)?;
        Ok(rounds)
    }

    /// The index of loop `d` at every point.
    pub(super) fn loop_indices(&self, d: usize) -> KtirElements {
        let strides: Vec<(usize, usize)> =
            // A stride of 1 for the loop in question and of 0 for the others makes the offset the
            // index itself.
            self.sizes.iter().enumerate().map(|(i, n)| (*n, usize::from(i == d))).collect();
        KtirElements::I(
            nest_offsets(0, &strides).into_iter().map(|i| i64::try_from(i).unwrap_or(0)).collect(),
        )
    }
}

type KtirBodyLanes = HashMap<KtirValue, Rc<KtirElements>>;

impl<'m> KtirCore<'m> {
    /// Runs a body on all lanes and returns what it yields. `index` computes the value of
    /// `linalg.index`.
    fn run_lanes(
        &mut self,
        body: &'m KtirBlock,
        args: Vec<Rc<KtirElements>>,
        n: usize,
        index: &dyn Fn(i64) -> KtirElements,
        sizes: &[usize],
    ) -> Result<Vec<Rc<KtirElements>>, KtirFault> {
        // The loops that each value depends on; those without any are the same at every point.
        let mut loops: HashMap<KtirValue, BTreeSet<usize>> =
            body.args.iter().map(|v| (*v, (0..sizes.len()).collect())).collect();
        let work = (n as u64).saturating_mul(body.ops.len() as u64);
        self.meter.take_element_steps(work)?;
        // Every operation of the body keeps a value for each lane.
        let _held = self.meter.hold_bytes(work.saturating_mul(8))?;
        // Each operation of the body is one pass over all points. Interpreting the body point by
        // point would look up every operation again for each element.
        let mut lanes: KtirBodyLanes = body.args.iter().copied().zip(args).collect();
        for op in &body.ops {
            if op.kind.is_terminator() {
                return op.operands.iter().map(|v| self.expanded_lane(&lanes, *v, n)).collect();
            }
            let result = op.results.first().copied();
            let data = match op.kind {
                KtirOpKind::ArithConstant => {
                    let elem = result.map_or(KtirElem::Index, |v| self.value_elem(v));
                    constant_elements(op, elem, 1)
                }
                KtirOpKind::LinalgIndex => {
                    let d = op.int_attr("dim").unwrap_or(0);
                    if let (Some(v), Ok(d)) = (result, usize::try_from(d)) {
                        loops.insert(v, [d].into_iter().filter(|d| *d < sizes.len()).collect());
                    }
                    index(d)
                }
                KtirOpKind::AffineApply => self.apply_map_to_lanes(op, &lanes, n)?,
                _ => {
                    let inputs: Vec<Rc<KtirElements>> = op
                        .operands
                        .iter()
                        .map(|v| self.raw_lane(&lanes, *v))
                        .collect::<Result<_, _>>()?;
                    let refs: Vec<&KtirElements> = inputs.iter().map(AsRef::as_ref).collect();
                    // The first operand of a select is the condition; the type of the choices is
                    // that of the second.
                    let first = usize::from(op.kind == KtirOpKind::ArithSelect);
                    let from = self.value_elem(op.operands[first]);
                    let to = result.map_or(from, |v| self.value_elem(v));
                    let data = pointwise::apply_pointwise(op, &refs, from, to)?;
                    let of = op.operands.iter().filter_map(|v| loops.get(v)).flatten().copied();
                    let of: BTreeSet<usize> = of.collect();
                    // A body without loops of its own, such as a combiner, works on all of its lanes.
                    let each = || {
                        if sizes.is_empty() { n } else { of.iter().map(|d| sizes[*d]).product() }
                    };
                    self.ledger.record_body_elements(op.kind, n, each);
                    if let Some(v) = result {
                        loops.insert(v, of);
                    }
                    data
                }
            };
            if let Some(v) = result {
                lanes.insert(v, Rc::new(data));
            }
        }
        Ok(Vec::new())
    }

    /// The lanes of a value; a value from outside is the same in every lane.
    fn raw_lane(&self, lanes: &KtirBodyLanes, v: KtirValue) -> Result<Rc<KtirElements>, KtirFault> {
        lanes.get(&v).cloned().map_or_else(|| Ok(self.read_value(v)?.to_elements()), Ok)
    }

    fn expanded_lane(
        &self,
        lanes: &KtirBodyLanes,
        v: KtirValue,
        n: usize,
    ) -> Result<Rc<KtirElements>, KtirFault> {
        let data = self.raw_lane(lanes, v)?;
        if data.len() == n {
            return Ok(data);
        }
        // `broadcast_to` leaves a single element alone where one is wanted, so no lanes at all need
        // their own case.
        Ok(Rc::new(if n == 0 { data.slice_range(0..0) } else { (*data).clone().broadcast_to(n) }))
    }

    fn apply_map_to_lanes(
        &self,
        op: &KtirOp,
        lanes: &KtirBodyLanes,
        n: usize,
    ) -> Result<KtirElements, KtirFault> {
        let Some(map) = op.map_attr("map") else { return Ok(KtirElements::I(vec![0; n])) };
        let inputs: Vec<Rc<KtirElements>> = op
            .operands
            .iter()
            .map(|v| self.expanded_lane(lanes, *v, n))
            .collect::<Result<_, _>>()?;
        let one = |i: usize| {
            let at: Vec<i64> = inputs.iter().map(|d| d.as_ints()[i]).collect();
            let (dims, symbols) = at.split_at(map.dims().min(at.len()));
            let value = map.evaluate_at(dims, symbols).and_then(|v| v.first().copied());
            value.ok_or(KtirFault::Overflow("an index"))
        };
        Ok(KtirElements::I((0..n).map(one).collect::<Result<_, _>>()?))
    }

    /// Runs a body that gets the coordinates of each element.
    pub(super) fn run_element_body(
        &mut self,
        op: &'m KtirOp,
        args: Vec<KtirElements>,
        n: usize,
    ) -> Result<KtirElements, KtirFault> {
        let args = args.into_iter().map(Rc::new).collect();
        let out = self.run_lanes(&op.regions[0], args, n, &|_| KtirElements::I(Vec::new()), &[])?;
        Ok(out.first().map_or_else(
            || KtirElements::zeros(self.value_elem(op.results[0]), n),
            |d| (**d).clone(),
        ))
    }

    pub(super) fn run_looped_body(
        &mut self,
        op: &'m KtirOp,
    ) -> Result<Vec<KtirRunValue>, KtirFault> {
        self.record_tile_traffic(op);
        let inputs = op.int_attr("inputs").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let data = match op.kind {
            KtirOpKind::Generic => self.run_generic(op, inputs)?,
            KtirOpKind::Reduce => self.run_reduce(op, inputs)?,
            _ => self.run_linalg_map(op, inputs)?,
        };
        let mut out = Vec::new();
        for (v, data) in op.results.iter().zip(data) {
            out.push(self.make_shared_tile(self.value_type(*v), data)?);
        }
        Ok(out)
    }

    fn run_linalg_map(
        &mut self,
        op: &'m KtirOp,
        inputs: usize,
    ) -> Result<Vec<Rc<KtirElements>>, KtirFault> {
        let args: Vec<Rc<KtirElements>> = op.operands[..inputs]
            .iter()
            .map(|v| Ok(self.read_value(*v)?.to_elements()))
            .collect::<Result<_, KtirFault>>()?;
        let n = element_count(self.value_type(op.results[0]).shape().unwrap_or(&[]));
        match op.word_attr("combiner").and_then(KtirOpKind::from_name) {
            Some(kind) => Ok(vec![Rc::new(self.apply_combiner(
                kind,
                &args,
                self.value_elem(op.results[0]),
            )?)]),
            None => {
                let space =
                    KtirLoopNest::from_shape(self.value_type(op.results[0]).shape().unwrap_or(&[]));
                let at = |d: i64| space.loop_indices(usize::try_from(d).unwrap_or(0));
                self.run_lanes(&op.regions[0], args, n, &at, &space.sizes)
            }
        }
    }

    /// Applies a named operation that is the whole body.
    fn apply_combiner(
        &mut self,
        kind: KtirOpKind,
        args: &[Rc<KtirElements>],
        elem: KtirElem,
    ) -> Result<KtirElements, KtirFault> {
        let refs: Vec<&KtirElements> = args.iter().map(AsRef::as_ref).collect();
        let data = pointwise::apply_pointwise_kind(kind, "", &refs, elem, elem)?;
        self.ledger.record_elements(kind, data.len(), false);
        Ok(data)
    }

    /// Folds each dimension into halves until one element is left, the last dimension first, and then combines the
    /// result with the initial value.
    fn run_reduce(
        &mut self,
        op: &'m KtirOp,
        inputs: usize,
    ) -> Result<Vec<Rc<KtirElements>>, KtirFault> {
        let shape = self.value_type(op.operands[0]).shape().unwrap_or(&[]);
        let mut sizes: Vec<usize> =
            shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let mut dims: Vec<usize> = op
            .ints_attr("dimensions")
            .unwrap_or(&[])
            .iter()
            .filter_map(|d| usize::try_from(*d).ok())
            .collect();
        dims.sort_unstable();
        let inits: Vec<Rc<KtirElements>> = op.operands[inputs..]
            .iter()
            .map(|v| Ok(self.read_value(*v)?.to_elements()))
            .collect::<Result<_, KtirFault>>()?;
        // An empty reduction is its initial value, as in MLIR; there is no last row to fold into
        // it.
        if dims.iter().any(|d| sizes[*d] == 0) {
            return Ok(inits);
        }
        let mut lanes: Vec<KtirElements> = Vec::new();
        for v in &op.operands[..inputs] {
            lanes.push((*self.read_value(*v)?.to_elements()).clone());
        }
        let elem = self.value_elem(op.results[0]);
        for d in dims.into_iter().rev() {
            lanes = self.fold_dimension(op, &lanes, &sizes, d, elem)?;
            sizes.remove(d);
        }
        let last = lanes.into_iter().map(Rc::new).collect();
        Ok(self.fold_halves(op, last, inits, elem)?.into_iter().map(Rc::new).collect())
    }

    /// Folds one dimension of some tiles away.
    fn fold_dimension(
        &mut self,
        op: &'m KtirOp,
        lanes: &[KtirElements],
        sizes: &[usize],
        d: usize,
        elem: KtirElem,
    ) -> Result<Vec<KtirElements>, KtirFault> {
        let shape: Vec<i64> = sizes.iter().map(|n| i64::try_from(*n).unwrap_or(0)).collect();
        let places = row_major_strides(&shape);
        // The folded dimension outermost: then the halves are contiguous ranges, and one fold is one pass over slices.
        let others = (0..sizes.len()).filter(|k| *k != d);
        let loops: Vec<(usize, usize)> =
            std::iter::once(d).chain(others).map(|k| (sizes[k], places[k])).collect();
        let row: usize = loops[1..].iter().map(|l| l.0).product();
        let at = nest_offsets(0, &loops);
        let lanes: Vec<KtirElements> =
            lanes.iter().map(|data| data.gather(at.iter().copied())).collect();
        self.fold_rows(lanes, sizes[d], row, |core, a, b| core.fold_halves(op, a, b, elem))
    }

    /// Folds one dimension of a tile with a named operation.
    fn fold_with(
        &mut self,
        kind: KtirOpKind,
        lanes: &KtirElements,
        sizes: &[usize],
        d: usize,
        elem: KtirElem,
    ) -> Result<KtirElements, KtirFault> {
        let shape: Vec<i64> = sizes.iter().map(|n| i64::try_from(*n).unwrap_or(0)).collect();
        let places = row_major_strides(&shape);
        let others = (0..sizes.len()).filter(|k| *k != d);
        let loops: Vec<(usize, usize)> =
            std::iter::once(d).chain(others).map(|k| (sizes[k], places[k])).collect();
        let row: usize = loops[1..].iter().map(|l| l.0).product();
        let rows = lanes.gather(nest_offsets(0, &loops).into_iter());
        let folded = self.fold_rows(vec![rows], sizes[d], row, |core, a, b| {
            Ok(vec![core.apply_combiner(kind, &[a[0].clone(), b[0].clone()], elem)?])
        })?;
        Ok(folded.into_iter().next().unwrap_or(KtirElements::zeros(elem, 0)))
    }

    /// Folds `left` rows of `row` elements each into one.
    fn fold_rows(
        &mut self,
        mut lanes: Vec<KtirElements>,
        mut left: usize,
        row: usize,
        mut fold: impl FnMut(
            &mut Self,
            Vec<Rc<KtirElements>>,
            Vec<Rc<KtirElements>>,
        ) -> Result<Vec<KtirElements>, KtirFault>,
    ) -> Result<Vec<KtirElements>, KtirFault> {
        // The tree of the upstream interpreter: halves onto each other, each level rounded. A
        // running sum would round in another order and give other bits.
        while left > 1 {
            let half = left / 2;
            let part = |from: usize, to: usize| -> Vec<Rc<KtirElements>> {
                lanes.iter().map(|d| Rc::new(d.slice_range(from * row..to * row))).collect()
            };
            let mut folded = fold(self, part(0, half), part(half, 2 * half))?;
            if left % 2 == 1 {
                for (to, tail) in folded.iter_mut().zip(part(2 * half, left)) {
                    to.append(&tail);
                }
            }
            lanes = folded;
            left = half + left % 2;
        }
        Ok(lanes)
    }

    fn fold_halves(
        &mut self,
        op: &'m KtirOp,
        a: Vec<Rc<KtirElements>>,
        b: Vec<Rc<KtirElements>>,
        elem: KtirElem,
    ) -> Result<Vec<KtirElements>, KtirFault> {
        match op.word_attr("combiner").and_then(KtirOpKind::from_name) {
            Some(kind) => {
                let pair = [a[0].clone(), b[0].clone()];
                Ok(vec![self.apply_combiner(kind, &pair, elem)?])
            }
            None => {
                let n = a.first().map_or(0, |d| d.len());
                let args = [a, b].concat();
                let out =
                    self.run_lanes(&op.regions[0], args, n, &|_| KtirElements::I(Vec::new()), &[])?;
                Ok(out.into_iter().map(|d| (*d).clone()).collect())
            }
        }
    }

    /// Runs a generic whose body ends in a sum, product, maximum or minimum with its output: all points at once, with
    /// the neutral element as the output, then the reduction loops as a tree, the last one first. `None` for any other
    /// body.
    fn run_tree_generic(
        &mut self,
        op: &'m KtirOp,
        inputs: usize,
        sizes: &[usize],
    ) -> Result<Option<Rc<KtirElements>>, KtirFault> {
        let maps = op.maps_attr("indexing_maps");
        let iterators = op.words_attr("iterator_types");
        let kept: Vec<usize> = (0..sizes.len()).filter(|d| iterators[*d] == "parallel").collect();
        let body = &op.regions[0];
        let Some(combiner) = find_tree_combiner(body, inputs) else { return Ok(None) };
        // Outputs that are not the parallel loops in their order keep elements that no point reaches.
        let plain = maps[inputs].selected_dims().as_ref() == Some(&kept);
        let empty = sizes.contains(&0);
        if kept.len() == sizes.len() || op.operands.len() != inputs + 1 || !plain || empty {
            return Ok(None);
        }
        let elem = self.value_elem(op.results[0]);
        let neutral = match combiner.kind {
            KtirOpKind::AddF => KtirElements::F(vec![0.0]),
            KtirOpKind::MulF => KtirElements::F(vec![1.0]),
            KtirOpKind::MaximumF => KtirElements::F(vec![f32::NEG_INFINITY]),
            KtirOpKind::MinimumF => KtirElements::F(vec![f32::INFINITY]),
            KtirOpKind::AddI => KtirElements::I(vec![0]),
            _ => KtirElements::I(vec![1]),
        };
        let space = KtirLoopNest { sizes: sizes.to_vec() };
        let n = space.charge_points(&self.meter)?;
        let nodes: usize = maps.iter().map(KtirAffineMap::count_nodes).sum();
        self.meter.take_element_steps((n as u64).saturating_mul(nodes as u64 + 1))?;
        let _held = self.meter.hold_bytes((n as u64).saturating_mul(8 * (inputs as u64 + 2)))?;
        let all: Vec<usize> = (0..sizes.len()).collect();
        let mut args = Vec::with_capacity(inputs + 1);
        for (map, v) in maps[..inputs].iter().zip(&op.operands) {
            let shape = self.value_type(*v).shape().unwrap_or(&[]);
            let at = map_positions(map, shape, sizes, &all, &[], &[])?;
            args.push(Rc::new(self.read_value(*v)?.to_elements().gather(at.into_iter())));
        }
        args.push(Rc::new(neutral.broadcast_to(n)));
        let at = |d: i64| space.loop_indices(usize::try_from(d).unwrap_or(0));
        let out = self.run_lanes(body, args, n, &at, sizes)?;
        let mut lanes = out.first().map_or(KtirElements::zeros(elem, n), |d| (**d).clone());
        let mut left = sizes.to_vec();
        for d in (0..sizes.len()).rev().filter(|d| !kept.contains(d)) {
            lanes = self.fold_with(combiner.kind, &lanes, &left, d, elem)?;
            left.remove(d);
        }
        let init = self.read_value(op.operands[inputs])?.to_elements();
        let last = self.apply_combiner(combiner.kind, &[Rc::new(lanes), init], elem)?;
        Ok(Some(Rc::new(last)))
    }

    /// Runs all points of the parallel loops at once, and the reduction loops step by step.
    fn run_generic(
        &mut self,
        op: &'m KtirOp,
        inputs: usize,
    ) -> Result<Vec<Rc<KtirElements>>, KtirFault> {
        let maps = op.maps_attr("indexing_maps");
        let iterators = op.words_attr("iterator_types");
        let mut sizes = vec![0_usize; iterators.len()];
        for (map, v) in maps.iter().zip(&op.operands) {
            let shape = self.value_type(*v).shape().unwrap_or(&[]);
            for (e, n) in map.results().iter().zip(shape) {
                if let Some(d) = e.as_dim() {
                    sizes[d] = usize::try_from(*n).unwrap_or(0);
                }
            }
        }
        let results = op.results.first().and_then(|v| self.value_type(*v).shape());
        self.ledger.record_generic(element_count(results.unwrap_or(&[])));
        if let Some(out) = self.run_tree_generic(op, inputs, &sizes)? {
            return Ok(vec![out]);
        }
        // Parallel loops become lanes and reduction loops rounds: every round needs what the one
        // before it put into the outputs.
        let (parallel, reduced): (Vec<usize>, Vec<usize>) =
            (0..sizes.len()).partition(|d| iterators[*d] == "parallel");
        let space = KtirLoopNest { sizes: parallel.iter().map(|d| sizes[*d]).collect() };
        let steps = KtirLoopNest { sizes: reduced.iter().map(|d| sizes[*d]).collect() };
        let n = space.point_count();
        let data: Vec<Rc<KtirElements>> = op
            .operands
            .iter()
            .map(|v| Ok(self.read_value(*v)?.to_elements()))
            .collect::<Result<_, KtirFault>>()?;
        let shapes: Vec<&[i64]> =
            op.operands.iter().map(|v| self.value_type(*v).shape().unwrap_or(&[])).collect();
        // Outputs are kept in the order of the parallel loops until the loops are done.
        let places: Vec<Vec<usize>> = (inputs..maps.len())
            .map(|i| map_positions(&maps[i], shapes[i], &sizes, &parallel, &[], &[]))
            .collect::<Result<_, _>>()?;
        let mut outs: Vec<Rc<KtirElements>> = places
            .iter()
            .zip(&data[inputs..])
            .map(|(at, d)| Rc::new(d.gather(at.iter().copied())))
            .collect();
        // Without a lane no round computes anything, so none is run.
        let rounds = if n == 0 { 0 } else { steps.charge_points(&self.meter)? };
        let nodes: usize = maps.iter().map(KtirAffineMap::count_nodes).sum();
        let mut at = vec![0_usize; reduced.len()];
        for _ in 0..rounds {
            self.meter.take_element_steps((n as u64).saturating_mul(nodes as u64 + 1))?;
            let mut args = Vec::with_capacity(data.len());
            for i in 0..inputs {
                // The common pointwise case reads its operand as it is, without a copy.
                let whole = maps[i].is_identity() && reduced.is_empty();
                args.push(if whole {
                    data[i].clone()
                } else {
                    let at =
                        operand_positions(&maps[i], shapes[i], &sizes, (&parallel, &reduced), &at)?;
                    Rc::new(data[i].gather(at.into_iter()))
                });
            }
            args.extend(outs.iter().cloned());
            let index = |d: i64| {
                let d = usize::try_from(d).unwrap_or(0);
                match (parallel.iter().position(|p| *p == d), reduced.iter().position(|r| *r == d))
                {
                    (Some(p), _) => space.loop_indices(p),
                    (_, Some(r)) => KtirElements::I(vec![i64::try_from(at[r]).unwrap_or(0); n]),
                    _ => KtirElements::I(vec![0; n]),
                }
            };
            outs = self.run_lanes(&op.regions[0], args, n, &index, &space.sizes)?;
            for d in (0..at.len()).rev() {
                at[d] += 1;
                if at[d] < steps.sizes[d] {
                    break;
                }
                at[d] = 0;
            }
        }
        let mut results = Vec::new();
        for ((at, out), init) in places.iter().zip(&outs).zip(&data[inputs..]) {
            let mut whole = (**init).clone();
            // The other elements of an output keep their initial values; for a permuted output this
            // also restores its own order.
            whole.scatter(out, at.iter().copied());
            results.push(Rc::new(whole));
        }
        Ok(results)
    }
}

/// The base and the loops of an operand whose map selects dimensions.
pub(super) fn map_loops(
    map: &KtirAffineMap,
    shape: &[i64],
    sizes: &[usize],
    parallel: &[usize],
) -> Option<(usize, Vec<(usize, usize)>)> {
    let strides = row_major_strides(shape);
    let dims = map.selected_dims()?;
    let step = |d: usize| -> usize {
        dims.iter().zip(&strides).filter(|(e, _)| **e == d).map(|(_, s)| s).sum()
    };
    Some((0, parallel.iter().map(|d| (sizes[*d], step(*d))).collect()))
}

/// The operation of a body that combines what it computes with its output, if the output is used nowhere else.
fn find_tree_combiner(body: &KtirBlock, inputs: usize) -> Option<&KtirOp> {
    let out = *body.args.get(inputs)?;
    let (end, ops) = body.ops.split_last()?;
    let [yielded] = end.operands[..] else { return None };
    let combiner = ops.iter().find(|op| op.results.first() == Some(&yielded))?;
    let known = matches!(
        combiner.kind,
        KtirOpKind::AddF
            | KtirOpKind::MulF
            | KtirOpKind::MaximumF
            | KtirOpKind::MinimumF
            | KtirOpKind::AddI
            | KtirOpKind::MulI
    );
    let uses = ops.iter().flat_map(|op| &op.operands).filter(|v| **v == out).count();
    (known && uses == 1 && combiner.operands.contains(&out)).then_some(combiner)
}

fn operand_positions(
    map: &KtirAffineMap,
    shape: &[i64],
    sizes: &[usize],
    (parallel, reduced): (&[usize], &[usize]),
    at: &[usize],
) -> Result<Vec<usize>, KtirFault> {
    map_positions(map, shape, sizes, parallel, reduced, at)
}

/// The position in an operand of every point of the parallel loops, with the reduction loops at
/// `at`.
fn map_positions(
    map: &KtirAffineMap,
    shape: &[i64],
    sizes: &[usize],
    parallel: &[usize],
    reduced: &[usize],
    at: &[usize],
) -> Result<Vec<usize>, KtirFault> {
    let strides = row_major_strides(shape);
    if let Some(dims) = map.selected_dims() {
        // A map of plain dimensions is a strided access. A dimension that occurs twice, as on a
        // diagonal, has both strides.
        let step = |d: usize| -> usize {
            dims.iter().zip(&strides).filter(|(e, _)| **e == d).map(|(_, s)| s).sum()
        };
        let base = reduced.iter().zip(at).map(|(d, i)| i * step(*d)).sum();
        let loops: Vec<(usize, usize)> = parallel.iter().map(|d| (sizes[*d], step(*d))).collect();
        return Ok(nest_offsets(base, &loops));
    }
    let mut point = vec![0_i64; sizes.len()];
    for (d, i) in reduced.iter().zip(at) {
        point[*d] = i64::try_from(*i).unwrap_or(0);
    }
    let n: usize = parallel.iter().map(|d| sizes[*d]).product();
    let mut out = Vec::with_capacity(n);
    for flat in 0..n {
        let mut rest = flat;
        for d in parallel.iter().rev() {
            point[*d] = i64::try_from(rest % sizes[*d]).unwrap_or(0);
            rest /= sizes[*d];
        }
        let index = map.evaluate_at(&point, &[]).ok_or(KtirFault::Overflow("an index"))?;
        // Only maps with expressions can leave the operand: for plain dimensions the verifier
        // compared the sizes.
        if index.iter().zip(shape).any(|(i, n)| !(0..*n).contains(i)) {
            return Err(KtirFault::OutOfBounds { index, shape: shape.to_vec() });
        }
        let place = index.iter().zip(&strides).map(|(i, s)| usize::try_from(*i).unwrap_or(0) * s);
        out.push(place.sum());
    }
    Ok(out)
}
