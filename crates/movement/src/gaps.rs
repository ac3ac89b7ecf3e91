//! The addresses of a buffer that no copy writes.

use crate::builder::NestBuilder;
use crate::plan::{CopyLoop, CopyNest, FillNest};

/// Pieces that are looked at one by one, at most. Where gaps take more, it is cheaper to fill the whole buffer
/// before the copies.
pub(crate) const MAX_PIECES: usize = 1 << 14;

/// The fills of every address in `[0, len)` that the nests do not write.
///
/// **Law**: nests that write distinct addresses of `[0, len)` and these fills write together every
/// address of `[0, len)`, and each once.
///
/// None where the gaps are scattered over more than [`MAX_PIECES`] pieces.
pub(crate) fn fill_gaps(nests: &[CopyNest], len: i64) -> Option<Vec<FillNest>> {
    if nests.iter().map(CopyNest::element_count).sum::<i64>() == len {
        return Some(Vec::new());
    }
    let pieces = nests.iter().map(|n| n.starts.len()).sum::<usize>();
    if pieces > MAX_PIECES {
        return None;
    }
    let mut search = GapSearch { left: MAX_PIECES - pieces, found: NestBuilder::default() };
    search.search_between(nests.iter().flat_map(AddressWalk::from_nest).collect(), 0, len, &[])?;
    let fill = |n: CopyNest| FillNest {
        loops: n.loops.iter().map(|l| (l.range, l.dst)).collect(),
        starts: n.starts.iter().map(|s| s.1).collect(),
    };
    Some(search.found.into_nests().into_iter().map(fill).collect())
}

/// Addresses from a start on: every combination of steps.
#[derive(Debug, Clone)]
struct AddressWalk {
    start: i64,
    /// (steps, distance), each distance positive, the largest first.
    loops: Vec<(i64, i64)>,
}

impl AddressWalk {
    /// The addresses that one nest writes, for each of its starts.
    fn from_nest(nest: &CopyNest) -> impl Iterator<Item = AddressWalk> {
        let mut loops: Vec<(i64, i64)> =
            nest.loops.iter().filter(|l| l.range > 1).map(|l| (l.range, l.dst.abs())).collect();
        loops.sort_unstable_by_key(|(_, by)| std::cmp::Reverse(*by));
        // Loops that continue one another in the destination are one loop here: what is read does not matter.
        let mut fused: Vec<(i64, i64)> = Vec::with_capacity(loops.len());
        for (n, by) in loops {
            match fused.last_mut() {
                Some(outer) if outer.1 == n * by => *outer = (outer.0 * n, by),
                _ => fused.push((n, by)),
            }
        }
        let back: i64 = nest.loops.iter().map(|l| ((l.range - 1) * l.dst).min(0)).sum();
        nest.starts.iter().map(move |(_, b)| AddressWalk { start: b + back, loops: fused.clone() })
    }

    /// One past its last address.
    fn end_address(&self) -> i64 {
        self.start + self.loops.iter().map(|(n, by)| (n - 1) * by).sum::<i64>() + 1
    }

    /// Its first step along the outermost loop.
    fn first_outer_step(&self) -> AddressWalk {
        AddressWalk { start: self.start, loops: self.loops.get(1..).unwrap_or(&[]).to_vec() }
    }
}

struct GapSearch {
    /// Pieces that may still be looked at.
    left: usize,
    found: NestBuilder,
}

impl GapSearch {
    /// Finds the free addresses in `[low, high)`, which holds all these walks, at every position of the
    /// loops around.
    fn search_between(
        &mut self,
        mut walks: Vec<AddressWalk>,
        low: i64,
        high: i64,
        around: &[(i64, i64)],
    ) -> Option<()> {
        walks.sort_unstable_by_key(|w| w.start);
        let mut free = low;
        let mut walks = walks.into_iter().peekable();
        // Walks that overlap form a group; between groups everything is free.
        while let Some(first) = walks.next() {
            self.add_gap(first.start - free, free, around)?;
            let (start, mut end) = (first.start, first.end_address());
            let mut group = vec![first];
            while let Some(next) = walks.next_if(|w| w.start < end) {
                end = end.max(next.end_address());
                group.push(next);
            }
            self.search_overlapping(group, start, end, around)?;
            free = end;
        }
        self.add_gap(high - free, free, around)
    }

    /// Finds the free addresses among walks that overlap, between the first and the last address of them.
    fn search_overlapping(
        &mut self,
        group: Vec<AddressWalk>,
        start: i64,
        end: i64,
        around: &[(i64, i64)],
    ) -> Option<()> {
        let Some(&(n, by)) = group[0].loops.first() else { return Some(()) };
        if group.len() == 1 && group[0].loops.len() == 1 && by == 1 {
            return Some(());
        }
        // All walks share their outermost loop, and its steps do not overlap: one step shows the gaps of all.
        if group.iter().all(|w| w.loops.first() == Some(&(n, by))) {
            let inner: Vec<AddressWalk> = group.iter().map(AddressWalk::first_outer_step).collect();
            let one = inner.iter().map(AddressWalk::end_address).max()?;
            if one - start <= by {
                let mut outer = around.to_vec();
                outer.push((n - 1, by));
                self.add_gap(by - (one - start), one, &outer)?;
                *outer.last_mut()? = (n, by);
                return self.search_between(inner, start, one, &outer);
            }
        }
        // Otherwise the loops with the widest steps are listed step by step. Their number counts against the limit,
        // because this is the one place where work grows with the size of loops.
        let steps = |w: &AddressWalk| w.loops.first().map_or(0, |(_, by)| *by);
        let widest = group.iter().map(steps).max()?;
        let mut parts = Vec::new();
        for walk in group {
            match walk.loops.first() {
                Some((n, by)) if *by == widest => {
                    self.left = self.left.checked_sub(usize::try_from(*n).ok()?)?;
                    let (start, inner) = (walk.start, walk.first_outer_step());
                    parts.extend(
                        (0..*n).map(|i| AddressWalk { start: start + i * by, ..inner.clone() }),
                    );
                }
                _ => parts.push(walk),
            }
        }
        self.search_between(parts, start, end, around)
    }

    /// Adds `count` adjacent addresses.
    fn add_gap(&mut self, count: i64, start: i64, around: &[(i64, i64)]) -> Option<()> {
        if count == 0 {
            return Some(());
        }
        self.left = self.left.checked_sub(1)?;
        let mut loops: Vec<CopyLoop> = Vec::with_capacity(around.len() + 1);
        for (range, dst) in around.iter().copied().chain([(count, 1)]).filter(|(n, _)| *n > 1) {
            match loops.last_mut() {
                Some(outer) if outer.dst == range * dst => {
                    *outer = CopyLoop { range: outer.range * range, src: 0, dst };
                }
                _ => loops.push(CopyLoop { range, src: 0, dst }),
            }
        }
        self.found.add_nest(loops, &[(0, start)]).then_some(())
    }
}
