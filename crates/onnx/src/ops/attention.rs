//! Attention as one operation, from opset 23 on: with caches, masks, windows and capped scores.

use super::Table;
use crate::error::Result;
use crate::literal::{Literal, Numbers};
use crate::node::Node;
use crate::tensor::dtype_of;
use crate::walk::Value;
use serde_json::{Map, Value as Json, json};
use zellige_float::Dtype;
use zellige_graph::{GraphOperand, TensorId};

pub(super) const TABLE: Table = &[("Attention", attention)];

/// An operand with its heads in dimension 1.
fn heads(n: &mut Node<'_, '_>, k: usize, count: i64, part: &str) -> Result<TensorId> {
    let (x, size) = (n.tensor(k)?, n.size(k)?);
    match size[..] {
        [_, _, _, _] => Ok(x),
        [batch, rows, width] if count > 0 && width % count == 0 => {
            let apart = json!({"size": [batch, rows, count, width / count]});
            let x =
                n.part(&format!("{part}.heads"), "reshape", &[GraphOperand::Tensor(x)], apart)?;
            n.part(part, "transpose", &[GraphOperand::Tensor(x)], json!({"dim0": 1, "dim1": 2}))
        }
        _ => {
            let message = format!(
                "{size:?} with {count} heads; accepted: [batch, heads, rows, width], or [batch, rows, \
                 heads * width] with q_num_heads and kv_num_heads"
            );
            Err(n.bad_operand(k, message))
        }
    }
}

/// The attributes of a node.
struct Asked {
    causal: bool,
    scale: Option<f64>,
    softcap: f64,
    /// Which of the scores the fourth result has.
    scores: i64,
    /// The dtype of the softmax.
    precision: Option<Dtype>,
    /// Keys before and after a query that it sees; -1 for all.
    window: [i64; 2],
}

fn attention(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 7)?;
    let asked = Asked {
        causal: n.flag("is_causal", false)?,
        scale: Some(n.float("scale", 0.0)?).filter(|_| n.is_given("scale")),
        softcap: n.float("softcap", 0.0)?,
        scores: n.int("qk_matmul_output_mode", 0)?,
        precision: match n.int("softmax_precision", 0)? {
            0 => None,
            code => Some(dtype_of(code).map_err(|e| {
                n.bad("bad_attribute", format!("attribute `softmax_precision` is {e}"))
            })?),
        },
        window: [n.int("left_window_size", -1)?, n.int("right_window_size", -1)?],
    };
    let (own, shared) = (n.int("q_num_heads", 0)?, n.int("kv_num_heads", 0)?);
    let flat = n.size(0)?.len() == 3;
    let q = heads(n, 0, own, "query")?;
    let mut k = heads(n, 1, shared, "key")?;
    let mut v = heads(n, 2, shared, "value")?;
    let past = match (n.has(4), n.has(5)) {
        (true, true) => {
            let rows = n.size(4)?.get(2).copied().unwrap_or(0);
            let (before_k, before_v) = (n.tensor(4)?, n.tensor(5)?);
            k = n.step("cat", &[before_k, k], json!({"dim": 2}))?;
            v = n.step("cat", &[before_v, v], json!({"dim": 2}))?;
            rows
        }
        (false, false) => 0,
        _ => return Err(n.bad("bad_operand", "past_key and past_value come together")),
    };
    let rows = n.size_of(k)[2];
    let short = n.has(3) && n.size(3)?.last().is_some_and(|c| *c != rows && *c != 1);
    let plain = past == 0
        && !n.has(4)
        && !n.has(6)
        && asked.softcap == 0.0
        && asked.window == [-1, -1]
        && n.outputs() < 4
        && !short
        && (!asked.causal || !n.has(3))
        && asked.precision.is_none_or(|p| Some(p) == n.dtype(0).ok());
    let (y, scores) = if plain {
        (fused(n, &asked, [q, k, v])?, None)
    } else {
        let (y, scores) = written_out(n, &asked, [q, k, v], past)?;
        (y, Some(scores))
    };
    let y = if flat {
        let size = n.size_of(y);
        let y = n.step("transpose", &[y], json!({"dim0": 1, "dim1": 2}))?;
        let together = json!({"size": [size[0], size[2], size[1] * size[3]]});
        n.emit("reshape", &[GraphOperand::Tensor(y)], together)?
    } else {
        n.emit("identity", &[GraphOperand::Tensor(y)], Json::Null)?
    };
    let mut made = vec![y, Value::Tensor(k), Value::Tensor(v)];
    made.extend(scores.map(Value::Tensor));
    Ok(made)
}

/// The operation of the card.
fn fused(n: &mut Node<'_, '_>, asked: &Asked, [q, k, v]: [TensorId; 3]) -> Result<TensorId> {
    let mut attributes = Map::new();
    attributes.insert("is_causal".into(), json!(asked.causal));
    attributes.insert("enable_gqa".into(), json!(n.size_of(q)[1] != n.size_of(k)[1]));
    if let Some(scale) = asked.scale {
        attributes.insert("scale".into(), json!(scale));
    }
    let mut operands = vec![q, k, v];
    if n.has(3) {
        operands.push(n.tensor(3)?);
    }
    n.step("scaled_dot_product_attention", &operands, Json::Object(attributes))
}

/// The same operation by operation, and the scores that were asked for.
fn written_out(
    n: &mut Node<'_, '_>,
    asked: &Asked,
    [q, mut k, mut v]: [TensorId; 3],
    past: i64,
) -> Result<(TensorId, TensorId)> {
    let dtype = n.dtype(0)?;
    let (size, key) = (n.size_of(q), n.size_of(k));
    let (queries, keys) = (size[2], key[2]);
    if size[1] != key[1] {
        if key[1] == 0 || size[1] % key[1] != 0 {
            let message = format!("{} heads of queries and {} of keys", size[1], key[1]);
            return Err(n.bad("bad_operand", message));
        }
        let each = json!({"repeats": size[1] / key[1], "dim": 1});
        k = n.step("repeat_interleave", &[k], each.clone())?;
        v = n.step("repeat_interleave", &[v], each)?;
    }
    // The root of the scale for either factor, so that products of 16 bits stay small.
    let scale = asked.scale.unwrap_or_else(|| 1.0 / (size[3] as f64).sqrt()).sqrt();
    let q = n.with("mul", q, scale)?;
    let k = n.with("mul", k, scale)?;
    let turned = n.step("transpose", &[k], json!({"dim0": 2, "dim1": 3}))?;
    let product = n.step("matmul", &[q, turned], Json::Null)?;
    let mut scores = product;
    if asked.softcap > 0.0 {
        let x = n.with("div", scores, asked.softcap)?;
        let x = n.step("tanh", &[x], Json::Null)?;
        scores = n.with("mul", x, asked.softcap)?;
    }
    let capped = scores;
    let (bias, allowed) = masks(n, asked, [queries, keys], past)?;
    if let Some(bias) = bias {
        scores = n.step("add", &[scores, bias], Json::Null)?;
    }
    let below = GraphOperand::Number(f64::NEG_INFINITY);
    if let Some(allowed) = allowed {
        let operands = [GraphOperand::Tensor(allowed), GraphOperand::Tensor(scores), below.clone()];
        scores = n.part("masked", "where", &operands, Json::Null)?;
    }
    let masked = scores;
    if let Some(precision) = asked.precision.filter(|p| *p != dtype) {
        scores = n.step("cast", &[scores], json!({"dtype": precision.name()}))?;
    }
    let mut shares = n.step("softmax", &[scores], json!({"dim": -1}))?;
    // A query that sees no key has zeros, and not what a sum of nothing would give.
    let mut seen = allowed;
    if let Some(bias) = bias {
        let finite = n.part("seen", "gt", &[GraphOperand::Tensor(bias), below], Json::Null)?;
        seen = Some(match seen {
            Some(allowed) => n.step("logical_and", &[allowed, finite], Json::Null)?,
            None => finite,
        });
    }
    if let Some(seen) = seen {
        let some = n.step("any", &[seen], json!({"dim": -1, "keepdim": true}))?;
        let operands =
            [GraphOperand::Tensor(some), GraphOperand::Tensor(shares), GraphOperand::Number(0.0)];
        shares = n.part("shares", "where", &operands, Json::Null)?;
    }
    if n.import.builder.tensor(shares).dtype != dtype {
        shares = n.step("cast", &[shares], json!({"dtype": dtype.name()}))?;
    }
    let y = n.step("matmul", &[shares, v], Json::Null)?;
    let told = match asked.scores {
        0 => product,
        1 => capped,
        2 => masked,
        3 => shares,
        other => {
            let message = format!("attribute `qk_matmul_output_mode` is {other}; accepted: 0 to 3");
            return Err(n.bad("bad_attribute", message));
        }
    };
    Ok((y, told))
}

/// What is added to the scores, and which of them count.
fn masks(
    n: &mut Node<'_, '_>,
    asked: &Asked,
    [queries, keys]: [i64; 2],
    past: i64,
) -> Result<(Option<TensorId>, Option<TensorId>)> {
    let (mut bias, mut allowed) = (None, None);
    if n.has(3) {
        let (mut mask, size, dtype) = (n.tensor(3)?, n.size(3)?, n.dtype(3)?);
        let missing = keys - size.last().copied().unwrap_or(keys);
        let truth = dtype == Dtype::Bool;
        if missing > 0 && size.last() != Some(&1) {
            // Keys that the mask does not reach are not seen.
            let value = if truth { json!(0) } else { json!("-inf") };
            mask = n.step("pad", &[mask], json!({"pad": [0, missing], "value": value}))?;
        }
        if truth {
            allowed = Some(mask);
        } else {
            bias = Some(mask);
        }
    }
    let both = |n: &mut Node<'_, '_>, allowed: Option<TensorId>, more: TensorId| match allowed {
        None => Ok(more),
        Some(have) => n.step("logical_and", &[have, more], Json::Null),
    };
    let lengths = if n.has(6) { Some(n.tensor(6)?) } else { None };
    let [left, right] = asked.window;
    if asked.causal || left >= 0 || right >= 0 {
        let rule = |ahead: i64| {
            (!asked.causal || ahead <= 0)
                && (left < 0 || -ahead <= left)
                && (right < 0 || ahead <= right)
        };
        let seen = match lengths {
            None => {
                let all = (0..queries).flat_map(|i| (0..keys).map(move |j| j - i - past));
                let data = Numbers::Int(all.map(|ahead| i64::from(rule(ahead))).collect());
                let shape = vec![queries, keys];
                n.constant(&Literal { dtype: Dtype::Bool, shape, data }, "seen")?
            }
            Some(lengths) => {
                // How far a key is ahead of a query, whose place follows from the keys of its batch.
                let all = (0..queries).flat_map(|i| (0..keys).map(move |j| j - i + queries));
                let data = Numbers::Int(all.collect());
                let shape = vec![1, 1, queries, keys];
                let places = n.constant(&Literal { dtype: Dtype::Int64, shape, data }, "places")?;
                let batch = n.size_of(lengths).first().copied().unwrap_or(1);
                let each = n.step("reshape", &[lengths], json!({"size": [batch, 1, 1, 1]}))?;
                let ahead = n.step("sub", &[places, each], Json::Null)?;
                let mut seen = None;
                for (bound, op, is_on) in
                    [(0, "le", asked.causal), (-left, "ge", left >= 0), (right, "le", right >= 0)]
                {
                    if is_on {
                        let more = n.part(
                            "seen",
                            op,
                            &[GraphOperand::Tensor(ahead), GraphOperand::Whole(bound)],
                            Json::Null,
                        )?;
                        seen = Some(both(n, seen, more)?);
                    }
                }
                seen.ok_or_else(|| n.bad("bad_attribute", "no window"))?
            }
        };
        allowed = Some(both(n, allowed, seen)?);
    }
    if let Some(lengths) = lengths {
        let data = Numbers::Int((0..keys).collect());
        let shape = vec![1, 1, 1, keys];
        let places = n.constant(&Literal { dtype: Dtype::Int64, shape, data }, "keys")?;
        let batch = n.size_of(lengths).first().copied().unwrap_or(1);
        let each = n.step("reshape", &[lengths], json!({"size": [batch, 1, 1, 1]}))?;
        let there = n.step("lt", &[places, each], Json::Null)?;
        allowed = Some(both(n, allowed, there)?);
    }
    Ok((bias, allowed))
}
