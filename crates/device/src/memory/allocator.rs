//! Which addresses are taken: best fit with coalescing, on numbers alone.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a stick, the unit of every allocation.
pub const GRANULE_BYTES: u64 = 128;

/// The free part of `0..size`, as holes that never touch.
///
/// Laws: live ranges and holes partition `0..size`; two holes are never adjacent (so freeing
/// everything leaves one hole); the address depends on the order of requests alone.
#[derive(Debug, Clone)]
pub(crate) struct FreeHoles {
    size: u64,
    free: u64,
    /// Start of each hole, with its length.
    by_start: BTreeMap<u64, u64>,
    /// The same holes as (length, start): the first that is long enough is the best fit, and the
    /// lowest of the equals.
    by_length: BTreeSet<(u64, u64)>,
}

impl FreeHoles {
    /// All of `0..size` free; `size` is a multiple of [`GRANULE_BYTES`].
    pub(crate) fn new(size: u64) -> FreeHoles {
        let mut holes =
            FreeHoles { size, free: 0, by_start: BTreeMap::new(), by_length: BTreeSet::new() };
        if size > 0 {
            holes.insert_hole(0, size);
        }
        holes
    }

    /// Takes `length` bytes (a positive multiple of [`GRANULE_BYTES`]) from the smallest hole that has
    /// them, or nothing.
    pub(crate) fn take_range(&mut self, length: u64) -> Option<u64> {
        // The best fit leaves long holes for long requests. Of equal holes the lowest address, so that addresses
        // are the same in every run.
        let (hole, start) = *self.by_length.range((length, 0)..).next()?;
        self.remove_hole(start, hole);
        if hole > length {
            self.insert_hole(start + length, hole - length);
        }
        Some(start)
    }

    /// Gives back a range that [`FreeHoles::take_range`] gave, and joins it with the holes beside it.
    pub(crate) fn give_back(&mut self, mut start: u64, mut length: u64) {
        debug_assert!(start + length <= self.size);
        // Joined at once and not when memory runs out: then the largest hole is always known.
        if let Some((&s, &l)) = self.by_start.range(..start).next_back()
            && s + l == start
        {
            self.remove_hole(s, l);
            start = s;
            length += l;
        }
        if let Some(&l) = self.by_start.get(&(start + length)) {
            self.remove_hole(start + length, l);
            length += l;
        }
        self.insert_hole(start, length);
    }

    /// All bytes, taken or free.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.size
    }

    /// Bytes not taken.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free
    }

    /// The longest range that [`FreeHoles::take_range`] would give.
    pub(crate) fn largest_hole(&self) -> u64 {
        self.by_length.last().map_or(0, |(length, _)| *length)
    }

    /// How many holes there are.
    pub(crate) fn hole_count(&self) -> usize {
        self.by_start.len()
    }

    fn insert_hole(&mut self, start: u64, length: u64) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
        self.free += length;
    }

    fn remove_hole(&mut self, start: u64, length: u64) {
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
        let mut holes = FreeHoles::new(1024);
        let all: Vec<u64> = (0..8).map(|_| holes.take_range(128).unwrap()).collect();
        assert_eq!(all, [0, 128, 256, 384, 512, 640, 768, 896]);
        assert_eq!(holes.take_range(128), None);
        holes.give_back(0, 128);
        holes.give_back(128, 128);
        holes.give_back(512, 128);
        assert_eq!((holes.hole_count(), holes.largest_hole(), holes.free_bytes()), (2, 256, 384));
        assert_eq!(holes.take_range(128), Some(512), "the smaller hole, though it lies higher");
        for start in [256, 896, 384, 768, 640, 512] {
            holes.give_back(start, 128);
        }
        assert_eq!((holes.hole_count(), holes.largest_hole(), holes.free_bytes()), (1, 1024, 1024));
    }
}
