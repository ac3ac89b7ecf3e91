//! Operations without a product: on each element, reductions, copies, and rates of memory.

use super::super::case::{CasePart, Category, ExcludedRow, MeasuredCase, MeasuredQuantity};
use super::super::graphs::{add_chain_text, one_op_text};
use super::super::row::MeasuredRow;
use super::super::texts::{
    find_size, parse_bracketed_shapes, parse_joined_sizes, parse_named_sizes,
};
use super::{Expressed, build_case, build_sum, unstated};

/// Rows and columns of a matrix: from the fields, the named sizes `R` and `C`, or `2048x4096`.
pub(super) fn read_rows_and_cols(row: &MeasuredRow) -> Result<(i64, i64), ExcludedRow> {
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

pub(super) fn matrix(rows: i64, cols: i64) -> String {
    format!("float16[{rows}, {cols}]")
}

/// A column of one number a row takes a stick for each, which is the layout `sparse`.
fn column(rows: i64) -> String {
    format!("float16[{rows}, 1] pin sparse")
}

/// Operations on each element, alone, with a broadcast operand, or several in a chain.
pub(super) fn express_pointwise(row: &MeasuredRow) -> Option<Expressed> {
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
pub(super) fn express_rows_and_copies(row: &MeasuredRow) -> Option<Expressed> {
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

/// Rates of memory, for rows that name the operation and the number of rows.
pub(super) fn express_rates(row: &MeasuredRow) -> Option<Expressed> {
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
