//! A reduction bound to its tensors.

use super::fold::{self, Fold, LANES};
use super::plan::{Level, Line, Plan, Slice};
use crate::kernels::io::{Lanes, Load, Store};
use crate::kernels::walk::Rows;
use crate::kernels::{Pointers, Task};
use smallvec::SmallVec;
use std::sync::{Mutex, PoisonError};
use zellige_float::Format;
use zellige_machine::account::{CoreWork, WorkKind};

/// Numbers read at a time, and of a line, taken before they join the ones before.
const CHUNK: usize = 2048;

/// Reduced rows that are taken before they join the ones before.
const RUN: usize = 64;

/// A fold on core slices.
///
/// Without a split every core runs all passes result by result. With one, each pass has two phases:
/// every core folds its part, then the last core of each group joins the parts in core order.
pub(super) struct Bound<F: Fold> {
    fold: F,
    plan: Plan,
    loads: SmallVec<[Load<F::In>; 2]>,
    store: Store<F::Out>,
    also: Option<Store<F::Also>>,
    /// Partial results of every core, where a reduction is split.
    partial: Vec<Mutex<Vec<F::Acc>>>,
    /// What the parts of a group joined to.
    joined: Vec<Mutex<Vec<F::Acc>>>,
}

impl<F: Fold> Bound<F> {
    pub(super) fn new(fold: F, plan: Plan, inputs: &[Format], outputs: &[Format]) -> Bound<F> {
        let (cores, group) = (plan.slices.len(), plan.group);
        let empty = |n: usize| (0..n).map(|_| Mutex::new(Vec::new())).collect();
        let split = group > 1;
        Bound {
            fold,
            loads: inputs.iter().map(|f| Load::new(*f, outputs[0])).collect(),
            store: Store::new(outputs[0]),
            also: outputs.get(1).map(|f| Store::new(*f)),
            partial: empty(if split { cores } else { 0 }),
            joined: empty(if split { cores / group } else { 0 }),
            plan,
        }
    }

    /// Rows folded at a time.
    fn rows(slice: &Slice) -> usize {
        (CHUNK / slice.walk.lanes).max(1)
    }

    /// Folds the numbers of some rows of results into `acc`, which holds the start of the pass.
    ///
    /// # Safety
    /// As [`Task::run`].
    unsafe fn pass<const PASS: usize>(
        &self,
        slice: &Slice,
        rows: &Rows<'_>,
        memory: &Pointers,
        acc: &mut [F::Acc],
        room: &mut [F::In],
    ) {
        // SAFETY: by the contract of this function.
        unsafe {
            match &slice.line {
                Some(line) => self.lines::<PASS>(slice, line, rows, memory, acc, room),
                None => self.across::<PASS>(slice, rows, memory, acc, room),
            }
        }
    }

    /// Along the lanes: one result per row.
    unsafe fn lines<const PASS: usize>(
        &self,
        slice: &Slice,
        line: &Line,
        rows: &Rows<'_>,
        memory: &Pointers,
        acc: &mut [F::Acc],
        room: &mut [F::In],
    ) {
        for (row, acc) in acc.iter_mut().enumerate() {
            let start = [*acc; LANES];
            let mut joined = start;
            runs(&slice.levels, slice.first, |at, number, inner| {
                for k in 0..inner.n {
                    let at = |operand: usize| {
                        let start = rows.start[operand + 1] + row * rows.step[operand + 1];
                        start + at[operand] + k * inner.step[operand]
                    };
                    let number = number.wrapping_add(times(inner.count, k));
                    for from in (0..line.n).step_by(CHUNK) {
                        let n = CHUNK.min(line.n - from);
                        let x = &mut room[..n];
                        // SAFETY: by the contract of `pass`; the line ends with the valid lanes.
                        unsafe { self.part(line, 0, memory.inputs[0], at(0), from, x) };
                        let number = number.wrapping_add(times(line.count, from));
                        let mut lanes = start;
                        fold::line::<F, PASS>(&self.fold, &mut lanes, x, number, line.count);
                        fold::join::<F, PASS>(&self.fold, &mut joined, &lanes);
                    }
                }
            });
            *acc = fold::tree::<F, PASS>(&self.fold, joined);
        }
    }

    /// Reads a part of a line that begins with a whole stick.
    unsafe fn part(
        &self,
        line: &Line,
        operand: usize,
        base: *const u8,
        start: usize,
        from: usize,
        into: &mut [F::In],
    ) {
        let (eps, stride) = line.sticks[operand];
        let load = &self.loads[operand];
        let at = start + from / eps * stride;
        // SAFETY: by the contract of `pass`.
        unsafe {
            if stride == eps {
                load.run(base, at, into);
            } else {
                load.row(base, at, Lanes::Along { eps, stride }, into);
            }
        }
    }

    /// Across rows: every lane is a result of its own.
    unsafe fn across<const PASS: usize>(
        &self,
        slice: &Slice,
        rows: &Rows<'_>,
        memory: &Pointers,
        acc: &mut [F::Acc],
        room: &mut [F::In],
    ) {
        let kind = |operand: usize| slice.walk.kind(operand + 1);
        let lanes = rows.lanes;
        let start = acc.to_vec();
        let mut run = start.clone();
        let mut taken = 0;
        runs(&slice.levels, slice.first, |at, number, inner| {
            let one_run = |eps: usize| eps == lanes && inner.step[0] == eps;
            if matches!(kind(0), Lanes::Along { eps, .. } if one_run(eps)) {
                // The reduced rows of one result are side by side: many are read at once.
                for row in 0..rows.count {
                    let here = row * lanes..(row + 1) * lanes;
                    let from = rows.start[1] + row * rows.step[1] + at[0];
                    let mut k = 0;
                    while k < inner.n {
                        let n = (RUN - (taken + k) % RUN).min(inner.n - k).min(CHUNK / lanes);
                        let x = &mut room[..n * lanes];
                        // SAFETY: by the contract of `pass`.
                        unsafe { self.loads[0].run(memory.inputs[0], from + k * lanes, x) };
                        let number = number.wrapping_add(times(inner.count, k));
                        let run = &mut run[here.clone()];
                        fold::rows::<F, PASS>(&self.fold, run, x, number, inner.count);
                        k += n;
                        if (taken + k).is_multiple_of(RUN) {
                            fold::join::<F, PASS>(&self.fold, &mut acc[here.clone()], run);
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
                let here = Rows { start: &places, ..*rows };
                let x = &mut room[..run.len()];
                // SAFETY: by the contract of `pass`.
                unsafe { here.load(&self.loads[0], memory.inputs[0], 0, kind(0), x) };
                let number = number.wrapping_add(times(inner.count, k));
                fold::rows::<F, PASS>(&self.fold, &mut run, x, number, 0);
                taken += 1;
                if taken % RUN == 0 {
                    fold::join::<F, PASS>(&self.fold, acc, &run);
                    run.copy_from_slice(&start);
                }
            }
        });
        if taken % RUN != 0 {
            fold::join::<F, PASS>(&self.fold, acc, &run);
        }
    }

    /// Writes the results of some rows.
    unsafe fn put(&self, slice: &Slice, rows: &Rows<'_>, memory: &Pointers, acc: &[F::Acc]) {
        let (mut out, mut also) = (Vec::with_capacity(acc.len()), Vec::with_capacity(acc.len()));
        for acc in acc {
            let (first, second) = self.fold.finish(*acc, self.plan.n);
            out.push(first);
            also.push(second);
        }
        // SAFETY: by the contract of `pass`; slices of other cores are disjoint.
        unsafe {
            rows.store(&self.store, memory.outputs[0], slice.walk.kind(0), &out);
            if let Some(store) = &self.also {
                // The second result comes after the operand of the walk.
                let at = 2;
                let rows = Rows { start: &rows.start[at..], step: &rows.step[at..], ..*rows };
                rows.store(store, memory.outputs[1], slice.walk.kind(at), &also);
            }
        }
    }

    /// All passes, result by result.
    unsafe fn whole(&self, slice: &Slice, memory: &Pointers) {
        let mut room = vec![F::In::default(); CHUNK];
        let mut acc = Vec::new();
        slice.walk.run(Self::rows(slice), |rows| {
            acc.clear();
            acc.resize(rows.count * rows.lanes, self.fold.first());
            // SAFETY: by the contract of `Task::run`.
            unsafe {
                self.pass::<0>(slice, &rows, memory, &mut acc, &mut room);
                if F::PASSES > 1 {
                    acc.iter_mut().for_each(|a| *a = self.fold.next(*a, self.plan.n));
                    self.pass::<1>(slice, &rows, memory, &mut acc, &mut room);
                }
                self.put(slice, &rows, memory, &acc);
            }
        });
    }

    /// One pass over the part of a core.
    unsafe fn part_of<const PASS: usize>(&self, core: usize, memory: &Pointers) {
        let slice = &self.plan.slices[core];
        let prior = held(&self.joined[core / self.plan.group]);
        let mut room = vec![F::In::default(); CHUNK];
        let mut all = Vec::new();
        slice.walk.run(Self::rows(slice), |rows| {
            let (done, n) = (all.len(), rows.count * rows.lanes);
            if PASS == 0 {
                all.resize(done + n, self.fold.first());
            } else {
                let next = prior[done..done + n].iter();
                all.extend(next.map(|a| self.fold.next(*a, self.plan.n)));
            }
            // SAFETY: by the contract of `Task::run`.
            unsafe { self.pass::<PASS>(slice, &rows, memory, &mut all[done..], &mut room) };
        });
        *self.partial[core].lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Joins the parts of a group in core order; after the last pass, writes.
    unsafe fn join<const PASS: usize>(&self, core: usize, memory: &Pointers) {
        let group = core / self.plan.group;
        let first = group * self.plan.group;
        let mut acc = held(&self.partial[first]);
        for other in first + 1..first + self.plan.group {
            for (a, b) in acc.iter_mut().zip(held(&self.partial[other])) {
                *a = self.fold.join::<PASS>(*a, b);
            }
        }
        if PASS + 1 == F::PASSES {
            let slice = &self.plan.slices[core];
            let mut done = 0;
            slice.walk.run(Self::rows(slice), |rows| {
                let n = rows.count * rows.lanes;
                // SAFETY: by the contract of `Task::run`.
                unsafe { self.put(slice, &rows, memory, &acc[done..done + n]) };
                done += n;
            });
        }
        *self.joined[group].lock().unwrap_or_else(PoisonError::into_inner) = acc;
    }
}

/// A copy of what a core left; a core that panicked has ended the operation already.
fn held<A: Clone>(cell: &Mutex<Vec<A>>) -> Vec<A> {
    cell.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "indices wrap")]
fn times(count: i32, n: usize) -> i32 {
    count.wrapping_mul(n as i32)
}

/// Calls `f` for every run of the innermost loop, in increasing order: where it begins in every
/// operand, the number of its first place, and the loop itself.
fn runs(levels: &[Level], first: i32, mut f: impl FnMut(&[usize], i32, &Level)) {
    let single = Level { n: 1, step: SmallVec::from_elem(0, 2), count: 0 };
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
            number = number.wrapping_add(times(level.count, *digit));
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

impl<F: Fold> Task for Bound<F> {
    fn keeps_nothing(&self) -> bool {
        self.partial.is_empty()
    }

    fn phases(&self) -> usize {
        if self.plan.group > 1 { 2 * F::PASSES } else { 1 }
    }

    fn kind(&self) -> WorkKind {
        self.plan.kind
    }

    fn work(&self, core: usize) -> CoreWork {
        self.plan.slices[core].work.clone()
    }

    unsafe fn run(&self, phase: usize, core: usize, memory: &Pointers) {
        let last = core % self.plan.group == self.plan.group - 1;
        // SAFETY: by the contract of this function.
        unsafe {
            match phase {
                _ if self.plan.group == 1 => self.whole(&self.plan.slices[core], memory),
                0 => self.part_of::<0>(core, memory),
                2 => self.part_of::<1>(core, memory),
                1 if last => self.join::<0>(core, memory),
                3 if last => self.join::<1>(core, memory),
                _ => {}
            }
        }
    }
}
