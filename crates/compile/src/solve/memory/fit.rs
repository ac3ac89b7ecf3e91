//! In some order, each into a gap between what lives at the same time.

use super::request::MemoryRequest;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Which gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GapPolicy {
    /// The lowest.
    First,
    /// The one with least left over, the lowest of equals.
    Tightest,
}

/// Parents before children, then the most worthwhile: short lives with many uses. A first use
/// that writes counts half a use more, as a write to memory is saved, and a part in in-place reuse
/// shortens a life by a quarter.
pub(super) fn order_by_worth(request: &MemoryRequest) -> Vec<usize> {
    let count = request.buffers().len();
    let is_parent: BTreeSet<usize> =
        (0..count).flat_map(|b| request.parents(b).iter().copied()).collect();
    // Integers instead of floats, because two buffers with equal scores must compare as equal: the length of their
    // lives then decides. (life - discount) / uses as a fraction: quarters over halves.
    let score = |b: usize| {
        let buffer = &request.buffers()[b];
        let life = request.live_range(b);
        let discount =
            u128::from(!buffer.in_place_parents.is_empty()) + u128::from(is_parent.contains(&b));
        let uses = 2 * buffer.uses.len() as u128 + u128::from(!buffer.first_use_is_read);
        (4 * u128::from(life.end - life.start) - discount, uses)
    };
    let scores: Vec<(u128, u128)> = (0..count).map(score).collect();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| {
        let ((x, p), (y, q)) = (scores[*a], scores[*b]);
        let length = |b: usize| request.live_range(b).end - request.live_range(b).start;
        (x * q).cmp(&(y * p)).then_with(|| length(*a).cmp(&length(*b)))
    });
    order_parents_first(request, &order)
}

/// The same by another comparison, for the buffers that are given.
pub(super) fn order_by(
    request: &MemoryRequest,
    members: &[usize],
    compare: impl Fn(usize, usize) -> Ordering,
) -> Vec<usize> {
    let mut order = members.to_vec();
    order.sort_by(|a, b| compare(*a, *b).then_with(|| a.cmp(b)));
    order_parents_first(request, &order)
}

/// Parents before children, else as given. A parent dies where its child begins and was there before,
/// and what was there before has no parents, so there are no circles.
fn order_parents_first(request: &MemoryRequest, order: &[usize]) -> Vec<usize> {
    let mut rank = vec![usize::MAX; request.buffers().len()];
    order.iter().enumerate().for_each(|(i, b)| rank[*b] = i);
    let mut waits = vec![0; order.len()];
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); order.len()];
    for (i, b) in order.iter().enumerate() {
        for p in request.parents(*b).iter().filter(|p| rank[**p] != usize::MAX) {
            children[rank[*p]].push(i);
            waits[i] += 1;
        }
    }
    // A topological sort that always takes the earliest ready buffer, so that the given order changes only where a
    // parent needs it.
    let mut ready: BTreeSet<usize> = (0..order.len()).filter(|i| waits[*i] == 0).collect();
    let mut sorted = Vec::with_capacity(order.len());
    while let Some(i) = ready.pop_first() {
        sorted.push(order[i]);
        for c in &children[i] {
            waits[*c] -= 1;
            if waits[*c] == 0 {
                ready.insert(*c);
            }
        }
    }
    sorted
}

/// Places buffers one after the other, over a parent where its bytes are free for the whole life, else
/// in a gap. What does not fit is spilled, as is what is not in `order`.
pub(super) fn fit_in_gaps(
    request: &MemoryRequest,
    order: &[usize],
    gap: GapPolicy,
) -> Vec<Option<u64>> {
    let mut addresses: Vec<Option<u64>> = vec![None; request.buffers().len()];
    let mut placed = PlacedBuffers::default();
    for b in order.iter().copied() {
        let parents = request.parents(b);
        // The address ranges that are taken while this buffer lives, without the parents.
        let mut others: Vec<(u64, u64)> = Vec::new();
        let mut reusable: Vec<(u64, u64)> = Vec::new();
        for p in placed.possible_neighbours(request, b).filter(|p| request.are_live_together(*p, b))
        {
            let Some(address) = addresses[p] else { continue };
            let taken = (address, address + request.buffer_size(p));
            if parents.contains(&p) {
                reusable.push(taken);
            } else {
                others.push(taken);
            }
        }
        let size = request.buffer_size(b);
        // The other parents count as taken: a child over one of them may be larger than the gap to the next.
        let free = |a: u64, but: usize| {
            let rest = reusable.iter().enumerate().filter(|(i, _)| *i != but).map(|(_, t)| t);
            others.iter().chain(rest).all(|(start, end)| a + size <= *start || *end <= a)
        };
        let over = reusable.iter().enumerate().filter(|(i, (a, _))| free(*a, *i));
        let over = over.map(|(_, (a, _))| *a).min();
        addresses[b] = over.or_else(|| {
            others.extend(&reusable);
            find_gap(request, &mut others, size, gap)
        });
        if addresses[b].is_some() {
            placed.add_buffer(request, b);
        }
    }
    addresses
}

/// Buffers that were placed, by when they begin. Those of similar length are together, so that the ones that can live
/// at the same time as another are found without a look at the rest.
#[derive(Default)]
struct PlacedBuffers {
    /// By the number of bits of the length.
    by_length: BTreeMap<u32, BTreeMap<u64, Vec<usize>>>,
}

impl PlacedBuffers {
    fn add_buffer(&mut self, request: &MemoryRequest, b: usize) {
        let life = request.live_range(b);
        let bits = u64::BITS - (life.end - life.start).leading_zeros();
        self.by_length.entry(bits).or_default().entry(life.start).or_default().push(b);
    }

    /// Buffers that may live at the same time as `b`, and all that do.
    fn possible_neighbours(
        &self,
        request: &MemoryRequest,
        b: usize,
    ) -> impl Iterator<Item = usize> {
        let life = request.live_range(b);
        self.by_length.iter().flat_map(move |(bits, starts)| {
            // A buffer of this class that began earlier than its longest life before ours has ended; everything
            // before `from` is skipped without a look.
            let longest = 1u64.checked_shl(*bits).unwrap_or(u64::MAX);
            let from = life.start.saturating_sub(longest);
            starts.range(from..life.end.max(from)).flat_map(|(_, list)| list).copied()
        })
    }
}

fn find_gap(
    request: &MemoryRequest,
    taken: &mut [(u64, u64)],
    size: u64,
    gap: GapPolicy,
) -> Option<u64> {
    taken.sort_unstable();
    let mut best: Option<(u64, u64)> = None;
    let mut low = 0;
    for (start, end) in taken.iter().copied().chain([(request.limit(), u64::MAX)]) {
        let address = request.align_up(low);
        if address.checked_add(size).is_some_and(|e| e <= start) {
            let left = start - address - size;
            if gap == GapPolicy::First {
                return Some(address);
            }
            if best.is_none_or(|(least, _)| left < least) {
                best = Some((left, address));
            }
        }
        // Ranges may be inside each other (a child over its parent), so that the end does not ascend with the start.
        low = low.max(end);
    }
    best.map(|(_, address)| address)
}
