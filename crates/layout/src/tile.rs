//! Tile layouts: shard, replica and offset on named axes.

use crate::axis::ExecutionScope;
use crate::axis::{Axis, thread_scope_pair};
use crate::error::{LayoutError, Result};
use crate::int::{checked_product, row_major_strides};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

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
    pub fn in_memory(extent: i64, stride: i64) -> Iter {
        Iter::new(extent, stride, Axis::M)
    }

    /// Whether it is on an axis and its extent is not 1. Unit iters are skipped because they have no
    /// effect, and because a text may hold any number of them.
    pub(crate) fn moves_on_axis(&self, axis: Axis) -> bool {
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
pub struct AxisBounds {
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
///
/// A layout is immutable, so clones share its contents and cost no more than a reference.
#[derive(Clone, PartialEq, Eq)]
pub struct TileLayout(Arc<TileParts>);

#[derive(PartialEq, Eq)]
struct TileParts {
    shard: Vec<Iter>,
    replica: Vec<Iter>,
    offset: Vec<(Axis, i64)>,
    /// The distinct axes mentioned anywhere, sorted by name.
    axes: SmallVec<[Axis; 4]>,
    /// Per axis, in the order of `axes`.
    bounds: SmallVec<[AxisBounds; 4]>,
    /// The offset per axis, in the order of `axes`.
    origin: SmallVec<[i64; 4]>,
    /// Per shard iter, then per replica iter, the index of its axis in `axes`.
    slots: SmallVec<[u8; 16]>,
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
                return Err(LayoutError::NegativeExtent {
                    what: "shard iter",
                    index,
                    extent: it.extent,
                });
            }
        }
        for (index, it) in replica.iter().enumerate() {
            if it.extent < 0 {
                return Err(LayoutError::NegativeExtent {
                    what: "replica iter",
                    index,
                    extent: it.extent,
                });
            }
            if it.extent == 0 {
                // An empty replica set would give elements without any physical coordinate, which no operator is
                // defined on.
                return Err(LayoutError::BadParameter {
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
                    *sum = sum.checked_add(value).ok_or_else(|| {
                        LayoutError::overflow_of(format!("the offset on `{axis}`"))
                    })?;
                }
                None => summed.push((axis, value)),
            }
        }
        summed.sort_unstable_by_key(|(a, _)| *a);

        let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
        let mentioned = shard.iter().chain(&replica).map(|it| it.axis);
        for axis in mentioned.chain(summed.iter().map(|(a, _)| *a)) {
            if !axes.contains(&axis) {
                // Axes are printed and looked up by name, so one name with two kinds would be
                // ambiguous in every text.
                if axes.iter().any(|a| a.same_name(&axis)) {
                    return Err(LayoutError::AxisConflict { name: axis.name().to_string() });
                }
                axes.push(axis);
            }
        }
        axes.sort_unstable();
        // Slots are bytes, so that those of 16 iters are stored inline.
        if axes.len() > usize::from(u8::MAX) {
            return Err(LayoutError::BadParameter {
                what: "the number of axes",
                value: i64::try_from(axes.len()).unwrap_or(i64::MAX),
                accepted: "a layout uses at most 255 axes".into(),
            });
        }

        let size = checked_product(shard.iter().map(|it| it.extent), "the number of elements")?;
        let copies = checked_product(replica.iter().map(|it| it.extent), "the number of replicas")?;
        let offset_on = |axis| summed.iter().find(|(a, _)| *a == axis).map_or(0, |(_, v)| *v);
        let origin: SmallVec<[i64; 4]> = axes.iter().map(|a| offset_on(*a)).collect();
        let slot_of = |it: &Iter| axes.iter().position(|a| *a == it.axis).unwrap_or(0);
        let slots: SmallVec<[u8; 16]> = shard
            .iter()
            .chain(&replica)
            .map(|it| u8::try_from(slot_of(it)).expect("at most 255 axes"))
            .collect();
        let bounds = compute_axis_bounds(shard.iter().chain(&replica).zip(&slots), &origin, &axes)?;
        let parts =
            TileParts { shard, replica, offset: summed, axes, bounds, origin, slots, size, copies };
        Ok(TileLayout(Arc::new(parts)))
    }

    /// A shard alone.
    pub fn from_shard(shard: Vec<Iter>) -> Result<TileLayout> {
        TileLayout::new(shard, Vec::new(), [])
    }

    /// Row-major in memory: the last dimension is contiguous.
    pub fn row_major(shape: &[i64]) -> Result<TileLayout> {
        TileLayout::from_strides(shape, &row_major_strides(shape)?, 0)
    }

    /// One memory iter per dimension, with the given strides and offset.
    pub fn from_strides(size: &[i64], stride: &[i64], offset: i64) -> Result<TileLayout> {
        if size.len() != stride.len() {
            return Err(LayoutError::LengthMismatch {
                what: "the stride list",
                expected: size.len(),
                found: stride.len(),
            });
        }
        let shard = size.iter().zip(stride).map(|(e, s)| Iter::in_memory(*e, *s)).collect();
        TileLayout::new(shard, Vec::new(), (offset != 0).then_some((Axis::M, offset)))
    }

    /// The shard iters, slowest first.
    pub fn shard(&self) -> &[Iter] {
        &self.0.shard
    }

    /// The replica iters.
    pub fn replica(&self) -> &[Iter] {
        &self.0.replica
    }

    /// The offset, one entry per axis that was given one, sorted by axis.
    pub fn offset(&self) -> &[(Axis, i64)] {
        &self.0.offset
    }

    /// The offset on one axis, 0 where none was given.
    pub fn offset_on(&self, axis: Axis) -> i64 {
        self.0.offset.iter().find(|(a, _)| *a == axis).map_or(0, |(_, v)| *v)
    }

    /// The distinct axes mentioned, sorted by name.
    pub fn axes(&self) -> &[Axis] {
        &self.0.axes
    }

    /// The number of logical elements.
    pub fn size(&self) -> i64 {
        self.0.size
    }

    /// The number of replica combinations: how many coordinates each element has.
    pub fn replica_count(&self) -> i64 {
        self.0.copies
    }

    /// The product of the extents of the shard iters on one axis.
    pub fn size_on(&self, axis: Axis) -> i64 {
        // A factor of `size`, hence no overflow unless another factor is 0.
        let extents = self.0.shard.iter().filter(|it| it.axis == axis).map(|it| it.extent);
        checked_product(extents, "size").unwrap_or(i64::MAX)
    }

    /// The smallest and largest coordinate on an axis; `[0, 0]` on one it does not mention.
    pub fn axis_bounds(&self, axis: Axis) -> AxisBounds {
        self.axis_index(axis).map_or(AxisBounds { min: 0, max: 0 }, |i| self.0.bounds[i])
    }

    /// One more than the largest coordinate on an axis, offset included (CuTe's cosize); 0 for a
    /// layout without elements.
    pub fn axis_span(&self, axis: Axis) -> i64 {
        if self.size() == 0 { 0 } else { self.axis_bounds(axis).max + 1 }
    }

    /// Largest minus smallest coordinate on an axis, plus one; 0 for a layout without elements.
    pub fn axis_extent(&self, axis: Axis) -> i64 {
        let b = self.axis_bounds(axis);
        if self.size() == 0 { 0 } else { b.max - b.min + 1 }
    }

    /// The pair (narrowest scope counted, widest scope counted in) of its thread axes.
    pub fn thread_scopes(&self) -> Result<Option<(ExecutionScope, ExecutionScope)>> {
        thread_scope_pair(&self.0.axes)
    }

    /// The index of an axis in [`TileLayout::axes`].
    pub(crate) fn axis_index(&self, axis: Axis) -> Option<usize> {
        self.0.axes.iter().position(|a| *a == axis)
    }

    /// `D(flat) + O`, one entry per axis of [`TileLayout::axes`]. `flat` is inside the domain.
    pub(crate) fn unreplicated_coordinate(&self, flat: i64) -> SmallVec<[i64; 8]> {
        let mut point = SmallVec::from_slice(&self.0.origin);
        self.add_digits_of_index(flat, &mut point);
        point
    }

    /// The offset, one entry per axis of [`TileLayout::axes`].
    pub(crate) fn offset_vector(&self) -> &[i64] {
        &self.0.origin
    }

    /// Adds `D(flat)` onto `point`, one entry per axis. `flat` is inside the domain.
    #[inline]
    pub(crate) fn add_digits_of_index(&self, flat: i64, point: &mut [i64]) {
        let parts = &*self.0;
        let Some((outermost, inner)) = parts.shard.split_first() else { return };
        // Unsigned, because the index is inside the domain, and an unsigned division by a power of
        // two is a shift.
        let mut rest = flat.cast_unsigned();
        for (it, slot) in inner.iter().zip(&parts.slots[1..]).rev() {
            let extent = it.extent.cast_unsigned();
            // Most extents are powers of two, and a division costs as much as the rest of this loop.
            let digit = if extent.is_power_of_two() {
                let digit = rest & (extent - 1);
                rest >>= extent.trailing_zeros();
                digit
            } else {
                let digit = rest % extent;
                rest /= extent;
                digit
            };
            point[usize::from(*slot)] += digit.cast_signed() * it.stride;
        }
        // The outermost digit is what remains: it needs no division, because the index is inside
        // the domain.
        point[usize::from(parts.slots[0])] += rest.cast_signed() * outermost.stride;
    }

    /// The replica iters, each with the index of its axis in [`TileLayout::axes`].
    pub(crate) fn replica_iters_with_axis(&self) -> impl Iterator<Item = (&Iter, usize)> + '_ {
        let slots = self.0.slots[self.0.shard.len()..].iter().map(|s| usize::from(*s));
        self.0.replica.iter().zip(slots)
    }

    /// The same layout with another shard.
    pub(crate) fn with_shard(&self, shard: Vec<Iter>) -> Result<TileLayout> {
        TileLayout::new(shard, self.0.replica.clone(), self.0.offset.iter().copied())
    }

    /// Whether it is row-major in memory: element `i` at address `i`, one copy.
    ///
    /// The test is on the function: unit iters, zero offsets and the way the shape is split never matter.
    pub fn is_trivial(&self) -> bool {
        let mut next = 1;
        for it in self.0.shard.iter().rev().filter(|it| it.extent != 1) {
            if it.axis != Axis::M || it.stride != next {
                return self.0.size == 0;
            }
            next *= it.extent;
        }
        self.0.offset.iter().all(|(_, v)| *v == 0)
            && self.0.replica.iter().all(|it| it.extent == 1 || it.stride == 0)
    }
}

/// The least interval per axis that holds every coordinate, for a non-empty layout; an empty one is
/// bounded by its offset.
fn compute_axis_bounds<'a>(
    iters: impl Iterator<Item = (&'a Iter, &'a u8)>,
    origin: &[i64],
    axes: &[Axis],
) -> Result<SmallVec<[AxisBounds; 4]>> {
    let mut wide: SmallVec<[(i128, i128); 4]> =
        origin.iter().map(|o| (i128::from(*o), i128::from(*o))).collect();
    for (it, slot) in iters {
        let (min, max) = &mut wide[usize::from(*slot)];
        let reach = i128::from((it.extent - 1).max(0)) * i128::from(it.stride);
        if reach < 0 {
            *min = min.saturating_add(reach);
        } else {
            *max = max.saturating_add(reach);
        }
    }
    let narrow = |(axis, (min, max)): (&Axis, (i128, i128))| {
        // Not only the bounds but also the span (one past the largest) and the number of
        // coordinates must fit, because callers compute both without checks.
        let end = i64::try_from(max.saturating_add(1));
        let extent = i64::try_from(max.saturating_sub(min).saturating_add(1));
        match (i64::try_from(min), end, extent) {
            (Ok(min), Ok(end), Ok(_)) => Ok(AxisBounds { min, max: end - 1 }),
            _ => Err(LayoutError::overflow_of(format!("the range of coordinates on `{axis}`"))),
        }
    };
    axes.iter().zip(wide).map(narrow).collect()
}

impl fmt::Debug for TileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S{:?}", self.0.shard)?;
        if !self.0.replica.is_empty() {
            write!(f, " + R{:?}", self.0.replica)?;
        }
        for (axis, v) in &self.0.offset {
            write!(f, " + {v}@{axis}")?;
        }
        Ok(())
    }
}
