//! Arithmetic of two operands.
//!
//! Integer division by zero gives 0, and so do its remainders. A shift by 32 or more, or by a negative
//! number, leaves nothing on the left and the sign on the right. Bool subtraction is `xor`.

use super::{Attrs, Built, built, narrow, table, two, two_int, whole};
use crate::kernels::pointwise::{Pointwise, Yields};
use crate::math::{Binary, IntBinary, map2_i32, ternary};

/// `a + alpha b`, or with the sign `-1`, `a - alpha b`.
fn sum(a: &mut Attrs, sign: f64, f: Binary, g: IntBinary) -> Built {
    let alpha = a.number("alpha", Some(1.0))?;
    if alpha == 1.0 {
        return built(two_int(a, f, g));
    }
    let factor = narrow(sign * alpha);
    let op =
        Pointwise::new(a.op, 2).float(move |x, out| ternary::add_scaled(x[0], x[1], factor, out));
    built(match whole(sign * alpha) {
        Some(n) => op.int(move |x, out| ternary::add_scaled_i32(x[0], x[1], n, out)),
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
    built(Pointwise::new(a.op, 2).int(move |x, out| map2_i32(g, x[0], x[1], out)))
}

fn pow(a: &mut Attrs) -> Built {
    let int = |x: &[&[i32]], out: &mut [i32]| {
        for (out, (a, b)) in out.iter_mut().zip(x[0].iter().zip(x[1])) {
            *out = ternary::power(*a, *b);
        }
    };
    built(two(a, Binary::Pow).int(int).transcendental())
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
    let int = |x: &[&[i32]], out: &mut [i32]| {
        out.iter_mut().zip(x[0]).for_each(|(out, x)| *out = !x);
    };
    Ok(std::sync::Arc::new(Pointwise::new(a.op, 1).int(int).flipping()))
}

table! {
    "add" ("a", "b") ["alpha" = "1"] Native, |a| sum(a, 1.0, Binary::Add, IntBinary::Add);
    "sub" ("a", "b") ["alpha" = "1"] Native, |a| sum(a, -1.0, Binary::Sub, IntBinary::Sub);
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
