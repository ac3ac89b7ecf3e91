//! Operations that look elements up by index.

use super::{Attrs, Entry, Layer};
use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::index::{Combine, Pattern, Read, Write};
use std::sync::Arc;

fn read(name: &'static str, pattern: Pattern) -> Result<Arc<dyn Kernel>> {
    Ok(Arc::new(Read { name, pattern }))
}

fn write(name: &'static str, pattern: Pattern, combine: Combine) -> Result<Arc<dyn Kernel>> {
    Ok(Arc::new(Write { name, pattern, combine, over: false }))
}

fn combine(attrs: &mut Attrs, default: &str) -> Result<Combine> {
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

pub(super) static TABLE: &[Entry] = &[
    Entry {
        name: "embedding",
        operands: &["weight", "index"],
        attributes: &[],
        layer: Layer::Fallback,
        build: |_| read("embedding", Pattern::Embedding),
    },
    Entry {
        name: "index_select",
        operands: &["x", "index"],
        attributes: &[DIM],
        layer: Layer::Fallback,
        build: |a| read("index_select", Pattern::Select(a.int("dim", None)?)),
    },
    Entry {
        name: "gather",
        operands: &["x", "index"],
        attributes: &[DIM],
        layer: Layer::Fallback,
        build: |a| read("gather", Pattern::Gather(a.int("dim", None)?)),
    },
    Entry {
        name: "index",
        operands: &["x", "index..."],
        attributes: &[],
        layer: Layer::Fallback,
        build: |_| read("index", Pattern::Advanced),
    },
    Entry {
        name: "scatter",
        operands: &["x", "index", "values"],
        attributes: &[DIM, ("reduce", "none, sum, prod, amax or amin; none")],
        layer: Layer::Fallback,
        build: |a| {
            let pattern = Pattern::Gather(a.int("dim", None)?);
            write("scatter", pattern, combine(a, "none")?)
        },
    },
    Entry {
        name: "index_add",
        operands: &["x", "index", "values"],
        attributes: &[DIM],
        layer: Layer::Fallback,
        build: |a| write("index_add", Pattern::Select(a.int("dim", None)?), Combine::Add),
    },
    Entry {
        name: "index_copy",
        operands: &["x", "index", "values"],
        attributes: &[DIM],
        layer: Layer::Fallback,
        build: |a| write("index_copy", Pattern::Select(a.int("dim", None)?), Combine::Replace),
    },
    Entry {
        name: "index_put",
        operands: &["x", "index...", "values"],
        attributes: &[("accumulate", "true or false; false")],
        layer: Layer::Fallback,
        build: |a| {
            let add = a.flag("accumulate", false)?;
            let how = if add { Combine::Add } else { Combine::Replace };
            write("index_put", Pattern::Advanced, how)
        },
    },
];
