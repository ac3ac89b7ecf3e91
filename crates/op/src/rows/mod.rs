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
use crate::forms::OpForm;
use crate::row::OpRow;

/// What a row's function of the attributes gives.
type BuiltForm = Result<OpForm>;

/// Every operation, family by family.
pub(crate) fn all_rows() -> impl Iterator<Item = &'static OpRow> {
    let families =
        [products::ROWS, index::ROWS, factories::ROWS, moves::ROWS, reductions::ROWS, lines::ROWS];
    pointwise::FAMILIES.iter().copied().chain(families).flatten()
}
