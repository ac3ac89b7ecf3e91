//! The ledger of a core: the work of each operation.

use super::access::{IndexReads, KtirAccessRuns, KtirByteSpace};
use crate::op::{KtirCostClass, KtirOpKind};
use crate::types::KtirElem;
use std::collections::BTreeMap;
use zellige_machine::CycleModel;
use zellige_machine::account::{CoreWork, RingMove};

/// The cost of one operation.
#[derive(Debug, Clone)]
pub(super) struct KtirOpCost {
    pub(super) name: &'static str,
    pub(super) work: CoreWork,
    pub(super) groups: Vec<KtirRingSend>,
}

/// Bytes sent to a group of cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct KtirRingSend {
    pub(super) bytes: u64,
    pub(super) group: u64,
}

#[derive(Debug)]
pub(super) struct KtirCoreLedger {
    pub(super) work: CoreWork,
    /// Elements of integer operations, which `work` counts together with those of floats.
    pub(super) ints: u64,
    /// The model whose counts are kept.
    model: CycleModel,
    pub(super) sent: Vec<KtirRingSend>,
    /// Sticks touched by loads and stores, counted per operation.
    // The same stick counts again in the next operation: upstream's model charges the unique sticks
    // of one load or store, because nothing is known to stay in a cache between two.
    sticks: u64,
    /// The largest number of recorded events.
    traced: usize,
    pub(super) events: Vec<KtirOpCost>,
    now: Option<KtirOpCost>,
    /// Bytes by which the lists have grown since they were last charged.
    grown: u64,
}

impl KtirCoreLedger {
    pub(super) fn new(traced: usize, model: CycleModel) -> KtirCoreLedger {
        let work = CoreWork { unique_sticks: Some(0), ..CoreWork::default() };
        let (sent, events) = (Vec::new(), Vec::new());
        KtirCoreLedger {
            work,
            ints: 0,
            model,
            sent,
            sticks: 0,
            traced,
            events,
            now: None,
            grown: 0,
        }
    }

    /// Begins an operation.
    pub(super) fn begin_op(&mut self, name: &'static str) {
        // Events beyond the limit are not even collected: a loop of 10^9 rounds would fill the
        // memory of the host.
        if self.events.len() < self.traced {
            let work = CoreWork { unique_sticks: Some(0), ..CoreWork::default() };
            self.now = Some(KtirOpCost { name, work, groups: Vec::new() });
        }
    }

    /// Ends an operation; one without cost leaves no event.
    pub(super) fn end_op(&mut self) {
        if let Some(spent) = self.now.take()
            && (!spent.work.is_idle() || !spent.groups.is_empty())
        {
            self.grown += size_of::<KtirOpCost>() as u64;
            self.events.push(spent);
        }
    }

    /// Returns the bytes by which the lists have grown since the last call.
    pub(super) fn take_grown_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.grown)
    }

    fn update_works(&mut self, f: impl Fn(&mut CoreWork)) {
        f(&mut self.work);
        if let Some(now) = &mut self.now {
            f(&mut now.work);
        }
    }

    pub(super) fn record_peak(&mut self, used: u64) {
        self.work.lx_peak = self.work.lx_peak.max(used);
    }

    /// Records the elements of an operation; `scalar` if no operand is a tile.
    pub(super) fn record_elements(&mut self, kind: KtirOpKind, n: usize, scalar: bool) {
        let n = n as u64;
        // Integers on scalars are addresses and counters, which cost no cycles of the vector unit. The emulator goes by
        // the number of elements, so that a tile of one integer is free too.
        let free = match self.model {
            CycleModel::Ktir => n <= 1,
            CycleModel::Card => scalar,
        };
        match kind.class_in(self.model) {
            KtirCostClass::Float => self.update_works(|w| w.sfu += n),
            KtirCostClass::Int if !free => {
                self.ints += n;
                self.update_works(|w| w.sfu += n);
            }
            KtirCostClass::Transcendental => self.update_works(|w| w.sfu_transcendental += n),
            _ => {}
        }
    }

    /// Records an operation of a body on `n` points, whose result takes as many values as `distinct` says: the
    /// emulator computes a value that depends on some of the loops once for each point of those.
    pub(super) fn record_body_elements(
        &mut self,
        kind: KtirOpKind,
        n: usize,
        distinct: impl FnOnce() -> usize,
    ) {
        let n = if self.model == CycleModel::Ktir { distinct() } else { n };
        self.record_elements(kind, n, false);
    }

    /// Records a `linalg.generic` of `n` results: the emulator charges it as a float operation beside its body.
    pub(super) fn record_generic(&mut self, n: usize) {
        if self.model == CycleModel::Ktir {
            self.update_works(|w| w.sfu += n as u64);
        }
    }

    /// Records multiply-adds, and how many of them the emulator charges: of a product of batches it takes the first
    /// three sizes for those of a matrix product.
    pub(super) fn record_product(&mut self, macs: u64, charged: u64) {
        let n = if self.model == CycleModel::Ktir { charged } else { macs };
        self.update_works(|w| {
            w.macs = w.macs.saturating_add(n);
            // A kernel's tiles have no padding that the interpreter knows of, so all products count
            // as useful.
            w.macs_valid = w.macs_valid.saturating_add(n);
        });
    }

    pub(super) fn record_lx_bytes(&mut self, bytes: u64) {
        self.update_works(|w| w.lx_bytes = w.lx_bytes.saturating_add(bytes));
    }

    pub(super) fn record_send(&mut self, bytes: u64, group: usize) {
        let sent = KtirRingSend { bytes, group: group as u64 };
        // Each becomes a ring move in the outcome.
        self.grown += (size_of::<KtirRingSend>() + size_of::<RingMove>()) as u64;
        self.sent.push(sent);
        if let Some(now) = &mut self.now {
            now.groups.push(sent);
        }
    }

    /// Records a load or store.
    pub(super) fn record_transfer(
        &mut self,
        runs: &KtirAccessRuns,
        size: usize,
        write: bool,
        core: usize,
        cores: usize,
    ) {
        let bytes = (runs.len * size) as u64;
        // Sticks that several partitions share are charged to each of them: they are loaded one after the other.
        let mut spans: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
        for (i, (place, at)) in runs.runs.iter().enumerate() {
            if bytes == 0 {
                break;
            }
            match place {
                KtirByteSpace::Global => {
                    // Memory is charged in sticks of 128 bytes; a run that begins inside of one
                    // touches it all the same.
                    let last = at + i64::try_from(bytes).unwrap_or(1) - 1;
                    let part = runs.parts.get(i).copied().unwrap_or(0);
                    let of = spans.entry(part).or_default();
                    of.push((at.div_euclid(128), last.div_euclid(128)));
                }
                KtirByteSpace::Pad(other) => self.record_pad_run(*other, bytes, core, cores),
                KtirByteSpace::Nowhere => {}
            }
        }
        let count = spans.values().map(|of| of.len() as u64).sum();
        let sticks = spans.values_mut().map(count_merged_sticks).sum();
        self.record_global_bursts(bytes, count, write);
        self.record_sticks(sticks);
        // Index views are read on the way even when the access itself is a store.
        for IndexReads { elem, reads } in &runs.index {
            self.record_index_reads(&mut reads.clone(), *elem, core, cores);
        }
    }

    /// Records accesses of consecutive bytes of memory.
    pub(super) fn record_global_bursts(&mut self, bytes: u64, count: u64, write: bool) {
        if bytes == 0 || count == 0 {
            return;
        }
        self.update_works(|w| {
            let traffic = if write { &mut w.writes } else { &mut w.reads };
            traffic.add_bursts(bytes, count);
        });
    }

    /// Records an access of a scratchpad.
    pub(super) fn record_pad_run(&mut self, other: usize, bytes: u64, core: usize, cores: usize) {
        self.update_works(|w| w.lx_bytes = w.lx_bytes.saturating_add(bytes));
        // The emulator takes the scratchpads of other cores for its own.
        if other != core && self.model == CycleModel::Card {
            // The ring can be used in both directions, so the shorter way counts.
            let apart = core.abs_diff(other);
            let hops = apart.min(cores.saturating_sub(apart)) as u64;
            self.grown += 2 * size_of::<RingMove>() as u64;
            self.update_works(|w| w.ring.push(RingMove { bytes, hops }));
        }
    }

    /// Records the sticks of an access.
    pub(super) fn record_sticks(&mut self, sticks: u64) {
        self.sticks += sticks;
        self.update_works(|w| w.unique_sticks = w.unique_sticks.map(|n| n + sticks));
    }

    /// Records the elements of an index view that an access reads: each once, and sticks for each subscript by itself.
    pub(super) fn record_index_reads(
        &mut self,
        reads: &mut Vec<(KtirByteSpace, i64)>,
        elem: KtirElem,
        core: usize,
        cores: usize,
    ) {
        reads.sort_unstable();
        reads.dedup();
        let bytes = elem.byte_size() as u64;
        let mut spans = Vec::with_capacity(reads.len());
        for (place, at) in reads.iter() {
            match place {
                KtirByteSpace::Global => {
                    let last = at + i64::try_from(bytes).unwrap_or(1) - 1;
                    spans.push((at.div_euclid(128), last.div_euclid(128)));
                }
                KtirByteSpace::Pad(other) => self.record_pad_run(*other, bytes, core, cores),
                KtirByteSpace::Nowhere => {}
            }
        }
        self.record_global_bursts(bytes, spans.len() as u64, false);
        self.record_sticks(count_merged_sticks(&mut spans));
    }
}

/// The number of sticks of some ranges, each once; the list is empty afterwards.
pub(super) fn count_merged_sticks(spans: &mut Vec<(i64, i64)>) -> u64 {
    // Rows of a box arrive in increasing order already; only gathers have to be sorted.
    if !spans.is_sorted() {
        spans.sort_unstable();
    }
    let (mut sticks, mut upto) = (0, i64::MIN);
    for (first, last) in spans.drain(..) {
        // Neighbouring rows can share a stick, which is counted once.
        let from = first.max(upto.saturating_add(1));
        sticks += u64::try_from(last - from + 1).unwrap_or(0);
        upto = upto.max(last);
    }
    sticks
}
