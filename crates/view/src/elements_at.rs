//! Which elements are at the places of a box: the inverse of a layout, for a part of its range.
//!
//! A drawing starts from places (the first lines of a memory, the lanes of a warp) and asks which elements
//! are there. The search walks the digits of the layout and drops a branch as soon as the digits
//! still to come cannot bring it back into the box, so its cost follows the box, not the tensor.

use std::collections::HashMap;
use zellige_layout::{Axis, Layout};

/// Digits tried before the search gives up.
// A layout whose digits overlap may send the search into many branches that end nowhere. The bound keeps the time of a
// drawing limited, and a note says that it was reached.
const MAX_DIGITS_TRIED: usize = 1 << 22;

/// The padded index and the place, as positions in the wanted lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ElementAt {
    /// Flat index in the padded domain.
    pub(crate) index: i64,
    /// Per axis, which of the wanted coordinates.
    pub(crate) at: Vec<usize>,
}

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct ElementsAt {
    /// Elements and padding in the box, one entry per copy.
    pub(crate) hits: Vec<ElementAt>,
    /// Whether these are all elements in the box.
    pub(crate) complete: bool,
}

/// Every element in the box that `wanted` spans (one list of coordinates per axis of the layout), up
/// to `limit` copies.
///
/// **Law**: `hit.at` names a place of `layout.padded().places(hit.index)`, and when `complete`
/// no other element of the padded domain has a place in the box.
pub(crate) fn elements_at(layout: &Layout, wanted: &[Vec<i64>], limit: usize) -> ElementsAt {
    let tile = layout.tile();
    if tile.size() == 0 || wanted.iter().any(Vec::is_empty) {
        return ElementsAt { hits: Vec::new(), complete: true };
    }
    let mut digits: Vec<SearchDigit> = Vec::new();
    let slot = |axis: Axis| tile.axes().iter().position(|a| *a == axis).unwrap_or(0);
    let mut weight = 1;
    for it in tile.shard().iter().rev() {
        digits.push(SearchDigit {
            extent: it.extent,
            stride: it.stride,
            slot: slot(it.axis),
            weight,
        });
        weight *= it.extent;
    }
    for it in tile.replica() {
        // Copies on one spot are one place of the set.
        let extent = if it.stride == 0 { 1 } else { it.extent };
        digits.push(SearchDigit { extent, stride: it.stride, slot: slot(it.axis), weight: 0 });
    }
    // A digit with one value decides nothing and would cost a level of recursion.
    digits.retain(|d| d.extent > 1);
    // Broadcast digits go first: when the limit strikes, every place has been met once.
    digits.sort_by_key(|d| (d.stride != 0, std::cmp::Reverse(d.stride.unsigned_abs())));

    let lookup: Vec<HashMap<i64, usize>> = wanted
        .iter()
        .zip(tile.axes())
        .map(|(list, axis)| {
            // A swizzle is its own inverse, so the wanted addresses go back through it.
            let swizzle = layout.swizzle().filter(|_| *axis == Axis::M);
            let back = |v: i64| swizzle.filter(|_| v >= 0).map_or(v, |s| s.apply_to_address(v));
            list.iter().enumerate().map(|(i, v)| (back(*v), i)).collect()
        })
        .collect();
    let range = |map: &HashMap<i64, usize>| {
        let low = map.keys().min().copied().unwrap_or(0);
        (i128::from(low), i128::from(map.keys().max().copied().unwrap_or(0)))
    };
    let mut reach = vec![vec![(0, 0); wanted.len()]];
    for d in digits.iter().rev() {
        let mut next = reach.last().cloned().unwrap_or_default();
        let far = i128::from(d.extent - 1) * i128::from(d.stride);
        next[d.slot].0 += far.min(0);
        next[d.slot].1 += far.max(0);
        reach.push(next);
    }
    reach.reverse();
    let mut search = PlaceSearch {
        boxes: lookup.iter().map(range).collect(),
        digits,
        lookup,
        reach,
        limit,
        steps: 0,
        found: ElementsAt { hits: Vec::new(), complete: true },
    };
    let mut place: Vec<i64> = tile.axes().iter().map(|a| tile.offset_on(*a)).collect();
    search.descend_digits(0, 0, &mut place);
    search.found
}

#[derive(Clone, Copy)]
struct SearchDigit {
    extent: i64,
    stride: i64,
    slot: usize,
    /// What one step adds to the flat index; 0 for a replica.
    weight: i64,
}

struct PlaceSearch {
    digits: Vec<SearchDigit>,
    /// Per axis, wanted coordinate before the swizzle -> position in its list.
    lookup: Vec<HashMap<i64, usize>>,
    /// Per axis, the smallest and largest key of `lookup`.
    boxes: Vec<(i128, i128)>,
    /// Per depth and axis, what the digits from there on can subtract and add.
    reach: Vec<Vec<(i128, i128)>>,
    limit: usize,
    steps: usize,
    found: ElementsAt,
}

impl PlaceSearch {
    fn descend_digits(&mut self, depth: usize, index: i64, place: &mut [i64]) {
        let Some(&d) = self.digits.get(depth) else {
            let at: Option<Vec<usize>> =
                place.iter().zip(&self.lookup).map(|(v, map)| map.get(v).copied()).collect();
            if let Some(at) = at {
                if self.found.hits.len() < self.limit {
                    self.found.hits.push(ElementAt { index, at });
                } else {
                    self.found.complete = false;
                }
            }
            return;
        };
        let (low, high) = self.boxes[d.slot];
        let (down, up) = self.reach[depth + 1][d.slot];
        let here = i128::from(place[d.slot]);
        // Digits k with low <= here + k*stride + [down, up] <= high.
        let (a, b, step) = (low - up - here, high - down - here, i128::from(d.stride));
        let last = i128::from(d.extent - 1);
        let (first, last) = match step.signum() {
            0 if a <= 0 && b >= 0 => (0, last),
            0 => return,
            1 => (div_ceil(a, step).max(0), b.div_euclid(step).min(last)),
            _ => (div_ceil(-b, -step).max(0), (-a).div_euclid(-step).min(last)),
        };
        let start = place[d.slot];
        let mut k = first;
        while k <= last {
            self.steps += 1;
            if self.steps > MAX_DIGITS_TRIED {
                self.found.complete = false;
            }
            if !self.found.complete {
                break;
            }
            // At most `extent - 1`, so it fits, and so does any coordinate of the layout.
            let digit = i64::try_from(k).unwrap_or(0);
            place[d.slot] = start + digit * d.stride;
            self.descend_digits(depth + 1, index + digit * d.weight, place);
            k += 1;
        }
        place[d.slot] = start;
    }
}

fn div_ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_layout::{Iter, Swizzle, TileLayout};

    /// The definition: look at every element.
    fn by_definition(layout: &Layout, wanted: &[Vec<i64>]) -> Vec<(i64, Vec<usize>)> {
        let padded = layout.padded_domain();
        let mut all = Vec::new();
        for index in 0..padded.size() {
            for row in padded.physical_coordinates(index).expect("inside").coordinate_rows() {
                let at: Option<Vec<usize>> = row
                    .iter()
                    .zip(wanted)
                    .map(|(v, list)| list.iter().position(|w| w == v))
                    .collect();
                all.extend(at.map(|at| (index, at)));
            }
        }
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn the_search_finds_exactly_the_elements() {
        let lane = Axis::LANEID;
        let it = Iter::new;
        let m = Axis::M;
        let tiles = [
            TileLayout::from_shard(vec![it(2, 2, m), it(8, 4, lane), it(4, 1, lane), it(2, 1, m)]),
            TileLayout::new(vec![it(4, 8, lane), it(8, -1, lane)], vec![it(3, 2, m)], [(lane, 7)]),
            TileLayout::from_shard(vec![it(3, 0, m), it(5, 3, m), it(4, -2, lane)]),
            TileLayout::new(vec![], vec![], [(m, 3), (lane, -1)]),
        ];
        for tile in tiles {
            let layout = Layout::from(tile.expect("well-formed"));
            for wanted in
                [vec![vec![-2, 0, 3, 5, 9, 30], vec![0, 1, 2, 6, 12]], vec![vec![-1], vec![3]]]
            {
                let wanted = &wanted[2 - layout.tile().axes().len()..];
                let found = elements_at(&layout, wanted, 1 << 20);
                let mut hits: Vec<_> = found.hits.into_iter().map(|h| (h.index, h.at)).collect();
                hits.sort();
                hits.dedup();
                assert!(found.complete);
                assert_eq!(hits, by_definition(&layout, wanted), "{layout:?}");
            }
        }
        let tile = TileLayout::row_major(&[16, 64]).expect("fits");
        let layout =
            Layout::from_swizzled_tile(Swizzle::shared_memory_mode(128, 16).expect("fine"), tile)
                .expect("fine");
        let wanted = [vec![8, 9, 72, 600, 601, 1023]];
        let hits = elements_at(&layout, &wanted, 99).hits;
        assert_eq!(hits.len(), 6);
        for h in hits {
            let place = layout.physical_coordinates(h.index).expect("inside").sorted_coordinates()
                [0]
            .get(m);
            assert_eq!(place, wanted[0][h.at[0]]);
        }
    }

    #[test]
    fn limits_are_said() {
        let layout =
            Layout::from(TileLayout::from_strides(&[1 << 30, 4], &[0, 1], 0).expect("fits"));
        let found = elements_at(&layout, &[vec![0, 1, 2, 3]], 8);
        assert_eq!((found.hits.len(), found.complete), (8, false));
        let places: std::collections::BTreeSet<_> = found.hits.iter().map(|h| h.at[0]).collect();
        assert_eq!(places.len(), 4);
    }
}
