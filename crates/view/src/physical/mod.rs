//! The places that elements live in, and how each kind of memory is drawn.

mod memory;
mod roles;
mod table;

pub(crate) use memory::{Grid as MemoryGrid, lines as memory_lines};
pub(crate) use roles::Roles;
pub(crate) use table::mesh_columns;

use crate::label;
use crate::model::{Cell, CellKind, Panel};
use crate::options::Options;
use crate::query::Found;
use crate::scene::Stage;
use std::collections::BTreeMap;
use zellige_layout::{Axis, Error, Extent, Layout, Result, flatten, unflatten};

/// A drawing of places.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) title: String,
    pub(crate) panels: Vec<Panel>,
    pub(crate) notes: Vec<String>,
}

/// The view that suits the axes of the layout.
pub(crate) fn view(stage: &Stage<'_>) -> Result<View> {
    let memory_only = stage.axes().iter().all(|a| *a == Axis::M);
    check_sticks(stage.layout, stage.options)?;
    if stage.layout.size() == 0 {
        return Ok(View::default());
    }
    if memory_only { memory::view(stage) } else { table::view(stage) }
}

/// Refuses sticks of a layout that is not on `m` alone.
pub(crate) fn check_sticks(layout: &Layout, options: &Options) -> Result<()> {
    let others: Vec<_> =
        layout.tile().axes().iter().filter(|a| **a != Axis::M).map(|a| format!("`{a}`")).collect();
    if others.is_empty() || !options.sticks {
        return Ok(());
    }
    let (op, axis) = ("drawing sticks", Axis::M.name().to_string());
    Err(Error::NotOneAxis { op, axis, found: others.join(", ") })
}

/// Who lives at each place of a box, by the position of the place in the wanted lists.
pub(crate) struct Tenants {
    by_place: BTreeMap<Vec<usize>, Vec<i64>>,
    complete: bool,
}

impl Tenants {
    pub(crate) fn new(found: Found) -> Tenants {
        let mut by_place: BTreeMap<Vec<usize>, Vec<i64>> = BTreeMap::new();
        for hit in found.hits {
            by_place.entry(hit.at).or_default().push(hit.index);
        }
        for list in by_place.values_mut() {
            // Two copies of an element on one place are one place of its set.
            list.sort_unstable();
            list.dedup();
        }
        Tenants { by_place, complete: found.complete }
    }

    /// The cell of a place.
    pub(crate) fn cell(&self, stage: &Stage<'_>, at: &[usize], place: Vec<i64>) -> Cell {
        let tenants = self.by_place.get(at).map_or(&[][..], Vec::as_slice);
        let elements: Vec<_> =
            tenants.iter().filter_map(|index| coordinate(stage, *index)).collect();
        let kind = match (elements.is_empty(), tenants.is_empty()) {
            (false, _) => CellKind::Element,
            (true, false) => CellKind::Padding,
            (true, true) => CellKind::Gap,
        };
        let places = vec![place];
        let colors = if elements.is_empty() { Vec::new() } else { stage.colors(&places) };
        let label = label::elements(&elements);
        Cell { row: 0, col: 0, span: 1, kind, label, colors, elements, places }
    }

    /// What a place holds.
    pub(crate) fn kind(&self, stage: &Stage<'_>, at: &[usize]) -> CellKind {
        match self.by_place.get(at).map(Vec::as_slice) {
            None | Some([]) => CellKind::Gap,
            Some(list) if list.iter().any(|i| coordinate(stage, *i).is_some()) => CellKind::Element,
            Some(_) => CellKind::Padding,
        }
    }

    pub(crate) fn note(&self) -> Option<String> {
        (!self.complete).then(|| {
            "More elements share the places drawn here than are listed; the count in a cell is a \
             lower bound."
                .to_string()
        })
    }
}

/// The logical coordinate of an index of the padded domain, or `None` for padding.
fn coordinate(stage: &Stage<'_>, padded: i64) -> Option<Vec<i64>> {
    let flat = match stage.layout.window() {
        None => padded,
        Some(window) => {
            let inside = unflatten(&window.padded_shape(), padded);
            let valid: Vec<_> =
                inside.iter().zip(window.dims()).map(|(c, d): (_, &Extent)| c - d.begin).collect();
            flatten(&window.shape(), &valid).ok()?
        }
    };
    Some(unflatten(stage.shape, flat))
}

/// Hits looked for: room for a few tenants in every cell.
fn limit(stage: &Stage<'_>) -> usize {
    stage.options.max_cells.saturating_mul(4)
}
