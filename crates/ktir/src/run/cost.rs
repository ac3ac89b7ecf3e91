//! The ledger of a core: the work of each operation.

use super::access::{KtirAccessRuns, KtirByteSpace};
use crate::op::KtirCostClass;
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

#[derive(Debug, Default)]
pub(super) struct KtirCoreLedger {
    pub(super) work: CoreWork,
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
    pub(super) fn new(traced: usize) -> KtirCoreLedger {
        let work = CoreWork { unique_sticks: Some(0), ..CoreWork::default() };
        KtirCoreLedger { work, traced, ..KtirCoreLedger::default() }
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
    pub(super) fn record_elements(&mut self, class: KtirCostClass, n: usize, scalar: bool) {
        let n = n as u64;
        match class {
            KtirCostClass::Float => self.update_works(|w| w.sfu += n),
            // Integers on scalars are addresses and counters, which cost no cycles of the vector
            // unit.
            KtirCostClass::Int if !scalar => self.update_works(|w| w.sfu += n),
            KtirCostClass::Transcendental => self.update_works(|w| w.sfu_transcendental += n),
            _ => {}
        }
    }

    pub(super) fn record_macs(&mut self, n: u64) {
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
        self.record_runs(&runs.runs, runs.len * size, write, core, cores);
        // Index views are read on the way even when the access itself is a store.
        self.record_runs(&runs.index, runs.index_size, false, core, cores);
    }

    fn record_runs(
        &mut self,
        runs: &[(KtirByteSpace, i64)],
        bytes: usize,
        write: bool,
        core: usize,
        cores: usize,
    ) {
        if runs.is_empty() || bytes == 0 {
            return;
        }
        let length = bytes as u64;
        let mut spans: Vec<(i64, i64)> = Vec::new();
        for (place, at) in runs {
            match place {
                KtirByteSpace::Global => {
                    // Memory is charged in sticks of 128 bytes; a run that begins inside of one
                    // touches it all the same.
                    let last = at + i64::try_from(bytes).unwrap_or(1) - 1;
                    spans.push((at.div_euclid(128), last.div_euclid(128)));
                }
                KtirByteSpace::Pad(other) => {
                    self.update_works(|w| w.lx_bytes = w.lx_bytes.saturating_add(length));
                    if *other != core {
                        // The ring can be used in both directions, so the shorter way counts.
                        let apart = core.abs_diff(*other);
                        let hops = apart.min(cores.saturating_sub(apart)) as u64;
                        self.grown += 2 * size_of::<RingMove>() as u64;
                        self.update_works(|w| w.ring.push(RingMove { bytes: length, hops }));
                    }
                }
            }
        }
        let count = spans.len() as u64;
        if count == 0 {
            return;
        }
        // Rows of a box arrive in increasing order already; only gathers have to be sorted.
        if !spans.is_sorted() {
            spans.sort_unstable();
        }
        let (mut sticks, mut upto) = (0, i64::MIN);
        for (first, last) in spans {
            // Neighbouring rows can share a stick, which is counted once.
            let from = first.max(upto.saturating_add(1));
            sticks += u64::try_from(last - from + 1).unwrap_or(0);
            upto = upto.max(last);
        }
        self.sticks += sticks;
        self.update_works(|w| {
            let traffic = if write { &mut w.writes } else { &mut w.reads };
            traffic.add_bursts(length, count);
            w.unique_sticks = w.unique_sticks.map(|n| n + sticks);
        });
    }
}
