//! Matrix products, convolutions, attention.

mod windows;

use super::{Attrs, Entry, Layer};
use crate::error::Result;
use crate::kernels::Kernel;
use crate::kernels::attention::Attention;
use crate::kernels::matmul::{Factors, Form, Product, Roles};
use std::sync::Arc;
use zellige_layout::Dtype;

const PLAIN: Factors = Factors { alpha: 1.0, beta: 1.0 };
/// A and B alone.
const PAIR: Roles = Roles { a: 0, b: 1, scales: &[], addend: None, least: 2, most: 2 };
/// An addend, then A and B.
const ADDED: Roles = Roles { a: 1, b: 2, scales: &[], addend: Some(0), least: 3, most: 3 };

fn product(
    name: &'static str,
    form: Form,
    roles: Roles,
    factors: Factors,
) -> Result<Arc<dyn Kernel>> {
    Ok(Arc::new(Product { name, form, roles, factors, yields: None }))
}

fn factors(attrs: &mut Attrs) -> Result<Factors> {
    Ok(Factors { alpha: attrs.number("alpha", Some(1.0))?, beta: attrs.number("beta", Some(1.0))? })
}

const FACTORS: &[(&str, &str)] = &[("alpha", "1"), ("beta", "1")];

const WINDOWS: &[(&str, &str)] =
    &[("stride", "1"), ("padding", "0"), ("dilation", "1"), ("groups", "1")];

pub(super) static TABLE: &[Entry] = &[
    Entry {
        name: "matmul",
        operands: &["a", "b"],
        attributes: &[],
        layer: Layer::Native,
        build: |_| product("matmul", Form::Matmul, PAIR, PLAIN),
    },
    Entry {
        name: "mm",
        operands: &["a", "b"],
        attributes: &[],
        layer: Layer::Native,
        build: |_| product("mm", Form::Mm, PAIR, PLAIN),
    },
    Entry {
        name: "bmm",
        operands: &["a", "b"],
        attributes: &[],
        layer: Layer::Native,
        build: |_| product("bmm", Form::Bmm, PAIR, PLAIN),
    },
    Entry {
        name: "mv",
        operands: &["a", "b"],
        attributes: &[],
        layer: Layer::Decomposed,
        build: |_| product("mv", Form::Mv, PAIR, PLAIN),
    },
    Entry {
        name: "dot",
        operands: &["a", "b"],
        attributes: &[],
        layer: Layer::Decomposed,
        build: |_| product("dot", Form::Dot, PAIR, PLAIN),
    },
    Entry {
        name: "vecdot",
        operands: &["a", "b"],
        attributes: &[],
        layer: Layer::Decomposed,
        build: |_| product("vecdot", Form::Vecdot, PAIR, PLAIN),
    },
    Entry {
        name: "outer",
        operands: &["a", "b"],
        attributes: &[],
        layer: Layer::Decomposed,
        build: |_| product("outer", Form::Outer, PAIR, PLAIN),
    },
    Entry {
        name: "linear",
        operands: &["input", "weight", "bias?"],
        attributes: &[],
        layer: Layer::Decomposed,
        build: |_| {
            product("linear", Form::Linear, Roles { addend: Some(2), most: 3, ..PAIR }, PLAIN)
        },
    },
    Entry {
        name: "addmm",
        operands: &["input", "a", "b"],
        attributes: FACTORS,
        layer: Layer::Decomposed,
        build: |attrs| product("addmm", Form::Mm, ADDED, factors(attrs)?),
    },
    Entry {
        name: "baddbmm",
        operands: &["input", "a", "b"],
        attributes: FACTORS,
        layer: Layer::Decomposed,
        build: |attrs| product("baddbmm", Form::Bmm, ADDED, factors(attrs)?),
    },
    Entry {
        name: "scaled_mm",
        operands: &["a", "b", "scale_a", "scale_b", "bias?"],
        attributes: &[("out_dtype", "bfloat16")],
        layer: Layer::Native,
        build: |attrs| {
            let accepted = ["float16", "bfloat16", "float32"];
            let name = attrs.word("out_dtype", "bfloat16", &accepted)?;
            let roles = Roles { scales: &[2, 3], addend: Some(4), least: 4, most: 5, ..PAIR };
            Ok(Arc::new(Product {
                name: "scaled_mm",
                form: Form::Mm,
                roles,
                factors: PLAIN,
                yields: Some(Dtype::from_name(&name)?),
            }))
        },
    },
    Entry {
        name: "scaled_dot_product_attention",
        operands: &["query", "key", "value", "mask?"],
        attributes: &[("is_causal", "false"), ("scale", "1 / sqrt(e)"), ("enable_gqa", "false")],
        layer: Layer::Decomposed,
        build: |attrs| {
            // JSON has no NaN: it stands for a scale that is not given.
            let scale = attrs.number("scale", Some(f64::NAN))?;
            Ok(Arc::new(Attention {
                causal: attrs.flag("is_causal", false)?,
                scale: (!scale.is_nan()).then_some(scale),
                grouped: attrs.flag("enable_gqa", false)?,
            }))
        },
    },
    Entry {
        name: "conv1d",
        operands: &["input", "weight", "bias?"],
        attributes: WINDOWS,
        layer: Layer::Decomposed,
        build: |attrs| windows::convolution(attrs, "conv1d", 1),
    },
    Entry {
        name: "conv2d",
        operands: &["input", "weight", "bias?"],
        attributes: WINDOWS,
        layer: Layer::Decomposed,
        build: |attrs| windows::convolution(attrs, "conv2d", 2),
    },
    Entry {
        name: "max_pool2d",
        operands: &["input"],
        attributes: &[
            ("kernel_size", ""),
            ("stride", "kernel_size"),
            ("padding", "0"),
            ("dilation", "1"),
            ("ceil_mode", "false"),
        ],
        layer: Layer::Missing,
        build: windows::max_pool,
    },
    Entry {
        name: "avg_pool2d",
        operands: &["input"],
        attributes: &[
            ("kernel_size", ""),
            ("stride", "kernel_size"),
            ("padding", "0"),
            ("ceil_mode", "false"),
            ("count_include_pad", "true"),
        ],
        layer: Layer::Missing,
        build: windows::avg_pool,
    },
    Entry {
        name: "adaptive_avg_pool2d",
        operands: &["input"],
        attributes: &[("output_size", "")],
        layer: Layer::Missing,
        build: windows::adaptive_avg_pool,
    },
];
