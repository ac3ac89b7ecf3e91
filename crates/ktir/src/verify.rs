//! The rules of a module: every value has one definition before its uses, and every operation has
//! the operands, types, shapes and regions that it needs.
//!
//! A module that passes here never makes the interpreter meet a shape it does not know.

mod calls;
mod flow;
mod ktdp;
mod linalg;
mod pointwise;
mod tensor;

use crate::ir::{Block, Function, Module, Op, Value};
use crate::op::{Form, Kind};
use crate::types::{Elem, Type, countable};
use std::cell::Cell;
use std::collections::HashMap;
use zellige_notation::Diagnostic;

pub(crate) type Result<T = ()> = std::result::Result<T, Diagnostic>;

/// Steps that one verification may take: nodes of affine expressions that are evaluated. Rules about
/// sets look at their points, and a short text can name large sets often.
const STEPS: u64 = 1 << 28;

/// Checks a module.
///
/// # Errors
/// The first rule that is broken; of a module that was read, with its place.
pub fn verify(module: &Module) -> Result {
    let functions: Functions<'_> = module.functions.iter().map(|f| (f.name.as_str(), f)).collect();
    let steps = Cell::new(STEPS);
    for f in &module.functions {
        Checker::new(Some(&functions), f, &steps).function()?;
    }
    calls::no_recursion(module, &functions)
}

/// Checks one function; calls are checked where the module is known.
pub(crate) fn function(f: &Function) -> Result {
    Checker::new(None, f, &Cell::new(STEPS)).function()
}

/// The functions of a module by name.
type Functions<'m> = HashMap<&'m str, &'m Function>;

pub(crate) struct Checker<'m> {
    functions: Option<&'m Functions<'m>>,
    pub(crate) f: &'m Function,
    /// The operation that gives a value.
    made: HashMap<Value, &'m Op>,
    /// Steps that are left.
    steps: &'m Cell<u64>,
}

/// A broken rule at an operation.
pub(crate) fn broken<T>(op: &Op, message: impl Into<String>) -> Result<T> {
    let message = format!("`{}`: {}", op.kind.name(), message.into());
    Err(Diagnostic::syntax_error(op.span(), message, "here").with_id("Z204"))
}

/// Refuses where a rule does not hold.
pub(crate) fn ensure(op: &Op, holds: bool, message: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { broken(op, message()) }
}

impl<'m> Checker<'m> {
    fn new(
        functions: Option<&'m Functions<'m>>,
        f: &'m Function,
        steps: &'m Cell<u64>,
    ) -> Checker<'m> {
        let mut made = HashMap::new();
        f.body.visit(&mut |op| made.extend(op.results.iter().map(|v| (*v, op))));
        Checker { functions, f, made, steps }
    }

    /// Takes steps from the budget of the verification.
    fn spend(&self, op: &Op, steps: u64) -> Result {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or(0));
        ensure(op, left.is_some(), || {
            format!("the sets of the module take more than {STEPS} steps to verify")
        })
    }

    fn function(&self) -> Result {
        let f = self.f;
        let mut defined = vec![false; f.values.len()];
        if f.grid.len() > 3 || f.grid.iter().any(|n| *n < 1) || f.cores() > 4096 {
            let message = format!("`@{}` has grid {:?}", f.name, f.grid);
            let d =
                Diagnostic::syntax_error(f.span.0.clone(), message, "not a grid").with_id("Z204");
            return Err(d.with_help("a grid has 1 to 3 sizes of 1 or more, 4096 cores at most"));
        }
        for v in &f.values {
            self.counted(v, &v.ty)?;
        }
        self.block(&f.body, &mut defined, Kind::Return)
    }

    fn block(&self, block: &'m Block, defined: &mut [bool], end: Kind) -> Result {
        let mut own: Vec<Value> = block.args.clone();
        for v in &block.args {
            self.define(*v, defined)?;
        }
        let Some(last) = block.ops.last() else {
            let message = format!("a block of `@{}` is empty", self.f.name);
            let d = Diagnostic::syntax_error(self.f.span.0.clone(), message, "in this function");
            return Err(d.with_id("Z204").with_help(format!("it ends in `{}`", end.name())));
        };
        ensure(last, last.kind == end, || format!("a block here ends in `{}`", end.name()))?;
        for (i, op) in block.ops.iter().enumerate() {
            if op.kind.is_terminator() && i + 1 < block.ops.len() {
                return broken(op, "nothing may follow it");
            }
            for v in &op.operands {
                if !defined.get(v.index()).copied().unwrap_or(false) {
                    let name = self.f.values.get(v.index()).map_or("?", |d| d.name.as_str());
                    return broken(op, format!("`%{name}` is not defined here"));
                }
            }
            self.op(op)?;
            for region in &op.regions {
                let end = self.ends_in(op, region);
                self.block(region, defined, end)?;
            }
            for v in &op.results {
                self.define(*v, defined)?;
            }
            own.extend(&op.results);
        }
        // What a block defines ends with it.
        for v in own {
            defined[v.index()] = false;
        }
        Ok(())
    }

    /// Sizes are not negative, and their product fits in 64 bits.
    fn counted(&self, v: &crate::ir::ValueDef, ty: &Type) -> Result {
        let fits = match ty {
            Type::Tensor(shape, _) | Type::AccessTile(shape) => {
                countable(shape.iter().copied(), shape.len())
            }
            Type::MemRef(shape, _) => countable(shape.iter().flatten().copied(), shape.len()),
            Type::TileFuture(types, _) => return types.iter().try_for_each(|t| self.counted(v, t)),
            Type::Scalar(_) | Type::RuntimeArg(_) => Ok(()),
        };
        fits.map_err(|reason| {
            let message = format!("`%{}` of `@{}` is {ty}", v.name, self.f.name);
            let d = Diagnostic::syntax_error(self.f.span.0.clone(), message, "not a shape")
                .with_id("Z204");
            d.with_help(reason)
        })
    }

    fn define(&self, v: Value, defined: &mut [bool]) -> Result {
        let slot = defined.get_mut(v.index());
        match slot {
            Some(slot) if !*slot => {
                *slot = true;
                Ok(())
            }
            _ => {
                let message = format!("a value of `@{}` is defined twice", self.f.name);
                Err(Diagnostic::syntax_error(self.f.span.0.clone(), message, "here")
                    .with_id("Z203"))
            }
        }
    }

    fn ends_in(&self, op: &Op, region: &Block) -> Kind {
        match op.kind {
            Kind::Produce => Kind::YieldPartial,
            Kind::InterReduce | Kind::ReduceScatter => Kind::YieldReduced,
            Kind::Generic | Kind::Reduce | Kind::LinalgMap => Kind::LinalgYield,
            Kind::Generate | Kind::Pad => Kind::TensorYield,
            Kind::While if std::ptr::eq(region, &raw const op.regions[0]) => Kind::Condition,
            _ => Kind::ScfYield,
        }
    }

    pub(crate) fn ty(&self, v: Value) -> &'m Type {
        self.f.ty(v)
    }

    pub(crate) fn types(&self, values: &[Value]) -> Vec<&'m Type> {
        values.iter().map(|v| self.ty(*v)).collect()
    }

    pub(crate) fn name(&self, v: Value) -> &'m str {
        &self.f.value(v).name
    }

    /// The shape and elements of a tile.
    pub(crate) fn tensor(&self, op: &Op, v: Value) -> Result<(&'m [i64], Elem)> {
        match self.ty(v) {
            Type::Tensor(shape, elem) => Ok((shape, *elem)),
            other => broken(op, format!("`%{}` is {other}, a tensor is needed", self.name(v))),
        }
    }

    pub(crate) fn counts(&self, op: &Op, operands: usize, results: usize) -> Result {
        let have = (op.operands.len(), op.results.len());
        ensure(op, have == (operands, results), || {
            format!(
                "has {} operands and {} results, needs {operands} and {results}",
                have.0, have.1
            )
        })
    }

    pub(crate) fn indices(&self, op: &Op, values: &[Value]) -> Result {
        for v in values {
            let ty = self.ty(*v);
            ensure(op, *ty == Type::INDEX, || {
                format!("`%{}` is {ty}, an index is needed", self.name(*v))
            })?;
        }
        Ok(())
    }

    /// What a region yields.
    pub(crate) fn yielded(&self, op: &Op, region: &'m Block, want: &[&Type]) -> Result {
        let Some(end) = region.ops.last() else { return broken(op, "a region is empty") };
        let have = self.types(&end.operands);
        ensure(end, have == want, || {
            let show = |list: &[&Type]| {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                format!("({})", list.join(", "))
            };
            format!("gives {}, but {} is needed", show(&have), show(want))
        })
    }

    pub(crate) fn regions(&self, op: &Op, n: usize) -> Result {
        ensure(op, op.regions.len() == n, || format!("has {} regions, needs {n}", op.regions.len()))
    }

    fn op(&self, op: &'m Op) -> Result {
        match op.kind.form() {
            Form::Same(_) | Form::Compare | Form::Select | Form::Cast | Form::Constant => {
                self.pointwise(op)
            }
            Form::Structured(_) => self.structured(op),
            Form::Yield => self.yields(op),
            Form::Own => self.own(op),
        }
    }

    fn own(&self, op: &'m Op) -> Result {
        match op.kind {
            Kind::TileId
            | Kind::MemoryView
            | Kind::DistributedView
            | Kind::AccessTile
            | Kind::IndirectTile
            | Kind::Load
            | Kind::Store
            | Kind::Produce => self.ktdp(op),
            k if k.is_delivery() => self.delivery(op),
            Kind::Generic
            | Kind::Reduce
            | Kind::Broadcast
            | Kind::Transpose
            | Kind::LinalgMap
            | Kind::LinalgIndex => self.linalg(op),
            Kind::For
            | Kind::If
            | Kind::While
            | Kind::Condition
            | Kind::Parallel
            | Kind::AffineApply
            | Kind::Call
            | Kind::MemRefLoad
            | Kind::MemRefStore => self.flow(op),
            _ => self.tensor_op(op),
        }
    }
}
