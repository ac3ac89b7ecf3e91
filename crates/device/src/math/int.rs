//! The exact integers: int32 functions over slices, which wrap around where they overflow.

use super::multiversion;

/// As the loops of `slice`, without NaN: `kind` and `map` name the enumeration and its loops.
macro_rules! functions {
    ($(#[$doc:meta])* $kind:ident, $map:ident $args:tt, $(
        $(#[$meta:meta])* $name:ident |$($x:ident),+| $body:expr;
    )*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $kind { $($(#[$meta])* $name,)* }

        impl $kind {
            /// Every function.
            #[cfg(test)]
            pub(super) const ALL: &[$kind] = &[$($kind::$name,)*];
        }

        functions!(@map $kind, $map $args, $($name [$($x),+] $body;)*);
    };
    (@map $kind:ident, $map:ident($a:ident), $($name:ident [$x:ident] $body:expr;)*) => {
        /// `out[i] = f(a[i])`.
        ///
        /// # Panics
        /// If the lengths differ.
        pub(crate) fn $map(f: $kind, $a: &[i32], out: &mut [i32]) {
            assert_eq!($a.len(), out.len(), "one result per element");
            match f {$(
                $kind::$name => {
                    multiversion! {
                        fn run(a: &[i32], out: &mut [i32]) {
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
    (@map $kind:ident, $map:ident($a:ident, $b:ident), $(
        $name:ident [$x:ident, $y:ident] $body:expr;
    )*) => {
        /// `out[i] = f(a[i], b[i])`.
        ///
        /// # Panics
        /// If the lengths differ.
        pub(crate) fn $map(f: $kind, $a: &[i32], $b: &[i32], out: &mut [i32]) {
            assert!($a.len() == out.len() && $b.len() == out.len(), "one result per pair");
            match f {$(
                $kind::$name => {
                    multiversion! {
                        fn run(a: &[i32], b: &[i32], out: &mut [i32]) {
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
    IntUnary, map1_i32(a),
    Abs |x| x.wrapping_abs();
    Neg |x| x.wrapping_neg();
    Sign |x| x.signum();
    Relu |x| x.max(0);
    Square |x| x.wrapping_mul(x);
    BitNot |x| !x;
    LogicalNot |x| i32::from(x == 0);
}

functions! {
    /// A function of two integers.
    IntBinary, map2_i32(a, b),
    Add |a, b| a.wrapping_add(b);
    Sub |a, b| a.wrapping_sub(b);
    Mul |a, b| a.wrapping_mul(b);
    Maximum |a, b| a.max(b);
    Minimum |a, b| a.min(b);
    /// Toward minus infinity; by zero 0, so the other quotients and remainders.
    FloorDivide |a, b| floor_divide(a, b);
    TruncDivide |a, b| trunc_divide(a, b);
    /// With the sign of the divisor.
    Remainder |a, b| if b == 0 { 0 } else { a.wrapping_sub(floor_divide(a, b).wrapping_mul(b)) };
    /// With the sign of the dividend.
    Fmod |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) };
    BitAnd |a, b| a & b;
    BitOr |a, b| a | b;
    BitXor |a, b| a ^ b;
    /// By 32 or more, or fewer than none: nothing is left.
    ShiftLeft |a, b| if (0..32).contains(&b) { a << b } else { 0 };
    /// By 32 or more, or fewer than none: the sign is left.
    ShiftRight |a, b| a >> if (0..32).contains(&b) { b } else { 31 };
    /// 1 where it holds, else 0; so the next ones.
    Equal |a, b| i32::from(a == b);
    NotEqual |a, b| i32::from(a != b);
    Less |a, b| i32::from(a < b);
    LessEqual |a, b| i32::from(a <= b);
    Greater |a, b| i32::from(a > b);
    GreaterEqual |a, b| i32::from(a >= b);
    LogicalAnd |a, b| i32::from((a != 0) & (b != 0));
    LogicalOr |a, b| i32::from((a | b) != 0);
    LogicalXor |a, b| i32::from((a != 0) != (b != 0));
}

/// Toward zero; by zero 0.
#[inline(always)]
fn trunc_divide(a: i32, b: i32) -> i32 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

/// Toward minus infinity; by zero 0.
#[inline(always)]
fn floor_divide(a: i32, b: i32) -> i32 {
    let q = trunc_divide(a, b);
    let inexact = q.wrapping_mul(b) != a;
    if b != 0 && inexact && (a < 0) != (b < 0) { q - 1 } else { q }
}
