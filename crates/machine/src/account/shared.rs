//! Reads of the same bytes by several cores: one core reads a byte from memory, and the ring delivers it to the
//! others.

use super::work::{CoreWork, MemoryTraffic, OperationWork};
use crate::hardware::{Hardware, Key};
use serde::Serialize;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Reads of one core that other cores need too, because all of them work on the same part of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedReads {
    /// The bursts that every one of these cores needs.
    pub bursts: MemoryTraffic,
    /// The number of cores that need them.
    pub cores: u64,
    /// The number of this core among them, from 0.
    pub place: u64,
}

impl CoreWork {
    /// Adds `times` reads of bursts that `cores` cores need. This core is number `place` among them, from 0.
    pub fn add_shared_read(&mut self, bursts: &MemoryTraffic, times: u64, cores: u64, place: u64) {
        let mut all = MemoryTraffic::new();
        bursts.bursts().iter().for_each(|b| all.add_bursts(b.bytes, b.count.saturating_mul(times)));
        self.reads.merge_traffic(&all);
        if cores > 1 && !all.bursts().is_empty() {
            self.shared.push(SharedReads { bursts: all, cores, place });
        }
    }

    /// The same work when one read of memory serves up to `width` cores that need it. Shares of a burst are
    /// multiples of `granule` bytes.
    ///
    /// **Law**, for bursts of whole granules: `reads` and `ring_in` of the result add up to the bytes of `reads`
    /// before, and the cores of one group together read every shared byte once.
    fn served_by_ring(&self, width: u64, granule: u64) -> CoreWork {
        let mut reads = self.reads.clone();
        let mut ring_in = self.ring_in;
        for shared in &self.shared {
            let (size, place) = shared.sharer_group(width);
            let own = shared.bursts.even_share(size, place, granule);
            ring_in = ring_in
                .saturating_add(shared.bursts.total_bytes().saturating_sub(own.total_bytes()));
            reads = reads.without_bursts(&shared.bursts);
            reads.merge_traffic(&own);
        }
        CoreWork { reads, ring_in, shared: SmallVec::new(), ..self.clone() }
    }
}

impl SharedReads {
    /// The size of the group of cores that read together, and the number of this core in its group.
    ///
    /// The sharers are divided into the fewest groups of at most `width` cores. Their sizes differ by at most 1;
    /// the larger groups come first.
    fn sharer_group(&self, width: u64) -> (u64, u64) {
        let groups = self.cores.div_ceil(width.max(1)).max(1);
        let (base, larger) = (self.cores / groups, self.cores % groups);
        let in_larger = larger * (base + 1);
        match self.place.checked_sub(in_larger) {
            None => (base + 1, self.place % (base + 1)),
            Some(rest) => (base, rest % base.max(1)),
        }
    }
}

impl MemoryTraffic {
    /// The share of core `place` if `cores` cores divide this traffic evenly. Bursts are divided whole; the
    /// remaining ones, fewer than `cores`, are divided by granules.
    fn even_share(&self, cores: u64, place: u64, granule: u64) -> MemoryTraffic {
        let (cores, granule) = (cores.max(1), granule.max(1));
        let mut own = MemoryTraffic::new();
        for burst in self.bursts() {
            own.add_bursts(burst.bytes, burst.count / cores);
            let rest = (burst.count % cores).saturating_mul(burst.bytes);
            let granules = rest.div_ceil(granule);
            let mine = granules / cores + u64::from(place < granules % cores);
            own.add_bursts(mine.saturating_mul(granule), 1);
        }
        own
    }
}

impl Hardware {
    /// The work with shared reads divided among the cores. Up to `ring.multicast` cores that need the same bytes
    /// form a group: each of them reads an even share from memory and receives the other shares over the ring
    /// while it works. Hardware without the figure `ring.multicast` has groups of one core, so every core reads
    /// everything itself.
    ///
    /// **Law**: the function is idempotent.
    pub fn share_ring_reads<'w>(&self, work: &'w OperationWork) -> Cow<'w, OperationWork> {
        if work.cores.iter().all(|core| core.shared.is_empty()) {
            return Cow::Borrowed(work);
        }
        let width = self.figure_count(Key::Multicast);
        let granule = self.figure_count(Key::Granule);
        let cores = work.cores.iter().map(|core| core.served_by_ring(width, granule)).collect();
        Cow::Owned(OperationWork { name: work.name.clone(), kind: work.kind, cores })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::WorkKind;

    /// The work of `cores` cores that need the same bursts twice; each of them also reads 3 bursts of 256 bytes
    /// that no other core needs.
    fn alike(cores: u64, bursts: &MemoryTraffic) -> OperationWork {
        let one = |place| {
            let mut core =
                CoreWork { reads: MemoryTraffic::from_bursts(256, 3), ..CoreWork::default() };
            core.add_shared_read(bursts, 2, cores, place);
            core
        };
        OperationWork::new("x", WorkKind::Matmul, (0..cores).map(one).collect())
    }

    #[test]
    fn groups_read_once_and_the_rest_arrives() {
        let card = Hardware::built_in_preset("card-2026-05").unwrap();
        for cores in 1..=32 {
            for (bytes, count) in [(128, 1), (128, 1000), (1 << 20, 1), (384, 7), (4096, 64)] {
                let bursts = MemoryTraffic::from_bursts(bytes, count);
                let work = alike(cores, &bursts);
                let served = card.share_ring_reads(&work);
                let groups = cores.div_ceil(8);
                let own = cores * 3 * 256;
                let read: u64 = served.cores.iter().map(|c| c.reads.total_bytes()).sum();
                assert_eq!(read, own + groups * 2 * bytes * count, "{cores} {bytes} {count}");
                for (before, after) in work.cores.iter().zip(&served.cores) {
                    assert_eq!(
                        before.reads.total_bytes(),
                        after.reads.total_bytes() + after.ring_in
                    );
                    let even = 2 * bytes * count * groups / cores;
                    let most = even + 2 * bytes * count / (cores / groups) / 4 + 256;
                    assert!(after.reads.total_bytes() - 768 <= most, "{cores} {bytes} {count}");
                }
                assert_eq!(card.share_ring_reads(&served).as_ref(), served.as_ref());
            }
        }
        let one = alike(5, &MemoryTraffic::from_bursts(512, 4));
        let ktir = Hardware::ktir_preset().share_ring_reads(&one).into_owned();
        assert!(
            ktir.cores.iter().zip(&one.cores).all(|(a, b)| a.reads == b.reads && a.ring_in == 0)
        );
    }

    #[test]
    fn what_arrives_is_charged_while_the_core_works() {
        let card = Hardware::built_in_preset("card-2026-05").unwrap();
        // 1280 bytes arrive in 10 cycles. The PT array computes at the same time, 760 multiply-adds in a cycle, so
        // the longer of both times counts.
        let core = |macs| CoreWork { ring_in: 1280, macs, ..CoreWork::default() };
        let cycles = |core| {
            card.operation_latency(&OperationWork::uniform_cores("x", WorkKind::Matmul, 1, core))
        };
        assert_eq!((cycles(core(0)).cycles, cycles(core(0)).cores[0].ring_in), (10, 10));
        assert_eq!(cycles(core(760 * 10)).cycles, 10);
        assert_eq!(cycles(core(760 * 20)).cycles, 20);
    }
}
