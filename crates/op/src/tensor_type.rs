//! The type of a tensor: its extents and its dtype.

use zellige_float::Dtype;

/// Extents and dtype of a tensor, before it has a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorType {
    /// Extents.
    pub size: Vec<i64>,
    /// The dtype that PyTorch sees.
    pub dtype: Dtype,
}
