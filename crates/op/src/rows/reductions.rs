//! Reductions.

use super::BuiltForm;
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::{OpForm, ReduceOp, ReductionKind};
use crate::row::{OpRow, row};
use crate::torch_operator::{attribute, attribute_as, dtype, operand, operator};

const DIMS: &[(&str, &str)] = &[("dim", "all dimensions; one or a list"), ("keepdim", "false")];
const ONE: &[(&str, &str)] = &[("dim", "an integer"), ("keepdim", "false")];

/// A reduction over a set of dimensions.
fn build_set_reduction(a: &mut OpAttributes, what: ReductionKind) -> BuiltForm {
    let (dims, keepdim) = (a.take_ints("dim")?, a.take_flag("keepdim", false)?);
    Ok(OpForm::Reduce(ReduceOp { name: a.op, what, dims, keepdim }))
}

/// A reduction over one dimension.
fn build_dim_reduction(a: &mut OpAttributes, what: ReductionKind) -> BuiltForm {
    let (dim, keepdim) = (a.take_int("dim", None)?, a.take_flag("keepdim", false)?);
    Ok(OpForm::Reduce(ReduceOp { name: a.op, what, dims: Some(vec![dim]), keepdim }))
}

/// A reduction over one dimension or all of them.
fn build_index_reduction(a: &mut OpAttributes, what: ReductionKind) -> BuiltForm {
    let dims = a.take_ints("dim")?;
    if let Some(dims) = &dims
        // An index is a number along one dimension, or in the flattened tensor, and no pair of numbers.
        && dims.len() != 1
    {
        return Err(
            a.bad_attribute("dim", format!("{dims:?} is not one dimension; leave it out for all"))
        );
    }
    let keepdim = a.take_flag("keepdim", false)?;
    Ok(OpForm::Reduce(ReduceOp { name: a.op, what, dims, keepdim }))
}

#[allow(clippy::cast_possible_truncation, reason = "attributes are numbers of the operation")]
fn build_variance(a: &mut OpAttributes, root: bool, mean: bool) -> BuiltForm {
    // 1 is PyTorch's default: the estimate from a sample, with n - 1 in the divisor.
    let correction = a.take_number("correction", Some(1.0))? as f32;
    build_set_reduction(a, ReductionKind::Var { correction, root, mean })
}

const X: &[&str] = &["x"];
const VAR: &[(&str, &str)] =
    &[("dim", "all dimensions; one or a list"), ("correction", "1"), ("keepdim", "false")];

pub(crate) static ROWS: &[OpRow] = &[
    row("sum", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Sum))
        .attributes(DIMS)
        .neutral(0.0)
        .superdsc("sum")
        .torch(&[
            operator(&["sum", "sum.out"], &[operand("self"), dtype("dtype")]),
            operator(
                &["sum.dim_IntList", "sum.IntList_out"],
                &[operand("self"), attribute("dim"), attribute("keepdim"), dtype("dtype")],
            ),
        ]),
    row("mean", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Mean))
        .attributes(DIMS)
        .neutral(0.0)
        .superdsc("mean")
        .torch(&[
            operator(&["mean", "mean.dtype_out"], &[operand("self"), dtype("dtype")]),
            operator(
                &["mean.dim", "mean.out"],
                &[operand("self"), attribute("dim"), attribute("keepdim"), dtype("dtype")],
            ),
        ]),
    row("amax", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Amax))
        .attributes(DIMS)
        .neutral(f64::NEG_INFINITY)
        .superdsc("max")
        .torch(&[
            operator(
                &["amax", "amax.out"],
                &[operand("self"), attribute("dim"), attribute("keepdim")],
            ),
            operator(&["max", "max.unary_out"], &[operand("self")]),
        ]),
    row("amin", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Amin))
        .attributes(DIMS)
        .neutral(f64::INFINITY)
        .superdsc("min")
        .torch(&[
            operator(
                &["amin", "amin.out"],
                &[operand("self"), attribute("dim"), attribute("keepdim")],
            ),
            operator(&["min", "min.unary_out"], &[operand("self")]),
        ]),
    row("max", X, UpstreamLayer::Decomposed, |a| build_dim_reduction(a, ReductionKind::Max))
        .attributes(ONE)
        .neutral(f64::NEG_INFINITY)
        .torch(&[operator(
            &["max.dim"],
            &[operand("self"), attribute("dim"), attribute("keepdim")],
        )]),
    row("min", X, UpstreamLayer::Decomposed, |a| build_dim_reduction(a, ReductionKind::Min))
        .attributes(ONE)
        .neutral(f64::INFINITY)
        .torch(&[operator(
            &["min.dim"],
            &[operand("self"), attribute("dim"), attribute("keepdim")],
        )]),
    row("argmax", X, UpstreamLayer::Fallback, |a| build_index_reduction(a, ReductionKind::ArgMax))
        .attributes(DIMS)
        .neutral(f64::NEG_INFINITY)
        .torch(&[operator(
            &["argmax", "argmax.out"],
            &[operand("self"), attribute("dim"), attribute("keepdim")],
        )]),
    row("argmin", X, UpstreamLayer::Fallback, |a| build_index_reduction(a, ReductionKind::ArgMin))
        .attributes(DIMS)
        .neutral(f64::INFINITY)
        .torch(&[operator(
            &["argmin", "argmin.out"],
            &[operand("self"), attribute("dim"), attribute("keepdim")],
        )]),
    row("prod", X, UpstreamLayer::Missing, |a| build_set_reduction(a, ReductionKind::Prod))
        .attributes(DIMS)
        .neutral(1.0)
        .torch(&[
            operator(&["prod", "prod.out"], &[operand("self"), dtype("dtype")]),
            operator(
                &["prod.dim_int", "prod.int_out"],
                &[operand("self"), attribute("dim"), attribute("keepdim"), dtype("dtype")],
            ),
        ]),
    row("any", X, UpstreamLayer::Fallback, |a| build_set_reduction(a, ReductionKind::Any))
        .attributes(DIMS)
        .neutral(0.0)
        .torch(&[
            operator(&["any", "any.all_out"], &[operand("self")]),
            operator(
                &["any.dim", "any.out"],
                &[operand("self"), attribute("dim"), attribute("keepdim")],
            ),
            operator(
                &["any.dims", "any.dims_out"],
                &[operand("self"), attribute("dim"), attribute("keepdim")],
            ),
        ]),
    row("all", X, UpstreamLayer::Missing, |a| build_set_reduction(a, ReductionKind::All))
        .attributes(DIMS)
        .neutral(1.0)
        .torch(&[
            operator(&["all", "all.all_out"], &[operand("self")]),
            operator(
                &["all.dim", "all.out"],
                &[operand("self"), attribute("dim"), attribute("keepdim")],
            ),
            operator(
                &["all.dims", "all.dims_out"],
                &[operand("self"), attribute("dim"), attribute("keepdim")],
            ),
        ]),
    row("count_nonzero", X, UpstreamLayer::Missing, |a| {
        build_set_reduction(a, ReductionKind::CountNonzero)
    })
    .attributes(DIMS)
    .neutral(0.0)
    .torch(&[
        operator(&["count_nonzero", "count_nonzero.out"], &[operand("self"), attribute("dim")]),
        operator(
            &["count_nonzero.dim_IntList", "count_nonzero.dim_IntList_out"],
            &[operand("self"), attribute("dim")],
        ),
    ]),
    row("nansum", X, UpstreamLayer::Missing, |a| build_set_reduction(a, ReductionKind::NanSum))
        .attributes(DIMS)
        .neutral(0.0)
        .torch(&[operator(
            &["nansum", "nansum.out"],
            &[operand("self"), attribute("dim"), attribute("keepdim"), dtype("dtype")],
        )]),
    row("nanmean", X, UpstreamLayer::Missing, |a| build_set_reduction(a, ReductionKind::NanMean))
        .attributes(DIMS)
        .neutral(0.0),
    row("var", X, UpstreamLayer::Missing, |a| build_variance(a, false, false))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&[operator(
            &["var.correction", "var.correction_out"],
            &[operand("self"), attribute("dim"), attribute("correction"), attribute("keepdim")],
        )]),
    row("std", X, UpstreamLayer::Missing, |a| build_variance(a, true, false))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&[operator(
            &["std.correction", "std.correction_out"],
            &[operand("self"), attribute("dim"), attribute("correction"), attribute("keepdim")],
        )]),
    row("var_mean", X, UpstreamLayer::Missing, |a| build_variance(a, false, true))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&[operator(
            &["var_mean.correction"],
            &[operand("self"), attribute("dim"), attribute("correction"), attribute("keepdim")],
        )]),
    row("exx2", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Exx2))
        .attributes(DIMS)
        .neutral(0.0)
        .superdsc("exx2"),
    row("logsumexp", X, UpstreamLayer::Missing, |a| {
        build_set_reduction(a, ReductionKind::LogSumExp)
    })
    .attributes(DIMS)
    .neutral(f64::NEG_INFINITY)
    .torch(&[operator(
        &["logsumexp", "logsumexp.out"],
        &[operand("self"), attribute("dim"), attribute("keepdim")],
    )]),
    row("norm", X, UpstreamLayer::Missing, |a| {
        #[allow(clippy::cast_possible_truncation, reason = "p is a number of the operation")]
        let p = a.take_number("p", Some(2.0))? as f32;
        build_set_reduction(a, ReductionKind::Norm { p })
    })
    .attributes(&[
        ("p", "2; a number, \"inf\" or \"-inf\""),
        ("dim", "all dimensions; one or a list"),
        ("keepdim", "false"),
    ])
    .neutral(0.0)
    .torch(&[
        operator(
            &["linalg_vector_norm", "linalg_vector_norm.out"],
            &[
                operand("self"),
                attribute_as("ord", "p"),
                attribute("dim"),
                attribute("keepdim"),
                dtype("dtype"),
            ],
        ),
        operator(&["norm.Scalar", "norm.Scalar_out"], &[operand("self"), attribute("p")]),
        operator(
            &["norm.ScalarOpt_dim", "norm.out"],
            &[operand("self"), attribute("p"), attribute("dim"), attribute("keepdim")],
        ),
    ]),
];
