//! Graphs of measured operations, as texts.

use super::row::ProductSplit;
use std::fmt::Write;

/// The order of device dimensions of a batch of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum BatchOrder {
    /// As the compiler chooses where nothing is said.
    #[default]
    Default,
    /// The batch outermost.
    BatchOuter,
}

impl BatchOrder {
    fn pin_text(self) -> &'static str {
        match self {
            BatchOrder::Default => "",
            BatchOrder::BatchOuter => " pin order [1, 0, 2]",
        }
    }
}

/// A product of matrices, or a batch of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Product {
    /// The batch; none of two plain matrices.
    pub(super) batch: Option<i64>,
    /// Whether the batch has one weight.
    pub(super) shared: bool,
    pub(super) m: i64,
    pub(super) n: i64,
    pub(super) k: i64,
    pub(super) split: Option<ProductSplit>,
    /// Of both operands.
    pub(super) orders: [BatchOrder; 2],
}

impl Product {
    pub(super) fn plain(m: i64, k: i64, n: i64) -> Product {
        let orders = [BatchOrder::Default; 2];
        Product { batch: None, shared: true, m, n, k, split: None, orders }
    }

    pub(super) fn batched(batch: i64, m: i64, k: i64, n: i64, shared: bool) -> Product {
        Product { batch: Some(batch), shared, ..Product::plain(m, k, n) }
    }

    /// The graph of the product alone.
    pub(super) fn graph_text(&self) -> String {
        let (a, b) = self.operand_texts();
        format!(
            "graph product(a: {a}, b: {b}) {{ y = matmul(a, b){} return y }}",
            self.split_text()
        )
    }

    /// The product of a part of the summed dimension, added to what there is.
    pub(super) fn accumulating_graph_text(&self) -> String {
        let (a, b) = self.operand_texts();
        let size = match self.batch {
            Some(batch) => format!("{batch}, {}, {}", self.m, self.n),
            None => format!("{}, {}", self.m, self.n),
        };
        format!(
            "graph product(a: {a}, b: {b}, s: float16[{size}]) {{ p = matmul(a, b){} y = add(s, p) return y }}",
            self.split_text()
        )
    }

    fn operand_texts(&self) -> (String, String) {
        let Product { m, n, k, .. } = self;
        let [a, b] = self.orders.map(BatchOrder::pin_text);
        match self.batch {
            None => (format!("float16[{m}, {k}]"), format!("float16[{k}, {n}]")),
            Some(batch) => {
                let right = match self.shared {
                    true => format!("float16[{k}, {n}]"),
                    false => format!("float16[{batch}, {k}, {n}]{b}"),
                };
                (format!("float16[{batch}, {m}, {k}]{a}"), right)
            }
        }
    }

    fn split_text(&self) -> String {
        let Some(ProductSplit { b, m, n, k }) = self.split else { return String::new() };
        let batch = if self.batch.is_some() { format!("B: {b}, ") } else { String::new() };
        format!(" split {{{batch}M: {m}, N: {n}, K: {k}}}")
    }
}

/// One operation on inputs named `x0`, `x1`, ..., which are given as `float16[..]` texts with their pins.
pub(super) fn one_op_text(inputs: &[String], op: &str) -> String {
    let mut list = String::new();
    for (i, input) in inputs.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let _ = write!(list, "{comma}x{i}: {input}");
    }
    format!("graph one({list}) {{ y = {op} return y }}")
}

/// `((x0 + x1) + x2) + ..` of so many inputs.
pub(super) fn add_chain_text(inputs: usize, rows: i64, cols: i64) -> String {
    let list: Vec<String> = (0..inputs).map(|i| format!("x{i}: float16[{rows}, {cols}]")).collect();
    let mut out = format!("graph chain({}) {{", list.join(", "));
    for i in 1..inputs {
        let left = if i == 1 { "x0".to_string() } else { format!("s{}", i - 1) };
        let _ = write!(out, " s{i} = add({left}, x{i})");
    }
    let _ = write!(out, " return s{} }}", inputs - 1);
    out
}

/// A softmax whose exponential is replaced by a product with a number.
pub(super) fn softmax_without_exp_text(rows: i64, cols: i64) -> String {
    format!(
        "graph rows(x: float16[{rows}, {cols}]) {{ m = amax(x, dim=[-1], keepdim=true) d = sub(x, m) e = mul(d, 0.5) \
         s = sum(e, dim=[-1], keepdim=true) y = div(e, s) return y }}"
    )
}

/// Attention of `heads` heads over one block of keys, written out: both operands scaled, a mask, the running maximum and
/// denominator of a single block.
pub(super) fn flash_attention_text(batch: i64, heads: i64, [q, k, d]: [i64; 3]) -> String {
    let b = batch * heads;
    format!(
        "graph flash(q: float16[{b}, {q}, {d}], k: float16[{b}, {k}, {d}], v: float16[{b}, {k}, {d}], \
         mask: float16[1, {q}, {k}]) {{ qs = mul(q, 0.297) ks = mul(k, 0.297) kt = transpose(ks, dim0=1, dim1=2) \
         scores = matmul(qs, kt) masked = add(scores, mask) top = amax(masked, dim=[-1], keepdim=true) \
         below = sub(masked, top) e = exp(below) den = sum(e, dim=[-1], keepdim=true) o = matmul(e, v) \
         y = div(o, den) return y }}"
    )
}

/// `softmax((q * s) @ k^T) @ v`.
pub(super) fn attention_scores_text(batch: i64, heads: i64, [q, k, d]: [i64; 3]) -> String {
    let b = batch * heads;
    format!(
        "graph attention(q: float16[{b}, {q}, {d}], k: float16[{b}, {k}, {d}], v: float16[{b}, {k}, {d}]) {{ \
         qs = mul(q, 0.088) kt = transpose(k, dim0=1, dim1=2) kc = clone(kt) scores = matmul(qs, kc) \
         p = softmax(scores, dim=-1) y = matmul(p, v) return y }}"
    )
}

/// The gated MLP: two products of the input, silu and a product of both, and the product back. `transposed` weights are
/// stored as `[out, in]`, which the card has to restickify in every run.
pub(super) fn gated_mlp_text(x: &[i64], hidden: i64, inner: i64, transposed: bool) -> String {
    let x: Vec<String> = x.iter().map(i64::to_string).collect();
    let weight = |from: i64, to: i64| match transposed {
        true => format!("float16[{to}, {from}]"),
        false => format!("float16[{from}, {to}]"),
    };
    let op = if transposed { "linear" } else { "matmul" };
    format!(
        "graph mlp(x: float16[{}], g: {}, u: {}, d: {}) {{ a = {op}(x, g) b = {op}(x, u) s = silu(a) h = mul(s, b) \
         y = {op}(h, d) return y }}",
        x.join(", "),
        weight(hidden, inner),
        weight(hidden, inner),
        weight(inner, hidden),
    )
}

/// How the 8-bit operands of a product come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fp8Packing {
    /// Both are given in 8 bits.
    Given,
    /// The activation is packed in the graph with a given scale.
    GivenScale,
    /// The activation is packed in the graph, its scale found from the largest of each row.
    DynamicScale,
}

/// Products of 8-bit floats `[m, k] @ [k, n]` with scales of rows and columns; `products` of them share the activation.
pub(super) fn fp8_linear_text(
    m: i64,
    k: i64,
    n: i64,
    packing: Fp8Packing,
    products: usize,
) -> String {
    let mut inputs = match packing {
        Fp8Packing::Given => format!("x8: float8_e4m3fn[{m}, {k}], sa: float32[{m}, 1]"),
        Fp8Packing::GivenScale => format!("x: float16[{m}, {k}], sa: float32[{m}, 1]"),
        Fp8Packing::DynamicScale => format!("x: float16[{m}, {k}]"),
    };
    let mut ops = String::new();
    if packing == Fp8Packing::DynamicScale {
        ops += " ax = abs(x) mx = amax(ax, dim=[-1], keepdim=true) ms = mul(mx, 0.002232) sa = to(ms, dtype=\"float32\")";
    }
    if packing != Fp8Packing::Given {
        ops += " x8 = quantize_fp8(x, sa)";
    }
    let mut results = Vec::new();
    for i in 0..products {
        let _ = write!(inputs, ", w{i}: float8_e4m3fn[{k}, {n}], sb{i}: float32[1, {n}]");
        let _ = write!(ops, " y{i} = scaled_mm(x8, w{i}, sa, sb{i}, out_dtype=\"float16\")");
        results.push(format!("y{i}"));
    }
    format!("graph fp8({inputs}) {{{ops} return {} }}", results.join(", "))
}

/// What a layer of Granite 3.3 8B sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GranitePhase {
    /// A prompt of so many tokens.
    Prefill(i64),
    /// One token beside a cache of so many.
    Decode(i64),
}

/// A layer of Granite 3.3 8B (hidden 4096, 32 heads of 128, 8 of keys and values, inner 12800), its weights in the layout
/// of products, as torch-spyre has them after loading.
pub(super) fn granite_layer_text(phase: GranitePhase) -> String {
    let (seq, cache) = match phase {
        GranitePhase::Prefill(seq) => (seq, None),
        GranitePhase::Decode(context) => (1, Some(context)),
    };
    let mut inputs = format!(
        "x: float16[{seq}, 4096], cos: float16[1, 1, {seq}, 128], sin: float16[1, 1, {seq}, 128], n1w: float16[4096] \
         @weight, qw: float16[4096, 4096] @weight, kw: float16[4096, 1024] @weight, vw: float16[4096, 1024] @weight, \
         ow: float16[4096, 4096] @weight, n2w: float16[4096] @weight, gw: float16[4096, 12800] @weight, uw: \
         float16[4096, 12800] @weight, dw: float16[12800, 4096] @weight"
    );
    let mut ops = String::from(" n1 = rms_norm(x, n1w, normalized_shape=[4096], eps=1e-05)");
    for (name, heads) in [("q", 32), ("k", 8), ("v", 8)] {
        let _ = write!(
            ops,
            " {name}p = matmul(n1, {name}w) {name}v = reshape({name}p, size=[1, {seq}, {heads}, 128]) \
             {name}t = transpose({name}v, dim0=1, dim1=2)"
        );
    }
    for name in ["q", "k"] {
        let _ = write!(
            ops,
            " {name}.lo = slice({name}t, dim=3, start=0, end=64) {name}.hi = slice({name}t, dim=3, start=64, end=128) \
             {name}.neg = neg({name}.hi) {name}.swapped = cat({name}.neg, {name}.lo, dim=3) {name}.c = mul({name}t, cos) \
             {name}.s = mul({name}.swapped, sin) {name}.rope = add({name}.c, {name}.s)"
        );
    }
    let (keys, values) = match cache {
        None => ("k.rope", "vt"),
        Some(context) => {
            let _ = write!(
                inputs,
                ", position: int64[1], kc: float16[1, 8, {context}, 128] @state, vc: float16[1, 8, {context}, 128] @state"
            );
            ops += " kn = index_copy(kc, position, k.rope, dim=2) vn = index_copy(vc, position, vt, dim=2)";
            ("kn", "vn")
        }
    };
    let _ = write!(
        ops,
        " att = scaled_dot_product_attention(q.rope, {keys}, {values}, is_causal={}, enable_gqa=true) \
         back = transpose(att, dim0=1, dim1=2) flat = reshape(back, size=[{seq}, 4096]) proj = matmul(flat, ow) \
         scaled = mul(proj, 0.22) mid = add(x, scaled) n2 = rms_norm(mid, n2w, normalized_shape=[4096], eps=1e-05) \
         a = matmul(n2, gw) b = matmul(n2, uw) act = silu(a) h = mul(act, b) mlp = matmul(h, dw) \
         scaled2 = mul(mlp, 0.22) out = add(mid, scaled2)",
        cache.is_none()
    );
    let results = if cache.is_some() { "out, kn, vn" } else { "out" };
    format!("graph granite({inputs}) {{{ops} return {results} }}")
}
