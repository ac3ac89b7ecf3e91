//! Elementary functions of one operand.

use super::{Attrs, Built, built, copied, one, one_int, slow, table};
use crate::kernels::pointwise::{Pointwise, Yields};
use zellige_math::{IntUnary, Unary};

/// Rounding: integers are whole already.
fn rounding(a: &Attrs, f: Unary) -> Built {
    built(one(a, f).int(copied, copied))
}

/// A plain function that turns integers into float32.
fn plain(a: &Attrs, f: Unary) -> Built {
    built(one(a, f).yields(Yields::Float))
}

/// A test of floats, of which all integers say the same.
fn test(a: &Attrs, f: Unary, integers: bool) -> Built {
    let int = move |_: &[&[i32]], out: &mut [i32]| out.fill(integers.into());
    let long = move |_: &[&[i64]], out: &mut [i64]| out.fill(integers.into());
    built(one(a, f).int(int, long).yields(Yields::Bool).infinities())
}

fn identity(a: &mut Attrs) -> Built {
    built(Pointwise::new(a.op, 1).float(copied).int(copied, copied))
}

fn sign(a: &mut Attrs) -> Built {
    built(one_int(a, Unary::Sign, IntUnary::Sign))
}

table! {
    "abs" ("x") [] Native, |a| built(one_int(a, Unary::Abs, IntUnary::Abs));
    "neg" ("x") [] Native, |a| built(one_int(a, Unary::Neg, IntUnary::Neg));
    "square" ("x") [] Native, |a| built(one_int(a, Unary::Square, IntUnary::Square));
    "sign" ("x") [] Decomposed, sign;
    "sgn" ("x") [] Decomposed, sign;
    "exp" ("x") [] Native, |a| slow(a, Unary::Exp);
    "exp2" ("x") [] Decomposed, |a| slow(a, Unary::Exp2);
    "expm1" ("x") [] Decomposed, |a| slow(a, Unary::Expm1);
    "log" ("x") [] Native, |a| slow(a, Unary::Log);
    "log2" ("x") [] Decomposed, |a| slow(a, Unary::Log2);
    "log10" ("x") [] Decomposed, |a| slow(a, Unary::Log10);
    "log1p" ("x") [] Decomposed, |a| slow(a, Unary::Log1p);
    "sqrt" ("x") [] Native, |a| slow(a, Unary::Sqrt);
    "rsqrt" ("x") [] Native, |a| slow(a, Unary::Rsqrt);
    "reciprocal" ("x") [] Native, |a| plain(a, Unary::Reciprocal);
    "sin" ("x") [] Fallback, |a| slow(a, Unary::Sin);
    "cos" ("x") [] Fallback, |a| slow(a, Unary::Cos);
    "tan" ("x") [] Fallback, |a| slow(a, Unary::Tan);
    "asin" ("x") [] Fallback, |a| slow(a, Unary::Asin);
    "acos" ("x") [] Fallback, |a| slow(a, Unary::Acos);
    "atan" ("x") [] Fallback, |a| slow(a, Unary::Atan);
    "sinh" ("x") [] Fallback, |a| slow(a, Unary::Sinh);
    "cosh" ("x") [] Fallback, |a| slow(a, Unary::Cosh);
    "tanh" ("x") [] Native, |a| slow(a, Unary::Tanh);
    "asinh" ("x") [] Fallback, |a| slow(a, Unary::Asinh);
    "acosh" ("x") [] Fallback, |a| slow(a, Unary::Acosh);
    "atanh" ("x") [] Fallback, |a| slow(a, Unary::Atanh);
    "erf" ("x") [] Fallback, |a| slow(a, Unary::Erf);
    "erfc" ("x") [] Fallback, |a| slow(a, Unary::Erfc);
    "erfinv" ("x") [] Fallback, |a| slow(a, Unary::Erfinv);
    "lgamma" ("x") [] Fallback, |a| slow(a, Unary::Lgamma);
    "digamma" ("x") [] Fallback, |a| slow(a, Unary::Digamma);
    "floor" ("x") [] Native, |a| rounding(a, Unary::Floor);
    "ceil" ("x") [] Decomposed, |a| rounding(a, Unary::Ceil);
    "round" ("x") [] Decomposed, |a| rounding(a, Unary::Round);
    "trunc" ("x") [] Decomposed, |a| rounding(a, Unary::Trunc);
    "frac" ("x") [] Decomposed, |a| built(one(a, Unary::Frac));
    "logical_not" ("x") [] Decomposed,
        |a| built(one_int(a, Unary::LogicalNot, IntUnary::LogicalNot).yields(Yields::Bool));
    "isnan" ("x") [] Decomposed, |a| test(a, Unary::IsNan, false);
    "isinf" ("x") [] Decomposed, |a| test(a, Unary::IsInf, false);
    "isfinite" ("x") [] Decomposed, |a| test(a, Unary::IsFinite, true);
    "identity" ("x") [] Native, identity;
    "clone" ("x") [] Native, identity;
}
