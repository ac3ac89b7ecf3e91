//! A block of a product: tiles of the left operand against panels of the right one.
//!
//! Both operands come as they are needed: a tile of at most [`DEPTH`] of the summed dimension, for
//! the rows of the block, and for each panel of columns the same depth. Nothing larger is unpacked, and a panel
//! that lies as it is needed is not unpacked at all where it is read once or holds the numbers themselves.

use super::micro::{Cell, DEPTH, Isa, multiply};
use std::ops::Range;
use zellige_float::{Format, PANEL_COLUMNS};

/// Some of the summed dimension: an operand knows what `at` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) at: usize,
    /// At most [`DEPTH`], but where it is joined of several.
    pub(crate) depth: usize,
}

/// Cuts a range of the summed dimension into tiles, in order.
pub(crate) fn tiles(range: Range<usize>) -> impl Iterator<Item = Tile> {
    let end = range.end;
    range.step_by(DEPTH).map(move |at| Tile { at, depth: DEPTH.min(end - at) })
}

impl Tile {
    /// The tiles that one deeper than [`DEPTH`] was joined of.
    fn tiles(self) -> impl Iterator<Item = Tile> {
        tiles(self.at..self.at + self.depth)
    }
}

/// What gives rows of the left operand.
pub(crate) trait Left<T> {
    /// Writes the tile of some rows, each [`DEPTH`] wide; past the tile's depth anything.
    fn fill(&self, tile: Tile, rows: Range<usize>, into: &mut [T]);
}

/// What gives columns of the right operand.
pub(crate) trait Right<T> {
    /// Writes the tile of a panel, depth by depth, each as wide as a panel; past the last column
    /// anything.
    fn fill(&self, tile: Tile, panel: usize, into: &mut [T]);

    /// The tile of a panel in memory, if it lies there as it would be written; of a deeper one than [`DEPTH`] too.
    fn stored(&self, _tile: Tile, _panel: usize) -> Option<Stored> {
        None
    }
}

/// A tile of a panel, depth by depth, each as wide as the panel, readable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) at: *const u8,
    pub(crate) format: Format,
}

/// A part of a product: rows, and panels of `width` columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) rows: Range<usize>,
    pub(crate) panels: Range<usize>,
    pub(crate) width: usize,
}

impl Block {
    /// Elements of its result.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() * self.panels.len() * self.width
    }
}

/// Numbers on a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line<T>([T; 16]);

/// Working memory that begins on a cache line.
#[derive(Debug)]
pub(crate) struct Scratch<T>(Vec<Line<T>>);

impl<T: Cell> Scratch<T> {
    pub(crate) fn new(len: usize) -> Scratch<T> {
        Scratch(vec![Line([T::ZERO; 16]); len.div_ceil(16)])
    }

    /// At least as many numbers as asked for.
    pub(crate) fn slice(&mut self) -> &mut [T] {
        // SAFETY: a line is 16 numbers of four bytes, as long as its alignment: there is no padding.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 16) }
    }
}

/// Working memory of a product.
#[derive(Debug)]
pub(crate) struct Packed<T> {
    left: Scratch<T>,
    right: Scratch<T>,
}

/// Tiles that one row takes at once, where its panels are multiplied as they are stored.
const LONG: usize = 64;

impl<T: Cell> Packed<T> {
    /// For blocks of at most so many rows, and panels of `width`.
    pub(crate) fn new(rows: usize, width: usize) -> Packed<T> {
        let tiles = if rows == 1 { LONG } else { 1 };
        Packed { left: Scratch::new(rows * tiles * DEPTH), right: Scratch::new(DEPTH * width) }
    }
}

/// The product of a block over some tiles, panel by panel, row by row.
///
/// **Law**: an element starts from zero and takes `fma(a, b, element)` for the tiles in order, and
/// within a tile in order.
pub(crate) fn product<T: Cell>(
    isa: Isa,
    left: &impl Left<T>,
    right: &impl Right<T>,
    tiles: impl Iterator<Item = Tile>,
    block: &Block,
    packed: &mut Packed<T>,
    c: &mut [T],
) {
    let (rows, width) = (block.rows.len(), block.width);
    let c = &mut c[..block.len()];
    c.fill(T::ZERO);
    assert!(width.is_multiple_of(32), "panels are 32 columns or a multiple");
    if rows == 0 {
        return;
    }
    let work = Multiply { isa, right, rows, width };
    let b = &mut packed.right.slice()[..DEPTH * width];
    let panels = || block.panels.clone();
    let mut tiles = tiles.peekable();
    while let Some(tile) = tiles.next() {
        assert!(tile.depth <= DEPTH, "tiles are at most {DEPTH} deep");
        let a = packed.left.slice();
        left.fill(tile, block.rows.clone(), &mut a[..rows * DEPTH]);
        if rows > 1 {
            for (panel, c) in panels().zip(c.chunks_exact_mut(rows * width)) {
                work.tile(tile, panel, &a[..rows * DEPTH], b, c);
            }
            continue;
        }
        // The tiles of one row that follow lie one after the other, so that they are one long tile.
        let mut all = tile;
        while let Some(next) = tiles.next_if(|next| {
            next.at == all.at + all.depth && all.depth.is_multiple_of(DEPTH) && all.depth < a.len()
        }) {
            left.fill(next, block.rows.clone(), &mut a[all.depth..all.depth + DEPTH]);
            all.depth += next.depth;
        }
        for (panel, c) in panels().zip(c.chunks_exact_mut(width)) {
            if work.row(all, panel, a, c) {
                continue;
            }
            for (tile, a) in all.tiles().zip(a.chunks_exact(DEPTH)) {
                work.tile(tile, panel, a, b, c);
            }
        }
    }
}

/// What the panels of a product have in common.
struct Multiply<'a, R> {
    isa: Isa,
    right: &'a R,
    rows: usize,
    width: usize,
}

impl<R> Multiply<'_, R> {
    /// Rows times a tile of a panel, which is unpacked to `b` unless it holds the numbers themselves.
    fn tile<T: Cell>(&self, tile: Tile, panel: usize, a: &[T], b: &mut [T], c: &mut [T])
    where
        R: Right<T>,
    {
        let b = match self.right.stored(tile, panel) {
            Some(Stored { at, format }) if format == T::FORMAT && at.cast::<T>().is_aligned() => {
                at.cast()
            }
            _ => {
                self.right.fill(tile, panel, b);
                b.as_ptr()
            }
        };
        assert!(a.len() >= self.rows * DEPTH && c.len() == self.rows * self.width, "whole rows");
        // SAFETY: `a` and `c` have these lengths, `b` is a tile, and the width was checked.
        unsafe {
            multiply(self.isa, self.rows, tile.depth, a.as_ptr(), b, self.width, c.as_mut_ptr());
        }
    }

    /// One row times a panel as it is stored, as deep as it may be; false where no kernel can.
    fn row<T: Cell>(&self, tile: Tile, panel: usize, a: &[T], c: &mut [T]) -> bool
    where
        R: Right<T>,
    {
        assert!(tile.depth <= a.len() && c.len() == self.width, "one row");
        let stored = self.right.stored(tile, panel).filter(|_| self.width == PANEL_COLUMNS);
        let kernel = stored.and_then(|b| T::row(self.isa, b.format).map(|run| (run, b.at)));
        // SAFETY: `a` is as long as the tile is deep, `c` as the panel is wide.
        kernel.is_some_and(|(run, b)| unsafe { run(tile.depth, a.as_ptr(), b, c.as_mut_ptr()) })
    }
}
