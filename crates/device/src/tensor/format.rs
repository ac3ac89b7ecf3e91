//! What is stored for a PyTorch dtype.

use crate::card::mode::FloatMode;
use crate::error::{DeviceError, Result};
use crate::tensor::kept::KeptDtypes;
use zellige_float::Dtype;
use zellige_float::Format;
use zellige_op::OpError;
use zellige_stick::{DataFormat, StickLayout};

impl FloatMode {
    /// The format of stored elements of a tensor: in the mode `ieee` float16 and bfloat16 keep their bits.
    ///
    /// # Errors
    /// Formats that are packed or never stored.
    pub fn stored_format(self, format: DataFormat, dtype: Dtype) -> Result<Format> {
        let stored = match (format, self) {
            (DataFormat::SEN169_FP16, FloatMode::Ieee) if dtype == Dtype::Bfloat16 => {
                Some(Format::BF16)
            }
            (DataFormat::SEN169_FP16, FloatMode::Ieee) => Some(Format::F16),
            // What is past its numbers saturates, and comes back as an infinity.
            (DataFormat::SEN169_FP16, FloatMode::Dl16) => Some(Format::DL16INF),
            (DataFormat::SEN152_FP8, _) if dtype == Dtype::Float8E5m2fnuz => {
                Some(Format::F8E5M2FNUZ)
            }
            (other, _) => other.element_number_format(),
        };
        stored.ok_or(DeviceError::Unstored { format, dtype })
    }
}

/// The format of a dtype in host memory.
///
/// # Errors
/// Dtypes that fill no whole byte, and complex ones.
pub fn host_format(dtype: Dtype) -> Result<Format> {
    dtype.number_format().ok_or_else(|| OpError::HostDtype { dtype }.into())
}

/// The default device layout of a tensor: float32 and int64 are down-cast unless they are kept.
///
/// # Errors
/// Dtypes that the device does not store.
pub fn default_layout(
    size: &[i64],
    stride: Option<&[i64]>,
    dtype: Dtype,
    keep: KeptDtypes,
) -> Result<StickLayout> {
    Ok(StickLayout::default_in_format(size, stride, keep.default_format(dtype)?)?)
}
