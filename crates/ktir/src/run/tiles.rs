//! Runs operations on whole tiles: making, slicing, concatenating, multiplying.

use super::body::KtirLoopNest;
use super::core::KtirCore;
use super::error::KtirFault;
use super::pointwise;
use super::value::{KtirElements, KtirRunValue, element_count, nest_offsets, row_major_strides};
use crate::ir::{DYNAMIC_SIZE, KtirOp};
use crate::op::KtirOpKind;
use crate::types::{KtirElem, KtirType};
use std::rc::Rc;

fn extent_to_usize(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

impl<'m> KtirCore<'m> {
    pub(super) fn run_tile_op(&mut self, op: &'m KtirOp) -> Result<KtirRunValue, KtirFault> {
        let o = &op.operands;
        let ty = self.value_type(op.results[0]);
        let shape = ty.shape().unwrap_or(&[]);
        match op.kind {
            KtirOpKind::TensorEmpty => self.make_tile(
                ty,
                KtirElements::zeros(self.value_elem(op.results[0]), element_count(shape)),
            ),
            KtirOpKind::Splat => {
                let value = self.read_value(o[0])?.to_elements();
                let data = if element_count(shape) == 0 {
                    value.slice_range(0..0)
                } else {
                    (*value).clone()
                };
                self.make_tile(ty, data.broadcast_to(element_count(shape)))
            }
            KtirOpKind::FromElements => {
                // The empty list fixes whether the elements are floats or integers before the first
                // one is appended.
                let mut data = KtirElements::zeros(self.value_elem(op.results[0]), 0);
                for v in o {
                    data.append(&self.read_value(*v)?.to_elements());
                }
                self.make_tile(ty, data)
            }
            KtirOpKind::Extract => {
                let (tile, at) = (self.read_value(o[0])?, self.read_ints(&o[1..])?);
                let of = tile.shape().to_vec();
                // Indices are values, so only a run can check them.
                if at.iter().zip(&of).any(|(i, n)| !(0..*n).contains(i)) {
                    return Err(KtirFault::OutOfBounds { index: at, shape: of });
                }
                let place = at
                    .iter()
                    .zip(row_major_strides(&of))
                    .map(|(i, s)| extent_to_usize(*i) * s)
                    .sum();
                Ok(tile.to_elements().gather(std::iter::once(place)).first_value())
            }
            KtirOpKind::ExtractSlice | KtirOpKind::InsertSlice => self.run_slice(op, ty),
            KtirOpKind::ExpandShape | KtirOpKind::CollapseShape | KtirOpKind::Reshape => {
                let data = self.read_value(o[0])?.to_elements();
                // The elements stay in row-major order, so both tiles share one buffer; each is
                // charged to the scratchpad.
                self.make_shared_tile(ty, data)
            }
            KtirOpKind::Concat => {
                let dim = extent_to_usize(op.int_attr("dim").unwrap_or(0));
                let mut data =
                    KtirElements::zeros(self.value_elem(op.results[0]), element_count(shape));
                let places = row_major_strides(shape);
                let mut at = 0;
                for v in o {
                    let part = self.read_value(*v)?;
                    let loops: Vec<(usize, usize)> = part
                        .shape()
                        .iter()
                        .zip(&places)
                        .map(|(n, s)| (extent_to_usize(*n), *s))
                        .collect();
                    data.scatter(
                        &part.to_elements(),
                        nest_offsets(at * places[dim], &loops).into_iter(),
                    );
                    // The parts may differ along this dimension, so each begins where the one
                    // before it ended.
                    at += extent_to_usize(part.shape()[dim]);
                }
                self.make_tile(ty, data)
            }
            KtirOpKind::TensorDim | KtirOpKind::MemRefDim => {
                let d = self.read_value(o[1])?.as_int();
                let of = match self.read_value(o[0])? {
                    KtirRunValue::View(view) => view.shape.clone(),
                    tile => tile.shape().to_vec(),
                };
                let n = usize::try_from(d).ok().and_then(|d| of.get(d)).copied();
                n.map(KtirRunValue::I).ok_or(KtirFault::OutOfBounds { index: vec![d], shape: of })
            }
            KtirOpKind::Generate => {
                let space = KtirLoopNest::from_shape(shape);
                let args: Vec<KtirElements> =
                    (0..shape.len()).map(|d| space.loop_indices(d)).collect();
                let data = self.run_element_body(op, args, element_count(shape))?;
                self.make_tile(ty, data)
            }
            // The body gives the padding for every element of the result, and the tile then
            // replaces those that are no padding: the body may depend on the coordinates.
            KtirOpKind::Pad => {
                let tile = self.read_value(o[0])?;
                let space = KtirLoopNest::from_shape(shape);
                let args: Vec<KtirElements> =
                    (0..shape.len()).map(|d| space.loop_indices(d)).collect();
                let mut data = self.run_element_body(op, args, element_count(shape))?;
                let places = row_major_strides(shape);
                let low = op.ints_attr("low").unwrap_or(&[]);
                let base = low.iter().zip(&places).map(|(n, s)| extent_to_usize(*n) * s).sum();
                let loops: Vec<(usize, usize)> = tile
                    .shape()
                    .iter()
                    .zip(&places)
                    .map(|(n, s)| (extent_to_usize(*n), *s))
                    .collect();
                data.scatter(&tile.to_elements(), nest_offsets(base, &loops).into_iter());
                self.make_tile(ty, data)
            }
            KtirOpKind::Transpose => {
                let tile = self.read_value(o[0])?;
                let from = row_major_strides(tile.shape());
                let p = op.ints_attr("permutation").unwrap_or(&[]);
                let loops: Vec<(usize, usize)> = p
                    .iter()
                    .zip(shape)
                    .map(|(d, n)| (extent_to_usize(*n), from[extent_to_usize(*d)]))
                    .collect();
                let data = tile.to_elements().gather(nest_offsets(0, &loops).into_iter());
                self.record_tile_traffic(op);
                self.make_tile(ty, data)
            }
            KtirOpKind::Broadcast => {
                let tile = self.read_value(o[0])?;
                let mut from = row_major_strides(tile.shape()).into_iter();
                let added = op.ints_attr("dimensions").unwrap_or(&[]);
                let step = |(d, n): (usize, &i64)| {
                    // An added dimension reads the same element again, which a stride of 0
                    // expresses.
                    let new = added.iter().any(|a| extent_to_usize(*a) == d);
                    (extent_to_usize(*n), if new { 0 } else { from.next().unwrap_or(0) })
                };
                let loops: Vec<(usize, usize)> = shape.iter().enumerate().map(step).collect();
                let data = tile.to_elements().gather(nest_offsets(0, &loops).into_iter());
                self.record_tile_traffic(op);
                self.make_tile(ty, data)
            }
            _ => Err(KtirFault::Invalid(format!(
                "`{}` is not an operation on tiles",
                op.kind.name()
            ))),
        }
    }

    fn run_slice(&mut self, op: &KtirOp, ty: &KtirType) -> Result<KtirRunValue, KtirFault> {
        let insert = op.kind == KtirOpKind::InsertSlice;
        let whole = self.read_value(op.operands[usize::from(insert)])?;
        let mut dynamic = self.read_ints(&op.operands[1 + usize::from(insert)..])?.into_iter();
        let list = |key| op.ints_attr(key).unwrap_or(&[]);
        let of = whole.shape().to_vec();
        let places = row_major_strides(&of);
        let (mut base, mut loops) = (0, Vec::new());
        for d in 0..of.len() {
            let offset = list("offsets")[d];
            let offset = if offset == DYNAMIC_SIZE { dynamic.next().unwrap_or(0) } else { offset };
            let (n, step) = (list("sizes")[d], list("strides")[d]);
            let last = (n - 1).checked_mul(step).and_then(|x| x.checked_add(offset));
            // An empty slice touches nothing, wherever it begins.
            if n > 0 && (offset < 0 || last.is_none_or(|last| last >= of[d])) {
                let mut index = vec![0; of.len()];
                index[d] = if offset < 0 { offset } else { last.unwrap_or(i64::MAX) };
                return Err(KtirFault::OutOfBounds { index, shape: of });
            }
            base += extent_to_usize(offset) * places[d];
            loops.push((extent_to_usize(n), extent_to_usize(step) * places[d]));
        }
        let at = nest_offsets(base, &loops);
        self.record_tile_traffic(op);
        if insert {
            let part = self.read_value(op.operands[0])?.to_elements();
            let mut data = (*whole.to_elements()).clone();
            data.scatter(&part, at.into_iter());
            return self.make_tile(ty, data);
        }
        let data = whole.to_elements().gather(at.into_iter());
        self.make_tile(ty, data)
    }

    /// Runs a named structured operation: `ins(..) outs(..)`.
    pub(super) fn run_structured(
        &mut self,
        op: &'m KtirOp,
        inputs: usize,
    ) -> Result<KtirRunValue, KtirFault> {
        let ty = self.value_type(op.results[0]);
        let elem = ty.elem().unwrap_or(KtirElem::F32);
        let shape = ty.shape().unwrap_or(&[]);
        self.record_tile_traffic(op);
        // `linalg.add` and the others exist once for all element types; `arith` has one operation
        // for each kind.
        let plain = |float: KtirOpKind, int: KtirOpKind| if elem.is_float() { float } else { int };
        let kind = match op.kind {
            KtirOpKind::Fill => {
                let value = self.read_value(op.operands[0])?.to_elements();
                let data = if element_count(shape) == 0 {
                    // An empty tile has no element, not even the one that fills it.
                    value.slice_range(0..0)
                } else {
                    (*value).clone()
                };
                return self.make_tile(ty, data.broadcast_to(element_count(shape)));
            }
            KtirOpKind::Matmul
            | KtirOpKind::MatmulTransposeB
            | KtirOpKind::BatchMatmul
            | KtirOpKind::Matvec => {
                return self.run_product(op, ty, elem);
            }
            other => structured_combiner(other, plain),
        };
        let values: Vec<Rc<KtirElements>> = op.operands[..inputs]
            .iter()
            .map(|v| Ok(self.read_value(*v)?.to_elements()))
            .collect::<Result<_, KtirFault>>()?;
        let inputs: Vec<&KtirElements> = values.iter().map(AsRef::as_ref).collect();
        let data = pointwise::apply_pointwise_kind(kind, "", &inputs, elem, elem)?;
        self.ledger.record_elements(op.kind, data.len(), false);
        self.make_tile(ty, data)
    }

    fn run_product(
        &mut self,
        op: &KtirOp,
        ty: &KtirType,
        elem: KtirElem,
    ) -> Result<KtirRunValue, KtirFault> {
        let [a, b, c] = [0, 1, 2].map(|i| self.read_value(op.operands[i]));
        let (a, b, c) = (a?, b?, c?);
        let (sa, sb) = (a.shape(), b.shape());
        let (batch, m, k, n) = match (op.kind, sa, sb) {
            (KtirOpKind::BatchMatmul, &[x, m, k], &[_, _, n]) => {
                (extent_to_usize(x), extent_to_usize(m), extent_to_usize(k), extent_to_usize(n))
            }
            (KtirOpKind::Matvec, &[m, k], _) => (1, extent_to_usize(m), extent_to_usize(k), 1),
            (KtirOpKind::MatmulTransposeB, &[m, k], &[n, _]) => {
                (1, extent_to_usize(m), extent_to_usize(k), extent_to_usize(n))
            }
            (_, &[m, k], &[_, n]) => {
                (1, extent_to_usize(m), extent_to_usize(k), extent_to_usize(n))
            }
            _ => return Err(KtirFault::Invalid("a product of tiles without rows".into())),
        };
        // Charged before the sums are allocated: three sizes of a text can ask for more work than
        // any machine has.
        self.meter.take_element_steps(
            [batch, m, k, n].iter().fold(1, |p, d| p.saturating_mul(*d as u64)),
        )?;
        let (a, mut b, c) = (a.to_elements(), b.to_elements(), c.to_elements());
        if op.kind == KtirOpKind::MatmulTransposeB {
            // The transpose is made once, so that the inner loop reads a row of the columns
            // contiguously.
            b = Rc::new(b.gather(nest_offsets(0, &[(k, 1), (n, k)]).into_iter()));
        }
        let data = if elem.is_float() {
            // The order that upstream fixes for float16: sums in float32 over k in order, rounded
            // once, then added to `outs`. Starting the sums with `outs` would round differently.
            let mut sum = vec![0.0_f32; batch * m * n];
            for x in 0..batch {
                let rows = &a.as_floats()[x * m * k..(x + 1) * m * k];
                let columns = &b.as_floats()[x * k * n..(x + 1) * k * n];
                multiply_add(rows, columns, &mut sum[x * m * n..(x + 1) * m * n], k, n);
            }
            pointwise::round_elements(&mut sum, elem);
            pointwise::apply_pointwise_kind(
                KtirOpKind::AddF,
                "",
                &[&c, &KtirElements::F(sum)],
                elem,
                elem,
            )?
        } else {
            // Integers wrap, and wrapping commutes with addition, so the output can be the
            // accumulator.
            let mut out = c.as_ints().to_vec();
            for x in 0..batch {
                for i in 0..m {
                    for l in 0..k {
                        let f = a.as_ints()[(x * m + i) * k + l];
                        let row = &b.as_ints()[(x * k + l) * n..(x * k + l + 1) * n];
                        let to = &mut out[(x * m + i) * n..(x * m + i + 1) * n];
                        to.iter_mut()
                            .zip(row)
                            .for_each(|(t, r)| *t = t.wrapping_add(f.wrapping_mul(*r)));
                    }
                }
            }
            KtirElements::I(out.into_iter().map(|v| pointwise::wrap_integer(v, elem)).collect())
        };
        let macs = (batch * m) as u64 * (k * n) as u64;
        let batched = op.kind == KtirOpKind::BatchMatmul;
        self.ledger
            .record_product(macs, if batched { (batch * m) as u64 * k as u64 } else { macs });
        self.make_tile(ty, data)
    }
}

/// `sum += rows * columns`, each sum in the order of the inner dimension.
fn multiply_add(rows: &[f32], columns: &[f32], sum: &mut [f32], k: usize, n: usize) {
    // Chunks of length 0 are a panic, and there is nothing to add.
    if k == 0 || n == 0 {
        return;
    }
    // Four rows share each pass over a row of the right operand, which is then read from the cache;
    // their sums stay independent.
    const ROWS_PER_BLOCK: usize = 4;
    for (rows, sums) in rows.chunks(ROWS_PER_BLOCK * k).zip(sum.chunks_mut(ROWS_PER_BLOCK * n)) {
        for (l, row) in columns.chunks_exact(n).enumerate() {
            for (sum, of) in sums.chunks_exact_mut(n).zip(rows.chunks_exact(k)) {
                let f = of[l];
                for (s, x) in sum.iter_mut().zip(row) {
                    *s += f * x;
                }
            }
        }
    }
}

/// The operation on elements that a named structured operation applies.
pub(in crate::run) fn structured_combiner(
    kind: KtirOpKind,
    plain: impl Fn(KtirOpKind, KtirOpKind) -> KtirOpKind,
) -> KtirOpKind {
    match kind {
        KtirOpKind::LinalgAdd => plain(KtirOpKind::AddF, KtirOpKind::AddI),
        KtirOpKind::LinalgSub => plain(KtirOpKind::SubF, KtirOpKind::SubI),
        KtirOpKind::LinalgMul => plain(KtirOpKind::MulF, KtirOpKind::MulI),
        KtirOpKind::LinalgDiv => plain(KtirOpKind::DivF, KtirOpKind::DivSI),
        KtirOpKind::LinalgMax => plain(KtirOpKind::MaximumF, KtirOpKind::MaxSI),
        KtirOpKind::LinalgMin => plain(KtirOpKind::MinimumF, KtirOpKind::MinSI),
        KtirOpKind::LinalgAbs => plain(KtirOpKind::AbsF, KtirOpKind::AbsI),
        other => other,
    }
}
