//! Choosing one alternative for every operation at the least total cost.
//!
//! | file | holds |
//! |---|---|
//! | `problem` | variables, and costs of a few of them together |
//! | `eliminate` | the least total, exact where tables stay small, with a bound where they do not |

mod eliminate;
mod problem;

pub use eliminate::{Solution, solve};
pub use problem::{FORBIDDEN, Factor, Problem};
