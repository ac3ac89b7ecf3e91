//! Reductions.

use super::BuiltForm;
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::forms::{OpForm, ReduceOp, ReductionKind};
use crate::row::{OpRow, row};

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
            "sum sum.out (self, dtype^)",
            "sum.dim_IntList sum.IntList_out (self, dim=, keepdim=, dtype^)",
        ]),
    row("mean", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Mean))
        .attributes(DIMS)
        .neutral(0.0)
        .superdsc("mean")
        .torch(&[
            "mean mean.dtype_out (self, dtype^)",
            "mean.dim mean.out (self, dim=, keepdim=, dtype^)",
        ]),
    row("amax", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Amax))
        .attributes(DIMS)
        .neutral(f64::NEG_INFINITY)
        .superdsc("max")
        .torch(&["amax amax.out (self, dim=, keepdim=)", "max max.unary_out (self)"]),
    row("amin", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Amin))
        .attributes(DIMS)
        .neutral(f64::INFINITY)
        .superdsc("min")
        .torch(&["amin amin.out (self, dim=, keepdim=)", "min min.unary_out (self)"]),
    row("max", X, UpstreamLayer::Decomposed, |a| build_dim_reduction(a, ReductionKind::Max))
        .attributes(ONE)
        .neutral(f64::NEG_INFINITY)
        .torch(&["max.dim (self, dim=, keepdim=)"]),
    row("min", X, UpstreamLayer::Decomposed, |a| build_dim_reduction(a, ReductionKind::Min))
        .attributes(ONE)
        .neutral(f64::INFINITY)
        .torch(&["min.dim (self, dim=, keepdim=)"]),
    row("argmax", X, UpstreamLayer::Fallback, |a| build_index_reduction(a, ReductionKind::ArgMax))
        .attributes(DIMS)
        .neutral(f64::NEG_INFINITY)
        .torch(&["argmax argmax.out (self, dim=, keepdim=)"]),
    row("argmin", X, UpstreamLayer::Fallback, |a| build_index_reduction(a, ReductionKind::ArgMin))
        .attributes(DIMS)
        .neutral(f64::INFINITY)
        .torch(&["argmin argmin.out (self, dim=, keepdim=)"]),
    row("prod", X, UpstreamLayer::Missing, |a| build_set_reduction(a, ReductionKind::Prod))
        .attributes(DIMS)
        .neutral(1.0)
        .torch(&[
            "prod prod.out (self, dtype^)",
            "prod.dim_int prod.int_out (self, dim=, keepdim=, dtype^)",
        ]),
    row("any", X, UpstreamLayer::Fallback, |a| build_set_reduction(a, ReductionKind::Any))
        .attributes(DIMS)
        .neutral(0.0)
        .torch(&[
            "any any.all_out (self)",
            "any.dim any.out (self, dim=, keepdim=)",
            "any.dims any.dims_out (self, dim=, keepdim=)",
        ]),
    row("all", X, UpstreamLayer::Missing, |a| build_set_reduction(a, ReductionKind::All))
        .attributes(DIMS)
        .neutral(1.0)
        .torch(&[
            "all all.all_out (self)",
            "all.dim all.out (self, dim=, keepdim=)",
            "all.dims all.dims_out (self, dim=, keepdim=)",
        ]),
    row("count_nonzero", X, UpstreamLayer::Missing, |a| {
        build_set_reduction(a, ReductionKind::CountNonzero)
    })
    .attributes(DIMS)
    .neutral(0.0)
    .torch(&[
        "count_nonzero count_nonzero.out (self, dim=)",
        "count_nonzero.dim_IntList count_nonzero.dim_IntList_out (self, dim=)",
    ]),
    row("nansum", X, UpstreamLayer::Missing, |a| build_set_reduction(a, ReductionKind::NanSum))
        .attributes(DIMS)
        .neutral(0.0)
        .torch(&["nansum nansum.out (self, dim=, keepdim=, dtype^)"]),
    row("nanmean", X, UpstreamLayer::Missing, |a| build_set_reduction(a, ReductionKind::NanMean))
        .attributes(DIMS)
        .neutral(0.0),
    row("var", X, UpstreamLayer::Missing, |a| build_variance(a, false, false))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&["var.correction var.correction_out (self, dim=, correction=, keepdim=)"]),
    row("std", X, UpstreamLayer::Missing, |a| build_variance(a, true, false))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&["std.correction std.correction_out (self, dim=, correction=, keepdim=)"]),
    row("var_mean", X, UpstreamLayer::Missing, |a| build_variance(a, false, true))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&["var_mean.correction (self, dim=, correction=, keepdim=)"]),
    row("exx2", X, UpstreamLayer::Native, |a| build_set_reduction(a, ReductionKind::Exx2))
        .attributes(DIMS)
        .neutral(0.0)
        .superdsc("exx2"),
    row("logsumexp", X, UpstreamLayer::Missing, |a| {
        build_set_reduction(a, ReductionKind::LogSumExp)
    })
    .attributes(DIMS)
    .neutral(f64::NEG_INFINITY)
    .torch(&["logsumexp logsumexp.out (self, dim=, keepdim=)"]),
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
        "linalg_vector_norm linalg_vector_norm.out (self, ord=p, dim=, keepdim=, dtype^)",
        "norm.Scalar norm.Scalar_out (self, p=)",
        "norm.ScalarOpt_dim norm.out (self, p=, dim=, keepdim=)",
    ]),
];
