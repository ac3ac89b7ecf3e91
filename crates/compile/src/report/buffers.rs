//! Every buffer: what it holds, its layout, its place in memory, its writer and its readers.

use super::layout_summary::summarize_layout;
use crate::program::{BufferLocation, CompiledProgram, ElementOrigin, ProgramBuffer};
use zellige_graph::InputRole;
use zellige_report::{BufferOrigin, BufferPlace, ReportedBuffer};

pub(super) fn report_buffers(program: &CompiledProgram) -> Vec<ReportedBuffer> {
    let mut written = vec![None; program.buffers.len()];
    let mut read: Vec<Vec<usize>> = vec![Vec::new(); program.buffers.len()];
    for (i, step) in program.steps.iter().enumerate() {
        for b in &step.writes {
            written[b.0] = written[b.0].or(Some(i));
        }
        for r in &step.reads {
            // A step that reads a buffer twice (a square) is one reader.
            if read[r.buffer.0].last() != Some(&i) {
                read[r.buffer.0].push(i);
            }
        }
    }
    let one = |(i, b): (usize, &ProgramBuffer)| ReportedBuffer {
        name: b.name.clone(),
        tensor: program.graph.get(b.tensor).name.clone(),
        origin: report_origin(b),
        dtype: b.laid.dtype().name().into(),
        layout: summarize_layout(&b.laid),
        bytes: b.bytes(),
        padding: padding_share(b),
        place: report_location(b.place),
        address: match b.place {
            BufferLocation::Pool(at) | BufferLocation::Lx(at) => Some(at),
            BufferLocation::Own | BufferLocation::Over(_) => None,
        },
        over: match b.place {
            BufferLocation::Over(other) => Some(program.buffer(other).name.clone()),
            _ => None,
        },
        loaded: b.loaded,
        written_by: written[i],
        read_by: std::mem::take(&mut read[i]),
        output: program.outputs.iter().any(|o| o.buffer.0 == i),
    };
    program.buffers.iter().enumerate().map(one).collect()
}

fn report_origin(buffer: &ProgramBuffer) -> BufferOrigin {
    match &buffer.origin {
        ElementOrigin::Input(InputRole::Input) => BufferOrigin::Input,
        ElementOrigin::Input(InputRole::Weight) => BufferOrigin::Weight,
        ElementOrigin::Input(InputRole::State) => BufferOrigin::State,
        ElementOrigin::Constant(_) => BufferOrigin::Constant,
        ElementOrigin::Result => BufferOrigin::Result,
        ElementOrigin::Copy(_) => BufferOrigin::Copy,
    }
}

fn report_location(place: BufferLocation) -> BufferPlace {
    match place {
        BufferLocation::Own => BufferPlace::Own,
        BufferLocation::Pool(_) => BufferPlace::Pool,
        BufferLocation::Lx(_) => BufferPlace::Lx,
        BufferLocation::Over(_) => BufferPlace::Over,
    }
}

fn padding_share(buffer: &ProgramBuffer) -> f64 {
    let (all, valid) = (buffer.bytes(), buffer.laid.valid_bytes());
    if all == 0 { 0.0 } else { all.saturating_sub(valid) as f64 / all as f64 }
}
