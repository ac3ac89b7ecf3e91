//! Factories, concatenations and other changes of shape.

use super::Entry;

pub(super) static TABLE: &[Entry] = &[];
