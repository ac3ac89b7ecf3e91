//! The places of the elements, and how each kind of memory is drawn.

mod memory;
mod roles;
mod table;

pub(crate) use memory::{MemoryGrid, drawn_lines as memory_lines};
pub(crate) use roles::AxisRoles;
pub(crate) use table::mesh_columns;

use crate::cell_label;
use crate::elements_at::ElementsAt;
use crate::options::DrawOptions;
use crate::scene::{CellKind, SceneCell, ScenePanel};
use crate::scene_builder::SceneContext;
use std::collections::BTreeMap;
use zellige_layout::{
    Axis, Layout, LayoutError, PaddedExtent, Result, flatten_coordinate, unflatten_index,
};

/// A drawing of places.
#[derive(Debug, Default)]
pub(crate) struct PhysicalView {
    pub(crate) title: String,
    pub(crate) panels: Vec<ScenePanel>,
    pub(crate) notes: Vec<String>,
}

/// The view that suits the axes of the layout.
pub(crate) fn view_places(context: &SceneContext<'_>) -> Result<PhysicalView> {
    let memory_only = context.axes().iter().all(|a| *a == Axis::M);
    check_sticks(context.layout, context.options)?;
    if context.layout.size() == 0 {
        return Ok(PhysicalView::default());
    }
    if memory_only { memory::view_memory(context) } else { table::view_table(context) }
}

/// Refuses sticks of a layout that is not on `m` alone.
pub(crate) fn check_sticks(layout: &Layout, options: &DrawOptions) -> Result<()> {
    let others: Vec<_> =
        layout.tile().axes().iter().filter(|a| **a != Axis::M).map(|a| format!("`{a}`")).collect();
    if others.is_empty() || !options.sticks {
        return Ok(());
    }
    let (op, axis) = ("drawing sticks", Axis::M.name().to_string());
    Err(LayoutError::NotOneAxis { op, axis, found: others.join(", ") })
}

/// The elements at each place of a box, by the position of the place in the wanted lists.
pub(crate) struct PlaceOccupants {
    by_place: BTreeMap<Vec<usize>, Vec<i64>>,
    complete: bool,
}

impl PlaceOccupants {
    pub(crate) fn new(found: ElementsAt) -> PlaceOccupants {
        let mut by_place: BTreeMap<Vec<usize>, Vec<i64>> = BTreeMap::new();
        for hit in found.hits {
            by_place.entry(hit.at).or_default().push(hit.index);
        }
        for list in by_place.values_mut() {
            // Two copies of an element on one place are one place of its set.
            list.sort_unstable();
            list.dedup();
        }
        PlaceOccupants { by_place, complete: found.complete }
    }

    /// The cell of a place.
    pub(crate) fn place_cell(
        &self,
        context: &SceneContext<'_>,
        at: &[usize],
        place: Vec<i64>,
    ) -> SceneCell {
        let occupants = self.by_place.get(at).map_or(&[][..], Vec::as_slice);
        let elements: Vec<_> = self.elements_at(context, at).collect();
        let kind = match (elements.is_empty(), occupants.is_empty()) {
            (false, _) => CellKind::Element,
            // An index of the padded domain maps here and is no element.
            (true, false) => CellKind::Padding,
            (true, true) => CellKind::Gap,
        };
        let places = vec![place];
        let colors = if elements.is_empty() { Vec::new() } else { context.place_colors(&places) };
        let label = cell_label::label_elements(&elements);
        SceneCell { row: 0, col: 0, span: 1, kind, label, colors, elements, places }
    }

    /// The coordinates of the elements of a place.
    pub(crate) fn elements_at<'a>(
        &'a self,
        context: &'a SceneContext<'_>,
        at: &[usize],
    ) -> impl Iterator<Item = Vec<i64>> + 'a {
        let occupants = self.by_place.get(at).map_or(&[][..], Vec::as_slice);
        occupants.iter().filter_map(|index| logical_coordinate(context, *index))
    }

    /// What a place holds.
    pub(crate) fn cell_kind(&self, context: &SceneContext<'_>, at: &[usize]) -> CellKind {
        match self.by_place.get(at).map(Vec::as_slice) {
            None | Some([]) => CellKind::Gap,
            Some(list) if list.iter().any(|i| logical_coordinate(context, *i).is_some()) => {
                CellKind::Element
            }
            Some(_) => CellKind::Padding,
        }
    }

    pub(crate) fn crowded_note(&self) -> Option<String> {
        (!self.complete).then(|| {
            "More elements share the places drawn here than are listed; the count in a cell is a \
             lower bound."
                .to_string()
        })
    }
}

/// The logical coordinate of an index of the padded domain, or `None` for padding.
fn logical_coordinate(context: &SceneContext<'_>, padded: i64) -> Option<Vec<i64>> {
    let flat = match context.layout.window() {
        None => padded,
        Some(window) => {
            let inside = unflatten_index(&window.padded_shape(), padded);
            let valid: Vec<_> = inside
                .iter()
                .zip(window.dims())
                .map(|(c, d): (_, &PaddedExtent)| c - d.begin)
                .collect();
            flatten_coordinate(&window.shape(), &valid).ok()?
        }
    };
    Some(unflatten_index(context.shape, flat))
}

/// Hits looked for: room for a few occupants in every cell.
fn hit_limit(context: &SceneContext<'_>) -> usize {
    context.options.max_cells.saturating_mul(4)
}
