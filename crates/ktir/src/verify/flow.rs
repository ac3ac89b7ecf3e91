//! Rules of loops, branches, calls, and accesses to single elements of views.

use super::{KtirChecker, Result, broken_rule, ensure_rule};
use crate::ir::KtirOp;
use crate::op::KtirOpKind;
use crate::types::{KtirElem, KtirType};

impl<'m> KtirChecker<'m> {
    pub(super) fn check_yields(&self, op: &KtirOp) -> Result {
        ensure_rule(op, op.results.is_empty(), || "has no results".into())?;
        if op.kind == KtirOpKind::Return {
            let have = self.value_types(&op.operands);
            let want: Vec<&KtirType> = self.f.results.iter().collect();
            let show = |list: &[&KtirType]| {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                format!("({})", list.join(", "))
            };
            ensure_rule(op, have == want, || {
                format!("gives {}, but `@{}` returns {}", show(&have), self.f.name, show(&want))
            })?;
        }
        Ok(())
    }

    pub(super) fn check_flow(&self, op: &'m KtirOp) -> Result {
        let o = &op.operands;
        match op.kind {
            KtirOpKind::For => {
                self.check_region_count(op, 1)?;
                ensure_rule(op, o.len() >= 3, || "needs two bounds and a step".into())?;
                let ty = self.value_type(o[0]);
                // `scf.for` counts in `index` or in any signless integer type, but in one type for
                // both bounds and the step.
                let whole = matches!(ty, KtirType::Scalar(e) if !e.is_float());
                ensure_rule(op, whole, || format!("counts integers, not {ty}"))?;
                for v in &o[1..3] {
                    let other = self.value_type(*v);
                    ensure_rule(op, other == ty, || format!("bounds of type {ty} and {other}"))?;
                }
                // What is carried has one list of types in four places: the operands, the arguments
                // of the body, what the body yields, and the results. A difference in any of them
                // would change the type of a value in a loop.
                let carried = self.value_types(&o[3..]);
                let region = &op.regions[0];
                let args = self.value_types(&region.args);
                ensure_rule(op, args.first() == Some(&ty) && args[1..] == carried, || {
                    "its body takes the counter and the carried values".into()
                })?;
                self.check_yielded(op, region, &carried)?;
                let results = self.value_types(&op.results);
                ensure_rule(op, results == carried, || "gives the carried values".into())
            }
            KtirOpKind::If => {
                ensure_rule(
                    op,
                    o.len() == 1 && *self.value_type(o[0]) == KtirType::Scalar(KtirElem::I1),
                    || "the condition is an i1".into(),
                )?;
                ensure_rule(op, matches!(op.regions.len(), 1 | 2), || {
                    "has one or two regions".into()
                })?;
                // Without an `else` there would be no value for the results when the condition is
                // false.
                ensure_rule(op, op.regions.len() == 2 || op.results.is_empty(), || {
                    "has results, so it needs an `else`".into()
                })?;
                let want = self.value_types(&op.results);
                for region in &op.regions {
                    ensure_rule(op, region.args.is_empty(), || "its regions take nothing".into())?;
                    self.check_yielded(op, region, &want)?;
                }
                Ok(())
            }
            KtirOpKind::While => {
                self.check_region_count(op, 2)?;
                let carried = self.value_types(o);
                let [before, after] = [&op.regions[0], &op.regions[1]];
                // `scf.while` runs its first region with the carried values, and its second with
                // what the condition passes on. The two lists may differ, so they are checked
                // separately.
                ensure_rule(op, self.value_types(&before.args) == carried, || {
                    "its first region takes the carried values".into()
                })?;
                let results = self.value_types(&op.results);
                ensure_rule(op, self.value_types(&after.args) == results, || {
                    "its second region takes the values that the condition passes on".into()
                })?;
                let Some(end) = before.ops.last().filter(|e| e.kind == KtirOpKind::Condition)
                else {
                    return broken_rule(op, "its first region ends in `scf.condition`");
                };
                let passed = self.value_types(end.operands.get(1..).unwrap_or(&[]));
                ensure_rule(end, passed == results, || "passes on the results of the loop".into())?;
                self.check_yielded(op, after, &carried)
            }
            KtirOpKind::Condition => ensure_rule(
                op,
                o.first().is_some_and(|v| *self.value_type(*v) == KtirType::Scalar(KtirElem::I1)),
                || "the condition is an i1".into(),
            ),
            KtirOpKind::Parallel => {
                self.check_region_count(op, 1)?;
                self.check_index_types(op, o)?;
                let n = op.regions[0].args.len();
                // All lower bounds come first, then all upper bounds, then all steps; the
                // interpreter slices the list in thirds.
                ensure_rule(op, o.len() == 3 * n && op.results.is_empty(), || {
                    format!("needs two bounds and a step for each of {n} variables")
                })?;
                self.check_index_types(op, &op.regions[0].args)?;
                self.check_yielded(op, &op.regions[0], &[])
            }
            KtirOpKind::AffineApply => {
                let Some(map) = op.map_attr("map") else { return broken_rule(op, "has no map") };
                // Dimensions and symbols are operands of one list, split at the number of
                // dimensions.
                self.check_counts(op, map.dims() + map.symbols(), 1)?;
                self.check_index_types(op, o)?;
                self.check_index_types(op, &op.results)?;
                ensure_rule(op, map.results().len() == 1, || {
                    format!("the map has {} results, needs 1", map.results().len())
                })
            }
            KtirOpKind::Call => self.check_call(op),
            KtirOpKind::MemRefLoad => {
                ensure_rule(op, !o.is_empty() && op.results.len() == 1, || "needs a view".into())?;
                let elem = self.check_view_access(op, o[0], &o[1..])?;
                ensure_rule(op, *self.value_type(op.results[0]) == KtirType::Scalar(elem), || {
                    format!("gives {elem}")
                })
            }
            _ => {
                ensure_rule(op, o.len() >= 2 && op.results.is_empty(), || "needs a view".into())?;
                let elem = self.check_view_access(op, o[1], &o[2..])?;
                ensure_rule(op, *self.value_type(o[0]) == KtirType::Scalar(elem), || {
                    format!("stores {elem}")
                })
            }
        }
    }

    fn check_view_access(
        &self,
        op: &KtirOp,
        view: crate::ir::KtirValue,
        at: &[crate::ir::KtirValue],
    ) -> Result<KtirElem> {
        self.check_index_types(op, at)?;
        match self.value_type(view) {
            KtirType::MemRef(shape, elem) if shape.len() == at.len() => Ok(*elem),
            ty => broken_rule(op, format!("{ty} has no element at {} indices", at.len())),
        }
    }

    fn check_call(&self, op: &KtirOp) -> Result {
        // A function that the builder has just finished does not know its module yet;
        // `verify_module` checks the call when the functions are together.
        let Some(functions) = self.functions else { return Ok(()) };
        let callee = op.word_attr("callee").unwrap_or_default();
        let Some(f) = functions.get(callee) else {
            return broken_rule(op, format!("there is no function `@{callee}`"));
        };
        let args: Vec<&KtirType> = f.args().iter().map(|v| f.value_type(*v)).collect();
        let results: Vec<&KtirType> = f.results.iter().collect();
        ensure_rule(op, self.value_types(&op.operands) == args, || {
            format!("`@{callee}` takes other arguments")
        })?;
        ensure_rule(op, self.value_types(&op.results) == results, || {
            format!("`@{callee}` gives other results")
        })
    }
}
