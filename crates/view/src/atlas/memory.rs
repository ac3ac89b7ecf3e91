//! Linear memory: lines x banks, or sticks, and the memory of the host.

use super::{
    AtlasSheet, CellSpot, CellWindow, SheetSide, WindowCells, crowded_note, occupant_limit,
};
use crate::elements_at::elements_at;
use crate::options::DrawOptions;
use crate::physical::{MemoryGrid, PlaceOccupants, memory_lines};
use crate::scene::SceneCell;
use crate::scene_builder::SceneContext;
use crate::ticks::AxisTicks;
use std::collections::BTreeSet;
use zellige_layout::{Axis, AxisBounds, Layout, Result};

/// The memory that a layout on `m` alone fills.
pub(super) struct MemorySheet {
    grid: MemoryGrid,
    lines: AxisTicks,
    bounds: AxisBounds,
    sticks: bool,
    cols: i64,
}

impl MemorySheet {
    pub(super) fn new(layout: &Layout, options: &DrawOptions) -> Result<MemorySheet> {
        let grid = MemoryGrid::from_options(options);
        let bounds = layout.axis_bounds(Axis::M)?;
        let lines = memory_lines(layout, &grid)?;
        let cols = columns_used(&grid, &lines, bounds.max);
        Ok(MemorySheet { grid, lines, bounds, sticks: options.sticks, cols })
    }

    /// Boxes, rows, columns.
    pub(super) fn sheet_size(&self) -> (i64, i64, i64) {
        (1, i64::try_from(self.lines.total_count()).unwrap_or(i64::MAX), self.cols)
    }

    pub(super) fn describe_sheet(&self) -> AtlasSheet {
        let title = if self.sticks {
            "Device memory: sticks of 128 bytes"
        } else {
            "Memory: lines of 128 bytes × 32 banks"
        };
        let mut notes = Vec::new();
        if let AxisTicks::Used { values, complete } = &self.lines {
            let more = if *complete { "" } else { "more than " };
            let count = values.len();
            notes.push(format!("{more}{count} used lines, the empty ones between left out."));
        }
        AtlasSheet {
            notes,
            ..single_box_sheet(SheetSide::Physical, title, &self.grid, self.sheet_size())
        }
    }

    /// The address whose first bits are in a column, or that covers it.
    pub(super) fn spot_address(&self, row: i64, col: i64) -> Option<i64> {
        let address = self.grid.address_at(self.lines.get(row)?, col);
        // Addresses before the first and behind the last element are on drawn lines too; nothing is there, not even
        // a gap.
        (self.bounds.min..=self.bounds.max).contains(&address).then_some(address)
    }

    pub(super) fn address_spots(&self, address: i64) -> Vec<CellSpot> {
        self.grid
            .address_pieces(address)
            .into_iter()
            .filter_map(|(line, col, span)| {
                Some(CellSpot { index: 0, row: self.lines.position_of(line)?, col, span })
            })
            .collect()
    }

    /// The addresses that a window touches, ascending.
    pub(super) fn window_addresses(&self, window: &CellWindow) -> Vec<i64> {
        // A set, because an element that straddles two lines is met on both.
        let mut all = BTreeSet::new();
        for line in window.rows.clone().filter_map(|r| self.lines.get(r)) {
            let first = self.grid.address_at(line, window.cols.start);
            let last = self.grid.address_at(line, window.cols.end - 1);
            all.extend(first.max(self.bounds.min)..=last.min(self.bounds.max));
        }
        all.into_iter().collect()
    }

    /// The elements at those addresses.
    pub(super) fn find_occupants(
        &self,
        context: &SceneContext<'_>,
        window: &CellWindow,
        addresses: &[i64],
    ) -> PlaceOccupants {
        // A layout without axes has one place and no coordinate; asking for an address of it would find nothing.
        let wanted = if context.axes().is_empty() { Vec::new() } else { vec![addresses.to_vec()] };
        PlaceOccupants::new(elements_at(context.layout, &wanted, occupant_limit(window)))
    }

    pub(super) fn window_cells(
        &self,
        context: &SceneContext<'_>,
        window: &CellWindow,
    ) -> WindowCells {
        let addresses =
            if window.cols.is_empty() { Vec::new() } else { self.window_addresses(window) };
        let occupants = self.find_occupants(context, window, &addresses);
        let mut cells = Vec::new();
        for (i, address) in addresses.iter().enumerate() {
            let (at, place) = if context.axes().is_empty() {
                (vec![], vec![])
            } else {
                (vec![i], vec![*address])
            };
            let cell = occupants.place_cell(context, &at, place);
            put_pieces(&cell, self.address_spots(*address), window, &mut cells);
        }
        let (row_labels, col_labels) = edge_labels(&self.grid, &self.lines, window);
        WindowCells {
            caption: String::new(),
            row_labels,
            col_labels,
            cells,
            note: crowded_note(&occupants),
        }
    }
}

/// The row-major memory of the host.
pub(super) struct HostSheet {
    grid: MemoryGrid,
    lines: AxisTicks,
    size: i64,
    cols: i64,
}

impl HostSheet {
    /// Of a tensor with elements.
    pub(super) fn new(size: i64, options: &DrawOptions) -> HostSheet {
        let grid = MemoryGrid::from_options(options);
        let lines = AxisTicks::Range { min: 0, max: grid.last_line_of(size - 1) };
        let cols = columns_used(&grid, &lines, size - 1);
        HostSheet { grid, lines, size, cols }
    }

    /// Boxes, rows, columns.
    pub(super) fn sheet_size(&self) -> (i64, i64, i64) {
        (1, i64::try_from(self.lines.total_count()).unwrap_or(i64::MAX), self.cols)
    }

    pub(super) fn describe_sheet(&self) -> AtlasSheet {
        let title = "Host memory: row-major, lines of 128 bytes";
        let sheet = single_box_sheet(SheetSide::Host, title, &self.grid, self.sheet_size());
        AtlasSheet { row_title: "line".into(), ..sheet }
    }

    pub(super) fn element_at(&self, row: i64, col: i64) -> Option<i64> {
        let flat = self.grid.address_at(row, col);
        (0..self.size).contains(&flat).then_some(flat)
    }

    pub(super) fn element_spots(&self, flat: i64) -> Vec<CellSpot> {
        let pieces = self.grid.address_pieces(flat).into_iter();
        pieces.map(|(row, col, span)| CellSpot { index: 0, row, col, span }).collect()
    }

    pub(super) fn window_cells(
        &self,
        context: &SceneContext<'_>,
        window: &CellWindow,
    ) -> Result<WindowCells> {
        let mut cells = Vec::new();
        for row in window.rows.clone().filter(|_| !window.cols.is_empty()) {
            let first = self.grid.address_at(row, window.cols.start);
            let last = self.grid.address_at(row, window.cols.end - 1).min(self.size - 1);
            for flat in first..=last {
                let cell = context.host_cell(flat)?;
                // The pieces on other rows are drawn when those rows are reached.
                let spots = self.element_spots(flat).into_iter().filter(|s| s.row == row).collect();
                put_pieces(&cell, spots, window, &mut cells);
            }
        }
        let (row_labels, col_labels) = edge_labels(&self.grid, &self.lines, window);
        Ok(WindowCells { caption: String::new(), row_labels, col_labels, cells, note: None })
    }
}

/// The sheet of a memory: a single box, whose size is boxes, rows and columns.
fn single_box_sheet(
    side: SheetSide,
    title: &str,
    grid: &MemoryGrid,
    (boxes, rows, cols): (i64, i64, i64),
) -> AtlasSheet {
    AtlasSheet {
        side,
        title: title.into(),
        row_title: grid.row_name.into(),
        col_title: grid.col_name.into(),
        rows,
        cols,
        col_group: i64::try_from(grid.group).unwrap_or(1),
        span: grid.element_columns(),
        sliders: Vec::new(),
        boxes,
        mesh: None,
        notes: Vec::new(),
    }
}

/// One cell per piece that a window shows.
fn put_pieces(
    cell: &SceneCell,
    spots: Vec<CellSpot>,
    window: &CellWindow,
    cells: &mut Vec<SceneCell>,
) {
    for spot in spots {
        // An element that begins before the window and reaches into it is drawn, since otherwise the first column
        // would look empty.
        let seen = spot.col < window.cols.end && spot.col + spot.span > window.cols.start;
        if window.rows.contains(&spot.row) && seen {
            let int = |v: i64| usize::try_from(v).unwrap_or(0);
            let (row, col, span) = (int(spot.row), int(spot.col), int(spot.span));
            cells.push(SceneCell { row, col, span, ..cell.clone() });
        }
    }
}

fn edge_labels(
    grid: &MemoryGrid,
    lines: &AxisTicks,
    window: &CellWindow,
) -> (Vec<String>, Vec<String>) {
    let rows = window.rows.clone().map(|r| lines.get(r).map_or(String::new(), |l| l.to_string()));
    let group = i64::try_from(grid.group).unwrap_or(1).max(1);
    let cols = window.cols.clone().filter(|c| c % group == 0).map(|c| (c / group).to_string());
    (rows.collect(), cols.collect())
}

/// Columns up to the last that is used, when the memory is shorter than a line.
fn columns_used(grid: &MemoryGrid, lines: &AxisTicks, last: i64) -> i64 {
    let all = i64::try_from(grid.empty_panel(&[]).col_count()).unwrap_or(1);
    // A second line shows that the first is full, so only a single line is cut.
    if lines.total_count() > 1 {
        return all;
    }
    let end =
        grid.address_pieces(last).iter().map(|(_, col, span)| col + span).max().unwrap_or(all);
    let group = i64::try_from(grid.group).unwrap_or(1).max(1);
    // Whole bank words, because the labels above the columns name words.
    ((end + group - 1) / group * group).min(all)
}
