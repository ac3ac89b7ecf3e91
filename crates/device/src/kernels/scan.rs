//! Scans: every result from the elements up to its own.

use super::reduce::order::OrderedNumber;
use super::rows::{LineCost, LineFunction, LineOpKernel};
use crate::tensor::sticks::StickForm;
use std::sync::Arc;
use zellige_math::canonicalize_nan;
use zellige_op::{ScanCarry, ScanOp};

impl LineOpKernel for ScanOp {
    fn line_cost(&self, n: usize) -> LineCost {
        LineCost { plain: n as u64, transcendental: 0 }
    }

    fn float_function(&self) -> Option<Arc<dyn LineFunction<f32>>> {
        Some(Arc::new(self.carry))
    }

    fn int32_function(&self) -> Option<Arc<dyn LineFunction<i32>>> {
        Some(Arc::new(self.carry))
    }

    fn int64_function(&self) -> Option<Arc<dyn LineFunction<i64>>> {
        Some(Arc::new(self.carry))
    }

    fn uses_integers(&self, input: &StickForm, output: &StickForm) -> bool {
        !input.format.is_float() || !output.format.is_float()
    }
}

impl LineFunction<f32> for ScanCarry {
    fn in_place(&self) -> bool {
        true
    }

    fn run_line(&self, x: &mut [f32], _: &[&[f32]], _: &mut [f32], indices: &mut [i32]) {
        match self {
            ScanCarry::Sum => scan_line(x, 0.0, |a, x| canonicalize_nan(a + x)),
            ScanCarry::Product => scan_line(x, 1.0, |a, x| canonicalize_nan(a * x)),
            ScanCarry::Largest => scan_extremes(x, indices, |x, held| !held.is_after(x)),
            ScanCarry::Smallest => scan_extremes(x, indices, |x, held| !held.is_before(x)),
        }
    }
}

/// The scans of integers.
macro_rules! scans {
    ($($t:ty)*) => {$(
        impl LineFunction<$t> for ScanCarry {
            fn in_place(&self) -> bool {
                true
            }

            fn run_line(&self, x: &mut [$t], _: &[&[$t]], _: &mut [$t], indices: &mut [i32]) {
                match self {
                    ScanCarry::Sum => scan_line(x, 0, <$t>::wrapping_add),
                    ScanCarry::Product => scan_line(x, 1, <$t>::wrapping_mul),
                    ScanCarry::Largest => scan_extremes(x, indices, |x, held| !held.is_after(x)),
                    ScanCarry::Smallest => scan_extremes(x, indices, |x, held| !held.is_before(x)),
                }
            }
        }
    )*};
}

scans! { i32 i64 }

// One after the other and not by halves, as the order of sums is part of the result.
fn scan_line<T: Copy>(x: &mut [T], start: T, take: impl Fn(T, T) -> T) {
    let mut held = start;
    for x in x {
        held = take(held, *x);
        *x = held;
    }
}

/// The extreme so far: a number that `wins` against the one held replaces it.
fn scan_extremes<T: Copy>(x: &mut [T], indices: &mut [i32], wins: impl Fn(T, T) -> bool) {
    let Some(first) = x.first() else { return };
    let (mut held, mut at) = (*first, 0);
    for ((x, index), here) in x.iter_mut().zip(indices).zip(0..) {
        if wins(*x, held) {
            (held, at) = (*x, here);
        }
        *x = held;
        *index = at;
    }
}
