//! What a reader should know beside the plan: work of the host, narrowed elements, idle cores; and
//! why there is no plan, with what to do about it.

use super::to_microseconds;
use crate::error::CompileError;
use crate::program::{CompiledProgram, ElementOrigin, ProgramStep, StepAction};
use zellige_float::Dtype;
use zellige_graph::{Graph, GraphNode, TensorOrigin};
use zellige_report::{HostFallback, NarrowedTensor, ReportNote};

/// Every operation of every run that the host does.
pub(super) fn report_fallbacks(program: &CompiledProgram) -> Vec<HostFallback> {
    let mut list = Vec::new();
    for (i, step) in program.steps.iter().enumerate() {
        let StepAction::Host(node, op) = &step.action else { continue };
        let totals = step.work.sum_over_cores();
        list.push(HostFallback {
            step: i,
            name: step.name.clone(),
            op: op.name().into(),
            at: program.graph.node(*node).at.clone(),
            layer: op.layer().name().into(),
            bytes: totals.host_in.saturating_add(totals.host_out),
            us: to_microseconds(step.duration),
            remedy: "`--profile full` runs it on the card; with torch-spyre, write it with \
                     operations of the layers native and custom (`zellige ops`)"
                .into(),
        });
    }
    list
}

/// Every tensor of the graph that is narrower on the card.
pub(super) fn report_narrowed(program: &CompiledProgram) -> Vec<NarrowedTensor> {
    let mut list = Vec::new();
    for buffer in &program.buffers {
        if matches!(buffer.origin, ElementOrigin::Copy(_)) {
            continue;
        }
        let dtype = buffer.laid.dtype();
        let bits = buffer.laid.format().byte_size() * 8;
        if i64::try_from(bits).is_ok_and(|bits| bits >= dtype.bits()) {
            continue;
        }
        let (loss, remedy) = match dtype {
            Dtype::Float32 => (
                format!("float32 in {bits} bits: fewer significant bits"),
                "`--fp32 keep` stores it as it is, at twice the bytes",
            ),
            Dtype::Int64 => (
                format!("int64 in {bits} bits: larger values do not fit"),
                "`--int64 keep` stores it as it is, at twice the bytes",
            ),
            _ => (format!("{} in {bits} bits", dtype.name()), "use a narrower dtype"),
        };
        list.push(NarrowedTensor {
            tensor: buffer.name.clone(),
            dtype: dtype.name().into(),
            stored: buffer.laid.stick_layout().device_dtype().name().into(),
            loss,
            remedy: remedy.into(),
        });
    }
    list
}

/// Steps that take less than this share of a run are not worth a note.
const MIN_NOTED_SHARE: f64 = 0.05;
/// Notes of one kind.
const MAX_NOTES_PER_KIND: usize = 5;

pub(super) fn report_notes(program: &CompiledProgram) -> Vec<ReportNote> {
    let mut list: Vec<ReportNote> = Vec::new();
    let latency = to_microseconds(program.latency());
    let mut idle: Vec<&ProgramStep> = Vec::new();
    let mut on_host = false;
    for (_, step) in program.run_steps() {
        match &step.action {
            StepAction::Host(node, op) if !on_host => {
                let node = program.graph.node(*node);
                list.push(ReportNote {
                    kind: "graph_break".into(),
                    op: Some(op.name().into()),
                    name: Some(step.name.clone()),
                    at: node.at.clone(),
                    text: "the device program ends here and begins anew after the host".into(),
                    remedy: Some("keep operations of the host at one place".into()),
                });
                on_host = true;
            }
            StepAction::Host(..) => {}
            StepAction::Op(..) | StepAction::Move { .. } | StepAction::Exchange(_) => {
                on_host = false;
                let few = step.work.sum_over_cores().cores * 2 <= program.options.cores;
                if few && to_microseconds(step.duration) > MIN_NOTED_SHARE * latency {
                    idle.push(step);
                }
            }
        }
    }
    let breaks = list.len();
    if breaks > MAX_NOTES_PER_KIND {
        list.truncate(MAX_NOTES_PER_KIND);
        let text = format!("{} more graph breaks", breaks - MAX_NOTES_PER_KIND);
        list.push(plain_note("graph_break", text));
    }
    for step in idle.iter().take(MAX_NOTES_PER_KIND) {
        let node = step.node().map(|n| program.graph.node(n));
        let share = 100.0 * to_microseconds(step.duration) / latency;
        list.push(ReportNote {
            kind: "idle_cores".into(),
            op: step.op().map(|o| o.name().into()),
            name: Some(step.name.clone()),
            at: node.and_then(|n| n.at.clone()),
            text: format!(
                "{share:.0}% of the run on {} of {} cores: {}",
                step.work.sum_over_cores().cores,
                program.options.cores,
                step.decided.1
            ),
            remedy: Some("its dimensions have few whole sticks; larger sizes divide better".into()),
        });
    }
    list
}

fn plain_note(kind: &str, text: String) -> ReportNote {
    ReportNote { kind: kind.into(), op: None, name: None, at: None, text, remedy: None }
}

/// Why a graph does not compile: the operation, where it is written, and what to do.
pub fn report_refusal(error: &CompileError, graph: &Graph) -> ReportNote {
    let (result, remedy): (Option<&str>, &str) = match error {
        CompileError::Strict { result, .. } => {
            (Some(result), "leave out `--strict`: a move repairs the layout")
        }
        CompileError::Infeasible { result, .. } => (
            Some(result),
            "change its operands, or a pin of theirs, so that one of them has plain sticks",
        ),
        CompileError::Cores { .. } => (None, "`--cores N`, or the variable SENCORES"),
        CompileError::HintUnknown { .. }
        | CompileError::HintNotPositive { .. }
        | CompileError::HintNotDivisible { .. }
        | CompileError::HintCores { .. }
        | CompileError::HintReductions { .. } => (None, "change or remove the `split {..}` hint"),
        CompileError::Span { tensor, .. } => {
            (Some(tensor), "use more cores, or cut the tensor in the graph")
        }
        CompileError::PoolFull { buffer, .. } => {
            (Some(buffer), "bind a smaller batch or sequence (`--bind S=..`)")
        }
        CompileError::Broken { .. } => {
            (None, "this is a mistake of the compiler; please report it")
        }
        _ => (None, ""),
    };
    let node = result.and_then(|name| find_node(graph, name));
    ReportNote {
        kind: error.kind().into(),
        op: node.map(|n| n.op.name().into()),
        name: result.map(Into::into),
        at: node.and_then(|n| n.at.clone()),
        text: error.to_string(),
        remedy: (!remedy.is_empty()).then(|| remedy.into()),
    }
}

fn find_node<'g>(graph: &'g Graph, result: &str) -> Option<&'g GraphNode> {
    match graph.tensor(result)?.def {
        TensorOrigin::Result(node, _) => Some(graph.node(node)),
        _ => None,
    }
}
