//! How long work takes on a given hardware.

use super::product::{ProductCycles, ProductRates};
use super::work::{CoreWork, MemoryTraffic, OperationWork, WorkKind};
use crate::hardware::{CycleModel, Hardware, Key, LaunchUnit};
use crate::ratio::Ratio;
use crate::time::SimulatedTime;
use serde::Serialize;
use std::fmt;

/// Cycles of one core, by unit; each rounded up once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CoreCycles {
    /// The PT array.
    pub pt: u64,
    /// The SFU.
    pub sfu: u64,
    /// Device memory.
    pub memory: u64,
    /// The scratchpad.
    pub lx: u64,
    /// The ring, when the core is done.
    pub ring: u64,
    /// The ring, while the core works.
    pub ring_in: u64,
    /// The link to the host.
    pub host: u64,
    /// A kernel without work, where the preset has a figure for it.
    #[serde(skip_serializing_if = "is_zero")]
    pub fixed: u64,
    /// All of it, combined as the model says.
    pub total: u64,
    /// The terms of a product, where the preset has figures for them: they make up the total, and the units above
    /// are sums of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<ProductCycles>,
}

/// What bounds an operation: the unit its slowest core spends most cycles on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Nothing was done.
    Nothing,
    /// The PT array.
    Pt,
    /// The SFU.
    Sfu,
    /// Device memory.
    Memory,
    /// The scratchpad.
    Lx,
    /// The ring.
    Ring,
    /// The link to the host.
    Host,
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bottleneck::Nothing => "nothing to do",
            Bottleneck::Pt => "PT bound",
            Bottleneck::Sfu => "SFU bound",
            Bottleneck::Memory => "memory bound",
            Bottleneck::Lx => "LX bound",
            Bottleneck::Ring => "ring bound",
            Bottleneck::Host => "host link bound",
        })
    }
}

/// How long an operation takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationLatency {
    /// Each core.
    pub cores: Vec<CoreCycles>,
    /// Cycles of the slowest core.
    pub cycles: u64,
    /// The same as time.
    pub time: SimulatedTime,
    /// The slowest core, the first of equals; none when nothing was done.
    pub critical_core: Option<usize>,
    /// What that core waits for.
    pub bottleneck: Bottleneck,
}

impl Hardware {
    /// How long this work takes here. It depends on nothing else; see [`account`](crate::account).
    pub fn operation_latency(&self, work: &OperationWork) -> OperationLatency {
        self.latency_beside(work, 0)
    }

    /// The same while `others` further cores are busy with other work: memory and the host link are
    /// shared with them.
    pub fn latency_beside(&self, work: &OperationWork, others: usize) -> OperationLatency {
        let work = &self.share_ring_reads(work);
        let rates = CoreRates::for_operation(self, work, others);
        let products = ProductRates::for_operation(self, work, others);
        let cycles_of = |core: &CoreWork| match (&products, core.tile) {
            (Some(products), Some(tile)) => CoreCycles::from_product(products.tile_cycles(&tile)),
            _ => rates.core_cycles(core),
        };
        // Cores mostly do the same, and divisions of 128 bits add up.
        let mut cores: Vec<CoreCycles> = Vec::with_capacity(work.cores.len());
        for (i, core) in work.cores.iter().enumerate() {
            let same = i.checked_sub(1).filter(|before| work.cores[*before] == *core);
            cores.push(same.map_or_else(|| cycles_of(core), |before| cores[before]));
        }
        let cycles = cores.iter().map(|c| c.total).max().unwrap_or(0);
        let critical_core = cores.iter().position(|c| c.total == cycles && cycles > 0);
        OperationLatency {
            cycles,
            time: self.cycles_to_time(cycles),
            bottleneck: critical_core.map_or(Bottleneck::Nothing, |i| cores[i].slowest_unit()),
            critical_core,
            cores,
        }
    }

    /// What the host takes for one launch, before the card begins; nothing where the preset has no such figure. What
    /// is launched at once is [`Hardware::launch_unit`]. It is no part of [`Hardware::operation_latency`].
    pub fn launch_time(&self) -> SimulatedTime {
        match self.find_figure(Key::Launch) {
            Some(_) => SimulatedTime::from_picoseconds(
                self.figure_number(Key::Launch).ceil_product(1_000_000),
            ),
            None => SimulatedTime::ZERO,
        }
    }

    /// What one step more costs in launches: a launch where the host launches step by step, nothing where it launches
    /// bundles, as a step of the card joins the bundle around it.
    pub fn step_launch_time(&self) -> SimulatedTime {
        match self.launch_unit() {
            LaunchUnit::Wave => self.launch_time(),
            LaunchUnit::Bundle => SimulatedTime::ZERO,
        }
    }

    /// The same in cycles of the cores, rounded up.
    pub fn step_launch_cycles(&self) -> u64 {
        match (self.find_figure(Key::Launch), self.launch_unit()) {
            // GHz times microseconds are thousands of cycles.
            (Some(_), LaunchUnit::Wave) => self
                .figure_number(Key::Launch)
                .multiplied_by(self.figure_number(Key::Clock))
                .ceil_product(1000),
            _ => 0,
        }
    }

    /// No division of an operation over at most `cores` takes fewer cycles: `whole` is what one core does that has
    /// all of it, and `bytes` go through device memory whatever is kept in scratchpads.
    ///
    /// The slowest core does no less than an equal share of what the units do, and slices only add to that; memory gives
    /// all cores together no more than its one-way rate.
    pub fn lower_bound_cycles(&self, whole: &CoreWork, bytes: u64, cores: usize) -> u64 {
        let number = |key| self.figure_number(key);
        let shared = |rate: Ratio| rate.divided_by(Ratio::new(cores.max(1) as u64, 1));
        let lanes = number(Key::Lanes).multiplied_by(number(Key::Corelets));
        let (macs, memory) = match self.cycle_model() {
            CycleModel::Ktir => {
                (Ratio::new(2, 1).divided_by(number(Key::Flops)), number(Key::MemoryPeak))
            }
            CycleModel::Card => {
                (number(Key::Clock).divided_by(number(Key::Matmul)), number(Key::MemoryOneWay))
            }
        };
        let transcendental = shared(number(Key::Transcendental).divided_by(lanes));
        let units = [
            shared(macs).ceil_product(whole.macs),
            shared(Ratio::ONE.divided_by(lanes)).ceil_product(whole.sfu),
            transcendental.ceil_product(whole.sfu_transcendental),
        ];
        // Each was rounded up; their sum is rounded once.
        let together = units.iter().map(|n| n.saturating_sub(1)).fold(0, u64::saturating_add);
        let memory = number(Key::Clock).divided_by(memory).ceil_product(bytes);
        units.into_iter().fold(together.max(memory), u64::max)
    }

    /// Cycles as time.
    pub fn cycles_to_time(&self, cycles: u64) -> SimulatedTime {
        let picoseconds = Ratio::new(1000, 1).divided_by(self.figure_number(Key::Clock));
        SimulatedTime::from_picoseconds(picoseconds.ceil_product(cycles))
    }

    /// The share of the memory's peak that bursts of this many bytes reach.
    pub fn burst_efficiency(&self, bytes: u64) -> Ratio {
        interpolate_curve(self.figure_curve(Key::Bursts), bytes, log2_fixed_point)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl CoreCycles {
    fn from_product(product: ProductCycles) -> CoreCycles {
        let memory = [product.first_chunk, product.rest_of_reads, product.write];
        CoreCycles {
            pt: product.compute,
            memory: memory.into_iter().fold(0, u64::saturating_add),
            ring: product.partial_sums,
            fixed: product.fixed,
            total: product.total(),
            product: Some(product),
            ..CoreCycles::default()
        }
    }

    fn slowest_unit(&self) -> Bottleneck {
        let compute = if self.pt >= self.sfu { Bottleneck::Pt } else { Bottleneck::Sfu };
        let candidates = [
            (self.pt.saturating_add(self.sfu), compute),
            (self.memory, Bottleneck::Memory),
            (self.lx, Bottleneck::Lx),
            (self.ring_in.max(self.ring), Bottleneck::Ring),
            (self.host, Bottleneck::Host),
        ];
        // The last of equals: what feeds the units counts before the units.
        candidates.into_iter().max_by_key(|c| c.0).map_or(Bottleneck::Nothing, |c| c.1)
    }
}

/// Cycles per unit of work for each core of one operation.
struct CoreRates<'h> {
    hardware: &'h Hardware,
    model: CycleModel,
    pt: Ratio,
    sfu: Ratio,
    transcendental: Ratio,
    /// Per byte at the memory's peak, shared by the cores in use.
    peak: Ratio,
    /// Per byte at the rate that this operation sustains, shared alike.
    sustained: Ratio,
    lx: Option<Ratio>,
    ring: Ratio,
    host: Ratio,
    granule: u64,
    /// Cycles of a kernel without work.
    fixed: u64,
}

impl<'h> CoreRates<'h> {
    fn for_operation(hardware: &'h Hardware, work: &OperationWork, others: usize) -> CoreRates<'h> {
        let totals = work.sum_over_cores();
        let number = |key| hardware.figure_number(key);
        let clock = number(Key::Clock);
        let sharers = Ratio::new((totals.cores + others) as u64, 1);
        let per_byte = |rate: Ratio| clock.multiplied_by(sharers).divided_by(rate);
        let lanes = number(Key::Lanes).multiplied_by(number(Key::Corelets));
        let pt = match (hardware.cycle_model(), work.kind) {
            (CycleModel::Ktir, _) => Ratio::new(2, 1).divided_by(number(Key::Flops)),
            (CycleModel::Card, WorkKind::BatchMatmulDefault { batch })
                if batch >= hardware.figure_count(Key::BatchMatmulFrom) =>
            {
                clock.divided_by(number(Key::BatchMatmul))
            }
            (CycleModel::Card, _) => clock.divided_by(number(Key::Matmul)),
        };
        let sustained = match (hardware.cycle_model(), work.kind) {
            (CycleModel::Ktir, _) => per_byte(number(Key::MemoryPeak)),
            (CycleModel::Card, WorkKind::Restickify) => per_byte(number(Key::MemoryRestickify)),
            (CycleModel::Card, WorkKind::CrossRowReduction) => {
                per_byte(number(Key::MemoryCrossRow))
            }
            (CycleModel::Card, kind) => {
                // Bytes that are matched by one of the other direction turn the bus around.
                let all = totals.bytes_in.saturating_add(totals.bytes_out);
                let matched = totals.bytes_in.min(totals.bytes_out).saturating_mul(2).min(all);
                let one_way = per_byte(number(Key::MemoryOneWay));
                let mixed =
                    one_way.interpolate_to(per_byte(number(Key::MemoryBalanced)), matched, all);
                match kind {
                    WorkKind::RowReduction => {
                        let cores = totals.cores as u64;
                        mixed.divided_by(interpolate_curve(
                            hardware.figure_curve(Key::Derate),
                            cores,
                            |x| x << 16,
                        ))
                    }
                    // A curve that a preset does not have is 1 everywhere.
                    _ => mixed.divided_by(interpolate_curve(
                        hardware.figure_curve(Key::StreamShare),
                        totals.cores as u64,
                        |x| x << 16,
                    )),
                }
            }
        };
        CoreRates {
            hardware,
            model: hardware.cycle_model(),
            pt,
            sfu: Ratio::ONE.divided_by(lanes),
            transcendental: number(Key::Transcendental).divided_by(lanes),
            peak: per_byte(number(Key::MemoryPeak)),
            sustained,
            lx: hardware
                .find_figure(Key::LxBandwidth)
                .map(|_| Ratio::ONE.divided_by(number(Key::LxBandwidth))),
            ring: Ratio::ONE.divided_by(number(Key::Ring)),
            host: per_byte(number(Key::HostLink)),
            granule: hardware.figure_count(Key::Granule),
            fixed: match hardware.find_figure(Key::KernelFixed) {
                // GHz times microseconds are thousands of cycles.
                // Products have a figure of their own, which is lower: with this one, bounds of them would be too high.
                Some(_) if !work.kind.is_transfer() && !work.kind.is_product() => {
                    number(Key::KernelFixed).multiplied_by(clock).ceil_product(1000)
                }
                _ => 0,
            },
        }
    }

    fn core_cycles(&self, core: &CoreWork) -> CoreCycles {
        let sfu = self.sfu.ceil_product(core.sfu);
        let host = core.host_in.saturating_add(core.host_out);
        let c = CoreCycles {
            pt: self.pt.ceil_product(core.macs),
            sfu: sfu.saturating_add(self.transcendental.ceil_product(core.sfu_transcendental)),
            memory: self.memory_cycles(core),
            lx: self.lx.map_or(0, |rate| rate.ceil_product(core.lx_bytes)),
            ring: self.ring.ceil_product(core.ring_bytes()),
            ring_in: self.ring.ceil_product(core.ring_in),
            host: self.host.ceil_product(host),
            fixed: if core.is_idle() { 0 } else { self.fixed },
            total: 0,
            product: None,
        };
        let compute = c.pt.saturating_add(c.sfu);
        let total = match self.model {
            CycleModel::Card => compute.max(c.memory).max(c.lx).max(c.ring_in).max(c.host),
            CycleModel::Ktir => compute.saturating_add(c.memory.max(c.host)),
        };
        CoreCycles { total: total.saturating_add(c.ring).saturating_add(c.fixed), ..c }
    }

    fn memory_cycles(&self, core: &CoreWork) -> u64 {
        let requested = |traffic: &MemoryTraffic| {
            let bytes = |b: &super::work::MemoryBurst| {
                b.bytes.div_ceil(self.granule).saturating_mul(self.granule).saturating_mul(b.count)
            };
            traffic.bursts().iter().map(bytes).fold(0, u64::saturating_add)
        };
        let all = requested(&core.reads).saturating_add(requested(&core.writes));
        match self.model {
            CycleModel::Ktir => {
                let unique = core.unique_sticks.map(|n| n.saturating_mul(self.granule));
                self.peak.ceil_product(unique.unwrap_or(all))
            }
            CycleModel::Card => {
                let bursts = core.reads.bursts().iter().chain(core.writes.bursts());
                let issue = bursts.fold(0_u64, |sum, b| {
                    let length = b.bytes.div_ceil(self.granule).saturating_mul(self.granule);
                    let rate = self.peak.divided_by(self.hardware.burst_efficiency(length));
                    sum.saturating_add(rate.ceil_product(length.saturating_mul(b.count)))
                });
                issue.max(self.sustained.ceil_product(all))
            }
        }
    }
}

/// The curve at `x`: its ends beyond them, and in between linear in `scale` of `x`, a growing
/// function in 16 bits of fraction.
pub(super) fn interpolate_curve(points: &[(u64, Ratio)], x: u64, scale: fn(u64) -> u64) -> Ratio {
    let above = points.partition_point(|(at, _)| *at <= x);
    match (above.checked_sub(1).map(|i| points[i]), points.get(above)) {
        (None, None) => Ratio::ONE,
        (Some((_, y)), None) | (None, Some(&(_, y))) => y,
        (Some((x0, y0)), Some(&(x1, y1))) => {
            let (from, to) = (scale(x0), scale(x1));
            y0.interpolate_to(y1, scale(x) - from, to - from)
        }
    }
}

/// The binary logarithm with 16 bits of fraction, rounded down; integers alone, so that all
/// machines agree. Zero for zero.
fn log2_fixed_point(x: u64) -> u64 {
    let whole = u64::from(x.checked_ilog2().unwrap_or(0));
    // The mantissa in [1, 2) with 63 bits of fraction; squaring it shifts out one bit at a time.
    let mut mantissa = u128::from(x.max(1)) << (63 - whole);
    let mut log = whole;
    for _ in 0..16 {
        mantissa = (mantissa * mantissa) >> 63;
        log <<= 1;
        if mantissa >> 64 > 0 {
            mantissa >>= 1;
            log |= 1;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_reals_rounded_down() {
        for x in (1..5000).chain([u64::MAX, 1 << 40]) {
            let exact = (x as f64).log2() * 65536.0;
            assert!(
                (exact - log2_fixed_point(x) as f64) < 1.0001
                    && exact - log2_fixed_point(x) as f64 > -0.01,
                "{x}"
            );
        }
        assert_eq!(
            (log2_fixed_point(0), log2_fixed_point(1), log2_fixed_point(4096)),
            (0, 0, 12 << 16)
        );
    }

    #[test]
    fn curves_end_flat_and_meet_their_points() {
        let card = Hardware::built_in_preset("card-2026-05").unwrap();
        let at = |bytes| card.burst_efficiency(bytes).to_f64();
        assert_eq!((at(1), at(128), at(512), at(4096)), (0.35, 0.35, 0.7, 1.0));
        assert_eq!(at(u64::MAX), 1.0);
        assert_eq!(at(256), 0.525, "halfway between 128 and 512 in doublings");
        assert!((1..8192).all(|b| at(b) <= at(b + 1)));
    }
}
