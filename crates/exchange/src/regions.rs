//! The tensor cut into boxes whose elements have the same holders and the same cores that need them.

use crate::division::{CoreNumber, TensorDivision, merge_boxes};
use crate::error::{ExchangeError, Result};
use crate::tensor_box::TensorBox;
use std::collections::BTreeMap;

/// The most cells of the grid of all boundaries. Divisions of a card have some thousand; the limit bounds the memory
/// that a request takes.
const MAX_CELLS: u128 = 1 << 20;

/// The most cells of the grid, each counted once for every division: a sum has one for each of its layers.
const MAX_LISTS: u128 = 1 << 22;

/// The most entries "a core holds (needs) this cell" of both divisions together.
const MAX_ENTRIES: u128 = 1 << 24;

/// A box of elements that the same cores hold and the same cores need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedRegion {
    pub(crate) elements: TensorBox,
    /// The cores of the source that hold it, rising.
    pub(crate) holders: Vec<CoreNumber>,
    /// The cores of the destination that need it, rising.
    pub(crate) needers: Vec<CoreNumber>,
}

/// The regions of elements that some core needs or holds, each element in one of them.
pub(crate) fn find_shared_regions(
    source: &TensorDivision,
    destination: &TensorDivision,
) -> Result<Vec<SharedRegion>> {
    let pair = |(elements, mut held): (TensorBox, Vec<Vec<CoreNumber>>)| {
        let needers = held.pop().unwrap_or_default();
        SharedRegion { elements, holders: held.pop().unwrap_or_default(), needers }
    };
    Ok(find_regions(&[source, destination])?.into_iter().map(pair).collect())
}

/// A box of elements that are on the same cores in every one of some divisions, with those cores by division, rising.
pub(crate) type HeldRegion = (TensorBox, Vec<Vec<CoreNumber>>);

/// The regions of elements that some core of some division of one tensor has, each element in one of them.
///
/// Boundaries of boxes in each dimension make a grid; inside one of its cells nothing changes. Cells with the same
/// cores are joined to boxes afterwards.
pub(crate) fn find_regions(divisions: &[&TensorDivision]) -> Result<Vec<HeldRegion>> {
    let shape = divisions.first().map_or(&[][..], |d| d.shape());
    let rank = shape.len();
    let mut cuts: Vec<Vec<i64>> = shape.iter().map(|n| vec![0, *n]).collect();
    for (_, boxes) in divisions.iter().flat_map(|d| d.parts()) {
        for part in boxes {
            for (own, (begin, end)) in cuts.iter_mut().zip(part.ranges()) {
                own.extend([*begin, *end]);
            }
        }
    }
    for own in &mut cuts {
        own.sort_unstable();
        own.dedup();
    }
    let grid: Vec<usize> = cuts.iter().map(|own| own.len() - 1).collect();
    let cells: u128 = grid.iter().map(|n| *n as u128).product();
    if cells > MAX_CELLS {
        return Err(too_large("cells between the boundaries of all divisions", cells, MAX_CELLS));
    }
    // Every cell has a list for each division.
    let lists = cells * divisions.len() as u128;
    if lists > MAX_LISTS {
        return Err(too_large("cells of all divisions together", lists, MAX_LISTS));
    }
    let mut entries = 0;
    let count = usize::try_from(cells).unwrap_or(usize::MAX);
    let mut by_cell: Vec<Vec<Vec<CoreNumber>>> = vec![vec![Vec::new(); divisions.len()]; count];
    for (which, division) in divisions.iter().enumerate() {
        for (core, boxes) in division.parts() {
            for part in boxes {
                let span = grid_ranges(part, &cuts);
                entries += span.iter().map(|(a, b)| (b - a) as u128).product::<u128>();
                if entries > MAX_ENTRIES {
                    return Err(too_large("cells of all cores together", entries, MAX_ENTRIES));
                }
                for_each_cell(&span, &grid, |cell| by_cell[cell][which].push(core));
            }
        }
    }
    let mut groups: BTreeMap<&[Vec<CoreNumber>], Vec<TensorBox>> = BTreeMap::new();
    let mut index = vec![0; rank];
    for held in &by_cell {
        if held.iter().any(|cores| !cores.is_empty()) {
            let cell = index.iter().zip(&cuts).map(|(i, own): (&usize, _)| (own[*i], own[*i + 1]));
            groups.entry(held).or_default().push(TensorBox::new(cell.collect()));
        }
        advance_index(&mut index, &grid);
    }
    let mut regions: Vec<HeldRegion> = groups
        .into_iter()
        .flat_map(|(held, cells)| {
            merge_boxes(cells).into_iter().map(move |elements| (elements, held.to_vec()))
        })
        .collect();
    // In the order of elements, so that a plan does not depend on how cores are numbered.
    regions.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(regions)
}

fn too_large(what: &'static str, count: u128, limit: u128) -> ExchangeError {
    ExchangeError::TooLarge { what, count, limit }
}

/// The cells of a box, as a range of the grid in every dimension. Every boundary of a box is one of the grid.
fn grid_ranges(part: &TensorBox, cuts: &[Vec<i64>]) -> Vec<(usize, usize)> {
    let place = |own: &Vec<i64>, value: i64| own.partition_point(|cut| *cut < value);
    let ranges = part.ranges().iter().zip(cuts);
    ranges.map(|((begin, end), own)| (place(own, *begin), place(own, *end))).collect()
}

/// Calls a function with the number of every cell of a box of the grid, the last dimension fastest.
fn for_each_cell(span: &[(usize, usize)], grid: &[usize], mut visit: impl FnMut(usize)) {
    let mut index: Vec<usize> = span.iter().map(|(a, _)| *a).collect();
    loop {
        visit(index.iter().zip(grid).fold(0, |flat, (i, n)| flat * n + i));
        let Some(dim) = (0..index.len()).rev().find(|d| index[*d] + 1 < span[*d].1) else { return };
        index[dim] += 1;
        for (later, (begin, _)) in index.iter_mut().zip(span).skip(dim + 1) {
            *later = *begin;
        }
    }
}

fn advance_index(index: &mut [usize], grid: &[usize]) {
    for (i, n) in index.iter_mut().zip(grid).rev() {
        *i += 1;
        if *i < *n {
            return;
        }
        *i = 0;
    }
}
