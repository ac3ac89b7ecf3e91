//! Operations that look elements up by index.

use super::Entry;

pub(super) static TABLE: &[Entry] = &[];
