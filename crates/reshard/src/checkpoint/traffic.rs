//! The traffic if the ranks of a checkpoint were processes: the bytes between ranks, the time, and
//! a comparison with a chain of collectives.

use super::error::Result;
use super::job::CheckpointJob;
use crate::chain::{ChainStep, plan_collective_chain};
use crate::links::LinkLoads;
use crate::part::TransferPart;
use crate::topology::Topology;
use std::collections::BTreeMap;

/// The bytes between ranks.
#[derive(Debug, Clone, Default)]
pub struct RankTraffic {
    /// Ranks of both sides together.
    pub ranks: i64,
    /// The bytes by sender and receiver; kept bytes are listed from a rank to itself.
    pub pairs: BTreeMap<(i64, i64), u64>,
    /// Seconds that the busiest link needs.
    pub seconds: f64,
    /// The traffic of the chain of collectives, for comparison.
    pub chain: ChainTraffic,
}

/// The traffic of a chain of collectives.
#[derive(Debug, Clone, Default)]
pub struct ChainTraffic {
    /// The bytes that all ranks receive together.
    pub received: u64,
    /// The number of collectives that send elements.
    pub collectives: u64,
    /// The number of tensors that no chain can move because DTensor stays on one mesh; they are
    /// gathered whole on every rank.
    pub gathered: u64,
}

impl RankTraffic {
    /// The bytes that go from one rank to another.
    pub fn sent_bytes(&self) -> u64 {
        self.pairs.iter().filter(|((a, b), _)| a != b).map(|(_, n)| n).sum()
    }

    /// The bytes that stay on their rank.
    pub fn kept_bytes(&self) -> u64 {
        self.pairs.iter().filter(|((a, b), _)| a == b).map(|(_, n)| n).sum()
    }
}

impl CheckpointJob {
    /// Measures the traffic over the links of a topology.
    ///
    /// # Errors
    /// Tensors whose pairs of ranks are too many to list.
    pub fn measure_traffic(&self, topology: &Topology) -> Result<RankTraffic> {
        let ranks = self.rules.from.mesh().rank_count().max(self.rules.to.mesh().rank_count());
        let mut traffic = RankTraffic { ranks, ..RankTraffic::default() };
        let mut loads = LinkLoads::new(topology);
        for tensor in self.tensors.iter().filter(|t| t.byte_len() > 0) {
            let width = tensor.width as u64;
            let bytes = |p: &TransferPart| p.element_count().cast_unsigned() * width;
            for rank in 0..ranks {
                for part in tensor
                    .plan
                    .parts_received_by(rank)?
                    .iter()
                    .chain(&tensor.plan.parts_kept_by(rank))
                {
                    *traffic.pairs.entry((part.from, part.to)).or_insert(0) += bytes(part);
                    loads.add_elements(
                        part.from,
                        part.to,
                        i64::try_from(bytes(part)).unwrap_or(i64::MAX),
                    );
                }
            }
            let own = &mut traffic.chain;
            match plan_collective_chain(&tensor.from.sharded, &tensor.to.sharded, &tensor.shape) {
                Ok(chain) => {
                    own.received += chain.received.cast_unsigned() * width * ranks.cast_unsigned();
                    let sends = |(c, _): &&(ChainStep, usize)| *c != ChainStep::Slice;
                    own.collectives += chain.steps.iter().filter(sends).count() as u64;
                }
                Err(_) => {
                    own.gathered += 1;
                    own.collectives += 1;
                    let needs = |r: &i64| {
                        tensor.to.sharded.holds_elements(*r)
                            || tensor.from.sharded.holds_elements(*r)
                    };
                    for rank in (0..ranks).filter(needs) {
                        let held = tensor.plan.elements_held(rank).cast_unsigned() * width;
                        own.received += tensor.byte_len().saturating_sub(held);
                    }
                }
            }
        }
        traffic.seconds = loads.busiest_link().map_or(0.0, |b| b.1);
        Ok(traffic)
    }
}
