//! The rule for Attention (opset 23 and newer), with caches, masks, windows and capped scores.

use super::RuleTable;
use crate::error::Result;
use crate::literal::{LiteralNumbers, TensorLiteral};
use crate::node::NodeLowering;
use crate::tensor::dtype_of_code;
use crate::walk::ModelValue;
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, OpCall, TensorId};

pub(super) const TABLE: RuleTable = &[("Attention", lower_attention)];

/// Brings the heads of an operand into dimension 1.
fn split_heads(n: &mut NodeLowering<'_, '_>, k: usize, count: i64, part: &str) -> Result<TensorId> {
    let (x, size) = (n.operand_tensor(k)?, n.operand_size(k)?);
    match size[..] {
        [_, _, _, _] => Ok(x),
        [batch, rows, width] if count > 0 && width % count == 0 => {
            let apart = OpCall::reshape([batch, rows, count, width / count]);
            let x = n.emit_part(&format!("{part}.heads"), apart, &[GraphOperand::Tensor(x)])?;
            n.emit_part(part, OpCall::transpose(1, 2), &[GraphOperand::Tensor(x)])
        }
        _ => {
            let message = format!(
                "{size:?} with {count} heads; accepted: [batch, heads, rows, width], or [batch, rows, \
                 heads * width] with q_num_heads and kv_num_heads"
            );
            Err(n.refuse_operand(k, message))
        }
    }
}

/// The attributes of an Attention node.
struct AttentionAttributes {
    causal: bool,
    scale: Option<f64>,
    softcap: f64,
    /// Which stage of the scores is the fourth result.
    scores: i64,
    /// The dtype of the softmax.
    precision: Option<Dtype>,
    /// The number of keys before and after a query that it sees; -1 for all.
    window: [i64; 2],
}

fn lower_attention(n: &mut NodeLowering<'_, '_>) -> Result<Vec<ModelValue>> {
    n.check_arity(3, 7)?;
    let asked = AttentionAttributes {
        causal: n.flag_attribute("is_causal", false)?,
        // A missing scale means 1 / sqrt(width), which is not a constant default.
        scale: Some(n.float_attribute("scale", 0.0)?).filter(|_| n.has_attribute("scale")),
        softcap: n.float_attribute("softcap", 0.0)?,
        scores: n.int_attribute("qk_matmul_output_mode", 0)?,
        precision: match n.int_attribute("softmax_precision", 0)? {
            0 => None,
            code => Some(dtype_of_code(code).map_err(|e| {
                n.refuse_node("bad_attribute", format!("attribute `softmax_precision` is {e}"))
            })?),
        },
        window: [
            n.int_attribute("left_window_size", -1)?,
            n.int_attribute("right_window_size", -1)?,
        ],
    };
    let (own, shared) = (n.int_attribute("q_num_heads", 0)?, n.int_attribute("kv_num_heads", 0)?);
    let flat = n.operand_size(0)?.len() == 3;
    let q = split_heads(n, 0, own, "query")?;
    let mut k = split_heads(n, 1, shared, "key")?;
    let mut v = split_heads(n, 2, shared, "value")?;
    let past = match (n.has_operand(4), n.has_operand(5)) {
        (true, true) => {
            let rows = n.operand_size(4)?.get(2).copied().unwrap_or(0);
            let (before_k, before_v) = (n.operand_tensor(4)?, n.operand_tensor(5)?);
            k = n.emit_step(OpCall::cat(2), &[before_k, k])?;
            v = n.emit_step(OpCall::cat(2), &[before_v, v])?;
            rows
        }
        (false, false) => 0,
        // The specification allows a cache only as a pair, because the results `present_*` continue
        // both.
        _ => return Err(n.refuse_node("bad_operand", "past_key and past_value come together")),
    };
    let rows = n.tensor_size(k)[2];
    let short =
        n.has_operand(3) && n.operand_size(3)?.last().is_some_and(|c| *c != rows && *c != 1);
    // The card's attention has a mask or a causal rule, and nothing else of this operator.
    // Everything beyond is written out below, operation by operation.
    let plain = past == 0
        && !n.has_operand(4)
        && !n.has_operand(6)
        && asked.softcap == 0.0
        && asked.window == [-1, -1]
        && n.result_count() < 4
        && !short
        && (!asked.causal || !n.has_operand(3))
        && asked.precision.is_none_or(|p| Some(p) == n.operand_dtype(0).ok());
    let (y, scores) = if plain {
        (emit_fused(n, &asked, [q, k, v])?, None)
    } else {
        let (y, scores) = emit_decomposed(n, &asked, [q, k, v], past)?;
        (y, Some(scores))
    };
    let y = if flat {
        let size = n.tensor_size(y);
        let y = n.emit_step(OpCall::transpose(1, 2), &[y])?;
        let together = OpCall::reshape([size[0], size[2], size[1] * size[3]]);
        n.emit_result(together, &[GraphOperand::Tensor(y)])?
    } else {
        n.emit_result("identity", &[GraphOperand::Tensor(y)])?
    };
    let mut made = vec![y, ModelValue::Tensor(k), ModelValue::Tensor(v)];
    made.extend(scores.map(ModelValue::Tensor));
    Ok(made)
}

/// Emits the fused operation of the card.
fn emit_fused(
    n: &mut NodeLowering<'_, '_>,
    asked: &AttentionAttributes,
    [q, k, v]: [TensorId; 3],
) -> Result<TensorId> {
    // Fewer heads of keys than of queries are grouped-query attention, which PyTorch asks to be
    // named.
    let grouped = n.tensor_size(q)[1] != n.tensor_size(k)[1];
    let mut call = OpCall::new("scaled_dot_product_attention")
        .with("is_causal", asked.causal)
        .with("enable_gqa", grouped);
    if let Some(scale) = asked.scale {
        call = call.with("scale", scale);
    }
    let mut operands = vec![q, k, v];
    if n.has_operand(3) {
        operands.push(n.operand_tensor(3)?);
    }
    n.emit_step(call, &operands)
}

/// Emits attention operation by operation; returns the result and the requested scores.
fn emit_decomposed(
    n: &mut NodeLowering<'_, '_>,
    asked: &AttentionAttributes,
    [q, mut k, mut v]: [TensorId; 3],
    past: i64,
) -> Result<(TensorId, TensorId)> {
    let dtype = n.operand_dtype(0)?;
    let (size, key) = (n.tensor_size(q), n.tensor_size(k));
    let (queries, keys) = (size[2], key[2]);
    if size[1] != key[1] {
        if key[1] == 0 || size[1] % key[1] != 0 {
            let message = format!("{} heads of queries and {} of keys", size[1], key[1]);
            return Err(n.refuse_node("bad_operand", message));
        }
        let each =
            OpCall::new("repeat_interleave").with("repeats", size[1] / key[1]).with("dim", 1);
        k = n.emit_step(each.clone(), &[k])?;
        v = n.emit_step(each, &[v])?;
    }
    // Each factor gets the square root of the scale, so that products in 16 bits stay small.
    let scale = asked.scale.unwrap_or_else(|| 1.0 / (size[3] as f64).sqrt()).sqrt();
    let q = n.emit_with_number("mul", q, scale)?;
    let k = n.emit_with_number("mul", k, scale)?;
    let turned = n.emit_step(OpCall::transpose(2, 3), &[k])?;
    let product = n.emit_step("matmul", &[q, turned])?;
    let mut scores = product;
    if asked.softcap > 0.0 {
        let x = n.emit_with_number("div", scores, asked.softcap)?;
        let x = n.emit_step("tanh", &[x])?;
        scores = n.emit_with_number("mul", x, asked.softcap)?;
    }
    let capped = scores;
    let (bias, allowed) = score_masks(n, asked, [queries, keys], past)?;
    if let Some(bias) = bias {
        scores = n.emit_step("add", &[scores, bias])?;
    }
    // A key with a score of minus infinity has the share 0 after the softmax.
    let below = GraphOperand::Number(f64::NEG_INFINITY);
    if let Some(allowed) = allowed {
        let operands = [GraphOperand::Tensor(allowed), GraphOperand::Tensor(scores), below.clone()];
        scores = n.emit_part("masked", "where", &operands)?;
    }
    let masked = scores;
    if let Some(precision) = asked.precision.filter(|p| *p != dtype) {
        scores = n.emit_step(OpCall::cast(precision), &[scores])?;
    }
    let mut shares = n.emit_step(OpCall::new("softmax").with("dim", -1), &[scores])?;
    // A query that sees no key gets zeros; its softmax has no value.
    let mut seen = allowed;
    if let Some(bias) = bias {
        let finite = n.emit_part("seen", "gt", &[GraphOperand::Tensor(bias), below])?;
        seen = Some(match seen {
            Some(allowed) => n.emit_step("logical_and", &[allowed, finite])?,
            None => finite,
        });
    }
    if let Some(seen) = seen {
        let some = n.emit_step(OpCall::reduce_dim("any", -1, true), &[seen])?;
        let operands =
            [GraphOperand::Tensor(some), GraphOperand::Tensor(shares), GraphOperand::Number(0.0)];
        shares = n.emit_part("shares", "where", &operands)?;
    }
    if n.import.builder.tensor(shares).dtype != dtype {
        shares = n.emit_step(OpCall::cast(dtype), &[shares])?;
    }
    let y = n.emit_step("matmul", &[shares, v])?;
    let told = match asked.scores {
        0 => product,
        1 => capped,
        2 => masked,
        3 => shares,
        other => {
            let message = format!("attribute `qk_matmul_output_mode` is {other}; accepted: 0 to 3");
            return Err(n.refuse_node("bad_attribute", message));
        }
    };
    Ok((y, told))
}

/// The bias that is added to the scores, and the mask of the visible keys.
fn score_masks(
    n: &mut NodeLowering<'_, '_>,
    asked: &AttentionAttributes,
    [queries, keys]: [i64; 2],
    past: i64,
) -> Result<(Option<TensorId>, Option<TensorId>)> {
    let (mut bias, mut allowed) = (None, None);
    if n.has_operand(3) {
        let (mut mask, size, dtype) =
            (n.operand_tensor(3)?, n.operand_size(3)?, n.operand_dtype(3)?);
        // A mask may be shorter than the keys; the specification continues it with minus infinity.
        let missing = keys - size.last().copied().unwrap_or(keys);
        let truth = dtype == Dtype::Bool;
        if missing > 0 && size.last() != Some(&1) {
            // Keys beyond the end of the mask are not visible.
            let pad = OpCall::new("pad").with("pad", [0, missing]);
            let pad = match truth {
                true => pad.with("value", 0),
                false => pad.with_number("value", f64::NEG_INFINITY),
            };
            mask = n.emit_step(pad, &[mask])?;
        }
        if truth {
            allowed = Some(mask);
        } else {
            bias = Some(mask);
        }
    }
    let both =
        |n: &mut NodeLowering<'_, '_>, allowed: Option<TensorId>, more: TensorId| match allowed {
            None => Ok(more),
            Some(have) => n.emit_step("logical_and", &[have, more]),
        };
    let lengths = if n.has_operand(6) { Some(n.operand_tensor(6)?) } else { None };
    let [left, right] = asked.window;
    if asked.causal || left >= 0 || right >= 0 {
        // `ahead` is the position of the key minus that of the query, where the queries follow the
        // past keys.
        let rule = |ahead: i64| {
            (!asked.causal || ahead <= 0)
                && (left < 0 || -ahead <= left)
                && (right < 0 || ahead <= right)
        };
        let seen = match lengths {
            None => {
                let all = (0..queries).flat_map(|i| (0..keys).map(move |j| j - i - past));
                let data = LiteralNumbers::Int(all.map(|ahead| i64::from(rule(ahead))).collect());
                let shape = vec![queries, keys];
                n.emit_constant(&TensorLiteral { dtype: Dtype::Bool, shape, data }, "seen")?
            }
            Some(lengths) => {
                // The position of a key minus that of a query; the position of the first query
                // follows from the number of keys of its batch.
                let all = (0..queries).flat_map(|i| (0..keys).map(move |j| j - i + queries));
                let data = LiteralNumbers::Int(all.collect());
                let shape = vec![1, 1, queries, keys];
                let places =
                    n.emit_constant(&TensorLiteral { dtype: Dtype::Int64, shape, data }, "places")?;
                let batch = n.tensor_size(lengths).first().copied().unwrap_or(1);
                let each = n.emit_step(OpCall::reshape([batch, 1, 1, 1]), &[lengths])?;
                let ahead = n.emit_step("sub", &[places, each])?;
                let mut seen = None;
                for (bound, op, is_on) in
                    [(0, "le", asked.causal), (-left, "ge", left >= 0), (right, "le", right >= 0)]
                {
                    if is_on {
                        let more = n.emit_part(
                            "seen",
                            op,
                            &[GraphOperand::Tensor(ahead), GraphOperand::Whole(bound)],
                        )?;
                        seen = Some(both(n, seen, more)?);
                    }
                }
                seen.ok_or_else(|| n.refuse_node("bad_attribute", "no window"))?
            }
        };
        allowed = Some(both(n, allowed, seen)?);
    }
    if let Some(lengths) = lengths {
        let data = LiteralNumbers::Int((0..keys).collect());
        let shape = vec![1, 1, 1, keys];
        let places =
            n.emit_constant(&TensorLiteral { dtype: Dtype::Int64, shape, data }, "keys")?;
        let batch = n.tensor_size(lengths).first().copied().unwrap_or(1);
        let each = n.emit_step(OpCall::reshape([batch, 1, 1, 1]), &[lengths])?;
        let there = n.emit_step("lt", &[places, each])?;
        allowed = Some(both(n, allowed, there)?);
    }
    Ok((bias, allowed))
}
