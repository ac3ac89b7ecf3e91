//! Tiles through shared memory: where the adjacent bytes of one side are not those of the other, or rows begin at
//! addresses of every alignment.
//!
//! A tile is a box of digits that covers long runs on both sides. The block loads its source rows as aligned vectors of
//! 16 bytes and puts them into shared memory, each row with the shift that its address has; then every thread gathers the elements of
//! aligned vectors of the destination and stores them. Rows may begin anywhere: only the first and the last
//! vector of a destination row are written element by element, where they are not whole.

use crate::description::Side;
use crate::digits::Digits;
use crate::rows::THREADS;
use crate::swizzle::Swizzle;

/// A box of digits and how it lies in shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Values of each digit in one tile.
    pub(crate) steps: Vec<i64>,
    /// The source side.
    pub(crate) src: Rows,
    /// The destination side.
    pub(crate) dst: Rows,
    /// How rows lie in shared memory.
    pub(crate) swizzle: Swizzle,
}

/// One side of a tile: rows of adjacent bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
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

/// Shared memory that a tile may take.
pub(crate) const MOST_SHARED: i64 = 48 << 10;
/// Vectors that a thread has on the way, at most.
const MOST_FLIGHT: i64 = 12;

impl Tile {
    /// The tile whose rows have about so many bytes in the source and in the destination, filled up to about `bytes`
    /// bytes. None where it would not fit.
    pub(crate) fn new(all: &Digits, run: (i64, i64), bytes: i64) -> Option<Tile> {
        let mut steps = vec![1; all.digits.len()];
        let (ws, wd) = (i64::from(all.unit.src), i64::from(all.unit.dst));
        for (side, width, target) in [(Side::Src, ws, run.0), (Side::Dst, wd, run.1)] {
            let mut have = 1;
            for i in all.chain(side) {
                let need = (target / width + have - 1) / have;
                if need <= 1 {
                    break;
                }
                let step = cut(all.digits[i].range, need, 16 / width.min(16));
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
                steps[i] = cut(all.digits[i].range, need, 1);
            }
        }
        if size(&steps) > MOST_SHARED {
            return None;
        }
        let (src, dst) = (Rows::new(all, &steps, Side::Src), Rows::new(all, &steps, Side::Dst));
        let tile = Tile { steps, src, dst, swizzle: Swizzle::NONE };
        let flight =
            (tile.src.count * tile.src.vectors + i64::from(THREADS) - 1) / i64::from(THREADS);
        let fits = flight <= MOST_FLIGHT && tile.src.count * tile.pitch() <= MOST_SHARED;
        fits.then_some(tile)
    }

    /// Bytes between two rows in shared memory.
    pub(crate) fn pitch(&self) -> i64 {
        self.swizzle.pitch(self.src.vectors * 16)
    }

    /// Tiles along a digit.
    pub(crate) fn tiles(&self, all: &Digits, i: usize) -> i64 {
        let (range, step) = (all.digits[i].range, self.steps[i]);
        range / step + i64::from(range % step > 0)
    }

    /// Whether the last tile along a digit is smaller.
    pub(crate) fn partial(&self, all: &Digits, i: usize) -> bool {
        all.digits[i].range % self.steps[i] != 0
    }
}

/// The part of a range that makes pieces of at most about `need` steps of equal size, in multiples of `unit` where
/// the range is larger.
fn cut(range: i64, need: i64, unit: i64) -> i64 {
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

impl Rows {
    fn new(all: &Digits, steps: &[i64], side: Side) -> Rows {
        let mut chain = Vec::new();
        for i in all.chain(side) {
            if steps[i] > 1 {
                chain.push(i);
            }
            if steps[i] < all.digits[i].range {
                break;
            }
        }
        let other = match side {
            Side::Src => all.chain(Side::Dst),
            Side::Dst => all.chain(Side::Src),
        };
        let rest = (0..steps.len()).filter(|i| !other.contains(i));
        let in_rows = |i: &usize| {
            let still = side == Side::Src && all.digits[*i].src == 0;
            steps[*i] > 1 && !chain.contains(i) && !still
        };
        let rows: Vec<usize> = other.iter().copied().chain(rest).filter(in_rows).collect();
        let width = i64::from(match side {
            Side::Src => all.unit.src,
            Side::Dst => all.unit.dst,
        });
        let length: i64 = chain.iter().map(|i| steps[*i]).product();
        // What the address of a row is a multiple of: of all that moves it.
        let moves = all.digits.iter().enumerate().filter(|(_, d)| d.range > 1).map(|(i, d)| {
            let step = if chain.contains(&i) { steps[i] } else { 1 };
            if step == d.range { 0 } else { d.stride(side) * step }
        });
        let begins = all.table.iter().map(|t| if side == Side::Src { t.0 } else { t.1 });
        let base = match side {
            Side::Src => all.align.src(),
            Side::Dst => all.align.dst(),
        };
        let address = moves.chain(begins).fold(i64::from(base), |a, b| a | b);
        let grain = 1i64 << address.trailing_zeros().min(4);
        let aligned = grain == 16;
        let bytes = length * width;
        let partial = chain
            .last()
            .map_or(0, |i| all.digits[*i].range % steps[*i] * (length / steps[*i]) * width);
        let whole = aligned && bytes % 16 == 0 && partial % 16 == 0;
        let vectors = (bytes + 16 - grain + 15) / 16;
        let count = rows.iter().map(|i| steps[*i]).product();
        Rows { chain, rows, length, count, aligned, whole, vectors, width }
    }

    /// The factor of each digit in the number of an element of a row.
    pub(crate) fn chain_weights(&self, steps: &[i64]) -> Vec<(usize, i64)> {
        weights(&self.chain, steps)
    }

    /// The factor of each digit in the number of a row.
    pub(crate) fn row_weights(&self, steps: &[i64]) -> Vec<(usize, i64)> {
        weights(&self.rows, steps)
    }
}

fn weights(digits: &[usize], steps: &[i64]) -> Vec<(usize, i64)> {
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
