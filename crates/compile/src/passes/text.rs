//! What each pass made, as text that can be compared.

use crate::choose::Assignment;
use crate::divide::{Divided, DivisionCandidates, StepDivision};
use crate::lower::{Lowered, LoweredStep};
use crate::options::Options;
use crate::pool::Addressed;
use crate::program::{Action, Place, Program};
use crate::propagate::Candidates;
use crate::report::describe;
use crate::scratchpads::Resident;
use crate::waves::Waved;
use std::fmt::Write;
use zellige_device::TensorLayout;
use zellige_graph::{Graph, GraphTensor};
use zellige_op::TensorOp;
use zellige_stick::StickLayout;

/// PassText of text.
#[derive(Default)]
struct PassText(String);

impl PassText {
    fn add(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{line}");
    }
}

fn layout_words(options: &Options, t: &GraphTensor, layout: &StickLayout) -> String {
    TensorLayout::new(options.storage, t.dtype, layout)
        .map_or_else(|e| e.to_string(), |laid| describe(&laid))
}

/// The layouts of every tensor, and how many ways every operation has to run.
pub(crate) fn candidates(graph: &Graph, options: &Options, found: &Candidates) -> String {
    let mut out = PassText::default();
    for (id, t) in graph.tensors() {
        if found.tensors[id.0].is_empty() {
            continue;
        }
        out.add(format_args!("{} {}{:?}", t.name, t.dtype, t.size));
        for layout in &found.tensors[id.0] {
            out.add(format_args!("    {}", layout_words(options, t, layout)));
        }
    }
    for (id, node) in graph.nodes() {
        let (name, op) = (&graph.get(node.outputs[0]).name, node.op.name());
        let list = &found.nodes[id.0];
        let best = list.iter().map(|a| a.cycles).min().unwrap_or(0);
        let count = list.len();
        out.add(format_args!("{name} = {op}: {count} alternatives, the cheapest {best} cycles"));
    }
    out.0
}

/// The layout of every tensor, and what is proved of the choice.
pub(crate) fn assignment(graph: &Graph, options: &Options, chosen: &Assignment) -> String {
    let mut out = PassText::default();
    for (id, t) in graph.tensors() {
        if let Some(layout) = &chosen.tensors[id.0] {
            let words = layout_words(options, t, layout);
            out.add(format_args!("{} {}{:?}: {words}", t.name, t.dtype, t.size));
        }
    }
    let Assignment { cost, bound, unit, .. } = chosen;
    out.add(match bound {
        0 if *cost > 0 => format!("{cost} {unit}; nothing is proved of it"),
        _ => format!("{cost} {unit}; no choice costs less than {bound}"),
    });
    out.0
}

fn op_name(step: &LoweredStep) -> &'static str {
    step.op().map_or("move", TensorOp::name)
}

/// The steps with what they read and write; of moves also the reason.
pub(crate) fn lowered(lowered: &Lowered) -> String {
    let mut out = PassText::default();
    for step in &lowered.steps {
        let when = if step.load { "load" } else { "run" };
        let name = |b: &crate::program::BufferId| lowered.buffer(*b).name.clone();
        let reads: Vec<String> = step.reads.iter().map(|r| name(&r.buffer)).collect();
        let writes: Vec<String> = step.writes.iter().map(name).collect();
        let why = match &step.action {
            Action::Move { why, .. } => format!(": {why}"),
            Action::Host(..) => ": on the host".into(),
            Action::Op(..) => String::new(),
        };
        let (reads, writes) = (reads.join(", "), writes.join(", "));
        out.add(format_args!("{when} {writes} = {}({reads}){why}", op_name(step)));
    }
    out.0
}

/// A division as `c0=64/8 c1=512/1`: the size of each loop over its slices.
fn loops(step: &LoweredStep, divided: &StepDivision) -> String {
    let sizes = step.space.iter().flatten().map(|s| s.size);
    let pairs = sizes.zip(divided.division.splits()).enumerate();
    let words: Vec<String> = pairs.map(|(i, (size, n))| format!("c{i}={size}/{n}")).collect();
    if words.is_empty() { "undivided".into() } else { words.join(" ") }
}

fn division(step: &LoweredStep, divided: &StepDivision) -> String {
    let (by, why) = &divided.decided;
    let why = match &step.action {
        Action::Move { why, .. } => why,
        _ => why,
    };
    let cores = match step.action {
        Action::Host(..) => 0,
        _ => divided.work.cores.len(),
    };
    format!("{} on {cores} cores by {by}: {why}", loops(step, divided))
}

/// The divisions that are considered for every step.
pub(crate) fn divisions(candidates: &DivisionCandidates) -> String {
    let mut out = PassText::default();
    for (step, list) in candidates.lowered.steps.iter().zip(&candidates.divisions) {
        out.add(format_args!("{} = {}: {} divisions", step.name, op_name(step), list.len()));
        for divided in list.iter() {
            let time = candidates.lowered.options.hardware.operation_latency(&divided.work).time;
            out.add(format_args!("    {time}: {}", division(step, divided)));
        }
    }
    out.0
}

/// The division of every step, and what may stay in the scratchpads.
pub(crate) fn divided(divided: &Divided) -> String {
    let mut out = PassText::default();
    let lowered = &divided.lowered;
    for (step, chosen) in lowered.steps.iter().zip(&divided.steps) {
        out.add(format_args!("{} = {}: {}", step.name, op_name(step), division(step, chosen)));
    }
    for keep in &divided.residents {
        out.add(format_args!("{} may stay in the scratchpads", lowered.buffer(keep.buffer).name));
    }
    out.0
}

/// The wave and the cores of every step, in the order of the waves.
pub(crate) fn waved(waved: &Waved) -> String {
    let mut out = PassText::default();
    let mut order: Vec<usize> = (0..waved.slots.len()).collect();
    order.sort_by_key(|i| (waved.slots[*i].wave, waved.slots[*i].first_core));
    for i in order {
        let (slot, step) = (waved.slots[i], &waved.divided.lowered.steps[i]);
        let cores = waved.divided.steps[i].work.cores.len();
        let last = (slot.first_core + cores).saturating_sub(1);
        let (wave, first) = (slot.wave, slot.first_core);
        out.add(format_args!("wave {wave}, cores {first} to {last}: {}", step.name));
    }
    out.0
}

/// The results that stay in the scratchpads, and those that could have.
pub(crate) fn resident(resident: &Resident) -> String {
    let mut out = PassText::default();
    let divided = &resident.waved.divided;
    for keep in &divided.residents {
        let (step, tensor) = keep.producer;
        let division = &divided.steps[step].division;
        let bytes = divided.ops[step].as_ref().map_or(0, |op| op.part_bytes(tensor, division));
        let name = &divided.lowered.buffer(keep.buffer).name;
        let at = match resident.addresses[keep.buffer.0] {
            Some(address) => format!("at {address} of every scratchpad"),
            None => "no room, in device memory".into(),
        };
        out.add(format_args!("{name} {bytes} bytes on each core: {at}"));
    }
    let limit = divided.lowered.options.lx_limit();
    out.add(format_args!("{limit} bytes of each scratchpad may be used"));
    out.0
}

/// Where every buffer lives.
pub(crate) fn addressed(addressed: &Addressed) -> String {
    let mut out = PassText::default();
    let lowered = &addressed.resident.waved.divided.lowered;
    let mut peak = 0;
    for (buffer, place) in lowered.buffers.iter().zip(&addressed.places) {
        let bytes = buffer.bytes();
        let at = match place {
            Place::Own => "own".into(),
            Place::Pool(address) => {
                peak = peak.max(address + bytes);
                format!("pool {address}")
            }
            Place::Lx(address) => format!("lx {address}"),
            Place::Over(of) => format!("over {}", lowered.buffer(*of).name),
        };
        out.add(format_args!("{} {bytes} bytes: {at}", buffer.name));
    }
    out.add(format_args!("the pool takes {peak} bytes"));
    out.0
}

/// When every step runs, on which cores, and what limits it.
pub(crate) fn scheduled(program: &Program) -> String {
    let mut out = PassText::default();
    for s in &program.steps {
        let when = if s.load { "load" } else { "run" };
        let cores = match s.action {
            Action::Host(..) => 0,
            _ => s.work.cores.len(),
        };
        let (first, last) = (s.first_core, (s.first_core + cores).saturating_sub(1));
        let (start, took) = (s.start.microseconds(), s.duration.microseconds());
        let (name, op) = (&s.name, s.op().map_or("move", TensorOp::name));
        let bound = s.latency.bottleneck;
        out.add(format_args!(
            "{when} {start:.3} us + {took:.3} us, cores {first} to {last}: {name} = {op}, {bound}"
        ));
    }
    out.0
}
