//! Vector width and coalescing.

use crate::analysis::access::{LaneAccessPattern, WARP};
use crate::error::Result;
use crate::layout::Layout;
use std::collections::BTreeSet;

/// Bytes of a sector, the smallest unit of a global memory transaction on CUDA hardware.
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
    /// divides the last dimension, so that no vector straddles two rows. With padding, the test is made on
    /// the layout of the valid elements alone. If no iters are that layout, every vector must also be one
    /// of the padded layout, which may give a smaller width than the largest possible one.
    pub fn vector_width(&self, shape: &[i64], bits: i64) -> Result<VectorWidth> {
        Layout::check_element_bits(bits)?;
        self.check_shape_size(shape)?;
        let last = shape.last().copied().unwrap_or(1);
        let mut elements = 1;
        // Packing is not defined on a window, whose rows may begin anywhere in the padded ones.
        let whole = self.padded_domain();
        let valid = self.window().map(|w| {
            let all: Vec<(i64, i64)> = w.shape().iter().map(|n| (0, *n)).collect();
            self.slice_region(&w.shape(), &all).ok()
        });
        let packs = |num: i64| match (&valid, self.window()) {
            (Some(Some(plain)), _) => plain.pack_elements(num).is_ok(),
            (_, Some(w)) => w.keeps_groups_of(num) && whole.pack_elements(num).is_ok(),
            _ => whole.pack_elements(num).is_ok(),
        };
        while elements * 2 * bits <= 128
            && last % (elements * 2) == 0
            && self.size() > 0
            && packs(elements * 2)
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
