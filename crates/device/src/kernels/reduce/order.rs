//! The largest and the smallest, with their places.

use super::fold::FoldPass;
use crate::kernels::io::KernelNumber;
use std::marker::PhantomData;

/// Numbers with an order in which NaN comes last.
pub(crate) trait OrderedNumber: KernelNumber {
    /// The number before all others.
    const FIRST_IN_ORDER: Self;
    /// The number after all others.
    const LAST_IN_ORDER: Self;

    /// Whether `self` is after `other`; NaN is after every number and equal to NaN.
    fn is_after(self, other: Self) -> bool;

    /// Whether `self` is before `other`; NaN is here before every number.
    fn is_before(self, other: Self) -> bool;
}

impl OrderedNumber for f32 {
    const FIRST_IN_ORDER: f32 = f32::NEG_INFINITY;
    const LAST_IN_ORDER: f32 = f32::INFINITY;

    #[inline(always)]
    fn is_after(self, other: f32) -> bool {
        (self > other) | (self.is_nan() & !other.is_nan())
    }

    #[inline(always)]
    fn is_before(self, other: f32) -> bool {
        (self < other) | (self.is_nan() & !other.is_nan())
    }
}

macro_rules! ordered {
    ($($t:ty)*) => {$(
        impl OrderedNumber for $t {
            const FIRST_IN_ORDER: $t = <$t>::MIN;
            const LAST_IN_ORDER: $t = <$t>::MAX;

            #[inline(always)]
            fn is_after(self, other: $t) -> bool {
                self > other
            }

            #[inline(always)]
            fn is_before(self, other: $t) -> bool {
                self < other
            }
        }
    )*};
}

ordered! { i32 i64 }

/// The largest or the smallest number, and its place.
///
/// NaN is preferred to every number; of equal numbers the one with the lowest place is taken, whatever
/// the order in which they come.
#[derive(Clone, Copy)]
pub(super) struct ExtremePass<T> {
    pub(super) largest: bool,
    pub(super) number: PhantomData<T>,
}

impl<T: OrderedNumber> ExtremePass<T> {
    /// The number that every other one replaces. Its place is the last one, so that an equal number of the operand
    /// replaces it too.
    pub(super) fn initial_accumulator(&self) -> (T, i32) {
        (if self.largest { T::FIRST_IN_ORDER } else { T::LAST_IN_ORDER }, i32::MAX)
    }
}

impl<T: OrderedNumber> FoldPass for ExtremePass<T> {
    type Number = T;
    type Accumulator = (T, i32);

    #[inline(always)]
    fn take_number(&self, acc: (T, i32), x: T, at: i32) -> (T, i32) {
        self.join_accumulators(acc, (x, at))
    }

    // Conditions are joined without branches, because a loop with branches is not made into vectors.
    #[inline(always)]
    fn join_accumulators(&self, a: (T, i32), b: (T, i32)) -> (T, i32) {
        let (wins, loses) = if self.largest {
            (b.0.is_after(a.0), a.0.is_after(b.0))
        } else {
            (b.0.is_before(a.0), a.0.is_before(b.0))
        };
        let takes = wins | (!loses & (b.1 < a.1));
        (if takes { b.0 } else { a.0 }, if takes { b.1 } else { a.1 })
    }
}
