//! Blocks of lines, and setting them side by side.

use crate::text_width;

/// A line and the columns it takes; escape sequences take none.
#[derive(Debug, Clone, Default)]
pub(super) struct TextLine {
    text: String,
    width: usize,
}

impl TextLine {
    /// Appends visible text.
    pub(super) fn push(&mut self, text: &str) {
        self.width += text_width::text_columns(text);
        self.text.push_str(text);
    }

    /// Appends an escape sequence.
    pub(super) fn push_invisible(&mut self, sequence: &str) {
        self.text.push_str(sequence);
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    fn pad_to_width(&mut self, width: usize) {
        self.push(&" ".repeat(width.saturating_sub(self.width)));
    }
}

/// Lines that belong together.
#[derive(Debug, Clone, Default)]
pub(super) struct TextBlock {
    lines: Vec<TextLine>,
}

impl TextBlock {
    pub(super) fn push(&mut self, line: TextLine) {
        self.lines.push(line);
    }

    pub(super) fn extend(&mut self, other: TextBlock) {
        self.lines.extend(other.lines);
    }

    fn width(&self) -> usize {
        self.lines.iter().map(|l| l.width).max().unwrap_or(0)
    }

    /// Puts another block to the right.
    fn append_beside(&mut self, other: TextBlock, gap: usize) {
        let left = self.width() + gap;
        for (i, line) in other.lines.into_iter().enumerate() {
            if self.lines.len() == i {
                self.lines.push(TextLine::default());
            }
            self.lines[i].pad_to_width(left);
            self.lines[i].width += line.width;
            self.lines[i].text.push_str(&line.text);
        }
    }

    /// The text, without blanks at line ends.
    pub(super) fn into_text(self) -> String {
        let mut out = String::new();
        for line in self.lines {
            out.push_str(line.text.trim_end_matches(' '));
            out.push('\n');
        }
        out
    }
}

/// Rows of blocks that fit a width, in order; a change of the row given with a block starts a
/// new row.
pub(super) fn flow_blocks(
    blocks: impl IntoIterator<Item = (Option<usize>, TextBlock)>,
    width: usize,
    gap: usize,
) -> Vec<TextBlock> {
    let mut rows: Vec<TextBlock> = Vec::new();
    let mut last = None;
    for (row, block) in blocks {
        match rows.last_mut() {
            Some(open) if row == last && open.width() + gap + block.width() <= width => {
                open.append_beside(block, gap);
            }
            _ => rows.push(block),
        }
        last = row;
    }
    rows
}
