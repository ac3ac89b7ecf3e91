//! The longest layout whose value at every index is a member of a given set: an exact search.
//!
//! The digits of a layout are determined from the innermost outwards: with the values below index `w`
//! known, the value at `w` gives the stride of the next digit, which ends at the latest where a value is
//! not in its set. It can end earlier only at an index whose set has another value, so where every set has
//! one value the search does not branch.

use std::ops::ControlFlow;

/// Values that one question may compare before the best layout so far is taken.
// A step is a binary search in a small set. The limit bounds layouts with many elements at one
// physical coordinate, where the sets multiply the choices.
pub(super) const STEP_LIMIT: u64 = 1 << 22;

/// Digits as (extent, stride), innermost first, that begin at `start`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DigitChain {
    pub(super) start: i64,
    pub(super) digits: Vec<(i64, i64)>,
    /// The number of indices.
    pub(super) len: usize,
}

/// The longest `R` on `[0, n)` with `R(p)` in `sets[p]` for every `p`, where `R` is a start plus
/// digits. The sets are sorted and none is empty; there is at least one.
///
/// No other is longer, unless the search was cut off where `steps` passed [`STEP_LIMIT`].
pub(super) fn find_longest_through(sets: &[Vec<i64>], steps: &mut u64) -> DigitChain {
    let start = sets[0][0];
    let best = DigitChain { start, digits: Vec::new(), len: 1 };
    let mut search = LongestSearch { sets, steps, best };
    for start in &sets[0] {
        if search.grow_digits(&[*start], &mut Vec::new()).is_break() {
            break;
        }
    }
    search.best
}

struct LongestSearch<'a> {
    sets: &'a [Vec<i64>],
    steps: &'a mut u64,
    best: DigitChain,
}

impl LongestSearch<'_> {
    /// Extends the layout whose values are `known`, and keeps the longest one found. Breaks where none can
    /// be longer or the step limit is passed.
    fn grow_digits(&mut self, known: &[i64], digits: &mut Vec<(i64, i64)>) -> ControlFlow<()> {
        let weight = known.len();
        if weight > self.best.len {
            self.best = DigitChain { start: known[0], digits: digits.clone(), len: weight };
        }
        if self.best.len == self.sets.len() || *self.steps > STEP_LIMIT {
            return ControlFlow::Break(());
        }
        let continued = digits.last().map(|(extent, stride)| extent * stride);
        for value in self.sets.get(weight).into_iter().flatten() {
            let stride = value - known[0];
            // A stride that continues the digit before gives a function that is also found with a longer
            // extent of that digit.
            if Some(stride) == continued {
                continue;
            }
            let most = self.count_repetitions(known, stride);
            for extent in (2..=most).rev() {
                let end = weight * extent;
                // A digit that could go on but stops here needs another value at `end`. With one
                // value in the set, that is the value the digit itself has.
                if extent < most && self.sets[end].len() == 1 {
                    continue;
                }
                let next: Vec<i64> = (0..end).map(|t| value_at(known, stride, t)).collect();
                *self.steps += u64::try_from(end).unwrap_or(u64::MAX);
                digits.push((index_count(extent), stride));
                self.grow_digits(&next, digits)?;
                digits.pop();
            }
        }
        ControlFlow::Continue(())
    }

    /// How often `known` can be repeated with that stride inside the sets.
    fn count_repetitions(&mut self, known: &[i64], stride: i64) -> usize {
        let inside = |t: &usize| self.sets[*t].binary_search(&value_at(known, stride, *t)).is_ok();
        let end = (known.len()..self.sets.len())
            .inspect(|_| zellige_guard::count_step())
            .find(|t| !inside(t))
            .unwrap_or(self.sets.len());
        *self.steps += u64::try_from(end).unwrap_or(u64::MAX);
        end / known.len()
    }
}

/// The value at `t` of a layout that repeats `known` with that stride.
fn value_at(known: &[i64], stride: i64, t: usize) -> i64 {
    known[t % known.len()] + index_count(t / known.len()) * stride
}

/// A number of indices of a listed layout.
fn index_count(n: usize) -> i64 {
    i64::try_from(n).expect("no more than are listed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By trying all splits of all lengths, the longest first.
    fn slow(sets: &[Vec<i64>]) -> usize {
        fn fits(sets: &[Vec<i64>], n: usize, known: &[i64]) -> bool {
            if known.len() == n {
                return true;
            }
            (2..=n / known.len()).filter(|e| n.is_multiple_of(known.len() * e)).any(|e| {
                sets[known.len()].iter().any(|v| {
                    let next: Vec<i64> =
                        (0..known.len() * e).map(|t| value_at(known, v - known[0], t)).collect();
                    next.iter().zip(sets).all(|(v, set)| set.contains(v)) && fits(sets, n, &next)
                })
            })
        }
        let fits = |n: &usize| sets[0].iter().any(|start| fits(sets, *n, &[*start]));
        (1..=sets.len()).rev().find(fits).expect("one index at least")
    }

    #[test]
    fn none_is_longer() {
        let mut seed = 7u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        for case in 0..4000 {
            let n = 1 + random(13);
            let sets: Vec<Vec<i64>> = (0..n)
                .map(|p| {
                    let (p, low) = (p.cast_signed(), random(4).cast_signed());
                    let mut set = vec![p % 6 * 2 + low / 3];
                    set.extend((0..case % 3).map(|k| (p + k * low) % 12));
                    set.sort_unstable();
                    set.dedup();
                    set
                })
                .collect();
            let found = find_longest_through(&sets, &mut 0);
            assert_eq!(found.len, slow(&sets), "{sets:?}");
            let mut values = vec![found.start];
            for (extent, stride) in found.digits {
                let known = values.clone();
                let len = known.len() * usize::try_from(extent).expect("small");
                values = (0..len).map(|t| value_at(&known, stride, t)).collect();
            }
            assert_eq!(values.len(), found.len);
            assert!(values.iter().zip(&sets).all(|(v, set)| set.contains(v)), "{sets:?}");
        }
    }
}
