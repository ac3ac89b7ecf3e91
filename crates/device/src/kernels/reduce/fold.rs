//! The loops of reductions: numbers are taken into accumulators, accumulators are joined.

use crate::kernels::io::Number;
use zellige_isa::Isa;
use zellige_math::{IsaLoop, run_for_isa};

/// Accumulators of one line along the lanes.
pub(super) const LANES: usize = 32;

/// A reduction of numbers to a result, in one or two passes over them.
pub(super) trait Fold: Copy + Send + Sync + 'static {
    /// The numbers it takes.
    type In: Number;
    /// What it knows of those taken so far.
    type Acc: Copy + Send + Sync + 'static;
    /// The result.
    type Out: Number;
    /// The second result, where there is one.
    type Also: Number;
    /// Passes over the numbers: 1 or 2.
    const PASSES: usize = 1;

    /// Nothing taken yet.
    fn first(&self) -> Self::Acc;

    /// The start of the second pass, from the end of the first over `n` numbers.
    fn next(&self, acc: Self::Acc, n: usize) -> Self::Acc {
        let _ = n;
        acc
    }

    /// One number more, which is number `at` of those reduced.
    fn take<const PASS: usize>(&self, acc: Self::Acc, x: Self::In, at: i32) -> Self::Acc;

    /// Two parts of one pass.
    fn join<const PASS: usize>(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;

    /// The results after the last pass over `n` numbers.
    fn finish(&self, acc: Self::Acc, n: usize) -> (Self::Out, Self::Also);
}

/// A reduction in one pass from its parts, which do not ask for the place of a number.
#[derive(Clone, Copy)]
pub(super) struct By<I, A, O, Take, Join, Finish> {
    pub(super) first: A,
    pub(super) take: Take,
    pub(super) join: Join,
    pub(super) finish: Finish,
    pub(super) kinds: std::marker::PhantomData<fn(I) -> O>,
}

impl<I, A, O, Take, Join, Finish> Fold for By<I, A, O, Take, Join, Finish>
where
    I: Number,
    A: Copy + Send + Sync + 'static,
    O: Number,
    Take: Fn(A, I) -> A + Copy + Send + Sync + 'static,
    Join: Fn(A, A) -> A + Copy + Send + Sync + 'static,
    Finish: Fn(A, usize) -> (O, O) + Copy + Send + Sync + 'static,
{
    type In = I;
    type Acc = A;
    type Out = O;
    type Also = O;

    fn first(&self) -> A {
        self.first
    }

    #[inline(always)]
    fn take<const PASS: usize>(&self, acc: A, x: I, _: i32) -> A {
        (self.take)(acc, x)
    }

    #[inline(always)]
    fn join<const PASS: usize>(&self, a: A, b: A) -> A {
        (self.join)(a, b)
    }

    fn finish(&self, acc: A, n: usize) -> (O, O) {
        (self.finish)(acc, n)
    }
}

/// Rows of numbers, each as long as `acc`: number `i` of a row is taken into accumulator `i`. The
/// first row has number `at`, each further one `step` more.
pub(super) fn rows<F: Fold, const PASS: usize>(
    fold: &F,
    acc: &mut [F::Acc],
    x: &[F::In],
    at: i32,
    step: i32,
) {
    struct Rows<'a, F: Fold, const PASS: usize> {
        fold: F,
        acc: &'a mut [F::Acc],
        x: &'a [F::In],
        at: i32,
        step: i32,
    }
    impl<F: Fold, const PASS: usize> IsaLoop for Rows<'_, F, PASS> {
        type Out = ();
        #[inline(always)]
        fn run_loop(self) {
            let mut at = self.at;
            for row in self.x.chunks_exact(self.acc.len()) {
                for (acc, x) in self.acc.iter_mut().zip(row) {
                    *acc = self.fold.take::<PASS>(*acc, *x, at);
                }
                at = at.wrapping_add(self.step);
            }
        }
    }
    run_for_isa(Isa::process_isa(), Rows::<F, PASS> { fold: *fold, acc, x, at, step });
}

/// A part of a line along the lanes that begins with a multiple of [`LANES`]: number `i` is taken
/// into accumulator `i mod LANES`. The first has number `at`, each further one `step` more.
pub(super) fn line<F: Fold, const PASS: usize>(
    fold: &F,
    acc: &mut [F::Acc; LANES],
    x: &[F::In],
    at: i32,
    step: i32,
) {
    struct Line<'a, F: Fold, const PASS: usize> {
        fold: F,
        acc: &'a mut [F::Acc; LANES],
        x: &'a [F::In],
        at: i32,
        step: i32,
    }
    impl<F: Fold, const PASS: usize> IsaLoop for Line<'_, F, PASS> {
        type Out = ();
        #[inline(always)]
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "i < 32")]
        fn run_loop(self) {
            let Line { fold, step, mut at, .. } = self;
            let mut acc = *self.acc;
            let (pieces, rest) = self.x.as_chunks::<LANES>();
            for piece in pieces {
                for i in 0..LANES {
                    let number = at.wrapping_add((i as i32).wrapping_mul(step));
                    acc[i] = fold.take::<PASS>(acc[i], piece[i], number);
                }
                at = at.wrapping_add((LANES as i32).wrapping_mul(step));
            }
            for (acc, x) in acc.iter_mut().zip(rest) {
                *acc = fold.take::<PASS>(*acc, *x, at);
                at = at.wrapping_add(step);
            }
            *self.acc = acc;
        }
    }
    run_for_isa(Isa::process_isa(), Line::<F, PASS> { fold: *fold, acc, x, at, step });
}

/// Every accumulator takes in the one beside it.
pub(super) fn join<F: Fold, const PASS: usize>(fold: &F, acc: &mut [F::Acc], other: &[F::Acc]) {
    for (a, b) in acc.iter_mut().zip(other) {
        *a = fold.join::<PASS>(*a, *b);
    }
}

/// Joins the accumulators of a line: `i` with `i + 16`, then `i + 8`, 4, 2, 1.
pub(super) fn tree<F: Fold, const PASS: usize>(fold: &F, mut acc: [F::Acc; LANES]) -> F::Acc {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            acc[i] = fold.join::<PASS>(acc[i], acc[i + width]);
        }
        width /= 2;
    }
    acc[0]
}
