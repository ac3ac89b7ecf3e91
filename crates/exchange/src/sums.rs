//! Sums that several cores hold parts of: they are added on one core each, and the sums then copied to who needs them.
//!
//! A division of a loop that is summed over leaves unfinished sums: layer `k` of the source says which cores hold the
//! sums over slice `k` of the loop. What a destination needs is the sum of all layers. Where the source has finished
//! adding already, as torch-spyre's cores do along the ring, the cores of the last layer hold complete sums and are the
//! only sources: then the copy is a [`CoreExchange`] from that layer, and nothing is added again.

use crate::division::{CoreNumber, TensorDivision};
use crate::error::{ExchangeError, Result};
use crate::plan::{CoreExchange, CoreSend, MAX_CHOICES, MovementClass};
use crate::regions::find_regions;
use crate::ring::{RingLoads, ring_distance};
use crate::tensor_box::TensorBox;
use std::collections::{BTreeMap, HashMap};

/// The most elements, layers and cores counted, that a certificate looks at.
const MAX_ELEMENTS: i64 = 1 << 24;

/// The most layers of a sum: a card splits a loop over its cores.
const MAX_LAYERS: usize = 1 << 10;

/// Unfinished sums of a box that one core gives to the core that adds them up. The core may be its own receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialSend {
    /// The layer that the sums belong to.
    pub layer: usize,
    /// The core that holds them.
    pub source: CoreNumber,
    /// The core that adds them up.
    pub owner: CoreNumber,
    /// The elements of the box.
    pub elements: TensorBox,
}

/// A reduction between the scratchpads of a source with unfinished sums and a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SumExchange {
    additions: Vec<PartialSend>,
    owners: TensorDivision,
    spread: CoreExchange,
    class: MovementClass,
}

impl SumExchange {
    /// Plans the reduction of `layers` and the copies of the sums.
    ///
    /// **Law**: every element that some core needs is added up on one core, from exactly one holder of each layer and in
    /// the order of the layers, so that its bits do not depend on the destination; then every destination core gets it
    /// once. Where the cores that need a box hold parts of it alike, each adds an equal share: a reduction and a scatter.
    ///
    /// # Errors
    /// No layers or too many, different shapes, an element that is needed and that a layer lacks, and divisions with too
    /// many boundaries.
    pub fn between(layers: &[TensorDivision], destination: &TensorDivision) -> Result<SumExchange> {
        if layers.is_empty() || layers.len() > MAX_LAYERS {
            return Err(ExchangeError::Layers { found: layers.len(), most: MAX_LAYERS });
        }
        if let Some(other) = layers.iter().find(|l| l.shape() != destination.shape()) {
            return Err(ExchangeError::ShapesDiffer {
                source_shape: other.shape().to_vec(),
                destination: destination.shape().to_vec(),
            });
        }
        let all: Vec<&TensorDivision> = layers.iter().chain([destination]).collect();
        let regions = find_regions(&all)?;
        let highest = all.iter().flat_map(|d| d.parts()).map(|(core, _)| core).max();
        let cores = highest.map_or(0, |core| core.saturating_add(1));
        let (mut additions, mut owners) = (Vec::new(), Vec::new());
        let mut sent: BTreeMap<CoreNumber, i64> = BTreeMap::new();
        let mut choices = 0_u128;
        for (elements, held) in &regions {
            let (needers, holders) = held.split_last().expect("the destination is the last");
            if needers.is_empty() {
                continue;
            }
            if holders.iter().any(Vec::is_empty) {
                let element = elements.ranges().iter().map(|(begin, _)| *begin).collect();
                return Err(ExchangeError::NoHolder { core: needers[0], element });
            }
            let best = best_owners(holders, needers);
            choices += (best.len() * holders.iter().map(Vec::len).sum::<usize>()) as u128;
            if choices > MAX_CHOICES {
                let what = "pairs of a core that adds a part up and one that holds it";
                return Err(ExchangeError::TooLarge { what, count: choices, limit: MAX_CHOICES });
            }
            for (owner, part) in share_box(elements, &best) {
                for (layer, of) in holders.iter().enumerate() {
                    let load = |c: &CoreNumber| sent.get(c).copied().unwrap_or(0);
                    let source = match of.binary_search(&owner) {
                        Ok(_) => owner,
                        Err(_) => *of
                            .iter()
                            .min_by_key(|c| (load(c), ring_distance(**c, owner, cores), **c))
                            .expect("every layer has a holder"),
                    };
                    if source != owner {
                        *sent.entry(source).or_insert(0) += part.element_count();
                    }
                    additions.push(PartialSend { layer, source, owner, elements: part.clone() });
                }
                owners.push((owner, part));
            }
        }
        let owners = TensorDivision::new(destination.shape(), owners)?;
        let spread = CoreExchange::between(&owners, destination)?;
        let own = spread.class();
        let remote = |a: &PartialSend| a.source != a.owner;
        let class = MovementClass {
            reduces: layers.len() > 1,
            selects: regions.iter().any(|(_, held)| held.last().is_some_and(Vec::is_empty)),
            moves: own.moves || additions.iter().any(remote),
            ..own
        };
        Ok(SumExchange { additions, owners, spread, class })
    }

    /// What is added up where: by region of the tensor, then by layer, which is the order of the additions.
    pub fn additions(&self) -> &[PartialSend] {
        &self.additions
    }

    /// The cores that hold the complete sums before they are copied.
    pub fn owners(&self) -> &TensorDivision {
        &self.owners
    }

    /// The copies of the complete sums.
    pub fn spread(&self) -> &CoreExchange {
        &self.spread
    }

    /// The kinds of data movement, that of the copies and the reduction.
    pub fn class(&self) -> MovementClass {
        self.class
    }

    /// Elements sent from one core to another, unfinished sums and copies of complete ones.
    pub fn remote_elements(&self) -> i64 {
        let added = self.additions.iter().filter(|a| a.source != a.owner);
        added.map(|a| a.elements.element_count()).sum::<i64>() + self.spread.remote_elements()
    }

    /// The loads of the links of a ring of `cores` cores, or of all cores of the divisions if these are more, by the
    /// unfinished sums alone.
    pub fn addition_loads(&self, cores: CoreNumber) -> RingLoads {
        let send = |a: &PartialSend| CoreSend {
            source: a.source,
            destinations: vec![a.owner],
            elements: a.elements.clone(),
        };
        let sends: Vec<CoreSend> = self.additions.iter().map(send).collect();
        let highest = sends.iter().map(|s| s.source.max(s.destinations[0])).max();
        RingLoads::of_sends(&sends, cores.max(highest.map_or(0, |core| core.saturating_add(1))))
    }

    /// Checks by listing elements that every sum has each layer exactly once, from a core that holds it, and that every
    /// destination core gets each of its sums once.
    ///
    /// # Errors
    /// The first element for which that is not so, and tensors with too many elements to list.
    pub fn certify(&self, layers: &[TensorDivision], destination: &TensorDivision) -> Result<()> {
        let wrong = |text: String| Err(ExchangeError::Certificate(text));
        let listed = self.additions.iter().map(|a| a.elements.element_count());
        let listed = listed.fold(0, i64::saturating_add);
        if listed > MAX_ELEMENTS {
            return Err(ExchangeError::TooLarge {
                what: "elements of a certificate",
                count: listed.unsigned_abs().into(),
                limit: MAX_ELEMENTS.unsigned_abs().into(),
            });
        }
        let holds = |d: &TensorDivision, core: CoreNumber, element: &[i64]| {
            d.boxes_of(core).iter().any(|b| b.contains(element))
        };
        // Of every element, the core that adds it up and the layers that have arrived there.
        let mut sums: HashMap<Vec<i64>, (CoreNumber, Vec<bool>)> = HashMap::new();
        for send in &self.additions {
            let Some(layer) = layers.get(send.layer) else {
                return wrong(format!("there is no layer {}", send.layer));
            };
            for element in list_elements(&send.elements) {
                if !holds(layer, send.source, &element) {
                    let (core, layer) = (send.source, send.layer);
                    return wrong(format!(
                        "core {core} does not hold layer {layer} of {element:?}"
                    ));
                }
                let entry =
                    sums.entry(element.clone()).or_insert((send.owner, vec![false; layers.len()]));
                if entry.0 != send.owner {
                    return wrong(format!("{element:?} is added up on two cores"));
                }
                if std::mem::replace(&mut entry.1[send.layer], true) {
                    return wrong(format!("layer {} of {element:?} is added twice", send.layer));
                }
            }
        }
        for (element, (owner, seen)) in &sums {
            if let Some(layer) = seen.iter().position(|there| !there) {
                return wrong(format!("layer {layer} of {element:?} is not added"));
            }
            if !holds(&self.owners, *owner, element) {
                return wrong(format!("core {owner} adds up {element:?} and does not send it"));
            }
        }
        let owned: i64 =
            self.owners.parts().flat_map(|(_, own)| own).map(TensorBox::element_count).sum();
        if i64::try_from(sums.len()) != Ok(owned) {
            return wrong(format!("{} of {owned} sums are made", sums.len()));
        }
        self.spread.certify(&self.owners, destination).map(|_| ())
    }
}

/// The cores that may add a box up with the fewest messages: those that hold the most layers of it, one that needs the
/// sum counting as much as one that holds a layer.
fn best_owners(layers: &[Vec<CoreNumber>], needers: &[CoreNumber]) -> Vec<CoreNumber> {
    let mut saved: BTreeMap<CoreNumber, usize> = BTreeMap::new();
    for core in layers.iter().flatten().chain(needers) {
        *saved.entry(*core).or_insert(0) += 1;
    }
    let most = saved.values().copied().max().unwrap_or(0);
    saved.into_iter().filter(|(_, n)| *n == most).map(|(core, _)| core).collect()
}

/// A box in equal shares along its longest dimension, one for each core as far as there are elements.
fn share_box(whole: &TensorBox, cores: &[CoreNumber]) -> Vec<(CoreNumber, TensorBox)> {
    let ranges = whole.ranges();
    let longest = (0..ranges.len()).max_by_key(|d| (ranges[*d].1 - ranges[*d].0, usize::MAX - d));
    let Some(dim) = longest else {
        return cores.first().map(|core| (*core, whole.clone())).into_iter().collect();
    };
    let (begin, end) = ranges[dim];
    let count = i64::try_from(cores.len()).unwrap_or(i64::MAX).min(end - begin);
    let share = |(i, core): (i64, &CoreNumber)| {
        let mut part = ranges.to_vec();
        part[dim] = (begin + (end - begin) * i / count, begin + (end - begin) * (i + 1) / count);
        (*core, TensorBox::new(part))
    };
    (0..count).zip(cores).map(share).collect()
}

/// Every element of a box.
fn list_elements(part: &TensorBox) -> Vec<Vec<i64>> {
    part.ranges().iter().fold(vec![vec![]], |all, (begin, end)| {
        all.iter()
            .flat_map(|head: &Vec<i64>| {
                (*begin..*end).map(move |i| [head.as_slice(), &[i]].concat())
            })
            .collect()
    })
}
