//! Tables of places, one box per owner.

use super::{
    AtlasSheet, CellSpot, CellWindow, SheetSide, WindowCells, crowded_note, occupant_limit,
};
use crate::cell_label;
use crate::elements_at::elements_at;
use crate::physical::{AxisRoles, PlaceOccupants, mesh_columns};
use crate::scene_builder::SceneContext;
use crate::ticks::AxisTicks;
use zellige_layout::{Axis, Layout, Result, unflatten_index};

/// Boxes that can be drawn; a note says when there are more.
// A box is opened by its number in a slider; past some thousand that is no way to find one.
const MAX_BOXES: i64 = 4096;

/// A layout with an axis besides `m`, as a table.
pub(super) struct PlaceTable {
    roles: AxisRoles,
    axes: Vec<Axis>,
    ticks: Vec<AxisTicks>,
    /// Extents of the axes that tell boxes apart, and how many boxes are drawn of them all.
    extents: Vec<i64>,
    boxes: i64,
    all_boxes: i128,
    rows: i64,
    cols: i64,
}

impl PlaceTable {
    pub(super) fn new(layout: &Layout, shape: &[i64]) -> Result<PlaceTable> {
        let roles = AxisRoles::choose_roles(layout, shape);
        let axes = layout.tile().axes().to_vec();
        let ticks: Vec<AxisTicks> =
            axes.iter().map(|a| AxisTicks::for_axis(layout, *a)).collect::<Result<_>>()?;
        let count = |slot: usize| i64::try_from(ticks[slot].total_count()).unwrap_or(i64::MAX);
        let extents: Vec<i64> = roles.panels.iter().map(|s| count(*s)).collect();
        let all_boxes = extents.iter().fold(1i128, |n, e| n.saturating_mul((*e).into()));
        let boxes = i64::try_from(all_boxes).unwrap_or(i64::MAX).min(MAX_BOXES);
        let cols = count(roles.col);
        let (rows, cols) = match roles.row {
            Some(row) => (count(row), cols),
            None => {
                let fold = i64::try_from(roles.fold).unwrap_or(8).clamp(1, cols.max(1));
                (cols / fold + i64::from(cols % fold != 0), fold)
            }
        };
        Ok(PlaceTable { roles, axes, ticks, extents, boxes, all_boxes, rows, cols })
    }

    /// Boxes, rows, columns.
    pub(super) fn sheet_size(&self) -> (i64, i64, i64) {
        (self.boxes, self.rows, self.cols)
    }

    pub(super) fn describe_sheet(&self, layout: &Layout) -> AtlasSheet {
        let name = |slot: usize| self.axes[slot].name().to_string();
        let mut notes = Vec::new();
        if self.all_boxes > self.boxes.into() {
            notes.push(format!("{} of {} boxes can be opened.", self.boxes, self.all_boxes));
        }
        for (axis, ticks) in self.axes.iter().zip(&self.ticks) {
            if let AxisTicks::Used { values, complete } = ticks {
                let more = if *complete { "" } else { "more than " };
                let count = values.len();
                notes.push(format!(
                    "{axis}: {more}{count} used coordinates, the empty ones between left out."
                ));
            }
        }
        let folded = self.roles.row.is_none();
        AtlasSheet {
            side: SheetSide::Physical,
            title: self.roles.title.clone(),
            row_title: self.roles.row.map_or(String::new(), name),
            col_title: name(self.roles.col),
            rows: self.rows,
            cols: self.cols,
            col_group: 1,
            span: 1,
            sliders: self
                .roles
                .panels
                .iter()
                .zip(&self.extents)
                .map(|(s, e)| (name(*s), *e))
                .collect(),
            boxes: self.boxes,
            mesh: self.device_mesh(layout, folded),
            notes,
        }
    }

    /// Where devices stand.
    fn device_mesh(&self, layout: &Layout, folded: bool) -> Option<Vec<(i64, i64)>> {
        // A position in a mesh belongs to one device axis; the product of several has no such picture.
        let [slot] = self.roles.panels[..] else { return None };
        let boxes = usize::try_from(self.boxes).ok().filter(|_| folded)?;
        let at = mesh_columns(layout, &self.roles, boxes)?;
        let int = |v: usize| i64::try_from(v).unwrap_or(0);
        let place = |pid: i64| {
            let (row, col) = at(pid);
            (int(row), int(col))
        };
        Some(self.ticks[slot].first_values(boxes).into_iter().map(place).collect())
    }

    /// The coordinate of the `i`-th tick in a folded or plain table.
    fn column_of(&self, row: i64, col: i64) -> i64 {
        if self.roles.row.is_some() { col } else { row * self.cols + col }
    }

    fn box_digits(&self, index: i64) -> Vec<i64> {
        unflatten_index(&self.extents, index)
    }

    /// The place at a spot; none past the end of a folded row.
    pub(super) fn place_at(&self, index: i64, row: i64, col: i64) -> Option<Vec<i64>> {
        let mut place = vec![0; self.axes.len()];
        for (slot, digit) in self.roles.panels.iter().zip(self.box_digits(index)) {
            place[*slot] = self.ticks[*slot].get(digit)?;
        }
        if let Some(slot) = self.roles.row {
            place[slot] = self.ticks[slot].get(row)?;
        }
        place[self.roles.col] = self.ticks[self.roles.col].get(self.column_of(row, col))?;
        Some(place)
    }

    /// Where a place is drawn.
    pub(super) fn place_spot(&self, place: &[i64]) -> Option<CellSpot> {
        let mut index = 0i64;
        for (slot, extent) in self.roles.panels.iter().zip(&self.extents) {
            let digit = self.ticks[*slot].position_of(place[*slot])?;
            index = index.checked_mul(*extent)?.checked_add(digit)?;
        }
        let col = self.ticks[self.roles.col].position_of(place[self.roles.col])?;
        let (row, col) = match self.roles.row {
            Some(slot) => (self.ticks[slot].position_of(place[slot])?, col),
            None => (col / self.cols, col % self.cols),
        };
        (index < self.boxes).then_some(CellSpot { index, row, col, span: 1 })
    }

    pub(super) fn window_cells(
        &self,
        context: &SceneContext<'_>,
        window: &CellWindow,
    ) -> WindowCells {
        let (wanted, occupants) = self.find_occupants(context, window);
        let mut cells = Vec::new();
        for row in window.rows.clone() {
            for col in window.cols.clone() {
                let Some(place) = self.place_at(window.index, row, col) else { continue };
                let Some(at) = find_wanted_place(&wanted, &place) else { continue };
                let mut cell = occupants.place_cell(context, &at, place);
                (cell.row, cell.col) =
                    (usize::try_from(row).unwrap_or(0), usize::try_from(col).unwrap_or(0));
                cells.push(cell);
            }
        }
        let name = |slot: usize, tick: Option<i64>| {
            let code = cell_label::axis_code(self.axes[slot], &self.axes);
            tick.map_or(String::new(), |v| format!("{code}{v}"))
        };
        let range = matches!(self.ticks[self.roles.col], AxisTicks::Range { .. });
        let (row_labels, col_labels) = match self.roles.row {
            Some(slot) => (
                window.rows.clone().map(|r| name(slot, self.ticks[slot].get(r))).collect(),
                window
                    .cols
                    .clone()
                    .map(|c| name(self.roles.col, self.ticks[self.roles.col].get(c)))
                    .collect(),
            ),
            None => (
                window
                    .rows
                    .clone()
                    .map(|r| name(self.roles.col, self.ticks[self.roles.col].get(r * self.cols)))
                    .collect(),
                window
                    .cols
                    .clone()
                    .map(|c| if range { format!("+{c}") } else { format!("#{c}") })
                    .collect(),
            ),
        };
        let digits = self.box_digits(window.index);
        let caption: Vec<_> = self
            .roles
            .panels
            .iter()
            .zip(digits)
            .map(|(s, d)| format!("{} {}", self.axes[*s], self.ticks[*s].get(d).unwrap_or(0)))
            .collect();
        let note = crowded_note(&occupants);
        WindowCells { caption: caption.join(", "), row_labels, col_labels, cells, note }
    }

    /// The elements of a window, and the coordinates in which they were searched.
    pub(super) fn find_occupants(
        &self,
        context: &SceneContext<'_>,
        window: &CellWindow,
    ) -> (Vec<Vec<i64>>, PlaceOccupants) {
        let mut wanted: Vec<Vec<i64>> = vec![Vec::new(); self.axes.len()];
        for (slot, digit) in self.roles.panels.iter().zip(self.box_digits(window.index)) {
            wanted[*slot].extend(self.ticks[*slot].get(digit));
        }
        let columns = &self.ticks[self.roles.col];
        if let Some(slot) = self.roles.row {
            wanted[slot].extend(window.rows.clone().filter_map(|r| self.ticks[slot].get(r)));
            wanted[self.roles.col].extend(window.cols.clone().filter_map(|c| columns.get(c)));
        } else {
            for row in window.rows.clone() {
                // The wanted coordinates stay sorted, because rows of a folded table follow one another:
                // `find_wanted_place` searches them by halves.
                let list = window.cols.clone().filter_map(|c| columns.get(row * self.cols + c));
                wanted[self.roles.col].extend(list);
            }
        }
        let found = elements_at(context.layout, &wanted, occupant_limit(window));
        (wanted, PlaceOccupants::new(found))
    }
}

/// The position of a place in sorted lists of coordinates.
pub(super) fn find_wanted_place(wanted: &[Vec<i64>], place: &[i64]) -> Option<Vec<usize>> {
    wanted.iter().zip(place).map(|(list, v)| list.binary_search(v).ok()).collect()
}
