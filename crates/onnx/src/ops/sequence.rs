//! Parts of language models: rotated positions, gates, attention with a state in the place of a cache.

use super::Table;
use crate::error::Result;
use crate::literal::{Literal, Numbers};
use crate::node::Node;
use crate::walk::Value;
use serde_json::{Value as Json, json};
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table =
    &[("RotaryEmbedding", rotary), ("SwiGLU", swiglu), ("LinearAttention", linear_attention)];

/// Steps of a sequence at most: each is written out.
const MOST_STEPS: i64 = 1 << 14;

fn part(n: &mut Node<'_, '_>, x: TensorId, dim: usize, start: i64, end: i64) -> Result<TensorId> {
    n.step("slice", &[x], json!({"dim": dim, "start": start, "end": end}))
}

/// Pairs of elements turned by the angle of their position: operand 0, cosines, sines, positions.
fn rotary(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 4)?;
    let (count, pairs) = (n.int("num_heads", 0)?, n.flag("interleaved", false)?);
    let asked = n.int("rotary_embedding_dim", 0)?;
    let size = n.size(0)?;
    let mut x = n.tensor(0)?;
    // [batch, rows, heads, width]
    x = match size[..] {
        [_, _, _, _] => n.step("transpose", &[x], json!({"dim0": 1, "dim1": 2}))?,
        [batch, rows, width] if count > 0 && width % count == 0 => {
            n.step("reshape", &[x], json!({"size": [batch, rows, count, width / count]}))?
        }
        _ => {
            let message = format!(
                "{size:?} with {count} heads; accepted: [batch, heads, rows, width], or [batch, rows, \
                 heads * width] with num_heads"
            );
            return Err(n.bad_operand(0, message));
        }
    };
    let whole = n.size_of(x);
    let width = if asked == 0 { whole[3] } else { asked };
    if width % 2 != 0 || !(2..=whole[3]).contains(&width) {
        let message =
            format!("{width} of {} elements are turned; accepted: an even number", whole[3]);
        return Err(n.bad("bad_attribute", message));
    }
    let half = width / 2;
    let mut tables = Vec::new();
    for k in [1, 2] {
        let mut table = n.tensor(k)?;
        if n.has(3) {
            let places = n.tensor(3)?;
            table = n.step("embedding", &[table, places], Json::Null)?;
        }
        let size = n.size_of(table);
        if size.len() != 3 || size[2] != half {
            return Err(n.bad_operand(k, format!("{size:?}; accepted: {half} angles for each row")));
        }
        tables.push(n.step("unsqueeze", &[table], json!({"dim": 2}))?);
    }
    let (cos, sin) = (tables[0], tables[1]);
    let turned = part(n, x, 3, 0, width)?;
    let (a, b) = if pairs {
        let every = |start: i64| json!({"dim": 3, "start": start, "end": width, "step": 2});
        (n.step("slice", &[turned], every(0))?, n.step("slice", &[turned], every(1))?)
    } else {
        (part(n, turned, 3, 0, half)?, part(n, turned, 3, half, width)?)
    };
    let product = |n: &mut Node<'_, '_>, a, b| n.step("mul", &[a, b], Json::Null);
    let (real, other) = (product(n, cos, a)?, product(n, sin, b)?);
    let real = n.step("sub", &[real, other], Json::Null)?;
    let (imaginary, other) = (product(n, sin, a)?, product(n, cos, b)?);
    let imaginary = n.step("add", &[imaginary, other], Json::Null)?;
    let mut y = if pairs {
        let both = n.step("stack", &[real, imaginary], json!({"dim": 4}))?;
        let size = [&whole[..3], &[width]].concat();
        n.step("reshape", &[both], json!({"size": size}))?
    } else {
        n.step("cat", &[real, imaginary], json!({"dim": 3}))?
    };
    if width != whole[3] {
        let rest = part(n, x, 3, width, whole[3])?;
        y = n.step("cat", &[y, rest], json!({"dim": 3}))?;
    }
    let y = GraphOperand::Tensor(y);
    Ok(vec![if size.len() == 4 {
        n.emit("transpose", &[y], json!({"dim0": 1, "dim1": 2}))?
    } else {
        n.emit("reshape", &[y], json!({"size": size}))?
    }])
}

/// Operand 0 as the gate of operand 1.
fn swiglu(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(2, 2)?;
    let alpha = n.float("alpha", 1.0)?;
    let (x, up) = (n.tensor(0)?, n.tensor(1)?);
    let gate = if alpha == 1.0 {
        n.step("silu", &[x], Json::Null)?
    } else {
        let inner = n.with("mul", x, alpha)?;
        let share = n.step("sigmoid", &[inner], Json::Null)?;
        n.step("mul", &[x, share], Json::Null)?
    };
    Ok(vec![n.emit("mul", &[GraphOperand::Tensor(gate), GraphOperand::Tensor(up)], Json::Null)?])
}

/// Attention that reads from a sum of products of keys and values, which may fade and be corrected, in float32.
fn linear_attention(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 6)?;
    let rule = n.word("update_rule", "gated_delta")?;
    let (fades, corrects) = match rule.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            let message = format!(
                "attribute `update_rule` is `{other}`; accepted: linear, gated, delta, gated_delta"
            );
            return Err(n.bad("bad_attribute", message));
        }
    };
    n.int("chunk_size", 0)?;
    let (own, shared) = (n.int("q_num_heads", 0)?, n.int("kv_num_heads", 0)?);
    let scale = n.float("scale", 0.0)?;
    let (size, value) = (n.size(0)?, n.size(2)?);
    let fits = own > 0 && shared > 0 && own % shared == 0 && size.len() == 3 && value.len() == 3;
    if !fits || size[2] % own != 0 || value[2] % shared != 0 || size[1] > MOST_STEPS {
        let message = format!(
            "{size:?} with {own} heads and {value:?} with {shared}; accepted: [batch, rows, heads * width], at \
             most {MOST_STEPS} rows"
        );
        return Err(n.bad("bad_operand", message));
    }
    if fades != n.has(4) || corrects != n.has(5) {
        let message = format!("update_rule `{rule}` with decay: {}, beta: {}", n.has(4), n.has(5));
        return Err(n.bad("bad_operand", message));
    }
    let (batch, rows) = (size[0], size[1]);
    let (key_width, value_width) = (size[2] / own, value[2] / shared);
    let heads = |n: &mut Node<'_, '_>, k: usize, count: i64, width: i64| -> Result<TensorId> {
        let x = n.tensor(k)?;
        let x = n.cast(x, Dtype::Float32)?;
        n.step("reshape", &[x], json!({"size": [batch, rows, count, width]}))
    };
    let q = heads(n, 0, own, key_width)?;
    let k = heads(n, 1, shared, key_width)?;
    let v = heads(n, 2, shared, value_width)?;
    let decay = if fades {
        let last = n.size(4)?.last().copied().unwrap_or(0);
        let decay = heads(n, 4, shared, if last == shared { 1 } else { key_width })?;
        Some(n.step("exp", &[decay], Json::Null)?)
    } else {
        None
    };
    let beta = if corrects {
        let last = n.size(5)?.last().copied().unwrap_or(0);
        Some(heads(n, 5, last, 1)?)
    } else {
        None
    };
    let shape = [batch, shared, key_width, value_width];
    let kept = if n.has(3) { n.dtype(3)? } else { n.dtype(0)? };
    let mut state = if n.has(3) {
        let past = n.tensor(3)?;
        n.cast(past, Dtype::Float32)?
    } else {
        let count = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0);
        let data = Numbers::Float(vec![0.0; count]);
        n.constant(&Literal { dtype: Dtype::Float32, shape: shape.to_vec(), data }, "start")?
    };
    let scale = if scale == 0.0 { 1.0 / (key_width as f64).sqrt() } else { scale };
    let mut told = Vec::new();
    for t in 0..rows {
        let at = json!({"dim": 1, "index": t});
        let key = n.step("select", &[k], at.clone())?;
        let column = n.step("unsqueeze", &[key], json!({"dim": 3}))?;
        let value = n.step("select", &[v], at.clone())?;
        let mut row = n.step("unsqueeze", &[value], json!({"dim": 2}))?;
        if let Some(decay) = decay {
            let share = n.step("select", &[decay], at.clone())?;
            let share = n.step("unsqueeze", &[share], json!({"dim": 3}))?;
            state = n.step("mul", &[state, share], Json::Null)?;
        }
        if let Some(beta) = beta {
            // What the state already gives for this key is taken off first.
            let line = n.step("unsqueeze", &[key], json!({"dim": 2}))?;
            let had = n.step("matmul", &[line, state], Json::Null)?;
            let new = n.step("sub", &[row, had], Json::Null)?;
            let share = n.step("select", &[beta], at.clone())?;
            let share = n.step("unsqueeze", &[share], json!({"dim": 3}))?;
            row = n.step("mul", &[new, share], Json::Null)?;
        }
        let written = n.step("mul", &[column, row], Json::Null)?;
        state = n.step("add", &[state, written], Json::Null)?;
        let query = n.step("select", &[q], at)?;
        let query = n.step("unsqueeze", &[query], json!({"dim": 2}))?;
        let read = if own == shared {
            state
        } else {
            n.step("repeat_interleave", &[state], json!({"repeats": own / shared, "dim": 1}))?
        };
        let line = n.step("matmul", &[query, read], Json::Null)?;
        let line = n.with("mul", line, scale)?;
        told.push(n.step("reshape", &[line], json!({"size": [batch, 1, own * value_width]}))?);
    }
    let y = match told[..] {
        [] => return Err(n.bad_operand(0, "a sequence of no rows")),
        [one] => one,
        _ => n.step("cat", &told, json!({"dim": 1}))?,
    };
    let dtype = n.dtype(0)?;
    let y = n.converted(y, dtype)?;
    let state = n.cast(state, kept)?;
    Ok(vec![y, Value::Tensor(state)])
}
