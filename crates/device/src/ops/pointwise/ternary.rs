//! Three operands, and choices.

use super::{Attrs, Built, built, rounded, table};
use crate::kernels::pointwise::Pointwise;
use crate::scalar::Scalar;
use zellige_math::{Whole, select, select_i32, select_i64, ternary};

fn choose(a: &mut Attrs) -> Built {
    let op = Pointwise::new(a.op, 3).float(|x, out| select(x[0], x[1], x[2], out)).int(
        |x, out| select_i32(x[0], x[1], x[2], out),
        |x, out| select_i64(x[0], x[1], x[2], out),
    );
    built(op.condition(0))
}

/// The value where the mask is true.
fn masked_fill(a: &mut Attrs) -> Built {
    fn fill<T: Copy + Default + PartialEq>(number: T, x: &[&[T]], out: &mut [T]) {
        let places = out.iter_mut().zip(x[0].iter().zip(x[1]));
        places.for_each(|(out, (x, mask))| *out = if *mask != T::default() { number } else { *x });
    }
    let value = a.scalar("value", None)?;
    let number = rounded(value);
    let op = Pointwise::new(a.op, 2).condition(1).float(move |x, out| fill(number, x, out));
    built(match value.whole() {
        Some(n) => {
            op.int(move |x, out| fill(i32::nearest(n), x, out), move |x, out| fill(n, x, out))
        }
        None => op,
    })
}

fn clamp(a: &mut Attrs) -> Built {
    let op =
        Pointwise::new(a.op, 3).float(|x, out| ternary::clamp_between(x[0], x[1], x[2], out)).int(
            |x, out| ternary::clamp_between_i32(x[0], x[1], x[2], out),
            |x, out| ternary::clamp_between_i64(x[0], x[1], x[2], out),
        );
    built(op)
}

fn addcmul(a: &mut Attrs) -> Built {
    let value = a.scalar("value", Some(Scalar::Int(1)))?;
    let number = rounded(value);
    let op = Pointwise::new(a.op, 3)
        .float(move |x, out| ternary::addcmul(x[0], x[1], x[2], number, out));
    #[allow(clippy::cast_possible_truncation, reason = "a factor wraps as the product does")]
    built(match value.whole() {
        Some(n) => op.int(
            move |x, out| ternary::addcmul_i32(x[0], x[1], x[2], n as i32, out),
            move |x, out| ternary::addcmul_i64(x[0], x[1], x[2], n, out),
        ),
        None => op,
    })
}

fn addcdiv(a: &mut Attrs) -> Built {
    let value = rounded(a.scalar("value", Some(Scalar::Int(1)))?);
    built(
        Pointwise::new(a.op, 3).float(move |x, out| ternary::addcdiv(x[0], x[1], x[2], value, out)),
    )
}

fn lerp(a: &mut Attrs) -> Built {
    built(Pointwise::new(a.op, 3).float(|x, out| ternary::lerp(x[0], x[1], x[2], out)))
}

table! {
    "where" ("condition", "a", "b") [] Native, choose;
    "masked_fill" ("x", "mask") ["value" = ""] Decomposed, masked_fill;
    "clamp_tensor" ("x", "min", "max") [] Decomposed, clamp;
    "addcmul" ("x", "a", "b") ["value" = "1"] Decomposed, addcmul;
    "addcdiv" ("x", "a", "b") ["value" = "1"] Decomposed, addcdiv;
    "lerp" ("a", "b", "weight") [] Decomposed, lerp;
}
