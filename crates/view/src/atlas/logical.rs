//! The tensor: a grid of its last two dimensions for every index of those before.

use super::{AtlasSheet, CellSpot, CellWindow, SheetSide, WindowCells};
use crate::logical::{FOLDED_COLS, logical_cell, slab_caption};
use crate::scene_builder::SceneContext;
use zellige_layout::{Result, unflatten_index};

/// How a shape falls into boxes, rows and columns.
pub(super) struct LogicalSheet {
    lead: Vec<i64>,
    boxes: i64,
    rows: i64,
    cols: i64,
    /// Elements in all, for the last row of a folded line.
    total: i64,
    rank: usize,
}

impl LogicalSheet {
    /// Of an admitted shape, whose product fits.
    pub(super) fn new(shape: &[i64]) -> LogicalSheet {
        let (lead, rows, cols) = match shape {
            [] => (&[][..], 1, 1),
            [n] => {
                // Division rounded up, written without a sum that could pass 64 bits for the longest vectors.
                (&[][..], n / FOLDED_COLS + i64::from(n % FOLDED_COLS != 0), (*n).min(FOLDED_COLS))
            }
            [lead @ .., rows, cols] => (lead, *rows, *cols),
        };
        // Extents beside a 0 may multiply past any number.
        let empty = shape.contains(&0);
        let total = if empty { 0 } else { shape.iter().product() };
        let boxes = if empty { 0 } else { lead.iter().product() };
        LogicalSheet { lead: lead.to_vec(), boxes, rows, cols, total, rank: shape.len() }
    }

    /// Boxes, rows, columns.
    pub(super) fn sheet_size(&self) -> (i64, i64, i64) {
        (self.boxes, self.rows, self.cols)
    }

    pub(super) fn describe_sheet(&self, shape: &[i64]) -> AtlasSheet {
        let dims: Vec<_> = shape.iter().map(i64::to_string).collect();
        let name = |dim: usize| format!("dim {dim}");
        AtlasSheet {
            side: SheetSide::Logical,
            title: format!("Tensor ({})", dims.join(" × ")),
            row_title: if self.rank < 2 { String::new() } else { name(self.rank - 2) },
            col_title: if self.rank == 0 { String::new() } else { name(self.rank - 1) },
            rows: self.rows,
            cols: self.cols,
            col_group: 1,
            span: 1,
            sliders: self.lead.iter().enumerate().map(|(i, e)| (name(i), *e)).collect(),
            boxes: self.boxes,
            mesh: None,
            notes: Vec::new(),
        }
    }

    /// The element at a spot, unless the spot is past the end of a folded line.
    pub(super) fn element_at(&self, index: i64, row: i64, col: i64) -> Option<i64> {
        // Boxes, rows and columns are the digits of the row-major index, so no table from cells to elements is
        // needed.
        let flat = (index * self.rows + row) * self.cols + col;
        (flat < self.total).then_some(flat)
    }

    pub(super) fn element_spot(&self, flat: i64) -> CellSpot {
        let (cols, rows) = (self.cols.max(1), self.rows.max(1));
        CellSpot { index: flat / cols / rows, row: flat / cols % rows, col: flat % cols, span: 1 }
    }

    pub(super) fn window_cells(
        &self,
        context: &SceneContext<'_>,
        window: &CellWindow,
    ) -> Result<WindowCells> {
        let mut cells = Vec::new();
        for row in window.rows.clone() {
            for col in window.cols.clone() {
                if let Some(flat) = self.element_at(window.index, row, col) {
                    cells.push(logical_cell(context, flat, row, col)?);
                }
            }
        }
        let row_label = |row: i64| match self.rank {
            0 => String::new(),
            1 if self.rows > 1 => format!("{}+", row * self.cols),
            1 => String::new(),
            _ => row.to_string(),
        };
        let col_label = |col: i64| if self.rank == 0 { String::new() } else { col.to_string() };
        Ok(WindowCells {
            caption: slab_caption(&unflatten_index(&self.lead, window.index)),
            row_labels: window.rows.clone().map(row_label).collect(),
            col_labels: window.cols.clone().map(col_label).collect(),
            cells,
            note: None,
        })
    }
}
