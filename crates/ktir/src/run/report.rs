//! The outcome of a run: arrays, cycles, a trace.

use super::core::KtirCore;
use super::cost::{KtirOpCost, KtirRingSend};
use super::{BTreeMap, KtirArray};
use crate::ir::KtirFunction;
use serde_json::json;
use std::collections::HashMap;
use std::fmt;
use zellige_machine::account::{
    Bottleneck, CoreCycles, CoreWork, OperationWork, RingMove, WorkKind,
};
use zellige_machine::timeline::{TimelineEvent, TimelineTrack};
use zellige_machine::{CycleModel, Hardware, OperationCost, SimulatedTime, Timeline};

/// The outcome of a successful run.
#[derive(Debug, Clone, PartialEq)]
pub struct KtirRunOutcome {
    /// Every array that was passed, with its contents after the run.
    pub arrays: BTreeMap<String, KtirArray>,
    /// The cost of every core.
    pub cost: OperationCost,
    /// The hardware whose figures give the cycles.
    pub hardware: String,
    /// The timeline, if a trace was requested.
    pub timeline: Option<Timeline>,
}

impl KtirRunOutcome {
    /// The cycles of the slowest core.
    pub fn cycles(&self) -> u64 {
        self.cost.latency.cycles
    }

    /// Cycles of a core by compute, memory and communication.
    pub fn split_cycles(cycles: &CoreCycles) -> [u64; 3] {
        // Upstream's report knows three parts; the matrix and the vector unit are both compute
        // there.
        [cycles.pt.saturating_add(cycles.sfu), cycles.memory, cycles.ring]
    }

    /// Floating-point operations per byte of memory traffic.
    pub fn arithmetic_intensity(&self) -> f64 {
        let t = &self.cost.totals;
        let bytes = t.bytes_in.saturating_add(t.bytes_out);
        // A kernel without memory traffic has no intensity; 0 keeps infinity out of the JSON, which
        // cannot hold it.
        if bytes == 0 { 0.0 } else { t.flops as f64 / bytes as f64 }
    }

    /// Floating-point operations per nanosecond.
    pub fn flops_per_nanosecond(&self) -> f64 {
        let picoseconds = self.cost.latency.time.picoseconds();
        if picoseconds == 0 {
            0.0
        } else {
            1000.0 * self.cost.totals.flops as f64 / picoseconds as f64
        }
    }

    /// Everything except the contents of the arrays, as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let cores: Vec<serde_json::Value> = self
            .cost
            .latency
            .cores
            .iter()
            .map(|c| {
                let [compute, memory, comm] = KtirRunOutcome::split_cycles(c);
                json!({"compute": compute, "memory": memory, "comm": comm, "total": c.total})
            })
            .collect();
        let t = &self.cost.totals;
        json!({
            "kernel": self.cost.name,
            "hardware": self.hardware,
            "cycles": self.cycles(),
            "nanoseconds": self.cost.latency.time.picoseconds() as f64 / 1000.0,
            "critical_core": self.cost.latency.critical_core,
            "bottleneck": bottleneck_name(self.cost.latency.bottleneck),
            "flops": t.flops,
            "bytes_in": t.bytes_in,
            "bytes_out": t.bytes_out,
            "ring_bytes": t.ring_bytes,
            "lx_peak": t.lx_peak,
            "flops_per_byte": self.arithmetic_intensity(),
            "flops_per_ns": self.flops_per_nanosecond(),
            "cores": cores,
        })
    }
}

fn bottleneck_name(b: Bottleneck) -> &'static str {
    match b {
        Bottleneck::Nothing => "nothing",
        Bottleneck::Pt | Bottleneck::Sfu => "compute",
        Bottleneck::Ring => "comm",
        Bottleneck::Host => "host",
        Bottleneck::Memory | Bottleneck::Lx => "memory",
    }
}

impl fmt::Display for KtirRunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency = &self.cost.latency;
        writeln!(
            f,
            "@{} on {}: {} cycles, {}",
            self.cost.name, self.hardware, latency.cycles, latency.time
        )?;
        if let Some(core) = latency.critical_core {
            let [compute, memory, comm] = KtirRunOutcome::split_cycles(&latency.cores[core]);
            writeln!(
                f,
                "critical core {core} of {}: {compute} compute + {memory} memory + {comm} comm cycles, {}",
                latency.cores.len(),
                latency.bottleneck
            )?;
        }
        let t = &self.cost.totals;
        writeln!(
            f,
            "{} FLOP, {} bytes in, {} bytes out, {} bytes on the ring, LX peak {} bytes",
            t.flops, t.bytes_in, t.bytes_out, t.ring_bytes, t.lx_peak
        )?;
        write!(
            f,
            "roofline: {:.3} FLOP per byte, {:.1} GFLOP/s reached",
            self.arithmetic_intensity(),
            self.flops_per_nanosecond()
        )
    }
}

/// Adds ring moves as the cycle model charges them: around the whole grid, or around the group.
fn price_ring_moves(
    mut work: CoreWork,
    sent: &[KtirRingSend],
    model: CycleModel,
    cores: usize,
) -> CoreWork {
    for s in sent {
        let hops = match model {
            // Upstream charges (cores - 1) x tile bytes / 64, whatever the group is; the card
            // charges by group.
            CycleModel::Ktir => (cores as u64).saturating_sub(1),
            CycleModel::Card => s.group.saturating_sub(1),
        };
        if hops > 0 && s.bytes > 0 {
            work.ring.push(RingMove { bytes: s.bytes, hops });
        }
    }
    work
}

pub(super) fn build_outcome(
    f: &KtirFunction,
    hardware: &Hardware,
    cores: Vec<KtirCore<'_>>,
    arrays: BTreeMap<String, KtirArray>,
    traced: usize,
) -> KtirRunOutcome {
    let (model, count) = (hardware.cycle_model(), cores.len());
    let mut all = Vec::with_capacity(count);
    let mut events: Vec<Vec<KtirOpCost>> = Vec::new();
    for core in cores {
        all.push(price_ring_moves(core.ledger.work, &core.ledger.sent, model, count));
        events.push(core.ledger.events);
    }
    // The kind decides which of the card's units the arithmetic of a kernel is priced on.
    let products = all.iter().any(|w| w.macs > 0);
    let kind = if products { WorkKind::Matmul } else { WorkKind::Pointwise };
    let work = OperationWork::new(f.name(), kind, all);
    let timeline = (traced > 0).then(|| build_timeline(hardware, &work, events, traced));
    let cost = hardware.operation_cost(&work);
    KtirRunOutcome { arrays, cost, hardware: hardware.name().into(), timeline }
}

/// Lists the operations of each core one after the other. Each is priced as if as many cores shared
/// the memory as in the whole kernel.
fn build_timeline(
    hardware: &Hardware,
    work: &OperationWork,
    events: Vec<Vec<KtirOpCost>>,
    limit: usize,
) -> Timeline {
    let mut timeline = Timeline::new(0, limit);
    // Memory bandwidth is shared by the cores that work, so an operation by itself would look
    // faster than it is in the kernel.
    let busy = work.cores.iter().filter(|c| !c.is_idle()).count().max(1);
    let mut known: HashMap<String, u64> = HashMap::new();
    for (core, list) in events.into_iter().enumerate() {
        let mut now = 0_u64;
        for spent in list {
            let each = price_ring_moves(
                spent.work,
                &spent.groups,
                hardware.cycle_model(),
                work.cores.len(),
            );
            // Few operations differ in their work, so most prices are found in the table.
            let cycles = *known.entry(format!("{each:?}")).or_insert_with(|| {
                hardware
                    .operation_latency(&OperationWork::uniform_cores(
                        spent.name,
                        work.kind,
                        busy,
                        each.clone(),
                    ))
                    .cycles
            });
            let start = hardware.cycles_to_time(now);
            now = now.saturating_add(cycles);
            let end = hardware.cycles_to_time(now);
            let duration = SimulatedTime::from_picoseconds(end.picoseconds() - start.picoseconds());
            let args = vec![("cycles".to_string(), json!(cycles))];
            let (track, name) = (TimelineTrack::Core(core), spent.name.into());
            timeline.push(TimelineEvent { track, name, start, duration, args });
        }
    }
    timeline
}
