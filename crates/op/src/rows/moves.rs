//! Operations made of moves.

use super::Built;
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::error::Result;
use crate::forms::{
    Border, Concat, Diag, Flip, Form, Interleave, Moving, Pad, Repeat, Roll, SliceScatter,
};
use crate::row::{OpRow, row};
use crate::scalar::Scalar;

fn moving<M>(a: &Attributes, form: fn(Moving<M>) -> Form, rule: M) -> Built {
    Ok(form(Moving { name: a.op, rule }))
}

fn list(a: &mut Attributes, name: &str) -> Result<Vec<i64>> {
    match a.ints(name)? {
        Some(list) => Ok(list),
        None => Err(a.bad(name, "it is missing; a list of integers".into())),
    }
}

fn optional(a: &mut Attributes, name: &str) -> Result<Option<i64>> {
    match a.ints(name)?.as_deref() {
        None => Ok(None),
        Some([n]) => Ok(Some(*n)),
        Some(_) => Err(a.bad(name, "it is one integer".into())),
    }
}

fn concat(a: &mut Attributes, new: bool) -> Built {
    let dim = a.int("dim", Some(0))?;
    moving(a, Form::Concat, Concat { dim, new })
}

fn pad(a: &mut Attributes) -> Built {
    let widths = list(a, "pad")?;
    if widths.len() % 2 != 0 {
        return Err(a.bad("pad", "it is a list of pairs: before and after a dimension".into()));
    }
    let modes = ["constant", "reflect", "replicate", "circular"];
    let mode = a.word("mode", "constant", &modes)?;
    let value = a.scalar("value", Some(Scalar::Int(0)))?;
    let border = match mode.as_str() {
        "reflect" => Border::Reflect,
        "replicate" => Border::Replicate,
        "circular" => Border::Circular,
        _ => Border::Constant(value),
    };
    moving(a, Form::Pad, Pad { widths, border })
}

fn roll(a: &mut Attributes) -> Built {
    let (shifts, dims) = (list(a, "shifts")?, a.ints("dims")?);
    let dims = dims.filter(|d| !d.is_empty());
    moving(a, Form::Roll, Roll { shifts, dims })
}

fn repeat(a: &mut Attributes) -> Built {
    let repeats = list(a, "repeats")?;
    match repeats.iter().find(|r| **r < 0) {
        Some(r) => Err(a.bad("repeats", format!("{r} is negative"))),
        None => moving(a, Form::Repeat, Repeat { repeats }),
    }
}

fn interleave(a: &mut Attributes) -> Built {
    let (times, dim) = (a.int("repeats", None)?, optional(a, "dim")?);
    if times < 0 {
        return Err(a.bad("repeats", format!("{times} is negative")));
    }
    moving(a, Form::Interleave, Interleave { times, dim })
}

fn slice_scatter(a: &mut Attributes) -> Built {
    let dim = a.int("dim", Some(0))?;
    let (start, end) = (optional(a, "start")?, optional(a, "end")?);
    let step = a.int("step", Some(1))?;
    if step < 1 {
        return Err(a.bad("step", format!("{step} is not 1 or more")));
    }
    moving(a, Form::SliceScatter, SliceScatter { dim, start, end, step, over: false })
}

pub(crate) static ROWS: &[OpRow] = &[
    row("cat", &["tensors..."], Layer::Native, |a| concat(a, false))
        .attributes(&[("dim", "0")])
        .torch(&["cat.out (tensors, dim=)"]),
    row("stack", &["tensors..."], Layer::Decomposed, |a| concat(a, true))
        .attributes(&[("dim", "0")])
        .torch(&["stack stack.out (tensors, dim=)"]),
    row("pad", &["x"], Layer::Native, pad)
        .attributes(&[("pad", ""), ("mode", "constant"), ("value", "0")])
        .torch(&["constant_pad_nd constant_pad_nd.out (self, pad=, value=)"]),
    row("flip", &["x"], Layer::Fallback, |a| {
        let dims = list(a, "dims")?;
        moving(a, Form::Flip, Flip { dims })
    })
    .attributes(&[("dims", "")])
    .torch(&["flip flip.out (self, dims=)"]),
    row("roll", &["x"], Layer::Fallback, roll)
        .attributes(&[("shifts", ""), ("dims", "")])
        .torch(&["roll roll.out (self, shifts=, dims=)"]),
    row("repeat", &["x"], Layer::Decomposed, repeat)
        .attributes(&[("repeats", "")])
        .torch(&["repeat repeat.out (self, repeats=)"]),
    row("repeat_interleave", &["x"], Layer::Decomposed, interleave)
        .attributes(&[("repeats", ""), ("dim", "")]),
    row("diag", &["x"], Layer::Decomposed, |a| {
        let diagonal = a.int("diagonal", Some(0))?;
        moving(a, Form::Diag, Diag { diagonal })
    })
    .attributes(&[("diagonal", "0")])
    .whole("no view has its elements"),
    row("slice_scatter", &["x", "source"], Layer::Native, slice_scatter)
        .attributes(&[("dim", "0"), ("start", ""), ("end", ""), ("step", "1")])
        .torch(&["slice_scatter slice_scatter.out (self, src, dim=, start=, end=, step=)"]),
];
