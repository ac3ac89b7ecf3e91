//! Views and access tiles: coordinates to bytes.

use super::budget::Meter;
use super::error::Fault;
use super::memory::Memory;
use crate::affine::{Map, Set};
use crate::ir::Space;
use crate::types::Elem;
use std::rc::Rc;

/// Elements that one access may enumerate one by one.
const POINTS: i64 = 1 << 22;

/// Which memory a byte is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Global,
    Pad(usize),
}

/// Memory as a shape.
#[derive(Debug)]
pub(super) struct View {
    pub(super) elem: Elem,
    pub(super) shape: Vec<i64>,
    pub(super) parts: Vec<Part>,
    /// Whether coordinates choose among parts.
    pub(super) joined: bool,
}

/// A strided piece of memory, at some coordinates of the view.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The index of its first element.
    pub(super) base: i64,
    pub(super) strides: Vec<i64>,
    pub(super) place: Place,
    /// Coordinates of a whole that it may hold, with their symbols, and the first of them.
    pub(super) coordinates: Option<(Set, Vec<i64>, Vec<i64>)>,
}

/// Which elements of a view.
#[derive(Debug)]
pub(super) enum Access {
    Direct { view: Rc<View>, base: Vec<i64>, set: Set, order: Option<Map> },
    Indirect { view: Rc<View>, subscripts: Vec<Subscript>, set: Set, order: Option<Map> },
}

/// A subscript with its captured values.
#[derive(Debug)]
pub(super) struct Subscript {
    pub(super) map: Map,
    pub(super) captured: Vec<i64>,
    pub(super) through: Option<Rc<View>>,
}

/// What an access touches: runs of `len` elements, in the order of the tile.
pub(super) struct Runs {
    pub(super) runs: Vec<(Place, i64)>,
    pub(super) len: usize,
    /// The same of index views that were read on the way.
    pub(super) index: Vec<(Place, i64)>,
    pub(super) index_size: usize,
}

/// The space of a view for a core.
pub(super) fn place(space: Space, core: usize) -> Place {
    match space {
        Space::Global => Place::Global,
        Space::Local(id) => Place::Pad(id.map_or(core, |id| id as usize)),
    }
}

impl View {
    /// The byte of an element.
    pub(super) fn byte(&self, at: &[i64]) -> Result<(Place, i64), Fault> {
        let outside = || Fault::OutOfBounds { index: at.to_vec(), shape: self.shape.clone() };
        if let [part] = self.parts.as_slice()
            && !self.joined
        {
            if at.iter().zip(&self.shape).any(|(i, n)| !(0..*n).contains(i)) {
                return Err(outside());
            }
            return part.byte(at, self.elem);
        }
        for part in &self.parts {
            let Some((set, symbols, origin)) = &part.coordinates else { continue };
            if set.contains(at, symbols) {
                let local: Vec<i64> =
                    at.iter().zip(origin).map(|(i, o)| i.wrapping_sub(*o)).collect();
                return part.byte(&local, self.elem);
            }
        }
        Err(Fault::NoPartition { index: at.to_vec() })
    }
}

impl View {
    /// Nodes of the expressions that an element is put into before its place is known.
    fn nodes(&self) -> usize {
        let of = |p: &Part| p.coordinates.as_ref().map_or(1, |(set, ..)| 1 + set.nodes());
        if self.joined { self.parts.iter().map(of).sum() } else { 1 }
    }
}

impl Subscript {
    fn nodes(&self) -> usize {
        1 + self.map.nodes() + self.captured.len() + self.through.as_ref().map_or(0, |v| v.nodes())
    }
}

impl Part {
    fn byte(&self, at: &[i64], elem: Elem) -> Result<(Place, i64), Fault> {
        let mut element = Some(self.base);
        for (i, s) in at.iter().zip(&self.strides) {
            element = element.and_then(|e| e.checked_add(i.checked_mul(*s)?));
        }
        let size = i64::try_from(elem.size()).unwrap_or(8);
        let byte = element.and_then(|e| e.checked_mul(size));
        byte.map(|b| (self.place, b)).ok_or(Fault::Overflow("an address"))
    }
}

impl Access {
    pub(super) fn view(&self) -> &View {
        match self {
            Access::Direct { view, .. } | Access::Indirect { view, .. } => view,
        }
    }

    /// The bytes of the tile, in its order.
    pub(super) fn runs(&self, memory: &mut Memory, meter: &Meter) -> Result<Runs, Fault> {
        match self {
            Access::Direct { view, base, set, order } => {
                if let Some(runs) = boxed(view, base, set, order.as_ref(), meter)? {
                    return Ok(runs);
                }
                let mut runs = Vec::new();
                for p in points(set, order.as_ref(), view.nodes(), meter)? {
                    let at: Option<Vec<i64>> =
                        p.iter().zip(base).map(|(i, b)| i.checked_add(*b)).collect();
                    runs.push(view.byte(&at.ok_or(Fault::Overflow("a coordinate"))?)?);
                }
                Ok(Runs { runs, len: 1, index: Vec::new(), index_size: 0 })
            }
            Access::Indirect { view, subscripts, set, order } => {
                let (mut runs, mut index, mut index_size) = (Vec::new(), Vec::new(), 0);
                let mut at = vec![0; subscripts.len()];
                let nodes = subscripts.iter().map(Subscript::nodes).sum::<usize>() + view.nodes();
                for p in points(set, order.as_ref(), nodes, meter)? {
                    for (d, s) in subscripts.iter().enumerate() {
                        let dims = [p.as_slice(), s.captured.as_slice()].concat();
                        let values =
                            s.map.eval(&dims, &[]).ok_or(Fault::Overflow("a subscript"))?;
                        at[d] = match &s.through {
                            None => values.first().copied().unwrap_or(0),
                            Some(of) => {
                                let byte = of.byte(&values)?;
                                let read = memory.read(&[byte], 1, of.elem)?;
                                index.push(byte);
                                index_size = of.elem.size();
                                let value = read.ints().first().copied().unwrap_or(0);
                                if value < 0 {
                                    return Err(Fault::NegativeIndex { value, at: values });
                                }
                                value
                            }
                        };
                    }
                    runs.push(view.byte(&at)?);
                }
                Ok(joined(runs, index, index_size, view.elem))
            }
        }
    }
}

/// Neighbouring elements as runs, where all runs are equally long.
fn joined(
    bytes: Vec<(Place, i64)>,
    index: Vec<(Place, i64)>,
    index_size: usize,
    elem: Elem,
) -> Runs {
    let size = i64::try_from(elem.size()).unwrap_or(8);
    let follows = |i: usize| bytes[i].0 == bytes[i - 1].0 && bytes[i].1 == bytes[i - 1].1 + size;
    let first = (1..bytes.len()).take_while(|i| follows(*i)).count() + 1;
    let even = first > 1
        && bytes.len().is_multiple_of(first)
        && (1..bytes.len()).all(|i| i % first == 0 || follows(i));
    let (runs, len) =
        if even { (bytes.into_iter().step_by(first).collect(), first) } else { (bytes, 1) };
    Runs { runs, len, index, index_size }
}

/// The points of a set in order; `nodes` are those of expressions that each of them is put into.
fn points(
    set: &Set,
    order: Option<&Map>,
    nodes: usize,
    meter: &Meter,
) -> Result<Vec<Vec<i64>>, Fault> {
    let count = set.bounds(&[]).and_then(|b| b.points()).filter(|n| *n <= POINTS).unwrap_or(0);
    let count = u64::try_from(count).unwrap_or(0);
    let nodes = nodes + set.nodes() + order.map_or(0, Map::nodes);
    meter.steps(count * (1 + nodes as u64 / 16))?;
    // A point, its place in the order, and where it lies.
    meter.fits(count * 16 * (8 + set.dims() as u64))?;
    let mut points = set
        .points(&[], POINTS)
        .ok_or_else(|| Fault::TooLarge(format!("a tile of more than {POINTS} elements")))?;
    if let Some(order) = order.filter(|o| !o.is_identity()) {
        points.sort_by_cached_key(|p| order.eval(p, &[]).unwrap_or_default());
    }
    Ok(points)
}

/// Rows of a box in a plain view; none where it has to be enumerated.
fn boxed(
    view: &View,
    base: &[i64],
    set: &Set,
    order: Option<&Map>,
    meter: &Meter,
) -> Result<Option<Runs>, Fault> {
    let [part] = view.parts.as_slice() else { return Ok(None) };
    let plain = !view.joined && order.is_none_or(Map::is_identity);
    let Some(bounds) = set.bounds(&[]).filter(|b| b.exact && plain) else { return Ok(None) };
    let mut low = Vec::with_capacity(base.len());
    let mut outside = false;
    for (d, at) in base.iter().enumerate() {
        let from = at.checked_add(bounds.low[d]).ok_or(Fault::Overflow("a coordinate"))?;
        let to = from.checked_add(bounds.extents[d]).ok_or(Fault::Overflow("a coordinate"))?;
        outside |= bounds.extents[d] > 0 && (from < 0 || to > view.shape[d]);
        low.push(from);
    }
    let empty = bounds.extents.contains(&0);
    if outside && !empty {
        // The first element, in the order of the tile, that is outside.
        let mut index = low.clone();
        let bad = |d: usize| low[d] < 0 || low[d] >= view.shape[d];
        if !(0..low.len()).any(bad)
            && let Some(d) =
                (0..low.len()).rev().find(|d| low[*d] + bounds.extents[*d] > view.shape[*d])
        {
            index[d] = view.shape[d];
        }
        return Err(Fault::OutOfBounds { index, shape: view.shape.clone() });
    }
    if empty {
        return Ok(Some(Runs { runs: Vec::new(), len: 1, index: Vec::new(), index_size: 0 }));
    }
    // Inner dimensions that follow each other in memory are one run.
    let mut len = 1_i64;
    let mut d = base.len();
    while d > 0 && (part.strides[d - 1] == len || bounds.extents[d - 1] == 1) {
        len *= bounds.extents[d - 1];
        d -= 1;
    }
    let count: i64 = bounds.extents[..d].iter().product();
    if count > POINTS {
        return Err(Fault::TooLarge(format!("a tile of more than {POINTS} pieces")));
    }
    let pieces = u64::try_from(count).unwrap_or(0);
    meter.elements(pieces.saturating_mul(8))?;
    meter.fits(pieces * 64)?;
    let mut runs = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    let mut at = low.clone();
    'all: loop {
        runs.push(part.byte(&at, view.elem)?);
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
    Ok(Some(Runs { runs, len, index: Vec::new(), index_size: 0 }))
}
