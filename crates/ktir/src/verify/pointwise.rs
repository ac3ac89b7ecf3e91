//! Rules of elementwise operations.

use super::{KtirChecker, Result, broken_rule, ensure_rule};
use crate::ir::{KtirAttr, KtirLiteral, KtirOp};
use crate::op::{KtirOpForm, KtirOpKind};
use crate::types::{KtirElem, KtirType};

/// The predicates of `arith.cmpi`.
pub(crate) const INT_PREDICATES: [&str; 10] =
    ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"];

/// The predicates of `arith.cmpf`: an ordered comparison with a NaN is false, an unordered one is
/// true.
// The names and their meaning are those of `arith.cmpf`; `false` and `true` belong to them.
pub(crate) const FLOAT_PREDICATES: [&str; 16] = [
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
    "une", "uno", "true",
];

/// Whether the operands have to be floats; `None` where both kinds are accepted.
fn takes_floats(kind: KtirOpKind) -> Option<bool> {
    use KtirOpKind::{
        AbsI, AddI, AndI, CeilDivSI, CeilDivUI, CmpI, DivSI, DivUI, FloorDivSI, MaxSI, MaxUI,
        MinSI, MinUI, MulI, OrI, RemSI, RemUI, ShLI, ShRSI, ShRUI, SubI, XOrI,
    };
    match kind {
        AbsI | AddI | AndI | CeilDivSI | CeilDivUI | CmpI | DivSI | DivUI | FloorDivSI | MaxSI
        | MaxUI | MinSI | MinUI | MulI | OrI | RemSI | RemUI | ShLI | ShRSI | ShRUI | SubI
        | XOrI => Some(false),
        // A choice does not look at the numbers that it chooses between.
        KtirOpKind::ArithSelect => None,
        _ => Some(true),
    }
}

impl<'m> KtirChecker<'m> {
    pub(super) fn check_pointwise(&self, op: &'m KtirOp) -> Result {
        self.check_region_count(op, 0)?;
        match op.kind.form() {
            KtirOpForm::Constant => self.check_constant(op),
            KtirOpForm::Cast => self.check_cast(op),
            KtirOpForm::Select => {
                self.check_counts(op, 3, 1)?;
                let [c, a, b, r] = [op.operands[0], op.operands[1], op.operands[2], op.results[0]]
                    .map(|v| self.value_type(v));
                ensure_rule(op, a == b && a == r, || format!("chooses between {a} and {b}"))?;
                let whole = *c == KtirType::Scalar(KtirElem::I1);
                // `arith.select` takes one condition for the whole tile or one for every element,
                // nothing in between.
                let each = matches!((c, a), (KtirType::Tensor(x, KtirElem::I1), KtirType::Tensor(y, _)) if x == y);
                ensure_rule(op, whole || each, || format!("the condition is {c}, the choices {a}"))
            }
            form => {
                let n = if let KtirOpForm::Same(n) = form { n } else { 2 };
                self.check_counts(op, n, 1)?;
                let ty = self.value_type(op.operands[0]);
                for v in &op.operands {
                    let other = self.value_type(*v);
                    ensure_rule(op, other == ty, || {
                        format!("`%{}` is {other}, the first operand {ty}", self.name_of_value(*v))
                    })?;
                }
                // A memref has elements too, but it describes memory: it has to be loaded before it
                // can be computed on.
                let Some(elem) = ty.elem().filter(|_| ty.shape().is_some()) else {
                    return broken_rule(op, format!("takes numbers or tensors, not {ty}"));
                };
                let result = self.value_type(op.results[0]);
                if form == KtirOpForm::Compare {
                    let names: &[&str] = if op.kind == KtirOpKind::CmpF {
                        &FLOAT_PREDICATES
                    } else {
                        &INT_PREDICATES
                    };
                    let predicate = op.word_attr("predicate").unwrap_or_default();
                    ensure_rule(op, names.contains(&predicate), || {
                        format!("no comparison `{predicate}`; there are {}", names.join(", "))
                    })?;
                    let want = ty.with_elem(KtirElem::I1);
                    ensure_rule(op, *result == want, || format!("gives {want}, not {result}"))?;
                } else {
                    ensure_rule(op, result == ty, || format!("gives {ty}, not {result}"))?;
                }
                match takes_floats(op.kind) {
                    Some(true) => {
                        ensure_rule(op, elem.is_float(), || format!("is for floats; {ty} has none"))
                    }
                    Some(false) => ensure_rule(op, !elem.is_float(), || {
                        format!("is for integers; {ty} has none")
                    }),
                    None => Ok(()),
                }
            }
        }
    }

    fn check_constant(&self, op: &KtirOp) -> Result {
        self.check_counts(op, 0, 1)?;
        let ty = self.value_type(op.results[0]);
        let elem = ty.elem();
        let fits = |l: &KtirLiteral| match l {
            KtirLiteral::Int(_) => elem.is_some_and(|e| !e.is_float()),
            KtirLiteral::Float(_) => elem.is_some_and(KtirElem::is_float),
            // A bit pattern with more digits than the element has bits would lose the upper ones
            // silently.
            KtirLiteral::Bits(bits) => elem.is_some_and(|e| {
                e.is_float() && (e.value_bits() == 64 || bits >> e.value_bits() == 0)
            }),
        };
        match (op.attr("value"), ty) {
            (Some(KtirAttr::Literal(l)), KtirType::Scalar(_)) => {
                ensure_rule(op, fits(l), || format!("the number does not fit into the type {ty}"))
            }
            (Some(KtirAttr::Dense(list)), KtirType::Tensor(shape, _)) => {
                let n = shape.iter().product::<i64>();
                let m = i64::try_from(list.len()).unwrap_or(i64::MAX);
                // One number is MLIR's splat: it stands for every element.
                ensure_rule(op, m == 1 || m == n, || format!("{m} numbers for the {n} of {ty}"))?;
                ensure_rule(op, list.iter().all(fits), || {
                    format!("a number does not fit into {ty}")
                })
            }
            _ => broken_rule(op, format!("has no value of type {ty}")),
        }
    }

    fn check_cast(&self, op: &KtirOp) -> Result {
        self.check_counts(op, 1, 1)?;
        let (from, to) = (self.value_type(op.operands[0]), self.value_type(op.results[0]));
        let shapes = match (from, to) {
            (KtirType::Scalar(_), KtirType::Scalar(_)) => true,
            (KtirType::Tensor(a, _), KtirType::Tensor(b, _)) => a == b,
            _ => false,
        };
        ensure_rule(op, shapes, || format!("{from} and {to} have different shapes"))?;
        let (Some(a), Some(b)) = (from.elem(), to.elem()) else {
            return broken_rule(op, format!("takes numbers or tensors, not {from}"));
        };
        let (fa, fb, wider) = (a.is_float(), b.is_float(), b.value_bits() > a.value_bits());
        let narrower = b.value_bits() < a.value_bits();
        let ok = match op.kind {
            // `arith` requires that an extension widens and a truncation narrows; a cast between
            // two types of equal width, such as f16 and bf16, has to go through a wider one.
            KtirOpKind::ExtF => fa && fb && wider,
            KtirOpKind::TruncF => fa && fb && narrower,
            KtirOpKind::ConvertF => fa && fb,
            KtirOpKind::SIToFP | KtirOpKind::UIToFP => !fa && fb,
            KtirOpKind::FPToSI | KtirOpKind::FPToUI => fa && !fb,
            // Exactly one side is `index`: its width is the machine's, so these are the only casts
            // to and from it.
            KtirOpKind::IndexCast | KtirOpKind::IndexCastUI => {
                !fa && !fb && (a == KtirElem::Index) != (b == KtirElem::Index)
            }
            KtirOpKind::ExtSI | KtirOpKind::ExtUI => !fa && !fb && wider && b != KtirElem::Index,
            KtirOpKind::TruncI => !fa && !fb && narrower && a != KtirElem::Index,
            KtirOpKind::Bitcast => a.value_bits() == b.value_bits(),
            // `tensor.cast` changes what the type knows about sizes and never the elements.
            _ => a == b,
        };
        ensure_rule(op, ok, || format!("does not take {from} to {to}"))
    }
}
