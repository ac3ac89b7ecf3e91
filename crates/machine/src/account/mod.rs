//! What operations cost.
//!
//! [`OperationWork`] says what each core did: bursts of memory, multiply-adds, element operations, bytes of
//! scratchpad and ring. It comes from the plan of an operation and knows no hardware.
//! [`Hardware::operation_latency`] turns it into cycles with integers and exact fractions alone: the same
//! work on the same preset always takes the same time, on any machine and any number of host threads.
//!
//! # Cycles of a core
//! - **PT**: multiply-adds, padding included, over the sustained rate: that of a matmul, or of a
//!   batch matmul in the default layout from `pt.batch_matmul_from` matrices on. The model `ktir`
//!   takes two operations per multiply-add and the peak.
//! - **SFU**: element operations over the lanes of all corelets; a transcendental one counts
//!   `sfu.transcendental` times.
//! - **memory**: the cores in use share the bandwidth evenly, and a burst is charged in whole
//!   granules. The model `card` takes the longer of two times: issuing the bursts at the peak
//!   times the efficiency of their length (interpolated in the logarithm of the length), and
//!   moving the bytes at the sustained rate. That rate is `one_way`, for bytes matched by as many of the
//!   other direction `balanced`; a restickify and a reduction across rows have measured rates of
//!   their own, and a reduction within rows reaches the share of `reduction.derate` for its number
//!   of cores (linear between the points). The model `ktir` charges different sticks at the peak.
//! - **LX**: bytes over its bandwidth; the model `ktir` has none.
//! - **ring**: each message occupies every link that it crosses, one after the other. A reduction over
//!   a group of `g` cores sends `g - 1` hops, so it is charged by the size of the group.
//! - **ring in**: what several cores need alike is read once for up to `ring.multicast` of them
//!   ([`Hardware::share_ring_reads`]); each reads its even part, and the rest arrives over the ring. Only the bytes
//!   that a core takes in are charged, at the rate of one direction, and no hops: upstream's model
//!   has none either. The model `ktir` reads for every core.
//! - **host**: bytes in and out over the link, which transfers share as cores share memory.
//!
//! # A core and a kernel
//! - `card`: `max(PT + SFU, memory, LX, ring in, host) + ring`. Memory, scratchpad, what arrives and link stream while
//!   the units compute; PT and SFU work on the same tile one after the other; partial results travel when
//!   they are complete.
//! - `ktir`: `PT + SFU + max(memory, host) + ring`, nothing overlapped. That model has no host;
//!   a transfer streams through link and memory at once.
//!
//! - A preset with the section `product` charges products by terms that were fitted to measured kernels instead, on every
//!   core `fixed + first chunk + max(compute, rest of the reads) + partial sums + epilogue + write`; the head of
//!   `product.rs` says what each stands for.
//! - Other figures of such presets: `memory.few_cores`, the share of the rate that few cores reach where they stream tensors;
//!   `memory.fixed`, what a kernel takes that has no work; `memory.small_operand`, the balanced rate where a second operand
//!   is a row, a column or a number; `memory.exchange` and `memory.copy_runs`, rates of moves that keep sticks whole;
//!   `reduction.intake`, what a core takes in of a row reduction, from memory or from its scratchpad.
//!
//! - A copy between scratchpads ([`WorkKind::Exchange`]) has a law of its own, at the head of `exchange.rs`: its cores end
//!   together.
//!
//! A kernel takes as long as its slowest core. What the host takes to launch it ([`Hardware::launch_time`]) is
//! no part of that: programs add it for every wave of steps. None is published; that of the preset `card`
//! is fitted to the published times of a model, and says so.
//!
//! ```
//! use zellige_machine::account::{CoreWork, MemoryTraffic, OperationWork, WorkKind};
//! use zellige_machine::Hardware;
//! // Each of 32 cores adds 128 numbers of two bytes.
//! let each = CoreWork {
//!     reads: MemoryTraffic::from_bursts(256, 2),
//!     writes: MemoryTraffic::from_bursts(256, 1),
//!     sfu: 128,
//!     ..CoreWork::default()
//! };
//! let add = OperationWork::uniform_cores("add", WorkKind::Pointwise, 32, each);
//! assert_eq!(Hardware::ktir_preset().operation_latency(&add).cycles, 192 + 2);
//! assert_eq!(
//!     Hardware::ktir_preset().operation_cost(&add).to_string(),
//!     "194 ns, memory bound, 16.4 kB in, 8.19 kB out, 32 cores, padding 0.0%"
//! );
//! ```

mod exchange;
mod latency;
mod product;
mod shared;
mod terms;
mod work;

pub use exchange::{ExchangeCarrier, ExchangeCycles, ExchangeSide, ExchangeWork};
pub use latency::{Bottleneck, CoreCycles, OperationLatency};
pub use product::{BlockLimits, ProductCycles, ProductTile, TileOperand, plan_tile_passes};
pub use shared::SharedReads;
pub use terms::TimeTerm;
pub use work::saturating_product;
pub use work::{
    CoreWork, MemoryBurst, MemoryTraffic, OperationWork, RingMove, WorkKind, WorkTotals,
};

use crate::hardware::Hardware;
use crate::units;
use serde::Serialize;
use std::fmt;

/// What an operation moved and computed, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationCost {
    /// The operation.
    pub name: String,
    /// What it is.
    pub kind: WorkKind,
    /// All cores together.
    pub totals: WorkTotals,
    /// How long it takes, and why.
    pub latency: OperationLatency,
}

impl Hardware {
    /// What this work costs here.
    pub fn operation_cost(&self, work: &OperationWork) -> OperationCost {
        let work = self.share_ring_reads(work);
        let (name, kind) = (work.name.clone(), work.kind);
        OperationCost {
            name,
            kind,
            totals: work.sum_over_cores(),
            latency: self.operation_latency(&work),
        }
    }
}

impl fmt::Display for OperationCost {
    /// One line: time, what bounds it, bytes, cores, padding; and that the host did it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkTotals { bytes_in, bytes_out, host_in, host_out, ring_in, cores, .. } = self.totals;
        write!(f, "{}, {}", self.latency.time, self.latency.bottleneck)?;
        for (bytes, what) in [(host_in, "from the host"), (host_out, "to the host")] {
            if bytes > 0 {
                write!(f, ", {} {what}", units::DecimalBytes(bytes))?;
            }
        }
        let (input, output) = (units::DecimalBytes(bytes_in), units::DecimalBytes(bytes_out));
        write!(f, ", {input} in, {output} out")?;
        if ring_in > 0 {
            write!(f, ", {} over the ring", units::DecimalBytes(ring_in))?;
        }
        if host_in == 0 && host_out == 0 {
            write!(f, ", {cores} core{}", if cores == 1 { "" } else { "s" })?;
        }
        write!(f, ", padding {:.1}%", 100.0 * self.totals.padding_share())?;
        if self.kind == WorkKind::Fallback {
            write!(f, ", done by the host")?;
        }
        Ok(())
    }
}
