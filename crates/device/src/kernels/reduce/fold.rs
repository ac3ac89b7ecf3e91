//! The loops of reductions: numbers are taken into accumulators, accumulators are joined.

use crate::kernels::io::KernelNumber;
use zellige_isa::Isa;
use zellige_math::{IsaLoop, run_for_isa};

/// Accumulators of one line along the lanes.
pub(super) const LINE_ACCUMULATORS: usize = 32;

/// A reduction of numbers to a result, in one or two passes over them.
pub(super) trait ReductionFold: Copy + Send + Sync + 'static {
    /// The numbers it takes.
    type In: KernelNumber;
    /// What it knows of those taken so far.
    type Acc: Copy + Send + Sync + 'static;
    /// The result.
    type Out: KernelNumber;
    /// The second result, where there is one.
    type Also: KernelNumber;
    /// Passes over the numbers: 1 or 2.
    const PASSES: usize = 1;

    /// Nothing taken yet.
    fn initial_accumulator(&self) -> Self::Acc;

    /// The start of the second pass, from the end of the first over `n` numbers.
    fn start_second_pass(&self, acc: Self::Acc, n: usize) -> Self::Acc {
        let _ = n;
        acc
    }

    /// One number more, which is number `at` of those reduced.
    fn take_number<const PASS: usize>(&self, acc: Self::Acc, x: Self::In, at: i32) -> Self::Acc;

    /// Two parts of one pass.
    fn join_accumulators<const PASS: usize>(&self, a: Self::Acc, b: Self::Acc) -> Self::Acc;

    /// The results after the last pass over `n` numbers.
    fn finish_results(&self, acc: Self::Acc, n: usize) -> (Self::Out, Self::Also);
}

/// A reduction in one pass from its parts, which do not ask for the place of a number.
#[derive(Clone, Copy)]
pub(super) struct ClosureFold<I, A, O, Take, Join, Finish> {
    pub(super) first: A,
    pub(super) take: Take,
    pub(super) join: Join,
    pub(super) finish: Finish,
    pub(super) kinds: std::marker::PhantomData<fn(I) -> O>,
}

impl<I, A, O, Take, Join, Finish> ReductionFold for ClosureFold<I, A, O, Take, Join, Finish>
where
    I: KernelNumber,
    A: Copy + Send + Sync + 'static,
    O: KernelNumber,
    Take: Fn(A, I) -> A + Copy + Send + Sync + 'static,
    Join: Fn(A, A) -> A + Copy + Send + Sync + 'static,
    Finish: Fn(A, usize) -> (O, O) + Copy + Send + Sync + 'static,
{
    type In = I;
    type Acc = A;
    type Out = O;
    type Also = O;

    fn initial_accumulator(&self) -> A {
        self.first
    }

    #[inline(always)]
    fn take_number<const PASS: usize>(&self, acc: A, x: I, _: i32) -> A {
        (self.take)(acc, x)
    }

    #[inline(always)]
    fn join_accumulators<const PASS: usize>(&self, a: A, b: A) -> A {
        (self.join)(a, b)
    }

    fn finish_results(&self, acc: A, n: usize) -> (O, O) {
        (self.finish)(acc, n)
    }
}

/// Rows of numbers, each as long as `acc`: number `i` of a row is taken into accumulator `i`. The
/// first row has number `at`, each further one `step` more.
pub(super) fn fold_rows<F: ReductionFold, const PASS: usize>(
    fold: &F,
    acc: &mut [F::Acc],
    x: &[F::In],
    at: i32,
    step: i32,
) {
    struct FoldRows<'a, F: ReductionFold, const PASS: usize> {
        fold: F,
        acc: &'a mut [F::Acc],
        x: &'a [F::In],
        at: i32,
        step: i32,
    }
    impl<F: ReductionFold, const PASS: usize> IsaLoop for FoldRows<'_, F, PASS> {
        type Out = ();
        #[inline(always)]
        fn run_loop(self) {
            let mut at = self.at;
            for row in self.x.chunks_exact(self.acc.len()) {
                for (acc, x) in self.acc.iter_mut().zip(row) {
                    *acc = self.fold.take_number::<PASS>(*acc, *x, at);
                }
                at = at.wrapping_add(self.step);
            }
        }
    }
    run_for_isa(Isa::process_isa(), FoldRows::<F, PASS> { fold: *fold, acc, x, at, step });
}

/// A part of a line along the lanes that begins with a multiple of [`LINE_ACCUMULATORS`]: number `i` is taken
/// into accumulator `i mod LINE_ACCUMULATORS`. The first has number `at`, each further one `step` more.
pub(super) fn fold_line<F: ReductionFold, const PASS: usize>(
    fold: &F,
    acc: &mut [F::Acc; LINE_ACCUMULATORS],
    x: &[F::In],
    at: i32,
    step: i32,
) {
    struct FoldLine<'a, F: ReductionFold, const PASS: usize> {
        fold: F,
        acc: &'a mut [F::Acc; LINE_ACCUMULATORS],
        x: &'a [F::In],
        at: i32,
        step: i32,
    }
    impl<F: ReductionFold, const PASS: usize> IsaLoop for FoldLine<'_, F, PASS> {
        type Out = ();
        #[inline(always)]
        #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "i < 32")]
        fn run_loop(self) {
            let FoldLine { fold, step, mut at, .. } = self;
            let mut acc = *self.acc;
            let (pieces, rest) = self.x.as_chunks::<LINE_ACCUMULATORS>();
            for piece in pieces {
                for i in 0..LINE_ACCUMULATORS {
                    let number = at.wrapping_add((i as i32).wrapping_mul(step));
                    acc[i] = fold.take_number::<PASS>(acc[i], piece[i], number);
                }
                at = at.wrapping_add((LINE_ACCUMULATORS as i32).wrapping_mul(step));
            }
            for (acc, x) in acc.iter_mut().zip(rest) {
                *acc = fold.take_number::<PASS>(*acc, *x, at);
                at = at.wrapping_add(step);
            }
            *self.acc = acc;
        }
    }
    run_for_isa(Isa::process_isa(), FoldLine::<F, PASS> { fold: *fold, acc, x, at, step });
}

/// Every accumulator takes in the one beside it.
pub(super) fn join_pairwise<F: ReductionFold, const PASS: usize>(
    fold: &F,
    acc: &mut [F::Acc],
    other: &[F::Acc],
) {
    for (a, b) in acc.iter_mut().zip(other) {
        *a = fold.join_accumulators::<PASS>(*a, *b);
    }
}

/// Joins the accumulators of a line: `i` with `i + 16`, then `i + 8`, 4, 2, 1.
pub(super) fn join_tree<F: ReductionFold, const PASS: usize>(
    fold: &F,
    mut acc: [F::Acc; LINE_ACCUMULATORS],
) -> F::Acc {
    let mut width = LINE_ACCUMULATORS / 2;
    while width > 0 {
        for i in 0..width {
            acc[i] = fold.join_accumulators::<PASS>(acc[i], acc[i + width]);
        }
        width /= 2;
    }
    acc[0]
}
