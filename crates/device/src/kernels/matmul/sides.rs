//! Matrices in sticks as operands and results of a product.

use super::super::io::{Load, Store};
use super::axis::{Axis, Lines, runs};
use super::engine::{Block, Left, Right, Stored, Tile};
use super::micro::{Cell, DEPTH};
use std::ops::Range;

/// The left operand: rows that lie anywhere, each along the summed dimension.
#[derive(Debug)]
pub(crate) struct SticksLeft<'a, T> {
    pub(crate) load: &'a Load<T>,
    /// Its block, readable wherever rows and depth lead.
    pub(crate) base: *const u8,
    pub(crate) start: usize,
    pub(crate) rows: &'a Lines,
    pub(crate) depth: Axis,
}

impl<T: Cell> Left<T> for SticksLeft<'_, T> {
    fn fill(&self, tile: Tile, rows: Range<usize>, into: &mut [T]) {
        if rows.len() == 1 && self.depth.is_whole(tile.at, DEPTH) {
            let at = self.start + self.rows.place(rows.start) + self.depth.place(tile.at);
            // SAFETY: a whole stick of the tensor, of which lanes past the depth are never used.
            return unsafe { self.load.run(self.base, at, &mut into[..DEPTH]) };
        }
        let places = self.rows.places(self.start, rows);
        if self.depth.is_whole(tile.at, DEPTH) {
            // A stick is a row of the tile; rows that follow each other are read at once. The lanes
            // past the depth are read too and never used.
            let at = self.depth.place(tile.at);
            runs(&places, DEPTH, |first, count| {
                let into = &mut into[first * DEPTH..(first + count) * DEPTH];
                // SAFETY: whole sticks of the tensor.
                unsafe { self.load.run(self.base, places[first] + at, into) };
            });
            return;
        }
        for (place, into) in places.iter().zip(into.chunks_exact_mut(DEPTH)) {
            self.depth.pieces(tile.at..tile.at + tile.depth, |k, at, count| {
                let into = &mut into[k - tile.at..][..count];
                // SAFETY: elements of the tensor.
                unsafe { self.load.run(self.base, place + at, into) };
            });
        }
    }
}

/// The right operand, along its columns or along the summed dimension.
#[derive(Debug)]
pub(crate) struct SticksRight<'a, T> {
    pub(crate) load: &'a Load<T>,
    /// Its block, readable wherever columns and depth lead.
    pub(crate) base: *const u8,
    pub(crate) start: usize,
    pub(crate) depth: Axis,
    pub(crate) columns: Axis,
    /// Columns of a panel.
    pub(crate) width: usize,
}

impl<T: Cell> Right<T> for SticksRight<'_, T> {
    fn fill(&self, tile: Tile, panel: usize, into: &mut [T]) {
        let first = panel * self.width;
        let columns = first..(first + self.width).min(self.columns.size);
        if self.depth.eps > 1 {
            return self.turned(tile, columns, into);
        }
        if let Some(at) = self.in_line(tile, panel) {
            let into = &mut into[..tile.depth * self.width];
            // SAFETY: whole sticks of the tensor, one depth after the other.
            unsafe { self.load.run(self.base, at, into) };
            return;
        }
        let start = self.start + self.depth.place(tile.at);
        for (p, into) in into.chunks_exact_mut(self.width).take(tile.depth).enumerate() {
            let start = start + p * self.depth.stride;
            self.columns.pieces(columns.clone(), |x, at, count| {
                let into = &mut into[x - first..][..count];
                // SAFETY: elements of the tensor.
                unsafe { self.load.run(self.base, start + at, into) };
            });
        }
    }

    fn stored(&self, tile: Tile, panel: usize) -> Option<Stored> {
        let format = self.load.format();
        let at = self.in_line(tile, panel)?;
        // SAFETY: an element of the tensor.
        Some(Stored { at: unsafe { self.base.add(at * format.byte_size()) }, format })
    }
}

impl<T: Cell> SticksRight<'_, T> {
    /// Where a tile of a panel begins, if it is whole sticks, one depth after the other.
    fn in_line(&self, tile: Tile, panel: usize) -> Option<usize> {
        let first = panel * self.width;
        let whole = self.depth.eps == 1 && self.columns.is_whole(first, self.width);
        (whole && self.depth.stride == self.width)
            .then(|| self.start + self.depth.place(tile.at) + self.columns.place(first))
    }

    /// Reads columns that lie along the summed dimension, and turns them.
    fn turned(&self, tile: Tile, columns: Range<usize>, into: &mut [T]) {
        let first = columns.start;
        let mut column = [T::ZERO; DEPTH];
        for x in columns {
            let start = self.start + self.columns.place(x);
            self.depth.pieces(tile.at..tile.at + tile.depth, |k, at, count| {
                let column = &mut column[k - tile.at..][..count];
                // SAFETY: elements of the tensor.
                unsafe { self.load.run(self.base, start + at, column) };
            });
            let rows = into.chunks_exact_mut(self.width).zip(&column);
            rows.take(tile.depth).for_each(|(row, value)| row[x - first] = *value);
        }
    }
}

/// Where a result goes.
#[derive(Debug)]
pub(crate) struct Sink<'a, T> {
    pub(crate) store: &'a Store<T>,
    /// Its block, writable wherever rows and columns lead.
    pub(crate) base: *mut u8,
    pub(crate) start: usize,
    pub(crate) rows: &'a Lines,
    pub(crate) columns: Axis,
}

impl<T: Cell> Sink<'_, T> {
    /// Writes a block; no lane past the last column is touched.
    pub(crate) fn write(&self, block: &Block, c: &[T]) {
        let places = self.rows.places(self.start, block.rows.clone());
        let width = block.width;
        for (panel, c) in block.panels.clone().zip(c.chunks_exact(places.len() * width)) {
            let first = panel * width;
            let end = (first + width).min(self.columns.size);
            if self.columns.is_whole(first, width) && end - first == width {
                let at = self.columns.place(first);
                runs(&places, width, |row, count| {
                    let from = &c[row * width..(row + count) * width];
                    // SAFETY: whole sticks of the result.
                    unsafe { self.store.run(self.base, places[row] + at, from) };
                });
                continue;
            }
            for (place, from) in places.iter().zip(c.chunks_exact(width)) {
                self.columns.pieces(first..end, |x, at, count| {
                    // SAFETY: elements of the result.
                    unsafe { self.store.run(self.base, place + at, &from[x - first..][..count]) };
                });
            }
        }
    }
}
