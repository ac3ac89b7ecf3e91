//! Activations of neural networks, and what bounds a number.

use super::{built, narrow, one, one_int, rounded, slow};
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::forms::Pointwise;
use crate::row::{OpRow, SuperDsc, row};
use crate::rows::Built;
use crate::scalar::Scalar;
use zellige_math::{FloatFunction, IntFunction, IntUnary, Unary};

/// A function of the slow path, for floats only.
fn act(a: &Attributes, f: Unary) -> Built {
    built(one(a, f).transcendental())
}

fn gelu(a: &mut Attributes) -> Built {
    let how = a.word("approximate", "none", &["none", "tanh"])?;
    act(a, if how == "tanh" { Unary::GeluTanh } else { Unary::Gelu })
}

fn softplus(a: &mut Attributes) -> Built {
    let (beta, threshold) = (a.number("beta", Some(1.0))?, a.number("threshold", Some(20.0))?);
    act(a, Unary::Softplus { beta: narrow(beta), threshold: narrow(threshold) })
}

fn celu(a: &mut Attributes) -> Built {
    let alpha = narrow(a.number("alpha", Some(1.0))?);
    if alpha == 0.0 {
        return Err(a.bad("alpha", "it divides, so it is not 0".into()));
    }
    built(Pointwise::new(a.op, 1).float(FloatFunction::Celu(alpha)).transcendental())
}

fn leaky_relu(a: &mut Attributes) -> Built {
    let slope = narrow(a.number("negative_slope", Some(0.01))?);
    built(one(a, Unary::LeakyRelu { slope }))
}

/// Bounds; of integers only where they are whole.
fn bounded(a: &Attributes, low: Scalar, high: Scalar) -> Built {
    let op = one(a, Unary::Clamp { low: rounded(low), high: rounded(high) });
    let whole = low.whole().zip(high.whole());
    built(op.maybe_int(whole.map(|(low, high)| IntFunction::Clamp { low, high })))
}

fn clamp(a: &mut Attributes) -> Built {
    let low = a.scalar("min", Some(Scalar::Float(f64::NEG_INFINITY)))?;
    let high = a.scalar("max", Some(Scalar::Float(f64::INFINITY)))?;
    bounded(a, low, high)
}

fn hardtanh(a: &mut Attributes) -> Built {
    let low = a.scalar("min_val", Some(Scalar::Int(-1)))?;
    let high = a.scalar("max_val", Some(Scalar::Int(1)))?;
    bounded(a, low, high)
}

fn threshold(a: &mut Attributes) -> Built {
    let (t, v) = (a.scalar("threshold", None)?, a.scalar("value", None)?);
    let f = Unary::Threshold { threshold: rounded(t), value: rounded(v) };
    let whole = t.whole().zip(v.whole());
    let int = whole.map(|(threshold, value)| IntFunction::Threshold { threshold, value });
    built(one(a, f).maybe_int(int))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("sigmoid", &["x"], Layer::Native, |a| slow(a, Unary::Sigmoid)).superdsc("sigmoid").ktir("divf(1, addf(1, exp(negf(x))))").onnx("Sigmoid").torch(&["sigmoid sigmoid_ sigmoid.out (self)"]),
    row("log_sigmoid", &["x"], Layer::Decomposed, |a| act(a, Unary::LogSigmoid)),
    row("relu", &["x"], Layer::Native, |a| built(one_int(a, Unary::Relu, IntUnary::Relu))).superdsc("relufwd").ktir("maximumf(x, 0)").onnx("Relu").torch(&["relu relu_ relu.out (self)"]),
    row("gelu", &["x"], Layer::Native, gelu).attributes(&[("approximate", "none")]).superdsc("gelufwd").ktir_by("approximate", &[
    ("none", "mulf(mulf(x, 0.5), addf(1, erf(mulf(x, 0.7071067811865476))))"),
    ("tanh", "mulf(mulf(x, 0.5), addf(1, tanh(mulf(0.7978845608028654, addf(x, mulf(0.044715, mulf(mulf(x, x), x)))))))"),
]).torch(&["gelu gelu_ gelu.out (self, approximate=)"]),
    row("silu", &["x"], Layer::Native, |a| act(a, Unary::Silu)).superdsc("silu").ktir("mulf(x, divf(1, addf(1, exp(negf(x)))))").torch(&["silu silu_ silu.out (self)"]),
    row("softplus", &["x"], Layer::Native, softplus).attributes(&[("beta", "1"), ("threshold", "20")]).superdsc_as(SuperDsc::function("softplus").constants(&[("softplusBeta", "beta"), ("softplusThresh", "threshold")])).onnx("Softplus").torch(&["softplus softplus.out (self, beta=, threshold=)"]),
    row("mish", &["x"], Layer::Decomposed, |a| act(a, Unary::Mish)).onnx("Mish").torch(&["mish mish_ mish.out (self)"]),
    row("elu", &["x"], Layer::Decomposed, |a| {
        let alpha = narrow(a.number("alpha", Some(1.0))?);
        act(a, Unary::Elu { alpha })
    }).attributes(&[("alpha", "1")]).whole("rounded arguments or differences would lose digits"),
    row("selu", &["x"], Layer::Decomposed, |a| act(a, Unary::Selu)).whole("rounded arguments or differences would lose digits"),
    row("celu", &["x"], Layer::Decomposed, celu).attributes(&[("alpha", "1")]).whole("rounded arguments or differences would lose digits"),
    row("leaky_relu", &["x"], Layer::Decomposed, leaky_relu).attributes(&[("negative_slope", "0.01")]).torch(&["leaky_relu leaky_relu_ leaky_relu.out (self, negative_slope=)"]),
    row("hardswish", &["x"], Layer::Decomposed, |a| built(one(a, Unary::Hardswish))).onnx("HardSwish").torch(&["hardswish hardswish_ hardswish.out (self)"]),
    row("hardsigmoid", &["x"], Layer::Decomposed, |a| built(one(a, Unary::Hardsigmoid))).torch(&["hardsigmoid hardsigmoid_ hardsigmoid.out (self)"]),
    row("hardtanh", &["x"], Layer::Decomposed, hardtanh).attributes(&[("min_val", "-1"), ("max_val", "1")]).torch(&["hardtanh hardtanh_ hardtanh.out (self, min_val=, max_val=)"]),
    row("clamp", &["x"], Layer::Custom, clamp).attributes(&[("min", "-inf"), ("max", "inf")]).superdsc_as(SuperDsc::function("clip").constants(&[("clipMin", "min"), ("clipMax", "max")])).ktir("minimumf(maximumf(x, min), max)").torch(&["clamp clamp_ clamp.out (self, min=, max=)", "clamp_min clamp_min_ clamp_min.out (self, min=)", "clamp_max clamp_max_ clamp_max.out (self, max=)"]),
    row("clip", &["x"], Layer::Native, clamp).attributes(&[("min", "-inf"), ("max", "inf")]).superdsc_as(SuperDsc::function("clip").constants(&[("clipMin", "min"), ("clipMax", "max")])).ktir("minimumf(maximumf(x, min), max)"),
    row("threshold", &["x"], Layer::Decomposed, threshold).attributes(&[("threshold", ""), ("value", "")]).torch(&["threshold threshold_ threshold.out (self, threshold=, value=)"]),
];
