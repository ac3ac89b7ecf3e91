//! Pointwise kernels against a plain loop in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, bytes_of, check, close, random, read, run, tensor, values};
use serde_json::{Value, json};
use zellige_device::RunOp;
use zellige_device::{Card, KeptDtypes, Tensor};
use zellige_float::{Dtype, Isa};
use zellige_op::TensorOp;

/// Random numbers with infinities and NaN among them.
fn special(rng: &mut Rng, card: &Card, size: &[i64], dtype: Dtype) -> (Tensor, Vec<f64>) {
    let mut values = values(rng, size.iter().product(), dtype);
    for v in &mut values {
        match rng.below(60) {
            0 => *v = f64::NAN,
            1 => *v = f64::INFINITY,
            2 => *v = f64::NEG_INFINITY,
            _ => {}
        }
    }
    let t = tensor(rng, card, size, dtype, &values);
    let held = common::numbers(&t);
    (t, held)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn normal_share(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

fn even(x: f64) -> f64 {
    x.round_ties_even()
}

fn truth(x: bool) -> f64 {
    f64::from(u8::from(x))
}

fn signum(x: f64) -> f64 {
    truth(x > 0.0) - truth(x < 0.0)
}

fn bounded(x: f64, low: f64, high: f64) -> f64 {
    if x.is_nan() { x } else { x.max(low).min(high) }
}

type Reference1 = fn(f64) -> f64;

/// Every function of one float: attributes, and the definition.
#[rustfmt::skip]
fn unary() -> Vec<(&'static str, Value, Reference1)> {
    let n = || Value::Null;
    vec![
        ("abs", n(), f64::abs), ("neg", n(), |x| -x), ("square", n(), |x| x * x),
        ("exp", n(), f64::exp), ("exp2", n(), f64::exp2), ("expm1", n(), f64::exp_m1),
        ("log", n(), f64::ln), ("log2", n(), f64::log2), ("log10", n(), f64::log10),
        ("log1p", n(), f64::ln_1p), ("sqrt", n(), f64::sqrt), ("rsqrt", n(), |x| 1.0 / x.sqrt()),
        ("reciprocal", n(), |x| 1.0 / x), ("sin", n(), f64::sin), ("cos", n(), f64::cos),
        ("tan", n(), f64::tan), ("asin", n(), f64::asin), ("acos", n(), f64::acos),
        ("atan", n(), f64::atan), ("sinh", n(), f64::sinh), ("cosh", n(), f64::cosh),
        ("tanh", n(), f64::tanh), ("asinh", n(), libm::asinh), ("acosh", n(), libm::acosh),
        ("atanh", n(), libm::atanh), ("erf", n(), libm::erf), ("erfc", n(), libm::erfc),
        ("sigmoid", n(), sigmoid), ("relu", n(), |x| if x < 0.0 { 0.0 } else { x }),
        ("log_sigmoid", n(), |x| x.min(0.0) - (-x.abs()).exp().ln_1p()),
        ("gelu", n(), |x| x * normal_share(x)),
        ("gelu", json!({"approximate": "tanh"}), |x| {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            x * sigmoid(2.0 * u)
        }),
        ("silu", n(), |x| x * sigmoid(x)),
        ("softplus", n(), |x| if x > 20.0 { x } else { x.exp().ln_1p() }),
        ("softplus", json!({"beta": 2, "threshold": 5}),
            |x| if 2.0 * x > 5.0 { x } else { (2.0 * x).exp().ln_1p() / 2.0 }),
        ("mish", n(), |x| x * x.exp().ln_1p().tanh()),
        ("elu", json!({"alpha": 0.5}), |x| if x > 0.0 { x } else { 0.5 * x.exp_m1() }),
        ("selu", n(), |x| {
            let (a, s) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);
            s * if x > 0.0 { x } else { a * x.exp_m1() }
        }),
        ("celu", json!({"alpha": 2}), |x| if x > 0.0 { x } else { 2.0 * (x / 2.0).exp_m1() }),
        ("leaky_relu", json!({"negative_slope": 0.25}), |x| if x > 0.0 { x } else { 0.25 * x }),
        ("hardswish", n(), |x| x * bounded(x + 3.0, 0.0, 6.0) / 6.0),
        ("hardsigmoid", n(), |x| bounded(x + 3.0, 0.0, 6.0) / 6.0),
        ("hardtanh", n(), |x| bounded(x, -1.0, 1.0)),
        ("hardtanh", json!({"min_val": -2.5, "max_val": 0.5}), |x| bounded(x, -2.5, 0.5)),
        ("clamp", json!({"min": -1.5, "max": 2}), |x| bounded(x, -1.5, 2.0)),
        ("clip", json!({"max": 2}), |x| bounded(x, f64::NEG_INFINITY, 2.0)),
        ("threshold", json!({"threshold": 1, "value": 7}), |x| if x <= 1.0 { 7.0 } else { x }),
        ("floor", n(), f64::floor), ("ceil", n(), f64::ceil), ("round", n(), even),
        ("trunc", n(), f64::trunc), ("frac", n(), |x| x - x.trunc()),
        ("sign", n(), signum), ("sgn", n(), signum),
        ("logical_not", n(), |x| truth(x == 0.0)), ("isnan", n(), |x| truth(x.is_nan())),
        ("isinf", n(), |x| truth(x.is_infinite())), ("isfinite", n(), |x| truth(x.is_finite())),
        ("identity", n(), |x| x), ("clone", n(), |x| x),
    ]
}

#[test]
fn functions_of_one_float() {
    let card = common::card();
    let mut rng = Rng::new(3);
    let kinds = [Dtype::Float16, Dtype::Float32, Dtype::Bfloat16, Dtype::Float16];
    for (name, attrs, f) in unary() {
        for dtype in kinds {
            let rank = rng.below(4);
            let size = rng.size(rank);
            let (t, x) = special(&mut rng, &card, &size, dtype);
            // What asks for infinities is given them.
            let x = if name.starts_with("is") { read(&t) } else { x };
            let out = &run(&card, name, &attrs, &[t])[0];
            for (i, (got, x)) in read(out).iter().zip(&x).enumerate() {
                // Where a formula in float64 meets an infinity times zero, the limit is not defined.
                let want = f(*x);
                let vanishes = *x == f64::NEG_INFINITY && got.is_nan();
                // Numbers below the smallest of float32 and of the format.
                let tiny = want.abs() < 1e-30 && got.abs() < 1e-30;
                let slack = if dtype == Dtype::Float32 { 4e-7 } else { 1e-6 };
                assert!(
                    close(*got, want, out.format(), slack)
                        || close(*got, f64::from(narrow(want)), out.format(), slack)
                        || tiny
                        || vanishes,
                    "{name} {attrs} of {x} in {dtype} ({size:?}, element {i}) is {got}, not {want}"
                );
            }
        }
    }
}

#[test]
fn special_functions() {
    let digamma = |mut x: f64| {
        let mut y = 0.0;
        while x < 8.0 {
            y -= 1.0 / x;
            x += 1.0;
        }
        let s = 1.0 / (x * x);
        y + x.ln() - 0.5 / x - s * (1.0 / 12.0 - s * (1.0 / 120.0 - s / 252.0))
    };
    let card = common::card();
    let mut rng = Rng::new(6);
    let some: Vec<f64> = (1..=130).map(|k| f64::from(k) / 16.0).collect();
    let x = tensor(&mut rng, &card, &[2, 65], Dtype::Float32, &some);
    let shares: Vec<f64> = (-64..=65).map(|k| f64::from(k) / 66.0).collect();
    let share = tensor(&mut rng, &card, &[2, 65], Dtype::Float32, &shares);
    let near = |name: &str, t: &Tensor, f: &dyn Fn(f64, f64) -> f64| {
        for (x, y) in
            read(t).iter().zip(read(&run(&card, name, &Value::Null, std::slice::from_ref(t))[0]))
        {
            let off = f(*x, y);
            assert!(off.abs() < 2e-6, "{name} of {x} is {y}: {off} off");
        }
    };
    near("lgamma", &x, &|x, y| y - libm::lgamma(x));
    near("digamma", &x, &|x, y| (y - digamma(x)) / (1.0 + y.abs()));
    near("erfinv", &share, &|x, y| libm::erf(y) - x);
}

#[allow(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn narrow(x: f64) -> f32 {
    x as f32
}

#[test]
fn functions_of_one_integer() {
    let card = common::card();
    let mut rng = Rng::new(4);
    let exact: [(&str, Value, Reference1); 16] = [
        ("abs", Value::Null, f64::abs),
        ("neg", Value::Null, |x| -x),
        ("square", Value::Null, |x| x * x),
        ("sign", Value::Null, signum),
        ("relu", Value::Null, |x| x.max(0.0)),
        ("floor", Value::Null, |x| x),
        ("round", Value::Null, |x| x),
        ("clone", Value::Null, |x| x),
        ("clamp", json!({"min": -3, "max": 20}), |x| x.clamp(-3.0, 20.0)),
        ("threshold", json!({"threshold": 2, "value": 9}), |x| if x <= 2.0 { 9.0 } else { x }),
        ("bitwise_not", Value::Null, |x| -x - 1.0),
        ("logical_not", Value::Null, |x| truth(x == 0.0)),
        ("isnan", Value::Null, |_| 0.0),
        ("isfinite", Value::Null, |_| 1.0),
        ("exp", Value::Null, |x| (x / 1.0).exp()),
        ("reciprocal", Value::Null, |x| 1.0 / x),
    ];
    for (name, attrs, f) in exact {
        for dtype in [Dtype::Int32, Dtype::Int64, Dtype::Int16, Dtype::Int8, Dtype::Uint8] {
            let rank = rng.below(3);
            let size = rng.size(rank);
            let (t, x) = random(&mut rng, &card, &size, dtype);
            let out = &run(&card, name, &attrs, &[t])[0];
            let want: Vec<f64> = x.iter().map(|x| held(f(*x), out.dtype())).collect();
            check(out, &want, 1e-6, &format!("{name} {dtype}"));
        }
    }
}

/// A number as an integer dtype or bool holds it.
fn held(x: f64, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Bool => truth(x != 0.0),
        Dtype::Uint8 => x.rem_euclid(256.0),
        _ => x,
    }
}

#[test]
fn truth_values_and_bytes() {
    let card = common::card();
    let mut rng = Rng::new(5);
    let (a, x) = random(&mut rng, &card, &[70, 3], Dtype::Bool);
    let (b, y) = random(&mut rng, &card, &[70, 3], Dtype::Bool);
    type Logic = fn(bool, bool) -> bool;
    let logic: [(&str, Logic); 12] = [
        ("add", |a, b| a | b),
        ("mul", |a, b| a & b),
        ("sub", |a, b| a ^ b),
        ("maximum", |a, b| a | b),
        ("bitwise_and", |a, b| a & b),
        ("bitwise_or", |a, b| a | b),
        ("bitwise_xor", |a, b| a ^ b),
        ("logical_and", |a, b| a & b),
        ("logical_xor", |a, b| a ^ b),
        ("eq", |a, b| a == b),
        ("lt", |a, b| !a & b),
        ("bitwise_not", |a, _| !a),
    ];
    for (name, f) in logic {
        let inputs = [a.clone(), b.clone()];
        let inputs = if name == "bitwise_not" { &inputs[..1] } else { &inputs };
        let out = &run(&card, name, &Value::Null, inputs)[0];
        assert_eq!(out.dtype(), Dtype::Bool);
        let want: Vec<f64> =
            x.iter().zip(&y).map(|(x, y)| truth(f(*x != 0.0, *y != 0.0))).collect();
        common::holds(out, &want);
    }
    // What a uint8 holds is what it counts: comparisons and floats see it wrapped.
    let (a, x) = random(&mut rng, &card, &[90], Dtype::Uint8);
    let (b, y) = random(&mut rng, &card, &[90], Dtype::Uint8);
    let less = &run(&card, "sub", &Value::Null, &[a, b])[0];
    let want: Vec<f64> = x.iter().zip(&y).map(|(x, y)| (x - y).rem_euclid(256.0)).collect();
    common::holds(less, &want);
    let wide = &run(&card, "cast", &json!({"dtype": "int32"}), std::slice::from_ref(less))[0];
    common::holds(wide, &want);
}

#[test]
fn results_do_not_depend_on_cores_and_costs_are_of_the_plan() {
    let card = common::card();
    let mut rng = Rng::new(2);
    let (a, _) = random(&mut rng, &card, &[37, 5, 200], Dtype::Float16);
    let (b, _) = random(&mut rng, &card, &[37, 1, 200], Dtype::Float16);
    for name in ["add", "pow", "lt"] {
        let add = TensorOp::new(name, &Value::Null).unwrap();
        let one = add.run_on_cores(&card, &[a.clone(), b.clone()], 1).unwrap();
        for cores in [2, 5, 32] {
            let many = add.run_on_cores(&card, &[a.clone(), b.clone()], cores).unwrap();
            let bits = |t: &Tensor| t.download(Dtype::Float64).unwrap();
            assert_eq!(bits(&one.outputs[0]), bits(&many.outputs[0]));
            let again = add.run_on_cores(&card, &[a.clone(), b.clone()], cores).unwrap();
            assert_eq!(many.step_costs(), again.step_costs());
            let (x, y) = (many.step_costs().pop().unwrap(), one.step_costs().pop().unwrap());
            assert_eq!(x.totals.bytes_out, y.totals.bytes_out);
        }
    }
    // 4096 x 1024: nothing is padded, both operands stream in long bursts.
    let t = Tensor::empty(&card, &[4096, 1024], Dtype::Float16).unwrap();
    let add = TensorOp::new("add", &Value::Null).unwrap();
    let ran = add.run_op(&card, &[t.clone(), t]).unwrap();
    let cost = ran.step_costs().pop().unwrap();
    assert_eq!((cost.totals.bytes_in, cost.totals.bytes_out), (16 << 20, 8 << 20));
    assert_eq!((cost.totals.padding_bytes, cost.totals.cores), (0, 32));
    assert_eq!(ran.division.splits(), [32, 1]);
}

/// Pairs meet in registers or in the memory of their tensors, where they can: the baseline, which unpacks 16-bit elements
/// first, gives the same. Sticks that are not full, operands that repeat, and results in the place of an operand.
#[test]
fn pairs_are_the_same_on_every_instruction_set() {
    let wide = KeptDtypes { float32: true, int64: false };
    let card = Card::builder().keep_dtypes(wide).build().unwrap();
    let mut rng = Rng::new(31);
    for (name, f) in [
        ("add", (|a, b| a + b) as fn(f64, f64) -> f64),
        ("sub", |a, b| a - b),
        ("mul", |a, b| a * b),
    ] {
        let op = TensorOp::new(name, &Value::Null).unwrap();
        for dtype in [Dtype::Float16, Dtype::Float32] {
            for size in [vec![1], vec![70], vec![5, 200], vec![3, 4, 130]] {
                let last = &size[size.len() - 1..];
                let (a, xa) = special(&mut rng, &card, &size, dtype);
                for (b, xb) in
                    [special(&mut rng, &card, &size, dtype), special(&mut rng, &card, last, dtype)]
                {
                    let run = || {
                        let fresh = op.run_op(&card, &[a.clone(), b.clone()]).unwrap().outputs;
                        let place = TensorOp::new("clone", &Value::Null).unwrap();
                        let place = place.run_op(&card, std::slice::from_ref(&a)).unwrap().outputs;
                        op.run_into(&card, &[place[0].clone(), b.clone()], &place).unwrap();
                        (fresh[0].clone(), place[0].download(dtype).unwrap())
                    };
                    let (first, _) = Isa::BASELINE.while_lowered(run);
                    let due = first.download(dtype).unwrap();
                    for isa in Isa::all_available() {
                        let (fresh, place) = isa.while_lowered(run);
                        assert_eq!(fresh.download(dtype).unwrap(), due, "{isa} {name} {size:?}");
                        assert_eq!(place, due, "{isa} {name} {size:?} in place");
                    }
                    let got = read(&first);
                    for (i, got) in got.iter().enumerate() {
                        let exact = f(xa[i], xb[i % xb.len()]);
                        let due = common::rounded(f64::from(narrow(exact)), first.format());
                        let same = *got == due || got.is_nan() && due.is_nan();
                        assert!(same, "{name} {dtype} {size:?}: element {i} is {got}, not {due}");
                    }
                }
            }
        }
    }
}

#[test]
fn bad_operands_are_refused() {
    let card = common::card();
    let other = common::card();
    let t = |card: &Card, size: &[i64]| Tensor::empty(card, size, Dtype::Float16).unwrap();
    let add = TensorOp::new("add", &Value::Null).unwrap();
    let say = |inputs: &[Tensor]| add.run_op(&card, inputs).unwrap_err().to_string();
    assert_eq!(say(&[t(&card, &[3])]), "add: it takes 2 operands, not 1");
    let e = say(&[t(&card, &[3, 4]), t(&card, &[3, 5])]);
    assert!(e.contains("operand 1 of size [3, 5] does not broadcast: dimension 1 has 5"), "{e}");
    let e = say(&[t(&card, &[3]), t(&other, &[3])]);
    assert_eq!(e, "add: operand 1 is on another card 0, and the operation runs on card 0");
    assert!(add.run_on_cores(&card, &[t(&card, &[3]), t(&card, &[3])], 33).is_err());
    assert_eq!(
        TensorOp::new("addd", &Value::Null).unwrap_err().to_string(),
        "there is no operation `addd`; did you mean `add`?"
    );
    let e = |name: &str, attrs: Value| TensorOp::new(name, &attrs).unwrap_err().to_string();
    assert_eq!(
        e("add", json!({"beta": 2})),
        "add: attribute `beta`: there is no such attribute; accepted: alpha"
    );
    assert_eq!(
        e("gelu", json!({"approximate": "x"})),
        "gelu: attribute `approximate`: `x` is none of none, tanh"
    );
    assert_eq!(
        e("cast", Value::Null),
        "cast: attribute `dtype`: it is missing; a dtype such as float16"
    );
    assert!(e("cast", json!({"dtype": "float64"})).contains("float64"));
    assert!(e("masked_fill", Value::Null).contains("it is missing; a number"));
    assert!(e("celu", json!({"alpha": 0})).contains("not 0"));
    let ints = Tensor::empty(&card, &[3], Dtype::Int32).unwrap();
    let refused = |name: &str, attrs: Value, inputs: &[Tensor]| {
        TensorOp::new(name, &attrs).unwrap().run_op(&card, inputs).unwrap_err().to_string()
    };
    let x = t(&card, &[3]);
    let float = refused("bitwise_and", Value::Null, &[x.clone(), x.clone()]);
    assert_eq!(float, "bitwise_and: it is for integers and bool, not float16");
    let int = refused("gelu", Value::Null, std::slice::from_ref(&ints));
    assert_eq!(int, "gelu: it is for floating-point numbers here, not int32");
    assert!(
        refused("add", json!({"alpha": 0.5}), &[ints.clone(), ints]).contains("floating-point")
    );
    let e = refused("where", Value::Null, &[x.clone(), x.clone(), x]);
    assert_eq!(e, "where: operand 0 is a condition: bool or uint8, not float16");
    let empty = add.run_op(&card, &[t(&card, &[0, 4]), t(&card, &[4])]).unwrap();
    assert_eq!(empty.outputs[0].size(), [0, 4]);
    assert_eq!(bytes_of(&[], Dtype::Float16).len(), 0);
}
