//! The one layout type: a tile layout, a swizzle of its memory, a window of valid elements.

use crate::axis::Axis;
use crate::error::{Error, Result};
use crate::int::product;
use crate::swizzle::Swizzle;
use crate::tile::{Bounds, TileLayout};
use crate::window::{Extent, Window};
use smallvec::SmallVec;
use std::fmt;

/// A place: one coordinate per axis that the layout mentions, sorted by axis name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(SmallVec<[(Axis, i64); 4]>);

impl Point {
    /// A place from its coordinates; the order does not matter.
    pub fn new(coordinates: impl IntoIterator<Item = (Axis, i64)>) -> Point {
        let mut entries: SmallVec<[(Axis, i64); 4]> = coordinates.into_iter().collect();
        entries.sort_unstable();
        Point(entries)
    }

    /// The coordinate on an axis, 0 where it is not mentioned.
    pub fn get(&self, axis: Axis) -> i64 {
        self.0.iter().find(|(a, _)| *a == axis).map_or(0, |(_, v)| *v)
    }

    /// The entries, sorted by axis name.
    pub fn entries(&self) -> &[(Axis, i64)] {
        &self.0
    }

    /// Without the axes at 0: two places are the same when these are.
    pub fn normal(&self) -> Point {
        Point(self.0.iter().filter(|(_, v)| *v != 0).copied().collect())
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (axis, value)) in self.0.iter().enumerate() {
            write!(f, "{}{axis}: {value}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The set of places of one element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places<'a> {
    axes: &'a [Axis],
    values: SmallVec<[i64; 8]>,
    count: usize,
}

impl Places<'_> {
    /// How many places; at least one.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Never: an element has at least one place.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The axes of the coordinates.
    pub fn axes(&self) -> &[Axis] {
        self.axes
    }

    /// The coordinates, one row per place, in the order of [`Places::axes`].
    pub fn rows(&self) -> impl Iterator<Item = &[i64]> + '_ {
        let width = self.axes.len();
        (0..self.count).map(move |i| &self.values[i * width..(i + 1) * width])
    }

    /// The places, sorted.
    pub fn points(&self) -> Vec<Point> {
        let mut points: Vec<_> = self
            .rows()
            .map(|row| Point(self.axes.iter().copied().zip(row.iter().copied()).collect()))
            .collect();
        points.sort_unstable();
        points.dedup();
        points
    }
}

/// Where every element of a tensor lives.
///
/// The meaning of a layout is the function [`Layout::places`] from a flat index to a set of
/// coordinates: the window moves the index into the padded domain, the tile layout gives the
/// coordinates, the swizzle permutes the one on `m`.
#[derive(Clone, PartialEq, Eq)]
pub struct Layout {
    tile: TileLayout,
    swizzle: Option<Swizzle>,
    window: Option<Window>,
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
    pub fn swizzled(swizzle: Swizzle, tile: TileLayout) -> Result<Layout> {
        if tile.size() > 0 {
            if !tile.axes().contains(&Axis::M) && !tile.axes().is_empty() {
                let found: Vec<_> = tile.axes().iter().map(|a| format!("`{a}`")).collect();
                let reason = format!("the layout uses only {}", found.join(", "));
                return Err(Error::SwizzleDomain { reason });
            }
            let Bounds { min, max } = tile.bounds(Axis::M);
            if min < 0 {
                return Err(Error::SwizzleDomain { reason: format!("the smallest is {min}") });
            }
            if max >= 1 << 62 {
                return Err(Error::overflow("a swizzled address"));
            }
        }
        Ok(Layout { tile, swizzle: Some(swizzle), window: None })
    }

    /// The same layout with only the elements of `window`; the padded size of the window must be
    /// the size of the layout, which must not have a window yet.
    pub fn with_window(self, window: Window) -> Result<Layout> {
        if self.window.is_some() {
            return Err(Error::Padded { op: "with_window" });
        }
        if window.padded_size() != self.tile.size() {
            return Err(Error::SizeMismatch {
                what: format!("the padded shape {:?}", window.padded_shape()),
                expected: self.tile.size(),
                found: window.padded_size().into(),
            });
        }
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
    pub fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// The layout of the whole padded domain.
    pub fn padded(&self) -> Layout {
        Layout { window: None, ..self.clone() }
    }

    /// The axis along which its memory is counted: `m` where it mentions it or no memory axis at all,
    /// else the first memory axis that it mentions.
    pub fn memory_axis(&self) -> Axis {
        let axes = self.tile.axes();
        let other = || axes.iter().copied().find(Axis::is_memory).unwrap_or(Axis::M);
        if axes.contains(&Axis::M) { Axis::M } else { other() }
    }

    /// The number of logical elements, padding not counted.
    pub fn size(&self) -> i64 {
        self.window.as_ref().map_or(self.tile.size(), Window::size)
    }

    /// The shape that its coordinates have when none is named: the valid extents where there is a
    /// window, else the extents of the shard.
    pub fn default_shape(&self) -> Vec<i64> {
        match &self.window {
            Some(w) => w.shape(),
            None => self.tile.shard().iter().map(|it| it.extent).collect(),
        }
    }

    /// Checks that a shape has as many elements as the layout.
    pub fn admit(&self, shape: &[i64]) -> Result<()> {
        for (index, extent) in shape.iter().enumerate() {
            if *extent < 0 {
                return Err(Error::NegativeExtent { what: "dimension", index, extent: *extent });
            }
        }
        let found = product(shape.iter().copied(), "the number of elements of the shape")?;
        if found != self.size() {
            return Err(Error::SizeMismatch {
                what: format!("shape {shape:?}"),
                expected: self.size(),
                found: found.into(),
            });
        }
        Ok(())
    }

    /// The places of the element with that flat index.
    pub fn places(&self, flat: i64) -> Result<Places<'_>> {
        if !(0..self.size()).contains(&flat) {
            return Err(Error::IndexOutOfRange { index: flat, size: self.size() });
        }
        if self.tile.copies() > MAX_PLACES {
            let limit = MAX_PLACES.cast_unsigned();
            return Err(Error::TooLarge { what: "listing the replicas of an element", limit });
        }
        Ok(self.places_unchecked(flat))
    }

    /// The places of an element, for a flat index inside the domain.
    pub(crate) fn places_unchecked(&self, flat: i64) -> Places<'_> {
        let inside = self.window.as_ref().map_or(flat, |w| w.to_padded(flat));
        let axes = self.tile.axes();
        let count = usize::try_from(self.tile.copies()).expect("at most MAX_PLACES");
        let width = axes.len();
        let values = SmallVec::from_slice(self.tile.origin());
        let mut places = Places { axes, values, count };
        self.tile.add_digits(inside, &mut places.values);
        if count > 1 {
            places.values.resize(width * count, 0);
            self.copy_replicas(&mut places.values, width);
        }
        if let Some(sw) = self.swizzle
            && let Some(m) = self.tile.slot(Axis::M)
        {
            for row in places.values.chunks_mut(width) {
                row[m] = sw.apply(row[m]);
            }
        }
        places
    }

    /// The first of the rows of `width` values gives the others: each replica iter repeats all rows
    /// so far, a step further.
    fn copy_replicas(&self, values: &mut [i64], width: usize) {
        let mut filled = width;
        for (it, slot) in self.tile.copying() {
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

    /// The places of the element at a coordinate of an admitted shape.
    pub fn apply(&self, shape: &[i64], coordinate: &[i64]) -> Result<Places<'_>> {
        self.admit(shape)?;
        self.places(flatten(shape, coordinate)?)
    }

    /// The union of the places of several elements, sorted.
    pub fn apply_set(&self, shape: &[i64], coordinates: &[Vec<i64>]) -> Result<Vec<Point>> {
        self.admit(shape)?;
        let mut all = Vec::new();
        for c in coordinates {
            all.extend(self.places(flatten(shape, c)?)?.points());
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// The smallest and largest coordinate on an axis, over the padded domain, swizzle applied.
    ///
    /// Exact also under a swizzle: above its bits the swizzle adds nothing, so only addresses in
    /// the topmost (lowermost) block of `2^bits` can give the maximum (minimum).
    pub fn bounds(&self, axis: Axis) -> Result<Bounds> {
        let plain = self.tile.bounds(axis);
        match self.swizzle {
            Some(sw) if axis == Axis::M && !sw.is_identity() && self.tile.size() > 0 => {
                crate::proof::swizzled_bounds(&self.tile, sw)
            }
            _ => Ok(plain),
        }
    }

    /// One more than the largest coordinate on an axis, over the padded domain; 0 for a layout
    /// without elements.
    pub fn span(&self, axis: Axis) -> Result<i64> {
        Ok(if self.tile.size() == 0 { 0 } else { self.bounds(axis)?.max + 1 })
    }

    /// Largest minus smallest coordinate on an axis, plus one, over the padded domain; 0 for a layout
    /// without elements.
    pub fn extent(&self, axis: Axis) -> Result<i64> {
        let b = self.bounds(axis)?;
        Ok(if self.tile.size() == 0 { 0 } else { b.max - b.min + 1 })
    }

    /// The places in the range of every axis, from 0 (or the smallest coordinate, where that is
    /// negative) to the largest: used by elements and padding together.
    pub fn positions(&self) -> Result<i64> {
        if self.tile.size() == 0 {
            return Ok(0);
        }
        let mut total = 1i128;
        for axis in self.tile.axes() {
            let b = self.bounds(*axis)?;
            total = total.saturating_mul(i128::from(b.max) - i128::from(b.min.min(0)) + 1);
        }
        i64::try_from(total).map_err(|_| Error::overflow("the number of positions"))
    }

    /// Replaces the tile layout, keeping the swizzle and dropping the window.
    ///
    /// Without a coordinate on `m` every address is 0, which no swizzle moves: then it goes too.
    pub(crate) fn with_tile(&self, tile: TileLayout) -> Result<Layout> {
        match self.swizzle {
            Some(sw) if tile.axes().contains(&Axis::M) => Layout::swizzled(sw, tile),
            _ => Ok(tile.into()),
        }
    }

    /// Refuses a window, for operators that are not defined on one.
    pub(crate) fn unpadded(&self, op: &'static str) -> Result<&Layout> {
        if self.window.is_some() { Err(Error::Padded { op }) } else { Ok(self) }
    }

    /// The window, or the trivial window of a shape.
    pub(crate) fn window_over(&self, shape: &[i64]) -> Vec<Extent> {
        match &self.window {
            Some(w) => w.dims().to_vec(),
            None => shape.iter().map(|e| Extent::full(*e)).collect(),
        }
    }
}

/// More replicas of one element than this are not listed.
pub const MAX_PLACES: i64 = 1 << 16;

/// The row-major index of a coordinate; refuses coordinates outside the shape.
pub fn flatten(shape: &[i64], coordinate: &[i64]) -> Result<i64> {
    if shape.len() != coordinate.len() {
        return Err(Error::LengthMismatch {
            what: "the coordinate",
            expected: shape.len(),
            found: coordinate.len(),
        });
    }
    let mut flat = 0i64;
    for (dim, (extent, value)) in shape.iter().zip(coordinate).enumerate() {
        if !(0..*extent).contains(value) {
            return Err(Error::CoordinateOutOfRange { dim, value: *value, extent: *extent });
        }
        flat = flat
            .checked_mul(*extent)
            .and_then(|f| f.checked_add(*value))
            .ok_or_else(|| Error::overflow("the flat index"))?;
    }
    Ok(flat)
}

/// The coordinate of a row-major index inside a shape.
pub fn unflatten(shape: &[i64], flat: i64) -> Vec<i64> {
    let mut rest = flat;
    let mut coordinate = vec![0; shape.len()];
    for (c, extent) in coordinate.iter_mut().zip(shape).rev() {
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
