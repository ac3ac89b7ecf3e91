//! From a measured row to a graph: which graph every operation of the file stands for.
//!
//! A row that says too little, or that names something this compiler has no option for, becomes an [`ExcludedRow`] with
//! the reason: a guess would be counted as a prediction.

use super::case::{
    CasePart, Category, ExcludedRow, Exclusion, MeasuredCase, MeasuredQuantity, MeasuredStack,
};
use super::graphs::{
    BatchOrder, Fp8Packing, GranitePhase, Product, add_chain_text, attention_scores_text,
    flash_attention_text, fp8_linear_text, gated_mlp_text, granite_layer_text, one_op_text,
    softmax_without_exp_text,
};
use super::row::{MeasuredRow, ProductSplit};
use super::texts::{
    find_size, parse_bracketed_shapes, parse_joined_sizes, parse_named_sizes, parse_product_split,
};

type Expressed = Result<MeasuredCase, ExcludedRow>;

/// Where torch-spyre's `DXP_LX_FRAC_AVAIL` is when nothing is set (upstream's configuration of September 2026).
const DEFAULT_LX_RESERVED: f64 = 0.2;

/// The software that a row was measured on.
pub fn find_stack(row: &MeasuredRow) -> MeasuredStack {
    let texts = [&row.conditions, &row.op, &row.kind];
    let names = ["sendnn", "older stack", "older whole-phase stack"];
    let sendnn = texts.iter().any(|t| names.iter().any(|n| t.contains(n)));
    if sendnn { MeasuredStack::Sendnn } else { MeasuredStack::TorchSpyre }
}

/// What a row becomes.
///
/// # Errors
/// The reason why it is left out.
pub fn express_row(row: &MeasuredRow) -> Expressed {
    refuse_other_quantities(row)?;
    let case = express_operation(row)?;
    // After the operation, so that only rows which could be predicted count as doubtful.
    refuse_doubtful(row)?;
    Ok(apply_conditions(row, case))
}

fn refuse(exclusion: Exclusion, reason: impl Into<String>) -> ExcludedRow {
    ExcludedRow::new(exclusion, reason)
}

fn unstated(reason: impl Into<String>) -> ExcludedRow {
    refuse(Exclusion::Unstated, reason)
}

pub(super) fn refuse_other_quantities(row: &MeasuredRow) -> Result<(), ExcludedRow> {
    let time = matches!(row.unit.as_str(), "us" | "ms" | "s");
    if !time && row.unit != "GB/s" {
        return Err(refuse(Exclusion::NotATime, format!("its unit is {}", row.unit)));
    }
    let kind = row.kind.as_str();
    if kind.starts_with("host compile") {
        return Err(refuse(Exclusion::NotATime, "a time of the compiler, which runs on the host"));
    }
    if kind.starts_with("model prediction") || kind.starts_with("fit input") {
        return Err(refuse(Exclusion::NotATime, "the figure of a model, not of a card"));
    }
    if kind.contains("replicated reads") {
        return Err(refuse(Exclusion::NotATime, "a rate of one core, derived from other figures"));
    }
    if row.value <= 0.0 {
        return Err(refuse(Exclusion::Doubtful, "its value is 0"));
    }
    let others = [
        ("wall", "a time by the clock of the host"),
        ("per call", "a time of a call, host included or not is not stated"),
        ("not stated", "whether it is a time of kernels is not stated"),
        ("host", "a time of the host"),
        ("cpu", "a time of the host"),
        ("Self CPU", "a time of the host"),
        ("memory transfer", "a transfer to or from the host"),
        ("device activity", "what the card does beside kernels"),
        ("device total", "kernels and transfers together"),
        ("first-to-last", "a span that includes idle times"),
        ("outside kernels", "what the card does beside kernels"),
        ("difference of", "a difference of times of loops that are not stated"),
    ];
    if let Some((_, reason)) = others.iter().find(|(word, _)| kind.contains(word)) {
        return Err(refuse(Exclusion::NotOfKernels, *reason));
    }
    Ok(())
}

pub(super) fn refuse_doubtful(row: &MeasuredRow) -> Result<(), ExcludedRow> {
    let stated = ["do not use", "do not fit", "not bit exact"].iter().any(|w| row.note.contains(w));
    if row.suspicious || stated {
        let reason = match row.note.is_empty() {
            true => "marked as suspicious by its collector".to_string(),
            false => row.note.clone(),
        };
        return Err(refuse(Exclusion::Doubtful, reason));
    }
    Ok(())
}

/// Cores, scratchpads and the part of them that is left to the backend.
fn apply_conditions(row: &MeasuredRow, mut case: MeasuredCase) -> MeasuredCase {
    let words = &row.conditions;
    // The division may use fewer cores than the compiler was given, never more.
    let forced = case.split.map(|s| s.b * s.m * s.n * s.k).unwrap_or(1);
    let cores = row.cores.unwrap_or(32).max(forced).min(32);
    case.cores = usize::try_from(cores).unwrap_or(32);
    let off = ["scratchpad planning off", "LX_PLANNING=0", "LX planning off", "LX off", "no LX"];
    case.lx = row.lx_planning.unwrap_or(!off.iter().any(|w| words.contains(w)));
    for word in ["LX_FRAC_AVAIL=", "LX_FRAC_AVAIL about ", "LX frac "] {
        if let Some((_, rest)) = words.split_once(word) {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let part = rest[..end].trim_end_matches('.').parse().ok();
            case.lx_reserved = part.filter(|p| (0.0..=1.0).contains(p)).unwrap_or(case.lx_reserved);
        }
    }
    case.copies = words.starts_with("LX relayout over the ring");
    if words.contains("one bundle, intermediates in memory") {
        case.lx = false;
    }
    case
}

fn build_case(category: Category, graph: String) -> MeasuredCase {
    build_sum(category, vec![CasePart { graph, times: 1 }])
}

fn build_sum(category: Category, parts: Vec<CasePart>) -> MeasuredCase {
    MeasuredCase {
        category,
        parts,
        cores: 32,
        lx: true,
        lx_reserved: DEFAULT_LX_RESERVED,
        copies: false,
        quantity: MeasuredQuantity::Time,
        shape: String::new(),
        split: None,
    }
}

fn express_operation(row: &MeasuredRow) -> Expressed {
    if let Some(found) = express_pointwise(row).or_else(|| express_rows_and_copies(row)) {
        return found;
    }
    if let Some(found) = express_products(row).or_else(|| express_loops(row)) {
        return found;
    }
    if let Some(found) = express_networks(row).or_else(|| express_rates(row)) {
        return found;
    }
    Err(match row.op.as_str() {
        op if op.contains("relayout") => {
            unstated("which of its tensors are copied between scratchpads is not stated")
        }
        op => unstated(format!("what `{op}` runs is not described in enough detail")),
    })
}

/// Rows and columns of a matrix: from the fields, the named sizes `R` and `C`, or `2048x4096`.
fn read_rows_and_cols(row: &MeasuredRow) -> Result<(i64, i64), ExcludedRow> {
    if let (Some(rows), Some(cols)) = (row.rows, row.cols) {
        return Ok((rows, cols));
    }
    let named = parse_named_sizes(&row.shapes);
    if let (Some(rows), Some(cols)) = (find_size(&named, "R"), find_size(&named, "C")) {
        return Ok((rows, cols));
    }
    match parse_joined_sizes(&row.shapes)[..] {
        [rows, cols] => Ok((rows, cols)),
        _ => Err(unstated(format!("`{}` does not say rows and columns", row.shapes))),
    }
}

fn matrix(rows: i64, cols: i64) -> String {
    format!("float16[{rows}, {cols}]")
}

/// A column of one number a row takes a stick for each, which is the layout `sparse`.
fn column(rows: i64) -> String {
    format!("float16[{rows}, 1] pin sparse")
}

/// Operations on each element, alone, with a broadcast operand, or several in a chain.
fn express_pointwise(row: &MeasuredRow) -> Option<Expressed> {
    let op = row.op.as_str();
    let unary = |text: &str| Some((Category::Pointwise, 1, text.to_string()));
    let (category, inputs, text) = match op {
        "neg" => unary("neg(x0)"),
        "gelu" => unary("gelu(x0)"),
        "exp" => unary("exp(x0)"),
        "copy" => unary("add(x0, 1.0)"),
        "add" | "add (2 reads 1 write)" => Some((Category::Pointwise, 2, "add(x0, x1)".into())),
        "mul" => Some((Category::Pointwise, 2, "mul(x0, x1)".into())),
        _ => None,
    }
    .unwrap_or((Category::Pointwise, 0, String::new()));
    if inputs > 0 {
        return Some(read_rows_and_cols(row).map(|(rows, cols)| {
            build_case(category, one_op_text(&vec![matrix(rows, cols); inputs], &text))
        }));
    }
    let broadcast = |left: fn(i64, i64) -> String, right: fn(i64, i64) -> String, text: &str| {
        Some(read_rows_and_cols(row).map(|(rows, cols)| {
            let inputs = [left(rows, cols), right(rows, cols)];
            build_case(Category::Broadcast, one_op_text(&inputs, text))
        }))
    };
    let one_row: fn(i64, i64) -> String = |_, cols| matrix(1, cols);
    let one_column: fn(i64, i64) -> String = |rows, _| column(rows);
    match op {
        "bcast" | "a[R,C] + b[1,C]" => return broadcast(matrix, one_row, "add(x0, x1)"),
        "mulbcast" => return broadcast(matrix, one_row, "mul(x0, x1)"),
        "bcastcol" => return broadcast(matrix, one_column, "add(x0, x1)"),
        "write" => return broadcast(one_row, one_column, "add(x0, x1)"),
        "mul by scalar (read S, write S)" => {
            let megabytes = parse_named_sizes(&row.shapes.replace(" MB", ""));
            let Some(size) = find_size(&megabytes, "S") else {
                return Some(Err(unstated("it does not say the size")));
            };
            let rows = size * (1 << 20) / 2 / 2048;
            return Some(Ok(build_case(
                Category::Pointwise,
                one_op_text(&[matrix(rows, 2048)], "mul(x0, 0.5)"),
            )));
        }
        _ => {}
    }
    express_chain(row)
}

/// Sums of several inputs: in one graph, or each in its own.
fn express_chain(row: &MeasuredRow) -> Option<Expressed> {
    let (inputs, separate) = match row.op.as_str() {
        "a+b+c chain" => (3, false),
        "a+b+c+d chain" => (4, false),
        "a+b+c as separate launches" => (3, true),
        "5-input dependent sum" => (5, false),
        "6-input dependent sum" => (6, false),
        "add_indep2" | "two independent adds (a+b),(c+d)" => {
            return Some(read_rows_and_cols(row).map(|(rows, cols)| {
                let x = matrix(rows, cols);
                let graph = format!(
                    "graph two(a: {x}, b: {x}, c: {x}, d: {x}) {{ s = add(a, b) t = add(c, d) return s, t }}"
                );
                build_case(Category::Chain, graph)
            }));
        }
        op => {
            let rest = op.strip_prefix("add")?;
            let (count, separate) = match rest.strip_suffix("_sep") {
                Some(count) => (count, true),
                None => (rest, false),
            };
            (count.parse().ok().filter(|n| (3..=64).contains(n))?, separate)
        }
    };
    Some(read_rows_and_cols(row).map(|(rows, cols)| match separate {
        true => {
            let graph = add_chain_text(2, rows, cols);
            build_sum(Category::Chain, vec![CasePart { graph, times: inputs as u64 - 1 }])
        }
        false => build_case(Category::Chain, add_chain_text(inputs, rows, cols)),
    }))
}

/// Reductions, transposes, concatenations, softmax and norms.
fn express_rows_and_copies(row: &MeasuredRow) -> Option<Expressed> {
    let one = |category, text: &'static str| {
        Some(
            read_rows_and_cols(row)
                .map(|(rows, cols)| build_case(category, one_op_text(&[matrix(rows, cols)], text))),
        )
    };
    match row.op.as_str() {
        "read" | "sumrow" => one(Category::Reduction, "sum(x0, dim=[-1])"),
        "amax" | "amax over the last dimension" => one(Category::Reduction, "amax(x0, dim=[-1])"),
        "mean" => one(Category::Reduction, "mean(x0, dim=[-1])"),
        "sumcol" => one(Category::Reduction, "sum(x0, dim=[0])"),
        "sumall" => one(Category::Reduction, "sum(x0)"),
        "cat0" => one(Category::Concatenation, "cat(x0, x0, dim=0)"),
        "cat1" => one(Category::Concatenation, "cat(x0, x0, dim=1)"),
        "softmax" if row.rows.is_some() => one(Category::Softmax, "softmax(x0, dim=-1)"),
        // A pinned copy is one move, as it is on the card.
        "transpose" | "restickify (2-D transpose, isolated)" => {
            Some(read_rows_and_cols(row).map(|(rows, cols)| {
                let x = matrix(rows, cols);
                let graph = format!(
                    "graph turn(x: {x}) {{ t = transpose(x, dim0=0, dim1=1) y = clone(t) pin order [0, 1] return y }}"
                );
                build_case(Category::Transpose, graph)
            }))
        }
        "transpose_outer" => {
            let sizes = read_rows_and_cols(row);
            let named = parse_named_sizes(&row.shapes);
            let middle = row.mid.or_else(|| find_size(&named, "M")).unwrap_or(8);
            Some(sizes.map(|(rows, cols)| {
                let graph = format!(
                    "graph swap(x: float16[{rows}, {middle}, {cols}]) {{ t = transpose(x, dim0=0, dim1=1) \
                     y = clone(t) pin order [0, 1, 2] return y }}"
                );
                build_case(Category::Transpose, graph)
            }))
        }
        "softmax(dim=-1)" | "rms_norm" | "rms_norm kernel" => {
            let shapes = parse_bracketed_shapes(&row.shapes);
            let Some(x) = shapes.first() else { return Some(Err(unstated("it has no shape"))) };
            let (list, last) = (join_sizes(x), x.last().copied().unwrap_or(1));
            let x = format!("float16[{list}]");
            Some(Ok(if row.op.starts_with("rms_norm") {
                let text = format!("rms_norm(x0, x1, normalized_shape=[{last}], eps=1e-05)");
                build_case(Category::Norm, one_op_text(&[x, format!("float16[{last}]")], &text))
            } else {
                build_case(Category::Softmax, one_op_text(&[x], "softmax(x0, dim=-1)"))
            }))
        }
        _ => None,
    }
}

fn join_sizes(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

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
    let product = Product { split, ..product };
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
fn read_product_sizes(row: &MeasuredRow) -> Option<(Option<i64>, i64, i64, i64)> {
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

fn require_product_sizes(row: &MeasuredRow) -> Result<(Option<i64>, i64, i64, i64), ExcludedRow> {
    let unclear = || unstated(format!("`{}` does not say the sizes of the product", row.shapes));
    read_product_sizes(row).ok_or_else(unclear)
}

/// Products alone in their graph: plain, in batches, with one weight, of 8-bit floats.
fn express_products(row: &MeasuredRow) -> Option<Expressed> {
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
            let graph = Product::plain(m, k, n).graph_text();
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
    let mut graph = fp8_linear_text(m, k, n, packing, products);
    if let Some(ProductSplit { m, n, k, .. }) = split {
        let hint = format!("out_dtype=\"float16\") split {{M: {m}, N: {n}, K: {k}}}");
        graph = graph.replace("out_dtype=\"float16\")", &hint);
    }
    let mut case = build_case(Category::Fp8Linear, graph);
    case.split = split;
    case.shape = format!("fp8 {products} {m} {k} {n} {packing:?} {}", row.conditions);
    Ok(case)
}

/// Operations in a loop over tiles. A loop of T tiles is T runs of its body: that is what the card's program does, its
/// body with other addresses.
fn express_loops(row: &MeasuredRow) -> Option<Expressed> {
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
                let x = matrix(part("rows", rows)?, cols);
                repeat(looped(Category::Softmax), one_op_text(&[x], "softmax(x0, dim=-1)"), tiles)
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

/// Attention, gated MLPs and layers of Granite.
fn express_networks(row: &MeasuredRow) -> Option<Expressed> {
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
        let graph = flash_attention_text(size("B").unwrap_or(1), heads, sizes);
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

/// Rates of memory, for rows that name the operation and the number of rows.
fn express_rates(row: &MeasuredRow) -> Option<Expressed> {
    if row.unit != "GB/s" {
        return None;
    }
    // The sources swept 1024 to 16384 columns and call these rates flat.
    const COLUMNS: i64 = 4096;
    let rows = row.shapes.split_whitespace().next().and_then(|n| n.parse().ok());
    let rows: Option<i64> = rows.filter(|n| (1..=1 << 20).contains(n));
    let rate = |rows: i64, mut case: MeasuredCase, bytes_per_element: i64| {
        let bytes = rows * COLUMNS * bytes_per_element;
        case.category = Category::Bandwidth;
        case.quantity = MeasuredQuantity::RateOfBytes(bytes.unsigned_abs());
        Some(Ok(case))
    };
    let one = |rows, text: &str, inputs: usize| {
        build_case(Category::Bandwidth, one_op_text(&vec![matrix(rows, COLUMNS); inputs], text))
    };
    let op = row.op.as_str();
    match (op, rows) {
        ("effective memory bandwidth: 2 reads 1 write (add)", Some(rows)) => {
            rate(rows, one(rows, "add(x0, x1)", 2), 6)
        }
        ("effective memory bandwidth: 1 read 1 write (neg/gelu/exp)", Some(rows)) => {
            rate(rows, one(rows, "neg(x0)", 1), 4)
        }
        ("effective memory bandwidth: column sum", Some(rows)) => {
            rate(rows, one(rows, "sum(x0, dim=[0])", 1), 2)
        }
        ("row reduction read bandwidth", Some(rows)) => {
            rate(rows, one(rows, "amax(x0, dim=[-1])", 1), 2)
        }
        ("effective memory bandwidth: transpose = restickify", Some(rows)) => {
            let x = matrix(rows, COLUMNS);
            let graph = format!(
                "graph turn(x: {x}) {{ t = transpose(x, dim0=0, dim1=1) y = clone(t) pin order [0, 1] return y }}"
            );
            rate(rows, build_case(Category::Bandwidth, graph), 4)
        }
        ("swap outer dims [R,M,C]", _) => {
            let middle = find_size(&parse_named_sizes(&row.shapes), "M").unwrap_or(1);
            let rows = 2048;
            let graph = format!(
                "graph swap(x: float16[{rows}, {middle}, {COLUMNS}]) {{ t = transpose(x, dim0=0, dim1=1) \
                 y = clone(t) pin order [0, 1, 2] return y }}"
            );
            rate(rows * middle, build_case(Category::Bandwidth, graph), 4)
        }
        ("cat along rows, effective bandwidth", _) => {
            let graph = one_op_text(&[matrix(2048, 32_768)], "cat(x0, x0, dim=0)");
            let case = build_case(Category::Bandwidth, graph);
            rate(2048 * 32_768 / COLUMNS, case, 6)
        }
        (op, _) if op.contains("LX") || op.contains("relayout") => None,
        _ => Some(Err(unstated("the sizes behind the rate are not stated"))),
    }
}
