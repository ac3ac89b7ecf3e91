//! The certificate of a plan: every element is checked, with none of the planner's code.
//!
//! The elements that a rank holds and needs are listed from the definition of the two layouts
//! (`points_of_element`). The parts of the plan are then executed element by element, as pairs of
//! addresses.

use crate::error::{ReshardError, Result};
use crate::mesh::DeviceMesh;
use crate::reshard::Reshard;
use crate::topology::Topology;
use std::collections::HashMap;
use zellige_layout::{Layout, PhysicalCoordinate};
use zellige_movement::CopyNest;

/// The largest number of addresses that are listed.
// A place takes 4 bytes, so both sides together stay within a gigabyte.
const MAX_PLACES: usize = 1 << 27;

/// The same limit for elements.
const MAX_ELEMENTS: i64 = 1 << 27;

/// The proved facts about a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct ReshardCertificate {
    /// The number of elements that each rank receives: exactly those that it needs and does not
    /// have.
    pub received: Vec<i64>,
    /// The number of elements that each rank sends.
    pub sent: Vec<i64>,
    /// The number of pairs of ranks that exchange a message.
    pub messages: u64,
    /// The number of elements that the busiest sender sends.
    pub busiest_sender: i64,
    /// A lower bound for the busiest sender of any plan: for some part, the elements that others
    /// need divided by the number of holders.
    pub sender_bound: i64,
    /// The busy times of the links of a topology, if one was given.
    pub links: Option<LinkBound>,
}

/// The busy time of the busiest link, in seconds per byte of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkBound {
    /// The time in this plan.
    pub busiest: f64,
    /// A lower bound for every plan.
    pub bound: f64,
}

impl ReshardCertificate {
    /// The load of the busiest sender as a multiple of the lower bound; 1 is optimal.
    #[allow(clippy::cast_precision_loss, reason = "a factor to be read")]
    pub fn sender_factor(&self) -> f64 {
        if self.sender_bound == 0 {
            1.0
        } else {
            self.busiest_sender as f64 / self.sender_bound as f64
        }
    }

    /// The busy time of the busiest link as a multiple of the lower bound.
    pub fn link_factor(&self) -> Option<f64> {
        self.links.map(|l| if l.bound == 0.0 { 1.0 } else { l.busiest / l.bound })
    }
}

/// The listing of one side: the element at every address of every rank, counted from 1; 0 if there
/// is none.
struct ShardListing {
    len: usize,
    elements: Vec<u32>,
}

impl ShardListing {
    fn new(ranks: i64, len: i64) -> Result<ShardListing> {
        let ranks = usize::try_from(ranks).unwrap_or(usize::MAX);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let total = len.checked_mul(ranks).filter(|n| *n <= MAX_PLACES);
        let limit = MAX_PLACES as u64;
        let total =
            total.ok_or(ReshardError::TooLarge { what: "addresses of all ranks", limit })?;
        Ok(ShardListing { len, elements: vec![0; total] })
    }

    fn listing_index(&self, rank: i64, address: i64) -> Option<usize> {
        let address = usize::try_from(address).ok().filter(|a| *a < self.len)?;
        let place = usize::try_from(rank).ok()?.checked_mul(self.len)?.checked_add(address)?;
        (place < self.elements.len()).then_some(place)
    }

    fn element_at(&self, rank: i64, address: i64) -> Option<u32> {
        self.elements.get(self.listing_index(rank, address)?).copied()
    }
}

fn rank_of_point(point: &PhysicalCoordinate, mesh: &DeviceMesh) -> i64 {
    mesh.axes().iter().fold(0, |rank, (axis, size)| rank * size + point.get(*axis))
}

/// Checks a plan, element by element.
///
/// # Errors
/// [`ReshardError::Wrong`] with the first violation of the plan's law; [`ReshardError::TooLarge`]
/// for more than 2^27 addresses.
pub fn certify_plan(plan: &Reshard, topology: Option<&Topology>) -> Result<ReshardCertificate> {
    let (src, dst) = (plan.source(), plan.destination());
    let ranks = usize::try_from(plan.rank_count()).unwrap_or(usize::MAX);
    let size: i64 = plan.shape().iter().product();
    let places = |l: &Layout| size.saturating_mul(l.tile().replica_count());
    if places(src.layout()).max(places(dst.layout())) > MAX_ELEMENTS || ranks > MAX_PLACES {
        let limit = MAX_PLACES as u64;
        return Err(ReshardError::TooLarge { what: "elements to check", limit });
    }
    let mut have = ShardListing::new(src.mesh().rank_count(), src.shard_len())?;
    let mut want = ShardListing::new(dst.mesh().rank_count(), dst.shard_len())?;
    let mut bound = vec![0i64; ranks];
    // By first holder: the number of elements that others need, and the number of holders.
    let mut demand: HashMap<i64, (i64, i64)> = HashMap::new();
    // By level: the elements that must enter a group of ranks, and those that must leave one of the
    // groups that hold them.
    let mut into: HashMap<(usize, i64), i64> = HashMap::new();
    let mut out_of: HashMap<(usize, Vec<i64>), i64> = HashMap::new();
    let (src_memory, dst_memory) = (src.layout().memory_axis(), dst.layout().memory_axis());
    for element in 0..size {
        // Counted from 1, because 0 stands for an address without an element.
        let name = u32::try_from(element + 1).unwrap_or(u32::MAX);
        let mut holders = Vec::new();
        for point in src.points_of_element(element)? {
            let rank = rank_of_point(&point, src.mesh());
            if let Some(at) = have.listing_index(rank, point.get(src_memory)) {
                have.elements[at] = name;
            }
            holders.push(rank);
        }
        holders.sort_unstable();
        holders.dedup();
        let mut needers = Vec::new();
        for point in dst.points_of_element(element)? {
            let rank = rank_of_point(&point, dst.mesh());
            if let Some(at) = want.listing_index(rank, point.get(dst_memory)) {
                want.elements[at] = name;
            }
            needers.push(rank);
        }
        needers.sort_unstable();
        needers.dedup();
        // A rank that holds the element copies it, so nothing has to be sent for it.
        needers.retain(|r| holders.binary_search(r).is_err());
        for rank in &needers {
            bound[usize::try_from(*rank).unwrap_or(0)] += 1;
        }
        // Elements with the same holders have the same lowest holder, since ranks hold whole parts:
        // the lowest names the part.
        let own = demand.entry(holders[0]).or_insert((0, holders.len() as i64));
        own.0 += needers.len() as i64;
        for (k, level) in topology.iter().flat_map(|t| t.levels()).enumerate() {
            let mut groups: Vec<i64> = holders.iter().map(|h| h / level.ranks).collect();
            groups.dedup();
            let mut crossing = 0;
            for group in needers.iter().map(|r| r / level.ranks) {
                if groups.binary_search(&group).is_err() {
                    *into.entry((k, group)).or_insert(0) += 1;
                    crossing += 1;
                }
            }
            if crossing > 0 {
                *out_of.entry((k, groups)).or_insert(0) += crossing;
            }
        }
    }

    let wrong = |what: String| Err(ReshardError::Wrong(what));
    let mut done = vec![false; want.elements.len()];
    let (mut received, mut sent) = (vec![0i64; ranks], vec![0i64; ranks]);
    let (mut arrivals, mut departures) = (Vec::new(), Vec::new());
    let mut links: HashMap<(usize, i64, bool), i64> = HashMap::new();
    for rank in 0..plan.rank_count() {
        let at = usize::try_from(rank).unwrap_or(0);
        let kept = plan.parts_kept_by(rank);
        let arriving = plan.parts_received_by(rank)?;
        for part in kept.iter().chain(&arriving) {
            if part.to != rank {
                return wrong(format!("rank {rank} gets a part that rank {} receives", part.to));
            }
            for (a, b) in part.copy_nests().iter().flat_map(list_address_pairs) {
                let (found, wanted) = (have.element_at(part.from, a), want.element_at(rank, b));
                // Compared as elements and not as addresses: this proves that the right element
                // arrives, not merely some element.
                if found.is_none_or(|e| e == 0) || found != wanted {
                    return wrong(format!(
                        "address {a} of rank {} holds element {found:?}, address {b} of rank {rank} wants {wanted:?}",
                        part.from
                    ));
                }
                if let Some(place) = want.listing_index(rank, b)
                    && std::mem::replace(&mut done[place], true)
                {
                    return wrong(format!("address {b} of rank {rank} is written twice"));
                }
            }
        }
        for part in &kept {
            if part.from != rank {
                return wrong(format!("rank {rank} keeps what rank {} has", part.from));
            }
        }
        for part in arriving {
            if part.from == rank {
                return wrong(format!("rank {rank} receives from itself"));
            }
            received[at] += part.element_count();
            for (k, level) in topology.iter().flat_map(|t| t.levels()).enumerate() {
                let (a, b) = (part.from / level.ranks, rank / level.ranks);
                if a != b {
                    *links.entry((k, a, true)).or_insert(0) += part.element_count();
                    *links.entry((k, b, false)).or_insert(0) += part.element_count();
                }
            }
            arrivals.push((part.from, part.to, part.order, part.element_count()));
        }
        for part in plan.parts_sent_by(rank)? {
            if part.from != rank {
                return wrong(format!("rank {rank} gets a part that rank {} sends", part.from));
            }
            sent[at] += part.element_count();
            departures.push((part.from, part.to, part.order, part.element_count()));
        }
        if received[at] != bound[at] || plan.elements_received(rank) != bound[at] {
            return wrong(format!(
                "rank {rank} receives {} elements and lacks {}",
                received[at], bound[at]
            ));
        }
        if plan.elements_sent(rank) != sent[at] {
            return wrong(format!(
                "rank {rank} sends {}, not {}",
                sent[at],
                plan.elements_sent(rank)
            ));
        }
    }
    let missing = want.elements.iter().zip(&done).position(|(e, done)| *e != 0 && !done);
    if let Some(place) = missing {
        let (rank, address) = (place / want.len, place % want.len);
        return wrong(format!("nothing arrives at address {address} of rank {rank}"));
    }
    arrivals.sort_unstable();
    departures.sort_unstable();
    // Both lists are computed separately in the plan, by receivers and by senders, and must be the
    // same messages.
    if arrivals != departures {
        let differ = arrivals.iter().zip(&departures).find(|(a, b)| a != b);
        return wrong(format!("senders and receivers do not agree: {differ:?}"));
    }
    arrivals.dedup_by_key(|a| (a.0, a.1));
    // Somebody among the holders sends at least the average, rounded up to an element.
    let least = |(need, holders): &(i64, i64)| need / holders + i64::from(need % holders > 0);
    let sender_bound = demand.values().map(least).max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss, reason = "times to be compared")]
    let links = topology.map(|t| {
        let time =
            |level: usize, n: i64, of: usize| n as f64 / of as f64 / t.levels()[level].bandwidth;
        let most = |times: &mut dyn Iterator<Item = f64>| times.fold(0.0, f64::max);
        let entering = most(&mut into.iter().map(|((k, _), n)| time(*k, *n, 1)));
        let leaving = most(&mut out_of.iter().map(|((k, g), n)| time(*k, *n, g.len())));
        let busiest = most(&mut links.iter().map(|((k, ..), n)| time(*k, *n, 1)));
        LinkBound { busiest, bound: entering.max(leaving) }
    });
    Ok(ReshardCertificate {
        messages: arrivals.len() as u64,
        busiest_sender: sent.iter().copied().max().unwrap_or(0),
        received,
        sent,
        sender_bound,
        links,
    })
}

/// Lists every pair of addresses of a nest.
fn list_address_pairs(nest: &CopyNest) -> Vec<(i64, i64)> {
    let mut all = nest.starts.clone();
    for l in &nest.loops {
        all = all
            .iter()
            .flat_map(|(a, b)| (0..l.range).map(move |i| (a + i * l.src, b + i * l.dst)))
            .collect();
    }
    all
}
