//! The image of a layout: clashes, gaps, and how many physical coordinates are used.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::{Layout, PhysicalCoordinate};
use crate::proof::solve::{DigitSolver, DigitTerm};
use crate::tile::Iter;

/// Elements enumerated before an exact answer is refused.
// A listed physical coordinate takes a key of 16 bytes and a row number of 4, padded to 32 together: 128 MiB at
// this limit.
const MAX_ENUMERATED_ELEMENTS: i64 = 1 << 22;

/// Facts about the image of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutImage {
    /// Two distinct elements that share a physical coordinate, if any do.
    pub clash: Option<(i64, i64, PhysicalCoordinate)>,
    /// A physical coordinate inside the range of every axis that no element uses, if there is one: padding, or a
    /// gap.
    pub unused: Option<PhysicalCoordinate>,
    /// Distinct physical coordinates of one element.
    pub copies: i64,
}

impl LayoutImage {
    /// No two elements share a physical coordinate.
    pub fn is_injective(&self) -> bool {
        self.clash.is_none()
    }

    /// Every physical coordinate inside the range of every axis is used.
    pub fn is_surjective(&self) -> bool {
        self.unused.is_none()
    }

    /// Injective, surjective, and each element at one physical coordinate.
    pub fn is_bijective(&self) -> bool {
        self.is_injective() && self.is_surjective() && self.copies == 1
    }
}

impl Layout {
    /// Clashes and unused physical coordinates. The range of an axis runs from 0 (or its smallest
    /// coordinate, where that is negative) to its largest coordinate.
    pub fn analyze_image(&self) -> Result<LayoutImage> {
        Ok(LayoutImage {
            clash: self.find_clash()?,
            unused: self.find_unused_place()?,
            copies: self.count_distinct_copies()?,
        })
    }

    /// Whether no two elements share a physical coordinate.
    pub fn is_injective(&self) -> Result<bool> {
        Ok(self.find_clash()?.is_none())
    }

    /// Two distinct elements that share a physical coordinate, with the physical coordinate, if any do.
    ///
    /// Each iter moves on one axis, so two elements clash exactly when on some axis a difference
    /// of digits, not all zero, sums to nothing: one bounded equation per axis. A swizzle permutes
    /// physical coordinates and changes nothing.
    pub fn find_clash(&self) -> Result<Option<(i64, i64, PhysicalCoordinate)>> {
        if self.size() <= 1 {
            return Ok(None);
        }
        // The padded domain contains every element. Without a clash there, the elements have none.
        let Some((a, b, place)) = self.find_tile_clash()? else { return Ok(None) };
        if self.window().is_some() {
            // The clash may be between indices of the padding; only the valid elements count.
            return self.find_clash_by_enumeration();
        }
        Ok(Some((a.min(b), a.max(b), place)))
    }

    /// Two elements of the padded domain that share a physical coordinate, with the physical coordinate.
    ///
    /// A solution of the equation names one replica of each element, so replicas are never listed.
    fn find_tile_clash(&self) -> Result<Option<(i64, i64, PhysicalCoordinate)>> {
        let shard = self.tile().shard();
        let mut weights = vec![1i64; shard.len()];
        for i in (1..shard.len()).rev() {
            weights[i - 1] = weights[i] * shard[i].extent;
        }
        for axis in self.tile().axes() {
            let mine: Vec<(usize, Iter)> = shard
                .iter()
                .copied()
                .enumerate()
                .filter(|(_, it)| it.moves_on_axis(*axis))
                .collect();
            let copies: Vec<&Iter> =
                self.tile().replica().iter().filter(|it| it.moves_on_axis(*axis)).collect();
            let terms: Vec<DigitTerm> = mine
                .iter()
                .map(|(_, it)| it)
                .chain(copies.iter().copied())
                // Each unknown is the difference of the digits of the two elements, hence both
                // signs.
                .map(|it| DigitTerm { low: 1 - it.extent, high: it.extent - 1, stride: it.stride })
                .collect();
            let mut clash = None;
            DigitSolver::new(&terms).for_each_solution(
                0,
                "whether two elements share a place",
                |digits| {
                    let (digits, replicas) = digits.split_at(mine.len());
                    // With all shard digits equal, both indices are the same element, of which two replicas
                    // coincide. That is no clash.
                    if digits.iter().all(|d| *d == 0) {
                        return true;
                    }
                    let (mut a, mut b) = (0, 0);
                    for (d, (k, _)) in digits.iter().zip(&mine) {
                        // A difference is split into two digits by giving its positive part to one
                        // element and its negative part to the other. Both stay inside their
                        // extents.
                        if *d > 0 {
                            a += d * weights[*k];
                        } else {
                            b -= d * weights[*k];
                        }
                    }
                    let moved = copies.iter().zip(replicas).map(|(it, d)| (*d).max(0) * it.stride);
                    clash = Some((a, b, moved.sum::<i64>()));
                    false
                },
            )?;
            if let Some((a, b, moved)) = clash {
                let mut place = self.tile().unreplicated_coordinate(a);
                if let Some(slot) = self.tile().axis_index(*axis) {
                    place[slot] += moved;
                }
                if let (Some(sw), Some(m)) = (self.swizzle(), self.tile().axis_index(Axis::M)) {
                    place[m] = sw.apply_to_address(place[m]);
                }
                let axes = self.tile().axes().iter().copied();
                return Ok(Some((a, b, PhysicalCoordinate::new(axes.zip(place)))));
            }
        }
        Ok(None)
    }

    fn find_clash_by_enumeration(&self) -> Result<Option<(i64, i64, PhysicalCoordinate)>> {
        self.check_enumerable("whether two elements share a place")?;
        let places = ListedPlaces::from_layout(self, &self.axis_ranges())?;
        let shared = places.keys.windows(2).filter(|w| {
            w[0].0 == w[1].0 && places.element_of_row(w[0].1) != places.element_of_row(w[1].1)
        });
        Ok(shared.min_by_key(|w| w[1].1).map(|w| {
            let (key, a, b) =
                (w[0].0, places.element_of_row(w[0].1), places.element_of_row(w[1].1));
            (a, b, coordinate_of_key(&self.axis_ranges(), key))
        }))
    }

    /// Per axis, a range that holds every coordinate.
    fn axis_ranges(&self) -> Vec<(Axis, i64, i64)> {
        let range = |axis: &Axis| {
            let b = self.tile().axis_bounds(*axis);
            match self.swizzle() {
                // The swizzle permutes the addresses of each block of `2^bits`, so the range is extended to
                // the end of the last block.
                Some(sw) if *axis == Axis::M => {
                    (*axis, 0, b.max | ((1 << sw.affected_low_bits()) - 1))
                }
                _ => (*axis, b.min, b.max),
            }
        };
        self.tile().axes().iter().map(range).collect()
    }

    /// A physical coordinate inside the range of every axis that nothing maps to, if there is one: neither an
    /// element nor padding.
    pub fn find_gap(&self) -> Result<Option<PhysicalCoordinate>> {
        if self.size() == 0 { Ok(None) } else { self.padded_domain().find_unused_place() }
    }

    /// The number of distinct physical coordinates of all elements.
    ///
    /// Without a window that is a product over the axes, as each iter moves on one of them and a
    /// swizzle permutes physical coordinates.
    pub fn count_used_places(&self) -> Result<i64> {
        if self.size() == 0 {
            return Ok(0);
        }
        // With a window the equation below would also have solutions in the padding. It still
        // proves that there is no clash, so only a clash has to be checked by enumeration.
        if self.window().is_some() {
            // Distinct elements have distinct physical coordinates, so counting is multiplication.
            if self.is_injective()? {
                return self
                    .size()
                    .checked_mul(self.count_distinct_copies()?)
                    .ok_or_else(|| LayoutError::overflow_of("the number of places"));
            }
            self.check_enumerable("the number of places in use")?;
            let listed = ListedPlaces::from_layout(self, &self.axis_ranges())?;
            return Ok(i64::try_from(listed.distinct_places().count()).unwrap_or(i64::MAX));
        }
        let mut total = 1i64;
        for axis in self.tile().axes() {
            // An image without a gap is an interval, whose length is known from its bounds.
            let count = if self.first_missed_step(*axis).is_none() {
                let bounds = self.tile().axis_bounds(*axis);
                bounds.max - bounds.min + 1
            } else {
                let iters = self.tile().shard().iter().chain(self.tile().replica());
                let iters = iters.filter(|it| it.moves_on_axis(*axis)).copied().collect();
                Layout::from(crate::TileLayout::new(Vec::new(), iters, [])?)
                    .count_distinct_copies()?
            };
            total = total
                .checked_mul(count)
                .ok_or_else(|| LayoutError::overflow_of("the number of places"))?;
        }
        Ok(total)
    }

    /// A physical coordinate inside the range of every axis that no element uses, if there is one.
    pub fn find_unused_place(&self) -> Result<Option<PhysicalCoordinate>> {
        if self.size() == 0 {
            return Ok(None);
        }
        if self.window().is_some() {
            return self.find_gap_by_counting();
        }
        if let Some(sw) = self.swizzle().filter(|s| !s.is_identity()) {
            // A swizzle permutes every block of its bits, so whole blocks without a gap stay without one.
            // The last block must be complete, too, because a swizzle may move addresses of a partial block
            // past its end and leave gaps.
            let whole = self.tile().axis_span(Axis::M) % (1 << sw.affected_low_bits()) == 0;
            if whole && self.tile().axes().iter().all(|a| self.find_tile_gap(*a).is_none()) {
                return Ok(None);
            }
            return self.find_gap_by_counting();
        }
        for axis in self.tile().axes() {
            if let Some(value) = self.find_tile_gap(*axis) {
                return Ok(Some(self.corner_coordinate(*axis, value)));
            }
        }
        Ok(None)
    }

    /// The smallest unused coordinate on one axis, from 0 on or from its smallest.
    fn find_tile_gap(&self, axis: Axis) -> Option<i64> {
        let min = self.tile().axis_bounds(axis).min;
        if min > 0 { Some(0) } else { self.first_missed_step(axis).map(|step| min + step) }
    }

    /// The smallest distance from the smallest coordinate on an axis that nothing has.
    ///
    /// The image on an axis is a sum of progressions. With strides rising, it is gapless exactly
    /// when each stride is at most one more than what the smaller ones reach together.
    fn first_missed_step(&self, axis: Axis) -> Option<i64> {
        let mut iters: Vec<(u64, u64)> = self
            .tile()
            .shard()
            .iter()
            .chain(self.tile().replica())
            .filter(|it| it.axis == axis && it.extent > 1 && it.stride != 0)
            .map(|it| (it.stride.unsigned_abs(), it.extent.unsigned_abs()))
            .collect();
        // The order does not change the set of sums, and rising strides make the greedy argument
        // below exact: with the smaller iters covering `0..=reach`, the next stride leaves a gap
        // exactly if it is larger than `reach + 1`.
        iters.sort_unstable();
        let mut reach = 0u64;
        for (stride, extent) in iters {
            if stride > reach + 1 {
                return Some((reach + 1).cast_signed());
            }
            reach += (extent - 1) * stride;
        }
        None
    }

    fn corner_coordinate(&self, axis: Axis, value: i64) -> PhysicalCoordinate {
        // On the other axes 0, or the largest coordinate where that is negative: a value inside their range.
        let other = |a: Axis| self.tile().axis_bounds(a).max.min(0);
        let at = |a: &Axis| (*a, if *a == axis { value } else { other(*a) });
        PhysicalCoordinate::new(self.tile().axes().iter().map(at))
    }

    /// Counts physical coordinates, because with padding or a swizzle the image is no longer a sum of progressions.
    fn find_gap_by_counting(&self) -> Result<Option<PhysicalCoordinate>> {
        let mut volume = 1i128;
        let mut ranges = Vec::new();
        for axis in self.tile().axes() {
            let b = self.axis_bounds(*axis)?;
            let low = b.min.min(0);
            volume = volume.saturating_mul(i128::from(b.max) - i128::from(low) + 1);
            ranges.push((*axis, low, b.max));
        }
        // Where a clash is excluded by the equation alone, the number of physical coordinates is known
        // without a list: if it equals the volume, there is no gap.
        let what = "whether every place is used";
        if (self.window().is_none() || self.check_enumerable(what).is_err())
            && self.is_injective()?
        {
            let used = i128::from(self.size()) * i128::from(self.count_distinct_copies()?);
            if used == volume {
                return Ok(None);
            }
        }
        self.check_enumerable(what)?;
        // Keys count physical coordinates in row-major order: the first number that is missing is a gap.
        let mut free = 0;
        for key in ListedPlaces::from_layout(self, &ranges)?.distinct_places() {
            if key != free {
                break;
            }
            free += 1;
        }
        Ok((free < volume).then(|| coordinate_of_key(&ranges, free)))
    }

    /// The number of distinct physical coordinates of one element.
    pub(crate) fn count_distinct_copies(&self) -> Result<i64> {
        let replica = self.tile().replica();
        let moving: Vec<_> = replica.iter().filter(|it| it.stride != 0 && it.extent > 1).collect();
        if self.size() == 0 || moving.is_empty() {
            return Ok(1);
        }
        let only_copies = crate::TileLayout::from_shard(moving.into_iter().copied().collect())?;
        let layout = Layout::from(only_copies);
        // The replicas are taken as the elements of a layout of their own: without a clash they are
        // all distinct.
        if layout.find_tile_clash()?.is_none() {
            return Ok(layout.size());
        }
        layout.check_enumerable("the number of distinct replicas")?;
        Ok(i64::try_from(
            ListedPlaces::from_layout(&layout, &layout.axis_ranges())?.distinct_places().count(),
        )
        .unwrap_or(i64::MAX))
    }

    fn check_enumerable(&self, what: &'static str) -> Result<()> {
        if self.size().saturating_mul(self.tile().replica_count()) > MAX_ENUMERATED_ELEMENTS {
            return Err(LayoutError::TooLarge {
                what,
                limit: MAX_ENUMERATED_ELEMENTS.cast_unsigned(),
            });
        }
        Ok(())
    }
}

/// Every physical coordinate of every element, as a row-major number over ranges of the axes.
struct ListedPlaces {
    /// The number of a physical coordinate and the row it came from, sorted.
    keys: Vec<(i128, u32)>,
    copies: i64,
}

impl ListedPlaces {
    /// Call it for at most [`MAX_ENUMERATED_ELEMENTS`] physical coordinates.
    fn from_layout(layout: &Layout, ranges: &[(Axis, i64, i64)]) -> Result<ListedPlaces> {
        let volume = ranges.iter().try_fold(1i128, |v, (_, low, high)| {
            v.checked_mul(i128::from(*high) - i128::from(*low) + 1)
        });
        if volume.is_none() {
            return Err(LayoutError::overflow_of(
                "the number of places inside the range of every axis",
            ));
        }
        let mut keys = Vec::new();
        let mut number = 0;
        for i in 0..layout.size() {
            zellige_guard::count_step();
            for row in layout.physical_coordinates_unchecked(i).coordinate_rows() {
                let key = row.iter().zip(ranges).fold(0i128, |key, (v, (_, low, high))| {
                    let (v, low, high) = (i128::from(*v), i128::from(*low), i128::from(*high));
                    key * (high - low + 1) + (v - low)
                });
                keys.push((key, number));
                number += 1;
            }
        }
        // The row number is part of the key, so that equal physical coordinates are ordered by element and the
        // first clash in the list is the one with the smallest elements.
        keys.sort_unstable();
        Ok(ListedPlaces { keys, copies: layout.tile().replica_count() })
    }

    /// The element whose physical coordinate a row is.
    fn element_of_row(&self, row: u32) -> i64 {
        i64::from(row) / self.copies
    }

    /// The distinct physical coordinates, rising.
    fn distinct_places(&self) -> impl Iterator<Item = i128> + '_ {
        self.keys.chunk_by(|a, b| a.0 == b.0).map(|same| same[0].0)
    }
}

/// The physical coordinate of a row-major number over ranges of the axes.
fn coordinate_of_key(ranges: &[(Axis, i64, i64)], key: i128) -> PhysicalCoordinate {
    let mut rest = key;
    let mut place = Vec::with_capacity(ranges.len());
    for (axis, low, high) in ranges.iter().rev() {
        let extent = i128::from(*high) - i128::from(*low) + 1;
        let value = i128::from(*low) + rest % extent;
        rest /= extent;
        place.push((*axis, i64::try_from(value).expect("inside its range")));
    }
    PhysicalCoordinate::new(place)
}
