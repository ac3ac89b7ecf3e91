//! Activations of neural networks, and what bounds a number.

use super::{Attrs, Built, built, narrow, one, one_int, rounded, table};
use crate::kernels::pointwise::Pointwise;
use crate::scalar::Scalar;
use zellige_math::{IntUnary, Unary, Whole, map1, ternary};

/// A function of the slow path, for floats only.
fn act(a: &Attrs, f: Unary) -> Built {
    built(one(a, f).transcendental())
}

fn gelu(a: &mut Attrs) -> Built {
    let how = a.word("approximate", "none", &["none", "tanh"])?;
    act(a, if how == "tanh" { Unary::GeluTanh } else { Unary::Gelu })
}

fn softplus(a: &mut Attrs) -> Built {
    let (beta, threshold) = (a.number("beta", Some(1.0))?, a.number("threshold", Some(20.0))?);
    act(a, Unary::Softplus { beta: narrow(beta), threshold: narrow(threshold) })
}

fn celu(a: &mut Attrs) -> Built {
    let alpha = narrow(a.number("alpha", Some(1.0))?);
    if alpha == 0.0 {
        return Err(a.bad("alpha", "it divides, so it is not 0".into()));
    }
    built(Pointwise::new(a.op, 1).float(move |x, o| ternary::celu(x[0], alpha, o)).transcendental())
}

fn leaky_relu(a: &mut Attrs) -> Built {
    let slope = narrow(a.number("negative_slope", Some(0.01))?);
    built(one(a, Unary::LeakyRelu { slope }))
}

/// Bounds; of integers only where they are whole.
fn bounded(a: &Attrs, low: Scalar, high: Scalar) -> Built {
    let op = one(a, Unary::Clamp { low: rounded(low), high: rounded(high) });
    built(match (low.whole(), high.whole()) {
        (Some(low), Some(high)) => op.int(
            move |x, out| {
                ternary::clamp_i32(x[0], i32::nearest(low), i32::nearest(high), out);
            },
            move |x, out| ternary::clamp_i64(x[0], low, high, out),
        ),
        _ => op,
    })
}

fn clamp(a: &mut Attrs) -> Built {
    let low = a.scalar("min", Some(Scalar::Float(f64::NEG_INFINITY)))?;
    let high = a.scalar("max", Some(Scalar::Float(f64::INFINITY)))?;
    bounded(a, low, high)
}

fn hardtanh(a: &mut Attrs) -> Built {
    let low = a.scalar("min_val", Some(Scalar::Int(-1)))?;
    let high = a.scalar("max_val", Some(Scalar::Int(1)))?;
    bounded(a, low, high)
}

fn threshold(a: &mut Attrs) -> Built {
    let (t, v) = (a.scalar("threshold", None)?, a.scalar("value", None)?);
    let f = Unary::Threshold { threshold: rounded(t), value: rounded(v) };
    let op = Pointwise::new(a.op, 1).float(move |x, out| map1(f, x[0], out));
    built(match (t.whole(), v.whole()) {
        (Some(t), Some(v)) => op.int(
            move |x, out| ternary::threshold_i32(x[0], i32::nearest(t), i32::nearest(v), out),
            move |x, out| ternary::threshold_i64(x[0], t, v, out),
        ),
        _ => op,
    })
}

table! {
    "sigmoid" ("x") [] Native, |a| super::slow(a, Unary::Sigmoid);
    "log_sigmoid" ("x") [] Decomposed, |a| act(a, Unary::LogSigmoid);
    "relu" ("x") [] Native, |a| built(one_int(a, Unary::Relu, IntUnary::Relu));
    "gelu" ("x") ["approximate" = "none"] Native, gelu;
    "silu" ("x") [] Native, |a| act(a, Unary::Silu);
    "softplus" ("x") ["beta" = "1", "threshold" = "20"] Native, softplus;
    "mish" ("x") [] Decomposed, |a| act(a, Unary::Mish);
    "elu" ("x") ["alpha" = "1"] Decomposed, |a| {
        let alpha = narrow(a.number("alpha", Some(1.0))?);
        act(a, Unary::Elu { alpha })
    };
    "selu" ("x") [] Decomposed, |a| act(a, Unary::Selu);
    "celu" ("x") ["alpha" = "1"] Decomposed, celu;
    "leaky_relu" ("x") ["negative_slope" = "0.01"] Decomposed, leaky_relu;
    "hardswish" ("x") [] Decomposed, |a| built(one(a, Unary::Hardswish));
    "hardsigmoid" ("x") [] Decomposed, |a| built(one(a, Unary::Hardsigmoid));
    "hardtanh" ("x") ["min_val" = "-1", "max_val" = "1"] Decomposed, hardtanh;
    "clamp" ("x") ["min" = "-inf", "max" = "inf"] Custom, clamp;
    "clip" ("x") ["min" = "-inf", "max" = "inf"] Native, clamp;
    "threshold" ("x") ["threshold" = "", "value" = ""] Decomposed, threshold;
}
