//! Counts of the work of an operation on each core. They do not depend on a hardware preset, which turns them into times.

use super::exchange::ExchangeWork;
use super::product::ProductTile;
use super::shared::SharedReads;
use serde::Serialize;
use smallvec::SmallVec;

/// Accesses of device memory as a histogram: the number of bursts of each length.
///
/// **Invariant**: lengths are increasing, and neither a length nor a count is 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct MemoryTraffic(SmallVec<[MemoryBurst; 2]>);

/// Accesses of the same number of consecutive bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryBurst {
    /// The bytes of one access.
    pub bytes: u64,
    /// The number of accesses.
    pub count: u64,
}

impl MemoryTraffic {
    /// No traffic.
    pub fn new() -> MemoryTraffic {
        MemoryTraffic::default()
    }

    /// `count` bursts of `bytes` each.
    pub fn from_bursts(bytes: u64, count: u64) -> MemoryTraffic {
        let mut traffic = MemoryTraffic::new();
        traffic.add_bursts(bytes, count);
        traffic
    }

    /// Adds `count` bursts of `bytes` each. Entries are sorted by length, one entry per length, so the result does
    /// not depend on the order of additions.
    pub fn add_bursts(&mut self, bytes: u64, count: u64) {
        if bytes == 0 || count == 0 {
            return;
        }
        match self.0.binary_search_by_key(&bytes, |burst| burst.bytes) {
            Ok(at) => self.0[at].count = self.0[at].count.saturating_add(count),
            Err(at) => self.0.insert(at, MemoryBurst { bytes, count }),
        }
    }

    /// Adds the bursts of another traffic.
    pub fn merge_traffic(&mut self, other: &MemoryTraffic) {
        other.0.iter().for_each(|b| self.add_bursts(b.bytes, b.count));
    }

    /// The traffic minus the bursts of another. Where the other has more bursts of a length, none remain.
    #[must_use]
    pub fn without_bursts(&self, other: &MemoryTraffic) -> MemoryTraffic {
        let mut left = MemoryTraffic::new();
        for b in &self.0 {
            let gone = other.0.iter().find(|o| o.bytes == b.bytes).map_or(0, |o| o.count);
            left.add_bursts(b.bytes, b.count.saturating_sub(gone));
        }
        left
    }

    /// The traffic minus the bursts of another; none if the other has more bursts of a length.
    pub fn checked_subtract(&self, other: &MemoryTraffic) -> Option<MemoryTraffic> {
        let mut left = self.clone();
        for burst in &other.0 {
            let at = left.0.binary_search_by_key(&burst.bytes, |b| b.bytes).ok()?;
            left.0[at].count = left.0[at].count.checked_sub(burst.count)?;
        }
        left.0.retain(|b| b.count > 0);
        Some(left)
    }

    /// The bursts in increasing order of length.
    pub fn bursts(&self) -> &[MemoryBurst] {
        &self.0
    }

    /// The bytes of all bursts.
    pub fn total_bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, b| sum.saturating_add(b.bytes.saturating_mul(b.count)))
    }
}

/// A message sent over the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RingMove {
    /// Bytes of the message.
    pub bytes: u64,
    /// The number of links that it crosses.
    pub hops: u64,
}

/// The work of one core.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CoreWork {
    /// Read from device memory.
    pub reads: MemoryTraffic,
    /// Written to device memory.
    pub writes: MemoryTraffic,
    /// The part of `reads` that other cores need as well.
    pub shared: SmallVec<[SharedReads; 2]>,
    /// Bytes that another core reads from memory for this one as well, and that arrive over the ring while this core
    /// works.
    pub ring_in: u64,
    /// The number of different sticks that the core accesses; none if it accesses no stick twice. The cycle model `ktir`
    /// charges each stick once; where this is none, it charges every access.
    pub unique_sticks: Option<u64>,
    /// Bytes of `reads` and `writes` that hold no element.
    pub padding_bytes: u64,
    /// Multiply-adds of the PT array, including those on padding.
    pub macs: u64,
    /// Multiply-adds without those on padding.
    pub macs_valid: u64,
    /// Plain element operations of the SFU.
    pub sfu: u64,
    /// Transcendental element operations of the SFU.
    pub sfu_transcendental: u64,
    /// Bytes read from and written to the scratchpad.
    pub lx_bytes: u64,
    /// The most bytes of the scratchpad in use at once.
    pub lx_peak: u64,
    /// Messages that this core sends.
    pub ring: SmallVec<[RingMove; 1]>,
    /// Bytes from the host.
    pub host_in: u64,
    /// Bytes to the host.
    pub host_out: u64,
    /// The part of a matrix product that this core computes. Presets with the section `product` derive its time from
    /// this; the counts above are still those of the kernel.
    #[serde(skip)]
    pub tile: Option<ProductTile>,
}

/// The product of the factors, or `u64::MAX` where it is larger; see [`CoreWork::is_countable`].
pub fn saturating_product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

impl CoreWork {
    /// Whether no count has reached `u64::MAX`. Sums and products saturate there, so a count of `u64::MAX` may stand for
    /// a larger number.
    pub fn is_countable(&self) -> bool {
        let counts = [
            self.reads.total_bytes(),
            self.writes.total_bytes(),
            self.padding_bytes,
            self.macs,
            self.macs_valid,
            self.sfu,
            self.sfu_transcendental,
            self.lx_bytes,
            self.ring_bytes(),
            self.ring_in,
        ];
        counts.iter().all(|n| *n < u64::MAX)
    }

    /// Whether the core does nothing that takes time.
    pub fn is_idle(&self) -> bool {
        self.reads.bursts().is_empty()
            && self.writes.bursts().is_empty()
            && self.ring.is_empty()
            && [self.macs, self.sfu, self.sfu_transcendental, self.lx_bytes].iter().all(|n| *n == 0)
            && self.ring_in == 0
            && self.host_in == 0
            && self.host_out == 0
    }

    fn core_totals(&self) -> WorkTotals {
        let sfu = self.sfu.saturating_add(self.sfu_transcendental);
        WorkTotals {
            bytes_in: self.reads.total_bytes(),
            bytes_out: self.writes.total_bytes(),
            padding_bytes: self.padding_bytes,
            macs: self.macs,
            macs_valid: self.macs_valid,
            sfu,
            flops: self.macs_valid.saturating_mul(2).saturating_add(sfu),
            lx_bytes: self.lx_bytes,
            lx_peak: self.lx_peak,
            ring_bytes: self.ring_bytes(),
            ring_in: self.ring_in,
            host_in: self.host_in,
            host_out: self.host_out,
            cores: usize::from(!self.is_idle()),
        }
    }

    /// Bytes of the messages that the core sends, counted once for every link that they cross.
    pub fn ring_bytes(&self) -> u64 {
        self.ring.iter().fold(0, |sum, m| sum.saturating_add(m.bytes.saturating_mul(m.hops)))
    }
}

/// The kind of an operation, as far as the time model distinguishes kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkKind {
    /// An operation on each element.
    Pointwise,
    /// A reduction along the stick dimension, within rows.
    RowReduction,
    /// A reduction across rows.
    CrossRowReduction,
    /// A matrix product.
    Matmul,
    /// A batch of matrix products on operands in the default layout.
    BatchMatmulDefault {
        /// The number of products.
        batch: u64,
    },
    /// A change of the stick dimension.
    Restickify,
    /// Any other move on the device.
    Copy,
    /// A copy between the scratchpads of two divisions of a tensor: it touches no device memory.
    Exchange(ExchangeWork),
    /// Host to device.
    Upload,
    /// Device to host.
    Download,
    /// An operation of the host: operands are downloaded, the host computes, results are uploaded.
    Fallback,
    /// Anything else.
    Other,
}

impl WorkKind {
    /// Whether it is a matrix product or a batch of them.
    pub fn is_product(self) -> bool {
        matches!(self, WorkKind::Matmul | WorkKind::BatchMatmulDefault { .. })
    }

    /// Whether the transfer engine does it, and no core.
    pub fn is_transfer(self) -> bool {
        matches!(self, WorkKind::Upload | WorkKind::Download | WorkKind::Fallback)
    }
}

/// The work of an operation: entry `i` of `cores` is the work of core `i`. A transfer has a single entry, the work of the
/// transfer engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationWork {
    /// The name of the operation.
    pub name: String,
    /// The kind of the operation.
    pub kind: WorkKind,
    /// The work of each core.
    pub cores: Vec<CoreWork>,
}

/// The work of all cores of an operation, or of several operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WorkTotals {
    /// Bytes read from device memory.
    pub bytes_in: u64,
    /// Bytes written to device memory.
    pub bytes_out: u64,
    /// Bytes of `bytes_in` and `bytes_out` that hold no element.
    pub padding_bytes: u64,
    /// Multiply-adds, including those on padding.
    pub macs: u64,
    /// Multiply-adds without those on padding.
    pub macs_valid: u64,
    /// Element operations, plain and transcendental.
    pub sfu: u64,
    /// Useful floating-point operations: two per valid multiply-add, one per element operation.
    pub flops: u64,
    /// Bytes of scratchpads read and written.
    pub lx_bytes: u64,
    /// The largest scratchpad use of a core.
    pub lx_peak: u64,
    /// Bytes of messages on the ring, counted once for every link that they cross.
    pub ring_bytes: u64,
    /// Bytes that arrived over the ring because another core had read them from memory.
    pub ring_in: u64,
    /// Bytes from the host.
    pub host_in: u64,
    /// Bytes to the host.
    pub host_out: u64,
    /// The number of cores that were not idle.
    pub cores: usize,
}

impl OperationWork {
    /// An operation from the work of each core.
    pub fn new(name: impl Into<String>, kind: WorkKind, cores: Vec<CoreWork>) -> OperationWork {
        OperationWork { name: name.into(), kind, cores }
    }

    /// An operation that `cores` cores share evenly.
    pub fn uniform_cores(
        name: impl Into<String>,
        kind: WorkKind,
        cores: usize,
        each: CoreWork,
    ) -> OperationWork {
        OperationWork { name: name.into(), kind, cores: vec![each; cores] }
    }

    /// The sums over all cores, saturating at `u64::MAX`.
    pub fn sum_over_cores(&self) -> WorkTotals {
        let mut t = WorkTotals::default();
        for core in &self.cores {
            t.add_totals(&core.core_totals());
        }
        t.cores = self.cores.iter().filter(|core| !core.is_idle()).count();
        t
    }
}

impl WorkTotals {
    /// Adds other totals. `lx_peak` and `cores` become the larger of both: the largest use of one scratchpad, and the most
    /// cores of one operation.
    pub fn add_totals(&mut self, other: &WorkTotals) {
        let sums = [
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.bytes_out, other.bytes_out),
            (&mut self.padding_bytes, other.padding_bytes),
            (&mut self.macs, other.macs),
            (&mut self.macs_valid, other.macs_valid),
            (&mut self.sfu, other.sfu),
            (&mut self.flops, other.flops),
            (&mut self.lx_bytes, other.lx_bytes),
            (&mut self.ring_bytes, other.ring_bytes),
            (&mut self.ring_in, other.ring_in),
            (&mut self.host_in, other.host_in),
            (&mut self.host_out, other.host_out),
        ];
        for (sum, n) in sums {
            *sum = sum.saturating_add(n);
        }
        self.lx_peak = self.lx_peak.max(other.lx_peak);
        self.cores = self.cores.max(other.cores);
    }

    /// The share of the memory traffic that holds no element; 0 where there is no traffic.
    pub fn padding_share(&self) -> f64 {
        let all = self.bytes_in.saturating_add(self.bytes_out);
        if all == 0 { 0.0 } else { self.padding_bytes as f64 / all as f64 }
    }
}
