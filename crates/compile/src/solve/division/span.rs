//! Spans: how much of a tensor's memory one core reaches over.
//!
//! A core addresses a window of each tensor. Its span is charged by the outermost device dimension
//! in which it visits more than one coordinate: that many times everything inside the dimension.

use super::iteration_space::IterationSpace;
use super::tensor_access::TensorAccess;
use crate::error::{CompileError, Result};
use std::ops::Range;
use zellige_stick::AccessTerm;

/// Slice `i` of a dimension that is cut into `n`: whole units, the first slices larger by one.
pub(super) fn slice_range(space: &IterationSpace, dim: usize, n: u64, i: u64) -> Range<u64> {
    let (count, unit, size) =
        (space.unit_count(dim), space.unit_iterations(dim), space.dims()[dim].size);
    // Uneven slices differ by one unit at most, so that the slowest core has as little as can be; the larger ones
    // come first, so that slice 0 is always a largest one.
    let (base, extra) = (count / n, count % n);
    let first = |i: u64| ((base * i + extra.min(i)) * unit).min(size);
    first(i)..first(i + 1)
}

/// What a term does while its variable runs over a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TermReach {
    /// Its largest value less its smallest.
    pub(super) extent: u64,
    /// How many values it takes.
    pub(super) distinct: u64,
}

pub(super) fn find_term_reach(term: &AccessTerm, over: &Range<u64>) -> TermReach {
    let positive = |n: i64| u64::try_from(n).unwrap_or(1);
    let (divisor, multiplier) = (positive(term.divisor).max(1), positive(term.multiplier));
    let (first, last) = (over.start, over.end.saturating_sub(1).max(over.start));
    let steps = match term.modulus.map(positive) {
        // All remainders occur, or the slice passes from the last one to the first.
        Some(m) if last - first >= m - 1 || first % m > last % m => (m - 1) / divisor,
        Some(m) => (last % m) / divisor - (first % m) / divisor,
        None => last / divisor - first / divisor,
    };
    TermReach { extent: multiplier.saturating_mul(steps), distinct: steps.saturating_add(1) }
}

/// The span of a tensor in bytes: that of the core with the largest one.
///
/// **Law**: no two bytes that one core touches are further apart, and with the outermost visited
/// dimension left as it is, no split of inner dimensions makes it smaller.
pub fn tensor_span(space: &IterationSpace, tensor: &TensorAccess, splits: &[u64]) -> u64 {
    let last = tensor.device_size.len() - 1;
    for (j, coordinate) in tensor.coordinates[..last].iter().enumerate() {
        let terms = coordinate.terms.iter().map(|t| {
            let n = splits.get(t.var).copied().unwrap_or(1).max(1);
            (0..n)
                .map(|i| find_term_reach(t, &slice_range(space, t.var, n, i)).extent)
                .max()
                .unwrap_or(0)
        });
        let count = terms.fold(tensor.whole[j].extent.saturating_add(1), u64::saturating_add);
        // The outermost dimension that moves decides: one step in it already jumps over everything inside, which a
        // core therefore has in its window whether it reads it or not.
        if count > 1 {
            let inner: u64 = tensor.device_size[j + 1..last].iter().product();
            return count.saturating_mul(inner.saturating_mul(128));
        }
    }
    128
}

/// The first tensor that a core could not address, with its span.
pub(super) fn find_tensor_over_limit<'s>(
    space: &'s IterationSpace,
    splits: &[u64],
    limit: u64,
) -> Option<(&'s TensorAccess, u64)> {
    let spans = space.tensors().iter().map(|t| (t, tensor_span(space, t, splits)));
    spans.into_iter().find(|(_, bytes)| *bytes > limit)
}

pub(super) fn refuse_over_limit(space: &IterationSpace, splits: &[u64], limit: u64) -> Result<()> {
    match find_tensor_over_limit(space, splits, limit) {
        None => Ok(()),
        Some((tensor, bytes)) => Err(CompileError::Span {
            tensor: tensor.name.clone(),
            bytes,
            limit,
            splits: space.format_splits(splits),
        }),
    }
}

/// The fewest even splits that bring every tensor under the limit, tensor by tensor and device
/// dimension by device dimension from the outside; of equally few the ones with the largest span.
/// Where nothing brings a tensor under, the splits that come closest.
pub fn reduce_spans(space: &IterationSpace, cores: u64, limit: u64) -> Result<Vec<u64>> {
    let mut splits = Vec::with_capacity(space.dims().len());
    for (d, dim) in space.dims().iter().enumerate() {
        let least = space.even_splits(d, cores).first().copied();
        splits.push(least.ok_or_else(|| CompileError::BadDim {
            dim: dim.name.clone(),
            reason: format!(
                "none of its accepted splits {:?} divides {} on at most {cores} cores",
                dim.allowed.as_deref().unwrap_or(&[]),
                space.even_split_basis(d)
            ),
        })?);
    }
    let mut used = 1_u64;
    for (dim, split) in space.dims().iter().zip(&splits) {
        used = used.saturating_mul(*split);
        if used > cores {
            let reason = format!("with it, the accepted splits need more than {cores} cores");
            return Err(CompileError::BadDim { dim: dim.name.clone(), reason });
        }
    }
    // torch-spyre's pass `span_reduction` (summer 2026): tensor by tensor in order, from the outermost device
    // dimension inwards. A split that an earlier tensor needed stays.
    for tensor in space.tensors() {
        let last = tensor.device_size.len() - 1;
        for coordinate in &tensor.coordinates[..last] {
            if tensor_span(space, tensor, &splits) <= limit {
                break;
            }
            let mut vars: Vec<usize> = coordinate.terms.iter().map(|t| t.var).collect();
            vars.retain(|v| space.dims()[*v].size > 1);
            vars.dedup();
            let Some(best) = find_cheapest_splits(space, tensor, &splits, &vars, cores, limit)
            else {
                break;
            };
            splits = best;
            let still = coordinate.terms.iter().any(|t| {
                let n = splits[t.var];
                (0..n).any(|i| find_term_reach(t, &slice_range(space, t.var, n, i)).extent > 0)
            });
            // As long as this dimension is visited, inner ones change nothing.
            if still {
                break;
            }
        }
    }
    Ok(splits)
}

/// The best splits of some dimensions with the others left alone.
fn find_cheapest_splits(
    space: &IterationSpace,
    tensor: &TensorAccess,
    splits: &[u64],
    vars: &[usize],
    cores: u64,
    limit: u64,
) -> Option<Vec<u64>> {
    let mut trials = vec![splits.to_vec()];
    for v in vars {
        let options: Vec<u64> =
            space.even_splits(*v, cores).into_iter().filter(|s| *s >= splits[*v]).collect();
        let grown = trials.iter().flat_map(|t| {
            options.iter().map(|s| {
                let mut t = t.clone();
                t[*v] = *s;
                t
            })
        });
        trials = grown.filter(|t| t.iter().product::<u64>() <= cores).collect();
    }
    let key = |t: &Vec<u64>| {
        let bytes = tensor_span(space, tensor, t);
        let fits = bytes <= limit;
        let used: u64 = vars.iter().map(|v| t[*v]).product();
        // Few splits leave most cores to the distribution after it. torch-spyre prefers the largest span among
        // equally few splits.
        // Under the limit: few splits, then a large span. Over it: a small span.
        if fits { (0, used, u64::MAX - bytes) } else { (1, bytes, 0) }
    };
    trials.into_iter().min_by_key(key)
}
