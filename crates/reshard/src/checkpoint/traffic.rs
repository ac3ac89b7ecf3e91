//! What would travel if the ranks of a checkpoint were processes: between whom, how long, and beside a chain of collectives.

use super::error::Result;
use super::job::Job;
use crate::chain::{Collective, chain};
use crate::links::Loads;
use crate::part::Part;
use crate::topology::Topology;
use std::collections::BTreeMap;

/// Bytes between ranks.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// Ranks of both sides together.
    pub ranks: i64,
    /// Bytes by sender and receiver; what a rank keeps is from it to itself.
    pub pairs: BTreeMap<(i64, i64), u64>,
    /// Seconds that the busiest link needs.
    pub seconds: f64,
    /// Bytes that the chain of collectives would receive, all ranks together, and how many collectives it has.
    pub chain: ChainTraffic,
}

/// The chain of collectives beside it.
#[derive(Debug, Clone, Default)]
pub struct ChainTraffic {
    /// Bytes that all ranks receive.
    pub received: u64,
    /// Collectives that send something.
    pub collectives: u64,
    /// Tensors that no chain moves, which then are gathered whole on every rank: DTensor stays on one mesh.
    pub gathered: u64,
}

impl Traffic {
    /// Bytes that go from one rank to another.
    pub fn sent(&self) -> u64 {
        self.pairs.iter().filter(|((a, b), _)| a != b).map(|(_, n)| n).sum()
    }

    /// Bytes that stay.
    pub fn kept(&self) -> u64 {
        self.pairs.iter().filter(|((a, b), _)| a == b).map(|(_, n)| n).sum()
    }
}

impl Job {
    /// What would travel, over the links of a topology.
    ///
    /// # Errors
    /// Tensors whose pairs of ranks are too many to list.
    pub fn traffic(&self, topology: &Topology) -> Result<Traffic> {
        let ranks = self.rules.from.mesh().ranks().max(self.rules.to.mesh().ranks());
        let mut traffic = Traffic { ranks, ..Traffic::default() };
        let mut loads = Loads::new(topology);
        for tensor in self.tensors.iter().filter(|t| t.bytes() > 0) {
            let width = tensor.width as u64;
            let bytes = |p: &Part| p.elements().cast_unsigned() * width;
            for rank in 0..ranks {
                for part in tensor.plan.received_by(rank)?.iter().chain(&tensor.plan.kept_by(rank))
                {
                    *traffic.pairs.entry((part.from, part.to)).or_insert(0) += bytes(part);
                    loads.add(part.from, part.to, i64::try_from(bytes(part)).unwrap_or(i64::MAX));
                }
            }
            let own = &mut traffic.chain;
            match chain(&tensor.from.sharded, &tensor.to.sharded, &tensor.shape) {
                Ok(chain) => {
                    own.received += chain.received.cast_unsigned() * width * ranks.cast_unsigned();
                    let sends = |(c, _): &&(Collective, usize)| *c != Collective::Slice;
                    own.collectives += chain.steps.iter().filter(sends).count() as u64;
                }
                Err(_) => {
                    own.gathered += 1;
                    own.collectives += 1;
                    let needs =
                        |r: &i64| tensor.to.sharded.holds(*r) || tensor.from.sharded.holds(*r);
                    for rank in (0..ranks).filter(needs) {
                        let held = tensor.plan.held(rank).cast_unsigned() * width;
                        own.received += tensor.bytes().saturating_sub(held);
                    }
                }
            }
        }
        traffic.seconds = loads.busiest().map_or(0.0, |b| b.1);
        Ok(traffic)
    }
}
