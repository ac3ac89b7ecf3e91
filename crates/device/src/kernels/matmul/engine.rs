//! A block of a product: tiles of the left operand against panels of the right one.
//!
//! Both operands come as they are needed: a tile of at most [`DEPTH`] of the summed dimension, for
//! the rows of the block, and for each panel of columns the same depth. Nothing larger is unpacked.

use super::micro::{Cell, DEPTH, Isa, multiply};
use std::ops::Range;

/// Some of the summed dimension: an operand knows what `at` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) at: usize,
    /// At most [`DEPTH`].
    pub(crate) depth: usize,
}

/// Cuts a range of the summed dimension into tiles, in order.
pub(crate) fn tiles(range: Range<usize>) -> impl Iterator<Item = Tile> {
    let end = range.end;
    range.step_by(DEPTH).map(move |at| Tile { at, depth: DEPTH.min(end - at) })
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

impl<T: Cell> Packed<T> {
    /// For blocks of at most so many rows, and panels of `width`.
    pub(crate) fn new(rows: usize, width: usize) -> Packed<T> {
        Packed { left: Scratch::new(rows * DEPTH), right: Scratch::new(DEPTH * width) }
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
    let a = &mut packed.left.slice()[..rows * DEPTH];
    let b = &mut packed.right.slice()[..DEPTH * width];
    assert!(width.is_multiple_of(32), "panels are 32 columns or a multiple");
    if rows == 0 {
        return;
    }
    for tile in tiles {
        assert!(tile.depth <= DEPTH, "tiles are at most {DEPTH} deep");
        left.fill(tile, block.rows.clone(), a);
        for (panel, c) in block.panels.clone().zip(c.chunks_exact_mut(rows * width)) {
            right.fill(tile, panel, b);
            // SAFETY: `a`, `b` and `c` have these lengths, and the width was checked.
            unsafe {
                multiply(isa, rows, tile.depth, a.as_ptr(), b.as_ptr(), width, c.as_mut_ptr());
            }
        }
    }
}
