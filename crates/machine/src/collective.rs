//! What it takes several cards to exchange data: collectives of a group over the links between them.
//!
//! Each card has one link to the others that sends and receives at once, `link.bandwidth` bytes a second in each
//! direction; a message begins after `link.latency`. Of a group of `n` cards,
//!
//! | collective | `bytes` are those of | messages one after the other | bytes on the busiest link |
//! |---|---|---|---|
//! | all-reduce | the tensor | `2 (n - 1)` | `2 (n - 1) ceil(bytes / n)` |
//! | all-gather, reduce-scatter, all-to-all, gather, scatter | the largest part of a card | `n - 1` | `(n - 1) bytes` |
//! | broadcast, reduce | the tensor | `n - 1` | `bytes` |
//! | send, receive | the tensor | 1 | `bytes` |
//! | barrier | nothing | `2 (n - 1)` | 0 |
//!
//! and the time is `messages x latency + bytes on the busiest link / bandwidth`, rounded up once, to picoseconds. All-reduce,
//! all-gather and reduce-scatter go around a ring; a broadcast and a reduction go along it in pieces, so that every link
//! carries the tensor once. What a card adds up on the way is not charged: its memory is faster than its link.
//!
//! ```
//! use zellige_machine::{CardCollective, Hardware};
//! let cost = Hardware::card_preset().collective_cost(CardCollective::AllReduce, 4, 63_000_000);
//! assert_eq!((cost.messages, cost.bytes), (6, 6 * 15_750_000));
//! // 6 messages of 2 us each, and 94.5 MB at 63 GB/s.
//! assert_eq!(cost.time.microseconds(), 6.0 * 2.0 + 1500.0);
//! ```

use crate::hardware::{Hardware, Key};
use crate::ratio::Ratio;
use crate::time::SimulatedTime;

/// What the cards of a group do together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CardCollective {
    /// Every card gets the reduction of all tensors.
    AllReduce,
    /// Every card gets the parts of all.
    AllGather,
    /// Every card gets its part of the reduction of all tensors.
    ReduceScatter,
    /// Every card gets the tensor of one.
    Broadcast,
    /// One card gets the reduction of all tensors.
    Reduce,
    /// Every card gets a part of every other.
    AllToAll,
    /// One card gets the parts of all.
    Gather,
    /// Every card gets a part of one.
    Scatter,
    /// One card gives a tensor to another.
    Send,
    /// The same, at the other end.
    Receive,
    /// Every card waits for all.
    Barrier,
}

/// What a collective takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkCost {
    /// Messages that follow one another.
    pub messages: u64,
    /// Bytes that the busiest link carries in one direction.
    pub bytes: u64,
    /// How long it takes when all cards are there.
    pub time: SimulatedTime,
}

impl CardCollective {
    /// Every collective.
    pub const ALL: [CardCollective; 11] = [
        CardCollective::AllReduce,
        CardCollective::AllGather,
        CardCollective::ReduceScatter,
        CardCollective::Broadcast,
        CardCollective::Reduce,
        CardCollective::AllToAll,
        CardCollective::Gather,
        CardCollective::Scatter,
        CardCollective::Send,
        CardCollective::Receive,
        CardCollective::Barrier,
    ];

    /// Its name, as `torch.distributed` has it.
    pub fn name(self) -> &'static str {
        match self {
            CardCollective::AllReduce => "all_reduce",
            CardCollective::AllGather => "all_gather",
            CardCollective::ReduceScatter => "reduce_scatter",
            CardCollective::Broadcast => "broadcast",
            CardCollective::Reduce => "reduce",
            CardCollective::AllToAll => "all_to_all",
            CardCollective::Gather => "gather",
            CardCollective::Scatter => "scatter",
            CardCollective::Send => "send",
            CardCollective::Receive => "recv",
            CardCollective::Barrier => "barrier",
        }
    }

    /// The collective of this name.
    pub fn from_name(name: &str) -> Option<CardCollective> {
        CardCollective::ALL.into_iter().find(|c| c.name() == name)
    }

    /// Messages that follow one another in a group of `cards`, and the bytes on the busiest link.
    fn messages_and_bytes(self, cards: u64, bytes: u64) -> (u64, u64) {
        let others = cards.saturating_sub(1);
        match self {
            _ if others == 0 => (0, 0),
            CardCollective::AllReduce => {
                let messages = others.saturating_mul(2);
                (messages, messages.saturating_mul(bytes.div_ceil(cards)))
            }
            CardCollective::AllGather
            | CardCollective::ReduceScatter
            | CardCollective::AllToAll
            | CardCollective::Gather
            | CardCollective::Scatter => (others, others.saturating_mul(bytes)),
            CardCollective::Broadcast | CardCollective::Reduce => (others, bytes),
            CardCollective::Send | CardCollective::Receive => (1, bytes),
            CardCollective::Barrier => (others.saturating_mul(2), 0),
        }
    }
}

impl Hardware {
    /// What a collective of a group of `cards` takes; the table of this module says what `bytes` are.
    ///
    /// A preset without `link.bandwidth` has links as fast as the one to the host, and without `link.latency` messages that
    /// begin at once.
    pub fn collective_cost(&self, collective: CardCollective, cards: u64, bytes: u64) -> LinkCost {
        let (messages, bytes) = collective.messages_and_bytes(cards, bytes);
        let bandwidth = match self.find_figure(Key::LinkBandwidth) {
            Some(_) => self.figure_number(Key::LinkBandwidth),
            None => self.figure_number(Key::HostLink),
        };
        // A gigabyte a second is a byte in 1000 picoseconds.
        let carried = Ratio::new(1000, 1).divided_by(bandwidth).ceil_product(bytes);
        let begun = match self.find_figure(Key::LinkLatency) {
            Some(_) => {
                let each =
                    self.figure_number(Key::LinkLatency).multiplied_by(Ratio::new(1_000_000, 1));
                each.ceil_product(messages)
            }
            None => 0,
        };
        let time = SimulatedTime::from_picoseconds(begun.saturating_add(carried));
        LinkCost { messages, bytes, time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ring played card by card: in every round each card sends one part to the next.
    fn ring(cards: usize, bytes: u64, reduces: bool) -> (u64, u64) {
        let part = bytes.div_ceil(cards as u64);
        // Which of the parts of which cards are added up in each place.
        let mut held = vec![vec![0_u64; cards]; cards];
        for (card, parts) in held.iter_mut().enumerate() {
            for (i, part) in parts.iter_mut().enumerate() {
                *part = if reduces || i == card { 1 << card } else { 0 };
            }
        }
        let whole = |i: usize| if reduces { (1_u64 << cards) - 1 } else { 1 << i };
        let (mut rounds, mut sent) = (0, 0);
        while !held.iter().all(|parts| (0..cards).all(|i| parts[i] == whole(i))) {
            let before = held.clone();
            for (card, parts) in before.iter().enumerate() {
                let i = (card + cards * cards - rounds) % cards;
                held[(card + 1) % cards][i] |= parts[i];
            }
            rounds += 1;
            sent += part;
            assert!(rounds <= 2 * cards, "it ends");
        }
        (rounds as u64, sent)
    }

    #[test]
    fn the_formulas_are_those_of_the_ring_played_card_by_card() {
        for cards in 2..9_usize {
            for bytes in [1, 7, 64, 1000] {
                let n = cards as u64;
                assert_eq!(
                    ring(cards, bytes, true),
                    CardCollective::AllReduce.messages_and_bytes(n, bytes)
                );
                let part = bytes.div_ceil(n);
                assert_eq!(
                    ring(cards, bytes, false),
                    CardCollective::AllGather.messages_and_bytes(n, part)
                );
            }
        }
    }

    #[test]
    fn times_follow_from_the_figures_alone() {
        let own = Hardware::from_toml(
            "name = 'x'\nextends = 'card'\n[link]\n\
             bandwidth = { value = 25.6, unit = 'GB/s', source = 's' }\n\
             latency = { value = 1.5, unit = 'us', source = 's' }\n",
        )
        .unwrap();
        let cost = |kind, cards, bytes| own.collective_cost(kind, cards, bytes).time.picoseconds();
        assert_eq!(cost(CardCollective::AllReduce, 2, 1024), 2 * 1_500_000 + 40_000);
        assert_eq!(cost(CardCollective::AllGather, 4, 1024), 3 * 1_500_000 + 120_000);
        assert_eq!(cost(CardCollective::Broadcast, 4, 1024), 3 * 1_500_000 + 40_000);
        assert_eq!(cost(CardCollective::Send, 4, 1024), 1_500_000 + 40_000);
        assert_eq!(cost(CardCollective::Barrier, 4, 0), 6 * 1_500_000);
        for kind in CardCollective::ALL {
            assert_eq!(
                own.collective_cost(kind, 1, 1024).time,
                SimulatedTime::ZERO,
                "a card alone waits for nobody"
            );
            assert_eq!(CardCollective::from_name(kind.name()), Some(kind));
        }
        let least = Hardware::ktir_preset().collective_cost(CardCollective::AllReduce, 2, 63_000);
        assert_eq!(
            least.time,
            SimulatedTime::from_nanoseconds(1000),
            "as fast as the link to the host"
        );
        let most = own.collective_cost(CardCollective::AllReduce, u64::MAX, u64::MAX);
        assert_eq!(most.time.picoseconds(), u64::MAX);
    }
}
