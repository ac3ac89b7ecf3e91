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
use crate::torch_operator::{attribute, operand, operator};
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

/// The complement of all bits; of bool, the other truth value.
fn build_bitwise_not(a: &mut OpAttributes) -> BuiltForm {
    build_pointwise(PointwiseOp::new(a.op, 1).with_int(IntFunction::Not).with_sign_flip())
}

pub(crate) static ROWS: &[OpRow] = &[
    row("add", &["a", "b"], UpstreamLayer::Native, |a| {
        build_scaled_sum(a, false, Binary::Add, IntBinary::Add)
    })
    .attributes(&[("alpha", "1")])
    .superdsc_as(SuperDsc::from_function("add").with_int32("addi32toi32").only_where(
        "alpha",
        "1",
        "add with a factor is two functions; multiply first",
    ))
    .ktir("addf(a, mulf(b, alpha))")
    .onnx("Add")
    .torch(&[
        operator(
            &["add.Tensor", "add_.Tensor", "add.out"],
            &[operand("self"), operand("other"), attribute("alpha")],
        ),
        operator(
            &["add.Scalar", "add_.Scalar", "add.Scalar_out"],
            &[operand("self"), operand("other"), attribute("alpha")],
        ),
    ]),
    row("sub", &["a", "b"], UpstreamLayer::Native, |a| {
        build_scaled_sum(a, true, Binary::Sub, IntBinary::Sub)
    })
    .attributes(&[("alpha", "1")])
    .superdsc_as(SuperDsc::from_function("sub").only_where(
        "alpha",
        "1",
        "sub with a factor is two functions; multiply first",
    ))
    .ktir("subf(a, mulf(b, alpha))")
    .onnx("Sub")
    .torch(&[
        operator(
            &["sub.Tensor", "sub_.Tensor", "sub.out"],
            &[operand("self"), operand("other"), attribute("alpha")],
        ),
        operator(
            &["sub.Scalar", "sub_.Scalar", "sub.Scalar_out"],
            &[operand("self"), operand("other"), attribute("alpha")],
        ),
    ]),
    row("mul", &["a", "b"], UpstreamLayer::Native, |a| {
        build_pointwise(binary_int_op(a, Binary::Mul, IntBinary::Mul))
    })
    .superdsc_as(SuperDsc::from_function("mul").with_int32("muli32toi32"))
    .ktir("mulf(a, b)")
    .onnx("Mul")
    .torch(&[
        operator(&["mul.Tensor", "mul_.Tensor", "mul.out"], &[operand("self"), operand("other")]),
        operator(
            &["mul.Scalar", "mul_.Scalar", "mul.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("div", &["a", "b"], UpstreamLayer::Native, build_div)
        .attributes(&[("rounding_mode", "none")])
        .superdsc_as(SuperDsc::from_function("realdiv").only_where(
            "rounding_mode",
            "none",
            "a quotient that is rounded to an integer is no function",
        ))
        .ktir_by("rounding_mode", &[("none", "divf(a, b)")])
        .torch(&[
            operator(
                &["div.Tensor", "div_.Tensor", "div.out"],
                &[operand("self"), operand("other")],
            ),
            operator(
                &["div.Scalar", "div_.Scalar", "div.Scalar_out"],
                &[operand("self"), operand("other")],
            ),
            operator(
                &["div.Tensor_mode", "div_.Tensor_mode", "div.out_mode"],
                &[operand("self"), operand("other"), attribute("rounding_mode")],
            ),
            operator(
                &["div.Scalar_mode", "div_.Scalar_mode", "div.Scalar_mode_out"],
                &[operand("self"), operand("other"), attribute("rounding_mode")],
            ),
        ]),
    row("floor_divide", &["a", "b"], UpstreamLayer::Decomposed, |a| {
        build_pointwise(binary_int_op(a, Binary::FloorDivide, IntBinary::FloorDivide))
    })
    .torch(&[
        operator(
            &["floor_divide", "floor_divide_.Tensor", "floor_divide.out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["floor_divide.Scalar", "floor_divide_.Scalar", "floor_divide.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("remainder", &["a", "b"], UpstreamLayer::Decomposed, |a| {
        build_pointwise(binary_int_op(a, Binary::Remainder, IntBinary::Remainder))
    })
    .whole("a rounded quotient would lose digits")
    .torch(&[
        operator(
            &["remainder.Tensor", "remainder_.Tensor", "remainder.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["remainder.Scalar", "remainder_.Scalar", "remainder.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["remainder.Scalar_Tensor", "remainder.Scalar_Tensor_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("fmod", &["a", "b"], UpstreamLayer::Decomposed, |a| {
        build_pointwise(binary_int_op(a, Binary::Fmod, IntBinary::Fmod))
    })
    .whole("a rounded quotient would lose digits")
    .torch(&[
        operator(
            &["fmod.Tensor", "fmod_.Tensor", "fmod.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["fmod.Scalar", "fmod_.Scalar", "fmod.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("pow", &["a", "b"], UpstreamLayer::Decomposed, build_pow).onnx("Pow").torch(&[
        operator(
            &["pow.Tensor_Tensor", "pow_.Tensor", "pow.Tensor_Tensor_out"],
            &[operand("self"), operand("exponent")],
        ),
        operator(
            &["pow.Tensor_Scalar", "pow_.Scalar", "pow.Tensor_Scalar_out"],
            &[operand("self"), operand("exponent")],
        ),
        operator(&["pow.Scalar", "pow.Scalar_out"], &[operand("self"), operand("exponent")]),
    ]),
    row("maximum", &["a", "b"], UpstreamLayer::Native, |a| {
        build_pointwise(binary_int_op(a, Binary::Maximum, IntBinary::Maximum))
    })
    .superdsc("maximum")
    .ktir("maximumf(a, b)")
    .torch(&[
        operator(
            &["clamp_min.Tensor", "clamp_min_.Tensor", "clamp_min.Tensor_out"],
            &[operand("self"), operand("min")],
        ),
        operator(&["maximum", "maximum.out"], &[operand("self"), operand("other")]),
    ]),
    row("minimum", &["a", "b"], UpstreamLayer::Native, |a| {
        build_pointwise(binary_int_op(a, Binary::Minimum, IntBinary::Minimum))
    })
    .superdsc("minimum")
    .ktir("minimumf(a, b)")
    .torch(&[
        operator(
            &["clamp_max.Tensor", "clamp_max_.Tensor", "clamp_max.Tensor_out"],
            &[operand("self"), operand("max")],
        ),
        operator(&["minimum", "minimum.out"], &[operand("self"), operand("other")]),
    ]),
    row("atan2", &["a", "b"], UpstreamLayer::Fallback, |a| {
        build_pointwise(float_binary_op(a, Binary::Atan2).mark_transcendental())
    })
    .torch(&[operator(&["atan2", "atan2_", "atan2.out"], &[operand("self"), operand("other")])]),
    row("hypot", &["a", "b"], UpstreamLayer::Fallback, build_hypot).torch(&[operator(
        &["hypot", "hypot_", "hypot.out"],
        &[operand("self"), operand("other")],
    )]),
    row("logaddexp", &["a", "b"], UpstreamLayer::Decomposed, |a| {
        build_pointwise(binary_op(a, Binary::Logaddexp).mark_transcendental())
    })
    .torch(&[operator(&["logaddexp", "logaddexp.out"], &[operand("self"), operand("other")])]),
    row("copysign", &["a", "b"], UpstreamLayer::Decomposed, |a| {
        build_pointwise(float_binary_op(a, Binary::Copysign))
    })
    .whole("comparisons do not see the sign of zero")
    .torch(&[
        operator(
            &["copysign.Tensor", "copysign_.Tensor", "copysign.out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["copysign.Scalar", "copysign_.Scalar", "copysign.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("bitwise_and", &["a", "b"], UpstreamLayer::Native, |a| build_bitwise(a, IntBinary::BitAnd))
        .onnx("BitwiseAnd")
        .torch(&[
            operator(
                &["bitwise_and.Tensor", "bitwise_and_.Tensor", "bitwise_and.Tensor_out"],
                &[operand("self"), operand("other")],
            ),
            operator(
                &["bitwise_and.Scalar", "bitwise_and_.Scalar", "bitwise_and.Scalar_out"],
                &[operand("self"), operand("other")],
            ),
            operator(
                &["bitwise_and.Scalar_Tensor", "bitwise_and.Scalar_Tensor_out"],
                &[operand("self"), operand("other")],
            ),
        ]),
    row("bitwise_or", &["a", "b"], UpstreamLayer::Fallback, |a| build_bitwise(a, IntBinary::BitOr))
        .onnx("BitwiseOr")
        .torch(&[
            operator(
                &["bitwise_or.Tensor", "bitwise_or_.Tensor", "bitwise_or.Tensor_out"],
                &[operand("self"), operand("other")],
            ),
            operator(
                &["bitwise_or.Scalar", "bitwise_or_.Scalar", "bitwise_or.Scalar_out"],
                &[operand("self"), operand("other")],
            ),
            operator(
                &["bitwise_or.Scalar_Tensor", "bitwise_or.Scalar_Tensor_out"],
                &[operand("self"), operand("other")],
            ),
        ]),
    row("bitwise_xor", &["a", "b"], UpstreamLayer::Fallback, |a| {
        build_bitwise(a, IntBinary::BitXor)
    })
    .onnx("BitwiseXor")
    .torch(&[
        operator(
            &["bitwise_xor.Tensor", "bitwise_xor_.Tensor", "bitwise_xor.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["bitwise_xor.Scalar", "bitwise_xor_.Scalar", "bitwise_xor.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["bitwise_xor.Scalar_Tensor", "bitwise_xor.Scalar_Tensor_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("bitwise_left_shift", &["a", "b"], UpstreamLayer::Fallback, |a| {
        build_bitwise(a, IntBinary::ShiftLeft)
    })
    .torch(&[
        operator(
            &[
                "bitwise_left_shift.Tensor",
                "bitwise_left_shift_.Tensor",
                "bitwise_left_shift.Tensor_out",
            ],
            &[operand("self"), operand("other")],
        ),
        operator(
            &[
                "bitwise_left_shift.Tensor_Scalar",
                "bitwise_left_shift_.Tensor_Scalar",
                "bitwise_left_shift.Tensor_Scalar_out",
            ],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("bitwise_right_shift", &["a", "b"], UpstreamLayer::Fallback, |a| {
        build_bitwise(a, IntBinary::ShiftRight)
    })
    .torch(&[
        operator(
            &[
                "bitwise_right_shift.Tensor",
                "bitwise_right_shift_.Tensor",
                "bitwise_right_shift.Tensor_out",
            ],
            &[operand("self"), operand("other")],
        ),
        operator(
            &[
                "bitwise_right_shift.Tensor_Scalar",
                "bitwise_right_shift_.Tensor_Scalar",
                "bitwise_right_shift.Tensor_Scalar_out",
            ],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("bitwise_not", &["x"], UpstreamLayer::Decomposed, build_bitwise_not)
        .onnx("BitwiseNot")
        .torch(&[operator(
            &["bitwise_not", "bitwise_not_", "bitwise_not.out"],
            &[operand("self")],
        )]),
];
