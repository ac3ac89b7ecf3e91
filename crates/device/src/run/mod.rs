//! How operations run on a card, and how they would.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | what an operation would do, on tensors without memory |
//! | `loops` | which loop each dimension of each tensor follows |
//! | `division` | the slices of the cores |
//! | `run_op` | the ways to run an operation |
//! | `compute` | one operation at a time, with the copies of operands that it needs |
//! | `launch` | a kernel on tensors that are laid out as it wants |
//! | `in_place` | results written into tensors that exist |
//! | `prepared` | a launch that runs many times |
//! | `recording` | the launches of one operation, to be repeated |
//! | `recall` | operations that come again |
//! | `host_fallback` | what it costs to let the host do an operation |

pub(crate) mod compute;
pub(crate) mod division;
mod host_fallback;
mod in_place;
pub(crate) mod launch;
pub(crate) mod loops;
pub(crate) mod plan;
pub(crate) mod prepared;
pub(crate) mod recall;
mod recording;
pub(crate) mod run_op;
