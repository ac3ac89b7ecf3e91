//! Operations on whole lines: softmax, norms, scans, sorts.

use super::BuiltForm;
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::error::Result;
use crate::forms::{
    LineForm, LineResults, NormKind, NormOp, OpForm, PickOp, PickRule, QuantileInterpolation,
    QuantileOp, ScanCarry, ScanOp, SoftmaxOp,
};
use crate::row::{OpRow, row};
use crate::torch_operator::{attribute, dtype, operand, operator, refused_if_set};

fn build_softmax(a: &mut OpAttributes, log: bool) -> BuiltForm {
    Ok(OpForm::Softmax(LineForm(SoftmaxOp { name: a.op, dim: a.take_int("dim", Some(-1))?, log })))
}

fn build_norm(a: &mut OpAttributes, over: NormKind) -> BuiltForm {
    let eps = a.take_number("eps", Some(1e-5))?;
    if !(0.0..=f64::MAX).contains(&eps) {
        return Err(a.bad_attribute("eps", format!("{eps} is not a number from 0 on")));
    }
    #[allow(clippy::cast_possible_truncation, reason = "eps is a number of the operation")]
    Ok(OpForm::Norm(LineForm(NormOp { name: a.op, over, eps: eps as f32 })))
}

fn take_shape(a: &mut OpAttributes) -> Result<Vec<i64>> {
    let shape = a.take_ints("normalized_shape")?;
    shape.ok_or_else(|| {
        a.bad_attribute("normalized_shape", "it is missing; a list of extents".into())
    })
}

fn build_scan(a: &mut OpAttributes, carry: ScanCarry) -> BuiltForm {
    Ok(OpForm::Scan(LineForm(ScanOp { name: a.op, dim: a.take_int("dim", None)?, carry })))
}

fn take_count(a: &mut OpAttributes, name: &str) -> Result<usize> {
    let n = a.take_int(name, None)?;
    usize::try_from(n).map_err(|_| a.bad_attribute(name, format!("{n} is less than 0")))
}

/// Whether to sort downwards; sorts are always stable, whether that is requested or not.
fn build_sort(a: &mut OpAttributes, gives: LineResults) -> BuiltForm {
    let dim = Some(a.take_int("dim", Some(-1))?);
    let descending = a.take_flag("descending", false)?;
    a.take_flag("stable", true)?;
    Ok(OpForm::Pick(LineForm(PickOp {
        name: a.op,
        dim,
        which: PickRule::All,
        descending,
        keepdim: true,
        gives,
    })))
}

fn build_topk(a: &mut OpAttributes) -> BuiltForm {
    let k = take_count(a, "k")?;
    let dim = Some(a.take_int("dim", Some(-1))?);
    let descending = a.take_flag("largest", true)?;
    // `sorted = false` allows any order, and a sorted result is one of them.
    a.take_flag("sorted", true)?;
    let which = PickRule::First(k);
    Ok(OpForm::Pick(LineForm(PickOp {
        name: a.op,
        dim,
        which,
        descending,
        keepdim: true,
        gives: LineResults::Both,
    })))
}

fn build_kthvalue(a: &mut OpAttributes) -> BuiltForm {
    let which = PickRule::Kth(take_count(a, "k")?);
    let dim = Some(a.take_int("dim", Some(-1))?);
    let keepdim = a.take_flag("keepdim", false)?;
    Ok(OpForm::Pick(LineForm(PickOp {
        name: a.op,
        dim,
        which,
        descending: false,
        keepdim,
        gives: LineResults::Both,
    })))
}

/// One dimension, or none for the whole tensor.
fn take_maybe_dim(a: &mut OpAttributes) -> Result<Option<i64>> {
    match a.take_ints("dim")?.as_deref() {
        None => Ok(None),
        Some([d]) => Ok(Some(*d)),
        Some(more) => Err(a.bad_attribute("dim", format!("{more:?} is not one dimension"))),
    }
}

fn build_median(a: &mut OpAttributes) -> BuiltForm {
    let dim = take_maybe_dim(a)?;
    let keepdim = dim.is_some() && a.take_flag("keepdim", false)?;
    let gives = if dim.is_some() { LineResults::Both } else { LineResults::Values };
    Ok(OpForm::Pick(LineForm(PickOp {
        name: a.op,
        dim,
        which: PickRule::Median,
        descending: false,
        keepdim,
        gives,
    })))
}

const INTERPOLATIONS: &[&str] = &["linear", "lower", "higher", "nearest", "midpoint"];

fn build_quantile(a: &mut OpAttributes, skip: bool) -> BuiltForm {
    let q = a.take_number("q", None)?;
    let (dim, keepdim) = (take_maybe_dim(a)?, a.take_flag("keepdim", false)?);
    let between = match a.take_word("interpolation", "linear", INTERPOLATIONS)?.as_str() {
        "lower" => QuantileInterpolation::Lower,
        "higher" => QuantileInterpolation::Higher,
        "nearest" => QuantileInterpolation::Nearest,
        "midpoint" => QuantileInterpolation::Midpoint,
        _ => QuantileInterpolation::Linear,
    };
    Ok(OpForm::Quantile(LineForm(QuantileOp { name: a.op, q, dim, keepdim, between, skip })))
}

const X: &[&str] = &["x"];
const DIM: &[(&str, &str)] = &[("dim", "an integer")];
const LAST: &[(&str, &str)] = &[("dim", "-1")];
const SORT: &[(&str, &str)] = &[("dim", "-1"), ("descending", "false"), ("stable", "true")];
const SHAPE: &[(&str, &str)] = &[("normalized_shape", "a list of extents"), ("eps", "1e-5")];
const QUANTILE: &[(&str, &str)] = &[
    ("q", "a number from 0 to 1"),
    ("dim", "the whole tensor"),
    ("keepdim", "false"),
    ("interpolation", "linear; lower, higher, nearest, midpoint"),
];

pub(crate) static ROWS: &[OpRow] = &[
    row("softmax", X, UpstreamLayer::Decomposed, |a| build_softmax(a, false))
        .attributes(LAST)
        .neutral(f64::NEG_INFINITY)
        .torch(&[operator(
            &["_softmax", "_softmax.out"],
            &[operand("self"), attribute("dim"), refused_if_set("half_to_float")],
        )]),
    row("log_softmax", X, UpstreamLayer::Decomposed, |a| build_softmax(a, true))
        .attributes(LAST)
        .neutral(f64::NEG_INFINITY)
        .torch(&[operator(
            &["_log_softmax", "_log_softmax.out"],
            &[operand("self"), attribute("dim"), refused_if_set("half_to_float")],
        )]),
    row("layer_norm", &["x", "weight?", "bias?"], UpstreamLayer::Custom, |a| {
        let over = NormKind::Layer(take_shape(a)?);
        build_norm(a, over)
    })
    .attributes(SHAPE)
    .neutral(0.0),
    row("rms_norm", &["x", "weight?"], UpstreamLayer::Custom, |a| {
        let over = NormKind::Rms(take_shape(a)?);
        build_norm(a, over)
    })
    .attributes(SHAPE)
    .neutral(0.0),
    row("group_norm", &["x", "weight?", "bias?"], UpstreamLayer::Missing, |a| {
        let over = NormKind::Groups(take_count(a, "num_groups")?);
        build_norm(a, over)
    })
    .attributes(&[("num_groups", "an integer"), ("eps", "1e-5")]),
    row(
        "batch_norm",
        &["x", "running_mean", "running_var", "weight?", "bias?"],
        UpstreamLayer::Missing,
        |a| build_norm(a, NormKind::Batch),
    )
    .attributes(&[("eps", "1e-5")]),
    row("cumsum", X, UpstreamLayer::Fallback, |a| build_scan(a, ScanCarry::Sum))
        .attributes(DIM)
        .neutral(0.0)
        .torch(&[operator(
            &["cumsum", "cumsum_", "cumsum.out"],
            &[operand("self"), attribute("dim"), dtype("dtype")],
        )]),
    row("cumprod", X, UpstreamLayer::Missing, |a| build_scan(a, ScanCarry::Product))
        .attributes(DIM)
        .neutral(1.0)
        .torch(&[operator(
            &["cumprod", "cumprod_", "cumprod.out"],
            &[operand("self"), attribute("dim"), dtype("dtype")],
        )]),
    row("cummax", X, UpstreamLayer::Missing, |a| build_scan(a, ScanCarry::Largest))
        .attributes(DIM)
        .neutral(f64::NEG_INFINITY)
        .torch(&[operator(&["cummax", "cummax.out"], &[operand("self"), attribute("dim")])]),
    row("cummin", X, UpstreamLayer::Missing, |a| build_scan(a, ScanCarry::Smallest))
        .attributes(DIM)
        .neutral(f64::INFINITY)
        .torch(&[operator(&["cummin", "cummin.out"], &[operand("self"), attribute("dim")])]),
    row("sort", X, UpstreamLayer::Missing, |a| build_sort(a, LineResults::Both))
        .attributes(SORT)
        .torch(&[operator(
            &["sort", "sort.values"],
            &[operand("self"), attribute("dim"), attribute("descending")],
        )]),
    row("argsort", X, UpstreamLayer::Missing, |a| build_sort(a, LineResults::Indices))
        .attributes(SORT),
    row("topk", X, UpstreamLayer::Native, build_topk)
        .attributes(&[("k", "an integer"), ("dim", "-1"), ("largest", "true"), ("sorted", "true")])
        .neutral(f64::NEG_INFINITY)
        .torch(&[operator(
            &["topk", "topk.values"],
            &[
                operand("self"),
                attribute("k"),
                attribute("dim"),
                attribute("largest"),
                attribute("sorted"),
            ],
        )]),
    row("kthvalue", X, UpstreamLayer::Missing, build_kthvalue)
        .attributes(&[("k", "an integer"), ("dim", "-1"), ("keepdim", "false")])
        .torch(&[operator(
            &["kthvalue", "kthvalue.values"],
            &[operand("self"), attribute("k"), attribute("dim"), attribute("keepdim")],
        )]),
    row("median", X, UpstreamLayer::Missing, build_median)
        .attributes(&[("dim", "the whole tensor"), ("keepdim", "false")])
        .torch(&[
            operator(&["median"], &[operand("self")]),
            operator(
                &["median.dim", "median.dim_values"],
                &[operand("self"), attribute("dim"), attribute("keepdim")],
            ),
        ]),
    row("quantile", X, UpstreamLayer::Missing, |a| build_quantile(a, false)).attributes(QUANTILE),
    row("nanquantile", X, UpstreamLayer::Missing, |a| build_quantile(a, true)).attributes(QUANTILE),
];
