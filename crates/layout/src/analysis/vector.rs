//! Vector width and coalescing.

use crate::analysis::access::{LaneAccessPattern, WARP};
use crate::error::Result;
use crate::layout::Layout;
use std::collections::BTreeSet;

/// Bytes of the smallest unit that global memory delivers.
pub(crate) const SECTOR_BYTES: i128 = 32;

/// The widest aligned vector that a layout allows everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorWidth {
    /// Elements per vector.
    pub elements: i64,
    /// Bits per vector.
    pub bits: i64,
}

impl Layout {
    /// The widest power of two of neighbouring elements, up to 16 bytes, that are adjacent and
    /// aligned in memory everywhere.
    ///
    /// A vector of `v` is allowed exactly when the layout packs by `v` ([`Layout::pack_elements`]) and `v`
    /// divides the last dimension, so that no vector straddles two rows.
    pub fn vector_width(&self, shape: &[i64], bits: i64) -> Result<VectorWidth> {
        Layout::check_element_bits(bits)?;
        self.check_shape_size(shape)?;
        let last = shape.last().copied().unwrap_or(1);
        let mut elements = 1;
        // Padding follows the elements of a row, so the padded layout decides for the valid part.
        let whole = self.padded_domain();
        while elements * 2 * bits <= 128
            && last % (elements * 2) == 0
            && self.size() > 0
            && whole.pack_elements(elements * 2).is_ok()
        {
            elements *= 2;
        }
        Ok(VectorWidth { elements, bits: elements * bits })
    }

    /// The number of distinct 32-byte sectors that each warp of an access touches.
    pub fn count_sectors(
        &self,
        shape: &[i64],
        bits: i64,
        access: &LaneAccessPattern,
        vector: i64,
    ) -> Result<Vec<usize>> {
        Layout::check_element_bits(bits)?;
        self.check_shape_size(shape)?;
        let lanes = access.lane_elements(shape, vector, bits)?;
        lanes
            .chunks(WARP)
            .map(|warp| {
                let mut sectors = BTreeSet::new();
                for flat in warp.iter().flatten() {
                    let start = self.bit_address(*flat, bits)?;
                    let last = (start + i128::from(bits) - 1) / (8 * SECTOR_BYTES);
                    sectors.extend(start / (8 * SECTOR_BYTES)..=last);
                }
                Ok(sectors.len())
            })
            .collect()
    }
}
