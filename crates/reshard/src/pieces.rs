//! The plan between all ranks as loop nests, and what one rank finds in them.

use crate::error::{Error, Result};
use crate::sharded::Sharded;
use zellige_movement::{Fill, Loop, Nest, Plan};

/// Starts that are listed where loops cannot tell ranks apart.
pub(crate) const MAX_STARTS: usize = 1 << 22;

/// One step of a loop, or where a nest begins: ranks and addresses on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) src_rank: i64,
    pub(crate) src: i64,
    pub(crate) dst_rank: i64,
    pub(crate) dst: i64,
}

impl Move {
    fn plus(self, times: i64, step: Move) -> Move {
        Move {
            src_rank: self.src_rank + times * step.src_rank,
            src: self.src + times * step.src,
            dst_rank: self.dst_rank + times * step.dst_rank,
            dst: self.dst + times * step.dst,
        }
    }

    pub(crate) fn rank(&self, side: Side) -> i64 {
        match side {
            Side::Src => self.src_rank,
            Side::Dst => self.dst_rank,
        }
    }
}

/// Who is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Src,
    Dst,
}

/// A loop that changes the rank of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankLoop {
    pub(crate) range: i64,
    pub(crate) step: Move,
}

/// Blocks of one form: every start and every combination of the steps of `outer` is the block of a pair of ranks, whose elements
/// are those of `inner`.
///
/// **Invariant**: for each side the steps of `outer` that change its rank are digits of it, so that a start and a rank fix them.
#[derive(Debug)]
pub(crate) struct RankNest {
    pub(crate) outer: Vec<RankLoop>,
    pub(crate) inner: Vec<Loop>,
    /// By rising rank of the receiver.
    pub(crate) starts: Vec<Move>,
    /// The starts by rank of the sender.
    by_src: Vec<usize>,
    /// Elements of a block.
    pub(crate) block: i64,
}

/// A start of a nest, and the steps of those loops that a rank fixes; the others are 0.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) nest: usize,
    pub(crate) start: usize,
    pub(crate) steps: Vec<i64>,
}

/// The nests of a pair of shardings, copies left out.
pub(crate) fn rank_nests(src: &Sharded, dst: &Sharded, shape: &[i64]) -> Result<Vec<RankNest>> {
    if src.chunks().is_some() || dst.chunks().is_some() {
        src.admit(shape)?;
        dst.admit(shape)?;
        return crate::overlap::rank_nests(src, dst, shape);
    }
    let ((from, src_unit), (to, dst_unit)) =
        (src.with_ranks_in_addresses()?, dst.with_ranks_in_addresses()?);
    let plan = Plan::between(&from, &to, shape, Fill::Leave)?;
    let split = |a: i64, b: i64| {
        // Addresses inside of shards are less than half a unit, steps between them too.
        let rank = |x: i64, unit: i64| x.saturating_add(unit / 2).div_euclid(unit);
        let (src_rank, dst_rank) = (rank(a, src_unit), rank(b, dst_unit));
        Move { src_rank, src: a - src_rank * src_unit, dst_rank, dst: b - dst_rank * dst_unit }
    };
    plan.nests().iter().map(|nest| RankNest::new(nest, &split)).collect()
}

impl RankNest {
    fn new(nest: &Nest, split: &impl Fn(i64, i64) -> Move) -> Result<RankNest> {
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for l in &nest.loops {
            let step = split(l.src, l.dst);
            if step.src_rank == 0 && step.dst_rank == 0 {
                inner.push(*l);
            } else {
                outer.push(RankLoop { range: l.range, step });
            }
        }
        let mut starts: Vec<Move> = nest.starts.iter().map(|(a, b)| split(*a, *b)).collect();
        for side in [Side::Src, Side::Dst] {
            while let Some(k) = entangled(&outer, side) {
                let RankLoop { range, step } = outer.remove(k);
                let many = usize::try_from(range).ok().and_then(|n| n.checked_mul(starts.len()));
                if many.is_none_or(|n| n > MAX_STARTS) {
                    let limit = MAX_STARTS as u64;
                    return Err(Error::TooLarge { what: "scattered blocks", limit });
                }
                starts =
                    starts.iter().flat_map(|s| (0..range).map(move |i| s.plus(i, step))).collect();
            }
        }
        Ok(RankNest { outer, ..RankNest::listed(inner, starts) })
    }

    /// Blocks without a rule: one for every start.
    pub(crate) fn listed(inner: Vec<Loop>, mut starts: Vec<Move>) -> RankNest {
        starts.sort_by_key(|s| (s.dst_rank, s.src_rank, s.dst));
        let mut by_src: Vec<usize> = (0..starts.len()).collect();
        by_src.sort_by_key(|i| starts[*i].src_rank);
        let block = inner.iter().map(|l| l.range).product();
        RankNest { outer: Vec::new(), inner, starts, by_src, block }
    }

    /// Appends every start from which a rank is reached.
    pub(crate) fn find(&self, nest: usize, side: Side, rank: i64, out: &mut Vec<Found>) {
        let (mut down, mut up) = (0, 0);
        for l in &self.outer {
            let reach = (l.range - 1) * l.step.rank(side);
            (down, up) = (down + reach.min(0), up + reach.max(0));
        }
        let (low, high) = (rank - up, rank - down);
        let count = self.starts.len();
        let at = |k: usize| if side == Side::Src { self.by_src[k] } else { k };
        let mut k = partition(count, |k| self.starts[at(k)].rank(side) < low);
        let first = out.len();
        while k < count && self.starts[at(k)].rank(side) <= high {
            let start = at(k);
            if let Some(steps) = self.steps(side, rank - self.starts[start].rank(side) - down) {
                out.push(Found { nest, start, steps });
            }
            k += 1;
        }
        out[first..].sort_by_key(|f| f.start);
    }

    /// The steps that go so many ranks from the lowest one.
    fn steps(&self, side: Side, mut rest: i64) -> Option<Vec<i64>> {
        let mut steps = vec![0; self.outer.len()];
        for k in falling(&self.outer, side) {
            let RankLoop { range, step } = self.outer[k];
            let by = step.rank(side);
            let count = (rest / by.abs()).min(range - 1);
            rest -= count * by.abs();
            steps[k] = if by > 0 { count } else { range - 1 - count };
        }
        (rest == 0).then_some(steps)
    }

    /// The loops that a rank of this side does not fix: they lead to its peers.
    pub(crate) fn free(&self, side: Side) -> impl Iterator<Item = usize> + '_ {
        (0..self.outer.len()).filter(move |k| self.outer[*k].step.rank(side) == 0)
    }

    /// Where the block of these steps begins.
    pub(crate) fn at(&self, start: usize, steps: &[i64]) -> Move {
        let begin = self.starts[start];
        self.outer.iter().zip(steps).fold(begin, |at, (l, n)| at.plus(*n, l.step))
    }

    /// How many blocks the loops that a side leaves free give.
    pub(crate) fn free_blocks(&self, side: Side) -> i64 {
        self.free(side).map(|k| self.outer[k].range).product()
    }
}

/// The loops that change the rank of a side, those with the largest step first.
fn falling(outer: &[RankLoop], side: Side) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..outer.len()).filter(|k| outer[*k].step.rank(side) != 0).collect();
    order.sort_by_key(|k| std::cmp::Reverse(outer[*k].step.rank(side).abs()));
    order
}

/// A loop whose step smaller ones reach too, so that a rank does not tell the steps; of the two the shorter.
fn entangled(outer: &[RankLoop], side: Side) -> Option<usize> {
    let mut reach = 0;
    let mut below: Option<usize> = None;
    for k in falling(outer, side).into_iter().rev() {
        let by = outer[k].step.rank(side).abs();
        if by <= reach {
            return below.filter(|b| outer[*b].range < outer[k].range).or(Some(k));
        }
        reach += (outer[k].range - 1) * by;
        below = Some(k);
    }
    None
}

/// The first index for which a rising predicate fails.
fn partition(count: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Counts through all combinations of `loops`, the last one fastest; false after the last.
pub(crate) fn advance(steps: &mut [i64], loops: &[usize], range: impl Fn(usize) -> i64) -> bool {
    for k in loops.iter().rev() {
        steps[*k] += 1;
        if steps[*k] < range(*k) {
            return true;
        }
        steps[*k] = 0;
    }
    false
}
