//! Places that hold no element: padding and gaps, in one set of words for every request.
//!
//! A place is in range where every axis has such a coordinate (for a device layout, where the device
//! has such a position). A place in range that holds no element is **padding**, in the wide sense: it
//! is what `fill` writes and what `facts` counts. Of these places, a **gap** is one that nothing maps
//! to; the others are those of indices that the window leaves out.

use crate::RequestFault;
use zellige_layout::{Axis, Layout, PlaceContent};
use zellige_notation::ParsedText;

/// The places in range, and those of them without an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreePlaces {
    /// Places in range.
    pub(crate) positions: i64,
    /// Those that hold no element.
    pub(crate) places: i64,
    /// Those that nothing maps to.
    pub(crate) gaps: i64,
}

impl FreePlaces {
    pub(crate) fn count_free_places(
        parsed: &ParsedText,
        layout: &Layout,
        shape: &[i64],
    ) -> Result<FreePlaces, RequestFault> {
        let positions = match memory_positions(parsed, shape) {
            Some(positions) => positions,
            None => layout.count_positions()?,
        };
        let left = |used: i64| positions.saturating_sub(used);
        let places = left(layout.count_used_places()?);
        // Nothing maps to any place of an empty tensor, and its padded domain may not be empty.
        let gaps = if layout.size() == 0 {
            places
        } else {
            left(layout.padded_domain().count_used_places()?)
        };
        Ok(FreePlaces { positions, places, gaps })
    }
}

/// The positions of a memory that the notation describes; the same however the elements are grouped.
fn memory_positions(parsed: &ParsedText, shape: &[i64]) -> Option<i64> {
    parsed.count_memory_positions(Some(shape)).and_then(Result::ok)
}

/// What a place holds. A device or a padded tensor has all its positions, also where no index of the layout reaches.
pub(crate) fn classify_place(
    parsed: &ParsedText,
    layout: &Layout,
    shape: &[i64],
    place: &[(Axis, i64)],
) -> Result<PlaceContent, RequestFault> {
    let found = layout.look_up_place(place)?;
    if let (PlaceContent::Outside, Some(positions)) = (&found, memory_positions(parsed, shape))
        && place.iter().all(|(axis, v)| *axis == Axis::M || *v == 0)
    {
        let at = place.iter().find(|(axis, _)| *axis == Axis::M).map_or(0, |(_, v)| *v);
        // Inside of the device's memory, so it exists and holds nothing: a gap, although no index of the layout
        // reaches so far.
        if (0..positions).contains(&at) {
            return Ok(PlaceContent::Gap);
        }
    }
    Ok(found)
}
