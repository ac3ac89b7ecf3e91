//! A compiled program as a report: what was decided, why, and what it costs.
//!
//! A [`Report`] is plain data. Every figure is computed from the program's own steps and buffers, so it
//! says of a plan what its checker would. Times are simulated microseconds from the beginning of a run,
//! `bytes` are bytes of device memory, padding included.
//!
//! | file | holds |
//! |---|---|
//! | `data` | the report's types, as `docs/schemas/report.schema.json` publishes them |
//! | `layout` | a layout in words |
//! | `tensors`, `moves`, `steps` | the three lists |
//! | `summary` | totals of all steps, and the certificate of the choice |
//! | `occupancy` | bytes of scratchpads and pool over time |
//! | `notes` | fallbacks, narrowed elements, refusals with a remedy |
//! | `explain` | why a tensor lies as it does |

mod data;
mod explain;
mod layout;
mod moves;
mod notes;
mod occupancy;
mod steps;
mod summary;
mod tensors;

pub use data::{
    Cast, Certificate, Comparison, Cores, Dim, Fallback, Machine, Move, Note, Occupancy, Operand,
    Options, Report, Shape, Side, Step, Summary, Tensor, Unit,
};
pub use explain::{Candidate, Explanation, Needed, explain};
pub use layout::describe;
pub use notes::refusal;

use crate::program::Program;

/// The report of a program.
pub fn report(program: &Program) -> Report {
    Report {
        version: 1,
        graph: program.graph.name().into(),
        machine: summary::machine(program),
        options: summary::options(program),
        summary: summary::summary(program),
        certificate: summary::certificate(program),
        units: summary::units(program),
        tensors: tensors::tensors(program),
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
fn totals(program: &Program, work: &zellige_machine::Work) -> zellige_machine::account::Totals {
    program.options.hardware.served(work).totals()
}

/// A time in microseconds.
fn us(time: zellige_machine::Time) -> f64 {
    time.microseconds()
}
