//! Loops, branches, calls, and single elements of views.

use super::{Checker, Result, broken, ensure};
use crate::ir::Op;
use crate::op::Kind;
use crate::types::{Elem, Type};

impl<'m> Checker<'m> {
    pub(super) fn yields(&self, op: &Op) -> Result {
        ensure(op, op.results.is_empty(), || "has no results".into())?;
        if op.kind == Kind::Return {
            let have = self.types(&op.operands);
            let want: Vec<&Type> = self.f.results.iter().collect();
            let show = |list: &[&Type]| {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                format!("({})", list.join(", "))
            };
            ensure(op, have == want, || {
                format!("gives {}, but `@{}` returns {}", show(&have), self.f.name, show(&want))
            })?;
        }
        Ok(())
    }

    pub(super) fn flow(&self, op: &'m Op) -> Result {
        let o = &op.operands;
        match op.kind {
            Kind::For => {
                self.regions(op, 1)?;
                ensure(op, o.len() >= 3, || "needs two bounds and a step".into())?;
                let ty = self.ty(o[0]);
                let whole = matches!(ty, Type::Scalar(e) if !e.is_float());
                ensure(op, whole, || format!("counts integers, not {ty}"))?;
                for v in &o[1..3] {
                    let other = self.ty(*v);
                    ensure(op, other == ty, || format!("bounds of type {ty} and {other}"))?;
                }
                let carried = self.types(&o[3..]);
                let region = &op.regions[0];
                let args = self.types(&region.args);
                ensure(op, args.first() == Some(&ty) && args[1..] == carried, || {
                    "its body takes the counter and what is carried".into()
                })?;
                self.yielded(op, region, &carried)?;
                let results = self.types(&op.results);
                ensure(op, results == carried, || "gives what is carried".into())
            }
            Kind::If => {
                ensure(op, o.len() == 1 && *self.ty(o[0]) == Type::Scalar(Elem::I1), || {
                    "the condition is an i1".into()
                })?;
                ensure(op, matches!(op.regions.len(), 1 | 2), || "has one or two regions".into())?;
                ensure(op, op.regions.len() == 2 || op.results.is_empty(), || {
                    "gives something, so it needs an `else`".into()
                })?;
                let want = self.types(&op.results);
                for region in &op.regions {
                    ensure(op, region.args.is_empty(), || "its regions take nothing".into())?;
                    self.yielded(op, region, &want)?;
                }
                Ok(())
            }
            Kind::While => {
                self.regions(op, 2)?;
                let carried = self.types(o);
                let [before, after] = [&op.regions[0], &op.regions[1]];
                ensure(op, self.types(&before.args) == carried, || {
                    "its first region takes what is carried".into()
                })?;
                let results = self.types(&op.results);
                ensure(op, self.types(&after.args) == results, || {
                    "its second region takes what the condition passes on".into()
                })?;
                let Some(end) = before.ops.last().filter(|e| e.kind == Kind::Condition) else {
                    return broken(op, "its first region ends in `scf.condition`");
                };
                let passed = self.types(end.operands.get(1..).unwrap_or(&[]));
                ensure(end, passed == results, || "passes on what the loop gives".into())?;
                self.yielded(op, after, &carried)
            }
            Kind::Condition => ensure(
                op,
                o.first().is_some_and(|v| *self.ty(*v) == Type::Scalar(Elem::I1)),
                || "the condition is an i1".into(),
            ),
            Kind::Parallel => {
                self.regions(op, 1)?;
                self.indices(op, o)?;
                let n = op.regions[0].args.len();
                ensure(op, o.len() == 3 * n && op.results.is_empty(), || {
                    format!("needs two bounds and a step for each of {n} variables")
                })?;
                self.indices(op, &op.regions[0].args)?;
                self.yielded(op, &op.regions[0], &[])
            }
            Kind::AffineApply => {
                let Some(map) = op.map("map") else { return broken(op, "has no map") };
                self.counts(op, map.dims() + map.symbols(), 1)?;
                self.indices(op, o)?;
                self.indices(op, &op.results)?;
                ensure(op, map.results().len() == 1, || {
                    format!("the map has {} results, needs 1", map.results().len())
                })
            }
            Kind::Call => self.call(op),
            Kind::MemRefLoad => {
                ensure(op, !o.is_empty() && op.results.len() == 1, || "needs a view".into())?;
                let elem = self.view(op, o[0], &o[1..])?;
                ensure(op, *self.ty(op.results[0]) == Type::Scalar(elem), || {
                    format!("gives {elem}")
                })
            }
            _ => {
                ensure(op, o.len() >= 2 && op.results.is_empty(), || "needs a view".into())?;
                let elem = self.view(op, o[1], &o[2..])?;
                ensure(op, *self.ty(o[0]) == Type::Scalar(elem), || format!("stores {elem}"))
            }
        }
    }

    fn view(&self, op: &Op, view: crate::ir::Value, at: &[crate::ir::Value]) -> Result<Elem> {
        self.indices(op, at)?;
        match self.ty(view) {
            Type::MemRef(shape, elem) if shape.len() == at.len() => Ok(*elem),
            ty => broken(op, format!("{ty} has no element at {} indices", at.len())),
        }
    }

    fn call(&self, op: &Op) -> Result {
        let Some(functions) = self.functions else { return Ok(()) };
        let callee = op.word("callee").unwrap_or_default();
        let Some(f) = functions.get(callee) else {
            return broken(op, format!("there is no function `@{callee}`"));
        };
        let args: Vec<&Type> = f.args().iter().map(|v| f.ty(*v)).collect();
        let results: Vec<&Type> = f.results.iter().collect();
        ensure(op, self.types(&op.operands) == args, || {
            format!("`@{callee}` takes other arguments")
        })?;
        ensure(op, self.types(&op.results) == results, || {
            format!("`@{callee}` gives other results")
        })
    }
}
