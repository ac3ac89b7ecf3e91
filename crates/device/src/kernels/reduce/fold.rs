//! The loops of reductions: numbers are taken into accumulators, accumulators are joined.
//!
//! A formula ([`FoldPass`]) is compiled into its loops ([`FoldLoops`]) for every instruction set, and little else
//! is compiled once per formula: a task calls the loops through a pointer. One call takes a run of up to 2048
//! numbers, so that the call itself does not count. Tasks that were compiled once per formula and pass made the
//! machine code of this crate 5.7 MB instead of 2.4 MB (x86-64, November 2026), and its release build as much longer.

use crate::kernels::io::KernelNumber;
use std::marker::PhantomData;
use zellige_isa::Isa;
use zellige_math::{IsaLoop, run_for_isa};

/// Accumulators of one line along the lanes.
pub(super) const LINE_ACCUMULATORS: usize = 32;

/// What a pass knows of the numbers taken so far.
pub(super) trait PassAccumulator: Copy + Send + Sync + 'static {}

impl<A: Copy + Send + Sync + 'static> PassAccumulator for A {}

/// The formula of one pass over the numbers.
pub(super) trait FoldPass: Copy + Send + Sync + 'static {
    /// The numbers it takes.
    type Number: KernelNumber;
    /// What it knows of those taken so far.
    type Accumulator: PassAccumulator;

    /// Nothing taken yet, from what the pass before left of `n` numbers; the first pass gets the neutral accumulator.
    fn start_accumulator(&self, before: Self::Accumulator, n: usize) -> Self::Accumulator {
        let _ = n;
        before
    }

    /// One number more, which is number `at` of those reduced.
    fn take_number(&self, acc: Self::Accumulator, x: Self::Number, at: i32) -> Self::Accumulator;

    /// Two parts of one pass.
    fn join_accumulators(&self, a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
}

/// The loops of one pass over numbers `I` with accumulators `A`.
pub(super) trait FoldLoops<I, A>: Send + Sync {
    /// Starts the pass on every accumulator, from what the pass before left of `n` numbers.
    fn start_pass(&self, acc: &mut [A], n: usize);

    /// Rows of numbers, each as long as `acc`: number `i` of a row is taken into accumulator `i`. The
    /// first row has number `at`, each further one `step` more.
    fn fold_rows(&self, acc: &mut [A], x: &[I], at: i32, step: i32);

    /// A part of a line along the lanes that begins with a multiple of [`LINE_ACCUMULATORS`]: number `i` is taken
    /// into accumulator `i mod LINE_ACCUMULATORS` of fresh ones that begin with `start`, and these are joined to
    /// `joined`. The first number has place `at`, each further one `step` more.
    fn fold_line(&self, joined: &mut [A; LINE_ACCUMULATORS], start: A, x: &[I], at: i32, step: i32);

    /// Every accumulator takes in the one beside it.
    fn join_pairwise(&self, acc: &mut [A], other: &[A]);

    /// Joins the accumulators of a line: `i` with `i + 16`, then `i + 8`, 4, 2, 1.
    fn join_tree(&self, acc: &[A; LINE_ACCUMULATORS]) -> A;
}

impl<P: FoldPass> FoldLoops<P::Number, P::Accumulator> for P {
    fn start_pass(&self, acc: &mut [P::Accumulator], n: usize) {
        acc.iter_mut().for_each(|a| *a = self.start_accumulator(*a, n));
    }

    fn fold_rows(&self, acc: &mut [P::Accumulator], x: &[P::Number], at: i32, step: i32) {
        run_for_isa(Isa::process_isa(), RowsLoop { pass: *self, acc, x, at, step });
    }

    fn fold_line(
        &self,
        joined: &mut [P::Accumulator; LINE_ACCUMULATORS],
        start: P::Accumulator,
        x: &[P::Number],
        at: i32,
        step: i32,
    ) {
        run_for_isa(Isa::process_isa(), LineLoop { pass: *self, joined, start, x, at, step });
    }

    fn join_pairwise(&self, acc: &mut [P::Accumulator], other: &[P::Accumulator]) {
        for (a, b) in acc.iter_mut().zip(other) {
            *a = self.join_accumulators(*a, *b);
        }
    }

    fn join_tree(&self, acc: &[P::Accumulator; LINE_ACCUMULATORS]) -> P::Accumulator {
        let mut acc = *acc;
        let mut width = LINE_ACCUMULATORS / 2;
        while width > 0 {
            for i in 0..width {
                acc[i] = self.join_accumulators(acc[i], acc[i + width]);
            }
            width /= 2;
        }
        acc[0]
    }
}

/// [`FoldLoops::fold_rows`] for one instruction set.
struct RowsLoop<'a, P: FoldPass> {
    pass: P,
    acc: &'a mut [P::Accumulator],
    x: &'a [P::Number],
    at: i32,
    step: i32,
}

impl<P: FoldPass> IsaLoop for RowsLoop<'_, P> {
    type Out = ();

    #[inline(always)]
    fn run_loop(self) {
        let mut at = self.at;
        for row in self.x.chunks_exact(self.acc.len()) {
            for (acc, x) in self.acc.iter_mut().zip(row) {
                *acc = self.pass.take_number(*acc, *x, at);
            }
            at = at.wrapping_add(self.step);
        }
    }
}

/// [`FoldLoops::fold_line`] for one instruction set.
struct LineLoop<'a, P: FoldPass> {
    pass: P,
    joined: &'a mut [P::Accumulator; LINE_ACCUMULATORS],
    start: P::Accumulator,
    x: &'a [P::Number],
    at: i32,
    step: i32,
}

impl<P: FoldPass> IsaLoop for LineLoop<'_, P> {
    type Out = ();

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "i < 32")]
    fn run_loop(self) {
        let LineLoop { pass, joined, start, mut at, step, .. } = self;
        // A local array, so that the compiler can keep the accumulators in registers for the whole line.
        let mut acc = [start; LINE_ACCUMULATORS];
        let (pieces, rest) = self.x.as_chunks::<LINE_ACCUMULATORS>();
        for piece in pieces {
            for i in 0..LINE_ACCUMULATORS {
                let number = at.wrapping_add((i as i32).wrapping_mul(step));
                acc[i] = pass.take_number(acc[i], piece[i], number);
            }
            at = at.wrapping_add((LINE_ACCUMULATORS as i32).wrapping_mul(step));
        }
        for (acc, x) in acc.iter_mut().zip(rest) {
            *acc = pass.take_number(*acc, *x, at);
            at = at.wrapping_add(step);
        }
        for (joined, acc) in joined.iter_mut().zip(acc) {
            *joined = pass.join_accumulators(*joined, acc);
        }
    }
}

/// A pass from its parts, which do not depend on the place of a number.
pub(super) struct ClosurePass<I, A, Take, Join> {
    pub(super) take: Take,
    pub(super) join: Join,
    pub(super) kinds: PhantomData<fn(A, I) -> A>,
}

impl<I, A, Take: Copy, Join: Copy> Clone for ClosurePass<I, A, Take, Join> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, A, Take: Copy, Join: Copy> Copy for ClosurePass<I, A, Take, Join> {}

impl<I, A, Take, Join> FoldPass for ClosurePass<I, A, Take, Join>
where
    I: KernelNumber,
    A: PassAccumulator,
    Take: Fn(A, I) -> A + Copy + Send + Sync + 'static,
    Join: Fn(A, A) -> A + Copy + Send + Sync + 'static,
{
    type Number = I;
    type Accumulator = A;

    #[inline(always)]
    fn take_number(&self, acc: A, x: I, _: i32) -> A {
        (self.take)(acc, x)
    }

    #[inline(always)]
    fn join_accumulators(&self, a: A, b: A) -> A {
        (self.join)(a, b)
    }
}
