//! The least total, by eliminating one variable after the other.
//!
//! **Idea.** A variable is eliminated by joining all costs that mention it and keeping, for every combination
//! of its neighbours, the least over its own values. That table is a new cost, and the problem has a variable
//! less. What is left when none remains is the least total, and walking back gives the values: each variable
//! takes the best one for the neighbours that were eliminated after it.
//!
//! **Invariant.** The least total of the costs that are left, plus the sum of those without variables, is the
//! least total of the problem; where a join was cut into parts, it is a lower bound.
//!
//! **Cost.** A join has an entry for every combination of the variable and its neighbours, so the order decides:
//! the variable with the smallest table goes first. Models are chains of blocks, so few variables meet in a
//! table and the cost grows with the length of the chain. Where a join would pass the limit it is done in parts,
//! each minimised alone: the result is then a lower bound, and walking back may give values that cost more, or even
//! forbidden ones. They are improved one variable at a time (`improvement`), as are the values that the caller knows;
//! the best of them are the result, and the gap to the bound is stated.

use super::improvement::LocalImprovement;
use super::problem::{ChoiceProblem, CostFactor, FORBIDDEN, sum_costs};
use crate::error::{CompileError, Result};
use std::collections::{BTreeSet, HashMap};

/// Values for all variables, with proof of how good they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceSolution {
    /// One value for each variable.
    pub values: Vec<usize>,
    /// Their total cost.
    pub cost: u64,
    /// No values cost less than this.
    pub bound: u64,
    /// The most variables in one table.
    pub width: usize,
}

impl ChoiceSolution {
    /// Whether nothing is better: a certificate, as the bound is proved.
    pub fn is_optimal(&self) -> bool {
        self.cost == self.bound
    }
}

/// A variable that was eliminated, with the costs that mentioned it.
struct EliminatedVariable {
    var: usize,
    joined: Vec<CostFactor>,
}

/// The least total of a problem, with tables of at most `limit` entries.
///
/// **Law**: `bound <= total(v)` for all values `v`, `cost == total(values)`, and the two are equal
/// where no table passed the limit. Of equal totals the same one is found every time.
///
/// # Errors
/// A variable without values, and a problem in which everything is forbidden.
pub fn solve_by_elimination(problem: &ChoiceProblem, limit: usize) -> Result<ChoiceSolution> {
    solve_with_known(problem, limit, &[])
}

/// The same, where values that are known to be good are given: those of the first variables, the others following
/// from them. The result costs no more than any of them.
///
/// # Errors
/// As [`solve_by_elimination`].
pub fn solve_with_known(
    problem: &ChoiceProblem,
    limit: usize,
    known: &[Vec<usize>],
) -> Result<ChoiceSolution> {
    if let Some(var) = problem.domains().iter().position(|n| *n == 0) {
        return Err(CompileError::bad_problem(format!("variable {var} has no values")));
    }
    let domains = problem.domains();
    let mut open = OpenFactors::new(problem);
    let mut steps = Vec::with_capacity(domains.len());
    let (mut bound, mut width) = (open.constant, 0usize);
    while let Some(var) = open.next_variable() {
        let joined = open.take_factors(var);
        // Minimizing parts of a sum one by one gives at most the minimum of the sum, because each part may use
        // another value of the variable. So a cut join keeps the bound valid and only makes it weaker.
        for part in group_factors(&joined, var, domains, limit) {
            let made = minimize_over(&part, var, domains);
            width = width.max(made.vars().len() + 1);
            if made.vars().is_empty() {
                bound = sum_costs(bound, made.cost_at(&[], domains));
            } else {
                open.add_factor(made);
            }
        }
        steps.push(EliminatedVariable { var, joined });
    }
    let mut values = vec![0; domains.len()];
    // In reverse order every neighbour of a variable has its value already: those that were eliminated later were
    // still in the problem.
    for EliminatedVariable { var, joined } in steps.iter().rev() {
        let cost = |value: usize, values: &mut Vec<usize>| {
            values[*var] = value;
            joined.iter().fold(0, |sum, f| sum_costs(sum, f.cost_at(values, domains)))
        };
        // The first of equal values is taken, so that the order of alternatives is the order of preference and the
        // answer is the same every time.
        let best = (0..domains[*var]).min_by_key(|v| cost(*v, &mut values));
        values[*var] = best.unwrap_or(0);
    }
    let mut cost = problem.total_cost(&values);
    if bound == FORBIDDEN {
        return Err(CompileError::bad_problem("every choice is forbidden".into()));
    }
    // Only where a join was cut: otherwise the values cost exactly the bound, and nothing can be better.
    if cost > bound {
        let improvement = LocalImprovement::new(problem);
        let starts = std::iter::once(&values).chain(known);
        let best =
            starts.map(|start| improvement.improve_from(start)).min_by_key(|(cost, _)| *cost);
        if let Some((least, found)) = best.filter(|(least, _)| *least < cost) {
            (cost, values) = (least, found);
        }
    }
    if cost == FORBIDDEN {
        let reason = "no choice was found that is not forbidden; there may be none".into();
        return Err(CompileError::bad_problem(reason));
    }
    Ok(ChoiceSolution { values, cost, bound, width })
}

/// A variable with more costs than this is left for later without looking at them: its table would be the largest.
// Computing the size of its table would itself take long, and it would be done anew after every elimination of a
// neighbour.
const MAX_EXAMINED_FACTORS: usize = 64;

/// The costs that are left, with the variables ordered by the table that eliminating one would make.
struct OpenFactors<'a> {
    domains: &'a [usize],
    factors: Vec<Option<CostFactor>>,
    /// Where the cost of some variables is: there is one for the same variables.
    places: HashMap<Vec<usize>, usize>,
    /// Per variable, the costs that mention it, and some that are gone.
    uses: Vec<Vec<usize>>,
    /// Per variable, how many of them are not gone.
    live: Vec<usize>,
    /// Per variable that is left, the size of its table.
    sizes: Vec<u128>,
    queue: BTreeSet<(u128, usize)>,
    /// The sum of costs without variables.
    constant: u64,
}

impl<'a> OpenFactors<'a> {
    fn new(problem: &'a ChoiceProblem) -> OpenFactors<'a> {
        let domains = problem.domains();
        let mut open = OpenFactors {
            domains,
            factors: Vec::new(),
            places: HashMap::new(),
            uses: vec![Vec::new(); domains.len()],
            live: vec![0; domains.len()],
            sizes: vec![0; domains.len()],
            queue: BTreeSet::new(),
            constant: 0,
        };
        for f in problem.factors() {
            if f.vars().is_empty() {
                open.constant = sum_costs(open.constant, f.cost_at(&[], domains));
            } else {
                open.insert_factor(f.clone());
            }
        }
        for var in 0..domains.len() {
            open.sizes[var] = open.joined_table_size(var);
            open.queue.insert((open.sizes[var], var));
        }
        open
    }

    /// The variable with the smallest table; the first of equals.
    fn next_variable(&mut self) -> Option<usize> {
        self.queue.pop_first().map(|(_, var)| var)
    }

    /// The costs that mention a variable, which are then gone.
    fn take_factors(&mut self, var: usize) -> Vec<CostFactor> {
        let mentioned = std::mem::take(&mut self.uses[var]);
        let taken: Vec<CostFactor> =
            mentioned.iter().filter_map(|i| self.factors[*i].take()).collect();
        let mut near: Vec<usize> = Vec::new();
        for f in &taken {
            self.places.remove(f.vars());
            for v in f.vars().iter().filter(|v| **v != var) {
                self.live[*v] -= 1;
                near.push(*v);
            }
        }
        near.sort_unstable();
        near.dedup();
        for v in near {
            // A variable may have thousands of costs that are removed one by one. They are swept when they are half of
            // the list, so that the sweeps cost no more than the removals.
            if self.uses[v].len() > 2 * self.live[v] {
                self.uses[v].retain(|i| self.factors[*i].is_some());
            }
            self.update_variable(v);
        }
        taken
    }

    fn add_factor(&mut self, factor: CostFactor) {
        let vars = factor.vars().to_vec();
        if self.insert_factor(factor) {
            vars.into_iter().for_each(|v| self.update_variable(v));
        }
    }

    /// Adds a cost, to the one of the same variables where there is one; whether there was none.
    fn insert_factor(&mut self, factor: CostFactor) -> bool {
        // Costs of the same variables are added into one table, because the time of a join grows with the number of
        // its tables.
        if let Some(same) = self.places.get(factor.vars())
            && let Some(other) = &mut self.factors[*same]
        {
            other.add_entries(&factor);
            return false;
        }
        let index = self.factors.len();
        for v in factor.vars() {
            self.uses[*v].push(index);
            self.live[*v] += 1;
        }
        self.places.insert(factor.vars().to_vec(), index);
        self.factors.push(Some(factor));
        true
    }

    fn update_variable(&mut self, var: usize) {
        let size = self.joined_table_size(var);
        // A variable that was eliminated is no longer in the queue and must not come back.
        if size != self.sizes[var] && self.queue.remove(&(self.sizes[var], var)) {
            self.queue.insert((size, var));
        }
        self.sizes[var] = size;
    }

    fn joined_table_size(&self, var: usize) -> u128 {
        if self.live[var] > MAX_EXAMINED_FACTORS {
            return u128::MAX;
        }
        let mine = self.uses[var].iter().filter_map(|i| self.factors[*i].as_ref());
        let mut near: Vec<usize> = mine.flat_map(|f| f.vars()).copied().collect();
        near.sort_unstable();
        near.dedup();
        let others = near.iter().filter(|v| **v != var);
        others.fold(1u128, |n, v| n.saturating_mul(self.domains[*v] as u128))
    }
}

/// Costs that are joined together: all of them, or groups whose tables stay within the limit.
fn group_factors<'f>(
    joined: &'f [CostFactor],
    var: usize,
    domains: &[usize],
    limit: usize,
) -> Vec<Vec<&'f CostFactor>> {
    let mut parts: Vec<(Vec<usize>, Vec<&CostFactor>)> = Vec::new();
    for f in joined {
        let with = |vars: &[usize]| {
            let mut all = [vars, f.vars()].concat();
            all.sort_unstable();
            all.dedup();
            all
        };
        let fits = |vars: &[usize]| {
            let size = with(vars).iter().fold(1usize, |n, v| n.saturating_mul(domains[*v]));
            size <= limit
        };
        // First fit: the fewest parts would be a bin-packing problem of its own, and any grouping gives a valid
        // bound.
        match parts.iter().position(|(vars, _)| fits(vars)) {
            Some(k) => {
                parts[k].0 = with(&parts[k].0);
                parts[k].1.push(f);
            }
            None => parts.push((with(&[]), vec![f])),
        }
    }
    if parts.is_empty() {
        parts.push((vec![var], Vec::new()));
    }
    parts.into_iter().map(|(_, list)| list).collect()
}

/// A cost while its entries are visited: the entries, the current one, and the distance between two values of the
/// variable that is eliminated.
struct WalkedFactor<'f> {
    table: &'f [u64],
    at: usize,
    own: usize,
}

/// The sum of some costs, least over one variable, for every combination of the others.
fn minimize_over(list: &[&CostFactor], var: usize, domains: &[usize]) -> CostFactor {
    let mut vars: Vec<usize> = list.iter().flat_map(|f| f.vars()).copied().collect();
    vars.sort_unstable();
    vars.dedup();
    vars.retain(|v| *v != var);
    let size: usize = vars.iter().map(|v| domains[*v]).product();
    // Counted before it is allocated, so that a request with a memory budget is refused and does not end the process.
    zellige_guard::reserve_memory(size_of::<u64>() * size);
    let mut walked: Vec<WalkedFactor<'_>> = Vec::with_capacity(list.len());
    // How far a step of one variable moves in each of the costs, when all variables after it return to their first
    // value.
    let mut steps = vec![0usize; vars.len() * list.len()];
    for (f, factor) in list.iter().enumerate() {
        walked.push(WalkedFactor {
            table: factor.table(),
            at: 0,
            own: factor.stride_along(var, domains),
        });
        let mut back = 0;
        for (k, v) in vars.iter().enumerate().rev() {
            let stride = factor.stride_along(*v, domains);
            steps[k * list.len() + f] = stride.wrapping_sub(back);
            back += stride * (domains[*v] - 1);
        }
    }
    let mut values = vec![0; vars.len()];
    let mut table = Vec::with_capacity(size);
    zellige_guard::count_many_steps(size);
    for _ in 0..size {
        let mut least = FORBIDDEN;
        for value in 0..domains[var] {
            let entry = |f: &WalkedFactor<'_>| f.table[f.at + value * f.own];
            least = least.min(walked.iter().fold(0, |sum, f| sum_costs(sum, entry(f))));
        }
        table.push(least);
        for (k, v) in vars.iter().enumerate().rev() {
            values[k] += 1;
            if values[k] < domains[*v] {
                let steps = &steps[k * list.len()..(k + 1) * list.len()];
                walked.iter_mut().zip(steps).for_each(|(f, step)| f.at = f.at.wrapping_add(*step));
                break;
            }
            values[k] = 0;
        }
    }
    CostFactor::from_table(vars, table)
}
