//! Functions of several operands, element by element, as data: what an operation of the table computes.

use crate::int::{IntBinary, IntUnary, WrappingInteger, map1_i32, map1_i64, map2_i32, map2_i64};
use crate::rows::{select_by_condition, select_i32, select_i64};
use crate::slice::{Binary, Unary, map1, map2};
use crate::ternary;

/// A function of float32 operands with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FloatFunction {
    /// The operand.
    Copy,
    /// A function of one operand.
    Unary(Unary),
    /// A function of two operands.
    Binary(Binary),
    /// `max(x, 0) + min(0, alpha (exp(x / alpha) - 1))`.
    Celu(f32),
    /// `a + factor b`.
    AddScaled(f32),
    /// `sqrt(a^2 + b^2)`.
    Hypot,
    /// `a / b`, kept between minus and plus this number.
    QuotientWithin(f32),
    /// The second operand where the first is not 0, else the third.
    Select,
    /// The number where the second operand is not 0, else the first operand.
    MaskedFill(f32),
    /// The first operand between the second and the third.
    ClampBetween,
    /// `x + value a b`.
    Addcmul(f32),
    /// `x + value a / b`.
    Addcdiv(f32),
    /// From the first operand to the second by the share of the third.
    Lerp,
}

impl FloatFunction {
    /// The function of equally long operands.
    ///
    /// # Panics
    /// If the lengths differ, or with fewer operands than it has.
    pub fn apply_to_slices(&self, x: &[&[f32]], out: &mut [f32]) {
        match *self {
            FloatFunction::Copy => out.copy_from_slice(x[0]),
            FloatFunction::Unary(f) => map1(f, x[0], out),
            FloatFunction::Binary(f) => map2(f, x[0], x[1], out),
            FloatFunction::Celu(alpha) => ternary::celu(x[0], alpha, out),
            FloatFunction::AddScaled(factor) => ternary::add_scaled(x[0], x[1], factor, out),
            FloatFunction::Hypot => ternary::hypot(x[0], x[1], out),
            FloatFunction::QuotientWithin(most) => {
                ternary::quotient_within(x[0], x[1], most, out);
            }
            FloatFunction::Select => select_by_condition(x[0], x[1], x[2], out),
            FloatFunction::MaskedFill(number) => masked_fill(number, x, out),
            FloatFunction::ClampBetween => ternary::clamp_between(x[0], x[1], x[2], out),
            FloatFunction::Addcmul(value) => ternary::addcmul(x[0], x[1], x[2], value, out),
            FloatFunction::Addcdiv(value) => ternary::addcdiv(x[0], x[1], x[2], value, out),
            FloatFunction::Lerp => ternary::lerp(x[0], x[1], x[2], out),
        }
    }
}

/// A function of integer operands with its parameters. Parameters are exact in 64 bits; functions of 32 bits take the
/// nearest number for bounds and values, and the lowest bits of factors, which wrap as products do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntFunction {
    /// The operand.
    Copy,
    /// The same number, whatever the operand is.
    Always(bool),
    /// A function of one operand.
    Unary(IntUnary),
    /// A function of two operands.
    Binary(IntBinary),
    /// The complement of all bits.
    Not,
    /// The first operand to the power of the second.
    Power,
    /// The operand between these numbers.
    Clamp {
        /// The least.
        low: i64,
        /// The greatest.
        high: i64,
    },
    /// The operand where it is above the threshold, else the value.
    Threshold {
        /// The threshold.
        threshold: i64,
        /// The value.
        value: i64,
    },
    /// `a + factor b`.
    AddScaled(i64),
    /// The second operand where the first is not 0, else the third.
    Select,
    /// The number where the second operand is not 0, else the first operand.
    MaskedFill(i64),
    /// The first operand between the second and the third.
    ClampBetween,
    /// `x + value a b`.
    Addcmul(i64),
}

/// The same match for both widths.
macro_rules! apply {
    ($(#[$meta:meta])* $name:ident, $t:ty, $map1:ident, $map2:ident, $select:ident, $clamp:ident, $threshold:ident,
        $add_scaled:ident, $between:ident, $addcmul:ident) => {
        $(#[$meta])*
        ///
        /// # Panics
        /// If the lengths differ, or with fewer operands than it has.
        #[allow(clippy::cast_possible_truncation, reason = "a factor wraps as the product does")]
        pub fn $name(&self, x: &[&[$t]], out: &mut [$t]) {
            match *self {
                IntFunction::Copy => out.copy_from_slice(x[0]),
                IntFunction::Always(truth) => out.fill(truth.into()),
                IntFunction::Unary(f) => $map1(f, x[0], out),
                IntFunction::Binary(f) => $map2(f, x[0], x[1], out),
                IntFunction::Not => out.iter_mut().zip(x[0]).for_each(|(out, x)| *out = !*x),
                IntFunction::Power => {
                    for (out, (a, b)) in out.iter_mut().zip(x[0].iter().zip(x[1])) {
                        *out = a.power_wrapping(*b);
                    }
                }
                IntFunction::Clamp { low, high } => {
                    ternary::$clamp(x[0], <$t>::saturate_from_i64(low), <$t>::saturate_from_i64(high), out);
                }
                IntFunction::Threshold { threshold, value } => {
                    ternary::$threshold(x[0], <$t>::saturate_from_i64(threshold), <$t>::saturate_from_i64(value), out);
                }
                IntFunction::AddScaled(factor) => {
                    ternary::$add_scaled(x[0], x[1], factor as $t, out);
                }
                IntFunction::Select => $select(x[0], x[1], x[2], out),
                IntFunction::MaskedFill(number) => masked_fill(<$t>::saturate_from_i64(number), x, out),
                IntFunction::ClampBetween => ternary::$between(x[0], x[1], x[2], out),
                IntFunction::Addcmul(value) => {
                    ternary::$addcmul(x[0], x[1], x[2], value as $t, out);
                }
            }
        }
    };
}

impl IntFunction {
    apply! {
        /// The function of equally long operands in 32 bits.
        apply_i32, i32, map1_i32, map2_i32, select_i32, clamp_i32, threshold_i32, add_scaled_i32,
        clamp_between_i32, addcmul_i32
    }
    apply! {
        /// The function of equally long operands in 64 bits.
        apply_i64, i64, map1_i64, map2_i64, select_i64, clamp_i64, threshold_i64, add_scaled_i64,
        clamp_between_i64, addcmul_i64
    }
}

/// The number where the mask, the second operand, is not 0.
fn masked_fill<T: Copy + Default + PartialEq>(number: T, x: &[&[T]], out: &mut [T]) {
    let places = out.iter_mut().zip(x[0].iter().zip(x[1]));
    places.for_each(|(out, (x, mask))| *out = if *mask != T::default() { number } else { *x });
}
