//! Which addresses are taken: best fit with coalescing, on numbers alone.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a stick, the unit of every allocation.
pub const GRANULE: u64 = 128;

/// The free part of `0..size`, as holes that never touch.
///
/// Laws: live ranges and holes partition `0..size`; two holes are never adjacent (so freeing
/// everything leaves one hole); the answer depends on the order of requests alone.
#[derive(Debug, Clone)]
pub(crate) struct Holes {
    size: u64,
    free: u64,
    /// Start of each hole, with its length.
    by_start: BTreeMap<u64, u64>,
    /// The same holes as (length, start): the first that is long enough is the best fit, and the
    /// lowest of the equals.
    by_length: BTreeSet<(u64, u64)>,
}

impl Holes {
    /// All of `0..size` free; `size` is a multiple of [`GRANULE`].
    pub(crate) fn new(size: u64) -> Holes {
        let mut holes =
            Holes { size, free: 0, by_start: BTreeMap::new(), by_length: BTreeSet::new() };
        if size > 0 {
            holes.insert(0, size);
        }
        holes
    }

    /// Takes `length` bytes (a positive multiple of [`GRANULE`]) from the smallest hole that has
    /// them, or nothing.
    pub(crate) fn take(&mut self, length: u64) -> Option<u64> {
        let (hole, start) = *self.by_length.range((length, 0)..).next()?;
        self.remove(start, hole);
        if hole > length {
            self.insert(start + length, hole - length);
        }
        Some(start)
    }

    /// Gives back a range that [`Holes::take`] gave, and joins it with the holes beside it.
    pub(crate) fn give(&mut self, mut start: u64, mut length: u64) {
        debug_assert!(start + length <= self.size);
        if let Some((&s, &l)) = self.by_start.range(..start).next_back()
            && s + l == start
        {
            self.remove(s, l);
            start = s;
            length += l;
        }
        if let Some(&l) = self.by_start.get(&(start + length)) {
            self.remove(start + length, l);
            length += l;
        }
        self.insert(start, length);
    }

    /// All bytes, taken or free.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes not taken.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// The longest range that [`Holes::take`] would give.
    pub(crate) fn largest(&self) -> u64 {
        self.by_length.last().map_or(0, |(length, _)| *length)
    }

    /// How many holes there are.
    pub(crate) fn count(&self) -> usize {
        self.by_start.len()
    }

    fn insert(&mut self, start: u64, length: u64) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
        self.free += length;
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
        self.free -= length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_fit_is_taken_and_everything_coalesces() {
        let mut holes = Holes::new(1024);
        let all: Vec<u64> = (0..8).map(|_| holes.take(128).unwrap()).collect();
        assert_eq!(all, [0, 128, 256, 384, 512, 640, 768, 896]);
        assert_eq!(holes.take(128), None);
        holes.give(0, 128);
        holes.give(128, 128);
        holes.give(512, 128);
        assert_eq!((holes.count(), holes.largest(), holes.free()), (2, 256, 384));
        assert_eq!(holes.take(128), Some(512), "the smaller hole, though it lies higher");
        for start in [256, 896, 384, 768, 640, 512] {
            holes.give(start, 128);
        }
        assert_eq!((holes.count(), holes.largest(), holes.free()), (1, 1024, 1024));
    }
}
