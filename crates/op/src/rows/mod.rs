//! The table of operations, one file per family.

mod factories;
mod index;
mod lines;
mod moves;
mod pointwise;
mod products;
mod reductions;
mod windows;

use crate::error::Result;
use crate::forms::Form;
use crate::row::OpRow;

/// What a row's function of the attributes gives.
type Built = Result<Form>;

/// Every operation, family by family.
pub(crate) fn all() -> impl Iterator<Item = &'static OpRow> {
    let families =
        [products::ROWS, index::ROWS, factories::ROWS, moves::ROWS, reductions::ROWS, lines::ROWS];
    pointwise::FAMILIES.iter().copied().chain(families).flatten()
}
