//! The default distribution of cores over dimensions.

use super::iteration_space::IterationSpace;

/// Gives the cores that committed splits leave to the dimensions of the result, those with most units
/// first (the first of equals first), each the largest even split there is room for; what is then left
/// goes to one reduced dimension. A committed split may give way to a larger one.
///
/// **Law**: no split is below the committed one, the product is at most `cores`, and no dimension of
/// the result could be split further alone.
pub fn distribute_cores(space: &IterationSpace, cores: u64, committed: &[u64]) -> Vec<u64> {
    let mut splits = committed.to_vec();
    let mut used: u64 = splits.iter().product();
    let largest = |d: usize, now: u64, used: u64| {
        // torch-spyre commits splits for spans first and then multiplies; here a committed split may become larger,
        // so that the room is counted without it.
        let room = cores / (used / now);
        space.even_splits(d, room).into_iter().rfind(|s| *s >= now).unwrap_or(now)
    };
    let by_size = |reduced: bool| {
        let mut order: Vec<usize> =
            (0..splits.len()).filter(|d| space.dims()[*d].reduced == reduced).collect();
        order.sort_by_key(|d| std::cmp::Reverse(space.unit_count(*d)));
        order
    };
    let (outputs, mut reductions) = (by_size(false), by_size(true));
    for d in outputs {
        let split = largest(d, splits[d], used);
        used = used / splits[d] * split;
        splits[d] = split;
    }
    // Only one reduction may be split, so that a committed one keeps the others whole.
    if reductions.iter().any(|d| splits[*d] > 1) {
        reductions.retain(|d| splits[*d] > 1);
    }
    let grown = reductions.into_iter().map(|d| (d, largest(d, splits[d], used)));
    let grown = grown.filter(|(d, split)| *split > splits[*d]);
    // Of equals the first, which has most units.
    if let Some((d, split)) = grown.reduce(|a, b| if b.1 > a.1 { b } else { a }) {
        splits[d] = split;
    }
    splits
}
