//! Operations element by element, one table per kind.

mod activation;
mod binary;
mod compare;
mod convert;
mod ternary;
mod unary;

use super::Built;
use crate::attributes::Attributes;
use crate::forms::{Form, Pointwise, Yields};
use crate::row::OpRow;
use crate::scalar::Scalar;
use zellige_math::{Binary, FloatFunction, IntBinary, IntFunction, IntUnary, Unary};

/// The kinds, in the order of the table.
pub(super) static FAMILIES: &[&[OpRow]] =
    &[unary::ROWS, activation::ROWS, binary::ROWS, compare::ROWS, ternary::ROWS, convert::ROWS];

/// One operand.
fn one(a: &Attributes, f: Unary) -> Pointwise {
    Pointwise::new(a.op, 1).float(FloatFunction::Unary(f))
}

/// One operand, integers too.
fn one_int(a: &Attributes, f: Unary, g: IntUnary) -> Pointwise {
    one(a, f).int(IntFunction::Unary(g))
}

/// Two operands.
fn two(a: &Attributes, f: Binary) -> Pointwise {
    Pointwise::new(a.op, 2).float(FloatFunction::Binary(f))
}

/// Two operands, integers too.
fn two_int(a: &Attributes, f: Binary, g: IntBinary) -> Pointwise {
    two(a, f).int(IntFunction::Binary(g))
}

/// A function of the vector unit's slow path that turns integers into float32.
fn slow(a: &Attributes, f: Unary) -> Built {
    built(one(a, f).yields(Yields::Float).transcendental())
}

fn built(op: Pointwise) -> Built {
    Ok(Form::Pointwise(op))
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
