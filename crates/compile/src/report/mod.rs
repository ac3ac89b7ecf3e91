//! A compiled program as a report: what was decided, why, and what it costs.
//!
//! The functions here fill the types of `zellige_report`. Every figure is computed from the program's own steps and buffers, so it
//! says of a plan what its checker would. Times are simulated microseconds from the beginning of a run,
//! `bytes` are bytes of device memory, padding included.
//!
//! | file | holds |
//! |---|---|
//! | `layout_summary` | a layout as numbers and in words |
//! | `buffers`, `moves`, `steps` | the three lists |
//! | `summary` | totals of all steps, and the certificate of the choice |
//! | `occupancy` | bytes of scratchpads and pool over time |
//! | `notes` | fallbacks, narrowed elements, refusals with a remedy |
//! | `explain` | why a tensor has its layout, with the price of every other one |

mod buffers;
mod explain;
mod layout_summary;
mod moves;
mod notes;
mod occupancy;
mod steps;
mod summary;

pub use explain::explain;
pub use layout_summary::describe;
pub use notes::refusal;

use crate::program::Program;
use zellige_report::{Report, VERSION};

/// The report of a program.
pub fn report(program: &Program) -> Report {
    Report {
        version: VERSION,
        graph: program.graph.name().into(),
        machine: summary::machine(program),
        options: summary::options(program),
        summary: summary::summary(program),
        certificate: summary::certificate(program),
        units: summary::units(program),
        tensors: buffers::buffers(program),
        moves: moves::moves(program),
        steps: steps::steps(program),
        lx: occupancy::lx(program).data(),
        pool: occupancy::pool(program).data(),
        fallbacks: notes::fallbacks(program),
        casts: notes::casts(program),
        notes: notes::notes(program),
        comparison: None,
    }
}

/// The report of a program beside what another program for the same graph costs.
pub fn compared(program: &Program, other: &Program) -> Report {
    let mut report = report(program);
    report.comparison = Some(summary::comparison(program, other));
    report
}

/// What work does to memory and units: a read that several cores share counts as often as it is done.
fn totals(
    program: &Program,
    work: &zellige_machine::OperationWork,
) -> zellige_machine::account::WorkTotals {
    program.options.hardware.share_ring_reads(work).sum_over_cores()
}

/// A time in microseconds.
fn us(time: zellige_machine::SimulatedTime) -> f64 {
    time.microseconds()
}
