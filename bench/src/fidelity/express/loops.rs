//! Operations in a loop over tiles.

use super::super::case::{CasePart, Category, Exclusion};
use super::super::graphs::{Product, one_op_text, softmax_text, softmax_without_exp_text};
use super::super::row::MeasuredRow;
use super::super::texts::{find_size, parse_named_sizes};
use super::products::{FP16_STICK, plan_unrecorded, require_product_sizes};
use super::streams::{matrix, read_rows_and_cols};
use super::{Expressed, build_sum, refuse, unstated};

/// Whether the software copies an input that several operations read into the scratchpads first. Builds of August do,
/// by the bytes that their rows count; those of June and July read it again from memory.
fn reads_inputs_once(row: &MeasuredRow) -> bool {
    let (Some(rows), Some(cols), Some(counted)) = (row.rows, row.cols, row.counted_bytes) else {
        return false;
    };
    // Half as much again as reading the input once and writing the result.
    counted < rows.saturating_mul(cols).saturating_mul(5)
}

/// Operations in a loop over tiles. A loop of T tiles is T runs of its body: that is what the card's program does, its
/// body with other addresses.
pub(super) fn express_loops(row: &MeasuredRow) -> Option<Expressed> {
    let tiles = read_tiles(row);
    let repeat = |category, graph: String, times: i64| {
        Ok(build_sum(category, vec![CasePart { graph, times: times.unsigned_abs() }]))
    };
    let looped = |category| if tiles > 1 { Category::TiledLoop } else { category };
    let uneven = |what: &str, size: i64| {
        refuse(
            Exclusion::NotExpressible,
            format!("{tiles} tiles do not divide {size} {what} evenly"),
        )
    };
    let part = |what: &str, size: i64| match size % tiles {
        0 => Ok(size / tiles),
        _ => Err(uneven(what, size)),
    };
    match row.op.as_str() {
        "ctsum" | "ctamax" | "ctamin" => Some(read_rows_and_cols(row).and_then(|(rows, cols)| {
            let (op, combine) = match row.op.as_str() {
                "ctsum" => ("sum", "add"),
                "ctamax" => ("amax", "maximum"),
                _ => ("amin", "minimum"),
            };
            let x = matrix(part("rows", rows)?, cols);
            let graph = match tiles > 1 {
                false => one_op_text(&[x], &format!("{op}(x0, dim=[0])")),
                true => format!(
                    "graph tile(x: {x}, s: float16[{cols}]) {{ t = {op}(x, dim=[0]) y = {combine}(s, t) return y }}"
                ),
            };
            repeat(looped(Category::Reduction), graph, tiles)
        })),
        "softmax_row_tiling" | "softmax tiled over rows (one fused bundle)" => {
            Some(read_rows_and_cols(row).and_then(|(rows, cols)| {
                let graph = softmax_text(part("rows", rows)?, cols, reads_inputs_once(row));
                repeat(looped(Category::Softmax), graph, tiles)
            }))
        }
        "softmax_noexp_row_tiling" => Some(read_rows_and_cols(row).and_then(|(rows, cols)| {
            let graph = softmax_without_exp_text(part("rows", rows)?, cols);
            repeat(looped(Category::Softmax), graph, tiles)
        })),
        "softmax_unrolled" => Some(read_rows_and_cols(row).and_then(|(rows, cols)| {
            let x = matrix(part("rows", rows)?, cols);
            repeat(looped(Category::Softmax), one_op_text(&[x], "softmax(x0, dim=-1)"), tiles)
        })),
        "matmul_row_tiling" | "matmul tiled over rows in a loop" => {
            Some(require_product_sizes(row).and_then(|(_, m, k, n)| {
                let product = Product::plain(part("rows", m)?, k, n);
                let product = Product { split: plan_unrecorded(row, &product, FP16_STICK), ..product };
                repeat(looped(Category::Matmul), product.graph_text(), tiles)
            }))
        }
        "matmul_k_tiling" | "mm_nested_m_k" | "bmm_k_tiling" | "bmm_3d2d_k_tiling" | "bmm_nested_b_k"
        | "bmm shared weight coarse-tiled" | "bmm nested batch+K tiling" => {
            Some(express_summed_loop(row, tiles))
        }
        "bmm coarse-tiled over a loop" => {
            Some(Err(unstated("which dimension the loop tiles is not stated")))
        }
        _ => None,
    }
}

/// Products whose summed dimension is cut by a loop, perhaps inside a loop of two over rows or batch.
fn express_summed_loop(row: &MeasuredRow, tiles: i64) -> Expressed {
    let (b, m, k, n) = require_product_sizes(row)?;
    if k % tiles != 0 {
        let reason = format!("{tiles} tiles do not divide {k} evenly");
        return Err(refuse(Exclusion::NotExpressible, reason));
    }
    let op = row.op.as_str();
    let plain = op.starts_with("m");
    let nested = op.contains("nested");
    let shared = op.contains("3d2d") || op.contains("shared");
    let batch = || b.or(row.b).ok_or_else(|| unstated("it does not say the batch"));
    // A nested loop has two trips over rows, or over the batch.
    let trips = if nested && tiles > 1 { 2 } else { 1 };
    let product = match plain {
        true => Product::plain(m / trips, k / tiles, n),
        false => Product::batched((batch()? / trips).max(1), m, k / tiles, n, shared),
    };
    let product = Product { split: plan_unrecorded(row, &product, FP16_STICK), ..product };
    let category = match (tiles > 1, plain, shared) {
        (true, ..) => Category::TiledLoop,
        (_, true, _) => Category::Matmul,
        (_, _, true) => Category::SharedWeight,
        _ => Category::Bmm,
    };
    let graph = match tiles > 1 {
        true => product.accumulating_graph_text(),
        false => product.graph_text(),
    };
    let times = (tiles * trips).unsigned_abs();
    Ok(build_sum(category, vec![CasePart { graph, times }]))
}

/// Trips of the loop: from the field, `T=8`, `8 tiles`, or one.
fn read_tiles(row: &MeasuredRow) -> i64 {
    let named = parse_named_sizes(&row.shapes);
    let word = [&row.note, &row.conditions, &row.shapes].into_iter().find_map(|t| {
        let (before, _) = t.split_once(" tiles")?;
        before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    });
    row.tiles.or_else(|| find_size(&named, "T")).or(word).unwrap_or(1).clamp(1, 65_535)
}
