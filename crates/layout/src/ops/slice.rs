//! Slices: the layout of a sub-box.

use crate::error::{LayoutError, Result};
use crate::int::row_major_strides;
use crate::layout::{Layout, flatten_coordinate};
use crate::proof::{compose_through, compose_tiles, refine_extents};
use crate::tile::TileLayout;
use crate::window::{PaddedExtent, ValidWindow};

impl Layout {
    /// The layout of the sub-box `region` (one `[begin, end)` per dimension of `shape`), with the
    /// base moved into the offset.
    ///
    /// **Law**: with `S` the result and `begin` the lower corner of the region, `S(y) = L(begin + y)`.
    ///
    /// A slice is the composition with the strided layout of the box, so the result is exact wherever iters
    /// can express it, and otherwise [`LayoutError::NotExpressible`] with an index of the box that proves
    /// it. [`Layout::slice_as_window`] then mostly gives the exact general form.
    pub fn slice_region(&self, shape: &[i64], region: &[(i64, i64)]) -> Result<Layout> {
        self.check_region(shape, region)?;
        let size: Vec<i64> = region.iter().map(|(b, e)| e - b).collect();
        if size.contains(&0) {
            let zeros = vec![0; size.len()];
            let empty = TileLayout::from_strides(&size, &zeros, 0)?;
            return self.with_tile_layout(empty);
        }
        let begin: Vec<i64> = region.iter().map(|(b, _)| *b).collect();
        let walk = match self.window().filter(|w| w.shape() == shape) {
            // With the window's own shape, the box is also a box of the padded shape.
            Some(w) => {
                let first: Vec<i64> =
                    w.dims().iter().zip(&begin).map(|(d, b)| d.begin + b).collect();
                let padded = w.padded_shape();
                TileLayout::from_strides(
                    &size,
                    &row_major_strides(&padded)?,
                    flatten_coordinate(&padded, &first)?,
                )?
            }
            None => TileLayout::from_strides(
                &size,
                &row_major_strides(shape)?,
                flatten_coordinate(shape, &begin)?,
            )?,
        };
        let tile = match self.window().filter(|w| w.shape() != shape) {
            // In another shape the box passes through the window first, and that step alone need
            // not be a layout although the whole composition may be.
            Some(w) => compose_through(self.tile(), &w.as_tile_layout()?, &walk)?,
            None => compose_tiles(self.tile(), &walk)?,
        };
        // The composition drops unit dimensions and fuses others. Callers expect iters that follow the
        // dimensions of the box, so they are split again where that is possible.
        let tile = tile.group(&size).map(|(t, _)| t).unwrap_or(tile);
        self.with_tile_layout(tile)
    }

    /// The sub-box as a window: the rest of the layout becomes padding around it.
    ///
    /// Always exact where `shape` is that of the layout's own window, if it has one. In another shape
    /// the region must be a box of the window's dimensions, or of parts of them.
    pub fn slice_as_window(&self, shape: &[i64], region: &[(i64, i64)]) -> Result<Layout> {
        self.check_region(shape, region)?;
        let window = self.window_or_trivial(shape);
        let dims = if window.iter().map(|d| d.valid).eq(shape.iter().copied()) {
            let inside = |(d, (b, e)): (&PaddedExtent, &(i64, i64))| PaddedExtent {
                begin: d.begin + b,
                valid: e - b,
                padded: d.padded,
            };
            window.iter().zip(region).map(inside).collect()
        } else if region.iter().any(|(b, e)| b == e) {
            window.iter().map(|d| PaddedExtent { valid: 0, ..*d }).collect()
        } else {
            split_window(&window, shape, region)?
        };
        self.padded_domain().with_window(ValidWindow::new(dims)?)
    }

    fn check_region(&self, shape: &[i64], region: &[(i64, i64)]) -> Result<()> {
        self.check_shape_size(shape)?;
        if region.len() != shape.len() {
            return Err(LayoutError::LengthMismatch {
                what: "the region",
                expected: shape.len(),
                found: region.len(),
            });
        }
        for (dim, ((begin, end), extent)) in region.iter().zip(shape).enumerate() {
            if *begin < 0 || begin > end || end > extent {
                let (begin, end, extent) = (*begin, *end, *extent);
                return Err(LayoutError::RegionOutOfRange { dim, begin, end, extent });
            }
        }
        Ok(())
    }
}

/// A window and a region of another shape, both split over the boundaries of the two shapes.
fn split_window(
    window: &[PaddedExtent],
    shape: &[i64],
    region: &[(i64, i64)],
) -> Result<Vec<PaddedExtent>> {
    let valid: Vec<i64> = window.iter().map(|d| d.valid).collect();
    let refuse = |dim: usize| LayoutError::Undecided {
        reason: format!(
            "whether a window is the region {region:?} of {shape:?}: its dimension {dim} is not a box of \
             the valid extents {valid:?}"
        ),
    };
    let extents = refine_extents(&[shape.to_vec(), valid.clone()]).map_err(|_| refuse(0))?;
    // Per refined extent, fastest first: the part of the region that it spans.
    let mut parts = extents.iter().rev();
    let mut ranges: Vec<(i64, i64, i64)> = Vec::new();
    for (dim, ((begin, end), extent)) in region.iter().zip(shape).enumerate().rev() {
        let (mut first, mut last, mut left) = (*begin, end - 1, *extent);
        while left > 1 {
            let e = parts.next().copied().ok_or_else(|| refuse(dim))?;
            let (a, b) = (first % e, last % e);
            // If the outer digit changes within the region, the inner one takes all its values in between,
            // so the region is a box only if it takes all of them everywhere.
            if first / e != last / e && (a, b) != (0, e - 1) {
                return Err(refuse(dim));
            }
            ranges.push((e, a, b + 1));
            (first, last, left) = (first / e, last / e, left / e);
        }
    }
    let mut ranges = ranges.into_iter();
    let mut dims = Vec::new();
    for (dim, d) in window.iter().enumerate().rev() {
        let mut rest = *d;
        while rest.valid > 1 {
            let (e, begin, end) = ranges.next().ok_or_else(|| refuse(dim))?;
            if e == rest.valid {
                dims.push(PaddedExtent {
                    begin: rest.begin + begin,
                    valid: end - begin,
                    padded: rest.padded,
                });
                rest = PaddedExtent::without_padding(1);
                continue;
            }
            if rest.begin % e != 0 || rest.padded % e != 0 {
                return Err(refuse(dim));
            }
            dims.push(PaddedExtent { begin, valid: end - begin, padded: e });
            rest = PaddedExtent {
                begin: rest.begin / e,
                valid: rest.valid / e,
                padded: rest.padded / e,
            };
        }
        if rest.padded != 1 {
            dims.push(rest);
        }
    }
    dims.reverse();
    Ok(dims)
}
