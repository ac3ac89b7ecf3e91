//! Reductions, normalisations, scans and sorts.

use super::Entry;

pub(super) static TABLE: &[Entry] = &[];
