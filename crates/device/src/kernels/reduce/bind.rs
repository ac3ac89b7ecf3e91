//! What each reduction computes.

use super::fold::{By, Fold};
use super::moments::{LogSumExp, Var};
use super::order::Arg;
use super::order::Ordered;
use super::plan::{PassCost, Plan};
use super::task::Bound;
use crate::error::Result;
use crate::kernels::Task;
use std::marker::PhantomData;
use zellige_float::Format;
use zellige_math::pow::{pow, sqrt};
use zellige_math::round::{maximum, minimum};
use zellige_math::{WrappingInteger, canonicalize_nan};
use zellige_op::Reduction;

/// The task for operands and results in these formats.
pub(super) fn bind<P: FnOnce(PassCost) -> Result<Plan>>(
    reduction: Reduction,
    plan: P,
    from: &[Format],
    to: &[Format],
) -> Result<Box<dyn Task>> {
    let adds = matches!(reduction, Reduction::Sum | Reduction::Prod | Reduction::NanSum);
    let ints = !from[0].is_float() || (adds && !to[0].is_float());
    let bound = Binding { plan, from, to, slow: reduction == Reduction::LogSumExp };
    // Places and counts are no numbers of the result.
    let counted =
        matches!(reduction, Reduction::ArgMax | Reduction::ArgMin | Reduction::CountNonzero);
    let long = from[0] == Format::I64 || (!counted && to[0] == Format::I64);
    match (ints, long) {
        (true, true) => int::<i64, P>(reduction, bound),
        (true, false) => int::<i32, P>(reduction, bound),
        (false, _) => float(reduction, bound),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "counts wrap")]
fn float<P: FnOnce(PassCost) -> Result<Plan>>(
    reduction: Reduction,
    b: Binding<'_, P>,
) -> Result<Box<dyn Task>> {
    match reduction {
        Reduction::Sum => b.one(0f32, |a, x: f32| a + x, |a, b| a + b, |a, _| canonicalize_nan(a)),
        Reduction::Mean => {
            b.one(0f32, |a, x: f32| a + x, |a, b| a + b, |a, n| canonicalize_nan(a / n as f32))
        }
        Reduction::Prod => b.one(1f32, |a, x: f32| a * x, |a, b| a * b, |a, _| canonicalize_nan(a)),
        Reduction::Amax => b.one(
            f32::NEG_INFINITY,
            |a, x: f32| maximum(x, a),
            |a, b| maximum(b, a),
            |a, _| canonicalize_nan(a),
        ),
        Reduction::Amin => b.one(
            f32::INFINITY,
            |a, x: f32| minimum(x, a),
            |a, b| minimum(b, a),
            |a, _| canonicalize_nan(a),
        ),
        Reduction::Max | Reduction::Min => b.fold(Arg {
            largest: reduction == Reduction::Max,
            first: |x: f32, _| canonicalize_nan(x),
            number: PhantomData,
        }),
        Reduction::ArgMax | Reduction::ArgMin => b.fold(Arg {
            largest: reduction == Reduction::ArgMax,
            first: |_: f32, at| at,
            number: PhantomData,
        }),
        Reduction::Any => b.one(
            0i32,
            |a, x: f32| a | i32::from(x != 0.0),
            |a, b| a | b,
            |a, _| if a == 0 { 0f32 } else { 1.0 },
        ),
        Reduction::All => b.one(
            1i32,
            |a, x: f32| a & i32::from(x != 0.0),
            |a, b| a & b,
            |a, _| if a == 0 { 0f32 } else { 1.0 },
        ),
        Reduction::CountNonzero => b.one(
            0i32,
            |a, x: f32| a.wrapping_add(i32::from(x != 0.0)),
            i32::wrapping_add,
            |a, _| a,
        ),
        Reduction::NanSum => b.one(
            0f32,
            |a, x: f32| if x.is_nan() { a } else { a + x },
            |a, b| a + b,
            |a, _| canonicalize_nan(a),
        ),
        Reduction::NanMean => b.one(
            (0f32, 0i32),
            |a, x: f32| if x.is_nan() { a } else { (a.0 + x, a.1 + 1) },
            |a, b| (a.0 + b.0, a.1 + b.1),
            |a, _| canonicalize_nan(a.0 / a.1 as f32),
        ),
        Reduction::Var { correction, root, .. } => b.fold(Var { correction, root }),
        Reduction::Exx2 => b.two(
            (0f32, 0f32),
            |a, x: f32| (a.0 + x, a.1 + x * x),
            |a, b| (a.0 + b.0, a.1 + b.1),
            |a, n| (canonicalize_nan(a.0 / n as f32), canonicalize_nan(a.1 / n as f32)),
        ),
        Reduction::LogSumExp => b.fold(LogSumExp),
        Reduction::Norm { p } => norm(p, b),
    }
}

fn int<T: WrappingInteger + Ordered, P: FnOnce(PassCost) -> Result<Plan>>(
    reduction: Reduction,
    b: Binding<'_, P>,
) -> Result<Box<dyn Task>> {
    match reduction {
        Reduction::Prod => b.one(T::ONE, T::multiply_wrapping, T::multiply_wrapping, |a, _| a),
        Reduction::Amax => b.one(
            <T as WrappingInteger>::LEAST_INTEGER,
            |a, x: T| a.max(x),
            |a, b| a.max(b),
            |a, _| a,
        ),
        Reduction::Amin => b.one(
            <T as WrappingInteger>::GREATEST_INTEGER,
            |a, x: T| a.min(x),
            |a, b| a.min(b),
            |a, _| a,
        ),
        Reduction::Max | Reduction::Min => b.fold(Arg {
            largest: reduction == Reduction::Max,
            first: |x: T, _| x,
            number: PhantomData,
        }),
        Reduction::ArgMax | Reduction::ArgMin => b.fold(Arg {
            largest: reduction == Reduction::ArgMax,
            first: |_: T, at| at,
            number: PhantomData,
        }),
        Reduction::Any => {
            let take = |a, x: T| a | i32::from(x != T::ZERO);
            b.one(0i32, take, |a, b| a | b, |a, _| a)
        }
        Reduction::All => {
            let take = |a, x: T| a & i32::from(x != T::ZERO);
            b.one(1i32, take, |a, b| a & b, |a, _| a)
        }
        Reduction::CountNonzero => b.one(
            0i32,
            |a, x: T| a.wrapping_add(i32::from(x != T::ZERO)),
            i32::wrapping_add,
            |a, _| a,
        ),
        // Sums; what is for floats was refused before.
        _ => b.one(T::ZERO, T::add_wrapping, T::add_wrapping, |a, _| a),
    }
}

fn norm<P: FnOnce(PassCost) -> Result<Plan>>(p: f32, b: Binding<'_, P>) -> Result<Box<dyn Task>> {
    let join = |a: f32, b: f32| a + b;
    if p == f32::INFINITY {
        let (take, join) = (|a, x: f32| maximum(x.abs(), a), |a, b| maximum(b, a));
        b.one(0f32, take, join, |a, _| canonicalize_nan(a))
    } else if p == f32::NEG_INFINITY {
        let (take, join) = (|a, x: f32| minimum(x.abs(), a), |a, b| minimum(b, a));
        b.one(f32::INFINITY, take, join, |a, _| canonicalize_nan(a))
    } else if p == 0.0 {
        b.one(0f32, |a, x: f32| a + f32::from(u8::from(x != 0.0)), join, |a, _| a)
    } else if p == 1.0 {
        b.one(0f32, |a, x: f32| a + x.abs(), join, |a, _| canonicalize_nan(a))
    } else if p == 2.0 {
        b.one(0f32, |a, x: f32| a + x * x, join, |a, _| canonicalize_nan(sqrt(a)))
    } else {
        let b = Binding { slow: true, ..b };
        b.one(
            0f32,
            move |a, x: f32| a + pow(x.abs(), p),
            join,
            move |a, _| canonicalize_nan(pow(a, 1.0 / p)),
        )
    }
}

/// What a task is made of.
struct Binding<'a, P> {
    plan: P,
    from: &'a [Format],
    to: &'a [Format],
    /// Whether it takes the slow path of the SFU.
    slow: bool,
}

impl<P: FnOnce(PassCost) -> Result<Plan>> Binding<'_, P> {
    fn fold<F: Fold>(self, fold: F) -> Result<Box<dyn Task>> {
        let plan = (self.plan)(PassCost {
            passes: F::PASSES,
            partial: size_of::<F::Acc>(),
            transcendental: self.slow,
        })?;
        Ok(Box::new(Bound::new(fold, plan, self.from, self.to)))
    }

    /// A reduction with one result from its parts.
    fn one<I, A, O>(
        self,
        first: A,
        take: impl Fn(A, I) -> A + Copy + Send + Sync + 'static,
        join: impl Fn(A, A) -> A + Copy + Send + Sync + 'static,
        finish: impl Fn(A, usize) -> O + Copy + Send + Sync + 'static,
    ) -> Result<Box<dyn Task>>
    where
        I: crate::kernels::io::Number,
        A: Copy + Send + Sync + 'static,
        O: crate::kernels::io::Number,
    {
        self.two(first, take, join, move |a, n| (finish(a, n), O::default()))
    }

    /// A reduction with two results of one kind.
    fn two<I, A, O>(
        self,
        first: A,
        take: impl Fn(A, I) -> A + Copy + Send + Sync + 'static,
        join: impl Fn(A, A) -> A + Copy + Send + Sync + 'static,
        finish: impl Fn(A, usize) -> (O, O) + Copy + Send + Sync + 'static,
    ) -> Result<Box<dyn Task>>
    where
        I: crate::kernels::io::Number,
        A: Copy + Send + Sync + 'static,
        O: crate::kernels::io::Number,
    {
        self.fold(By { first, take, join, finish, kinds: PhantomData })
    }
}
