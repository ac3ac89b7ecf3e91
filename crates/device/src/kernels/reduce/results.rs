//! The end of a reduction: results from accumulators, stored.

use crate::kernels::TensorPointers;
use crate::kernels::io::{ElementStorer, KernelNumber};
use crate::kernels::walk::{StickWalk, WalkRows};
use zellige_float::Format;

/// Makes results of accumulators and stores them.
pub(super) trait ResultWriter<A>: Send + Sync {
    /// Writes the results of some rows, of `n` numbers each.
    ///
    /// # Safety
    /// As [`KernelTask::run_slice`](crate::kernels::KernelTask::run_slice); the walk is over the first result, the
    /// operands and the second result, and `rows` are some of it, with an accumulator per lane.
    unsafe fn write_results(
        &self,
        walk: &StickWalk,
        rows: &WalkRows<'_>,
        memory: &TensorPointers,
        acc: &[A],
        n: usize,
    );
}

/// Results by a formula: one of `O` and, where there is a second result, one of `L`.
pub(super) struct FinishedResults<O, L, Finish> {
    finish: Finish,
    storers: ResultStorers<O, L>,
}

/// How both results are stored.
struct ResultStorers<O, L> {
    first: ElementStorer<O>,
    second: Option<ElementStorer<L>>,
}

impl<O: KernelNumber, L: KernelNumber, Finish> FinishedResults<O, L, Finish> {
    /// Results in these formats.
    pub(super) fn new(finish: Finish, to: &[Format]) -> FinishedResults<O, L, Finish> {
        let second = to.get(1).map(|format| ElementStorer::new(*format));
        FinishedResults {
            finish,
            storers: ResultStorers { first: ElementStorer::new(to[0]), second },
        }
    }
}

impl<A, O, L, Finish> ResultWriter<A> for FinishedResults<O, L, Finish>
where
    A: Copy,
    O: KernelNumber,
    L: KernelNumber,
    Finish: Fn(A, usize) -> (O, L) + Send + Sync,
{
    unsafe fn write_results(
        &self,
        walk: &StickWalk,
        rows: &WalkRows<'_>,
        memory: &TensorPointers,
        acc: &[A],
        n: usize,
    ) {
        let (mut first, mut second) =
            (Vec::with_capacity(acc.len()), Vec::with_capacity(acc.len()));
        for acc in acc {
            let (one, other) = (self.finish)(*acc, n);
            first.push(one);
            second.push(other);
        }
        // SAFETY: by the contract of this function.
        unsafe { self.storers.store_results(walk, rows, memory, &first, &second) };
    }
}

impl<O: KernelNumber, L: KernelNumber> ResultStorers<O, L> {
    /// Stores numbers that are computed.
    ///
    /// # Safety
    /// As [`ResultWriter::write_results`].
    unsafe fn store_results(
        &self,
        walk: &StickWalk,
        rows: &WalkRows<'_>,
        memory: &TensorPointers,
        first: &[O],
        second: &[L],
    ) {
        // SAFETY: by the contract of this function; slices of other cores are disjoint.
        unsafe {
            rows.store_rows(&self.first, memory.outputs[0], walk.row_lanes(0), first);
            if let Some(store) = &self.second {
                // The second result comes after the operand of the walk.
                let at = 2;
                let rows = WalkRows { start: &rows.start[at..], step: &rows.step[at..], ..*rows };
                rows.store_rows(store, memory.outputs[1], walk.row_lanes(at), second);
            }
        }
    }
}
