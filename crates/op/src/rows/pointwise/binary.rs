//! Arithmetic of two operands.
//!
//! Integer division by zero gives 0, and so do its remainders. A shift by all bits or more, or by a
//! negative number, leaves nothing on the left and the sign on the right. Bool subtraction is `xor`.

use super::{binary_int_op, binary_op, build_pointwise, round_to_f32};
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::{PointwiseOp, ResultDtype};
use crate::row::{OpRow, SuperDsc, row};
use crate::rows::BuiltForm;
use crate::scalar::HostScalar;
use zellige_math::{Binary, FloatFunction, IntBinary, IntFunction};

/// `a + alpha b`, or with the sign `-1`, `a - alpha b`.
fn build_scaled_sum(a: &mut OpAttributes, negative: bool, f: Binary, g: IntBinary) -> BuiltForm {
    let alpha = a.take_scalar("alpha", Some(HostScalar::Int(1)))?;
    if alpha.to_whole() == Some(1) {
        return build_pointwise(binary_int_op(a, f, g));
    }
    let factor = if negative { -round_to_f32(alpha) } else { round_to_f32(alpha) };
    let op = PointwiseOp::new(a.op, 2).with_float(FloatFunction::AddScaled(factor));
    let whole = alpha.to_whole().map(|n| if negative { n.wrapping_neg() } else { n });
    build_pointwise(op.with_maybe_int(whole.map(IntFunction::AddScaled)))
}

fn build_div(a: &mut OpAttributes) -> BuiltForm {
    let mode = a.take_word("rounding_mode", "none", &["none", "trunc", "floor"])?;
    build_pointwise(match mode.as_str() {
        "trunc" => binary_int_op(a, Binary::TruncDivide, IntBinary::TruncDivide),
        "floor" => binary_int_op(a, Binary::FloorDivide, IntBinary::FloorDivide),
        _ => binary_op(a, Binary::Div).with_result_dtype(ResultDtype::Float),
    })
}

/// Integers and bool only.
fn build_bitwise(a: &OpAttributes, g: IntBinary) -> BuiltForm {
    build_pointwise(PointwiseOp::new(a.op, 2).with_int(IntFunction::Binary(g)))
}

fn build_pow(a: &mut OpAttributes) -> BuiltForm {
    build_pointwise(binary_op(a, Binary::Pow).with_int(IntFunction::Power).mark_transcendental())
}

/// Floats; integers become float32.
fn float_binary_op(a: &OpAttributes, f: Binary) -> PointwiseOp {
    binary_op(a, f).with_result_dtype(ResultDtype::Float)
}

fn build_hypot(a: &mut OpAttributes) -> BuiltForm {
    let op = PointwiseOp::new(a.op, 2).with_float(FloatFunction::Hypot);
    build_pointwise(op.mark_transcendental())
}

/// The complement; of bool, the other one.
fn build_bitwise_not(a: &mut OpAttributes) -> BuiltForm {
    build_pointwise(PointwiseOp::new(a.op, 1).with_int(IntFunction::Not).with_sign_flip())
}

pub(crate) static ROWS: &[OpRow] = &[
    row("add", &["a", "b"], UpstreamLayer::Native, |a| build_scaled_sum(a, false, Binary::Add, IntBinary::Add)).attributes(&[("alpha", "1")]).superdsc_as(SuperDsc::from_function("add").with_int32("addi32toi32").only_where("alpha", "1", "add with a factor is two functions; multiply first")).ktir("addf(a, mulf(b, alpha))").onnx("Add").torch(&["add.Tensor add_.Tensor add.out (self, other, alpha=)", "add.Scalar add_.Scalar add.Scalar_out (self, other, alpha=)"]),
    row("sub", &["a", "b"], UpstreamLayer::Native, |a| build_scaled_sum(a, true, Binary::Sub, IntBinary::Sub)).attributes(&[("alpha", "1")]).superdsc_as(SuperDsc::from_function("sub").only_where("alpha", "1", "sub with a factor is two functions; multiply first")).ktir("subf(a, mulf(b, alpha))").onnx("Sub").torch(&["sub.Tensor sub_.Tensor sub.out (self, other, alpha=)", "sub.Scalar sub_.Scalar sub.Scalar_out (self, other, alpha=)"]),
    row("mul", &["a", "b"], UpstreamLayer::Native, |a| build_pointwise(binary_int_op(a, Binary::Mul, IntBinary::Mul))).superdsc_as(SuperDsc::from_function("mul").with_int32("muli32toi32")).ktir("mulf(a, b)").onnx("Mul").torch(&["mul.Tensor mul_.Tensor mul.out (self, other)", "mul.Scalar mul_.Scalar mul.Scalar_out (self, other)"]),
    row("div", &["a", "b"], UpstreamLayer::Native, build_div).attributes(&[("rounding_mode", "none")]).superdsc_as(SuperDsc::from_function("realdiv").only_where("rounding_mode", "none", "a quotient that is rounded to an integer is no function")).ktir_by("rounding_mode", &[("none", "divf(a, b)")]).torch(&["div.Tensor div_.Tensor div.out (self, other)", "div.Scalar div_.Scalar div.Scalar_out (self, other)", "div.Tensor_mode div_.Tensor_mode div.out_mode (self, other, rounding_mode=)", "div.Scalar_mode div_.Scalar_mode div.Scalar_mode_out (self, other, rounding_mode=)"]),
    row("floor_divide", &["a", "b"], UpstreamLayer::Decomposed, |a| build_pointwise(binary_int_op(a, Binary::FloorDivide, IntBinary::FloorDivide))).torch(&["floor_divide floor_divide_.Tensor floor_divide.out (self, other)", "floor_divide.Scalar floor_divide_.Scalar floor_divide.Scalar_out (self, other)"]),
    row("remainder", &["a", "b"], UpstreamLayer::Decomposed, |a| build_pointwise(binary_int_op(a, Binary::Remainder, IntBinary::Remainder))).whole("a rounded quotient would lose digits").torch(&["remainder.Tensor remainder_.Tensor remainder.Tensor_out (self, other)", "remainder.Scalar remainder_.Scalar remainder.Scalar_out (self, other)", "remainder.Scalar_Tensor remainder.Scalar_Tensor_out (self, other)"]),
    row("fmod", &["a", "b"], UpstreamLayer::Decomposed, |a| build_pointwise(binary_int_op(a, Binary::Fmod, IntBinary::Fmod))).whole("a rounded quotient would lose digits").torch(&["fmod.Tensor fmod_.Tensor fmod.Tensor_out (self, other)", "fmod.Scalar fmod_.Scalar fmod.Scalar_out (self, other)"]),
    row("pow", &["a", "b"], UpstreamLayer::Decomposed, build_pow).onnx("Pow").torch(&["pow.Tensor_Tensor pow_.Tensor pow.Tensor_Tensor_out (self, exponent)", "pow.Tensor_Scalar pow_.Scalar pow.Tensor_Scalar_out (self, exponent)", "pow.Scalar pow.Scalar_out (self, exponent)"]),
    row("maximum", &["a", "b"], UpstreamLayer::Native, |a| build_pointwise(binary_int_op(a, Binary::Maximum, IntBinary::Maximum))).superdsc("maximum").ktir("maximumf(a, b)").torch(&["clamp_min.Tensor clamp_min_.Tensor clamp_min.Tensor_out (self, min)", "maximum maximum.out (self, other)"]),
    row("minimum", &["a", "b"], UpstreamLayer::Native, |a| build_pointwise(binary_int_op(a, Binary::Minimum, IntBinary::Minimum))).superdsc("minimum").ktir("minimumf(a, b)").torch(&["clamp_max.Tensor clamp_max_.Tensor clamp_max.Tensor_out (self, max)", "minimum minimum.out (self, other)"]),
    row("atan2", &["a", "b"], UpstreamLayer::Fallback, |a| build_pointwise(float_binary_op(a, Binary::Atan2).mark_transcendental())).torch(&["atan2 atan2_ atan2.out (self, other)"]),
    row("hypot", &["a", "b"], UpstreamLayer::Fallback, build_hypot).torch(&["hypot hypot_ hypot.out (self, other)"]),
    row("logaddexp", &["a", "b"], UpstreamLayer::Decomposed, |a| build_pointwise(binary_op(a, Binary::Logaddexp).mark_transcendental())).torch(&["logaddexp logaddexp.out (self, other)"]),
    row("copysign", &["a", "b"], UpstreamLayer::Decomposed, |a| build_pointwise(float_binary_op(a, Binary::Copysign))).whole("comparisons do not see the sign of zero").torch(&["copysign.Tensor copysign_.Tensor copysign.out (self, other)", "copysign.Scalar copysign_.Scalar copysign.Scalar_out (self, other)"]),
    row("bitwise_and", &["a", "b"], UpstreamLayer::Native, |a| build_bitwise(a, IntBinary::BitAnd)).onnx("BitwiseAnd").torch(&["bitwise_and.Tensor bitwise_and_.Tensor bitwise_and.Tensor_out (self, other)", "bitwise_and.Scalar bitwise_and_.Scalar bitwise_and.Scalar_out (self, other)", "bitwise_and.Scalar_Tensor bitwise_and.Scalar_Tensor_out (self, other)"]),
    row("bitwise_or", &["a", "b"], UpstreamLayer::Fallback, |a| build_bitwise(a, IntBinary::BitOr)).onnx("BitwiseOr").torch(&["bitwise_or.Tensor bitwise_or_.Tensor bitwise_or.Tensor_out (self, other)", "bitwise_or.Scalar bitwise_or_.Scalar bitwise_or.Scalar_out (self, other)", "bitwise_or.Scalar_Tensor bitwise_or.Scalar_Tensor_out (self, other)"]),
    row("bitwise_xor", &["a", "b"], UpstreamLayer::Fallback, |a| build_bitwise(a, IntBinary::BitXor)).onnx("BitwiseXor").torch(&["bitwise_xor.Tensor bitwise_xor_.Tensor bitwise_xor.Tensor_out (self, other)", "bitwise_xor.Scalar bitwise_xor_.Scalar bitwise_xor.Scalar_out (self, other)", "bitwise_xor.Scalar_Tensor bitwise_xor.Scalar_Tensor_out (self, other)"]),
    row("bitwise_left_shift", &["a", "b"], UpstreamLayer::Fallback, |a| build_bitwise(a, IntBinary::ShiftLeft)).torch(&["bitwise_left_shift.Tensor bitwise_left_shift_.Tensor bitwise_left_shift.Tensor_out (self, other)", "bitwise_left_shift.Tensor_Scalar bitwise_left_shift_.Tensor_Scalar bitwise_left_shift.Tensor_Scalar_out (self, other)"]),
    row("bitwise_right_shift", &["a", "b"], UpstreamLayer::Fallback, |a| build_bitwise(a, IntBinary::ShiftRight)).torch(&["bitwise_right_shift.Tensor bitwise_right_shift_.Tensor bitwise_right_shift.Tensor_out (self, other)", "bitwise_right_shift.Tensor_Scalar bitwise_right_shift_.Tensor_Scalar bitwise_right_shift.Tensor_Scalar_out (self, other)"]),
    row("bitwise_not", &["x"], UpstreamLayer::Decomposed, build_bitwise_not).onnx("BitwiseNot").torch(&["bitwise_not bitwise_not_ bitwise_not.out (self)"]),
];
