//! Operations element by element, one table per kind.

mod activation;
mod binary;
mod compare;
mod convert;
mod ternary;
mod unary;

use super::BuiltForm;
use crate::attributes::OpAttributes;
use crate::forms::{OpForm, PointwiseOp, ResultDtype};
use crate::row::OpRow;
use crate::scalar::HostScalar;
use zellige_math::{Binary, FloatFunction, IntBinary, IntFunction, IntUnary, Unary};

/// The kinds, in the order of the table.
pub(super) static FAMILIES: &[&[OpRow]] =
    &[unary::ROWS, activation::ROWS, binary::ROWS, compare::ROWS, ternary::ROWS, convert::ROWS];

/// One operand.
fn unary_op(a: &OpAttributes, f: Unary) -> PointwiseOp {
    PointwiseOp::new(a.op, 1).with_float(FloatFunction::Unary(f))
}

/// One operand, integers too.
fn unary_int_op(a: &OpAttributes, f: Unary, g: IntUnary) -> PointwiseOp {
    unary_op(a, f).with_int(IntFunction::Unary(g))
}

/// Two operands.
fn binary_op(a: &OpAttributes, f: Binary) -> PointwiseOp {
    PointwiseOp::new(a.op, 2).with_float(FloatFunction::Binary(f))
}

/// Two operands, integers too.
fn binary_int_op(a: &OpAttributes, f: Binary, g: IntBinary) -> PointwiseOp {
    binary_op(a, f).with_int(IntFunction::Binary(g))
}

/// A function of the vector unit's slow path that turns integers into float32.
fn build_slow_unary(a: &OpAttributes, f: Unary) -> BuiltForm {
    build_pointwise(unary_op(a, f).with_result_dtype(ResultDtype::Float).mark_transcendental())
}

fn build_pointwise(op: PointwiseOp) -> BuiltForm {
    Ok(OpForm::Pointwise(op))
}

/// A number as the device computes with it.
#[allow(clippy::cast_possible_truncation, reason = "attributes round to float32 as operands do")]
fn narrow_to_f32(x: f64) -> f32 {
    x as f32
}

/// The same of a number that may be a whole one, rounded once.
#[allow(clippy::cast_precision_loss, reason = "attributes round to float32 as operands do")]
fn round_to_f32(x: HostScalar) -> f32 {
    match x {
        HostScalar::Int(n) => n as f32,
        HostScalar::Float(x) => narrow_to_f32(x),
    }
}
