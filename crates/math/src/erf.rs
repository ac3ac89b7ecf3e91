//! The error function and the tail of the normal distribution.

use std::f64::consts::SQRT_2;

use super::exp::exp64;
use super::{clamp_f64, evaluate_polynomial};

/// The error function.
///
/// Within 0.544 ulp.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    // At 4 it is 1 to float32.
    let x = clamp_f64(f64::from(x), -4.0, 4.0);
    let z = x * x;
    let p = evaluate_polynomial(
        z,
        [
            1.128_379_170_031_308_1,
            0.192_875_613_887_522_5,
            0.055_750_719_823_025_31,
            0.004_226_571_063_016_729,
            0.000_411_349_154_852_781_7,
            6.794_188_624_037_649e-6,
        ],
    );
    let q = evaluate_polynomial(
        z,
        [
            1.0,
            0.504_264_997_321_813_4,
            0.117_495_467_767_730_52,
            0.016_295_535_667_187_264,
            0.001_421_315_637_245_563_9,
            0.000_072_584_469_010_141_53,
            2.606_376_860_841_016e-7,
        ],
    );
    (x * (p / q)) as f32
}

/// 1 - erf x, also where that is small.
///
/// Within 0.608 ulp.
#[inline(always)]
pub fn erfc(x: f32) -> f32 {
    let x = f64::from(x);
    // By the tail itself: 1 less the error function has no digits left where that is nearly 1.
    let t = 2.0 * normal_tail(x.abs() * SQRT_2);
    (if x < 0.0 { 2.0 - t } else { t }) as f32
}

/// The chance that a normal variable is beyond `a` on one side, for `a >= 0`; within 6e-9 of it up
/// to 14.7, where float32 ends.
#[inline(always)]
fn normal_tail(a: f64) -> f64 {
    let a = if a > 20.0 { 20.0 } else { a };
    let p = evaluate_polynomial(
        a,
        [
            0.500_000_003_213_732_6,
            0.438_836_673_256_088_5,
            0.183_641_322_969_742_04,
            0.040_771_542_312_751_91,
            0.004_137_229_300_023_516,
        ],
    );
    let q = evaluate_polynomial(
        a,
        [
            1.0,
            1.675_558_351_587_973,
            1.204_179_780_813_253_6,
            0.470_544_090_897_881_3,
            0.102_205_383_716_888_53,
            0.010_370_380_134_611_995,
        ],
    );
    // The tail falls as the exponential does, and what is left varies so little that a quotient of polynomials
    // follows it.
    exp64(-0.5 * (a * a)) * (p / q)
}
