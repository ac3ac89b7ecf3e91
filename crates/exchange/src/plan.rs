//! The plan: which core sends which box to which cores.

use crate::division::{CoreNumber, TensorDivision};
use crate::error::{ExchangeError, Result};
use crate::regions::{SharedRegion, find_shared_regions};
use crate::ring::{RingLoads, ring_distance};
use crate::tensor_box::TensorBox;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A box that one core gives to others; a core among its own destinations keeps a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreSend {
    /// The core that holds the box.
    pub source: CoreNumber,
    /// The cores that need it and get it from this one, rising.
    pub destinations: Vec<CoreNumber>,
    /// The elements.
    pub elements: TensorBox,
}

impl CoreSend {
    /// Copies of the box that leave the core.
    pub fn remote_copies(&self) -> i64 {
        let remote = self.destinations.iter().filter(|to| **to != self.source).count();
        i64::try_from(remote).unwrap_or(i64::MAX)
    }
}

/// What a plan does to the parts of a tensor, in the words of the field. Several may be true at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MovementClass {
    /// Something is held that no core needs.
    pub selects: bool,
    /// A part of the source becomes several parts of the destination.
    pub splits: bool,
    /// A part of the destination is made of several parts of the source.
    pub gathers: bool,
    /// A part of the destination is on several cores.
    pub broadcasts: bool,
    /// Something leaves a core.
    pub moves: bool,
}

impl fmt::Display for MovementClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.moves {
            return f.write_str("none");
        }
        let named = [
            (self.selects, "select"),
            (self.splits, "split"),
            (self.gathers, "gather"),
            (self.broadcasts, "broadcast"),
        ];
        let words: Vec<&str> = named.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        f.write_str(if words.is_empty() { "permutation" } else { "" })?;
        f.write_str(&words.join("+"))
    }
}

/// The copies between the scratchpads of two divisions of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreExchange {
    shape: Vec<i64>,
    sends: Vec<CoreSend>,
    class: MovementClass,
    /// One more than the highest core of both divisions.
    cores: CoreNumber,
}

impl CoreExchange {
    /// Plans the copies.
    ///
    /// Law: every destination core gets each of its elements once, from a core that holds it, and from itself where it
    /// does. The elements that leave a core are therefore the least possible.
    ///
    /// # Errors
    /// Different shapes, an element that no core of the source holds, and divisions with too many boundaries.
    pub fn between(source: &TensorDivision, destination: &TensorDivision) -> Result<CoreExchange> {
        if source.shape() != destination.shape() {
            return Err(ExchangeError::ShapesDiffer {
                source_shape: source.shape().to_vec(),
                destination: destination.shape().to_vec(),
            });
        }
        let regions = find_shared_regions(source, destination)?;
        let orphan = regions.iter().find(|r| r.holders.is_empty() && !r.needers.is_empty());
        if let Some(SharedRegion { elements, needers, .. }) = orphan {
            let element = elements.ranges().iter().map(|(begin, _)| *begin).collect();
            return Err(ExchangeError::NoHolder { core: needers[0], element });
        }
        let highest = source.parts().chain(destination.parts()).map(|(core, _)| core).max();
        let cores = highest.map_or(0, |core| core.saturating_add(1));
        let sends = choose_senders(&regions, cores);
        let class = classify_movement(source, destination, &regions, &sends);
        Ok(CoreExchange { shape: source.shape().to_vec(), sends, class, cores })
    }

    /// The shape of the tensor.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Every send, copies that stay on their core among them; by element, then by sender.
    pub fn sends(&self) -> &[CoreSend] {
        &self.sends
    }

    /// What the plan does, in a word or several.
    pub fn class(&self) -> MovementClass {
        self.class
    }

    /// Elements that arrive on another core than the one that sends them, each copy counted.
    pub fn remote_elements(&self) -> i64 {
        self.sends.iter().map(|s| s.remote_copies() * s.elements.element_count()).sum()
    }

    /// Elements that stay on their core.
    pub fn local_elements(&self) -> i64 {
        let local = self.sends.iter().filter(|s| s.destinations.contains(&s.source));
        local.map(|s| s.elements.element_count()).sum()
    }

    /// Elements that leave each sending core, each copy counted.
    pub fn sent_by_core(&self) -> BTreeMap<CoreNumber, i64> {
        let mut sent = BTreeMap::new();
        for send in &self.sends {
            *sent.entry(send.source).or_insert(0) +=
                send.remote_copies() * send.elements.element_count();
        }
        sent.retain(|_, elements| *elements > 0);
        sent
    }

    /// Elements that each core gets from others.
    pub fn received_by_core(&self) -> BTreeMap<CoreNumber, i64> {
        let mut received = BTreeMap::new();
        for send in &self.sends {
            for to in send.destinations.iter().filter(|to| **to != send.source) {
                *received.entry(*to).or_insert(0) += send.elements.element_count();
            }
        }
        received
    }

    /// What the links of a ring of `cores` cores carry; of as many as there are in the divisions where that is more.
    pub fn ring_loads(&self, cores: CoreNumber) -> RingLoads {
        RingLoads::of_sends(&self.sends, cores.max(self.cores))
    }
}

/// For every region and every core that needs it, the core that sends it.
///
/// A core that holds what it needs keeps it. Where several cores hold a region, its other readers go to the holder that
/// has sent the least so far, because the busiest core ends last, and among equals to the nearest one on the ring. This
/// is a greedy balance: the sum of what travels is the least possible, the busiest sender need not be.
fn choose_senders(regions: &[SharedRegion], cores: CoreNumber) -> Vec<CoreSend> {
    let mut sent: BTreeMap<CoreNumber, i64> = BTreeMap::new();
    let mut sends = Vec::new();
    for region in regions {
        let elements = region.elements.element_count();
        let mut by_sender: BTreeMap<CoreNumber, Vec<CoreNumber>> = BTreeMap::new();
        for needer in &region.needers {
            let keeps = region.holders.binary_search(needer).is_ok();
            let nearest = |holder: &&CoreNumber| {
                let load = sent.get(*holder).copied().unwrap_or(0);
                (load, ring_distance(**holder, *needer, cores), **holder)
            };
            let sender = match keeps {
                true => Some(*needer),
                false => region.holders.iter().min_by_key(nearest).copied(),
            };
            let Some(sender) = sender else { continue };
            if !keeps {
                *sent.entry(sender).or_insert(0) += elements;
            }
            by_sender.entry(sender).or_default().push(*needer);
        }
        sends.extend(by_sender.into_iter().map(|(source, destinations)| CoreSend {
            source,
            destinations,
            elements: region.elements.clone(),
        }));
    }
    sends
}

/// The class is read off distinct parts: cores with the same boxes hold copies of one part.
fn classify_movement(
    source: &TensorDivision,
    destination: &TensorDivision,
    regions: &[SharedRegion],
    sends: &[CoreSend],
) -> MovementClass {
    let number_parts = |division: &TensorDivision| -> BTreeMap<CoreNumber, usize> {
        let mut known: BTreeMap<Vec<TensorBox>, usize> = BTreeMap::new();
        let number = |(core, boxes): (CoreNumber, &[TensorBox])| {
            let next = known.len();
            (core, *known.entry(boxes.to_vec()).or_insert(next))
        };
        division.parts().map(number).collect()
    };
    let (source_parts, destination_parts) = (number_parts(source), number_parts(destination));
    let mut made_of: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut becomes: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for send in sends {
        let Some(from) = source_parts.get(&send.source) else { continue };
        for to in send.destinations.iter().filter_map(|to| destination_parts.get(to)) {
            made_of.entry(*to).or_default().insert(*from);
            becomes.entry(*from).or_default().insert(*to);
        }
    }
    let parts: BTreeSet<usize> = destination_parts.values().copied().collect();
    MovementClass {
        selects: regions.iter().any(|r| r.needers.is_empty()),
        splits: becomes.values().any(|to| to.len() > 1),
        gathers: made_of.values().any(|from| from.len() > 1),
        broadcasts: parts.len() < destination_parts.len(),
        moves: sends.iter().any(|s| s.remote_copies() > 0),
    }
}
