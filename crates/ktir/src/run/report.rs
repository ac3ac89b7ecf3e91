//! The outcome of a run: arrays, cycles, a trace.

use super::cost::{KtirCoreLedger, KtirOpCost, KtirRingSend};
use super::{BTreeMap, KtirArray};
use crate::ir::KtirFunction;
use serde_json::json;
use std::collections::HashMap;
use std::fmt;
use zellige_machine::account::{
    Bottleneck, CoreCycles, CoreWork, OperationWork, RingMove, WorkKind,
};
use zellige_machine::timeline::{TimelineEvent, TimelineTrack};
use zellige_machine::{CycleModel, Hardware, Key, OperationCost, SimulatedTime, Timeline};

/// How the time of a core's compute, memory and communication adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KtirPipeline {
    /// One after the other.
    #[default]
    Serial,
    /// Compute beside everything that moves data.
    Overlapped,
    /// All three beside each other.
    OverlappedThreeWay,
}

impl KtirPipeline {
    /// The pipeline of a name: `serial`, `overlapped` or `overlapped_3way`.
    pub fn from_name(name: &str) -> Option<KtirPipeline> {
        Some(match name {
            "serial" => KtirPipeline::Serial,
            "overlapped" => KtirPipeline::Overlapped,
            "overlapped_3way" => KtirPipeline::OverlappedThreeWay,
            _ => return None,
        })
    }
}

/// The exact cycles of a core, by what takes them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct KtirCoreCycles {
    /// Products of matrices.
    pub matmul: f64,
    /// Plain operations of floats.
    pub float: f64,
    /// exp, log and the like.
    pub transcendental: f64,
    /// Operations of integers.
    pub int: f64,
    /// Memory, in whole sticks.
    pub memory: f64,
    /// Messages to other cores.
    pub comm: f64,
    /// Bytes of the sticks that were touched.
    pub memory_bytes: f64,
    /// Bytes of messages, once for every link.
    pub comm_bytes: f64,
}

impl KtirCoreCycles {
    /// The cycles of both compute units.
    pub fn compute(&self) -> f64 {
        self.matmul + self.float + self.transcendental + self.int
    }

    /// The cycles of the core.
    pub fn total(&self, pipeline: KtirPipeline) -> f64 {
        let (compute, memory, comm) = (self.compute(), self.memory, self.comm);
        match pipeline {
            KtirPipeline::Serial => compute + memory + comm,
            KtirPipeline::Overlapped => compute.max(memory + comm),
            KtirPipeline::OverlappedThreeWay => compute.max(memory).max(comm),
        }
    }
}

/// The figures of the hardware that cycles are counted with, per cycle.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct KtirFigures {
    /// Cores of the hardware.
    pub cores: f64,
    /// FLOP of a core's products.
    pub matmul_per_cycle: f64,
    /// Elements of a core's vector unit.
    pub lanes: f64,
    /// How much longer exp and the like take.
    pub penalty: f64,
    /// Bytes of memory, of all cores together.
    pub bytes_per_cycle: f64,
    /// Bytes of the ring.
    pub ring_bytes_per_cycle: f64,
    /// GHz.
    pub clock: f64,
}

impl KtirFigures {
    fn of_hardware(hardware: &Hardware) -> KtirFigures {
        let figure = |key| hardware.figure_number(key).to_f64();
        if hardware.cycle_model() != CycleModel::Ktir {
            return KtirFigures::default();
        }
        KtirFigures {
            cores: hardware.figure_count(Key::Cores) as f64,
            matmul_per_cycle: figure(Key::Flops),
            lanes: figure(Key::Lanes),
            penalty: figure(Key::Transcendental),
            bytes_per_cycle: figure(Key::MemoryPeak) / figure(Key::Clock),
            ring_bytes_per_cycle: figure(Key::Ring),
            clock: figure(Key::Clock),
        }
    }

    fn core_cycles(&self, work: &CoreWork, ints: u64, cores: usize) -> KtirCoreCycles {
        let sticks = work.unique_sticks.unwrap_or(0).saturating_mul(128) as f64;
        let comm_bytes = work.ring_bytes() as f64;
        KtirCoreCycles {
            matmul: 2.0 * work.macs as f64 / self.matmul_per_cycle,
            float: work.sfu.saturating_sub(ints) as f64 / self.lanes,
            transcendental: work.sfu_transcendental as f64 / self.lanes * self.penalty,
            int: ints as f64 / self.lanes,
            // All cores of the grid share the memory, also those that do not use it.
            memory: sticks / (self.bytes_per_cycle / cores as f64),
            comm: comm_bytes / self.ring_bytes_per_cycle,
            memory_bytes: sticks,
            comm_bytes,
        }
    }
}

/// The outcome of a successful run.
#[derive(Debug, Clone, PartialEq)]
pub struct KtirRunOutcome {
    /// Every array that was passed, with its contents after the run.
    pub arrays: BTreeMap<String, KtirArray>,
    /// The cost of every core.
    pub cost: OperationCost,
    /// The exact cycles of every core, with fractions, where the hardware is the emulator's model; else empty.
    pub exact: Vec<KtirCoreCycles>,
    /// How the parts of a core's time overlap in `exact`.
    pub pipeline: KtirPipeline,
    /// The figures that the roofline of `exact` is drawn from.
    pub figures: KtirFigures,
    /// The hardware whose figures give the cycles.
    pub hardware: String,
    /// What a lenient run let pass.
    pub warnings: Vec<String>,
    /// The timeline, if a trace was requested.
    pub timeline: Option<Timeline>,
}

impl KtirRunOutcome {
    /// The cycles of the slowest core, rounded up.
    pub fn cycles(&self) -> u64 {
        if self.exact.is_empty() {
            return self.cost.latency.cycles;
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts are not negative"
        )]
        let cycles = self.exact_cycles().ceil() as u64;
        cycles
    }

    /// The cycles of the slowest core, with their fraction.
    pub fn exact_cycles(&self) -> f64 {
        let all = self.exact.iter().map(|c| c.total(self.pipeline));
        all.fold(
            if self.exact.is_empty() { self.cost.latency.cycles as f64 } else { 0.0 },
            f64::max,
        )
    }

    /// The first core that takes as long as the whole kernel.
    pub fn critical_core(&self) -> Option<usize> {
        let longest = self.exact_cycles();
        if self.exact.is_empty() {
            return self.cost.latency.critical_core;
        }
        self.exact.iter().position(|c| c.total(self.pipeline) >= longest && longest > 0.0)
    }

    /// The roofline of the whole grid: what the emulator's report prints, as (name, value) pairs.
    pub fn roofline(&self) -> Vec<(&'static str, f64)> {
        let sum = |f: fn(&KtirCoreCycles) -> f64| self.exact.iter().map(f).sum::<f64>();
        let systolic = sum(|c| c.matmul) > sum(|c| c.float + c.transcendental + c.int);
        let f = &self.figures;
        let peak = if systolic { f.matmul_per_cycle } else { f.lanes };
        let flops = if systolic {
            sum(|c| c.matmul) * f.matmul_per_cycle
        } else {
            sum(|c| c.float + c.int) * f.lanes + sum(|c| c.transcendental) * f.lanes / f.penalty
        };
        let bytes = sum(|c| c.memory_bytes);
        let cycles = self.exact_cycles();
        let chip = peak * f.cores;
        let intensity = if bytes > 0.0 { flops / bytes } else { 0.0 };
        let reached = if cycles > 0.0 { flops / cycles } else { 0.0 };
        let ceiling = if bytes > 0.0 { chip.min(f.bytes_per_cycle * intensity) } else { chip };
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        let active = self.exact.iter().filter(|c| c.total(self.pipeline) > 0.0).count() as f64;
        vec![
            ("flops", flops),
            ("dram_bytes", bytes),
            ("intensity", intensity),
            ("compute_throughput", share(reached, chip)),
            ("dram_throughput", share(bytes, f.bytes_per_cycle * cycles)),
            ("attainment", share(reached, ceiling)),
            ("grid_coverage", share(active, f.cores)),
        ]
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
        let exact = |c: &KtirCoreCycles| {
            json!({
                "compute": c.compute(), "memory": c.memory, "comm": c.comm, "total": c.total(self.pipeline),
                "by_category": {
                    "compute_matmul": c.matmul, "compute_float": c.float,
                    "compute_transcendental": c.transcendental, "compute_int": c.int,
                    "memory": c.memory, "comm": c.comm,
                },
            })
        };
        let cores =
            if self.exact.is_empty() { cores } else { self.exact.iter().map(exact).collect() };
        let roofline: serde_json::Map<String, serde_json::Value> = if self.exact.is_empty() {
            serde_json::Map::new()
        } else {
            self.roofline().into_iter().map(|(name, x)| (name.to_string(), json!(x))).collect()
        };
        let t = &self.cost.totals;
        json!({
            "roofline": roofline,
            "warnings": self.warnings,
            "kernel": self.cost.name,
            "exact_cycles": self.exact_cycles(),
            "hardware": self.hardware,
            "cycles": self.cycles(),
            "nanoseconds": self.cost.latency.time.picoseconds() as f64 / 1000.0,
            "critical_core": self.critical_core(),
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
            self.cost.name,
            self.hardware,
            // At most three digits of a fraction: cycles of the emulator are multiples of 1/64 and 1/1024.
            (self.exact_cycles() * 1000.0).round() / 1000.0,
            latency.time
        )?;
        if let Some(core) = self.critical_core() {
            let shown = |n: f64| format!("{}", (n * 1000.0).round() / 1000.0);
            let [compute, memory, comm] = match self.exact.get(core) {
                Some(c) => [c.compute(), c.memory, c.comm].map(shown),
                None => KtirRunOutcome::split_cycles(&latency.cores[core]).map(|n| n.to_string()),
            };
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
    ledgers: Vec<KtirCoreLedger>,
    arrays: BTreeMap<String, KtirArray>,
    traced: usize,
    pipeline: KtirPipeline,
) -> KtirRunOutcome {
    let (model, count) = (hardware.cycle_model(), ledgers.len());
    let mut all = Vec::with_capacity(count);
    let mut events: Vec<Vec<KtirOpCost>> = Vec::new();
    let figures = KtirFigures::of_hardware(hardware);
    let mut exact = Vec::new();
    for ledger in ledgers {
        let work = price_ring_moves(ledger.work, &ledger.sent, model, count);
        if model == CycleModel::Ktir {
            exact.push(figures.core_cycles(&work, ledger.ints, count));
        }
        all.push(work);
        events.push(ledger.events);
    }
    // The kind decides which of the card's units the arithmetic of a kernel is priced on.
    let products = all.iter().any(|w| w.macs > 0);
    let kind = if products { WorkKind::Matmul } else { WorkKind::Pointwise };
    let work = OperationWork::new(f.name(), kind, all);
    let timeline = (traced > 0).then(|| build_timeline(hardware, &work, events, traced));
    let cost = hardware.operation_cost(&work);
    KtirRunOutcome {
        arrays,
        cost,
        warnings: Vec::new(),
        exact,
        pipeline,
        figures,
        hardware: hardware.name().into(),
        timeline,
    }
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
