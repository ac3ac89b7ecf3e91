//! Sorting lines, and what sorted lines give: the first few, one of them, medians and quantiles.
//!
//! **Order**: NaN is greater than every number, and the two zeros are equal. Elements that are equal
//! keep their order whichever way is sorted: the lowest index comes first.

mod pick;
mod quantile;

pub(crate) use pick::{Pick, Which};
pub(crate) use quantile::{Between, Quantile};

/// Numbers with a key whose order is theirs.
pub(crate) trait Keyed: Copy + Default {
    /// The key.
    fn key(self) -> u32;

    /// Whether it is NaN.
    fn is_nan(self) -> bool {
        false
    }
}

const SIGN: u32 = 1 << 31;

impl Keyed for f32 {
    fn key(self) -> u32 {
        if self.is_nan() {
            return u32::MAX;
        }
        // Both zeros become the positive one.
        let bits = (self + 0.0).to_bits();
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    }

    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl Keyed for i32 {
    fn key(self) -> u32 {
        self.cast_unsigned() ^ SIGN
    }
}

/// The first `k` places of a sorted line, in order.
fn places<T: Keyed>(x: &[T], descending: bool, k: usize) -> Vec<u64> {
    let turn = if descending { u32::MAX } else { 0 };
    // Key above index: equal keys go by index.
    let mut list: Vec<u64> =
        x.iter().zip(0u64..).map(|(x, i)| u64::from(x.key() ^ turn) << 32 | i).collect();
    if k < list.len() {
        if k > 0 {
            list.select_nth_unstable(k - 1);
        }
        list.truncate(k);
    }
    list.sort_unstable();
    list
}

/// The index in a place.
fn index(place: u64) -> usize {
    usize::try_from(place & u64::from(u32::MAX)).unwrap_or(usize::MAX)
}
