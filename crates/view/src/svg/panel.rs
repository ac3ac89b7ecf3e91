//! The geometry of one grid, and its drawing.

use super::canvas::{SvgCanvas, TextAnchor, text_width};
use super::{INK, SOFT, WARN};
use crate::font::ADVANCE;
use crate::scene::{CellKind, Scene, SceneCell, ScenePanel};
use crate::text_width::{shorten_text, wrap_text};

/// A grid at most this wide keeps the words of a label on one line.
const ONE_LINE: f64 = 1100.0;
/// Characters in a cell before its text shrinks.
const FULL_SIZE: usize = 14;
/// Characters in a cell before its text is cut; the tooltip has it all.
const MAX_LABEL_CHARS: usize = 40;

/// The sizes of a grid.
#[derive(Debug, Clone)]
pub(super) struct PanelGeometry {
    font: f64,
    cell: (f64, f64),
    /// Left of the cells: row title and labels. Above them: caption, column title and labels.
    label_width: f64,
    header: f64,
    /// Whether the words of a label share a line.
    joined: bool,
    clip: Vec<String>,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl PanelGeometry {
    pub(super) fn measure_panel(panel: &ScenePanel) -> PanelGeometry {
        let cols = panel.col_count();
        // Smaller text in wider grids keeps a page readable without zooming; below 7.5 units nobody reads it.
        let font = match cols {
            0..=32 => 10.5,
            33..=64 => 9.0,
            _ => 7.5,
        };
        let char_width = font * ADVANCE;
        // Divided by the span, because a label of an element over four columns has their room together.
        let longest = |measure: &dyn Fn(&SceneCell) -> usize| {
            panel.cells.iter().map(|c| measure(c).div_ceil(c.span.max(1))).max().unwrap_or(0)
        };
        // A column that is only part of every element needs no room of its own.
        let parts = panel.cells.iter().map(|c| c.span.max(1)).min().unwrap_or(1);
        let narrow = 15.0 / as_f64(parts.min(4));
        let fit = |chars: usize| (as_f64(chars.min(FULL_SIZE)) * char_width + 7.0).max(narrow);
        let whole = fit(longest(&|c| c.label.chars().count()));
        let joined = whole * as_f64(cols) <= ONE_LINE;
        let word = |c: &SceneCell| c.label.split(' ').map(|w| w.chars().count()).max().unwrap_or(0);
        let width = if joined { whole } else { fit(longest(&word)) };
        let words = panel.cells.iter().map(|c| c.label.split(' ').count()).max().unwrap_or(1);
        let lines = if joined { 1 } else { words.clamp(1, 4) };
        let height = (as_f64(lines) * font * 1.2 + 9.0).max(21.0);

        let labels = panel.row_labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        let label_width =
            (as_f64(labels) * 6.0).max(text_width(&panel.row_title, 10.0)).min(220.0) + 8.0;
        let caption = if panel.caption.is_empty() { 0.0 } else { 17.0 };
        let titles = panel.col_title.len() + panel.row_title.len();
        let header = caption + if titles == 0 { 4.0 } else { 30.0 };
        let body = width * as_f64(cols);
        let text = text_width(&panel.caption, 12.0).max(text_width(&panel.col_title, 10.0));
        let total = (label_width + body).max(text.min(600.0));
        let columns = (total / 6.6).max(24.0);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, small"
        )]
        let clip = panel.clip.as_deref().map_or(Vec::new(), |c| wrap_text(c, columns as usize));
        let widest_clip = clip.iter().fold(0.0, |w: f64, l| w.max(text_width(l, 11.0)));
        let tail = if clip.is_empty() { 0.0 } else { 8.0 + 15.0 * as_f64(clip.len()) };
        PanelGeometry {
            font,
            cell: (width, height),
            label_width,
            header,
            joined,
            clip,
            width: total.max(widest_clip),
            height: header + height * as_f64(panel.row_count()) + tail,
        }
    }

    pub(super) fn draw_panel(
        &self,
        canvas: &mut SvgCanvas,
        scene: &Scene,
        panel: &ScenePanel,
        x: f64,
        y: f64,
    ) {
        let (left, top) = (x + self.label_width, y + self.header);
        canvas.draw_text(&panel.caption, x, y + 10.0, 12.0, TextAnchor::Start, INK, true);
        canvas.draw_text(&panel.col_title, left, top - 17.0, 10.0, TextAnchor::Start, SOFT, false);
        canvas.draw_text(
            &panel.row_title,
            left - 6.0,
            top - 5.0,
            10.0,
            TextAnchor::End,
            SOFT,
            false,
        );
        let group = self.cell.0 * as_f64(panel.col_group.max(1));
        // Labels that would touch are thinned to every second, fourth, ...
        let widest = panel.col_labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        let mut every = 1;
        while group * as_f64(every) < as_f64(widest) * 6.0 + 4.0 && every < panel.col_labels.len() {
            every *= 2;
        }
        for (i, label) in panel.col_labels.iter().enumerate().step_by(every) {
            let middle = left + group * (as_f64(i) + 0.5);
            canvas.draw_text(label, middle, top - 5.0, 10.0, TextAnchor::Middle, SOFT, false);
        }
        for (i, label) in panel.row_labels.iter().enumerate() {
            let middle = top + self.cell.1 * (as_f64(i) + 0.5) + 3.5;
            let size = if label.chars().count() > 36 { 5.0 } else { 10.0 };
            canvas.draw_text(label, left - 6.0, middle, size, TextAnchor::End, SOFT, false);
        }
        for cell in &panel.cells {
            self.draw_cell(canvas, scene, cell, left, top);
        }
        if panel.col_group > 1 {
            self.draw_words(canvas, panel, left, top);
        }
        let below = top + self.cell.1 * as_f64(panel.row_count()) + 16.0;
        for (i, line) in self.clip.iter().enumerate() {
            canvas.draw_text(
                line,
                x,
                below + 15.0 * as_f64(i),
                11.0,
                TextAnchor::Start,
                WARN,
                false,
            );
        }
    }

    /// Heavier lines between bank words, along the part of each row that has cells.
    fn draw_words(&self, canvas: &mut SvgCanvas, panel: &ScenePanel, left: f64, top: f64) {
        for row in 0..panel.row_count() {
            let cells = || panel.cells.iter().filter(|c| c.row == row);
            let first = cells().map(|c| c.col).min().unwrap_or(0);
            let last = cells().map(|c| c.col + c.span).max().unwrap_or(0);
            let y = top + self.cell.1 * as_f64(row);
            for col in (0..=last).step_by(panel.col_group).filter(|c| *c >= first) {
                let x = left + self.cell.0 * as_f64(col);
                canvas.draw_line((x, y), (x, y + self.cell.1), 1.1, "#3d444d");
            }
        }
    }

    fn draw_cell(
        &self,
        canvas: &mut SvgCanvas,
        scene: &Scene,
        cell: &SceneCell,
        left: f64,
        top: f64,
    ) {
        let (x, y) = (left + self.cell.0 * as_f64(cell.col), top + self.cell.1 * as_f64(cell.row));
        let (w, h) = (self.cell.0 * as_f64(cell.span), self.cell.1);
        canvas.open_group(&cell_tooltip(scene, cell));
        let fills: Vec<_> = cell.colors.iter().filter_map(|c| scene.palette.get(*c)).collect();
        match (cell.kind, fills.first()) {
            (CellKind::Element, Some(first)) => {
                canvas.draw_rect(x, y, w, h, &first.fill);
                // Copies at several owners: a band of each one's colour at the foot.
                let band = w / as_f64(fills.len());
                for (i, swatch) in fills.iter().enumerate().skip(1) {
                    let at = x + band * as_f64(i) + 0.3;
                    canvas.draw_stripe(at, y + 0.3, band - 0.6, h - 0.6, &swatch.fill);
                }
            }
            (CellKind::Element, None) => canvas.draw_rect(x, y, w, h, "#ffffff"),
            (kind, _) => canvas.draw_hatch(x, y, w, h, kind),
        }
        let ink = fills.first().map_or(INK, |s| s.ink.as_str());
        let words: Vec<&str> = if self.joined {
            vec![cell.label.as_str()]
        } else {
            cell.label.splitn(4, ' ').collect()
        };
        let step = self.font * 1.2;
        let first = y + h / 2.0 - step * (as_f64(words.len()) - 1.0) / 2.0 + self.font * 0.35;
        for (i, word) in words.iter().enumerate() {
            let text = shorten_text(word, MAX_LABEL_CHARS);
            let room = (w - 4.0) / (as_f64(text.chars().count().max(1)) * ADVANCE);
            let size = self.font.min(room);
            let at = first + step * as_f64(i);
            canvas.draw_text(&text, x + w / 2.0, at, size, TextAnchor::Middle, ink, false);
        }
        canvas.close_group();
    }
}

/// `(3, 5) → {laneid: 12, m: 1}`, every copy listed.
fn cell_tooltip(scene: &Scene, cell: &SceneCell) -> String {
    let elements: Vec<_> = cell
        .elements
        .iter()
        .map(|e| format!("({})", e.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")))
        .collect();
    let place = |p: &Vec<i64>| {
        let parts: Vec<_> =
            scene.axes.iter().zip(p).map(|(a, v)| format!("{}: {v}", a.name)).collect();
        format!("{{{}}}", parts.join(", "))
    };
    let places: Vec<_> = cell.places.iter().map(place).collect();
    let who = match cell.kind {
        CellKind::Element => elements.join(" "),
        CellKind::Padding => "padding".into(),
        CellKind::Gap => "gap".into(),
    };
    format!("{who} → {}", places.join(" "))
}

#[allow(clippy::cast_precision_loss, reason = "counts of cells are small")]
fn as_f64(value: usize) -> f64 {
    value as f64
}
