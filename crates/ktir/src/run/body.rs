//! Bodies on elements, run on all of them at once: generic, reduce, map, generate, pad.

use super::budget::Meter;
use super::core::Core;
use super::error::Fault;
use super::pointwise;
use super::step::constant;
use super::value::{Data, Val, count, nest, strides};
use crate::affine::Map;
use crate::ir::{Block, Op, Value};
use crate::op::Kind;
use crate::types::Elem;
use std::collections::HashMap;
use std::rc::Rc;

/// A nest of loops, the last one innermost.
pub(super) struct Space {
    sizes: Vec<usize>,
}

impl Space {
    pub(super) fn of(shape: &[i64]) -> Space {
        Space { sizes: shape.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect() }
    }

    fn count(&self) -> usize {
        self.sizes.iter().product()
    }

    /// How many points there are; refused where that many steps are not left.
    fn rounds(&self, meter: &Meter) -> Result<usize, Fault> {
        let rounds = self.sizes.iter().fold(1_usize, |n, d| n.saturating_mul(*d));
        meter.steps(rounds as u64)?;
        Ok(rounds)
    }

    /// The index of a loop at every point.
    pub(super) fn index(&self, d: usize) -> Data {
        let strides: Vec<(usize, usize)> =
            self.sizes.iter().enumerate().map(|(i, n)| (*n, usize::from(i == d))).collect();
        Data::I(nest(0, &strides).into_iter().map(|i| i64::try_from(i).unwrap_or(0)).collect())
    }
}

type Lanes = HashMap<Value, Rc<Data>>;

impl<'m> Core<'m> {
    /// Runs a body on lanes: what it yields. `index` gives the value of `linalg.index`.
    fn lanes(
        &mut self,
        body: &'m Block,
        args: Vec<Rc<Data>>,
        n: usize,
        index: &dyn Fn(i64) -> Data,
    ) -> Result<Vec<Rc<Data>>, Fault> {
        let work = (n as u64).saturating_mul(body.ops.len() as u64);
        self.meter.elements(work)?;
        // Every operation of the body leaves a value of each lane.
        let _held = self.meter.hold(work.saturating_mul(8))?;
        let mut lanes: Lanes = body.args.iter().copied().zip(args).collect();
        for op in &body.ops {
            if op.kind.is_terminator() {
                return op.operands.iter().map(|v| self.lane(&lanes, *v, n)).collect();
            }
            let result = op.results.first().copied();
            let data = match op.kind {
                Kind::ArithConstant => {
                    let elem = result.map_or(Elem::Index, |v| self.elem(v));
                    constant(op, elem, 1)
                }
                Kind::LinalgIndex => index(op.int("dim").unwrap_or(0)),
                Kind::AffineApply => self.applied(op, &lanes, n)?,
                _ => {
                    let inputs: Vec<Rc<Data>> = op
                        .operands
                        .iter()
                        .map(|v| self.raw_lane(&lanes, *v))
                        .collect::<Result<_, _>>()?;
                    let refs: Vec<&Data> = inputs.iter().map(AsRef::as_ref).collect();
                    let first = usize::from(op.kind == Kind::ArithSelect);
                    let from = self.elem(op.operands[first]);
                    let to = result.map_or(from, |v| self.elem(v));
                    let data = pointwise::apply(op, &refs, from, to)?;
                    self.ledger.compute(op.kind.class(), n, false);
                    data
                }
            };
            if let Some(v) = result {
                lanes.insert(v, Rc::new(data));
            }
        }
        Ok(Vec::new())
    }

    /// A lane, or a value from outside that is the same everywhere.
    fn raw_lane(&self, lanes: &Lanes, v: Value) -> Result<Rc<Data>, Fault> {
        lanes.get(&v).cloned().map_or_else(|| Ok(self.get(v)?.data()), Ok)
    }

    fn lane(&self, lanes: &Lanes, v: Value, n: usize) -> Result<Rc<Data>, Fault> {
        let data = self.raw_lane(lanes, v)?;
        if data.len() == n {
            return Ok(data);
        }
        Ok(Rc::new(if n == 0 { data.slice(0..0) } else { (*data).clone().spread(n) }))
    }

    fn applied(&self, op: &Op, lanes: &Lanes, n: usize) -> Result<Data, Fault> {
        let Some(map) = op.map("map") else { return Ok(Data::I(vec![0; n])) };
        let inputs: Vec<Rc<Data>> =
            op.operands.iter().map(|v| self.lane(lanes, *v, n)).collect::<Result<_, _>>()?;
        let one = |i: usize| {
            let at: Vec<i64> = inputs.iter().map(|d| d.ints()[i]).collect();
            let (dims, symbols) = at.split_at(map.dims().min(at.len()));
            let value = map.eval(dims, symbols).and_then(|v| v.first().copied());
            value.ok_or(Fault::Overflow("an index"))
        };
        Ok(Data::I((0..n).map(one).collect::<Result<_, _>>()?))
    }

    /// A body that gets the coordinates of each element.
    pub(super) fn element_body(
        &mut self,
        op: &'m Op,
        args: Vec<Data>,
        n: usize,
    ) -> Result<Data, Fault> {
        let args = args.into_iter().map(Rc::new).collect();
        let out = self.lanes(&op.regions[0], args, n, &|_| Data::I(Vec::new()))?;
        Ok(out.first().map_or_else(|| Data::zeros(self.elem(op.results[0]), n), |d| (**d).clone()))
    }

    pub(super) fn looped(&mut self, op: &'m Op) -> Result<Vec<Val>, Fault> {
        self.touched(op);
        let inputs = op.int("inputs").and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let data = match op.kind {
            Kind::Generic => self.generic(op, inputs)?,
            Kind::Reduce => self.reduce(op, inputs)?,
            _ => self.mapped(op, inputs)?,
        };
        let mut out = Vec::new();
        for (v, data) in op.results.iter().zip(data) {
            out.push(self.tile_of(self.ty(*v), data)?);
        }
        Ok(out)
    }

    fn mapped(&mut self, op: &'m Op, inputs: usize) -> Result<Vec<Rc<Data>>, Fault> {
        let args: Vec<Rc<Data>> = op.operands[..inputs]
            .iter()
            .map(|v| Ok(self.get(*v)?.data()))
            .collect::<Result<_, Fault>>()?;
        let n = count(self.ty(op.results[0]).shape().unwrap_or(&[]));
        match op.word("combiner").and_then(Kind::from_name) {
            Some(kind) => {
                Ok(vec![Rc::new(self.combined(kind, &args, self.elem(op.results[0]))?)])
            }
            None => {
                let space = Space::of(self.ty(op.results[0]).shape().unwrap_or(&[]));
                let at = |d: i64| space.index(usize::try_from(d).unwrap_or(0));
                self.lanes(&op.regions[0], args, n, &at)
            }
        }
    }

    /// One operation for the whole body.
    fn combined(&mut self, kind: Kind, args: &[Rc<Data>], elem: Elem) -> Result<Data, Fault> {
        let refs: Vec<&Data> = args.iter().map(AsRef::as_ref).collect();
        let data = pointwise::named(kind, "", &refs, elem, elem)?;
        self.ledger.compute(kind.class(), data.len(), false);
        Ok(data)
    }

    /// Folds halves onto each other until one is left, then the initial value.
    fn reduce(&mut self, op: &'m Op, inputs: usize) -> Result<Vec<Rc<Data>>, Fault> {
        let shape = self.ty(op.operands[0]).shape().unwrap_or(&[]).to_vec();
        let places = strides(&shape);
        let dims: Vec<usize> = op
            .ints("dimensions")
            .unwrap_or(&[])
            .iter()
            .filter_map(|d| usize::try_from(*d).ok())
            .collect();
        let size = |d: usize| usize::try_from(shape[d]).unwrap_or(0);
        let (gone, kept): (Vec<usize>, Vec<usize>) =
            (0..shape.len()).partition(|d| dims.contains(d));
        let loops: Vec<(usize, usize)> =
            gone.iter().chain(&kept).map(|d| (size(*d), places[*d])).collect();
        let rows: usize = gone.iter().map(|d| size(*d)).product();
        let row: usize = kept.iter().map(|d| size(*d)).product();
        // Rows to fold, one after the other.
        let at = nest(0, &loops);
        let mut lanes: Vec<Data> = Vec::new();
        for v in &op.operands[..inputs] {
            lanes.push(self.get(*v)?.data().gather(at.iter().copied()));
        }
        let elem = self.elem(op.results[0]);
        let mut left = rows;
        while left > 1 {
            let half = left / 2;
            let part = |from: usize, to: usize| -> Vec<Rc<Data>> {
                lanes.iter().map(|d| Rc::new(d.slice(from * row..to * row))).collect()
            };
            let mut folded = self.fold(op, part(0, half), part(half, 2 * half), elem)?;
            if left % 2 == 1 {
                for (to, tail) in folded.iter_mut().zip(part(2 * half, left)) {
                    to.append(&tail);
                }
            }
            lanes = folded;
            left = half + left % 2;
        }
        let inits: Vec<Rc<Data>> = op.operands[inputs..]
            .iter()
            .map(|v| Ok(self.get(*v)?.data()))
            .collect::<Result<_, Fault>>()?;
        if rows == 0 {
            return Ok(inits);
        }
        let last = lanes.into_iter().map(Rc::new).collect();
        Ok(self.fold(op, last, inits, elem)?.into_iter().map(Rc::new).collect())
    }

    fn fold(
        &mut self,
        op: &'m Op,
        a: Vec<Rc<Data>>,
        b: Vec<Rc<Data>>,
        elem: Elem,
    ) -> Result<Vec<Data>, Fault> {
        match op.word("combiner").and_then(Kind::from_name) {
            Some(kind) => {
                let pair = [a[0].clone(), b[0].clone()];
                Ok(vec![self.combined(kind, &pair, elem)?])
            }
            None => {
                let n = a.first().map_or(0, |d| d.len());
                let args = [a, b].concat();
                let out = self.lanes(&op.regions[0], args, n, &|_| Data::I(Vec::new()))?;
                Ok(out.into_iter().map(|d| (*d).clone()).collect())
            }
        }
    }

    /// Parallel loops all at once, reduction loops one step after the other.
    fn generic(&mut self, op: &'m Op, inputs: usize) -> Result<Vec<Rc<Data>>, Fault> {
        let maps = op.maps("indexing_maps");
        let iterators = op.words("iterator_types");
        let mut sizes = vec![0_usize; iterators.len()];
        for (map, v) in maps.iter().zip(&op.operands) {
            let shape = self.ty(*v).shape().unwrap_or(&[]);
            for (e, n) in map.results().iter().zip(shape) {
                if let Some(d) = e.as_dim() {
                    sizes[d] = usize::try_from(*n).unwrap_or(0);
                }
            }
        }
        let (parallel, reduced): (Vec<usize>, Vec<usize>) =
            (0..sizes.len()).partition(|d| iterators[*d] == "parallel");
        let space = Space { sizes: parallel.iter().map(|d| sizes[*d]).collect() };
        let steps = Space { sizes: reduced.iter().map(|d| sizes[*d]).collect() };
        let n = space.count();
        let data: Vec<Rc<Data>> =
            op.operands.iter().map(|v| Ok(self.get(*v)?.data())).collect::<Result<_, Fault>>()?;
        let shapes: Vec<&[i64]> =
            op.operands.iter().map(|v| self.ty(*v).shape().unwrap_or(&[])).collect();
        // Outputs lie in the order of the parallel loops while they are worked on.
        let places: Vec<Vec<usize>> = (inputs..maps.len())
            .map(|i| places(&maps[i], shapes[i], &sizes, &parallel, &[], &[]))
            .collect::<Result<_, _>>()?;
        let mut outs: Vec<Rc<Data>> = places
            .iter()
            .zip(&data[inputs..])
            .map(|(at, d)| Rc::new(d.gather(at.iter().copied())))
            .collect();
        // Without a lane nothing is computed, however many rounds there are.
        let rounds = if n == 0 { 0 } else { steps.rounds(&self.meter)? };
        let nodes: usize = maps.iter().map(Map::nodes).sum();
        let mut at = vec![0_usize; reduced.len()];
        for _ in 0..rounds {
            self.meter.elements((n as u64).saturating_mul(nodes as u64 + 1))?;
            let mut args = Vec::with_capacity(data.len());
            for i in 0..inputs {
                let whole = maps[i].is_identity() && reduced.is_empty();
                args.push(if whole {
                    data[i].clone()
                } else {
                    let at = places_of(&maps[i], shapes[i], &sizes, (&parallel, &reduced), &at)?;
                    Rc::new(data[i].gather(at.into_iter()))
                });
            }
            args.extend(outs.iter().cloned());
            let index = |d: i64| {
                let d = usize::try_from(d).unwrap_or(0);
                match (parallel.iter().position(|p| *p == d), reduced.iter().position(|r| *r == d))
                {
                    (Some(p), _) => space.index(p),
                    (_, Some(r)) => Data::I(vec![i64::try_from(at[r]).unwrap_or(0); n]),
                    _ => Data::I(vec![0; n]),
                }
            };
            outs = self.lanes(&op.regions[0], args, n, &index)?;
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
            whole.scatter(out, at.iter().copied());
            results.push(Rc::new(whole));
        }
        Ok(results)
    }
}

fn places_of(
    map: &Map,
    shape: &[i64],
    sizes: &[usize],
    (parallel, reduced): (&[usize], &[usize]),
    at: &[usize],
) -> Result<Vec<usize>, Fault> {
    places(map, shape, sizes, parallel, reduced, at)
}

/// Where a map puts every point of the parallel loops, with the reduction loops at `at`.
fn places(
    map: &Map,
    shape: &[i64],
    sizes: &[usize],
    parallel: &[usize],
    reduced: &[usize],
    at: &[usize],
) -> Result<Vec<usize>, Fault> {
    let strides = strides(shape);
    if let Some(dims) = map.selected() {
        let step = |d: usize| -> usize {
            dims.iter().zip(&strides).filter(|(e, _)| **e == d).map(|(_, s)| s).sum()
        };
        let base = reduced.iter().zip(at).map(|(d, i)| i * step(*d)).sum();
        let loops: Vec<(usize, usize)> = parallel.iter().map(|d| (sizes[*d], step(*d))).collect();
        return Ok(nest(base, &loops));
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
        let index = map.eval(&point, &[]).ok_or(Fault::Overflow("an index"))?;
        if index.iter().zip(shape).any(|(i, n)| !(0..*n).contains(i)) {
            return Err(Fault::OutOfBounds { index, shape: shape.to_vec() });
        }
        let place = index.iter().zip(&strides).map(|(i, s)| usize::try_from(*i).unwrap_or(0) * s);
        out.push(place.sum());
    }
    Ok(out)
}
