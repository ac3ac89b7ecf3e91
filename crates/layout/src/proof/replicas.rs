//! Replicas as sets of physical coordinates, for two questions that their iters alone do not answer: compositions in
//! which replica digits carry, and the replicas that remain when some are removed.

use crate::axis::Axis;
use crate::error::{LayoutError, Result};
use crate::int::narrow_to_i64;
use crate::layout::{Layout, PhysicalCoordinate};
use crate::proof::compose::iters_on_one_axis;
use crate::radix::{AxisVector, NotLinear, scan_for_digits};
use crate::tile::{Iter, TileLayout};
use std::collections::BTreeSet;

/// Physical coordinates listed before an exact answer is refused.
// Each listed physical coordinate is a vector on the heap, so that a full list takes tens of megabytes.
const MAX_LISTED_PLACES: i64 = 1 << 20;
/// Physical coordinates of one element that are decomposed into replica iters.
const MAX_COPIES: usize = 1 << 10;

type PlaceSet = BTreeSet<i64>;

/// `i -> { a(p) | p in b(i) }` for a `b` on one memory axis, inside the domain of `a`.
///
/// In a tile layout the physical coordinates of every element are those of the first element, shifted. An
/// element for which this fails, or a shift that no iters produce, is the witness of the refusal. Otherwise
/// the physical coordinates of the first element must be sums of progressions.
pub(crate) fn compose_place_sets(a: &TileLayout, b: &TileLayout, axis: Axis) -> Result<TileLayout> {
    let what = "the composition";
    let places = b.size().saturating_mul(b.replica_count()).saturating_mul(a.replica_count());
    if places > MAX_LISTED_PLACES {
        return Err(LayoutError::TooLarge { what, limit: MAX_LISTED_PLACES.cast_unsigned() });
    }
    let axes = a.axes();
    let (from, through) = (Layout::from(b.clone()), Layout::from(a.clone()));
    let mut corners: Vec<AxisVector> = Vec::new();
    let mut first: Option<BTreeSet<Vec<i64>>> = None;
    for i in 0..b.size() {
        let mut all: BTreeSet<Vec<i64>> = BTreeSet::new();
        for place in from.physical_coordinates(i)?.sorted_coordinates() {
            let points = through.physical_coordinates(place.get(axis))?.sorted_coordinates();
            all.extend(points.iter().map(|p| axes.iter().map(|x| p.get(*x)).collect::<Vec<_>>()));
        }
        let low: Vec<i64> =
            (0..axes.len()).map(|k| all.iter().map(|p| p[k]).min().unwrap_or_default()).collect();
        let moved: BTreeSet<Vec<i64>> =
            all.iter().map(|p| p.iter().zip(&low).map(|(v, l)| v - l).collect()).collect();
        corners.push(low.iter().map(|v| i128::from(*v)).collect());
        // Sets are compared from their lowest corner on, because equal finite sets up to a shift
        // agree after that.
        if *first.get_or_insert_with(|| moved.clone()) != moved {
            let reason = format!(
                "the places of element {i} are not those of element 0 shifted, as they are in every layout without a swizzle"
            );
            return Err(LayoutError::NotExpressible { reason, index: i });
        }
    }
    let at = |i: i128| corners[usize::try_from(i).expect("inside")].clone();
    let mut shard = scan_for_digits(b.size().into(), axes.len(), at)
        .and_then(|found| iters_on_one_axis(&found, axes))
        .map_err(|refusal| match refusal {
            NotLinear::At(i) | NotLinear::TwoAxes(i) => {
                let index = i64::try_from(i).unwrap_or(i64::MAX);
                let reason =
                    format!("no iters shift the places of element 0 to those of element {index}");
                LayoutError::NotExpressible { reason, index }
            }
            NotLinear::TooLarge => {
                LayoutError::TooLarge { what, limit: MAX_LISTED_PLACES.cast_unsigned() }
            }
        })?;
    shard.reverse();
    let replica = as_replica_iters(&first.unwrap_or_default(), axes)?;
    let mut offset = Vec::new();
    for (axis, value) in axes.iter().zip(at(0)) {
        offset.push((*axis, narrow_to_i64(value, "the offset of the composition")?));
    }
    TileLayout::new(shard, replica, offset)
}

/// Replica iters whose physical coordinates, from 0 on, are this set.
fn as_replica_iters(set: &BTreeSet<Vec<i64>>, axes: &[Axis]) -> Result<Vec<Iter>> {
    let mut replica = Vec::new();
    let mut volume = 1;
    for (k, axis) in axes.iter().enumerate() {
        let on_axis: PlaceSet = set.iter().map(|p| p[k]).collect();
        volume *= on_axis.len();
        if on_axis.len() > MAX_COPIES {
            let limit = MAX_COPIES as u64;
            return Err(LayoutError::TooLarge { what: "the replicas of the composition", limit });
        }
        let Some(steps) = decompose_progressions(&on_axis, &mut { MAX_DECOMPOSITION_TRIES }) else {
            return Err(undecided_error(&format!(
                "the places {on_axis:?} of element 0 on `{axis}`"
            )));
        };
        replica.extend(steps.into_iter().map(|(extent, stride)| Iter::new(extent, stride, *axis)));
    }
    // The projections multiply to at least the set. Equality means that the set is the product,
    // which is what replicas on several axes always are.
    if volume != set.len() {
        // Each replica moves on one axis, so the physical coordinates of an element fill a box of coordinates.
        let held =
            |p: &Vec<i64>| PhysicalCoordinate::new(axes.iter().copied().zip(p.iter().copied()));
        let shown = set.iter().next_back().map(held);
        let reason = format!(
            "the {} places of element 0 (up to {shown:?} from the lowest) are not a product of \
             coordinates, as those of replicas are",
            set.len()
        );
        return Err(LayoutError::NotExpressible { reason, index: 0 });
    }
    Ok(replica)
}

/// Replicas that together with `part` have the physical coordinates of `all`; none where no replicas do. Strides run
/// upwards in both.
///
/// On each axis, the result consists of starts from which all of `part` stays inside the set of `all`.
pub(crate) fn find_remaining_replicas(all: &[Iter], part: &[Iter]) -> Result<Option<Vec<Iter>>> {
    let mut axes: Vec<Axis> = all.iter().chain(part).map(|it| it.axis).collect();
    axes.sort_unstable();
    axes.dedup();
    let mut found = Vec::new();
    for axis in axes {
        let (Some(whole), Some(some)) = (sums_of_steps(all, axis), sums_of_steps(part, axis))
        else {
            let limit = MAX_COPIES as u64;
            return Err(LayoutError::TooLarge { what: "taking replicas apart", limit });
        };
        let inside = |x: &i64| some.iter().all(|v| whole.contains(&(x + v)));
        let starts: PlaceSet = whole.iter().copied().filter(|x| inside(x)).collect();
        let with = |starts: &PlaceSet| -> PlaceSet {
            starts.iter().flat_map(|x| some.iter().map(move |v| x + v)).collect()
        };
        if with(&starts) != whole {
            return Ok(None);
        }
        // All starts cover the set, and so may fewer of them. Which choice is a sum of progressions
        // is not known in advance, so both the largest and a smallest one are tried.
        let (mut least, mut held) = (PlaceSet::new(), PlaceSet::new());
        for x in &starts {
            if some.iter().any(|v| !held.contains(&(x + v))) {
                least.insert(*x);
                held.extend(some.iter().map(|v| x + v));
            }
        }
        let steps = [&starts, &least]
            .into_iter()
            .find_map(|set| decompose_progressions(set, &mut { MAX_DECOMPOSITION_TRIES }));
        let Some(steps) = steps else {
            return Err(undecided_error(&format!(
                "the replicas {starts:?} that are left on `{axis}`"
            )));
        };
        found.extend(steps.into_iter().map(|(extent, stride)| Iter::new(extent, stride, axis)));
    }
    Ok(Some(found))
}

/// The sums of the steps of iters on an axis; `None` where there are too many.
fn sums_of_steps(iters: &[Iter], axis: Axis) -> Option<PlaceSet> {
    let mut all = PlaceSet::from([0]);
    for it in iters.iter().filter(|it| it.axis == axis) {
        let extent = usize::try_from(it.extent).ok().filter(|e| *e <= MAX_COPIES)?;
        if all.len() * extent > MAX_COPIES * MAX_COPIES {
            return None;
        }
        all = all.iter().flat_map(|x| (0..it.extent).map(move |k| x + k * it.stride)).collect();
        if all.len() > MAX_COPIES {
            return None;
        }
    }
    Some(all)
}

fn undecided_error(what: &str) -> LayoutError {
    LayoutError::Undecided { reason: format!("{what} were not recognised as sums of progressions") }
}

/// Sets that one decomposition may visit. Choices multiply where progressions overlap, so that the
/// recursion would be exponential without a bound.
const MAX_DECOMPOSITION_TRIES: u32 = 1 << 10;

/// Progressions (extent, stride) whose sums are the set, which holds 0 and nothing below.
///
/// The smallest step must be a stride. Its extent is tried from the longest down; the rest of the
/// decomposition is that of the set of all starts from which the whole progression stays inside, or of as
/// few of them as cover the set.
fn decompose_progressions(set: &PlaceSet, tries: &mut u32) -> Option<Vec<(i64, i64)>> {
    *tries = tries.checked_sub(1)?;
    let Some(stride) = set.iter().find(|v| **v > 0).copied() else { return Some(Vec::new()) };
    let longest = (1..).take_while(|k| set.contains(&(k * stride))).count() + 1;
    // The smallest positive element can only be a single step of the smallest stride, as every
    // other sum is larger. So the stride is forced, and only the extent is a choice.
    for extent in (2..=i64::try_from(longest).ok()?).rev() {
        let run = |x: i64| (0..extent).map(move |k| x + k * stride);
        let starts: PlaceSet =
            set.iter().copied().filter(|x| run(*x).all(|v| set.contains(&v))).collect();
        let covered: PlaceSet = starts.iter().flat_map(|x| run(*x)).collect();
        if covered != *set {
            continue;
        }
        let (mut least, mut held) = (PlaceSet::new(), PlaceSet::new());
        for x in &starts {
            if !held.contains(x) {
                least.insert(*x);
                held.extend(run(*x));
            }
        }
        let choices = if held == *set { vec![least, starts] } else { vec![starts] };
        for rest in choices {
            // A shorter set each time, so this ends.
            if rest.len() < set.len()
                && let Some(mut found) = decompose_progressions(&rest, tries)
            {
                found.push((extent, stride));
                return Some(found);
            }
        }
    }
    None
}
