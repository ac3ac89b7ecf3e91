//! Reductions.

use super::{Arc, Attrs, Entry, Kernel, Layer, Result};
use crate::kernels::reduce::{Reduce, What};

const DIMS: &[(&str, &str)] = &[("dim", "all dimensions; one or a list"), ("keepdim", "false")];
const ONE: &[(&str, &str)] = &[("dim", "an integer"), ("keepdim", "false")];

/// A reduction over a set of dimensions.
fn over(a: &mut Attrs, what: What) -> Result<Arc<dyn Kernel>> {
    let (dims, keepdim) = (a.ints("dim")?, a.flag("keepdim", false)?);
    Ok(Arc::new(Reduce { name: a.op, what, dims, keepdim }))
}

/// A reduction over one dimension.
fn along(a: &mut Attrs, what: What) -> Result<Arc<dyn Kernel>> {
    let (dim, keepdim) = (a.int("dim", None)?, a.flag("keepdim", false)?);
    Ok(Arc::new(Reduce { name: a.op, what, dims: Some(vec![dim]), keepdim }))
}

/// A reduction over one dimension or all of them.
fn index(a: &mut Attrs, what: What) -> Result<Arc<dyn Kernel>> {
    let dims = a.ints("dim")?;
    if let Some(dims) = &dims
        && dims.len() != 1
    {
        return Err(a.bad("dim", format!("{dims:?} is not one dimension; leave it out for all")));
    }
    let keepdim = a.flag("keepdim", false)?;
    Ok(Arc::new(Reduce { name: a.op, what, dims, keepdim }))
}

#[allow(clippy::cast_possible_truncation, reason = "attributes are numbers of the operation")]
fn variance(a: &mut Attrs, root: bool, mean: bool) -> Result<Arc<dyn Kernel>> {
    let correction = a.number("correction", Some(1.0))? as f32;
    over(a, What::Var { correction, root, mean })
}

const fn entry(
    name: &'static str,
    layer: Layer,
    attributes: &'static [(&'static str, &'static str)],
    build: fn(&mut Attrs) -> Result<Arc<dyn Kernel>>,
) -> Entry {
    Entry { name, operands: &["x"], attributes, layer, build }
}

const VAR: &[(&str, &str)] =
    &[("dim", "all dimensions; one or a list"), ("correction", "1"), ("keepdim", "false")];

pub(super) static TABLE: &[Entry] = &[
    entry("sum", Layer::Native, DIMS, |a| over(a, What::Sum)),
    entry("mean", Layer::Native, DIMS, |a| over(a, What::Mean)),
    entry("amax", Layer::Native, DIMS, |a| over(a, What::Amax)),
    entry("amin", Layer::Native, DIMS, |a| over(a, What::Amin)),
    entry("max", Layer::Decomposed, ONE, |a| along(a, What::Max)),
    entry("min", Layer::Decomposed, ONE, |a| along(a, What::Min)),
    entry("argmax", Layer::Fallback, DIMS, |a| index(a, What::ArgMax)),
    entry("argmin", Layer::Fallback, DIMS, |a| index(a, What::ArgMin)),
    entry("prod", Layer::Missing, DIMS, |a| over(a, What::Prod)),
    entry("any", Layer::Fallback, DIMS, |a| over(a, What::Any)),
    entry("all", Layer::Missing, DIMS, |a| over(a, What::All)),
    entry("count_nonzero", Layer::Missing, DIMS, |a| over(a, What::CountNonzero)),
    entry("nansum", Layer::Missing, DIMS, |a| over(a, What::NanSum)),
    entry("nanmean", Layer::Missing, DIMS, |a| over(a, What::NanMean)),
    entry("var", Layer::Missing, VAR, |a| variance(a, false, false)),
    entry("std", Layer::Missing, VAR, |a| variance(a, true, false)),
    entry("var_mean", Layer::Missing, VAR, |a| variance(a, false, true)),
    entry("exx2", Layer::Native, DIMS, |a| over(a, What::Exx2)),
    entry("logsumexp", Layer::Missing, DIMS, |a| over(a, What::LogSumExp)),
    entry(
        "norm",
        Layer::Missing,
        &[
            ("p", "2; a number, \"inf\" or \"-inf\""),
            ("dim", "all dimensions; one or a list"),
            ("keepdim", "false"),
        ],
        |a| {
            #[allow(clippy::cast_possible_truncation, reason = "p is a number of the operation")]
            let p = a.number("p", Some(2.0))? as f32;
            over(a, What::Norm { p })
        },
    ),
];
