//! A block of a product: tiles of the left operand against panels of the right one.
//!
//! Both operands are unpacked when they are needed: a tile of at most [`DEPTH`] of the summed dimension, for
//! the rows of the block, and for each panel of columns the same depth. Nothing larger is unpacked, and a panel
//! that is stored as it is needed is not unpacked at all where it is read once or holds the numbers themselves.

use super::micro::{DEPTH, Isa, ProductNumber, multiply_panel};
use std::ops::Range;
use zellige_float::{Format, PANEL_COLUMNS};

/// A part of the summed dimension. What `at` counts is up to the operands: elements, or the number of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DepthTile {
    pub(crate) at: usize,
    /// At most [`DEPTH`], unless it was joined from several tiles.
    pub(crate) depth: usize,
}

/// Cuts a range of the summed dimension into tiles, in order.
pub(crate) fn cut_tiles(range: Range<usize>) -> impl Iterator<Item = DepthTile> {
    let end = range.end;
    range.step_by(DEPTH).map(move |at| DepthTile { at, depth: DEPTH.min(end - at) })
}

impl DepthTile {
    /// The tiles from which one deeper than [`DEPTH`] was joined.
    fn split_tile(self) -> impl Iterator<Item = DepthTile> {
        cut_tiles(self.at..self.at + self.depth)
    }
}

/// What gives rows of the left operand.
pub(crate) trait LeftOperand<T> {
    /// Writes the tile of some rows, each [`DEPTH`] wide; past the tile's depth anything.
    fn fill_tile(&self, tile: DepthTile, rows: Range<usize>, into: &mut [T]);
}

/// What gives columns of the right operand.
pub(crate) trait RightOperand<T> {
    /// Writes the tile of a panel, depth by depth, each as wide as a panel; past the last column
    /// anything.
    fn fill_tile(&self, tile: DepthTile, panel: usize, into: &mut [T]);

    /// The tile of a panel in memory, if it is stored there as it would be written; of a deeper one than [`DEPTH`] too.
    fn stored_panel(&self, _tile: DepthTile, _panel: usize) -> Option<StoredPanel> {
        None
    }
}

/// A tile of a panel, depth by depth, each as wide as the panel, readable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredPanel {
    pub(crate) at: *const u8,
    pub(crate) format: Format,
}

/// A part of a product: rows, and panels of `width` columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProductBlock {
    pub(crate) rows: Range<usize>,
    pub(crate) panels: Range<usize>,
    pub(crate) width: usize,
}

impl ProductBlock {
    /// Elements of its result.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() * self.panels.len() * self.width
    }
}

/// Numbers on a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct CacheLine<T>([T; 16]);

/// Working memory that begins on a cache line.
#[derive(Debug)]
pub(crate) struct TileScratch<T>(Vec<CacheLine<T>>);

impl<T: ProductNumber> TileScratch<T> {
    pub(crate) fn new(len: usize) -> TileScratch<T> {
        TileScratch(vec![CacheLine([T::ZERO; 16]); len.div_ceil(16)])
    }

    /// All numbers, of which there are at least as many as were requested.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: a line is 16 numbers of four or eight bytes, a multiple of its alignment: there is no padding.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 16) }
    }
}

/// Working memory of a product.
#[derive(Debug)]
pub(crate) struct PackedOperands<T> {
    left: TileScratch<T>,
    right: TileScratch<T>,
}

/// Tiles that one row takes at once, where its panels are multiplied as they are stored.
const MAX_TILES_OF_ROW: usize = 64;

impl<T: ProductNumber> PackedOperands<T> {
    /// For blocks of at most so many rows, and panels of `width`.
    pub(crate) fn new(rows: usize, width: usize) -> PackedOperands<T> {
        // One row is unpacked whole, so that a panel is read from end to end; more rows would not fit into the
        // first-level cache so deep.
        let tiles = if rows == 1 { MAX_TILES_OF_ROW } else { 1 };
        PackedOperands {
            left: TileScratch::new(rows * tiles * DEPTH),
            right: TileScratch::new(DEPTH * width),
        }
    }
}

/// The product of a block over some tiles, panel by panel, row by row.
///
/// **Law**: an element starts from zero and takes `fma(a, b, element)` for the tiles in order, and
/// within a tile in order.
pub(crate) fn multiply_block<T: ProductNumber>(
    isa: Isa,
    left: &impl LeftOperand<T>,
    right: &impl RightOperand<T>,
    tiles: impl Iterator<Item = DepthTile>,
    block: &ProductBlock,
    packed: &mut PackedOperands<T>,
    c: &mut [T],
) {
    let (rows, width) = (block.rows.len(), block.width);
    let c = &mut c[..block.len()];
    // The sum starts from +0.0 and is not copied from the first product, because -0.0 plus +0.0 is +0.0 by the law
    // above.
    c.fill(T::ZERO);
    // The kernels of every instruction set take strips of 16, 32 or 64 columns without a remainder.
    assert!(width.is_multiple_of(32), "panels are 32 columns or a multiple");
    if rows == 0 {
        return;
    }
    let work = PanelMultiplier { isa, right, rows, width };
    let b = &mut packed.right.as_mut_slice()[..DEPTH * width];
    let panels = || block.panels.clone();
    let mut tiles = tiles.peekable();
    while let Some(tile) = tiles.next() {
        assert!(tile.depth <= DEPTH, "tiles are at most {DEPTH} deep");
        let a = packed.left.as_mut_slice();
        left.fill_tile(tile, block.rows.clone(), &mut a[..rows * DEPTH]);
        // Several rows use every unpacked panel several times, which pays for unpacking it. One row would only pay
        // for it: see below.
        if rows > 1 {
            for (panel, c) in panels().zip(c.chunks_exact_mut(rows * width)) {
                work.multiply_tile(tile, panel, &a[..rows * DEPTH], b, c);
            }
            continue;
        }
        // The further tiles of one row are adjacent, so that they are one long tile.
        let mut all = tile;
        while let Some(next) = tiles.next_if(|next| {
            next.at == all.at + all.depth && all.depth.is_multiple_of(DEPTH) && all.depth < a.len()
        }) {
            left.fill_tile(next, block.rows.clone(), &mut a[all.depth..all.depth + DEPTH]);
            all.depth += next.depth;
        }
        for (panel, c) in panels().zip(c.chunks_exact_mut(width)) {
            // A panel with a code that the kernel does not read (an infinity or a NaN of DL16) leaves the sums
            // unchanged, and is multiplied tile by tile.
            if work.multiply_row(all, panel, a, c) {
                continue;
            }
            for (tile, a) in all.split_tile().zip(a.chunks_exact(DEPTH)) {
                work.multiply_tile(tile, panel, a, b, c);
            }
        }
    }
}

/// What the panels of a product have in common.
struct PanelMultiplier<'a, R> {
    isa: Isa,
    right: &'a R,
    rows: usize,
    width: usize,
}

impl<R> PanelMultiplier<'_, R> {
    /// Rows times a tile of a panel, which is unpacked to `b` unless it holds the numbers themselves.
    fn multiply_tile<T: ProductNumber>(
        &self,
        tile: DepthTile,
        panel: usize,
        a: &[T],
        b: &mut [T],
        c: &mut [T],
    ) where
        R: RightOperand<T>,
    {
        let b = match self.right.stored_panel(tile, panel) {
            Some(StoredPanel { at, format })
                // Numbers that are stored as they are computed with need no copy; the kernels read whole numbers,
                // which have to be aligned.
                if format == T::FORMAT && at.cast::<T>().is_aligned() =>
            {
                at.cast()
            }
            _ => {
                self.right.fill_tile(tile, panel, b);
                b.as_ptr()
            }
        };
        assert!(a.len() >= self.rows * DEPTH && c.len() == self.rows * self.width, "whole rows");
        // SAFETY: `a` and `c` have these lengths, `b` is a tile, and the width was checked.
        unsafe {
            multiply_panel(
                self.isa,
                self.rows,
                tile.depth,
                a.as_ptr(),
                b,
                self.width,
                c.as_mut_ptr(),
            );
        }
    }

    /// One row times a panel as it is stored, as deep as it may be; false where no kernel can.
    fn multiply_row<T: ProductNumber>(
        &self,
        tile: DepthTile,
        panel: usize,
        a: &[T],
        c: &mut [T],
    ) -> bool
    where
        R: RightOperand<T>,
    {
        assert!(tile.depth <= a.len() && c.len() == self.width, "one row");
        // Row kernels are written for panels of one width, that of a stick of 16-bit elements.
        let stored = self.right.stored_panel(tile, panel).filter(|_| self.width == PANEL_COLUMNS);
        let kernel = stored.and_then(|b| T::row_kernel(self.isa, b.format).map(|run| (run, b.at)));
        // SAFETY: `a` is as long as the tile is deep, `c` as the panel is wide.
        kernel.is_some_and(|(run, b)| unsafe { run(tile.depth, a.as_ptr(), b, c.as_mut_ptr()) })
    }
}
