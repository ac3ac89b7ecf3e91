//! Hints: splits that the user fixes.

use super::iteration_space::IterationSpace;
use crate::error::{CompileError, Result};

/// A split for a dimension, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitHint {
    /// The dimension.
    pub dim: String,
    /// The split; 1 or more.
    pub split: i64,
}

/// What hints fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FixedSplits {
    /// Per dimension the hinted split.
    pub(super) splits: Vec<Option<u64>>,
}

impl FixedSplits {
    /// The hinted splits, 1 for dimensions without a hint.
    pub(super) fn splits_or_one(&self) -> Vec<u64> {
        self.splits.iter().map(|s| s.unwrap_or(1)).collect()
    }
}

/// Takes hints in the order they are given. One that cannot hold is an error, also one for which there
/// are too few cores beside those before it.
pub(super) fn fix_hinted_splits(
    space: &IterationSpace,
    hints: &[SplitHint],
    cores: u64,
) -> Result<FixedSplits> {
    let mut fixed = FixedSplits { splits: vec![None; space.dims().len()] };
    let mut used = 1;
    for SplitHint { dim, split } in hints {
        let found = space.dims().iter().position(|d| d.name == *dim);
        let d = found.ok_or_else(|| CompileError::HintUnknown {
            dim: dim.clone(),
            known: space.dims().iter().map(|d| d.name.as_str()).collect::<Vec<_>>().join(", "),
        })?;
        let positive = u64::try_from(*split).ok().filter(|s| *s > 0);
        let s = positive
            .ok_or_else(|| CompileError::HintNotPositive { dim: dim.clone(), split: *split })?;
        // A hint must divide its dimension evenly, as in torch-spyre, where a hint fixes the one entry of the menu of
        // even splits.
        let accepted = space.even_splits(d, cores);
        // Reported before divisibility, because a split with too few cores left is wrong whatever it divides, and the
        // message can list the splits that still fit.
        if s > cores / used {
            let fitting = accepted.iter().filter(|a| **a <= cores / used);
            let accepted = fitting.map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(CompileError::HintCores {
                dim: dim.clone(),
                split: *split,
                used,
                cores,
                accepted,
            });
        }
        if !accepted.contains(&s) {
            let accepted = accepted.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            return Err(CompileError::HintNotDivisible {
                dim: dim.clone(),
                units: space.even_split_basis(d),
                what: if space.unit_iterations(d) > 1 { "sticks" } else { "iterations" },
                split: *split,
                accepted,
            });
        }
        // The device combines the partial sums of one loop only.
        let mut others = (0..space.dims().len()).filter(|e| space.dims()[*e].reduced && *e != d);
        let other = others.find(|e| fixed.splits[*e].is_some_and(|s| s > 1));
        if let Some(e) = other.filter(|_| s > 1 && space.dims()[d].reduced) {
            let first = space.dims()[e].name.clone();
            return Err(CompileError::HintReductions { first, second: dim.clone() });
        }
        if fixed.splits[d].is_some() {
            let reason = "it has two hints; one is accepted".into();
            return Err(CompileError::BadDim { dim: dim.clone(), reason });
        }
        used *= s;
        fixed.splits[d] = Some(s);
    }
    Ok(fixed)
}
