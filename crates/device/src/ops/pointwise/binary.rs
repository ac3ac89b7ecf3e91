//! Arithmetic of two operands.
//!
//! Integer division by zero gives 0, and so do its remainders. A shift by all bits or more, or by a
//! negative number, leaves nothing on the left and the sign on the right. Bool subtraction is `xor`.

use super::{Attrs, Built, built, ints, rounded, table, two, two_int};
use crate::kernels::pointwise::{Pointwise, Yields};
use crate::scalar::Scalar;
use zellige_math::{Binary, IntBinary, Whole, ternary};

/// `a + alpha b`, or with the sign `-1`, `a - alpha b`.
fn sum(a: &mut Attrs, negative: bool, f: Binary, g: IntBinary) -> Built {
    let alpha = a.scalar("alpha", Some(Scalar::Int(1)))?;
    if alpha.whole() == Some(1) {
        return built(two_int(a, f, g));
    }
    let factor = if negative { -rounded(alpha) } else { rounded(alpha) };
    let op =
        Pointwise::new(a.op, 2).float(move |x, out| ternary::add_scaled(x[0], x[1], factor, out));
    let whole = alpha.whole().map(|n| if negative { n.wrapping_neg() } else { n });
    #[allow(clippy::cast_possible_truncation, reason = "a factor wraps as the product does")]
    built(match whole {
        Some(n) => op.int(
            move |x, out| ternary::add_scaled_i32(x[0], x[1], n as i32, out),
            move |x, out| ternary::add_scaled_i64(x[0], x[1], n, out),
        ),
        None => op,
    })
}

fn div(a: &mut Attrs) -> Built {
    let mode = a.word("rounding_mode", "none", &["none", "trunc", "floor"])?;
    built(match mode.as_str() {
        "trunc" => two_int(a, Binary::TruncDivide, IntBinary::TruncDivide),
        "floor" => two_int(a, Binary::FloorDivide, IntBinary::FloorDivide),
        _ => two(a, Binary::Div).yields(Yields::Float),
    })
}

/// Integers and bool only.
fn bits(a: &Attrs, g: IntBinary) -> Built {
    built(ints(Pointwise::new(a.op, 2), g))
}

fn pow(a: &mut Attrs) -> Built {
    fn powers<T: Whole>(x: &[&[T]], out: &mut [T]) {
        for (out, (a, b)) in out.iter_mut().zip(x[0].iter().zip(x[1])) {
            *out = a.power(*b);
        }
    }
    built(two(a, Binary::Pow).int(powers, powers).transcendental())
}

/// Floats; integers become float32.
fn float(a: &Attrs, f: Binary) -> Pointwise {
    two(a, f).yields(Yields::Float)
}

fn hypot(a: &mut Attrs) -> Built {
    let op = Pointwise::new(a.op, 2).float(|x, out| ternary::hypot(x[0], x[1], out));
    built(op.transcendental())
}

/// The complement; of bool, the other one.
fn bitwise_not(a: &mut Attrs) -> Built {
    fn not<T: Copy + std::ops::Not<Output = T>>(x: &[&[T]], out: &mut [T]) {
        out.iter_mut().zip(x[0]).for_each(|(out, x)| *out = !*x);
    }
    Ok(std::sync::Arc::new(Pointwise::new(a.op, 1).int(not, not).flipping()))
}

table! {
    "add" ("a", "b") ["alpha" = "1"] Native, |a| sum(a, false, Binary::Add, IntBinary::Add);
    "sub" ("a", "b") ["alpha" = "1"] Native, |a| sum(a, true, Binary::Sub, IntBinary::Sub);
    "mul" ("a", "b") [] Native, |a| built(two_int(a, Binary::Mul, IntBinary::Mul));
    "div" ("a", "b") ["rounding_mode" = "none"] Native, div;
    "floor_divide" ("a", "b") [] Decomposed,
        |a| built(two_int(a, Binary::FloorDivide, IntBinary::FloorDivide));
    "remainder" ("a", "b") [] Decomposed,
        |a| built(two_int(a, Binary::Remainder, IntBinary::Remainder));
    "fmod" ("a", "b") [] Decomposed, |a| built(two_int(a, Binary::Fmod, IntBinary::Fmod));
    "pow" ("a", "b") [] Decomposed, pow;
    "maximum" ("a", "b") [] Native, |a| built(two_int(a, Binary::Maximum, IntBinary::Maximum));
    "minimum" ("a", "b") [] Native, |a| built(two_int(a, Binary::Minimum, IntBinary::Minimum));
    "atan2" ("a", "b") [] Fallback, |a| built(float(a, Binary::Atan2).transcendental());
    "hypot" ("a", "b") [] Fallback, hypot;
    "logaddexp" ("a", "b") [] Decomposed, |a| built(two(a, Binary::Logaddexp).transcendental());
    "copysign" ("a", "b") [] Decomposed, |a| built(float(a, Binary::Copysign));
    "bitwise_and" ("a", "b") [] Native, |a| bits(a, IntBinary::BitAnd);
    "bitwise_or" ("a", "b") [] Fallback, |a| bits(a, IntBinary::BitOr);
    "bitwise_xor" ("a", "b") [] Fallback, |a| bits(a, IntBinary::BitXor);
    "bitwise_left_shift" ("a", "b") [] Fallback, |a| bits(a, IntBinary::ShiftLeft);
    "bitwise_right_shift" ("a", "b") [] Fallback, |a| bits(a, IntBinary::ShiftRight);
    "bitwise_not" ("x") [] Decomposed, bitwise_not;
}
