//! A choice as numbers: variables with few values, and costs that depend on a few variables each.

use crate::error::{CompileError, Result};
use std::collections::BTreeMap;

/// The cost of what must not be.
// The largest number, so that the saturating sum of it and any cost is it again: no addition makes a forbidden
// combination allowed.
pub const FORBIDDEN: u64 = u64::MAX;

/// A cost for every combination of values of some variables, the last variable fastest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostFactor {
    vars: Vec<usize>,
    table: Vec<u64>,
}

/// Variables and the costs between them; the total is the sum of all factors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChoiceProblem {
    domains: Vec<usize>,
    factors: Vec<CostFactor>,
    kinds: Vec<VariableKind>,
}

/// Whether a variable is a choice of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum VariableKind {
    /// It is.
    #[default]
    Free,
    /// Its value follows from that of an earlier variable: the entry of the table.
    Follows(usize, Vec<usize>),
    /// A variable whose best value can be computed once the variables of other kinds have values, because no cost
    /// mentions two variables of this kind.
    Last,
}

/// The sum of two costs; what must not be stays so.
pub(crate) fn sum_costs(a: u64, b: u64) -> u64 {
    a.saturating_add(b)
}

impl CostFactor {
    /// The variables, in increasing order.
    pub fn vars(&self) -> &[usize] {
        &self.vars
    }

    /// The cost for values of all variables of the problem.
    pub(super) fn cost_at(&self, values: &[usize], domains: &[usize]) -> u64 {
        let index = self.vars.iter().fold(0, |i, v| i * domains[*v] + values[*v]);
        self.table[index]
    }

    pub(super) fn from_table(vars: Vec<usize>, table: Vec<u64>) -> CostFactor {
        CostFactor { vars, table }
    }

    /// The entries, the last variable fastest.
    pub(super) fn table(&self) -> &[u64] {
        &self.table
    }

    /// The distance between the entries of two successive values of a variable; none where the cost does not depend on
    /// it.
    pub(super) fn stride_along(&self, var: usize, domains: &[usize]) -> usize {
        match self.vars.iter().position(|v| *v == var) {
            Some(at) => self.vars[at + 1..].iter().map(|v| domains[*v]).product(),
            None => 0,
        }
    }

    /// Adds a cost of the same variables.
    pub(super) fn add_entries(&mut self, other: &CostFactor) {
        debug_assert_eq!(self.vars, other.vars);
        self.table.iter_mut().zip(&other.table).for_each(|(a, b)| *a = sum_costs(*a, *b));
    }
}

impl ChoiceProblem {
    /// No variables: the empty choice, at no cost.
    pub fn new() -> ChoiceProblem {
        ChoiceProblem::default()
    }

    /// A variable with this many values; its number.
    pub fn add_variable(&mut self, values: usize) -> usize {
        self.domains.push(values);
        self.kinds.push(VariableKind::Free);
        self.domains.len() - 1
    }

    /// A variable whose value follows from that of variable `of`: `table` has it for each of its values. All other
    /// combinations are forbidden.
    ///
    /// # Errors
    /// A variable that does not exist, a table of another length.
    pub fn add_following(&mut self, of: usize, values: usize, table: Vec<usize>) -> Result<usize> {
        let fits = self.domains.get(of) == Some(&table.len()) && table.iter().all(|v| *v < values);
        if !fits {
            return Err(CompileError::bad_problem(format!("no table for variable {of}")));
        }
        let var = self.add_variable(values);
        // Elimination knows costs alone, so that the relation is a cost as well. The kind is for the descent, which
        // has to move both together.
        self.add_cost(&[of, var], |v| if table[v[0]] == v[1] { 0 } else { FORBIDDEN })?;
        self.kinds[var] = VariableKind::Follows(of, table);
        Ok(var)
    }

    /// A variable whose best value follows once all others have values, because no cost mentions two variables of this
    /// kind.
    pub fn add_last_variable(&mut self, values: usize) -> usize {
        let var = self.add_variable(values);
        self.kinds[var] = VariableKind::Last;
        var
    }

    pub(super) fn variable_kinds(&self) -> &[VariableKind] {
        &self.kinds
    }

    /// Adds a cost that depends on `vars`: `cost` is called for every combination of their values.
    ///
    /// # Errors
    /// Variables that do not exist or are named twice.
    pub fn add_cost(
        &mut self,
        vars: &[usize],
        mut cost: impl FnMut(&[usize]) -> u64,
    ) -> Result<()> {
        let mut sorted = vars.to_vec();
        sorted.sort_unstable();
        let twice = sorted.windows(2).any(|w| w[0] == w[1]);
        if let Some(bad) = sorted.iter().find(|v| **v >= self.domains.len() || twice) {
            let message = format!("variable {bad} does not exist or is named twice");
            return Err(CompileError::bad_problem(message));
        }
        // Tables have their variables in ascending order, so that two of the same variables can be added entry by
        // entry. The caller's function still gets its own order.
        let place: Vec<usize> =
            vars.iter().map(|v| sorted.iter().position(|s| s == v).unwrap_or(0)).collect();
        let size: usize = sorted.iter().map(|v| self.domains[*v]).product();
        let mut table = Vec::with_capacity(size);
        let mut values = vec![0; sorted.len()];
        for _ in 0..size {
            let asked: Vec<usize> = place.iter().map(|p| values[*p]).collect();
            table.push(cost(&asked));
            // Counts like an odometer, the last digit first, which is the order of the entries.
            for (value, var) in values.iter_mut().zip(&sorted).rev() {
                *value += 1;
                if *value < self.domains[*var] {
                    break;
                }
                *value = 0;
            }
        }
        self.factors.push(CostFactor { vars: sorted, table });
        Ok(())
    }

    /// The problem with some variables held to a few of their values, which are numbered anew.
    pub(crate) fn restricted_to(&self, allowed: &BTreeMap<usize, Vec<usize>>) -> ChoiceProblem {
        let mut domains = self.domains.clone();
        allowed.iter().for_each(|(var, list)| domains[*var] = list.len());
        let all: Vec<Vec<usize>> = self.domains.iter().map(|n| (0..*n).collect()).collect();
        let values = |var: &usize| allowed.get(var).unwrap_or(&all[*var]);
        let factors = self.factors.iter().map(|f| {
            // Most costs do not mention a held variable: their tables are copied as they are.
            if !f.vars.iter().any(|v| allowed.contains_key(v)) {
                return f.clone();
            }
            let mut entries = vec![0];
            for var in &f.vars {
                let (stride, list) = (f.stride_along(*var, &self.domains), values(var));
                let longer =
                    entries.iter().flat_map(|at| list.iter().map(move |v| at + v * stride));
                entries = longer.collect();
            }
            CostFactor::from_table(
                f.vars.clone(),
                entries.into_iter().map(|at| f.table[at]).collect(),
            )
        });
        let kinds = self.kinds.iter().map(|kind| match kind {
            VariableKind::Follows(of, table) => {
                VariableKind::Follows(*of, values(of).iter().map(|v| table[*v]).collect())
            }
            kind => kind.clone(),
        });
        ChoiceProblem { factors: factors.collect(), kinds: kinds.collect(), domains }
    }

    /// How many values each variable has.
    pub fn domains(&self) -> &[usize] {
        &self.domains
    }

    /// The costs.
    pub fn factors(&self) -> &[CostFactor] {
        &self.factors
    }

    /// The total cost of values for all variables. It shares nothing with the search.
    pub fn total_cost(&self, values: &[usize]) -> u64 {
        self.factors.iter().fold(0, |sum, f| sum_costs(sum, f.cost_at(values, &self.domains)))
    }
}
