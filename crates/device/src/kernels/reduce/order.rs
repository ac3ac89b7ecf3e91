//! The largest and the smallest, with their places.

use super::fold::Fold;
use crate::kernels::io::Number;
use std::marker::PhantomData;

/// Numbers with an order in which NaN comes last.
pub(crate) trait Ordered: Number {
    /// The number before all others.
    const LEAST: Self;
    /// The number after all others.
    const MOST: Self;

    /// Whether `self` is after `other`; NaN is after every number and equal to NaN.
    fn after(self, other: Self) -> bool;

    /// Whether `self` is before `other`; NaN is here before every number.
    fn before(self, other: Self) -> bool;
}

impl Ordered for f32 {
    const LEAST: f32 = f32::NEG_INFINITY;
    const MOST: f32 = f32::INFINITY;

    #[inline(always)]
    fn after(self, other: f32) -> bool {
        (self > other) | (self.is_nan() & !other.is_nan())
    }

    #[inline(always)]
    fn before(self, other: f32) -> bool {
        (self < other) | (self.is_nan() & !other.is_nan())
    }
}

macro_rules! ordered {
    ($($t:ty)*) => {$(
        impl Ordered for $t {
            const LEAST: $t = <$t>::MIN;
            const MOST: $t = <$t>::MAX;

            #[inline(always)]
            fn after(self, other: $t) -> bool {
                self > other
            }

            #[inline(always)]
            fn before(self, other: $t) -> bool {
                self < other
            }
        }
    )*};
}

ordered! { i32 i64 }

/// Which number is looked for, and what of it is the first result.
///
/// NaN goes before every number; of equal numbers the one with the lowest place is taken, whatever
/// the order in which they come.
#[derive(Clone, Copy)]
pub(super) struct Arg<T, O> {
    pub(super) largest: bool,
    /// The first result from number and place; the second is the place.
    pub(super) first: fn(T, i32) -> O,
    pub(super) number: PhantomData<T>,
}

impl<T: Ordered, O: Number> Fold for Arg<T, O> {
    type In = T;
    type Acc = (T, i32);
    type Out = O;
    type Also = i32;

    fn first(&self) -> (T, i32) {
        (if self.largest { T::LEAST } else { T::MOST }, i32::MAX)
    }

    #[inline(always)]
    fn take<const PASS: usize>(&self, acc: (T, i32), x: T, at: i32) -> (T, i32) {
        self.join::<PASS>(acc, (x, at))
    }

    #[inline(always)]
    fn join<const PASS: usize>(&self, a: (T, i32), b: (T, i32)) -> (T, i32) {
        let (wins, loses) = if self.largest {
            (b.0.after(a.0), a.0.after(b.0))
        } else {
            (b.0.before(a.0), a.0.before(b.0))
        };
        let takes = wins | (!loses & (b.1 < a.1));
        (if takes { b.0 } else { a.0 }, if takes { b.1 } else { a.1 })
    }

    fn finish(&self, acc: (T, i32), _: usize) -> (O, i32) {
        ((self.first)(acc.0, acc.1), acc.1)
    }
}
