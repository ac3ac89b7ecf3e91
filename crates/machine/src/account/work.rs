//! What an operation did, core by core, whatever the hardware.

use super::product::ProductTile;
use super::shared::SharedReads;
use serde::Serialize;
use smallvec::SmallVec;

/// Accesses of device memory: how many bursts of which length.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct MemoryTraffic(SmallVec<[MemoryBurst; 2]>);

/// Consecutive bytes accessed at once, so many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryBurst {
    /// Its length.
    pub bytes: u64,
    /// How often.
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

    /// Adds `count` bursts of `bytes` each. Bursts of one length are one entry, the order of lengths
    /// is fixed: the order of additions never shows.
    pub fn add_bursts(&mut self, bytes: u64, count: u64) {
        if bytes == 0 || count == 0 {
            return;
        }
        match self.0.binary_search_by_key(&bytes, |burst| burst.bytes) {
            Ok(at) => self.0[at].count = self.0[at].count.saturating_add(count),
            Err(at) => self.0.insert(at, MemoryBurst { bytes, count }),
        }
    }

    /// Adds all bursts of another.
    pub fn merge_traffic(&mut self, other: &MemoryTraffic) {
        other.0.iter().for_each(|b| self.add_bursts(b.bytes, b.count));
    }

    /// Without the bursts of another, as many of each length as there are.
    #[must_use]
    pub fn without_bursts(&self, other: &MemoryTraffic) -> MemoryTraffic {
        let mut left = MemoryTraffic::new();
        for b in &self.0 {
            let gone = other.0.iter().find(|o| o.bytes == b.bytes).map_or(0, |o| o.count);
            left.add_bursts(b.bytes, b.count.saturating_sub(gone));
        }
        left
    }

    /// What is left when the bursts of another are taken out; none where they are not all there.
    pub fn checked_subtract(&self, other: &MemoryTraffic) -> Option<MemoryTraffic> {
        let mut left = self.clone();
        for burst in &other.0 {
            let at = left.0.binary_search_by_key(&burst.bytes, |b| b.bytes).ok()?;
            left.0[at].count = left.0[at].count.checked_sub(burst.count)?;
        }
        left.0.retain(|b| b.count > 0);
        Some(left)
    }

    /// The bursts by length.
    pub fn bursts(&self) -> &[MemoryBurst] {
        &self.0
    }

    /// All bytes.
    pub fn total_bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, b| sum.saturating_add(b.bytes.saturating_mul(b.count)))
    }
}

/// Bytes sent over the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RingMove {
    /// Bytes of the message.
    pub bytes: u64,
    /// Links it crosses one after the other.
    pub hops: u64,
}

/// What one core did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CoreWork {
    /// Read from device memory.
    pub reads: MemoryTraffic,
    /// Written to device memory.
    pub writes: MemoryTraffic,
    /// Of the reads, those that other cores need too.
    pub shared: SmallVec<[SharedReads; 2]>,
    /// Bytes that arrive over the ring while the core works: read by a core that shares them.
    pub ring_in: u64,
    /// Different sticks among reads and writes, if some were accessed more than once. The model `ktir` charges
    /// these; without them, every access counts.
    pub unique_sticks: Option<u64>,
    /// Bytes among reads and writes that hold no element.
    pub padding_bytes: u64,
    /// Multiply-adds of the PT array, those on padding too.
    pub macs: u64,
    /// Multiply-adds on elements.
    pub macs_valid: u64,
    /// Plain element operations of the SFU.
    pub sfu: u64,
    /// Transcendental element operations of the SFU.
    pub sfu_transcendental: u64,
    /// Bytes read from and written to the scratchpad.
    pub lx_bytes: u64,
    /// The most bytes of the scratchpad in use at once.
    pub lx_peak: u64,
    /// Messages this core sent.
    pub ring: SmallVec<[RingMove; 1]>,
    /// Bytes from the host.
    pub host_in: u64,
    /// Bytes to the host.
    pub host_out: u64,
    /// Of a product, the part of it that this core has. Presets with the section `product` charge it; the counts
    /// above stay what the kernel does.
    #[serde(skip)]
    pub tile: Option<ProductTile>,
}

/// A product that ends at the largest number of 64 bits; see [`CoreWork::is_countable`].
pub fn saturating_product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

impl CoreWork {
    /// Whether everything that it counts is below the largest number of 64 bits, at which sums and
    /// products end: a count that is there may have been more.
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

    /// Whether it did nothing that takes time.
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

    /// Bytes of its messages, each counted on every link it crosses.
    pub fn ring_bytes(&self) -> u64 {
        self.ring.iter().fold(0, |sum, m| sum.saturating_add(m.bytes.saturating_mul(m.hops)))
    }
}

/// What an operation is, as far as figures of hardware tell operations apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkKind {
    /// Element by element.
    Pointwise,
    /// A reduction within rows, along sticks.
    RowReduction,
    /// A reduction across rows.
    CrossRowReduction,
    /// A matrix product.
    Matmul,
    /// Many matrix products on operands in the default layout.
    BatchMatmulDefault {
        /// How many.
        batch: u64,
    },
    /// A change of the stick dimension.
    Restickify,
    /// Any other move on the device.
    Copy,
    /// Host to device.
    Upload,
    /// Device to host.
    Download,
    /// Done by the host: down, computed there, up again.
    Fallback,
    /// Anything else.
    Other,
}

impl WorkKind {
    /// Whether it is one matrix product or many.
    pub fn is_product(self) -> bool {
        matches!(self, WorkKind::Matmul | WorkKind::BatchMatmulDefault { .. })
    }

    /// Whether the transfer engine does it and no core.
    pub fn is_transfer(self) -> bool {
        matches!(self, WorkKind::Upload | WorkKind::Download | WorkKind::Fallback)
    }
}

/// An operation: its name, its kind, and what each core did; entry `i` is core `i`. Of a transfer,
/// the single entry is the transfer engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationWork {
    /// What to call it.
    pub name: String,
    /// What it is.
    pub kind: WorkKind,
    /// What each core did.
    pub cores: Vec<CoreWork>,
}

/// All cores together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WorkTotals {
    /// Bytes read from device memory.
    pub bytes_in: u64,
    /// Bytes written to device memory.
    pub bytes_out: u64,
    /// Bytes among them that hold no element.
    pub padding_bytes: u64,
    /// Multiply-adds, those on padding too.
    pub macs: u64,
    /// Multiply-adds on elements.
    pub macs_valid: u64,
    /// Element operations, plain and transcendental.
    pub sfu: u64,
    /// Useful floating-point operations: two per valid multiply-add, one per element operation.
    pub flops: u64,
    /// Bytes of scratchpads read and written.
    pub lx_bytes: u64,
    /// The largest scratchpad use of a core.
    pub lx_peak: u64,
    /// Bytes over links of the ring.
    pub ring_bytes: u64,
    /// Bytes that arrived over the ring and were read for another core too.
    pub ring_in: u64,
    /// Bytes from the host.
    pub host_in: u64,
    /// Bytes to the host.
    pub host_out: u64,
    /// Cores that did something.
    pub cores: usize,
}

impl OperationWork {
    /// An operation by what each core did.
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

    /// All cores together; sums end at the largest number of 64 bits.
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
    /// Adds another's numbers, of the scratchpad and of cores the larger one.
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

    /// The share of memory traffic that holds no element.
    pub fn padding_share(&self) -> f64 {
        let all = self.bytes_in.saturating_add(self.bytes_out);
        if all == 0 { 0.0 } else { self.padding_bytes as f64 / all as f64 }
    }
}
