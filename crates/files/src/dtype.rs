//! The names of dtypes in the containers, and the number of bytes of a tensor.

use crate::info::ByteOrder;
use zellige_float::Dtype;

/// The largest number of dimensions of a tensor, the same as in NumPy.
pub const MAX_RANK: usize = 64;

const NPY_DTYPES: &[(&str, Dtype)] = &[
    ("b1", Dtype::Bool),
    ("i1", Dtype::Int8),
    ("i2", Dtype::Int16),
    ("i4", Dtype::Int32),
    ("i8", Dtype::Int64),
    ("u1", Dtype::Uint8),
    ("u2", Dtype::Uint16),
    ("u4", Dtype::Uint32),
    ("u8", Dtype::Uint64),
    ("f2", Dtype::Float16),
    ("f4", Dtype::Float32),
    ("f8", Dtype::Float64),
    ("c8", Dtype::Complex64),
    ("c16", Dtype::Complex128),
];

const SAFETENSORS_DTYPES: &[(&str, Dtype)] = &[
    ("BOOL", Dtype::Bool),
    ("F4", Dtype::Float4E2m1fn),
    ("U8", Dtype::Uint8),
    ("I8", Dtype::Int8),
    ("F8_E5M2", Dtype::Float8E5m2),
    ("F8_E4M3", Dtype::Float8E4m3fn),
    ("F8_E5M2FNUZ", Dtype::Float8E5m2fnuz),
    ("F8_E4M3FNUZ", Dtype::Float8E4m3fnuz),
    ("I16", Dtype::Int16),
    ("U16", Dtype::Uint16),
    ("F16", Dtype::Float16),
    ("BF16", Dtype::Bfloat16),
    ("I32", Dtype::Int32),
    ("U32", Dtype::Uint32),
    ("F32", Dtype::Float32),
    ("C64", Dtype::Complex64),
    ("F64", Dtype::Float64),
    ("I64", Dtype::Int64),
    ("U64", Dtype::Uint64),
];

/// The dtype of a NumPy type string such as `<f4`, or the reason why it is refused.
pub(crate) fn from_descr(descr: &str) -> Result<(Dtype, ByteOrder), String> {
    let code = descr.get(1..).unwrap_or("");
    let order = descr.as_bytes().first().copied().unwrap_or(b' ');
    if code.starts_with('V') {
        return Err(
            "raw bytes without a meaning; NumPy writes bfloat16 and 8-bit floats of other \
             packages this way and forgets which one it was. Save them with safetensors, or as \
             x.view(np.uint16) or x.view(np.uint8)"
                .to_string(),
        );
    }
    let known = NPY_DTYPES.iter().find(|(name, _)| *name == code).map(|(_, dtype)| *dtype);
    let Some(dtype) = known else {
        return Err(format!("not a type of numbers; accepted: {}", listed_descrs()));
    };
    match order {
        // A single byte has no order; NumPy writes `|`, other writers `<` or `>`.
        _ if dtype.bits() == 8 && b"<>|".contains(&order) => Ok((dtype, ByteOrder::Little)),
        b'<' => Ok((dtype, ByteOrder::Little)),
        b'>' => Ok((dtype, ByteOrder::Big)),
        _ => Err(format!("byte order unknown; accepted: `<{code}` (little) and `>{code}` (big)")),
    }
}

/// The NumPy type string of a dtype in little-endian order.
pub(crate) fn to_descr(dtype: Dtype) -> Result<String, String> {
    let known = NPY_DTYPES.iter().find(|(_, known)| *known == dtype);
    let Some((code, _)) = known else {
        return Err(format!(
            "NumPy has no name for it; write a .safetensors file, or one of {}",
            NPY_DTYPES.iter().map(|(_, d)| d.name()).collect::<Vec<_>>().join(", ")
        ));
    };
    Ok(format!("{}{code}", if dtype.bits() == 8 { '|' } else { '<' }))
}

/// The dtype of a safetensors name such as `BF16`, or the reason why it is refused.
pub(crate) fn from_safetensors(name: &str) -> Result<Dtype, String> {
    let known = SAFETENSORS_DTYPES.iter().find(|(known, _)| *known == name);
    known.map(|(_, dtype)| *dtype).ok_or_else(|| {
        let names = SAFETENSORS_DTYPES.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", ");
        format!("not a dtype that Zellige holds; accepted: {names}")
    })
}

/// The safetensors name of a dtype.
pub(crate) fn to_safetensors(dtype: Dtype) -> Result<&'static str, String> {
    let known = SAFETENSORS_DTYPES.iter().find(|(_, known)| *known == dtype);
    known.map(|(name, _)| *name).ok_or_else(|| {
        let names = SAFETENSORS_DTYPES.iter().map(|(_, d)| d.name()).collect::<Vec<_>>().join(", ");
        format!("safetensors has no name for it; accepted: {names}")
    })
}

/// The number of bytes of a tensor, or what is wrong with its shape.
///
/// The product of the nonzero extents must fit even if another extent is 0, because strides and
/// other products of some extents would overflow later.
pub(crate) fn bytes_of_shape(dtype: Dtype, shape: &[i64]) -> Result<u64, String> {
    if shape.len() > MAX_RANK {
        return Err(format!("{} dimensions; at most {MAX_RANK} are accepted", shape.len()));
    }
    if let Some(dim) = shape.iter().position(|&n| n < 0) {
        return Err(format!("dimension {dim} is {}; extents are 0 or more", shape[dim]));
    }
    let mut bits = i128::from(dtype.bits());
    for &extent in shape {
        let product = bits.checked_mul(i128::from(extent.max(1)));
        // Offsets of files are signed 64-bit numbers in the system's calls, so more bytes cannot be
        // addressed.
        let fits = product.filter(|bits| bits / 8 <= i128::from(i64::MAX));
        bits = fits.ok_or_else(|| format!("{shape:?} of {dtype} takes 2^63 bytes or more"))?;
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    if bits % 8 != 0 {
        return Err(format!("{shape:?} of {dtype} takes {bits} bits, not a number of whole bytes"));
    }
    u64::try_from(bits / 8).map_err(|_| "more than 2^63 bytes".to_string())
}

fn listed_descrs() -> String {
    let both = |code: &str, dtype: Dtype| {
        if dtype.bits() == 8 { format!("|{code}") } else { format!("<{code}") }
    };
    let names = NPY_DTYPES.iter().map(|(code, dtype)| both(code, *dtype)).collect::<Vec<_>>();
    format!("{}, and the same with > for big-endian", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (_, dtype) in NPY_DTYPES {
            let descr = to_descr(*dtype).unwrap();
            assert_eq!(from_descr(&descr), Ok((*dtype, ByteOrder::Little)));
        }
        for (name, dtype) in SAFETENSORS_DTYPES {
            assert_eq!(from_safetensors(name), Ok(*dtype));
            assert_eq!(to_safetensors(*dtype), Ok(*name));
        }
        assert_eq!(from_descr(">i4"), Ok((Dtype::Int32, ByteOrder::Big)));
    }

    #[test]
    fn ambiguous_and_foreign_names_are_refused() {
        assert!(from_descr("<V2").unwrap_err().contains("bfloat16"));
        for bad in ["", "f4", "=f4", "|f4", "<f", "<f3", "<M8[ns]", "|S3", "<U5", "|O", "<é4", "é"]
        {
            assert!(from_descr(bad).is_err(), "{bad}");
        }
        assert!(to_descr(Dtype::Bfloat16).unwrap_err().contains("safetensors"));
    }

    #[test]
    fn sizes_are_exact_or_refused() {
        assert_eq!(bytes_of_shape(Dtype::Float32, &[]), Ok(4));
        assert_eq!(bytes_of_shape(Dtype::Float32, &[3, 0]), Ok(0));
        assert_eq!(bytes_of_shape(Dtype::Float4E2m1fn, &[3, 2]), Ok(3));
        assert!(bytes_of_shape(Dtype::Float4E2m1fn, &[3]).is_err());
        assert_eq!(bytes_of_shape(Dtype::Int8, &[i64::MAX]), Ok(i64::MAX as u64));
        assert!(bytes_of_shape(Dtype::Int16, &[i64::MAX]).is_err());
        assert!(bytes_of_shape(Dtype::Int8, &[0, i64::MAX, 2]).is_err());
        assert!(bytes_of_shape(Dtype::Int8, &[i64::MAX; 64]).is_err());
        assert!(bytes_of_shape(Dtype::Int8, &[-1]).is_err());
        assert!(bytes_of_shape(Dtype::Int8, &[1; 65]).is_err());
    }
}
