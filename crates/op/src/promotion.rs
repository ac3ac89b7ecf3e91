//! Promotion of dtypes and broadcasting of sizes, by PyTorch's rules.

use crate::dtype::{dtype_category, is_float};
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// The dtype to which operands are promoted, by categories before widths and tensors before single numbers; a reason where
/// they cannot.
pub fn promote_dtypes(operands: &[TensorType]) -> Result<Dtype, String> {
    let top = |single: bool| {
        let of = operands.iter().filter(|m| m.size.is_empty() == single);
        of.map(|m| dtype_category(m.dtype)).max()
    };
    let (tensors, singles) = (top(false), top(true));
    // A single number only counts where it is of a higher category than every tensor.
    let count_singles = tensors.is_none() || singles > tensors;
    let counted = operands.iter().filter(|m| !m.size.is_empty() || count_singles);
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
    // PyTorch has no promotion between 8-bit floats and others either: a silent conversion would lose most digits.
    let eight = |d: Dtype| d.bits() == 8 && is_float(d);
    if eight(a) || eight(b) {
        return Err(format!("{a} and {b} do not promote; convert one of them first"));
    }
    Ok(match (a, b) {
        // One has more fraction bits and the other a larger exponent, so that only float32 holds both.
        (Float16, Bfloat16) | (Bfloat16, Float16) => Float32,
        // Neither holds the other's numbers; 16 bits hold both.
        (Uint8, Int8) | (Int8, Uint8) => Int16,
        _ if a.bits() >= b.bits() => a,
        _ => b,
    })
}

/// The size to which all operands broadcast; a reason where they do not.
pub fn broadcast_sizes(operands: &[TensorType]) -> Result<Vec<i64>, String> {
    let rank = operands.iter().map(|m| m.size.len()).max().unwrap_or(0);
    let mut size = vec![1i64; rank];
    for (operand, m) in operands.iter().enumerate() {
        let lead = rank - m.size.len();
        for (d, n) in m.size.iter().enumerate() {
            let have = &mut size[lead + d];
            // An extent of 1 also takes an extent of 0, as in PyTorch.
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
