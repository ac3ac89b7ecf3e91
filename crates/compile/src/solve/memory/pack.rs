//! Whether a set of buffers fits at all.
//!
//! Buffers that are placed over each other, one after the other, move as one *cluster*. Any plan can be pushed down:
//! cluster by cluster in the order of addresses, each to the lowest address above what it meets below.
//! So it is enough to try the orders, and in each the lowest addresses.

use super::fit::{self, GapPolicy};
use super::request::MemoryRequest;

/// What came of trying to place all buffers of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PackAnswer {
    /// Addresses of all of them.
    Fits(Vec<Option<u64>>),
    /// No addresses exist.
    Never,
    /// Not found before the steps ran out.
    Unknown,
}

/// Places all `members`, or shows that they cannot be; `steps` is what the search may take, and counts
/// down.
pub(super) fn pack_members(
    request: &MemoryRequest,
    members: &[usize],
    steps: &mut u64,
) -> PackAnswer {
    let size = |b: usize| request.buffer_size(b);
    let length = |b: usize| request.live_range(b).end - request.live_range(b).start;
    let area = |b: usize| u128::from(size(b)) * u128::from(length(b));
    // Four orders that are usual for packing rectangles (size, length, area, time), each with two rules for gaps.
    // They are tried first because they are cheap; the search below finds what they miss, and proves where nothing
    // can be found.
    let orders = [
        fit::order_by(request, members, |a, b| size(b).cmp(&size(a))),
        fit::order_by(request, members, |a, b| {
            length(b).cmp(&length(a)).then(size(b).cmp(&size(a)))
        }),
        fit::order_by(request, members, |a, b| area(b).cmp(&area(a))),
        fit::order_by(request, members, |a, b| {
            request.live_range(a).start.cmp(&request.live_range(b).start)
        }),
    ];
    for order in &orders {
        for gap in [GapPolicy::First, GapPolicy::Tightest] {
            let found = fit::fit_in_gaps(request, order, gap);
            if members.iter().all(|b| found[*b].is_some()) {
                return PackAnswer::Fits(found);
            }
        }
    }
    let mut links = OverlayLinks { request, members, over: vec![None; request.buffers().len()] };
    links.choose_links(0, steps)
}

/// Which child is placed over which parent.
struct OverlayLinks<'r> {
    request: &'r MemoryRequest,
    members: &'r [usize],
    over: Vec<Option<usize>>,
}

impl OverlayLinks<'_> {
    fn choose_links(&mut self, next: usize, steps: &mut u64) -> PackAnswer {
        if *steps == 0 {
            return PackAnswer::Unknown;
        }
        let Some(b) = self.members.get(next).copied() else { return self.stack_clusters(steps) };
        let mut options: Vec<Option<usize>> =
            self.request.parents(b).iter().copied().map(Some).collect();
        options.retain(|p| {
            p.is_some_and(|p| self.members.contains(&p) && !self.over.contains(&Some(p)))
        });
        // Placing a child over its parent comes first, because it needs no room of its own.
        options.push(None);
        let mut answer = PackAnswer::Never;
        for option in options {
            self.over[b] = option;
            match self.choose_links(next + 1, steps) {
                PackAnswer::Never => {}
                PackAnswer::Unknown => answer = PackAnswer::Unknown,
                fits => return fits,
            }
        }
        self.over[b] = None;
        answer
    }

    fn stack_clusters(&self, steps: &mut u64) -> PackAnswer {
        let mut clusters: Vec<Vec<usize>> = Vec::new();
        let mut of = vec![0; self.request.buffers().len()];
        let mut order = self.members.to_vec();
        order.sort_by_key(|b| self.request.time_order(*b));
        for b in order {
            match self.over[b] {
                Some(p) => of[b] = of[p],
                None => {
                    of[b] = clusters.len();
                    clusters.push(Vec::new());
                }
            }
            clusters[of[b]].push(b);
        }
        // Two members of a cluster share an address. If both live at one time, that is allowed only where one is the
        // child of the other.
        let linked = |a: usize, b: usize| self.over[a] == Some(b) || self.over[b] == Some(a);
        let sound = |c: &Vec<usize>| {
            c.iter().all(|a| {
                c.iter()
                    .all(|b| a == b || !self.request.are_live_together(*a, *b) || linked(*a, *b))
            })
        };
        if !clusters.iter().all(sound) {
            return PackAnswer::Never;
        }
        // How far the bottom of one cluster has to be above the bottom of the other depends on those members alone
        // that live together.
        let meets = |x: &[usize], y: &[usize]| {
            let tall =
                x.iter().filter(|a| y.iter().any(|b| self.request.are_live_together(**a, *b)));
            tall.map(|a| self.request.buffer_size(*a)).max().unwrap_or(0)
        };
        let heights = clusters.iter().map(|x| clusters.iter().map(|y| meets(x, y)).collect());
        let tall =
            |c: &Vec<usize>| c.iter().map(|b| self.request.buffer_size(*b)).max().unwrap_or(0);
        let mut tower = ClusterTower {
            request: self.request,
            heights: heights.collect(),
            tall: clusters.iter().map(tall).collect(),
            at: vec![None; clusters.len()],
        };
        match tower.grow_tower(0, 0, steps) {
            Some(true) => {
                let mut addresses = vec![None; self.request.buffers().len()];
                for b in self.members {
                    addresses[*b] = tower.at[of[*b]];
                }
                PackAnswer::Fits(addresses)
            }
            Some(false) => PackAnswer::Never,
            None => PackAnswer::Unknown,
        }
    }
}

/// Clusters placed from the bottom up.
struct ClusterTower<'r> {
    request: &'r MemoryRequest,
    /// Of one cluster, the tallest buffer that lives together with one of another cluster.
    heights: Vec<Vec<u64>>,
    tall: Vec<u64>,
    at: Vec<Option<u64>>,
}

impl ClusterTower<'_> {
    /// Whether the clusters without an address fit above `floor`; none where the steps ran out.
    fn grow_tower(&mut self, placed: usize, floor: u64, steps: &mut u64) -> Option<bool> {
        if placed == self.at.len() {
            return Some(true);
        }
        zellige_guard::count_step();
        *steps = steps.checked_sub(1)?;
        let mut next: Vec<(u64, usize)> = Vec::new();
        for c in (0..self.at.len()).filter(|c| self.at[*c].is_none()) {
            let below = (0..self.at.len()).filter(|o| self.heights[*o][c] > 0);
            let ends = below.filter_map(|o| Some(self.at[o]? + self.heights[o][c]));
            let address = self.request.align_up(ends.max().unwrap_or(0));
            // Addresses only rise as more is placed below, so that a cluster which is too high now stays too high.
            if address + self.tall[c] > self.request.limit() {
                return Some(false);
            }
            next.push((address, c));
        }
        // The lowest address first: the first complete order found is then often one without gaps.
        next.sort_unstable();
        for (address, c) in next {
            // Clusters are placed in ascending order of addresses. An address below the floor would be found again, in
            // the order in which this cluster comes earlier.
            if address < floor {
                continue;
            }
            self.at[c] = Some(address);
            if self.grow_tower(placed + 1, address, steps)? {
                return Some(true);
            }
            self.at[c] = None;
        }
        Some(false)
    }
}
