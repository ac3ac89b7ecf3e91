//! What each pass made, as text that can be compared.

use crate::choose::LayoutAssignment;
use crate::divide::StepDivision;
use crate::draft::{CandidateDraft, DividedDraft, PlacedDraft, ResidentDraft, WavedDraft};
use crate::lower::{LoweredProgram, LoweredStep};
use crate::options::CompilerOptions;
use crate::program::{BufferLocation, CompiledProgram, StepAction};
use crate::propagate::GraphCandidates;
use crate::report::describe_layout;
use std::fmt::Write;
use zellige_device::TensorLayout;
use zellige_graph::{Graph, GraphTensor};
use zellige_op::TensorOp;
use zellige_stick::StickLayout;

/// PassText of text.
#[derive(Default)]
struct PassText(String);

impl PassText {
    fn push_line(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{line}");
    }
}

fn format_layout(options: &CompilerOptions, t: &GraphTensor, layout: &StickLayout) -> String {
    TensorLayout::new(options.storage, t.dtype, layout)
        .map_or_else(|e| e.to_string(), |laid| describe_layout(&laid))
}

/// The layouts of every tensor, and how many ways every operation has to run.
pub(crate) fn print_candidates(
    graph: &Graph,
    options: &CompilerOptions,
    found: &GraphCandidates,
) -> String {
    let mut out = PassText::default();
    for (id, t) in graph.tensors() {
        if found.tensors[id.0].is_empty() {
            continue;
        }
        out.push_line(format_args!("{} {}{:?}", t.name, t.dtype, t.size));
        for layout in &found.tensors[id.0] {
            out.push_line(format_args!("    {}", format_layout(options, t, layout)));
        }
    }
    for (id, node) in graph.nodes() {
        let (name, op) = (&graph.get(node.outputs[0]).name, node.op.name());
        let list = &found.nodes[id.0];
        let best = list.iter().map(|a| a.cycles).min().unwrap_or(0);
        let count = list.len();
        out.push_line(format_args!(
            "{name} = {op}: {count} alternatives, the cheapest {best} cycles"
        ));
    }
    out.0
}

/// The layout of every tensor, and what is proved of the choice.
pub(crate) fn print_assignment(
    graph: &Graph,
    options: &CompilerOptions,
    chosen: &LayoutAssignment,
) -> String {
    let mut out = PassText::default();
    for (id, t) in graph.tensors() {
        if let Some(layout) = &chosen.tensors[id.0] {
            let words = format_layout(options, t, layout);
            out.push_line(format_args!("{} {}{:?}: {words}", t.name, t.dtype, t.size));
        }
    }
    let LayoutAssignment { cost, bound, unit, .. } = chosen;
    out.push_line(match bound {
        0 if *cost > 0 => format!("{cost} {unit}; no lower bound is proved"),
        _ => format!("{cost} {unit}; no choice costs less than {bound}"),
    });
    out.0
}

fn op_name(step: &LoweredStep) -> &'static str {
    step.op().map_or("move", TensorOp::name)
}

/// The steps with what they read and write; of moves also the reason.
pub(crate) fn print_lowered(lowered: &LoweredProgram) -> String {
    let mut out = PassText::default();
    for step in &lowered.steps {
        let when = if step.load { "load" } else { "run" };
        let name = |b: &crate::program::BufferId| lowered.buffer(*b).name.clone();
        let reads: Vec<String> = step.reads.iter().map(|r| name(&r.buffer)).collect();
        let writes: Vec<String> = step.writes.iter().map(name).collect();
        let why = match &step.action {
            StepAction::Move { why, .. } => format!(": {why}"),
            StepAction::Host(..) => ": on the host".into(),
            StepAction::Op(..) => String::new(),
        };
        let (reads, writes) = (reads.join(", "), writes.join(", "));
        out.push_line(format_args!("{when} {writes} = {}({reads}){why}", op_name(step)));
    }
    out.0
}

/// A division as `c0=64/8 c1=512/1`: the size of each loop over its slices.
fn format_loops(step: &LoweredStep, divided: &StepDivision) -> String {
    let sizes = step.space.iter().flatten().map(|s| s.size);
    let pairs = sizes.zip(divided.division.splits()).enumerate();
    let words: Vec<String> = pairs.map(|(i, (size, n))| format!("c{i}={size}/{n}")).collect();
    if words.is_empty() { "undivided".into() } else { words.join(" ") }
}

fn format_division(step: &LoweredStep, divided: &StepDivision) -> String {
    let (by, why) = &divided.decided;
    let why = match &step.action {
        StepAction::Move { why, .. } => why,
        _ => why,
    };
    let cores = match step.action {
        StepAction::Host(..) => 0,
        _ => divided.work.cores.len(),
    };
    format!("{} on {cores} cores by {by}: {why}", format_loops(step, divided))
}

/// The divisions that are considered for every step.
pub(crate) fn print_divisions(draft: &CandidateDraft) -> String {
    let mut out = PassText::default();
    for (step, list) in draft.lowered.steps.iter().zip(&draft.divisions.divisions) {
        out.push_line(format_args!("{} = {}: {} divisions", step.name, op_name(step), list.len()));
        for divided in list.iter() {
            let time = draft.lowered.options.hardware.operation_latency(&divided.work).time;
            out.push_line(format_args!("    {time}: {}", format_division(step, divided)));
        }
    }
    out.0
}

/// The division of every step, and what may stay in the scratchpads.
pub(crate) fn print_divided(draft: &DividedDraft) -> String {
    let mut out = PassText::default();
    let (lowered, divided) = (&draft.lowered, &draft.divisions);
    for (step, chosen) in lowered.steps.iter().zip(&divided.steps) {
        out.push_line(format_args!(
            "{} = {}: {}",
            step.name,
            op_name(step),
            format_division(step, chosen)
        ));
    }
    for keep in &divided.residents {
        out.push_line(format_args!(
            "{} may stay in the scratchpads",
            lowered.buffer(keep.buffer).name
        ));
    }
    out.0
}

/// The wave and the cores of every step, in the order of the waves.
pub(crate) fn print_waves(waved: &WavedDraft) -> String {
    let mut out = PassText::default();
    let mut order: Vec<usize> = (0..waved.slots.len()).collect();
    order.sort_by_key(|i| (waved.slots[*i].wave, waved.slots[*i].first_core));
    for i in order {
        let (slot, step) = (waved.slots[i], &waved.lowered.steps[i]);
        let cores = waved.divisions.steps[i].work.cores.len();
        let last = (slot.first_core + cores).saturating_sub(1);
        let (wave, first) = (slot.wave, slot.first_core);
        out.push_line(format_args!("wave {wave}, cores {first} to {last}: {}", step.name));
    }
    out.0
}

/// The results that stay in the scratchpads, and those that could have.
pub(crate) fn print_residents(resident: &ResidentDraft) -> String {
    let mut out = PassText::default();
    let (lowered, divided) = (&resident.lowered, &resident.divisions);
    for keep in &divided.residents {
        let (step, tensor) = keep.producer;
        let division = &divided.steps[step].division;
        let bytes =
            divided.ops[step].as_ref().map_or(0, |op| op.largest_part_bytes(tensor, division));
        let name = &lowered.buffer(keep.buffer).name;
        let at = match resident.residents.addresses[keep.buffer.0] {
            Some(address) => format!("at {address} of every scratchpad"),
            None => "no room, in device memory".into(),
        };
        out.push_line(format_args!("{name} {bytes} bytes on each core: {at}"));
    }
    let limit = lowered.options.lx_limit();
    out.push_line(format_args!("{limit} bytes of each scratchpad may be used"));
    out.0
}

/// Where every buffer lives.
pub(crate) fn print_addresses(addressed: &PlacedDraft) -> String {
    let mut out = PassText::default();
    let lowered = &addressed.lowered;
    let mut peak = 0;
    for (buffer, place) in lowered.buffers.iter().zip(&addressed.places) {
        let bytes = buffer.bytes();
        let at = match place {
            BufferLocation::Own => "own".into(),
            BufferLocation::Pool(address) => {
                peak = peak.max(address + bytes);
                format!("pool {address}")
            }
            BufferLocation::Lx(address) => format!("lx {address}"),
            BufferLocation::Over(of) => format!("over {}", lowered.buffer(*of).name),
        };
        out.push_line(format_args!("{} {bytes} bytes: {at}", buffer.name));
    }
    out.push_line(format_args!("the pool takes {peak} bytes"));
    out.0
}

/// When every step runs, on which cores, and what limits it.
pub(crate) fn print_schedule(program: &CompiledProgram) -> String {
    let mut out = PassText::default();
    for (i, s) in program.steps.iter().enumerate() {
        let when = if s.load { "load" } else { "run" };
        if let Some(number) = program.bundles.iter().position(|b| b.steps.start == i) {
            let bundle = &program.bundles[number];
            let (start, end) = (bundle.start.microseconds(), bundle.end.microseconds());
            let launch = match bundle.launch {
                Some(time) => format!("launched in {:.3} us", time.microseconds()),
                None => "done by the host".into(),
            };
            let steps = bundle.steps.len();
            out.push_line(format_args!(
                "bundle {number}, {when} {start:.3} us to {end:.3} us, {launch}, steps: {steps}"
            ));
        }
        let cores = match s.action {
            StepAction::Host(..) => 0,
            _ => s.work.cores.len(),
        };
        let (first, last) = (s.first_core, (s.first_core + cores).saturating_sub(1));
        let (start, took) = (s.start.microseconds(), s.duration.microseconds());
        let (name, op) = (&s.name, s.op().map_or("move", TensorOp::name));
        let bound = s.latency.bottleneck;
        out.push_line(format_args!(
            "{when} {start:.3} us + {took:.3} us, cores {first} to {last}: {name} = {op}, {bound}"
        ));
    }
    out.0
}
