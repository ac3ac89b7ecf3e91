//! Operands of which elements are kept or changed by their coordinates: triangles, dropout, Bernoulli numbers.

use crate::dtype::is_float;
use crate::error::{Result, refuse_operand};
use crate::tensor_type::TensorType;

/// What an element becomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaskRule {
    /// Itself where `column - row <= diagonal`, else 0.
    Lower { diagonal: i64 },
    /// Itself where `column - row >= diagonal`, else 0.
    Upper { diagonal: i64 },
    /// 0 with probability `p`, else itself times `1 / (1 - p)`.
    Dropout { p: f32, seed: u64 },
    /// 1 with itself as the probability, else 0.
    Bernoulli { seed: u64 },
}

impl MaskRule {
    pub fn is_random(self) -> bool {
        matches!(self, MaskRule::Dropout { .. } | MaskRule::Bernoulli { .. })
    }
}

/// An operation whose result depends on the element and on its coordinates.
#[derive(Debug, Clone)]
pub struct MaskedOp {
    pub name: &'static str,
    pub rule: MaskRule,
}

impl MaskedOp {
    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let refuse = |operand, reason: String| Err(refuse_operand(self.name, operand, reason));
        let [x] = inputs else {
            return refuse(None, format!("it takes 1 operand, not {}", inputs.len()));
        };
        // Both rules multiply by or compare with a fraction.
        if self.rule.is_random() && !is_float(x.dtype) {
            return refuse(Some(0), format!("it is for floating-point numbers, not {}", x.dtype));
        }
        // A triangle needs rows and columns; further dimensions are batches of matrices.
        if !self.rule.is_random() && x.size.len() < 2 {
            return refuse(
                Some(0),
                format!("it is for 2 dimensions or more, not {}", x.size.len()),
            );
        }
        Ok(vec![x.clone()])
    }
}
