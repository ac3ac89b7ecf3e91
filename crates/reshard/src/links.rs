//! How busy the links of a topology are.

use crate::error::Result;
use crate::reshard::Reshard;
use crate::topology::Topology;
use std::collections::HashMap;

/// A link: out of a group of ranks, or into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// Which level of the topology.
    pub level: usize,
    /// Which group of it.
    pub group: i64,
    /// Whether it leads out of the group.
    pub out: bool,
}

/// Elements on every link.
#[derive(Debug, Clone)]
pub struct Loads<'t> {
    topology: &'t Topology,
    loads: HashMap<Link, i64>,
}

impl<'t> Loads<'t> {
    /// No elements on any link.
    pub fn new(topology: &'t Topology) -> Loads<'t> {
        Loads { topology, loads: HashMap::new() }
    }

    /// What a plan puts on the links.
    pub fn of(plan: &Reshard, topology: &'t Topology) -> Result<Loads<'t>> {
        let mut loads = Loads::new(topology);
        for rank in 0..plan.ranks() {
            for part in plan.received_by(rank)? {
                loads.add(part.from, part.to, part.elements());
            }
        }
        Ok(loads)
    }

    /// The links between two ranks.
    pub fn path(&self, from: i64, to: i64) -> impl Iterator<Item = Link> + use<'t> {
        self.topology.levels().iter().enumerate().flat_map(move |(level, l)| {
            let (a, b) = (from / l.ranks, to / l.ranks);
            let links = [Link { level, group: a, out: true }, Link { level, group: b, out: false }];
            links.into_iter().filter(move |_| a != b)
        })
    }

    /// Puts elements on the links between two ranks; a negative number takes them off.
    pub fn add(&mut self, from: i64, to: i64, elements: i64) {
        for link in self.path(from, to) {
            *self.loads.entry(link).or_insert(0) += elements;
        }
    }

    /// Seconds per byte of an element that a link is busy, with some more elements on it.
    pub fn time(&self, link: Link, more: i64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a time to be compared")]
        let elements = (self.loads.get(&link).copied().unwrap_or(0) + more) as f64;
        elements / self.topology.levels()[link.level].bandwidth
    }

    /// The link that is busy longest, and how long, in seconds per byte of an element.
    pub fn busiest(&self) -> Option<(Link, f64)> {
        let mut all: Vec<(Link, f64)> = self.loads.keys().map(|l| (*l, self.time(*l, 0))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.first().copied()
    }

    /// Elements on a link.
    pub fn on(&self, link: Link) -> i64 {
        self.loads.get(&link).copied().unwrap_or(0)
    }
}
