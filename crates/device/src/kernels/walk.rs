//! How a kernel iterates over an output and its operands together: rows of whole sticks.
//!
//! A walk is a nest of loops whose innermost two levels are a run of *rows*, each of which is the
//! lanes of one stick of the output (one element, where the output is sparse). An operand gives the
//! same lanes, or one value for all of them.

use super::io::{ElementLoader, ElementStorer, KernelNumber, RowLanes};
use crate::tensor::sticks::StickForm;
use smallvec::SmallVec;

/// The operand whose lanes run along another dimension than those of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneMismatch {
    /// Its number.
    pub(crate) operand: usize,
}

/// One loop: its extent and the step of the output, then of every operand.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WalkLevel {
    n: usize,
    step: SmallVec<[usize; 4]>,
}

/// A nest over an output and its operands.
#[derive(Debug, Clone)]
pub(crate) struct StickWalk {
    parts: Vec<WalkPart>,
    /// Lanes in a full row.
    pub(crate) lanes: usize,
    kinds: SmallVec<[RowLanes; 4]>,
}

/// One box of the walk.
#[derive(Debug, Clone)]
struct WalkPart {
    outer: Vec<WalkLevel>,
    rows: WalkLevel,
    lanes: usize,
    start: SmallVec<[usize; 4]>,
}

/// Some rows: where they begin and how far apart they are, for the output and every operand.
#[derive(Debug)]
pub(crate) struct WalkRows<'a> {
    pub(crate) count: usize,
    pub(crate) lanes: usize,
    pub(crate) start: &'a [usize],
    pub(crate) step: &'a [usize],
}

impl StickWalk {
    /// The walk over `out` with operands that were expanded to its size.
    ///
    /// # Errors
    /// [`LaneMismatch`] for an operand whose lanes run along another dimension: it has to be moved first.
    pub(crate) fn new(out: &StickForm, operands: &[StickForm]) -> Result<StickWalk, LaneMismatch> {
        let stick = out.stick;
        let along = |o: &StickForm| o.stick.is_some() && o.stick == stick;
        // A row is as wide as the widest stick, because formats of 8, 16 and 32 bits have 128, 64 and 32 elements
        // per stick: the wide row takes several sticks of the narrower formats.
        let mut lanes = if stick.is_some() { out.eps } else { 1 };
        for (operand, o) in operands.iter().enumerate() {
            let spread = stick.is_some_and(|s| o.stride[s] != 0);
            // An operand without a stick has one element per stick. Along the lanes it may only repeat that one,
            // otherwise every lane would be gathered from another stick.
            if !along(o) && (o.stick.is_some() || spread) {
                return Err(LaneMismatch { operand });
            }
            if along(o) {
                lanes = lanes.max(o.eps);
            }
        }
        let all = || std::iter::once(out).chain(operands);
        let kinds = all()
            .map(|o| match stick {
                Some(s) if along(o) => RowLanes::Along { eps: o.eps, stride: o.stride[s] },
                _ => RowLanes::One,
            })
            .collect();
        let mut walk = StickWalk { parts: Vec::new(), lanes, kinds };
        if out.numel() == 0 {
            return Ok(walk);
        }
        // Dimensions of one element move nothing, and as levels they would keep the levels around them from being
        // fused.
        let dims = (0..out.rank()).filter(|d| Some(*d) != stick && out.size[*d] > 1);
        let levels: Vec<WalkLevel> = dims
            .map(|d| WalkLevel { n: out.size[d], step: all().map(|o| o.stride[d]).collect() })
            .collect();
        let start: SmallVec<[usize; 4]> = all().map(|o| o.offset).collect();
        let Some(s) = stick else {
            walk.parts.push(WalkPart::new(levels, lanes, start));
            return Ok(walk);
        };
        let blocks = WalkLevel {
            n: 0,
            step: all().map(|o| if along(o) { o.stride[s] * (lanes / o.eps) } else { 0 }).collect(),
        };
        let size = out.size[s];
        // Where all sticks are as long, the last one is padded in every operand and needs no part of its own.
        let alike = all().all(|o| !along(o) || o.eps == lanes);
        let full = if alike { size.div_ceil(lanes) } else { size / lanes };
        if full > 0 {
            let mut levels = levels.clone();
            levels.push(WalkLevel { n: full, ..blocks.clone() });
            walk.parts.push(WalkPart::new(levels, lanes, start.clone()));
        }
        // The last sticks of a row may be padded in one tensor and filled in another with longer sticks: what is
        // left is a part of its own, with fewer lanes.
        if full * lanes < size {
            let tail = start.iter().zip(&blocks.step).map(|(a, step)| a + full * step).collect();
            walk.parts.push(WalkPart::new(levels, size - full * lanes, tail));
        }
        Ok(walk)
    }

    /// Where the lanes of the output (0) and of the operands (from 1) are.
    pub(crate) fn row_lanes(&self, which: usize) -> RowLanes {
        self.kinds[which]
    }

    /// The most rows of a call, so that it has at most so many numbers if a row does.
    pub(crate) fn rows_for_numbers(&self, numbers: usize) -> usize {
        let most = (numbers / self.lanes).max(1);
        self.parts.iter().map(|p| p.rows.n).max().unwrap_or(1).clamp(1, most)
    }

    /// Calls `f(places, count)` for elements that are adjacent in the output and in every operand, about `most` at a time.
    /// Without a call the result is false, where lanes are not adjacent in every tensor.
    pub(crate) fn for_whole_lanes(&self, most: usize, mut f: impl FnMut(&[usize], usize)) -> bool {
        let whole =
            |kind: &RowLanes| matches!(kind, RowLanes::Along { eps, .. } if *eps == self.lanes);
        if !self.kinds.iter().all(whole) {
            return false;
        }
        self.for_each_rows(self.rows_for_numbers(most), |rows| {
            if rows.step.iter().all(|step| *step == rows.lanes) {
                return f(rows.start, rows.count * rows.lanes);
            }
            let mut at: SmallVec<[usize; 4]> = rows.start.into();
            for _ in 0..rows.count {
                f(&at, rows.lanes);
                at.iter_mut().zip(rows.step).for_each(|(at, step)| *at += step);
            }
        });
        true
    }

    /// Calls `f` with runs of at most `most` rows, in an order that depends on the walk alone.
    pub(crate) fn for_each_rows(&self, most: usize, mut f: impl FnMut(WalkRows<'_>)) {
        for part in &self.parts {
            let mut digits: SmallVec<[usize; 6]> = SmallVec::from_elem(0, part.outer.len());
            loop {
                // Addresses are summed anew for every run of rows instead of stepped, as a run is long and a carry
                // would have to take back all lower digits.
                let mut at = part.start.clone();
                for (level, digit) in part.outer.iter().zip(&digits) {
                    for (a, step) in at.iter_mut().zip(&level.step) {
                        *a += step * digit;
                    }
                }
                let mut done = 0;
                while done < part.rows.n {
                    let count = most.max(1).min(part.rows.n - done);
                    let step = part.rows.step.as_slice();
                    f(WalkRows { count, lanes: part.lanes, start: &at, step });
                    for (a, step) in at.iter_mut().zip(step) {
                        *a += step * count;
                    }
                    done += count;
                }
                if !advance_odometer(&mut digits, &part.outer) {
                    break;
                }
            }
        }
    }
}

/// The next value of an odometer, last digit fastest; false after the last.
fn advance_odometer(digits: &mut [usize], levels: &[WalkLevel]) -> bool {
    for (digit, level) in digits.iter_mut().zip(levels).rev() {
        *digit += 1;
        if *digit < level.n {
            return true;
        }
        *digit = 0;
    }
    false
}

impl WalkPart {
    /// Orders loops by the output's address, fuses those that are one line in every tensor, and takes
    /// the innermost as rows.
    fn new(mut levels: Vec<WalkLevel>, lanes: usize, start: SmallVec<[usize; 4]>) -> WalkPart {
        // A loop of one round steps nowhere, and its step would keep the loops around it apart.
        levels.retain(|level| level.n != 1);
        // In the order of the result's addresses, because a store that misses the cache costs a read of its line
        // too. Operands that are laid out alike are then in order as well.
        levels.sort_by_key(|l| std::cmp::Reverse(l.step[0]));
        let mut fused: Vec<WalkLevel> = Vec::new();
        for inner in levels {
            // Two loops are one where the outer step is the whole inner loop, for every tensor.
            let one_line = |outer: &WalkLevel| {
                outer.step.iter().zip(&inner.step).all(|(o, i)| *o == i * inner.n)
            };
            match fused.last_mut() {
                Some(outer) if one_line(outer) => {
                    *outer = WalkLevel { n: outer.n * inner.n, step: inner.step };
                }
                _ => fused.push(inner),
            }
        }
        let step = SmallVec::from_elem(0, start.len());
        let rows = fused.pop().unwrap_or(WalkLevel { n: 1, step });
        WalkPart { outer: fused, rows, lanes, start }
    }
}

impl WalkRows<'_> {
    /// Reads the rows of an operand (from 0), `lanes` numbers each.
    ///
    /// # Safety
    /// `base` is the block of that operand, readable, and `kind` is that of its lanes.
    pub(crate) unsafe fn load_rows<T: KernelNumber>(
        &self,
        load: &ElementLoader<T>,
        base: *const u8,
        operand: usize,
        kind: RowLanes,
        into: &mut [T],
    ) {
        let (start, step) = (self.start[operand + 1], self.step[operand + 1]);
        let into = &mut into[..self.count * self.lanes];
        // SAFETY: by the contract of this function; the walk stays inside its tensors.
        unsafe {
            match kind {
                RowLanes::Along { eps, .. } if eps == self.lanes && step == eps => {
                    load.load_adjacent(base, start, into);
                }
                // The same row for all: converted once, then copied.
                _ if step == 0 => {
                    load.load_row(base, start, kind, &mut into[..self.lanes]);
                    for row in 1..self.count {
                        into.copy_within(..self.lanes, row * self.lanes);
                    }
                }
                _ => {
                    for (row, into) in into.chunks_mut(self.lanes).enumerate() {
                        load.load_row(base, start + row * step, kind, into);
                    }
                }
            }
        }
    }

    /// Writes the rows of the output.
    ///
    /// # Safety
    /// `base` is the block of the output, writable, and `kind` is that of its lanes.
    pub(crate) unsafe fn store_rows<T: KernelNumber>(
        &self,
        store: &ElementStorer<T>,
        base: *mut u8,
        kind: RowLanes,
        from: &[T],
    ) {
        let (start, step) = (self.start[0], self.step[0]);
        let from = &from[..self.count * self.lanes];
        // SAFETY: by the contract of this function; the walk stays inside its tensors.
        unsafe {
            match kind {
                RowLanes::Along { eps, .. } if eps == self.lanes && step == eps => {
                    store.store_adjacent(base, start, from);
                }
                _ => {
                    for (row, from) in from.chunks(self.lanes).enumerate() {
                        store.store_row(base, start + row * step, kind, from);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Card, Tensor, default_layout};
    use zellige_float::Dtype;

    // Sticks that are not full, and sizes whose device order is not that of the host.
    #[test]
    fn tensors_of_one_layout_are_one_run_of_rows() {
        let card = Card::builder().build().expect("a card");
        for size in [&[2i64, 4, 16, 16][..], &[2, 16, 64], &[3, 5, 2, 7, 40], &[6], &[5, 1, 70]] {
            let layout =
                default_layout(size, None, Dtype::Float32, card.kept_dtypes()).expect("a layout");
            let tensor = Tensor::zeros(&card, Dtype::Float32, &layout).expect("room");
            let form = tensor.stick_form().expect("a form");
            let walk = StickWalk::new(&form, &[form.clone(), form.clone()]).expect("they agree");
            let (mut runs, mut lanes) = (0, 0);
            assert!(walk.for_whole_lanes(usize::MAX, |_, count| {
                runs += 1;
                lanes += count;
            }));
            assert_eq!((runs, lanes * 4), (1, tensor.block().requested_bytes()), "{size:?}");
        }
    }
}
