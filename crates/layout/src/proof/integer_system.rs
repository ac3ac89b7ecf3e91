//! Linear equations over the integers, added one at a time.
//!
//! The set of solutions is kept as one solution plus all integer combinations of free directions. An
//! equation prescribes the value of one linear combination of the unknowns. Steps of Euclid's algorithm on
//! the directions leave at most one direction that changes this value, and the equation fixes its
//! coefficient. If the missing difference is no multiple of that change, or no direction changes the value
//! and it is wrong, no integers solve the equations.

/// The integer solutions of some linear equations.
#[derive(Debug, Clone, Default)]
pub(super) struct IntegerSolutions {
    /// One of them.
    one: Vec<i128>,
    /// Directions that lead from one to every other.
    free: Vec<Vec<i128>>,
}

/// Whether an equation and those before it have a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Solvable {
    Yes,
    No,
    /// The numbers on the way do not fit in 128 bits.
    Unknown,
}

impl IntegerSolutions {
    /// One of the solutions.
    pub(super) fn one(&self) -> &[i128] {
        &self.one
    }

    /// The multiplications that one more equation takes, at most.
    pub(super) fn steps_per_equation(&self) -> u64 {
        (self.one.len() * (1 + self.free.len())) as u64
    }

    /// One more unknown, which no equation so far has.
    pub(super) fn add_unknown(&mut self) {
        self.one.push(0);
        // No equation so far involves the new unknown, so it is free by itself and 0 in the others.
        self.free.iter_mut().for_each(|direction| direction.push(0));
        let mut own = vec![0; self.one.len()];
        own[self.one.len() - 1] = 1;
        self.free.push(own);
    }

    /// Adds the equation `row . unknowns = value`. After any answer but [`Solvable::Yes`] the solutions
    /// must not be used.
    pub(super) fn add_equation(&mut self, row: &[i128], value: i128) -> Solvable {
        self.try_equation(row, value).unwrap_or(Solvable::Unknown)
    }

    /// The same; `None` where a number does not fit in 128 bits.
    fn try_equation(&mut self, row: &[i128], value: i128) -> Option<Solvable> {
        let missing = value.checked_sub(product(row, &self.one)?)?;
        let mut changes: Vec<i128> =
            self.free.iter().map(|direction| product(row, direction)).collect::<Option<_>>()?;
        // The smallest change reduces all others, as in Euclid's algorithm on several numbers. In the end
        // one direction changes the value, by the greatest common divisor of all changes.
        let pivot = loop {
            let smallest = (0..changes.len())
                .filter(|k| changes[*k] != 0)
                .min_by_key(|k| changes[*k].unsigned_abs());
            let Some(pivot) = smallest else {
                return Some(if missing == 0 { Solvable::Yes } else { Solvable::No });
            };
            let mut alone = true;
            for k in (0..changes.len()).filter(|k| *k != pivot) {
                let times = changes[k] / changes[pivot];
                if times != 0 {
                    let by = self.free[pivot].clone();
                    add_multiple(&mut self.free[k], &by, times.checked_neg()?)?;
                    changes[k] = changes[k].checked_sub(times.checked_mul(changes[pivot])?)?;
                }
                alone &= changes[k] == 0;
            }
            if alone {
                break pivot;
            }
        };
        // Every reachable value differs by a multiple of that divisor.
        if missing % changes[pivot] != 0 {
            return Some(Solvable::No);
        }
        let fixed = self.free.swap_remove(pivot);
        add_multiple(&mut self.one, &fixed, missing / changes[pivot])?;
        Some(Solvable::Yes)
    }
}

fn product(a: &[i128], b: &[i128]) -> Option<i128> {
    a.iter().zip(b).try_fold(0i128, |sum, (a, b)| sum.checked_add(a.checked_mul(*b)?))
}

fn add_multiple(to: &mut [i128], of: &[i128], times: i128) -> Option<()> {
    for (to, of) in to.iter_mut().zip(of) {
        *to = to.checked_add(of.checked_mul(times)?)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All equations of two unknowns with small numbers: a solution is one, and where there is none,
    /// none is found among small numbers, which hold one if there is any.
    #[test]
    fn answers_are_those_of_trying() {
        let small = -3i128..=3;
        let rows: Vec<(i128, i128, i128)> = small
            .clone()
            .flat_map(|a| small.clone().flat_map(move |b| [0, 1, 2].map(|v| (a, b, v))))
            .collect();
        for (i, first) in rows.iter().enumerate() {
            for second in rows.iter().skip(i % 3).step_by(3) {
                let mut solutions = IntegerSolutions::default();
                solutions.add_unknown();
                let mut answer = solutions.add_equation(&[first.0], first.2);
                // The second unknown comes after the first equation, which does not have it.
                if answer == Solvable::Yes {
                    solutions.add_unknown();
                    answer = solutions.add_equation(&[second.0, second.1], second.2);
                }
                let solves = |x: i128, y: i128| {
                    first.0 * x == first.2 && second.0 * x + second.1 * y == second.2
                };
                let exists = (-20..=20).any(|x| (-20..=20).any(|y| solves(x, y)));
                assert_eq!(answer == Solvable::Yes, exists, "{first:?} {second:?}");
                if exists {
                    assert!(solves(solutions.one()[0], solutions.one()[1]));
                }
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_no_proof() {
        let mut solutions = IntegerSolutions::default();
        solutions.add_unknown();
        solutions.add_unknown();
        assert_eq!(solutions.add_equation(&[i128::MAX, 1], 1), Solvable::Yes);
        assert_eq!(solutions.add_equation(&[i128::MAX, i128::MAX], 7), Solvable::Unknown);
    }
}
