//! Better values for variables, one change at a time.
//!
//! Elimination gives the least total where its tables stay small. Where they do not, the values that it
//! finds are a start. Here each free variable in turn takes the value with which the total is least, together with the
//! variables that follow from it, until no change of one variable helps (coordinate descent).
//!
//! **Law**: the total never rises, and values that begin allowed stay so. Forbidden combinations are counted apart
//! from costs, so that fewer of them are an improvement too.

use super::problem::{ChoiceProblem, FORBIDDEN, VariableKind};

/// Rounds over all variables; a round without a change ends sooner.
// The limit bounds the time on graphs where single changes keep finding a little.
const MAX_ROUNDS: usize = 4;

/// How many costs are forbidden, and the sum of the others.
type ChoiceTotal = (usize, u64);

/// A problem with what is needed to change one variable at a time.
pub(super) struct LocalImprovement<'a> {
    problem: &'a ChoiceProblem,
    /// Per variable, the costs that mention it.
    uses: Vec<Vec<usize>>,
    /// Per variable, those that follow from it.
    followers: Vec<Vec<usize>>,
}

impl<'a> LocalImprovement<'a> {
    pub(super) fn new(problem: &'a ChoiceProblem) -> LocalImprovement<'a> {
        let none = vec![Vec::new(); problem.domains().len()];
        let (mut uses, mut followers) = (none.clone(), none);
        for (f, factor) in problem.factors().iter().enumerate() {
            factor.vars().iter().for_each(|v| uses[*v].push(f));
        }
        for (v, kind) in problem.variable_kinds().iter().enumerate() {
            // A follower must move together with its leader: alone, either of them makes the combination forbidden,
            // and no single change would ever be an improvement.
            if let VariableKind::Follows(of, _) = kind {
                followers[*of].push(v);
            }
        }
        LocalImprovement { problem, uses, followers }
    }

    /// The best values that single changes reach from these, with their total. Values of the first variables are
    /// enough where the others follow.
    pub(super) fn improve_from(&self, start: &[usize]) -> (u64, Vec<usize>) {
        let domains = self.problem.domains();
        let mut values: Vec<usize> = (0..domains.len())
            .map(|v| start.get(v).copied().unwrap_or(0).min(domains[v].saturating_sub(1)))
            .collect();
        let kinds = self.problem.variable_kinds();
        for v in 0..values.len() {
            if let VariableKind::Follows(of, table) = &kinds[v] {
                values[v] = table[values[*of]];
            }
        }
        for v in (0..values.len()).filter(|v| kinds[*v] == VariableKind::Last) {
            // The start knows nothing of copies. Their best values follow from the layouts, so that they are set
            // after those.
            self.settle_variable(v, &mut values);
        }
        for _ in 0..MAX_ROUNDS {
            let mut changed = false;
            for v in (0..values.len()).filter(|v| kinds[*v] == VariableKind::Free) {
                zellige_guard::count_step();
                changed |= domains[v] > 1 && self.improve_variable(v, &mut values);
            }
            if !changed {
                break;
            }
        }
        (self.problem.total_cost(&values), values)
    }

    /// Gives a variable its best value; whether that is another one.
    fn improve_variable(&self, var: usize, values: &mut [usize]) -> bool {
        let kinds = self.problem.variable_kinds();
        let mut moved = vec![var];
        moved.extend(&self.followers[var]);
        let mut near: Vec<usize> = Vec::new();
        // A copy is worth making or not depending on the layouts beside it, so that it is settled anew with each
        // trial. Otherwise a layout that needs another copy would look forbidden.
        for f in moved.iter().flat_map(|v| &self.uses[*v]) {
            let vars = self.problem.factors()[*f].vars();
            near.extend(vars.iter().filter(|v| kinds[**v] == VariableKind::Last));
        }
        near.sort_unstable();
        near.dedup();
        // Only these costs can change, so that a trial costs what the neighbourhood has and not what the problem has.
        let mut touched: Vec<usize> =
            moved.iter().chain(&near).flat_map(|v| &self.uses[*v]).copied().collect();
        touched.sort_unstable();
        touched.dedup();
        let before: Vec<(usize, usize)> =
            moved.iter().chain(&near).map(|v| (*v, values[*v])).collect();
        let set = |value: usize, values: &mut [usize]| {
            values[var] = value;
            for v in &self.followers[var] {
                if let VariableKind::Follows(_, table) = &kinds[*v] {
                    values[*v] = table[value];
                }
            }
            near.iter().for_each(|v| self.settle_variable(*v, values));
        };
        let now = self.sum_factors(&touched, values);
        let mut best: (ChoiceTotal, usize) = (now, before[0].1);
        for value in (0..self.problem.domains()[var]).filter(|v| *v != before[0].1) {
            set(value, values);
            let total = self.sum_factors(&touched, values);
            if total < best.0 {
                best = (total, value);
            }
        }
        // Strictly less: with equal totals two values could alternate until the rounds are over.
        if best.0 < now {
            set(best.1, values);
            return true;
        }
        before.into_iter().for_each(|(v, value)| values[v] = value);
        false
    }

    /// Gives a variable the value that is best beside all others.
    fn settle_variable(&self, var: usize, values: &mut [usize]) {
        let mut best: Option<(ChoiceTotal, usize)> = None;
        for value in 0..self.problem.domains()[var] {
            values[var] = value;
            let total = self.sum_factors(&self.uses[var], values);
            if best.is_none_or(|(least, _)| total < least) {
                best = Some((total, value));
            }
        }
        values[var] = best.map_or(0, |(_, value)| value);
    }

    fn sum_factors(&self, factors: &[usize], values: &[usize]) -> ChoiceTotal {
        let domains = self.problem.domains();
        let costs = factors.iter().map(|f| self.problem.factors()[*f].cost_at(values, domains));
        costs.fold((0, 0), |(bad, sum), cost| match cost {
            // A sum would be forbidden whether one cost or ten are; counted apart, nine are better than ten, and the
            // descent leaves the forbidden region step by step.
            FORBIDDEN => (bad + 1, sum),
            cost => (bad, sum.saturating_add(cost)),
        })
    }
}
