//! Pooling: the largest or the mean of windows over images.

use super::window::{KernelWindow, floor_sum};
use crate::dtype::is_float;
use crate::error::{Result, refuse_operand};
use crate::tensor_type::TensorType;
use std::ops::Range;

/// What becomes of a window; positions outside of the image take no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingKind {
    /// The largest, NaN if there is one; the windows are given.
    Max([KernelWindow; 2]),
    /// The sum, row by row from the first, over the number of places: with the padding or without.
    Mean([KernelWindow; 2], bool),
    /// The mean of as many windows as given that cover the image: window `i` of `n` over `size` has the
    /// places from `floor(i * size / n)` to `ceil((i + 1) * size / n)`.
    Adaptive([usize; 2]),
}

/// Pooling with its attributes.
#[derive(Debug, Clone)]
pub struct PoolingOp {
    pub name: &'static str,
    pub pooled: PoolingKind,
}

impl PoolingKind {
    /// How many windows there are along dimension `d` of an image.
    pub fn window_count(&self, d: usize, size: usize) -> Option<usize> {
        match self {
            PoolingKind::Max(w) | PoolingKind::Mean(w, _) => w[d].window_count(size),
            PoolingKind::Adaptive(n) => Some(n[d]),
        }
    }

    /// The places of window `i` of `count`: the first one, how far they are apart, how many; and the number
    /// that a mean counts.
    pub fn window_places(
        &self,
        d: usize,
        i: usize,
        count: usize,
        size: usize,
    ) -> (usize, usize, usize, usize) {
        match self {
            PoolingKind::Max(w) | PoolingKind::Mean(w, _) => {
                let w = &w[d];
                let inside = w.positions_inside(i, size);
                // A window inside of the padding has no first place, and none of its places is read.
                let first = w.kernel_place(i, inside.start, size).unwrap_or(0);
                // Padding counts where the operation says so, up to the end of the padded dimension.
                let begin = i * w.stride;
                let end = (begin + w.kernel).min(size + 2 * w.padding);
                let padded = end.saturating_sub(begin);
                let all = matches!(self, PoolingKind::Mean(_, true));
                (first, w.dilation, inside.len(), if all { padded } else { inside.len() })
            }
            PoolingKind::Adaptive(_) => {
                let first = floor_share(i, size, count);
                // The ceiling by the floor of what is left: `ceil((i + 1) * size / count)` is `size - floor((count
                // - 1 - i) * size / count)`.
                let end = size - floor_share(count - 1 - i, size, count);
                (first, 1, end - first, end - first)
            }
        }
    }

    /// Places of all these windows together, one in several windows counted for each.
    pub fn count_window_places(
        &self,
        d: usize,
        windows: &Range<usize>,
        count: usize,
        size: usize,
    ) -> u64 {
        let all = match self {
            PoolingKind::Max(w) | PoolingKind::Mean(w, _) => {
                w[d].count_positions_inside(windows, size)
            }
            PoolingKind::Adaptive(_) if windows.is_empty() => 0,
            PoolingKind::Adaptive(_) => {
                // Sums of floors by a formula, because there may be as many windows as the image has elements. In
                // 128 bits, because products of two extents may not fit in 64.
                let (n, count, size) = (windows.len() as u128, count as u128, size as u128);
                let first = windows.start as u128 * size;
                floor_sum(n, count, size, first + size + count - 1)
                    - floor_sum(n, count, size, first)
            }
        };
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// Whether window `i` along dimension `d` is place `i` and nothing else.
    pub fn is_identity(&self, d: usize, size: usize) -> bool {
        match self {
            PoolingKind::Max(w) | PoolingKind::Mean(w, _) => w[d].is_identity(),
            PoolingKind::Adaptive(n) => n[d] == size,
        }
    }

    /// Places of the image that these windows reach.
    pub fn window_reach(
        &self,
        d: usize,
        windows: &Range<usize>,
        count: usize,
        size: usize,
    ) -> Range<usize> {
        match self {
            PoolingKind::Max(w) | PoolingKind::Mean(w, _) => w[d].window_reach(windows, size),
            PoolingKind::Adaptive(_) if windows.is_empty() => 0..0,
            PoolingKind::Adaptive(_) => {
                floor_share(windows.start, size, count)
                    ..size - floor_share(count - windows.end, size, count)
            }
        }
    }
}

/// `floor(i * size / count)`: a product of two extents may not fit in 64 bits.
fn floor_share(i: usize, size: usize, count: usize) -> usize {
    let share = i as u128 * size as u128 / count as u128;
    usize::try_from(share).expect("at most the size, as `i` is at most the count")
}

impl PoolingOp {
    pub(crate) fn infer_types(&self, inputs: &[TensorType]) -> Result<Vec<TensorType>> {
        let [x] = inputs else {
            let reason = format!("it takes 1 operand, not {}", inputs.len());
            return Err(refuse_operand(self.name, None, reason));
        };
        let rank = x.size.len();
        if !(3..=4).contains(&rank) {
            let reason = format!("size {:?}; an image [n, c, h, w] or [c, h, w]", x.size);
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        if !is_float(x.dtype) || x.dtype.bits() == 8 {
            let reason = format!("its dtype is {}; a float of 16 or 32 bits", x.dtype);
            return Err(refuse_operand(self.name, Some(0), reason));
        }
        let mut size = x.size.clone();
        for d in 0..2 {
            let extent = usize::try_from(x.size[rank - 2 + d]).unwrap_or(0);
            // An image without elements has windows of padding alone, of which there is neither a largest number
            // nor a mean.
            let Some(count) = self.pooled.window_count(d, extent).filter(|_| extent > 0) else {
                let reason = format!("a window is larger than the padded image {:?}", x.size);
                return Err(refuse_operand(self.name, Some(0), reason));
            };
            size[rank - 2 + d] = i64::try_from(count).unwrap_or(i64::MAX);
        }
        Ok(vec![TensorType { size, dtype: x.dtype }])
    }
}
