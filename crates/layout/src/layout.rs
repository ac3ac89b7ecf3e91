//! The one layout type: a tile layout, a swizzle of its memory, a window of valid elements.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::checked_product;
use crate::swizzle::Swizzle;
use crate::tile::{AxisBounds, TileLayout};
use crate::window::{PaddedExtent, ValidWindow};
use smallvec::SmallVec;
use std::fmt;

/// A physical coordinate, in messages a place: one integer for each axis that the layout mentions, sorted
/// by axis name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalCoordinate(SmallVec<[(Axis, i64); 4]>);

impl PhysicalCoordinate {
    /// A physical coordinate from its coordinates; the order does not matter.
    pub fn new(coordinates: impl IntoIterator<Item = (Axis, i64)>) -> PhysicalCoordinate {
        let mut entries: SmallVec<[(Axis, i64); 4]> = coordinates.into_iter().collect();
        entries.sort_unstable();
        PhysicalCoordinate(entries)
    }

    /// The coordinate on an axis; 0 for an axis that is not mentioned.
    pub fn get(&self, axis: Axis) -> i64 {
        self.0.iter().find(|(a, _)| *a == axis).map_or(0, |(_, v)| *v)
    }

    /// The entries, sorted by axis name.
    pub fn axis_entries(&self) -> &[(Axis, i64)] {
        &self.0
    }

    /// Without the axes at 0: two physical coordinates are the same when these are.
    pub fn without_zero_entries(&self) -> PhysicalCoordinate {
        PhysicalCoordinate(self.0.iter().filter(|(_, v)| *v != 0).copied().collect())
    }
}

impl fmt::Display for PhysicalCoordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (axis, value)) in self.0.iter().enumerate() {
            write!(f, "{}{axis}: {value}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for PhysicalCoordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The set of physical coordinates of one element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinateSet<'a> {
    axes: &'a [Axis],
    values: SmallVec<[i64; 8]>,
    count: usize,
}

// Rows of plain numbers instead of coordinates with axes: evaluating a layout is the inner loop of
// enumerations, and most callers need one axis only.
impl CoordinateSet<'_> {
    /// How many physical coordinates; at least one.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Never: an element has at least one physical coordinate.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The axes of the coordinates.
    pub fn axes(&self) -> &[Axis] {
        self.axes
    }

    /// The coordinates, one row per physical coordinate, in the order of [`CoordinateSet::axes`].
    pub fn coordinate_rows(&self) -> impl Iterator<Item = &[i64]> + '_ {
        let width = self.axes.len();
        (0..self.count).map(move |i| &self.values[i * width..(i + 1) * width])
    }

    /// The physical coordinates, sorted.
    pub fn sorted_coordinates(&self) -> Vec<PhysicalCoordinate> {
        let mut points: Vec<_> = self
            .coordinate_rows()
            .map(|row| {
                PhysicalCoordinate(self.axes.iter().copied().zip(row.iter().copied()).collect())
            })
            .collect();
        points.sort_unstable();
        points.dedup();
        points
    }
}

/// A layout: the physical coordinates of every element of a tensor.
///
/// The meaning of a layout is the function [`Layout::physical_coordinates`] from a flat index to a set of
/// coordinates: the window moves the index into the padded domain, the tile layout gives the
/// coordinates, the swizzle permutes the one on `m`.
#[derive(Clone, PartialEq, Eq)]
pub struct Layout {
    tile: TileLayout,
    swizzle: Option<Swizzle>,
    window: Option<ValidWindow>,
}

impl From<TileLayout> for Layout {
    fn from(tile: TileLayout) -> Layout {
        Layout { tile, swizzle: None, window: None }
    }
}

impl Layout {
    /// `swizzle` after `tile`, without padding.
    ///
    /// A swizzle needs a coordinate on `m` that is never negative; other axes pass through it.
    pub fn from_swizzled_tile(swizzle: Swizzle, tile: TileLayout) -> Result<Layout> {
        if tile.size() > 0 {
            if !tile.axes().contains(&Axis::M) && !tile.axes().is_empty() {
                let found: Vec<_> = tile.axes().iter().map(|a| format!("`{a}`")).collect();
                let reason = format!("the layout uses only {}", found.join(", "));
                return Err(LayoutError::SwizzleDomain { reason });
            }
            let AxisBounds { min, max } = tile.axis_bounds(Axis::M);
            if min < 0 {
                return Err(LayoutError::SwizzleDomain {
                    reason: format!("the smallest is {min}"),
                });
            }
            // A swizzle flips bits up to bit 61 at most, so that swizzled addresses stay
            // non-negative 64-bit integers.
            if max >= 1 << 62 {
                return Err(LayoutError::overflow_of("a swizzled address"));
            }
        }
        Ok(Layout { tile, swizzle: Some(swizzle), window: None })
    }

    /// The same layout with only the elements of `window`; the padded size of the window must be
    /// the size of the layout, which must not have a window yet.
    pub fn with_window(self, window: ValidWindow) -> Result<Layout> {
        if self.window.is_some() {
            return Err(LayoutError::Padded { op: "with_window" });
        }
        if window.padded_size() != self.tile.size() {
            return Err(LayoutError::SizeMismatch {
                what: format!("the padded shape {:?}", window.padded_shape()),
                expected: self.tile.size(),
                found: window.padded_size().into(),
            });
        }
        // A window without padding is left out, so that equal layouts have one representation and
        // operators that refuse padding accept it.
        let window = (!window.is_full()).then_some(window);
        Ok(Layout { window, ..self })
    }

    /// The tile layout, over the padded domain and before the swizzle.
    pub fn tile(&self) -> &TileLayout {
        &self.tile
    }

    /// The swizzle, if it has one.
    pub fn swizzle(&self) -> Option<Swizzle> {
        self.swizzle
    }

    /// The window of valid elements, if some are padding.
    pub fn window(&self) -> Option<&ValidWindow> {
        self.window.as_ref()
    }

    /// The layout of the whole padded domain.
    pub fn padded_domain(&self) -> Layout {
        Layout { window: None, ..self.clone() }
    }

    /// The axis of its memory: `m` if the layout mentions it or mentions no memory axis at all, else the
    /// first memory axis that it mentions.
    pub fn memory_axis(&self) -> Axis {
        let axes = self.tile.axes();
        let other = || axes.iter().copied().find(Axis::is_memory).unwrap_or(Axis::M);
        if axes.contains(&Axis::M) { Axis::M } else { other() }
    }

    /// The number of logical elements, without padding.
    pub fn size(&self) -> i64 {
        self.window.as_ref().map_or(self.tile.size(), ValidWindow::size)
    }

    /// The shape that is assumed where none is given: the valid extents where there is a window, else the
    /// extents of the shard.
    pub fn default_shape(&self) -> Vec<i64> {
        match &self.window {
            Some(w) => w.shape(),
            None => self.tile.shard().iter().map(|it| it.extent).collect(),
        }
    }

    /// Checks that a shape has as many elements as the layout.
    pub fn check_shape_size(&self, shape: &[i64]) -> Result<()> {
        for (index, extent) in shape.iter().enumerate() {
            if *extent < 0 {
                return Err(LayoutError::NegativeExtent {
                    what: "dimension",
                    index,
                    extent: *extent,
                });
            }
        }
        let found = checked_product(shape.iter().copied(), "the number of elements of the shape")?;
        if found != self.size() {
            return Err(LayoutError::SizeMismatch {
                what: format!("shape {shape:?}"),
                expected: self.size(),
                found: found.into(),
            });
        }
        Ok(())
    }

    /// The physical coordinates of the element with that flat index.
    pub fn physical_coordinates(&self, flat: i64) -> Result<CoordinateSet<'_>> {
        if !(0..self.size()).contains(&flat) {
            return Err(LayoutError::IndexOutOfRange { index: flat, size: self.size() });
        }
        // The set is returned as a list, so its size has to be bounded before it is built.
        if self.tile.replica_count() > MAX_PLACES {
            let limit = MAX_PLACES.cast_unsigned();
            return Err(LayoutError::TooLarge {
                what: "listing the replicas of an element",
                limit,
            });
        }
        Ok(self.physical_coordinates_unchecked(flat))
    }

    /// The physical coordinates of an element, for a flat index inside the domain.
    pub(crate) fn physical_coordinates_unchecked(&self, flat: i64) -> CoordinateSet<'_> {
        let inside = self.window.as_ref().map_or(flat, |w| w.padded_index_of(flat));
        let axes = self.tile.axes();
        let count = usize::try_from(self.tile.replica_count()).expect("at most MAX_PLACES");
        let width = axes.len();
        let values = SmallVec::from_slice(self.tile.offset_vector());
        let mut places = CoordinateSet { axes, values, count };
        self.tile.add_digits_of_index(inside, &mut places.values);
        if count > 1 {
            places.values.resize(width * count, 0);
            self.copy_replicas(&mut places.values, width);
        }
        if let Some(sw) = self.swizzle
            && let Some(m) = self.tile.axis_index(Axis::M)
        {
            // Last, because shard, replica and offset add up to one address, which the swizzle then
            // permutes.
            for row in places.values.chunks_mut(width) {
                row[m] = sw.apply_to_address(row[m]);
            }
        }
        places
    }

    /// Computes all rows of `width` values from the first one: each replica iter repeats all rows so far,
    /// one step further.
    fn copy_replicas(&self, values: &mut [i64], width: usize) {
        let mut filled = width;
        for (it, slot) in self.tile.replica_iters_with_axis() {
            let before = filled;
            for copy in 1..it.extent {
                values.copy_within(..before, filled);
                for row in values[filled..filled + before].chunks_exact_mut(width) {
                    row[slot] += copy * it.stride;
                }
                filled += before;
            }
        }
    }

    /// The physical coordinates of the element at a coordinate of an admitted shape.
    pub fn apply_to_coordinate(
        &self,
        shape: &[i64],
        coordinate: &[i64],
    ) -> Result<CoordinateSet<'_>> {
        self.check_shape_size(shape)?;
        self.physical_coordinates(flatten_coordinate(shape, coordinate)?)
    }

    /// The union of the physical coordinates of several elements, sorted.
    pub fn apply_to_coordinate_set(
        &self,
        shape: &[i64],
        coordinates: &[Vec<i64>],
    ) -> Result<Vec<PhysicalCoordinate>> {
        self.check_shape_size(shape)?;
        let mut all = Vec::new();
        for c in coordinates {
            all.extend(
                self.physical_coordinates(flatten_coordinate(shape, c)?)?.sorted_coordinates(),
            );
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// The smallest and largest coordinate on an axis, over the padded domain, swizzle applied.
    ///
    /// Exact also under a swizzle: it changes only the low `bits` bits, so only addresses in the topmost
    /// (lowermost) block of `2^bits` can give the maximum (minimum).
    pub fn axis_bounds(&self, axis: Axis) -> Result<AxisBounds> {
        let plain = self.tile.axis_bounds(axis);
        match self.swizzle {
            Some(sw) if axis == Axis::M && !sw.is_identity() && self.tile.size() > 0 => {
                crate::proof::swizzled_bounds(&self.tile, sw)
            }
            _ => Ok(plain),
        }
    }

    /// One more than the largest coordinate on an axis, over the padded domain; 0 for a layout
    /// without elements.
    pub fn axis_span(&self, axis: Axis) -> Result<i64> {
        Ok(if self.tile.size() == 0 { 0 } else { self.axis_bounds(axis)?.max + 1 })
    }

    /// Largest minus smallest coordinate on an axis, plus one, over the padded domain; 0 for a layout
    /// without elements.
    pub fn axis_extent(&self, axis: Axis) -> Result<i64> {
        let b = self.axis_bounds(axis)?;
        Ok(if self.tile.size() == 0 { 0 } else { b.max - b.min + 1 })
    }

    /// The physical coordinates in the range of every axis, from 0 (or the smallest coordinate, where that is
    /// negative) to the largest: used by elements and padding together.
    pub fn count_positions(&self) -> Result<i64> {
        if self.tile.size() == 0 {
            return Ok(0);
        }
        let mut total = 1i128;
        for axis in self.tile.axes() {
            let b = self.axis_bounds(*axis)?;
            total = total.saturating_mul(i128::from(b.max) - i128::from(b.min.min(0)) + 1);
        }
        i64::try_from(total).map_err(|_| LayoutError::overflow_of("the number of positions"))
    }

    /// Replaces the tile layout, keeping the swizzle and dropping the window.
    ///
    /// Without a coordinate on `m` every address is 0, which no swizzle moves, so the swizzle is dropped as well.
    pub(crate) fn with_tile_layout(&self, tile: TileLayout) -> Result<Layout> {
        match self.swizzle {
            Some(sw) if tile.axes().contains(&Axis::M) => Layout::from_swizzled_tile(sw, tile),
            _ => Ok(tile.into()),
        }
    }

    /// Refuses a window, for operators that are not defined on one.
    pub(crate) fn require_unpadded(&self, op: &'static str) -> Result<&Layout> {
        if self.window.is_some() { Err(LayoutError::Padded { op }) } else { Ok(self) }
    }

    /// The window, or the trivial window of a shape.
    pub(crate) fn window_or_trivial(&self, shape: &[i64]) -> Vec<PaddedExtent> {
        match &self.window {
            Some(w) => w.dims().to_vec(),
            None => shape.iter().map(|e| PaddedExtent::without_padding(*e)).collect(),
        }
    }
}

/// The largest number of replicas of one element that is listed.
pub const MAX_PLACES: i64 = 1 << 16;

/// The row-major index of a coordinate; refuses coordinates outside the shape.
pub fn flatten_coordinate(shape: &[i64], coordinate: &[i64]) -> Result<i64> {
    if shape.len() != coordinate.len() {
        return Err(LayoutError::LengthMismatch {
            what: "the coordinate",
            expected: shape.len(),
            found: coordinate.len(),
        });
    }
    let mut flat = 0i64;
    for (dim, (extent, value)) in shape.iter().zip(coordinate).enumerate() {
        if !(0..*extent).contains(value) {
            return Err(LayoutError::CoordinateOutOfRange { dim, value: *value, extent: *extent });
        }
        flat = flat
            .checked_mul(*extent)
            .and_then(|f| f.checked_add(*value))
            .ok_or_else(|| LayoutError::overflow_of("the flat index"))?;
    }
    Ok(flat)
}

/// The coordinate of a row-major index inside a shape.
pub fn unflatten_index(shape: &[i64], flat: i64) -> Vec<i64> {
    let mut rest = flat;
    let mut coordinate = vec![0; shape.len()];
    for (c, extent) in coordinate.iter_mut().zip(shape).rev() {
        // An extent of 0 has no coordinates; dividing by 1 instead keeps this total for callers
        // that index empty shapes.
        let extent = (*extent).max(1);
        *c = rest % extent;
        rest /= extent;
    }
    coordinate
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(sw) = self.swizzle {
            write!(f, "{sw:?} o ")?;
        }
        write!(f, "{:?}", self.tile)?;
        if let Some(w) = &self.window {
            write!(f, " valid{:?}", w.dims())?;
        }
        Ok(())
    }
}
