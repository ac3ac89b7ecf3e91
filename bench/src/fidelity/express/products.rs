//! Products alone in their graph: plain, in batches, with one weight, of 8-bit floats.

use super::super::case::{CasePart, Category, ExcludedRow};
use super::super::graphs::{BatchOrder, Fp8Packing, Product, fp8_linear_text};
use super::super::planner::{PlannedProduct, plan_division};
use super::super::row::{MeasuredRow, ProductSplit};
use super::super::texts::{
    find_size, parse_bracketed_shapes, parse_joined_sizes, parse_named_sizes, parse_product_split,
};
use super::{Expressed, build_case, build_sum, unstated};

/// Elements of two bytes in a stick; one of 8-bit floats has twice as many.
pub(super) const FP16_STICK: i64 = 64;

/// The division that a row says was forced, where this is one of a single product.
fn read_split(row: &MeasuredRow) -> Result<Option<ProductSplit>, ExcludedRow> {
    let text = row.work_division.as_str();
    // What the planner chose without being asked is left to ours.
    let chosen = ["", "planner", "compiler planner choice (not recorded)"];
    if chosen.contains(&text) || text.contains("planner default ran") {
        return Ok(row.forced_split);
    }
    let split = row.forced_split.or_else(|| parse_product_split(text));
    split.map(Some).ok_or_else(|| unstated(format!("its division is `{text}`")))
}

/// The case of a product that is alone in its graph.
fn product_case(row: &MeasuredRow, product: Product) -> Expressed {
    let split = read_split(row)?;
    let planned = split.or_else(|| plan_unrecorded(row, &product, FP16_STICK));
    let product = Product { split: planned, ..product };
    let category = match (product.batch, product.shared) {
        (None, _) => Category::Matmul,
        (Some(_), true) => Category::SharedWeight,
        (Some(_), false) => Category::Bmm,
    };
    let mut case = build_case(category, product.graph_text());
    case.split = split;
    let Product { batch, m, n, k, orders, .. } = product;
    case.shape = format!("{} {batch:?} {m} {k} {n} {orders:?} {}", category.name(), row.conditions);
    Ok(case)
}

/// What torch-spyre's planner chose, where the row does not say it.
pub(super) fn plan_unrecorded(
    row: &MeasuredRow,
    product: &Product,
    stick: i64,
) -> Option<ProductSplit> {
    let batch = product.batch.unwrap_or(1);
    // Where all three tensors have the batch outermost, the sources had set a preferred layout of products, and the
    // planner counts memory then.
    let layout = &row.layout;
    let outer_result = ["C batch-outer", "output batch-outer"].iter().any(|t| layout.contains(t));
    let all_outer = outer_result && product.orders == [BatchOrder::BatchOuter; 2];
    let by_memory = product.batch.is_none() || all_outer;
    let Product { m, n, k, .. } = *product;
    let cores = row.cores.unwrap_or(32).clamp(1, 32);
    Some(plan_division(PlannedProduct { batch, m, n, k, stick, by_memory }, cores))
}

/// The orders of both operands, where a row names them.
fn read_orders(row: &MeasuredRow) -> [BatchOrder; 2] {
    let text = row.layout.as_str();
    ["A", "B"].map(|name| {
        let outer =
            [format!("{name} batch-outer"), format!("{name}=1,0,2"), format!("{name} 1,0,2")];
        match outer.iter().any(|o| text.contains(o.as_str())) {
            true => BatchOrder::BatchOuter,
            false => BatchOrder::Default,
        }
    })
}

/// Sizes of a product: named M, K, N and perhaps B, or in the order that the text states.
pub(super) fn read_product_sizes(row: &MeasuredRow) -> Option<(Option<i64>, i64, i64, i64)> {
    let named = parse_named_sizes(&row.shapes);
    let size = |name: &str| find_size(&named, name);
    if let (Some(m), Some(n), Some(k)) = (size("M"), size("N"), size("K")) {
        return Some((size("B"), m, k, n));
    }
    if row.shapes.contains('[') {
        return match &parse_bracketed_shapes(&row.shapes)[..] {
            [a, b] if a.len() >= 2 && b.len() == 2 && a[a.len() - 1] == b[0] => {
                let rows = a[..a.len() - 1].iter().product();
                Some((None, rows, b[0], b[1]))
            }
            _ => None,
        };
    }
    match parse_joined_sizes(&row.shapes)[..] {
        [m, n, k] if row.shapes.contains("MxNxK") => Some((None, m, k, n)),
        [m, k, n] if row.shapes.contains("MxKxN") => Some((None, m, k, n)),
        [m, k, k2, n] if k == k2 => Some((None, m, k, n)),
        _ => None,
    }
}

pub(super) fn require_product_sizes(
    row: &MeasuredRow,
) -> Result<(Option<i64>, i64, i64, i64), ExcludedRow> {
    let unclear = || unstated(format!("`{}` does not say the sizes of the product", row.shapes));
    read_product_sizes(row).ok_or_else(unclear)
}

/// Products alone in their graph: plain, in batches, with one weight, of 8-bit floats.
pub(super) fn express_products(row: &MeasuredRow) -> Option<Expressed> {
    let op = row.op.as_str();
    if row.dtype.starts_with("fp8") {
        return Some(express_fp8(row));
    }
    if row.dtype != "fp16" {
        return Some(Err(unstated(format!("what runs in {} is not described", row.dtype))));
    }
    match op {
        "mm" | "mmwd" | "matmul" | "matmul (planner split)" => Some(
            require_product_sizes(row)
                .and_then(|(_, m, k, n)| product_case(row, Product::plain(m, k, n))),
        ),
        // One matrix in front of a flat weight: the batch of 1 is folded away.
        "matmul Q/O" | "matmul K/V" | "matmul gate/up" | "matmul small M" => {
            Some(require_product_sizes(row).and_then(|(_, m, k, n)| {
                if row.conditions.contains("some rows include a weight restickify") {
                    return Err(unstated(
                        "whether it includes a restickify of the weight is not stated",
                    ));
                }
                product_case(row, Product::plain(m, k, n))
            }))
        }
        "linear kv" | "linear qo" | "linear mlp_up" | "linear mlp_down" | "linear Q/O"
        | "linear K/V" | "linear gate/up" | "linear down" => Some(
            require_product_sizes(row)
                .and_then(|(_, m, k, n)| product_case(row, Product::plain(m, k, n))),
        ),
        "linear K/V shared pair" => Some(require_product_sizes(row).map(|(_, m, k, n)| {
            let plain = Product::plain(m, k, n);
            let graph =
                Product { split: plan_unrecorded(row, &plain, FP16_STICK), ..plain }.graph_text();
            build_sum(Category::Matmul, vec![CasePart { graph, times: 2 }])
        })),
        "gate/up matmul T512 H2816 F704" | "down matmul T512 F704 H2816" => {
            let sizes = parse_named_sizes(op);
            let size = |name| find_size(&sizes, name).unwrap_or(1);
            let (t, h, f) = (size("T"), size("H"), size("F"));
            let (k, n) = if op.starts_with("gate") { (h, f) } else { (f, h) };
            Some(product_case(row, Product::plain(t, k, n)))
        }
        "matmul/bmm" => Some(express_named_bmm(row)),
        "bmm"
        | "bmm_wd"
        | "bmm_layout"
        | "torch.bmm"
        | "torch.bmm core ladder"
        | "bmm (weight per batch)" => Some(require_product_sizes(row).and_then(|(b, m, k, n)| {
            let batch = b.or(row.b).ok_or_else(|| unstated("it does not say the batch"))?;
            let product = Product::batched(batch, m, k, n, false);
            product_case(row, Product { orders: read_orders(row), ..product })
        })),
        "bmm_wd_3d2d" | "bmm (shared 2-D weight)" | "bmm shared 2-D weight" => {
            Some(require_product_sizes(row).and_then(|(b, m, k, n)| {
                let batch = b.or(row.b).ok_or_else(|| unstated("it does not say the batch"))?;
                product_case(row, Product::batched(batch, m, k, n, true))
            }))
        }
        "3-D x 2-D matmul" => Some(match &parse_bracketed_shapes(&row.shapes)[..] {
            [a, b] if a.len() == 3 && b.len() == 2 && a[2] == b[0] => {
                let outer = row.layout.starts_with("batch outermost");
                let order = if outer { BatchOrder::BatchOuter } else { BatchOrder::Default };
                let product = Product::batched(a[0], a[1], a[2], b[1], true);
                product_case(row, Product { orders: [order; 2], ..product })
            }
            _ => Err(unstated(format!("`{}` does not say the sizes", row.shapes))),
        }),
        "bmm QK^T" => {
            Some(match row.conditions.contains("some rows include a weight restickify") {
                true => {
                    Err(unstated("whether it includes a restickify of the weight is not stated"))
                }
                false => require_product_sizes(row).and_then(|(b, m, k, n)| {
                    product_case(row, Product::batched(b.unwrap_or(1), m, k, n, false))
                }),
            })
        }
        _ => None,
    }
}

/// `Q/O prefill 1x512x4096x4096`: batch, rows, columns, summed dimension.
fn express_named_bmm(row: &MeasuredRow) -> Expressed {
    let last = row.shapes.split_whitespace().last().unwrap_or_default();
    match parse_joined_sizes(last)[..] {
        [1, m, n, k] => product_case(row, Product::plain(m, k, n)),
        [b, m, n, k] => product_case(row, Product::batched(b, m, k, n, false)),
        _ => Err(unstated(format!("`{}` does not say the sizes", row.shapes))),
    }
}

/// Products of 8-bit floats: how the operands come about is in the dtype.
fn express_fp8(row: &MeasuredRow) -> Expressed {
    let (_, m, k, n) = require_product_sizes(row)?;
    let text = row.dtype.as_str();
    let packing = match text {
        t if t.contains("both operands")
            || t.contains("prepacked + two")
            || t == "fp8 prepacked" =>
        {
            Fp8Packing::Given
        }
        t if t.contains("dynamic scale") => Fp8Packing::DynamicScale,
        t if t.contains("pack")
            || t.contains("given scales")
            || t.contains("quantised on card") =>
        {
            Fp8Packing::GivenScale
        }
        "fp8" if row.conditions.contains("dynamic scales") => Fp8Packing::DynamicScale,
        "fp8" => Fp8Packing::GivenScale,
        other => {
            return Err(unstated(format!("how its operands are packed is not said by `{other}`")));
        }
    };
    let products = if row.op.contains("shared pair") { 2 } else { 1 };
    let split = read_split(row)?;
    // Bare products of this sweep apply one scale in a kernel of its own, and where the row says so both.
    let rescaled = match row.op.starts_with("scaled_mm") {
        true => 1 + usize::from(row.conditions.contains("as a separate op")),
        false => 0,
    };
    let mut graph = fp8_linear_text([m, k, n], packing, products, rescaled);
    let planned = split.or_else(|| plan_unrecorded(row, &Product::plain(m, k, n), 2 * FP16_STICK));
    if let Some(ProductSplit { m, n, k, .. }) = planned {
        let hint = format!("out_dtype=\"float16\") split {{M: {m}, N: {n}, K: {k}}}");
        graph = graph.replace("out_dtype=\"float16\")", &hint);
    }
    let mut case = build_case(Category::Fp8Linear, graph);
    case.split = split;
    case.shape = format!("fp8 {products} {m} {k} {n} {packing:?} {}", row.conditions);
    Ok(case)
}
