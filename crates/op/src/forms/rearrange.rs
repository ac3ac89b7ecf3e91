//! The same elements in other places: flipped, rolled, repeated.

use super::moves::{MoveRule, OperandRefusal, only_operand, resolve_axis};
use crate::error::Result;
use crate::tensor_type::TensorType;

/// Dimensions in reverse order.
#[derive(Debug, Clone)]
pub struct FlipOp {
    pub dims: Vec<i64>,
}

impl MoveRule for FlipOp {
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal> {
        let x = only_operand(inputs)?;
        distinct_dims(&self.dims, x.size.len())?;
        Ok(x.clone())
    }
}

fn distinct_dims(dims: &[i64], rank: usize) -> Result<Vec<usize>, OperandRefusal> {
    let mut seen = Vec::new();
    for dim in dims {
        let d = resolve_axis(*dim, rank)?;
        // A dimension that is named twice would be flipped back, and which of two shifts holds would depend on
        // their order.
        if seen.contains(&d) {
            return Err((None, format!("dimension {dim} is named twice")));
        }
        seen.push(d);
    }
    Ok(seen)
}

/// Elements moved up by `shifts`; those past the end continue at the beginning; without
/// dimensions, of the elements in row-major order.
#[derive(Debug, Clone)]
pub struct RollOp {
    pub shifts: Vec<i64>,
    pub dims: Option<Vec<i64>>,
}

impl MoveRule for RollOp {
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal> {
        let x = only_operand(inputs)?;
        // Without dimensions the flattened tensor is rolled, which has one.
        let dims = self.dims.as_ref().map_or(Ok(vec![0]), |d| distinct_dims(d, x.size.len()))?;
        if dims.len() != self.shifts.len() {
            let reason = format!("{} shifts for {} dimensions", self.shifts.len(), dims.len());
            return Err((None, reason));
        }
        Ok(x.clone())
    }
}

/// The tensor again and again along every dimension; new leading dimensions are of extent 1 first.
#[derive(Debug, Clone)]
pub struct RepeatOp {
    pub repeats: Vec<i64>,
}

impl MoveRule for RepeatOp {
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal> {
        let x = only_operand(inputs)?;
        let Some(lead) = self.repeats.len().checked_sub(x.size.len()) else {
            let reason = format!("{} repeats for {} dimensions", self.repeats.len(), x.size.len());
            return Err((Some(0), reason));
        };
        let times = |(d, r): (usize, &i64)| {
            let n = d.checked_sub(lead).map_or(1, |k| x.size[k]);
            n.checked_mul(*r).ok_or_else(|| (None, format!("{r} times {n} is too large")))
        };
        let size = self.repeats.iter().enumerate().map(times).collect::<Result<_, _>>()?;
        Ok(TensorType { size, dtype: x.dtype })
    }

    fn result_dim(&self, dim: usize, rank: usize) -> usize {
        self.repeats.len() - rank + dim
    }
}

/// Every element `times` along a dimension; without one, of the elements in row-major order.
#[derive(Debug, Clone)]
pub struct InterleaveOp {
    pub times: i64,
    pub dim: Option<i64>,
}

impl MoveRule for InterleaveOp {
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal> {
        let x = only_operand(inputs)?;
        let times = |n: i64| {
            n.checked_mul(self.times).ok_or_else(|| (None, format!("{} is too large", self.times)))
        };
        let mut size = x.size.clone();
        match self.dim {
            Some(dim) => {
                let d = resolve_axis(dim, size.len())?;
                size[d] = times(size[d])?;
            }
            None => size = vec![times(x.size.iter().product())?],
        }
        Ok(TensorType { size, dtype: x.dtype })
    }

    fn result_dim(&self, dim: usize, _: usize) -> usize {
        if self.dim.is_none() { 0 } else { dim }
    }
}

/// A diagonal of a matrix, or a matrix with a vector on that diagonal and zeros elsewhere.
#[derive(Debug, Clone)]
pub struct DiagOp {
    pub diagonal: i64,
}

impl MoveRule for DiagOp {
    fn infer_type(&self, inputs: &[TensorType]) -> Result<TensorType, OperandRefusal> {
        let x = only_operand(inputs)?;
        // `abs` of the smallest int64 would overflow.
        let reach = i64::try_from(self.diagonal.unsigned_abs()).unwrap_or(i64::MAX);
        let size = match x.size.as_slice() {
            [n] => match n.checked_add(reach) {
                Some(n) => vec![n, n],
                None => return Err((None, format!("diagonal {} is too far", self.diagonal))),
            },
            [r, c] => {
                let (right, down) = if self.diagonal < 0 { (0, reach) } else { (reach, 0) };
                // A diagonal outside of the matrix has no elements, which PyTorch allows.
                vec![r.saturating_sub(down).min(c.saturating_sub(right)).max(0)]
            }
            _ => {
                let reason = format!("it is for 1 or 2 dimensions, not {}", x.size.len());
                return Err((Some(0), reason));
            }
        };
        Ok(TensorType { size, dtype: x.dtype })
    }

    fn result_dim(&self, _: usize, rank: usize) -> usize {
        // A vector follows the columns of its matrix; a diagonal has one dimension.
        if rank == 1 { 1 } else { 0 }
    }
}
