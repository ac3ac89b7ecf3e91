//! Promotion of dtypes and broadcasting of sizes, by PyTorch's rules.

use crate::dtype::{dtype_category, is_float};
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// The dtype to which the operands are promoted, or the reason why they cannot be.
///
/// The highest category (bool, integer, float) decides first, and within it the width. Operands without dimensions only
/// count if their category is higher than that of every other operand.
pub fn promote_dtypes(operands: &[TensorType]) -> Result<Dtype, String> {
    let highest = |scalar: bool| {
        let of = operands.iter().filter(|m| m.size.is_empty() == scalar);
        of.map(|m| dtype_category(m.dtype)).max()
    };
    let (tensors, scalars) = (highest(false), highest(true));
    let count_scalars = tensors.is_none() || scalars > tensors;
    let counted = operands.iter().filter(|m| !m.size.is_empty() || count_scalars);
    let mut result: Option<Dtype> = None;
    for m in counted {
        result = Some(match result {
            None => m.dtype,
            Some(have) => promote_pair(have, m.dtype)?,
        });
    }
    result.ok_or_else(|| "it has no operands".into())
}

fn promote_pair(a: Dtype, b: Dtype) -> Result<Dtype, String> {
    if a == b {
        return Ok(a);
    }
    match dtype_category(a).cmp(&dtype_category(b)) {
        std::cmp::Ordering::Less => return Ok(b),
        std::cmp::Ordering::Greater => return Ok(a),
        std::cmp::Ordering::Equal => {}
    }
    use Dtype::{Bfloat16, Float16, Float32, Int8, Int16, Uint8};
    // As in PyTorch, 8-bit floats are not promoted to other floats: a silent conversion would lose most digits.
    let is_float8 = |d: Dtype| d.bits() == 8 && is_float(d);
    if is_float8(a) || is_float8(b) {
        return Err(format!("{a} and {b} do not promote; convert one of them first"));
    }
    Ok(match (a, b) {
        // Float16 has more fraction bits, bfloat16 more exponent bits. Float32 is the narrowest dtype that has both.
        (Float16, Bfloat16) | (Bfloat16, Float16) => Float32,
        // Neither can represent all numbers of the other. Int16 represents those of both.
        (Uint8, Int8) | (Int8, Uint8) => Int16,
        _ if a.bits() >= b.bits() => a,
        _ => b,
    })
}

/// The size to which all operands broadcast, or the reason why they do not.
pub fn broadcast_sizes(operands: &[TensorType]) -> Result<Vec<i64>, String> {
    let rank = operands.iter().map(|m| m.size.len()).max().unwrap_or(0);
    let mut size = vec![1i64; rank];
    for (operand, m) in operands.iter().enumerate() {
        let lead = rank - m.size.len();
        for (d, n) in m.size.iter().enumerate() {
            let have = &mut size[lead + d];
            // As in PyTorch, an extent of 1 broadcasts to an extent of 0 too.
            if *have == 1 {
                *have = *n;
            } else if *n != 1 && *n != *have {
                return Err(format!(
                    "operand {operand} of size {:?} does not broadcast: dimension {d} has {n}, \
                     and other operands have {have} there",
                    m.size
                ));
            }
        }
    }
    Ok(size)
}
