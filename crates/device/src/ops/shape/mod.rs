//! Operations that make tensors, or put elements in other places.

mod factory;
mod moves;

use super::Entry;

pub(super) static TABLES: &[&[Entry]] = &[factory::TABLE, moves::TABLE];
