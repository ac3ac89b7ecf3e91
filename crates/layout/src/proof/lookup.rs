//! From a physical coordinate to the elements that it holds.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::layout::Layout;
use crate::proof::solve::{DigitSolver, DigitTerm};
use crate::tile::Iter;

/// The content of a physical coordinate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceContent {
    /// The flat indices of the elements stored there, sorted; more than one where they alias.
    Elements(Vec<i64>),
    /// No element is stored there, but an index of the padded domain outside of the window maps there.
    Padding,
    /// Inside the range of every axis, and nothing maps there.
    Gap,
    /// Outside the range of coordinates of some axis.
    Outside,
}

/// More elements at one physical coordinate than this are not listed.
const MAX_ELEMENTS_PER_PLACE: usize = 1 << 16;

impl Layout {
    /// The elements at a physical coordinate. Axes not named count as 0.
    ///
    /// **Law**: `i` is among the elements at `p` exactly when `p` is among `physical_coordinates(i)`; `p`
    /// is padding exactly when `padded_domain()` has an element there and `self` has none.
    pub fn look_up_place(&self, place: &[(Axis, i64)]) -> Result<PlaceContent> {
        if self.size() == 0 {
            return Ok(PlaceContent::Outside);
        }
        let at = |axis: Axis| place.iter().find(|(a, _)| *a == axis).map_or(0, |(_, v)| *v);
        for axis in self.tile().axes() {
            let bounds = self.axis_bounds(*axis)?;
            if at(*axis) < bounds.min.min(0) || at(*axis) > bounds.max {
                return Ok(PlaceContent::Outside);
            }
        }
        // An axis that a layout does not mention has the coordinate 0 for every element.
        if place.iter().any(|(a, v)| *v != 0 && !self.tile().axes().contains(a)) {
            return Ok(PlaceContent::Outside);
        }
        let mut found = self.solve_place_digits(&at, MAX_ELEMENTS_PER_PLACE + 1)?;
        found.sort_unstable();
        // One element may reach the physical coordinate in several replicas.
        found.dedup();
        if found.len() > MAX_ELEMENTS_PER_PLACE {
            let limit = MAX_ELEMENTS_PER_PLACE as u64;
            return Err(LayoutError::TooLarge { what: "listing the elements of a place", limit });
        }
        if !found.is_empty() {
            return Ok(PlaceContent::Elements(found));
        }
        let padding =
            self.window().is_some() && self.padded_domain().look_up_first(place)?.is_some();
        Ok(if padding { PlaceContent::Padding } else { PlaceContent::Gap })
    }

    /// Some element at a physical coordinate, if there is one.
    pub(crate) fn look_up_first(&self, place: &[(Axis, i64)]) -> Result<Option<i64>> {
        let at = |axis: Axis| place.iter().find(|(a, _)| *a == axis).map_or(0, |(_, v)| *v);
        Ok(self.solve_place_digits(&at, 1)?.first().copied())
    }

    /// Up to `enough` flat indices (with repetition) of elements at a physical coordinate.
    fn solve_place_digits(&self, at: &dyn Fn(Axis) -> i64, enough: usize) -> Result<Vec<i64>> {
        // Each iter moves on one axis, so the digits of each axis are found on their own, and the
        // elements are the combinations.
        let shard = self.tile().shard();
        let mut weights = vec![1i64; shard.len()];
        for i in (1..shard.len()).rev() {
            weights[i - 1] = weights[i] * shard[i].extent;
        }
        let mut partial: Vec<i64> = vec![0];
        let window = self.window();
        let axes = self.tile().axes();
        for (i, axis) in axes.iter().enumerate() {
            let mut target = at(*axis);
            if let Some(sw) = self.swizzle()
                && *axis == Axis::M
                && target >= 0
            {
                // A swizzle is its own inverse, so applying it to the target undoes it.
                target = sw.apply_to_address(target);
            }
            let Some(target) = target.checked_sub(self.tile().offset_on(*axis)) else {
                return Ok(Vec::new());
            };
            let on_axis = |its: &[Iter]| -> Vec<(usize, Iter)> {
                its.iter().copied().enumerate().filter(|(_, it)| it.moves_on_axis(*axis)).collect()
            };
            let mine = on_axis(shard);
            let copies = on_axis(self.tile().replica());
            let terms: Vec<DigitTerm> = mine
                .iter()
                .chain(&copies)
                .map(|(_, it)| DigitTerm { low: 0, high: it.extent - 1, stride: it.stride })
                .collect();
            // On the last axis the search may stop as soon as enough is known, unless some of the indices
            // found are padding.
            let cap = if i + 1 == axes.len() && window.is_none() {
                enough
            } else {
                MAX_ELEMENTS_PER_PLACE + 1
            };
            let mut flats = Vec::new();
            DigitSolver::new(&terms).for_each_solution(target, "looking up a place", |digits| {
                flats.push(mine.iter().zip(digits).map(|((k, _), d)| d * weights[*k]).sum::<i64>());
                flats.len() < cap
            })?;
            flats.sort_unstable();
            flats.dedup();
            if partial.len().saturating_mul(flats.len()) > 4 * MAX_ELEMENTS_PER_PLACE {
                let limit = 4 * MAX_ELEMENTS_PER_PLACE as u64;
                return Err(LayoutError::TooLarge {
                    what: "listing the elements of a place",
                    limit,
                });
            }
            partial = partial.iter().flat_map(|p| flats.iter().map(move |f| p + f)).collect();
            if partial.is_empty() {
                return Ok(partial);
            }
        }
        Ok(match window {
            Some(w) => partial.into_iter().filter_map(|p| w.valid_index_of(p)).collect(),
            None => partial,
        })
    }
}
