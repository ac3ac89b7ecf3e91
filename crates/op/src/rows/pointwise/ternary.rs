//! Three operands, and choices.

use super::{built, rounded};
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::forms::Pointwise;
use crate::row::{OpRow, row};
use crate::rows::Built;
use crate::scalar::Scalar;
use zellige_math::{FloatFunction, IntFunction};

fn choose(a: &mut Attributes) -> Built {
    let op = Pointwise::new(a.op, 3).float(FloatFunction::Select).int(IntFunction::Select);
    built(op.condition(0))
}

/// The value where the mask is true.
fn masked_fill(a: &mut Attributes) -> Built {
    let value = a.scalar("value", None)?;
    let op = Pointwise::new(a.op, 2).float(FloatFunction::MaskedFill(rounded(value)));
    built(op.condition(1).maybe_int(value.whole().map(IntFunction::MaskedFill)))
}

fn clamp(a: &mut Attributes) -> Built {
    let op = Pointwise::new(a.op, 3).float(FloatFunction::ClampBetween);
    built(op.int(IntFunction::ClampBetween))
}

fn addcmul(a: &mut Attributes) -> Built {
    let value = a.scalar("value", Some(Scalar::Int(1)))?;
    let op = Pointwise::new(a.op, 3).float(FloatFunction::Addcmul(rounded(value)));
    built(op.maybe_int(value.whole().map(IntFunction::Addcmul)))
}

fn addcdiv(a: &mut Attributes) -> Built {
    let value = rounded(a.scalar("value", Some(Scalar::Int(1)))?);
    built(Pointwise::new(a.op, 3).float(FloatFunction::Addcdiv(value)))
}

fn lerp(a: &mut Attributes) -> Built {
    built(Pointwise::new(a.op, 3).float(FloatFunction::Lerp))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("where", &["condition", "a", "b"], Layer::Native, choose)
        .superdsc("where3")
        .ktir("select(cmpf_une(condition, 0), a, b)")
        .torch(&["where.self where.self_out (condition, self, other)"]),
    row("masked_fill", &["x", "mask"], Layer::Decomposed, masked_fill)
        .attributes(&[("value", "")])
        .torch(&[
            "masked_fill.Scalar masked_fill_.Scalar masked_fill.Scalar_out (self, mask, value=)",
        ]),
    row("clamp_tensor", &["x", "min", "max"], Layer::Decomposed, clamp),
    row("addcmul", &["x", "a", "b"], Layer::Decomposed, addcmul)
        .attributes(&[("value", "1")])
        .torch(&["addcmul addcmul_ addcmul.out (self, tensor1, tensor2, value=)"]),
    row("addcdiv", &["x", "a", "b"], Layer::Decomposed, addcdiv)
        .attributes(&[("value", "1")])
        .torch(&["addcdiv addcdiv_ addcdiv.out (self, tensor1, tensor2, value=)"]),
    row("lerp", &["a", "b", "weight"], Layer::Decomposed, lerp).torch(&[
        "lerp.Tensor lerp_.Tensor lerp.Tensor_out (self, end, weight)",
        "lerp.Scalar lerp_.Scalar lerp.Scalar_out (self, end, weight)",
    ]),
];
