//! Matrices in sticks as operands and results of a product.

use super::super::io::{ElementLoader, ElementStorer};
use super::axis::{MatrixAxis, MatrixLines, for_adjacent_lines};
use super::engine::{DepthTile, LeftOperand, ProductBlock, RightOperand, StoredPanel};
use super::micro::{DEPTH, ProductNumber};
use std::ops::Range;

/// The left operand: rows at any places, each along the summed dimension.
#[derive(Debug)]
pub(crate) struct SticksLeft<'a, T> {
    pub(crate) load: &'a ElementLoader<T>,
    /// Its block, readable wherever rows and depth lead.
    pub(crate) base: *const u8,
    pub(crate) start: usize,
    pub(crate) rows: &'a MatrixLines,
    pub(crate) depth: MatrixAxis,
}

impl<T: ProductNumber> LeftOperand<T> for SticksLeft<'_, T> {
    fn fill_tile(&self, tile: DepthTile, rows: Range<usize>, into: &mut [T]) {
        // The common case of a product with one row, without the list of places that several rows need.
        if rows.len() == 1 && self.depth.begins_stick(tile.at, DEPTH) {
            let at =
                self.start + self.rows.line_offset(rows.start) + self.depth.element_offset(tile.at);
            // SAFETY: a whole stick of the tensor, of which lanes past the depth are never used.
            return unsafe { self.load.load_adjacent(self.base, at, &mut into[..DEPTH]) };
        }
        // Places of all rows at once: rows that follow each other in memory are found by comparing neighbours.
        let places = self.rows.line_offsets(self.start, rows);
        if self.depth.begins_stick(tile.at, DEPTH) {
            // A stick is a row of the tile; rows that follow each other are read at once. The lanes
            // past the depth are read too and never used.
            let at = self.depth.element_offset(tile.at);
            for_adjacent_lines(&places, DEPTH, |first, count| {
                let into = &mut into[first * DEPTH..(first + count) * DEPTH];
                // SAFETY: whole sticks of the tensor.
                unsafe { self.load.load_adjacent(self.base, places[first] + at, into) };
            });
            return;
        }
        for (place, into) in places.iter().zip(into.chunks_exact_mut(DEPTH)) {
            self.depth.for_each_piece(tile.at..tile.at + tile.depth, |k, at, count| {
                let into = &mut into[k - tile.at..][..count];
                // SAFETY: elements of the tensor.
                unsafe { self.load.load_adjacent(self.base, place + at, into) };
            });
        }
    }
}

/// The right operand, along its columns or along the summed dimension.
#[derive(Debug)]
pub(crate) struct SticksRight<'a, T> {
    pub(crate) load: &'a ElementLoader<T>,
    /// Its block, readable wherever columns and depth lead.
    pub(crate) base: *const u8,
    pub(crate) start: usize,
    pub(crate) depth: MatrixAxis,
    pub(crate) columns: MatrixAxis,
    /// Columns of a panel.
    pub(crate) width: usize,
}

impl<T: ProductNumber> RightOperand<T> for SticksRight<'_, T> {
    fn fill_tile(&self, tile: DepthTile, panel: usize, into: &mut [T]) {
        let first = panel * self.width;
        let columns = first..(first + self.width).min(self.columns.size);
        // Its lanes run along the summed dimension (a transposed matrix, or a single column): columns are read as
        // they are stored and written across.
        if self.depth.eps > 1 {
            return self.transpose_columns(tile, columns, into);
        }
        if let Some(at) = self.adjacent_offset(tile, panel) {
            let into = &mut into[..tile.depth * self.width];
            // SAFETY: whole sticks of the tensor, one depth after the other.
            unsafe { self.load.load_adjacent(self.base, at, into) };
            return;
        }
        let start = self.start + self.depth.element_offset(tile.at);
        for (p, into) in into.chunks_exact_mut(self.width).take(tile.depth).enumerate() {
            let start = start + p * self.depth.stride;
            self.columns.for_each_piece(columns.clone(), |x, at, count| {
                let into = &mut into[x - first..][..count];
                // SAFETY: elements of the tensor.
                unsafe { self.load.load_adjacent(self.base, start + at, into) };
            });
        }
    }

    fn stored_panel(&self, tile: DepthTile, panel: usize) -> Option<StoredPanel> {
        let format = self.load.format();
        let at = self.adjacent_offset(tile, panel)?;
        // SAFETY: an element of the tensor.
        Some(StoredPanel { at: unsafe { self.base.add(at * format.byte_size()) }, format })
    }
}

impl<T: ProductNumber> SticksRight<'_, T> {
    /// Where a tile of a panel begins, if it is whole sticks, one depth after the other.
    fn adjacent_offset(&self, tile: DepthTile, panel: usize) -> Option<usize> {
        let first = panel * self.width;
        let whole = self.depth.eps == 1 && self.columns.begins_stick(first, self.width);
        (whole && self.depth.stride == self.width).then(|| {
            self.start + self.depth.element_offset(tile.at) + self.columns.element_offset(first)
        })
    }

    /// Reads columns that run along the summed dimension, and transposes them.
    fn transpose_columns(&self, tile: DepthTile, columns: Range<usize>, into: &mut [T]) {
        let first = columns.start;
        // One column at a time through the first-level cache, because a conversion takes adjacent elements only.
        let mut column = [T::ZERO; DEPTH];
        for x in columns {
            let start = self.start + self.columns.element_offset(x);
            self.depth.for_each_piece(tile.at..tile.at + tile.depth, |k, at, count| {
                let column = &mut column[k - tile.at..][..count];
                // SAFETY: elements of the tensor.
                unsafe { self.load.load_adjacent(self.base, start + at, column) };
            });
            let rows = into.chunks_exact_mut(self.width).zip(&column);
            rows.take(tile.depth).for_each(|(row, value)| row[x - first] = *value);
        }
    }
}

/// Where a result is written.
#[derive(Debug)]
pub(crate) struct ResultSink<'a, T> {
    pub(crate) store: &'a ElementStorer<T>,
    /// Its block, writable wherever rows and columns lead.
    pub(crate) base: *mut u8,
    pub(crate) start: usize,
    pub(crate) rows: &'a MatrixLines,
    pub(crate) columns: MatrixAxis,
}

impl<T: ProductNumber> ResultSink<'_, T> {
    /// Writes a block; no lane past the last column is touched.
    pub(crate) fn write_block(&self, block: &ProductBlock, c: &[T]) {
        let places = self.rows.line_offsets(self.start, block.rows.clone());
        let width = block.width;
        for (panel, c) in block.panels.clone().zip(c.chunks_exact(places.len() * width)) {
            let first = panel * width;
            let end = (first + width).min(self.columns.size);
            // A whole stick of every row: rows that follow each other are one store.
            if self.columns.begins_stick(first, width) && end - first == width {
                let at = self.columns.element_offset(first);
                for_adjacent_lines(&places, width, |row, count| {
                    let from = &c[row * width..(row + count) * width];
                    // SAFETY: whole sticks of the result.
                    unsafe { self.store.store_adjacent(self.base, places[row] + at, from) };
                });
                continue;
            }
            for (place, from) in places.iter().zip(c.chunks_exact(width)) {
                self.columns.for_each_piece(first..end, |x, at, count| {
                    // SAFETY: elements of the result.
                    unsafe {
                        self.store.store_adjacent(
                            self.base,
                            place + at,
                            &from[x - first..][..count],
                        );
                    };
                });
            }
        }
    }
}
