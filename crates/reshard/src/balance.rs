//! Chooses senders by the loads of the links of a topology.
//!
//! Even shares are optimal if every rank has one link. If nodes have links too, a holder in the
//! same node relieves them. Pairs of a part and a receiver are cut into chunks; each chunk is
//! assigned to the holder for which the busiest link on the path is least busy, and the assignment
//! is repeated a few times. The better of this and even shares is used; the certificate has its
//! distance from a lower bound.

use crate::error::{ReshardError, Result};
use crate::links::LinkLoads;
use crate::part::TransferPart;
use crate::reshard::Reshard;
use crate::topology::Topology;
use std::collections::{BTreeSet, HashMap};

/// The largest number of chunks that are assigned.
// Every pass tries every copy for every chunk: with four copies this many chunks are 64 million
// trials in all passes.
const MAX_CHUNKS: usize = 1 << 21;

/// The largest number of passes over all chunks.
// A local search: it ends earlier as soon as a pass changes nothing. The result is compared with
// even shares, so stopping early costs quality and never correctness.
const BALANCE_PASSES: usize = 8;

/// The identity of a block: nest, start and number.
pub(crate) type BlockId = (usize, usize, i64);

/// The listed senders of every part and receiver.
#[derive(Debug, Default)]
pub(crate) struct ListedSenders {
    pairs: SenderPairs,
    receivers: HashMap<i64, BTreeSet<i64>>,
}

/// Senders by first copy and receiver.
type SenderPairs = HashMap<(i64, i64), PairSenders>;

#[derive(Debug)]
struct PairSenders {
    /// The beginning of each block among the elements of the pair, increasing.
    blocks: Vec<(BlockId, i64)>,
    /// The copies that send, each with the end of its share, increasing.
    cuts: Vec<(i64, i64)>,
}

impl ListedSenders {
    /// The senders of a block: copy, first element, one past the last.
    pub(crate) fn senders_of_block(
        &self,
        first: i64,
        to: i64,
        block: BlockId,
        len: i64,
    ) -> Vec<(i64, i64, i64)> {
        let Some(pair) = self.pairs.get(&(first, to)) else { return Vec::new() };
        let Ok(at) = pair.blocks.binary_search_by_key(&block, |(b, _)| *b) else {
            return Vec::new();
        };
        let begin = pair.blocks[at].1;
        let mut out = Vec::new();
        let mut low = 0;
        for (copy, end) in &pair.cuts {
            let (a, b) = (low.max(begin), (*end).min(begin + len));
            if a < b {
                out.push((*copy, a - begin, b - begin));
            }
            low = *end;
        }
        out
    }

    /// The receivers of a rank.
    pub(crate) fn receivers_of(&self, rank: i64) -> impl Iterator<Item = &i64> + '_ {
        self.receivers.get(&rank).into_iter().flatten()
    }
}

struct PairChunk {
    pair: (i64, i64),
    elements: i64,
    copy: i64,
}

impl Reshard {
    /// Chooses senders to reduce the load of the busiest link, which is never larger than with even
    /// shares.
    ///
    /// # Errors
    /// More pairs of ranks than can be listed.
    pub fn balance_links(mut self, topology: &Topology) -> Result<Reshard> {
        let even = LinkLoads::from_plan(&self, topology)?.busiest_link().map_or(0.0, |b| b.1);
        if self.src.copy_count() == 1 {
            return Ok(self);
        }
        let (mut pairs, mut chunks) = self.list_chunks()?;
        // Large chunks are assigned first, because small ones can fill the remaining capacity.
        chunks.sort_by_key(|c| (std::cmp::Reverse(c.elements), c.pair));
        let mut loads = LinkLoads::new(topology);
        let offsets: Vec<i64> =
            (0..self.src.copy_count()).map(|c| self.src.copy_offset(c)).collect();
        for pass in 0..BALANCE_PASSES {
            let mut moved = false;
            for chunk in &mut chunks {
                let (first, to) = chunk.pair;
                let at = |copy: i64| first + offsets[usize::try_from(copy).unwrap_or(0)];
                // The load of the chunk is removed before the chunk is assigned again, or it would
                // compete with itself.
                if pass > 0 {
                    loads.add_elements(at(chunk.copy), to, -chunk.elements);
                }
                let cost = |copy: i64| {
                    let times = loads
                        .links_between(at(copy), to)
                        .map(|l| loads.busy_seconds(l, chunk.elements));
                    let (mut most, mut sum) = (0.0f64, 0.0f64);
                    for time in times {
                        (most, sum) = (most.max(time), sum + time);
                    }
                    (most, sum)
                };
                let mut best = (cost(chunk.copy), chunk.copy);
                for copy in 0..self.src.copy_count() {
                    let found = cost(copy);
                    // The busiest link decides; among equals the choice that loads all links least
                    // leaves more room for later chunks.
                    if found.0 < best.0.0 || found.0 == best.0.0 && found.1 < best.0.1 {
                        best = (found, copy);
                    }
                }
                moved |= best.1 != chunk.copy || pass == 0;
                chunk.copy = best.1;
                loads.add_elements(at(chunk.copy), to, chunk.elements);
            }
            if !moved {
                break;
            }
        }
        if loads.busiest_link().map_or(0.0, |b| b.1) >= even {
            return Ok(self);
        }
        chunks.sort_by_key(|c| (c.pair, c.copy));
        let mut receivers: HashMap<i64, BTreeSet<i64>> = HashMap::new();
        for chunk in &chunks {
            let from = chunk.pair.0 + offsets[usize::try_from(chunk.copy).unwrap_or(0)];
            receivers.entry(from).or_default().insert(chunk.pair.1);
            if let Some(pair) = pairs.get_mut(&chunk.pair) {
                let reached = pair.cuts.last().map_or(0, |c| c.1);
                match pair.cuts.last_mut().filter(|c| c.0 == chunk.copy) {
                    Some(last) => last.1 += chunk.elements,
                    None => pair.cuts.push((chunk.copy, reached + chunk.elements)),
                }
            }
        }
        self.set_senders(ListedSenders { pairs, receivers });
        Ok(self)
    }

    /// Lists every pair of a part and a receiver that does not hold it, and cuts its elements into
    /// chunks.
    fn list_chunks(&self) -> Result<(SenderPairs, Vec<PairChunk>)> {
        let mut pairs = SenderPairs::new();
        let mut chunks = Vec::new();
        // Four chunks per pair let a pair be shared by up to four holders; more would multiply the
        // work of every pass.
        let pieces = self.src.copy_count().min(4);
        for to in 0..self.rank_count() {
            let own = self.src.holding_of_rank(to).map(|h| h.first);
            let mut parts = self.parts_gathered_by(to, 0);
            parts.sort_by_key(|p| (p.from, p.order));
            for same in parts.chunk_by(|a, b| a.from == b.from) {
                let first = same[0].from;
                if own == Some(first) {
                    continue;
                }
                let mut reached = 0;
                let begin = |p: &TransferPart| {
                    let at = reached;
                    reached += p.element_count();
                    ((p.order.0, p.order.1, p.order.2), at)
                };
                let blocks = same.iter().map(begin).collect();
                pairs.insert((first, to), PairSenders { blocks, cuts: Vec::new() });
                for i in 0..pieces {
                    let elements = reached * (i + 1) / pieces - reached * i / pieces;
                    if elements > 0 {
                        chunks.push(PairChunk { pair: (first, to), elements, copy: 0 });
                    }
                }
                if chunks.len() > MAX_CHUNKS {
                    let limit = MAX_CHUNKS as u64;
                    return Err(ReshardError::TooLarge {
                        what: "pairs of ranks to balance",
                        limit,
                    });
                }
            }
        }
        Ok((pairs, chunks))
    }
}
