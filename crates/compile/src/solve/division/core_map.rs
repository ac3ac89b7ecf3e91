//! Which core has which slice.

use crate::error::{CompileError, Result};

/// The place of every core in every dimension: mixed radix in iteration order, the last dimension
/// fastest, so that cores which split a reduction are neighbours on the ring.
///
/// **Law**: every combination of places occurs exactly once.
pub fn core_map(splits: &[u64]) -> Vec<Vec<u64>> {
    let cores: u64 = splits.iter().product();
    let place = |core: u64| {
        let mut rest = core;
        let mut digits = vec![0; splits.len()];
        for (digit, split) in digits.iter_mut().zip(splits).rev() {
            (*digit, rest) = (rest % split, rest / split);
        }
        digits
    };
    (0..cores).map(place).collect()
}

/// The same for more cores than slices: neighbours own the same slice, as many for each.
///
/// # Errors
/// Where the slices do not divide the cores.
pub fn owners(splits: &[u64], cores: u64) -> Result<Vec<Vec<u64>>> {
    let map = core_map(splits);
    let slices = map.len() as u64;
    if slices == 0 || !cores.is_multiple_of(slices) {
        let most = usize::try_from(cores).unwrap_or(usize::MAX);
        return Err(CompileError::Cores { cores: i64::try_from(slices).unwrap_or(i64::MAX), most });
    }
    let group = usize::try_from(cores / slices).unwrap_or(1);
    Ok(map.into_iter().flat_map(|place| std::iter::repeat_n(place, group)).collect())
}
