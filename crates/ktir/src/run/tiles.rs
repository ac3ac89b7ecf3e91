//! Operations on whole tiles: making, cutting, joining, multiplying.

use super::body::Space;
use super::core::Core;
use super::error::Fault;
use super::pointwise;
use super::value::{Data, Val, count, nest, strides};
use crate::ir::{DYNAMIC, Op};
use crate::op::Kind;
use crate::types::{Elem, Type};
use std::rc::Rc;

fn size(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

impl<'m> Core<'m> {
    pub(super) fn tile_op(&mut self, op: &'m Op) -> Result<Val, Fault> {
        let o = &op.operands;
        let ty = self.ty(op.results[0]);
        let shape = ty.shape().unwrap_or(&[]);
        match op.kind {
            Kind::TensorEmpty => self.tile(ty, Data::zeros(self.elem(op.results[0]), count(shape))),
            Kind::Splat => {
                let value = self.get(o[0])?.data();
                let data = if count(shape) == 0 { value.slice(0..0) } else { (*value).clone() };
                self.tile(ty, data.spread(count(shape)))
            }
            Kind::FromElements => {
                let mut data = Data::zeros(self.elem(op.results[0]), 0);
                for v in o {
                    data.append(&self.get(*v)?.data());
                }
                self.tile(ty, data)
            }
            Kind::Extract => {
                let (tile, at) = (self.get(o[0])?, self.ints(&o[1..])?);
                let of = tile.shape().to_vec();
                if at.iter().zip(&of).any(|(i, n)| !(0..*n).contains(i)) {
                    return Err(Fault::OutOfBounds { index: at, shape: of });
                }
                let place = at.iter().zip(strides(&of)).map(|(i, s)| size(*i) * s).sum();
                Ok(tile.data().gather(std::iter::once(place)).first())
            }
            Kind::ExtractSlice | Kind::InsertSlice => self.slice(op, ty),
            Kind::ExpandShape | Kind::CollapseShape | Kind::Reshape => {
                let data = self.get(o[0])?.data();
                self.tile_of(ty, data)
            }
            Kind::Concat => {
                let dim = size(op.int("dim").unwrap_or(0));
                let mut data = Data::zeros(self.elem(op.results[0]), count(shape));
                let places = strides(shape);
                let mut at = 0;
                for v in o {
                    let part = self.get(*v)?;
                    let loops: Vec<(usize, usize)> =
                        part.shape().iter().zip(&places).map(|(n, s)| (size(*n), *s)).collect();
                    data.scatter(&part.data(), nest(at * places[dim], &loops).into_iter());
                    at += size(part.shape()[dim]);
                }
                self.tile(ty, data)
            }
            Kind::TensorDim | Kind::MemRefDim => {
                let d = self.get(o[1])?.int();
                let of = match self.get(o[0])? {
                    Val::View(view) => view.shape.clone(),
                    tile => tile.shape().to_vec(),
                };
                let n = usize::try_from(d).ok().and_then(|d| of.get(d)).copied();
                n.map(Val::I).ok_or(Fault::OutOfBounds { index: vec![d], shape: of })
            }
            Kind::Generate => {
                let space = Space::of(shape);
                let args: Vec<Data> = (0..shape.len()).map(|d| space.index(d)).collect();
                let data = self.element_body(op, args, count(shape))?;
                self.tile(ty, data)
            }
            Kind::Pad => {
                let tile = self.get(o[0])?;
                let space = Space::of(shape);
                let args: Vec<Data> = (0..shape.len()).map(|d| space.index(d)).collect();
                let mut data = self.element_body(op, args, count(shape))?;
                let places = strides(shape);
                let low = op.ints("low").unwrap_or(&[]);
                let base = low.iter().zip(&places).map(|(n, s)| size(*n) * s).sum();
                let loops: Vec<(usize, usize)> =
                    tile.shape().iter().zip(&places).map(|(n, s)| (size(*n), *s)).collect();
                data.scatter(&tile.data(), nest(base, &loops).into_iter());
                self.tile(ty, data)
            }
            Kind::Transpose => {
                let tile = self.get(o[0])?;
                let from = strides(tile.shape());
                let p = op.ints("permutation").unwrap_or(&[]);
                let loops: Vec<(usize, usize)> =
                    p.iter().zip(shape).map(|(d, n)| (size(*n), from[size(*d)])).collect();
                let data = tile.data().gather(nest(0, &loops).into_iter());
                self.touched(op);
                self.tile(ty, data)
            }
            Kind::Broadcast => {
                let tile = self.get(o[0])?;
                let mut from = strides(tile.shape()).into_iter();
                let added = op.ints("dimensions").unwrap_or(&[]);
                let step = |(d, n): (usize, &i64)| {
                    let new = added.iter().any(|a| size(*a) == d);
                    (size(*n), if new { 0 } else { from.next().unwrap_or(0) })
                };
                let loops: Vec<(usize, usize)> = shape.iter().enumerate().map(step).collect();
                let data = tile.data().gather(nest(0, &loops).into_iter());
                self.touched(op);
                self.tile(ty, data)
            }
            _ => Err(Fault::Invalid(format!("`{}` has no place here", op.kind.name()))),
        }
    }

    fn slice(&mut self, op: &Op, ty: &Type) -> Result<Val, Fault> {
        let insert = op.kind == Kind::InsertSlice;
        let whole = self.get(op.operands[usize::from(insert)])?;
        let mut dynamic = self.ints(&op.operands[1 + usize::from(insert)..])?.into_iter();
        let list = |key| op.ints(key).unwrap_or(&[]);
        let of = whole.shape().to_vec();
        let places = strides(&of);
        let (mut base, mut loops) = (0, Vec::new());
        for d in 0..of.len() {
            let offset = list("offsets")[d];
            let offset = if offset == DYNAMIC { dynamic.next().unwrap_or(0) } else { offset };
            let (n, step) = (list("sizes")[d], list("strides")[d]);
            let last = (n - 1).checked_mul(step).and_then(|x| x.checked_add(offset));
            if n > 0 && (offset < 0 || last.is_none_or(|last| last >= of[d])) {
                let mut index = vec![0; of.len()];
                index[d] = if offset < 0 { offset } else { last.unwrap_or(i64::MAX) };
                return Err(Fault::OutOfBounds { index, shape: of });
            }
            base += size(offset) * places[d];
            loops.push((size(n), size(step) * places[d]));
        }
        let at = nest(base, &loops);
        self.touched(op);
        if insert {
            let part = self.get(op.operands[0])?.data();
            let mut data = (*whole.data()).clone();
            data.scatter(&part, at.into_iter());
            return self.tile(ty, data);
        }
        let data = whole.data().gather(at.into_iter());
        self.tile(ty, data)
    }

    /// `ins(..) outs(..)`.
    pub(super) fn structured(&mut self, op: &'m Op, inputs: usize) -> Result<Val, Fault> {
        let ty = self.ty(op.results[0]);
        let elem = ty.elem().unwrap_or(Elem::F32);
        let shape = ty.shape().unwrap_or(&[]);
        self.touched(op);
        let plain = |float: Kind, int: Kind| if elem.is_float() { float } else { int };
        let kind = match op.kind {
            Kind::Fill => {
                let value = self.get(op.operands[0])?.data();
                let data = if count(shape) == 0 { value.slice(0..0) } else { (*value).clone() };
                return self.tile(ty, data.spread(count(shape)));
            }
            Kind::Matmul | Kind::MatmulTransposeB | Kind::BatchMatmul | Kind::Matvec => {
                return self.product(op, ty, elem);
            }
            Kind::LinalgAdd => plain(Kind::AddF, Kind::AddI),
            Kind::LinalgSub => plain(Kind::SubF, Kind::SubI),
            Kind::LinalgMul => plain(Kind::MulF, Kind::MulI),
            Kind::LinalgDiv => plain(Kind::DivF, Kind::DivSI),
            Kind::LinalgMax => plain(Kind::MaximumF, Kind::MaxSI),
            Kind::LinalgMin => plain(Kind::MinimumF, Kind::MinSI),
            Kind::LinalgAbs => plain(Kind::AbsF, Kind::AbsI),
            other => other,
        };
        let values: Vec<Rc<Data>> = op.operands[..inputs]
            .iter()
            .map(|v| Ok(self.get(*v)?.data()))
            .collect::<Result<_, Fault>>()?;
        let inputs: Vec<&Data> = values.iter().map(AsRef::as_ref).collect();
        let data = pointwise::named(kind, "", &inputs, elem, elem)?;
        self.ledger.compute(op.kind.class(), data.len(), false);
        self.tile(ty, data)
    }

    fn product(&mut self, op: &Op, ty: &Type, elem: Elem) -> Result<Val, Fault> {
        let [a, b, c] = [0, 1, 2].map(|i| self.get(op.operands[i]));
        let (a, b, c) = (a?, b?, c?);
        let (sa, sb) = (a.shape(), b.shape());
        let (batch, m, k, n) = match (op.kind, sa, sb) {
            (Kind::BatchMatmul, &[x, m, k], &[_, _, n]) => (size(x), size(m), size(k), size(n)),
            (Kind::Matvec, &[m, k], _) => (1, size(m), size(k), 1),
            (Kind::MatmulTransposeB, &[m, k], &[n, _]) => (1, size(m), size(k), size(n)),
            (_, &[m, k], &[_, n]) => (1, size(m), size(k), size(n)),
            _ => return Err(Fault::Invalid("a product of tiles without rows".into())),
        };
        self.meter.elements([batch, m, k, n].iter().fold(1, |p, d| p.saturating_mul(*d as u64)))?;
        let (a, mut b, c) = (a.data(), b.data(), c.data());
        if op.kind == Kind::MatmulTransposeB {
            b = Rc::new(b.gather(nest(0, &[(k, 1), (n, k)]).into_iter()));
        }
        let data = if elem.is_float() {
            let mut sum = vec![0.0_f32; batch * m * n];
            for x in 0..batch {
                let rows = &a.floats()[x * m * k..(x + 1) * m * k];
                let columns = &b.floats()[x * k * n..(x + 1) * k * n];
                multiply(rows, columns, &mut sum[x * m * n..(x + 1) * m * n], k, n);
            }
            pointwise::round(&mut sum, elem);
            pointwise::named(Kind::AddF, "", &[&c, &Data::F(sum)], elem, elem)?
        } else {
            let mut out = c.ints().to_vec();
            for x in 0..batch {
                for i in 0..m {
                    for l in 0..k {
                        let f = a.ints()[(x * m + i) * k + l];
                        let row = &b.ints()[(x * k + l) * n..(x * k + l + 1) * n];
                        let to = &mut out[(x * m + i) * n..(x * m + i + 1) * n];
                        to.iter_mut()
                            .zip(row)
                            .for_each(|(t, r)| *t = t.wrapping_add(f.wrapping_mul(*r)));
                    }
                }
            }
            Data::I(out.into_iter().map(|v| pointwise::wrap(v, elem)).collect())
        };
        self.ledger.macs((batch * m) as u64 * (k * n) as u64);
        self.tile(ty, data)
    }
}

/// `sum += rows * columns`, each sum in the order of the inner dimension.
fn multiply(rows: &[f32], columns: &[f32], sum: &mut [f32], k: usize, n: usize) {
    if k == 0 || n == 0 {
        return;
    }
    // Four rows share each pass over a row of the columns; their sums stay independent.
    const ROWS: usize = 4;
    for (rows, sums) in rows.chunks(ROWS * k).zip(sum.chunks_mut(ROWS * n)) {
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
