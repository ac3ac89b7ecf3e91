//! Views of a host tensor: another size, stride and offset on the same storage.
//!
//! Every function here maps a [`StridedLayout`] to a [`StridedLayout`] and copies nothing. Dimensions count from
//! the end when negative, as in PyTorch. A view that strides cannot express is
//! [`LayoutError::NeedsCopy`], with the dimension and the reason.

use crate::error::{LayoutError, Result};
use crate::int::{checked_product, div_ceil};
use crate::strided::{StridedLayout, check_nonnegative_sizes};

impl StridedLayout {
    /// Swaps two dimensions.
    pub fn transpose(&self, dim0: i64, dim1: i64) -> Result<StridedLayout> {
        let (a, b) = (self.wrap_dim_or_scalar(dim0)?, self.wrap_dim_or_scalar(dim1)?);
        let (mut size, mut stride) = (self.size().to_vec(), self.stride().to_vec());
        if self.rank() > 0 {
            size.swap(a, b);
            stride.swap(a, b);
        }
        StridedLayout::new(&size, &stride, self.offset())
    }

    /// Reorders the dimensions: dimension `i` of the result is dimension `dims[i]`.
    pub fn permute(&self, dims: &[i64]) -> Result<StridedLayout> {
        let rank = self.rank();
        if dims.len() != rank {
            let found = dims.len();
            return Err(LayoutError::LengthMismatch {
                what: "the permutation",
                expected: rank,
                found,
            });
        }
        let order = dims.iter().map(|d| self.wrap_dim_or_scalar(*d)).collect::<Result<Vec<_>>>()?;
        let mut named = vec![false; rank];
        order.iter().for_each(|d| named[*d] = true);
        if let Some(d) = named.iter().position(|n| !n) {
            let reason = format!("{d} is missing");
            return Err(LayoutError::BadPermutation { perm: order, len: rank, reason });
        }
        let size: Vec<_> = order.iter().map(|d| self.size()[*d]).collect();
        let stride: Vec<_> = order.iter().map(|d| self.stride()[*d]).collect();
        StridedLayout::new(&size, &stride, self.offset())
    }

    /// Every `step`-th element from `start` up to `end` of one dimension.
    ///
    /// Start and end are clamped as PyTorch documents for slicing: negative ones count from the end, and
    /// ones outside the dimension mean its first or last index.
    pub fn slice_dim(
        &self,
        dim: i64,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    ) -> Result<StridedLayout> {
        let d = self.wrap_existing_dim(dim)?;
        if step < 1 {
            return Err(bad_view_argument("the slice step", step, "steps are 1 or more"));
        }
        let n = self.size()[d];
        let bound = |v: i64| if v < 0 { v.saturating_add(n).max(0) } else { v.min(n) };
        let start = bound(start.unwrap_or(0));
        // An end before the start is an empty slice, as in Python.
        let end = bound(end.unwrap_or(n)).max(start);
        let length = div_ceil(end - start, step);
        let (mut size, mut stride) = (self.size().to_vec(), self.stride().to_vec());
        size[d] = length;
        stride[d] = checked_multiply(stride[d], step, "a sliced stride")?;
        StridedLayout::new(&size, &stride, self.offset_after_steps(d, start)?)
    }

    /// One index of a dimension, which disappears.
    pub fn select(&self, dim: i64, index: i64) -> Result<StridedLayout> {
        let d = self.wrap_existing_dim(dim)?;
        let n = self.size()[d];
        let at = if index < 0 { index.saturating_add(n) } else { index };
        if !(0..n).contains(&at) {
            return Err(LayoutError::CoordinateOutOfRange { dim: d, value: index, extent: n });
        }
        let (mut size, mut stride) = (self.size().to_vec(), self.stride().to_vec());
        size.remove(d);
        stride.remove(d);
        StridedLayout::new(&size, &stride, self.offset_after_steps(d, at)?)
    }

    /// Repeats dimensions of size 1 (stride 0) and adds leading ones; -1 keeps a size.
    pub fn expand(&self, sizes: &[i64]) -> Result<StridedLayout> {
        let Some(lead) = sizes.len().checked_sub(self.rank()) else {
            let (expected, found) = (self.rank(), sizes.len());
            return Err(LayoutError::LengthMismatch { what: "the expanded size", expected, found });
        };
        let (mut size, mut stride) = (sizes.to_vec(), vec![0; sizes.len()]);
        for (i, wanted) in sizes.iter().enumerate() {
            // The given dimensions align with the last ones, as broadcasting does.
            let Some((n, s)) = i.checked_sub(lead).and_then(|d| self.sizes_and_strides().nth(d))
            else {
                if *wanted < 0 {
                    let accepted = format!("dimension {i} is new, so its size is 0 or more");
                    return Err(bad_view_argument("an expanded size", *wanted, accepted));
                }
                continue;
            };
            if *wanted == -1 || *wanted == n {
                (size[i], stride[i]) = (n, s);
            } else if n != 1 || *wanted < 0 {
                let accepted = format!(
                    "dimension {i} has size {n}, and only size 1 can be repeated; -1 keeps it"
                );
                return Err(bad_view_argument("an expanded size", *wanted, accepted));
            }
        }
        StridedLayout::new(&size, &stride, self.offset())
    }

    /// Drops the dimension if its size is 1; with no dimension named, every one of size 1.
    pub fn squeeze(&self, dim: Option<i64>) -> Result<StridedLayout> {
        let Some(dim) = dim else { return Ok(self.canonical_form()) };
        let d = self.wrap_dim_or_scalar(dim)?;
        if self.size().get(d) != Some(&1) {
            return Ok(self.clone());
        }
        self.select(dim, 0)
    }

    /// Adds a dimension of size 1 before dimension `dim`.
    pub fn unsqueeze(&self, dim: i64) -> Result<StridedLayout> {
        let d = wrap_negative_dim(dim, self.rank() + 1)?;
        let (mut size, mut stride) = (self.size().to_vec(), self.stride().to_vec());
        let step = match self.sizes_and_strides().nth(d) {
            // PyTorch gives the new dimension the stride that continues the next one. No element
            // depends on it, but programs print and compare strides.
            Some((n, s)) => checked_multiply(n, s, "the stride of the added dimension")?,
            None => 1,
        };
        size.insert(d, 1);
        stride.insert(d, step);
        StridedLayout::new(&size, &stride, self.offset())
    }

    /// Windows of `size` elements, `step` apart, along a dimension; the window becomes a new last
    /// dimension.
    pub fn unfold(&self, dim: i64, size: i64, step: i64) -> Result<StridedLayout> {
        let d = self.wrap_dim_or_scalar(dim)?;
        let (n, s) = self.sizes_and_strides().nth(d).unwrap_or((1, 1));
        if step < 1 {
            return Err(bad_view_argument("the unfold step", step, "steps are 1 or more"));
        }
        if !(0..=n).contains(&size) {
            let accepted = format!("dimension {d} has {n} elements, so windows have 0 to {n}");
            return Err(bad_view_argument("the unfold size", size, accepted));
        }
        let (mut sizes, mut strides) = (self.size().to_vec(), self.stride().to_vec());
        if self.rank() > 0 {
            sizes[d] = (n - size) / step + 1;
            strides[d] = checked_multiply(s, step, "an unfolded stride")?;
        }
        sizes.push(size);
        strides.push(s);
        StridedLayout::new(&sizes, &strides, self.offset())
    }

    /// Reverses dimensions: their strides change sign and the offset moves to their last index.
    pub fn flip(&self, dims: &[i64]) -> Result<StridedLayout> {
        let (mut stride, mut offset) = (self.stride().to_vec(), self.offset());
        let mut seen = vec![false; self.rank()];
        for dim in dims {
            let d = self.wrap_existing_dim(*dim)?;
            if std::mem::replace(&mut seen[d], true) {
                return Err(bad_view_argument(
                    "a flipped dimension",
                    *dim,
                    "each dimension is flipped once",
                ));
            }
            let last = (self.size()[d] - 1).max(0);
            offset = checked_multiply(stride[d], last, "a flipped offset")?
                .checked_add(offset)
                .ok_or_else(|| LayoutError::overflow_of("a flipped offset"))?;
            stride[d] = stride[d]
                .checked_neg()
                .ok_or_else(|| LayoutError::overflow_of("a flipped stride"))?;
        }
        StridedLayout::new(self.size(), &stride, offset)
    }

    /// Another size of the same elements in the same row-major order, if no copy is needed. One size may be
    /// -1 and is then inferred.
    ///
    /// Law: for all flat indices `i`, element `i` of the view is element `i` of the tensor.
    pub fn view(&self, shape: &[i64]) -> Result<StridedLayout> {
        let shape = self.infer_missing_size(shape)?;
        // An empty tensor can have any size with a 0; the strides are those that PyTorch gives it.
        if self.numel() == 0 {
            let stride = if shape == self.size() {
                self.stride().to_vec()
            } else {
                crate::int::row_major_strides(&shape)?
            };
            return StridedLayout::new(&shape, &stride, self.offset());
        }
        // Old dimensions that continue one another form one run of evenly spaced elements. A new dimension
        // has one stride, so it must stay inside a run: the new sizes have to cut every run exactly.
        // PyTorch's `view` has the same rule.
        let runs = self.dense_runs()?;
        let mut runs = runs.iter();
        let mut run = runs.next().copied().unwrap_or(DenseRun { count: 1, step: 1, dim: 0 });
        let mut filled = 1;
        let mut stride = vec![1; shape.len()];
        for (i, n) in shape.iter().enumerate().rev() {
            if *n != 1 && filled == run.count {
                // The element counts agree, so there is a next run whenever there is a next size.
                run = runs.next().copied().unwrap_or(run);
                filled = 1;
            }
            stride[i] = checked_multiply(filled, run.step, "a viewed stride")?;
            filled = checked_multiply(filled, *n, "a viewed size")?;
            if run.count % filled != 0 {
                let DenseRun { count, step, dim } = run;
                let reason = format!(
                    "dimension {i} of {shape:?} crosses the start of dimension {dim} (size {}, \
                     stride {}), where a run of {count} elements {step} apart ends",
                    self.size()[dim],
                    self.stride()[dim]
                );
                return Err(LayoutError::NeedsCopy { call: "view", reason });
            }
        }
        StridedLayout::new(&shape, &stride, self.offset())
    }

    /// The same as [`StridedLayout::view`]: PyTorch's `reshape` where it does not copy.
    pub fn reshape(&self, shape: &[i64]) -> Result<StridedLayout> {
        self.view(shape).map_err(|e| match e {
            LayoutError::NeedsCopy { reason, .. } => {
                LayoutError::NeedsCopy { call: "reshape", reason }
            }
            e => e,
        })
    }

    /// Any sizes, strides and offset on the same storage, checked against the number of elements
    /// of that storage where it is known. Without an offset, the tensor's own is kept.
    pub fn as_strided(
        &self,
        size: &[i64],
        stride: &[i64],
        offset: Option<i64>,
        storage: Option<i64>,
    ) -> Result<StridedLayout> {
        let view = StridedLayout::new(size, stride, offset.unwrap_or(self.offset()))?;
        if let (Some(len), Some(range)) = (storage, view.address_range()) {
            for index in [range.min, range.max] {
                if !(0..len).contains(&index) {
                    return Err(LayoutError::IndexOutOfRange { index, size: len });
                }
            }
        }
        Ok(view)
    }

    /// The maximal runs of evenly spaced elements, fastest first; unit dimensions join any.
    fn dense_runs(&self) -> Result<Vec<DenseRun>> {
        let mut runs: Vec<DenseRun> = Vec::new();
        for (dim, (n, s)) in
            self.sizes_and_strides().enumerate().collect::<Vec<_>>().into_iter().rev()
        {
            match runs.last_mut() {
                _ if n == 1 => {}
                Some(run) if run.count.checked_mul(run.step) == Some(s) => {
                    (run.count, run.dim) =
                        (checked_multiply(run.count, n, "a run of elements")?, dim);
                }
                _ => runs.push(DenseRun { count: n, step: s, dim }),
            }
        }
        Ok(runs)
    }

    /// Replaces a -1 by the size that is left, and checks the number of elements.
    fn infer_missing_size(&self, shape: &[i64]) -> Result<Vec<i64>> {
        let mut shape = shape.to_vec();
        let unknown = shape.iter().position(|n| *n == -1);
        let known = shape.iter().enumerate().filter(|(i, _)| Some(*i) != unknown);
        let known: Vec<i64> = known.map(|(_, n)| *n).collect();
        if known.contains(&-1) {
            return Err(bad_view_argument("a size", -1, "one size at most is left to infer"));
        }
        check_nonnegative_sizes(&known)?;
        let total = checked_product(known.iter().copied(), "the number of elements of the view")?;
        if let Some(i) = unknown {
            if total == 0 {
                return Err(bad_view_argument(
                    "a size",
                    -1,
                    "beside a size of 0 it can be anything",
                ));
            }
            if self.numel() % total == 0 {
                shape[i] = self.numel() / total;
                return Ok(shape);
            }
        }
        if total != self.numel() || unknown.is_some() {
            let what = format!("view size {shape:?}");
            return Err(LayoutError::SizeMismatch {
                what,
                expected: self.numel(),
                found: total.into(),
            });
        }
        Ok(shape)
    }

    /// The offset after `index` steps in a dimension.
    fn offset_after_steps(&self, d: usize, index: i64) -> Result<i64> {
        checked_multiply(self.stride()[d], index, "the offset of a view")?
            .checked_add(self.offset())
            .ok_or_else(|| LayoutError::overflow_of("the offset of a view"))
    }

    /// A dimension, where a scalar counts as having one.
    fn wrap_dim_or_scalar(&self, dim: i64) -> Result<usize> {
        wrap_negative_dim(dim, self.rank().max(1))
    }

    /// A dimension that exists.
    fn wrap_existing_dim(&self, dim: i64) -> Result<usize> {
        wrap_negative_dim(dim, self.rank())
    }
}

/// `count` elements `step` apart, the slowest of them counted by dimension `dim`.
#[derive(Clone, Copy)]
struct DenseRun {
    count: i64,
    step: i64,
    dim: usize,
}

/// The dimension named by a possibly negative number.
pub fn wrap_negative_dim(dim: i64, rank: usize) -> Result<usize> {
    let len = i64::try_from(rank).map_err(|_| LayoutError::overflow_of("the rank"))?;
    let at = if dim < 0 { dim.saturating_add(len) } else { dim };
    match usize::try_from(at) {
        Ok(d) if d < rank => Ok(d),
        _ if rank == 0 => {
            Err(bad_view_argument("the dimension", dim, "a scalar has no dimensions"))
        }
        _ => Err(bad_view_argument(
            "the dimension",
            dim,
            format!("dimensions are {} to {}", -len, len - 1),
        )),
    }
}

fn checked_multiply(a: i64, b: i64, what: &str) -> Result<i64> {
    a.checked_mul(b).ok_or_else(|| LayoutError::overflow_of(what))
}

fn bad_view_argument(what: &'static str, value: i64, accepted: impl Into<String>) -> LayoutError {
    LayoutError::BadParameter { what, value, accepted: accepted.into() }
}
