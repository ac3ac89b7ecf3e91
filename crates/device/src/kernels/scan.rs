//! Scans: every result from the elements up to its own.

use super::reduce::order::Ordered;
use super::rows::{Line, LineCost, LineOp};
use crate::tensor::sticks::Sticks;
use std::sync::Arc;
use zellige_math::canonicalize_nan;
use zellige_op::{Carry, Scan};

impl LineOp for Scan {
    fn cost(&self, n: usize) -> LineCost {
        LineCost { plain: n as u64, transcendental: 0 }
    }

    fn float(&self) -> Option<Arc<dyn Line<f32>>> {
        Some(Arc::new(self.carry))
    }

    fn int(&self) -> Option<Arc<dyn Line<i32>>> {
        Some(Arc::new(self.carry))
    }

    fn long(&self) -> Option<Arc<dyn Line<i64>>> {
        Some(Arc::new(self.carry))
    }

    fn exact(&self, input: &Sticks, output: &Sticks) -> bool {
        !input.format.is_float() || !output.format.is_float()
    }
}

impl Line<f32> for Carry {
    fn in_place(&self) -> bool {
        true
    }

    fn run(&self, x: &mut [f32], _: &[&[f32]], _: &mut [f32], indices: &mut [i32]) {
        match self {
            Carry::Sum => fold(x, 0.0, |a, x| canonicalize_nan(a + x)),
            Carry::Product => fold(x, 1.0, |a, x| canonicalize_nan(a * x)),
            Carry::Largest => extreme(x, indices, |x, held| !held.after(x)),
            Carry::Smallest => extreme(x, indices, |x, held| !held.before(x)),
        }
    }
}

/// The scans of integers.
macro_rules! scans {
    ($($t:ty)*) => {$(
        impl Line<$t> for Carry {
            fn in_place(&self) -> bool {
                true
            }

            fn run(&self, x: &mut [$t], _: &[&[$t]], _: &mut [$t], indices: &mut [i32]) {
                match self {
                    Carry::Sum => fold(x, 0, <$t>::wrapping_add),
                    Carry::Product => fold(x, 1, <$t>::wrapping_mul),
                    Carry::Largest => extreme(x, indices, |x, held| !held.after(x)),
                    Carry::Smallest => extreme(x, indices, |x, held| !held.before(x)),
                }
            }
        }
    )*};
}

scans! { i32 i64 }

fn fold<T: Copy>(x: &mut [T], start: T, take: impl Fn(T, T) -> T) {
    let mut held = start;
    for x in x {
        held = take(held, *x);
        *x = held;
    }
}

/// The extreme so far: a number that `wins` against the one held replaces it.
fn extreme<T: Copy>(x: &mut [T], indices: &mut [i32], wins: impl Fn(T, T) -> bool) {
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
