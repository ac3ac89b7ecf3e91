//! The least total of costs that each depend on a few variables.
//!
//! | file | holds |
//! |---|---|
//! | `problem` | variables with few values, and the costs between them |
//! | `variable_elimination` | the least total, exact where tables stay small, with a bound where they do not |
//! | `improvement` | better values by changing one variable at a time, where tables do not stay small |
//!
//! It is the problem that the literature calls a weighted constraint problem or a cost function network.
//! Layouts of a graph are one, and so are the divisions of its steps with what stays in scratchpads.

mod improvement;
mod problem;
mod variable_elimination;

pub(crate) use problem::sum_costs;
pub use problem::{ChoiceProblem, CostFactor, FORBIDDEN};
pub use variable_elimination::{ChoiceSolution, solve_by_elimination, solve_with_known};
