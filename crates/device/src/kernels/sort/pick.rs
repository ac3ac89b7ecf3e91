//! The elements of a line in order: all, the first few, or one.

use super::{Keyed, places};
use crate::kernels::rows::{Line, LineCost, LineOp};
use std::sync::Arc;
use zellige_op::{Pick, Picked};

impl LineOp for Pick {
    fn cost(&self, n: usize) -> LineCost {
        // A sorting network along the lanes: n log2 n comparisons.
        let levels = u64::from(usize::BITS - n.leading_zeros());
        LineCost { plain: n as u64 * levels, transcendental: 0 }
    }

    fn float(&self) -> Option<Arc<dyn Line<f32>>> {
        Some(Arc::new(Row { which: self.which, descending: self.descending }))
    }

    fn int(&self) -> Option<Arc<dyn Line<i32>>> {
        Some(Arc::new(Row { which: self.which, descending: self.descending }))
    }

    fn long(&self) -> Option<Arc<dyn Line<i64>>> {
        Some(Arc::new(Row { which: self.which, descending: self.descending }))
    }
}

struct Row {
    which: Picked,
    descending: bool,
}

impl<T: Keyed> Line<T> for Row {
    fn run(&self, x: &mut [T], _: &[&[T]], values: &mut [T], indices: &mut [i32]) {
        let (first, k) = match self.which {
            Picked::All => (0, x.len()),
            Picked::First(k) => (0, k),
            Picked::Kth(k) => (k - 1, k),
            Picked::Median => {
                let half = x.len().div_ceil(2);
                match x.iter().position(|x| Keyed::is_nan(*x)) {
                    Some(at) => {
                        give(x, &[at], values, indices);
                        return;
                    }
                    None => (half - 1, half),
                }
            }
        };
        let places = places(x, self.descending, k);
        give(x, &places[first..], values, indices);
    }
}

/// Values and indices, where they are wanted.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "lines are shorter")]
fn give<T: Copy>(x: &[T], places: &[usize], values: &mut [T], indices: &mut [i32]) {
    values.iter_mut().zip(places).for_each(|(v, p)| *v = x[*p]);
    indices.iter_mut().zip(places).for_each(|(i, p)| *i = *p as i32);
}
