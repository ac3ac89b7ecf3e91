//! Operations element by element, one table per kind.

mod activation;
mod binary;
mod compare;
mod convert;
mod ternary;
mod unary;

use super::{Attrs, Entry};
use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::pointwise::{Pointwise, Yields};
use crate::scalar::Scalar;
use std::sync::Arc;
use zellige_math::{
    Binary, IntBinary, IntUnary, Unary, map1, map1_i32, map1_i64, map2, map2_i32, map2_i64,
};

pub(super) static TABLES: &[&[Entry]] = &[
    unary::TABLE,
    activation::TABLE,
    binary::TABLE,
    compare::TABLE,
    ternary::TABLE,
    convert::TABLE,
];

/// What the table's functions give.
type Built = Result<Arc<dyn Kernel>>;

/// A table: `"name" (operands) [attribute = default] Layer, function of the attributes`.
macro_rules! table {
    ($($name:literal ($($operand:literal),*) [$($attr:literal = $default:literal),*]
        $layer:ident, $build:expr;)*) => {
        pub(in crate::ops) static TABLE: &[$crate::ops::Entry] = &[$($crate::ops::Entry {
            name: $name,
            operands: &[$($operand),*],
            attributes: &[$(($attr, $default)),*],
            layer: $crate::ops::Layer::$layer,
            build: $build,
        }),*];
    };
}
pub(in crate::ops) use table;

/// One operand.
fn one(a: &Attrs, f: Unary) -> Pointwise {
    Pointwise::new(a.op, 1).float(move |x, out| map1(f, x[0], out))
}

/// One operand, integers too.
fn one_int(a: &Attrs, f: Unary, g: IntUnary) -> Pointwise {
    let long = move |x: &[&[i64]], out: &mut [i64]| map1_i64(g, x[0], out);
    one(a, f).int(move |x, out| map1_i32(g, x[0], out), long)
}

/// Two operands.
fn two(a: &Attrs, f: Binary) -> Pointwise {
    Pointwise::new(a.op, 2).float(move |x, out| map2(f, x[0], x[1], out))
}

/// Two operands, integers too.
fn two_int(a: &Attrs, f: Binary, g: IntBinary) -> Pointwise {
    ints(two(a, f), g)
}

/// The function of two integers.
fn ints(op: Pointwise, g: IntBinary) -> Pointwise {
    let long = move |x: &[&[i64]], out: &mut [i64]| map2_i64(g, x[0], x[1], out);
    op.int(move |x, out| map2_i32(g, x[0], x[1], out), long)
}

/// A function of the SFU's slow path that turns integers into float32.
fn slow(a: &Attrs, f: Unary) -> Built {
    built(one(a, f).yields(Yields::Float).transcendental())
}

fn built(op: Pointwise) -> Built {
    Ok(Arc::new(op))
}

/// A number as the device computes with it.
#[allow(clippy::cast_possible_truncation, reason = "attributes round to float32 as operands do")]
fn narrow(x: f64) -> f32 {
    x as f32
}

/// The same of a number that may be a whole one, rounded once.
#[allow(clippy::cast_precision_loss, reason = "attributes round to float32 as operands do")]
fn rounded(x: Scalar) -> f32 {
    match x {
        Scalar::Int(n) => n as f32,
        Scalar::Float(x) => narrow(x),
    }
}

/// The elements as they are.
fn copied<T: Copy>(x: &[&[T]], out: &mut [T]) {
    out.copy_from_slice(x[0]);
}
