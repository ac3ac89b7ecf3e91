//! Functions of three operands, and selections.

use super::{build_pointwise, round_to_f32};
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::PointwiseOp;
use crate::row::{OpRow, row};
use crate::rows::BuiltForm;
use crate::scalar::HostScalar;
use crate::torch_operator::{attribute, operand, operator};
use zellige_math::{FloatFunction, IntFunction};

fn build_choice(a: &mut OpAttributes) -> BuiltForm {
    let op =
        PointwiseOp::new(a.op, 3).with_float(FloatFunction::Select).with_int(IntFunction::Select);
    build_pointwise(op.with_condition(0))
}

/// The value where the mask is true.
fn build_masked_fill(a: &mut OpAttributes) -> BuiltForm {
    let value = a.take_scalar("value", None)?;
    let op = PointwiseOp::new(a.op, 2).with_float(FloatFunction::MaskedFill(round_to_f32(value)));
    build_pointwise(
        op.with_condition(1).with_maybe_int(value.to_whole().map(IntFunction::MaskedFill)),
    )
}

fn build_tensor_clamp(a: &mut OpAttributes) -> BuiltForm {
    let op = PointwiseOp::new(a.op, 3).with_float(FloatFunction::ClampBetween);
    build_pointwise(op.with_int(IntFunction::ClampBetween))
}

fn build_addcmul(a: &mut OpAttributes) -> BuiltForm {
    let value = a.take_scalar("value", Some(HostScalar::Int(1)))?;
    let op = PointwiseOp::new(a.op, 3).with_float(FloatFunction::Addcmul(round_to_f32(value)));
    build_pointwise(op.with_maybe_int(value.to_whole().map(IntFunction::Addcmul)))
}

fn build_addcdiv(a: &mut OpAttributes) -> BuiltForm {
    let value = round_to_f32(a.take_scalar("value", Some(HostScalar::Int(1)))?);
    build_pointwise(PointwiseOp::new(a.op, 3).with_float(FloatFunction::Addcdiv(value)))
}

fn build_lerp(a: &mut OpAttributes) -> BuiltForm {
    build_pointwise(PointwiseOp::new(a.op, 3).with_float(FloatFunction::Lerp))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("where", &["condition", "a", "b"], UpstreamLayer::Native, build_choice)
        .superdsc("where3")
        .ktir("select(cmpf_une(condition, 0), a, b)")
        .torch(&[operator(
            &["where.self", "where.self_out"],
            &[operand("condition"), operand("self"), operand("other")],
        )]),
    row("masked_fill", &["x", "mask"], UpstreamLayer::Decomposed, build_masked_fill)
        .attributes(&[("value", "")])
        .torch(&[operator(
            &["masked_fill.Scalar", "masked_fill_.Scalar", "masked_fill.Scalar_out"],
            &[operand("self"), operand("mask"), attribute("value")],
        )]),
    row("clamp_tensor", &["x", "min", "max"], UpstreamLayer::Decomposed, build_tensor_clamp),
    row("addcmul", &["x", "a", "b"], UpstreamLayer::Decomposed, build_addcmul)
        .attributes(&[("value", "1")])
        .torch(&[operator(
            &["addcmul", "addcmul_", "addcmul.out"],
            &[operand("self"), operand("tensor1"), operand("tensor2"), attribute("value")],
        )]),
    row("addcdiv", &["x", "a", "b"], UpstreamLayer::Decomposed, build_addcdiv)
        .attributes(&[("value", "1")])
        .torch(&[operator(
            &["addcdiv", "addcdiv_", "addcdiv.out"],
            &[operand("self"), operand("tensor1"), operand("tensor2"), attribute("value")],
        )]),
    row("lerp", &["a", "b", "weight"], UpstreamLayer::Decomposed, build_lerp).torch(&[
        operator(
            &["lerp.Tensor", "lerp_.Tensor", "lerp.Tensor_out"],
            &[operand("self"), operand("end"), operand("weight")],
        ),
        operator(
            &["lerp.Scalar", "lerp_.Scalar", "lerp.Scalar_out"],
            &[operand("self"), operand("end"), operand("weight")],
        ),
    ]),
];
