//! Every inserted move with its cost and its reason.

use super::layout_summary::summarize_layout;
use super::{sum_work_totals, to_microseconds};
use crate::program::{CompiledProgram, StepAction};
use zellige_report::{MoveEnd, ReportedMove};

pub(super) fn report_moves(program: &CompiledProgram) -> Vec<ReportedMove> {
    let mut readers = vec![0; program.buffers.len()];
    for step in &program.steps {
        for read in &step.reads {
            readers[read.buffer.0] += 1;
        }
    }
    for output in &program.outputs {
        // The caller is a reader: a move that only it needs is the price of the layout it demands.
        readers[output.buffer.0] += 1;
    }
    let mut list = Vec::new();
    for (i, step) in program.steps.iter().enumerate() {
        let StepAction::Move { reader, why } = &step.action else { continue };
        let (Some(read), Some(to)) = (step.reads.first(), step.writes.first()) else { continue };
        let totals = sum_work_totals(program, &step.work);
        let (from, copy) = (program.buffer(read.buffer), program.buffer(*to));
        let name = |n: zellige_graph::NodeId| {
            let node = program.graph.node(n);
            format!("{} = {}", program.graph.get(node.outputs[0]).name, node.op.name())
        };
        list.push(ReportedMove {
            step: i,
            tensor: program.graph.get(copy.tensor).name.clone(),
            from: MoveEnd { buffer: from.name.clone(), layout: summarize_layout(&read.laid) },
            to: MoveEnd { buffer: copy.name.clone(), layout: summarize_layout(&copy.laid) },
            reason: why.clone(),
            reader: reader.map(name),
            readers: readers[to.0],
            bytes: totals.bytes_in.saturating_add(totals.bytes_out),
            us: to_microseconds(step.duration),
            load: step.load,
        });
    }
    list
}
