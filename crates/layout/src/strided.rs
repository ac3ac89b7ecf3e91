//! Host tensors as PyTorch describes them: sizes, strides and a storage offset.

use crate::error::{LayoutError, Result};
use crate::int::{checked_product, narrow_to_i64, row_major_strides};
use crate::layout::Layout;
use crate::tile::{AxisBounds, TileLayout};
use std::fmt;

/// A strided host tensor: the element at coordinate `c` has the address `dot(c, stride) + offset`, counted
/// in elements.
///
/// Strides may be 0 (a broadcast) or negative (a reversal). The strides of size-1 dimensions never
/// influence a query, because no two elements differ along them.
///
/// **Invariants**, checked by [`StridedLayout::new`]: sizes are 0 or more, their product fits in `i64`,
/// and so does every address.
///
/// ```
/// use zellige_layout::StridedLayout;
/// let x = StridedLayout::new_contiguous(&[2, 3, 4])?;
/// assert_eq!(x.stride(), [12, 4, 1]);
/// assert!(x.transpose(0, 2)?.is_column_major());
/// # Ok::<(), zellige_layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StridedLayout {
    size: Vec<i64>,
    stride: Vec<i64>,
    offset: i64,
    numel: i64,
}

impl StridedLayout {
    /// Checks the invariants and builds the tensor description.
    pub fn new(size: &[i64], stride: &[i64], offset: i64) -> Result<StridedLayout> {
        if size.len() != stride.len() {
            let (expected, found) = (size.len(), stride.len());
            return Err(LayoutError::LengthMismatch { what: "the stride list", expected, found });
        }
        check_nonnegative_sizes(size)?;
        let numel = checked_product(size.iter().copied(), "the number of elements")?;
        let tensor = StridedLayout { size: size.to_vec(), stride: stride.to_vec(), offset, numel };
        tensor.compute_address_range()?;
        Ok(tensor)
    }

    /// Row-major without gaps, at offset 0.
    pub fn new_contiguous(size: &[i64]) -> Result<StridedLayout> {
        check_nonnegative_sizes(size)?;
        StridedLayout::new(size, &row_major_strides(size)?, 0)
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
    pub fn address_range(&self) -> Option<AxisBounds> {
        if self.numel == 0 { None } else { self.compute_address_range().ok() }
    }

    fn compute_address_range(&self) -> Result<AxisBounds> {
        let (mut min, mut max) = (i128::from(self.offset), i128::from(self.offset));
        // Without elements the sizes may be anything, so that an extreme stride must not be refused
        // for an address that is never used.
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
        Ok(AxisBounds { min: narrow_to_i64(min, what)?, max: narrow_to_i64(max, what)? })
    }

    /// The same elements without the dimensions of size 1.
    pub fn canonical_form(&self) -> StridedLayout {
        let kept = || self.sizes_and_strides().filter(|(n, _)| *n != 1);
        StridedLayout {
            size: kept().map(|(n, _)| n).collect(),
            stride: kept().map(|(_, s)| s).collect(),
            offset: self.offset,
            numel: self.numel,
        }
    }

    /// Whether the last dimension is contiguous and each earlier one steps over the next.
    pub fn is_row_major(&self) -> bool {
        self.is_nested_in_order((0..self.rank()).rev())
    }

    /// Whether the first dimension is contiguous and each later one steps over the one before.
    pub fn is_column_major(&self) -> bool {
        self.is_nested_in_order(0..self.rank())
    }

    /// Whether it is a batch of images (4-D) or volumes (5-D) whose channel, dimension 1, is
    /// contiguous: memory order batch, space, channel. Other ranks never are.
    pub fn is_channels_last(&self) -> bool {
        match self.rank() {
            rank @ (4 | 5) => self.is_nested_in_order(
                std::iter::once(1).chain((2..rank).rev()).chain(std::iter::once(0)),
            ),
            _ => false,
        }
    }

    /// Whether, fastest first, each dimension steps exactly over the ones before it. Empty tensors
    /// have no element out of order.
    // The definitions are those of PyTorch's `is_contiguous` and its memory formats, which skip
    // dimensions of size 1 in the same way.
    fn is_nested_in_order(&self, fastest_first: impl Iterator<Item = usize>) -> bool {
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
        self.is_nested_in_order(order.into_iter())
    }

    /// The strides in which a device layout's `stride_map` is read: those of the host when it is
    /// dense and non-overlapping, else the row-major strides of its size.
    ///
    /// `x[:, 60:]` of a (40, 120) tensor has host strides (120, 1) and own strides (60, 1).
    pub fn own_strides(&self) -> Result<Vec<i64>> {
        // A slice or a broadcast has gaps or repetitions, which a device layout does not reproduce.
        if self.is_dense_non_overlapping() {
            Ok(self.stride.clone())
        } else {
            row_major_strides(&self.size)
        }
    }

    /// The address of an element.
    pub fn element_address(&self, coordinate: &[i64]) -> Result<i64> {
        crate::layout::flatten_coordinate(&self.size, coordinate)?;
        // Inside the range that the constructor checked; the partial sums are too wide to trust.
        let dot: i128 =
            coordinate.iter().zip(&self.stride).map(|(c, s)| i128::from(*c) * i128::from(*s)).sum();
        narrow_to_i64(dot + i128::from(self.offset), "an address of the tensor")
    }

    /// The tensor in the algebra: one memory iter per dimension, the storage offset as `O`.
    ///
    /// Law: for every coordinate `c`, `to_layout().apply_to_coordinate(size, c)` is the one physical coordinate
    /// `m = element_address(c)`.
    pub fn to_layout(&self) -> Result<Layout> {
        Ok(TileLayout::from_strides(&self.size, &self.stride, self.offset)?.into())
    }

    /// Size and stride of every dimension.
    pub fn sizes_and_strides(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.size.iter().copied().zip(self.stride.iter().copied())
    }
}

impl fmt::Debug for StridedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{:?}", self.size, self.stride)?;
        if self.offset != 0 {
            write!(f, "+{}", self.offset)?;
        }
        Ok(())
    }
}

/// Refuses extents below zero.
pub fn check_nonnegative_sizes(size: &[i64]) -> Result<()> {
    match size.iter().position(|n| *n < 0) {
        Some(index) => {
            Err(LayoutError::NegativeExtent { what: "dimension", index, extent: size[index] })
        }
        None => Ok(()),
    }
}
