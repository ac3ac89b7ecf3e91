//! Rules of the structured operations on tiles.

use super::{KtirChecker, Result, broken_rule, ensure_rule};
use crate::ir::KtirOp;
use crate::op::KtirOpKind;
use crate::types::{KtirElem, KtirType};

impl<'m> KtirChecker<'m> {
    /// Checks a named operation: `ins(..) outs(..)`.
    pub(super) fn check_structured(&self, op: &'m KtirOp) -> Result {
        self.check_region_count(op, 0)?;
        // Structured operations are destination-passing in MLIR: `outs` gives the result its shape
        // and its initial values, so it is one operand more than the inputs.
        let n = if let crate::op::KtirOpForm::Structured(n) = op.kind.form() { n } else { 0 };
        self.check_counts(op, n + 1, 1)?;
        let out = op.operands[n];
        let (shape, elem) = self.tile_type(op, out)?;
        ensure_rule(op, self.value_type(op.results[0]) == self.value_type(out), || {
            "gives the type of its output".into()
        })?;
        if op.kind == KtirOpKind::Fill {
            let value = self.value_type(op.operands[0]);
            return ensure_rule(op, *value == KtirType::Scalar(elem), || {
                format!("fills {elem} with {value}")
            });
        }
        let (a, ea) = self.tile_type(op, op.operands[0])?;
        let (b, eb) = self.tile_type(op, op.operands[n - 1])?;
        let product = |want: &[i64], inner: (i64, i64)| {
            ensure_rule(op, inner.0 == inner.1, || {
                format!("rows of {} elements times columns of {}", inner.0, inner.1)
            })?;
            ensure_rule(op, want == shape, || {
                format!("gives {want:?}, but the output is {shape:?}")
            })?;
            // The output may have more bits than the inputs, as float32 sums of float16 products
            // do. Mixing integers and floats has no accumulator that suits both.
            ensure_rule(op, ea == eb && ea.is_float() == elem.is_float(), || {
                format!("multiplies {ea} and {eb} into {elem}")
            })
        };
        let ranks = || broken_rule(op, format!("operands of shapes {a:?}, {b:?} and {shape:?}"));
        match (op.kind, a, b) {
            // The shapes are matched by rank here and by size in `product`, so that the message can
            // say which two sizes disagree.
            (KtirOpKind::Matmul, &[m, k], &[k2, n]) => product(&[m, n], (k, k2)),
            (KtirOpKind::MatmulTransposeB, &[m, k], &[n, k2]) => product(&[m, n], (k, k2)),
            (KtirOpKind::BatchMatmul, &[x, m, k], &[x2, k2, n]) if x == x2 => {
                product(&[x, m, n], (k, k2))
            }
            (KtirOpKind::Matvec, &[m, k], &[k2]) => product(&[m], (k, k2)),
            (
                KtirOpKind::Matmul
                | KtirOpKind::MatmulTransposeB
                | KtirOpKind::BatchMatmul
                | KtirOpKind::Matvec,
                ..,
            ) => ranks(),
            _ => {
                let same = (a, ea) == (shape, elem) && (b, eb) == (shape, elem);
                let (x, y) = (self.value_type(op.operands[0]), self.value_type(out));
                ensure_rule(op, same, || format!("inputs and output differ: {x} and {y}"))?;
                // These have no integer counterpart in the table of operations; the others become
                // `arith.addi` and so on where the elements are integers.
                let needs = matches!(
                    op.kind,
                    KtirOpKind::LinalgExp
                        | KtirOpKind::LinalgLog
                        | KtirOpKind::LinalgSqrt
                        | KtirOpKind::LinalgTanh
                        | KtirOpKind::LinalgNegF
                        | KtirOpKind::LinalgDiv
                );
                ensure_rule(op, elem.is_float() || !needs, || format!("is for floats, not {elem}"))
            }
        }
    }

    pub(super) fn check_linalg(&self, op: &'m KtirOp) -> Result {
        match op.kind {
            KtirOpKind::Generic => self.check_generic(op),
            KtirOpKind::Reduce => self.check_reduce(op),
            KtirOpKind::LinalgMap => self.check_linalg_map(op),
            KtirOpKind::LinalgIndex => {
                self.check_counts(op, 0, 1)?;
                self.check_index_types(op, &op.results)?;
                // Whether the loop exists is known to the operation around it; a dimension beyond
                // its loops gives 0.
                ensure_rule(op, op.int_attr("dim").is_some_and(|d| (0..100).contains(&d)), || {
                    "needs a dimension".into()
                })
            }
            _ => self.check_rearranged(op),
        }
    }

    fn check_rearranged(&self, op: &KtirOp) -> Result {
        self.check_counts(op, 2, 1)?;
        let ((a, ea), (b, eb)) =
            (self.tile_type(op, op.operands[0])?, self.tile_type(op, op.operands[1])?);
        ensure_rule(op, ea == eb, || format!("moves {ea} into {eb}"))?;
        ensure_rule(op, self.value_type(op.results[0]) == self.value_type(op.operands[1]), || {
            "gives the type of its output".into()
        })?;
        if op.kind == KtirOpKind::Transpose {
            let p = op.ints_attr("permutation").unwrap_or(&[]);
            let dims = as_permutation(p, a.len());
            let Some(dims) = dims else {
                return broken_rule(op, format!("{p:?} does not permute {} dimensions", a.len()));
            };
            let want: Vec<i64> = dims.iter().map(|d| a[*d]).collect();
            return ensure_rule(op, want == b, || {
                format!("gives {want:?}, but the output is {b:?}")
            });
        }
        let added = self.find_distinct_dims(op, "dimensions", b.len())?;
        // `dimensions` of `linalg.broadcast` lists the added dimensions of the output; without them
        // the shapes have to be equal, because this operation does not stretch sizes of 1 as NumPy
        // does.
        let rest: Vec<i64> =
            b.iter().enumerate().filter(|(i, _)| !added.contains(i)).map(|(_, n)| *n).collect();
        ensure_rule(op, rest == a, || {
            format!("{b:?} without dimensions {added:?} is {rest:?}, but the input is {a:?}")
        })
    }

    /// Reads a list of distinct dimensions.
    pub(super) fn find_distinct_dims(
        &self,
        op: &KtirOp,
        key: &str,
        rank: usize,
    ) -> Result<Vec<usize>> {
        let list = op.ints_attr(key).unwrap_or(&[]);
        let mut out: Vec<usize> = Vec::new();
        for d in list {
            match usize::try_from(*d).ok().filter(|d| *d < rank && !out.contains(d)) {
                Some(d) => out.push(d),
                None => {
                    return broken_rule(
                        op,
                        format!("{key} {list:?} are not distinct dimensions below {rank}"),
                    );
                }
            }
        }
        Ok(out)
    }

    fn find_input_count(&self, op: &KtirOp) -> Result<usize> {
        let n = op.int_attr("inputs").and_then(|n| usize::try_from(n).ok());
        // The attribute is the reader's or the builder's note of where `ins` ends. Later rules
        // slice the operands there, so a wrong one is refused first.
        n.filter(|n| *n < op.operands.len() && op.operands.len() - n == op.results.len())
            .map_or_else(|| broken_rule(op, "needs outputs, as many as results"), Ok)
    }

    fn check_outputs(&self, op: &KtirOp, n: usize) -> Result {
        for (out, result) in op.operands[n..].iter().zip(&op.results) {
            self.tile_type(op, *out)?;
            ensure_rule(op, self.value_type(*out) == self.value_type(*result), || {
                "gives the types of its outputs".into()
            })?;
        }
        Ok(())
    }

    /// Checks a body of operations on elements.
    fn check_body(&self, op: &'m KtirOp, args: &[KtirType], yields: &[KtirType]) -> Result {
        self.check_region_count(op, 1)?;
        let region = &op.regions[0];
        let want: Vec<&KtirType> = args.iter().collect();
        ensure_rule(op, self.value_types(&region.args) == want, || {
            let want: Vec<String> = args.iter().map(ToString::to_string).collect();
            format!("its body takes ({})", want.join(", "))
        })?;
        // A body runs on all points at once, as lanes, so only operations that treat every lane
        // alike may stand in it.
        for inner in &region.ops {
            let plain = inner.kind.is_pointwise()
                || matches!(
                    inner.kind,
                    KtirOpKind::ArithConstant | KtirOpKind::LinalgIndex | KtirOpKind::LinalgYield
                );
            ensure_rule(inner, plain, || {
                format!("is not allowed in the body of `{}`", op.kind.name())
            })?;
        }
        self.check_yielded(op, region, &yields.iter().collect::<Vec<_>>())
    }

    fn element_types(&self, op: &KtirOp, values: &[crate::ir::KtirValue]) -> Result<Vec<KtirType>> {
        values
            .iter()
            .map(|v| match self.value_type(*v) {
                KtirType::Tensor(_, e) | KtirType::Scalar(e) => Ok(KtirType::Scalar(*e)),
                ty => broken_rule(op, format!("takes tensors, not {ty}")),
            })
            .collect()
    }

    fn check_generic(&self, op: &'m KtirOp) -> Result {
        let n = self.find_input_count(op)?;
        self.check_outputs(op, n)?;
        let (maps, iterators) = (op.maps_attr("indexing_maps"), op.words_attr("iterator_types"));
        ensure_rule(op, maps.len() == op.operands.len(), || {
            format!("{} indexing maps for {} operands", maps.len(), op.operands.len())
        })?;
        for word in iterators {
            // MLIR also knows "window" iterators; they occur in none of the texts of this dialect.
            ensure_rule(op, matches!(word.as_str(), "parallel" | "reduction"), || {
                format!("an iterator is \"parallel\" or \"reduction\", not \"{word}\"")
            })?;
        }
        let mut sizes: Vec<Option<i64>> = vec![None; iterators.len()];
        for (i, (map, v)) in maps.iter().zip(&op.operands).enumerate() {
            ensure_rule(op, (map.dims(), map.symbols()) == (iterators.len(), 0), || {
                format!("map {i} has {} dimensions for {} iterators", map.dims(), iterators.len())
            })?;
            let shape = self.value_type(*v).shape().unwrap_or(&[]);
            ensure_rule(op, map.results().len() == shape.len(), || {
                format!("map {i} has {} results for {}", map.results().len(), self.value_type(*v))
            })?;
            for (e, size) in map.results().iter().zip(shape) {
                // The extent of a loop is the size of an operand that it indexes directly. An
                // expression such as `d0 + d1` fixes neither of its loops, which is why the check
                // below needs a plain index for each.
                let Some(d) = e.as_dim() else { continue };
                let known = *sizes[d].get_or_insert(*size);
                ensure_rule(op, known == *size, || {
                    format!("iterator {d} has {known} steps by one operand and {size} by another")
                })?;
            }
            if i >= n {
                // Parallel loops run at once, so each point has to write an element of its own; a
                // repeated or missing dimension would make two points write one element.
                let plain = map.selected_dims().is_some_and(|dims| {
                    dims.iter().all(|d| iterators[*d] == "parallel")
                        && (0..dims.len()).all(|i| !dims[..i].contains(&dims[i]))
                });
                ensure_rule(op, plain, || {
                    format!("map {i} of an output takes different parallel iterators")
                })?;
                let parallel = iterators.iter().filter(|w| *w == "parallel").count();
                ensure_rule(op, map.results().len() == parallel, || {
                    format!("map {i} of an output leaves out a parallel iterator")
                })?;
            }
        }
        // Without a plain index there is no size to run the loop for. MLIR has the same rule, as it
        // inverts the concatenated maps to find the bounds of the loops.
        ensure_rule(op, sizes.iter().all(Option::is_some), || {
            "an iterator is the plain index of no operand".into()
        })?;
        let args = self.element_types(op, &op.operands)?;
        let outs = args[n..].to_vec();
        self.check_body(op, &args, &outs)
    }

    fn check_reduce(&self, op: &'m KtirOp) -> Result {
        let n = self.find_input_count(op)?;
        // `linalg.reduce` combines each input into the output at the same position of the list.
        ensure_rule(op, n == op.results.len(), || {
            format!("{n} inputs for {} outputs", op.results.len())
        })?;
        self.check_outputs(op, n)?;
        let (shape, _) = self.tile_type(op, op.operands[0])?;
        let dims = self.find_distinct_dims(op, "dimensions", shape.len())?;
        let want: Vec<i64> =
            shape.iter().enumerate().filter(|(i, _)| !dims.contains(i)).map(|(_, n)| *n).collect();
        for i in 0..n {
            let ((a, ea), (b, eb)) =
                (self.tile_type(op, op.operands[i])?, self.tile_type(op, op.operands[n + i])?);
            ensure_rule(op, a == shape, || format!("inputs of shapes {shape:?} and {a:?}"))?;
            // Reduced dimensions disappear in this operation; one that stays with size 1 needs a
            // reshape.
            ensure_rule(op, b == want, || {
                format!("{a:?} without dimensions {dims:?} is {want:?}, but the output is {b:?}")
            })?;
            ensure_rule(op, ea == eb, || format!("reduces {ea} into {eb}"))?;
        }
        let args = self.element_types(op, &op.operands)?;
        match op.word_attr("combiner") {
            Some(name) => {
                // A named operation takes two elements and gives one, which is the body of a single
                // reduction.
                ensure_rule(op, n == 1, || format!("`{name}` combines one input").to_string())?;
                self.check_combiner(op, name, 2, &args[0])
            }
            None => self.check_body(op, &args, &args[n..]),
        }
    }

    /// Checks that a named combiner takes this many elements of this type.
    fn check_combiner(&self, op: &KtirOp, name: &str, operands: usize, ty: &KtirType) -> Result {
        let kind = KtirOpKind::from_name(name);
        let form = kind.map(KtirOpKind::form);
        ensure_rule(op, form == Some(crate::op::KtirOpForm::Same(operands)), || {
            format!("`{name}` does not combine {operands} elements")
        })?;
        let float = ty.elem().is_some_and(KtirElem::is_float);
        let is_int = kind.is_some_and(|k| k.class() == crate::op::KtirCostClass::Int);
        // The interpreter reads floats and integers from different arrays, and the wrong one would
        // be empty.
        ensure_rule(op, float != is_int, || format!("`{name}` is not for {ty}"))
    }

    fn check_linalg_map(&self, op: &'m KtirOp) -> Result {
        let n = self.find_input_count(op)?;
        // `linalg.map` has no indexing maps, so all its operands have the shape of the output.
        ensure_rule(op, op.results.len() == 1, || "has one output".into())?;
        self.check_outputs(op, n)?;
        let (shape, _) = self.tile_type(op, op.operands[n])?;
        for v in &op.operands[..n] {
            let (a, _) = self.tile_type(op, *v)?;
            ensure_rule(op, a == shape, || format!("shapes {a:?} and {shape:?}"))?;
        }
        let args = self.element_types(op, &op.operands)?;
        match op.word_attr("combiner") {
            Some(name) => {
                ensure_rule(op, n > 0 && args.iter().all(|a| *a == args[0]), || {
                    "a named body takes elements of one type".into()
                })?;
                self.check_combiner(op, name, n, &args[0])
            }
            None => self.check_body(op, &args[..n], &args[n..]),
        }
    }
}

/// Returns the list as a permutation of `rank` dimensions, if it is one.
pub(crate) fn as_permutation(list: &[i64], rank: usize) -> Option<Vec<usize>> {
    let dims: Vec<usize> = list
        .iter()
        .map(|d| usize::try_from(*d).ok().filter(|d| *d < rank))
        .collect::<Option<_>>()?;
    let different = (0..dims.len()).all(|i| !dims[..i].contains(&dims[i]));
    (dims.len() == rank && different).then_some(dims)
}
