//! Which coordinates of an axis a view draws.

use std::collections::BTreeSet;
use zellige_layout::{Axis, Layout, Result};

/// Distinct coordinates looked at before an axis is called dense or sparse.
const MAX_SAMPLED_COORDINATES: usize = 4096;
/// An axis at most this wide is drawn with its holes, however many.
const MAX_DENSE_WIDTH: i128 = 64;

/// Coordinates to draw, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AxisTicks {
    /// Every coordinate of `[min, max]`.
    Range { min: i64, max: i64 },
    /// Those that hold something, because most do not; `complete` when these are all of them.
    Used { values: Vec<i64>, complete: bool },
}

impl AxisTicks {
    /// The ticks of one axis of a non-empty layout.
    pub(crate) fn for_axis(layout: &Layout, axis: Axis) -> Result<AxisTicks> {
        AxisTicks::for_mapped_axis(layout, axis, |v| v)
    }

    /// The ticks of a quantity that never falls as the coordinate rises, such as the line of an
    /// address.
    pub(crate) fn for_mapped_axis(
        layout: &Layout,
        axis: Axis,
        map: impl Fn(i64) -> i64,
    ) -> Result<AxisTicks> {
        let bounds = layout.axis_bounds(axis)?;
        let (min, max) = (map(bounds.min), map(bounds.max));
        let all = AxisTicks::Range { min, max };
        let moved = axis == Axis::M && layout.swizzle().is_some_and(|s| !s.is_identity());
        if range_width(min, max) <= MAX_DENSE_WIDTH || moved {
            return Ok(all);
        }
        let sample = smallest_coordinates(layout, axis);
        let complete = sample.len() < MAX_SAMPLED_COORDINATES;
        let mut values: Vec<i64> = sample.into_iter().map(map).collect();
        values.dedup();
        let reach = values.first().zip(values.last()).map_or(0, |(a, b)| range_width(*a, *b));
        if reach <= 4 * values.len() as i128 && (complete || values.len() > 1) {
            return Ok(all);
        }
        if !complete {
            // The quantity of the last sampled coordinate may go on past the sample.
            values.pop();
        }
        Ok(if values.is_empty() { all } else { AxisTicks::Used { values, complete } })
    }

    /// How many there are; of an incomplete list, how many are known.
    pub(crate) fn total_count(&self) -> i128 {
        match self {
            AxisTicks::Range { min, max } => range_width(*min, *max),
            AxisTicks::Used { values, .. } => values.len() as i128,
        }
    }

    /// The first `count` of them.
    pub(crate) fn first_values(&self, count: usize) -> Vec<i64> {
        match self {
            AxisTicks::Range { min, max } => (*min..=*max).take(count).collect(),
            AxisTicks::Used { values, .. } => values.iter().take(count).copied().collect(),
        }
    }

    /// The `i`-th of them, from 0.
    pub(crate) fn get(&self, i: i64) -> Option<i64> {
        match self {
            AxisTicks::Range { min, max } => min.checked_add(i).filter(|v| i >= 0 && v <= max),
            AxisTicks::Used { values, .. } => {
                usize::try_from(i).ok().and_then(|i| values.get(i)).copied()
            }
        }
    }

    /// Which of them a value is.
    pub(crate) fn position_of(&self, value: i64) -> Option<i64> {
        match self {
            AxisTicks::Range { min, max } => {
                (*min..=*max).contains(&value).then(|| value.checked_sub(*min)).flatten()
            }
            AxisTicks::Used { values, .. } => {
                values.binary_search(&value).ok().and_then(|i| i64::try_from(i).ok())
            }
        }
    }

    /// A number that increases with the value: their position, or the distance to the first where
    /// the list is not complete.
    pub(crate) fn rank_of(&self, value: i64) -> i128 {
        match (self.position_of(value), self) {
            (Some(i), _) => i.into(),
            (None, AxisTicks::Range { min, .. }) => i128::from(value) - i128::from(*min),
            (None, AxisTicks::Used { values, .. }) => {
                i128::from(value) - i128::from(values.first().copied().unwrap_or(0))
            }
        }
    }

    /// What is left out when `shown` of them are drawn.
    pub(crate) fn clip_note(&self, what: &str, shown: usize) -> Option<String> {
        match self {
            AxisTicks::Range { min, .. } => {
                crate::clip::clip_phrase(what, *min, shown, self.total_count())
            }
            AxisTicks::Used { values, complete } => {
                let more = if *complete { "" } else { "more than " };
                let total = values.len();
                Some(format!("{shown} of {more}{total} used {what} (empty ones between left out)"))
            }
        }
    }
}

fn range_width(min: i64, max: i64) -> i128 {
    i128::from(max) - i128::from(min) + 1
}

/// The smallest coordinates on an axis, before a swizzle; all of them when fewer than [`MAX_SAMPLED_COORDINATES`].
///
/// Of each iter only the first `MAX_SAMPLED_COORDINATES` digits can matter: they alone give as many sums.
fn smallest_coordinates(layout: &Layout, axis: Axis) -> BTreeSet<i64> {
    let tile = layout.tile();
    let mut sums = BTreeSet::from([tile.axis_bounds(axis).min]);
    for it in tile.shard().iter().chain(tile.replica()) {
        if it.axis != axis || it.stride == 0 || it.extent < 2 {
            continue;
        }
        let step = it.stride.unsigned_abs();
        let mut next = BTreeSet::new();
        for sum in &sums {
            for digit in 0..it.extent.cast_unsigned() {
                // Inside the bounds of the axis, which fit.
                let value = sum.wrapping_add_unsigned(digit * step);
                if next.len() >= MAX_SAMPLED_COORDINATES && next.last().is_some_and(|l| value >= *l)
                {
                    break;
                }
                next.insert(value);
                if next.len() > MAX_SAMPLED_COORDINATES {
                    next.pop_last();
                }
            }
        }
        sums = next;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_layout::{Iter, TileLayout};

    fn layout(iters: &[(i64, i64)]) -> Layout {
        let shard = iters.iter().map(|(e, s)| Iter::in_memory(*e, *s)).collect();
        TileLayout::from_shard(shard).expect("well-formed").into()
    }

    #[test]
    fn samples_are_the_smallest_sums() {
        let all = smallest_coordinates(&layout(&[(3, -10), (4, 7), (2, 0)]), Axis::M);
        let mut expected: Vec<i64> =
            (0..3).flat_map(|a| (0..4).map(move |b| -10 * a + 7 * b)).collect();
        expected.sort_unstable();
        assert_eq!(all.into_iter().collect::<Vec<_>>(), expected);
        let big = smallest_coordinates(&layout(&[(1 << 20, 1 << 20), (1 << 20, 1)]), Axis::M);
        assert_eq!(big.into_iter().collect::<Vec<_>>(), (0..4096).collect::<Vec<_>>());
    }

    #[test]
    fn sparse_axes_list_what_is_used() {
        let far = AxisTicks::for_axis(&layout(&[(5, 1 << 40)]), Axis::M).expect("fits");
        assert_eq!(far.first_values(2), [0, 1 << 40]);
        assert!(far.clip_note("m", 2).is_some_and(|t| t.contains("2 of 5 used m")));
        let dense = AxisTicks::for_axis(&layout(&[(1000, 2)]), Axis::M).expect("fits");
        assert_eq!(dense, AxisTicks::Range { min: 0, max: 1998 });
    }
}
