//! A compiled program as a report: what was decided, why, and what it costs.
//!
//! The functions here fill the types of `zellige_report`. Every figure is computed from the program's own steps and
//! buffers, so that it agrees with what the checker computes of the plan. Times are simulated microseconds from the
//! beginning of a run, `bytes` are bytes of device memory, padding included.
//!
//! | file | holds |
//! |---|---|
//! | `layout_summary` | a layout as numbers and in words |
//! | `buffers`, `moves`, `steps`, `bundles` | the four lists |
//! | `summary` | totals of all steps, and the certificate of the choice |
//! | `occupancy` | bytes of scratchpads and pool over time |
//! | `notes` | fallbacks, narrowed elements, refusals with a remedy |
//! | `run_time` | the time of a run as a sum of named terms |
//! | `explain` | why a tensor has its layout, with the price of every other one |

mod buffers;
mod bundles;
mod explain;
mod layout_summary;
mod moves;
mod notes;
mod occupancy;
mod run_time;
mod steps;
mod summary;

pub use explain::explain_layout;
pub use layout_summary::describe_layout;
pub use notes::report_refusal;
pub use run_time::{RunTime, StepTime, sum_run_time};

use crate::program::CompiledProgram;
use zellige_report::{Report, VERSION};

/// The report of a program.
pub fn report_program(program: &CompiledProgram) -> Report {
    zellige_calls::record_call!();
    Report {
        version: VERSION,
        graph: program.graph.name().into(),
        machine: summary::report_machine(program),
        options: summary::report_settings(program),
        summary: summary::report_totals(program),
        certificate: summary::report_certificate(program),
        units: summary::bottleneck_times(program),
        tensors: buffers::report_buffers(program),
        moves: moves::report_moves(program),
        steps: steps::report_steps(program),
        bundles: bundles::report_bundles(program),
        lx: occupancy::scratchpad_levels(program).to_occupancy(),
        pool: occupancy::pool_levels(program).to_occupancy(),
        fallbacks: notes::report_fallbacks(program),
        casts: notes::report_narrowed(program),
        notes: notes::report_notes(program),
        comparison: None,
    }
}

/// The report of a program beside what another program for the same graph costs.
pub fn report_compared(program: &CompiledProgram, other: &CompiledProgram) -> Report {
    let mut report = report_program(program);
    report.comparison = Some(summary::compare_policies(program, other));
    report
}

/// What work does to memory and units: a read that several cores share counts as often as it is done.
fn sum_work_totals(
    program: &CompiledProgram,
    work: &zellige_machine::OperationWork,
) -> zellige_machine::account::WorkTotals {
    program.options.hardware.share_ring_reads(work).sum_over_cores()
}

/// A time in microseconds.
fn to_microseconds(time: zellige_machine::SimulatedTime) -> f64 {
    time.microseconds()
}
