//! What each reduction computes.

use super::fold::{ClosureFold, ReductionFold};
use super::moments::{LogSumExp, VarianceFold};
use super::order::ExtremeFold;
use super::order::OrderedNumber;
use super::plan::{PassCost, ReductionPlan};
use super::task::ReductionTask;
use crate::error::Result;
use crate::kernels::KernelTask;
use std::marker::PhantomData;
use zellige_float::Format;
use zellige_math::pow::{pow, sqrt};
use zellige_math::round::{maximum, minimum};
use zellige_math::{WrappingInteger, canonicalize_nan};
use zellige_op::ReductionKind;

/// The task for operands and results in these formats.
pub(super) fn bind_reduction<P: FnOnce(PassCost) -> Result<ReductionPlan>>(
    reduction: ReductionKind,
    plan: P,
    from: &[Format],
    to: &[Format],
) -> Result<Box<dyn KernelTask>> {
    let adds =
        matches!(reduction, ReductionKind::Sum | ReductionKind::Prod | ReductionKind::NanSum);
    let ints = !from[0].is_float() || (adds && !to[0].is_float());
    let bound = ReductionBinding { plan, from, to, slow: reduction == ReductionKind::LogSumExp };
    // Places and counts are no numbers of the result.
    let counted = matches!(
        reduction,
        ReductionKind::ArgMax | ReductionKind::ArgMin | ReductionKind::CountNonzero
    );
    let long = from[0] == Format::I64 || (!counted && to[0] == Format::I64);
    match (ints, long) {
        (true, true) => bind_integer::<i64, P>(reduction, bound),
        (true, false) => bind_integer::<i32, P>(reduction, bound),
        (false, _) => bind_float(reduction, bound),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "counts wrap")]
fn bind_float<P: FnOnce(PassCost) -> Result<ReductionPlan>>(
    reduction: ReductionKind,
    b: ReductionBinding<'_, P>,
) -> Result<Box<dyn KernelTask>> {
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
        ReductionKind::Max | ReductionKind::Min => b.bind_fold(ExtremeFold {
            largest: reduction == ReductionKind::Max,
            first: |x: f32, _| canonicalize_nan(x),
            number: PhantomData,
        }),
        ReductionKind::ArgMax | ReductionKind::ArgMin => b.bind_fold(ExtremeFold {
            largest: reduction == ReductionKind::ArgMax,
            first: |_: f32, at| at,
            number: PhantomData,
        }),
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
            b.bind_fold(VarianceFold { correction, root })
        }
        ReductionKind::Exx2 => b.bind_two_results(
            (0f32, 0f32),
            |a, x: f32| (a.0 + x, a.1 + x * x),
            |a, b| (a.0 + b.0, a.1 + b.1),
            |a, n| (canonicalize_nan(a.0 / n as f32), canonicalize_nan(a.1 / n as f32)),
        ),
        ReductionKind::LogSumExp => b.bind_fold(LogSumExp),
        ReductionKind::Norm { p } => bind_norm(p, b),
    }
}

fn bind_integer<
    T: WrappingInteger + OrderedNumber,
    P: FnOnce(PassCost) -> Result<ReductionPlan>,
>(
    reduction: ReductionKind,
    b: ReductionBinding<'_, P>,
) -> Result<Box<dyn KernelTask>> {
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
        ReductionKind::Max | ReductionKind::Min => b.bind_fold(ExtremeFold {
            largest: reduction == ReductionKind::Max,
            first: |x: T, _| x,
            number: PhantomData,
        }),
        ReductionKind::ArgMax | ReductionKind::ArgMin => b.bind_fold(ExtremeFold {
            largest: reduction == ReductionKind::ArgMax,
            first: |_: T, at| at,
            number: PhantomData,
        }),
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

fn bind_norm<P: FnOnce(PassCost) -> Result<ReductionPlan>>(
    p: f32,
    b: ReductionBinding<'_, P>,
) -> Result<Box<dyn KernelTask>> {
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
        let b = ReductionBinding { slow: true, ..b };
        b.bind_one_result(
            0f32,
            move |a, x: f32| a + pow(x.abs(), p),
            join,
            move |a, _| canonicalize_nan(pow(a, 1.0 / p)),
        )
    }
}

/// What a task is made of.
struct ReductionBinding<'a, P> {
    plan: P,
    from: &'a [Format],
    to: &'a [Format],
    /// Whether it takes the slow path of the SFU.
    slow: bool,
}

impl<P: FnOnce(PassCost) -> Result<ReductionPlan>> ReductionBinding<'_, P> {
    fn bind_fold<F: ReductionFold>(self, fold: F) -> Result<Box<dyn KernelTask>> {
        let plan = (self.plan)(PassCost {
            passes: F::PASSES,
            partial: size_of::<F::Acc>(),
            transcendental: self.slow,
        })?;
        Ok(Box::new(ReductionTask::new(fold, plan, self.from, self.to)))
    }

    /// A reduction with one result from its parts.
    fn bind_one_result<I, A, O>(
        self,
        first: A,
        take: impl Fn(A, I) -> A + Copy + Send + Sync + 'static,
        join: impl Fn(A, A) -> A + Copy + Send + Sync + 'static,
        finish: impl Fn(A, usize) -> O + Copy + Send + Sync + 'static,
    ) -> Result<Box<dyn KernelTask>>
    where
        I: crate::kernels::io::KernelNumber,
        A: Copy + Send + Sync + 'static,
        O: crate::kernels::io::KernelNumber,
    {
        self.bind_two_results(first, take, join, move |a, n| (finish(a, n), O::default()))
    }

    /// A reduction with two results of one kind.
    fn bind_two_results<I, A, O>(
        self,
        first: A,
        take: impl Fn(A, I) -> A + Copy + Send + Sync + 'static,
        join: impl Fn(A, A) -> A + Copy + Send + Sync + 'static,
        finish: impl Fn(A, usize) -> (O, O) + Copy + Send + Sync + 'static,
    ) -> Result<Box<dyn KernelTask>>
    where
        I: crate::kernels::io::KernelNumber,
        A: Copy + Send + Sync + 'static,
        O: crate::kernels::io::KernelNumber,
    {
        self.bind_fold(ClosureFold { first, take, join, finish, kinds: PhantomData })
    }
}
