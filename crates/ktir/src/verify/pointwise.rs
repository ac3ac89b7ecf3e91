//! Element by element.

use super::{Checker, Result, broken, ensure};
use crate::ir::{Attr, Literal, Op};
use crate::op::{Form, Kind};
use crate::types::{Elem, Type};

/// Comparisons of integers.
pub(crate) const CMPI: [&str; 10] =
    ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"];

/// Comparisons of floats: ordered ones are false where a NaN is compared, unordered ones true.
pub(crate) const CMPF: [&str; 16] = [
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
    "une", "uno", "true",
];

/// Whether the operands are floats; none where that does not matter.
fn floats(kind: Kind) -> Option<bool> {
    use Kind::{
        AbsI, AddI, AndI, CeilDivSI, CeilDivUI, CmpI, DivSI, DivUI, FloorDivSI, MaxSI, MaxUI,
        MinSI, MinUI, MulI, OrI, RemSI, RemUI, ShLI, ShRSI, ShRUI, SubI, XOrI,
    };
    match kind {
        AbsI | AddI | AndI | CeilDivSI | CeilDivUI | CmpI | DivSI | DivUI | FloorDivSI | MaxSI
        | MaxUI | MinSI | MinUI | MulI | OrI | RemSI | RemUI | ShLI | ShRSI | ShRUI | SubI
        | XOrI => Some(false),
        Kind::ArithSelect => None,
        _ => Some(true),
    }
}

impl<'m> Checker<'m> {
    pub(super) fn pointwise(&self, op: &'m Op) -> Result {
        self.regions(op, 0)?;
        match op.kind.form() {
            Form::Constant => self.constant(op),
            Form::Cast => self.cast(op),
            Form::Select => {
                self.counts(op, 3, 1)?;
                let [c, a, b, r] = [op.operands[0], op.operands[1], op.operands[2], op.results[0]]
                    .map(|v| self.ty(v));
                ensure(op, a == b && a == r, || format!("chooses between {a} and {b}"))?;
                let whole = *c == Type::Scalar(Elem::I1);
                let each =
                    matches!((c, a), (Type::Tensor(x, Elem::I1), Type::Tensor(y, _)) if x == y);
                ensure(op, whole || each, || format!("the condition is {c}, the choices {a}"))
            }
            form => {
                let n = if let Form::Same(n) = form { n } else { 2 };
                self.counts(op, n, 1)?;
                let ty = self.ty(op.operands[0]);
                for v in &op.operands {
                    let other = self.ty(*v);
                    ensure(op, other == ty, || {
                        format!("`%{}` is {other}, the first operand {ty}", self.name(*v))
                    })?;
                }
                let Some(elem) = ty.elem().filter(|_| ty.shape().is_some()) else {
                    return broken(op, format!("takes numbers or tensors, not {ty}"));
                };
                let result = self.ty(op.results[0]);
                if form == Form::Compare {
                    let names: &[&str] = if op.kind == Kind::CmpF { &CMPF } else { &CMPI };
                    let predicate = op.word("predicate").unwrap_or_default();
                    ensure(op, names.contains(&predicate), || {
                        format!("no comparison `{predicate}`; there are {}", names.join(", "))
                    })?;
                    let want = ty.with_elem(Elem::I1);
                    ensure(op, *result == want, || format!("gives {want}, not {result}"))?;
                } else {
                    ensure(op, result == ty, || format!("gives {ty}, not {result}"))?;
                }
                match floats(op.kind) {
                    Some(true) => {
                        ensure(op, elem.is_float(), || format!("is for floats; {ty} has none"))
                    }
                    Some(false) => {
                        ensure(op, !elem.is_float(), || format!("is for integers; {ty} has none"))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    fn constant(&self, op: &Op) -> Result {
        self.counts(op, 0, 1)?;
        let ty = self.ty(op.results[0]);
        let elem = ty.elem();
        let fits = |l: &Literal| match l {
            Literal::Int(_) => elem.is_some_and(|e| !e.is_float()),
            Literal::Float(_) => elem.is_some_and(Elem::is_float),
            Literal::Bits(bits) => {
                elem.is_some_and(|e| e.is_float() && (e.bits() == 64 || bits >> e.bits() == 0))
            }
        };
        match (op.attr("value"), ty) {
            (Some(Attr::Literal(l)), Type::Scalar(_)) => {
                ensure(op, fits(l), || format!("the number is none of type {ty}"))
            }
            (Some(Attr::Dense(list)), Type::Tensor(shape, _)) => {
                let n = shape.iter().product::<i64>();
                let m = i64::try_from(list.len()).unwrap_or(i64::MAX);
                ensure(op, m == 1 || m == n, || format!("{m} numbers for the {n} of {ty}"))?;
                ensure(op, list.iter().all(fits), || format!("a number is none of {ty}"))
            }
            _ => broken(op, format!("has no value of type {ty}")),
        }
    }

    fn cast(&self, op: &Op) -> Result {
        self.counts(op, 1, 1)?;
        let (from, to) = (self.ty(op.operands[0]), self.ty(op.results[0]));
        let shapes = match (from, to) {
            (Type::Scalar(_), Type::Scalar(_)) => true,
            (Type::Tensor(a, _), Type::Tensor(b, _)) => a == b,
            _ => false,
        };
        ensure(op, shapes, || format!("{from} and {to} have different shapes"))?;
        let (Some(a), Some(b)) = (from.elem(), to.elem()) else {
            return broken(op, format!("takes numbers or tensors, not {from}"));
        };
        let (fa, fb, wider) = (a.is_float(), b.is_float(), b.bits() > a.bits());
        let narrower = b.bits() < a.bits();
        let ok = match op.kind {
            Kind::ExtF => fa && fb && wider,
            Kind::TruncF => fa && fb && narrower,
            Kind::SIToFP | Kind::UIToFP => !fa && fb,
            Kind::FPToSI | Kind::FPToUI => fa && !fb,
            Kind::IndexCast | Kind::IndexCastUI => {
                !fa && !fb && (a == Elem::Index) != (b == Elem::Index)
            }
            Kind::ExtSI | Kind::ExtUI => !fa && !fb && wider && b != Elem::Index,
            Kind::TruncI => !fa && !fb && narrower && a != Elem::Index,
            Kind::Bitcast => a.bits() == b.bits(),
            _ => a == b,
        };
        ensure(op, ok, || format!("does not take {from} to {to}"))
    }
}
