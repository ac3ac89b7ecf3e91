//! Matrix products, convolutions, attention.

use super::{Built, windows};
use crate::attributes::Attributes;
use crate::coverage::Layer;
use crate::error::Result;
use crate::forms::{Attention, Factors, Form, Product, ProductKind, Roles};
use crate::row::{OpRow, row};
use zellige_float::Dtype;

const PLAIN: Factors = Factors { alpha: 1.0, beta: 1.0 };
/// A and B alone.
const PAIR: Roles = Roles { a: 0, b: 1, scales: &[], addend: None, least: 2, most: 2 };
/// An addend, then A and B.
const ADDED: Roles = Roles { a: 1, b: 2, scales: &[], addend: Some(0), least: 3, most: 3 };

fn product(name: &'static str, form: ProductKind, roles: Roles, factors: Factors) -> Built {
    Ok(Form::Product(Product { name, form, roles, factors, yields: None }))
}

fn factors(attrs: &mut Attributes) -> Result<Factors> {
    Ok(Factors { alpha: attrs.number("alpha", Some(1.0))?, beta: attrs.number("beta", Some(1.0))? })
}

const FACTORS: &[(&str, &str)] = &[("alpha", "1"), ("beta", "1")];

const WINDOWS: &[(&str, &str)] =
    &[("stride", "1"), ("padding", "0"), ("dilation", "1"), ("groups", "1")];

pub(crate) static ROWS: &[OpRow] = &[
    row("matmul", &["a", "b"], Layer::Native, |_| product("matmul", ProductKind::Matmul, PAIR, PLAIN)).superdsc("batchmatmul"),
    row("mm", &["a", "b"], Layer::Native, |_| product("mm", ProductKind::Mm, PAIR, PLAIN)).superdsc("batchmatmul").torch(&["mm mm.out (self, mat2)"]),
    row("bmm", &["a", "b"], Layer::Native, |_| product("bmm", ProductKind::Bmm, PAIR, PLAIN)).superdsc("batchmatmul").torch(&["bmm bmm.out (self, mat2)"]),
    row("mv", &["a", "b"], Layer::Decomposed, |_| product("mv", ProductKind::Mv, PAIR, PLAIN)).torch(&["mv mv.out (self, vec)"]),
    row("dot", &["a", "b"], Layer::Decomposed, |_| product("dot", ProductKind::Dot, PAIR, PLAIN)).neutral(0.0).torch(&["dot dot.out (self, tensor)"]),
    row("vecdot", &["a", "b"], Layer::Decomposed, |_| product("vecdot", ProductKind::Vecdot, PAIR, PLAIN)).neutral(0.0),
    row("outer", &["a", "b"], Layer::Decomposed, |_| product("outer", ProductKind::Outer, PAIR, PLAIN)),
    row("linear", &["input", "weight", "bias?"], Layer::Decomposed, |_| {
            product("linear", ProductKind::Linear, Roles { addend: Some(2), most: 3, ..PAIR }, PLAIN)
        }).superdsc("batchmatmul"),
    row("addmm", &["input", "a", "b"], Layer::Decomposed, |attrs| product("addmm", ProductKind::Mm, ADDED, factors(attrs)?)).attributes(FACTORS).torch(&["addmm addmm_ addmm.out (self, mat1, mat2, beta=, alpha=)"]),
    row("baddbmm", &["input", "a", "b"], Layer::Decomposed, |attrs| product("baddbmm", ProductKind::Bmm, ADDED, factors(attrs)?)).attributes(FACTORS).torch(&["baddbmm baddbmm_ baddbmm.out (self, batch1, batch2, beta=, alpha=)"]),
    row("scaled_mm", &["a", "b", "scale_a", "scale_b", "bias?"], Layer::Native, |attrs| {
            let accepted = ["float16", "bfloat16", "float32"];
            let name = attrs.word("out_dtype", "bfloat16", &accepted)?;
            let roles = Roles { scales: &[2, 3], addend: Some(4), least: 4, most: 5, ..PAIR };
            Ok(Form::Product(Product {
                name: "scaled_mm",
                form: ProductKind::Mm,
                roles,
                factors: PLAIN,
                yields: Some(Dtype::from_name(&name)?),
            }))
        }).attributes(&[("out_dtype", "bfloat16")]),
    row("scaled_dot_product_attention", &["query", "key", "value", "mask?"], Layer::Decomposed, |attrs| {
            // JSON has no NaN: it stands for a scale that is not given.
            let scale = attrs.number("scale", Some(f64::NAN))?;
            Ok(Form::Attention(Attention {
                causal: attrs.flag("is_causal", false)?,
                scale: (!scale.is_nan()).then_some(scale),
                grouped: attrs.flag("enable_gqa", false)?,
            }))
        }).attributes(&[("is_causal", "false"), ("scale", "1 / sqrt(e)"), ("enable_gqa", "false")]),
    row("conv1d", &["input", "weight", "bias?"], Layer::Decomposed, |attrs| windows::convolution(attrs, "conv1d", 1)).attributes(WINDOWS).whole("it runs as a kernel over windows"),
    row("conv2d", &["input", "weight", "bias?"], Layer::Decomposed, |attrs| windows::convolution(attrs, "conv2d", 2)).attributes(WINDOWS).whole("it runs as a kernel over windows"),
    row("max_pool2d", &["input"], Layer::Missing, windows::max_pool).attributes(&[
            ("kernel_size", ""),
            ("stride", "kernel_size"),
            ("padding", "0"),
            ("dilation", "1"),
            ("ceil_mode", "false"),
        ]),
    row("avg_pool2d", &["input"], Layer::Missing, windows::avg_pool).attributes(&[
            ("kernel_size", ""),
            ("stride", "kernel_size"),
            ("padding", "0"),
            ("ceil_mode", "false"),
            ("count_include_pad", "true"),
        ]).torch(&["avg_pool2d avg_pool2d.out (self, kernel_size=, stride=, padding=, ceil_mode=, count_include_pad=, divisor_override?)"]),
    row("adaptive_avg_pool2d", &["input"], Layer::Missing, windows::adaptive_avg_pool).attributes(&[("output_size", "")]).torch(&["_adaptive_avg_pool2d _adaptive_avg_pool2d.out (self, output_size=)"]),
];
