//! Three operands, and choices.

use super::{build_pointwise, round_to_f32};
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::PointwiseOp;
use crate::row::{OpRow, row};
use crate::rows::BuiltForm;
use crate::scalar::HostScalar;
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
        .torch(&["where.self where.self_out (condition, self, other)"]),
    row("masked_fill", &["x", "mask"], UpstreamLayer::Decomposed, build_masked_fill)
        .attributes(&[("value", "")])
        .torch(&[
            "masked_fill.Scalar masked_fill_.Scalar masked_fill.Scalar_out (self, mask, value=)",
        ]),
    row("clamp_tensor", &["x", "min", "max"], UpstreamLayer::Decomposed, build_tensor_clamp),
    row("addcmul", &["x", "a", "b"], UpstreamLayer::Decomposed, build_addcmul)
        .attributes(&[("value", "1")])
        .torch(&["addcmul addcmul_ addcmul.out (self, tensor1, tensor2, value=)"]),
    row("addcdiv", &["x", "a", "b"], UpstreamLayer::Decomposed, build_addcdiv)
        .attributes(&[("value", "1")])
        .torch(&["addcdiv addcdiv_ addcdiv.out (self, tensor1, tensor2, value=)"]),
    row("lerp", &["a", "b", "weight"], UpstreamLayer::Decomposed, build_lerp).torch(&[
        "lerp.Tensor lerp_.Tensor lerp.Tensor_out (self, end, weight)",
        "lerp.Scalar lerp_.Scalar lerp.Scalar_out (self, end, weight)",
    ]),
];
