//! Elements looked up by index, and written by index.
//!
//! One form covers `embedding`, `index_select`, `gather`, `index`, and the writes `scatter`,
//! `index_add`, `index_put`: there is a box of iterations, a *plain* tensor that has an element for
//! every iteration (the result of a read, the values of a write), and an *indexed* tensor of which
//! every dimension is either an iteration dimension or looked up in an index tensor. Index tensors
//! are exempt from the rules about sticks.

mod read;
mod write;

pub(crate) use read::Read;
pub(crate) use write::{Combine, Write};

use super::io::Load;
use super::{Meta, Pointers};
use crate::error::{DeviceError, Result};
use crate::sticks::Sticks;
use smallvec::SmallVec;
use zellige_layout::Dtype;

/// Where the coordinate of the indexed tensor comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// An iteration dimension.
    Dim(usize),
    /// The index tensor of this number.
    Index(usize),
}

/// Which operation it is: how iterations, index tensors and the indexed tensor belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pattern {
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
pub(crate) struct Shape {
    /// Extents of the iterations.
    pub(crate) size: Vec<i64>,
    /// Per dimension of the indexed tensor.
    pub(crate) from: Vec<From>,
    /// Per index tensor, the iteration dimension of each of its dimensions.
    pub(crate) dims: Vec<Vec<usize>>,
    /// Whether negative positions count from the end.
    pub(crate) wraps: bool,
}

pub(crate) fn refuse(op: &str, operand: Option<usize>, reason: String) -> DeviceError {
    DeviceError::BadOperand { op: op.into(), operand, reason }
}

/// A dimension number of PyTorch, negative ones from the end.
pub(crate) fn dim_of(op: &str, dim: i64, rank: usize) -> Result<usize> {
    let n = i64::try_from(rank).unwrap_or(i64::MAX);
    let d = if dim < 0 { dim + n } else { dim };
    usize::try_from(d).ok().filter(|d| *d < rank).ok_or_else(|| DeviceError::BadAttribute {
        op: op.into(),
        name: "dim".into(),
        reason: format!("{dim} is out of range; accepted are {} to {}", -n, n - 1),
    })
}

impl Pattern {
    /// The iterations of a task.
    pub(crate) fn of_sticks(&self, op: &str, x: &Sticks, indices: &[Sticks]) -> Result<Shape> {
        let meta = |s: &Sticks| Meta {
            size: s.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect(),
            dtype: Dtype::Int64,
        };
        self.resolve(op, &meta(x), &indices.iter().map(meta).collect::<Vec<_>>())
    }

    /// The iterations for an indexed tensor and its index tensors.
    pub(crate) fn resolve(&self, op: &str, x: &Meta, indices: &[Meta]) -> Result<Shape> {
        for (k, i) in indices.iter().enumerate() {
            use Dtype::{Int8, Int16, Int32, Int64, Uint8};
            if !matches!(i.dtype, Int64 | Int32 | Int16 | Int8 | Uint8) {
                let reason = format!("an index tensor is of an integer dtype, not {}", i.dtype);
                return Err(refuse(op, Some(k + 1), reason));
            }
        }
        let rank = x.size.len();
        let first = || indices.first().ok_or_else(|| refuse(op, None, "it has no index".into()));
        Ok(match self {
            Pattern::Embedding => {
                let i = first()?;
                if rank != 2 {
                    let reason = format!("the table has two dimensions, not {rank}");
                    return Err(refuse(op, Some(0), reason));
                }
                let n = i.size.len();
                Shape {
                    size: [&i.size[..], &x.size[1..]].concat(),
                    from: vec![From::Index(0), From::Dim(n)],
                    dims: vec![(0..n).collect()],
                    wraps: false,
                }
            }
            Pattern::Select(dim) => {
                let (d, i) = (dim_of(op, *dim, rank)?, first()?);
                if i.size.len() != 1 {
                    let reason = format!("the index has one dimension, not {}", i.size.len());
                    return Err(refuse(op, Some(1), reason));
                }
                let mut size = x.size.clone();
                size[d] = i.size[0];
                let from = (0..rank).map(|k| if k == d { From::Index(0) } else { From::Dim(k) });
                Shape { size, from: from.collect(), dims: vec![vec![d]], wraps: false }
            }
            Pattern::Gather(dim) => {
                let (d, i) = (dim_of(op, *dim, rank)?, first()?);
                let fits =
                    i.size.len() == rank && (0..rank).all(|k| k == d || i.size[k] <= x.size[k]);
                if !fits {
                    let reason = format!(
                        "index size {:?} does not fit {:?}: the ranks are equal, and no dimension \
                         but {d} is longer",
                        i.size, x.size
                    );
                    return Err(refuse(op, Some(1), reason));
                }
                let from = (0..rank).map(|k| if k == d { From::Index(0) } else { From::Dim(k) });
                Shape {
                    size: i.size.clone(),
                    from: from.collect(),
                    dims: vec![(0..rank).collect()],
                    wraps: false,
                }
            }
            Pattern::Advanced => {
                first()?;
                if indices.len() > rank {
                    let reason = format!("{} index tensors for {rank} dimensions", indices.len());
                    return Err(refuse(op, None, reason));
                }
                let lead = crate::lay::broadcast(indices).map_err(|r| refuse(op, None, r))?;
                let n = lead.len();
                let of = |i: &Meta| (n - i.size.len()..n).collect();
                let rest = (indices.len()..rank).map(|k| From::Dim(n + k - indices.len()));
                Shape {
                    size: [&lead[..], &x.size[indices.len()..]].concat(),
                    from: (0..indices.len()).map(From::Index).chain(rest).collect(),
                    dims: indices.iter().map(of).collect(),
                    wraps: true,
                }
            }
        })
    }
}

/// The index tensors on the iterations.
#[derive(Debug, Clone)]
pub(crate) struct Indices {
    /// Expanded to the iterations.
    wide: Vec<Sticks>,
    /// As they are.
    own: Vec<Sticks>,
    loads: Vec<Load<i64>>,
    /// Per index tensor, the extent it points into.
    limit: Vec<usize>,
    wraps: bool,
}

impl Indices {
    pub(crate) fn new(shape: &Shape, x: &Sticks, indices: &[Sticks]) -> Indices {
        let rank = shape.size.len();
        let mut wide = Vec::new();
        let mut limit = Vec::new();
        for (k, i) in indices.iter().enumerate() {
            let mut w = i.clone();
            w.size = shape.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
            w.stride = SmallVec::from_elem(0, rank);
            w.stick = None;
            for (d, at) in shape.dims[k].iter().enumerate() {
                if i.size[d] == w.size[*at] || i.size[d] > 1 {
                    w.stride[*at] = i.stride[d];
                    w.stick = if i.stick == Some(d) { Some(*at) } else { w.stick };
                }
            }
            wide.push(w);
            let pointed = shape.from.iter().position(|f| *f == From::Index(k));
            limit.push(pointed.map_or(0, |d| x.size[d]));
        }
        let loads = indices.iter().map(|i| Load::new(i.format)).collect();
        Indices { wide, own: indices.to_vec(), loads, limit, wraps: shape.wraps }
    }

    /// Whether any of them varies along an iteration dimension.
    pub(crate) fn vary(&self, dim: usize) -> bool {
        self.wide.iter().any(|w| w.stride[dim] > 0 || w.stick == Some(dim))
    }

    pub(crate) fn tensors(&self) -> &[Sticks] {
        &self.own
    }

    /// The position that index tensor `k` holds for an iteration.
    ///
    /// # Safety
    /// `memory` holds the tensors of the operation: the indexed one first, then the indices.
    pub(crate) unsafe fn at(&self, k: usize, c: &[usize], memory: &Pointers) -> usize {
        // SAFETY: by the contract of this function; the place is inside the index tensor.
        let value = unsafe { self.loads[k].one(memory.inputs[k + 1], self.wide[k].place(c)) };
        let n = i64::try_from(self.limit[k]).unwrap_or(i64::MAX);
        let value = if value < 0 && self.wraps { value + n } else { value };
        usize::try_from(value).unwrap_or(usize::MAX)
    }

    /// Refuses the first position that is out of range.
    ///
    /// # Safety
    /// As [`Indices::at`].
    pub(crate) unsafe fn check(&self, op: &str, memory: &Pointers) -> Result<()> {
        for (k, own) in self.own.iter().enumerate() {
            let n = i64::try_from(self.limit[k]).unwrap_or(i64::MAX);
            let low = if self.wraps { -n } else { 0 };
            let mut c: SmallVec<[usize; 6]> = SmallVec::from_elem(0, own.rank());
            for _ in 0..own.numel() {
                // SAFETY: by the contract of this function; `c` is inside the tensor.
                let value = unsafe { self.loads[k].one(memory.inputs[k + 1], own.place(&c)) };
                if value < low || value >= n {
                    let at: Vec<usize> = c.to_vec();
                    let reason = format!(
                        "index {value} at {at:?} is out of range; accepted are {low} to {}",
                        n - 1
                    );
                    return Err(refuse(op, Some(k + 1), reason));
                }
                step(&mut c, &own.size);
            }
        }
        Ok(())
    }
}

/// The next coordinate in row-major order.
pub(crate) fn step(c: &mut [usize], size: &[usize]) {
    for (c, n) in c.iter_mut().zip(size).rev() {
        *c += 1;
        if *c < *n {
            return;
        }
        *c = 0;
    }
}
