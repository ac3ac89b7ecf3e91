//! Choosing one alternative for every operation at the least total cost.
//!
//! | file | holds |
//! |---|---|
//! | `problem` | variables, and costs of a few of them together |
//! | `assign` | layouts for a graph, at the least total latency |
//! | `beam` | layouts as the existing compiler chooses them |
//! | `eliminate` | the least total, exact where tables stay small, with a bound where they do not |

mod assign;
mod beam;
mod eliminate;
mod problem;

pub use assign::{Assignment, assign};
pub(crate) use assign::{demanded, ends, loaded};
pub use beam::beam;
pub use eliminate::{Solution, solve};
pub use problem::{FORBIDDEN, Factor, Problem};
