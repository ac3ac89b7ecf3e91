//! Matrix products, convolutions, attention.

use super::Entry;

pub(super) static TABLE: &[Entry] = &[];
