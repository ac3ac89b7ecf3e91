//! What a layout costs on real memory: banks, vectors, sectors, and what looks wrong.

mod access;
mod banks;
mod lint;
mod search;
mod vector;

pub use access::{Access, WARP};
pub use banks::{BANK_BYTES, BANKS, Conflicts, Phase, bank_and_line};
pub use lint::{Lint, Severity};
pub use search::{Remedy, SwizzleChoice};
pub use vector::VectorWidth;
