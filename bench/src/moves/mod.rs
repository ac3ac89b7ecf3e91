//! How near moves come to a plain copy of the same size, measured in the same run.
//!
//! A [`Case`] is two layouts, a shape and the elements; [`Prepared`] is its plan with buffers, which
//! measures itself in turns with plain copies; [`Peers`] runs the same case in other libraries, in a
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

pub use busy::{BusyRow, MOST, Neighbours, busy_cases, busy_row, spin};
pub use case::{Case, CaseError, Elements};
pub use cases::cases;
pub use overhead::{Overhead, overhead, planning};
pub use peers::{Answer, Answers, PEERS, Peer, PeerError, Peers};
pub use random::random;
pub use row::{Failure, Row, SLOWER, pair, rows};
pub use run::{Figures, Options, Prepared};
