//! Operands and results of a step that is several kernels, as those find them.

use super::copy::{KernelWorkspace, MemoryTensor};
use super::kernel::SdscKernel;
use super::plan::{PlannedKernels, build_work_tensor, copy_function, find_step_loops};
use super::work::{KernelWork, SdscLoops, WorkCores, WorkMemory, WorkTensor};
use crate::emit::memory::find_memory_holder;
use crate::program::{BufferId, BufferLocation, CompiledProgram, ProgramStep};
use zellige_device::{TensorLayout, WorkDivision, core_order};
use zellige_graph::{Graph, GraphBuilder, GraphOperand, InputRole, TensorId, TensorOrigin};
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;
use zellige_stick::{LayoutRequest, StickLayout};

/// The operands and results of a step in device memory, with the copies before and behind its kernels.
pub(super) struct StagedOperands {
    pub(super) reads: Vec<MemoryTensor>,
    pub(super) writes: Vec<MemoryTensor>,
    pub(super) before: Vec<SdscKernel>,
    pub(super) after: Vec<SdscKernel>,
}

/// Operands and results in device memory: those in scratchpads are copied by the cores that have them.
pub(super) fn stage_operands(
    program: &CompiledProgram,
    step: &ProgramStep,
    op: &TensorOp,
    bench: &mut KernelWorkspace,
) -> Result<StagedOperands, String> {
    let mut staged = StagedOperands {
        reads: Vec::new(),
        writes: Vec::new(),
        before: Vec::new(),
        after: Vec::new(),
    };
    let count = step.reads.len();
    let resident = |b: BufferId| matches!(program.buffer(b).place, BufferLocation::Lx(_));
    for (k, read) in step.reads.iter().enumerate() {
        if !resident(read.buffer) {
            let memory = WorkMemory::Buffer(read.buffer);
            staged.reads.push(MemoryTensor { memory, laid: read.laid.clone() });
            continue;
        }
        let copy = bench.allocate_tensor(&read.laid.base_layout());
        let copy = MemoryTensor { memory: copy.memory, laid: read.laid.clone() };
        let from = build_work_tensor(program, read.buffer, &read.laid)?;
        let to = WorkTensor::new(copy.memory, &copy.laid)?;
        staged.before.extend(copy_scratchpad_slices(program, step, op, k, [from, to])?);
        staged.reads.push(copy);
    }
    for (k, write) in step.writes.iter().enumerate() {
        let laid = &program.buffer(*write).laid;
        if !resident(*write) {
            staged
                .writes
                .push(MemoryTensor { memory: WorkMemory::Buffer(*write), laid: laid.clone() });
            continue;
        }
        let copy = bench.allocate_tensor(laid);
        let from = WorkTensor::new(copy.memory, laid)?;
        let to = build_work_tensor(program, *write, laid)?;
        staged.after.extend(copy_scratchpad_slices(program, step, op, count + k, [from, to])?);
        staged.writes.push(copy);
    }
    // Buffers that replace others have their memory.
    for placed in staged.reads.iter_mut().chain(&mut staged.writes) {
        if let WorkMemory::Buffer(id) = placed.memory {
            placed.memory = WorkMemory::Buffer(find_memory_holder(program, id));
        }
    }
    Ok(staged)
}

/// The copy of a tensor of a step between the scratchpads and device memory, by the cores that have its slices.
fn copy_scratchpad_slices(
    program: &CompiledProgram,
    step: &ProgramStep,
    op: &TensorOp,
    t: usize,
    tensors: [WorkTensor; 2],
) -> PlannedKernels {
    let found = find_step_loops(program, step, op)?;
    let splits = step.division.splits();
    let follows = found.followed_loops(t);
    let own: Vec<usize> =
        follows.iter().map(|l| l.map_or(1, |l| splits.get(l).copied().unwrap_or(1))).collect();
    let loops = SdscLoops::for_copy(&[&tensors[0].form, &tensors[1].form], Some(&own), 0, false);
    let count: usize = own.iter().product();
    let order = core_order(found.loop_spans().iter().map(|s| s.reduced));
    let whose = WorkDivision::new(&own, &loops.spans, count).map_err(|e| e.to_string())?;
    let cores = (0..count).map(|slice| {
        let digits = whose.core_digits(slice);
        // The core of a slice as the device numbers them: the fastest loop last in this sum. Of the cores that have the
        // same slice, the first.
        let core = order.iter().rev().fold(0, |core, l| {
            let digit = follows.iter().position(|f| *f == Some(*l)).map_or(0, |d| digits[d]);
            core * splits[*l] + digit
        });
        step.first_core + core
    });
    let cores = WorkCores::These(cores.collect());
    let work =
        KernelWork { func: copy_function(), tensors: tensors.into(), loops, cores, indexed: None };
    SdscKernel::from_work(&work)
}

/// A tensor of the same elements in row-major order and a layout with the same sticks.
pub(super) fn dense_layout(like: &TensorLayout) -> Result<TensorLayout, String> {
    let rank = like.size().len();
    let stick = like.stick_form().ok().and_then(|s| s.stick);
    let order: Vec<i64> = (0..rank)
        .filter(|d| Some(*d) != stick)
        .chain(stick)
        .map(|d| i64::try_from(d).unwrap_or(0))
        .chain(stick.is_none().then_some(-1))
        .collect();
    let format = like.stick_layout().device_dtype();
    let layout = StickLayout::with_dim_order_in_format(like.size(), None, format, &order);
    let layout = layout.map_err(|e| e.to_string())?;
    TensorLayout::new(like.storage_policy(), like.dtype(), &layout).map_err(|e| e.to_string())
}

/// An input of a graph of parts with the views that the program's graph has of it; none where they do not give the
/// same elements.
pub(super) fn add_part_input(
    builder: &mut GraphBuilder,
    name: &str,
    graph: &Graph,
    id: TensorId,
    laid: &TensorLayout,
) -> Option<TensorId> {
    let host = laid.stick_layout().host()?;
    if *host != StridedLayout::new_contiguous(host.size()).ok()? {
        return None;
    }
    let mut chain = Vec::new();
    let mut at = id;
    if !laid.is_base() {
        while let TensorOrigin::View { made: (op, of, attributes), .. } = &graph.get(at).def {
            chain.push((op, attributes));
            at = *of;
        }
        if graph.get(at).size != host.size() {
            return None;
        }
    }
    // Tried before the builder has anything of it.
    let mut trial = GraphBuilder::new("trial");
    let build = |builder: &mut GraphBuilder| -> Option<(TensorId, StridedLayout)> {
        let base = builder.add_input(name, host.size(), laid.dtype(), InputRole::Input).ok()?;
        builder.pin_layout(base, LayoutRequest::Exactly(laid.stick_layout().clone())).ok()?;
        let mut seen = base;
        for (k, (op, attributes)) in chain.iter().rev().enumerate() {
            let name = format!("{name}.view{k}");
            seen = *builder
                .add_op(op, &[GraphOperand::Tensor(seen)], attributes, &[&name])
                .ok()?
                .first()?;
        }
        let map = match &builder.tensor(seen).def {
            TensorOrigin::View { base: of, map, .. } if *of == base => map.clone(),
            _ if seen == base => host.clone(),
            _ => return None,
        };
        Some((seen, map))
    };
    let (_, map) = build(&mut trial)?;
    if map != *laid.view() {
        return None;
    }
    build(builder).map(|(seen, _)| seen)
}
