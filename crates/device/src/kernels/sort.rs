//! Sorting lines, and what sorted lines give: the first few, one of them, medians and quantiles.
//!
//! **Order**: NaN is greater than every number, and the two zeros are equal. Elements that are equal
//! keep their order whichever way is sorted: the lowest index comes first.

mod pick;
mod quantile;

/// Numbers with a key whose order is theirs.
pub(crate) trait KeyedNumber: Copy + Default {
    /// A key with an index behind it, ordered by both.
    type SortKey: Copy + Ord + Send + Sync;

    /// The key of a number at an index; in the reverse order of numbers with `descending`.
    fn sort_key(self, index: u32, descending: bool) -> Self::SortKey;

    /// The index in a key.
    fn index_of_key(place: Self::SortKey) -> usize;

    /// Whether it is NaN.
    fn is_nan(self) -> bool {
        false
    }
}

const SIGN_BIT: u32 = 1 << 31;

/// Key above index: equal keys go by index.
fn pack_sort_key(key: u32, index: u32, descending: bool) -> u64 {
    let turn = if descending { u32::MAX } else { 0 };
    u64::from(key ^ turn) << 32 | u64::from(index)
}

/// The index in such a key.
fn unpack_index(place: u64) -> usize {
    usize::try_from(place & u64::from(u32::MAX)).unwrap_or(usize::MAX)
}

impl KeyedNumber for f32 {
    type SortKey = u64;

    fn sort_key(self, index: u32, descending: bool) -> u64 {
        if self.is_nan() {
            // After infinity, whose key is below this one, whichever payload the NaN has.
            return pack_sort_key(u32::MAX, index, descending);
        }
        // Both zeros become the positive one.
        let bits = (self + 0.0).to_bits();
        // Bits of positive floats are in their order; those of negative ones are in the reverse order, so that all
        // of them are flipped. The sign then separates both halves.
        pack_sort_key(if bits & SIGN_BIT == 0 { bits | SIGN_BIT } else { !bits }, index, descending)
    }

    fn index_of_key(place: u64) -> usize {
        unpack_index(place)
    }

    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl KeyedNumber for i32 {
    type SortKey = u64;

    fn sort_key(self, index: u32, descending: bool) -> u64 {
        pack_sort_key(self.cast_unsigned() ^ SIGN_BIT, index, descending)
    }

    fn index_of_key(place: u64) -> usize {
        unpack_index(place)
    }
}

impl KeyedNumber for i64 {
    // A pair, because 64 bits of key leave no room for an index.
    type SortKey = (i64, u32);

    fn sort_key(self, index: u32, descending: bool) -> (i64, u32) {
        // The complement reverses the order of all integers, which the negation does not: the smallest one has
        // none.
        (if descending { !self } else { self }, index)
    }

    fn index_of_key(place: (i64, u32)) -> usize {
        usize::try_from(place.1).unwrap_or(usize::MAX)
    }
}

/// The indices of the first `k` numbers of a sorted line, in order.
fn sorted_indices<T: KeyedNumber>(x: &[T], descending: bool, k: usize) -> Vec<usize> {
    // Keys with the index inside are all different, so that an unstable sort gives the stable order, and comparing
    // them is one comparison of integers.
    let mut list: Vec<T::SortKey> =
        x.iter().zip(0..).map(|(x, i)| x.sort_key(i, descending)).collect();
    if k < list.len() {
        if k > 0 {
            // The first k in any order take linear time; only these are sorted.
            list.select_nth_unstable(k - 1);
        }
        list.truncate(k);
    }
    list.sort_unstable();
    list.into_iter().map(T::index_of_key).collect()
}
