//! Writes measured operations as texts of graphs.

use super::row::ProductSplit;
use std::fmt::Write;

/// The order of the dimensions of a batch of matrices in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum BatchOrder {
    /// The order that the compiler chooses if the text pins none.
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

/// A product of two matrices, or a batch of such products: `[batch, m, k] @ [batch, k, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Product {
    /// The number of products in the batch; `None` for a product of two matrices.
    pub(super) batch: Option<i64>,
    /// Whether all products of the batch have the same second operand `[k, n]`.
    pub(super) shared: bool,
    pub(super) m: i64,
    pub(super) n: i64,
    pub(super) k: i64,
    pub(super) split: Option<ProductSplit>,
    /// The order of the device dimensions of each operand.
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

    /// The text of a graph with only the product.
    pub(super) fn graph_text(&self) -> String {
        let (a, b) = self.operand_texts();
        format!(
            "graph product(a: {a}, b: {b}) {{ y = matmul(a, b){} return y }}",
            self.split_text()
        )
    }

    /// The text of a graph that adds the product to a partial sum `s`, as one trip of a loop over parts of the summed
    /// dimension does.
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

/// A graph of one operation. `inputs` are texts such as `float16[2, 3]`, with pins if there are any. The graph names
/// them `x0`, `x1`, ...
pub(super) fn one_op_text(inputs: &[String], op: &str) -> String {
    let mut list = String::new();
    for (i, input) in inputs.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let _ = write!(list, "{comma}x{i}: {input}");
    }
    format!("graph one({list}) {{ y = {op} return y }}")
}

/// The sum `((x0 + x1) + x2) + ..` of `inputs` matrices.
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

/// A softmax of rows. With `copied`, its operations read a copy of the input in the scratchpads.
pub(super) fn softmax_text(rows: i64, cols: i64, copied: bool) -> String {
    let (copy, input) = if copied { (" c = clone(x) place lx", "c") } else { ("", "x") };
    format!(
        "graph rows(x: float16[{rows}, {cols}]) {{{copy} m = amax({input}, dim=[-1], keepdim=true) \
         d = sub({input}, m) e = exp(d) s = sum(e, dim=[-1], keepdim=true) y = div(e, s) return y }}"
    )
}

/// A softmax with `0.5 * d` instead of `exp(d)`, to measure softmax without the exponential. The number has no meaning.
pub(super) fn softmax_without_exp_text(rows: i64, cols: i64) -> String {
    format!(
        "graph rows(x: float16[{rows}, {cols}]) {{ m = amax(x, dim=[-1], keepdim=true) d = sub(x, m) e = mul(d, 0.5) \
         s = sum(e, dim=[-1], keepdim=true) y = div(e, s) return y }}"
    )
}

/// Flash attention of `heads` heads with a single block of keys, written as plain operations: queries and keys are both
/// scaled by 128^(-1/4) = 0.297, a mask is added, and there are the maximum and the denominator of the one block.
///
/// With a `split`, every operation is divided alike, `[over heads, over queries]`.
pub(super) fn flash_attention_text(
    batch: i64,
    heads: i64,
    [q, k, d]: [i64; 3],
    split: Option<[i64; 2]>,
) -> String {
    let b = batch * heads;
    let (each, product) = match split {
        Some([by_head, by_query]) => (
            format!(" split {{c0: {by_head}, c1: {by_query}}}"),
            format!(" split {{B: {by_head}, M: {by_query}, N: 1, K: 1}}"),
        ),
        None => (String::new(), String::new()),
    };
    format!(
        "graph flash(q: float16[{b}, {q}, {d}], k: float16[{b}, {k}, {d}], v: float16[{b}, {k}, {d}], \
         mask: float16[1, {q}, {k}]) {{ qs = mul(q, 0.297){each} ks = mul(k, 0.297){each} \
         kt = transpose(ks, dim0=1, dim1=2) scores = matmul(qs, kt){product} masked = add(scores, mask){each} \
         top = amax(masked, dim=[-1], keepdim=true){each} below = sub(masked, top){each} e = exp(below){each} \
         den = sum(e, dim=[-1], keepdim=true){each} o = matmul(e, v){product} y = div(o, den){each} return y }}"
    )
}

/// `softmax((q * s) @ k^T) @ v` with `s` = 1 / sqrt(128) = 0.088.
pub(super) fn attention_scores_text(batch: i64, heads: i64, [q, k, d]: [i64; 3]) -> String {
    let b = batch * heads;
    format!(
        "graph attention(q: float16[{b}, {q}, {d}], k: float16[{b}, {k}, {d}], v: float16[{b}, {k}, {d}]) {{ \
         qs = mul(q, 0.088) kt = transpose(k, dim0=1, dim1=2) kc = clone(kt) scores = matmul(qs, kc) \
         p = softmax(scores, dim=-1) y = matmul(p, v) return y }}"
    )
}

/// The gated MLP `(silu(x @ g) * (x @ u)) @ d`. Weights that are `transposed` are stored as `[out, in]`, and the card
/// has to restickify them in every run.
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

/// Where the 8-bit activation of a product comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fp8Packing {
    /// It is an input of the graph.
    Given,
    /// The graph quantizes a float16 input with scales that are also inputs.
    GivenScale,
    /// The graph quantizes a float16 input and computes the scale of each row from its largest magnitude.
    DynamicScale,
}

/// `products` products of 8-bit floats `[m, k] @ [k, n]` that share the activation, with a scale for each row of it and
/// each column of a weight; `rescaled` further operations scale the result after the product.
pub(super) fn fp8_linear_text(
    [m, k, n]: [i64; 3],
    packing: Fp8Packing,
    products: usize,
    rescaled: usize,
) -> String {
    let mut inputs = match packing {
        Fp8Packing::Given => format!("x8: float8_e4m3fn[{m}, {k}], sa: float32[{m}, 1]"),
        Fp8Packing::GivenScale => format!("x: float16[{m}, {k}], sa: float32[{m}, 1]"),
        Fp8Packing::DynamicScale => format!("x: float16[{m}, {k}]"),
    };
    let mut ops = String::new();
    // What fits beside other tensors in the scratchpads of 32 cores is read from memory once; builds of August copy
    // inputs that several operations read.
    let copied = packing == Fp8Packing::DynamicScale && m * k * 2 <= 32 * 600_000;
    let x = if copied { "xc" } else { "x" };
    if copied {
        ops += " xc = clone(x) place lx";
    }
    if packing == Fp8Packing::DynamicScale {
        // 0.002232 is 1 / 448, and 448 is the largest number of float8_e4m3fn.
        let _ = write!(
            ops,
            " ax = abs({x}) mx = amax(ax, dim=[-1], keepdim=true) ms = mul(mx, 0.002232) sa = to(ms, dtype=\"float32\")"
        );
    }
    if packing != Fp8Packing::Given {
        let _ = write!(ops, " x8 = quantize_fp8({x}, sa)");
    }
    let mut results = Vec::new();
    for i in 0..products {
        let _ = write!(inputs, ", w{i}: float8_e4m3fn[{k}, {n}], sb{i}: float32[1, {n}]");
        let _ = write!(ops, " y{i} = scaled_mm(x8, w{i}, sa, sb{i}, out_dtype=\"float16\")");
        let mut result = format!("y{i}");
        for again in 0..rescaled {
            let _ = write!(inputs, ", r{i}.{again}: float16[1, {n}]");
            let _ = write!(ops, " z{i}.{again} = mul({result}, r{i}.{again})");
            result = format!("z{i}.{again}");
        }
        results.push(result);
    }
    format!("graph fp8({inputs}) {{{ops} return {} }}", results.join(", "))
}

/// The tokens that a layer of Granite 3.3 8B computes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GranitePhase {
    /// All tokens of a prompt of this length.
    Prefill(i64),
    /// One token, with a cache of keys and values for this many tokens.
    Decode(i64),
}

/// A layer of Granite 3.3 8B: hidden size 4096, 32 query heads and 8 key and value heads of 128 elements, MLP size
/// 12800, residual multiplier 0.22. Weights have the shape `[in, out]`, as torch-spyre stores them after loading.
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
