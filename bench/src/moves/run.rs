//! The harness: a move and plain copies take turns on the same buffers.

use super::{CaseError, MoveCase, MovedElements};
use std::cell::RefCell;
use std::time::Instant;
use zellige_host::AlignedBuffer;
use zellige_layout::TileLayout;
use zellige_movement::{MovePlan, Mover, PaddingFill};

/// How to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasureOptions {
    /// Rounds that count; one more before them warms up.
    pub rounds: usize,
    /// Threads beside one; 1 measures one thread only.
    pub threads: usize,
    /// Bytes of a round: a small move is called often enough to dwarf the clock.
    pub round_bytes: usize,
}

/// Median seconds of one call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MoveFigures {
    /// Bytes that the plain copy copies: half of what the move reads and writes.
    pub bytes: usize,
    /// The move on one thread.
    pub one: f64,
    /// The best plain copy on one thread (`memcpy`, or our streaming copy).
    pub copy_one: f64,
    /// The move and the best copy on as many threads as asked for, if those are more.
    pub many: Option<(f64, f64)>,
}

impl MoveFigures {
    /// The move beside the copy, on one thread.
    pub fn ratio_to_copy(&self) -> f64 {
        self.copy_one / self.one
    }

    /// The medians of several measurements of one case, of which there is at least one.
    pub(super) fn median_figures(of: &[MoveFigures]) -> MoveFigures {
        let middle =
            |part: &dyn Fn(&MoveFigures) -> f64| median_time(of.iter().map(part).collect());
        let many: Vec<(f64, f64)> = of.iter().filter_map(|f| f.many).collect();
        MoveFigures {
            bytes: of[0].bytes,
            one: middle(&|f| f.one),
            copy_one: middle(&|f| f.copy_one),
            many: (!many.is_empty()).then(|| {
                let (moves, copies) = many.into_iter().unzip();
                (median_time(moves), median_time(copies))
            }),
        }
    }

    /// Gigabytes read and written a second by something that took so long.
    #[allow(clippy::cast_precision_loss, reason = "a case is far below 2^53 bytes")]
    pub fn gigabytes_per_second(&self, seconds: f64) -> f64 {
        2.0 * self.bytes as f64 / seconds / 1e9
    }
}

/// A case with its plan and its buffers.
pub struct PreparedCase<'a> {
    case: &'a MoveCase,
    plan: MovePlan,
    mover: Mover,
    copier: Mover,
    from: AlignedBuffer,
    to: RefCell<AlignedBuffer>,
    fill: Vec<u8>,
    bytes: usize,
}

impl<'a> PreparedCase<'a> {
    /// Plans a case and fills its source.
    pub fn new(case: &'a MoveCase) -> Result<PreparedCase<'a>, CaseError> {
        let (plan, mover) = case.plan_mover()?;
        let bytes = case.copied_bytes(&plan);
        let n = i64::try_from(bytes).map_err(|_| CaseError::TooLarge(bytes))?;
        let line = TileLayout::row_major(&[n])?.into();
        let copier = Mover::new(&MovePlan::between(&line, &line, &[n], PaddingFill::Leave)?, 1)?;
        let mut from = AlignedBuffer::new_zeroed(mover.src_bytes().max(bytes));
        fill_source(&mut from, case.elements);
        let mut to = AlignedBuffer::new_zeroed(mover.dst_bytes().max(bytes));
        to.fill(1);
        let fill = vec![0u8; case.elements.element_widths().1];
        Ok(PreparedCase { case, plan, mover, copier, from, to: RefCell::new(to), fill, bytes })
    }

    /// The plan that is measured.
    pub fn plan(&self) -> &MovePlan {
        &self.plan
    }

    /// The case that is measured.
    pub fn case(&self) -> &MoveCase {
        self.case
    }

    /// Moves once.
    pub(super) fn run_move(&self, threads: usize) {
        let fill = Some(self.fill.as_slice());
        self.mover
            .run_on_slices(&self.from, &mut self.to.borrow_mut(), fill, threads)
            .expect("long enough");
    }

    fn run_copy(&self, threads: usize) {
        self.copier
            .run_on_slices(&self.from, &mut self.to.borrow_mut(), None, threads)
            .expect("long enough");
    }

    /// A checksum of the destination after one move: what a peer has to arrive at.
    pub fn destination_checksum(&self) -> u32 {
        self.to.borrow_mut().fill(1);
        self.run_move(1);
        crc32fast::hash(&self.to.borrow()[..self.mover.dst_bytes()])
    }

    /// The lengths of both buffers.
    pub fn buffer_lengths(&self) -> (usize, usize) {
        (self.mover.src_bytes(), self.mover.dst_bytes())
    }

    /// Median times of the move and of plain copies, in turns.
    pub fn measure_figures(&self, options: MeasureOptions) -> MoveFigures {
        let reps = (options.round_bytes / self.bytes.max(1)).clamp(1, 20_000);
        let many = options.threads;
        let mut move_one = || self.run_move(1);
        let mut copy_one = || self.run_copy(1);
        let mut memcpy = || {
            let bytes = self.bytes;
            self.to.borrow_mut()[..bytes].copy_from_slice(&self.from[..bytes]);
        };
        let mut move_many = || self.run_move(many);
        let mut copy_many = || self.run_copy(many);
        let mut things: Vec<&mut dyn FnMut()> =
            vec![&mut move_one, &mut copy_one, &mut memcpy, &mut move_many, &mut copy_many];
        things.truncate(if many > 1 { 5 } else { 3 });
        let medians = time_in_turns(reps, options.rounds, &mut things);
        let copy_one = medians[1].min(medians[2]);
        MoveFigures {
            bytes: self.bytes,
            one: medians[0],
            copy_one,
            many: (many > 1).then(|| (medians[3], medians[4].min(copy_one))),
        }
    }
}

/// Bytes that every peer can make again. Sources of conversions hold plain fractions: subnormal
/// numbers would time a slow path of other libraries.
fn fill_source(bytes: &mut [u8], elements: MovedElements) {
    if let MovedElements::Convert(zellige_float::Format::F32, _) = elements {
        for (i, element) in bytes.chunks_exact_mut(4).enumerate() {
            let step = u16::try_from((i * 31) % 2048).expect("below 2048");
            element.copy_from_slice(&(f32::from(step) / 1024.0 - 1.0).to_le_bytes());
        }
        return;
    }
    if let MovedElements::Convert(from, _) = elements
        && from.byte_size() == 2
    {
        // From 1/4 to 1 in binary16, and numbers as ordinary in the other formats of this size.
        for (i, element) in bytes.chunks_exact_mut(2).enumerate() {
            let step = u16::try_from((i * 31) % 2048).expect("below 2048");
            element.copy_from_slice(&(0x3400 + step).to_le_bytes());
        }
        return;
    }
    for (i, b) in bytes.iter_mut().enumerate() {
        *b = (i * 31 + i / 64).to_le_bytes()[0] & 0x3f;
    }
}

/// The middle of some times, of which there is at least one.
pub(super) fn median_time(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The median seconds of one call of each of several things, taken in turns.
#[allow(clippy::cast_precision_loss, reason = "at most 20,000 calls")]
fn time_in_turns(reps: usize, rounds: usize, things: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let mut times = vec![Vec::new(); things.len()];
    for round in 0..=rounds.max(1) {
        for (thing, times) in things.iter_mut().zip(&mut times) {
            if reps > 1 {
                // What the caches hold is what this thing left there, and not the one before it.
                thing();
            }
            let start = Instant::now();
            for _ in 0..reps {
                thing();
            }
            // The first round warms up.
            if round > 0 {
                times.push(start.elapsed().as_secs_f64() / reps as f64);
            }
        }
    }
    times.into_iter().map(median_time).collect()
}
