//! Reads that several cores need alike, and how the ring serves them.

use super::work::{CoreWork, MemoryTraffic, OperationWork};
use crate::hardware::{Hardware, Key};
use serde::Serialize;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Of the reads of a core, those that other cores need too: they all have the same part of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedReads {
    /// What each of them needs.
    pub bursts: MemoryTraffic,
    /// How many cores that are.
    pub cores: u64,
    /// Which of them this one is, from 0.
    pub place: u64,
}

impl CoreWork {
    /// Reads bursts `times` over that `cores` cores need alike, of which this one is number `place`.
    pub fn add_shared_read(&mut self, bursts: &MemoryTraffic, times: u64, cores: u64, place: u64) {
        let mut all = MemoryTraffic::new();
        bursts.bursts().iter().for_each(|b| all.add_bursts(b.bytes, b.count.saturating_mul(times)));
        self.reads.merge_traffic(&all);
        if cores > 1 && !all.bursts().is_empty() {
            self.shared.push(SharedReads { bursts: all, cores, place });
        }
    }

    /// The same work when one read of memory serves up to `width` cores that need it.
    ///
    /// **Law**: `reads` and `ring_in` together have the bytes that `reads` had, and those of a group
    /// together read once what all of its cores need.
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
    /// The cores that read together, at most `width`, and which of them this one is. All sharers are cut
    /// into as few groups as there can be, of nearly one size.
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
    /// What core `place` of `cores` reads where all of it is dealt out evenly: whole bursts, and
    /// granules of those that are left.
    fn even_share(&self, cores: u64, place: u64, granule: u64) -> MemoryTraffic {
        let (cores, granule) = (cores.max(1), granule.max(1));
        let mut own = MemoryTraffic::new();
        for burst in self.bursts() {
            own.add_bursts(burst.bytes, burst.count / cores);
            let left = (burst.count % cores).saturating_mul(burst.bytes);
            let granules = left.div_ceil(granule);
            let mine = granules / cores + u64::from(place < granules % cores);
            own.add_bursts(mine.saturating_mul(granule), 1);
        }
        own
    }
}

impl Hardware {
    /// The work as this hardware does it: a read that several cores need is done once for as many of
    /// them as the ring serves, each reads its even part, and the rest arrives over the ring while
    /// they work. Hardware without such a figure reads for every core.
    ///
    /// **Law**: what was served stays so.
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

    /// So many cores that need the same bursts, and some more that only they read.
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
        let card = Hardware::card_preset();
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
        let card = Hardware::card_preset();
        // 1280 bytes arrive in ten cycles, below four bursts of memory or under a longer time of the PT.
        let core = |macs| CoreWork { ring_in: 1280, macs, ..CoreWork::default() };
        let cycles = |core| {
            card.operation_latency(&OperationWork::uniform_cores("x", WorkKind::Matmul, 1, core))
        };
        assert_eq!((cycles(core(0)).cycles, cycles(core(0)).cores[0].ring_in), (10, 10));
        assert_eq!(cycles(core(760 * 10)).cycles, 10);
        assert_eq!(cycles(core(760 * 20)).cycles, 20);
    }
}
