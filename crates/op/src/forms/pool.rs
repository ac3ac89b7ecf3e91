//! Pooling: the largest or the mean of windows over images.

use super::window::{Window, floor_sum};
use crate::dtype::is_float;
use crate::error::{Result, refuse};
use crate::tensor_type::TensorType;
use std::ops::Range;

/// What becomes of a window; positions outside of the image take no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooled {
    /// The largest, NaN if there is one; the windows are given.
    Max([Window; 2]),
    /// The sum, row by row from the first, over the number of places: with the padding or without.
    Mean([Window; 2], bool),
    /// The mean of as many windows as given that cover the image: window `i` of `n` over `size` has the
    /// places from `floor(i * size / n)` to `ceil((i + 1) * size / n)`.
    Adaptive([usize; 2]),
}

/// Pooling with its attributes.
#[derive(Debug, Clone)]
pub struct Pool {
    pub name: &'static str,
    pub pooled: Pooled,
}

impl Pooled {
    /// How many windows there are along dimension `d` of an image.
    pub fn count(&self, d: usize, size: usize) -> Option<usize> {
        match self {
            Pooled::Max(w) | Pooled::Mean(w, _) => w[d].count(size),
            Pooled::Adaptive(n) => Some(n[d]),
        }
    }

    /// The places of window `i` of `count`: the first one, how far they are apart, how many; and the number
    /// that a mean counts.
    pub fn places(
        &self,
        d: usize,
        i: usize,
        count: usize,
        size: usize,
    ) -> (usize, usize, usize, usize) {
        match self {
            Pooled::Max(w) | Pooled::Mean(w, _) => {
                let w = &w[d];
                let inside = w.inside(i, size);
                let first = w.place(i, inside.start, size).unwrap_or(0);
                // Padding counts where it is asked for, up to the end of the padded dimension.
                let begin = i * w.stride;
                let end = (begin + w.kernel).min(size + 2 * w.padding);
                let padded = end.saturating_sub(begin);
                let all = matches!(self, Pooled::Mean(_, true));
                (first, w.dilation, inside.len(), if all { padded } else { inside.len() })
            }
            Pooled::Adaptive(_) => {
                let first = share(i, size, count);
                let end = size - share(count - 1 - i, size, count);
                (first, 1, end - first, end - first)
            }
        }
    }

    /// Places of all these windows together, one in several windows counted for each.
    pub fn places_of_all(
        &self,
        d: usize,
        windows: &Range<usize>,
        count: usize,
        size: usize,
    ) -> u64 {
        let all = match self {
            Pooled::Max(w) | Pooled::Mean(w, _) => w[d].inside_all(windows, size),
            Pooled::Adaptive(_) if windows.is_empty() => 0,
            Pooled::Adaptive(_) => {
                let (n, count, size) = (windows.len() as u128, count as u128, size as u128);
                let first = windows.start as u128 * size;
                floor_sum(n, count, size, first + size + count - 1)
                    - floor_sum(n, count, size, first)
            }
        };
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// Whether window `i` along dimension `d` is place `i` and nothing else.
    pub fn is_place(&self, d: usize, size: usize) -> bool {
        match self {
            Pooled::Max(w) | Pooled::Mean(w, _) => w[d].is_place(),
            Pooled::Adaptive(n) => n[d] == size,
        }
    }

    /// Places of the image that these windows reach.
    pub fn reach(
        &self,
        d: usize,
        windows: &Range<usize>,
        count: usize,
        size: usize,
    ) -> Range<usize> {
        match self {
            Pooled::Max(w) | Pooled::Mean(w, _) => w[d].reach(windows, size),
            Pooled::Adaptive(_) if windows.is_empty() => 0..0,
            Pooled::Adaptive(_) => {
                share(windows.start, size, count)..size - share(count - windows.end, size, count)
            }
        }
    }
}

/// `floor(i * size / count)`: a product of two extents may not fit in 64 bits.
fn share(i: usize, size: usize, count: usize) -> usize {
    let share = i as u128 * size as u128 / count as u128;
    usize::try_from(share).expect("at most the size, as `i` is at most the count")
}

impl Pool {
    pub(crate) fn infer(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = inputs else {
            let reason = format!("it takes 1 operand, not {}", inputs.len());
            return Err(refuse(self.name, None, reason));
        };
        let rank = x.size.len();
        if !(3..=4).contains(&rank) {
            let reason = format!("size {:?}; an image [n, c, h, w] or [c, h, w]", x.size);
            return Err(refuse(self.name, Some(0), reason));
        }
        if !is_float(x.dtype) || x.dtype.bits() == 8 {
            let reason = format!("its dtype is {}; a float of 16 or 32 bits", x.dtype);
            return Err(refuse(self.name, Some(0), reason));
        }
        let mut size = x.size.clone();
        for d in 0..2 {
            let extent = usize::try_from(x.size[rank - 2 + d]).unwrap_or(0);
            let Some(count) = self.pooled.count(d, extent).filter(|_| extent > 0) else {
                let reason = format!("a window is larger than the padded image {:?}", x.size);
                return Err(refuse(self.name, Some(0), reason));
            };
            size[rank - 2 + d] = i64::try_from(count).unwrap_or(i64::MAX);
        }
        Ok(vec![TensorType { size, dtype: x.dtype }])
    }
}
