//! Copies between the scratchpads of cores: who sends what to whom.
//!
//! A division of work says which core holds which part of a tensor. Where a producer and a consumer divide a tensor
//! differently, its parts travel over the ring between the cores, and nothing goes through memory. A [`TensorDivision`]
//! is a table of boxes by core, however it came about: from the slices of a division, from a layout on a core axis, or
//! from a list. Two of them over one shape are a [`CoreExchange`].
//!
//! ```
//! use zellige_exchange::{CoreExchange, MovementClass, TensorDivision};
//! // A matrix of 4 x 6: two rows on each of two cores, then three columns on each.
//! let rows = TensorDivision::from_slices(&[4, 6], &[0, 1], &[(0, 1, 2)])?;
//! let columns = TensorDivision::from_slices(&[4, 6], &[0, 1], &[(1, 1, 2)])?;
//! let plan = CoreExchange::between(&rows, &columns)?;
//! // Each core keeps half of what it holds and sends the other half.
//! assert_eq!(plan.remote_elements(), 12);
//! assert_eq!(plan.class().to_string(), "split+gather");
//! plan.certify(&rows, &columns)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Every cell once.** A destination core receives each element of its part from one sender, itself where it holds
//!   the element. So the elements that travel are exactly those that a core needs and does not hold, which no plan can
//!   go below.
//! - **Any pair.** Divisions may overlap, repeat, leave cores out, or cover a part of the tensor; what a system calls
//!   split, gather, broadcast or permutation is a [`MovementClass`] that is read off the plan afterwards.
//! - **Unfinished sums.** Where cores hold parts of sums of the same elements, a [`SumExchange`] adds them up on the way.
//! - **A certificate** ([`CoreExchange::certify`]) checks a plan element by element, with none of the planner's code.
//!
//! # What it may not do
//! Know how bytes are laid out in a scratchpad, or what a copy costs: `zellige-machine` prices it.

#![forbid(unsafe_code)]

mod certificate;
mod division;
mod error;
mod plan;
mod regions;
mod ring;
mod runs;
mod sums;
mod tensor_box;

pub use certificate::ExchangeCertificate;
pub use division::{CoreNumber, MAX_CORES, TensorDivision};
pub use error::{ExchangeError, Result};
pub use plan::{CoreExchange, CoreSend, MovementClass};
pub use ring::RingLoads;
pub use runs::DivisionRuns;
pub use sums::{PartialSend, SumExchange};
pub use tensor_box::TensorBox;
