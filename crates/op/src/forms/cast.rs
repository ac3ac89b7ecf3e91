//! Another dtype.

use crate::error::{Result, refuse_operand};
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// A change of the dtype.
#[derive(Debug, Clone)]
pub struct CastOp {
    pub name: &'static str,
    pub dtype: Dtype,
    /// Whether float32 and int64 are stored with all their bits even where no operand is.
    pub wide: bool,
}

impl CastOp {
    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = inputs else {
            let reason = format!("it takes 1 operand, not {}", inputs.len());
            return Err(refuse_operand(self.name, None, reason));
        };
        zellige_stick::DataFormat::device_format_of(self.dtype)?;
        Ok(vec![TensorType { size: x.size.clone(), dtype: self.dtype }])
    }
}
