//! The common refinement of several layouts over one shape.

use crate::error::{LayoutError, Result};
use crate::layout::Layout;

/// The smallest list of extents that respects every boundary of the shape and of all layouts, and
/// each layout split over it, swizzle included.
///
/// **Law**: each answered layout is the same function as the one given.
///
/// A boundary is a suffix product of extents. Boundaries that do not divide one another have no
/// common refinement; the error names the two.
pub fn find_common_refinement(
    layouts: &[Layout],
    shape: &[i64],
) -> Result<(Vec<i64>, Vec<Layout>)> {
    let mut lists: Vec<Vec<i64>> = vec![shape.to_vec()];
    for layout in layouts {
        layout.require_unpadded("refine")?.check_shape_size(shape)?;
        lists.push(layout.tile().shard().iter().map(|it| it.extent).collect());
    }
    let extents = refine_extents(&lists)?;
    let split =
        layouts.iter().map(|l| l.group(&extents).map(|(split, _)| split)).collect::<Result<_>>()?;
    Ok((extents, split))
}

/// The common refinement of lists of extents with equal products. Unit extents disappear.
pub(crate) fn refine_extents(lists: &[Vec<i64>]) -> Result<Vec<i64>> {
    // An empty layout has no boundaries to respect, and products of its extents would all be 0.
    if lists.iter().flatten().any(|e| *e == 0) {
        return Ok(vec![0]);
    }
    let mut boundaries: Vec<i64> = vec![1];
    for list in lists {
        let mut weight = 1i64;
        for extent in list.iter().rev() {
            weight = weight
                .checked_mul(*extent)
                .ok_or_else(|| LayoutError::overflow_of("the number of elements"))?;
            boundaries.push(weight);
        }
    }
    // Boundaries of one list divide one another. The union of several lists has that property
    // exactly if each divides the next larger one, and then it is the smallest common refinement.
    boundaries.sort_unstable();
    boundaries.dedup();
    let mut extents = Vec::with_capacity(boundaries.len());
    for pair in boundaries.windows(2) {
        if pair[1] % pair[0] != 0 {
            return Err(LayoutError::NoCommonRefinement { a: pair[0], b: pair[1] });
        }
        extents.push(pair[1] / pair[0]);
    }
    extents.reverse();
    Ok(extents)
}
