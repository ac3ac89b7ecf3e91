//! Solvers of plain problems: they know no graph, and take sizes, layouts and lifetimes.
//!
//! | module | solves |
//! |---|---|
//! | [`elimination`] | one value for every variable, at the least total of costs between a few of them |
//! | [`division`] | how the loops of one operation are cut over the cores |
//! | [`memory`] | where buffers live in a memory that they share |
//!
//! Each returns a plan with the reason or the bound for it. For each there is a checker that recomputes what a plan
//! claims and shares no code with the search that found it.

pub mod division;
pub mod elimination;
pub mod memory;
