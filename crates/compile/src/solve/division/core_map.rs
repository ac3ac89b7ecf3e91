//! Which core has which slice.

use crate::error::{CompileError, Result};
use zellige_device::core_order;

/// The place of every core in every dimension: mixed radix in the order of [`core_order`], so a
/// dimension that is summed over is the fastest, and of the others the first.
///
/// **Law**: every combination of places occurs exactly once.
pub fn map_cores_to_slices(splits: &[u64], reduced: &[bool]) -> Vec<Vec<u64>> {
    let cores: u64 = splits.iter().product();
    // The device decides the order and this asks it. If it were written here too, a report could name another core
    // than the one that runs.
    let order = core_order((0..splits.len()).map(|d| reduced.get(d) == Some(&true)));
    (0..cores).map(|core| mixed_radix_digits(splits, core, order.iter().copied())).collect()
}

/// The slices of groups of neighbours, the first dimension the slowest: all cores of one slice of it
/// are neighbours. Where there are more cores than slices, neighbours own the same slice, as many for
/// each.
///
/// # Errors
/// Where the slices do not divide the cores.
pub fn assign_slice_owners(splits: &[u64], cores: u64) -> Result<Vec<Vec<u64>>> {
    let slices: u64 = splits.iter().product();
    if slices == 0 || !cores.is_multiple_of(slices) {
        let most = usize::try_from(cores).unwrap_or(usize::MAX);
        return Err(CompileError::Cores { cores: i64::try_from(slices).unwrap_or(i64::MAX), most });
    }
    // Neighbours are near each other on the ring, so that owners of one slice exchange data over the fewest hops.
    let group = cores / slices;
    Ok((0..cores)
        .map(|core| mixed_radix_digits(splits, core / group, (0..splits.len()).rev()))
        .collect())
}

/// The digits of a number over the splits, the dimensions from the fastest on.
fn mixed_radix_digits(
    splits: &[u64],
    number: u64,
    fastest: impl Iterator<Item = usize>,
) -> Vec<u64> {
    let mut rest = number;
    let mut digits = vec![0; splits.len()];
    for d in fastest {
        (digits[d], rest) = (rest % splits[d], rest / splits[d]);
    }
    digits
}
