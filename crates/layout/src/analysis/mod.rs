//! Costs of a layout on GPU memory (bank conflicts, vector widths, sectors), and lints.

mod access;
mod banks;
mod lint;
mod search;
mod vector;

pub use access::{LaneAccessPattern, WARP};
pub use banks::{BANK_BYTES, BANKS, BankConflictReport, BankPhase, bank_and_line};
pub use lint::{LayoutLint, LintSeverity};
pub use search::{ConflictRemedy, SwizzleChoice};
pub use vector::VectorWidth;
