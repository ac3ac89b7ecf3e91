//! Offset tables: a coordinate for every element, written in one pass.

use crate::axis::Axis;
use crate::error::{Error, Result};
use crate::layout::Layout;

/// Entries of the innermost block that is copied instead of computed.
const BLOCK: i64 = 1 << 12;

impl Layout {
    /// The coordinate on one axis of every element, in row-major order (first replica).
    ///
    /// **Law**: `offsets(a)[i]` is the coordinate of `D(i) + O` on `a`, swizzled on `m`.
    pub fn offsets(&self, axis: Axis) -> Result<Vec<i64>> {
        let size = usize::try_from(self.size()).map_err(|_| Error::overflow("the table"))?;
        let mut table = Vec::new();
        table
            .try_reserve_exact(size)
            .map_err(|_| Error::TooLarge { what: "an offset table", limit: u64::MAX })?;
        if let Some(w) = self.window() {
            let whole = |flat| {
                let places = self.tile().base(flat);
                self.tile().slot(axis).map_or(0, |i| places[i])
            };
            table.extend((0..self.size()).map(|i| whole(w.to_padded(i))));
        } else if size > 0 {
            self.fill(axis, &mut table);
        }
        if let Some(sw) = self.swizzle().filter(|s| axis == Axis::M && !s.is_identity()) {
            for entry in &mut table {
                *entry = sw.apply(*entry);
            }
        }
        Ok(table)
    }

    /// Digits grow the table from the inside out: the table of one more digit is the table so far,
    /// repeated with its stride added. Below [`BLOCK`] entries that happens in place; above, each
    /// block is written once, with the sum of the outer digits added.
    fn fill(&self, axis: Axis, table: &mut Vec<i64>) {
        let canonical = self.tile().canonical();
        let on_axis = |stride: i64, a: Axis| if a == axis { stride } else { 0 };
        let mut block = vec![self.tile().offset_on(axis)];
        let mut outer: Vec<(i64, i64)> = Vec::new();
        for it in canonical.shard().iter().rev() {
            let stride = on_axis(it.stride, it.axis);
            let len = i64::try_from(block.len()).unwrap_or(i64::MAX);
            let inside = (BLOCK / len).clamp(1, it.extent);
            // Grow the block by a divisor of this extent, so that whole blocks tile the rest.
            let take = (1..=inside).rev().find(|d| it.extent % d == 0).unwrap_or(1);
            if outer.is_empty() && (take == it.extent || take > 1) {
                let base = block.clone();
                for digit in 1..take {
                    block.extend(base.iter().map(|v| v + digit * stride));
                }
                if take < it.extent {
                    outer.push((it.extent / take, stride * take));
                }
            } else {
                outer.push((it.extent, stride));
            }
        }
        let mut digits = vec![0i64; outer.len()];
        let mut sum = 0;
        loop {
            table.extend(block.iter().map(|v| v + sum));
            let mut done = true;
            for (digit, (extent, stride)) in digits.iter_mut().zip(&outer) {
                *digit += 1;
                sum += stride;
                if *digit < *extent {
                    done = false;
                    break;
                }
                sum -= extent * stride;
                *digit = 0;
            }
            if done {
                return;
            }
        }
    }
}
