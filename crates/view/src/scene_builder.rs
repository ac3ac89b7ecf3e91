//! From a layout to its scene.

use crate::cell_label;
use crate::color::ColorBy;
use crate::options::DrawOptions;
use crate::scene::{AxisRange, CellKind, Scene, SceneCell, ScenePanel};
use crate::{logical, physical};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use zellige_layout::{Axis, Layout, Result, TileLayout, unflatten_index};

/// Copies of one element that are listed in a logical cell.
// A layout may replicate an element over thousands of threads, and each cell lists its places.
const MAX_LISTED_COPIES: i64 = 64;

impl Scene {
    /// What there is to see of a layout on a shape.
    ///
    /// Errors: a shape that the layout does not admit, a `color_by` that is no axis of it, an
    /// option outside its range, sticks of a layout that is not on `m` alone.
    pub fn new(layout: &Layout, shape: &[i64], options: &DrawOptions) -> Result<Scene> {
        options.check_ranges()?;
        layout.check_shape_size(shape)?;
        let context = SceneContext::new(layout, shape, options)?;
        let mut scene = Scene {
            title: options.title.clone(),
            caption: options.caption.clone().unwrap_or_else(|| cell_label::caption_layout(layout)),
            facts: String::new(),
            label_key: cell_label::code_key(context.axes()),
            shape: shape.to_vec(),
            dtype_bits: options.dtype_bits,
            axes: axis_ranges(layout)?,
            color_by: context.color.describe_rule(),
            palette: Vec::new(),
            logical: logical::logical_panels(&context)?,
            physical_title: String::new(),
            physical: Vec::new(),
            notes: Vec::new(),
        };
        scene.facts = describe_facts(layout, shape, options, &scene.axes);
        let places = physical::view_places(&context)?;
        scene.physical_title = places.title;
        scene.physical = places.panels;
        scene.notes = scene_notes(layout, &context);
        scene.notes.extend(places.notes);
        context.paint_scene(&mut scene);
        Ok(scene)
    }
}

/// What all the builders of one scene share.
pub(crate) struct SceneContext<'a> {
    /// The layout as given.
    pub(crate) layout: &'a Layout,
    pub(crate) shape: &'a [i64],
    pub(crate) options: &'a DrawOptions,
    color: ColorBy,
    /// The layout with at most [`MAX_LISTED_COPIES`] of its replicas, for listing.
    listed: Layout,
    /// Owners met so far -> provisional index, renumbered by [`SceneContext::paint_scene`].
    keys: RefCell<BTreeMap<i64, usize>>,
}

impl<'a> SceneContext<'a> {
    pub(crate) fn new(
        layout: &'a Layout,
        shape: &'a [i64],
        options: &'a DrawOptions,
    ) -> Result<SceneContext<'a>> {
        let color = ColorBy::choose_rule(layout, options)?;
        let listed = limit_copies(layout)?;
        Ok(SceneContext { layout, shape, options, color, listed, keys: RefCell::default() })
    }

    /// The layout with only the copies that are listed.
    pub(crate) fn listed_layout(&self) -> &Layout {
        &self.listed
    }

    /// The axes of a place, in order.
    pub(crate) fn axes(&self) -> &[Axis] {
        self.layout.tile().axes()
    }

    /// The places of an element, each once, in order; of very many copies the first.
    pub(crate) fn element_places(&self, flat: i64) -> Result<Vec<Vec<i64>>> {
        let places = self.listed.physical_coordinates(flat)?;
        let mut rows: Vec<Vec<i64>> = places.coordinate_rows().map(<[i64]>::to_vec).collect();
        rows.sort_unstable();
        rows.dedup();
        Ok(if self.axes().is_empty() { vec![Vec::new()] } else { rows })
    }

    /// The cell of an element in the memory of the host, without colours.
    pub(crate) fn host_cell(&self, flat: i64) -> Result<SceneCell> {
        let element = unflatten_index(self.shape, flat);
        Ok(SceneCell {
            row: 0,
            col: 0,
            span: 1,
            kind: CellKind::Element,
            label: cell_label::label_coordinate(&element),
            colors: Vec::new(),
            elements: vec![element],
            places: self.element_places(flat)?,
        })
    }

    /// The colours of some places.
    pub(crate) fn place_colors(&self, places: &[Vec<i64>]) -> Vec<usize> {
        let owners: BTreeSet<i64> = places.iter().map(|p| self.color.owner_key(p)).collect();
        let mut keys = self.keys.borrow_mut();
        let mut index = |key| {
            let next = keys.len();
            *keys.entry(key).or_insert(next)
        };
        owners.into_iter().map(&mut index).collect()
    }

    /// Numbers the owners in their own order and writes the palette.
    fn paint_scene(&self, scene: &mut Scene) {
        let keys = self.keys.borrow();
        // Owners are met in the order of the cells; the palette has them in their own order, so that a legend reads
        // 0, 1, 2.
        let mut renumber = vec![0; keys.len()];
        for (rank, met) in keys.values().enumerate() {
            renumber[*met] = rank;
        }
        let panels = scene.logical.iter_mut().chain(&mut scene.physical);
        for color in panels.flat_map(|p: &mut ScenePanel| &mut p.cells).flat_map(|c| &mut c.colors)
        {
            *color = renumber[*color];
        }
        scene.palette = self.color.owner_palette(&keys.keys().copied().collect());
    }
}

/// The same layout with replica extents cut until at most [`MAX_LISTED_COPIES`] remain.
fn limit_copies(layout: &Layout) -> Result<Layout> {
    let tile = layout.tile();
    if tile.replica_count() <= MAX_LISTED_COPIES {
        return Ok(layout.clone());
    }
    let mut room = MAX_LISTED_COPIES;
    let mut replica = tile.replica().to_vec();
    for it in &mut replica {
        // Copies at one place are one place, so they need no room in the list.
        it.extent = if it.stride == 0 { 1 } else { it.extent.min(room) };
        room /= it.extent;
    }
    let tile = TileLayout::new(tile.shard().to_vec(), replica, tile.offset().iter().copied())?;
    let few = match layout.swizzle() {
        Some(swizzle) => Layout::from_swizzled_tile(swizzle, tile)?,
        None => Layout::from(tile),
    };
    match layout.window() {
        Some(window) => few.with_window(window.clone()),
        None => Ok(few),
    }
}

fn axis_ranges(layout: &Layout) -> Result<Vec<AxisRange>> {
    let range = |axis: &Axis| {
        let bounds = layout.axis_bounds(*axis)?;
        let (name, kind) = (axis.name().to_string(), axis.kind().name().to_string());
        Ok(AxisRange { name, kind, min: bounds.min, max: bounds.max })
    };
    layout.tile().axes().iter().map(range).collect()
}

fn describe_facts(
    layout: &Layout,
    shape: &[i64],
    options: &DrawOptions,
    axes: &[AxisRange],
) -> String {
    let dims: Vec<_> = shape.iter().map(i64::to_string).collect();
    let mut facts = vec![format!("shape ({})", dims.join(", "))];
    facts.push(match layout.size() {
        1 => "1 element".into(),
        n => format!("{n} elements"),
    });
    let assumed = if options.dtype_assumed { " (assumed)" } else { "" };
    facts.push(format!("{} bits each{assumed}", options.dtype_bits));
    let padding = layout.tile().size() - layout.size();
    if padding > 0 {
        facts.push(format!("{padding} of padding"));
    }
    if layout.tile().replica_count() > 1 {
        facts.push(format!("{} copies of each", layout.tile().replica_count()));
    }
    if layout.size() > 0 {
        facts.extend(axes.iter().map(|a| format!("{} {}..={}", a.name, a.min, a.max)));
    }
    facts.join(" · ")
}

fn scene_notes(layout: &Layout, context: &SceneContext<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if layout.size() == 0 {
        notes.push("The tensor is empty: it has no elements and no places.".into());
    }
    let (copies, listed) = (layout.tile().replica_count(), context.listed.tile().replica_count());
    if copies > listed {
        notes.push(format!("Logical cells list {listed} of {copies} replica combinations."));
    }
    notes
}
