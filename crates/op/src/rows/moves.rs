//! Operations that only move elements.

use super::BuiltForm;
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::error::Result;
use crate::forms::{
    BorderFill, ConcatOp, DiagOp, FlipOp, InterleaveOp, MoveForm, OpForm, PadOp, RepeatOp, RollOp,
    SliceScatterOp,
};
use crate::row::{OpRow, row};
use crate::scalar::HostScalar;
use crate::torch_operator::{attribute, operand, operator};

fn build_move<M>(a: &OpAttributes, form: fn(MoveForm<M>) -> OpForm, rule: M) -> BuiltForm {
    Ok(form(MoveForm { name: a.op, rule }))
}

fn take_list(a: &mut OpAttributes, name: &str) -> Result<Vec<i64>> {
    match a.take_ints(name)? {
        Some(list) => Ok(list),
        None => Err(a.bad_attribute(name, "it is missing; a list of integers".into())),
    }
}

fn take_optional(a: &mut OpAttributes, name: &str) -> Result<Option<i64>> {
    match a.take_ints(name)?.as_deref() {
        None => Ok(None),
        Some([n]) => Ok(Some(*n)),
        Some(_) => Err(a.bad_attribute(name, "it is one integer".into())),
    }
}

fn build_concat(a: &mut OpAttributes, new: bool) -> BuiltForm {
    let dim = a.take_int("dim", Some(0))?;
    build_move(a, OpForm::Concat, ConcatOp { dim, new })
}

fn build_pad(a: &mut OpAttributes) -> BuiltForm {
    let widths = take_list(a, "pad")?;
    if widths.len() % 2 != 0 {
        return Err(
            a.bad_attribute("pad", "it is a list of pairs: before and after a dimension".into())
        );
    }
    let modes = ["constant", "reflect", "replicate", "circular"];
    let mode = a.take_word("mode", "constant", &modes)?;
    let value = a.take_scalar("value", Some(HostScalar::Int(0)))?;
    let border = match mode.as_str() {
        "reflect" => BorderFill::Reflect,
        "replicate" => BorderFill::Replicate,
        "circular" => BorderFill::Circular,
        _ => BorderFill::Constant(value),
    };
    build_move(a, OpForm::Pad, PadOp { widths, border })
}

fn build_roll(a: &mut OpAttributes) -> BuiltForm {
    let (shifts, dims) = (take_list(a, "shifts")?, a.take_ints("dims")?);
    let dims = dims.filter(|d| !d.is_empty());
    build_move(a, OpForm::Roll, RollOp { shifts, dims })
}

fn build_repeat(a: &mut OpAttributes) -> BuiltForm {
    let repeats = take_list(a, "repeats")?;
    match repeats.iter().find(|r| **r < 0) {
        Some(r) => Err(a.bad_attribute("repeats", format!("{r} is negative"))),
        None => build_move(a, OpForm::Repeat, RepeatOp { repeats }),
    }
}

fn build_interleave(a: &mut OpAttributes) -> BuiltForm {
    let (times, dim) = (a.take_int("repeats", None)?, take_optional(a, "dim")?);
    if times < 0 {
        return Err(a.bad_attribute("repeats", format!("{times} is negative")));
    }
    build_move(a, OpForm::Interleave, InterleaveOp { times, dim })
}

fn build_slice_scatter(a: &mut OpAttributes) -> BuiltForm {
    let dim = a.take_int("dim", Some(0))?;
    let (start, end) = (take_optional(a, "start")?, take_optional(a, "end")?);
    let step = a.take_int("step", Some(1))?;
    if step < 1 {
        return Err(a.bad_attribute("step", format!("{step} is not 1 or more")));
    }
    build_move(a, OpForm::SliceScatter, SliceScatterOp { dim, start, end, step, over: false })
}

pub(crate) static ROWS: &[OpRow] = &[
    row("cat", &["tensors..."], UpstreamLayer::Native, |a| build_concat(a, false))
        .attributes(&[("dim", "0")])
        .torch(&[operator(&["cat.out"], &[operand("tensors"), attribute("dim")])]),
    row("stack", &["tensors..."], UpstreamLayer::Decomposed, |a| build_concat(a, true))
        .attributes(&[("dim", "0")])
        .torch(&[operator(&["stack", "stack.out"], &[operand("tensors"), attribute("dim")])]),
    row("pad", &["x"], UpstreamLayer::Native, build_pad)
        .attributes(&[("pad", ""), ("mode", "constant"), ("value", "0")])
        .torch(&[operator(
            &["constant_pad_nd", "constant_pad_nd.out"],
            &[operand("self"), attribute("pad"), attribute("value")],
        )]),
    row("flip", &["x"], UpstreamLayer::Fallback, |a| {
        let dims = take_list(a, "dims")?;
        build_move(a, OpForm::Flip, FlipOp { dims })
    })
    .attributes(&[("dims", "")])
    .torch(&[operator(&["flip", "flip.out"], &[operand("self"), attribute("dims")])]),
    row("roll", &["x"], UpstreamLayer::Fallback, build_roll)
        .attributes(&[("shifts", ""), ("dims", "")])
        .torch(&[operator(
            &["roll", "roll.out"],
            &[operand("self"), attribute("shifts"), attribute("dims")],
        )]),
    row("repeat", &["x"], UpstreamLayer::Decomposed, build_repeat)
        .attributes(&[("repeats", "")])
        .torch(&[operator(&["repeat", "repeat.out"], &[operand("self"), attribute("repeats")])]),
    row("repeat_interleave", &["x"], UpstreamLayer::Decomposed, build_interleave)
        .attributes(&[("repeats", ""), ("dim", "")]),
    row("diag", &["x"], UpstreamLayer::Decomposed, |a| {
        let diagonal = a.take_int("diagonal", Some(0))?;
        build_move(a, OpForm::Diag, DiagOp { diagonal })
    })
    .attributes(&[("diagonal", "0")])
    .whole("no view has its elements"),
    row("slice_scatter", &["x", "source"], UpstreamLayer::Native, build_slice_scatter)
        .attributes(&[("dim", "0"), ("start", ""), ("end", ""), ("step", "1")])
        .torch(&[operator(
            &["slice_scatter", "slice_scatter.out"],
            &[
                operand("self"),
                operand("src"),
                attribute("dim"),
                attribute("start"),
                attribute("end"),
                attribute("step"),
            ],
        )]),
];
