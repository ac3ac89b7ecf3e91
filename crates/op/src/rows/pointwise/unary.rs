//! Elementary functions of one operand.

use super::{build_pointwise, build_slow_unary, unary_int_op, unary_op};
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::{PointwiseOp, ResultDtype};
use crate::row::{OpRow, SuperDsc, row};
use crate::rows::BuiltForm;
use zellige_math::{FloatFunction, IntFunction, IntUnary, Unary};

/// Rounding: integers are whole already.
fn build_rounding(a: &OpAttributes, f: Unary) -> BuiltForm {
    build_pointwise(unary_op(a, f).with_int(IntFunction::Copy))
}

/// A plain function that turns integers into float32.
fn build_float_unary(a: &OpAttributes, f: Unary) -> BuiltForm {
    build_pointwise(unary_op(a, f).with_result_dtype(ResultDtype::Float))
}

/// A test of floats that has the same result for all integers.
fn build_test(a: &OpAttributes, f: Unary, integers: bool) -> BuiltForm {
    let int = IntFunction::Always(integers);
    build_pointwise(
        unary_op(a, f).with_int(int).with_result_dtype(ResultDtype::Bool).with_infinities(),
    )
}

fn build_identity(a: &mut OpAttributes) -> BuiltForm {
    build_pointwise(
        PointwiseOp::new(a.op, 1).with_float(FloatFunction::Copy).with_int(IntFunction::Copy),
    )
}

fn build_sign(a: &mut OpAttributes) -> BuiltForm {
    build_pointwise(unary_int_op(a, Unary::Sign, IntUnary::Sign))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("abs", &["x"], UpstreamLayer::Native, |a| build_pointwise(unary_int_op(a, Unary::Abs, IntUnary::Abs)))
        .superdsc("abs")
        .ktir("absf(x)")
        .onnx("Abs")
        .torch(&["abs abs_ abs.out (self)"]),
    row("neg", &["x"], UpstreamLayer::Native, |a| build_pointwise(unary_int_op(a, Unary::Neg, IntUnary::Neg)))
        .superdsc("neg")
        .ktir("negf(x)")
        .onnx("Neg")
        .torch(&["neg neg_ neg.out (self)"]),
    row("square", &["x"], UpstreamLayer::Native, |a| build_pointwise(unary_int_op(a, Unary::Square, IntUnary::Square)))
        .superdsc_as(SuperDsc::from_function("mul").with_operands(&[0, 0]))
        .ktir("mulf(x, x)")
        .torch(&["square square_ square.out (self)"]),
    row("sign", &["x"], UpstreamLayer::Decomposed, build_sign)
        .onnx("Sign")
        .torch(&["sign sign_ sign.out (self)"]),
    row("sgn", &["x"], UpstreamLayer::Decomposed, build_sign).torch(&["sgn sgn_ sgn.out (self)"]),
    row("exp", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Exp))
        .superdsc("exp")
        .ktir("exp(x)")
        .onnx("Exp")
        .torch(&["exp exp_ exp.out (self)"]),
    row("exp2", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Exp2))
        .whole("rounded arguments or differences would lose digits")
        .ktir("powf(2, x)")
        .torch(&["exp2 exp2_ exp2.out (self)"]),
    row("expm1", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Expm1))
        .whole("rounded arguments or differences would lose digits")
        // The difference loses digits near 0, and the quotient is infinite where tanh rounds to 1.
        .ktir(
            "select(cmpf_olt(absf(x), 0.5), divf(mulf(2, tanh(mulf(x, 0.5))), subf(1, tanh(mulf(x, 0.5)))), subf(exp(x), 1))",
        )
        .torch(&["expm1 expm1_ expm1.out (self)"]),
    row("log", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Log))
        .superdsc("log")
        .ktir("log(x)")
        .onnx("Log")
        .torch(&["log log_ log.out (self)"]),
    row("log2", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Log2))
        .ktir("log2(x)")
        .torch(&["log2 log2_ log2.out (self)"]),
    row("log10", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Log10))
        .ktir("mulf(log(x), 0.4342944819032518)")
        .torch(&["log10 log10_ log10.out (self)"]),
    row("log1p", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Log1p))
        .whole("rounded arguments or differences would lose digits")
        .ktir("log1p(x)")
        .torch(&["log1p log1p_ log1p.out (self)"]),
    row("sqrt", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Sqrt))
        .superdsc("sqrt")
        .ktir("sqrt(x)")
        .onnx("Sqrt")
        .torch(&["sqrt sqrt_ sqrt.out (self)"]),
    row("rsqrt", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Rsqrt))
        .superdsc("rsqrt")
        .ktir("rsqrt(x)")
        .torch(&["rsqrt rsqrt_ rsqrt.out (self)"]),
    row("reciprocal", &["x"], UpstreamLayer::Native, |a| build_float_unary(a, Unary::Reciprocal))
        .superdsc("reciprocal")
        .ktir("divf(1, x)")
        .onnx("Reciprocal")
        .torch(&["reciprocal reciprocal_ reciprocal.out (self)"]),
    row("sin", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Sin))
        .ktir("sin(x)")
        .onnx("Sin")
        .torch(&["sin sin_ sin.out (self)"]),
    row("cos", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Cos))
        .ktir("cos(x)")
        .onnx("Cos")
        .torch(&["cos cos_ cos.out (self)"]),
    row("tan", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Tan))
        .onnx("Tan")
        .torch(&["tan tan_ tan.out (self)"]),
    row("asin", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Asin))
        .onnx("Asin")
        .torch(&["asin asin_ asin.out (self)"]),
    row("acos", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Acos))
        .onnx("Acos")
        .torch(&["acos acos_ acos.out (self)"]),
    row("atan", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Atan))
        .onnx("Atan")
        .torch(&["atan atan_ atan.out (self)"]),
    row("sinh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Sinh))
        .onnx("Sinh")
        .torch(&["sinh sinh_ sinh.out (self)"]),
    row("cosh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Cosh))
        .onnx("Cosh")
        .torch(&["cosh cosh_ cosh.out (self)"]),
    row("tanh", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Tanh))
        .superdsc("tanh")
        .ktir("tanh(x)")
        .onnx("Tanh")
        .torch(&["tanh tanh_ tanh.out (self)"]),
    row("asinh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Asinh))
        .onnx("Asinh")
        .torch(&["asinh asinh_ asinh.out (self)"]),
    row("acosh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Acosh))
        .onnx("Acosh")
        .torch(&["acosh acosh_ acosh.out (self)"]),
    row("atanh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Atanh))
        .onnx("Atanh")
        .torch(&["atanh atanh_ atanh.out (self)"]),
    row("erf", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Erf))
        .ktir("erf(x)")
        .onnx("Erf")
        .torch(&["erf erf_ erf.out (self)"]),
    row("erfc", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Erfc))
        .torch(&["erfc erfc_ erfc.out (self)"]),
    row("erfinv", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Erfinv))
        .torch(&["erfinv erfinv_ erfinv.out (self)"]),
    row("lgamma", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Lgamma))
        .torch(&["lgamma lgamma_ lgamma.out (self)"]),
    row("digamma", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Digamma))
        .torch(&["digamma digamma_ digamma.out (self)"]),
    row("floor", &["x"], UpstreamLayer::Native, |a| build_rounding(a, Unary::Floor))
        .superdsc("floor")
        .ktir("floor(x)")
        .onnx("Floor")
        .torch(&["floor floor_ floor.out (self)"]),
    row("ceil", &["x"], UpstreamLayer::Decomposed, |a| build_rounding(a, Unary::Ceil))
        .ktir("ceil(x)")
        .onnx("Ceil")
        .torch(&["ceil ceil_ ceil.out (self)"]),
    row("round", &["x"], UpstreamLayer::Decomposed, |a| build_rounding(a, Unary::Round))
        .onnx("Round")
        .torch(&["round round_ round.out (self)"]),
    row("trunc", &["x"], UpstreamLayer::Decomposed, |a| build_rounding(a, Unary::Trunc))
        .torch(&["trunc trunc_ trunc.out (self)"]),
    row("frac", &["x"], UpstreamLayer::Decomposed, |a| build_pointwise(unary_op(a, Unary::Frac)))
        .torch(&["frac frac_ frac.out (self)"]),
    row("logical_not", &["x"], UpstreamLayer::Decomposed, |a| {
        build_pointwise(unary_int_op(a, Unary::LogicalNot, IntUnary::LogicalNot).with_result_dtype(ResultDtype::Bool))
    })
    .onnx("Not")
    .torch(&["logical_not logical_not_ logical_not.out (self)"]),
    row("isnan", &["x"], UpstreamLayer::Decomposed, |a| build_test(a, Unary::IsNan, false))
        .onnx("IsNaN")
        .torch(&["isnan isnan.out (self)"]),
    row("isinf", &["x"], UpstreamLayer::Decomposed, |a| build_test(a, Unary::IsInf, false))
        .torch(&["isinf isinf.out (self)"]),
    row("isfinite", &["x"], UpstreamLayer::Decomposed, |a| build_test(a, Unary::IsFinite, true))
        .torch(&["isfinite (self)"]),
    row("identity", &["x"], UpstreamLayer::Native, build_identity).superdsc("identity").ktir("x"),
    row("clone", &["x"], UpstreamLayer::Native, build_identity).superdsc("identity").ktir("x"),
];
