//! Tiles through shared memory: where the adjacent bytes of one side are not those of the other, or rows begin at
//! addresses of every alignment.
//!
//! A tile is a box of digits that covers long runs on both sides. The block loads its source rows as aligned vectors of
//! 16 bytes and puts them into shared memory, each row with the shift that its address has; then every thread gathers the
//! elements of aligned vectors of the destination and stores them.
//!
//! Rows of the destination may begin at any address. The box is then skewed: each row of the tile begins at the last
//! boundary of a sector at or before the box, so that every vector that is stored is whole, but for the first and the last of the
//! tensor's own rows. For that the block loads a few values of the innermost cut digit in front of its box. Where
//! no digit can be cut so, the vectors at the two ends of a row are written element by element.

use crate::description::TensorSide;
use crate::digits::ByteNest;
use crate::rows::BLOCK_THREADS;
use crate::swizzle::VectorSwizzle;

/// A box of digits and how it lies in shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedTile {
    /// Values of each digit in one tile.
    pub(crate) steps: Vec<i64>,
    /// The source side.
    pub(crate) src: TileRows,
    /// The destination side.
    pub(crate) dst: TileRows,
    /// How rows lie in shared memory.
    pub(crate) swizzle: VectorSwizzle,
    /// Whether rows of the destination begin where sectors begin.
    pub(crate) skew: Option<RowSkew>,
    /// Which digits number the tiles first.
    pub(crate) order: TileOrder,
}

/// Rows of the destination that begin at multiples of some bytes, in front of the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowSkew {
    /// The cut digit of a row in the destination.
    pub(crate) digit: usize,
    /// Values of it that are loaded in front of the box.
    pub(crate) lead: i64,
    /// Elements of a row for each value of it.
    pub(crate) inner: i64,
    /// What rows begin at a multiple of.
    pub(crate) bytes: i64,
}

/// The order in which blocks go through the tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TileOrder {
    /// As the destination lies.
    Destination,
    /// Digits of short strides on either side first, so that blocks that run together read and write adjacent rows.
    Either,
}

/// One side of a tile: rows of adjacent bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TileRows {
    /// The digits of one row, innermost first.
    pub(crate) chain: Vec<usize>,
    /// The digits that number the rows, fastest first.
    pub(crate) rows: Vec<usize>,
    /// Elements of a row.
    pub(crate) length: i64,
    /// Rows.
    pub(crate) count: i64,
    /// Whether every row begins at a multiple of 16 bytes.
    pub(crate) aligned: bool,
    /// Whether every vector is whole.
    pub(crate) whole: bool,
    /// Vectors of 16 bytes that a row touches, at most.
    pub(crate) vectors: i64,
    /// Bytes of an element.
    pub(crate) width: i64,
}

/// Vectors that a thread has on the way, at most.
const MOST_FLIGHT: i64 = 20;

impl SharedTile {
    /// The tile whose rows have about so many bytes in the source and in the destination, filled up to about `bytes`
    /// bytes. None where it would not fit into `shared` bytes of shared memory.
    pub(crate) fn new(
        all: &ByteNest,
        run: (i64, i64),
        bytes: i64,
        skew: Option<i64>,
        shared: i64,
    ) -> Option<SharedTile> {
        let mut steps = vec![1; all.digits.len()];
        let (ws, wd) = (i64::from(all.unit.src), i64::from(all.unit.dst));
        for (side, width, target) in [(TensorSide::Src, ws, run.0), (TensorSide::Dst, wd, run.1)] {
            let mut have = 1;
            for i in all.adjacent_chain(side) {
                let need = (target / width + have - 1) / have;
                if have * width * 4 >= target * 3 {
                    break;
                }
                let bytes = match (side, skew) {
                    (TensorSide::Dst, Some(bytes)) => bytes,
                    _ => 16,
                };
                let unit = whole_steps(bytes / width, have);
                let step = cut_range(all.digits[i].range, need, unit);
                steps[i] = steps[i].max(step);
                have *= steps[i];
                if steps[i] < all.digits[i].range {
                    break;
                }
            }
        }
        let size = |steps: &[i64]| steps.iter().product::<i64>().saturating_mul(ws.max(wd));
        // What is left of the tile goes to other digits, those of short strides first.
        for i in 0..steps.len() {
            let need = bytes / size(&steps).max(1);
            if need > 1 && steps[i] == 1 {
                steps[i] = cut_range(all.digits[i].range, need, 1);
            }
        }
        // Where no other digit is left, longer rows of the destination.
        let last = all
            .adjacent_chain(TensorSide::Dst)
            .into_iter()
            .find(|i| steps[*i] < all.digits[*i].range);
        if let Some(i) = last
            && steps[i] > 1
            && size(&steps) * 2 <= bytes
        {
            steps[i] = (steps[i] * (bytes / size(&steps))).min(all.digits[i].range);
        }
        // What lies in front of a skewed box is never padding.
        if size(&steps) > shared || (skew.is_some() && all.limit.is_some()) {
            return None;
        }
        let dst = TileRows::new(all, &steps, &steps, TensorSide::Dst);
        let skew = match skew {
            Some(bytes) => Some(RowSkew::new(all, &steps, &dst, bytes)?),
            None => None,
        };
        let dst = match skew {
            // Whole vectors, from where a sector begins.
            Some(_) => TileRows { vectors: dst.length * dst.width / 16, aligned: false, ..dst },
            None => dst,
        };
        let spans: Vec<i64> = (0..steps.len()).map(|i| steps[i] + skew_lead(skew, i)).collect();
        let mut src = TileRows::new(all, &steps, &spans, TensorSide::Src);
        // Rows of the source that are skewed too begin in front of the tensor in the first tile.
        src.whole &= skew.is_none_or(|s| !src.chain.contains(&s.digit));
        // Rows with padding end in front of the box, the last one perhaps with the source.
        src.whole &= all.limit.is_none();
        let order = TileOrder::Destination;
        let tile = SharedTile { steps, src, dst, swizzle: VectorSwizzle::NONE, skew, order };
        let flight = (tile.src.count * tile.src.vectors + i64::from(BLOCK_THREADS) - 1)
            / i64::from(BLOCK_THREADS);
        let fits = flight <= MOST_FLIGHT && tile.shared_bytes(all) <= shared;
        fits.then_some(tile)
    }

    /// Values of a digit that the block of a tile loads.
    pub(crate) fn loaded_span(&self, i: usize) -> i64 {
        self.steps[i] + skew_lead(self.skew, i)
    }

    /// [`SharedTile::loaded_span`] of every digit.
    pub(crate) fn loaded_spans(&self) -> Vec<i64> {
        (0..self.steps.len()).map(|i| self.loaded_span(i)).collect()
    }

    /// Bytes in shared memory from one value to the next of each digit that numbers the rows of the source.
    ///
    /// Vectors lie at the same place of their 16 bytes as in the source, so the step of a digit is congruent to its
    /// stride: an element's place is then a sum of multiples, without a shift of each row.
    pub(crate) fn row_pitches(&self, all: &ByteNest) -> Vec<(usize, i64)> {
        if self.src.aligned {
            let pitch = self.swizzle.row_pitch(self.src.vectors * 16);
            let rows = self.src.row_weights(&self.loaded_spans());
            return rows.into_iter().map(|(i, weight)| (i, weight * pitch)).collect();
        }
        self.unaligned_pitches(all).0
    }

    /// The pitches of rows that begin anywhere, and the bytes from where the first row begins to the end of the last vector.
    fn unaligned_pitches(&self, all: &ByteNest) -> (Vec<(usize, i64)>, i64) {
        let mut extent = self.src.vectors * 16;
        let mut padding = self.swizzle.padding;
        let mut pitches = Vec::new();
        for i in &self.src.rows {
            // The first vector of a row begins up to 15 bytes in front of it.
            let least = extent + 15 + padding;
            let pitch = least + (all.digits[*i].src - least).rem_euclid(16);
            padding = 0;
            extent += pitch * (self.loaded_span(*i) - 1);
            pitches.push((*i, pitch));
        }
        (pitches, extent)
    }

    /// Bytes of shared memory.
    pub(crate) fn shared_bytes(&self, all: &ByteNest) -> i64 {
        if self.src.aligned {
            return self.src.count * self.swizzle.row_pitch(self.src.vectors * 16);
        }
        // The first row begins at any of the first 16 bytes.
        (15 + self.unaligned_pitches(all).1 + 15) / 16 * 16
    }

    /// Tiles along a digit.
    pub(crate) fn tiles_along(&self, all: &ByteNest, i: usize) -> i64 {
        // Rows that begin in front of their box leave as much for one more tile.
        let (range, step) = (all.digits[i].range + skew_lead(self.skew, i), self.steps[i]);
        range / step + i64::from(range % step > 0)
    }

    /// Whether the last tile along a digit is smaller.
    pub(crate) fn has_partial_tile(&self, all: &ByteNest, i: usize) -> bool {
        all.digits[i].range % self.steps[i] != 0
    }

    /// The digits of which there are several tiles, in the order in which blocks go through them.
    pub(crate) fn cut_digits(&self, all: &ByteNest) -> Vec<usize> {
        let mut cut: Vec<usize> =
            (0..all.digits.len()).filter(|i| self.tiles_along(all, *i) > 1).collect();
        let closer = |i: usize| {
            let stride = all.digits[i].src.abs();
            all.digits.iter().filter(|d| d.src.abs() < stride).count()
        };
        match self.order {
            TileOrder::Destination => {}
            TileOrder::Either => cut.sort_by_key(|i| (closer(*i).min(*i), *i)),
        }
        cut
    }
}

fn skew_lead(skew: Option<RowSkew>, i: usize) -> i64 {
    skew.filter(|s| s.digit == i).map_or(0, |s| s.lead)
}

impl RowSkew {
    /// The skew of these rows; none where no digit is cut, or where a tile is not a multiple of the sectors.
    fn new(all: &ByteNest, steps: &[i64], rows: &TileRows, bytes: i64) -> Option<RowSkew> {
        let digit = *rows.chain.last()?;
        let d = all.digits[digit];
        let inner = rows.length / steps[digit];
        let whole = rows.length * rows.width % bytes == 0;
        if rows.aligned || steps[digit] >= d.range || !whole || d.src == 0 {
            return None;
        }
        let most = bytes / rows.width - 1;
        Some(RowSkew { digit, lead: (most + inner - 1) / inner, inner, bytes })
    }
}

/// The least number of steps of `have` elements that is a multiple of a power of two of elements.
fn whole_steps(elements: i64, have: i64) -> i64 {
    (elements.max(1) >> have.trailing_zeros().min(elements.max(1).trailing_zeros())).max(1)
}

/// The part of a range that makes pieces of at most about `need` steps of equal size, in multiples of `unit` where
/// the range is larger.
fn cut_range(range: i64, need: i64, unit: i64) -> i64 {
    if range <= need {
        return range;
    }
    let pieces = range / need + i64::from(range % need > 0);
    let step = range / pieces + i64::from(range % pieces > 0);
    let step = (step + unit - 1) / unit * unit;
    // Powers of two are cheap to divide by.
    let power = step.cast_unsigned().next_power_of_two().cast_signed();
    let step = if power * 7 / 8 <= step { power } else { step };
    step.min(range)
}

impl TileRows {
    /// The rows of boxes of `steps` values of each digit; a block holds `spans` values.
    fn new(all: &ByteNest, steps: &[i64], spans: &[i64], side: TensorSide) -> TileRows {
        let mut chain = Vec::new();
        for i in all.adjacent_chain(side) {
            if spans[i] > 1 {
                chain.push(i);
            }
            if steps[i] < all.digits[i].range {
                break;
            }
        }
        let other = match side {
            TensorSide::Src => all.adjacent_chain(TensorSide::Dst),
            TensorSide::Dst => all.adjacent_chain(TensorSide::Src),
        };
        let rest = (0..steps.len()).filter(|i| !other.contains(i));
        let in_rows = |i: &usize| {
            let still = side == TensorSide::Src && all.digits[*i].src == 0;
            spans[*i] > 1 && !chain.contains(i) && !still
        };
        let rows: Vec<usize> = other.iter().copied().chain(rest).filter(in_rows).collect();
        let width = i64::from(match side {
            TensorSide::Src => all.unit.src,
            TensorSide::Dst => all.unit.dst,
        });
        let length: i64 = chain.iter().map(|i| spans[*i]).product();
        // What the address of a row is a multiple of: of all that moves it.
        let moves = all.digits.iter().enumerate().filter(|(_, d)| d.range > 1).map(|(i, d)| {
            let step = if chain.contains(&i) { steps[i] } else { 1 };
            let lead = d.side_stride(side) * (spans[i] - steps[i]);
            (if step == d.range { 0 } else { d.side_stride(side) * step }) | lead
        });
        let begins = all.table.iter().map(|t| if side == TensorSide::Src { t.0 } else { t.1 });
        let base = match side {
            TensorSide::Src => all.align.src_alignment(),
            TensorSide::Dst => all.align.dst_alignment(),
        };
        let address = moves.chain(begins).fold(i64::from(base), |a, b| a | b);
        let grain = 1i64 << address.trailing_zeros().min(4);
        let aligned = grain == 16;
        let bytes = length * width;
        let partial = chain
            .last()
            .map_or(0, |i| all.digits[*i].range % steps[*i] * (length / spans[*i]) * width);
        let whole = aligned && bytes % 16 == 0 && partial % 16 == 0;
        let vectors = (bytes + 16 - grain + 15) / 16;
        let count = rows.iter().map(|i| spans[*i]).product();
        TileRows { chain, rows, length, count, aligned, whole, vectors, width }
    }

    /// The factor of each digit in the number of an element of a row.
    pub(crate) fn chain_weights(&self, steps: &[i64]) -> Vec<(usize, i64)> {
        mixed_radix_weights(&self.chain, steps)
    }

    /// The factor of each digit in the number of a row.
    pub(crate) fn row_weights(&self, steps: &[i64]) -> Vec<(usize, i64)> {
        mixed_radix_weights(&self.rows, steps)
    }
}

fn mixed_radix_weights(digits: &[usize], steps: &[i64]) -> Vec<(usize, i64)> {
    let mut weight = 1;
    digits
        .iter()
        .map(|i| {
            let w = weight;
            weight *= steps[*i];
            (*i, w)
        })
        .collect()
}
