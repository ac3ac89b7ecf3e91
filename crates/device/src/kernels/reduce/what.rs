//! What each reduction computes.

use super::fold::{By, Fold};
use super::moments::{LogSumExp, Var};
use super::order::Arg;
use super::order::Ordered;
use super::plan::{Charge, Plan};
use super::summed;
use super::task::Bound;
use crate::error::Result;
use crate::kernels::Task;
use std::marker::PhantomData;
use zellige_float::Format;
use zellige_layout::Dtype;
use zellige_math::pow::{pow, sqrt};
use zellige_math::round::{maximum, minimum};
use zellige_math::{Whole, canonical};

/// A reduction. NaN goes through all of them that do not say otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum What {
    /// From 0.
    Sum,
    /// The sum divided by the number of elements.
    Mean,
    /// From 1.
    Prod,
    /// The largest; NaN is larger than all.
    Amax,
    /// The smallest; NaN is smaller than all.
    Amin,
    /// The largest, and its lowest place along the dimension.
    Max,
    /// The smallest, and its lowest place along the dimension.
    Min,
    /// The lowest place of the largest, among all reduced elements in row-major order.
    ArgMax,
    /// The lowest place of the smallest, as above.
    ArgMin,
    /// Whether one is not 0; NaN is not 0.
    Any,
    /// Whether none is 0.
    All,
    /// How many are not 0.
    CountNonzero,
    /// The sum of what is not NaN.
    NanSum,
    /// That sum divided by how many there are.
    NanMean,
    /// [`Var`].
    Var {
        /// Taken from the number of elements.
        correction: f32,
        /// The standard deviation.
        root: bool,
        /// With the mean as second result.
        mean: bool,
    },
    /// The mean, and the mean of the squares.
    Exx2,
    /// [`LogSumExp`].
    LogSumExp,
    /// The p-th root of the sum of p-th powers of absolute values: for infinity the largest, for
    /// minus infinity the smallest of them, for 0 how many are not 0, for 2 the root of the squares.
    Norm {
        /// p.
        p: f32,
    },
}

impl What {
    /// Whether there is no result of no elements.
    pub(super) fn needs_one(self) -> bool {
        use What::{Amax, Amin, ArgMax, ArgMin, Max, Min, Norm};
        matches!(self, Amax | Amin | Max | Min | ArgMax | ArgMin)
            || matches!(self, Norm { p } if p.is_infinite() || p < 0.0)
    }

    /// Whether results are places among the reduced elements, or a number of them.
    pub(super) fn counts(self) -> bool {
        use What::{ArgMax, ArgMin, CountNonzero, Max, Min};
        matches!(self, Max | Min | ArgMax | ArgMin | CountNonzero)
    }

    pub(super) fn floats_only(self) -> bool {
        use What::{Exx2, LogSumExp, Mean, NanMean, Norm, Var};
        matches!(self, Mean | NanMean | Var { .. } | Exx2 | LogSumExp | Norm { .. })
    }

    /// The dtypes of the results.
    pub(super) fn dtypes(self, x: Dtype) -> Vec<Dtype> {
        match self {
            What::Sum | What::Prod | What::NanSum => vec![summed(x)],
            What::Max | What::Min => vec![x, Dtype::Int64],
            What::ArgMax | What::ArgMin | What::CountNonzero => vec![Dtype::Int64],
            What::Any | What::All if x != Dtype::Uint8 => vec![Dtype::Bool],
            What::Var { mean: true, .. } | What::Exx2 => vec![x, x],
            _ => vec![x],
        }
    }

    /// The task for operands and results in these formats.
    pub(super) fn bind<P: FnOnce(Charge) -> Result<Plan>>(
        self,
        plan: P,
        from: &[Format],
        to: &[Format],
    ) -> Result<Box<dyn Task>> {
        let adds = matches!(self, What::Sum | What::Prod | What::NanSum);
        let ints = !from[0].is_float() || (adds && !to[0].is_float());
        let bound = Binding { plan, from, to, slow: self == What::LogSumExp };
        // Places and counts are no numbers of the result.
        let counted = matches!(self, What::ArgMax | What::ArgMin | What::CountNonzero);
        let long = from[0] == Format::I64 || (!counted && to[0] == Format::I64);
        match (ints, long) {
            (true, true) => self.int::<i64, P>(bound),
            (true, false) => self.int::<i32, P>(bound),
            (false, _) => self.float(bound),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "counts wrap")]
    fn float<P: FnOnce(Charge) -> Result<Plan>>(self, b: Binding<'_, P>) -> Result<Box<dyn Task>> {
        match self {
            What::Sum => b.one(0f32, |a, x: f32| a + x, |a, b| a + b, |a, _| canonical(a)),
            What::Mean => {
                b.one(0f32, |a, x: f32| a + x, |a, b| a + b, |a, n| canonical(a / n as f32))
            }
            What::Prod => b.one(1f32, |a, x: f32| a * x, |a, b| a * b, |a, _| canonical(a)),
            What::Amax => b.one(
                f32::NEG_INFINITY,
                |a, x: f32| maximum(x, a),
                |a, b| maximum(b, a),
                |a, _| canonical(a),
            ),
            What::Amin => b.one(
                f32::INFINITY,
                |a, x: f32| minimum(x, a),
                |a, b| minimum(b, a),
                |a, _| canonical(a),
            ),
            What::Max | What::Min => b.fold(Arg {
                largest: self == What::Max,
                first: |x: f32, _| canonical(x),
                number: PhantomData,
            }),
            What::ArgMax | What::ArgMin => b.fold(Arg {
                largest: self == What::ArgMax,
                first: |_: f32, at| at,
                number: PhantomData,
            }),
            What::Any => b.one(
                0i32,
                |a, x: f32| a | i32::from(x != 0.0),
                |a, b| a | b,
                |a, _| if a == 0 { 0f32 } else { 1.0 },
            ),
            What::All => b.one(
                1i32,
                |a, x: f32| a & i32::from(x != 0.0),
                |a, b| a & b,
                |a, _| if a == 0 { 0f32 } else { 1.0 },
            ),
            What::CountNonzero => b.one(
                0i32,
                |a, x: f32| a.wrapping_add(i32::from(x != 0.0)),
                i32::wrapping_add,
                |a, _| a,
            ),
            What::NanSum => b.one(
                0f32,
                |a, x: f32| if x.is_nan() { a } else { a + x },
                |a, b| a + b,
                |a, _| canonical(a),
            ),
            What::NanMean => b.one(
                (0f32, 0i32),
                |a, x: f32| if x.is_nan() { a } else { (a.0 + x, a.1 + 1) },
                |a, b| (a.0 + b.0, a.1 + b.1),
                |a, _| canonical(a.0 / a.1 as f32),
            ),
            What::Var { correction, root, .. } => b.fold(Var { correction, root }),
            What::Exx2 => b.two(
                (0f32, 0f32),
                |a, x: f32| (a.0 + x, a.1 + x * x),
                |a, b| (a.0 + b.0, a.1 + b.1),
                |a, n| (canonical(a.0 / n as f32), canonical(a.1 / n as f32)),
            ),
            What::LogSumExp => b.fold(LogSumExp),
            What::Norm { p } => norm(p, b),
        }
    }

    fn int<T: Whole + Ordered, P: FnOnce(Charge) -> Result<Plan>>(
        self,
        b: Binding<'_, P>,
    ) -> Result<Box<dyn Task>> {
        match self {
            What::Prod => b.one(T::ONE, T::times, T::times, |a, _| a),
            What::Amax => b.one(<T as Whole>::LEAST, |a, x: T| a.max(x), |a, b| a.max(b), |a, _| a),
            What::Amin => b.one(<T as Whole>::MOST, |a, x: T| a.min(x), |a, b| a.min(b), |a, _| a),
            What::Max | What::Min => {
                b.fold(Arg { largest: self == What::Max, first: |x: T, _| x, number: PhantomData })
            }
            What::ArgMax | What::ArgMin => b.fold(Arg {
                largest: self == What::ArgMax,
                first: |_: T, at| at,
                number: PhantomData,
            }),
            What::Any => {
                let take = |a, x: T| a | i32::from(x != T::ZERO);
                b.one(0i32, take, |a, b| a | b, |a, _| a)
            }
            What::All => {
                let take = |a, x: T| a & i32::from(x != T::ZERO);
                b.one(1i32, take, |a, b| a & b, |a, _| a)
            }
            What::CountNonzero => b.one(
                0i32,
                |a, x: T| a.wrapping_add(i32::from(x != T::ZERO)),
                i32::wrapping_add,
                |a, _| a,
            ),
            // Sums; what is for floats was refused before.
            _ => b.one(T::ZERO, T::plus, T::plus, |a, _| a),
        }
    }
}

fn norm<P: FnOnce(Charge) -> Result<Plan>>(p: f32, b: Binding<'_, P>) -> Result<Box<dyn Task>> {
    let join = |a: f32, b: f32| a + b;
    if p == f32::INFINITY {
        let (take, join) = (|a, x: f32| maximum(x.abs(), a), |a, b| maximum(b, a));
        b.one(0f32, take, join, |a, _| canonical(a))
    } else if p == f32::NEG_INFINITY {
        let (take, join) = (|a, x: f32| minimum(x.abs(), a), |a, b| minimum(b, a));
        b.one(f32::INFINITY, take, join, |a, _| canonical(a))
    } else if p == 0.0 {
        b.one(0f32, |a, x: f32| a + f32::from(u8::from(x != 0.0)), join, |a, _| a)
    } else if p == 1.0 {
        b.one(0f32, |a, x: f32| a + x.abs(), join, |a, _| canonical(a))
    } else if p == 2.0 {
        b.one(0f32, |a, x: f32| a + x * x, join, |a, _| canonical(sqrt(a)))
    } else {
        let b = Binding { slow: true, ..b };
        b.one(
            0f32,
            move |a, x: f32| a + pow(x.abs(), p),
            join,
            move |a, _| canonical(pow(a, 1.0 / p)),
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

impl<P: FnOnce(Charge) -> Result<Plan>> Binding<'_, P> {
    fn fold<F: Fold>(self, fold: F) -> Result<Box<dyn Task>> {
        let plan = (self.plan)(Charge {
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
