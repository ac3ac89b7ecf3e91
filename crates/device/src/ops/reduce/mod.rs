//! Reductions, normalisations, scans and sorts.

mod folds;
mod rows;

use super::{Attrs, Entry, Layer};
use crate::error::Result;
use crate::kernels::Kernel;
use std::sync::Arc;

pub(super) fn table() -> impl Iterator<Item = &'static Entry> {
    folds::TABLE.iter().chain(rows::TABLE)
}
