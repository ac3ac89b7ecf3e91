//! Scans: every result from the elements up to its own.

use super::reduce::order::Ordered;
use super::reduce::summed;
use super::rows::{Charge, Gives, Line, LineOp, operands};
use super::{Meta, dims};
use crate::error::Result;
use crate::sticks::{Dims, Sticks};
use std::sync::Arc;
use zellige_layout::Dtype;
use zellige_math::canonical;

/// What is carried along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carry {
    /// The sum so far.
    Sum,
    /// The product so far.
    Product,
    /// The largest so far, and the highest index at which it stands; NaN stays.
    Largest,
    /// The smallest so far, and the highest index at which it stands; NaN stays.
    Smallest,
}

/// A scan along one dimension, one element after the other from the first; each sum or product is
/// rounded to float32 (integers wrap at 32 or 64 bits), and stored rounded once more.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    pub(crate) name: &'static str,
    pub(crate) dim: i64,
    pub(crate) carry: Carry,
}

impl Scan {
    fn adds(&self) -> bool {
        matches!(self.carry, Carry::Sum | Carry::Product)
    }
}

impl LineOp for Scan {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        operands(self.name, inputs, 1, 1)?;
        let Meta { size, dtype } = inputs[0].clone();
        dims::one(self.name, "dim", self.dim, size.len())?;
        let of = |dtype| Meta { size: size.clone(), dtype };
        let adds = self.adds();
        Ok(if adds { vec![of(summed(dtype))] } else { vec![of(dtype), of(Dtype::Int64)] })
    }

    fn along(&self, size: &[usize]) -> Result<Dims<usize>> {
        Ok(dims::one(self.name, "dim", self.dim, size.len())?.into_iter().collect())
    }

    fn gives(&self) -> Gives {
        if self.adds() { Gives::Values } else { Gives::Both }
    }

    fn charge(&self, n: usize) -> Charge {
        Charge { plain: n as u64, transcendental: 0 }
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
            Carry::Sum => fold(x, 0.0, |a, x| canonical(a + x)),
            Carry::Product => fold(x, 1.0, |a, x| canonical(a * x)),
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
