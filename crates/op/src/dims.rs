//! The dimensions that an operation works along.

use crate::error::{OpError, Result};
use smallvec::SmallVec;

/// Per dimension of a tensor.
pub type PerDimension<T> = SmallVec<[T; 6]>;

/// One dimension from its number, negative ones from the end. A tensor without dimensions is taken
/// as one with a single element: 0 and -1 name it, and none is the answer.
pub(crate) fn resolve_dim(op: &str, name: &str, dim: i64, rank: usize) -> Result<Option<usize>> {
    // A tensor without dimensions takes 0 and -1, as in PyTorch.
    let most = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
    if dim < -most || dim >= most {
        let reason = format!("{dim} is no dimension; accepted are {} to {}", -most, most - 1);
        return Err(OpError::BadAttribute { op: op.into(), name: name.into(), reason });
    }
    let dim = usize::try_from(if dim < 0 { dim + most } else { dim }).unwrap_or(0);
    Ok((rank > 0).then_some(dim))
}

/// A set of dimensions in increasing order; none or an empty list is all of them.
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
    // In increasing order, so that the order in which dimensions are named cannot change a result.
    found.sort_unstable();
    Ok(found)
}
