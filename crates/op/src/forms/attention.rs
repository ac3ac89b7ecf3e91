//! Scaled dot product attention.

use crate::dtype::is_float;
use crate::error::{Result, refuse_operand};
use crate::promotion::broadcast_sizes;
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

const NAME: &str = "scaled_dot_product_attention";

/// Scaled dot product attention with its attributes.
#[derive(Debug, Clone, Copy)]
pub struct AttentionOp {
    pub causal: bool,
    /// `1 / sqrt(E)` where it is not given.
    pub scale: Option<f64>,
    /// Whether groups of heads of Q share one of K and V.
    pub grouped: bool,
}

impl AttentionOp {
    /// Heads of Q for each of K; a reason where they do not fit.
    pub fn head_group(&self, q: &[i64], k: &[i64]) -> Result<i64, String> {
        if !self.grouped {
            return Ok(1);
        }
        let head = |size: &[i64]| size.len().checked_sub(3).map(|d| size[d]);
        match (head(q), head(k)) {
            // Each head of K serves as many neighbouring heads of Q, as PyTorch repeats K for them.
            (Some(a), Some(b)) if b > 0 && a % b == 0 => Ok(a / b),
            _ => Err(format!(
                "grouped heads: dimension -3 of the query {q:?} is no multiple of that of the key {k:?}"
            )),
        }
    }

    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        if !(3..=4).contains(&inputs.len()) {
            let reason = format!("it takes 3 to 4 operands, not {}", inputs.len());
            return Err(refuse_operand(NAME, None, reason));
        }
        let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
        for (operand, t) in inputs.iter().enumerate() {
            if operand < 3 && t.size.len() < 2 {
                let reason = format!("size {:?} has no rows and columns", t.size);
                return Err(refuse_operand(NAME, Some(operand), reason));
            }
            // A bool mask says which keys take part; one of numbers is added and has the dtype of the scores.
            let mask = operand == 3 && t.dtype == Dtype::Bool;
            if !mask && (t.dtype != q.dtype || !is_float(t.dtype) || t.dtype.bits() == 8) {
                let reason = format!(
                    "its dtype is {}; all operands have one float dtype of 16 or 32 bits",
                    t.dtype
                );
                return Err(refuse_operand(NAME, Some(operand), reason));
            }
        }
        let last = |m: &TensorType, back: usize| m.size[m.size.len() - back];
        if last(q, 1) != last(k, 1) || last(k, 2) != last(v, 2) {
            let reason = format!(
                "query {:?}, key {:?} and value {:?} do not fit: [.., l, e], [.., s, e], [.., s, x]",
                q.size, k.size, v.size
            );
            return Err(refuse_operand(NAME, None, reason));
        }
        let group =
            self.head_group(&q.size, &k.size).map_err(|r| refuse_operand(NAME, Some(1), r))?;
        let outer = |m: &TensorType, times: i64| {
            let mut size = m.size[..m.size.len() - 2].to_vec();
            if let Some(heads) = size.last_mut() {
                // K and V count as if their heads were repeated, so that they broadcast with those of Q.
                *heads *= times;
            }
            TensorType { size, dtype: m.dtype }
        };
        let outers = [outer(q, 1), outer(k, group), outer(v, group)];
        let mut size = broadcast_sizes(&outers).map_err(|r| refuse_operand(NAME, None, r))?;
        let mut scores = size.clone();
        scores.extend([last(q, 2), last(k, 2)]);
        if let Some(mask) = inputs.get(3) {
            let both = [mask.clone(), TensorType { size: scores.clone(), dtype: mask.dtype }];
            // A mask may broadcast to the scores, but must not enlarge them.
            if broadcast_sizes(&both).ok().as_ref() != Some(&scores) {
                let reason = format!("size {:?} does not broadcast to {scores:?}", mask.size);
                return Err(refuse_operand(NAME, Some(3), reason));
            }
        }
        size.extend([last(q, 2), last(v, 1)]);
        Ok(vec![TensorType { size, dtype: q.dtype }])
    }
}
