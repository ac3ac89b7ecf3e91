//! Equality of layouts as functions, with the first difference as witness.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::{Layout, MAX_PLACES, PhysicalCoordinate};
use crate::radix::RadixFunction;
use crate::tile::TileLayout;
use crate::window::PaddedExtent;

/// Why two layouts are not the same function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutDifference {
    /// They have different numbers of elements.
    Size(i64, i64),
    /// Element `index` has the physical coordinates `left` in one layout and `right` in the other.
    At {
        /// The flat index; the smallest that differs, where both layouts have no padding.
        index: i64,
        /// Its physical coordinates in the first layout.
        left: Vec<PhysicalCoordinate>,
        /// Its physical coordinates in the second layout.
        right: Vec<PhysicalCoordinate>,
    },
}

/// Physical coordinates that are compared one by one before the question is refused as too large.
const MAX_COMPARED_PLACES: i64 = 1 << 22;
/// Physical coordinates that are compared of layouts past that limit, because two layouts that differ mostly differ
/// early: a difference is an answer, whatever the limit.
const MAX_GLANCED_PLACES: i64 = 1 << 16;

impl Layout {
    /// Whether two layouts put every element in the same set of physical coordinates; where they do not, an
    /// element that proves it.
    ///
    /// The layouts are compared as functions: strides of unit iters, the order of replicas, zero offsets
    /// and the way a shape is split never matter. The answer needs no enumeration unless swizzles differ or
    /// padding does not follow the iters. In these cases layouts past a limit whose first elements agree
    /// are refused as too large.
    pub fn find_difference(&self, other: &Layout) -> Result<Option<LayoutDifference>> {
        if self.size() != other.size() {
            return Ok(Some(LayoutDifference::Size(self.size(), other.size())));
        }
        if self.size() == 0 {
            return Ok(None);
        }
        // A swizzle permutes physical coordinates, so equal swizzles can be left out on both sides. Only the
        // effective parts are compared: bits that no address sets do nothing.
        if self.effective_swizzle() == other.effective_swizzle()
            && let Some(index) = self.find_tile_difference(other)?
        {
            return index.map(|i| self.differ_at_index(other, i)).transpose();
        }
        let copies = self.tile().replica_count().max(other.tile().replica_count());
        let whole =
            copies <= MAX_PLACES && self.size().saturating_mul(copies) <= MAX_COMPARED_PLACES;
        let looked = match copies {
            _ if whole => self.size(),
            1..=MAX_PLACES => self.size().min(MAX_GLANCED_PLACES / copies),
            _ => 0,
        };
        if let Some(first) = (0..looked).find(|i| !self.has_same_places(other, *i)) {
            return self.differ_at_index(other, first).map(Some);
        }
        if whole {
            return Ok(None);
        }
        let limit = MAX_COMPARED_PLACES.cast_unsigned();
        Err(LayoutError::TooLarge { what: "comparing the layouts element by element", limit })
    }

    /// Whether, for some `first`, the only physical coordinate of each element `i` is the address `first + i` on `m`.
    pub fn is_contiguous(&self) -> Result<bool> {
        if self.size() == 0 {
            return Ok(true);
        }
        if self.tile().axes().iter().any(|a| *a != Axis::M) {
            return Ok(false);
        }
        let first = self
            .physical_coordinates(0)?
            .sorted_coordinates()
            .first()
            .map_or(0, |p| p.get(Axis::M));
        let line = TileLayout::from_strides(&[self.size()], &[1], first)?;
        Ok(self.find_difference(&line.into())?.is_none())
    }

    fn has_same_places(&self, other: &Layout, i: i64) -> bool {
        zellige_guard::count_step();
        normalize_coordinates(&self.physical_coordinates_unchecked(i).sorted_coordinates())
            == normalize_coordinates(&other.physical_coordinates_unchecked(i).sorted_coordinates())
    }

    fn differ_at_index(&self, other: &Layout, index: i64) -> Result<LayoutDifference> {
        let (left, right) = (
            self.physical_coordinates(index)?.sorted_coordinates(),
            other.physical_coordinates(index)?.sorted_coordinates(),
        );
        Ok(LayoutDifference::At { index, left, right })
    }

    /// The first index at which the tile layouts differ, over the valid elements. The outer `None` means
    /// that the iters do not decide it.
    #[allow(clippy::option_option, reason = "undecided, equal and different are three answers")]
    fn find_tile_difference(&self, other: &Layout) -> Result<Option<Option<i64>>> {
        let (a, b) = (self.tile(), other.tile());
        // The set of physical coordinates of an element is its own physical coordinate plus the replica
        // set, so the two questions separate: are the replica sets equal up to a shift, and are the shards
        // equal after that shift?
        let Some(shift) = find_replica_shift(a, b)? else {
            // The replica sets are no shift of each other, so every element differs, the first one included.
            return Ok(Some(Some(0)));
        };
        let mut axes: Vec<Axis> = a.axes().iter().chain(b.axes()).copied().collect();
        axes.sort_unstable();
        axes.dedup();
        // `first_difference` compares increments only, so the first elements are compared here.
        let base = |l: &Layout| {
            l.tile().unreplicated_coordinate(l.window().map_or(0, |w| w.padded_index_of(0)))
        };
        let (base_a, base_b) = (base(self), base(other));
        let at =
            |t: &TileLayout, v: &[i64], axis| t.axis_index(axis).map_or(0, |i| i128::from(v[i]));
        for axis in &axes {
            let moved = shift.iter().find(|(x, _)| x == axis).map_or(0, |(_, v)| *v);
            if at(a, &base_a, *axis) + moved != at(b, &base_b, *axis) {
                return Ok(Some(Some(0)));
            }
        }
        if self.window().is_none() && other.window().is_none() {
            let (f, g) = (
                RadixFunction::from_iters(a.shard(), &axes),
                RadixFunction::from_iters(b.shard(), &axes),
            );
            // All axes at once, as vectors: axis by axis the jumps would agree too often, and the
            // smallest index would have to be searched for among several answers.
            let t = f.first_difference(0, &g, 0, a.size().into());
            return Ok(Some(t.map(|t| i64::try_from(t).expect("inside the layout"))));
        }
        self.find_windowed_difference(other, &axes)
    }

    /// Dimension by dimension: both layouts are sums of one function per dimension when their
    /// iters follow the dimensions.
    #[allow(clippy::option_option, reason = "undecided, equal and different are three answers")]
    fn find_windowed_difference(
        &self,
        other: &Layout,
        axes: &[Axis],
    ) -> Result<Option<Option<i64>>> {
        let shape = self.window().or(other.window()).map(|w| w.shape()).unwrap_or_default();
        let side = |l: &Layout| -> Option<(Vec<RadixFunction>, Vec<PaddedExtent>)> {
            let dims = l.window_or_trivial(&shape);
            if dims.iter().map(|d| d.valid).ne(shape.iter().copied()) {
                return None;
            }
            let padded: Vec<i64> = dims.iter().map(|d| d.padded).collect();
            let (grouped, seps) = l.tile().group(&padded).ok()?;
            let radices = seps
                .windows(2)
                .map(|w| RadixFunction::from_iters(&grouped.shard()[w[0]..w[1]], axes))
                .collect();
            Some((radices, dims))
        };
        let (Some((f, f_dims)), Some((g, g_dims))) = (side(self), side(other)) else {
            return Ok(None);
        };
        let mut weight = 1;
        // A difference of the sums is a difference in some dimension with the others at their first
        // index. The fastest dimension first, because an index along it is smaller than any along a
        // slower one.
        for d in (0..shape.len()).rev() {
            let (b, c) = (f_dims[d].begin.into(), g_dims[d].begin.into());
            if let Some(t) = f[d].first_difference(b, &g[d], c, shape[d].into()) {
                return Ok(Some(Some(i64::try_from(t).expect("inside the shape") * weight)));
            }
            weight *= shape[d];
        }
        Ok(Some(None))
    }
}

fn normalize_coordinates(points: &[PhysicalCoordinate]) -> Vec<PhysicalCoordinate> {
    let mut points: Vec<_> = points.iter().map(PhysicalCoordinate::without_zero_entries).collect();
    points.sort_unstable();
    points
}

/// The `v` with `R_b + v = R_a` as sets, if there is one. Both sets are finite, so a shift must map the
/// lowest corner to the lowest corner, and the only candidate is `lowest(R_a) - lowest(R_b)`, axis by axis.
fn find_replica_shift(a: &TileLayout, b: &TileLayout) -> Result<Option<Vec<(Axis, i128)>>> {
    let (ca, cb) = (a.canonical_form(), b.canonical_form());
    let low = |t: &TileLayout, axis: Axis| -> i128 {
        t.replica()
            .iter()
            .filter(|it| it.axis == axis && it.stride < 0)
            .map(|it| i128::from(it.extent - 1) * i128::from(it.stride))
            .sum()
    };
    let axes = a.axes().iter().chain(b.axes());
    let shift = axes.map(|axis| (*axis, low(a, *axis) - low(b, *axis))).collect();
    // Canonical replicas run upwards and are sorted, so this decides nearly every case without
    // listing a set.
    if ca.replica() == cb.replica() {
        return Ok(Some(shift));
    }
    let set = |t: &TileLayout| -> Result<Vec<PhysicalCoordinate>> {
        let only = Layout::from(TileLayout::new(Vec::new(), t.replica().to_vec(), [])?);
        Ok(normalize_coordinates(&only.physical_coordinates(0)?.sorted_coordinates()))
    };
    Ok((set(&ca)? == set(&cb)?).then_some(shift))
}
