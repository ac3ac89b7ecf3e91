//! The memories that tensors are placed in by the programmer (`place lx`, `place memory`).
//!
//! A tensor in memory is no candidate for the scratchpads. A tensor in lx is kept there at any price that is
//! finite: not keeping it costs [`MISSED_CYCLES`] when divisions are chosen and [`missed_time`] when layouts
//! are, and other results leave the scratchpads first. So a program that keeps it is found where one was
//! considered at all; if none was, [`check_placement`] refuses the program and gives the reason.

use crate::draft::ResidentDraft;
use crate::error::{CompileError, Result};
use crate::program::{BufferLocation, CompiledProgram, ElementOrigin, StepAction};
use zellige_graph::{Graph, RequestedMemory, TensorId};
use zellige_machine::SimulatedTime;

/// Cycles that a division which does not keep a placed tensor is worse by: more than any program takes, and
/// little enough that sums of them stay below 64 bits.
// A penalty and no prohibition: where no candidate keeps the tensor, the solver would otherwise find no program at
// all, and the error could not give the reason.
pub(crate) const MISSED_CYCLES: u64 = 1 << 44;

/// Seconds that a program is worse by for each placed tensor that it does not keep.
const MISSED_SECONDS: u64 = 1000;

/// Whether the programmer places a tensor in the scratchpads.
pub(crate) fn is_in_lx(graph: &Graph, tensor: TensorId) -> bool {
    graph.get(tensor).place == Some(RequestedMemory::Lx)
}

/// Whether the programmer places a tensor in device memory.
pub(crate) fn is_in_memory(graph: &Graph, tensor: TensorId) -> bool {
    graph.get(tensor).place == Some(RequestedMemory::Memory)
}

/// What a program is worse by for the placed tensors that it does not keep in the scratchpads.
pub(crate) fn missed_time(draft: &ResidentDraft) -> SimulatedTime {
    let lowered = &draft.lowered;
    let missed = lowered.buffers.iter().zip(&draft.residents.addresses).filter(|(b, address)| {
        b.origin == ElementOrigin::Result && is_in_lx(&lowered.graph, b.tensor) && address.is_none()
    });
    let count = u64::try_from(missed.count()).unwrap_or(u64::MAX);
    // A thousand misses are as bad as any number of them: the cap keeps the product below 64 bits.
    SimulatedTime::from_nanoseconds(count.min(1000) * MISSED_SECONDS * 1_000_000_000)
}

/// Refuses a program with a tensor that is not where the programmer places it.
///
/// # Errors
/// Such a tensor, with the reason.
pub(crate) fn check_placement(program: &CompiledProgram) -> Result<()> {
    for (i, buffer) in program.buffers.iter().enumerate() {
        let wanted =
            is_in_lx(&program.graph, buffer.tensor) && buffer.origin == ElementOrigin::Result;
        if wanted && !matches!(buffer.place, BufferLocation::Lx(_)) {
            let (tensor, reason) = (buffer.name.clone(), missing_reason(program, i));
            return Err(CompileError::NotInScratchpads { tensor, reason });
        }
    }
    Ok(())
}

/// Why a buffer is not in the scratchpads.
fn missing_reason(program: &CompiledProgram, buffer: usize) -> String {
    if program.options.scratchpads.is_none() {
        return "scratchpads are not planned (LX_PLANNING=0 or --no-lx)".into();
    }
    if program.outputs.iter().any(|o| o.buffer.0 == buffer) {
        return "the program returns it, and results are in device memory".into();
    }
    let writer = program.steps.iter().find(|s| s.writes.iter().any(|b| b.0 == buffer));
    match writer.map(|s| &s.action) {
        Some(StepAction::Host(_, op)) => return format!("the host computes `{}`", op.name()),
        Some(StepAction::Move { .. }) => return "a move writes it, and moves write memory".into(),
        Some(StepAction::Op(..) | StepAction::Exchange(_)) | None => {}
    }
    if matches!(program.buffers[buffer].place, BufferLocation::Over(_))
        || program
            .buffers
            .iter()
            .any(|b| matches!(b.place, BufferLocation::Over(of) if of.0 == buffer))
    {
        return "it shares the memory of a state".into();
    }
    let mut readers = 0;
    for step in &program.steps {
        for read in step.reads.iter().filter(|r| r.buffer.0 == buffer) {
            readers += 1;
            let name = &step.name;
            match &step.action {
                StepAction::Move { why, .. } => {
                    return format!(
                        "`{name}` moves it into another layout ({why}), and moves read memory"
                    );
                }
                StepAction::Host(..) => return format!("the host computes `{name}` from it"),
                StepAction::Op(..) if read.laid != program.buffers[buffer].laid => {
                    return format!(
                        "`{name}` reads a view of it, and whole tensors alone are kept"
                    );
                }
                StepAction::Op(..) | StepAction::Exchange(_) => {}
            }
        }
    }
    if readers == 0 {
        return "nothing reads it".into();
    }
    let limit = program.options.lx_limit();
    let cores = u64::try_from(program.options.cores.max(1)).unwrap_or(u64::MAX);
    // An estimate for the message alone: a part is at least this large, so that the sentence is true when it is
    // given.
    let part = program.buffers[buffer].bytes() / cores;
    if part > limit {
        return format!(
            "a part of it on each of {cores} cores is {part} bytes, and a scratchpad has room for {limit}"
        );
    }
    format!(
        "its producer and its readers do not give every core the same part of it, or that part has no room in \
         the {limit} bytes of a scratchpad beside what they stream through it"
    )
}
