//! What one process does of a plan: copies, and the messages of every round.
//!
//! Messages are packed by the sender and unpacked by the receiver in the same order. Those whose elements lie in a row in the shard of a
//! process are sent from there, or received into it, without a buffer.

use crate::boxes::{ShardBox, in_boxes};
use crate::error::{Error, Result};
use crate::part::Part;
use crate::reshard::Reshard;
use zellige_movement::{Loop, Nest, Plan};

/// The part of a plan that one rank carries out.
#[derive(Debug)]
pub struct Process {
    kept: Plan,
    sent: Vec<Part>,
    received: Vec<Part>,
    src: Option<ShardBox>,
    dst: Option<ShardBox>,
}

/// What a process sends and receives at once, each by rising rank of the other one.
#[derive(Debug)]
pub struct Round {
    /// Messages that go out.
    pub sends: Vec<Message>,
    /// Messages that come in.
    pub receives: Vec<Message>,
}

/// What goes from one process to another in a round.
#[derive(Debug)]
pub struct Message {
    /// The other process.
    pub peer: i64,
    /// How many elements.
    pub elements: i64,
    /// The address in the shard from which on they lie in a row, in the order of the message.
    pub direct: Option<i64>,
    /// From the shard to the message, or from the message to the shard.
    pub plan: Plan,
}

impl Reshard {
    /// A hash of everything that the processes of a plan must agree on: who sends what to whom, in how many rounds, in elements of
    /// how many bytes.
    pub fn digest(&self, width: u64, rounds: i64) -> [u8; 32] {
        let mut text = format!("1 {width} {rounds} {:?} {}", self.shape(), self.ranks());
        for side in [self.source(), self.destination()] {
            text += &format!(" {:?}", side.layout());
            text += &format!(" {:?} {:?}", side.mesh(), side.chunks());
        }
        text += &format!(" {:?} {:?}", self.nests, self.senders());
        *blake3::hash(text.as_bytes()).as_bytes()
    }
}

impl Process {
    /// What a rank does. The boxes say that its old or its new shard is kept as a box, not as the layout pads it.
    ///
    /// # Errors
    /// A rank that there is not, and local copies that are too many to be checked.
    pub fn of(
        plan: &Reshard,
        rank: i64,
        src: Option<ShardBox>,
        dst: Option<ShardBox>,
    ) -> Result<Process> {
        let (sent, received) = (plan.sent_by(rank)?, plan.received_by(rank)?);
        let kept = plan.kept_by(rank).iter().flat_map(Part::nests).collect();
        let kept = planned(in_boxes(kept, src.as_ref(), dst.as_ref()))?;
        Ok(Process { kept, sent, received, src, dst })
    }

    /// The copies from the old shard to the new one.
    pub fn kept(&self) -> &Plan {
        &self.kept
    }

    /// The messages of round `index` of `count`.
    ///
    /// # Errors
    /// Messages of more pieces than can be checked.
    pub fn round(&self, index: i64, count: i64) -> Result<Round> {
        let mut round = Round { sends: Vec::new(), receives: Vec::new() };
        for same in self.sent.chunk_by(|a, b| a.to == b.to) {
            let pack = |part: &Part, at: i64| in_boxes(part.pack(at), self.src.as_ref(), None);
            round.sends.extend(message(same[0].to, same, index, count, pack, |a, b| a - b)?);
        }
        for same in self.received.chunk_by(|a, b| a.from == b.from) {
            let unpack = |part: &Part, at: i64| in_boxes(part.unpack(at), None, self.dst.as_ref());
            round.receives.extend(message(same[0].from, same, index, count, unpack, |a, b| b - a)?);
        }
        Ok(round)
    }
}

/// The message of some parts, if it is not empty. `ahead` is how far the place in the shard is ahead of that in the message.
fn message(
    peer: i64,
    parts: &[Part],
    index: i64,
    count: i64,
    nests: impl Fn(&Part, i64) -> Vec<Nest>,
    ahead: impl Fn(i64, i64) -> i64,
) -> Result<Option<Message>> {
    let (mut elements, mut all) = (0, Vec::new());
    for part in parts {
        let slice = part.slice(index, count);
        all.extend(nests(&slice, elements));
        elements += slice.elements();
    }
    if elements == 0 {
        return Ok(None);
    }
    let mut offsets = all.iter().flat_map(|n| n.starts.iter().map(|(a, b)| ahead(*a, *b)));
    let first = offsets.next();
    // A message counts its elements from 0 without a gap; so does a shard that is everywhere equally far ahead of it.
    let equal = all.iter().flat_map(|n| &n.loops).all(|l| l.src == l.dst)
        && offsets.all(|offset| Some(offset) == first);
    let direct = first.filter(|_| equal);
    Ok(Some(Message { peer, elements, direct, plan: planned(all)? }))
}

/// A plan of nests, as few as they are easily made.
fn planned(nests: Vec<Nest>) -> Result<Plan> {
    let mut joined: Vec<Nest> = Vec::new();
    for nest in nests {
        let loops = coalesced(&nest.loops);
        match joined.last_mut().filter(|last| last.loops == loops) {
            Some(last) => last.starts.extend(nest.starts),
            None => joined.push(Nest { loops, starts: nest.starts }),
        }
    }
    Plan::of_nests(joined).map_err(Error::Plan)
}

/// Loops of which one goes on where the next one ends become one.
fn coalesced(loops: &[Loop]) -> Vec<Loop> {
    let mut out: Vec<Loop> = Vec::with_capacity(loops.len());
    for l in loops.iter().filter(|l| l.range != 1) {
        match out.last_mut() {
            Some(outer) if outer.src == l.src * l.range && outer.dst == l.dst * l.range => {
                *outer = Loop { range: outer.range * l.range, ..*l };
            }
            _ => out.push(*l),
        }
    }
    out
}
