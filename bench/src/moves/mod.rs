//! How near moves come to a plain copy of the same size, measured in the same run.
//!
//! A [`MoveCase`] is two layouts, a shape and the elements; [`PreparedCase`] is its plan with buffers, which
//! measures itself in turns with plain copies; [`PeerPair`] runs the same case in other libraries, in a
//! process of its own. Tables are written by [`report`].

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

pub use busy::{BusyNeighbours, BusyRow, MAX_BUSY_RATIO, busy_cases, busy_row, spin_until_eof};
pub use case::{CaseError, MoveCase, MovedElements};
pub use cases::table_cases;
pub use overhead::{MoveOverhead, measure_overhead, planning_nanoseconds};
pub use peers::{PEERS, PeerAnswer, PeerAnswers, PeerError, PeerOutcome, PeerPair};
pub use random::random_cases;
pub use row::{MAX_PEER_RATIO, MoveRow, MoveRowError, measure_case_rows, measure_random_pair};
pub use run::{MeasureOptions, MoveFigures, PreparedCase};
