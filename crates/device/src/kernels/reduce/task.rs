//! A reduction bound to its tensors.

use super::fold::{FoldLoops, LINE_ACCUMULATORS, PassAccumulator};
use super::plan::{ReducedLine, ReducedLoop, ReductionPlan, ReductionSlice};
use super::results::ResultWriter;
use crate::kernels::io::{ElementLoader, KernelNumber, RowLanes};
use crate::kernels::walk::WalkRows;
use crate::kernels::{KernelTask, TensorPointers};
use smallvec::SmallVec;
use std::sync::{Mutex, PoisonError};
use zellige_machine::account::{CoreWork, WorkKind};

/// Numbers read at a time, and of a line, taken before they join the ones before.
const CHUNK_NUMBERS: usize = 2048;

/// Reduced rows that are taken before they join the ones before.
const MAX_RUN_ROWS: usize = 64;

/// What a reduction computes: numbers `I` taken into accumulators `A`.
pub(super) struct ReductionFormula<I, A> {
    /// The neutral accumulator of the first pass.
    pub(super) initial: A,
    /// The passes over the numbers, in order.
    pub(super) passes: Vec<Box<dyn FoldLoops<I, A>>>,
    /// How every operand is read.
    pub(super) loads: SmallVec<[ElementLoader<I>; 2]>,
    /// What becomes of the accumulators after the last pass.
    pub(super) results: Box<dyn ResultWriter<A>>,
}

/// A reduction on core slices.
///
/// Without a split every core runs all passes result by result. With one, each pass has two phases:
/// every core folds its part, then the last core of each group joins the parts in core order.
pub(super) struct ReductionTask<I, A> {
    formula: ReductionFormula<I, A>,
    plan: ReductionPlan,
    /// Partial results of every core, where a reduction is split.
    partial: Vec<Mutex<Vec<A>>>,
    /// What the parts of a group joined to.
    joined: Vec<Mutex<Vec<A>>>,
}

impl<I: KernelNumber, A: PassAccumulator> ReductionTask<I, A> {
    pub(super) fn new(formula: ReductionFormula<I, A>, plan: ReductionPlan) -> Self {
        let (cores, group) = (plan.slices.len(), plan.group);
        let empty = |n: usize| (0..n).map(|_| Mutex::new(Vec::new())).collect();
        let split = group > 1;
        ReductionTask {
            formula,
            partial: empty(if split { cores } else { 0 }),
            joined: empty(if split { cores / group } else { 0 }),
            plan,
        }
    }

    /// Rows folded at a time.
    fn rows_at_a_time(slice: &ReductionSlice) -> usize {
        (CHUNK_NUMBERS / slice.walk.lanes).max(1)
    }

    /// Folds the numbers of some rows of results into `acc`, which holds the start of the pass.
    ///
    /// # Safety
    /// As [`KernelTask::run_slice`].
    unsafe fn fold_pass(
        &self,
        pass: &dyn FoldLoops<I, A>,
        slice: &ReductionSlice,
        rows: &WalkRows<'_>,
        memory: &TensorPointers,
        acc: &mut [A],
        room: &mut [I],
    ) {
        // SAFETY: by the contract of this function.
        unsafe {
            match &slice.line {
                Some(line) => {
                    self.fold_along_lanes(pass, (slice, line), rows, memory, acc, room);
                }
                None => self.fold_across_rows(pass, slice, rows, memory, acc, room),
            }
        }
    }

    /// Along the lanes: one result per row.
    unsafe fn fold_along_lanes(
        &self,
        pass: &dyn FoldLoops<I, A>,
        (slice, line): (&ReductionSlice, &ReducedLine),
        rows: &WalkRows<'_>,
        memory: &TensorPointers,
        acc: &mut [A],
        room: &mut [I],
    ) {
        for (row, acc) in acc.iter_mut().enumerate() {
            let start = *acc;
            let mut joined = [start; LINE_ACCUMULATORS];
            for_each_inner_run(&slice.levels, slice.first, |at, number, inner| {
                for k in 0..inner.n {
                    let at = |operand: usize| {
                        let start = rows.start[operand + 1] + row * rows.step[operand + 1];
                        start + at[operand] + k * inner.step[operand]
                    };
                    let number = number.wrapping_add(wrapping_multiple(inner.count, k));
                    // A chunk is a multiple of the accumulators, so that the accumulator of a number does not
                    // depend on how a line is cut.
                    for from in (0..line.n).step_by(CHUNK_NUMBERS) {
                        let n = CHUNK_NUMBERS.min(line.n - from);
                        let x = &mut room[..n];
                        // SAFETY: by the contract of this function; the line ends with the valid lanes.
                        unsafe { self.read_line_part(line, 0, memory.inputs[0], at(0), from, x) };
                        let number = number.wrapping_add(wrapping_multiple(line.count, from));
                        pass.fold_line(&mut joined, start, x, number, line.count);
                    }
                }
            });
            *acc = pass.join_tree(&joined);
        }
    }

    /// Reads a part of a line that begins with a whole stick.
    unsafe fn read_line_part(
        &self,
        line: &ReducedLine,
        operand: usize,
        base: *const u8,
        start: usize,
        from: usize,
        into: &mut [I],
    ) {
        let (eps, stride) = line.sticks[operand];
        let load = &self.formula.loads[operand];
        let at = start + from / eps * stride;
        // SAFETY: by the contract of this function.
        unsafe {
            if stride == eps {
                load.load_adjacent(base, at, into);
            } else {
                load.load_row(base, at, RowLanes::Along { eps, stride }, into);
            }
        }
    }

    /// Across rows: every lane is a result of its own.
    unsafe fn fold_across_rows(
        &self,
        pass: &dyn FoldLoops<I, A>,
        slice: &ReductionSlice,
        rows: &WalkRows<'_>,
        memory: &TensorPointers,
        acc: &mut [A],
        room: &mut [I],
    ) {
        let kind = |operand: usize| slice.walk.row_lanes(operand + 1);
        let lanes = rows.lanes;
        // What a run begins with. In the second pass it differs from lane to lane, as it holds the mean of each.
        let start = acc.to_vec();
        let mut run = start.clone();
        let mut taken = 0;
        for_each_inner_run(&slice.levels, slice.first, |at, number, inner| {
            let one_run = |eps: usize| eps == lanes && inner.step[0] == eps;
            if matches!(kind(0), RowLanes::Along { eps, .. } if one_run(eps)) {
                // The reduced rows of one result are side by side: many are read at once.
                for row in 0..rows.count {
                    let here = row * lanes..(row + 1) * lanes;
                    let from = rows.start[1] + row * rows.step[1] + at[0];
                    let mut k = 0;
                    while k < inner.n {
                        let n = (MAX_RUN_ROWS - (taken + k) % MAX_RUN_ROWS)
                            .min(inner.n - k)
                            .min(CHUNK_NUMBERS / lanes);
                        let x = &mut room[..n * lanes];
                        // SAFETY: by the contract of this function.
                        unsafe {
                            self.formula.loads[0].load_adjacent(
                                memory.inputs[0],
                                from + k * lanes,
                                x,
                            );
                        };
                        let number = number.wrapping_add(wrapping_multiple(inner.count, k));
                        let run = &mut run[here.clone()];
                        pass.fold_rows(run, x, number, inner.count);
                        k += n;
                        if (taken + k).is_multiple_of(MAX_RUN_ROWS) {
                            pass.join_pairwise(&mut acc[here.clone()], run);
                            run.copy_from_slice(&start[here.clone()]);
                        }
                    }
                }
                taken += inner.n;
                return;
            }
            for k in 0..inner.n {
                let mut places: SmallVec<[usize; 4]> = rows.start.into();
                places[1] += at[0] + k * inner.step[0];
                let here = WalkRows { start: &places, ..*rows };
                let x = &mut room[..run.len()];
                // SAFETY: by the contract of this function.
                unsafe { here.load_rows(&self.formula.loads[0], memory.inputs[0], 0, kind(0), x) };
                let number = number.wrapping_add(wrapping_multiple(inner.count, k));
                pass.fold_rows(&mut run, x, number, 0);
                taken += 1;
                if taken % MAX_RUN_ROWS == 0 {
                    pass.join_pairwise(acc, &run);
                    run.copy_from_slice(&start);
                }
            }
        });
        if taken % MAX_RUN_ROWS != 0 {
            pass.join_pairwise(acc, &run);
        }
    }

    /// All passes, result by result.
    unsafe fn run_all_passes(&self, slice: &ReductionSlice, memory: &TensorPointers) {
        let mut room = vec![I::default(); CHUNK_NUMBERS];
        let mut acc = Vec::new();
        slice.walk.for_each_rows(Self::rows_at_a_time(slice), |rows| {
            acc.clear();
            acc.resize(rows.count * rows.lanes, self.formula.initial);
            for pass in &self.formula.passes {
                pass.start_pass(&mut acc, self.plan.n);
                // SAFETY: by the contract of `KernelTask::run_slice`.
                unsafe {
                    self.fold_pass(pass.as_ref(), slice, &rows, memory, &mut acc, &mut room);
                }
            }
            // SAFETY: as above.
            unsafe { self.write_results(slice, &rows, memory, &acc) };
        });
    }

    /// Writes the results of some rows.
    ///
    /// # Safety
    /// As [`KernelTask::run_slice`].
    unsafe fn write_results(
        &self,
        slice: &ReductionSlice,
        rows: &WalkRows<'_>,
        memory: &TensorPointers,
        acc: &[A],
    ) {
        let results = &self.formula.results;
        // SAFETY: by the contract of this function.
        unsafe { results.write_results(&slice.walk, rows, memory, acc, self.plan.n) };
    }

    /// One pass over the part of a core.
    unsafe fn fold_core_part(&self, pass: usize, core: usize, memory: &TensorPointers) {
        let slice = &self.plan.slices[core];
        let prior = clone_partials(&self.joined[core / self.plan.group]);
        let loops = self.formula.passes[pass].as_ref();
        let mut room = vec![I::default(); CHUNK_NUMBERS];
        let mut all = Vec::new();
        slice.walk.for_each_rows(Self::rows_at_a_time(slice), |rows| {
            let (done, n) = (all.len(), rows.count * rows.lanes);
            // What an earlier run of the same task joined is still there in the first pass, and is not read.
            if pass == 0 {
                all.resize(done + n, self.formula.initial);
            } else {
                all.extend_from_slice(&prior[done..done + n]);
            }
            loops.start_pass(&mut all[done..], self.plan.n);
            // SAFETY: by the contract of `KernelTask::run_slice`.
            unsafe { self.fold_pass(loops, slice, &rows, memory, &mut all[done..], &mut room) };
        });
        *self.partial[core].lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Joins the parts of a group in core order; after the last pass, writes.
    unsafe fn join_group(&self, pass: usize, core: usize, memory: &TensorPointers) {
        let group = core / self.plan.group;
        let first = group * self.plan.group;
        let mut acc = clone_partials(&self.partial[first]);
        for other in first + 1..first + self.plan.group {
            self.formula.passes[pass]
                .join_pairwise(&mut acc, &clone_partials(&self.partial[other]));
        }
        if pass + 1 == self.formula.passes.len() {
            let slice = &self.plan.slices[core];
            let mut done = 0;
            slice.walk.for_each_rows(Self::rows_at_a_time(slice), |rows| {
                let n = rows.count * rows.lanes;
                // SAFETY: by the contract of `KernelTask::run_slice`.
                unsafe { self.write_results(slice, &rows, memory, &acc[done..done + n]) };
                done += n;
            });
        }
        *self.joined[group].lock().unwrap_or_else(PoisonError::into_inner) = acc;
    }
}

/// A copy of what a core left; a core that panicked has ended the operation already.
fn clone_partials<A: Clone>(cell: &Mutex<Vec<A>>) -> Vec<A> {
    cell.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "indices wrap")]
fn wrapping_multiple(count: i32, n: usize) -> i32 {
    count.wrapping_mul(n as i32)
}

/// Calls `f` for every run of the innermost loop, in increasing order: where it begins in every
/// operand, the number of its first place, and the loop itself.
fn for_each_inner_run(
    levels: &[ReducedLoop],
    first: i32,
    mut f: impl FnMut(&[usize], i32, &ReducedLoop),
) {
    let single = ReducedLoop { n: 1, step: SmallVec::from_elem(0, 2), count: 0 };
    let (inner, outer) = levels.split_last().unwrap_or((&single, &[]));
    if levels.iter().any(|l| l.n == 0) {
        return;
    }
    let mut digits: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
    loop {
        let mut at: SmallVec<[usize; 2]> = SmallVec::from_elem(0, inner.step.len());
        let mut number = first;
        for (level, digit) in outer.iter().zip(&digits) {
            at.iter_mut().zip(&level.step).for_each(|(a, step)| *a += step * digit);
            number = number.wrapping_add(wrapping_multiple(level.count, *digit));
        }
        f(&at, number, inner);
        let next = digits.iter_mut().zip(outer).rev().find_map(|(digit, level)| {
            *digit += 1;
            if *digit == level.n {
                *digit = 0;
            }
            (*digit > 0).then_some(())
        });
        if next.is_none() {
            return;
        }
    }
}

impl<I: KernelNumber, A: PassAccumulator> KernelTask for ReductionTask<I, A> {
    fn is_stateless(&self) -> bool {
        self.partial.is_empty()
    }

    fn phase_count(&self) -> usize {
        if self.plan.group > 1 { 2 * self.formula.passes.len() } else { 1 }
    }

    fn work_kind(&self) -> WorkKind {
        self.plan.kind
    }

    fn core_work(&self, core: usize) -> CoreWork {
        self.plan.slices[core].work.clone()
    }

    unsafe fn run_slice(&self, phase: usize, core: usize, memory: &TensorPointers) {
        let last = core % self.plan.group == self.plan.group - 1;
        let (pass, joins) = (phase / 2, phase % 2 == 1);
        // SAFETY: by the contract of this function.
        unsafe {
            if self.plan.group == 1 {
                self.run_all_passes(&self.plan.slices[core], memory);
            } else if !joins {
                self.fold_core_part(pass, core, memory);
            } else if last {
                self.join_group(pass, core, memory);
            }
        }
    }
}
