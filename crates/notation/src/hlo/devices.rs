//! The devices of an HLO sharding: a list, or an iota that is read in another order.

use crate::Diagnostic;
use zellige_layout::{Axis, Layout, TileLayout};

/// The devices of the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeviceOrder {
    List(Vec<i64>),
    /// Extents that are numbered row-major, and the order in which they are then read.
    Iota(Vec<i64>, Vec<usize>),
}

impl DeviceOrder {
    /// The device of every part, in row-major order of the parts.
    pub(super) fn list_devices(&self) -> Result<Vec<i64>, Diagnostic> {
        match self {
            DeviceOrder::List(list) => Ok(list.clone()),
            DeviceOrder::Iota(dims, perm) => {
                let strides = zellige_layout::int::row_major_strides(dims)?;
                let pick = |v: &[i64]| -> Vec<i64> { perm.iter().map(|k| v[*k]).collect() };
                let iota = TileLayout::from_strides(&pick(dims), &pick(&strides), 0)?;
                Ok(Layout::from(iota).offset_table(Axis::M)?)
            }
        }
    }
}

/// The first device that a list names twice.
pub(super) fn find_repeated_device(list: &[i64]) -> Option<i64> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|w| w[0] == w[1]).map(|w| w[0])
}

/// The iota with the fewest dimensions that has the same order: without dimensions of one device, and with
/// neighbours fused that the transposition keeps together. XLA prints this canonical form.
pub(super) fn canonical_iota(dims: &[i64], perm: &[usize]) -> DeviceOrder {
    // Runs of dimensions, in the order in which they are read.
    let mut runs: Vec<(usize, i64)> = Vec::new();
    let mut before: Option<usize> = None;
    for d in perm.iter().copied().filter(|d| dims[*d] > 1) {
        let next = |b: usize| (b + 1..d).all(|k| dims[k] == 1) && b < d;
        match runs.last_mut() {
            Some((_, size)) if before.is_some_and(next) => *size *= dims[d],
            _ => runs.push((d, dims[d])),
        }
        before = Some(d);
    }
    let mut sorted = runs.clone();
    sorted.sort_unstable();
    let perm = runs.iter().filter_map(|run| sorted.iter().position(|s| s == run)).collect();
    let dims: Vec<i64> = sorted.iter().map(|(_, size)| *size).collect();
    if dims.is_empty() {
        DeviceOrder::Iota(vec![1], vec![0])
    } else {
        DeviceOrder::Iota(dims, perm)
    }
}

/// Factors (size, stride) of all devices as an iota: extents slowest first, and the order of the factors;
/// neighbours that stay together are fused. `None` if they leave devices out, because an iota has all of
/// them.
pub(super) fn factors_as_iota(order: &[(i64, i64)]) -> Option<(Vec<i64>, Vec<usize>)> {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for (size, stride) in order.iter().filter(|(size, _)| *size > 1) {
        match runs.last_mut() {
            Some((n, s)) if *s == size * stride => (*n, *s) = (*n * size, *stride),
            _ => runs.push((*size, *stride)),
        }
    }
    let mut sorted: Vec<usize> = (0..runs.len()).collect();
    sorted.sort_by_key(|k| std::cmp::Reverse(runs[*k].1));
    let dims: Vec<i64> = sorted.iter().map(|k| runs[*k].0).collect();
    let mut next = 1;
    for k in sorted.iter().rev() {
        let (size, stride) = runs[*k];
        if stride != next {
            return None;
        }
        next *= size;
    }
    let perm = (0..runs.len()).filter_map(|k| sorted.iter().position(|s| *s == k)).collect();
    Some(if dims.is_empty() { (vec![1], vec![0]) } else { (dims, perm) })
}
