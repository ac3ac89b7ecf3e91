//! One grid of a scene in box-drawing characters.

use super::TextStyle;
use super::block::{TextBlock, TextLine};
use crate::scene::{CellKind, Scene, SceneCell, ScenePanel};
use crate::text_width::{shorten_text, strip_controls, text_columns, wrap_text};

/// Longest row label before it is cut.
const ROW_LABEL: usize = 16;

/// The grid, cut into as many blocks as it takes to fit `most` columns.
pub(super) fn grid_blocks(
    scene: &Scene,
    panel: &ScenePanel,
    clip: Option<&str>,
    most: usize,
    style: TextStyle,
    cut: &mut bool,
) -> Vec<TextBlock> {
    let group = panel.col_group.max(1);
    let cols = panel.col_count();
    let row_labels: Vec<String> = panel.row_labels.iter().map(|l| strip_controls(l)).collect();
    let longest = row_labels.iter().map(|l| text_columns(l)).max().unwrap_or(0);
    *cut |= longest > ROW_LABEL;
    let row_width = longest.min(ROW_LABEL);
    // The row label, a blank, and the two sides of the frame.
    let room = most - row_width - 3;
    let need = panel.cells.iter().map(|c| {
        let span = c.span.max(1);
        (text_columns(&strip_controls(&c.label)) + 1).saturating_sub(span).div_ceil(span)
    });
    let label = panel
        .col_labels
        .iter()
        .map(|l| (text_columns(&strip_controls(l)) + 1).saturating_sub(group));
    let wanted = need.chain(label.map(|l| l.div_ceil(group))).max().unwrap_or(1).max(1);
    let cell = wanted.min(room);
    *cut |= wanted > room;

    let fitting = ((room + 1) / (cell + 1)).max(1);
    // Whole bank words, or whole elements, where at least one fits.
    let span = panel.cells.iter().map(|c| c.span).max().unwrap_or(1);
    let unit = if group.max(span) <= fitting { group.max(span) } else { 1 };
    let units = fitting / unit;
    // A round number of them, so that blocks begin where a reader expects it.
    let round = [16, 8, 4, 2].into_iter().find(|r| units >= *r && units * unit < cols);
    let per_block = unit * round.map_or(units, |r| units / r * r);

    let mut rows: Vec<Vec<&SceneCell>> = vec![Vec::new(); row_labels.len()];
    for c in &panel.cells {
        if let Some(row) = rows.get_mut(c.row) {
            row.push(c);
        }
    }
    let grid = TextGrid {
        scene,
        panel,
        style,
        row_labels,
        rows,
        row_width,
        cell,
        group,
        cut: false.into(),
    };
    let mut blocks: Vec<TextBlock> = (0..cols)
        .step_by(per_block)
        .map(|first| {
            grid.column_block(first, (first + per_block).min(cols), per_block < cols, most)
        })
        .collect();
    *cut |= grid.cut.get();
    if let (Some(clip), Some(last)) = (clip, blocks.last_mut()) {
        for line in wrap_text(&strip_controls(clip), most) {
            last.push(style.paint_line(&line, "33"));
        }
    }
    blocks
}

struct TextGrid<'a> {
    scene: &'a Scene,
    panel: &'a ScenePanel,
    style: TextStyle,
    row_labels: Vec<String>,
    rows: Vec<Vec<&'a SceneCell>>,
    row_width: usize,
    cell: usize,
    group: usize,
    /// Whether a label had to be cut.
    cut: std::cell::Cell<bool>,
}

impl TextGrid<'_> {
    /// Columns `first..last` of the grid.
    fn column_block(&self, first: usize, last: usize, part: bool, most: usize) -> TextBlock {
        let mut out = TextBlock::default();
        let title = |text: &str, arrow: &str| match text {
            "" => String::new(),
            text => format!("{} {arrow}", strip_controls(text)),
        };
        let mut words = vec![strip_controls(&self.panel.caption)];
        words.push(title(&self.panel.row_title, "↓"));
        words.push(title(&self.panel.col_title, "→"));
        if part {
            let at = |col: usize| {
                let label = self.panel.col_labels.get(col / self.group);
                label.map_or(String::new(), |l| strip_controls(l))
            };
            words.push(format!("({} to {})", at(first), at(last.saturating_sub(1))));
        }
        words.retain(|w| !w.is_empty());
        for line in wrap_text(&words.join(" · "), most) {
            out.push(self.style.paint_line(&line, "2"));
        }
        out.push(self.header_line(first, last));
        out.push(self.rule_line(first, last, '┌', '┬', '┐'));
        for (label, cells) in self.row_labels.iter().zip(&self.rows) {
            out.push(self.row_line(label, cells, first, last));
        }
        out.push(self.rule_line(first, last, '└', '┴', '┘'));
        out
    }

    /// Columns of text for grid columns `from..to`, separators between them included.
    fn column_span(&self, from: usize, to: usize) -> usize {
        (to - from) * (self.cell + 1) - 1
    }

    fn shorten_label(&self, label: &str, room: usize) -> String {
        let label = strip_controls(label);
        self.cut.set(self.cut.get() || text_columns(&label) > room);
        shorten_text(&label, room)
    }

    fn header_line(&self, first: usize, last: usize) -> TextLine {
        let mut line = TextLine::default();
        line.push(&" ".repeat(self.row_width + 2));
        let mut at = first;
        while at < last {
            let next = ((at / self.group + 1) * self.group).min(last);
            let label = self.panel.col_labels.get(at / self.group).map_or("", String::as_str);
            let room = self.column_span(at, next);
            let label = self.shorten_label(label, room);
            line.push(&if self.group > 1 {
                center_text(&label, room)
            } else {
                align_text(&label, room)
            });
            line.push(" ");
            at = next;
        }
        line
    }

    fn rule_line(
        &self,
        first: usize,
        last: usize,
        left: char,
        middle: char,
        right: char,
    ) -> TextLine {
        let mut text = " ".repeat(self.row_width + 1);
        text.push(left);
        for col in first..last {
            text.extend(std::iter::repeat_n('─', self.cell));
            if col + 1 < last {
                let boundary = self.group > 1 && (col + 1).is_multiple_of(self.group);
                text.push(if boundary { middle } else { '─' });
            }
        }
        text.push(right);
        self.style.paint_line(&text, "2")
    }

    fn row_line(&self, label: &str, cells: &[&SceneCell], first: usize, last: usize) -> TextLine {
        let label = shorten_text(label, self.row_width);
        let mut line = TextLine::default();
        line.push(&" ".repeat(self.row_width - text_columns(&label)));
        self.style.write_text(&mut line, &label, "2");
        line.push(" ");
        self.style.write_text(&mut line, "│", "2");
        let mut at = first;
        while at < last {
            let found = cells.iter().find(|c| c.col <= at && at < c.col + c.span.max(1));
            let next = found.map_or(at + 1, |c| (c.col + c.span.max(1)).min(last));
            self.write_cell(&mut line, found.copied(), self.column_span(at, next));
            at = next;
            let boundary = self.group > 1 && at.is_multiple_of(self.group);
            if at < last {
                self.style.write_text(&mut line, if boundary { "│" } else { " " }, "2");
            }
        }
        self.style.write_text(&mut line, "│", "2");
        line
    }

    fn write_cell(&self, line: &mut TextLine, cell: Option<&SceneCell>, room: usize) {
        let Some(cell) = cell else {
            line.push(&" ".repeat(room));
            return;
        };
        match cell.kind {
            CellKind::Padding => self.style.write_text(line, &"░".repeat(room), "2"),
            CellKind::Gap => self.style.write_text(line, &format!("{:>room$}", '·'), "2"),
            CellKind::Element => {
                let text = align_text(&self.shorten_label(&cell.label, room), room);
                let owners = cell.colors.len().max(1);
                // Copies at several owners share the cell between their colours.
                let chars: Vec<char> = text.chars().collect();
                for (i, part) in chars.chunks(chars.len().div_ceil(owners).max(1)).enumerate() {
                    let codes = cell
                        .colors
                        .get(i)
                        .map_or(String::new(), |c| self.style.swatch_codes(self.scene, *c));
                    self.style.write_text(line, &part.iter().collect::<String>(), &codes);
                }
            }
        }
    }
}

fn center_text(text: &str, room: usize) -> String {
    let spare = room.saturating_sub(text_columns(text));
    format!("{}{text}{}", " ".repeat(spare / 2), " ".repeat(spare - spare / 2))
}

/// Numbers to the right, names to the left.
fn align_text(text: &str, room: usize) -> String {
    let blank = " ".repeat(room.saturating_sub(text_columns(text)));
    let number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '('));
    if number { format!("{blank}{text}") } else { format!("{text}{blank}") }
}
