//! Tensors without operands: constants, sequences, random numbers. A value is a function of the row-major index.

use crate::error::{OpError, Result, refuse_operand};
use crate::scalar::HostScalar;
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// The value of an element by its row-major index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FactoryValue {
    /// The same everywhere.
    Full(HostScalar),
    /// `start + i * step`.
    Arange { start: HostScalar, step: HostScalar },
    /// From `start` to `end` in even steps, counted from the nearer end.
    Linspace { start: f64, end: f64, steps: u64 },
    /// 1 on the diagonal of a matrix of so many columns.
    Eye { columns: u64 },
    /// Uniform in `low .. high`.
    Uniform { low: f32, high: f32, seed: u64 },
    /// Normal.
    Normal { mean: f32, std: f32, seed: u64 },
    /// A whole number of `low .. low + count`.
    Integer { low: i64, count: u64, seed: u64 },
    /// 0 with probability `p`, else 1.
    Kept { p: f32, seed: u64 },
}

impl FactoryValue {
    /// The value of an element that is not random; whole numbers are exact and wrap at 64 bits.
    pub fn scalar_at(self, i: u64) -> HostScalar {
        match self {
            FactoryValue::Full(value) => value,
            FactoryValue::Arange { start: HostScalar::Int(start), step: HostScalar::Int(step) } => {
                start.wrapping_add(step.wrapping_mul(i.cast_signed())).into()
            }
            FactoryValue::Arange { start, step } => {
                (start.to_f64() + i as f64 * step.to_f64()).into()
            }
            // One step has no distance: the division below would be by zero.
            FactoryValue::Linspace { start, steps: 0 | 1, .. } => start.into(),
            FactoryValue::Linspace { start, end, steps } => {
                let step = (end - start) / (steps - 1) as f64;
                // Counted from the nearer end, as PyTorch does: both ends are exact then, whatever the step rounds
                // to.
                let from_start = i < steps / 2;
                let back = (steps - 1).saturating_sub(i) as f64;
                (if from_start { start + step * i as f64 } else { end - step * back }).into()
            }
            FactoryValue::Eye { columns } => f64::from(i / columns == i % columns).into(),
            FactoryValue::Uniform { .. }
            | FactoryValue::Normal { .. }
            | FactoryValue::Integer { .. }
            | FactoryValue::Kept { .. } => HostScalar::Int(0),
        }
    }

    /// The smallest and the largest value of a tensor with so many elements, in some order; none where
    /// it has no elements, or where no value is large.
    pub fn value_bounds(self, count: u64) -> Option<[HostScalar; 2]> {
        // Sequences are monotonic, so that the ends bound every value.
        let last = count.checked_sub(1)?;
        Some(match self {
            FactoryValue::Integer { low, count, .. } => {
                let most = count.saturating_sub(1);
                // The largest number may be past 64 bits; then it does not fit in 32 either.
                [low.into(), low.checked_add_unsigned(most).unwrap_or(i64::MAX).into()]
            }
            FactoryValue::Full(_) | FactoryValue::Arange { .. } | FactoryValue::Linspace { .. } => {
                [self.scalar_at(0), self.scalar_at(last)]
            }
            FactoryValue::Uniform { low, high, .. } => {
                [f64::from(low).into(), f64::from(high).into()]
            }
            FactoryValue::Eye { .. } | FactoryValue::Normal { .. } | FactoryValue::Kept { .. } => {
                return None;
            }
        })
    }
}

/// An operation without operands.
#[derive(Debug, Clone)]
pub struct FactoryOp {
    pub name: &'static str,
    pub size: Vec<i64>,
    pub dtype: Dtype,
    /// Whether float32 and int64 are stored with all their bits.
    pub wide: bool,
    pub value: FactoryValue,
}

impl FactoryOp {
    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        if !inputs.is_empty() {
            return Err(refuse_operand(self.name, Some(0), "it takes no operands"));
        }
        // More elements than 64 bits count cannot be stored, and are refused by the layout.
        let count = self.size.iter().try_fold(1u64, |all, n| all.checked_mul(n.unsigned_abs()));
        // Integers of 32 bits: a number past them would become another one.
        let narrow = matches!(self.dtype, Dtype::Int32 | Dtype::Qint32)
            || (self.dtype == Dtype::Int64 && !self.wide);
        for end in self.value.value_bounds(count.unwrap_or(u64::MAX)).into_iter().flatten() {
            if narrow && i32::try_from(end.trunc()).is_err() {
                return Err(OpError::Wide { value: end.to_string() });
            }
        }
        Ok(vec![TensorType { size: self.size.clone(), dtype: self.dtype }])
    }
}
