//! Graphs of several products: attention, gated MLPs, layers of Granite.

use super::super::case::{CasePart, Category, Exclusion};
use super::super::graphs::{
    GranitePhase, Product, attention_scores_text, flash_attention_text, gated_mlp_text,
    granite_layer_text,
};
use super::super::row::{MeasuredRow, ProductSplit};
use super::super::texts::{
    find_size, parse_bracketed_shapes, parse_joined_sizes, parse_named_sizes, parse_product_split,
};
use super::products::read_product_sizes;
use super::{Expressed, build_case, build_sum, refuse, unstated};

/// Attention, gated MLPs and layers of Granite.
pub(super) fn express_networks(row: &MeasuredRow) -> Option<Expressed> {
    let op = row.op.as_str();
    let named = parse_named_sizes(&row.shapes);
    let size = |name: &str| find_size(&named, name);
    if op.starts_with("flash attention, one fused")
        || op.starts_with("flash attention, only")
        || op == "flash_attn"
    {
        let heads = size("H");
        let lengths = (size("Lq").or(size("L")), size("Lk").or(size("L")));
        let (Some(heads), (Some(q), Some(k))) = (heads, lengths) else {
            return Some(Err(unstated(format!("`{}` does not say heads and lengths", row.shapes))));
        };
        let sizes = [q, k, size("D").unwrap_or(128)];
        let batch = size("B").unwrap_or(1);
        let split = divide_attention(batch * heads, [q, k], row.cores.unwrap_or(32).clamp(1, 32));
        let graph = flash_attention_text(batch, heads, sizes, split);
        return Some(Ok(build_case(Category::Attention, graph)));
    }
    if op == "attn_scores" {
        return Some(match &parse_bracketed_shapes(&row.shapes)[..] {
            [x] if x.len() == 4 => {
                let graph = attention_scores_text(x[0], x[1], [x[2], x[2], x[3]]);
                Ok(build_case(Category::Attention, graph))
            }
            _ => Err(unstated("it has no shape")),
        });
    }
    if op.starts_with("flash attention kernel") {
        return Some(Err(unstated("heads and keys are not stated")));
    }
    if op.starts_with("flash attention, coarse tiled") {
        return Some(Err(refuse(
            Exclusion::NotExpressible,
            "nested loops over heads, queries and keys carry a running maximum; this compiler has no such loop",
        )));
    }
    if op == "attention" {
        return Some(match &parse_bracketed_shapes(&row.shapes)[..] {
            [q, kv] if q.len() == 3 && kv.len() == 3 => {
                let graph = attention_scores_text(1, q[0], [q[1], kv[1], q[2]]);
                Ok(build_case(Category::Attention, graph))
            }
            _ => Err(unstated("it has no shape")),
        });
    }
    express_mlp(row).or_else(|| express_granite(row)).or_else(|| express_short_graph(row))
}

/// How attention is divided on 32 cores: over 4 heads and 8 pieces of the queries, as one source says of its products, and
/// alike for all operations, as scores stay in the scratchpads. None where that does not come out even, and on fewer cores,
/// where the sources do not say it.
fn divide_attention(heads: i64, lengths: [i64; 2], cores: i64) -> Option<[i64; 2]> {
    let [by_head, by_query] = [4, 8];
    let even = heads % by_head == 0 && lengths.iter().all(|n| n % by_query == 0);
    (cores == 32 && even).then_some([by_head, by_query])
}

/// Graphs of a few operations around a product, whose sizes the row names.
fn express_short_graph(row: &MeasuredRow) -> Option<Expressed> {
    let network = |graph| Some(Ok(build_case(Category::Network, graph)));
    match row.op.as_str() {
        "RMSNorm+linear+SiLU (one bundle)" | "RMSNorm+linear+SiLU" => {
            let Some((_, m, k, n)) = read_product_sizes(row) else {
                return Some(Err(unstated("it does not say the sizes of the product")));
            };
            network(format!(
                "graph g(x: float16[{m}, {k}], s: float16[{k}], w: float16[{k}, {n}]) {{ \
                 h = rms_norm(x, s, normalized_shape=[{k}], eps=1e-05) p = matmul(h, w) y = silu(p) return y }}"
            ))
        }
        // The MLP of Granite has 4096 and 12800 features.
        // The operator `linear` has its weight as `[out, in]`, which the card restickifies in every run.
        "linear(down)+mul+add M=512" => network(
            "graph g(h: float16[512, 12800], w: float16[4096, 12800], r: float16[512, 4096]) { p = linear(h, w) \
             s = mul(p, 0.22) y = add(r, s) return y }"
                .into(),
        ),
        "silu+mul+linear(down); add M=64" => network(
            "graph g(a: float16[64, 12800], b: float16[64, 12800], w: float16[4096, 12800], r: float16[64, 4096]) { \
             s = silu(a) h = mul(s, b) p = linear(h, w) y = add(r, p) return y }"
                .into(),
        ),
        "matmul -> matmul handoff" => {
            if row.conditions.contains("ring") {
                return Some(Err(refuse(
                    Exclusion::NotExpressible,
                    "the row copies some results between scratchpads; this compiler copies all those that it finds faster so",
                )));
            }
            // The size is that of what the first product hands to the second; both have square weights.
            let megabytes = row.shapes.split(" MB").next().and_then(|n| n.trim().parse::<i64>().ok());
            let hidden = find_size(&parse_named_sizes(&row.shapes), "H");
            Some(match (megabytes.filter(|n| (1..=1024).contains(n)), hidden) {
                (Some(megabytes), Some(h)) => {
                    let rows = ((megabytes << 20) / 2 / h).max(1);
                    Ok(build_case(
                        Category::Network,
                        format!(
                            "graph g(x: float16[{rows}, {h}], v: float16[{h}, {h}], w: float16[{h}, {h}]) {{ \
                             p = matmul(x, v) place memory y = matmul(p, w) return y }}"
                        ),
                    ))
                }
                _ => Err(unstated("it does not say what is handed over")),
            })
        }
        _ => None,
    }
}

/// The gated MLP of Granite, in the forms that were measured.
fn express_mlp(row: &MeasuredRow) -> Option<Expressed> {
    let op = row.op.as_str();
    let network = |graph| Some(Ok(build_case(Category::Network, graph)));
    let restickified = row.conditions.contains("weight restickifies");
    match op {
        "SwiGLU unfused gate, up, down" | "SwiGLU unfused" => {
            let x = parse_joined_sizes(&row.shapes);
            match x.is_empty() {
                true => Some(Err(unstated("it has no shape"))),
                false => network(gated_mlp_text(&x, 4096, 12800, restickified)),
            }
        }
        "SwiGLU fused"
        | "SwiGLU fused gate+up [4096,25600] then split_with_sizes"
        | "fused SwiGLU"
        | "standalone fused FMS SwiGLU [1,512,4096]"
        | "fms_swiglu_prefill_relayfix"
        | "fms_swiglu_decode_relayfix" => {
            Some(Err(unstated("which operands are restickified in the fused form is not stated")))
        }
        "mlp (3 bmm + silu + mul)"
        | "prefill_bmm"
        | "jamie_mlp"
        | "mlp (bmm form, batched weights)" => {
            if row.conditions.contains("on-chip move chunks")
                && !row.conditions.contains("chunks 0;")
            {
                return Some(Err(refuse(
                    Exclusion::NotExpressible,
                    "the row copies some results between scratchpads; this compiler copies all those that it finds faster so",
                )));
            }
            if op == "mlp (bmm form, batched weights)" {
                return Some(Err(unstated("the batch of its weights is not stated")));
            }
            let graph = gated_mlp_text(&[512, 4096], 4096, 12800, false);
            // A division that the row names is that of all three products.
            network(match parse_product_split(&row.work_division) {
                Some(ProductSplit { m, n, k, .. }) => {
                    let mut graph = graph;
                    for product in ["matmul(x, g)", "matmul(x, u)", "matmul(h, d)"] {
                        let split = format!("{product} split {{M: {m}, N: {n}, K: {k}}}");
                        graph = graph.replace(product, &split);
                    }
                    graph
                }
                None => graph,
            })
        }
        "small_bmm" => network(gated_mlp_text(&[1, 256, 128], 128, 512, false)),
        _ => None,
    }
}

/// Layers of Granite 3.3 8B and the whole model; a row of 40 layers is 40 times a layer with the norm and the product of
/// the head behind them.
fn express_granite(row: &MeasuredRow) -> Option<Expressed> {
    let op = row.op.as_str();
    if !op.contains("Granite") && op != "LM-head kernel" {
        return None;
    }
    // Of one edge alone; all edges is what the option of the compiler does.
    let whole = row.conditions.starts_with("LX relayout over the ring");
    if row.conditions.contains("LX relayout") && !whole
        || row.conditions.contains("moved core to core")
        || row.conditions.contains("edge in LX")
        || row.conditions.contains("gathered in LX")
    {
        return Some(Err(refuse(
            Exclusion::NotExpressible,
            "the row copies some results between scratchpads; this compiler copies all those that it finds faster so",
        )));
    }
    let layer = |phase, times| CasePart { graph: granite_layer_text(phase), times };
    let head = |rows: i64| {
        // The head of 49160 rows is padded to 49280 columns; it sees the last token.
        let graph = format!(
            "graph head(x: float16[{rows}, 4096], n: float16[4096], w: float16[4096, 49280]) {{ \
             h = rms_norm(x, n, normalized_shape=[4096], eps=1e-05) y = matmul(h, w) return y }}"
        );
        CasePart { graph, times: 1 }
    };
    let granite = |parts| Some(Ok(build_sum(Category::Granite, parts)));
    // The prompt of all these measurements has 512 tokens, so that a decode step sees about 514.
    let (prefill, decode) = (GranitePhase::Prefill(512), GranitePhase::Decode(576));
    match op {
        "Granite full model prefill"
        | "Granite 40 layers, one bundle per layer: prefill phase total" => {
            granite(vec![layer(prefill, 40), head(1)])
        }
        op if op.starts_with("Granite 40-layer prefill, edge") => {
            granite(vec![layer(prefill, 40), head(1)])
        }
        "Granite full model decode token" => granite(vec![layer(decode, 40), head(1)]),
        "Granite 40 layers, one bundle per layer: prefill per layer"
        | "Granite 1 layer: prefill layer"
        | "Granite one layer prefill kernel"
        | "Granite causal prefill block S=512" => granite(vec![layer(prefill, 1)]),
        "Granite 40 layers, one bundle per layer: decode first, per layer"
        | "Granite 40 layers, one bundle per layer: decode steady, per layer"
        | "Granite 1 layer: decode layer"
        | "Granite one layer decode kernel"
        | "Granite layer decode B1: whole block" => granite(vec![layer(decode, 1)]),
        "Granite layer decode B1: SwiGLU" => {
            let graph = gated_mlp_text(&[1, 4096], 4096, 12800, false);
            granite(vec![CasePart { graph, times: 1 }])
        }
        "Granite layer prefill S512: Q projection + norm" => {
            let graph = "graph q(x: float16[512, 4096], n: float16[4096], w: float16[4096, 4096]) { \
                         h = rms_norm(x, n, normalized_shape=[4096], eps=1e-05) y = matmul(h, w) return y }";
            granite(vec![CasePart { graph: graph.into(), times: 1 }])
        }
        "LM-head kernel" => {
            granite(vec![CasePart { graph: Product::plain(1, 4096, 49280).graph_text(), times: 1 }])
        }
        _ => Some(Err(unstated(format!("which operations `{op}` holds is not stated")))),
    }
}
