//! The share of one process in a plan: its copies, and the messages of every round.
//!
//! Messages are packed by the sender and unpacked by the receiver in the same order. If the
//! elements of a message are contiguous in the shard of a process, it is sent from there, or
//! received into it, without a buffer.

use crate::boxes::{ShardBox, map_nests_to_boxes};
use crate::error::{ReshardError, Result};
use crate::part::TransferPart;
use crate::reshard::Reshard;
use zellige_movement::{CopyLoop, CopyNest, MovePlan};

/// The part of a plan that one rank carries out.
#[derive(Debug)]
pub struct RankProcess {
    kept: MovePlan,
    sent: Vec<TransferPart>,
    received: Vec<TransferPart>,
    src: Option<ShardBox>,
    dst: Option<ShardBox>,
}

/// The messages that a process sends and receives at once, each list by increasing rank of the
/// peer.
#[derive(Debug)]
pub struct ExchangeRound {
    /// Messages to be sent.
    pub sends: Vec<PeerMessage>,
    /// Messages to be received.
    pub receives: Vec<PeerMessage>,
}

/// A message between two processes in one round.
#[derive(Debug)]
pub struct PeerMessage {
    /// The other process.
    pub peer: i64,
    /// The number of elements.
    pub elements: i64,
    /// The address in the shard from which on the elements are contiguous in the order of the
    /// message, if they are.
    pub direct: Option<i64>,
    /// The copies from the shard to the message, or from the message to the shard.
    pub plan: MovePlan,
}

impl Reshard {
    /// A hash of everything that the processes of a plan must agree on: the messages, the number of
    /// rounds, and the bytes of an element.
    pub fn plan_digest(&self, width: u64, rounds: i64) -> [u8; 32] {
        // Processes compute their plans alone. A difference, for example from another version,
        // would deadlock or mix up elements, so they compare this hash before the first message.
        let mut text = format!("1 {width} {rounds} {:?} {}", self.shape(), self.rank_count());
        for side in [self.source(), self.destination()] {
            text += &format!(" {:?}", side.layout());
            text += &format!(" {:?} {:?}", side.mesh(), side.chunked_tensor());
        }
        text += &format!(" {:?} {:?}", self.nests, self.senders());
        *blake3::hash(text.as_bytes()).as_bytes()
    }
}

impl RankProcess {
    /// The copies and messages of a rank. A box means that its old or new shard is stored as a box
    /// and not padded as in the layout.
    ///
    /// # Errors
    /// A rank out of range, and more local copies than can be checked.
    pub fn of_rank(
        plan: &Reshard,
        rank: i64,
        src: Option<ShardBox>,
        dst: Option<ShardBox>,
    ) -> Result<RankProcess> {
        let (sent, received) = (plan.parts_sent_by(rank)?, plan.parts_received_by(rank)?);
        let kept = plan.parts_kept_by(rank).iter().flat_map(TransferPart::copy_nests).collect();
        let kept = plan_of_nests(map_nests_to_boxes(kept, src.as_ref(), dst.as_ref()))?;
        Ok(RankProcess { kept, sent, received, src, dst })
    }

    /// The copies from the old shard to the new one.
    pub fn kept_copies(&self) -> &MovePlan {
        &self.kept
    }

    /// The messages of round `index` of `count`.
    ///
    /// # Errors
    /// Messages with more pieces than can be checked.
    pub fn plan_round(&self, index: i64, count: i64) -> Result<ExchangeRound> {
        let mut round = ExchangeRound { sends: Vec::new(), receives: Vec::new() };
        // All parts for one peer are one message: the number of messages and not of blocks decides
        // the latency.
        for same in self.sent.chunk_by(|a, b| a.to == b.to) {
            let pack = |part: &TransferPart, at: i64| {
                map_nests_to_boxes(part.pack_nests(at), self.src.as_ref(), None)
            };
            round.sends.extend(plan_message(same[0].to, same, index, count, pack, |a, b| a - b)?);
        }
        for same in self.received.chunk_by(|a, b| a.from == b.from) {
            let unpack = |part: &TransferPart, at: i64| {
                map_nests_to_boxes(part.unpack_nests(at), None, self.dst.as_ref())
            };
            round.receives.extend(plan_message(
                same[0].from,
                same,
                index,
                count,
                unpack,
                |a, b| b - a,
            )?);
        }
        Ok(round)
    }
}

/// The message of some parts, if it is not empty. `ahead` computes the difference between the
/// address in the shard and the position in the message.
fn plan_message(
    peer: i64,
    parts: &[TransferPart],
    index: i64,
    count: i64,
    nests: impl Fn(&TransferPart, i64) -> Vec<CopyNest>,
    ahead: impl Fn(i64, i64) -> i64,
) -> Result<Option<PeerMessage>> {
    let (mut elements, mut all) = (0, Vec::new());
    for part in parts {
        let slice = part.slice_of(index, count);
        all.extend(nests(&slice, elements));
        elements += slice.element_count();
    }
    if elements == 0 {
        return Ok(None);
    }
    let mut offsets = all.iter().flat_map(|n| n.starts.iter().map(|(a, b)| ahead(*a, *b)));
    let first = offsets.next();
    // A message numbers its elements from 0 without a gap. If the difference to the shard's
    // addresses is the same everywhere, the elements are contiguous in the shard too.
    let equal = all.iter().flat_map(|n| &n.loops).all(|l| l.src == l.dst)
        && offsets.all(|offset| Some(offset) == first);
    let direct = first.filter(|_| equal);
    Ok(Some(PeerMessage { peer, elements, direct, plan: plan_of_nests(all)? }))
}

/// A plan of nests, with equal neighbouring nests joined.
fn plan_of_nests(nests: Vec<CopyNest>) -> Result<MovePlan> {
    let mut joined: Vec<CopyNest> = Vec::new();
    for nest in nests {
        let loops = coalesce_loops(&nest.loops);
        match joined.last_mut().filter(|last| last.loops == loops) {
            Some(last) => last.starts.extend(nest.starts),
            None => joined.push(CopyNest { loops, starts: nest.starts }),
        }
    }
    MovePlan::from_disjoint_nests(joined).map_err(ReshardError::Plan)
}

/// Merges a loop with the next one if together they are one longer loop.
fn coalesce_loops(loops: &[CopyLoop]) -> Vec<CopyLoop> {
    let mut out: Vec<CopyLoop> = Vec::with_capacity(loops.len());
    for l in loops.iter().filter(|l| l.range != 1) {
        match out.last_mut() {
            // The step of the outer loop is the whole reach of the inner one on both sides, so one
            // longer loop visits the same elements in the same order.
            Some(outer) if outer.src == l.src * l.range && outer.dst == l.dst * l.range => {
                *outer = CopyLoop { range: outer.range * l.range, ..*l };
            }
            _ => out.push(*l),
        }
    }
    out
}
