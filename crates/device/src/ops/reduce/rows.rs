//! Operations on whole lines: softmax, norms, scans, sorts.

use super::{Arc, Attrs, Entry, Kernel, Layer, Result};
use crate::kernels::rows::norm::{Norm, Over};
use crate::kernels::rows::softmax::Softmax;
use crate::kernels::rows::{Gives, LineKernel, LineOp};
use crate::kernels::scan::{Carry, Scan};
use crate::kernels::sort::{Between, Pick, Quantile, Which};

fn kernel(op: impl LineOp) -> Result<Arc<dyn Kernel>> {
    Ok(Arc::new(LineKernel(op)))
}

fn softmax(a: &mut Attrs, log: bool) -> Result<Arc<dyn Kernel>> {
    kernel(Softmax { name: a.op, dim: a.int("dim", Some(-1))?, log })
}

fn norm(a: &mut Attrs, over: Over) -> Result<Arc<dyn Kernel>> {
    let eps = a.number("eps", Some(1e-5))?;
    if !(0.0..=f64::MAX).contains(&eps) {
        return Err(a.bad("eps", format!("{eps} is not a number from 0 on")));
    }
    #[allow(clippy::cast_possible_truncation, reason = "eps is a number of the operation")]
    kernel(Norm { name: a.op, over, eps: eps as f32 })
}

fn shape(a: &mut Attrs) -> Result<Vec<i64>> {
    let shape = a.ints("normalized_shape")?;
    shape.ok_or_else(|| a.bad("normalized_shape", "it is missing; a list of extents".into()))
}

fn scan(a: &mut Attrs, carry: Carry) -> Result<Arc<dyn Kernel>> {
    kernel(Scan { name: a.op, dim: a.int("dim", None)?, carry })
}

fn count(a: &mut Attrs, name: &str) -> Result<usize> {
    let n = a.int(name, None)?;
    usize::try_from(n).map_err(|_| a.bad(name, format!("{n} is less than 0")))
}

/// Whether to sort downwards; sorts are always stable, asked or not.
fn sort(a: &mut Attrs, gives: Gives) -> Result<Arc<dyn Kernel>> {
    let dim = Some(a.int("dim", Some(-1))?);
    let descending = a.flag("descending", false)?;
    a.flag("stable", true)?;
    kernel(Pick { name: a.op, dim, which: Which::All, descending, keepdim: true, gives })
}

fn topk(a: &mut Attrs) -> Result<Arc<dyn Kernel>> {
    let k = count(a, "k")?;
    let dim = Some(a.int("dim", Some(-1))?);
    let descending = a.flag("largest", true)?;
    // Unsorted would be any order: sorted is one.
    a.flag("sorted", true)?;
    let which = Which::First(k);
    kernel(Pick { name: a.op, dim, which, descending, keepdim: true, gives: Gives::Both })
}

fn kthvalue(a: &mut Attrs) -> Result<Arc<dyn Kernel>> {
    let which = Which::Kth(count(a, "k")?);
    let dim = Some(a.int("dim", Some(-1))?);
    let keepdim = a.flag("keepdim", false)?;
    kernel(Pick { name: a.op, dim, which, descending: false, keepdim, gives: Gives::Both })
}

/// One dimension, or none for the whole tensor.
fn maybe_dim(a: &mut Attrs) -> Result<Option<i64>> {
    match a.ints("dim")?.as_deref() {
        None => Ok(None),
        Some([d]) => Ok(Some(*d)),
        Some(more) => Err(a.bad("dim", format!("{more:?} is not one dimension"))),
    }
}

fn median(a: &mut Attrs) -> Result<Arc<dyn Kernel>> {
    let dim = maybe_dim(a)?;
    let keepdim = dim.is_some() && a.flag("keepdim", false)?;
    let gives = if dim.is_some() { Gives::Both } else { Gives::Values };
    kernel(Pick { name: a.op, dim, which: Which::Median, descending: false, keepdim, gives })
}

const INTERPOLATIONS: &[&str] = &["linear", "lower", "higher", "nearest", "midpoint"];

fn quantile(a: &mut Attrs, skip: bool) -> Result<Arc<dyn Kernel>> {
    let q = a.number("q", None)?;
    let (dim, keepdim) = (maybe_dim(a)?, a.flag("keepdim", false)?);
    let between = match a.word("interpolation", "linear", INTERPOLATIONS)?.as_str() {
        "lower" => Between::Lower,
        "higher" => Between::Higher,
        "nearest" => Between::Nearest,
        "midpoint" => Between::Midpoint,
        _ => Between::Linear,
    };
    kernel(Quantile { name: a.op, q, dim, keepdim, between, skip })
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

const fn entry(
    name: &'static str,
    operands: &'static [&'static str],
    layer: Layer,
    attributes: &'static [(&'static str, &'static str)],
    build: fn(&mut Attrs) -> Result<Arc<dyn Kernel>>,
) -> Entry {
    Entry { name, operands, attributes, layer, build }
}

pub(super) static TABLE: &[Entry] = &[
    entry("softmax", X, Layer::Decomposed, LAST, |a| softmax(a, false)),
    entry("log_softmax", X, Layer::Decomposed, LAST, |a| softmax(a, true)),
    entry("layer_norm", &["x", "weight?", "bias?"], Layer::Custom, SHAPE, |a| {
        let over = Over::Layer(shape(a)?);
        norm(a, over)
    }),
    entry("rms_norm", &["x", "weight?"], Layer::Custom, SHAPE, |a| {
        let over = Over::Rms(shape(a)?);
        norm(a, over)
    }),
    entry(
        "group_norm",
        &["x", "weight?", "bias?"],
        Layer::Missing,
        &[("num_groups", "an integer"), ("eps", "1e-5")],
        |a| {
            let over = Over::Groups(count(a, "num_groups")?);
            norm(a, over)
        },
    ),
    entry(
        "batch_norm",
        &["x", "running_mean", "running_var", "weight?", "bias?"],
        Layer::Missing,
        &[("eps", "1e-5")],
        |a| norm(a, Over::Batch),
    ),
    entry("cumsum", X, Layer::Fallback, DIM, |a| scan(a, Carry::Sum)),
    entry("cumprod", X, Layer::Missing, DIM, |a| scan(a, Carry::Product)),
    entry("cummax", X, Layer::Missing, DIM, |a| scan(a, Carry::Largest)),
    entry("cummin", X, Layer::Missing, DIM, |a| scan(a, Carry::Smallest)),
    entry("sort", X, Layer::Missing, SORT, |a| sort(a, Gives::Both)),
    entry("argsort", X, Layer::Missing, SORT, |a| sort(a, Gives::Indices)),
    entry(
        "topk",
        X,
        Layer::Native,
        &[("k", "an integer"), ("dim", "-1"), ("largest", "true"), ("sorted", "true")],
        topk,
    ),
    entry(
        "kthvalue",
        X,
        Layer::Missing,
        &[("k", "an integer"), ("dim", "-1"), ("keepdim", "false")],
        kthvalue,
    ),
    entry(
        "median",
        X,
        Layer::Missing,
        &[("dim", "the whole tensor"), ("keepdim", "false")],
        median,
    ),
    entry("quantile", X, Layer::Missing, QUANTILE, |a| quantile(a, false)),
    entry("nanquantile", X, Layer::Missing, QUANTILE, |a| quantile(a, true)),
];
