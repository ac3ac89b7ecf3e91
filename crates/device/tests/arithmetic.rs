//! Pointwise kernels of several operands, which broadcast, against a plain loop in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, broadcast_index, check, close, random, read, run};
use serde_json::{Value, json};
use zellige_device::Tensor;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_stick::StickLayout;

/// A size, and `n` sizes that broadcast to it together.
fn sizes(rng: &mut Rng, n: usize) -> (Vec<i64>, Vec<Vec<i64>>) {
    let rank = rng.below(4);
    let full = rng.size(rank);
    let list: Vec<Vec<i64>> = (0..n)
        .map(|_| {
            let mut small = full.to_vec();
            for n in &mut small {
                if rng.chance(4) {
                    *n = 1;
                }
            }
            if rng.chance(4) {
                small.drain(..rng.below(full.len() + 1));
            }
            small
        })
        .collect();
    let rank = list.iter().map(Vec::len).max().unwrap_or(0);
    let at = |s: &[i64], d: usize| (d + s.len()).checked_sub(rank).map_or(1, |k| s[k]);
    let full = (0..rank).map(|d| list.iter().map(|s| at(s, d)).max().unwrap()).collect();
    (full, list)
}

fn truth(x: bool) -> f64 {
    f64::from(u8::from(x))
}

/// One rounding to float32.
#[allow(clippy::cast_possible_truncation, reason = "rounding is meant")]
fn r(x: f64) -> f64 {
    f64::from(x as f32)
}

fn floor_mod(a: f64, b: f64) -> f64 {
    let m = a % b;
    if m != 0.0 && (m < 0.0) != (b < 0.0) { m + b } else { m }
}

fn floor_quotient(x: &[f64]) -> f64 {
    if x[1] == 0.0 { x[0] / x[1] } else { (x[0] / x[1]).floor() }
}

fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

type Reference = fn(&[f64]) -> f64;

/// Functions of floats.
#[rustfmt::skip]
fn floats() -> Vec<(&'static str, usize, Value, Reference)> {
    let n = || Value::Null;
    vec![
        ("add", 2, n(), |x| r(x[0] + x[1])),
        ("add", 2, json!({"alpha": 0.3}), |x| r(x[0] + r(r(0.3) * x[1]))),
        ("sub", 2, n(), |x| r(x[0] - x[1])),
        ("sub", 2, json!({"alpha": 2}), |x| r(x[0] - 2.0 * x[1])),
        ("mul", 2, n(), |x| r(x[0] * x[1])),
        ("div", 2, n(), |x| r(x[0] / x[1])),
        ("div", 2, json!({"rounding_mode": "trunc"}), |x| r(x[0] / x[1]).trunc()),
        ("div", 2, json!({"rounding_mode": "floor"}), floor_quotient),
        ("floor_divide", 2, n(), floor_quotient),
        ("remainder", 2, n(), |x| floor_mod(x[0], x[1])),
        ("fmod", 2, n(), |x| x[0] % x[1]),
        ("pow", 2, n(), |x| x[0].powf(x[1])),
        ("maximum", 2, n(), |x| larger(x[0], x[1])),
        ("minimum", 2, n(), |x| -larger(-x[0], -x[1])),
        ("atan2", 2, n(), |x| x[0].atan2(x[1])),
        ("hypot", 2, n(), |x| x[0].hypot(x[1])),
        ("logaddexp", 2, n(), |x| {
            let m = x[0].max(x[1]);
            m + (-(x[0] - x[1]).abs()).exp().ln_1p()
        }),
        ("copysign", 2, n(), |x| x[0].copysign(x[1])),
        ("eq", 2, n(), |x| truth(x[0] == x[1])),
        ("ne", 2, n(), |x| truth(x[0] != x[1])),
        ("lt", 2, n(), |x| truth(x[0] < x[1])),
        ("le", 2, n(), |x| truth(x[0] <= x[1])),
        ("gt", 2, n(), |x| truth(x[0] > x[1])),
        ("ge", 2, n(), |x| truth(x[0] >= x[1])),
        ("logical_and", 2, n(), |x| truth(x[0] != 0.0 && x[1] != 0.0)),
        ("logical_or", 2, n(), |x| truth(x[0] != 0.0 || x[1] != 0.0)),
        ("logical_xor", 2, n(), |x| truth((x[0] != 0.0) != (x[1] != 0.0))),
        ("addcmul", 3, json!({"value": 0.5}), |x| r(x[0] + r(r(0.5 * x[1]) * x[2]))),
        ("addcdiv", 3, json!({"value": 3}), |x| r(x[0] + r(r(3.0 * x[1]) / x[2]))),
        ("lerp", 3, n(), |x| {
            let d = r(x[1] - x[0]);
            if x[2].abs() < 0.5 { r(x[0] + r(x[2] * d)) } else { r(x[1] - r(d * r(1.0 - x[2]))) }
        }),
        ("clamp_tensor", 3, n(), |x| -larger(-larger(x[0], x[1]), -x[2])),
    ]
}

#[test]
fn floats_broadcast() {
    let card = common::card();
    let mut rng = Rng::new(1);
    let kinds = [Dtype::Float16, Dtype::Float16, Dtype::Float32, Dtype::Bfloat16, Dtype::Int8];
    for (name, arity, attrs, f) in floats() {
        for _ in 0..25 {
            let (full, list) = sizes(&mut rng, arity);
            let mut made = Vec::new();
            for (k, size) in list.iter().enumerate() {
                // At least one float, so that the result is one.
                let dtype = kinds[rng.below(if k == 0 { 4 } else { 5 })];
                made.push(random(&mut rng, &card, size, dtype));
            }
            let lone = made.iter().all(|(t, _)| t.size().is_empty() || t.dtype() != Dtype::Int8);
            if !lone {
                continue;
            }
            let inputs: Vec<_> = made.iter().map(|(t, _)| t.clone()).collect();
            let out = &run(&card, name, &attrs, &inputs)[0];
            assert_eq!(out.size(), full);
            for (i, got) in read(out).iter().enumerate() {
                let x: Vec<f64> = made
                    .iter()
                    .zip(&list)
                    .map(|((_, x), size)| x[broadcast_index(i, &full, size)])
                    .collect();
                let want = f(&x);
                let near = close(*got, want, out.format(), 4e-7)
                    || close(*got, r(want), out.format(), 4e-7);
                // Below float32 a power is zero.
                let tiny = name == "pow" && want.abs() < 1e-37 && got.abs() < 1e-37;
                assert!(near || tiny, "{name} {attrs} of {x:?} is {got}, not {want}; {out:?}");
            }
        }
    }
}

fn floor_div(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.div_euclid(b) - i64::from(b < 0 && a.rem_euclid(b) != 0) }
}

type Exact = fn(i64, i64) -> i64;

/// Functions of integers; by zero, 0.
fn integers() -> Vec<(&'static str, Value, Exact)> {
    let n = || Value::Null;
    vec![
        ("add", n(), |a, b| a + b),
        ("add", json!({"alpha": 3}), |a, b| a + 3 * b),
        ("sub", n(), |a, b| a - b),
        ("sub", json!({"alpha": -2}), |a, b| a + 2 * b),
        ("mul", n(), |a, b| a * b),
        ("div", json!({"rounding_mode": "trunc"}), |a, b| if b == 0 { 0 } else { a / b }),
        ("div", json!({"rounding_mode": "floor"}), floor_div),
        ("floor_divide", n(), floor_div),
        ("remainder", n(), |a, b| if b == 0 { 0 } else { a - floor_div(a, b) * b }),
        ("fmod", n(), |a, b| if b == 0 { 0 } else { a % b }),
        ("maximum", n(), i64::max),
        ("minimum", n(), i64::min),
        ("bitwise_and", n(), |a, b| a & b),
        ("bitwise_or", n(), |a, b| a | b),
        ("bitwise_xor", n(), |a, b| a ^ b),
        ("bitwise_left_shift", n(), |a, b| if (0..32).contains(&b) { a << b } else { 0 }),
        ("bitwise_right_shift", n(), |a, b| a >> if (0..32).contains(&b) { b } else { 31 }),
        ("eq", n(), |a, b| i64::from(a == b)),
        ("lt", n(), |a, b| i64::from(a < b)),
        ("ge", n(), |a, b| i64::from(a >= b)),
        ("logical_or", n(), |a, b| i64::from(a != 0 || b != 0)),
    ]
}

#[test]
fn integers_are_exact_and_wrap() {
    let card = common::card();
    let mut rng = Rng::new(7);
    let kinds = [Dtype::Int32, Dtype::Int16, Dtype::Int8, Dtype::Uint8, Dtype::Bool, Dtype::Int64];
    for (name, attrs, f) in integers() {
        for _ in 0..30 {
            let (full, list) = sizes(&mut rng, 2);
            let (da, db) = (kinds[rng.below(6)], kinds[rng.below(6)]);
            let (ta, xa) = random(&mut rng, &card, &list[0], da);
            let (tb, xb) = random(&mut rng, &card, &list[1], db);
            let out = &run(&card, name, &attrs, &[ta, tb])[0];
            #[allow(clippy::cast_possible_truncation, reason = "small integers")]
            let whole = |x: f64| x as i64;
            let want: Vec<f64> = (0..usize::try_from(full.iter().product::<i64>()).unwrap())
                .map(|i| {
                    let a = whole(xa[broadcast_index(i, &full, &list[0])]);
                    let b = whole(xb[broadcast_index(i, &full, &list[1])]);
                    let exact = f(a, b);
                    match out.dtype() {
                        Dtype::Bool => truth(exact != 0),
                        Dtype::Uint8 => exact.rem_euclid(256) as f64,
                        _ => exact as f64,
                    }
                })
                .collect();
            check(out, &want, 0.0, &format!("{name} {attrs} {da} {db}"));
        }
    }
    let small = |rng: &mut Rng, values: &[f64]| {
        let n = i64::try_from(values.len()).unwrap();
        common::tensor(rng, &card, &[n], Dtype::Int32, values)
    };
    let a = small(&mut rng, &[2.0, -3.0, 7.0, 1.0, -1.0, 0.0, 3.0]);
    let b = small(&mut rng, &[10.0, 3.0, 0.0, -5.0, -3.0, -1.0, -1.0]);
    let out = &run(&card, "pow", &Value::Null, &[a, b])[0];
    common::holds(out, &[1024.0, -27.0, 1.0, 1.0, -1.0, 0.0, 0.0]);
}

#[test]
fn choices() {
    let card = common::card();
    let mut rng = Rng::new(8);
    let kinds = [Dtype::Float16, Dtype::Float32, Dtype::Int32, Dtype::Uint8, Dtype::Bool];
    for _ in 0..120 {
        let (full, list) = sizes(&mut rng, 3);
        let dtype = kinds[rng.below(5)];
        let mask = if rng.chance(2) { Dtype::Bool } else { Dtype::Uint8 };
        let (c, xc) = random(&mut rng, &card, &list[0], mask);
        let (a, xa) = random(&mut rng, &card, &list[1], dtype);
        let (b, xb) = random(&mut rng, &card, &list[2], dtype);
        let out = &run(&card, "where", &Value::Null, &[c.clone(), a.clone(), b])[0];
        assert_eq!((out.dtype(), out.size()), (dtype, full.as_slice()));
        let at = |i: usize, k: usize| broadcast_index(i, &full, &list[k]);
        let n = usize::try_from(full.iter().product::<i64>()).unwrap();
        let want: Vec<f64> =
            (0..n).map(|i| if xc[at(i, 0)] != 0.0 { xa[at(i, 1)] } else { xb[at(i, 2)] }).collect();
        common::holds(out, &want);
        if list[0].len() <= list[1].len() && full == list[1] {
            let out = &run(&card, "masked_fill", &json!({"value": 1}), &[a, c])[0];
            let want: Vec<f64> =
                (0..n).map(|i| if xc[at(i, 0)] != 0.0 { 1.0 } else { xa[at(i, 1)] }).collect();
            common::holds(out, &want);
        }
    }
}

#[test]
fn infinities_and_nan() {
    let card = common::card();
    let grid = [0.0, -0.0, 1.0, -1.0, 2.5, -3.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let line = |size: &[i64]| {
        let layout = StickLayout::with_dim_order(size, None, Dtype::Float32, &[0, 1]).unwrap();
        let t = Tensor::zeros(&card, Dtype::Float32, &layout).unwrap();
        let bytes = common::bytes_of(&grid, Dtype::Float32);
        t.write_from(&bytes, &StridedLayout::new_contiguous(size).unwrap(), Dtype::Float32)
            .unwrap();
        t
    };
    let (a, b) = (line(&[9, 1]), line(&[1, 9]));
    for (name, arity, attrs, f) in floats() {
        // The plain formula of these is not defined there.
        if arity != 2 || attrs != Value::Null || ["logaddexp", "floor_divide"].contains(&name) {
            continue;
        }
        let out = read(&run(&card, name, &attrs, &[a.clone(), b.clone()])[0]);
        for (k, got) in out.iter().enumerate() {
            let x = [grid[k / 9], grid[k % 9]];
            let want = f(&x);
            let same = *got == want
                || (got.is_nan() && want.is_nan())
                || (got - want).abs() < 1e-6 * want.abs();
            assert!(same, "{name} of {x:?} is {got}, not {want}");
        }
    }
    // Both infinite: the larger of them.
    let out = read(&run(&card, "logaddexp", &Value::Null, &[a, b])[0]);
    assert_eq!((out[6 * 9 + 6], out[7 * 9 + 7]), (f64::INFINITY, f64::NEG_INFINITY));
}
