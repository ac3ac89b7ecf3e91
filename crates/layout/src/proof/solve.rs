//! The digits that reach a coordinate: bounded linear equations over the integers, searched with exact pruning.

use crate::error::{LayoutError, Result};
use crate::int::gcd;

/// `digit * stride` with the digit in `[low, high]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DigitTerm {
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) stride: i64,
}

/// Search steps before a question is refused as too large.
// The general question is a subset sum, which no known algorithm decides fast. Nested strides need
// one step for each digit, so only unusual layouts come near this limit.
const STEP_LIMIT: u64 = 1 << 22;

/// All digit vectors with `sum digit_k * stride_k == target`.
///
/// Terms are tried from the largest stride down. A partial sum is dropped when the rest cannot
/// reach the target, or when the target is not a multiple of the gcd of the rest: for the nested
/// strides of real layouts that leaves one path.
pub(crate) struct DigitSolver {
    /// Sorted by falling absolute stride, with the position of each in the caller's list.
    terms: Vec<(usize, DigitTerm)>,
    /// Per position, the smallest and largest sum and the gcd of the terms from there on.
    rest: Vec<(i128, i128, i128)>,
}

impl DigitSolver {
    pub(crate) fn new(terms: &[DigitTerm]) -> DigitSolver {
        let mut terms: Vec<_> = terms.iter().copied().enumerate().collect();
        // A large stride first leaves a remainder that the small ones must reach, which fixes or
        // nearly fixes its digit. Smallest first, nothing would be pruned until the last level.
        terms.sort_by_key(|(_, t)| std::cmp::Reverse(t.stride.unsigned_abs()));
        let mut rest = vec![(0, 0, 0)];
        for (_, t) in terms.iter().rev() {
            let (low, high, g) = rest[rest.len() - 1];
            let ends = [t.low, t.high].map(|d| i128::from(d) * i128::from(t.stride));
            rest.push((
                low + ends[0].min(ends[1]),
                high + ends[0].max(ends[1]),
                gcd(g, t.stride.into()),
            ));
        }
        rest.reverse();
        DigitSolver { terms, rest }
    }

    /// Calls `found` with each solution, in the caller's order of terms, until it returns false.
    pub(crate) fn for_each_solution(
        &self,
        target: i64,
        what: &'static str,
        mut found: impl FnMut(&[i64]) -> bool,
    ) -> Result<()> {
        let mut digits = vec![0; self.terms.len()];
        let mut steps = 0;
        self.search_digits(0, target.into(), &mut digits, &mut steps, what, &mut found).map(|_| ())
    }

    fn search_digits(
        &self,
        depth: usize,
        target: i128,
        digits: &mut [i64],
        steps: &mut u64,
        what: &'static str,
        found: &mut impl FnMut(&[i64]) -> bool,
    ) -> Result<bool> {
        zellige_guard::count_step();
        *steps += 1;
        if *steps > STEP_LIMIT {
            return Err(LayoutError::TooLarge { what, limit: STEP_LIMIT });
        }
        let Some((place, term)) = self.terms.get(depth) else {
            return Ok(target != 0 || found(digits));
        };
        let (low, high, g) = self.rest[depth];
        // Both tests are necessary conditions, so no solution is dropped: the sums of the rest are
        // in `[low, high]` and are multiples of their common divisor.
        if target < low || target > high || (g != 0 && target % g != 0) || (g == 0 && target != 0) {
            return Ok(true);
        }
        let (rest_low, rest_high, _) = self.rest[depth + 1];
        // 128 bits, because a partial sum of 64-bit products may leave 64 bits although the target
        // does not.
        let stride = i128::from(term.stride);
        let (mut first, mut last) = (i128::from(term.low), i128::from(term.high));
        if stride != 0 {
            // rest_low <= target - digit * stride <= rest_high
            let (a, b) = (target - rest_high, target - rest_low);
            let (a, b) = if stride > 0 { (a, b) } else { (-b, -a) };
            let s = stride.abs();
            first = first.max(-(-a).div_euclid(s));
            last = last.min(b.div_euclid(s));
        }
        for digit in first..=last {
            digits[*place] = i64::try_from(digit).expect("between two 64-bit digits");
            if !self.search_digits(
                depth + 1,
                target - digit * stride,
                digits,
                steps,
                what,
                found,
            )? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solutions_are_those_of_enumeration() {
        for strides in [[1, 2, 4], [3, 0, -2], [5, 5, 1], [-1, -3, 7]] {
            let terms: Vec<_> = strides
                .iter()
                .zip([(0, 2), (-1, 1), (0, 3)])
                .map(|(s, (low, high))| DigitTerm { low, high, stride: *s })
                .collect();
            for target in -15..30 {
                let mut got = Vec::new();
                DigitSolver::new(&terms)
                    .for_each_solution(target, "test", |d| {
                        got.push(d.to_vec());
                        true
                    })
                    .expect("small");
                got.sort();
                let mut want = Vec::new();
                for a in 0..=2 {
                    for b in -1..=1 {
                        for c in 0..=3 {
                            if a * strides[0] + b * strides[1] + c * strides[2] == target {
                                want.push(vec![a, b, c]);
                            }
                        }
                    }
                }
                want.sort();
                assert_eq!(got, want, "{strides:?} = {target}");
            }
        }
    }
}
