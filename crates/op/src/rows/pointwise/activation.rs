//! Activations of neural networks, and bounds.

use super::{
    build_pointwise, build_slow_unary, narrow_to_f32, round_to_f32, unary_int_op, unary_op,
};
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::PointwiseOp;
use crate::row::{OpRow, SuperDsc, row};
use crate::rows::BuiltForm;
use crate::scalar::HostScalar;
use crate::torch_operator::{attribute, operand, operator};
use zellige_math::{FloatFunction, IntFunction, IntUnary, Unary};

/// A function of the slow path, for floats only.
fn build_activation(a: &OpAttributes, f: Unary) -> BuiltForm {
    build_pointwise(unary_op(a, f).mark_transcendental())
}

fn build_gelu(a: &mut OpAttributes) -> BuiltForm {
    let how = a.take_word("approximate", "none", &["none", "tanh"])?;
    build_activation(a, if how == "tanh" { Unary::GeluTanh } else { Unary::Gelu })
}

fn build_softplus(a: &mut OpAttributes) -> BuiltForm {
    let (beta, threshold) =
        (a.take_number("beta", Some(1.0))?, a.take_number("threshold", Some(20.0))?);
    build_activation(
        a,
        Unary::Softplus { beta: narrow_to_f32(beta), threshold: narrow_to_f32(threshold) },
    )
}

fn build_celu(a: &mut OpAttributes) -> BuiltForm {
    let alpha = narrow_to_f32(a.take_number("alpha", Some(1.0))?);
    if alpha == 0.0 {
        return Err(a.bad_attribute("alpha", "it divides, so it is not 0".into()));
    }
    build_pointwise(
        PointwiseOp::new(a.op, 1).with_float(FloatFunction::Celu(alpha)).mark_transcendental(),
    )
}

fn build_leaky_relu(a: &mut OpAttributes) -> BuiltForm {
    let slope = narrow_to_f32(a.take_number("negative_slope", Some(0.01))?);
    build_pointwise(unary_op(a, Unary::LeakyRelu { slope }))
}

/// Bounds; of integers only where they are whole.
fn build_bounded(a: &OpAttributes, low: HostScalar, high: HostScalar) -> BuiltForm {
    let op = unary_op(a, Unary::Clamp { low: round_to_f32(low), high: round_to_f32(high) });
    let whole = low.to_whole().zip(high.to_whole());
    build_pointwise(op.with_maybe_int(whole.map(|(low, high)| IntFunction::Clamp { low, high })))
}

fn build_clamp(a: &mut OpAttributes) -> BuiltForm {
    let low = a.take_scalar("min", Some(HostScalar::Float(f64::NEG_INFINITY)))?;
    let high = a.take_scalar("max", Some(HostScalar::Float(f64::INFINITY)))?;
    build_bounded(a, low, high)
}

fn build_hardtanh(a: &mut OpAttributes) -> BuiltForm {
    let low = a.take_scalar("min_val", Some(HostScalar::Int(-1)))?;
    let high = a.take_scalar("max_val", Some(HostScalar::Int(1)))?;
    build_bounded(a, low, high)
}

fn build_threshold(a: &mut OpAttributes) -> BuiltForm {
    let (t, v) = (a.take_scalar("threshold", None)?, a.take_scalar("value", None)?);
    let f = Unary::Threshold { threshold: round_to_f32(t), value: round_to_f32(v) };
    let whole = t.to_whole().zip(v.to_whole());
    let int = whole.map(|(threshold, value)| IntFunction::Threshold { threshold, value });
    build_pointwise(unary_op(a, f).with_maybe_int(int))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("sigmoid", &["x"], UpstreamLayer::Native, |a| build_slow_unary(a, Unary::Sigmoid)).superdsc("sigmoid").ktir("divf(1, addf(1, exp(negf(x))))").onnx("Sigmoid").torch(&[operator(&["sigmoid", "sigmoid_", "sigmoid.out"], &[operand("self")])]),
    row("log_sigmoid", &["x"], UpstreamLayer::Decomposed, |a| build_activation(a, Unary::LogSigmoid)),
    row("relu", &["x"], UpstreamLayer::Native, |a| build_pointwise(unary_int_op(a, Unary::Relu, IntUnary::Relu))).superdsc("relufwd").ktir("maximumf(x, 0)").onnx("Relu").torch(&[operator(&["relu", "relu_", "relu.out"], &[operand("self")])]),
    row("gelu", &["x"], UpstreamLayer::Native, build_gelu).attributes(&[("approximate", "none")]).superdsc("gelufwd").ktir_by("approximate", &[
    ("none", "mulf(mulf(x, 0.5), addf(1, erf(mulf(x, 0.7071067811865476))))"),
    ("tanh", "mulf(mulf(x, 0.5), addf(1, tanh(mulf(0.7978845608028654, addf(x, mulf(0.044715, mulf(mulf(x, x), x)))))))"),
]).torch(&[operator(&["gelu", "gelu_", "gelu.out"], &[operand("self"), attribute("approximate")])]),
    row("silu", &["x"], UpstreamLayer::Native, |a| build_activation(a, Unary::Silu)).superdsc("silu").ktir("mulf(x, divf(1, addf(1, exp(negf(x)))))").torch(&[operator(&["silu", "silu_", "silu.out"], &[operand("self")])]),
    row("softplus", &["x"], UpstreamLayer::Native, build_softplus).attributes(&[("beta", "1"), ("threshold", "20")]).superdsc_as(SuperDsc::from_function("softplus").with_constants(&[("softplusBeta", "beta"), ("softplusThresh", "threshold")])).onnx("Softplus").torch(&[operator(&["softplus", "softplus.out"], &[operand("self"), attribute("beta"), attribute("threshold")])]),
    row("mish", &["x"], UpstreamLayer::Decomposed, |a| build_activation(a, Unary::Mish)).onnx("Mish").torch(&[operator(&["mish", "mish_", "mish.out"], &[operand("self")])]),
    row("elu", &["x"], UpstreamLayer::Decomposed, |a| {
        let alpha = narrow_to_f32(a.take_number("alpha", Some(1.0))?);
        build_activation(a, Unary::Elu { alpha })
    }).attributes(&[("alpha", "1")]).whole("rounded arguments or differences would lose digits"),
    row("selu", &["x"], UpstreamLayer::Decomposed, |a| build_activation(a, Unary::Selu)).whole("rounded arguments or differences would lose digits"),
    row("celu", &["x"], UpstreamLayer::Decomposed, build_celu).attributes(&[("alpha", "1")]).whole("rounded arguments or differences would lose digits"),
    row("leaky_relu", &["x"], UpstreamLayer::Decomposed, build_leaky_relu).attributes(&[("negative_slope", "0.01")]).torch(&[operator(&["leaky_relu", "leaky_relu_", "leaky_relu.out"], &[operand("self"), attribute("negative_slope")])]),
    row("hardswish", &["x"], UpstreamLayer::Decomposed, |a| build_pointwise(unary_op(a, Unary::Hardswish))).onnx("HardSwish").torch(&[operator(&["hardswish", "hardswish_", "hardswish.out"], &[operand("self")])]),
    row("hardsigmoid", &["x"], UpstreamLayer::Decomposed, |a| build_pointwise(unary_op(a, Unary::Hardsigmoid))).torch(&[operator(&["hardsigmoid", "hardsigmoid_", "hardsigmoid.out"], &[operand("self")])]),
    row("hardtanh", &["x"], UpstreamLayer::Decomposed, build_hardtanh).attributes(&[("min_val", "-1"), ("max_val", "1")]).torch(&[operator(&["hardtanh", "hardtanh_", "hardtanh.out"], &[operand("self"), attribute("min_val"), attribute("max_val")])]),
    row("clamp", &["x"], UpstreamLayer::Custom, build_clamp).attributes(&[("min", "-inf"), ("max", "inf")]).superdsc_as(SuperDsc::from_function("clip").with_constants(&[("clipMin", "min"), ("clipMax", "max")])).ktir("minimumf(maximumf(x, min), max)").torch(&[operator(&["clamp", "clamp_", "clamp.out"], &[operand("self"), attribute("min"), attribute("max")]), operator(&["clamp_min", "clamp_min_", "clamp_min.out"], &[operand("self"), attribute("min")]), operator(&["clamp_max", "clamp_max_", "clamp_max.out"], &[operand("self"), attribute("max")])]),
    row("clip", &["x"], UpstreamLayer::Native, build_clamp).attributes(&[("min", "-inf"), ("max", "inf")]).superdsc_as(SuperDsc::from_function("clip").with_constants(&[("clipMin", "min"), ("clipMax", "max")])).ktir("minimumf(maximumf(x, min), max)"),
    row("threshold", &["x"], UpstreamLayer::Decomposed, build_threshold).attributes(&[("threshold", ""), ("value", "")]).torch(&[operator(&["threshold", "threshold_", "threshold.out"], &[operand("self"), attribute("threshold"), attribute("value")])]),
];
