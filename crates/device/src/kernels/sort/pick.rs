//! The elements of a line in order: all, the first few, or one.

use super::{KeyedNumber, sorted_indices};
use crate::kernels::rows::{LineCost, LineFunction, LineOpKernel};
use std::sync::Arc;
use zellige_op::{PickOp, PickRule};

impl LineOpKernel for PickOp {
    fn line_cost(&self, n: usize) -> LineCost {
        // A sorting network along the lanes: n log2 n comparisons.
        let levels = u64::from(usize::BITS - n.leading_zeros());
        LineCost { plain: n as u64 * levels, transcendental: 0 }
    }

    fn float_function(&self) -> Option<Arc<dyn LineFunction<f32>>> {
        Some(Arc::new(SortedRow { which: self.which, descending: self.descending }))
    }

    fn int32_function(&self) -> Option<Arc<dyn LineFunction<i32>>> {
        Some(Arc::new(SortedRow { which: self.which, descending: self.descending }))
    }

    fn int64_function(&self) -> Option<Arc<dyn LineFunction<i64>>> {
        Some(Arc::new(SortedRow { which: self.which, descending: self.descending }))
    }
}

struct SortedRow {
    which: PickRule,
    descending: bool,
}

impl<T: KeyedNumber> LineFunction<T> for SortedRow {
    fn run_line(&self, x: &mut [T], _: &[&[T]], values: &mut [T], indices: &mut [i32]) {
        let (first, k) = match self.which {
            PickRule::All => (0, x.len()),
            PickRule::First(k) => (0, k),
            PickRule::Kth(k) => (k - 1, k),
            PickRule::Median => {
                // The lower of two middle numbers, as in PyTorch.
                let half = x.len().div_ceil(2);
                match x.iter().position(|x| KeyedNumber::is_nan(*x)) {
                    // A single NaN is the median, at the first place that has one.
                    Some(at) => {
                        write_picked(x, &[at], values, indices);
                        return;
                    }
                    None => (half - 1, half),
                }
            }
        };
        let places = sorted_indices(x, self.descending, k);
        write_picked(x, &places[first..], values, indices);
    }
}

/// Values and indices, where they are wanted.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "lines are shorter")]
fn write_picked<T: Copy>(x: &[T], places: &[usize], values: &mut [T], indices: &mut [i32]) {
    values.iter_mut().zip(places).for_each(|(v, p)| *v = x[*p]);
    indices.iter_mut().zip(places).for_each(|(i, p)| *i = *p as i32);
}
