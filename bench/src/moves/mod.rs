//! Compares the speed of moves with plain copies of the same size, measured in the same run.
//!
//! A [`MoveCase`] has two layouts, a shape and the type of the elements. A [`PreparedCase`] adds the plan and buffers;
//! it measures the move and plain copies in alternation. A [`PeerPair`] runs the same case in other libraries, in a
//! separate process. The module [`report`] writes the tables.

mod busy;
mod case;
mod cases;
pub mod layouts;
mod overhead;
mod peers;
mod random;
pub mod report;
mod row;
mod run;
#[cfg(target_os = "linux")]
mod torch;

pub use busy::{BusyNeighbours, BusyRow, MAX_BUSY_RATIO, busy_cases, busy_row, spin_until_eof};
pub use case::{CaseError, MoveCase, MovedElements};
pub use cases::table_cases;
pub use overhead::{MoveOverhead, measure_overhead, planning_nanoseconds};
pub use peers::{PEERS, PeerAnswer, PeerAnswers, PeerError, PeerOutcome, PeerPair};
pub use random::random_cases;
pub use row::{MAX_PEER_RATIO, MoveRow, MoveRowError, measure_case_rows, measure_random_pair};
pub use run::{MeasureOptions, MoveFigures, PreparedCase};
#[cfg(target_os = "linux")]
pub use torch::{TorchOperations, torch_rows};

/// Cores that this process may use.
pub fn core_count() -> usize {
    zellige_host::available_cores()
}
