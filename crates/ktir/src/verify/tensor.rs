//! Rules of operations that make, slice and concatenate tiles.

use super::{KtirChecker, Result, broken_rule, ensure_rule};
use crate::ir::{DYNAMIC_SIZE, KtirOp};
use crate::op::KtirOpKind;
use crate::types::KtirType;

impl<'m> KtirChecker<'m> {
    pub(super) fn check_tensor_op(&self, op: &'m KtirOp) -> Result {
        let o = &op.operands;
        ensure_rule(op, op.results.len() == 1, || "has one result".into())?;
        let result = self.value_type(op.results[0]);
        match op.kind {
            KtirOpKind::TensorEmpty => {
                self.check_counts(op, 0, 1)?;
                self.tile_type(op, op.results[0]).map(|_| ())
            }
            KtirOpKind::Splat => {
                self.check_counts(op, 1, 1)?;
                let (_, elem) = self.tile_type(op, op.results[0])?;
                let value = self.value_type(o[0]);
                ensure_rule(op, *value == KtirType::Scalar(elem), || {
                    format!("fills {elem} with {value}")
                })
            }
            KtirOpKind::FromElements => {
                let (shape, elem) = self.tile_type(op, op.results[0])?;
                let n = shape.iter().product::<i64>();
                // MLIR takes exactly one value per element, in row-major order; a shorter list
                // would leave some undefined.
                ensure_rule(op, i64::try_from(o.len()) == Ok(n), || {
                    format!("{} elements for the {n} of {result}", o.len())
                })?;
                let all = o.iter().all(|v| *self.value_type(*v) == KtirType::Scalar(elem));
                ensure_rule(op, all, || format!("takes elements of type {elem}"))
            }
            KtirOpKind::Extract => {
                ensure_rule(op, !o.is_empty(), || "needs a tensor".into())?;
                let (shape, elem) = self.tile_type(op, o[0])?;
                self.check_index_types(op, &o[1..])?;
                ensure_rule(op, shape.len() == o.len() - 1, || {
                    format!("{} indices into {}", o.len() - 1, self.value_type(o[0]))
                })?;
                ensure_rule(op, *result == KtirType::Scalar(elem), || format!("gives {elem}"))
            }
            KtirOpKind::ExtractSlice | KtirOpKind::InsertSlice => self.check_slice(op),
            KtirOpKind::ExpandShape | KtirOpKind::CollapseShape => self.check_reassociated(op),
            KtirOpKind::Reshape => {
                self.check_counts(op, 2, 1)?;
                self.check_same_elements(op)
            }
            KtirOpKind::Generate => {
                self.check_counts(op, 0, 1)?;
                let (shape, elem) = self.tile_type(op, op.results[0])?;
                self.check_element_body(op, shape.len(), &KtirType::Scalar(elem))
            }
            KtirOpKind::Pad => {
                self.check_counts(op, 1, 1)?;
                let ((a, ea), (b, eb)) =
                    (self.tile_type(op, o[0])?, self.tile_type(op, op.results[0])?);
                let (low, high) =
                    (op.ints_attr("low").unwrap_or(&[]), op.ints_attr("high").unwrap_or(&[]));
                let ok = ea == eb
                    && [b.len(), low.len(), high.len()] == [a.len(); 3]
                    // Negative padding would be a slice, which `tensor.pad` does not mean here. The
                    // upper bound keeps the sum of both sides inside of 64 bits.
                    && low.iter().chain(high).all(|n| (0..1 << 40).contains(n))
                    && (0..a.len()).all(|i| a[i].checked_add(low[i] + high[i]) == Some(b[i]));
                ensure_rule(op, ok, || {
                    format!(
                        "{low:?} before and {high:?} after {} is not {result}",
                        self.value_type(o[0])
                    )
                })?;
                self.check_element_body(op, a.len(), &KtirType::Scalar(eb))
            }
            KtirOpKind::Concat => {
                ensure_rule(op, !o.is_empty(), || "needs tensors".into())?;
                let (want, elem) = self.tile_type(op, op.results[0])?;
                let dim = op.int_attr("dim").and_then(|d| usize::try_from(d).ok());
                let Some(dim) = dim.filter(|d| *d < want.len()) else {
                    return broken_rule(op, format!("no such dimension of {result}"));
                };
                let mut sum = 0_i64;
                for v in o {
                    let (shape, e) = self.tile_type(op, *v)?;
                    let fits = e == elem
                        && shape.len() == want.len()
                        && (0..want.len()).all(|i| i == dim || shape[i] == want[i]);
                    ensure_rule(op, fits, || {
                        format!("{} does not fit into {result}", self.value_type(*v))
                    })?;
                    // Saturating is enough: a sum that does not fit cannot equal the size of the
                    // result.
                    sum = sum.saturating_add(shape[dim]);
                }
                ensure_rule(op, sum == want[dim], || {
                    format!("the parts have {sum} of the {} along dimension {dim}", want[dim])
                })
            }
            _ => {
                self.check_counts(op, 2, 1)?;
                self.check_index_types(op, &o[1..])?;
                let shaped =
                    matches!(self.value_type(o[0]), KtirType::Tensor(..) | KtirType::MemRef(..));
                ensure_rule(op, shaped && *result == KtirType::INDEX, || {
                    "gives a size of a shape".into()
                })
            }
        }
    }

    /// Checks a body that computes an element from its coordinates.
    fn check_element_body(&self, op: &'m KtirOp, rank: usize, elem: &KtirType) -> Result {
        self.check_region_count(op, 1)?;
        let region = &op.regions[0];
        self.check_index_types(op, &region.args)?;
        ensure_rule(op, region.args.len() == rank, || format!("its body takes {rank} indices"))?;
        for inner in &region.ops {
            // A body runs on all elements at once, as lanes. Loops, memory accesses and exchanges
            // inside it would need a different path for each lane.
            let plain = inner.kind.is_pointwise()
                || matches!(
                    inner.kind,
                    KtirOpKind::ArithConstant | KtirOpKind::TensorYield | KtirOpKind::AffineApply
                );
            ensure_rule(inner, plain, || {
                format!("is not allowed in the body of `{}`", op.kind.name())
            })?;
        }
        self.check_yielded(op, region, &[elem])
    }

    fn check_same_elements(&self, op: &KtirOp) -> Result {
        let ((a, ea), (b, eb)) =
            (self.tile_type(op, op.operands[0])?, self.tile_type(op, op.results[0])?);
        ensure_rule(op, ea == eb && a.iter().product::<i64>() == b.iter().product::<i64>(), || {
            format!(
                "{} does not hold {}",
                self.value_type(op.results[0]),
                self.value_type(op.operands[0])
            )
        })
    }

    fn check_reassociated(&self, op: &KtirOp) -> Result {
        self.check_counts(op, 1, 1)?;
        self.check_same_elements(op)?;
        let ((a, _), (b, _)) =
            (self.tile_type(op, op.operands[0])?, self.tile_type(op, op.results[0])?);
        // Expanding and collapsing are inverses, and `reassociation` always lists the dimensions of
        // the longer shape for each dimension of the shorter one.
        let (few, many) = if op.kind == KtirOpKind::ExpandShape { (a, b) } else { (b, a) };
        let groups = op.groups_attr("reassociation");
        let flat: Vec<i64> = groups.concat();
        let rank = i64::try_from(many.len()).unwrap_or(i64::MAX);
        let fits = groups.len() == few.len()
            // Every dimension once and in order: otherwise the row-major order of the elements
            // would change, and the operation would move data.
            && flat == (0..rank).collect::<Vec<_>>()
            && groups.iter().zip(few).all(|(g, n)| {
                let dims = g.iter().filter_map(|d| many.get(usize::try_from(*d).ok()?));
                dims.product::<i64>() == *n
            });
        // A tile of rank 0 has no groups of dimensions, so all sizes on the other side are 1.
        let scalar = few.is_empty() && groups.is_empty() && many.iter().all(|n| *n == 1);
        ensure_rule(op, fits || scalar, || format!("{groups:?} does not reshape {a:?} to {b:?}"))
    }

    fn check_slice(&self, op: &KtirOp) -> Result {
        let o = &op.operands;
        let insert = op.kind == KtirOpKind::InsertSlice;
        let fixed = if insert { 2 } else { 1 };
        ensure_rule(op, o.len() >= fixed, || "needs tensors".into())?;
        let (whole, ew) = self.tile_type(op, o[fixed - 1])?;
        let part_value = if insert { o[0] } else { op.results[0] };
        let (part, ep) = self.tile_type(op, part_value)?;
        ensure_rule(op, ew == ep, || format!("{ep} in {ew}"))?;
        if insert {
            ensure_rule(op, self.value_type(op.results[0]) == self.value_type(o[1]), || {
                "gives the type it fills".into()
            })?;
        }
        let mut dynamic = 0;
        let mut lists = Vec::new();
        for key in ["offsets", "sizes", "strides"] {
            let list = op.ints_attr(key).unwrap_or(&[]);
            ensure_rule(op, list.len() == whole.len(), || {
                format!("{} {key} for a tensor of {} dimensions", list.len(), whole.len())
            })?;
            dynamic += list.iter().filter(|n| **n == DYNAMIC_SIZE).count();
            // A tile is charged to the scratchpad when it is made, so its size has to be in its
            // type.
            ensure_rule(op, key == "offsets" || !list.contains(&DYNAMIC_SIZE), || {
                format!("{key} must be constants: tiles have constant sizes")
            })?;
            lists.push(list);
        }
        ensure_rule(op, o.len() == fixed + dynamic, || {
            format!("{dynamic} offsets are values, {} are given", o.len() - fixed)
        })?;
        self.check_index_types(op, &o[fixed..])?;
        let (offsets, sizes, strides) = (lists[0], lists[1], lists[2]);
        for i in 0..whole.len() {
            let (size, stride) = (sizes[i], strides[i]);
            // An offset that is a value is checked when it runs. Taking 0 here still refuses a
            // slice that would leave the tensor at any offset.
            let offset = if offsets[i] == DYNAMIC_SIZE { 0 } else { offsets[i] };
            let last = (size.max(1) - 1).checked_mul(stride).and_then(|n| n.checked_add(offset));
            let fits = size >= 0
                && stride >= 1
                && offset >= 0
                && (size == 0 || last.is_some_and(|last| last < whole[i]));
            ensure_rule(op, fits, || {
                format!(
                    "dimension {i} has {} elements, and the slice reaches beyond them",
                    whole[i]
                )
            })?;
        }
        // MLIR's rank-reducing slices may drop dimensions of size 1, and only those.
        let kept = |s: &[i64]| s.iter().filter(|n| **n != 1).copied().collect::<Vec<_>>();
        ensure_rule(
            op,
            part == sizes || (part.len() < sizes.len() && kept(part) == kept(sizes)),
            || format!("the slice has sizes {sizes:?}, but the tensor is {part:?}"),
        )
    }
}
