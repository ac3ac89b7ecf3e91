//! The host program: what is allocated, loaded and transferred, which bundles are launched, and which kernels run in which order.
//!
//! Its schema is `docs/schemas/host-program.schema.json`. Times are picoseconds from the beginning of
//! the phase; addresses are texts, as JSON readers may round large numbers.

use super::ktir::KtirKernels;
use super::order::AccessOrder;
use super::superdsc::{self, SdscBundle, pretty_json};
use super::{BufferAddress, EmitOptions, EmittedFile, KernelAddressing, MemoryMap, dci};
use crate::error::Result;
use crate::program::{
    BufferId, BufferLocation, BufferRead, BundleKind, CompiledProgram, ElementOrigin,
    ProgramBuffer, ProgramBundle, ProgramStep, StepAction, StepId,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use zellige_graph::InputRole;
use zellige_layout::StridedLayout;
use zellige_machine::SimulatedTime;
use zellige_op::HostScalar;
use zellige_stick::TransferDirection;

/// The file of the host program.
///
/// # Errors
/// As [`dci::list_transfers`].
pub fn write_host_file(
    program: &CompiledProgram,
    map: &MemoryMap,
    bundles: &[SdscBundle],
    kernels: &KtirKernels,
    options: &EmitOptions,
) -> Result<EmittedFile> {
    let json = host_program_json(program, map, bundles, kernels, options)?;
    Ok(EmittedFile { path: "host.json".into(), text: pretty_json(&json) })
}

/// The host program.
///
/// # Errors
/// As [`dci::list_transfers`].
pub fn host_program_json(
    program: &CompiledProgram,
    map: &MemoryMap,
    bundles: &[SdscBundle],
    kernels: &KtirKernels,
    options: &EmitOptions,
) -> Result<Value> {
    let transfers = dci::list_transfers(program)?;
    let buffers: Vec<Value> = (0..program.buffers.len())
        .map(|i| buffer_json(map, BufferId(i), program.buffer(BufferId(i))))
        .collect();
    let constants = program.buffers.iter().enumerate().filter_map(|(i, b)| match b.origin {
        ElementOrigin::Constant(value) => Some(json!({"buffer": i, "value": number_json(value)})),
        _ => None,
    });
    let incoming = |at_every_run: bool| -> Vec<Value> {
        let every =
            |id: BufferId| program.buffer(id).origin == ElementOrigin::Input(InputRole::Input);
        let list = transfers.iter().filter(|t| t.direction == TransferDirection::HostToDevice);
        list.filter(|t| every(t.buffer) == at_every_run).map(transfer_json).collect()
    };
    let mut steps = StepWriter { program, map, bundles, kernels, order: AccessOrder::default() };
    let load_steps = steps.phase_steps(true);
    // A run begins when loading has ended, so that no step of a run waits for one of loading.
    steps.order = AccessOrder::default();
    let run_steps = steps.phase_steps(false);
    let outgoing = transfers.iter().filter(|t| t.direction == TransferDirection::DeviceToHost);
    let outgoing: Vec<Value> = outgoing
        .zip(&program.outputs)
        .map(|(t, read)| {
            let mut json = transfer_json(t);
            json["view"] = view_json(read.laid.view());
            // An output may be written by several steps, one for each slice of a `cat`; the host waits for all of
            // them.
            let writers = steps.order.find_writers(program, map, read.buffer);
            json["after"] = json!(writers.iter().map(|s| s.0).collect::<Vec<_>>());
            json
        })
        .collect();
    let pool = program.buffers.iter().filter_map(|b| match b.place {
        BufferLocation::Pool(at) => Some(at + b.bytes()),
        _ => None,
    });
    let mode = match options.addresses {
        KernelAddressing::Concrete => "concrete",
        KernelAddressing::Symbolic => "symbolic",
    };
    Ok(json!({
        "program": program.graph.name(),
        "cores": program.options.cores,
        "addresses": mode,
        "arguments": map.argument_buffers().iter().map(|b| b.0).collect::<Vec<_>>(),
        "pool_bytes": pool.max().unwrap_or(0),
        "workspace": workspace_json(map),
        "buffers": buffers,
        "load": {
            "constants": constants.collect::<Vec<_>>(),
            "transfers": incoming(false),
            "bundles": phase_bundles(program, map, bundles, true),
            "steps": load_steps,
            "duration_ps": program.load_latency().picoseconds(),
        },
        "run": {
            "transfers_in": incoming(true),
            "bundles": phase_bundles(program, map, bundles, false),
            "steps": run_steps,
            "duration_ps": program.latency().picoseconds(),
            "transfers_out": outgoing,
        },
    }))
}

fn buffer_json(map: &MemoryMap, id: BufferId, b: &ProgramBuffer) -> Value {
    let layout = b.laid.stick_layout();
    let origin = match &b.origin {
        ElementOrigin::Input(role) => json!({"kind": "input", "role": role.name()}),
        ElementOrigin::Constant(value) => json!({"kind": "constant", "value": number_json(*value)}),
        ElementOrigin::Result => json!({"kind": "result"}),
        ElementOrigin::Copy(of) => json!({"kind": "copy", "of": of.0}),
    };
    let mut place = match map.buffer_address(id) {
        BufferAddress::Argument(k, at) => {
            json!({"kind": "own", "argument": k, "address": at.map(|a| a.to_string())})
        }
        BufferAddress::Pool(at) => json!({"kind": "pool", "address": at.to_string()}),
        BufferAddress::Lx(at) => json!({"kind": "lx", "address": at.to_string()}),
    };
    if let BufferLocation::Over(under) = b.place {
        place["over"] = json!(under.0);
    }
    let mut described = json!({
        "id": id.0,
        "name": b.name,
        "dtype": b.laid.dtype().name(),
        "size": b.laid.size(),
        "device_size": layout.device_size(),
        "stride_map": layout.stride_map(),
        "device_dtype": layout.device_dtype().name(),
        "bytes": b.bytes(),
        "origin": origin,
        "place": place,
        "loaded": b.loaded,
    });
    // What the device's own form of a layout has no field for.
    if let (true, Ok(strides)) = (layout.has_gaps(), layout.device_strides()) {
        described["device_stride"] = json!(strides);
    }
    if layout.stick_dims() != 1 {
        described["stick_dims"] = json!(layout.stick_dims());
    }
    described
}

/// The memory of kernels beside the buffers, with what is written there before anything runs.
fn workspace_json(map: &MemoryMap) -> Value {
    let plan = map.kernel_plan();
    if plan.workspace_bytes() == 0 {
        return Value::Null;
    }
    let BufferAddress::Argument(argument, address) = map.workspace_address() else {
        return Value::Null;
    };
    let table = |(k, t): (usize, &superdsc::WorkspaceTable)| {
        let layout = t.laid.stick_layout();
        json!({
            "offset": plan.table_offset(k).to_string(),
            "bytes": t.table_bytes(),
            "dtype": t.laid.dtype().name(),
            "size": t.laid.size(),
            "device_size": layout.device_size(),
            "stride_map": layout.stride_map(),
            "device_dtype": layout.device_dtype().name(),
            "holds": t.made,
        })
    };
    json!({
        "argument": argument,
        "address": address.map(|a| a.to_string()),
        "bytes": plan.workspace_bytes(),
        "tables": plan.tables.iter().enumerate().map(table).collect::<Vec<_>>(),
    })
}

fn transfer_json(t: &dci::DciTransfer) -> Value {
    json!({"tensor": t.name, "buffer": t.buffer.0, "dci": t.file})
}

/// A view by sizes, strides and offset in row-major elements of its base.
fn view_json(v: &StridedLayout) -> Value {
    json!({"size": v.size(), "stride": v.stride(), "offset": v.offset()})
}

/// A number; what JSON has no number for is a text.
pub(super) fn number_json(value: HostScalar) -> Value {
    match value {
        HostScalar::Int(n) => json!(n),
        HostScalar::Float(x) if x.is_finite() => json!(x),
        HostScalar::Float(x) => json!(x.to_string()),
    }
}

/// What is launched when weights are loaded, or in a run.
fn phase_bundles(
    program: &CompiledProgram,
    map: &MemoryMap,
    emitted: &[SdscBundle],
    load: bool,
) -> Vec<Value> {
    let own = program.bundles.iter().zip(emitted).filter(|(b, _)| b.load == load);
    let json = |(bundle, emitted): (&ProgramBundle, &SdscBundle)| {
        let steps = &program.steps[bundle.steps.clone()];
        let used = steps
            .iter()
            .flat_map(|s| s.reads.iter().map(|r| r.buffer).chain(s.writes.iter().copied()));
        let argument = |buffer| match map.buffer_address(buffer) {
            BufferAddress::Argument(k, _) => Some(k),
            BufferAddress::Pool(_) | BufferAddress::Lx(_) => None,
        };
        let arguments: BTreeSet<usize> = used.filter_map(argument).collect();
        json!({
            "bundle": emitted.id.0,
            "kind": match bundle.kind {
                BundleKind::Device => "device",
                BundleKind::Host => "host",
            },
            "folder": (!emitted.mlir.is_empty()).then(|| emitted.folder_name()),
            "steps": bundle.steps.clone().collect::<Vec<_>>(),
            "arguments": arguments,
            "launch_ps": bundle.launch.map(SimulatedTime::picoseconds),
            "start_ps": bundle.start.picoseconds(),
            "end_ps": bundle.end.picoseconds(),
        })
    };
    own.map(json).collect()
}

struct StepWriter<'a> {
    program: &'a CompiledProgram,
    map: &'a MemoryMap,
    bundles: &'a [SdscBundle],
    kernels: &'a KtirKernels,
    order: AccessOrder,
}

impl StepWriter<'_> {
    fn phase_steps(&mut self, load: bool) -> Vec<Value> {
        let steps = self.program.steps.iter().enumerate().filter(|(_, s)| s.load == load);
        steps.map(|(i, s)| self.step_json(StepId(i), s)).collect()
    }

    fn step_json(&mut self, id: StepId, step: &ProgramStep) -> Value {
        let after = self.order.add_step(self.program, self.map, id, step);
        let reads = step.reads.iter().map(|BufferRead { buffer, laid }| {
            let mut json = view_json(laid.view());
            json["buffer"] = json!(buffer.0);
            json
        });
        let (kind, op) = match &step.action {
            StepAction::Op(_, op) => ("op", op.name()),
            StepAction::Host(_, op) => ("host", op.name()),
            StepAction::Move { .. } => ("move", "restickify"),
        };
        let attributes = step.node().map(|n| self.program.graph.node(n).attributes.clone());
        let bundle = &self.bundles[self.program.bundle_of(id).0];
        let own = bundle.kernels.iter().filter(|k| k.step == id);
        let paths: Vec<String> =
            own.map(|k| format!("{}/{}", superdsc::bundle_folder(bundle.id), k.file)).collect();
        let refused = bundle.refused.iter().find(|r| r.step == id);
        json!({
            "step": id.0,
            "name": step.name,
            "kind": kind,
            "op": op,
            "attributes": attributes.unwrap_or_default(),
            "why": match &step.action {
                StepAction::Move { why, .. } => Some(why),
                _ => None,
            },
            "kernels": paths,
            "no_kernel": refused.map(|r| &r.reason),
            "ktir": self.kernels.kernels.iter().find(|k| k.step == id).map(|k| &k.file),
            "reads": reads.collect::<Vec<_>>(),
            "writes": step.writes.iter().map(|b| b.0).collect::<Vec<_>>(),
            "division": {
                "splits": step.division.splits(),
                "rounds": step.rounds.map(|(l, n)| json!({"loop": l, "count": n})),
                "decided_by": step.decided.0,
                "reason": step.decided.1,
            },
            "first_core": step.first_core,
            "cores": step.work.cores.len(),
            "start_ps": step.start.picoseconds(),
            "duration_ps": step.duration.picoseconds(),
            "after": after.iter().map(|s| s.0).collect::<Vec<_>>(),
        })
    }
}
