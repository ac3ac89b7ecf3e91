//! Every inserted move with its cost and its reason.

use super::data::{Move, Side};
use super::layout::shape;
use super::{totals, us};
use crate::program::{Action, Program};

pub(super) fn moves(program: &Program) -> Vec<Move> {
    let mut readers = vec![0; program.buffers.len()];
    for step in &program.steps {
        for read in &step.reads {
            readers[read.buffer.0] += 1;
        }
    }
    for output in &program.outputs {
        readers[output.buffer.0] += 1;
    }
    let mut list = Vec::new();
    for (i, step) in program.steps.iter().enumerate() {
        let Action::Move { reader, why } = &step.action else { continue };
        let (Some(read), Some(to)) = (step.reads.first(), step.writes.first()) else { continue };
        let totals = totals(program, &step.work);
        let (from, copy) = (program.buffer(read.buffer), program.buffer(*to));
        let name = |n: zellige_graph::NodeId| {
            let node = program.graph.node(n);
            format!("{} = {}", program.graph.get(node.outputs[0]).name, node.op.name())
        };
        list.push(Move {
            step: i,
            tensor: program.graph.get(copy.tensor).name.clone(),
            from: Side { buffer: from.name.clone(), layout: shape(&read.laid) },
            to: Side { buffer: copy.name.clone(), layout: shape(&copy.laid) },
            reason: why.clone(),
            reader: reader.map(name),
            readers: readers[to.0],
            bytes: totals.bytes_in.saturating_add(totals.bytes_out),
            us: us(step.duration),
            load: step.load,
        });
    }
    list
}
