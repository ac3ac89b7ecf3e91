//! Softmax and norms: a whole row along the lanes at a time.

use super::frame::{KtirKernelFrame, loop_index_or_zero, size_to_i64};
use zellige_ktir::{KtirElem, KtirOpKind, KtirValue};

/// Elements of a row at most: several rows of float32 live in the scratchpad.
pub(super) const MAX_ROW_ELEMENTS: usize = 1 << 16;

/// Adds the body of an operation on rows.
pub(super) fn build_row_body(f: &mut KtirKernelFrame, name: &str) -> Result<(), String> {
    let count = f.tensors.len();
    let last = f.tensors[0].form.rank().checked_sub(1).ok_or("it has no dimensions")?;
    let n = f.tensors[0].form.size[last];
    if matches!(name, "softmax" | "log_softmax") {
        let dim = f.number_attribute("dim", -1.0);
        if dim != -1.0 && dim != last as f64 {
            return Err("its rows do not run along the last dimension".into());
        }
    } else {
        let shape = f.attributes.get("normalized_shape").and_then(|v| v.as_array());
        if shape.is_none_or(|s| s.len() != 1) {
            return Err("it normalises several dimensions together".into());
        }
    }
    for (k, t) in f.tensors.iter().enumerate() {
        let own = t.form.rank().checked_sub(1);
        if t.form.stick != own || own.is_none_or(|d| t.form.size[d] != n) {
            return Err(format!("the rows of operand {k} do not run along its lanes"));
        }
    }
    if n > MAX_ROW_ELEMENTS {
        return Err(format!("a row of {n} elements does not stay in the scratchpad"));
    }
    let outer: Vec<usize> = (0..f.spans.len()).collect();
    let name = name.to_string();
    f.add_loop_nest(&outer, &mut Vec::new(), &mut |f, at| {
        let rows: Vec<KtirValue> = (0..count - 1).map(|k| load_row(f, k, at)).collect();
        let result = compute_row(f, &name, &rows, size_to_i64(n))?;
        store_row(f, result, at);
        Ok(())
    })
}

/// The valid elements of a row of an operand.
pub(super) fn load_row(f: &mut KtirKernelFrame, k: usize, at: &[(usize, KtirValue)]) -> KtirValue {
    let (follows, form) = (f.tensors[k].follows.clone(), f.tensors[k].form.clone());
    let (zero, sticks) = (f.zero, size_to_i64(form.stick_count()));
    let (tile, _) = f.operand_access_tile(
        k,
        &|d| (loop_index_or_zero(at, follows[d], zero), 1),
        (zero, sticks),
        None,
    );
    let padded = sticks * size_to_i64(form.eps);
    let n = form.stick.map_or(1, |d| size_to_i64(form.size[d]));
    let whole = f.load_float32(tile, &[1, padded], f.tensors[k].elem);
    // A row is loaded in whole sticks and then cut: lanes of padding hold anything, and a maximum or a sum over them
    // would be wrong.
    if n == padded { whole } else { f.b.extract_slice(whole, &[0, 0], &[1, n]) }
}

/// Stores a row into the result, with zeros in its padding.
fn store_row(f: &mut KtirKernelFrame, data: KtirValue, at: &[(usize, KtirValue)]) {
    let k = f.tensors.len() - 1;
    let (follows, form) = (f.tensors[k].follows.clone(), f.tensors[k].form.clone());
    let (zero, sticks) = (f.zero, size_to_i64(form.stick_count()));
    let (tile, _) = f.operand_access_tile(
        k,
        &|d| (loop_index_or_zero(at, follows[d], zero), 1),
        (zero, sticks),
        None,
    );
    let padded = sticks * size_to_i64(form.eps);
    let n = form.stick.map_or(1, |d| size_to_i64(form.size[d]));
    let whole = if n == padded {
        data
    } else {
        // A tile is stored in whole sticks. Zeros are written into the padding, so that a later product along the row
        // adds nothing there.
        let empty = f.b.float_tile(0.0, &[1, padded], KtirElem::F32);
        f.b.insert_slice(data, empty, &[0, 0])
    };
    f.store_rounded(whole, tile);
}

/// All numbers of a row combined.
pub(super) fn reduce_row(
    f: &mut KtirKernelFrame,
    kind: KtirOpKind,
    row: KtirValue,
    start: f64,
) -> KtirValue {
    let init = f.b.float_tile(start, &[1], KtirElem::F32);
    f.b.reduce_tile(kind, row, init, &[1])
}

fn compute_row(
    f: &mut KtirKernelFrame,
    name: &str,
    rows: &[KtirValue],
    n: i64,
) -> Result<KtirValue, String> {
    let (x, shape) = (rows[0], [1, n]);
    let spread = |f: &mut KtirKernelFrame, t: KtirValue| f.broadcast_scalar(t, &shape);
    let mean = |f: &mut KtirKernelFrame, row: KtirValue| {
        let sum = reduce_row(f, KtirOpKind::AddF, row, 0.0);
        let count = f.b.float_tile(n as f64, &[1], KtirElem::F32);
        f.b.binary_op(KtirOpKind::DivF, sum, count)
    };
    if matches!(name, "softmax" | "log_softmax") {
        // The maximum is subtracted before the exponential, as in every stable softmax: the largest exponential is
        // then 1 and none overflows.
        let largest = reduce_row(f, KtirOpKind::MaximumF, x, f64::NEG_INFINITY);
        let largest = spread(f, largest);
        let shifted = f.b.binary_op(KtirOpKind::SubF, x, largest);
        let e = f.b.unary_op(KtirOpKind::Exp, shifted);
        let sum = reduce_row(f, KtirOpKind::AddF, e, 0.0);
        if name == "softmax" {
            let sum = spread(f, sum);
            return Ok(f.b.binary_op(KtirOpKind::DivF, e, sum));
        }
        // As a difference of logarithms and not as the logarithm of the quotient, which would be minus infinity
        // wherever the quotient underflows.
        let log = f.b.unary_op(KtirOpKind::Log, sum);
        let log = spread(f, log);
        return Ok(f.b.binary_op(KtirOpKind::SubF, shifted, log));
    }
    let centred = if name == "layer_norm" {
        let m = mean(f, x);
        let m = spread(f, m);
        f.b.binary_op(KtirOpKind::SubF, x, m)
    } else {
        x
    };
    let squares = f.b.binary_op(KtirOpKind::MulF, centred, centred);
    let square = mean(f, squares);
    let eps = f.number_attribute("eps", 1e-5);
    let eps = f.b.float_tile(eps, &[1], KtirElem::F32);
    let within = f.b.binary_op(KtirOpKind::AddF, square, eps);
    let root = f.b.unary_op(KtirOpKind::Sqrt, within);
    let root = spread(f, root);
    let mut y = f.b.binary_op(KtirOpKind::DivF, centred, root);
    if let Some(weight) = rows.get(1) {
        y = f.b.binary_op(KtirOpKind::MulF, y, *weight);
    }
    if let Some(bias) = rows.get(2) {
        y = f.b.binary_op(KtirOpKind::AddF, y, *bias);
    }
    Ok(y)
}
