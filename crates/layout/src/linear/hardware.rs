//! Conversions between linear layouts, which map hardware indices to tensor coordinates, and layouts of the
//! algebra, which map tensor coordinates to physical coordinates on axes.
//!
//! A linear layout maps every physical coordinate to one element. The corresponding layout maps every
//! element to the set of its physical coordinates: one solution of `L(place) = element`, plus the physical
//! coordinates of element 0. Both are expressible if every tensor bit moves along one axis, on bits that no
//! other tensor bit uses, after at most one XOR [`Swizzle`] of memory.

use super::gf2::{Gf2Span, row_echelon};
use super::{LinearLayout, MAX_LINEAR_BITS};
use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::{Layout, PhysicalCoordinate};
use crate::swizzle::Swizzle;
use crate::tile::{Iter, TileLayout};

/// An in dimension of a linear layout and the axis with the same meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearAxis {
    /// The in dimension: `lane`.
    pub dim: String,
    /// The axis: `laneid`.
    pub axis: Axis,
}

/// For each bit of a flat physical coordinate the number of its axis, and the bit on that axis.
type AxisBits = Vec<(usize, u32)>;

impl LinearLayout {
    /// The layout that maps each element to the physical coordinates that this one maps to it, if the
    /// algebra has one. Its out dimensions are the tensor, the first one slowest.
    ///
    /// # Errors
    /// An in dimension that `axes` does not name; a map that the algebra cannot express, with an element
    /// that shows it.
    pub fn to_layout(&self, axes: &[LinearAxis]) -> Result<Layout> {
        self.to_layout_at_addresses(axes, None)
    }

    /// The same where bit `k` of the in dimension on `m` is `addresses[k]` elements apart, as in padded memory.
    pub fn to_padded_layout(&self, axes: &[LinearAxis], addresses: &[i64]) -> Result<Layout> {
        self.to_layout_at_addresses(axes, Some(addresses))
    }

    fn to_layout_at_addresses(
        &self,
        axes: &[LinearAxis],
        addresses: Option<&[i64]>,
    ) -> Result<Layout> {
        let bits = self.axis_bits_of_place(axes)?;
        let minor_first: Vec<&str> = self.out_dims().rev().collect();
        let tensor = self.transpose_outs(&minor_first)?;
        let columns: Vec<u64> = tensor.matrix_columns().collect();
        let span = Gf2Span::from_vectors(columns.iter().copied());
        let size = tensor.out_bits();
        // One physical coordinate of every tensor bit, and the physical coordinates of element 0.
        let mut moves = Vec::new();
        for b in 0..size {
            match span.reduce_vector(1 << b) {
                (0, place) => moves.push(place),
                _ => {
                    let reason = "the linear layout reaches no place of this element".to_string();
                    return Err(LayoutError::NotExpressible { reason, index: 1 << b });
                }
            }
        }
        let mut copies = Vec::new();
        let mut before = Gf2Span::default();
        for (k, column) in (0u32..).zip(&columns) {
            let (rest, sum) = before.reduce_vector(*column);
            if rest == 0 {
                copies.push(sum | 1 << k);
            }
            before.add_vector(*column);
        }
        // Solutions of one equation differ by the kernel, the copies of element 0. Clearing the
        // pivot bits of the kernel makes the choice of each solution unique.
        let copies = row_echelon(&copies);
        for place in &mut moves {
            for copy in &copies {
                if *place >> copy.trailing_zeros() & 1 == 1 {
                    *place ^= copy;
                }
            }
        }
        let memory = axes.iter().position(|a| a.axis == Axis::M);
        let swizzles = candidate_swizzles(&bits, memory, addresses.is_none());
        for swizzle in swizzles {
            let moved = |v: &u64| swizzle_flat_place(swizzle, *v, &bits, memory);
            let (moves, copies): (Vec<u64>, Vec<u64>) =
                (moves.iter().map(moved).collect(), copies.iter().map(moved).collect());
            if find_overlap(&moves, &copies, &bits).is_none() {
                return self.build_tile_layout(axes, &bits, (&moves, &copies), swizzle, addresses);
            }
        }
        let (index, reason) = find_overlap(&moves, &copies, &bits).unwrap_or_default();
        Err(LayoutError::NotExpressible { reason, index })
    }

    /// The axis and the bit of every bit of a flat physical coordinate.
    fn axis_bits_of_place(&self, axes: &[LinearAxis]) -> Result<AxisBits> {
        let mut bits = AxisBits::new();
        let mut used: Vec<usize> = Vec::new();
        for (dim, size) in self.in_sizes() {
            let Some(at) = axes.iter().position(|a| a.dim == dim) else {
                let known: Vec<&str> = axes.iter().map(|a| a.dim.as_str()).collect();
                let known = super::list_some_names(&known);
                let reason = format!("no axis counts `{dim}`; known dimensions: {known}");
                return Err(LayoutError::LinearDims { call: "a layout on named axes", reason });
            };
            if size > 1 && used.iter().any(|u| axes[*u].axis == axes[at].axis) {
                let reason = format!("a second dimension is on the axis `{}`", axes[at].axis);
                return Err(LayoutError::LinearDims { call: "a layout on named axes", reason });
            }
            if size > 1 {
                used.push(at);
            }
            bits.extend((0..size.trailing_zeros()).map(|k| (at, k)));
        }
        Ok(bits)
    }

    /// The tile layout of tensor bits that use disjoint bits of physical coordinates.
    fn build_tile_layout(
        &self,
        axes: &[LinearAxis],
        bits: &AxisBits,
        (moves, copies): (&[u64], &[u64]),
        swizzle: Option<Swizzle>,
        addresses: Option<&[i64]>,
    ) -> Result<Layout> {
        let step = |place: u64| -> Result<Iter> {
            let mut stride = 0i64;
            let mut axis = Axis::M;
            for (at, k) in bits.iter().enumerate().filter(|(i, _)| place >> i & 1 == 1).map(|b| b.1)
            {
                axis = axes[*at].axis;
                let own = match addresses {
                    Some(list) if axis == Axis::M => list.get(*k as usize).copied(),
                    _ => 1i64.checked_shl(*k),
                };
                stride = own
                    .and_then(|s| stride.checked_add(s))
                    .ok_or_else(|| LayoutError::overflow_of("an address"))?;
            }
            Ok(Iter::new(2, stride, axis))
        };
        let mut shard: Vec<Iter> = Vec::new();
        let mut next = moves.len();
        for (_, size) in self.out_sizes() {
            let first = shard.len();
            for _ in 0..size.trailing_zeros() {
                next -= 1;
                let it = step(moves[next])?;
                match shard[first..].last_mut() {
                    Some(last)
                        if last.axis == it.axis
                            && it.stride.checked_mul(2) == Some(last.stride) =>
                    {
                        last.extent *= 2;
                        last.stride = it.stride;
                    }
                    _ => shard.push(it),
                }
            }
        }
        let mut replica: Vec<Iter> = Vec::new();
        for copy in copies {
            let it = step(*copy)?;
            match replica.last_mut() {
                Some(last)
                    if last.axis == it.axis
                        && last.stride.checked_mul(last.extent) == Some(it.stride) =>
                {
                    last.extent *= 2;
                }
                _ => replica.push(it),
            }
        }
        let tile = TileLayout::new(shard, replica, [])?;
        match swizzle {
            Some(swizzle) => Layout::from_swizzled_tile(swizzle, tile),
            None => Ok(tile.into()),
        }
    }

    /// The linear layout of a layout over a shape: which element every physical coordinate holds, with one
    /// in dimension for each of `axes`, in order. Out dimensions are `dim0`, `dim1`, ..
    ///
    /// # Errors
    /// A shape whose extents are not powers of two; a layout that is not linear, that puts two elements in
    /// one physical coordinate or leaves physical coordinates without an element, with an element that shows it.
    pub fn from_layout(
        layout: &Layout,
        shape: &[i64],
        axes: &[LinearAxis],
    ) -> Result<LinearLayout> {
        layout.check_shape_size(shape)?;
        let mut outs: Vec<(String, i64)> = Vec::with_capacity(shape.len());
        for (d, extent) in shape.iter().enumerate() {
            super::log2_of_size(*extent, &format!("dimension {d} of the shape"))?;
            outs.push((format!("dim{d}"), *extent));
        }
        for axis in layout.tile().axes() {
            if !axes.iter().any(|a| a.axis == *axis) && layout.axis_span(*axis)? > 1 {
                let reason = format!("no dimension of the linear layout counts `{axis}`");
                return Err(LayoutError::NotExpressible { reason, index: 0 });
            }
        }
        let mut widths = Vec::with_capacity(axes.len());
        for a in axes {
            let highest = (layout.axis_span(a.axis)? - 1).max(0).cast_unsigned();
            widths.push(64 - highest.leading_zeros());
        }
        super::check_within_bits("in", widths.iter().map(|w| u64::from(*w)))?;
        let flat = |p: &PhysicalCoordinate, index: i64| -> Result<u64> {
            let (mut place, mut at) = (0, 0);
            for (a, width) in axes.iter().zip(&widths) {
                let value = p.get(a.axis);
                if value < 0 {
                    let reason = format!("the place {p} is below 0, where no linear layout begins");
                    return Err(LayoutError::NotExpressible { reason, index });
                }
                place |= value.cast_unsigned() << at;
                at += width;
            }
            Ok(place)
        };
        // The physical coordinates of element 0 must be a vector space, and those of every other element a
        // coset of it.
        let origin: Vec<u64> = layout
            .physical_coordinates(0)?
            .sorted_coordinates()
            .iter()
            .map(|p| flat(p, 0))
            .collect::<Result<_>>()?;
        let copies = row_echelon(&origin);
        if !origin.contains(&0) || origin.len() != 1 << copies.len() {
            let reason = "a linear layout keeps 0: the first element is at the place 0, and its copies at sums of powers of two".to_string();
            return Err(LayoutError::NotExpressible { reason, index: 0 });
        }
        let bits = layout.size().max(1).trailing_zeros().min(MAX_LINEAR_BITS);
        let mut moves = Vec::with_capacity(bits as usize);
        for b in 0..bits {
            let points = layout.physical_coordinates(1 << b)?.sorted_coordinates();
            let first = points.first().map_or(Ok(0), |p| flat(p, 1 << b))?;
            moves.push(first);
        }
        let found = invert_tile_bits(&moves, &copies, &outs, axes, &widths)?;
        // Only the single bits were looked at so far. Comparing the whole layout proves that it is
        // linear, or names an element at which it is not.
        let again = found.to_layout(axes)?;
        match again.find_difference(layout)? {
            None => Ok(found),
            Some(crate::LayoutDifference::At { index, left, right }) => {
                let reason = format!(
                    "the bits of its index put the element at {left:?}, but it is at {right:?}: the layout is not linear"
                );
                Err(LayoutError::NotExpressible { reason, index })
            }
            Some(crate::LayoutDifference::Size(..)) => {
                Err(LayoutError::NotExpressible { reason: "the sizes differ".into(), index: 0 })
            }
        }
    }
}

/// The linear layout whose physical coordinates of tensor bits and of element 0 are given.
fn invert_tile_bits(
    moves: &[u64],
    copies: &[u64],
    outs: &[(String, i64)],
    axes: &[LinearAxis],
    widths: &[u32],
) -> Result<LinearLayout> {
    let size = |bits: usize| 1i64 << bits.min(MAX_LINEAR_BITS as usize);
    let places: Vec<(String, i64)> =
        axes.iter().zip(widths).map(|(a, w)| (a.dim.clone(), 1i64 << w)).collect();
    let total: u32 = widths.iter().sum();
    // Forwards from tensor and copy to physical coordinate, because that direction is known; the inverse of
    // this square matrix is the linear layout.
    let flat = |list: &[u64]| list.iter().map(|v| vec![v.cast_signed()]).collect::<Vec<_>>();
    let ins = [("tensor".to_string(), flat(moves)), ("copy".to_string(), flat(copies))];
    let forward = LinearLayout::new(&ins, &[("place".to_string(), 1i64 << total)])?;
    if let Some(clash) = forward.kernel_witness() {
        let reason = "two elements share a place, which a linear layout takes to one".to_string();
        return Err(LayoutError::NotExpressible {
            reason,
            index: clash.first().copied().unwrap_or(0),
        });
    }
    if let Some(hole) = forward.uncovered_witness() {
        let place = LinearLayout::identity([("place", 1i64 << total)])?.reshape_outs(&places)?;
        let place = place.apply_to_input(&[("place", hole.first().copied().unwrap_or(0))])?;
        let names: Vec<String> =
            places.iter().zip(place).map(|((d, _), v)| format!("{d}: {v}")).collect();
        let reason = format!(
            "no element is at the place {{{}}}, and a linear layout takes every place to one",
            names.join(", ")
        );
        return Err(LayoutError::NotExpressible { reason, index: 0 });
    }
    let back = forward.invert()?.sublayout(&["place"], &["tensor"])?;
    let minor_first: Vec<(String, i64)> = outs.iter().rev().cloned().collect();
    let whole = back.reshape_ins(&places)?;
    debug_assert_eq!(whole.out_size("tensor"), Some(size(moves.len())));
    let order: Vec<&str> = outs.iter().map(|(d, _)| d.as_str()).collect();
    whole.reshape_outs(&minor_first)?.transpose_outs(&order)
}

/// The swizzles to try, no swizzle first, then all that read and write bits of the memory axis.
fn candidate_swizzles(
    bits: &AxisBits,
    memory: Option<usize>,
    allowed: bool,
) -> impl Iterator<Item = Option<Swizzle>> {
    let width = bits.iter().filter(|(at, _)| Some(*at) == memory).count();
    let width = if allowed { i64::try_from(width).unwrap_or(0) } else { 0 };
    let fields = (1..=width / 2).flat_map(move |b| {
        (b..=width - b).flat_map(move |s| (0..=width - b - s).map(move |m| (m, b, s)))
    });
    let both = fields.flat_map(|(m, b, s)| [true, false].map(|inner| (m, b, s, inner)));
    let tried = both.filter_map(|(m, b, s, inner)| {
        zellige_guard::count_step();
        Swizzle::new(m, b, s, inner).ok()
    });
    std::iter::once(None).chain(tried.map(Some))
}

/// A flat physical coordinate with its memory part swizzled.
fn swizzle_flat_place(
    swizzle: Option<Swizzle>,
    place: u64,
    bits: &AxisBits,
    memory: Option<usize>,
) -> u64 {
    let Some(swizzle) = swizzle else { return place };
    let own: Vec<usize> = (0..bits.len()).filter(|i| Some(bits[*i].0) == memory).collect();
    let Some(first) = own.first() else { return place };
    let mask = (1u64 << own.len()) - 1;
    let m = (place >> first & mask).cast_signed();
    let moved = swizzle.apply_to_address(m).cast_unsigned() & mask;
    place & !(mask << first) | moved << first
}

/// The reason why physical coordinates are no sums of steps along one axis each, with an element that shows it.
fn find_overlap(moves: &[u64], copies: &[u64], bits: &AxisBits) -> Option<(i64, String)> {
    let mut taken = 0u64;
    for (b, place) in moves.iter().chain(copies).enumerate() {
        let index = if b < moves.len() { 1i64 << b } else { 0 };
        let mut along = bits.iter().enumerate().filter(|(i, _)| place >> i & 1 == 1).map(|b| b.1.0);
        let first = along.next();
        if along.any(|at| Some(at) != first) {
            let reason = "one bit of its index moves it along two axes at once".to_string();
            return Some((index, reason));
        }
        if taken & place != 0 {
            let with = moves.iter().take(b).position(|m| m & place != 0).map_or(0, |i| 1i64 << i);
            let reason =
                "two bits of its index meet by XOR in a place, and no swizzle of memory does that"
                    .to_string();
            return Some((index | with, reason));
        }
        taken |= place;
    }
    None
}
