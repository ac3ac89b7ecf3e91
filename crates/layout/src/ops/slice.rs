//! Slices: the layout of a sub-box.

use crate::error::{Error, Result};
use crate::int::row_major;
use crate::layout::{Layout, flatten};
use crate::proof::compose_tiles;
use crate::tile::TileLayout;
use crate::window::{Extent, Window};

impl Layout {
    /// The layout of the sub-box `region` (one `[begin, end)` per dimension of `shape`), with the
    /// base moved into the offset.
    ///
    /// **Law**: `slice(L, r)(y) = L(r.begin + y)`.
    ///
    /// Taking a box is composing with the strided walk over it, so the result is exact wherever
    /// iters can express it, and otherwise [`Error::NotExpressible`] with an index of the box that
    /// proves it. [`Layout::slice_window`] then still gives the exact general form.
    pub fn slice(&self, shape: &[i64], region: &[(i64, i64)]) -> Result<Layout> {
        let dims = self.sliced_dims(shape, region)?;
        let padded: Vec<i64> = dims.iter().map(|d| d.padded).collect();
        let size: Vec<i64> = dims.iter().map(|d| d.valid).collect();
        if size.contains(&0) {
            let zeros = vec![0; size.len()];
            let empty = TileLayout::strided(&size, &zeros, 0)?;
            return self.with_tile(empty);
        }
        let begin: Vec<i64> = dims.iter().map(|d| d.begin).collect();
        let walk = TileLayout::strided(&size, &row_major(&padded)?, flatten(&padded, &begin)?)?;
        let tile = compose_tiles(self.tile(), &walk)?;
        // Where the box has unit dimensions or fused ones, split again so that the iters follow it.
        let tile = tile.group(&size).map(|(t, _)| t).unwrap_or(tile);
        self.with_tile(tile)
    }

    /// The sub-box as a window: always exact, the padding around it being the rest of the layout.
    pub fn slice_window(&self, shape: &[i64], region: &[(i64, i64)]) -> Result<Layout> {
        let dims = self.sliced_dims(shape, region)?;
        self.padded().with_window(Window::new(dims)?)
    }

    fn sliced_dims(&self, shape: &[i64], region: &[(i64, i64)]) -> Result<Vec<Extent>> {
        self.admit(shape)?;
        if region.len() != shape.len() {
            return Err(Error::LengthMismatch {
                what: "the region",
                expected: shape.len(),
                found: region.len(),
            });
        }
        for (dim, ((begin, end), extent)) in region.iter().zip(shape).enumerate() {
            if *begin < 0 || begin > end || end > extent {
                let (begin, end, extent) = (*begin, *end, *extent);
                return Err(Error::RegionOutOfRange { dim, begin, end, extent });
            }
        }
        let dims = self.window_over(shape);
        if dims.iter().map(|d| d.valid).ne(shape.iter().copied()) {
            let valid: Vec<i64> = dims.iter().map(|d| d.valid).collect();
            return Err(Error::NotExpressible {
                reason: format!("a layout with padding is sliced by its own dimensions {valid:?}"),
                index: 0,
            });
        }
        Ok(dims
            .iter()
            .zip(region)
            .map(|(d, (b, e))| Extent { begin: d.begin + b, valid: e - b, padded: d.padded })
            .collect())
    }
}
