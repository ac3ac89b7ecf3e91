//! Every function against float64, over all of float32.

use super::super::{Unary, map1};

/// How often the distance between floats around `exact` fits between it and `got`.
pub(super) fn ulps(got: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if got.is_nan() || exact.is_nan() {
        return if got.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == rounded {
        // The sign of a zero counts; a correctly rounded result is within one half.
        let sign = got != 0.0 || got.is_sign_negative() == exact.is_sign_negative();
        if got.is_infinite() || !sign {
            return if sign { 0.0 } else { f64::INFINITY };
        }
    }
    if got.is_infinite() {
        // Next to the overflow: the largest finite number was due.
        return if exact.abs() > f64::from(f32::MAX) * (1.0 - 1e-7) { 1.0 } else { f64::INFINITY };
    }
    if exact.is_infinite() {
        return f64::INFINITY;
    }
    let size = exact.abs().max(f64::from(f32::MIN_POSITIVE)).min(f64::from(f32::MAX));
    let exponent = (size.to_bits() >> 52).cast_signed() - 1023;
    let ulp = f64::from_bits((exponent - 23 + 1023).cast_unsigned() << 52);
    (f64::from(got) - exact).abs() / ulp
}

/// A function, its float64 reference and the bound that its doc comment states.
type Case = (Unary, fn(f64) -> f64, f64);

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

fn phi(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

const CASES: &[Case] = &[
    (Unary::Sqrt, libm::sqrt, 0.5),
    (Unary::Rsqrt, |x| 1.0 / libm::sqrt(x), 1.5),
    (Unary::Reciprocal, |x| 1.0 / x, 0.5),
    (Unary::Floor, libm::floor, 0.0),
    (Unary::Ceil, libm::ceil, 0.0),
    (Unary::Round, libm::rint, 0.0),
    (Unary::Trunc, libm::trunc, 0.0),
    (Unary::Exp, libm::exp, 0.97),
    (Unary::Exp2, libm::exp2, 0.502),
    (Unary::Expm1, libm::expm1, 0.505),
    (Unary::Log, libm::log, 0.501),
    (Unary::Log2, libm::log2, 0.501),
    (Unary::Log10, libm::log10, 0.501),
    (Unary::Log1p, libm::log1p, 0.501),
    (Unary::Sin, libm::sin, 0.503),
    (Unary::Cos, libm::cos, 0.503),
    (Unary::Tan, libm::tan, 0.503),
    (Unary::Asin, libm::asin, 0.501),
    (Unary::Acos, libm::acos, 0.501),
    (Unary::Atan, libm::atan, 0.501),
    (Unary::Sinh, libm::sinh, 0.504),
    (Unary::Cosh, libm::cosh, 0.502),
    (Unary::Tanh, libm::tanh, 0.505),
    (Unary::Asinh, libm::asinh, 0.501),
    (Unary::Acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 0.501),
    (Unary::Atanh, libm::atanh, 0.501),
    (Unary::Erf, libm::erf, 0.544),
    (Unary::Erfc, libm::erfc, 0.608),
    (Unary::Lgamma, libm::lgamma, 0.5),
    (Unary::Sigmoid, sigmoid, 0.502),
    (Unary::LogSigmoid, |x| -softplus(-x), 0.502),
    (Unary::Gelu, |x| x * phi(x), 1.73),
    (Unary::GeluTanh, gelu_tanh, 0.502),
    (Unary::Silu, |x| x / (1.0 + libm::exp(-x)), 0.502),
    (Unary::Softplus { beta: 1.0, threshold: 40.0 }, softplus, 0.502),
    (Unary::Mish, mish, 0.502),
    (Unary::Elu { alpha: 1.0 }, |x| if x > 0.0 { x } else { libm::expm1(x) }, 0.504),
    (Unary::Selu, selu, 0.505),
    (Unary::Hardsigmoid, |x| (x + 3.0).clamp(0.0, 6.0) / 6.0, 1.0),
];

fn gelu_tanh(x: f64) -> f64 {
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    x * sigmoid(2.0 * u)
}

fn softplus(x: f64) -> f64 {
    if x > 40.0 { x } else { libm::log1p(libm::exp(x)) }
}

fn mish(x: f64) -> f64 {
    x * libm::tanh(libm::log1p(libm::exp(x)))
}

fn selu(x: f64) -> f64 {
    let y = 1.673_263_242_354_377_2 * libm::expm1(x);
    1.050_700_987_355_480_5 * if x > 0.0 { x } else { y }
}

/// The largest error of each case over the bit patterns `first, first + step, ..`.
fn sweep(first: u32, step: u32) -> Vec<(f64, f32)> {
    let mut worst = vec![(0.0, 0.0); CASES.len()];
    let mut next = Some(first);
    while let Some(start) = next {
        let bits = (0..4096u32).map_while(|i| start.checked_add(i.checked_mul(step)?));
        let x: Vec<f32> = bits.map(f32::from_bits).collect();
        let mut out = vec![0.0; x.len()];
        for (&(f, exact, _), worst) in CASES.iter().zip(&mut worst) {
            map1(f, &x, &mut out);
            for (&x, &y) in x.iter().zip(&out) {
                let error = ulps(y, exact(f64::from(x)));
                if error > worst.0 {
                    *worst = (error, x);
                }
            }
        }
        next = x.last().and_then(|last| last.to_bits().checked_add(step));
    }
    worst
}

fn assert_bounds(worst: &[(f64, f32)]) {
    let mut wrong = String::new();
    for (&(f, exact, bound), &(error, x)) in CASES.iter().zip(worst) {
        println!("{f:?}: {error:.4} ulp at {x:e}");
        if error > bound {
            let mut out = [0.0];
            map1(f, &[x], &mut out);
            let due = exact(f64::from(x));
            wrong += &format!("{f:?}({x:e}) = {:e}, not {due:e}: {error} ulp\n", out[0]);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn errors_stay_within_the_stated_bounds() {
    assert_bounds(&sweep(0, 1021));
}

/// Every 17th float32, two minutes of one core in a release build; with `ZELLIGE_EVERY_FLOAT` all of them.
#[test]
#[ignore = "./test --long runs it: a quarter of a billion numbers through every function"]
fn long_errors_of_many_numbers() {
    let step = if std::env::var_os("ZELLIGE_EVERY_FLOAT").is_some() { 1 } else { 17 };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = u32::try_from(threads).expect("few threads");
    let parts: Vec<Vec<(f64, f32)>> = std::thread::scope(|scope| {
        let work = (0..threads).map(|i| scope.spawn(move || sweep(i * step, threads * step)));
        let work: Vec<_> = work.collect();
        work.into_iter().map(|part| part.join().expect("no panic")).collect()
    });
    let worst: Vec<(f64, f32)> = (0..CASES.len())
        .map(|i| parts.iter().map(|p| p[i]).fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a }))
        .collect();
    assert_bounds(&worst);
}
