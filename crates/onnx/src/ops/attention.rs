//! Attention as one operation, from opset 23 on.

use super::Table;
use crate::error::Result;
use crate::import::Value;
use crate::node::Node;
use serde_json::{Map, Value as Json, json};
use zellige_graph::{Operand, TensorId};

pub(super) const TABLE: Table = &[("Attention", attention)];

/// An operand with its heads in dimension 1.
fn heads(n: &mut Node<'_, '_>, k: usize, count: i64, part: &str) -> Result<TensorId> {
    let (x, size) = (n.tensor(k)?, n.size(k)?);
    match size[..] {
        [_, _, _, _] => Ok(x),
        [batch, rows, width] if count > 0 && width % count == 0 => {
            let apart = json!({"size": [batch, rows, count, width / count]});
            let x = n.part(&format!("{part}.heads"), "reshape", &[Operand::Tensor(x)], apart)?;
            n.part(part, "transpose", &[Operand::Tensor(x)], json!({"dim0": 1, "dim1": 2}))
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

fn attention(n: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    n.arity(3, 7)?;
    if let Some(k) = (4..7).find(|k| n.has(*k)) {
        return Err(
            n.bad_operand(k, "keys and values of the past; export the model without a cache")
        );
    }
    n.int("softmax_precision", 0)?;
    n.int("qk_matmul_output_mode", 0)?;
    if n.float("softcap", 0.0)? != 0.0 {
        return Err(n.bad("bad_attribute", "attribute `softcap` is not 0; accepted: 0"));
    }
    let (own, shared) = (n.int("q_num_heads", 0)?, n.int("kv_num_heads", 0)?);
    let flat = n.size(0)?.len() == 3;
    let q = heads(n, 0, own, "query")?;
    let k = heads(n, 1, shared, "key")?;
    let v = heads(n, 2, shared, "value")?;
    let mut attributes = Map::new();
    attributes.insert("is_causal".into(), json!(n.flag("is_causal", false)?));
    attributes.insert("enable_gqa".into(), json!(n.size_of(q)[1] != n.size_of(k)[1]));
    if n.is_given("scale") {
        let scale = n.float("scale", 0.0)?;
        attributes.insert("scale".into(), json!(scale));
    }
    let mut operands = vec![Operand::Tensor(q), Operand::Tensor(k), Operand::Tensor(v)];
    if n.has(3) {
        operands.push(Operand::Tensor(n.tensor(3)?));
    }
    let op = "scaled_dot_product_attention";
    if !flat {
        return Ok(vec![n.emit(op, &operands, Json::Object(attributes))?]);
    }
    let y = n.part("heads", op, &operands, Json::Object(attributes))?;
    let size = n.size_of(y);
    let y = n.part("rows", "transpose", &[Operand::Tensor(y)], json!({"dim0": 1, "dim1": 2}))?;
    let together = json!({"size": [size[0], size[2], size[1] * size[3]]});
    Ok(vec![n.emit("reshape", &[Operand::Tensor(y)], together)?])
}
