//! Elementary functions of one operand.

use super::{built, one, one_int, slow};
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::forms::{Pointwise, Yields};
use crate::row::{OpRow, SuperDsc, row};
use crate::rows::Built;
use zellige_math::{FloatFunction, IntFunction, IntUnary, Unary};

/// Rounding: integers are whole already.
fn rounding(a: &Attributes, f: Unary) -> Built {
    built(one(a, f).int(IntFunction::Copy))
}

/// A plain function that turns integers into float32.
fn plain(a: &Attributes, f: Unary) -> Built {
    built(one(a, f).yields(Yields::Float))
}

/// A test of floats, of which all integers say the same.
fn test(a: &Attributes, f: Unary, integers: bool) -> Built {
    let int = IntFunction::Always(integers);
    built(one(a, f).int(int).yields(Yields::Bool).infinities())
}

fn identity(a: &mut Attributes) -> Built {
    built(Pointwise::new(a.op, 1).float(FloatFunction::Copy).int(IntFunction::Copy))
}

fn sign(a: &mut Attributes) -> Built {
    built(one_int(a, Unary::Sign, IntUnary::Sign))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("abs", &["x"], Layer::Native, |a| built(one_int(a, Unary::Abs, IntUnary::Abs)))
        .superdsc("abs")
        .ktir("absf(x)")
        .onnx("Abs")
        .torch(&["abs abs_ abs.out (self)"]),
    row("neg", &["x"], Layer::Native, |a| built(one_int(a, Unary::Neg, IntUnary::Neg)))
        .superdsc("neg")
        .ktir("negf(x)")
        .onnx("Neg")
        .torch(&["neg neg_ neg.out (self)"]),
    row("square", &["x"], Layer::Native, |a| built(one_int(a, Unary::Square, IntUnary::Square)))
        .superdsc_as(SuperDsc::function("mul").operands(&[0, 0]))
        .ktir("mulf(x, x)")
        .torch(&["square square_ square.out (self)"]),
    row("sign", &["x"], Layer::Decomposed, sign)
        .onnx("Sign")
        .torch(&["sign sign_ sign.out (self)"]),
    row("sgn", &["x"], Layer::Decomposed, sign).torch(&["sgn sgn_ sgn.out (self)"]),
    row("exp", &["x"], Layer::Native, |a| slow(a, Unary::Exp))
        .superdsc("exp")
        .ktir("exp(x)")
        .onnx("Exp")
        .torch(&["exp exp_ exp.out (self)"]),
    row("exp2", &["x"], Layer::Decomposed, |a| slow(a, Unary::Exp2))
        .whole("rounded arguments or differences would lose digits")
        .ktir("powf(2, x)")
        .torch(&["exp2 exp2_ exp2.out (self)"]),
    row("expm1", &["x"], Layer::Decomposed, |a| slow(a, Unary::Expm1))
        .whole("rounded arguments or differences would lose digits")
        // The difference loses digits near 0, and the quotient is infinite where tanh rounds to 1.
        .ktir(
            "select(cmpf_olt(absf(x), 0.5), divf(mulf(2, tanh(mulf(x, 0.5))), subf(1, tanh(mulf(x, 0.5)))), subf(exp(x), 1))",
        )
        .torch(&["expm1 expm1_ expm1.out (self)"]),
    row("log", &["x"], Layer::Native, |a| slow(a, Unary::Log))
        .superdsc("log")
        .ktir("log(x)")
        .onnx("Log")
        .torch(&["log log_ log.out (self)"]),
    row("log2", &["x"], Layer::Decomposed, |a| slow(a, Unary::Log2))
        .ktir("log2(x)")
        .torch(&["log2 log2_ log2.out (self)"]),
    row("log10", &["x"], Layer::Decomposed, |a| slow(a, Unary::Log10))
        .ktir("mulf(log(x), 0.4342944819032518)")
        .torch(&["log10 log10_ log10.out (self)"]),
    row("log1p", &["x"], Layer::Decomposed, |a| slow(a, Unary::Log1p))
        .whole("rounded arguments or differences would lose digits")
        .ktir("log1p(x)")
        .torch(&["log1p log1p_ log1p.out (self)"]),
    row("sqrt", &["x"], Layer::Native, |a| slow(a, Unary::Sqrt))
        .superdsc("sqrt")
        .ktir("sqrt(x)")
        .onnx("Sqrt")
        .torch(&["sqrt sqrt_ sqrt.out (self)"]),
    row("rsqrt", &["x"], Layer::Native, |a| slow(a, Unary::Rsqrt))
        .superdsc("rsqrt")
        .ktir("rsqrt(x)")
        .torch(&["rsqrt rsqrt_ rsqrt.out (self)"]),
    row("reciprocal", &["x"], Layer::Native, |a| plain(a, Unary::Reciprocal))
        .superdsc("reciprocal")
        .ktir("divf(1, x)")
        .onnx("Reciprocal")
        .torch(&["reciprocal reciprocal_ reciprocal.out (self)"]),
    row("sin", &["x"], Layer::Fallback, |a| slow(a, Unary::Sin))
        .ktir("sin(x)")
        .onnx("Sin")
        .torch(&["sin sin_ sin.out (self)"]),
    row("cos", &["x"], Layer::Fallback, |a| slow(a, Unary::Cos))
        .ktir("cos(x)")
        .onnx("Cos")
        .torch(&["cos cos_ cos.out (self)"]),
    row("tan", &["x"], Layer::Fallback, |a| slow(a, Unary::Tan))
        .onnx("Tan")
        .torch(&["tan tan_ tan.out (self)"]),
    row("asin", &["x"], Layer::Fallback, |a| slow(a, Unary::Asin))
        .onnx("Asin")
        .torch(&["asin asin_ asin.out (self)"]),
    row("acos", &["x"], Layer::Fallback, |a| slow(a, Unary::Acos))
        .onnx("Acos")
        .torch(&["acos acos_ acos.out (self)"]),
    row("atan", &["x"], Layer::Fallback, |a| slow(a, Unary::Atan))
        .onnx("Atan")
        .torch(&["atan atan_ atan.out (self)"]),
    row("sinh", &["x"], Layer::Fallback, |a| slow(a, Unary::Sinh))
        .onnx("Sinh")
        .torch(&["sinh sinh_ sinh.out (self)"]),
    row("cosh", &["x"], Layer::Fallback, |a| slow(a, Unary::Cosh))
        .onnx("Cosh")
        .torch(&["cosh cosh_ cosh.out (self)"]),
    row("tanh", &["x"], Layer::Native, |a| slow(a, Unary::Tanh))
        .superdsc("tanh")
        .ktir("tanh(x)")
        .onnx("Tanh")
        .torch(&["tanh tanh_ tanh.out (self)"]),
    row("asinh", &["x"], Layer::Fallback, |a| slow(a, Unary::Asinh))
        .onnx("Asinh")
        .torch(&["asinh asinh_ asinh.out (self)"]),
    row("acosh", &["x"], Layer::Fallback, |a| slow(a, Unary::Acosh))
        .onnx("Acosh")
        .torch(&["acosh acosh_ acosh.out (self)"]),
    row("atanh", &["x"], Layer::Fallback, |a| slow(a, Unary::Atanh))
        .onnx("Atanh")
        .torch(&["atanh atanh_ atanh.out (self)"]),
    row("erf", &["x"], Layer::Fallback, |a| slow(a, Unary::Erf))
        .ktir("erf(x)")
        .onnx("Erf")
        .torch(&["erf erf_ erf.out (self)"]),
    row("erfc", &["x"], Layer::Fallback, |a| slow(a, Unary::Erfc))
        .torch(&["erfc erfc_ erfc.out (self)"]),
    row("erfinv", &["x"], Layer::Fallback, |a| slow(a, Unary::Erfinv))
        .torch(&["erfinv erfinv_ erfinv.out (self)"]),
    row("lgamma", &["x"], Layer::Fallback, |a| slow(a, Unary::Lgamma))
        .torch(&["lgamma lgamma_ lgamma.out (self)"]),
    row("digamma", &["x"], Layer::Fallback, |a| slow(a, Unary::Digamma))
        .torch(&["digamma digamma_ digamma.out (self)"]),
    row("floor", &["x"], Layer::Native, |a| rounding(a, Unary::Floor))
        .superdsc("floor")
        .ktir("floor(x)")
        .onnx("Floor")
        .torch(&["floor floor_ floor.out (self)"]),
    row("ceil", &["x"], Layer::Decomposed, |a| rounding(a, Unary::Ceil))
        .ktir("ceil(x)")
        .onnx("Ceil")
        .torch(&["ceil ceil_ ceil.out (self)"]),
    row("round", &["x"], Layer::Decomposed, |a| rounding(a, Unary::Round))
        .onnx("Round")
        .torch(&["round round_ round.out (self)"]),
    row("trunc", &["x"], Layer::Decomposed, |a| rounding(a, Unary::Trunc))
        .torch(&["trunc trunc_ trunc.out (self)"]),
    row("frac", &["x"], Layer::Decomposed, |a| built(one(a, Unary::Frac)))
        .torch(&["frac frac_ frac.out (self)"]),
    row("logical_not", &["x"], Layer::Decomposed, |a| {
        built(one_int(a, Unary::LogicalNot, IntUnary::LogicalNot).yields(Yields::Bool))
    })
    .onnx("Not")
    .torch(&["logical_not logical_not_ logical_not.out (self)"]),
    row("isnan", &["x"], Layer::Decomposed, |a| test(a, Unary::IsNan, false))
        .onnx("IsNaN")
        .torch(&["isnan isnan.out (self)"]),
    row("isinf", &["x"], Layer::Decomposed, |a| test(a, Unary::IsInf, false))
        .torch(&["isinf isinf.out (self)"]),
    row("isfinite", &["x"], Layer::Decomposed, |a| test(a, Unary::IsFinite, true))
        .torch(&["isfinite (self)"]),
    row("identity", &["x"], Layer::Native, identity).superdsc("identity").ktir("x"),
    row("clone", &["x"], Layer::Native, identity).superdsc("identity").ktir("x"),
];
