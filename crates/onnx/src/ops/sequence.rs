//! Rules for parts of language models: rotary embeddings, gates, and linear attention, which has a
//! state in place of a cache.

use super::RuleTable;
use crate::error::Result;
use crate::literal::{LiteralNumbers, TensorLiteral};
use crate::node::NodeLowering;
use crate::walk::ModelValue;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[
    ("RotaryEmbedding", lower_rotary),
    ("SwiGLU", lower_swiglu),
    ("LinearAttention", lower_linear_attention),
];

/// The largest number of steps of a sequence, each of which is unrolled.
const MOST_STEPS: i64 = 1 << 14;

fn slice_range(
    n: &mut NodeLowering<'_, '_>,
    x: TensorId,
    dim: usize,
    start: i64,
    end: i64,
) -> Result<TensorId> {
    n.emit_step(OpCall::slice(dim, start, end), &[x])
}

/// Rotates pairs of elements by the angle of their position. Operands: the tensor, cosines, sines,
/// positions.
fn lower_rotary(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 4)?;
    let (count, pairs) =
        (n.int_attribute("num_heads", 0)?, n.flag_attribute("interleaved", false)?);
    let asked = n.int_attribute("rotary_embedding_dim", 0)?;
    let size = n.operand_size(0)?;
    let mut x = n.operand_tensor(0)?;
    // [batch, rows, heads, width]
    x = match size[..] {
        [_, _, _, _] => n.emit_step(OpCall::transpose(1, 2), &[x])?,
        [batch, rows, width] if count > 0 && width % count == 0 => {
            n.emit_step(OpCall::reshape([batch, rows, count, width / count]), &[x])?
        }
        _ => {
            let message = format!(
                "{size:?} with {count} heads; accepted: [batch, heads, rows, width], or [batch, rows, \
                 heads * width] with num_heads"
            );
            return Err(n.refuse_operand(0, message));
        }
    };
    let whole = n.tensor_size(x);
    // 0 is the default of `rotary_embedding_dim` and means the whole head.
    let width = if asked == 0 { whole[3] } else { asked };
    if width % 2 != 0 || !(2..=whole[3]).contains(&width) {
        let message =
            format!("{width} of {} elements are rotated; accepted: an even number", whole[3]);
        return Err(n.refuse_node("bad_attribute", message));
    }
    let half = width / 2;
    let mut tables = Vec::new();
    for k in [1, 2] {
        let mut table = n.operand_tensor(k)?;
        if n.has_operand(3) {
            let places = n.operand_tensor(3)?;
            // With positions the tables have a row per position; without, a row per row of the
            // operand.
            table = n.emit_step("embedding", &[table, places])?;
        }
        let size = n.tensor_size(table);
        if size.len() != 3 || size[2] != half {
            return Err(
                n.refuse_operand(k, format!("{size:?}; accepted: {half} angles for each row"))
            );
        }
        // A dimension of 1 for the heads, which share the angles.
        tables.push(n.emit_step(OpCall::unsqueeze(2), &[table])?);
    }
    let (cos, sin) = (tables[0], tables[1]);
    let turned = slice_range(n, x, 3, 0, width)?;
    // Interleaved pairs are neighbours; otherwise an element of the first half pairs with one of
    // the second.
    let (a, b) = if pairs {
        let every = |start: i64| OpCall::slice_by(3, start, width, 2);
        (n.emit_step(every(0), &[turned])?, n.emit_step(every(1), &[turned])?)
    } else {
        (slice_range(n, turned, 3, 0, half)?, slice_range(n, turned, 3, half, width)?)
    };
    let product = |n: &mut NodeLowering<'_, '_>, a, b| n.emit_step("mul", &[a, b]);
    let (real, other) = (product(n, cos, a)?, product(n, sin, b)?);
    let real = n.emit_step("sub", &[real, other])?;
    let (imaginary, other) = (product(n, sin, a)?, product(n, cos, b)?);
    let imaginary = n.emit_step("add", &[imaginary, other])?;
    let mut y = if pairs {
        let both = n.emit_step(OpCall::stack(4), &[real, imaginary])?;
        let size = [&whole[..3], &[width]].concat();
        n.emit_step(OpCall::reshape(size), &[both])?
    } else {
        n.emit_step(OpCall::cat(3), &[real, imaginary])?
    };
    if width != whole[3] {
        let rest = slice_range(n, x, 3, width, whole[3])?;
        y = n.emit_step(OpCall::cat(3), &[y, rest])?;
    }
    let y = GraphOperand::Tensor(y);
    Ok(vec![if size.len() == 4 {
        n.emit_result(OpCall::transpose(1, 2), &[y])?
    } else {
        n.emit_result(OpCall::reshape(size), &[y])?
    }])
}

/// Operand 0, through SiLU, gates operand 1.
fn lower_swiglu(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(2, 2)?;
    let alpha = n.float_attribute("alpha", 1.0)?;
    let (x, up) = (n.operand_tensor(0)?, n.operand_tensor(1)?);
    let gate = if alpha == 1.0 {
        n.emit_step("silu", &[x])?
    } else {
        let inner = n.emit_with_number("mul", x, alpha)?;
        let share = n.emit_step("sigmoid", &[inner])?;
        n.emit_step("mul", &[x, share])?
    };
    Ok(vec![n.emit_result("mul", &[GraphOperand::Tensor(gate), GraphOperand::Tensor(up)])?])
}

/// Linear attention: the state is a sum of products of keys and values, which may decay and be
/// corrected; computed in float32.
fn lower_linear_attention(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 6)?;
    let rule = n.word_attribute("update_rule", "gated_delta")?;
    let (fades, corrects) = match rule.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => {
            let message = format!(
                "attribute `update_rule` is `{other}`; accepted: linear, gated, delta, gated_delta"
            );
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    n.int_attribute("chunk_size", 0)?;
    let (own, shared) = (n.int_attribute("q_num_heads", 0)?, n.int_attribute("kv_num_heads", 0)?);
    let scale = n.float_attribute("scale", 0.0)?;
    let (size, value) = (n.operand_size(0)?, n.operand_size(2)?);
    let fits = own > 0 && shared > 0 && own % shared == 0 && size.len() == 3 && value.len() == 3;
    if !fits || size[2] % own != 0 || value[2] % shared != 0 || size[1] > MOST_STEPS {
        let message = format!(
            "{size:?} with {own} heads and {value:?} with {shared}; accepted: [batch, rows, heads * width], at \
             most {MOST_STEPS} rows"
        );
        return Err(n.refuse_node("bad_operand", message));
    }
    if fades != n.has_operand(4) || corrects != n.has_operand(5) {
        let message = format!(
            "update_rule `{rule}` with decay: {}, beta: {}",
            n.has_operand(4),
            n.has_operand(5)
        );
        return Err(n.refuse_node("bad_operand", message));
    }
    let (batch, rows) = (size[0], size[1]);
    let (key_width, value_width) = (size[2] / own, value[2] / shared);
    let heads =
        |n: &mut NodeLowering<'_, '_>, k: usize, count: i64, width: i64| -> Result<TensorId> {
            let x = n.operand_tensor(k)?;
            let x = n.cast_tensor(x, Dtype::Float32)?;
            n.emit_step(OpCall::reshape([batch, rows, count, width]), &[x])
        };
    let q = heads(n, 0, own, key_width)?;
    let k = heads(n, 1, shared, key_width)?;
    let v = heads(n, 2, shared, value_width)?;
    let decay = if fades {
        let last = n.operand_size(4)?.last().copied().unwrap_or(0);
        let decay = heads(n, 4, shared, if last == shared { 1 } else { key_width })?;
        Some(n.emit_step("exp", &[decay])?)
    } else {
        None
    };
    let beta = if corrects {
        let last = n.operand_size(5)?.last().copied().unwrap_or(0);
        Some(heads(n, 5, last, 1)?)
    } else {
        None
    };
    let shape = [batch, shared, key_width, value_width];
    let kept = if n.has_operand(3) { n.operand_dtype(3)? } else { n.operand_dtype(0)? };
    let mut state = if n.has_operand(3) {
        let past = n.operand_tensor(3)?;
        n.cast_tensor(past, Dtype::Float32)?
    } else {
        let count = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0);
        let data = LiteralNumbers::Float(vec![0.0; count]);
        n.emit_constant(
            &TensorLiteral { dtype: Dtype::Float32, shape: shape.to_vec(), data },
            "start",
        )?
    };
    let scale = if scale == 0.0 { 1.0 / (key_width as f64).sqrt() } else { scale };
    let mut told = Vec::new();
    for t in 0..rows {
        let at = OpCall::select(1, t);
        let key = n.emit_step(at.clone(), &[k])?;
        let column = n.emit_step(OpCall::unsqueeze(3), &[key])?;
        let value = n.emit_step(at.clone(), &[v])?;
        let mut row = n.emit_step(OpCall::unsqueeze(2), &[value])?;
        if let Some(decay) = decay {
            let share = n.emit_step(at.clone(), &[decay])?;
            let share = n.emit_step(OpCall::unsqueeze(3), &[share])?;
            state = n.emit_step("mul", &[state, share])?;
        }
        if let Some(beta) = beta {
            // The delta rule: the value that the state already holds for this key is subtracted
            // first.
            let line = n.emit_step(OpCall::unsqueeze(2), &[key])?;
            let had = n.emit_step("matmul", &[line, state])?;
            let new = n.emit_step("sub", &[row, had])?;
            let share = n.emit_step(at.clone(), &[beta])?;
            let share = n.emit_step(OpCall::unsqueeze(3), &[share])?;
            row = n.emit_step("mul", &[new, share])?;
        }
        let written = n.emit_step("mul", &[column, row])?;
        state = n.emit_step("add", &[state, written])?;
        let query = n.emit_step(at, &[q])?;
        let query = n.emit_step(OpCall::unsqueeze(2), &[query])?;
        let read = if own == shared {
            state
        } else {
            n.emit_step(
                OpCall::new("repeat_interleave").with("repeats", own / shared).with("dim", 1),
                &[state],
            )?
        };
        let line = n.emit_step("matmul", &[query, read])?;
        let line = n.emit_with_number("mul", line, scale)?;
        told.push(n.emit_step(OpCall::reshape([batch, 1, own * value_width]), &[line])?);
    }
    let y = match told[..] {
        [] => return Err(n.refuse_operand(0, "a sequence of no rows")),
        [one] => one,
        _ => n.emit_step(OpCall::cat(1), &told)?,
    };
    let dtype = n.operand_dtype(0)?;
    let y = n.convert_result(y, dtype)?;
    let state = n.cast_tensor(state, kept)?;
    Ok(vec![y, ModelValue::Tensor(state)])
}
