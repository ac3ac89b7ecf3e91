//! Valid extents inside padded ones: the box of a layout's padded domain that holds elements.

use crate::error::{LayoutError, Result};
use crate::int::{checked_product, row_major_strides};
use crate::tile::TileLayout;

/// One logical dimension: elements `begin .. begin + valid` of a padded extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PaddedExtent {
    /// First padded index that holds an element.
    pub begin: i64,
    /// How many hold elements.
    pub valid: i64,
    /// The padded extent.
    pub padded: i64,
}

impl PaddedExtent {
    /// A dimension without padding.
    pub fn without_padding(extent: i64) -> PaddedExtent {
        PaddedExtent { begin: 0, valid: extent, padded: extent }
    }

    /// The first `valid` of `padded`.
    pub fn padded_to(valid: i64, padded: i64) -> PaddedExtent {
        PaddedExtent { begin: 0, valid, padded }
    }
}

/// The valid box inside a padded shape.
///
/// A flat index is split over the valid extents, each coordinate moves up by `begin`, and the
/// result is flattened again over the padded extents, row-major. That gives the index at which
/// the tile layout is evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ValidWindow {
    dims: Vec<PaddedExtent>,
    size: i64,
    padded_size: i64,
}

impl ValidWindow {
    /// Checks `0 <= begin`, `0 <= valid`, `begin + valid <= padded` in every dimension.
    pub fn new(dims: Vec<PaddedExtent>) -> Result<ValidWindow> {
        for (dim, d) in dims.iter().enumerate() {
            if d.padded < 0 {
                return Err(LayoutError::NegativeExtent {
                    what: "dimension",
                    index: dim,
                    extent: d.padded,
                });
            }
            // Saturating, because the sum of two user numbers may overflow; a saturated end is
            // larger than any extent and refused.
            let end = d.begin.saturating_add(d.valid);
            if d.begin < 0 || d.valid < 0 || end > d.padded {
                return Err(LayoutError::RegionOutOfRange {
                    dim,
                    begin: d.begin,
                    end,
                    extent: d.padded,
                });
            }
        }
        let size = checked_product(dims.iter().map(|d| d.valid), "the number of valid elements")?;
        let padded_size =
            checked_product(dims.iter().map(|d| d.padded), "the number of padded elements")?;
        Ok(ValidWindow { dims, size, padded_size })
    }

    /// The dimensions, slowest first.
    pub fn dims(&self) -> &[PaddedExtent] {
        &self.dims
    }

    /// The number of valid elements.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// The number of padded elements.
    pub fn padded_size(&self) -> i64 {
        self.padded_size
    }

    /// The valid extents: the logical shape.
    pub fn shape(&self) -> Vec<i64> {
        self.dims.iter().map(|d| d.valid).collect()
    }

    /// The padded extents.
    pub fn padded_shape(&self) -> Vec<i64> {
        self.dims.iter().map(|d| d.padded).collect()
    }

    /// Whether every padded index is valid.
    pub fn is_full(&self) -> bool {
        self.dims.iter().all(|d| d.valid == d.padded)
    }

    /// The window as a layout: from a valid flat index to the padded one, on `m`.
    pub(crate) fn as_tile_layout(&self) -> Result<TileLayout> {
        let begin: Vec<i64> = self.dims.iter().map(|d| d.begin).collect();
        let weights = row_major_strides(&self.padded_shape())?;
        // Each `begin` is below its padded extent unless the window is empty, so the sum is an
        // index of the padded domain.
        let first = begin.iter().zip(&weights).map(|(b, w)| b * w).sum();
        TileLayout::from_strides(&self.shape(), &weights, first)
    }

    /// The padded flat index of a valid flat index inside `[0, size)`.
    pub(crate) fn padded_index_of(&self, flat: i64) -> i64 {
        let (mut rest, mut weight, mut out) = (flat, 1, 0);
        for d in self.dims.iter().rev() {
            out += (rest % d.valid + d.begin) * weight;
            rest /= d.valid;
            weight *= d.padded;
        }
        out
    }

    /// Whether `num` neighbours from a multiple of `num` on are the same in the padded domain: neighbours
    /// from a multiple of `num` on.
    pub(crate) fn keeps_groups_of(&self, num: i64) -> bool {
        // Dimensions without padding inside the first padded one make one run with it, in which
        // neighbours stay neighbours. Every other dimension starts a run anew, so one of its steps must
        // be whole groups.
        let (mut run, mut weight, mut first, mut inside) = (1i64, 1i64, 0i64, true);
        for d in self.dims.iter().rev() {
            if inside {
                run = run.saturating_mul(d.valid);
            } else if d.valid > 1 && weight % num != 0 {
                return false;
            }
            inside &= d.valid == d.padded;
            first = first.saturating_add(d.begin.saturating_mul(weight));
            weight = weight.saturating_mul(d.padded);
        }
        run % num == 0 && first % num == 0
    }

    /// The valid flat index of a padded one, or `None` where that is padding.
    pub fn valid_index_of(&self, padded: i64) -> Option<i64> {
        let (mut rest, mut weight, mut out) = (padded, 1, 0);
        for d in self.dims.iter().rev() {
            let c = rest % d.padded - d.begin;
            // One coordinate outside its valid range is enough: the window is a box.
            if !(0..d.valid).contains(&c) {
                return None;
            }
            out += c * weight;
            rest /= d.padded;
            weight *= d.valid;
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_map_valid_to_padded_and_back() {
        let dims = vec![
            PaddedExtent::padded_to(2, 3),
            PaddedExtent { begin: 1, valid: 3, padded: 5 },
            PaddedExtent::without_padding(2),
        ];
        let w = ValidWindow::new(dims).expect("well-formed");
        let mut flat = 0;
        for i in 0..2 {
            for j in 0..3 {
                for k in 0..2 {
                    let padded = i * 10 + (j + 1) * 2 + k;
                    assert_eq!(w.padded_index_of(flat), padded);
                    assert_eq!(w.valid_index_of(padded), Some(flat));
                    flat += 1;
                }
            }
        }
        assert_eq!((0..30).filter(|p| w.valid_index_of(*p).is_some()).count(), 12);
    }

    #[test]
    fn windows_are_checked() {
        for (begin, valid, padded) in
            [(-1, 1, 4), (0, 5, 4), (2, 3, 4), (0, -1, 4), (1, i64::MAX, 4)]
        {
            assert!(ValidWindow::new(vec![PaddedExtent { begin, valid, padded }]).is_err());
        }
        assert!(
            ValidWindow::new(vec![
                PaddedExtent::without_padding(1 << 40),
                PaddedExtent::without_padding(1 << 40)
            ])
            .is_err()
        );
        assert_eq!(
            ValidWindow::new(vec![PaddedExtent::without_padding(0)]).map(|w| w.size()),
            Ok(0)
        );
    }
}
