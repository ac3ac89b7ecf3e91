//! The padding map: for every device position its element, or that it is padding.

use crate::StickLayout;
use crate::error::Result;
use zellige_layout::LayoutError;
use zellige_layout::{Layout, flatten_coordinate, unflatten_index};

/// The inverse of a bound layout: for every device position the element that it holds, if any.
///
/// Law: `element_at(p) == Some(i)` exactly when the lowered layout maps element `i` to `p`.
#[derive(Debug, Clone)]
pub struct PaddingMap {
    layout: Layout,
    size: Vec<i64>,
    /// The device dimensions with the gaps behind them.
    storage: Vec<i64>,
    positions: i64,
    /// Per iter with more than one step, largest device stride first: device stride, extent, and the
    /// weight of its digit in the padded index, 0 for a replica.
    digits: Vec<(i64, i64, i64)>,
}

impl StickLayout {
    /// Inverts the lowered layout.
    pub fn build_padding_map(&self) -> Result<PaddingMap> {
        let layout = self.lower_to_layout()?;
        let size = self.require_bound_host("the padding map")?.size().to_vec();
        let mut digits = Vec::new();
        let mut weight = 1i64;
        for it in layout.tile().shard().iter().rev() {
            if it.extent > 1 {
                digits.push((it.stride, it.extent, weight));
            }
            // A factor of the padded size, which fits.
            weight = weight.saturating_mul(it.extent);
        }
        let copies = layout.tile().replica().iter().filter(|it| it.extent > 1);
        digits.extend(copies.map(|it| (it.stride, it.extent, 0)));
        digits.sort_by_key(|(stride, ..)| std::cmp::Reverse(*stride));
        let storage = self.storage_size().to_vec();
        Ok(PaddingMap { positions: self.count_positions(), layout, size, storage, digits })
    }
}

impl PaddingMap {
    /// The row-major index of the element at a device position, or `None` for padding and gaps.
    pub fn element_at(&self, position: i64) -> Result<Option<i64>> {
        if !(0..self.positions).contains(&position) {
            return Err(
                LayoutError::IndexOutOfRange { index: position, size: self.positions }.into()
            );
        }
        if self.layout.size() == 0 {
            return Ok(None);
        }
        // Digits of one device dimension nest, so division by the largest stride first finds the only way
        // to write the position as digits, if there is one.
        let (mut rest, mut padded) = (position, 0);
        for (stride, extent, weight) in &self.digits {
            let digit = rest / stride;
            if digit >= *extent {
                return Ok(None);
            }
            rest -= digit * stride;
            padded += digit * weight;
        }
        if rest != 0 {
            return Ok(None);
        }
        Ok(match self.layout.window() {
            Some(window) => window.valid_index_of(padded),
            None => Some(padded),
        })
    }

    /// The host coordinate of the element at device coordinates, or `None` for padding and gaps.
    pub fn host_coordinate_at(&self, device: &[i64]) -> Result<Option<Vec<i64>>> {
        let position = flatten_coordinate(&self.storage, device)?;
        Ok(self.element_at(position)?.map(|flat| unflatten_index(&self.size, flat)))
    }

    /// The device coordinates of the element at a host coordinate, of its first replica.
    pub fn device_coordinate_of(&self, coordinate: &[i64]) -> Result<Vec<i64>> {
        let flat = flatten_coordinate(&self.size, coordinate)?;
        let places = self.layout.physical_coordinates(flat)?;
        let position =
            places.coordinate_rows().next().and_then(|r| r.first().copied()).unwrap_or(0);
        Ok(unflatten_index(&self.storage, position))
    }

    /// The number of positions that hold no element.
    pub fn count_padding(&self) -> i64 {
        self.positions - self.layout.size() * self.layout.tile().replica_count()
    }

    /// The layout that it inverts.
    pub fn lowered_layout(&self) -> &Layout {
        &self.layout
    }
}
