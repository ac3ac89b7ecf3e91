//! Functions over slices: the enumerations of them, and the loops.

use super::canonicalize_nan;
use super::multiversion;
use super::{activation as act, erf, exp, log, pow, round, special, trig};

/// One loop per function: `name { parameters } |x| formula`, and `far |x| condition => function` for
/// the elements that the formula does not hold for, which are done again one by one.
macro_rules! unary {
    ($(
        $(#[$meta:meta])*
        $name:ident $({ $($field:ident),* })? |$x:ident| $body:expr
        $(, far |$y:ident| $condition:expr => $slow:expr)?;
    )*) => {
        /// A function of one number, with its parameters.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[allow(missing_docs, reason = "each is named after its function")]
        pub enum Unary { $($(#[$meta])* $name $({ $($field: f32),* })?,)* }

        impl Unary {
            /// Every function, with 1 for each parameter.
            #[cfg(test)]
            pub(super) const ALL: &[Unary] = &[$(Unary::$name $({ $($field: 1.0),* })?,)*];
        }

        /// `out[i] = f(x[i])`.
        ///
        /// # Panics
        /// If the lengths differ.
        pub fn map1(f: Unary, x: &[f32], out: &mut [f32]) {
            assert_eq!(x.len(), out.len(), "one result per element");
            match f {$(
                Unary::$name $({ $($field),* })? => {
                    multiversion! {
                        fn run(x: &[f32], out: &mut [f32] $($(, $field: f32)*)?) {
                            for (out, &$x) in out.iter_mut().zip(x) {
                                *out = canonicalize_nan($body);
                            }
                            $(
                                // First whether there is any such element, in a loop without branches, because
                                // hardly any array has one.
                                if x.iter().fold(false, |any, &$y| any | $condition) {
                                    for (out, &$y) in out.iter_mut().zip(x) {
                                        if $condition {
                                            *out = canonicalize_nan($slow);
                                        }
                                    }
                                }
                            )?
                        }
                    }
                    run(x, out $($(, $field)*)?);
                }
            )*}
        }
    };
}

unary! {
    Abs |x| x.abs();
    Neg |x| -x;
    Sign |x| round::sign(x);
    Square |x| x * x;
    Sqrt |x| pow::sqrt(x);
    Rsqrt |x| pow::rsqrt(x);
    Reciprocal |x| pow::reciprocal(x);
    Floor |x| round::floor(x);
    Ceil |x| round::ceil(x);
    Round |x| round::round(x);
    Trunc |x| round::trunc(x);
    Frac |x| round::frac(x);
    Exp |x| exp::exp(x);
    Exp2 |x| exp::exp2(x);
    Expm1 |x| exp::expm1(x);
    Log |x| log::log(x);
    Log2 |x| log::log2(x);
    Log10 |x| log::log10(x);
    Log1p |x| log::log1p(x);
    Sin |x| trig::sin(x), far |x| trig::is_far(x) => libm::sin(f64::from(x)) as f32;
    Cos |x| trig::cos(x), far |x| trig::is_far(x) => libm::cos(f64::from(x)) as f32;
    Tan |x| trig::tan(x), far |x| trig::is_far(x) => libm::tan(f64::from(x)) as f32;
    Asin |x| trig::asin(x);
    Acos |x| trig::acos(x);
    Atan |x| trig::atan(x);
    Sinh |x| exp::sinh(x);
    Cosh |x| exp::cosh(x);
    Tanh |x| exp::tanh(x);
    Asinh |x| log::asinh(x);
    Acosh |x| log::acosh(x);
    Atanh |x| log::atanh(x);
    Erf |x| erf::erf(x);
    Erfc |x| erf::erfc(x);
    Erfinv |x| special::erfinv(x);
    Lgamma |x| special::lgamma(x);
    Digamma |x| special::digamma(x);
    Sigmoid |x| exp::sigmoid(x);
    LogSigmoid |x| act::log_sigmoid(x);
    Relu |x| act::relu(x);
    LeakyRelu { slope } |x| act::leaky_relu(x, slope);
    Gelu |x| act::gelu(x);
    GeluTanh |x| act::gelu_tanh(x);
    Silu |x| act::silu(x);
    Softplus { beta, threshold } |x| act::softplus(x, beta, threshold);
    Mish |x| act::mish(x);
    Elu { alpha } |x| act::elu(x, alpha);
    Selu |x| act::selu(x);
    Hardswish |x| act::hardswish(x);
    Hardsigmoid |x| act::hardsigmoid(x);
    Clamp { low, high } |x| act::clamp(x, low, high);
    /// x where above the threshold, else the value.
    Threshold { threshold, value } |x| if x <= threshold { value } else { x };
    /// 1 where NaN, else 0; so the next ones.
    IsNan |x| truth_to_f32(x.is_nan());
    IsInf |x| truth_to_f32(x.is_infinite());
    IsFinite |x| truth_to_f32(x.is_finite());
    /// 1 where zero: NaN is true.
    LogicalNot |x| truth_to_f32(x == 0.0);
}

/// As [`unary`], for two operands.
macro_rules! binary {
    ($(
        $(#[$meta:meta])*
        $name:ident |$a:ident, $b:ident| $body:expr
        $(, far |$c:ident, $d:ident| $condition:expr => $slow:expr)?;
    )*) => {
        /// A function of two numbers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is named after its function")]
        pub enum Binary { $($(#[$meta])* $name,)* }

        impl Binary {
            /// Every function.
            #[cfg(test)]
            pub(super) const ALL: &[Binary] = &[$(Binary::$name,)*];
        }

        /// `out[i] = f(a[i], b[i])`.
        ///
        /// # Panics
        /// If the lengths differ.
        pub fn map2(f: Binary, a: &[f32], b: &[f32], out: &mut [f32]) {
            assert!(a.len() == out.len() && b.len() == out.len(), "one result per pair");
            match f {$(
                Binary::$name => {
                    multiversion! {
                        fn run(a: &[f32], b: &[f32], out: &mut [f32]) {
                            for ((out, &$a), &$b) in out.iter_mut().zip(a).zip(b) {
                                *out = canonicalize_nan($body);
                            }
                            $(
                                let pairs = || a.iter().zip(b);
                                if pairs().fold(false, |any, (&$c, &$d)| any | $condition) {
                                    for (out, (&$c, &$d)) in out.iter_mut().zip(pairs()) {
                                        if $condition {
                                            *out = canonicalize_nan($slow);
                                        }
                                    }
                                }
                            )?
                        }
                    }
                    run(a, b, out);
                }
            )*}
        }
    };
}

binary! {
    Add |a, b| a + b;
    Sub |a, b| a - b;
    Mul |a, b| a * b;
    Div |a, b| a / b;
    Maximum |a, b| round::maximum(a, b);
    Minimum |a, b| round::minimum(a, b);
    Pow |a, b| pow::pow(a, b);
    Atan2 |a, b| trig::atan2(a, b);
    Logaddexp |a, b| log::logaddexp(a, b);
    /// The remainder with the sign of the dividend.
    Fmod |a, b| round::fmod(a, b), far |a, b| round::is_far(a, b) => round::fmod_far(a, b);
    /// The remainder with the sign of the divisor.
    Remainder |a, b| round::remainder(round::fmod(a, b), b),
        far |a, b| round::is_far(a, b) => round::remainder(round::fmod_far(a, b), b);
    FloorDivide |a, b| round::floor_divide(a, b, round::fmod(a, b)),
        far |a, b| round::is_far(a, b) => round::floor_divide(a, b, round::fmod_far(a, b));
    /// The quotient without its fraction.
    TruncDivide |a, b| round::trunc(a / b);
    Copysign |a, b| a.copysign(b);
    /// 1 where it holds, else 0; NaN equals nothing. So the next ones.
    Equal |a, b| truth_to_f32(a == b);
    NotEqual |a, b| truth_to_f32(a != b);
    Less |a, b| truth_to_f32(a < b);
    LessEqual |a, b| truth_to_f32(a <= b);
    Greater |a, b| truth_to_f32(a > b);
    GreaterEqual |a, b| truth_to_f32(a >= b);
    /// Of truths: anything but zero is true, NaN too.
    LogicalAnd |a, b| truth_to_f32(a != 0.0 && b != 0.0);
    LogicalOr |a, b| truth_to_f32(a != 0.0 || b != 0.0);
    LogicalXor |a, b| truth_to_f32((a != 0.0) != (b != 0.0));
}

/// 1 or 0.
#[inline(always)]
fn truth_to_f32(holds: bool) -> f32 {
    if holds { 1.0 } else { 0.0 }
}

/// Elements that in-place updates copy to a buffer at a time.
const COPIED_ASIDE: usize = 512;

/// `x[i] = f(x[i])`.
pub fn update_unary(f: Unary, x: &mut [f32]) {
    let mut aside = [0.0; COPIED_ASIDE];
    for piece in x.chunks_mut(COPIED_ASIDE) {
        let aside = &mut aside[..piece.len()];
        aside.copy_from_slice(piece);
        map1(f, aside, piece);
    }
}

/// `a[i] = f(a[i], b[i])`.
///
/// # Panics
/// If the lengths differ.
pub fn update_binary(f: Binary, a: &mut [f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "one result per pair");
    let mut aside = [0.0; COPIED_ASIDE];
    for (piece, b) in a.chunks_mut(COPIED_ASIDE).zip(b.chunks(COPIED_ASIDE)) {
        let aside = &mut aside[..piece.len()];
        aside.copy_from_slice(piece);
        map2(f, aside, b, piece);
    }
}
