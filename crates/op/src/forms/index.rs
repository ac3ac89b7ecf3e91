//! Elements looked up by index, and written by index.
//!
//! One form covers `embedding`, `index_select`, `gather`, `index`, and the writes `scatter`,
//! `index_add`, `index_put`: there is a box of iterations, a *plain* tensor that has an element for
//! every iteration (the result of a read, the values of a write), and an *indexed* tensor of which
//! every dimension is either an iteration dimension or looked up in an index tensor.

use crate::error::{OpError, Result, refuse_operand};
use crate::promotion::broadcast_sizes;
use crate::tensor_type::TensorType;
use zellige_float::Dtype;

/// Where the coordinate of the indexed tensor comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexSource {
    /// An iteration dimension.
    Dim(usize),
    /// The index tensor of this number.
    Index(usize),
}

/// Which operation it is: how iterations, index tensors and the indexed tensor belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexPattern {
    /// Rows of a table: the index's dimensions, then those of a row.
    Embedding,
    /// A list of positions along one dimension.
    Select(i64),
    /// One position along one dimension for every iteration.
    Gather(i64),
    /// Index tensors for leading dimensions, broadcast together; negative positions count from the end.
    Advanced,
}

/// A pattern resolved for operands.
#[derive(Debug, Clone)]
pub struct IndexShape {
    /// Extents of the iterations.
    pub size: Vec<i64>,
    /// Per dimension of the indexed tensor.
    pub from: Vec<IndexSource>,
    /// Per index tensor, the iteration dimension of each of its dimensions.
    pub dims: Vec<Vec<usize>>,
    /// Whether negative positions count from the end.
    pub wraps: bool,
}

/// A dimension number of PyTorch, negative ones from the end.
fn resolve_index_dim(op: &str, dim: i64, rank: usize) -> Result<usize> {
    let n = i64::try_from(rank).unwrap_or(i64::MAX);
    let d = if dim < 0 { dim + n } else { dim };
    usize::try_from(d).ok().filter(|d| *d < rank).ok_or_else(|| OpError::BadAttribute {
        op: op.into(),
        name: "dim".into(),
        reason: format!("{dim} is out of range; accepted are {} to {}", -n, n - 1),
    })
}

impl IndexPattern {
    /// The iterations for an indexed tensor and its index tensors.
    pub fn resolve_shape(
        &self,
        op: &str,
        x: &TensorType,
        indices: &[TensorType],
    ) -> Result<IndexShape> {
        for (k, i) in indices.iter().enumerate() {
            use Dtype::{Int8, Int16, Int32, Int64, Uint8};
            // A bool index is a mask, whose result has a size that depends on its elements.
            if !matches!(i.dtype, Int64 | Int32 | Int16 | Int8 | Uint8) {
                let reason = format!("an index tensor is of an integer dtype, not {}", i.dtype);
                return Err(refuse_operand(op, Some(k + 1), reason));
            }
        }
        let rank = x.size.len();
        let first = || indices.first().ok_or_else(|| refuse_operand(op, None, "it has no index"));
        Ok(match self {
            IndexPattern::Embedding => {
                let i = first()?;
                if rank != 2 {
                    let reason = format!("the table has two dimensions, not {rank}");
                    return Err(refuse_operand(op, Some(0), reason));
                }
                let n = i.size.len();
                IndexShape {
                    size: [&i.size[..], &x.size[1..]].concat(),
                    // Row numbers are looked up; columns of the table are the last dimension of the iterations.
                    from: vec![IndexSource::Index(0), IndexSource::Dim(n)],
                    dims: vec![(0..n).collect()],
                    wraps: false,
                }
            }
            IndexPattern::Select(dim) => {
                let (d, i) = (resolve_index_dim(op, *dim, rank)?, first()?);
                if i.size.len() != 1 {
                    let reason = format!("the index has one dimension, not {}", i.size.len());
                    return Err(refuse_operand(op, Some(1), reason));
                }
                let mut size = x.size.clone();
                size[d] = i.size[0];
                let from = (0..rank)
                    .map(|k| if k == d { IndexSource::Index(0) } else { IndexSource::Dim(k) });
                IndexShape { size, from: from.collect(), dims: vec![vec![d]], wraps: false }
            }
            IndexPattern::Gather(dim) => {
                let (d, i) = (resolve_index_dim(op, *dim, rank)?, first()?);
                let fits =
                    // An index tensor may be smaller than the tensor: PyTorch then reads its leading part.
                    i.size.len() == rank && (0..rank).all(|k| k == d || i.size[k] <= x.size[k]);
                if !fits {
                    let reason = format!(
                        "index size {:?} does not fit {:?}: the ranks are equal, and no dimension \
                         but {d} is longer",
                        i.size, x.size
                    );
                    return Err(refuse_operand(op, Some(1), reason));
                }
                let from = (0..rank)
                    .map(|k| if k == d { IndexSource::Index(0) } else { IndexSource::Dim(k) });
                IndexShape {
                    size: i.size.clone(),
                    from: from.collect(),
                    dims: vec![(0..rank).collect()],
                    wraps: false,
                }
            }
            IndexPattern::Advanced => {
                first()?;
                if indices.len() > rank {
                    let reason = format!("{} index tensors for {rank} dimensions", indices.len());
                    return Err(refuse_operand(op, None, reason));
                }
                // All index tensors broadcast together, and their dimensions come first because they index leading
                // dimensions.
                let lead = broadcast_sizes(indices).map_err(|r| refuse_operand(op, None, r))?;
                let n = lead.len();
                let of = |i: &TensorType| (n - i.size.len()..n).collect();
                let rest = (indices.len()..rank).map(|k| IndexSource::Dim(n + k - indices.len()));
                IndexShape {
                    size: [&lead[..], &x.size[indices.len()..]].concat(),
                    from: (0..indices.len()).map(IndexSource::Index).chain(rest).collect(),
                    dims: indices.iter().map(of).collect(),
                    wraps: true,
                }
            }
        })
    }
}

/// A read by index: the indexed tensor, then the index tensors.
///
/// **Law**: element `c` of the result has the bits of the element of the indexed tensor whose
/// coordinate is `c` where dimensions are shared, and what the index tensors hold elsewhere.
#[derive(Debug, Clone)]
pub struct IndexRead {
    pub name: &'static str,
    pub pattern: IndexPattern,
}

impl IndexRead {
    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let Some((x, indices)) = inputs.split_first() else {
            return Err(refuse_operand(self.name, None, "it takes a tensor and its indices"));
        };
        let shape = self.pattern.resolve_shape(self.name, x, indices)?;
        Ok(vec![TensorType { size: shape.size, dtype: x.dtype }])
    }
}

/// How a value is combined with the one that is already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CombineRule {
    /// The value alone; of several for one place, the last in row-major order.
    Replace,
    /// The sum.
    Add,
    /// The product.
    Multiply,
    /// The larger one; a NaN wins.
    Max,
    /// The smaller one; a NaN wins.
    Min,
}

/// A write by index: the indexed tensor, the index tensors, then the values, which broadcast to the
/// iterations.
///
/// **Law**: the result is the indexed tensor, into which the values are written one after the other
/// in row-major order of the iterations. An element that several values are written to is combined in the
/// numbers that kernels compute with and rounds once, at the end.
#[derive(Debug, Clone)]
pub struct IndexWrite {
    pub name: &'static str,
    pub pattern: IndexPattern,
    pub combine: CombineRule,
    /// Whether the result is the indexed tensor itself.
    pub over: bool,
}

impl IndexWrite {
    pub fn split_operands<'a, T>(&self, inputs: &'a [T]) -> Result<(&'a T, &'a [T], &'a T)> {
        match inputs {
            [x, indices @ .., values] if !indices.is_empty() => Ok((x, indices, values)),
            _ => {
                let reason = "it takes a tensor, its indices and the values";
                Err(refuse_operand(self.name, None, reason))
            }
        }
    }

    pub fn check_values(&self, shape: &IndexShape, values: &[i64], operand: usize) -> Result<()> {
        let lead = shape.size.len().checked_sub(values.len());
        // The values of a scatter may be longer than its index; the rest is not used.
        let longer = matches!(self.pattern, IndexPattern::Gather(_)) && lead == Some(0);
        let fits = lead.is_some_and(|lead| {
            values.iter().enumerate().all(|(d, n)| {
                let want = shape.size[lead + d];
                *n == want || *n == 1 || (longer && *n > want)
            })
        });
        if fits {
            return Ok(());
        }
        let reason = format!("values of size {values:?} do not fit the positions {:?}", shape.size);
        Err(refuse_operand(self.name, Some(operand), reason))
    }

    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let (x, indices, values) = self.split_operands(inputs)?;
        let shape = self.pattern.resolve_shape(self.name, x, indices)?;
        self.check_values(&shape, &values.size, inputs.len() - 1)?;
        // A single number takes the dtype of the tensor.
        if values.dtype != x.dtype && !values.size.is_empty() {
            let reason = format!("values are {}, and the tensor is {}", values.dtype, x.dtype);
            return Err(refuse_operand(self.name, Some(inputs.len() - 1), reason));
        }
        Ok(vec![x.clone()])
    }
}
