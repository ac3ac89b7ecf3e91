//! Every buffer: what it holds, its layout, its place in memory, its writer and its readers.

use super::layout_summary::layout_summary;
use crate::program::{Buffer, Origin, Place, Program};
use zellige_graph::InputRole;
use zellige_report::{BufferOrigin, BufferPlace, ReportedBuffer};

pub(super) fn buffers(program: &Program) -> Vec<ReportedBuffer> {
    let mut written = vec![None; program.buffers.len()];
    let mut read: Vec<Vec<usize>> = vec![Vec::new(); program.buffers.len()];
    for (i, step) in program.steps.iter().enumerate() {
        for b in &step.writes {
            written[b.0] = written[b.0].or(Some(i));
        }
        for r in &step.reads {
            if read[r.buffer.0].last() != Some(&i) {
                read[r.buffer.0].push(i);
            }
        }
    }
    let one = |(i, b): (usize, &Buffer)| ReportedBuffer {
        name: b.name.clone(),
        tensor: program.graph.get(b.tensor).name.clone(),
        origin: origin(b),
        dtype: b.laid.dtype().name().into(),
        layout: layout_summary(&b.laid),
        bytes: b.bytes(),
        padding: padding(b),
        place: place(b.place),
        address: match b.place {
            Place::Pool(at) | Place::Lx(at) => Some(at),
            Place::Own | Place::Over(_) => None,
        },
        over: match b.place {
            Place::Over(other) => Some(program.buffer(other).name.clone()),
            _ => None,
        },
        loaded: b.loaded,
        written_by: written[i],
        read_by: std::mem::take(&mut read[i]),
        output: program.outputs.iter().any(|o| o.buffer.0 == i),
    };
    program.buffers.iter().enumerate().map(one).collect()
}

fn origin(buffer: &Buffer) -> BufferOrigin {
    match &buffer.origin {
        Origin::Input(InputRole::Input) => BufferOrigin::Input,
        Origin::Input(InputRole::Weight) => BufferOrigin::Weight,
        Origin::Input(InputRole::State) => BufferOrigin::State,
        Origin::Constant(_) => BufferOrigin::Constant,
        Origin::Result => BufferOrigin::Result,
        Origin::Copy(_) => BufferOrigin::Copy,
    }
}

fn place(place: Place) -> BufferPlace {
    match place {
        Place::Own => BufferPlace::Own,
        Place::Pool(_) => BufferPlace::Pool,
        Place::Lx(_) => BufferPlace::Lx,
        Place::Over(_) => BufferPlace::Over,
    }
}

fn padding(buffer: &Buffer) -> f64 {
    let (all, valid) = (buffer.bytes(), buffer.laid.valid_bytes());
    if all == 0 { 0.0 } else { all.saturating_sub(valid) as f64 / all as f64 }
}
