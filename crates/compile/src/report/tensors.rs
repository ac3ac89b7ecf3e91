//! Every buffer: what it holds, how it lies, where it lives and who uses it.

use super::data::Tensor;
use super::layout::shape;
use crate::program::{Buffer, Origin, Place, Program};

pub(super) fn tensors(program: &Program) -> Vec<Tensor> {
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
    let one = |(i, b): (usize, &Buffer)| Tensor {
        name: b.name.clone(),
        tensor: program.graph.get(b.tensor).name.clone(),
        origin: origin(b),
        dtype: b.laid.dtype().name(),
        layout: shape(&b.laid),
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

fn origin(buffer: &Buffer) -> &'static str {
    match &buffer.origin {
        Origin::Input(role) => role.name(),
        Origin::Constant(_) => "constant",
        Origin::Result => "result",
        Origin::Copy(_) => "copy",
    }
}

fn place(place: Place) -> &'static str {
    match place {
        Place::Own => "own",
        Place::Pool(_) => "pool",
        Place::Lx(_) => "lx",
        Place::Over(_) => "over",
    }
}

fn padding(buffer: &Buffer) -> f64 {
    let (all, valid) = (buffer.bytes(), buffer.laid.valid_bytes());
    if all == 0 { 0.0 } else { all.saturating_sub(valid) as f64 / all as f64 }
}
