//! What is stored for a PyTorch dtype.

use crate::error::{DeviceError, Result};
use crate::mode::Mode;
use zellige_float::Format;
use zellige_layout::{DataFormat, Dtype, StickLayout};

impl Mode {
    /// The format of stored elements of a tensor: in the mode `ieee` float16 and bfloat16 keep their bits.
    ///
    /// # Errors
    /// Formats that are packed or never stored.
    pub fn stored(self, format: DataFormat, dtype: Dtype) -> Result<Format> {
        Ok(match (format, self) {
            (DataFormat::SEN169_FP16, Mode::Dl16) => Format::DL16,
            (DataFormat::SEN169_FP16, Mode::Ieee) if dtype == Dtype::Bfloat16 => Format::BF16,
            (DataFormat::SEN169_FP16, Mode::Ieee) => Format::F16,
            (DataFormat::IEEE_FP32, _) => Format::F32,
            (DataFormat::SEN143_FP8, _) => Format::F8E4M3FN,
            (DataFormat::SEN152_FP8, _) if dtype == Dtype::Float8E5m2fnuz => Format::F8E5M2FNUZ,
            (DataFormat::SEN152_FP8, _) => Format::F8E5M2,
            (DataFormat::SENINT8, _) => Format::I8,
            (DataFormat::SENINT16, _) => Format::I16,
            (DataFormat::IEEE_INT32, _) => Format::I32,
            (DataFormat::IEEE_INT64, _) => Format::I64,
            (DataFormat::SENUINT32, _) => Format::U32,
            (DataFormat::BFLOAT16, _) => Format::BF16,
            (DataFormat::BOOL, _) => Format::Bool,
            _ => return Err(DeviceError::Unstored { format, dtype }),
        })
    }
}

/// The format of a dtype in host memory.
///
/// # Errors
/// Dtypes that fill no whole byte, and complex ones.
pub fn host_format(dtype: Dtype) -> Result<Format> {
    Ok(match dtype {
        Dtype::Float64 => Format::F64,
        Dtype::Float32 => Format::F32,
        Dtype::Float16 => Format::F16,
        Dtype::Bfloat16 => Format::BF16,
        Dtype::Float8E4m3fn => Format::F8E4M3FN,
        Dtype::Float8E5m2 => Format::F8E5M2,
        Dtype::Float8E5m2fnuz => Format::F8E5M2FNUZ,
        Dtype::Int64 => Format::I64,
        Dtype::Int32 => Format::I32,
        Dtype::Int16 => Format::I16,
        Dtype::Int8 | Dtype::Qint8 => Format::I8,
        Dtype::Uint8 | Dtype::Quint8 => Format::U8,
        Dtype::Uint32 => Format::U32,
        Dtype::Bool => Format::Bool,
        _ => return Err(DeviceError::HostDtype { dtype }),
    })
}

/// The default device layout of a tensor: float32 is down-cast to 16 bits unless `keep_fp32`.
///
/// # Errors
/// Dtypes that the device does not store.
pub fn default_layout(
    size: &[i64],
    stride: Option<&[i64]>,
    dtype: Dtype,
    keep_fp32: bool,
) -> Result<StickLayout> {
    let format = match dtype {
        Dtype::Float32 if !keep_fp32 => DataFormat::SEN169_FP16,
        other => other.device_format()?,
    };
    Ok(StickLayout::default_in(size, stride, format)?)
}
