//! The exact integers: functions over slices of int32 and int64, which wrap around where they overflow.

use super::multiversion;

/// The integers that kernels compute with.
pub trait WrappingInteger:
    Copy
    + Default
    + Send
    + Sync
    + 'static
    + Ord
    + From<bool>
    + From<u8>
    + std::ops::BitAnd<Output = Self>
{
    /// The smallest integer of the type.
    const LEAST_INTEGER: Self;
    /// The largest integer of the type.
    const GREATEST_INTEGER: Self;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// The sum, wrapping.
    fn add_wrapping(self, other: Self) -> Self;
    /// The product, wrapping.
    fn multiply_wrapping(self, other: Self) -> Self;
    /// The quotient rounded toward zero; 0 where `b` is 0.
    fn trunc_divide(self, b: Self) -> Self;
    /// The quotient rounded toward minus infinity; 0 where `b` is 0.
    fn floor_divide(self, b: Self) -> Self;
    /// To the power of `b`, wrapping. Of a negative power only the integer part is left, which is 0 unless the base is
    /// 1 or -1; it is 0 for the base 0 too.
    fn power_wrapping(self, b: Self) -> Self;
    /// The nearest integer of the type.
    fn saturate_from_i64(value: i64) -> Self;
}

macro_rules! whole {
    ($($t:ty)*) => {$(
        impl WrappingInteger for $t {
            const LEAST_INTEGER: $t = <$t>::MIN;
            const GREATEST_INTEGER: $t = <$t>::MAX;
            const ZERO: $t = 0;
            const ONE: $t = 1;

            #[inline(always)]
            fn add_wrapping(self, other: $t) -> $t {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn multiply_wrapping(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn trunc_divide(self, b: $t) -> $t {
                if b == 0 { 0 } else { self.wrapping_div(b) }
            }

            #[inline(always)]
            fn floor_divide(self, b: $t) -> $t {
                let q = self.trunc_divide(b);
                let inexact = q.wrapping_mul(b) != self;
                if b != 0 && inexact && (self < 0) != (b < 0) { q - 1 } else { q }
            }

            fn power_wrapping(self, b: $t) -> $t {
                if b < 0 {
                    return match self {
                        1 => 1,
                        -1 if b % 2 == 0 => 1,
                        -1 => -1,
                        _ => 0,
                    };
                }
                // By squaring, as an exponent may have more bits than `wrapping_pow` takes.
                let (mut base, mut left, mut power) = (self, b, 1);
                while left > 0 {
                    if left & 1 == 1 {
                        power = <$t>::wrapping_mul(power, base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                power
            }

            #[allow(clippy::cast_possible_truncation, reason = "it was brought into the range")]
            fn saturate_from_i64(value: i64) -> $t {
                value.clamp(<$t>::MIN.into(), <$t>::MAX.into()) as $t
            }
        }
    )*};
}

whole! { i32 i64 }

/// As the loops of `slice`, without NaN: `kind` names the enumeration, `map` its loops for each type of
/// integers, which formulas call `Int`.
macro_rules! functions {
    ($(#[$doc:meta])* $kind:ident, $map32:ident, $map64:ident $args:tt, $(
        $(#[$meta:meta])* $name:ident |$($x:ident),+| $body:expr;
    )*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is named after its function")]
        pub enum $kind { $($(#[$meta])* $name,)* }

        impl $kind {
            /// Every function.
            #[cfg(test)]
            pub(super) const ALL: &[$kind] = &[$($kind::$name,)*];
        }

        functions!(@map i32, $kind, $map32 $args, $($name [$($x),+] $body;)*);
        functions!(@map i64, $kind, $map64 $args, $($name [$($x),+] $body;)*);
    };
    (@map $t:ty, $kind:ident, $map:ident($a:ident), $($name:ident [$x:ident] $body:expr;)*) => {
        /// `out[i] = f(a[i])`.
        ///
        /// # Panics
        /// If the lengths differ.
        pub fn $map(f: $kind, $a: &[$t], out: &mut [$t]) {
            assert_eq!($a.len(), out.len(), "one result per element");
            match f {$(
                $kind::$name => {
                    multiversion! {
                        fn run(a: &[$t], out: &mut [$t]) {
                            for (out, &$x) in out.iter_mut().zip(a) {
                                *out = $body;
                            }
                        }
                    }
                    run($a, out);
                }
            )*}
        }
    };
    (@map $t:ty, $kind:ident, $map:ident($a:ident, $b:ident), $(
        $name:ident [$x:ident, $y:ident] $body:expr;
    )*) => {
        /// `out[i] = f(a[i], b[i])`.
        ///
        /// # Panics
        /// If the lengths differ.
        pub fn $map(f: $kind, $a: &[$t], $b: &[$t], out: &mut [$t]) {
            /// The integers of these loops.
            #[allow(dead_code, reason = "few formulas ask for it")]
            type Int = $t;
            assert!($a.len() == out.len() && $b.len() == out.len(), "one result per pair");
            match f {$(
                $kind::$name => {
                    multiversion! {
                        fn run(a: &[$t], b: &[$t], out: &mut [$t]) {
                            for ((out, &$x), &$y) in out.iter_mut().zip(a).zip(b) {
                                *out = $body;
                            }
                        }
                    }
                    run($a, $b, out);
                }
            )*}
        }
    };
}

functions! {
    /// A function of one integer.
    IntUnary, map1_i32, map1_i64(a),
    Abs |x| x.wrapping_abs();
    Neg |x| x.wrapping_neg();
    Sign |x| x.signum();
    Relu |x| x.max(0);
    Square |x| x.wrapping_mul(x);
    BitNot |x| !x;
    LogicalNot |x| (x == 0).into();
}

functions! {
    /// A function of two integers.
    IntBinary, map2_i32, map2_i64(a, b),
    Add |a, b| a.wrapping_add(b);
    Sub |a, b| a.wrapping_sub(b);
    Mul |a, b| a.wrapping_mul(b);
    Maximum |a, b| a.max(b);
    Minimum |a, b| a.min(b);
    /// Toward minus infinity; by zero 0, so the other quotients and remainders.
    FloorDivide |a, b| a.floor_divide(b);
    TruncDivide |a, b| a.trunc_divide(b);
    /// With the sign of the divisor.
    Remainder |a, b| if b == 0 { 0 } else { a.wrapping_sub(a.floor_divide(b).wrapping_mul(b)) };
    /// With the sign of the dividend.
    Fmod |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) };
    BitAnd |a, b| a & b;
    BitOr |a, b| a | b;
    BitXor |a, b| a ^ b;
    /// By all bits or more, or fewer than none: nothing is left.
    ShiftLeft |a, b| if (0..Int::BITS as Int).contains(&b) { a << b } else { 0 };
    /// By all bits or more, or fewer than none: the sign is left.
    ShiftRight |a, b| a >> if (0..Int::BITS as Int).contains(&b) { b } else { Int::BITS as Int - 1 };
    /// 1 where it holds, else 0; so the next ones.
    Equal |a, b| (a == b).into();
    NotEqual |a, b| (a != b).into();
    Less |a, b| (a < b).into();
    LessEqual |a, b| (a <= b).into();
    Greater |a, b| (a > b).into();
    GreaterEqual |a, b| (a >= b).into();
    LogicalAnd |a, b| ((a != 0) & (b != 0)).into();
    LogicalOr |a, b| ((a | b) != 0).into();
    LogicalXor |a, b| ((a != 0) != (b != 0)).into();
}
