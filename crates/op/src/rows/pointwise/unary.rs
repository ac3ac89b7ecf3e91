//! Elementary functions of one operand.

use super::{build_pointwise, build_slow_unary, unary_int_op, unary_op};
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::{PointwiseOp, ResultDtype};
use crate::row::{OpRow, SuperDsc, row};
use crate::rows::BuiltForm;
use crate::torch_operator::{operand, operator};
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
        .torch(&[operator(&["abs", "abs_", "abs.out"], &[operand("self")])]),
    row("neg", &["x"], UpstreamLayer::Native, |a| build_pointwise(unary_int_op(a, Unary::Neg, IntUnary::Neg)))
        .superdsc("neg")
        .ktir("negf(x)")
        .onnx("Neg")
        .torch(&[operator(&["neg", "neg_", "neg.out"], &[operand("self")])]),
    row("square", &["x"], UpstreamLayer::Native, |a| build_pointwise(unary_int_op(a, Unary::Square, IntUnary::Square)))
        .superdsc_as(SuperDsc::from_function("mul").with_operands(&[0, 0]))
        .ktir("mulf(x, x)")
        .torch(&[operator(&["square", "square_", "square.out"], &[operand("self")])]),
    row("sign", &["x"], UpstreamLayer::Decomposed, build_sign)
        .onnx("Sign")
        .torch(&[operator(&["sign", "sign_", "sign.out"], &[operand("self")])]),
    row("sgn", &["x"], UpstreamLayer::Decomposed, build_sign).torch(&[operator(&["sgn", "sgn_", "sgn.out"], &[operand("self")])]),
    row("exp", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Exp))
        .superdsc("exp")
        .ktir("exp(x)")
        .onnx("Exp")
        .torch(&[operator(&["exp", "exp_", "exp.out"], &[operand("self")])]),
    row("exp2", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Exp2))
        .whole("rounded arguments or differences would lose digits")
        .ktir("powf(2, x)")
        .torch(&[operator(&["exp2", "exp2_", "exp2.out"], &[operand("self")])]),
    row("expm1", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Expm1))
        .whole("rounded arguments or differences would lose digits")
        // The difference loses digits near 0, and the quotient is infinite where tanh rounds to 1.
        .ktir(
            "select(cmpf_olt(absf(x), 0.5), divf(mulf(2, tanh(mulf(x, 0.5))), subf(1, tanh(mulf(x, 0.5)))), subf(exp(x), 1))",
        )
        .torch(&[operator(&["expm1", "expm1_", "expm1.out"], &[operand("self")])]),
    row("log", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Log))
        .superdsc("log")
        .ktir("log(x)")
        .onnx("Log")
        .torch(&[operator(&["log", "log_", "log.out"], &[operand("self")])]),
    row("log2", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Log2))
        .ktir("log2(x)")
        .torch(&[operator(&["log2", "log2_", "log2.out"], &[operand("self")])]),
    row("log10", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Log10))
        .ktir("mulf(log(x), 0.4342944819032518)")
        .torch(&[operator(&["log10", "log10_", "log10.out"], &[operand("self")])]),
    row("log1p", &["x"], UpstreamLayer::Decomposed, |a| build_slow_unary(a, Unary::Log1p))
        .whole("rounded arguments or differences would lose digits")
        .ktir("log1p(x)")
        .torch(&[operator(&["log1p", "log1p_", "log1p.out"], &[operand("self")])]),
    row("sqrt", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Sqrt))
        .superdsc("sqrt")
        .ktir("sqrt(x)")
        .onnx("Sqrt")
        .torch(&[operator(&["sqrt", "sqrt_", "sqrt.out"], &[operand("self")])]),
    row("rsqrt", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Rsqrt))
        .superdsc("rsqrt")
        .ktir("rsqrt(x)")
        .torch(&[operator(&["rsqrt", "rsqrt_", "rsqrt.out"], &[operand("self")])]),
    row("reciprocal", &["x"], UpstreamLayer::Native, |a| build_float_unary(a, Unary::Reciprocal))
        .superdsc("reciprocal")
        .ktir("divf(1, x)")
        .onnx("Reciprocal")
        .torch(&[operator(&["reciprocal", "reciprocal_", "reciprocal.out"], &[operand("self")])]),
    row("sin", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Sin))
        .ktir("sin(x)")
        .onnx("Sin")
        .torch(&[operator(&["sin", "sin_", "sin.out"], &[operand("self")])]),
    row("cos", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Cos))
        .ktir("cos(x)")
        .onnx("Cos")
        .torch(&[operator(&["cos", "cos_", "cos.out"], &[operand("self")])]),
    row("tan", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Tan))
        .onnx("Tan")
        .torch(&[operator(&["tan", "tan_", "tan.out"], &[operand("self")])]),
    row("asin", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Asin))
        .onnx("Asin")
        .torch(&[operator(&["asin", "asin_", "asin.out"], &[operand("self")])]),
    row("acos", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Acos))
        .onnx("Acos")
        .torch(&[operator(&["acos", "acos_", "acos.out"], &[operand("self")])]),
    row("atan", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Atan))
        .onnx("Atan")
        .torch(&[operator(&["atan", "atan_", "atan.out"], &[operand("self")])]),
    row("sinh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Sinh))
        .onnx("Sinh")
        .torch(&[operator(&["sinh", "sinh_", "sinh.out"], &[operand("self")])]),
    row("cosh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Cosh))
        .onnx("Cosh")
        .torch(&[operator(&["cosh", "cosh_", "cosh.out"], &[operand("self")])]),
    row("tanh", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Tanh))
        .superdsc("tanh")
        .ktir("tanh(x)")
        .onnx("Tanh")
        .torch(&[operator(&["tanh", "tanh_", "tanh.out"], &[operand("self")])]),
    row("asinh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Asinh))
        .onnx("Asinh")
        .torch(&[operator(&["asinh", "asinh_", "asinh.out"], &[operand("self")])]),
    row("acosh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Acosh))
        .onnx("Acosh")
        .torch(&[operator(&["acosh", "acosh_", "acosh.out"], &[operand("self")])]),
    row("atanh", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Atanh))
        .onnx("Atanh")
        .torch(&[operator(&["atanh", "atanh_", "atanh.out"], &[operand("self")])]),
    row("erf", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Erf))
        .ktir("erf(x)")
        .onnx("Erf")
        .torch(&[operator(&["erf", "erf_", "erf.out"], &[operand("self")])]),
    row("erfc", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Erfc))
        .torch(&[operator(&["erfc", "erfc_", "erfc.out"], &[operand("self")])]),
    row("erfinv", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Erfinv))
        .torch(&[operator(&["erfinv", "erfinv_", "erfinv.out"], &[operand("self")])]),
    row("lgamma", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Lgamma))
        .torch(&[operator(&["lgamma", "lgamma_", "lgamma.out"], &[operand("self")])]),
    row("digamma", &["x"], UpstreamLayer::Fallback, |a| build_slow_unary(a, Unary::Digamma))
        .torch(&[operator(&["digamma", "digamma_", "digamma.out"], &[operand("self")])]),
    row("floor", &["x"], UpstreamLayer::Native, |a| build_rounding(a, Unary::Floor))
        .superdsc("floor")
        .ktir("floor(x)")
        .onnx("Floor")
        .torch(&[operator(&["floor", "floor_", "floor.out"], &[operand("self")])]),
    row("ceil", &["x"], UpstreamLayer::Decomposed, |a| build_rounding(a, Unary::Ceil))
        .ktir("ceil(x)")
        .onnx("Ceil")
        .torch(&[operator(&["ceil", "ceil_", "ceil.out"], &[operand("self")])]),
    row("round", &["x"], UpstreamLayer::Decomposed, |a| build_rounding(a, Unary::Round))
        .onnx("Round")
        .torch(&[operator(&["round", "round_", "round.out"], &[operand("self")])]),
    row("trunc", &["x"], UpstreamLayer::Decomposed, |a| build_rounding(a, Unary::Trunc))
        .torch(&[operator(&["trunc", "trunc_", "trunc.out"], &[operand("self")])]),
    row("frac", &["x"], UpstreamLayer::Decomposed, |a| build_pointwise(unary_op(a, Unary::Frac)))
        .torch(&[operator(&["frac", "frac_", "frac.out"], &[operand("self")])]),
    row("logical_not", &["x"], UpstreamLayer::Decomposed, |a| {
        build_pointwise(unary_int_op(a, Unary::LogicalNot, IntUnary::LogicalNot).with_result_dtype(ResultDtype::Bool))
    })
    .onnx("Not")
    .torch(&[operator(&["logical_not", "logical_not_", "logical_not.out"], &[operand("self")])]),
    row("isnan", &["x"], UpstreamLayer::Decomposed, |a| build_test(a, Unary::IsNan, false))
        .onnx("IsNaN")
        .torch(&[operator(&["isnan", "isnan.out"], &[operand("self")])]),
    row("isinf", &["x"], UpstreamLayer::Decomposed, |a| build_test(a, Unary::IsInf, false))
        .torch(&[operator(&["isinf", "isinf.out"], &[operand("self")])]),
    row("isfinite", &["x"], UpstreamLayer::Decomposed, |a| build_test(a, Unary::IsFinite, true))
        .torch(&[operator(&["isfinite"], &[operand("self")])]),
    row("identity", &["x"], UpstreamLayer::Native, build_identity).superdsc("identity").ktir("x"),
    row("clone", &["x"], UpstreamLayer::Native, build_identity).superdsc("identity").ktir("x"),
];
