//! Matrix products, convolutions, attention.

use super::{BuiltForm, windows};
use crate::attributes::OpAttributes;
use crate::coverage::UpstreamLayer;
use crate::error::Result;
use crate::forms::{AttentionOp, OpForm, OperandRoles, ProductFactors, ProductKind, ProductOp};
use crate::row::{OpRow, row};
use crate::torch_operator::{attribute, operand, operator, refused_if_set};
use zellige_float::Dtype;

const UNIT_FACTORS: ProductFactors = ProductFactors { alpha: 1.0, beta: 1.0 };
/// A and B alone.
const PAIR_ROLES: OperandRoles =
    OperandRoles { a: 0, b: 1, scales: &[], addend: None, least: 2, most: 2 };
/// An addend, then A and B.
const ADDEND_ROLES: OperandRoles =
    OperandRoles { a: 1, b: 2, scales: &[], addend: Some(0), least: 3, most: 3 };

fn build_product(
    name: &'static str,
    form: ProductKind,
    roles: OperandRoles,
    factors: ProductFactors,
) -> BuiltForm {
    Ok(OpForm::Product(ProductOp { name, form, roles, factors, yields: None }))
}

fn take_factors(attrs: &mut OpAttributes) -> Result<ProductFactors> {
    Ok(ProductFactors {
        alpha: attrs.take_number("alpha", Some(1.0))?,
        beta: attrs.take_number("beta", Some(1.0))?,
    })
}

const FACTORS: &[(&str, &str)] = &[("alpha", "1"), ("beta", "1")];

const WINDOWS: &[(&str, &str)] =
    &[("stride", "1"), ("padding", "0"), ("dilation", "1"), ("groups", "1")];

pub(crate) static ROWS: &[OpRow] = &[
    row("matmul", &["a", "b"], UpstreamLayer::Native, |_| {
        build_product("matmul", ProductKind::Matmul, PAIR_ROLES, UNIT_FACTORS)
    })
    .superdsc("batchmatmul"),
    row("mm", &["a", "b"], UpstreamLayer::Native, |_| {
        build_product("mm", ProductKind::Mm, PAIR_ROLES, UNIT_FACTORS)
    })
    .superdsc("batchmatmul")
    .torch(&[operator(&["mm", "mm.out"], &[operand("self"), operand("mat2")])]),
    row("bmm", &["a", "b"], UpstreamLayer::Native, |_| {
        build_product("bmm", ProductKind::Bmm, PAIR_ROLES, UNIT_FACTORS)
    })
    .superdsc("batchmatmul")
    .torch(&[operator(&["bmm", "bmm.out"], &[operand("self"), operand("mat2")])]),
    row("mv", &["a", "b"], UpstreamLayer::Decomposed, |_| {
        build_product("mv", ProductKind::Mv, PAIR_ROLES, UNIT_FACTORS)
    })
    .torch(&[operator(&["mv", "mv.out"], &[operand("self"), operand("vec")])]),
    row("dot", &["a", "b"], UpstreamLayer::Decomposed, |_| {
        build_product("dot", ProductKind::Dot, PAIR_ROLES, UNIT_FACTORS)
    })
    .neutral(0.0)
    .torch(&[operator(&["dot", "dot.out"], &[operand("self"), operand("tensor")])]),
    row("vecdot", &["a", "b"], UpstreamLayer::Decomposed, |_| {
        build_product("vecdot", ProductKind::Vecdot, PAIR_ROLES, UNIT_FACTORS)
    })
    .neutral(0.0),
    row("outer", &["a", "b"], UpstreamLayer::Decomposed, |_| {
        build_product("outer", ProductKind::Outer, PAIR_ROLES, UNIT_FACTORS)
    }),
    row("linear", &["input", "weight", "bias?"], UpstreamLayer::Decomposed, |_| {
        build_product(
            "linear",
            ProductKind::Linear,
            OperandRoles { addend: Some(2), most: 3, ..PAIR_ROLES },
            UNIT_FACTORS,
        )
    })
    .superdsc("batchmatmul"),
    row("addmm", &["input", "a", "b"], UpstreamLayer::Decomposed, |attrs| {
        build_product("addmm", ProductKind::Mm, ADDEND_ROLES, take_factors(attrs)?)
    })
    .attributes(FACTORS)
    .torch(&[operator(
        &["addmm", "addmm_", "addmm.out"],
        &[operand("self"), operand("mat1"), operand("mat2"), attribute("beta"), attribute("alpha")],
    )]),
    row("baddbmm", &["input", "a", "b"], UpstreamLayer::Decomposed, |attrs| {
        build_product("baddbmm", ProductKind::Bmm, ADDEND_ROLES, take_factors(attrs)?)
    })
    .attributes(FACTORS)
    .torch(&[operator(
        &["baddbmm", "baddbmm_", "baddbmm.out"],
        &[
            operand("self"),
            operand("batch1"),
            operand("batch2"),
            attribute("beta"),
            attribute("alpha"),
        ],
    )]),
    row("scaled_mm", &["a", "b", "scale_a", "scale_b", "bias?"], UpstreamLayer::Native, |attrs| {
        let accepted = ["float16", "bfloat16", "float32"];
        let name = attrs.take_word("out_dtype", "bfloat16", &accepted)?;
        let roles =
            OperandRoles { scales: &[2, 3], addend: Some(4), least: 4, most: 5, ..PAIR_ROLES };
        Ok(OpForm::Product(ProductOp {
            name: "scaled_mm",
            form: ProductKind::Mm,
            roles,
            factors: UNIT_FACTORS,
            yields: Some(Dtype::from_name(&name)?),
        }))
    })
    .attributes(&[("out_dtype", "bfloat16")]),
    row(
        "scaled_dot_product_attention",
        &["query", "key", "value", "mask?"],
        UpstreamLayer::Decomposed,
        |attrs| {
            // A missing scale is read as NaN, which no caller can write as a JSON number.
            let scale = attrs.take_number("scale", Some(f64::NAN))?;
            Ok(OpForm::Attention(AttentionOp {
                causal: attrs.take_flag("is_causal", false)?,
                scale: (!scale.is_nan()).then_some(scale),
                grouped: attrs.take_flag("enable_gqa", false)?,
            }))
        },
    )
    .attributes(&[("is_causal", "false"), ("scale", "1 / sqrt(e)"), ("enable_gqa", "false")]),
    row("conv1d", &["input", "weight", "bias?"], UpstreamLayer::Decomposed, |attrs| {
        windows::build_convolution(attrs, "conv1d", 1)
    })
    .attributes(WINDOWS)
    .whole("it runs as a kernel over windows"),
    row("conv2d", &["input", "weight", "bias?"], UpstreamLayer::Decomposed, |attrs| {
        windows::build_convolution(attrs, "conv2d", 2)
    })
    .attributes(WINDOWS)
    .whole("it runs as a kernel over windows"),
    row("max_pool2d", &["input"], UpstreamLayer::Missing, windows::build_max_pool).attributes(&[
        ("kernel_size", ""),
        ("stride", "kernel_size"),
        ("padding", "0"),
        ("dilation", "1"),
        ("ceil_mode", "false"),
    ]),
    row("avg_pool2d", &["input"], UpstreamLayer::Missing, windows::build_avg_pool)
        .attributes(&[
            ("kernel_size", ""),
            ("stride", "kernel_size"),
            ("padding", "0"),
            ("ceil_mode", "false"),
            ("count_include_pad", "true"),
        ])
        .torch(&[operator(
            &["avg_pool2d", "avg_pool2d.out"],
            &[
                operand("self"),
                attribute("kernel_size"),
                attribute("stride"),
                attribute("padding"),
                attribute("ceil_mode"),
                attribute("count_include_pad"),
                refused_if_set("divisor_override"),
            ],
        )]),
    row(
        "adaptive_avg_pool2d",
        &["input"],
        UpstreamLayer::Missing,
        windows::build_adaptive_avg_pool,
    )
    .attributes(&[("output_size", "")])
    .torch(&[operator(
        &["_adaptive_avg_pool2d", "_adaptive_avg_pool2d.out"],
        &[operand("self"), attribute("output_size")],
    )]),
];
