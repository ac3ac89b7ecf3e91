//! The layout of the rows of a tile in shared memory, chosen so that no access of a warp needs two words of one bank.
//!
//! The address of vector `v` of row `r` is `r * pitch + 16 * (v ^ (r / divide % 2^bits))`: an XOR swizzle of units of 16 bytes by
//! the number of the row. Rows that begin at any address keep their remainder modulo 16 bytes; for these the unused bytes
//! between rows are chosen. The cost of a choice is found by listing the accesses of the warps of a block and counting
//! words per bank by the rules of `zellige_layout`: 128 bytes are served at a time, and lanes that read one word share
//! it. The first choice without conflicts is taken, otherwise the one with the fewest.

use crate::digits::ByteNest;
use crate::rows::BLOCK_THREADS;
use crate::tile::SharedTile;
use zellige_layout::{BANK_BYTES, bank_and_line};

/// An XOR of vectors by rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VectorSwizzle {
    /// Rows that follow one another and share a pattern.
    pub(crate) divide: i64,
    /// Bits of the vector's number that change.
    pub(crate) bits: u32,
    /// Unused bytes after each row.
    pub(crate) padding: i64,
}

impl VectorSwizzle {
    /// Rows one after the other, without a swizzle.
    pub(crate) const NONE: VectorSwizzle = VectorSwizzle { divide: 1, bits: 0, padding: 0 };

    /// Bytes from row to row, for rows of so many bytes: whole groups of the vectors that are exchanged.
    pub(crate) fn row_pitch(self, bytes: i64) -> i64 {
        let group = 16i64 << self.bits;
        (bytes + group - 1) / group * group + self.padding
    }

    /// The bits by which the number of a vector is changed, by XOR.
    pub(crate) fn xor_pattern(self, row: i64) -> i64 {
        row / self.divide % (1 << self.bits)
    }
}

/// The conflicts of a tile: passes for each access, 1 is without conflict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BankConflicts {
    /// Passes of a store, over the fewest that its bytes need.
    pub(crate) store: f64,
    /// Passes of a load, over the fewest.
    pub(crate) load: f64,
}

impl BankConflicts {
    fn total_passes(self) -> f64 {
        self.store + self.load
    }
}

/// The tile with the swizzle that has the fewest conflicts, in at most `shared` bytes.
pub(crate) fn choose_swizzle(
    all: &ByteNest,
    tile: &SharedTile,
    shared: i64,
) -> (SharedTile, BankConflicts) {
    let mut best: Option<(f64, i64, SharedTile, BankConflicts)> = None;
    let vector = (16 / tile.dst.width).max(1);
    // The elements of a destination vector come from so many source rows, so a pattern that changes every `vector` rows is
    // the likeliest to have no conflict; it is tried first because the first one without conflicts ends the search.
    let divides = [vector, 1, 2, 4, 8, 16, 32, 64];
    let swizzles = [3, 2, 1].into_iter().flat_map(|bits| {
        divides.into_iter().map(move |divide| VectorSwizzle { divide, bits, padding: 0 })
    });
    let paddings = [16, 32, 48, 64].map(|padding| VectorSwizzle { padding, ..VectorSwizzle::NONE });
    let aligned = std::iter::once(VectorSwizzle::NONE).chain(swizzles).chain(paddings);
    let anywhere = (0..8).map(|n| VectorSwizzle { padding: 16 * n, ..VectorSwizzle::NONE });
    let all_of = |tile: &SharedTile| -> Vec<VectorSwizzle> {
        if tile.src.aligned { aligned.collect() } else { anywhere.collect() }
    };
    let least = tile.shared_bytes(all);
    for swizzle in all_of(tile) {
        let candidate = SharedTile { swizzle, ..tile.clone() };
        let bytes = candidate.shared_bytes(all);
        // Padding and patterns of more bits take more memory than the tile alone.
        if bytes > shared {
            continue;
        }
        let conflicts = count_conflicts(all, &candidate);
        // Fewer conflicts first, then fewer bytes; the tolerance keeps sums of equal fractions equal.
        let better = best.as_ref().is_none_or(|(score, size, ..)| {
            (conflicts.total_passes(), bytes) < (*score - 1e-9, 0)
                || (conflicts.total_passes() <= *score + 1e-9 && bytes < *size)
        });
        if better {
            let free = conflicts.total_passes() <= 2.0 + 1e-9;
            best = Some((conflicts.total_passes(), bytes, candidate, conflicts));
            if free && bytes <= least {
                break;
            }
        }
    }
    match best {
        Some((.., tile, conflicts)) => (tile, conflicts),
        None => (tile.clone(), BankConflicts { store: 1.0, load: 1.0 }),
    }
}

/// The conflicts of a tile at the origin of both tensors, over all its warps.
pub(crate) fn count_conflicts(all: &ByteNest, tile: &SharedTile) -> BankConflicts {
    let threads = i64::from(BLOCK_THREADS);
    let shared = SharedTileLayout::new(all, tile);
    let mut total = [(0, 0), (0, 0)];
    let slots = tile.src.count * tile.src.vectors;
    let mut lanes = Vec::with_capacity(32);
    // 64 warps of loads are more than a period of any pattern above.
    for first in (0..slots).step_by(32).take(64) {
        lanes.clear();
        lanes.extend((first..(first + 32).min(slots)).map(|slot| shared.vector_address(slot)));
        let (ways, least) = count_passes(&lanes, 16);
        total[0] = (total[0].0 + ways, total[0].1 + least);
    }
    let slots = tile.dst.count * tile.dst.vectors;
    let vector = (16 / tile.dst.width).max(1);
    for first in (0..slots.min(threads)).step_by(32) {
        for e in 0..vector {
            lanes.clear();
            lanes.extend(
                (first..(first + 32).min(slots)).filter_map(|slot| shared.element_address(slot, e)),
            );
            if !lanes.is_empty() {
                let (ways, least) = count_passes(&lanes, tile.src.width);
                total[1] = (total[1].0 + ways, total[1].1 + least);
            }
        }
    }
    let ratio = |(ways, least): (usize, usize)| ways as f64 / least.max(1) as f64;
    BankConflicts { store: ratio(total[0]), load: ratio(total[1]) }
}

/// Passes that the lanes of one access of `bytes` bytes each need, and the fewest that any such access needs:
/// one for each 128 bytes.
pub(crate) fn count_passes(lanes: &[i64], bytes: i64) -> (usize, usize) {
    // The hardware serves 128 bytes in a pass, so that accesses of 16 bytes are served for 8 lanes at a time.
    let together = usize::try_from(128 / bytes.clamp(4, 128)).unwrap_or(1).min(32);
    let (mut ways, mut least) = (0, 0);
    let mut words: Vec<(i128, i128)> = Vec::with_capacity(64);
    for group in lanes.chunks(together) {
        words.clear();
        for at in group {
            let (first, last) = (i128::from(*at), i128::from(at + bytes - 1));
            for word in first / BANK_BYTES..=last / BANK_BYTES {
                words.push(bank_and_line(word * BANK_BYTES));
            }
        }
        words.sort_unstable();
        // Lanes that read the same word are served together.
        words.dedup();
        ways += words.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0);
        least += 1;
    }
    (ways, least)
}

impl SharedTile {
    /// The vector and the row of the destination that slot `slot` of a block stores.
    pub(crate) fn slot_position(&self, slot: i64) -> (i64, i64) {
        match self.lane_groups() {
            None => (slot % self.dst.vectors, slot / self.dst.vectors),
            Some(groups) => {
                let rest = slot / 32;
                (slot % 8 + 8 * (rest % groups), slot / 8 % 4 + 4 * (rest / groups))
            }
        }
    }

    /// The groups of 8 vectors in a row, where the lanes of a warp are 8 along a row by 4 rows.
    pub(crate) fn lane_groups(&self) -> Option<i64> {
        // 8 vectors are a line of 128 bytes, so stores stay whole lines; the four rows spread the loads over more banks.
        let split = self.dst.vectors % 8 == 0 && self.dst.vectors > 8 && self.dst.count % 4 == 0;
        split.then_some(self.dst.vectors / 8)
    }
}

/// The addresses in shared memory of the accesses of a tile in the middle of both tensors.
struct SharedTileLayout<'a> {
    all: &'a ByteNest,
    tile: &'a SharedTile,
    spans: Vec<i64>,
    src_rows: Vec<(usize, i64)>,
    src_chain: Vec<(usize, i64)>,
    dst_rows: Vec<(usize, i64)>,
    dst_chain: Vec<(usize, i64)>,
    pitches: Vec<(usize, i64)>,
}

impl SharedTileLayout<'_> {
    fn new<'a>(all: &'a ByteNest, tile: &'a SharedTile) -> SharedTileLayout<'a> {
        let spans = tile.loaded_spans();
        SharedTileLayout {
            all,
            tile,
            src_rows: tile.src.row_weights(&spans),
            src_chain: tile.src.chain_weights(&spans),
            dst_rows: tile.dst.row_weights(&spans),
            dst_chain: tile.dst.chain_weights(&spans),
            pitches: tile.row_pitches(all),
            spans,
        }
    }

    /// The address of the vector that the load of a slot writes.
    fn vector_address(&self, slot: i64) -> i64 {
        let (vector, row) = (slot % self.tile.src.vectors, slot / self.tile.src.vectors);
        if self.tile.src.aligned {
            let pitch = self.tile.swizzle.row_pitch(self.tile.src.vectors * 16);
            return row * pitch + 16 * (vector ^ self.tile.swizzle.xor_pattern(row));
        }
        let begin: i64 = (self.src_rows.iter().zip(&self.pitches))
            .map(|((i, weight), (_, pitch))| row / weight % self.spans[*i] * pitch)
            .sum();
        begin / 16 * 16 + vector * 16
    }

    /// The address of element `e` of a vector of the destination; none where there is no such element.
    fn element_address(&self, slot: i64, e: i64) -> Option<i64> {
        let (all, tile, spans) = (self.all, self.tile, &self.spans);
        let (vector, row) = tile.slot_position(slot);
        let per_vector = (16 / tile.dst.width).max(1);
        let mut values = vec![0; spans.len()];
        let mut start = 0;
        for (i, weight) in &self.dst_rows {
            values[*i] = row / weight % spans[*i];
            start += values[*i] * all.digits[*i].dst;
        }
        let modulus = tile.skew.map_or(16, |s| s.bytes);
        // The same arithmetic as in the kernel: a row is shifted to the sector or vector at or before its first element.
        let shift = if tile.dst.aligned { 0 } else { start.rem_euclid(modulus) / tile.dst.width };
        let lead = tile.skew.map_or(0, |s| s.lead * s.inner);
        let at = vector * per_vector + e - shift + lead;
        if at < 0 || at >= tile.dst.length + lead {
            return None;
        }
        for (i, weight) in &self.dst_chain {
            values[*i] = at / weight % spans[*i];
        }
        let chain = self.src_chain.iter();
        let byte: i64 = chain.map(|(i, w)| values[*i] * w).sum::<i64>() * tile.src.width;
        if !tile.src.aligned {
            return Some(byte + self.pitches.iter().map(|(i, p)| values[*i] * p).sum::<i64>());
        }
        let row: i64 = self.src_rows.iter().map(|(i, w)| values[*i] * w).sum();
        // The pattern changes the bits above those of a vector, so it may be applied to the byte itself.
        let pitch = tile.swizzle.row_pitch(tile.src.vectors * 16);
        Some(row * pitch + (byte ^ (16 * tile.swizzle.xor_pattern(row))))
    }
}
