//! Every step: its operands, its division, its time and its point under the roofline.

use super::us;
use crate::program::{self, Action, BufferId, Place, Program};
use serde_json::Value;
use zellige_machine::WorkKind;
use zellige_report::{BusyCores, LoopDimension, ReportedStep, StepFamily, StepKind, StepOperand};

pub(super) fn steps(program: &Program) -> Vec<ReportedStep> {
    program.steps.iter().map(|s| step(program, s)).collect()
}

fn step(program: &Program, s: &program::Step) -> ReportedStep {
    let full = super::totals(program, &s.full);
    let totals = super::totals(program, &s.work);
    let bytes = totals.bytes_in.saturating_add(totals.bytes_out);
    let all = full.bytes_in.saturating_add(full.bytes_out);
    let (kind, node) = match &s.action {
        Action::Op(node, _) => (StepKind::Op, Some(*node)),
        Action::Host(node, _) => (StepKind::Host, Some(*node)),
        Action::Move { .. } => (StepKind::Move, None),
    };
    let node = node.map(|n| program.graph.node(n));
    let seconds = s.duration.seconds();
    let attributes = node.map(|n| attributes(&n.attributes)).unwrap_or_default();
    let operand = |buffer: BufferId, size: &[i64]| StepOperand {
        buffer: buffer.0,
        name: program.buffer(buffer).name.clone(),
        size: size.to_vec(),
        lx: in_lx(program, buffer),
    };
    ReportedStep {
        name: s.name.clone(),
        op: s.op().map_or("move", zellige_op::TensorOp::name).into(),
        kind,
        family: family(s),
        attributes,
        at: node.and_then(|n| n.at.clone()),
        reads: s.reads.iter().map(|r| operand(r.buffer, r.laid.size())).collect(),
        writes: s.writes.iter().map(|b| operand(*b, program.buffer(*b).laid.size())).collect(),
        load: s.load,
        dims: dims(s),
        decided_by: s.decided.0.clone(),
        reason: match &s.action {
            Action::Move { why, .. } => why.clone(),
            _ => s.decided.1.clone(),
        },
        cores: if kind == StepKind::Host { 0 } else { totals.cores },
        first_core: s.first_core,
        busy: busy(program, s),
        start_us: us(s.start),
        us: us(s.duration),
        bottleneck: s.latency.bottleneck.to_string(),
        bytes_in: totals.bytes_in,
        bytes_out: totals.bytes_out,
        lx_saved_bytes: all.saturating_sub(bytes),
        flops: totals.flops,
        intensity: (bytes > 0).then(|| totals.flops as f64 / bytes as f64),
        tflops: if seconds > 0.0 { totals.flops as f64 / seconds / 1e12 } else { 0.0 },
    }
}

/// Whether a buffer lives in scratchpads, also in the place of another.
pub(super) fn in_lx(program: &Program, buffer: BufferId) -> bool {
    let mut at = buffer;
    // A buffer takes the place of an earlier one, so this ends; the count guards a broken plan.
    for _ in 0..=program.buffers.len() {
        match program.buffer(at).place {
            Place::Lx(_) => return true,
            Place::Over(other) => at = other,
            Place::Own | Place::Pool(_) => return false,
        }
    }
    false
}

fn dims(s: &program::Step) -> Vec<LoopDimension> {
    let space = s.space.as_deref().unwrap_or_default();
    let splits = s.division.splits().iter().copied().chain(std::iter::repeat(1));
    let dim = |(i, (span, split)): (usize, (&zellige_device::LoopSpan, usize))| LoopDimension {
        name: format!("c{i}"),
        size: span.size,
        unit: span.unit,
        reduced: span.reduced,
        split,
    };
    space.iter().zip(splits).enumerate().map(dim).collect()
}

/// How long each core is busy, neighbours of equal times together.
fn busy(program: &Program, s: &program::Step) -> Vec<BusyCores> {
    if matches!(s.action, Action::Host(..)) {
        return Vec::new();
    }
    let mut list: Vec<BusyCores> = Vec::new();
    for core in &s.latency.cores {
        let time = us(program.options.hardware.cycles_to_time(core.total));
        match list.last_mut() {
            Some(last) if last.us == time => last.cores += 1,
            _ => list.push(BusyCores { cores: 1, us: time }),
        }
    }
    list
}

fn family(s: &program::Step) -> StepFamily {
    match (&s.action, s.work.kind) {
        (Action::Host(..), _) => StepFamily::Host,
        (Action::Move { .. }, _) => StepFamily::Move,
        (_, WorkKind::Matmul | WorkKind::BatchMatmulDefault { .. }) => StepFamily::Matmul,
        (_, WorkKind::RowReduction | WorkKind::CrossRowReduction) => StepFamily::Reduction,
        (_, WorkKind::Pointwise) => StepFamily::Pointwise,
        _ => StepFamily::Other,
    }
}

/// Attributes as a reader writes them: `dim=3, keepdim=true`.
fn attributes(map: &serde_json::Map<String, Value>) -> String {
    map.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ")
}
