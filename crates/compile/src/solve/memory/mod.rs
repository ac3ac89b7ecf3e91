//! Memory plans: where buffers live while they live, in a scratchpad or in a segment of memory.
//!
//! A buffer lives from its first use to its last. Two that live at the same time share no byte, with one
//! exception: a buffer may be written over a *parent* that dies where it begins. What finds no
//! place is **spilled**: it stays in device memory.
//!
//! | file | holds |
//! |---|---|
//! | `request` | buffers and their rules, checked |
//! | `greedy` | in the order of time |
//! | `fit` | in the order of worth: first gap, or tightest |
//! | `bound` | what every plan spills at least |
//! | `pack` | whether a set of buffers fits at all |
//! | `exact` | the fewest spilled bytes |
//! | `pool` | device memory, where nothing may be spilled |
//! | `check` | the independent check |
//!
//! ```
//! use zellige_compile::solve::memory::{LiveBuffer, MemoryRequest, PlacementPolicy, plan_memory};
//! let buffer = |name: &str, size, uses: &[u64]| LiveBuffer::new(name, size, uses);
//! let request = MemoryRequest::new(50, 1, vec![
//!     buffer("a", 10, &[0, 3]), buffer("b", 20, &[0, 3]), buffer("c", 30, &[0, 3]),
//! ])?;
//! let first = plan_memory(&request, PlacementPolicy::FirstFit);
//! assert_eq!(first.addresses, [Some(0), Some(10), None]);
//! let exact = plan_memory(&request, PlacementPolicy::Exact);
//! assert_eq!((exact.spilled_bytes(&request), exact.is_optimal(&request)), (10, true));
//! # Ok::<(), zellige_compile::CompileError>(())
//! ```

mod bound;
mod check;
mod exact;
mod fit;
mod greedy;
mod pack;
mod pool;
mod request;

pub use check::check_memory_plan;
pub use pool::plan_pool;
pub use request::{LiveBuffer, MemoryRequest};

use zellige_machine::{Hardware, Key};

/// The part of every scratchpad that the backend keeps unless the options say otherwise: torch-spyre's
/// `DXP_LX_FRAC_AVAIL`.
pub const LX_RESERVED: f64 = 0.2;

/// Bytes of a core's scratchpad that plans may use: all but the part that the backend keeps, between 0
/// and 1.
#[expect(clippy::cast_possible_truncation, reason = "a part of the size, in whole bytes")]
pub fn lx_limit(hardware: &Hardware, reserved: f64) -> u64 {
    let size = hardware.figure_count(Key::LxSize);
    size.saturating_sub((size as f64 * reserved).ceil() as u64)
}

/// How buffers are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementPolicy {
    /// In the order of time, above what is there.
    Greedy,
    /// The most worthwhile first, each in the lowest gap.
    FirstFit,
    /// The most worthwhile first, each in the tightest gap.
    BestFit,
    /// The fewest spilled bytes.
    Exact,
}

impl PlacementPolicy {
    /// Every policy.
    pub const ALL: [PlacementPolicy; 4] = [
        PlacementPolicy::Greedy,
        PlacementPolicy::FirstFit,
        PlacementPolicy::BestFit,
        PlacementPolicy::Exact,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PlacementPolicy::Greedy => "greedy",
            PlacementPolicy::FirstFit => "first_fit",
            PlacementPolicy::BestFit => "best_fit",
            PlacementPolicy::Exact => "exact",
        }
    }

    /// The policy of that name; `firstfit` and `first-fit` are `first_fit`. The names that every other
    /// choice goes by are known too: `baseline` is `first_fit` and `best` is `exact`.
    pub fn from_name(name: &str) -> Option<PlacementPolicy> {
        let plain = |s: &str| s.replace(['_', '-'], "");
        match name {
            "baseline" => Some(PlacementPolicy::FirstFit),
            "best" => Some(PlacementPolicy::Exact),
            _ => PlacementPolicy::ALL.into_iter().find(|p| plain(p.name()) == plain(name)),
        }
    }
}

/// Where every buffer lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Of every buffer in the order of the request; none is spilled.
    pub addresses: Vec<Option<u64>>,
    /// What every plan of this request spills at least, in bytes.
    pub bound: u64,
}

impl MemoryPlan {
    /// The buffers without a place.
    pub fn spilled_buffers<'r>(
        &self,
        request: &'r MemoryRequest,
    ) -> impl Iterator<Item = &'r LiveBuffer> {
        let list = request.buffers().iter().zip(self.addresses.clone());
        list.filter(|(_, a)| a.is_none()).map(|(b, _)| b)
    }

    /// Their bytes.
    pub fn spilled_bytes(&self, request: &MemoryRequest) -> u64 {
        self.spilled_buffers(request).map(|b| b.size).sum()
    }

    /// Whether no plan spills fewer bytes, as far as was proved.
    pub fn is_optimal(&self, request: &MemoryRequest) -> bool {
        self.spilled_bytes(request) <= self.bound
    }

    /// One more than the highest byte in use.
    pub fn peak_bytes(&self, request: &MemoryRequest) -> u64 {
        let list = request.buffers().iter().zip(&self.addresses);
        list.filter_map(|(b, a)| a.map(|a| a + b.size)).max().unwrap_or(0)
    }
}

/// Places the buffers of a request.
///
/// **Law**: [`check_memory_plan`] accepts the answer, and its bound is below what any accepted plan spills.
pub fn plan_memory(request: &MemoryRequest, policy: PlacementPolicy) -> MemoryPlan {
    let addresses = match policy {
        PlacementPolicy::Greedy => greedy::place_greedily(request),
        PlacementPolicy::FirstFit => {
            fit::fit_in_gaps(request, &fit::order_by_worth(request), fit::GapPolicy::First)
        }
        PlacementPolicy::BestFit => {
            fit::fit_in_gaps(request, &fit::order_by_worth(request), fit::GapPolicy::Tightest)
        }
        PlacementPolicy::Exact => return exact::plan_exactly(request),
    };
    MemoryPlan { addresses, bound: bound::total_spill_bound(request) }
}
