//! Every bundle: its steps, its launch, and what it has in device memory.

use super::to_microseconds;
use crate::program::{BufferId, BufferLocation, BundleKind, CompiledProgram, ProgramBundle};
use std::collections::{BTreeMap, BTreeSet};
use zellige_report::{BundleWorker, ReportedBundle};

pub(super) fn report_bundles(program: &CompiledProgram) -> Vec<ReportedBundle> {
    let users = find_pool_users(program);
    program.bundles.iter().enumerate().map(|(i, b)| report_bundle(program, &users, i, b)).collect()
}

/// Of every buffer whose memory is in the pool, the bundles that use it, and whether the caller does.
struct PoolUsers {
    bundles: BTreeMap<BufferId, BTreeSet<usize>>,
    given: BTreeSet<BufferId>,
}

impl PoolUsers {
    fn is_shared(&self, buffer: BufferId) -> bool {
        self.given.contains(&buffer) || self.bundles.get(&buffer).is_some_and(|b| b.len() > 1)
    }
}

fn find_pool_users(program: &CompiledProgram) -> PoolUsers {
    let mut users = PoolUsers { bundles: BTreeMap::new(), given: BTreeSet::new() };
    for (number, bundle) in program.bundles.iter().enumerate() {
        for buffer in bundle.steps.clone().flat_map(|step| used_buffers(program, step)) {
            if is_in_pool(program, buffer) {
                users.bundles.entry(buffer).or_default().insert(number);
            }
        }
    }
    users.given.extend(program.outputs.iter().map(|o| memory_of(program, o.buffer)));
    users
}

fn report_bundle(
    program: &CompiledProgram,
    users: &PoolUsers,
    number: usize,
    bundle: &ProgramBundle,
) -> ReportedBundle {
    let mut arguments = BTreeSet::new();
    let mut shared = BTreeSet::new();
    // Of every result that only this bundle uses, the first and the last step that does.
    let mut own: BTreeMap<BufferId, (usize, usize)> = BTreeMap::new();
    for step in bundle.steps.clone() {
        for buffer in used_buffers(program, step) {
            if program.buffer(buffer).place == BufferLocation::Own {
                arguments.insert(buffer.0);
            } else if is_in_pool(program, buffer) && users.is_shared(buffer) {
                shared.insert(buffer);
            } else if is_in_pool(program, buffer) {
                own.entry(buffer).and_modify(|life| life.1 = step).or_insert((step, step));
            }
        }
    }
    let level = |step: usize| -> u64 {
        let alive = own.iter().filter(|(_, (first, last))| (*first..=*last).contains(&step));
        alive.map(|(b, _)| program.buffer(*b).bytes()).fold(0, u64::saturating_add)
    };
    // The level rises only where a result begins, so that these steps are all that count.
    let pool_bytes = own.values().map(|(first, _)| level(*first)).max().unwrap_or(0);
    let bytes = |b: &BufferId| program.buffer(*b).bytes();
    debug_assert!(own.keys().all(|b| users.bundles[b] == BTreeSet::from([number])));
    ReportedBundle {
        first_step: bundle.steps.start,
        steps: bundle.steps.len(),
        worker: match bundle.kind {
            BundleKind::Device => BundleWorker::Device,
            BundleKind::Host => BundleWorker::Host,
        },
        load: bundle.load,
        launched: bundle.launch.is_some(),
        launch_us: to_microseconds(bundle.launch_time()),
        start_us: to_microseconds(bundle.start),
        us: to_microseconds(bundle.end - bundle.start),
        arguments: arguments.into_iter().collect(),
        pool_bytes,
        shared_pool_bytes: shared.iter().map(bytes).fold(0, u64::saturating_add),
    }
}

/// The buffers whose memory a step reads or writes.
fn used_buffers(program: &CompiledProgram, step: usize) -> impl Iterator<Item = BufferId> {
    let step = &program.steps[step];
    let all = step.reads.iter().map(|r| r.buffer).chain(step.writes.iter().copied());
    all.map(|b| memory_of(program, b))
}

/// The buffer whose memory another is in.
fn memory_of(program: &CompiledProgram, mut buffer: BufferId) -> BufferId {
    // A buffer takes the place of an earlier one, so this ends; the count guards a broken plan.
    for _ in 0..program.buffers.len() {
        let BufferLocation::Over(other) = program.buffer(buffer).place else { break };
        buffer = other;
    }
    buffer
}

fn is_in_pool(program: &CompiledProgram, buffer: BufferId) -> bool {
    matches!(program.buffer(buffer).place, BufferLocation::Pool(_))
}
