//! What each reduction computes.

use super::fold::{ClosurePass, FoldLoops, PassAccumulator};
use super::moments::{
    DeviationPass, ExponentialPass, LargestPass, MeanPass, finish_log_sum_exp, finish_variance,
};
use super::order::{ExtremePass, OrderedNumber};
use super::plan::{PassCost, ReductionPlan};
use super::results::FinishedResults;
use super::task::{ReductionFormula, ReductionTask};
use crate::kernels::KernelTask;
use crate::kernels::io::{ElementLoader, KernelNumber};
use std::marker::PhantomData;
use zellige_float::Format;
use zellige_math::pow::{pow, sqrt};
use zellige_math::round::{maximum, minimum};
use zellige_math::{WrappingInteger, canonicalize_nan};
use zellige_op::ReductionKind;

/// A reduction with its formula and formats, before it is cut over cores.
pub(super) struct BoundReduction {
    /// What it costs beside its streams.
    pub(super) cost: PassCost,
    make_task: Box<dyn FnOnce(ReductionPlan) -> Box<dyn KernelTask>>,
}

impl BoundReduction {
    /// The task of a plan.
    pub(super) fn into_task(self, plan: ReductionPlan) -> Box<dyn KernelTask> {
        (self.make_task)(plan)
    }
}

/// The reduction of operands and results in these formats.
pub(super) fn bind_reduction(
    reduction: ReductionKind,
    from: &[Format],
    to: &[Format],
) -> BoundReduction {
    // A sum into an integer dtype adds integers: PyTorch converts the operand to the dtype of the result first.
    let adds =
        matches!(reduction, ReductionKind::Sum | ReductionKind::Prod | ReductionKind::NanSum);
    let ints = !from[0].is_float() || (adds && !to[0].is_float());
    let formats = ReductionFormats { from, to, slow: reduction == ReductionKind::LogSumExp };
    // Places and counts are no numbers of the result, so that its format says nothing about the arithmetic.
    let counted = matches!(
        reduction,
        ReductionKind::ArgMax | ReductionKind::ArgMin | ReductionKind::CountNonzero
    );
    let long = from[0] == Format::I64 || (!counted && to[0] == Format::I64);
    match (ints, long) {
        (true, true) => bind_integer::<i64>(reduction, formats),
        (true, false) => bind_integer::<i32>(reduction, formats),
        (false, _) => bind_float(reduction, formats),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "counts wrap")]
fn bind_float(reduction: ReductionKind, b: ReductionFormats<'_>) -> BoundReduction {
    match reduction {
        ReductionKind::Sum => {
            b.bind_one_result(0f32, |a, x: f32| a + x, |a, b| a + b, |a, _| canonicalize_nan(a))
        }
        ReductionKind::Mean => b.bind_one_result(
            0f32,
            |a, x: f32| a + x,
            |a, b| a + b,
            |a, n| canonicalize_nan(a / n as f32),
        ),
        ReductionKind::Prod => {
            b.bind_one_result(1f32, |a, x: f32| a * x, |a, b| a * b, |a, _| canonicalize_nan(a))
        }
        ReductionKind::Amax => b.bind_one_result(
            f32::NEG_INFINITY,
            |a, x: f32| maximum(x, a),
            |a, b| maximum(b, a),
            |a, _| canonicalize_nan(a),
        ),
        ReductionKind::Amin => b.bind_one_result(
            f32::INFINITY,
            |a, x: f32| minimum(x, a),
            |a, b| minimum(b, a),
            |a, _| canonicalize_nan(a),
        ),
        ReductionKind::Max | ReductionKind::Min => {
            let largest = reduction == ReductionKind::Max;
            b.bind_extreme(largest, |(x, at): (f32, i32), _| (canonicalize_nan(x), at))
        }
        ReductionKind::ArgMax | ReductionKind::ArgMin => {
            let largest = reduction == ReductionKind::ArgMax;
            b.bind_extreme(largest, |(_, at): (f32, i32), _| (at, at))
        }
        ReductionKind::Any => b.bind_one_result(
            0i32,
            |a, x: f32| a | i32::from(x != 0.0),
            |a, b| a | b,
            |a, _| if a == 0 { 0f32 } else { 1.0 },
        ),
        ReductionKind::All => b.bind_one_result(
            1i32,
            |a, x: f32| a & i32::from(x != 0.0),
            |a, b| a & b,
            |a, _| if a == 0 { 0f32 } else { 1.0 },
        ),
        ReductionKind::CountNonzero => b.bind_one_result(
            0i32,
            |a, x: f32| a.wrapping_add(i32::from(x != 0.0)),
            i32::wrapping_add,
            |a, _| a,
        ),
        ReductionKind::NanSum => b.bind_one_result(
            0f32,
            |a, x: f32| if x.is_nan() { a } else { a + x },
            |a, b| a + b,
            |a, _| canonicalize_nan(a),
        ),
        ReductionKind::NanMean => b.bind_one_result(
            (0f32, 0i32),
            |a, x: f32| if x.is_nan() { a } else { (a.0 + x, a.1 + 1) },
            |a, b| (a.0 + b.0, a.1 + b.1),
            |a, _| canonicalize_nan(a.0 / a.1 as f32),
        ),
        ReductionKind::Var { correction, root, .. } => {
            let finish = move |acc, n| finish_variance(acc, n, correction, root);
            b.bind_passes((0.0, 0.0), vec![Box::new(MeanPass), Box::new(DeviationPass)], finish)
        }
        ReductionKind::Exx2 => b.bind_two_results(
            (0f32, 0f32),
            |a, x: f32| (a.0 + x, a.1 + x * x),
            |a, b| (a.0 + b.0, a.1 + b.1),
            |a, n| (canonicalize_nan(a.0 / n as f32), canonicalize_nan(a.1 / n as f32)),
        ),
        ReductionKind::LogSumExp => b.bind_passes(
            (f32::NEG_INFINITY, 0.0),
            vec![Box::new(LargestPass), Box::new(ExponentialPass)],
            |acc, _| (finish_log_sum_exp(acc), 0f32),
        ),
        ReductionKind::Norm { p } => bind_norm(p, b),
    }
}

fn bind_integer<T: WrappingInteger + OrderedNumber>(
    reduction: ReductionKind,
    b: ReductionFormats<'_>,
) -> BoundReduction {
    match reduction {
        ReductionKind::Prod => {
            b.bind_one_result(T::ONE, T::multiply_wrapping, T::multiply_wrapping, |a, _| a)
        }
        ReductionKind::Amax => b.bind_one_result(
            <T as WrappingInteger>::LEAST_INTEGER,
            |a, x: T| a.max(x),
            |a, b| a.max(b),
            |a, _| a,
        ),
        ReductionKind::Amin => b.bind_one_result(
            <T as WrappingInteger>::GREATEST_INTEGER,
            |a, x: T| a.min(x),
            |a, b| a.min(b),
            |a, _| a,
        ),
        ReductionKind::Max | ReductionKind::Min => {
            let largest = reduction == ReductionKind::Max;
            b.bind_extreme(largest, |(x, at): (T, i32), _| (x, at))
        }
        ReductionKind::ArgMax | ReductionKind::ArgMin => {
            let largest = reduction == ReductionKind::ArgMax;
            b.bind_extreme(largest, |(_, at): (T, i32), _| (at, at))
        }
        ReductionKind::Any => {
            let take = |a, x: T| a | i32::from(x != T::ZERO);
            b.bind_one_result(0i32, take, |a, b| a | b, |a, _| a)
        }
        ReductionKind::All => {
            let take = |a, x: T| a & i32::from(x != T::ZERO);
            b.bind_one_result(1i32, take, |a, b| a & b, |a, _| a)
        }
        ReductionKind::CountNonzero => b.bind_one_result(
            0i32,
            |a, x: T| a.wrapping_add(i32::from(x != T::ZERO)),
            i32::wrapping_add,
            |a, _| a,
        ),
        // Sums; what is for floats was refused before.
        _ => b.bind_one_result(T::ZERO, T::add_wrapping, T::add_wrapping, |a, _| a),
    }
}

fn bind_norm(p: f32, b: ReductionFormats<'_>) -> BoundReduction {
    let join = |a: f32, b: f32| a + b;
    if p == f32::INFINITY {
        let (take, join) = (|a, x: f32| maximum(x.abs(), a), |a, b| maximum(b, a));
        b.bind_one_result(0f32, take, join, |a, _| canonicalize_nan(a))
    } else if p == f32::NEG_INFINITY {
        let (take, join) = (|a, x: f32| minimum(x.abs(), a), |a, b| minimum(b, a));
        b.bind_one_result(f32::INFINITY, take, join, |a, _| canonicalize_nan(a))
    } else if p == 0.0 {
        b.bind_one_result(0f32, |a, x: f32| a + f32::from(u8::from(x != 0.0)), join, |a, _| a)
    } else if p == 1.0 {
        b.bind_one_result(0f32, |a, x: f32| a + x.abs(), join, |a, _| canonicalize_nan(a))
    } else if p == 2.0 {
        b.bind_one_result(0f32, |a, x: f32| a + x * x, join, |a, _| canonicalize_nan(sqrt(a)))
    } else {
        // The power of every number is transcendental, unlike the terms of the norms above.
        let b = ReductionFormats { slow: true, ..b };
        b.bind_one_result(
            0f32,
            move |a, x: f32| a + pow(x.abs(), p),
            join,
            move |a, _| canonicalize_nan(pow(a, 1.0 / p)),
        )
    }
}

/// The formats of a reduction, and whether it takes the slow path of the SFU.
#[derive(Clone, Copy)]
struct ReductionFormats<'a> {
    from: &'a [Format],
    to: &'a [Format],
    slow: bool,
}

impl ReductionFormats<'_> {
    /// A reduction by its passes; `finish` gives both results, of which the second may not be wanted.
    fn bind_passes<I, A, O, L>(
        self,
        initial: A,
        passes: Vec<Box<dyn FoldLoops<I, A>>>,
        finish: impl Fn(A, usize) -> (O, L) + Send + Sync + 'static,
    ) -> BoundReduction
    where
        I: KernelNumber,
        A: PassAccumulator,
        O: KernelNumber,
        L: KernelNumber,
    {
        let results = Box::new(FinishedResults::new(finish, self.to));
        let loads = self.from.iter().map(|f| ElementLoader::new(*f, self.to[0])).collect();
        bind_formula(ReductionFormula { initial, passes, loads, results }, self.slow)
    }

    /// The largest or the smallest number and its place.
    fn bind_extreme<T: OrderedNumber, O: KernelNumber>(
        self,
        largest: bool,
        finish: impl Fn((T, i32), usize) -> (O, i32) + Send + Sync + 'static,
    ) -> BoundReduction {
        let pass = ExtremePass { largest, number: PhantomData::<T> };
        self.bind_passes(pass.initial_accumulator(), vec![Box::new(pass)], finish)
    }

    /// A reduction in one pass with one result, from its parts.
    fn bind_one_result<I: KernelNumber, A: PassAccumulator, O: KernelNumber>(
        self,
        initial: A,
        take: impl Fn(A, I) -> A + Copy + Send + Sync + 'static,
        join: impl Fn(A, A) -> A + Copy + Send + Sync + 'static,
        finish: impl Fn(A, usize) -> O + Send + Sync + 'static,
    ) -> BoundReduction {
        self.bind_two_results(initial, take, join, move |a, n| (finish(a, n), O::default()))
    }

    /// A reduction in one pass with two results of one kind, from its parts.
    fn bind_two_results<I: KernelNumber, A: PassAccumulator, O: KernelNumber>(
        self,
        initial: A,
        take: impl Fn(A, I) -> A + Copy + Send + Sync + 'static,
        join: impl Fn(A, A) -> A + Copy + Send + Sync + 'static,
        finish: impl Fn(A, usize) -> (O, O) + Send + Sync + 'static,
    ) -> BoundReduction {
        let pass = ClosurePass { take, join, kinds: PhantomData };
        self.bind_passes(initial, vec![Box::new(pass)], finish)
    }
}

/// The reduction of a formula; `slow` says whether it takes the slow path of the SFU.
fn bind_formula<I: KernelNumber, A: PassAccumulator>(
    formula: ReductionFormula<I, A>,
    slow: bool,
) -> BoundReduction {
    BoundReduction {
        cost: PassCost {
            passes: formula.passes.len(),
            partial: size_of::<A>(),
            transcendental: slow,
        },
        make_task: Box::new(|plan| Box::new(ReductionTask::new(formula, plan))),
    }
}
