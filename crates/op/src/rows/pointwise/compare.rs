//! Comparisons and logic: results are bool. NaN equals nothing, and counts as true.

use super::{binary_int_op, build_pointwise};
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::ResultDtype;
use crate::row::{OpRow, row};
use crate::rows::BuiltForm;
use crate::torch_operator::{operand, operator};
use zellige_math::{Binary, IntBinary};

fn build_comparison(a: &OpAttributes, f: Binary, g: IntBinary) -> BuiltForm {
    build_pointwise(binary_int_op(a, f, g).with_result_dtype(ResultDtype::Bool))
}

pub(crate) static ROWS: &[OpRow] = &[
    row("eq", &["a", "b"], UpstreamLayer::Native, |a| {
        build_comparison(a, Binary::Equal, IntBinary::Equal)
    })
    .superdsc("equal")
    .ktir("select(cmpf_oeq(a, b), 1, 0)")
    .onnx("Equal")
    .torch(&[
        operator(
            &["eq.Tensor", "eq_.Tensor", "eq.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["eq.Scalar", "eq_.Scalar", "eq.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("ne", &["a", "b"], UpstreamLayer::Native, |a| {
        build_comparison(a, Binary::NotEqual, IntBinary::NotEqual)
    })
    .superdsc("notequal")
    .ktir("select(cmpf_une(a, b), 1, 0)")
    .torch(&[
        operator(
            &["ne.Tensor", "ne_.Tensor", "ne.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["ne.Scalar", "ne_.Scalar", "ne.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("lt", &["a", "b"], UpstreamLayer::Native, |a| {
        build_comparison(a, Binary::Less, IntBinary::Less)
    })
    .superdsc("lesserthan")
    .ktir("select(cmpf_olt(a, b), 1, 0)")
    .onnx("Less")
    .torch(&[
        operator(
            &["lt.Tensor", "lt_.Tensor", "lt.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["lt.Scalar", "lt_.Scalar", "lt.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("le", &["a", "b"], UpstreamLayer::Native, |a| {
        build_comparison(a, Binary::LessEqual, IntBinary::LessEqual)
    })
    .superdsc("lesserequal")
    .ktir("select(cmpf_ole(a, b), 1, 0)")
    .onnx("LessOrEqual")
    .torch(&[
        operator(
            &["le.Tensor", "le_.Tensor", "le.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["le.Scalar", "le_.Scalar", "le.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("gt", &["a", "b"], UpstreamLayer::Native, |a| {
        build_comparison(a, Binary::Greater, IntBinary::Greater)
    })
    .superdsc("greaterthan")
    .ktir("select(cmpf_ogt(a, b), 1, 0)")
    .onnx("Greater")
    .torch(&[
        operator(
            &["gt.Tensor", "gt_.Tensor", "gt.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["gt.Scalar", "gt_.Scalar", "gt.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("ge", &["a", "b"], UpstreamLayer::Native, |a| {
        build_comparison(a, Binary::GreaterEqual, IntBinary::GreaterEqual)
    })
    .superdsc("greaterequal")
    .ktir("select(cmpf_oge(a, b), 1, 0)")
    .onnx("GreaterOrEqual")
    .torch(&[
        operator(
            &["ge.Tensor", "ge_.Tensor", "ge.Tensor_out"],
            &[operand("self"), operand("other")],
        ),
        operator(
            &["ge.Scalar", "ge_.Scalar", "ge.Scalar_out"],
            &[operand("self"), operand("other")],
        ),
    ]),
    row("logical_and", &["a", "b"], UpstreamLayer::Native, |a| {
        build_comparison(a, Binary::LogicalAnd, IntBinary::LogicalAnd)
    })
    .onnx("And")
    .torch(&[operator(
        &["logical_and", "logical_and_", "logical_and.out"],
        &[operand("self"), operand("other")],
    )]),
    row("logical_or", &["a", "b"], UpstreamLayer::Fallback, |a| {
        build_comparison(a, Binary::LogicalOr, IntBinary::LogicalOr)
    })
    .onnx("Or")
    .torch(&[operator(
        &["logical_or", "logical_or_", "logical_or.out"],
        &[operand("self"), operand("other")],
    )]),
    row("logical_xor", &["a", "b"], UpstreamLayer::Fallback, |a| {
        build_comparison(a, Binary::LogicalXor, IntBinary::LogicalXor)
    })
    .onnx("Xor")
    .torch(&[operator(
        &["logical_xor", "logical_xor_", "logical_xor.out"],
        &[operand("self"), operand("other")],
    )]),
];
