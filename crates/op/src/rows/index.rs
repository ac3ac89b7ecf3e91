//! Operations that look elements up by index.

use super::Built;
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::error::Result;
use crate::forms::{Combine, Form, IndexPattern, IndexRead, IndexWrite};
use crate::row::{OpRow, row};

fn read(name: &'static str, pattern: IndexPattern) -> Built {
    Ok(Form::IndexRead(IndexRead { name, pattern }))
}

fn write(name: &'static str, pattern: IndexPattern, combine: Combine) -> Built {
    Ok(Form::IndexWrite(IndexWrite { name, pattern, combine, over: false }))
}

fn combine(attrs: &mut Attributes, default: &str) -> Result<Combine> {
    let accepted = ["none", "sum", "prod", "amax", "amin"];
    Ok(match attrs.word("reduce", default, &accepted)?.as_str() {
        "sum" => Combine::Add,
        "prod" => Combine::Multiply,
        "amax" => Combine::Max,
        "amin" => Combine::Min,
        _ => Combine::Replace,
    })
}

const DIM: (&str, &str) = ("dim", "an integer");

pub(crate) static ROWS: &[OpRow] = &[
    row("embedding", &["weight", "index"], Layer::Fallback, |_| read("embedding", IndexPattern::Embedding)).torch(&["embedding (weight, indices, padding_idx!, scale_grad_by_freq!, sparse!)"]),
    row("index_select", &["x", "index"], Layer::Fallback, |a| read("index_select", IndexPattern::Select(a.int("dim", None)?))).attributes(&[DIM]).torch(&["index_select index_select.out (self, dim=, index)"]),
    row("gather", &["x", "index"], Layer::Fallback, |a| read("gather", IndexPattern::Gather(a.int("dim", None)?))).attributes(&[DIM]).torch(&["gather gather.out (self, dim=, index, sparse_grad!)"]),
    row("index", &["x", "index..."], Layer::Fallback, |_| read("index", IndexPattern::Advanced)),
    row("scatter", &["x", "index", "values"], Layer::Fallback, |a| {
            let pattern = IndexPattern::Gather(a.int("dim", None)?);
            write("scatter", pattern, combine(a, "none")?)
        }).attributes(&[DIM, ("reduce", "none, sum, prod, amax or amin; none")]).torch(&["scatter.src scatter_.src scatter.src_out (self, dim=, index, src)", "scatter_add scatter_add_ scatter_add.out [reduce=sum](self, dim=, index, src)", "scatter_reduce.two scatter_reduce_.two scatter_reduce.two_out (self, dim=, index, src, reduce=, include_self~)"]),
    row("index_add", &["x", "index", "values"], Layer::Fallback, |a| write("index_add", IndexPattern::Select(a.int("dim", None)?), Combine::Add)).attributes(&[DIM]).torch(&["index_add index_add_ index_add.out (self, dim=, index, source, alpha#)"]),
    row("index_copy", &["x", "index", "values"], Layer::Fallback, |a| write("index_copy", IndexPattern::Select(a.int("dim", None)?), Combine::Replace)).attributes(&[DIM]).torch(&["index_copy index_copy_ index_copy.out (self, dim=, index, source)"]),
    row("index_put", &["x", "index...", "values"], Layer::Fallback, |a| {
            let add = a.flag("accumulate", false)?;
            let how = if add { Combine::Add } else { Combine::Replace };
            write("index_put", IndexPattern::Advanced, how)
        }).attributes(&[("accumulate", "true or false; false")]),
];
