//! Which core holds which part of a tensor.

use crate::error::{ExchangeError, Result};
use crate::tensor_box::TensorBox;
use std::collections::BTreeMap;
use zellige_layout::{Axis, Iter, Layout};

/// The number of a core.
pub type CoreNumber = u32;

/// The most boxes of a division. The table of a card has one for each of its 32 cores. Every box is compared with the
/// others of its core, so that the limit bounds the square of it: some ten million comparisons.
const MAX_BOXES: usize = 1 << 13;

/// One more than the highest number of a core. The links of a ring are listed, one for each core up to the highest, so
/// that a number like 4,000,000,000 would take gibibytes for a tensor of one element.
pub const MAX_CORES: CoreNumber = 1 << 12;

/// The most cells of a layout that are looked at to find its boxes. A cell is a box whose elements are on the same
/// cores; a layout of a card has as many as its cores.
const MAX_LISTED_CELLS: i64 = 1 << 20;

/// The parts of a tensor by core.
///
/// **Invariants**: the shape has elements and a 64-bit count of them; every box is inside the tensor and not empty; the
/// boxes of one core do not overlap; a core without a box is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorDivision {
    shape: Vec<i64>,
    boxes: BTreeMap<CoreNumber, Vec<TensorBox>>,
}

impl TensorDivision {
    /// A division from its table.
    ///
    /// # Errors
    /// A shape without elements, a box outside of the tensor, too many boxes.
    pub fn new(
        shape: &[i64],
        table: impl IntoIterator<Item = (CoreNumber, TensorBox)>,
    ) -> Result<TensorDivision> {
        check_shape(shape)?;
        let mut boxes: BTreeMap<CoreNumber, Vec<TensorBox>> = BTreeMap::new();
        let mut count = 0;
        for (core, part) in table {
            check_box(core, &part, shape)?;
            let own = boxes.entry(core).or_default();
            // A core that is said to hold an element twice holds it once: the later box loses what the others have.
            let mut rest = vec![part];
            for held in own.iter() {
                rest = rest.iter().flat_map(|b| subtract_box(b, held)).collect();
            }
            count += rest.len();
            if count > MAX_BOXES {
                let (count, limit) = (count as u128, MAX_BOXES as u128);
                return Err(ExchangeError::TooLarge { what: "boxes of a division", count, limit });
            }
            own.extend(rest);
        }
        for own in boxes.values_mut() {
            own.sort();
        }
        Ok(TensorDivision { shape: shape.to_vec(), boxes })
    }

    /// The division into equal slices: for each `(dim, a, n)` the dimension has `n` slices, and core `c` holds number
    /// `(c / a) % n` of them. A dimension that is not listed is whole on every core.
    ///
    /// # Errors
    /// A number of slices that does not divide its dimension, and what [`TensorDivision::new`] refuses.
    pub fn from_slices(
        shape: &[i64],
        cores: &[CoreNumber],
        slices: &[(usize, i64, i64)],
    ) -> Result<TensorDivision> {
        check_shape(shape)?;
        let part = |core: CoreNumber| -> Result<TensorBox> {
            let mut ranges: Vec<(i64, i64)> = shape.iter().map(|n| (0, *n)).collect();
            for (dim, period, count) in slices {
                let extent = shape.get(*dim).copied().unwrap_or(0);
                if *period < 1 || *count < 1 || extent % count != 0 || extent == 0 {
                    return Err(ExchangeError::UnevenSlices { dim: *dim, extent, slices: *count });
                }
                let slice = i64::from(core) / period % count;
                ranges[*dim] = (slice * (extent / count), (slice + 1) * (extent / count));
            }
            Ok(TensorBox::new(ranges))
        };
        let table = cores.iter().map(|c| Ok((*c, part(*c)?))).collect::<Result<Vec<_>>>()?;
        TensorDivision::new(shape, table)
    }

    /// The division that a layout states on an axis of cores: core `c` holds the elements whose coordinates on the axis
    /// include `c`. Every other axis says where in a scratchpad they are, which an exchange does not depend on.
    ///
    /// # Errors
    /// A layout without the axis or with coordinates below 0 on it, and tensors with more cells than are listed.
    pub fn from_layout(layout: &Layout, shape: &[i64], axis: Axis) -> Result<TensorDivision> {
        check_shape(shape)?;
        let refuse = |reason: String| ExchangeError::NotADivision(reason);
        layout.check_shape_size(shape).map_err(|e| refuse(e.to_string()))?;
        if !layout.tile().axes().contains(&axis) {
            return Err(refuse(format!("it does not mention the axis `{}`", axis.name())));
        }
        let steps = cell_extents(layout, shape, axis);
        let grid: Vec<i64> = shape.iter().zip(&steps).map(|(n, s)| n / s).collect();
        let cells: i64 = grid.iter().product();
        if cells > MAX_LISTED_CELLS {
            let (count, limit) =
                (cells.unsigned_abs().into(), MAX_LISTED_CELLS.unsigned_abs().into());
            return Err(ExchangeError::TooLarge { what: "cells of a layout", count, limit });
        }
        let mut held: BTreeMap<CoreNumber, Vec<TensorBox>> = BTreeMap::new();
        for cell in 0..cells {
            let begin: Vec<i64> =
                unflatten_index(cell, &grid).iter().zip(&steps).map(|(i, s)| i * s).collect();
            let places =
                layout.apply_to_coordinate(shape, &begin).map_err(|e| refuse(e.to_string()))?;
            let mut cores =
                places.sorted_coordinates().into_iter().map(|p| p.get(axis)).collect::<Vec<_>>();
            cores.sort_unstable();
            cores.dedup();
            for core in cores {
                let core = CoreNumber::try_from(core)
                    .map_err(|_| refuse(format!("element {begin:?} is on core {core}")))?;
                let part = begin.iter().zip(&steps).map(|(i, s)| (*i, i + s)).collect();
                held.entry(core).or_default().push(TensorBox::new(part));
            }
        }
        let table = held
            .into_iter()
            .flat_map(|(core, parts)| merge_boxes(parts).into_iter().map(move |part| (core, part)));
        TensorDivision::new(shape, table)
    }

    /// The shape of the tensor.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The cores that hold something, with their boxes.
    pub fn parts(&self) -> impl Iterator<Item = (CoreNumber, &[TensorBox])> {
        self.boxes.iter().map(|(core, own)| (*core, own.as_slice()))
    }

    /// The boxes of a core; none where it holds nothing.
    pub fn boxes_of(&self, core: CoreNumber) -> &[TensorBox] {
        self.boxes.get(&core).map_or(&[], Vec::as_slice)
    }
}

fn check_shape(shape: &[i64]) -> Result<()> {
    let count = shape.iter().try_fold(1_i64, |n, e| n.checked_mul(*e));
    match count {
        Some(_) if shape.iter().all(|e| *e >= 1) => Ok(()),
        _ => Err(ExchangeError::Shape { shape: shape.to_vec() }),
    }
}

fn check_box(core: CoreNumber, part: &TensorBox, shape: &[i64]) -> Result<()> {
    if core >= MAX_CORES {
        return Err(ExchangeError::NoSuchCore { core });
    }
    if part.ranges().len() != shape.len() {
        let (found, expected) = (part.ranges().len(), shape.len());
        return Err(ExchangeError::Rank { core, found, expected });
    }
    for (dim, ((begin, end), extent)) in part.ranges().iter().zip(shape).enumerate() {
        if *begin < 0 || begin >= end || end > extent {
            let (begin, end, extent) = (*begin, *end, *extent);
            return Err(ExchangeError::OutsideTensor { core, dim, begin, end, extent });
        }
    }
    Ok(())
}

fn unflatten_index(mut flat: i64, shape: &[i64]) -> Vec<i64> {
    let mut index = vec![0; shape.len()];
    for (i, n) in index.iter_mut().zip(shape).rev() {
        *i = flat % n;
        flat /= n;
    }
    index
}

/// What of `part` is not in `held`, as boxes.
fn subtract_box(part: &TensorBox, held: &TensorBox) -> Vec<TensorBox> {
    let common = |(a, b): (&(i64, i64), &(i64, i64))| (a.0.max(b.0), a.1.min(b.1));
    let overlap: Vec<_> = part.ranges().iter().zip(held.ranges()).map(common).collect();
    if overlap.iter().any(|(begin, end)| begin >= end) {
        return vec![part.clone()];
    }
    let mut rest = Vec::new();
    let mut core = part.ranges().to_vec();
    // In each dimension what is in front of the overlap and behind it is cut off; what then remains has the extent of
    // the overlap there, so that the pieces of different dimensions do not meet.
    for (dim, (begin, end)) in overlap.into_iter().enumerate() {
        for side in [(core[dim].0, begin), (end, core[dim].1)] {
            if side.0 < side.1 {
                let mut piece = core.clone();
                piece[dim] = side;
                rest.push(TensorBox::new(piece));
            }
        }
        core[dim] = (begin, end);
    }
    rest
}

/// The extent in each dimension of a box whose elements are on the same cores: the product of the fastest digits of the
/// dimension that do not move on the axis of cores. A layout whose digits do not meet the dimensions, or one with
/// padding, is looked at element by element: that is slower, and its answer is the same.
fn cell_extents(layout: &Layout, shape: &[i64], axis: Axis) -> Vec<i64> {
    let Ok((grouped, separators)) = layout.group(shape) else { return vec![1; shape.len()] };
    let shard = grouped.tile().shard();
    let digits = separators.windows(2).map(|dim| &shard[dim[0]..dim[1]]);
    let still = |digits: &[Iter]| {
        digits
            .iter()
            .rev()
            .take_while(|d| d.axis != axis || d.stride == 0)
            .map(|d| d.extent)
            .product()
    };
    digits.map(still).collect()
}

/// One box instead of two that are neighbours along a dimension and equal in all others.
fn join_along(a: &TensorBox, b: &TensorBox, dim: usize) -> Option<TensorBox> {
    let mut ranges = a.ranges().to_vec();
    let equal_or_next = |d: usize| match (a.ranges()[d], b.ranges()[d]) {
        (x, y) if d == dim => x.1 == y.0,
        (x, y) => x == y,
    };
    if dim >= ranges.len() || !(0..ranges.len()).all(equal_or_next) {
        return None;
    }
    ranges[dim].1 = b.ranges()[dim].1;
    Some(TensorBox::new(ranges))
}

/// The same elements in fewer boxes: neighbours are joined along the last dimension, then along the one before it, and
/// so on. Where the elements are one box, one box is found; in general the number is not the least, which would be a
/// hard problem.
pub(crate) fn merge_boxes(mut boxes: Vec<TensorBox>) -> Vec<TensorBox> {
    let rank = boxes.first().map_or(0, |b| b.ranges().len());
    for dim in (0..rank).rev() {
        // Boxes that differ along `dim` alone become neighbours in the list.
        boxes.sort_by(|a, b| {
            let key = |x: &TensorBox| {
                let mut key = x.ranges().to_vec();
                let own = key.remove(dim);
                (key, own)
            };
            key(a).cmp(&key(b))
        });
        let mut joined: Vec<TensorBox> = Vec::with_capacity(boxes.len());
        for part in boxes {
            match joined.last().and_then(|last| join_along(last, &part, dim)) {
                Some(both) => {
                    joined.pop();
                    joined.push(both);
                }
                None => joined.push(part),
            }
        }
        boxes = joined;
    }
    boxes.sort();
    boxes
}
