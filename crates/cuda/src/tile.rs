//! Tiles through shared memory: for nests whose adjacent bytes differ on the two sides, or whose rows begin at addresses
//! of every alignment.
//!
//! A tile is a box of digits that covers long runs on both sides. The block loads its source rows as aligned vectors of
//! 16 bytes and stores them in shared memory, each row at its remainder modulo 16; then every thread gathers the
//! elements of aligned vectors of the destination and stores them.
//!
//! Rows of the destination may begin at any address. The box is then *skewed*: each row of the tile begins at the last
//! boundary of a sector at or before the box, so that every vector that is stored is whole, except for the first and
//! the last of the rows of the tensor. For that the block loads a few values of the innermost cut digit in front of its
//! box. Where no digit can be cut so, the vectors at the two ends of a row are written element by element.

use crate::description::TensorSide;
use crate::digits::ByteNest;
use crate::rows::BLOCK_THREADS;
use crate::swizzle::VectorSwizzle;

/// A box of digits and its layout in shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedTile {
    /// Values of each digit in one tile.
    pub(crate) steps: Vec<i64>,
    /// The source side.
    pub(crate) src: TileRows,
    /// The destination side.
    pub(crate) dst: TileRows,
    /// The layout of rows in shared memory.
    pub(crate) swizzle: VectorSwizzle,
    /// The skew, where rows of the destination are made to begin at sectors.
    pub(crate) skew: Option<RowSkew>,
    /// The order in which digits number the tiles.
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
    /// The bytes of which the addresses of rows are multiples.
    pub(crate) bytes: i64,
}

/// The order of tiles by the number of their block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TileOrder {
    /// In the order of the destination.
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

/// Vectors that a thread has in flight, at most. Not recorded beside other numbers.
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
                // Three quarters of the target are near enough; another digit would overshoot it.
                if have * width * 4 >= target * 3 {
                    break;
                }
                let bytes = match (side, skew) {
                    (TensorSide::Dst, Some(bytes)) => bytes,
                    _ => 16,
                };
                // Tiles in whole vectors or sectors, so that the next tile begins on one.
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
        // The rest of the bytes goes to other digits, those of short strides first: their rows are near in the destination.
        for i in 0..steps.len() {
            let need = bytes / size(&steps).max(1);
            if need > 1 && steps[i] == 1 {
                steps[i] = cut_range(all.digits[i].range, need, 1);
            }
        }
        // Where no other digit is left, rows of the destination become longer.
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
        // Padding and skew exclude one another: the rows in front of a skewed box would have to be tested against the end
        // of the data of the tile before it.
        if size(&steps) > shared || (skew.is_some() && all.limit.is_some()) {
            return None;
        }
        let dst = TileRows::new(all, &steps, &steps, TensorSide::Dst);
        let skew = match skew {
            Some(bytes) => Some(RowSkew::new(all, &steps, &dst, bytes)?),
            None => None,
        };
        let dst = match skew {
            // Whole vectors, beginning at a sector.
            Some(_) => TileRows { vectors: dst.length * dst.width / 16, aligned: false, ..dst },
            None => dst,
        };
        let spans: Vec<i64> = (0..steps.len()).map(|i| steps[i] + skew_lead(skew, i)).collect();
        let mut src = TileRows::new(all, &steps, &spans, TensorSide::Src);
        // Where the source rows are cut by the same digit, those of the first tile begin in front of the tensor.
        src.whole &= skew.is_none_or(|s| !src.chain.contains(&s.digit));
        // Rows with padding have less data than the box has room for, and the last one may end with the source.
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
    /// Rows keep their remainders modulo 16, so the pitch of a digit is congruent to its stride: the address of an element
    /// is then a sum of multiples of digits, without a shift for each row.
    pub(crate) fn row_pitches(&self, all: &ByteNest) -> Vec<(usize, i64)> {
        if self.src.aligned {
            let pitch = self.swizzle.row_pitch(self.src.vectors * 16);
            let rows = self.src.row_weights(&self.loaded_spans());
            return rows.into_iter().map(|(i, weight)| (i, weight * pitch)).collect();
        }
        self.unaligned_pitches(all).0
    }

    /// The pitches of rows that begin at any address, and the bytes from the beginning of the first row to the end of the
    /// last vector.
    fn unaligned_pitches(&self, all: &ByteNest) -> (Vec<(usize, i64)>, i64) {
        let mut extent = self.src.vectors * 16;
        let mut padding = self.swizzle.padding;
        let mut pitches = Vec::new();
        for i in &self.src.rows {
            // The first vector of a row begins up to 15 bytes in front of it, and no two vectors may share bytes.
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
        // The first row begins at one of the first 16 bytes, whichever its address gives.
        (15 + self.unaligned_pitches(all).1 + 15) / 16 * 16
    }

    /// Tiles along a digit.
    pub(crate) fn tiles_along(&self, all: &ByteNest, i: usize) -> i64 {
        // Skewed rows end earlier by as much as they begin earlier, so the end of the tensor may need one tile more.
        let (range, step) = (all.digits[i].range + skew_lead(self.skew, i), self.steps[i]);
        range / step + i64::from(range % step > 0)
    }

    /// Whether the last tile along a digit is smaller.
    pub(crate) fn has_partial_tile(&self, all: &ByteNest, i: usize) -> bool {
        all.digits[i].range % self.steps[i] != 0
    }

    /// The digits along which there are several tiles, fastest first in the number of the block.
    pub(crate) fn cut_digits(&self, all: &ByteNest) -> Vec<usize> {
        let mut cut: Vec<usize> =
            (0..all.digits.len()).filter(|i| self.tiles_along(all, *i) > 1).collect();
        let closer = |i: usize| {
            let stride = all.digits[i].src.abs();
            all.digits.iter().filter(|d| d.src.abs() < stride).count()
        };
        // A stable sort by the smaller rank: a digit that is near on either side comes early, so that blocks which run
        // together share lines of both.
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
        // Aligned rows need no skew; a digit that is not cut has no values in front; and of a broadcast digit all values
        // are one row of the source.
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
    // Powers of two are cheap to divide by; up to an eighth of the threads of the last tile may stay unused for that.
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
        // The rows of one side are numbered by the digits that are adjacent on the other: neighbours in the list of rows
        // are then near on that side.
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
        // The address of a row is a multiple of whatever divides all steps that move it.
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
        // A row that begins up to `16 - grain` bytes behind a vector may touch one vector more.
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
