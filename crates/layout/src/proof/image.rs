//! The image of a layout: clashes, gaps, and how many places it uses.

use crate::axis::Axis;
use crate::error::{Error, Result};
use crate::layout::{Layout, Point};
use crate::proof::solve::{Solver, Term};
use crate::tile::Iter;
use std::collections::{HashMap, HashSet};

/// Elements enumerated before an exact answer is refused.
const LIMIT: i64 = 1 << 22;

/// Facts about the image of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Two distinct elements that share a place, if any do.
    pub clash: Option<(i64, i64, Point)>,
    /// A place inside the range of every axis that no element uses, if there is one.
    pub gap: Option<Point>,
    /// Distinct places of one element.
    pub copies: i64,
}

impl Image {
    /// No two elements share a place.
    pub fn injective(&self) -> bool {
        self.clash.is_none()
    }

    /// Every place inside the range of every axis is used.
    pub fn surjective(&self) -> bool {
        self.gap.is_none()
    }

    /// Injective, surjective, and each element in one place.
    pub fn bijective(&self) -> bool {
        self.injective() && self.surjective() && self.copies == 1
    }
}

impl Layout {
    /// Clashes and gaps. The range of an axis runs from 0 (or its smallest coordinate, where that
    /// is negative) to its largest coordinate.
    pub fn image(&self) -> Result<Image> {
        Ok(Image { clash: self.clash()?, gap: self.gap()?, copies: self.distinct_copies()? })
    }

    /// Whether no two elements share a place.
    pub fn is_injective(&self) -> Result<bool> {
        Ok(self.clash()?.is_none())
    }

    /// Two distinct elements that share a place, with the place, if any do.
    ///
    /// Each iter moves on one axis, so two elements clash exactly when on some axis a difference
    /// of digits, not all zero, sums to nothing: one bounded equation per axis. A swizzle permutes
    /// places and changes nothing.
    pub fn clash(&self) -> Result<Option<(i64, i64, Point)>> {
        if self.size() <= 1 {
            return Ok(None);
        }
        let Some((a, b)) = self.tile_clash()? else { return Ok(None) };
        if self.window().is_some() {
            // The clash may lie in the padding; only the valid elements count.
            return self.clash_by_enumeration();
        }
        Ok(Some(self.shared_place(a.min(b), a.max(b))))
    }

    fn shared_place(&self, a: i64, b: i64) -> (i64, i64, Point) {
        let of_a: HashSet<_> = self.places_unchecked(a).points().into_iter().collect();
        let place = self.places_unchecked(b).points().into_iter().find(|p| of_a.contains(p));
        (a, b, place.expect("the equation was solved for a common place"))
    }

    fn tile_clash(&self) -> Result<Option<(i64, i64)>> {
        let shard = self.tile().shard();
        let mut weights = vec![1i64; shard.len()];
        for i in (1..shard.len()).rev() {
            weights[i - 1] = weights[i] * shard[i].extent;
        }
        for axis in self.tile().axes() {
            let mine: Vec<(usize, Iter)> =
                shard.iter().copied().enumerate().filter(|(_, it)| it.moves_on(*axis)).collect();
            let copies = self.tile().replica().iter().filter(|it| it.moves_on(*axis));
            let terms: Vec<Term> = mine
                .iter()
                .map(|(_, it)| it)
                .chain(copies)
                .map(|it| Term { low: 1 - it.extent, high: it.extent - 1, stride: it.stride })
                .collect();
            let mut clash = None;
            Solver::new(&terms).for_each(0, "whether two elements share a place", |digits| {
                let digits = &digits[..mine.len()];
                if digits.iter().all(|d| *d == 0) {
                    return true;
                }
                let (mut a, mut b) = (0, 0);
                for (d, (k, _)) in digits.iter().zip(&mine) {
                    if *d > 0 {
                        a += d * weights[*k];
                    } else {
                        b -= d * weights[*k];
                    }
                }
                clash = Some((a, b));
                false
            })?;
            if clash.is_some() {
                return Ok(clash);
            }
        }
        Ok(None)
    }

    fn clash_by_enumeration(&self) -> Result<Option<(i64, i64, Point)>> {
        self.enumerable("whether two elements share a place")?;
        let mut seen: HashMap<Point, i64> = HashMap::new();
        for i in 0..self.size() {
            for place in self.places_unchecked(i).points() {
                if let Some(first) = seen.insert(place.clone(), i)
                    && first != i
                {
                    return Ok(Some((first, i, place)));
                }
            }
        }
        Ok(None)
    }

    /// A place inside the range of every axis that no element uses, if there is one.
    pub fn gap(&self) -> Result<Option<Point>> {
        if self.size() == 0 {
            return Ok(None);
        }
        if self.window().is_some() || self.swizzle().is_some_and(|s| !s.is_identity()) {
            return self.gap_by_counting();
        }
        for axis in self.tile().axes() {
            if let Some(value) = self.tile_gap(*axis) {
                return Ok(Some(self.corner(*axis, value)));
            }
        }
        Ok(None)
    }

    /// The smallest unused coordinate on one axis.
    ///
    /// The image on an axis is a sum of progressions. With strides rising, it is gapless exactly
    /// when each stride is at most one more than what the smaller ones reach together.
    fn tile_gap(&self, axis: Axis) -> Option<i64> {
        let min = self.tile().bounds(axis).min;
        if min > 0 {
            return Some(0);
        }
        let mut iters: Vec<(u64, u64)> = self
            .tile()
            .shard()
            .iter()
            .chain(self.tile().replica())
            .filter(|it| it.axis == axis && it.extent > 1 && it.stride != 0)
            .map(|it| (it.stride.unsigned_abs(), it.extent.unsigned_abs()))
            .collect();
        iters.sort_unstable();
        let mut reach = 0u64;
        for (stride, extent) in iters {
            if stride > reach + 1 {
                return Some(min + (reach + 1).cast_signed());
            }
            reach += (extent - 1) * stride;
        }
        None
    }

    fn corner(&self, axis: Axis, value: i64) -> Point {
        Point::new(self.tile().axes().iter().map(|a| (*a, if *a == axis { value } else { 0 })))
    }

    /// Counts places: with padding or a swizzle the image is no sum of progressions any more.
    fn gap_by_counting(&self) -> Result<Option<Point>> {
        let mut volume = 1i128;
        let mut ranges = Vec::new();
        for axis in self.tile().axes() {
            let b = self.bounds(*axis)?;
            let low = b.min.min(0);
            volume = volume.saturating_mul(i128::from(b.max) - i128::from(low) + 1);
            ranges.push((*axis, low, b.max));
        }
        if self.is_injective()? {
            let used = i128::from(self.size()) * i128::from(self.distinct_copies()?);
            if used == volume {
                return Ok(None);
            }
        }
        self.enumerable("whether every place is used")?;
        let mut used = HashSet::new();
        for i in 0..self.size() {
            used.extend(self.places_unchecked(i).points());
        }
        if used.len() as i128 == volume {
            return Ok(None);
        }
        // Some place among the first `used + 1` in row-major order is free.
        let mut place: Vec<i64> = ranges.iter().map(|(_, low, _)| *low).collect();
        loop {
            let point = Point::new(ranges.iter().zip(&place).map(|((a, _, _), v)| (*a, *v)));
            if !used.contains(&point) {
                return Ok(Some(point));
            }
            for (v, (_, low, high)) in place.iter_mut().zip(&ranges).rev() {
                if *v < *high {
                    *v += 1;
                    break;
                }
                *v = *low;
            }
        }
    }

    /// The number of distinct places of one element.
    pub(crate) fn distinct_copies(&self) -> Result<i64> {
        let replica = self.tile().replica();
        let moving: Vec<_> = replica.iter().filter(|it| it.stride != 0 && it.extent > 1).collect();
        if self.size() == 0 || moving.is_empty() {
            return Ok(1);
        }
        let only_copies = crate::TileLayout::of(moving.into_iter().copied().collect())?;
        let layout = Layout::from(only_copies);
        if layout.tile_clash()?.is_none() {
            return Ok(layout.size());
        }
        layout.enumerable("the number of distinct replicas")?;
        let distinct: HashSet<_> =
            (0..layout.size()).map(|i| layout.places_unchecked(i).points()).collect();
        Ok(i64::try_from(distinct.len()).unwrap_or(i64::MAX))
    }

    fn enumerable(&self, what: &'static str) -> Result<()> {
        if self.size().saturating_mul(self.tile().copies()) > LIMIT {
            return Err(Error::TooLarge { what, limit: LIMIT.cast_unsigned() });
        }
        Ok(())
    }
}
