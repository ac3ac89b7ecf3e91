//! Scenes as text for a terminal.

mod block;
mod grid;

use crate::color::parse_hex;
use crate::scene::{CellKind, Scene, ScenePanel};
use crate::text_width::{strip_controls, wrap_text};
use block::{TextBlock, TextLine};

/// The narrowest page; smaller widths are treated as this one.
pub const MIN_WIDTH: usize = 40;
/// Colours named in the legend.
const MAX_LEGEND_COLORS: usize = 48;
/// Columns between blocks that stand side by side.
const GAP: usize = 3;

/// The scene as lines of at most `width` columns (at least [`MIN_WIDTH`]).
///
/// With `color`, cells have the colour of their owner (24-bit ANSI); without it the labels carry
/// everything. Grids that are too wide continue below, under the columns that they show.
pub fn render_scene_text(scene: &Scene, width: usize, color: bool) -> String {
    let width = width.max(MIN_WIDTH);
    let style = TextStyle { color };
    let mut page = TextBlock::default();
    let mut paragraph = |text: &str, codes: &str| {
        for line in wrap_text(&strip_controls(text), width) {
            page.push(style.paint_line(&line, codes));
        }
    };
    paragraph(&scene.title, "1");
    paragraph(&scene.caption, "");
    paragraph(&scene.facts, "2");
    paragraph(&scene.label_key, "2");

    let mut cut = false;
    let mut views = Vec::new();
    for (title, panels) in
        [("Logical tensor", &scene.logical), (scene.physical_title.as_str(), &scene.physical)]
    {
        if !panels.is_empty() {
            views.push(view_block(scene, title, panels, width, style, &mut cut));
        }
    }
    page.push(TextLine::default());
    for row in block::flow_blocks(views.into_iter().map(|v| (None, v)), width, GAP) {
        page.extend(row);
        page.push(TextLine::default());
    }
    write_legend(scene, width, style, &mut page);
    let mut notes: Vec<String> = scene.notes.iter().map(|n| strip_controls(n)).collect();
    if cut {
        notes
            .push("… marks labels cut to fit; a wider terminal or an SVG shows them whole.".into());
    }
    for note in notes {
        for line in wrap_text(&format!("note: {note}"), width) {
            page.push(style.paint_line(&line, "33"));
        }
    }
    page.into_text()
}

/// Whether and how to use escape sequences.
#[derive(Debug, Clone, Copy)]
struct TextStyle {
    color: bool,
}

impl TextStyle {
    /// A line in one style, given as ANSI codes.
    fn paint_line(self, text: &str, codes: &str) -> TextLine {
        let mut line = TextLine::default();
        self.write_text(&mut line, text, codes);
        line
    }

    /// Appends text in one style.
    fn write_text(self, line: &mut TextLine, text: &str, codes: &str) {
        if self.color && !codes.is_empty() {
            line.push_invisible(&format!("\u{1b}[{codes}m"));
            line.push(text);
            line.push_invisible("\u{1b}[0m");
        } else {
            line.push(text);
        }
    }

    /// The ANSI codes of a colour of the palette; none without colour.
    fn swatch_codes(self, scene: &Scene, index: usize) -> String {
        let Some(swatch) = scene.palette.get(index) else { return String::new() };
        let ([r, g, b], [x, y, z]) = (parse_hex(&swatch.fill), parse_hex(&swatch.ink));
        format!("48;2;{r};{g};{b};38;2;{x};{y};{z}")
    }
}

fn view_block(
    scene: &Scene,
    title: &str,
    panels: &[ScenePanel],
    width: usize,
    style: TextStyle,
    cut: &mut bool,
) -> TextBlock {
    let mut out = TextBlock::default();
    for line in wrap_text(&strip_controls(title), width) {
        out.push(style.paint_line(&line, "1;4"));
    }
    let mut order: Vec<&ScenePanel> = panels.iter().collect();
    order.sort_by_key(|p| p.at);
    // Siblings often share their clip, which is then printed once.
    let shared = panels.iter().all(|p| p.clip == panels[0].clip).then(|| panels[0].clip.clone());
    let mut blocks = Vec::new();
    for panel in order {
        let clip = if shared.is_some() { None } else { panel.clip.as_deref() };
        for block in grid::grid_blocks(scene, panel, clip, width, style, cut) {
            blocks.push((panel.at.map(|(row, _)| row), block));
        }
    }
    for row in block::flow_blocks(blocks, width, GAP) {
        out.extend(row);
    }
    if let Some(Some(clip)) = shared {
        for line in wrap_text(&strip_controls(&clip), width) {
            out.push(style.paint_line(&line, "33"));
        }
    }
    out
}

fn write_legend(scene: &Scene, width: usize, style: TextStyle, page: &mut TextBlock) {
    let mut entries: Vec<(String, String)> = Vec::new();
    if style.color {
        entries.push((format!("colour = {}:", scene.color_by), String::new()));
        let named = if scene.palette.len() > MAX_LEGEND_COLORS {
            MAX_LEGEND_COLORS - 8
        } else {
            scene.palette.len()
        };
        for (i, swatch) in scene.palette.iter().take(named).enumerate() {
            entries.push((format!(" {} ", swatch.label), style.swatch_codes(scene, i)));
        }
        if named < scene.palette.len() {
            entries.push((format!("and {} more", scene.palette.len() - named), String::new()));
        }
    }
    let cells = || scene.logical.iter().chain(&scene.physical).flat_map(|p| &p.cells);
    for (kind, text) in [(CellKind::Padding, "░ padding"), (CellKind::Gap, "· gap")] {
        if cells().any(|c| c.kind == kind) {
            entries.push((text.into(), String::new()));
        }
    }
    let mut line = TextLine::default();
    for (text, codes) in entries {
        let text = crate::text_width::shorten_text(&strip_controls(&text), width);
        if line.width() > 0 && line.width() + 1 + crate::text_width::text_columns(&text) > width {
            page.push(std::mem::take(&mut line));
        }
        if line.width() > 0 {
            line.push(" ");
        }
        style.write_text(&mut line, &text, &codes);
    }
    if line.width() > 0 {
        page.push(line);
    }
}
