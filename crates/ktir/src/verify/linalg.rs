//! Structured operations on tiles.

use super::{Checker, Result, broken, ensure};
use crate::ir::Op;
use crate::op::Kind;
use crate::types::{Elem, Type};

impl<'m> Checker<'m> {
    /// Named ones: `ins(..) outs(..)`.
    pub(super) fn structured(&self, op: &'m Op) -> Result {
        self.regions(op, 0)?;
        let n = if let crate::op::Form::Structured(n) = op.kind.form() { n } else { 0 };
        self.counts(op, n + 1, 1)?;
        let out = op.operands[n];
        let (shape, elem) = self.tensor(op, out)?;
        ensure(op, self.ty(op.results[0]) == self.ty(out), || {
            "gives the type of its output".into()
        })?;
        if op.kind == Kind::Fill {
            let value = self.ty(op.operands[0]);
            return ensure(op, *value == Type::Scalar(elem), || {
                format!("fills {elem} with {value}")
            });
        }
        let (a, ea) = self.tensor(op, op.operands[0])?;
        let (b, eb) = self.tensor(op, op.operands[n - 1])?;
        let product = |want: &[i64], inner: (i64, i64)| {
            ensure(op, inner.0 == inner.1, || {
                format!("rows of {} elements times columns of {}", inner.0, inner.1)
            })?;
            ensure(op, want == shape, || format!("gives {want:?}, but the output is {shape:?}"))?;
            ensure(op, ea == eb && ea.is_float() == elem.is_float(), || {
                format!("multiplies {ea} and {eb} into {elem}")
            })
        };
        let ranks = || broken(op, format!("operands of shapes {a:?}, {b:?} and {shape:?}"));
        match (op.kind, a, b) {
            (Kind::Matmul, &[m, k], &[k2, n]) => product(&[m, n], (k, k2)),
            (Kind::MatmulTransposeB, &[m, k], &[n, k2]) => product(&[m, n], (k, k2)),
            (Kind::BatchMatmul, &[x, m, k], &[x2, k2, n]) if x == x2 => {
                product(&[x, m, n], (k, k2))
            }
            (Kind::Matvec, &[m, k], &[k2]) => product(&[m], (k, k2)),
            (Kind::Matmul | Kind::MatmulTransposeB | Kind::BatchMatmul | Kind::Matvec, ..) => {
                ranks()
            }
            _ => {
                let same = (a, ea) == (shape, elem) && (b, eb) == (shape, elem);
                let (x, y) = (self.ty(op.operands[0]), self.ty(out));
                ensure(op, same, || format!("inputs and output differ: {x} and {y}"))?;
                let needs = matches!(
                    op.kind,
                    Kind::LinalgExp
                        | Kind::LinalgLog
                        | Kind::LinalgSqrt
                        | Kind::LinalgTanh
                        | Kind::LinalgNegF
                        | Kind::LinalgDiv
                );
                ensure(op, elem.is_float() || !needs, || format!("is for floats, not {elem}"))
            }
        }
    }

    pub(super) fn linalg(&self, op: &'m Op) -> Result {
        match op.kind {
            Kind::Generic => self.generic(op),
            Kind::Reduce => self.reduce(op),
            Kind::LinalgMap => self.linalg_map(op),
            Kind::LinalgIndex => {
                self.counts(op, 0, 1)?;
                self.indices(op, &op.results)?;
                ensure(op, op.int("dim").is_some_and(|d| (0..100).contains(&d)), || {
                    "needs a dimension".into()
                })
            }
            _ => self.rearranged(op),
        }
    }

    fn rearranged(&self, op: &Op) -> Result {
        self.counts(op, 2, 1)?;
        let ((a, ea), (b, eb)) =
            (self.tensor(op, op.operands[0])?, self.tensor(op, op.operands[1])?);
        ensure(op, ea == eb, || format!("moves {ea} into {eb}"))?;
        ensure(op, self.ty(op.results[0]) == self.ty(op.operands[1]), || {
            "gives the type of its output".into()
        })?;
        if op.kind == Kind::Transpose {
            let p = op.ints("permutation").unwrap_or(&[]);
            let dims = permutation(p, a.len());
            let Some(dims) = dims else {
                return broken(op, format!("{p:?} does not permute {} dimensions", a.len()));
            };
            let want: Vec<i64> = dims.iter().map(|d| a[*d]).collect();
            return ensure(op, want == b, || format!("gives {want:?}, but the output is {b:?}"));
        }
        let added = self.distinct(op, "dimensions", b.len())?;
        let rest: Vec<i64> =
            b.iter().enumerate().filter(|(i, _)| !added.contains(i)).map(|(_, n)| *n).collect();
        ensure(op, rest == a, || {
            format!("{b:?} without dimensions {added:?} is {rest:?}, but the input is {a:?}")
        })
    }

    /// A list of different dimensions.
    pub(super) fn distinct(&self, op: &Op, key: &str, rank: usize) -> Result<Vec<usize>> {
        let list = op.ints(key).unwrap_or(&[]);
        let mut out: Vec<usize> = Vec::new();
        for d in list {
            match usize::try_from(*d).ok().filter(|d| *d < rank && !out.contains(d)) {
                Some(d) => out.push(d),
                None => {
                    return broken(op, format!("{key} {list:?} are not different ones of {rank}"));
                }
            }
        }
        Ok(out)
    }

    fn split(&self, op: &Op) -> Result<usize> {
        let n = op.int("inputs").and_then(|n| usize::try_from(n).ok());
        n.filter(|n| *n < op.operands.len() && op.operands.len() - n == op.results.len())
            .map_or_else(|| broken(op, "needs outputs, as many as results"), Ok)
    }

    fn outputs(&self, op: &Op, n: usize) -> Result {
        for (out, result) in op.operands[n..].iter().zip(&op.results) {
            self.tensor(op, *out)?;
            ensure(op, self.ty(*out) == self.ty(*result), || {
                "gives the types of its outputs".into()
            })?;
        }
        Ok(())
    }

    /// A body of operations on elements.
    fn body(&self, op: &'m Op, args: &[Type], yields: &[Type]) -> Result {
        self.regions(op, 1)?;
        let region = &op.regions[0];
        let want: Vec<&Type> = args.iter().collect();
        ensure(op, self.types(&region.args) == want, || {
            let want: Vec<String> = args.iter().map(ToString::to_string).collect();
            format!("its body takes ({})", want.join(", "))
        })?;
        for inner in &region.ops {
            let plain = inner.kind.is_pointwise()
                || matches!(
                    inner.kind,
                    Kind::ArithConstant | Kind::LinalgIndex | Kind::LinalgYield
                );
            ensure(inner, plain, || format!("has no place in the body of `{}`", op.kind.name()))?;
        }
        self.yielded(op, region, &yields.iter().collect::<Vec<_>>())
    }

    fn elem_types(&self, op: &Op, values: &[crate::ir::Value]) -> Result<Vec<Type>> {
        values
            .iter()
            .map(|v| match self.ty(*v) {
                Type::Tensor(_, e) | Type::Scalar(e) => Ok(Type::Scalar(*e)),
                ty => broken(op, format!("takes tensors, not {ty}")),
            })
            .collect()
    }

    fn generic(&self, op: &'m Op) -> Result {
        let n = self.split(op)?;
        self.outputs(op, n)?;
        let (maps, iterators) = (op.maps("indexing_maps"), op.words("iterator_types"));
        ensure(op, maps.len() == op.operands.len(), || {
            format!("{} indexing maps for {} operands", maps.len(), op.operands.len())
        })?;
        for word in iterators {
            ensure(op, matches!(word.as_str(), "parallel" | "reduction"), || {
                format!("an iterator is \"parallel\" or \"reduction\", not \"{word}\"")
            })?;
        }
        let mut sizes: Vec<Option<i64>> = vec![None; iterators.len()];
        for (i, (map, v)) in maps.iter().zip(&op.operands).enumerate() {
            ensure(op, (map.dims(), map.symbols()) == (iterators.len(), 0), || {
                format!("map {i} has {} dimensions for {} iterators", map.dims(), iterators.len())
            })?;
            let shape = self.ty(*v).shape().unwrap_or(&[]);
            ensure(op, map.results().len() == shape.len(), || {
                format!("map {i} has {} results for {}", map.results().len(), self.ty(*v))
            })?;
            for (e, size) in map.results().iter().zip(shape) {
                let Some(d) = e.as_dim() else { continue };
                let known = *sizes[d].get_or_insert(*size);
                ensure(op, known == *size, || {
                    format!("iterator {d} has {known} steps by one operand and {size} by another")
                })?;
            }
            if i >= n {
                let plain = map.selected().is_some_and(|dims| {
                    dims.iter().all(|d| iterators[*d] == "parallel")
                        && (0..dims.len()).all(|i| !dims[..i].contains(&dims[i]))
                });
                ensure(op, plain, || {
                    format!("map {i} of an output takes different parallel iterators")
                })?;
                let parallel = iterators.iter().filter(|w| *w == "parallel").count();
                ensure(op, map.results().len() == parallel, || {
                    format!("map {i} of an output leaves out a parallel iterator")
                })?;
            }
        }
        ensure(op, sizes.iter().all(Option::is_some), || {
            "an iterator is the plain index of no operand".into()
        })?;
        let args = self.elem_types(op, &op.operands)?;
        let outs = args[n..].to_vec();
        self.body(op, &args, &outs)
    }

    fn reduce(&self, op: &'m Op) -> Result {
        let n = self.split(op)?;
        ensure(op, n == op.results.len(), || {
            format!("{n} inputs for {} outputs", op.results.len())
        })?;
        self.outputs(op, n)?;
        let (shape, _) = self.tensor(op, op.operands[0])?;
        let dims = self.distinct(op, "dimensions", shape.len())?;
        let want: Vec<i64> =
            shape.iter().enumerate().filter(|(i, _)| !dims.contains(i)).map(|(_, n)| *n).collect();
        for i in 0..n {
            let ((a, ea), (b, eb)) =
                (self.tensor(op, op.operands[i])?, self.tensor(op, op.operands[n + i])?);
            ensure(op, a == shape, || format!("inputs of shapes {shape:?} and {a:?}"))?;
            ensure(op, b == want, || {
                format!("{a:?} without dimensions {dims:?} is {want:?}, but the output is {b:?}")
            })?;
            ensure(op, ea == eb, || format!("reduces {ea} into {eb}"))?;
        }
        let args = self.elem_types(op, &op.operands)?;
        match op.word("combiner") {
            Some(name) => {
                ensure(op, n == 1, || format!("`{name}` combines one input").to_string())?;
                self.combines(op, name, 2, &args[0])
            }
            None => self.body(op, &args, &args[n..]),
        }
    }

    /// A combiner by name takes so many elements of a type.
    fn combines(&self, op: &Op, name: &str, operands: usize, ty: &Type) -> Result {
        let kind = Kind::from_name(name);
        let form = kind.map(Kind::form);
        ensure(op, form == Some(crate::op::Form::Same(operands)), || {
            format!("`{name}` does not combine {operands} elements")
        })?;
        let float = ty.elem().is_some_and(Elem::is_float);
        let is_int = kind.is_some_and(|k| k.class() == crate::op::Class::Int);
        ensure(op, float != is_int, || format!("`{name}` is not for {ty}"))
    }

    fn linalg_map(&self, op: &'m Op) -> Result {
        let n = self.split(op)?;
        ensure(op, op.results.len() == 1, || "has one output".into())?;
        self.outputs(op, n)?;
        let (shape, _) = self.tensor(op, op.operands[n])?;
        for v in &op.operands[..n] {
            let (a, _) = self.tensor(op, *v)?;
            ensure(op, a == shape, || format!("shapes {a:?} and {shape:?}"))?;
        }
        let args = self.elem_types(op, &op.operands)?;
        match op.word("combiner") {
            Some(name) => {
                ensure(op, n > 0 && args.iter().all(|a| *a == args[0]), || {
                    "a named body takes elements of one type".into()
                })?;
                self.combines(op, name, n, &args[0])
            }
            None => self.body(op, &args[..n], &args[n..]),
        }
    }
}

/// The list as a permutation of so many.
pub(crate) fn permutation(list: &[i64], rank: usize) -> Option<Vec<usize>> {
    let dims: Vec<usize> = list
        .iter()
        .map(|d| usize::try_from(*d).ok().filter(|d| *d < rank))
        .collect::<Option<_>>()?;
    let different = (0..dims.len()).all(|i| !dims[..i].contains(&dims[i]));
    (dims.len() == rank && different).then_some(dims)
}
