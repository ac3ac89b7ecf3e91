//! Digits of a number that give prescribed values: the search for their extents and strides.
//!
//! With the extents of the inner digits known, the strides are unknowns of linear equations over the
//! integers. Two numbers that agree in all outer digits give an equation of the inner strides alone, so a
//! choice of inner extents is abandoned as soon as those equations have no solution. A digit of composite
//! extent is two digits whose strides continue each other, so prime extents are enough; the outermost digit
//! has no bound.

use crate::proof::integer_system::{IntegerSolutions, Solvable};

/// Multiplications that one question may take before the answer is that none was found.
// Steps are counted, not time, so that a question has the same answer on every machine.
pub(super) const STEP_LIMIT: u64 = 1 << 24;

/// The largest number whose primes are all tried as extents; above it a failed search proves nothing.
const EXTENTS_TRIED: i64 = 1 << 16;

/// Digits as (extent, stride), innermost first, that begin at `start`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digits {
    pub(super) start: i64,
    pub(super) digits: Vec<(i64, i64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Found(Digits),
    /// No digits give these values.
    Impossible,
    /// None was found, but the search was incomplete.
    NotFound,
}

/// Digits of numbers that map the first of each pair to the second.
///
/// The pairs are sorted by their numbers, which are distinct and 0 or more; there is at least one. The
/// primes that divide one of `strides` are tried first, because the digits of a left inverse of a written
/// layout mostly end at its strides.
pub(super) fn find_digits(pairs: &[(i64, i64)], strides: &[i64], steps: &mut u64) -> Answer {
    let last = pairs[pairs.len() - 1].0;
    let mut search = Search { pairs, last, steps, cut_off: false, primes: prime_factors(strides) };
    let all: Vec<usize> = (0..pairs.len()).collect();
    if let Some(found) = search.grow(&mut Vec::new(), 1, &all, &IntegerSolutions::default()) {
        return Answer::Found(found);
    }
    // Computing the primes counts as steps too, because the caller may repeat this for every swizzle.
    if last > EXTENTS_TRIED || search.is_cut_off(last.unsigned_abs()) {
        return Answer::NotFound;
    }
    search.primes = primes_up_to(last);
    match search.grow(&mut Vec::new(), 1, &all, &IntegerSolutions::default()) {
        Some(found) => Answer::Found(found),
        None if search.cut_off => Answer::NotFound,
        None => Answer::Impossible,
    }
}

struct Search<'a> {
    pairs: &'a [(i64, i64)],
    last: i64,
    steps: &'a mut u64,
    cut_off: bool,
    primes: Vec<i64>,
}

impl Search<'_> {
    /// Digits whose inner extents are `extents`, with the product `weight`. `apart` has one pair for
    /// each value of the digits further out, and `known` solves the equations inside of these.
    fn grow(
        &mut self,
        extents: &mut Vec<i64>,
        weight: i64,
        apart: &[usize],
        known: &IntegerSolutions,
    ) -> Option<Digits> {
        let mut known = known.clone();
        known.add_unknown();
        if let Some(found) = self.close(extents, weight, apart, known.clone()) {
            return Some(found);
        }
        // Primes rise, so the first one whose weight passes the last number ends the loop for all
        // others.
        for k in 0..self.primes.len() {
            let prime = self.primes[k];
            // A digit that no number passes is the outermost one, which was tried.
            let Some(next) = weight.checked_mul(prime).filter(|next| *next <= self.last) else {
                break;
            };
            if self.is_cut_off(apart.len() as u64) {
                return None;
            }
            extents.push(prime);
            // Solutions are copied, not undone: an equation cannot be removed from the solved form.
            let mut solutions = known.clone();
            if let Some(apart) = self.merge(extents, next, apart, &mut solutions) {
                let found = self.grow(extents, next, &apart, &solutions);
                if found.is_some() {
                    return found;
                }
            }
            extents.pop();
        }
        None
    }

    /// One pair for each value of the digits past `weight`, after equating the pairs that agree in them;
    /// `None` where these equations have no solution.
    fn merge(
        &mut self,
        extents: &[i64],
        weight: i64,
        apart: &[usize],
        solutions: &mut IntegerSolutions,
    ) -> Option<Vec<usize>> {
        let mut left: Vec<usize> = Vec::with_capacity(apart.len());
        for pair in apart {
            match left.last() {
                // Pairs are sorted, so those with the same outer digits are neighbours, and
                // comparing each with the first of its group is enough: equations are transitive.
                Some(first) if self.pairs[*first].0 / weight == self.pairs[*pair].0 / weight => {
                    if !self.equate(extents, None, *first, *pair, solutions) {
                        return None;
                    }
                }
                _ => left.push(*pair),
            }
        }
        Some(left)
    }

    /// The digits if what remains of a number after the inner ones is its outermost digit.
    fn close(
        &mut self,
        extents: &[i64],
        weight: i64,
        apart: &[usize],
        mut solutions: IntegerSolutions,
    ) -> Option<Digits> {
        for pair in &apart[1..] {
            if !self.equate(extents, Some(weight), apart[0], *pair, &mut solutions) {
                return None;
            }
        }
        let settled = self.settle(extents, weight, solutions.one());
        self.cut_off |= settled.is_none();
        settled
    }

    /// The digits with these strides, neighbours that continue each other fused; `None` where a number does
    /// not fit in 64 bits.
    fn settle(&self, extents: &[i64], weight: i64, strides: &[i128]) -> Option<Digits> {
        let outermost = self.last / weight + 1;
        weight.checked_mul(outermost)?;
        let (at, value) = self.pairs[0];
        let mut start = i128::from(value);
        let mut digits: Vec<(i64, i64)> = Vec::new();
        let all = extents.iter().copied().chain([outermost]).zip(strides);
        for ((extent, stride), digit) in all.zip(digits_of(at, extents, Some(weight))) {
            start = start.checked_sub(digit.checked_mul(*stride)?)?;
            let stride = i64::try_from(*stride).ok()?;
            match digits.last_mut() {
                Some((inner, s)) if s.checked_mul(*inner) == Some(stride) => *inner *= extent,
                _ => digits.push((extent, stride)),
            }
        }
        Some(Digits { start: i64::try_from(start).ok()?, digits })
    }

    /// Adds the equation between two pairs. Returns whether the equations still have a solution.
    fn equate(
        &mut self,
        extents: &[i64],
        outermost: Option<i64>,
        a: usize,
        b: usize,
        solutions: &mut IntegerSolutions,
    ) -> bool {
        if self.is_cut_off(solutions.steps_per_equation()) {
            return false;
        }
        let ((at_a, value_a), (at_b, value_b)) = (self.pairs[a], self.pairs[b]);
        let row: Vec<i128> = digits_of(at_a, extents, outermost)
            .zip(digits_of(at_b, extents, outermost))
            .map(|(a, b)| b - a)
            .collect();
        let solvable = solutions.add_equation(&row, i128::from(value_b) - i128::from(value_a));
        self.cut_off |= solvable == Solvable::Unknown;
        solvable == Solvable::Yes
    }

    /// Counts steps. Returns whether the limit is passed.
    fn is_cut_off(&mut self, steps: u64) -> bool {
        zellige_guard::count_step();
        *self.steps = self.steps.saturating_add(steps);
        self.cut_off |= *self.steps > STEP_LIMIT;
        *self.steps > STEP_LIMIT
    }
}

/// The digits of a number with these extents, innermost first; then all the rest as one more, which
/// counts multiples of that weight.
fn digits_of(
    number: i64,
    extents: &[i64],
    outermost: Option<i64>,
) -> impl Iterator<Item = i128> + '_ {
    let inner = extents.iter().scan(number, |rest, extent| {
        let digit = *rest % extent;
        *rest /= extent;
        Some(i128::from(digit))
    });
    inner.chain(outermost.map(|weight| i128::from(number / weight)))
}

/// The primes that divide one of the numbers, the smallest first. A factor of two primes above 65,536
/// counts as one, which is sound because any extent is allowed and quick because trial division stops
/// there.
fn prime_factors(numbers: &[i64]) -> Vec<i64> {
    let mut primes = Vec::new();
    for number in numbers {
        let mut rest = number.saturating_abs();
        let mut divisor = 2;
        while rest > 1 && divisor <= EXTENTS_TRIED && divisor * divisor <= rest {
            if rest % divisor == 0 {
                rest /= divisor;
                primes.push(divisor);
            } else {
                divisor += 1;
            }
        }
        if rest > 1 {
            primes.push(rest);
        }
    }
    primes.sort_unstable();
    primes.dedup();
    primes
}

fn primes_up_to(last: i64) -> Vec<i64> {
    let mut primes: Vec<i64> = Vec::new();
    for n in 2..=last {
        if primes.iter().take_while(|p| **p * **p <= n).all(|p| n % p != 0) {
            primes.push(n);
        }
    }
    primes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(found: &Digits, number: i64) -> i64 {
        let mut rest = number;
        let mut value = found.start;
        for (extent, stride) in &found.digits {
            value += rest % extent * stride;
            rest /= extent;
        }
        assert_eq!(rest, 0, "{number} is inside of {found:?}");
        value
    }

    /// Values that some digits have, on some of the numbers: digits are found, and have them.
    #[test]
    fn digits_that_exist_are_found() {
        let mut seed = 3u64;
        let mut random = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % n).cast_signed()
        };
        for case in 0..30_000 {
            let digits: Vec<(i64, i64)> =
                (0..1 + random(4)).map(|_| (1 + random(6), random(23) - 11)).collect();
            let size: i64 = digits.iter().map(|(extent, _)| extent).product();
            let given = Digits { start: random(9) - 4, digits };
            let mut pairs: Vec<(i64, i64)> = (0..size)
                .filter(|_| random(1 + case % 7) == 0)
                .map(|at| (at, value(&given, at)))
                .collect();
            if pairs.is_empty() {
                pairs.push((size - 1, value(&given, size - 1)));
            }
            let Answer::Found(found) = find_digits(&pairs, &[12], &mut 0) else {
                panic!("{given:?} at {pairs:?}");
            };
            for (at, want) in &pairs {
                assert_eq!(value(&found, *at), *want, "{found:?}, {given:?}");
            }
        }
    }

    #[test]
    fn what_no_digits_give_is_refused() {
        // 1 and 2 count by 1, and 3 is no multiple of 2 where it would be 2 more than 1.
        for pairs in [vec![(0, 0), (1, 1), (2, 3), (3, 2)], vec![(0, 0), (1, 2), (2, 3), (3, 6)]] {
            assert_eq!(find_digits(&pairs, &[1], &mut 0), Answer::Impossible, "{pairs:?}");
        }
        assert_eq!(
            find_digits(&[(0, 0), (1, 1), (2, 3)], &[1], &mut STEP_LIMIT.clone()),
            Answer::NotFound
        );
    }
}
