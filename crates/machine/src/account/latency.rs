//! How long work takes on a given hardware.

use super::work::{CoreWork, Traffic, Work, WorkKind};
use crate::hardware::{Hardware, Key, Model};
use crate::ratio::Ratio;
use crate::time::Time;
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
    /// All of it, combined as the model says.
    pub total: u64,
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
pub struct Latency {
    /// Each core.
    pub cores: Vec<CoreCycles>,
    /// Cycles of the slowest core.
    pub cycles: u64,
    /// The same as time.
    pub time: Time,
    /// The slowest core, the first of equals; none when nothing was done.
    pub critical_core: Option<usize>,
    /// What that core waits for.
    pub bottleneck: Bottleneck,
}

impl Hardware {
    /// How long this work takes here. It depends on nothing else; see [`account`](crate::account).
    pub fn latency(&self, work: &Work) -> Latency {
        self.latency_beside(work, 0)
    }

    /// The same while `others` further cores are busy with other work: memory and the host link are
    /// shared with them.
    pub fn latency_beside(&self, work: &Work, others: usize) -> Latency {
        let work = &self.served(work);
        let rates = Rates::of(self, work, others);
        // Cores mostly do the same, and divisions of 128 bits add up.
        let mut cores: Vec<CoreCycles> = Vec::with_capacity(work.cores.len());
        for (i, core) in work.cores.iter().enumerate() {
            let same = i.checked_sub(1).filter(|before| work.cores[*before] == *core);
            cores.push(same.map_or_else(|| rates.cycles(core), |before| cores[before]));
        }
        let cycles = cores.iter().map(|c| c.total).max().unwrap_or(0);
        let critical_core = cores.iter().position(|c| c.total == cycles && cycles > 0);
        Latency {
            cycles,
            time: self.time(cycles),
            bottleneck: critical_core.map_or(Bottleneck::Nothing, |i| cores[i].bottleneck()),
            critical_core,
            cores,
        }
    }

    /// What the host takes to launch a step, or several that run side by side, before the card begins;
    /// nothing where the preset has no such figure. It is no part of [`Hardware::latency`].
    pub fn launch(&self) -> Time {
        match self.figure(Key::Launch) {
            Some(_) => Time::from_picoseconds(self.number(Key::Launch).ceil_of(1_000_000)),
            None => Time::ZERO,
        }
    }

    /// The same in cycles of the cores, rounded up.
    pub fn launch_cycles(&self) -> u64 {
        match self.figure(Key::Launch) {
            // GHz times microseconds are thousands of cycles.
            Some(_) => self.number(Key::Launch).times(self.number(Key::Clock)).ceil_of(1000),
            None => 0,
        }
    }

    /// No division of an operation over at most `cores` takes fewer cycles: `whole` is what one core does that has
    /// all of it, and `bytes` go through device memory whatever is kept in scratchpads.
    ///
    /// The slowest core does no less than an equal share of what the units do, and slices only add to that; memory gives
    /// all cores together no more than its one-way rate.
    pub fn least_cycles(&self, whole: &CoreWork, bytes: u64, cores: usize) -> u64 {
        let number = |key| self.number(key);
        let shared = |rate: Ratio| rate.over(Ratio::new(cores.max(1) as u64, 1));
        let lanes = number(Key::Lanes).times(number(Key::Corelets));
        let (macs, memory) = match self.model() {
            Model::Ktir => (Ratio::new(2, 1).over(number(Key::Flops)), number(Key::MemoryPeak)),
            Model::Card => {
                (number(Key::Clock).over(number(Key::Matmul)), number(Key::MemoryOneWay))
            }
        };
        let transcendental = shared(number(Key::Transcendental).over(lanes));
        let units = [
            shared(macs).ceil_of(whole.macs),
            shared(Ratio::ONE.over(lanes)).ceil_of(whole.sfu),
            transcendental.ceil_of(whole.sfu_transcendental),
        ];
        // Each was rounded up; their sum is rounded once.
        let together = units.iter().map(|n| n.saturating_sub(1)).fold(0, u64::saturating_add);
        let memory = number(Key::Clock).over(memory).ceil_of(bytes);
        units.into_iter().fold(together.max(memory), u64::max)
    }

    /// Cycles as time.
    pub fn time(&self, cycles: u64) -> Time {
        let picoseconds = Ratio::new(1000, 1).over(self.number(Key::Clock));
        Time::from_picoseconds(picoseconds.ceil_of(cycles))
    }

    /// The share of the memory's peak that bursts of this many bytes reach.
    pub fn burst_efficiency(&self, bytes: u64) -> Ratio {
        on_curve(self.curve(Key::Bursts), bytes, log2)
    }
}

impl CoreCycles {
    fn bottleneck(&self) -> Bottleneck {
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
struct Rates<'h> {
    hardware: &'h Hardware,
    model: Model,
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
}

impl<'h> Rates<'h> {
    fn of(hardware: &'h Hardware, work: &Work, others: usize) -> Rates<'h> {
        let totals = work.totals();
        let number = |key| hardware.number(key);
        let clock = number(Key::Clock);
        let sharers = Ratio::new((totals.cores + others) as u64, 1);
        let per_byte = |rate: Ratio| clock.times(sharers).over(rate);
        let lanes = number(Key::Lanes).times(number(Key::Corelets));
        let pt = match (hardware.model(), work.kind) {
            (Model::Ktir, _) => Ratio::new(2, 1).over(number(Key::Flops)),
            (Model::Card, WorkKind::BatchMatmulDefault { batch })
                if batch >= hardware.count(Key::BatchMatmulFrom) =>
            {
                clock.over(number(Key::BatchMatmul))
            }
            (Model::Card, _) => clock.over(number(Key::Matmul)),
        };
        let sustained = match (hardware.model(), work.kind) {
            (Model::Ktir, _) => per_byte(number(Key::MemoryPeak)),
            (Model::Card, WorkKind::Restickify) => per_byte(number(Key::MemoryRestickify)),
            (Model::Card, WorkKind::CrossRowReduction) => per_byte(number(Key::MemoryCrossRow)),
            (Model::Card, kind) => {
                // Bytes that are matched by one of the other direction turn the bus around.
                let all = totals.bytes_in.saturating_add(totals.bytes_out);
                let matched = totals.bytes_in.min(totals.bytes_out).saturating_mul(2).min(all);
                let one_way = per_byte(number(Key::MemoryOneWay));
                let mixed = one_way.mix(per_byte(number(Key::MemoryBalanced)), matched, all);
                match kind {
                    WorkKind::RowReduction => {
                        let cores = totals.cores as u64;
                        mixed.over(on_curve(hardware.curve(Key::Derate), cores, |x| x << 16))
                    }
                    _ => mixed,
                }
            }
        };
        Rates {
            hardware,
            model: hardware.model(),
            pt,
            sfu: Ratio::ONE.over(lanes),
            transcendental: number(Key::Transcendental).over(lanes),
            peak: per_byte(number(Key::MemoryPeak)),
            sustained,
            lx: hardware
                .figure(Key::LxBandwidth)
                .map(|_| Ratio::ONE.over(number(Key::LxBandwidth))),
            ring: Ratio::ONE.over(number(Key::Ring)),
            host: per_byte(number(Key::HostLink)),
            granule: hardware.count(Key::Granule),
        }
    }

    fn cycles(&self, core: &CoreWork) -> CoreCycles {
        let sfu = self.sfu.ceil_of(core.sfu);
        let host = core.host_in.saturating_add(core.host_out);
        let c = CoreCycles {
            pt: self.pt.ceil_of(core.macs),
            sfu: sfu.saturating_add(self.transcendental.ceil_of(core.sfu_transcendental)),
            memory: self.memory(core),
            lx: self.lx.map_or(0, |rate| rate.ceil_of(core.lx_bytes)),
            ring: self.ring.ceil_of(core.ring_bytes()),
            ring_in: self.ring.ceil_of(core.ring_in),
            host: self.host.ceil_of(host),
            total: 0,
        };
        let compute = c.pt.saturating_add(c.sfu);
        let total = match self.model {
            Model::Card => compute.max(c.memory).max(c.lx).max(c.ring_in).max(c.host),
            Model::Ktir => compute.saturating_add(c.memory.max(c.host)),
        };
        CoreCycles { total: total.saturating_add(c.ring), ..c }
    }

    fn memory(&self, core: &CoreWork) -> u64 {
        let requested = |traffic: &Traffic| {
            let bytes = |b: &super::work::Burst| {
                b.bytes.div_ceil(self.granule).saturating_mul(self.granule).saturating_mul(b.count)
            };
            traffic.bursts().iter().map(bytes).fold(0, u64::saturating_add)
        };
        let all = requested(&core.reads).saturating_add(requested(&core.writes));
        match self.model {
            Model::Ktir => {
                let unique = core.unique_sticks.map(|n| n.saturating_mul(self.granule));
                self.peak.ceil_of(unique.unwrap_or(all))
            }
            Model::Card => {
                let bursts = core.reads.bursts().iter().chain(core.writes.bursts());
                let issue = bursts.fold(0_u64, |sum, b| {
                    let length = b.bytes.div_ceil(self.granule).saturating_mul(self.granule);
                    let rate = self.peak.over(self.hardware.burst_efficiency(length));
                    sum.saturating_add(rate.ceil_of(length.saturating_mul(b.count)))
                });
                issue.max(self.sustained.ceil_of(all))
            }
        }
    }
}

/// The curve at `x`: its ends beyond them, and in between linear in `scale` of `x`, a growing
/// function in 16 bits of fraction.
fn on_curve(points: &[(u64, Ratio)], x: u64, scale: fn(u64) -> u64) -> Ratio {
    let above = points.partition_point(|(at, _)| *at <= x);
    match (above.checked_sub(1).map(|i| points[i]), points.get(above)) {
        (None, None) => Ratio::ONE,
        (Some((_, y)), None) | (None, Some(&(_, y))) => y,
        (Some((x0, y0)), Some(&(x1, y1))) => {
            let (from, to) = (scale(x0), scale(x1));
            y0.mix(y1, scale(x) - from, to - from)
        }
    }
}

/// The binary logarithm with 16 bits of fraction, rounded down; integers alone, so that all
/// machines agree. Zero for zero.
fn log2(x: u64) -> u64 {
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
            assert!((exact - log2(x) as f64) < 1.0001 && exact - log2(x) as f64 > -0.01, "{x}");
        }
        assert_eq!((log2(0), log2(1), log2(4096)), (0, 0, 12 << 16));
    }

    #[test]
    fn curves_end_flat_and_meet_their_points() {
        let card = Hardware::card();
        let at = |bytes| card.burst_efficiency(bytes).to_f64();
        assert_eq!((at(1), at(128), at(512), at(4096)), (0.35, 0.35, 0.7, 1.0));
        assert_eq!(at(u64::MAX), 1.0);
        assert_eq!(at(256), 0.525, "halfway between 128 and 512 in doublings");
        assert!((1..8192).all(|b| at(b) <= at(b + 1)));
    }
}
