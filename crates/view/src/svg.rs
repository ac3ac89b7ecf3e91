//! Scenes as standalone SVG documents.

mod canvas;
pub mod chart;
pub mod core_traffic;
mod panel;

use crate::scene::{CellKind, Scene, ScenePanel};
use canvas::{SvgCanvas, TextAnchor};
pub(crate) use canvas::{TextMode, escape_xml};
use panel::PanelGeometry;

/// The scene as an SVG document: the logical tensor on the left, its places on the right (below,
/// where both are wide), then the legend and the notes.
///
/// Text is real text in the reader's monospace font; each cell carries a tooltip with its
/// coordinate and all its places.
pub fn render_scene_svg(scene: &Scene) -> String {
    scene_document(scene, TextMode::Font).text
}

/// A drawing and its size, which only a bitmap asks for.
#[cfg_attr(not(feature = "png"), allow(dead_code))]
pub(crate) struct SvgDocument {
    pub(crate) text: String,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

const MARGIN: f64 = 24.0;
const GAP: f64 = 28.0;
/// Narrowest text block, so that captions of small scenes do not wrap at every word.
const NARROW: f64 = 520.0;
/// Two views wider than this together are stacked.
const SIDE_BY_SIDE: f64 = 1900.0;
/// Panels of one view flow into rows of about this width.
const FLOW: f64 = 1500.0;
/// Colours named in the legend.
const MAX_LEGEND_COLORS: usize = 48;

const INK: &str = "#1f2328";
const SOFT: &str = "#59636e";
const WARN: &str = "#9a3412";

pub(crate) fn scene_document(scene: &Scene, text: TextMode) -> SvgDocument {
    let logical = PanelGroup::new("Logical tensor", &scene.logical, FLOW);
    // The places flow into the room that the tensor leaves beside it, if they can.
    // The width that is left decides first, as side by side shows which cell goes where without scrolling.
    let room = SIDE_BY_SIDE - logical.width - 3.0 * GAP;
    let beside = PanelGroup::new(&scene.physical_title, &scene.physical, room);
    let physical = if beside.width <= room {
        beside
    } else {
        PanelGroup::new(&scene.physical_title, &scene.physical, FLOW)
    };
    let views = [logical, physical];
    let drawn: Vec<&PanelGroup<'_>> = views.iter().filter(|v| !v.slots.is_empty()).collect();
    let total: f64 = drawn.iter().map(|v| v.width + GAP * 1.5).sum();
    let beside = total <= SIDE_BY_SIDE;
    let widest = drawn.iter().fold(0.0, |w: f64, v| w.max(v.width));
    let body = if beside { (total - GAP * 1.5).max(0.0) } else { widest };
    let width = body.max(NARROW);

    let mut canvas = SvgCanvas::new(text);
    let mut y = MARGIN;
    if !scene.title.is_empty() {
        y = canvas.draw_paragraph(&scene.title, MARGIN, y, width, 20.0, INK, true) + 4.0;
    }
    y = canvas.draw_paragraph(&scene.caption, MARGIN, y, width, 13.0, INK, false) + 2.0;
    y = canvas.draw_paragraph(&scene.facts, MARGIN, y, width, 12.0, SOFT, false);
    if !scene.label_key.is_empty() {
        y = canvas.draw_paragraph(&scene.label_key, MARGIN, y, width, 12.0, SOFT, false);
    }
    y += GAP * 0.6;
    let (top, mut x) = (y, MARGIN);
    for view in &drawn {
        let bottom = view.draw_group(&mut canvas, scene, x, if beside { top } else { y });
        y = y.max(bottom);
        if beside {
            x += view.width + GAP * 1.5;
        } else {
            y += GAP;
        }
    }
    y = draw_color_legend(&mut canvas, scene, y + GAP * 0.6, width);
    for note in &scene.notes {
        y = canvas.draw_paragraph(note, MARGIN, y + 4.0, width, 12.0, WARN, false);
    }
    let (width, height) = (width + 2.0 * MARGIN, y + MARGIN);
    SvgDocument { text: canvas.finish_document(width, height, &scene.title), width, height }
}

/// One half of the drawing: panels and where they stand.
struct PanelGroup<'a> {
    title: &'a str,
    slots: Vec<(f64, f64, &'a ScenePanel, PanelGeometry)>,
    width: f64,
}

impl<'a> PanelGroup<'a> {
    fn new(title: &'a str, panels: &'a [ScenePanel], flow: f64) -> PanelGroup<'a> {
        let sized: Vec<_> = panels.iter().map(|p| (p, PanelGeometry::measure_panel(p))).collect();
        let (mut x, mut y, mut row_height, mut row) = (0.0f64, 0.0f64, 0.0f64, None);
        let mut order: Vec<usize> = (0..sized.len()).collect();
        order.sort_by_key(|i| sized[*i].0.at);
        let cell = sized.iter().fold(0.0, |w: f64, (_, g)| w.max(g.width));
        let mut slots = Vec::new();
        let mut width = canvas::text_width(title, 14.0);
        for i in order {
            let (panel, geometry) = &sized[i];
            let next = panel.at.map(|(r, _)| r);
            if x > 0.0 && (next != row || (next.is_none() && x + geometry.width > flow)) {
                (x, y, row_height) = (0.0, y + row_height + GAP, 0.0);
            }
            row = next;
            width = width.max(x + geometry.width);
            row_height = row_height.max(geometry.height);
            slots.push((x, y, *panel, geometry.clone()));
            // Siblings of a mesh line up in columns.
            x += if panel.at.is_some() { cell } else { geometry.width } + GAP;
        }
        PanelGroup { title, slots, width }
    }

    /// Draws it and returns the lowest point.
    fn draw_group(&self, canvas: &mut SvgCanvas, scene: &Scene, x: f64, y: f64) -> f64 {
        canvas.draw_text(self.title, x, y + 12.0, 14.0, TextAnchor::Start, INK, true);
        let top = y + 26.0;
        let mut bottom = top;
        for (dx, dy, panel, geometry) in &self.slots {
            geometry.draw_panel(canvas, scene, panel, x + dx, top + dy);
            bottom = bottom.max(top + dy + geometry.height);
        }
        bottom
    }
}

fn draw_color_legend(canvas: &mut SvgCanvas, scene: &Scene, y: f64, width: f64) -> f64 {
    let cells = || scene.logical.iter().chain(&scene.physical).flat_map(|p| &p.cells);
    let mut entries: Vec<(LegendFill<'_>, String)> = Vec::new();
    let named = if scene.palette.len() > MAX_LEGEND_COLORS {
        MAX_LEGEND_COLORS - 8
    } else {
        scene.palette.len()
    };
    for swatch in scene.palette.iter().take(named) {
        entries.push((LegendFill::Color(&swatch.fill), swatch.label.clone()));
    }
    if named < scene.palette.len() {
        let rest = scene.palette.len() - named;
        entries.push((LegendFill::None, format!("and {rest} more, around the colour wheel")));
    }
    for (kind, name) in [(CellKind::Padding, "padding"), (CellKind::Gap, "gap")] {
        if cells().any(|c| c.kind == kind) {
            entries.push((LegendFill::Kind(kind), name.into()));
        }
    }
    if entries.is_empty() {
        return y;
    }
    let heading = format!("Colour: {}", scene.color_by);
    canvas.draw_text(&heading, MARGIN, y + 11.0, 12.0, TextAnchor::Start, INK, true);
    let (mut x, mut y) = (MARGIN, y + 20.0);
    for (fill, name) in entries {
        let length = 18.0 + canvas::text_width(&name, 11.0) + 12.0;
        if x > MARGIN && x + length > MARGIN + width {
            (x, y) = (MARGIN, y + 18.0);
        }
        match fill {
            LegendFill::Color(color) => canvas.draw_rect(x, y, 13.0, 13.0, color),
            LegendFill::Kind(kind) => canvas.draw_hatch(x, y, 13.0, 13.0, kind),
            LegendFill::None => {}
        }
        let indent = if matches!(fill, LegendFill::None) { 0.0 } else { 18.0 };
        canvas.draw_text(&name, x + indent, y + 10.5, 11.0, TextAnchor::Start, INK, false);
        x += length;
    }
    y + 24.0
}

enum LegendFill<'a> {
    Color(&'a str),
    Kind(CellKind),
    None,
}
