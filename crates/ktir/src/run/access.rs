//! Views and access tiles: the mapping from coordinates to bytes.

use super::budget::KtirRunBudget;
use super::error::KtirFault;
use super::memory::KtirMemory;
use crate::affine::{KtirAffineMap, KtirAffineSet};
use crate::ir::KtirMemorySpace;
use crate::types::KtirElem;
use std::rc::Rc;

/// The largest number of elements that one access may enumerate one by one.
// Each point is a vector of coordinates, so four million of them take several hundred megabytes. A
// box in a plain view does not come here: it is resolved row by row.
const MAX_ENUMERATED_POINTS: i64 = 1 << 22;

/// The memory that a byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KtirByteSpace {
    Global,
    Pad(usize),
    /// Beyond a view, where accesses are let pass: zeros are read, and what is written is dropped.
    Nowhere,
}

/// A view of memory with a shape.
#[derive(Debug, Clone)]
pub(super) struct KtirView {
    pub(super) elem: KtirElem,
    pub(super) shape: Vec<i64>,
    pub(super) parts: Vec<KtirViewPart>,
    /// Whether the coordinates choose among several parts.
    pub(super) joined: bool,
}

/// A strided piece of memory that holds some coordinates of the view.
#[derive(Debug, Clone)]
pub(super) struct KtirViewPart {
    /// The index of its first element.
    pub(super) base: i64,
    pub(super) strides: Vec<i64>,
    pub(super) place: KtirByteSpace,
    /// The coordinate set of a partition, the values of its symbols, and its minimum.
    pub(super) coordinates: Option<(KtirAffineSet, Vec<i64>, Vec<i64>)>,
}

/// The elements of a view that an access tile selects.
#[derive(Debug)]
pub(super) enum KtirAccess {
    Direct {
        view: Rc<KtirView>,
        base: Vec<i64>,
        set: KtirAffineSet,
        order: Option<KtirAffineMap>,
    },
    Indirect {
        view: Rc<KtirView>,
        subscripts: Vec<BoundSubscript>,
        set: KtirAffineSet,
        order: Option<KtirAffineMap>,
    },
}

/// A subscript with the values that it captures.
#[derive(Debug)]
pub(super) struct BoundSubscript {
    pub(super) map: KtirAffineMap,
    pub(super) captured: Vec<i64>,
    pub(super) through: Option<Rc<KtirView>>,
}

/// The memory that an access touches: runs of `len` elements, in the order of the tile.
pub(super) struct KtirAccessRuns {
    pub(super) runs: Vec<(KtirByteSpace, i64)>,
    pub(super) len: usize,
    /// The partition of each run in a distributed view; empty for other views.
    pub(super) parts: Vec<u32>,
    /// The elements of index views that are read to find the runs, for each subscript.
    pub(super) index: Vec<IndexReads>,
}

/// The elements of an index view that a subscript reads.
pub(super) struct IndexReads {
    pub(super) elem: KtirElem,
    pub(super) reads: Vec<(KtirByteSpace, i64)>,
}

/// The memory that indices are read from.
pub(super) trait AccessMemory {
    /// The integer at a byte.
    fn read_index(&mut self, byte: (KtirByteSpace, i64), elem: KtirElem) -> Result<i64, KtirFault>;

    /// Whether accesses beyond a view are let pass.
    fn is_lenient(&self) -> bool {
        false
    }
}

impl AccessMemory for KtirMemory {
    fn read_index(&mut self, byte: (KtirByteSpace, i64), elem: KtirElem) -> Result<i64, KtirFault> {
        let read = self.read_runs(&[byte], 1, elem)?;
        Ok(read.as_ints().first().copied().unwrap_or(0))
    }

    fn is_lenient(&self) -> bool {
        self.is_compatible()
    }
}

/// The memory of a view, as seen from a core.
pub(super) fn resolve_space(space: KtirMemorySpace, core: usize) -> KtirByteSpace {
    match space {
        KtirMemorySpace::Global => KtirByteSpace::Global,
        KtirMemorySpace::Local(id) => KtirByteSpace::Pad(id.map_or(core, |id| id as usize)),
    }
}

impl KtirView {
    /// The address of an element in bytes.
    pub(super) fn element_byte(&self, at: &[i64]) -> Result<(KtirByteSpace, i64), KtirFault> {
        self.find_element(at).map(|(_, byte)| byte)
    }

    /// The partition and the address of an element.
    fn find_element(&self, at: &[i64]) -> Result<(usize, (KtirByteSpace, i64)), KtirFault> {
        let outside = || KtirFault::OutOfBounds { index: at.to_vec(), shape: self.shape.clone() };
        // A single view is checked by its sizes. Its coordinate set is not asked: it says which
        // part of a larger whole this is, and only a distributed view has such a whole.
        if let [part] = self.parts.as_slice()
            && !self.joined
        {
            if at.iter().zip(&self.shape).any(|(i, n)| !(0..*n).contains(i)) {
                return Err(outside());
            }
            return Ok((0, part.element_byte(at, self.elem)?));
        }
        for (number, part) in self.parts.iter().enumerate() {
            let Some((set, symbols, origin)) = &part.coordinates else { continue };
            if set.contains(at, symbols) {
                let local: Vec<i64> =
                    // A partition is addressed from the minimum of its set, which is upstream's
                    // rule. Wrapping is safe, because the point is in the set and the origin is the
                    // set's minimum.
                    at.iter().zip(origin).map(|(i, o)| i.wrapping_sub(*o)).collect();
                // Partitions may overlap, and the first one that contains the point wins, as
                // upstream.
                return Ok((number, part.element_byte(&local, self.elem)?));
            }
        }
        Err(KtirFault::NoPartition { index: at.to_vec() })
    }
}

impl KtirView {
    /// The number of expression nodes that are evaluated to find the address of an element.
    fn count_nodes(&self) -> usize {
        let of =
            |p: &KtirViewPart| p.coordinates.as_ref().map_or(1, |(set, ..)| 1 + set.count_nodes());
        if self.joined { self.parts.iter().map(of).sum() } else { 1 }
    }
}

impl BoundSubscript {
    fn count_nodes(&self) -> usize {
        1 + self.map.count_nodes()
            + self.captured.len()
            + self.through.as_ref().map_or(0, |v| v.count_nodes())
    }
}

impl KtirViewPart {
    fn element_byte(&self, at: &[i64], elem: KtirElem) -> Result<(KtirByteSpace, i64), KtirFault> {
        let mut element = Some(self.base);
        for (i, s) in at.iter().zip(&self.strides) {
            // Strides come from the text, so their products may not fit; a wrapped address would
            // hit another array.
            element = element.and_then(|e| e.checked_add(i.checked_mul(*s)?));
        }
        let size = i64::try_from(elem.byte_size()).unwrap_or(8);
        let byte = element.and_then(|e| e.checked_mul(size));
        byte.map(|b| (self.place, b)).ok_or(KtirFault::Overflow("an address"))
    }
}

impl KtirAccess {
    pub(super) fn view(&self) -> &KtirView {
        match self {
            KtirAccess::Direct { view, .. } | KtirAccess::Indirect { view, .. } => view,
        }
    }

    /// The bytes of the tile, in its order.
    pub(super) fn resolve_runs(
        &self,
        memory: &mut impl AccessMemory,
        meter: &KtirRunBudget,
    ) -> Result<KtirAccessRuns, KtirFault> {
        match self {
            KtirAccess::Direct { view, base, set, order } => {
                // Nearly all tiles are boxes, and a box takes a few rows instead of every element.
                let lenient = memory.is_lenient();
                match find_box_runs(view, base, set, order.as_ref(), meter) {
                    Ok(Some(runs)) => return Ok(runs),
                    Err(KtirFault::OutOfBounds { .. }) if lenient => {}
                    found => {
                        found?;
                    }
                }
                let (mut runs, mut parts) = (Vec::new(), Vec::new());
                for p in enumerate_points(set, order.as_ref(), view.count_nodes(), meter)? {
                    let at: Option<Vec<i64>> =
                        p.iter().zip(base).map(|(i, b)| i.checked_add(*b)).collect();
                    let at = at.ok_or(KtirFault::Overflow("a coordinate"))?;
                    let (part, byte) = pass_outside(view.find_element(&at), lenient)?;
                    runs.push(byte);
                    if view.joined {
                        parts.push(u32::try_from(part).unwrap_or(u32::MAX));
                    }
                }
                Ok(KtirAccessRuns { runs, len: 1, parts, index: Vec::new() })
            }
            KtirAccess::Indirect { view, subscripts, set, order } => {
                let mut runs = Vec::new();
                let through = subscripts.iter().filter_map(|s| s.through.as_ref());
                let mut index: Vec<IndexReads> =
                    through.map(|of| IndexReads { elem: of.elem, reads: Vec::new() }).collect();
                let mut at = vec![0; subscripts.len()];
                let nodes = subscripts.iter().map(BoundSubscript::count_nodes).sum::<usize>()
                    + view.count_nodes();
                for p in enumerate_points(set, order.as_ref(), nodes, meter)? {
                    let mut sources = index.iter_mut();
                    for (d, s) in subscripts.iter().enumerate() {
                        let dims = [p.as_slice(), s.captured.as_slice()].concat();
                        let values = s
                            .map
                            .evaluate_at(&dims, &[])
                            .ok_or(KtirFault::Overflow("a subscript"))?;
                        at[d] = match &s.through {
                            None => values.first().copied().unwrap_or(0),
                            Some(of) => {
                                let byte = of.element_byte(&values)?;
                                let value = memory.read_index(byte, of.elem)?;
                                if let Some(source) = sources.next() {
                                    source.reads.push(byte);
                                }
                                // The dialect makes a negative index an error, because it cannot
                                // mean "from the end" on the device.
                                if value < 0 {
                                    return Err(KtirFault::NegativeIndex { value, at: values });
                                }
                                value
                            }
                        };
                    }
                    let found = view.find_element(&at);
                    runs.push(pass_outside(found, memory.is_lenient())?.1);
                }
                // A gather of rows touches contiguous elements within each row; charging them one
                // by one would count a burst of memory for every element.
                Ok(merge_neighbours(runs, index, view.elem))
            }
        }
    }
}

/// The element that was found, or none where a lenient run goes on beyond a view.
fn pass_outside(
    found: Result<(usize, (KtirByteSpace, i64)), KtirFault>,
    lenient: bool,
) -> Result<(usize, (KtirByteSpace, i64)), KtirFault> {
    match found {
        Err(KtirFault::OutOfBounds { .. } | KtirFault::NoPartition { .. }) if lenient => {
            Ok((usize::MAX, (KtirByteSpace::Nowhere, 0)))
        }
        other => other,
    }
}

/// Merges neighbouring elements into runs, if all runs have one length.
fn merge_neighbours(
    bytes: Vec<(KtirByteSpace, i64)>,
    index: Vec<IndexReads>,
    elem: KtirElem,
) -> KtirAccessRuns {
    let size = i64::try_from(elem.byte_size()).unwrap_or(8);
    let follows = |i: usize| bytes[i].0 == bytes[i - 1].0 && bytes[i].1 == bytes[i - 1].1 + size;
    let first = (1..bytes.len()).take_while(|i| follows(*i)).count() + 1;
    // Reading and charging work on runs of one length, so runs of different lengths stay single
    // elements.
    let even = first > 1
        && bytes.len().is_multiple_of(first)
        && (1..bytes.len()).all(|i| i % first == 0 || follows(i));
    let (runs, len) =
        if even { (bytes.into_iter().step_by(first).collect(), first) } else { (bytes, 1) };
    KtirAccessRuns { runs, len, parts: Vec::new(), index }
}

/// The points of a set in order; `nodes` is the number of expression nodes that are evaluated for
/// each point.
fn enumerate_points(
    set: &KtirAffineSet,
    order: Option<&KtirAffineMap>,
    nodes: usize,
    meter: &KtirRunBudget,
) -> Result<Vec<Vec<i64>>, KtirFault> {
    let count = set
        .bounding_box(&[])
        .and_then(|b| b.point_count())
        .filter(|n| *n <= MAX_ENUMERATED_POINTS)
        .unwrap_or(0);
    let count = u64::try_from(count).unwrap_or(0);
    let nodes = nodes + set.count_nodes() + order.map_or(0, KtirAffineMap::count_nodes);
    // A point costs an allocation and a node one addition or division, so sixteen nodes count as
    // one step.
    meter.take_steps(count * (1 + nodes as u64 / 16))?;
    // Room for a point, its position in the order, and its address.
    meter.check_room(count * 16 * (8 + set.dims() as u64))?;
    let mut points = set.list_points(&[], MAX_ENUMERATED_POINTS).ok_or_else(|| {
        KtirFault::TooLarge(format!("a tile of more than {MAX_ENUMERATED_POINTS} elements"))
    })?;
    if let Some(order) = order.filter(|o| !o.is_identity()) {
        // The order maps a point to its position, so sorting by the image enumerates the tile in
        // that order. The sort is stable, and the verifier has made sure that no two points share
        // an image.
        points.sort_by_cached_key(|p| order.evaluate_at(p, &[]).unwrap_or_default());
    }
    Ok(points)
}

/// Finds the rows of a box in a plain view; `None` where the points have to be enumerated.
fn find_box_runs(
    view: &KtirView,
    base: &[i64],
    set: &KtirAffineSet,
    order: Option<&KtirAffineMap>,
    meter: &KtirRunBudget,
) -> Result<Option<KtirAccessRuns>, KtirFault> {
    let [part] = view.parts.as_slice() else { return Ok(None) };
    // Another order, or several parts, would change which element comes next.
    let plain = !view.joined && order.is_none_or(KtirAffineMap::is_identity);
    let Some(bounds) = set.bounding_box(&[]).filter(|b| b.exact && plain) else { return Ok(None) };
    let mut low = Vec::with_capacity(base.len());
    let mut outside = false;
    for (d, at) in base.iter().enumerate() {
        let from = at.checked_add(bounds.low[d]).ok_or(KtirFault::Overflow("a coordinate"))?;
        let to = from.checked_add(bounds.extents[d]).ok_or(KtirFault::Overflow("a coordinate"))?;
        // The corners decide for the whole box, so no point has to be visited to find one that is
        // outside.
        outside |= bounds.extents[d] > 0 && (from < 0 || to > view.shape[d]);
        low.push(from);
    }
    let empty = bounds.extents.contains(&0);
    if outside && !empty {
        // The witness is the first element outside, in the order of the tile.
        let mut index = low.clone();
        let bad = |d: usize| low[d] < 0 || low[d] >= view.shape[d];
        if !(0..low.len()).any(bad)
            && let Some(d) =
                (0..low.len()).rev().find(|d| low[*d] + bounds.extents[*d] > view.shape[*d])
        {
            index[d] = view.shape[d];
        }
        return Err(KtirFault::OutOfBounds { index, shape: view.shape.clone() });
    }
    if empty {
        return Ok(Some(KtirAccessRuns {
            runs: Vec::new(),
            len: 1,
            parts: Vec::new(),
            index: Vec::new(),
        }));
    }
    // Inner dimensions that are contiguous in memory form one run.
    let mut len = 1_i64;
    let mut d = base.len();
    // A dimension of one element continues any run, whatever its stride is.
    while d > 0 && (part.strides[d - 1] == len || bounds.extents[d - 1] == 1) {
        len *= bounds.extents[d - 1];
        d -= 1;
    }
    let count: i64 = bounds.extents[..d].iter().product();
    if count > MAX_ENUMERATED_POINTS {
        return Err(KtirFault::TooLarge(format!(
            "a tile of more than {MAX_ENUMERATED_POINTS} pieces"
        )));
    }
    let pieces = u64::try_from(count).unwrap_or(0);
    meter.take_element_steps(pieces.saturating_mul(8))?;
    meter.check_room(pieces * 64)?;
    let mut runs = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut at = low.clone();
    'all: loop {
        runs.push(part.element_byte(&at, view.elem)?);
        let mut k = d;
        loop {
            if k == 0 {
                break 'all;
            }
            k -= 1;
            at[k] += 1;
            if at[k] < low[k] + bounds.extents[k] {
                break;
            }
            at[k] = low[k];
        }
    }
    let len = usize::try_from(len).unwrap_or(1);
    Ok(Some(KtirAccessRuns { runs, len, parts: Vec::new(), index: Vec::new() }))
}
