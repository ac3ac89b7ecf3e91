//! The type of a tensor: its extents and its dtype.

use zellige_float::Dtype;

/// The extents and the dtype of a tensor, without a layout or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorType {
    /// The extents of the dimensions, outermost first.
    pub size: Vec<i64>,
    /// The dtype as PyTorch reports it.
    pub dtype: Dtype,
}
