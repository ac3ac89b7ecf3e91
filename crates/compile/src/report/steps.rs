//! Every step: its operands, its division, its time and its point under the roofline.

use super::to_microseconds;
use crate::program::{self, BufferId, BufferLocation, CompiledProgram, StepAction};
use serde_json::Value;
use zellige_machine::WorkKind;
use zellige_report::{
    BusyCores, LoopDimension, ReportedStep, StepFamily, StepKind, StepOperand, StepTimeTerm,
};

pub(super) fn report_steps(program: &CompiledProgram) -> Vec<ReportedStep> {
    program.steps.iter().map(|s| report_step(program, s)).collect()
}

fn report_step(program: &CompiledProgram, s: &program::ProgramStep) -> ReportedStep {
    let full = super::sum_work_totals(program, &s.full);
    let totals = super::sum_work_totals(program, &s.work);
    let bytes = totals.bytes_in.saturating_add(totals.bytes_out);
    let all = full.bytes_in.saturating_add(full.bytes_out);
    let (kind, node) = match &s.action {
        StepAction::Op(node, _) => (StepKind::Op, Some(*node)),
        StepAction::Host(node, _) => (StepKind::Host, Some(*node)),
        StepAction::Move { .. } => (StepKind::Move, None),
        StepAction::Exchange(_) => (StepKind::Exchange, None),
    };
    let node = node.map(|n| program.graph.node(n));
    let seconds = s.duration.seconds();
    let attributes = node.map(|n| format_attributes(&n.attributes)).unwrap_or_default();
    let operand = |buffer: BufferId, size: &[i64]| StepOperand {
        buffer: buffer.0,
        name: program.buffer(buffer).name.clone(),
        size: size.to_vec(),
        lx: is_held_in_lx(program, buffer),
    };
    ReportedStep {
        name: s.name.clone(),
        op: s.verb().into(),
        kind,
        family: find_step_family(s),
        attributes,
        at: node.and_then(|n| n.at.clone()),
        reads: s.reads.iter().map(|r| operand(r.buffer, r.laid.size())).collect(),
        writes: s.writes.iter().map(|b| operand(*b, program.buffer(*b).laid.size())).collect(),
        load: s.load,
        dims: report_dimensions(s),
        decided_by: s.decided.0.clone(),
        reason: match &s.action {
            StepAction::Move { why, .. } => why.clone(),
            _ => s.decided.1.clone(),
        },
        cores: if kind == StepKind::Host { 0 } else { totals.cores },
        first_core: s.first_core,
        busy: report_busy_cores(program, s),
        start_us: to_microseconds(s.start),
        us: to_microseconds(s.duration),
        bottleneck: s.latency.bottleneck.to_string(),
        terms: report_time_terms(program, s),
        bytes_in: totals.bytes_in,
        bytes_out: totals.bytes_out,
        lx_saved_bytes: all.saturating_sub(bytes),
        flops: totals.flops,
        intensity: (bytes > 0).then(|| totals.flops as f64 / bytes as f64),
        tflops: if seconds > 0.0 { totals.flops as f64 / seconds / 1e12 } else { 0.0 },
    }
}

/// Whether a buffer lives in scratchpads, also in the place of another.
pub(super) fn is_held_in_lx(program: &CompiledProgram, buffer: BufferId) -> bool {
    let mut at = buffer;
    // A buffer takes the place of an earlier one, so this ends; the count guards a broken plan.
    for _ in 0..=program.buffers.len() {
        match program.buffer(at).place {
            BufferLocation::Lx(_) => return true,
            BufferLocation::Over(other) => at = other,
            BufferLocation::Own | BufferLocation::Pool(_) => return false,
        }
    }
    false
}

pub(super) fn report_dimensions(s: &program::ProgramStep) -> Vec<LoopDimension> {
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
fn report_busy_cores(program: &CompiledProgram, s: &program::ProgramStep) -> Vec<BusyCores> {
    if matches!(s.action, StepAction::Host(..)) {
        return Vec::new();
    }
    let mut list: Vec<BusyCores> = Vec::new();
    for core in &s.latency.cores {
        let time = to_microseconds(program.options.hardware.cycles_to_time(core.total));
        match list.last_mut() {
            // Thirty-two equal numbers would be most of the report; runs of equal times are written once.
            Some(last) if last.us == time => last.cores += 1,
            _ => list.push(BusyCores { cores: 1, us: time }),
        }
    }
    list
}

fn report_time_terms(program: &CompiledProgram, s: &program::ProgramStep) -> Vec<StepTimeTerm> {
    let terms = program.options.hardware.list_time_terms(&s.latency);
    let report = |term: zellige_machine::TimeTerm| StepTimeTerm {
        name: term.name.into(),
        meaning: term.meaning.into(),
        alone_us: to_microseconds(term.alone),
        counted_us: to_microseconds(term.counted),
    };
    terms.into_iter().map(report).collect()
}

fn find_step_family(s: &program::ProgramStep) -> StepFamily {
    match (&s.action, s.work.kind) {
        (StepAction::Host(..), _) => StepFamily::Host,
        (StepAction::Move { .. } | StepAction::Exchange(_), _) => StepFamily::Move,
        (_, WorkKind::Matmul | WorkKind::BatchMatmulDefault { .. }) => StepFamily::Matmul,
        (_, WorkKind::RowReduction | WorkKind::CrossRowReduction) => StepFamily::Reduction,
        (_, WorkKind::Pointwise) => StepFamily::Pointwise,
        _ => StepFamily::Other,
    }
}

/// Attributes as a reader writes them: `dim=3, keepdim=true`.
fn format_attributes(map: &serde_json::Map<String, Value>) -> String {
    map.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(", ")
}
