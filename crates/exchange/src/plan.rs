//! The plan: which core sends which box to which cores.

use crate::division::{CoreNumber, TensorDivision};
use crate::error::{ExchangeError, Result};
use crate::regions::{SharedRegion, find_shared_regions};
use crate::ring::{RingLoads, ring_distance};
use crate::tensor_box::TensorBox;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The most pairs of a reader and a holder among which senders are chosen. A division of a card has some thousand; many
/// copies on both sides would otherwise take hours.
pub(crate) const MAX_CHOICES: u128 = 1 << 24;

/// A box of elements that one core sends. The core may be one of the destinations: it then keeps a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreSend {
    /// The core that holds the box.
    pub source: CoreNumber,
    /// The cores that get the box from this core, in increasing order.
    pub destinations: Vec<CoreNumber>,
    /// The elements of the box.
    pub elements: TensorBox,
}

impl CoreSend {
    /// The number of copies of the box that other cores get.
    pub fn remote_copies(&self) -> i64 {
        let remote = self.destinations.iter().filter(|to| **to != self.source).count();
        i64::try_from(remote).unwrap_or(i64::MAX)
    }
}

/// Which kinds of data movement a plan contains. Several may be true. A part is what one core holds or needs; cores with the
/// same boxes have the same part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MovementClass {
    /// Unfinished sums of several cores are added up.
    pub reduces: bool,
    /// The source holds elements that no core of the destination needs.
    pub selects: bool,
    /// A part of the source is sent to several parts of the destination.
    pub splits: bool,
    /// A part of the destination gets elements of several parts of the source.
    pub gathers: bool,
    /// A part of the destination is on several cores.
    pub broadcasts: bool,
    /// An element is sent from one core to another.
    pub moves: bool,
}

impl fmt::Display for MovementClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.moves {
            return f.write_str("none");
        }
        let named = [
            (self.reduces, "reduce"),
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
    /// **Law**: every destination core gets each of its elements once, from a core that holds it; a core that holds an
    /// element itself gets it from itself. The number of elements that are sent between cores is therefore minimal.
    ///
    /// # Errors
    /// Different shapes, a needed element that no core of the source holds, and divisions with too many boundaries.
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
        let choices: u128 =
            regions.iter().map(|r| r.holders.len() as u128 * r.needers.len() as u128).sum();
        if choices > MAX_CHOICES {
            let what = "pairs of a core that needs a part and one that holds it";
            return Err(ExchangeError::TooLarge { what, count: choices, limit: MAX_CHOICES });
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

    /// All sends, including copies that stay on their core; by region of the tensor, then by sender.
    pub fn sends(&self) -> &[CoreSend] {
        &self.sends
    }

    /// The kinds of data movement in the plan.
    pub fn class(&self) -> MovementClass {
        self.class
    }

    /// The number of elements sent from one core to another, each copy counted.
    pub fn remote_elements(&self) -> i64 {
        self.sends.iter().map(|s| s.remote_copies() * s.elements.element_count()).sum()
    }

    /// The number of elements that cores keep.
    pub fn local_elements(&self) -> i64 {
        let local = self.sends.iter().filter(|s| s.destinations.contains(&s.source));
        local.map(|s| s.elements.element_count()).sum()
    }

    /// The number of elements that are copied, each counted once however many cores get it.
    pub fn distinct_elements(&self) -> i64 {
        // Sends of one region have the same box, and regions do not overlap.
        let boxes: BTreeSet<&TensorBox> = self.sends.iter().map(|s| &s.elements).collect();
        boxes.into_iter().map(TensorBox::element_count).sum()
    }

    /// The number of elements that each core sends to others, each copy counted.
    pub fn sent_by_core(&self) -> BTreeMap<CoreNumber, i64> {
        let mut sent = BTreeMap::new();
        for send in &self.sends {
            *sent.entry(send.source).or_insert(0) +=
                send.remote_copies() * send.elements.element_count();
        }
        sent.retain(|_, elements| *elements > 0);
        sent
    }

    /// The number of elements that each core gets from others.
    pub fn received_by_core(&self) -> BTreeMap<CoreNumber, i64> {
        let mut received = BTreeMap::new();
        for send in &self.sends {
            for to in send.destinations.iter().filter(|to| **to != send.source) {
                *received.entry(*to).or_insert(0) += send.elements.element_count();
            }
        }
        received
    }

    /// The loads of the links of a ring of `cores` cores, or of all cores of the divisions if these are more.
    pub fn ring_loads(&self, cores: CoreNumber) -> RingLoads {
        RingLoads::of_sends(&self.sends, cores.max(self.cores))
    }
}

/// Chooses, for every region and every core that needs it, the core that sends it.
///
/// A core that holds a region keeps it. Every other core gets it from the holder that has sent the fewest elements so far,
/// because the exchange ends when the busiest core ends; of equal ones from the nearest on the ring. This is greedy: the
/// sum of the elements sent is minimal, but what the busiest core sends need not be.
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

/// Classifies a plan. Cores with the same boxes hold copies of one part, so that parts are compared and not cores.
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
        reduces: false,
        selects: regions.iter().any(|r| r.needers.is_empty()),
        splits: becomes.values().any(|to| to.len() > 1),
        gathers: made_of.values().any(|from| from.len() > 1),
        broadcasts: parts.len() < destination_parts.len(),
        moves: sends.iter().any(|s| s.remote_copies() > 0),
    }
}
