//! Another dtype.

use crate::error::{Result, refuse};
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// A change of the dtype.
#[derive(Debug, Clone)]
pub struct Cast {
    pub name: &'static str,
    pub dtype: Dtype,
    /// Whether float32 and int64 are stored as they are even where no operand is.
    pub wide: bool,
}

impl Cast {
    pub(crate) fn infer(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = inputs else {
            let reason = format!("it takes 1 operand, not {}", inputs.len());
            return Err(refuse(self.name, None, reason));
        };
        zellige_stick::DataFormat::device_format_of(self.dtype)?;
        Ok(vec![TensorType { size: x.size.clone(), dtype: self.dtype }])
    }
}
