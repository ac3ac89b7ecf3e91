//! The check of memory: buffers in the scratchpads and in the pool, every pair of them.

use super::report_broken_rule;
use crate::error::Result;
use crate::program::{BufferId, BufferLocation, CompiledProgram, ElementOrigin, StepAction};
use std::ops::Range;
use zellige_device::PlanOp;
use zellige_device::TensorLayout;
use zellige_machine::Key;

/// From the wave that writes a buffer to the last that reads it; the caller reads at the end.
fn buffer_lifetimes(program: &CompiledProgram) -> Vec<Option<Range<usize>>> {
    let mut lives: Vec<Option<Range<usize>>> = vec![None; program.buffers.len()];
    let mut use_at = |id: BufferId, wave: usize| {
        let mut id = id;
        loop {
            let life = lives[id.0].get_or_insert(wave..wave + 1);
            *life = life.start.min(wave)..life.end.max(wave + 1);
            match program.buffer(id).place {
                // The memory belongs to the buffer at the end of this chain, which therefore has to live as long as
                // all that are written over it.
                BufferLocation::Over(of) => id = of,
                _ => break,
            }
        }
    };
    for step in program.steps.iter().filter(|s| !s.load) {
        step.writes.iter().for_each(|w| use_at(*w, step.wave));
        step.reads.iter().for_each(|r| use_at(r.buffer, step.wave));
    }
    let end = program.steps.iter().map(|s| s.wave + 1).max().unwrap_or(0);
    program.outputs.iter().for_each(|o| use_at(o.buffer, end));
    lives
}

/// Rule 7.
pub(super) fn check_scratchpads(program: &CompiledProgram) -> Result<()> {
    let lives = buffer_lifetimes(program);
    let limit = program.options.lx_limit();
    let mut used: Vec<(usize, Range<u64>, Range<usize>)> = Vec::new();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); program.buffers.len()];
    for (s, step) in program.steps.iter().enumerate() {
        let all = step.reads.iter().map(|r| r.buffer).chain(step.writes.iter().copied());
        all.for_each(|b| users[b.0].push(s));
    }
    for list in &mut users {
        list.dedup();
    }
    for (i, buffer) in program.buffers.iter().enumerate() {
        let BufferLocation::Lx(address) = buffer.place else { continue };
        if matches!(buffer.origin, ElementOrigin::Input(_)) {
            return report_broken_rule(&buffer.name, "an input is in memory");
        }
        if program.outputs.iter().any(|o| o.buffer.0 == i) {
            return report_broken_rule(&buffer.name, "an output is in memory");
        }
        let mut parts: Option<Vec<Vec<Range<usize>>>> = None;
        for step in users[i].iter().map(|s| &program.steps[*s]) {
            let reads = step.reads.iter().enumerate().filter(|(_, r)| r.buffer.0 == i);
            let writes = step.writes.iter().enumerate().filter(|(_, w)| w.0 == i);
            let tensors: Vec<usize> =
                reads.map(|(k, _)| k).chain(writes.map(|(k, _)| step.reads.len() + k)).collect();
            if tensors.is_empty() {
                continue;
            }
            let ins: Vec<TensorLayout> = step.reads.iter().map(|r| r.laid.clone()).collect();
            let outs: Vec<TensorLayout> =
                step.writes.iter().map(|b| program.buffer(*b).laid.clone()).collect();
            // A copy has the parts of both sides in its own plan, which rule 8 compares with those of its producer and its
            // readers.
            if matches!(step.action, StepAction::Exchange(_)) {
                if step.first_core != 0 {
                    return report_broken_rule(&buffer.name, "its copy does not begin at core 0");
                }
                continue;
            }
            let loops = match &step.action {
                StepAction::Op(_, op) => op.tensor_loops(&ins, &outs)?,
                _ => None,
            };
            // Without loops nothing says which part of the buffer a core has, so that no scratchpad could be the
            // right one.
            let Some(loops) = loops else {
                return report_broken_rule(
                    &buffer.name,
                    format!("`{}` does not say what its cores have", step.name),
                );
            };
            // Parts are stored on the cores that made them. A step that begins at another core would find the parts
            // of other slices in its scratchpads.
            if step.first_core != 0 {
                return report_broken_rule(
                    &buffer.name,
                    format!("`{}` does not begin at core 0", step.name),
                );
            }
            for tensor in tensors {
                let cores = 0..step.division.core_count();
                let mine: Vec<_> =
                    cores.map(|c| loops.core_region(tensor, c, &step.division)).collect();
                match &parts {
                    Some(other) if *other != mine => {
                        return report_broken_rule(
                            &buffer.name,
                            format!("`{}` divides it otherwise", step.name),
                        );
                    }
                    _ => parts = Some(mine),
                }
            }
        }
        let (parts, life) = match (parts, &lives[i]) {
            (Some(parts), Some(life)) => (parts, life.clone()),
            _ => return report_broken_rule(&buffer.name, "nobody uses it"),
        };
        let form = buffer.laid.stick_form()?;
        let bytes = |region: &Vec<Range<usize>>| -> u64 {
            let sticks = region.iter().enumerate().map(|(d, r)| {
                if form.stick == Some(d) { r.len().div_ceil(form.eps) } else { r.len() }
            });
            sticks.product::<usize>() as u64 * 128
        };
        // One address serves all cores, so that the largest part decides how much room every scratchpad gives.
        let size = parts.iter().map(bytes).max().unwrap_or(0);
        used.push((i, address..address + size, life));
    }
    // In the order of time, each beside those that still live.
    used.sort_by_key(|(_, _, life)| life.start);
    let mut live: Vec<usize> = Vec::new();
    for (k, (i, bytes, life)) in used.iter().enumerate() {
        if bytes.end > limit {
            return report_broken_rule(
                &program.buffers[*i].name,
                "it is past the end of the scratchpad",
            );
        }
        live.retain(|l| used[*l].2.end > life.start);
        let clash = live.iter().map(|l| &used[*l]).find(|(_, b, l)| {
            b.start < bytes.end && bytes.start < b.end && l.start < life.end && life.start < l.end
        });
        live.push(k);
        if let Some((j, ..)) = clash {
            let other = &program.buffers[*j].name;
            return report_broken_rule(
                &program.buffers[*i].name,
                format!("`{other}` has its bytes of the scratchpad"),
            );
        }
    }
    let waves = program.steps.iter().map(|s| s.wave + 1).max().unwrap_or(0);
    let mut resident = vec![0u64; waves + 1];
    for (_, bytes, life) in &used {
        for wave in life.clone().take_while(|w| *w < waves) {
            resident[wave] += bytes.end - bytes.start;
        }
    }
    for step in program.steps.iter().filter(|s| !s.load) {
        let peak = step.work.cores.iter().map(|c| c.lx_peak).max().unwrap_or(0);
        let alive = resident[step.wave];
        // Results are on the cores from 0 on; a step that begins at another core shares no scratchpad with them, and
        // one beside no results may use the whole.
        if alive > 0 && step.first_core == 0 && alive + peak > limit {
            return report_broken_rule(
                &step.name,
                format!("{alive} resident and {peak} streamed bytes do not fit"),
            );
        }
    }
    Ok(())
}

/// Rule 9.
pub(super) fn check_pool(program: &CompiledProgram) -> Result<()> {
    let lives = buffer_lifetimes(program);
    let limit = program.options.hardware.figure_count(Key::Segment);
    let mut used: Vec<(usize, Range<u64>, &Range<usize>)> = Vec::new();
    for (i, buffer) in program.buffers.iter().enumerate() {
        let (BufferLocation::Pool(address), Some(life)) = (buffer.place, &lives[i]) else {
            continue;
        };
        let bytes = address..address + buffer.bytes();
        if bytes.end > limit || address % 128 != 0 {
            return report_broken_rule(
                &buffer.name,
                "it is past the end of the pool, or begins inside a stick",
            );
        }
        // A buffer without bytes overlaps no other one.
        if !bytes.is_empty() {
            used.push((i, bytes, life));
        }
    }
    // Sorted by address, so that a buffer is compared with those alone that begin inside it.
    used.sort_by_key(|(_, bytes, _)| bytes.start);
    for (k, (i, bytes, life)) in used.iter().enumerate() {
        let after = used[k + 1..].iter().take_while(|(_, b, _)| b.start < bytes.end);
        for (j, _, l) in after {
            if l.start < life.end && life.start < l.end {
                let other = &program.buffers[*j].name;
                return report_broken_rule(
                    &program.buffers[*i].name,
                    format!("`{other}` has its bytes of the pool"),
                );
            }
        }
    }
    Ok(())
}
