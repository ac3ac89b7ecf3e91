//! The plan between all ranks as loop nests, and the blocks of one rank in them.

use crate::error::{ReshardError, Result};
use crate::sharded::ShardedLayout;
use zellige_movement::{CopyLoop, CopyNest, MovePlan, PaddingFill};

/// The largest number of listed starts, which replace loops that do not determine a rank.
// A start takes 32 bytes and its place in a second list, so four million of them are about 160 MB.
// Regular shardings have a few starts; only irregular ones are listed.
pub(crate) const MAX_STARTS: usize = 1 << 22;

/// One step of a loop, or the start of a nest: ranks and addresses on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankStep {
    pub(crate) src_rank: i64,
    pub(crate) src: i64,
    pub(crate) dst_rank: i64,
    pub(crate) dst: i64,
}

impl RankStep {
    fn plus_steps(self, times: i64, step: RankStep) -> RankStep {
        RankStep {
            src_rank: self.src_rank + times * step.src_rank,
            src: self.src + times * step.src,
            dst_rank: self.dst_rank + times * step.dst_rank,
            dst: self.dst + times * step.dst,
        }
    }

    pub(crate) fn rank_on(&self, side: ReshardSide) -> i64 {
        match side {
            ReshardSide::Src => self.src_rank,
            ReshardSide::Dst => self.dst_rank,
        }
    }
}

/// The source or the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReshardSide {
    Src,
    Dst,
}

/// A loop that changes the rank of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankLoop {
    pub(crate) range: i64,
    pub(crate) step: RankStep,
}

/// Blocks of one form: every start with every combination of the steps of `outer` is the block of a
/// pair of ranks, and `inner` enumerates its elements.
///
/// **Invariant**: for each side the steps of `outer` that change its rank are digits of it, so that a start and a rank fix them.
#[derive(Debug)]
pub(crate) struct RankNest {
    pub(crate) outer: Vec<RankLoop>,
    pub(crate) inner: Vec<CopyLoop>,
    /// By increasing rank of the receiver.
    pub(crate) starts: Vec<RankStep>,
    /// The starts by rank of the sender.
    by_src: Vec<usize>,
    /// The number of elements of a block.
    pub(crate) block: i64,
}

/// A start of a nest from which a rank is reached, with the steps of the loops that the rank fixes;
/// the others are 0.
#[derive(Debug, Clone)]
pub(crate) struct ReachedStart {
    pub(crate) nest: usize,
    pub(crate) start: usize,
    pub(crate) steps: Vec<i64>,
}

/// Plans the nests of a pair of shardings, for the first copy of each part.
pub(crate) fn plan_rank_nests(
    src: &ShardedLayout,
    dst: &ShardedLayout,
    shape: &[i64],
) -> Result<Vec<RankNest>> {
    // The layout of a chunked tensor is that of a longer one, so its addresses would name elements
    // that do not exist.
    if src.chunked_tensor().is_some() || dst.chunked_tensor().is_some() {
        src.check_shape(shape)?;
        dst.check_shape(shape)?;
        return crate::overlap::overlap_rank_nests(src, dst, shape);
    }
    let ((from, src_unit), (to, dst_unit)) =
        (src.with_ranks_in_addresses()?, dst.with_ranks_in_addresses()?);
    let plan = MovePlan::between(&from, &to, shape, PaddingFill::Leave)?;
    let split = |a: i64, b: i64| {
        // Addresses inside of shards and steps between them are less than half a unit. Rounded to
        // the nearest multiple and not down, because a step inside of a shard may be negative.
        let rank = |x: i64, unit: i64| x.saturating_add(unit / 2).div_euclid(unit);
        let (src_rank, dst_rank) = (rank(a, src_unit), rank(b, dst_unit));
        RankStep { src_rank, src: a - src_rank * src_unit, dst_rank, dst: b - dst_rank * dst_unit }
    };
    plan.nests().iter().map(|nest| RankNest::new(nest, &split)).collect()
}

impl RankNest {
    fn new(nest: &CopyNest, split: &impl Fn(i64, i64) -> RankStep) -> Result<RankNest> {
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for l in &nest.loops {
            let step = split(l.src, l.dst);
            // A loop that moves no rank runs inside of one pair of shards: it belongs to the block.
            if step.src_rank == 0 && step.dst_rank == 0 {
                inner.push(*l);
            } else {
                outer.push(RankLoop { range: l.range, step });
            }
        }
        let mut starts: Vec<RankStep> = nest.starts.iter().map(|(a, b)| split(*a, *b)).collect();
        for side in [ReshardSide::Src, ReshardSide::Dst] {
            // Listing the steps of one loop removes it, and the rank fixes what is left. Everything
            // else relies on this: a rank has to know its blocks without a search.
            while let Some(k) = find_entangled_loop(&outer, side) {
                let RankLoop { range, step } = outer.remove(k);
                let many = usize::try_from(range).ok().and_then(|n| n.checked_mul(starts.len()));
                if many.is_none_or(|n| n > MAX_STARTS) {
                    let limit = MAX_STARTS as u64;
                    return Err(ReshardError::TooLarge { what: "scattered blocks", limit });
                }
                starts = starts
                    .iter()
                    .flat_map(|s| (0..range).map(move |i| s.plus_steps(i, step)))
                    .collect();
            }
        }
        Ok(RankNest { outer, ..RankNest::from_listed_starts(inner, starts) })
    }

    /// Blocks without outer loops: one for every start.
    pub(crate) fn from_listed_starts(inner: Vec<CopyLoop>, mut starts: Vec<RankStep>) -> RankNest {
        // One order for all processes: each computes the plan for itself, and messages are packed
        // in this order.
        starts.sort_by_key(|s| (s.dst_rank, s.src_rank, s.dst));
        let mut by_src: Vec<usize> = (0..starts.len()).collect();
        by_src.sort_by_key(|i| starts[*i].src_rank);
        let block = inner.iter().map(|l| l.range).product();
        RankNest { outer: Vec::new(), inner, starts, by_src, block }
    }

    /// Appends every start from which a rank is reached.
    pub(crate) fn find_starts(
        &self,
        nest: usize,
        side: ReshardSide,
        rank: i64,
        out: &mut Vec<ReachedStart>,
    ) {
        let (mut down, mut up) = (0, 0);
        for l in &self.outer {
            let reach = (l.range - 1) * l.step.rank_on(side);
            (down, up) = (down + reach.min(0), up + reach.max(0));
        }
        // A start can only reach the rank from this window, which a binary search finds in the
        // sorted lists.
        let (low, high) = (rank - up, rank - down);
        let count = self.starts.len();
        let at = |k: usize| if side == ReshardSide::Src { self.by_src[k] } else { k };
        let mut k = partition_index(count, |k| self.starts[at(k)].rank_on(side) < low);
        let first = out.len();
        while k < count && self.starts[at(k)].rank_on(side) <= high {
            let start = at(k);
            if let Some(steps) =
                self.steps_to_rank(side, rank - self.starts[start].rank_on(side) - down)
            {
                out.push(ReachedStart { nest, start, steps });
            }
            k += 1;
        }
        // By start on both sides, so that the receiver and the sender number the blocks alike.
        out[first..].sort_by_key(|f| f.start);
    }

    /// The steps that reach a rank, given its distance from the lowest rank of the nest.
    fn steps_to_rank(&self, side: ReshardSide, mut rest: i64) -> Option<Vec<i64>> {
        let mut steps = vec![0; self.outer.len()];
        // The steps are digits of the rank, so dividing by the largest first gives the only
        // combination there is.
        for k in loops_by_step(&self.outer, side) {
            let RankLoop { range, step } = self.outer[k];
            let by = step.rank_on(side);
            let count = (rest / by.abs()).min(range - 1);
            rest -= count * by.abs();
            steps[k] = if by > 0 { count } else { range - 1 - count };
        }
        (rest == 0).then_some(steps)
    }

    /// The loops that a rank of this side does not fix; they enumerate its peers.
    pub(crate) fn free_loops(&self, side: ReshardSide) -> impl Iterator<Item = usize> + '_ {
        (0..self.outer.len()).filter(move |k| self.outer[*k].step.rank_on(side) == 0)
    }

    /// The beginning of the block of these steps.
    pub(crate) fn block_begin(&self, start: usize, steps: &[i64]) -> RankStep {
        let begin = self.starts[start];
        self.outer.iter().zip(steps).fold(begin, |at, (l, n)| at.plus_steps(*n, l.step))
    }

    /// The number of blocks that the free loops of a side enumerate.
    pub(crate) fn free_block_count(&self, side: ReshardSide) -> i64 {
        self.free_loops(side).map(|k| self.outer[k].range).product()
    }
}

/// The loops that change the rank of a side, sorted by decreasing step.
fn loops_by_step(outer: &[RankLoop], side: ReshardSide) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..outer.len()).filter(|k| outer[*k].step.rank_on(side) != 0).collect();
    order.sort_by_key(|k| std::cmp::Reverse(outer[*k].step.rank_on(side).abs()));
    order
}

/// Finds a loop whose step can also be reached by loops of smaller steps, so that a rank does not
/// determine the steps; returns the shorter of the two loops.
fn find_entangled_loop(outer: &[RankLoop], side: ReshardSide) -> Option<usize> {
    let mut reach = 0;
    let mut below: Option<usize> = None;
    for k in loops_by_step(outer, side).into_iter().rev() {
        let by = outer[k].step.rank_on(side).abs();
        if by <= reach {
            // The shorter of the two, because every step of the listed loop becomes a start.
            return below.filter(|b| outer[*b].range < outer[k].range).or(Some(k));
        }
        reach += (outer[k].range - 1) * by;
        below = Some(k);
    }
    None
}

/// The first index for which a predicate fails that holds for a prefix.
fn partition_index(count: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Advances to the next combination of the steps of `loops`, the last one fastest; returns false
/// after the last combination.
pub(crate) fn advance_steps(
    steps: &mut [i64],
    loops: &[usize],
    range: impl Fn(usize) -> i64,
) -> bool {
    for k in loops.iter().rev() {
        steps[*k] += 1;
        if steps[*k] < range(*k) {
            return true;
        }
        steps[*k] = 0;
    }
    false
}
