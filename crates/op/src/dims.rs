//! Resolves the dimensions that an attribute names.

use crate::error::{OpError, Result};
use smallvec::SmallVec;

/// A list with one entry per dimension of a tensor.
pub type PerDimension<T> = SmallVec<[T; 6]>;

/// Resolves the number of a dimension; negative ones count from the end.
///
/// A tensor without dimensions accepts 0 and -1, as in PyTorch. The result is `None` then.
pub(crate) fn resolve_dim(op: &str, name: &str, dim: i64, rank: usize) -> Result<Option<usize>> {
    let end = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
    if dim < -end || dim >= end {
        let reason = format!("{dim} is no dimension; accepted are {} to {}", -end, end - 1);
        return Err(OpError::BadAttribute { op: op.into(), name: name.into(), reason });
    }
    let dim = usize::try_from(if dim < 0 { dim + end } else { dim }).unwrap_or(0);
    Ok((rank > 0).then_some(dim))
}

/// Resolves a list of dimensions and sorts it. A missing or empty list stands for all dimensions.
pub(crate) fn resolve_dims(
    op: &str,
    dims: Option<&[i64]>,
    rank: usize,
) -> Result<PerDimension<usize>> {
    let Some(dims) = dims.filter(|d| !d.is_empty()) else {
        return Ok((0..rank).collect());
    };
    let mut found: PerDimension<usize> = SmallVec::new();
    for dim in dims {
        match resolve_dim(op, "dim", *dim, rank)? {
            Some(d) if found.contains(&d) => {
                let reason = format!("dimension {d} appears twice");
                return Err(OpError::BadAttribute { op: op.into(), name: "dim".into(), reason });
            }
            found_dim => found.extend(found_dim),
        }
    }
    // Sorted, so that the order in which the caller names the dimensions cannot change a result.
    found.sort_unstable();
    Ok(found)
}
