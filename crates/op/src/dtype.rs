//! Categories of dtypes, and which ones host tensors have.

use crate::error::{OpError, Result};
use zellige_float::Dtype;

/// Whether values of the dtype have a fraction.
pub fn is_float(dtype: Dtype) -> bool {
    use Dtype::{Bfloat16, Float8E4m3fn, Float8E5m2, Float8E5m2fnuz, Float16, Float32, Float64};
    matches!(
        dtype,
        Float64 | Float32 | Float16 | Bfloat16 | Float8E4m3fn | Float8E5m2 | Float8E5m2fnuz
    )
}

/// 0 for bool, 1 for integers, 2 for floats.
pub fn dtype_category(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Bool => 0,
        d if is_float(d) => 2,
        _ => 1,
    }
}

/// Refuses a dtype whose elements no host tensor of a graph has.
///
/// # Errors
/// Dtypes that fill no whole byte, and complex ones.
pub fn check_host_dtype(dtype: Dtype) -> Result<()> {
    use Dtype::{Bool, Int8, Int16, Int32, Int64, Qint8, Qint32, Quint8, Uint8, Uint32};
    let whole = matches!(
        dtype,
        Bool | Int8 | Int16 | Int32 | Int64 | Qint8 | Qint32 | Quint8 | Uint8 | Uint32
    );
    // What is left are packed and complex dtypes.
    if whole || is_float(dtype) { Ok(()) } else { Err(OpError::HostDtype { dtype }) }
}
