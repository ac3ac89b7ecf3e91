//! The complement: the layout of what a layout leaves out.

use crate::axis::Axis;
use crate::error::{Error, Result};
use crate::int::narrow;
use crate::layout::Layout;
use crate::tile::{Iter, TileLayout};

impl Layout {
    /// The layout `C` that fills what `self` leaves free below `cosize`.
    ///
    /// **Laws**: the strides of `C` fall from its first iter to its last; the places `L(i) + C(j)`
    /// are all distinct; and `size(L) * size(C) >= cosize`. Every iter of `C` but the outermost is
    /// as large as the gap that it fills.
    ///
    /// Two elements in one place, a backwards or broadcast iter, an offset, or strides that do not
    /// nest are errors.
    pub fn complement(&self, cosize: i64) -> Result<TileLayout> {
        self.unpadded("complement")?;
        if self.swizzle().is_some_and(|s| !s.is_identity()) {
            let help = "complement its tile layout: a swizzle permutes addresses and adds none";
            return Err(Error::Swizzled { op: "complement", help });
        }
        if cosize < 0 {
            let accepted = "a cosize is 0 or more".into();
            return Err(Error::BadParameter { what: "cosize", value: cosize, accepted });
        }
        let tile = self.tile();
        if tile.axes().iter().any(|a| *a != Axis::M) {
            return Err(Error::not_one_axis("complement", Axis::M, tile.axes()));
        }
        if let Some((a, b, place)) = self.clash()? {
            return Err(Error::Aliased { a, b, place: Box::new(place) });
        }
        if tile.offset_on(Axis::M) != 0 {
            return Err(Error::NotExpressible {
                reason: "an offset leaves room below the first element".into(),
                index: 0,
            });
        }
        let mut iters: Vec<Iter> = tile
            .shard()
            .iter()
            .chain(tile.replica())
            .filter(|it| it.extent != 1)
            .copied()
            .collect();
        iters.sort_by_key(|it| it.stride);
        let mut gaps: Vec<Iter> = Vec::new();
        let mut filled = 1i128;
        for it in iters {
            if it.extent == 0 {
                break;
            }
            let stride = i128::from(it.stride);
            if stride <= 0 || stride % filled != 0 {
                return Err(Error::NotExpressible {
                    reason: format!(
                        "stride {stride} is not a positive multiple of the {filled} places below it"
                    ),
                    index: narrow(filled, "an index")?,
                });
            }
            if stride > filled {
                let extent = narrow(stride / filled, "an extent")?;
                gaps.push(Iter::mem(extent, narrow(filled, "a stride")?));
            }
            filled = stride * i128::from(it.extent);
        }
        let rest = narrow((i128::from(cosize) + filled - 1) / filled, "an extent")?;
        if rest > 1 || gaps.is_empty() {
            gaps.push(Iter::mem(rest.max(1), narrow(filled, "a stride")?));
        }
        gaps.reverse();
        Ok(TileLayout::of(gaps)?.canonical())
    }
}
