//! The loads of the links of a topology.

use crate::error::Result;
use crate::reshard::Reshard;
use crate::topology::Topology;
use std::collections::HashMap;

/// A link: out of a group of ranks, or into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupLink {
    /// Which level of the topology.
    pub level: usize,
    /// Which group of it.
    pub group: i64,
    /// Whether it is the outgoing link.
    pub out: bool,
}

/// The number of elements on every link.
#[derive(Debug, Clone)]
pub struct LinkLoads<'t> {
    topology: &'t Topology,
    loads: HashMap<GroupLink, i64>,
}

impl<'t> LinkLoads<'t> {
    /// Links without load.
    pub fn new(topology: &'t Topology) -> LinkLoads<'t> {
        LinkLoads { topology, loads: HashMap::new() }
    }

    /// The loads of a plan.
    pub fn from_plan(plan: &Reshard, topology: &'t Topology) -> Result<LinkLoads<'t>> {
        let mut loads = LinkLoads::new(topology);
        for rank in 0..plan.rank_count() {
            for part in plan.parts_received_by(rank)? {
                loads.add_elements(part.from, part.to, part.element_count());
            }
        }
        Ok(loads)
    }

    /// The links between two ranks.
    pub fn links_between(&self, from: i64, to: i64) -> impl Iterator<Item = GroupLink> + use<'t> {
        self.topology.levels().iter().enumerate().flat_map(move |(level, l)| {
            let (a, b) = (from / l.ranks, to / l.ranks);
            let links = [
                GroupLink { level, group: a, out: true },
                GroupLink { level, group: b, out: false },
            ];
            // Traffic inside of a group does not use the group's link.
            links.into_iter().filter(move |_| a != b)
        })
    }

    /// Adds elements to the links between two ranks; a negative number removes them.
    pub fn add_elements(&mut self, from: i64, to: i64, elements: i64) {
        for link in self.links_between(from, to) {
            *self.loads.entry(link).or_insert(0) += elements;
        }
    }

    /// The busy time of a link with `more` additional elements, in seconds per byte of an element.
    pub fn busy_seconds(&self, link: GroupLink, more: i64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a time to be compared")]
        let elements = (self.loads.get(&link).copied().unwrap_or(0) + more) as f64;
        elements / self.topology.levels()[link.level].bandwidth
    }

    /// The link with the longest busy time, and that time in seconds per byte of an element.
    pub fn busiest_link(&self) -> Option<(GroupLink, f64)> {
        let mut all: Vec<(GroupLink, f64)> =
            self.loads.keys().map(|l| (*l, self.busy_seconds(*l, 0))).collect();
        // Ties go to the smaller link: the table is hashed, and a report must not depend on its
        // order.
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.first().copied()
    }

    /// The number of elements on a link.
    pub fn elements_on(&self, link: GroupLink) -> i64 {
        self.loads.get(&link).copied().unwrap_or(0)
    }
}
