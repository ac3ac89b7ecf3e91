//! The rules of a module: every value has one definition before its uses, and every operation has
//! the operands, types, shapes and regions that it needs.
//!
//! The interpreter relies on these rules: it does not check shapes again.

mod calls;
mod flow;
mod ktdp;
mod linalg;
mod pointwise;
mod tensor;

use crate::ir::{KtirBlock, KtirFunction, KtirModule, KtirOp, KtirValue};
use crate::op::{KtirOpForm, KtirOpKind};
use crate::types::{KtirElem, KtirType, check_countable};
use std::cell::Cell;
use std::collections::HashMap;
use zellige_notation::Diagnostic;

pub(crate) type Result<T = ()> = std::result::Result<T, Diagnostic>;

/// The number of nodes of affine expressions that one verification may evaluate. Rules about sets
/// visit their points, and a short text can mention large sets many times.
// A count and not a time, so that a module is accepted or refused alike on every machine.
const MAX_VERIFY_STEPS: u64 = 1 << 28;

/// Checks a module.
///
/// # Errors
/// The first broken rule, with its place in the text if the module was read from one.
pub fn verify_module(module: &KtirModule) -> Result {
    let functions: KtirFunctionTable<'_> =
        module.functions.iter().map(|f| (f.name.as_str(), f)).collect();
    // One budget for the whole module: a budget per function could be multiplied by writing many
    // functions.
    let steps = Cell::new(MAX_VERIFY_STEPS);
    for f in &module.functions {
        KtirChecker::new(Some(&functions), f, &steps).check_function()?;
    }
    // Last, because following calls relies on callees that exist and take the right arguments.
    calls::refuse_recursion(module, &functions)
}

/// Checks one function. Its calls are checked later, when the whole module is known.
pub(crate) fn verify_function(f: &KtirFunction) -> Result {
    KtirChecker::new(None, f, &Cell::new(MAX_VERIFY_STEPS)).check_function()
}

/// The functions of a module by name.
type KtirFunctionTable<'m> = HashMap<&'m str, &'m KtirFunction>;

pub(crate) struct KtirChecker<'m> {
    functions: Option<&'m KtirFunctionTable<'m>>,
    pub(crate) f: &'m KtirFunction,
    /// The operation that defines each value.
    made: HashMap<KtirValue, &'m KtirOp>,
    /// The remaining steps of the budget.
    steps: &'m Cell<u64>,
}

/// The error for a broken rule at an operation.
pub(crate) fn broken_rule<T>(op: &KtirOp, message: impl Into<String>) -> Result<T> {
    let message = format!("`{}`: {}", op.kind.name(), message.into());
    Err(Diagnostic::syntax_error(op.span(), message, "here").with_id("Z204"))
}

/// Returns an error unless a rule holds.
pub(crate) fn ensure_rule(op: &KtirOp, holds: bool, message: impl FnOnce() -> String) -> Result {
    if holds { Ok(()) } else { broken_rule(op, message()) }
}

impl<'m> KtirChecker<'m> {
    fn new(
        functions: Option<&'m KtirFunctionTable<'m>>,
        f: &'m KtirFunction,
        steps: &'m Cell<u64>,
    ) -> KtirChecker<'m> {
        let mut made = HashMap::new();
        f.body.visit_ops(&mut |op| made.extend(op.results.iter().map(|v| (*v, op))));
        KtirChecker { functions, f, made, steps }
    }

    /// Charges steps to the budget of the verification.
    fn spend_steps(&self, op: &KtirOp, steps: u64) -> Result {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or(0));
        ensure_rule(op, left.is_some(), || {
            format!("the sets of the module take more than {MAX_VERIFY_STEPS} steps to verify")
        })
    }

    fn check_function(&self) -> Result {
        let f = self.f;
        let mut defined = vec![false; f.values.len()];
        // The dialect's grid has x, y and z. The number of cores is bounded because each has its
        // own interpreter state, and because the writer of every element is kept in 16 bits.
        if f.grid.len() > 3 || f.grid.iter().any(|n| *n < 1) || f.core_count() > 4096 {
            let message = format!("`@{}` has grid {:?}", f.name, f.grid);
            let d =
                Diagnostic::syntax_error(f.span.0.clone(), message, "not a grid").with_id("Z204");
            return Err(d.with_help("a grid has 1 to 3 sizes of 1 or more, 4096 cores at most"));
        }
        // Sizes are checked for all values before any operation is looked at, so that the rules
        // below can multiply the sizes of a shape without a check of their own.
        for v in &f.values {
            self.check_type_sizes(v, &v.ty)?;
        }
        self.check_block(&f.body, &mut defined, KtirOpKind::Return)
    }

    fn check_block(&self, block: &'m KtirBlock, defined: &mut [bool], end: KtirOpKind) -> Result {
        let mut own: Vec<KtirValue> = block.args.clone();
        for v in &block.args {
            self.define_value(*v, defined)?;
        }
        let Some(last) = block.ops.last() else {
            let message = format!("a block of `@{}` is empty", self.f.name);
            let d = Diagnostic::syntax_error(self.f.span.0.clone(), message, "in this function");
            return Err(d.with_id("Z204").with_help(format!("it ends in `{}`", end.name())));
        };
        // MLIR requires a terminator in each of these blocks. The interpreter relies on it: a frame
        // ends only when it meets one, so a block without one would run past its last operation.
        ensure_rule(last, last.kind == end, || format!("a block here ends in `{}`", end.name()))?;
        for (i, op) in block.ops.iter().enumerate() {
            if op.kind.is_terminator() && i + 1 < block.ops.len() {
                return broken_rule(op, "nothing may follow it");
            }
            for v in &op.operands {
                if !defined.get(v.index()).copied().unwrap_or(false) {
                    let name = self.f.values.get(v.index()).map_or("?", |d| d.name.as_str());
                    return broken_rule(op, format!("`%{name}` is not defined here"));
                }
            }
            // The operation itself comes before its regions, because the rules about a region's
            // arguments assume that the number of regions has been checked.
            self.check_op(op)?;
            for region in &op.regions {
                let end = self.region_terminator(op, region);
                self.check_block(region, defined, end)?;
            }
            // Results become visible only here, after the regions: a region must not use the
            // results of the operation that it belongs to.
            for v in &op.results {
                self.define_value(*v, defined)?;
            }
            own.extend(&op.results);
        }
        // Values are visible only inside of the block that defines them. SSA values of a region are
        // not visible outside of it in MLIR. Forgetting them also lets two sibling regions use one
        // name.
        for v in own {
            defined[v.index()] = false;
        }
        Ok(())
    }

    /// Sizes are not negative, and their product fits in 64 bits.
    fn check_type_sizes(&self, v: &crate::ir::KtirValueDef, ty: &KtirType) -> Result {
        let fits = match ty {
            KtirType::Tensor(shape, _) | KtirType::AccessTile(shape) => {
                check_countable(shape.iter().copied(), shape.len())
            }
            KtirType::MemRef(shape, _) => {
                check_countable(shape.iter().flatten().copied(), shape.len())
            }
            KtirType::TileFuture(types, _) => {
                return types.iter().try_for_each(|t| self.check_type_sizes(v, t));
            }
            KtirType::RuntimeArg(text) => crate::types::RuntimeArgument::read(text).map(|_| ()),
            KtirType::Scalar(_) => Ok(()),
        };
        fits.map_err(|reason| {
            let message = format!("`%{}` of `@{}` is {ty}", v.name, self.f.name);
            let d = Diagnostic::syntax_error(self.f.span.0.clone(), message, "not a shape")
                .with_id("Z204");
            d.with_help(reason)
        })
    }

    fn define_value(&self, v: KtirValue, defined: &mut [bool]) -> Result {
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

    fn region_terminator(&self, op: &KtirOp, region: &KtirBlock) -> KtirOpKind {
        match op.kind {
            KtirOpKind::Produce => KtirOpKind::YieldPartial,
            KtirOpKind::InterReduce | KtirOpKind::ReduceScatter => KtirOpKind::YieldReduced,
            KtirOpKind::Generic | KtirOpKind::Reduce | KtirOpKind::LinalgMap => {
                KtirOpKind::LinalgYield
            }
            KtirOpKind::Generate | KtirOpKind::Pad => KtirOpKind::TensorYield,
            // The two regions of `scf.while` end differently, and only their position tells them
            // apart.
            KtirOpKind::While if std::ptr::eq(region, &raw const op.regions[0]) => {
                KtirOpKind::Condition
            }
            _ => KtirOpKind::ScfYield,
        }
    }

    pub(crate) fn value_type(&self, v: KtirValue) -> &'m KtirType {
        self.f.value_type(v)
    }

    pub(crate) fn value_types(&self, values: &[KtirValue]) -> Vec<&'m KtirType> {
        values.iter().map(|v| self.value_type(*v)).collect()
    }

    pub(crate) fn name_of_value(&self, v: KtirValue) -> &'m str {
        &self.f.value_def(v).name
    }

    /// The shape and elements of a tile.
    pub(crate) fn tile_type(&self, op: &KtirOp, v: KtirValue) -> Result<(&'m [i64], KtirElem)> {
        match self.value_type(v) {
            KtirType::Tensor(shape, elem) => Ok((shape, *elem)),
            other => broken_rule(
                op,
                format!("`%{}` is {other}, a tensor is needed", self.name_of_value(v)),
            ),
        }
    }

    pub(crate) fn check_counts(&self, op: &KtirOp, operands: usize, results: usize) -> Result {
        let have = (op.operands.len(), op.results.len());
        ensure_rule(op, have == (operands, results), || {
            format!(
                "has {} operands and {} results, needs {operands} and {results}",
                have.0, have.1
            )
        })
    }

    pub(crate) fn check_index_types(&self, op: &KtirOp, values: &[KtirValue]) -> Result {
        for v in values {
            let ty = self.value_type(*v);
            ensure_rule(op, *ty == KtirType::INDEX, || {
                format!("`%{}` is {ty}, an index is needed", self.name_of_value(*v))
            })?;
        }
        Ok(())
    }

    /// Checks the types that a region yields.
    pub(crate) fn check_yielded(
        &self,
        op: &KtirOp,
        region: &'m KtirBlock,
        want: &[&KtirType],
    ) -> Result {
        let Some(end) = region.ops.last() else { return broken_rule(op, "a region is empty") };
        let have = self.value_types(&end.operands);
        ensure_rule(end, have == want, || {
            let show = |list: &[&KtirType]| {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                format!("({})", list.join(", "))
            };
            format!("gives {}, but {} is needed", show(&have), show(want))
        })
    }

    pub(crate) fn check_region_count(&self, op: &KtirOp, n: usize) -> Result {
        ensure_rule(op, op.regions.len() == n, || {
            format!("has {} regions, needs {n}", op.regions.len())
        })
    }

    fn check_op(&self, op: &'m KtirOp) -> Result {
        match op.kind.form() {
            KtirOpForm::Same(_)
            | KtirOpForm::Compare
            | KtirOpForm::Select
            | KtirOpForm::Cast
            | KtirOpForm::Constant => self.check_pointwise(op),
            KtirOpForm::Structured(_) => self.check_structured(op),
            KtirOpForm::Yield => self.check_yields(op),
            KtirOpForm::Own => self.check_own_form(op),
        }
    }

    fn check_own_form(&self, op: &'m KtirOp) -> Result {
        match op.kind {
            KtirOpKind::TileId
            | KtirOpKind::CoreId
            | KtirOpKind::RuntimeArgExtract
            | KtirOpKind::MemoryView
            | KtirOpKind::DistributedView
            | KtirOpKind::AccessTile
            | KtirOpKind::IndirectTile
            | KtirOpKind::Load
            | KtirOpKind::Store
            | KtirOpKind::Produce => self.check_ktdp(op),
            k if k.is_delivery() => self.check_delivery(op),
            KtirOpKind::Generic
            | KtirOpKind::Reduce
            | KtirOpKind::Broadcast
            | KtirOpKind::Transpose
            | KtirOpKind::LinalgMap
            | KtirOpKind::LinalgIndex => self.check_linalg(op),
            KtirOpKind::For
            | KtirOpKind::If
            | KtirOpKind::While
            | KtirOpKind::Condition
            | KtirOpKind::Parallel
            | KtirOpKind::AffineApply
            | KtirOpKind::Call
            | KtirOpKind::MemRefLoad
            | KtirOpKind::MemRefStore => self.check_flow(op),
            _ => self.check_tensor_op(op),
        }
    }
}
