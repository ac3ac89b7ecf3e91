//! Operations that read or write elements by index: gathers and scatters.

use super::BuiltForm;
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::error::Result;
use crate::forms::{CombineRule, IndexPattern, IndexRead, IndexWrite, OpForm};
use crate::row::{OpRow, row};
use crate::torch_operator::{attribute, ignored, one, operand, operator, refused_if_unset};

fn build_read(name: &'static str, pattern: IndexPattern) -> BuiltForm {
    Ok(OpForm::IndexRead(IndexRead { name, pattern }))
}

fn build_write(name: &'static str, pattern: IndexPattern, combine: CombineRule) -> BuiltForm {
    Ok(OpForm::IndexWrite(IndexWrite { name, pattern, combine, over: false }))
}

fn take_combine_rule(attrs: &mut OpAttributes, default: &str) -> Result<CombineRule> {
    let accepted = ["none", "sum", "prod", "amax", "amin"];
    Ok(match attrs.take_word("reduce", default, &accepted)?.as_str() {
        "sum" => CombineRule::Add,
        "prod" => CombineRule::Multiply,
        "amax" => CombineRule::Max,
        "amin" => CombineRule::Min,
        _ => CombineRule::Replace,
    })
}

const DIM: (&str, &str) = ("dim", "an integer");

pub(crate) static ROWS: &[OpRow] = &[
    row("embedding", &["weight", "index"], UpstreamLayer::Fallback, |_| {
        build_read("embedding", IndexPattern::Embedding)
    })
    .torch(&[operator(
        &["embedding"],
        &[
            operand("weight"),
            operand("indices"),
            ignored("padding_idx"),
            ignored("scale_grad_by_freq"),
            ignored("sparse"),
        ],
    )]),
    row("index_select", &["x", "index"], UpstreamLayer::Fallback, |a| {
        build_read("index_select", IndexPattern::Select(a.take_int("dim", None)?))
    })
    .attributes(&[DIM])
    .torch(&[operator(
        &["index_select", "index_select.out"],
        &[operand("self"), attribute("dim"), operand("index")],
    )]),
    row("gather", &["x", "index"], UpstreamLayer::Fallback, |a| {
        build_read("gather", IndexPattern::Gather(a.take_int("dim", None)?))
    })
    .attributes(&[DIM])
    .torch(&[operator(
        &["gather", "gather.out"],
        &[operand("self"), attribute("dim"), operand("index"), ignored("sparse_grad")],
    )]),
    row("index", &["x", "index..."], UpstreamLayer::Fallback, |_| {
        build_read("index", IndexPattern::Advanced)
    }),
    row("scatter", &["x", "index", "values"], UpstreamLayer::Fallback, |a| {
        let pattern = IndexPattern::Gather(a.take_int("dim", None)?);
        build_write("scatter", pattern, take_combine_rule(a, "none")?)
    })
    .attributes(&[DIM, ("reduce", "none, sum, prod, amax or amin; none")])
    .torch(&[
        operator(
            &["scatter.src", "scatter_.src", "scatter.src_out"],
            &[operand("self"), attribute("dim"), operand("index"), operand("src")],
        ),
        operator(
            &["scatter_add", "scatter_add_", "scatter_add.out"],
            &[operand("self"), attribute("dim"), operand("index"), operand("src")],
        )
        .with_constant("reduce", "sum"),
        operator(
            &["scatter_reduce.two", "scatter_reduce_.two", "scatter_reduce.two_out"],
            &[
                operand("self"),
                attribute("dim"),
                operand("index"),
                operand("src"),
                attribute("reduce"),
                refused_if_unset("include_self"),
            ],
        ),
    ]),
    row("index_add", &["x", "index", "values"], UpstreamLayer::Fallback, |a| {
        build_write("index_add", IndexPattern::Select(a.take_int("dim", None)?), CombineRule::Add)
    })
    .attributes(&[DIM])
    .torch(&[operator(
        &["index_add", "index_add_", "index_add.out"],
        &[operand("self"), attribute("dim"), operand("index"), operand("source"), one("alpha")],
    )]),
    row("index_copy", &["x", "index", "values"], UpstreamLayer::Fallback, |a| {
        build_write(
            "index_copy",
            IndexPattern::Select(a.take_int("dim", None)?),
            CombineRule::Replace,
        )
    })
    .attributes(&[DIM])
    .torch(&[operator(
        &["index_copy", "index_copy_", "index_copy.out"],
        &[operand("self"), attribute("dim"), operand("index"), operand("source")],
    )]),
    row("index_put", &["x", "index...", "values"], UpstreamLayer::Fallback, |a| {
        let add = a.take_flag("accumulate", false)?;
        let how = if add { CombineRule::Add } else { CombineRule::Replace };
        build_write("index_put", IndexPattern::Advanced, how)
    })
    .attributes(&[("accumulate", "true or false; false")]),
];
