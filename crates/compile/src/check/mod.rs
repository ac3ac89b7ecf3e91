//! The independent check of a program.
//!
//! It shares no code with the searches that made the program, only the meaning of pins and of the layouts of outputs:
//! it follows the graph, plans every step on the device, and looks at every pair of buffers.
//!
//! A program is accepted when
//! 1. every operation of the graph is one step, and reads its operands: their tensors, or copies whose
//!    elements came from them, through the operand's view; a copy may be a move;
//! 2. every operand has a layout that the kernel accepts, and every result has its sticks along the kernel's own stick
//!    dimension, in any order of the others; what only moves elements writes any layout;
//! 3. nothing is read before it is written, nor in the wave that writes it; what is written in place is
//!    read by nobody later;
//! 4. what is pinned has the layout of its pin, and the caller gets what the graph returns, in the requested layout;
//! 5. divisions fit their spaces and the cores, and works and latencies are those of the device;
//! 6. steps of a wave have different cores, bundles are what the host launches at once, and bundles, waves and
//!    launches follow each other;
//! 7. a buffer in the scratchpads is whole on every core for its writer and its readers alike, it and
//!    what steps stream fit beside each other, and what lives at the same time shares no byte;
//! 8. buffers of the pool that live at the same time share no byte, and are inside it.

mod memory;

use crate::choose::demanded_output_layout;
use crate::error::{CompileError, RefusalWitness, Result};
use crate::program::{
    BufferId, BufferLocation, BundleKind, CompiledProgram, ElementOrigin, ProgramStep, StepAction,
};
use std::ops::Range;
use zellige_device::PlanOp;
use zellige_device::{TensorLayout, WorkDivision};
use zellige_graph::{RequestedMemory, TensorId, TensorOrigin};
use zellige_layout::StridedLayout;
use zellige_machine::{LaunchUnit, SimulatedTime, WorkKind};

fn report_broken_rule<T>(tensor: &str, reason: impl Into<String>) -> Result<T> {
    Err(CompileError::Broken {
        witness: RefusalWitness::Tensor(tensor.into()),
        reason: reason.into(),
    })
}

/// Checks a program against its graph, its options and the device.
///
/// # Errors
/// The first rule that does not hold, with the step or buffer that breaks it.
pub fn check_program(program: &CompiledProgram) -> Result<()> {
    zellige_calls::record_call!();
    // What a program computes is checked before how it runs: a wrong operand would otherwise be reported as a wrong
    // latency.
    let writers = find_first_writers(program);
    check_operations(program, &writers)?;
    check_step_order(program)?;
    check_caller_buffers(program, &writers)?;
    for step in &program.steps {
        check_device_work(program, step)?;
    }
    check_bundles(program)?;
    check_waves(program)?;
    memory::check_scratchpads(program)?;
    memory::check_pool(program)
}

/// The elements of a buffer in terms of the graph: a tensor, seen through row-major strides.
fn held_elements(
    program: &CompiledProgram,
    writers: &FirstWriters,
    id: BufferId,
) -> Result<(TensorId, StridedLayout)> {
    let buffer = program.buffer(id);
    let size = &program.graph.get(buffer.tensor).size;
    match buffer.origin {
        ElementOrigin::Input(_) | ElementOrigin::Constant(_) | ElementOrigin::Result => {
            Ok((buffer.tensor, StridedLayout::new_contiguous(size)?))
        }
        ElementOrigin::Copy(_) => {
            let made = writers[id.0].map(|s| &program.steps[s]);
            let Some(ProgramStep { action: StepAction::Move { .. }, reads, .. }) = made else {
                return report_broken_rule(&buffer.name, "a copy is made by a move");
            };
            // Copies of copies are followed back to the tensor, so that a chain of moves is accepted exactly if the
            // elements are those of the graph.
            let (tensor, whole) = held_elements(program, writers, reads[0].buffer)?;
            // Row-major views of the base are in the base's own strides.
            let view = reads[0].laid.view();
            if whole != StridedLayout::new_contiguous(size)? && !reads[0].laid.is_base() {
                return report_broken_rule(&buffer.name, "a view of a copied view is not followed");
            }
            let seen = if reads[0].laid.is_base() { whole } else { view.clone() };
            Ok((tensor, seen))
        }
    }
}

/// A view of a buffer, in the strides of the tensor of which the buffer holds a view: both step along the same
/// dimensions.
fn view_through_buffer(held: &StridedLayout, view: &StridedLayout) -> Result<StridedLayout> {
    let own = StridedLayout::new_contiguous(held.size())?;
    if *held == own {
        return Ok(view.clone());
    }
    // Strides of the view are strides in the copy. Each is found among the row-major strides of what the copy holds,
    // and the stride of the tensor in its place is the one of the graph.
    let step = |(n, step): (i64, i64)| {
        let along = own
            .sizes_and_strides()
            .zip(held.stride())
            .find(|((m, s), _)| n > 1 && *m == n && *s == step);
        along.map_or(if n == 1 { 0 } else { -1 }, |(_, stride)| *stride)
    };
    let strides: Vec<i64> = view.sizes_and_strides().map(step).collect();
    if view.offset() != 0 || strides.contains(&-1) {
        return Err(CompileError::bad_problem("a view of a copied view is not followed".into()));
    }
    Ok(StridedLayout::new(view.size(), &strides, held.offset())?)
}

/// Of every buffer, the first step that writes it.
type FirstWriters = Vec<Option<usize>>;

fn find_first_writers(program: &CompiledProgram) -> FirstWriters {
    let mut writers = vec![None; program.buffers.len()];
    for (i, step) in program.steps.iter().enumerate() {
        step.writes.iter().for_each(|b| writers[b.0] = writers[b.0].or(Some(i)));
    }
    writers
}

fn check_operations(program: &CompiledProgram, writers: &FirstWriters) -> Result<()> {
    let graph = &program.graph;
    let mut steps_of: Vec<Vec<&ProgramStep>> = vec![Vec::new(); graph.nodes().count()];
    for step in &program.steps {
        if let Some(node) = step.node() {
            steps_of[node.0].push(step);
        }
    }
    for (id, node) in graph.nodes() {
        let name = &graph.get(node.outputs[0]).name;
        let step = match steps_of[id.0][..] {
            [step] => step,
            // A copy that is pinned is lowered to a move, which computes nothing and is as good a copy as the
            // operation.
            [] if matches!(node.op.name(), "clone" | "identity") => {
                match find_copying_move(program, writers, node.outputs[0]) {
                    Some(step) => step,
                    None => {
                        return report_broken_rule(
                            name,
                            "its copy is neither an operation nor a move",
                        );
                    }
                }
            }
            _ => return report_broken_rule(name, "its operation is not one step"),
        };
        if step.reads.len() != node.inputs.len() || step.writes.len() != node.outputs.len() {
            return report_broken_rule(name, "its step has other operands or results");
        }
        for (k, (read, operand)) in step.reads.iter().zip(&node.inputs).enumerate() {
            let (tensor, held) = held_elements(program, writers, read.buffer)?;
            let (base, view) = graph.base_and_view(*operand);
            let wanted = match view {
                Some(view) => view.clone(),
                None => StridedLayout::new_contiguous(&graph.get(base).size)?,
            };
            // The operand through its own view, or a copy that is the view already.
            let found = match read.laid.is_base() {
                true => held,
                false => view_through_buffer(&held, read.laid.view())?,
            };
            // Compared in canonical form, because dimensions of size 1 and contiguous dimensions can be written in
            // several ways that address the same elements.
            if tensor != base || found.canonical_form() != wanted.canonical_form() {
                return report_broken_rule(
                    name,
                    format!("operand {k} is not {}", graph.get(*operand).name),
                );
            }
        }
        for (write, result) in step.writes.iter().zip(&node.outputs) {
            if program.buffer(*write).tensor != *result {
                return report_broken_rule(name, "a result goes into the buffer of another tensor");
            }
        }
    }
    Ok(())
}

/// The move that writes the result of a copy.
fn find_copying_move<'p>(
    program: &'p CompiledProgram,
    writers: &FirstWriters,
    of: TensorId,
) -> Option<&'p ProgramStep> {
    let own =
        |b: &crate::program::ProgramBuffer| b.tensor == of && b.origin == ElementOrigin::Result;
    let buffer = program.buffers.iter().position(own)?;
    let step = &program.steps[writers[buffer]?];
    matches!(step.action, StepAction::Move { .. }).then_some(step)
}

fn check_step_order(program: &CompiledProgram) -> Result<()> {
    let mut written: Vec<Option<usize>> = program
        .buffers
        .iter()
        .map(|b| {
            matches!(b.origin, ElementOrigin::Input(_) | ElementOrigin::Constant(_)).then_some(0)
        })
        .collect();
    let mut gone: Vec<bool> = vec![false; program.buffers.len()];
    for step in &program.steps {
        // Waves are counted from 1 here, so that what is given comes before all of them.
        let wave = step.wave + 1;
        for read in &step.reads {
            let name = &program.buffer(read.buffer).name;
            match written[read.buffer.0] {
                Some(before) if before < wave => {}
                _ => {
                    return report_broken_rule(
                        name,
                        format!("`{}` reads it before it is there", step.name),
                    );
                }
            }
            if gone[read.buffer.0] {
                return report_broken_rule(
                    name,
                    format!("`{}` reads it after it was written over", step.name),
                );
            }
            if read.laid.stick_layout() != program.buffer(read.buffer).laid.stick_layout() {
                return report_broken_rule(
                    name,
                    format!("`{}` reads it in another layout", step.name),
                );
            }
        }
        for write in &step.writes {
            if written[write.0].replace(wave).is_some() {
                return report_broken_rule(&program.buffer(*write).name, "it is written twice");
            }
            if let BufferLocation::Over(of) = program.buffer(*write).place {
                if !step.reads.iter().any(|r| r.buffer == of) {
                    return report_broken_rule(
                        &program.buffer(*write).name,
                        "it replaces no operand of its step",
                    );
                }
                // From here on the operand's memory holds the result: a later read of the operand would read that.
                gone[of.0] = true;
            }
        }
    }
    for output in &program.outputs {
        if written[output.buffer.0].is_none() || gone[output.buffer.0] {
            return report_broken_rule(
                &program.buffer(output.buffer).name,
                "the caller gets it before it is there",
            );
        }
    }
    Ok(())
}

fn check_caller_buffers(program: &CompiledProgram, writers: &FirstWriters) -> Result<()> {
    for (read, output) in program.outputs.iter().zip(program.graph.outputs()) {
        let name = &program.graph.get(*output).name;
        let key = demanded_output_layout(&program.graph, &program.options, *output)?;
        let (base, _) = program.graph.base_and_view(*output);
        let (tensor, _) = held_elements(program, writers, read.buffer)?;
        if tensor != base || read.laid.size() != program.graph.get(*output).size {
            return report_broken_rule(name, "the caller gets another tensor");
        }
        // The coordinates are compared element by element, and not the descriptions, because the caller reads
        // coordinates.
        let elsewhere = |asked: &zellige_stick::StickLayout| -> Result<bool> {
            let same = read.laid.is_base() && asked == read.laid.stick_layout();
            Ok(!same
                && asked
                    .lower_to_layout()?
                    .find_difference(&read.laid.element_layout()?)?
                    .is_some())
        };
        if let Some(key) = key
            && elsewhere(&key.layout)?
        {
            return report_broken_rule(name, "the caller gets it in another layout");
        }
    }
    for buffer in &program.buffers {
        let t = program.graph.get(buffer.tensor);
        let own = buffer.name == t.name && !matches!(t.def, TensorOrigin::View { .. });
        if let (true, Some(pin)) = (own, &t.pin) {
            let asked = crate::propagate::resolve_pin(pin, &t.size, buffer.laid.stick_layout())?;
            if asked != *buffer.laid.stick_layout() {
                return report_broken_rule(&buffer.name, "its layout is not its pin");
            }
        }
        let in_lx = matches!(buffer.place, BufferLocation::Lx(_));
        match t.place {
            Some(RequestedMemory::Lx) if own && !in_lx => {
                return report_broken_rule(&buffer.name, "it is placed in lx, and is in memory");
            }
            Some(RequestedMemory::Memory) if own && in_lx => {
                return report_broken_rule(&buffer.name, "it is placed in memory, and is in lx");
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_device_work(program: &CompiledProgram, step: &ProgramStep) -> Result<()> {
    let options = &program.options;
    let ins: Vec<TensorLayout> = step.reads.iter().map(|r| r.laid.clone()).collect();
    let outs: Vec<TensorLayout> =
        step.writes.iter().map(|b| program.buffer(*b).laid.clone()).collect();
    let full = match &step.action {
        StepAction::Move { .. } => {
            let moved = ins[0].plan_padded_copy_to(&outs[0])?;
            moved.device_work(step.name.as_str(), WorkKind::Restickify, options.cores)
        }
        StepAction::Host(_, op) => op.plan_round_trip(&ins, &outs)?,
        StepAction::Op(_, op) => {
            let (_, lay) = op.plan_layouts(&ins)?;
            if let Some(k) = (0..ins.len()).find(|k| !lay.inputs[*k].accepts_layout(&ins[*k])) {
                return report_broken_rule(
                    &step.name,
                    format!("operand {k}: {}", lay.inputs[k].misfit_reason(&ins[k])),
                );
            }
            // A factory has no operands whose order its result could keep: it fills any layout.
            for (given, out) in lay.outputs.iter().zip(&outs).filter(|_| !ins.is_empty()) {
                if given == out.stick_layout() || step.space.is_none() {
                    continue;
                }
                let own = TensorLayout::new(options.storage, out.dtype(), given)?.stick_form()?;
                let same = out.stick_form().is_ok_and(|form| form.stick == own.stick);
                if !same || given.device_dtype() != out.stick_layout().device_dtype() {
                    return report_broken_rule(
                        &step.name,
                        "a result has another layout than the kernel writes",
                    );
                }
            }
            if let Some(space) = &step.space {
                WorkDivision::new(step.division.splits(), space, options.cores)?;
            }
            let division = step.space.is_some().then_some(&step.division);
            op.plan_work(&ins, &outs, division, options.cores)?.1
        }
    };
    let same = full.kind == step.full.kind && full.cores == step.full.cores;
    if !same {
        return report_broken_rule(&step.name, "its work is not what the device would do");
    }
    if step.work.cores.len() != full.cores.len() {
        return report_broken_rule(&step.name, "its work is on other cores");
    }
    // Keeping a tensor in the scratchpads saves traffic. It cannot save arithmetic, and it cannot add traffic.
    for (core, (kept, all)) in step.work.cores.iter().zip(&full.cores).enumerate() {
        if kept.reads.total_bytes() > all.reads.total_bytes()
            || kept.macs != all.macs
            || kept.sfu != all.sfu
        {
            return report_broken_rule(
                &step.name,
                format!("core {core} has more to do than the device says"),
            );
        }
    }
    // What is missing from the traffic is what the scratchpads keep, byte by byte.
    let read: u64 = full
        .cores
        .iter()
        .zip(&step.work.cores)
        .map(|(a, k)| a.reads.total_bytes() - k.reads.total_bytes())
        .sum();
    let resident = |id: BufferId| matches!(program.buffer(id).place, BufferLocation::Lx(_));
    let kept: u64 = step
        .reads
        .iter()
        .filter(|r| resident(r.buffer))
        .map(|r| r.laid.stick_layout().device_bytes().map_or(0, i64::unsigned_abs))
        .sum();
    if read > kept {
        return report_broken_rule(
            &step.name,
            format!("{read} bytes are not read, and {kept} are resident"),
        );
    }
    Ok(())
}

/// Bundles are all steps in their order, and each ends where the next step cannot be launched with it.
fn check_bundles(program: &CompiledProgram) -> Result<()> {
    let hardware = &program.options.hardware;
    let on_host = |s: &ProgramStep| matches!(s.action, StepAction::Host(..));
    let by_bundle = hardware.launch_unit() == LaunchUnit::Bundle;
    // Two neighbouring steps are launched at once or they are not; that says where every bundle begins, without a look
    // at the bundles.
    let is_launched_with = |a: &ProgramStep, b: &ProgramStep| match by_bundle {
        true => a.load == b.load && !on_host(a) && !on_host(b),
        false => a.wave == b.wave,
    };
    let begins: Vec<usize> = (0..program.steps.len())
        .filter(|i| *i == 0 || !is_launched_with(&program.steps[i - 1], &program.steps[*i]))
        .collect();
    let ends = begins.iter().skip(1).copied().chain([program.steps.len()]);
    let wanted: Vec<Range<usize>> =
        begins.iter().copied().zip(ends).map(|(begin, end)| begin..end).collect();
    for (bundle, wanted) in program.bundles.iter().zip(&wanted) {
        let first = &program.steps[wanted.start];
        if bundle.steps != *wanted {
            let reason =
                format!("its bundle has the steps {:?} instead of {wanted:?}", bundle.steps);
            return report_broken_rule(&first.name, reason);
        }
        let host = on_host(first);
        if bundle.load != first.load || (bundle.kind == BundleKind::Host) != host {
            return report_broken_rule(&first.name, "its bundle is of another kind");
        }
        let launch = (!host || !by_bundle).then(|| hardware.launch_time());
        if bundle.launch != launch {
            return report_broken_rule(&first.name, "its bundle has another launch");
        }
        let of_bundle = &program.steps[wanted.clone()];
        let begin = of_bundle.iter().map(|s| s.start).min();
        let end = of_bundle.iter().map(|s| s.start + s.duration).max();
        if begin != Some(bundle.start + bundle.launch_time()) || end != Some(bundle.end) {
            return report_broken_rule(&first.name, "its bundle has other times than its steps");
        }
        let sole = |s: &&ProgramStep| of_bundle.iter().filter(|o| o.wave == s.wave).count() == 1;
        if by_bundle && !of_bundle.iter().all(|s| sole(&s)) {
            return report_broken_rule(&first.name, "steps of its bundle run at the same time");
        }
    }
    match program.bundles.len() == wanted.len() {
        true => Ok(()),
        false => report_broken_rule(
            program.graph.name(),
            format!("it has {} bundles instead of {}", program.bundles.len(), wanted.len()),
        ),
    }
}

fn check_waves(program: &CompiledProgram) -> Result<()> {
    let hardware = &program.options.hardware;
    let begins_bundle = |at: usize| program.bundles.iter().find(|b| b.steps.start == at);
    let mut clocks = [SimulatedTime::ZERO; 2];
    let mut at = 0;
    while at < program.steps.len() {
        let members: Vec<&ProgramStep> =
            program.steps[at..].iter().take_while(|s| s.wave == program.steps[at].wave).collect();
        let clock = &mut clocks[usize::from(members[0].load)];
        // The host launches a bundle when the one before it has ended, and loading has a clock of its own.
        if let Some(bundle) = begins_bundle(at) {
            if bundle.start != *clock {
                return report_broken_rule(&members[0].name, "its bundle is launched too early");
            }
            *clock += bundle.launch_time();
        }
        at += members.len();
        let all: usize = members.iter().map(|s| s.work.cores.len()).sum();
        let mut cores: Vec<Range<usize>> = Vec::new();
        let mut end = *clock;
        for step in &members {
            let mine = step.first_core..step.first_core + step.work.cores.len();
            let overlap = cores.iter().any(|c| c.start < mine.end && mine.start < c.end);
            if overlap || mine.end > hardware.core_count() {
                return report_broken_rule(&step.name, "another step of its wave has its cores");
            }
            if step.start != *clock {
                return report_broken_rule(&step.name, "it does not start with its wave");
            }
            let latency = hardware.latency_beside(&step.work, all - step.work.cores.len());
            if latency.time != step.duration {
                return report_broken_rule(&step.name, "its latency is not that of the hardware");
            }
            end = end.max(step.start + step.duration);
            cores.push(mine);
        }
        *clock = end;
    }
    Ok(())
}
