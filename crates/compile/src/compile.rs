//! The passes in the order they run.

use crate::choose::{self, Assignment};
use crate::decisions::Decisions;
use crate::decompose::decompose;
use crate::divide::Policy;
use crate::error::{CompileError, Result};
use crate::fold::fold;
use crate::lower::lower;
use crate::options::Options;
use crate::program::Program;
use crate::propagate::propagate;
use crate::scratchpad::settle;
use zellige_graph::{Def, Graph};
use zellige_machine::Key;

/// Compiles a graph.
///
/// # Errors
/// Operations that cannot run with any layouts, hints that cannot hold, tensors over the span limit or
/// the card's memory; with `strict`, what the existing compiler refuses.
pub fn compile(graph: &Graph, options: &Options) -> Result<Program> {
    passes(graph, options, None)
}

/// Compiles a graph with what was decided for it before, or for one of other sizes; see [`Decisions`].
///
/// # Errors
/// As [`compile`].
pub fn compile_again(graph: &Graph, options: &Options, decisions: &Decisions) -> Result<Program> {
    passes(graph, options, Some(decisions))
}

/// Refuses a tensor with more elements than a segment of device memory has bytes. No plan can place it,
/// and every count of work on smaller ones fits in 64 bits or is refused where it is made.
fn room(graph: &Graph, options: &Options) -> Result<()> {
    let limit = options.hardware.count(Key::Segment);
    for (_, tensor) in graph.tensors().filter(|(_, t)| !matches!(t.def, Def::View { .. })) {
        let elements = tensor.size.iter().fold(1u64, |n, d| n.saturating_mul(d.unsigned_abs()));
        if elements > limit {
            let (buffer, bytes) = (tensor.name.clone(), elements);
            return Err(CompileError::PoolFull { buffer, bytes, limit, peak: bytes });
        }
    }
    Ok(())
}

fn passes(graph: &Graph, options: &Options, like: Option<&Decisions>) -> Result<Program> {
    options.checked()?;
    room(graph, options)?;
    let graph = if options.decomposes() { decompose(graph)?.graph } else { graph.clone() };
    let graph = fold(&graph)?;
    let candidates = propagate(&graph, options)?;
    let assignment: Assignment = match options.policy {
        Policy::Baseline => choose::beam(&graph, options, &candidates)?,
        Policy::Best => choose::assign(&graph, options, &candidates)?,
    };
    let mut program = lower(graph, options, assignment)?;
    settle(&mut program, like)?;
    Ok(program)
}
