//! Tile layouts: shard, replica and offset on named axes.

use crate::axis::Scope;
use crate::axis::{Axis, scope_pair};
use crate::error::{Error, Result};
use crate::int::{narrow, product, row_major};
use smallvec::SmallVec;
use std::fmt;

/// `extent` steps of `stride` along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Iter {
    /// Number of steps; 0 makes the layout empty.
    pub extent: i64,
    /// Distance of one step; 0 is a broadcast, negative runs backwards.
    pub stride: i64,
    /// The axis it moves along.
    pub axis: Axis,
}

impl Iter {
    /// `extent` steps of `stride` along `axis`.
    pub fn new(extent: i64, stride: i64, axis: Axis) -> Iter {
        Iter { extent, stride, axis }
    }

    /// `extent` steps of `stride` in memory.
    pub fn mem(extent: i64, stride: i64) -> Iter {
        Iter::new(extent, stride, Axis::M)
    }

    /// Whether it is on an axis and has more than one step: a unit iter says nothing, and a text
    /// may hold any number of them.
    pub(crate) fn moves_on(&self, axis: Axis) -> bool {
        self.axis == axis && self.extent != 1
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.extent, self.stride, self.axis)
    }
}

/// The smallest and the largest coordinate on one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Smallest coordinate.
    pub min: i64,
    /// Largest coordinate.
    pub max: i64,
}

/// Shard D, replica R and offset O: `L(x) = { D(x) + r + O | r in R }`.
///
/// `x` is a flat index in `[0, size)`. It is split over the extents of the shard, last iter
/// fastest; each digit adds `digit * stride` on its axis. Each combination of replica digits
/// gives one more coordinate of the set.
///
/// **Invariants**, checked by [`TileLayout::new`]:
/// 1. every extent is 0 or more; a replica extent is 1 or more;
/// 2. the product of the shard extents, and that of the replica extents, fits in `i64`;
/// 3. on every axis the smallest and largest coordinate, and their difference, fit in `i64`, so
///    evaluation at any index of the domain cannot overflow;
/// 4. one axis name has one kind.
#[derive(Clone, PartialEq, Eq)]
pub struct TileLayout {
    shard: Vec<Iter>,
    replica: Vec<Iter>,
    offset: Vec<(Axis, i64)>,
    /// The distinct axes mentioned anywhere, sorted by name.
    axes: SmallVec<[Axis; 4]>,
    /// Per axis, in the order of `axes`.
    bounds: SmallVec<[Bounds; 4]>,
    /// Per shard iter, the index of its axis in `axes`.
    slots: SmallVec<[u8; 8]>,
    size: i64,
    copies: i64,
}

impl TileLayout {
    /// Checks the invariants and builds the layout. Offsets on one axis add up.
    pub fn new(
        shard: Vec<Iter>,
        replica: Vec<Iter>,
        offset: impl IntoIterator<Item = (Axis, i64)>,
    ) -> Result<TileLayout> {
        for (index, it) in shard.iter().enumerate() {
            if it.extent < 0 {
                return Err(Error::NegativeExtent { what: "shard iter", index, extent: it.extent });
            }
        }
        for (index, it) in replica.iter().enumerate() {
            if it.extent < 0 {
                return Err(Error::NegativeExtent {
                    what: "replica iter",
                    index,
                    extent: it.extent,
                });
            }
            if it.extent == 0 {
                return Err(Error::BadParameter {
                    what: "a replica extent",
                    value: 0,
                    accepted: "an element has at least one copy".into(),
                });
            }
        }
        let mut summed: Vec<(Axis, i64)> = Vec::new();
        for (axis, value) in offset {
            match summed.iter_mut().find(|(a, _)| *a == axis) {
                Some((_, sum)) => {
                    *sum = sum
                        .checked_add(value)
                        .ok_or_else(|| Error::overflow(format!("the offset on `{axis}`")))?;
                }
                None => summed.push((axis, value)),
            }
        }
        summed.sort_unstable_by_key(|(a, _)| *a);

        let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
        let mentioned = shard.iter().chain(&replica).map(|it| it.axis);
        for axis in mentioned.chain(summed.iter().map(|(a, _)| *a)) {
            if !axes.contains(&axis) {
                if axes.iter().any(|a| a.name() == axis.name()) {
                    return Err(Error::AxisConflict { name: axis.name().to_string() });
                }
                axes.push(axis);
            }
        }
        axes.sort_unstable();
        if axes.len() > usize::from(u8::MAX) {
            return Err(Error::BadParameter {
                what: "the number of axes",
                value: i64::try_from(axes.len()).unwrap_or(i64::MAX),
                accepted: "a layout uses at most 255 axes".into(),
            });
        }

        let size = product(shard.iter().map(|it| it.extent), "the number of elements")?;
        let copies = product(replica.iter().map(|it| it.extent), "the number of replicas")?;
        let mut layout = TileLayout {
            shard,
            replica,
            offset: summed,
            axes,
            bounds: SmallVec::new(),
            slots: SmallVec::new(),
            size,
            copies,
        };
        layout.bounds = layout.compute_bounds()?;
        layout.slots = layout
            .shard
            .iter()
            .map(|it| u8::try_from(layout.slot(it.axis).unwrap_or(0)).unwrap_or(0))
            .collect();
        Ok(layout)
    }

    /// A shard alone.
    pub fn of(shard: Vec<Iter>) -> Result<TileLayout> {
        TileLayout::new(shard, Vec::new(), [])
    }

    /// Row-major in memory: the last dimension is contiguous.
    pub fn row_major(shape: &[i64]) -> Result<TileLayout> {
        TileLayout::strided(shape, &row_major(shape)?, 0)
    }

    /// One memory iter per dimension, with the given strides and offset.
    pub fn strided(size: &[i64], stride: &[i64], offset: i64) -> Result<TileLayout> {
        if size.len() != stride.len() {
            return Err(Error::LengthMismatch {
                what: "the stride list",
                expected: size.len(),
                found: stride.len(),
            });
        }
        let shard = size.iter().zip(stride).map(|(e, s)| Iter::mem(*e, *s)).collect();
        TileLayout::new(shard, Vec::new(), (offset != 0).then_some((Axis::M, offset)))
    }

    /// Law: `bounds(a)` is the least interval that holds every coordinate on `a`, for a non-empty
    /// layout; an empty one is bounded by its offset.
    fn compute_bounds(&self) -> Result<SmallVec<[Bounds; 4]>> {
        self.axes
            .iter()
            .map(|axis| {
                let offset = i128::from(self.offset_on(*axis));
                let (mut min, mut max) = (offset, offset);
                for it in self.shard.iter().chain(&self.replica).filter(|it| it.axis == *axis) {
                    let reach = i128::from((it.extent - 1).max(0)) * i128::from(it.stride);
                    if reach < 0 {
                        min = min.saturating_add(reach);
                    } else {
                        max = max.saturating_add(reach);
                    }
                }
                let what = format!("the range of coordinates on `{axis}`");
                narrow(max.saturating_sub(min).saturating_add(1), &what)?;
                narrow(max.saturating_add(1), &what)?;
                Ok(Bounds { min: narrow(min, &what)?, max: narrow(max, &what)? })
            })
            .collect()
    }

    /// The shard iters, slowest first.
    pub fn shard(&self) -> &[Iter] {
        &self.shard
    }

    /// The replica iters.
    pub fn replica(&self) -> &[Iter] {
        &self.replica
    }

    /// The offset, one entry per axis that was given one, sorted by axis.
    pub fn offset(&self) -> &[(Axis, i64)] {
        &self.offset
    }

    /// The offset on one axis, 0 where none was given.
    pub fn offset_on(&self, axis: Axis) -> i64 {
        self.offset.iter().find(|(a, _)| *a == axis).map_or(0, |(_, v)| *v)
    }

    /// The distinct axes mentioned, sorted by name.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The number of logical elements.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// The number of replica combinations: how many coordinates each element has.
    pub fn copies(&self) -> i64 {
        self.copies
    }

    /// The product of the extents of the shard iters on one axis.
    pub fn size_on(&self, axis: Axis) -> i64 {
        // A factor of `size`, hence no overflow unless another factor is 0.
        let extents = self.shard.iter().filter(|it| it.axis == axis).map(|it| it.extent);
        product(extents, "size").unwrap_or(i64::MAX)
    }

    /// The smallest and largest coordinate on an axis; `[0, 0]` on one it does not mention.
    pub fn bounds(&self, axis: Axis) -> Bounds {
        self.slot(axis).map_or(Bounds { min: 0, max: 0 }, |i| self.bounds[i])
    }

    /// One more than the largest coordinate on an axis, offset included.
    pub fn span(&self, axis: Axis) -> i64 {
        self.bounds(axis).max + 1
    }

    /// Largest minus smallest coordinate on an axis, plus one.
    pub fn extent(&self, axis: Axis) -> i64 {
        let b = self.bounds(axis);
        b.max - b.min + 1
    }

    /// The pair (narrowest scope counted, widest scope counted in) of its thread axes.
    pub fn scope(&self) -> Result<Option<(Scope, Scope)>> {
        scope_pair(&self.axes)
    }

    /// The index of an axis in [`TileLayout::axes`].
    pub(crate) fn slot(&self, axis: Axis) -> Option<usize> {
        self.axes.iter().position(|a| *a == axis)
    }

    /// Adds `D(flat) + O` onto `point` (one entry per axis). `flat` is inside the domain.
    #[inline]
    pub(crate) fn add_base(&self, flat: i64, point: &mut [i64]) {
        let mut rest = flat.cast_unsigned();
        for (it, slot) in self.shard.iter().zip(&self.slots).rev() {
            let extent = it.extent.cast_unsigned();
            let digit = if rest < extent {
                let d = rest;
                rest = 0;
                d
            } else {
                let d = rest % extent;
                rest /= extent;
                d
            };
            point[usize::from(*slot)] += digit.cast_signed() * it.stride;
        }
        for (axis, value) in &self.offset {
            if let Some(i) = self.slot(*axis) {
                point[i] += value;
            }
        }
    }

    /// `D(flat) + O`, one entry per axis of [`TileLayout::axes`]. `flat` is inside the domain.
    pub(crate) fn base(&self, flat: i64) -> SmallVec<[i64; 8]> {
        let mut point = SmallVec::from_elem(0, self.axes.len());
        self.add_base(flat, &mut point);
        point
    }

    /// The same layout with another shard.
    pub(crate) fn with_shard(&self, shard: Vec<Iter>) -> Result<TileLayout> {
        TileLayout::new(shard, self.replica.clone(), self.offset.iter().copied())
    }

    /// Whether it is row-major in memory: element `i` at address `i`, one copy.
    ///
    /// Semantic: unit iters, zero offsets and how the shape is split never matter.
    pub fn is_trivial(&self) -> bool {
        let mut next = 1;
        for it in self.shard.iter().rev().filter(|it| it.extent != 1) {
            if it.axis != Axis::M || it.stride != next {
                return self.size == 0;
            }
            next *= it.extent;
        }
        self.offset.iter().all(|(_, v)| *v == 0)
            && self.replica.iter().all(|it| it.extent == 1 || it.stride == 0)
    }
}

impl fmt::Debug for TileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S{:?}", self.shard)?;
        if !self.replica.is_empty() {
            write!(f, " + R{:?}", self.replica)?;
        }
        for (axis, v) in &self.offset {
            write!(f, " + {v}@{axis}")?;
        }
        Ok(())
    }
}
