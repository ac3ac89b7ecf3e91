//! Softmax and norms: a whole row along the lanes at a time.

use super::frame::{Frame, int, place};
use zellige_ktir::{Elem, Kind, Value};

/// Elements of a row at most: several rows of float32 live in the scratchpad.
pub(super) const ROW: usize = 1 << 16;

/// Adds the body of an operation on rows.
pub(super) fn body(f: &mut Frame, name: &str) -> Result<(), String> {
    let count = f.tensors.len();
    let last = f.tensors[0].form.rank().checked_sub(1).ok_or("it has no dimensions")?;
    let n = f.tensors[0].form.size[last];
    if matches!(name, "softmax" | "log_softmax") {
        let dim = f.number("dim", -1.0);
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
    if n > ROW {
        return Err(format!("a row of {n} elements does not stay in the scratchpad"));
    }
    let outer: Vec<usize> = (0..f.spans.len()).collect();
    let name = name.to_string();
    f.nest(&outer, &mut Vec::new(), &mut |f, at| {
        let rows: Vec<Value> = (0..count - 1).map(|k| row(f, k, at)).collect();
        let result = compute(f, &name, &rows, int(n))?;
        store_row(f, result, at);
        Ok(())
    })
}

/// The valid elements of a row of an operand.
pub(super) fn row(f: &mut Frame, k: usize, at: &[(usize, Value)]) -> Value {
    let (follows, form) = (f.tensors[k].follows.clone(), f.tensors[k].form.clone());
    let (zero, sticks) = (f.zero, int(form.stick_count()));
    let (tile, _) = f.tile(k, &|d| (place(at, follows[d], zero), 1), (zero, sticks), None);
    let padded = sticks * int(form.eps);
    let n = form.stick.map_or(1, |d| int(form.size[d]));
    let whole = f.load(tile, &[1, padded], f.tensors[k].elem);
    if n == padded { whole } else { f.b.extract_slice(whole, &[0, 0], &[1, n]) }
}

/// Stores a row into the result, with zeros in its padding.
fn store_row(f: &mut Frame, data: Value, at: &[(usize, Value)]) {
    let k = f.tensors.len() - 1;
    let (follows, form) = (f.tensors[k].follows.clone(), f.tensors[k].form.clone());
    let (zero, sticks) = (f.zero, int(form.stick_count()));
    let (tile, _) = f.tile(k, &|d| (place(at, follows[d], zero), 1), (zero, sticks), None);
    let padded = sticks * int(form.eps);
    let n = form.stick.map_or(1, |d| int(form.size[d]));
    let whole = if n == padded {
        data
    } else {
        let empty = f.b.float_tile(0.0, &[1, padded], Elem::F32);
        f.b.insert_slice(data, empty, &[0, 0])
    };
    f.store(whole, tile);
}

/// All numbers of a row combined.
pub(super) fn total(f: &mut Frame, kind: Kind, row: Value, start: f64) -> Value {
    let init = f.b.float_tile(start, &[1], Elem::F32);
    f.b.reduce(kind, row, init, &[1])
}

fn compute(f: &mut Frame, name: &str, rows: &[Value], n: i64) -> Result<Value, String> {
    let (x, shape) = (rows[0], [1, n]);
    let spread = |f: &mut Frame, t: Value| f.spread(t, &shape);
    let mean = |f: &mut Frame, row: Value| {
        let sum = total(f, Kind::AddF, row, 0.0);
        let count = f.b.float_tile(n as f64, &[1], Elem::F32);
        f.b.binary(Kind::DivF, sum, count)
    };
    if matches!(name, "softmax" | "log_softmax") {
        let largest = total(f, Kind::MaximumF, x, f64::NEG_INFINITY);
        let largest = spread(f, largest);
        let shifted = f.b.binary(Kind::SubF, x, largest);
        let e = f.b.unary(Kind::Exp, shifted);
        let sum = total(f, Kind::AddF, e, 0.0);
        if name == "softmax" {
            let sum = spread(f, sum);
            return Ok(f.b.binary(Kind::DivF, e, sum));
        }
        let log = f.b.unary(Kind::Log, sum);
        let log = spread(f, log);
        return Ok(f.b.binary(Kind::SubF, shifted, log));
    }
    let centred = if name == "layer_norm" {
        let m = mean(f, x);
        let m = spread(f, m);
        f.b.binary(Kind::SubF, x, m)
    } else {
        x
    };
    let squares = f.b.binary(Kind::MulF, centred, centred);
    let square = mean(f, squares);
    let eps = f.number("eps", 1e-5);
    let eps = f.b.float_tile(eps, &[1], Elem::F32);
    let within = f.b.binary(Kind::AddF, square, eps);
    let root = f.b.unary(Kind::Sqrt, within);
    let root = spread(f, root);
    let mut y = f.b.binary(Kind::DivF, centred, root);
    if let Some(weight) = rows.get(1) {
        y = f.b.binary(Kind::MulF, y, *weight);
    }
    if let Some(bias) = rows.get(2) {
        y = f.b.binary(Kind::AddF, y, *bias);
    }
    Ok(y)
}
