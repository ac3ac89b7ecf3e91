//! Making, cutting and joining tiles.

use super::{Checker, Result, broken, ensure};
use crate::ir::{DYNAMIC, Op};
use crate::op::Kind;
use crate::types::Type;

impl<'m> Checker<'m> {
    pub(super) fn tensor_op(&self, op: &'m Op) -> Result {
        let o = &op.operands;
        ensure(op, op.results.len() == 1, || "has one result".into())?;
        let result = self.ty(op.results[0]);
        match op.kind {
            Kind::TensorEmpty => {
                self.counts(op, 0, 1)?;
                self.tensor(op, op.results[0]).map(|_| ())
            }
            Kind::Splat => {
                self.counts(op, 1, 1)?;
                let (_, elem) = self.tensor(op, op.results[0])?;
                let value = self.ty(o[0]);
                ensure(op, *value == Type::Scalar(elem), || format!("fills {elem} with {value}"))
            }
            Kind::FromElements => {
                let (shape, elem) = self.tensor(op, op.results[0])?;
                let n = shape.iter().product::<i64>();
                ensure(op, i64::try_from(o.len()) == Ok(n), || {
                    format!("{} elements for the {n} of {result}", o.len())
                })?;
                let all = o.iter().all(|v| *self.ty(*v) == Type::Scalar(elem));
                ensure(op, all, || format!("takes elements of type {elem}"))
            }
            Kind::Extract => {
                ensure(op, !o.is_empty(), || "needs a tensor".into())?;
                let (shape, elem) = self.tensor(op, o[0])?;
                self.indices(op, &o[1..])?;
                ensure(op, shape.len() == o.len() - 1, || {
                    format!("{} indices into {}", o.len() - 1, self.ty(o[0]))
                })?;
                ensure(op, *result == Type::Scalar(elem), || format!("gives {elem}"))
            }
            Kind::ExtractSlice | Kind::InsertSlice => self.slice(op),
            Kind::ExpandShape | Kind::CollapseShape => self.reassociated(op),
            Kind::Reshape => {
                self.counts(op, 2, 1)?;
                self.same_elements(op)
            }
            Kind::Generate => {
                self.counts(op, 0, 1)?;
                let (shape, elem) = self.tensor(op, op.results[0])?;
                self.element_body(op, shape.len(), &Type::Scalar(elem))
            }
            Kind::Pad => {
                self.counts(op, 1, 1)?;
                let ((a, ea), (b, eb)) = (self.tensor(op, o[0])?, self.tensor(op, op.results[0])?);
                let (low, high) = (op.ints("low").unwrap_or(&[]), op.ints("high").unwrap_or(&[]));
                let ok = ea == eb
                    && [b.len(), low.len(), high.len()] == [a.len(); 3]
                    && low.iter().chain(high).all(|n| (0..1 << 40).contains(n))
                    && (0..a.len()).all(|i| a[i].checked_add(low[i] + high[i]) == Some(b[i]));
                ensure(op, ok, || {
                    format!("{low:?} before and {high:?} after {} is not {result}", self.ty(o[0]))
                })?;
                self.element_body(op, a.len(), &Type::Scalar(eb))
            }
            Kind::Concat => {
                ensure(op, !o.is_empty(), || "needs tensors".into())?;
                let (want, elem) = self.tensor(op, op.results[0])?;
                let dim = op.int("dim").and_then(|d| usize::try_from(d).ok());
                let Some(dim) = dim.filter(|d| *d < want.len()) else {
                    return broken(op, format!("no such dimension of {result}"));
                };
                let mut sum = 0_i64;
                for v in o {
                    let (shape, e) = self.tensor(op, *v)?;
                    let fits = e == elem
                        && shape.len() == want.len()
                        && (0..want.len()).all(|i| i == dim || shape[i] == want[i]);
                    ensure(op, fits, || format!("{} is no part of {result}", self.ty(*v)))?;
                    sum = sum.saturating_add(shape[dim]);
                }
                ensure(op, sum == want[dim], || {
                    format!("the parts have {sum} of the {} along dimension {dim}", want[dim])
                })
            }
            _ => {
                self.counts(op, 2, 1)?;
                self.indices(op, &o[1..])?;
                let shaped = matches!(self.ty(o[0]), Type::Tensor(..) | Type::MemRef(..));
                ensure(op, shaped && *result == Type::INDEX, || "gives a size of a shape".into())
            }
        }
    }

    /// A body that takes the coordinates of an element and gives it.
    fn element_body(&self, op: &'m Op, rank: usize, elem: &Type) -> Result {
        self.regions(op, 1)?;
        let region = &op.regions[0];
        self.indices(op, &region.args)?;
        ensure(op, region.args.len() == rank, || format!("its body takes {rank} indices"))?;
        for inner in &region.ops {
            let plain = inner.kind.is_pointwise()
                || matches!(
                    inner.kind,
                    Kind::ArithConstant | Kind::TensorYield | Kind::AffineApply
                );
            ensure(inner, plain, || format!("has no place in the body of `{}`", op.kind.name()))?;
        }
        self.yielded(op, region, &[elem])
    }

    fn same_elements(&self, op: &Op) -> Result {
        let ((a, ea), (b, eb)) =
            (self.tensor(op, op.operands[0])?, self.tensor(op, op.results[0])?);
        ensure(op, ea == eb && a.iter().product::<i64>() == b.iter().product::<i64>(), || {
            format!("{} does not hold {}", self.ty(op.results[0]), self.ty(op.operands[0]))
        })
    }

    fn reassociated(&self, op: &Op) -> Result {
        self.counts(op, 1, 1)?;
        self.same_elements(op)?;
        let ((a, _), (b, _)) = (self.tensor(op, op.operands[0])?, self.tensor(op, op.results[0])?);
        let (few, many) = if op.kind == Kind::ExpandShape { (a, b) } else { (b, a) };
        let groups = op.groups("reassociation");
        let flat: Vec<i64> = groups.concat();
        let rank = i64::try_from(many.len()).unwrap_or(i64::MAX);
        let fits = groups.len() == few.len()
            && flat == (0..rank).collect::<Vec<_>>()
            && groups.iter().zip(few).all(|(g, n)| {
                let dims = g.iter().filter_map(|d| many.get(usize::try_from(*d).ok()?));
                dims.product::<i64>() == *n
            });
        // A rank of 0 has no groups, and everything else is 1.
        let scalar = few.is_empty() && groups.is_empty() && many.iter().all(|n| *n == 1);
        ensure(op, fits || scalar, || format!("{groups:?} does not take {a:?} to {b:?}"))
    }

    fn slice(&self, op: &Op) -> Result {
        let o = &op.operands;
        let insert = op.kind == Kind::InsertSlice;
        let fixed = if insert { 2 } else { 1 };
        ensure(op, o.len() >= fixed, || "needs tensors".into())?;
        let (whole, ew) = self.tensor(op, o[fixed - 1])?;
        let part_value = if insert { o[0] } else { op.results[0] };
        let (part, ep) = self.tensor(op, part_value)?;
        ensure(op, ew == ep, || format!("{ep} in {ew}"))?;
        if insert {
            ensure(op, self.ty(op.results[0]) == self.ty(o[1]), || {
                "gives the type it fills".into()
            })?;
        }
        let mut dynamic = 0;
        let mut lists = Vec::new();
        for key in ["offsets", "sizes", "strides"] {
            let list = op.ints(key).unwrap_or(&[]);
            ensure(op, list.len() == whole.len(), || {
                format!("{} {key} for a tensor of {} dimensions", list.len(), whole.len())
            })?;
            dynamic += list.iter().filter(|n| **n == DYNAMIC).count();
            ensure(op, key == "offsets" || !list.contains(&DYNAMIC), || {
                format!("{key} must be numbers: tiles have sizes that are known")
            })?;
            lists.push(list);
        }
        ensure(op, o.len() == fixed + dynamic, || {
            format!("{dynamic} offsets are values, {} are given", o.len() - fixed)
        })?;
        self.indices(op, &o[fixed..])?;
        let (offsets, sizes, strides) = (lists[0], lists[1], lists[2]);
        for i in 0..whole.len() {
            let (size, stride) = (sizes[i], strides[i]);
            let offset = if offsets[i] == DYNAMIC { 0 } else { offsets[i] };
            let last = (size.max(1) - 1).checked_mul(stride).and_then(|n| n.checked_add(offset));
            let fits = size >= 0
                && stride >= 1
                && offset >= 0
                && (size == 0 || last.is_some_and(|last| last < whole[i]));
            ensure(op, fits, || {
                format!("dimension {i} has {} elements, the slice leaves it", whole[i])
            })?;
        }
        let kept = |s: &[i64]| s.iter().filter(|n| **n != 1).copied().collect::<Vec<_>>();
        ensure(op, part == sizes || (part.len() < sizes.len() && kept(part) == kept(sizes)), || {
            format!("the slice has sizes {sizes:?}, but the tensor is {part:?}")
        })
    }
}
