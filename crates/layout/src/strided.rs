//! Host tensors as PyTorch describes them: sizes, strides and a storage offset.

use crate::error::{Error, Result};
use crate::int::{narrow, product, row_major};
use crate::layout::Layout;
use crate::tile::{Bounds, TileLayout};
use std::fmt;

/// A strided host tensor: element `c` lies at `dot(c, stride) + offset`, in elements.
///
/// Strides may be 0 (a broadcast) or negative (a reversal). The strides of size-1 dimensions never
/// influence a query, because no two elements differ along them.
///
/// **Invariants**, checked by [`Strided::new`]: sizes are 0 or more, their product fits in `i64`,
/// and so does every address.
///
/// ```
/// use zellige_layout::Strided;
/// let x = Strided::contiguous(&[2, 3, 4])?;
/// assert_eq!(x.stride(), [12, 4, 1]);
/// assert!(x.transpose(0, 2)?.is_column_major());
/// # Ok::<(), zellige_layout::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Strided {
    size: Vec<i64>,
    stride: Vec<i64>,
    offset: i64,
    numel: i64,
}

impl Strided {
    /// Checks the invariants and builds the tensor description.
    pub fn new(size: &[i64], stride: &[i64], offset: i64) -> Result<Strided> {
        if size.len() != stride.len() {
            let (expected, found) = (size.len(), stride.len());
            return Err(Error::LengthMismatch { what: "the stride list", expected, found });
        }
        check_sizes(size)?;
        let numel = product(size.iter().copied(), "the number of elements")?;
        let tensor = Strided { size: size.to_vec(), stride: stride.to_vec(), offset, numel };
        tensor.compute_range()?;
        Ok(tensor)
    }

    /// Row-major without gaps, at offset 0.
    pub fn contiguous(size: &[i64]) -> Result<Strided> {
        check_sizes(size)?;
        Strided::new(size, &row_major(size)?, 0)
    }

    /// The extents.
    pub fn size(&self) -> &[i64] {
        &self.size
    }

    /// The distance of one step in each dimension, in elements.
    pub fn stride(&self) -> &[i64] {
        &self.stride
    }

    /// The address of the first element.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.size.len()
    }

    /// The number of elements.
    pub fn numel(&self) -> i64 {
        self.numel
    }

    /// The smallest and the largest address, or `None` for a tensor without elements.
    pub fn address_range(&self) -> Option<Bounds> {
        if self.numel == 0 { None } else { self.compute_range().ok() }
    }

    fn compute_range(&self) -> Result<Bounds> {
        let (mut min, mut max) = (i128::from(self.offset), i128::from(self.offset));
        if self.numel > 0 {
            for (n, s) in self.size.iter().zip(&self.stride) {
                let reach = i128::from(n - 1) * i128::from(*s);
                if reach < 0 {
                    min = min.saturating_add(reach);
                } else {
                    max = max.saturating_add(reach);
                }
            }
        }
        let what = "an address of the tensor";
        Ok(Bounds { min: narrow(min, what)?, max: narrow(max, what)? })
    }

    /// The same elements without the dimensions of size 1.
    pub fn canonical(&self) -> Strided {
        let kept = || self.dims().filter(|(n, _)| *n != 1);
        Strided {
            size: kept().map(|(n, _)| n).collect(),
            stride: kept().map(|(_, s)| s).collect(),
            offset: self.offset,
            numel: self.numel,
        }
    }

    /// Whether the last dimension is contiguous and each earlier one steps over the next.
    pub fn is_row_major(&self) -> bool {
        self.nests_in((0..self.rank()).rev())
    }

    /// Whether the first dimension is contiguous and each later one steps over the one before.
    pub fn is_column_major(&self) -> bool {
        self.nests_in(0..self.rank())
    }

    /// Whether it is a batch of images (4-D) or volumes (5-D) whose channel, dimension 1, is
    /// contiguous: memory order batch, space, channel. Other ranks never are.
    pub fn is_channels_last(&self) -> bool {
        match self.rank() {
            rank @ (4 | 5) => {
                self.nests_in(std::iter::once(1).chain((2..rank).rev()).chain(std::iter::once(0)))
            }
            _ => false,
        }
    }

    /// Whether, fastest first, each dimension steps exactly over the ones before it. Empty tensors
    /// have no element out of order.
    fn nests_in(&self, fastest_first: impl Iterator<Item = usize>) -> bool {
        if self.numel == 0 {
            return true;
        }
        let mut next = 1;
        for d in fastest_first {
            if self.size[d] != 1 {
                if self.stride[d] != next {
                    return false;
                }
                // At most `numel`, which fits.
                next *= self.size[d];
            }
        }
        true
    }

    /// Whether the elements fill an interval of addresses, each address once.
    pub fn is_dense_non_overlapping(&self) -> bool {
        let mut order: Vec<usize> = (0..self.rank()).filter(|d| self.size[*d] != 1).collect();
        order.sort_by_key(|d| self.stride[*d]);
        self.nests_in(order.into_iter())
    }

    /// The strides in which a device layout's `stride_map` is read: those of the host when it is
    /// dense and non-overlapping, else the row-major strides of its size.
    ///
    /// `x[:, 60:]` of a (40, 120) tensor has host strides (120, 1) and own strides (60, 1).
    pub fn own_strides(&self) -> Result<Vec<i64>> {
        if self.is_dense_non_overlapping() {
            Ok(self.stride.clone())
        } else {
            row_major(&self.size)
        }
    }

    /// The address of an element.
    pub fn address(&self, coordinate: &[i64]) -> Result<i64> {
        crate::layout::flatten(&self.size, coordinate)?;
        // Inside the range that the constructor checked; the partial sums are too wide to trust.
        let dot: i128 =
            coordinate.iter().zip(&self.stride).map(|(c, s)| i128::from(*c) * i128::from(*s)).sum();
        narrow(dot + i128::from(self.offset), "an address of the tensor")
    }

    /// The tensor in the algebra: one memory iter per dimension, the storage offset as `O`.
    ///
    /// Law: for every coordinate `c`, `to_layout().apply(size, c)` is the one place
    /// `m = address(c)`.
    pub fn to_layout(&self) -> Result<Layout> {
        Ok(TileLayout::strided(&self.size, &self.stride, self.offset)?.into())
    }

    /// Size and stride of every dimension.
    pub fn dims(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.size.iter().copied().zip(self.stride.iter().copied())
    }
}

impl fmt::Debug for Strided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{:?}", self.size, self.stride)?;
        if self.offset != 0 {
            write!(f, "+{}", self.offset)?;
        }
        Ok(())
    }
}

/// Refuses extents below zero.
pub fn check_sizes(size: &[i64]) -> Result<()> {
    match size.iter().position(|n| *n < 0) {
        Some(index) => Err(Error::NegativeExtent { what: "dimension", index, extent: size[index] }),
        None => Ok(()),
    }
}
