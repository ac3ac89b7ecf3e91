//! Reductions.

use super::Built;
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::forms::{Form, Reduce, Reduction};
use crate::row::{OpRow, row};

const DIMS: &[(&str, &str)] = &[("dim", "all dimensions; one or a list"), ("keepdim", "false")];
const ONE: &[(&str, &str)] = &[("dim", "an integer"), ("keepdim", "false")];

/// A reduction over a set of dimensions.
fn over(a: &mut Attributes, what: Reduction) -> Built {
    let (dims, keepdim) = (a.ints("dim")?, a.flag("keepdim", false)?);
    Ok(Form::Reduce(Reduce { name: a.op, what, dims, keepdim }))
}

/// A reduction over one dimension.
fn along(a: &mut Attributes, what: Reduction) -> Built {
    let (dim, keepdim) = (a.int("dim", None)?, a.flag("keepdim", false)?);
    Ok(Form::Reduce(Reduce { name: a.op, what, dims: Some(vec![dim]), keepdim }))
}

/// A reduction over one dimension or all of them.
fn index(a: &mut Attributes, what: Reduction) -> Built {
    let dims = a.ints("dim")?;
    if let Some(dims) = &dims
        && dims.len() != 1
    {
        return Err(a.bad("dim", format!("{dims:?} is not one dimension; leave it out for all")));
    }
    let keepdim = a.flag("keepdim", false)?;
    Ok(Form::Reduce(Reduce { name: a.op, what, dims, keepdim }))
}

#[allow(clippy::cast_possible_truncation, reason = "attributes are numbers of the operation")]
fn variance(a: &mut Attributes, root: bool, mean: bool) -> Built {
    let correction = a.number("correction", Some(1.0))? as f32;
    over(a, Reduction::Var { correction, root, mean })
}

const X: &[&str] = &["x"];
const VAR: &[(&str, &str)] =
    &[("dim", "all dimensions; one or a list"), ("correction", "1"), ("keepdim", "false")];

pub(crate) static ROWS: &[OpRow] = &[
    row("sum", X, Layer::Native, |a| over(a, Reduction::Sum))
        .attributes(DIMS)
        .neutral(0.0)
        .superdsc("sum")
        .torch(&[
            "sum sum.out (self, dtype^)",
            "sum.dim_IntList sum.IntList_out (self, dim=, keepdim=, dtype^)",
        ]),
    row("mean", X, Layer::Native, |a| over(a, Reduction::Mean))
        .attributes(DIMS)
        .neutral(0.0)
        .superdsc("mean")
        .torch(&[
            "mean mean.dtype_out (self, dtype^)",
            "mean.dim mean.out (self, dim=, keepdim=, dtype^)",
        ]),
    row("amax", X, Layer::Native, |a| over(a, Reduction::Amax))
        .attributes(DIMS)
        .neutral(f64::NEG_INFINITY)
        .superdsc("max")
        .torch(&["amax amax.out (self, dim=, keepdim=)", "max max.unary_out (self)"]),
    row("amin", X, Layer::Native, |a| over(a, Reduction::Amin))
        .attributes(DIMS)
        .neutral(f64::INFINITY)
        .superdsc("min")
        .torch(&["amin amin.out (self, dim=, keepdim=)", "min min.unary_out (self)"]),
    row("max", X, Layer::Decomposed, |a| along(a, Reduction::Max))
        .attributes(ONE)
        .neutral(f64::NEG_INFINITY)
        .torch(&["max.dim (self, dim=, keepdim=)"]),
    row("min", X, Layer::Decomposed, |a| along(a, Reduction::Min))
        .attributes(ONE)
        .neutral(f64::INFINITY)
        .torch(&["min.dim (self, dim=, keepdim=)"]),
    row("argmax", X, Layer::Fallback, |a| index(a, Reduction::ArgMax))
        .attributes(DIMS)
        .neutral(f64::NEG_INFINITY)
        .torch(&["argmax argmax.out (self, dim=, keepdim=)"]),
    row("argmin", X, Layer::Fallback, |a| index(a, Reduction::ArgMin))
        .attributes(DIMS)
        .neutral(f64::INFINITY)
        .torch(&["argmin argmin.out (self, dim=, keepdim=)"]),
    row("prod", X, Layer::Missing, |a| over(a, Reduction::Prod))
        .attributes(DIMS)
        .neutral(1.0)
        .torch(&[
            "prod prod.out (self, dtype^)",
            "prod.dim_int prod.int_out (self, dim=, keepdim=, dtype^)",
        ]),
    row("any", X, Layer::Fallback, |a| over(a, Reduction::Any))
        .attributes(DIMS)
        .neutral(0.0)
        .torch(&[
            "any any.all_out (self)",
            "any.dim any.out (self, dim=, keepdim=)",
            "any.dims any.dims_out (self, dim=, keepdim=)",
        ]),
    row("all", X, Layer::Missing, |a| over(a, Reduction::All)).attributes(DIMS).neutral(1.0).torch(
        &[
            "all all.all_out (self)",
            "all.dim all.out (self, dim=, keepdim=)",
            "all.dims all.dims_out (self, dim=, keepdim=)",
        ],
    ),
    row("count_nonzero", X, Layer::Missing, |a| over(a, Reduction::CountNonzero))
        .attributes(DIMS)
        .neutral(0.0)
        .torch(&[
            "count_nonzero count_nonzero.out (self, dim=)",
            "count_nonzero.dim_IntList count_nonzero.dim_IntList_out (self, dim=)",
        ]),
    row("nansum", X, Layer::Missing, |a| over(a, Reduction::NanSum))
        .attributes(DIMS)
        .neutral(0.0)
        .torch(&["nansum nansum.out (self, dim=, keepdim=, dtype^)"]),
    row("nanmean", X, Layer::Missing, |a| over(a, Reduction::NanMean))
        .attributes(DIMS)
        .neutral(0.0),
    row("var", X, Layer::Missing, |a| variance(a, false, false))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&["var.correction var.correction_out (self, dim=, correction=, keepdim=)"]),
    row("std", X, Layer::Missing, |a| variance(a, true, false))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&["std.correction std.correction_out (self, dim=, correction=, keepdim=)"]),
    row("var_mean", X, Layer::Missing, |a| variance(a, false, true))
        .attributes(VAR)
        .neutral(0.0)
        .torch(&["var_mean.correction (self, dim=, correction=, keepdim=)"]),
    row("exx2", X, Layer::Native, |a| over(a, Reduction::Exx2))
        .attributes(DIMS)
        .neutral(0.0)
        .superdsc("exx2"),
    row("logsumexp", X, Layer::Missing, |a| over(a, Reduction::LogSumExp))
        .attributes(DIMS)
        .neutral(f64::NEG_INFINITY)
        .torch(&["logsumexp logsumexp.out (self, dim=, keepdim=)"]),
    row("norm", X, Layer::Missing, |a| {
        #[allow(clippy::cast_possible_truncation, reason = "p is a number of the operation")]
        let p = a.number("p", Some(2.0))? as f32;
        over(a, Reduction::Norm { p })
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
