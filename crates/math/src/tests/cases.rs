//! Functions of two numbers against float64 and against their definitions; orders of reductions.

use super::super::{
    Binary, IntBinary, Unary, dot, exp_sub_sum, map1, map2, map2_i32, max, min, sum,
};
use super::accuracy::ulps;
use super::numbers;

/// A function, its float64 reference and the bound.
type Case = (Binary, fn(f64, f64) -> f64, f64);

fn call(f: Binary, a: f32, b: f32) -> f32 {
    let mut out = [0.0];
    map2(f, &[a], &[b], &mut out);
    out[0]
}

/// Python's `%` of floats, by the exact remainder.
fn remainder(a: f32, b: f32) -> f32 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

#[test]
fn functions_of_two_numbers_are_accurate() {
    let (a, b) = (numbers(200_000, 5), numbers(200_000, 6));
    let cases: [Case; 3] = [
        (Binary::Pow, libm::pow, 0.51),
        (Binary::Atan2, libm::atan2, 0.51),
        (Binary::Div, |a, b| a / b, 0.501),
    ];
    let mut out = vec![0.0; a.len()];
    for (f, exact, bound) in cases {
        map2(f, &a, &b, &mut out);
        for ((&a, &b), &y) in a.iter().zip(&b).zip(&out) {
            let due = exact(f64::from(a), f64::from(b));
            let error = ulps(y, due);
            assert!(error <= bound, "{f:?}({a:e}, {b:e}) = {y:e}, not {due:e}: {error} ulp");
        }
    }
    map2(Binary::Logaddexp, &a, &b, &mut out);
    for ((&a, &b), &y) in a.iter().zip(&b).zip(&out) {
        let (p, q) = (f64::from(a), f64::from(b));
        let due = if p == q && p.is_infinite() {
            p
        } else if p.is_nan() || q.is_nan() {
            f64::NAN
        } else {
            p.max(q) + libm::log1p(libm::exp(-(p - q).abs()))
        };
        let close = (f64::from(y) - due).abs() <= 6e-8 * due.abs() + 1e-9;
        let same = y == due as f32 || y.is_nan() && due.is_nan();
        assert!(same || close, "logaddexp({a:e}, {b:e}) = {y:e}, not {due:e}");
    }
}

#[test]
fn remainders_are_exact() {
    let (mut a, mut b) = (numbers(200_000, 7), numbers(200_000, 8));
    for (i, (a, b)) in a.iter_mut().zip(&mut b).enumerate() {
        if i % 2 == 0 && b.is_normal() {
            // Multiples and their neighbours.
            *a = f32::from_bits((*b * (i % 1000) as f32).to_bits().wrapping_add(i as u32 % 3));
        }
    }
    let mut out = vec![0.0; a.len()];
    map2(Binary::Fmod, &a, &b, &mut out);
    for ((&a, &b), &y) in a.iter().zip(&b).zip(&out) {
        let due = a % b;
        let same = y.to_bits() == due.to_bits() || y.is_nan() && due.is_nan();
        assert!(same, "fmod({a:e}, {b:e}) = {y:e}, not {due:e}");
    }
    map2(Binary::Remainder, &a, &b, &mut out);
    for ((&a, &b), &y) in a.iter().zip(&b).zip(&out) {
        let due = remainder(a, b);
        assert!(y == due || y.is_nan() && due.is_nan(), "remainder({a:e}, {b:e}) = {y:e}");
    }
    for (a, b, due) in [(7.0, 2.0, 3.0), (-7.0, 2.0, -4.0), (7.0, -2.0, -4.0), (6.0, 3.0, 2.0)] {
        assert_eq!(call(Binary::FloorDivide, a, b), due);
    }
    assert_eq!(call(Binary::FloorDivide, 1.0, 0.0), f32::INFINITY);
    assert!(call(Binary::FloorDivide, 0.0, 0.0).is_nan());
    // 0.1 goes nine times into 1 minus a bit, as Python says.
    assert_eq!(call(Binary::FloorDivide, 1.0, 0.1), 9.0);
}

#[test]
fn powers_have_the_special_cases_of_c() {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        2.0,
        -2.0,
        3.0,
        -3.0,
        1e9,
        -1e9,
        16_777_215.0,
        1e38,
        -1e38,
    ];
    let mut special = special.to_vec();
    special.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-45, 1.000_000_1]);
    for &x in &special {
        for &y in &special {
            for (f, exact) in
                [(Binary::Pow, libm::pow as fn(f64, f64) -> f64), (Binary::Atan2, libm::atan2)]
            {
                let (found, due) = (call(f, x, y), exact(f64::from(x), f64::from(y)));
                assert!(ulps(found, due) <= 0.51, "{f:?}({x:e}, {y:e}) = {found:e}, not {due:e}");
            }
        }
    }
}

#[test]
fn maximum_and_minimum_propagate_nan() {
    for (a, b) in [(1.0, f32::NAN), (f32::NAN, 1.0), (f32::NAN, f32::NAN)] {
        assert!(call(Binary::Maximum, a, b).is_nan() && call(Binary::Minimum, a, b).is_nan());
    }
    assert_eq!((call(Binary::Maximum, 1.0, 2.0), call(Binary::Minimum, 1.0, 2.0)), (2.0, 1.0));
    for n in 1..100 {
        let mut x: Vec<f32> = (0..n).map(|i| ((i * 37) % 101) as f32).collect();
        let (high, low) = x.iter().fold((x[0], x[0]), |(h, l), x| (h.max(*x), l.min(*x)));
        assert_eq!((max(&x), min(&x)), (high, low));
        x[(n * 7) % n.max(1)] = f32::NAN;
        assert!(max(&x).is_nan() && min(&x).is_nan());
    }
    assert_eq!((max(&[]), min(&[])), (f32::NEG_INFINITY, f32::INFINITY));
}

/// The documented order, written out.
fn in_order(terms: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 32];
    for (i, x) in terms.iter().enumerate() {
        lanes[i % 32] += x;
    }
    for width in [16, 8, 4, 2, 1] {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
    }
    lanes[0]
}

#[test]
fn sums_have_the_documented_order() {
    for n in (0..200).chain([1000, 4097]) {
        let x: Vec<f32> = (0..n).map(|i| 1.0 / (i as f32 + 1.0)).collect();
        let y: Vec<f32> = (0..n).map(|i| (i as f32).sqrt()).collect();
        assert_eq!(sum(&x), in_order(&x));
        let products: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
        assert_eq!(dot(&x, &y), in_order(&products));
        let mut row = y.clone();
        let total = exp_sub_sum(&mut row, 3.0);
        let shifted: Vec<f32> = y.iter().map(|y| y - 3.0).collect();
        let mut due = vec![0.0; n];
        map1(Unary::Exp, &shifted, &mut due);
        assert_eq!((&row, total), (&due, in_order(&due)));
    }
}

#[test]
fn special_functions_are_accurate() {
    let mut out = [0.0; 5];
    map1(Unary::Erfinv, &[0.5, -0.999_023_44, 1e-7, 1.0, 0.0], &mut out);
    let due = [0.476_936_276_204_469_9, -2.331_467_773_621_947_5, 8.862_269e-8, f64::INFINITY, 0.0];
    for (y, due) in out.iter().zip(due) {
        assert!(ulps(*y, due) <= 1.5, "erfinv {y:e}, not {due:e}");
    }
    map1(Unary::Digamma, &[1.0, 0.5, 10.0, -0.5, -1.0], &mut out);
    let due = [
        -0.577_215_664_901_532_9,
        -1.963_510_026_021_423_5,
        2.251_752_589_066_721,
        0.036_489_973_978_576_52,
        f64::NAN,
    ];
    for (y, due) in out.iter().zip(due) {
        assert!(ulps(*y, due) <= 1.0, "digamma {y:e}, not {due:e}");
    }
}

#[test]
fn integers_wrap_and_divide_like_python() {
    let a = [7, -7, 7, -7, i32::MIN, 5, i32::MAX];
    let b = [2, 2, -2, -2, -1, 0, 1];
    let mut out = [0; 7];
    map2_i32(IntBinary::FloorDivide, &a, &b, &mut out);
    assert_eq!(out, [3, -4, -4, 3, i32::MIN, 0, i32::MAX]);
    map2_i32(IntBinary::Remainder, &a, &b, &mut out);
    assert_eq!(out, [1, 1, -1, -1, 0, 0, 0]);
    map2_i32(IntBinary::Fmod, &a, &b, &mut out);
    assert_eq!(out, [1, -1, 1, -1, 0, 0, 0]);
    map2_i32(IntBinary::Add, &a, &b, &mut out);
    assert_eq!(out, [9, -5, 5, -9, i32::MAX, 5, i32::MIN]);
    map2_i32(IntBinary::ShiftRight, &[-8, 8, -8, 8, 1, 1, 1], &[1, 1, 40, 40, -1, 0, 31], &mut out);
    assert_eq!(out, [-4, 4, -1, 0, 0, 1, 0]);
}
