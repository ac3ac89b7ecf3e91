//! Operations on whole lines: softmax, norms, scans, sorts.

use super::Built;
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::error::Result;
use crate::forms::{
    Carry, Form, Interpolation, LineResults, Lines, Norm, NormKind, Pick, Picked, Quantile, Scan,
    Softmax,
};
use crate::row::{OpRow, row};

fn softmax(a: &mut Attributes, log: bool) -> Built {
    Ok(Form::Softmax(Lines(Softmax { name: a.op, dim: a.int("dim", Some(-1))?, log })))
}

fn norm(a: &mut Attributes, over: NormKind) -> Built {
    let eps = a.number("eps", Some(1e-5))?;
    if !(0.0..=f64::MAX).contains(&eps) {
        return Err(a.bad("eps", format!("{eps} is not a number from 0 on")));
    }
    #[allow(clippy::cast_possible_truncation, reason = "eps is a number of the operation")]
    Ok(Form::Norm(Lines(Norm { name: a.op, over, eps: eps as f32 })))
}

fn shape(a: &mut Attributes) -> Result<Vec<i64>> {
    let shape = a.ints("normalized_shape")?;
    shape.ok_or_else(|| a.bad("normalized_shape", "it is missing; a list of extents".into()))
}

fn scan(a: &mut Attributes, carry: Carry) -> Built {
    Ok(Form::Scan(Lines(Scan { name: a.op, dim: a.int("dim", None)?, carry })))
}

fn count(a: &mut Attributes, name: &str) -> Result<usize> {
    let n = a.int(name, None)?;
    usize::try_from(n).map_err(|_| a.bad(name, format!("{n} is less than 0")))
}

/// Whether to sort downwards; sorts are always stable, asked or not.
fn sort(a: &mut Attributes, gives: LineResults) -> Built {
    let dim = Some(a.int("dim", Some(-1))?);
    let descending = a.flag("descending", false)?;
    a.flag("stable", true)?;
    Ok(Form::Pick(Lines(Pick {
        name: a.op,
        dim,
        which: Picked::All,
        descending,
        keepdim: true,
        gives,
    })))
}

fn topk(a: &mut Attributes) -> Built {
    let k = count(a, "k")?;
    let dim = Some(a.int("dim", Some(-1))?);
    let descending = a.flag("largest", true)?;
    // Unsorted would be any order: sorted is one.
    a.flag("sorted", true)?;
    let which = Picked::First(k);
    Ok(Form::Pick(Lines(Pick {
        name: a.op,
        dim,
        which,
        descending,
        keepdim: true,
        gives: LineResults::Both,
    })))
}

fn kthvalue(a: &mut Attributes) -> Built {
    let which = Picked::Kth(count(a, "k")?);
    let dim = Some(a.int("dim", Some(-1))?);
    let keepdim = a.flag("keepdim", false)?;
    Ok(Form::Pick(Lines(Pick {
        name: a.op,
        dim,
        which,
        descending: false,
        keepdim,
        gives: LineResults::Both,
    })))
}

/// One dimension, or none for the whole tensor.
fn maybe_dim(a: &mut Attributes) -> Result<Option<i64>> {
    match a.ints("dim")?.as_deref() {
        None => Ok(None),
        Some([d]) => Ok(Some(*d)),
        Some(more) => Err(a.bad("dim", format!("{more:?} is not one dimension"))),
    }
}

fn median(a: &mut Attributes) -> Built {
    let dim = maybe_dim(a)?;
    let keepdim = dim.is_some() && a.flag("keepdim", false)?;
    let gives = if dim.is_some() { LineResults::Both } else { LineResults::Values };
    Ok(Form::Pick(Lines(Pick {
        name: a.op,
        dim,
        which: Picked::Median,
        descending: false,
        keepdim,
        gives,
    })))
}

const INTERPOLATIONS: &[&str] = &["linear", "lower", "higher", "nearest", "midpoint"];

fn quantile(a: &mut Attributes, skip: bool) -> Built {
    let q = a.number("q", None)?;
    let (dim, keepdim) = (maybe_dim(a)?, a.flag("keepdim", false)?);
    let between = match a.word("interpolation", "linear", INTERPOLATIONS)?.as_str() {
        "lower" => Interpolation::Lower,
        "higher" => Interpolation::Higher,
        "nearest" => Interpolation::Nearest,
        "midpoint" => Interpolation::Midpoint,
        _ => Interpolation::Linear,
    };
    Ok(Form::Quantile(Lines(Quantile { name: a.op, q, dim, keepdim, between, skip })))
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
    row("softmax", X, Layer::Decomposed, |a| softmax(a, false))
        .attributes(LAST)
        .neutral(f64::NEG_INFINITY)
        .torch(&["_softmax _softmax.out (self, dim=, half_to_float?)"]),
    row("log_softmax", X, Layer::Decomposed, |a| softmax(a, true))
        .attributes(LAST)
        .neutral(f64::NEG_INFINITY)
        .torch(&["_log_softmax _log_softmax.out (self, dim=, half_to_float?)"]),
    row("layer_norm", &["x", "weight?", "bias?"], Layer::Custom, |a| {
        let over = NormKind::Layer(shape(a)?);
        norm(a, over)
    })
    .attributes(SHAPE)
    .neutral(0.0),
    row("rms_norm", &["x", "weight?"], Layer::Custom, |a| {
        let over = NormKind::Rms(shape(a)?);
        norm(a, over)
    })
    .attributes(SHAPE)
    .neutral(0.0),
    row("group_norm", &["x", "weight?", "bias?"], Layer::Missing, |a| {
        let over = NormKind::Groups(count(a, "num_groups")?);
        norm(a, over)
    })
    .attributes(&[("num_groups", "an integer"), ("eps", "1e-5")]),
    row(
        "batch_norm",
        &["x", "running_mean", "running_var", "weight?", "bias?"],
        Layer::Missing,
        |a| norm(a, NormKind::Batch),
    )
    .attributes(&[("eps", "1e-5")]),
    row("cumsum", X, Layer::Fallback, |a| scan(a, Carry::Sum))
        .attributes(DIM)
        .neutral(0.0)
        .torch(&["cumsum cumsum_ cumsum.out (self, dim=, dtype^)"]),
    row("cumprod", X, Layer::Missing, |a| scan(a, Carry::Product))
        .attributes(DIM)
        .neutral(1.0)
        .torch(&["cumprod cumprod_ cumprod.out (self, dim=, dtype^)"]),
    row("cummax", X, Layer::Missing, |a| scan(a, Carry::Largest))
        .attributes(DIM)
        .neutral(f64::NEG_INFINITY)
        .torch(&["cummax cummax.out (self, dim=)"]),
    row("cummin", X, Layer::Missing, |a| scan(a, Carry::Smallest))
        .attributes(DIM)
        .neutral(f64::INFINITY)
        .torch(&["cummin cummin.out (self, dim=)"]),
    row("sort", X, Layer::Missing, |a| sort(a, LineResults::Both))
        .attributes(SORT)
        .torch(&["sort sort.values (self, dim=, descending=)"]),
    row("argsort", X, Layer::Missing, |a| sort(a, LineResults::Indices)).attributes(SORT),
    row("topk", X, Layer::Native, topk)
        .attributes(&[("k", "an integer"), ("dim", "-1"), ("largest", "true"), ("sorted", "true")])
        .neutral(f64::NEG_INFINITY)
        .torch(&["topk topk.values (self, k=, dim=, largest=, sorted=)"]),
    row("kthvalue", X, Layer::Missing, kthvalue)
        .attributes(&[("k", "an integer"), ("dim", "-1"), ("keepdim", "false")])
        .torch(&["kthvalue kthvalue.values (self, k=, dim=, keepdim=)"]),
    row("median", X, Layer::Missing, median)
        .attributes(&[("dim", "the whole tensor"), ("keepdim", "false")])
        .torch(&["median (self)", "median.dim median.dim_values (self, dim=, keepdim=)"]),
    row("quantile", X, Layer::Missing, |a| quantile(a, false)).attributes(QUANTILE),
    row("nanquantile", X, Layer::Missing, |a| quantile(a, true)).attributes(QUANTILE),
];
