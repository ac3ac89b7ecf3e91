//! Linear memory: 128-byte lines x banks, or sticks beside the memory of the host.

use super::{PhysicalView, PlaceOccupants, hit_limit};
use crate::clip;
use crate::elements_at::elements_at;
use crate::options::{BANK_BITS, DrawOptions, LINE_BITS};
use crate::scene::{SceneCell, ScenePanel};
use crate::scene_builder::SceneContext;
use crate::ticks::AxisTicks;
use std::collections::BTreeSet;
use zellige_layout::{Axis, Layout, Result};

/// The memory view of a layout on `m` alone.
pub(crate) fn view_memory(context: &SceneContext<'_>) -> Result<PhysicalView> {
    let grid = MemoryGrid::from_options(context.options);
    let mut view = PhysicalView::default();
    if context.options.sticks {
        view.title = "Host memory and device sticks".into();
        view.panels.push(host_panel(context, &grid)?);
    } else {
        view.title = "Memory: 128-byte lines × 32 banks of 4 bytes".into();
    }
    let (panel, note) = device_panel(context, &grid)?;
    view.panels.push(panel);
    view.notes.extend(note);
    Ok(view)
}

/// How bits of memory fall into rows and columns.
pub(crate) struct MemoryGrid {
    bits: i64,
    /// Bits in one column.
    unit: i64,
    pub(crate) group: usize,
    pub(crate) row_name: &'static str,
    pub(crate) col_name: &'static str,
}

impl MemoryGrid {
    /// Sticks, or banks.
    pub(crate) fn from_options(options: &DrawOptions) -> MemoryGrid {
        let bits = options.dtype_bits;
        if options.sticks { MemoryGrid::stick_grid(bits) } else { MemoryGrid::banked_grid(bits) }
    }

    /// Columns are parts of a bank word, as fine as an element needs.
    fn banked_grid(bits: i64) -> MemoryGrid {
        // The greatest common divisor, so that both elements and bank words are whole numbers of columns, for
        // 24-bit elements too.
        let unit = gcd(bits, BANK_BITS);
        let group = usize::try_from(BANK_BITS / unit).unwrap_or(1);
        MemoryGrid { bits, unit, group, row_name: "line", col_name: "bank" }
    }

    /// Columns are the elements of a stick.
    fn stick_grid(bits: i64) -> MemoryGrid {
        MemoryGrid { bits, unit: bits, group: 1, row_name: "stick", col_name: "element" }
    }

    fn line_of(&self, address: i64) -> i64 {
        // 128 bits: an address times the bits of an element may pass 64.
        let bit = i128::from(address) * i128::from(self.bits);
        // An element has at most LINE_BITS bits, so there are no more lines than addresses.
        i64::try_from(bit.div_euclid(LINE_BITS.into())).unwrap_or(address)
    }

    /// The line that holds the last bit of an address.
    pub(crate) fn last_line_of(&self, address: i64) -> i64 {
        let bit = i128::from(address) * i128::from(self.bits) + i128::from(self.bits) - 1;
        i64::try_from(bit.div_euclid(LINE_BITS.into())).unwrap_or(address)
    }

    /// The addresses that have a bit in a line.
    fn line_addresses(&self, line: i64) -> std::ops::RangeInclusive<i64> {
        let first = i128::from(line) * i128::from(LINE_BITS);
        let last = first + i128::from(LINE_BITS) - 1;
        let address = |bit: i128| i64::try_from(bit.div_euclid(self.bits.into())).unwrap_or(line);
        address(first)..=address(last)
    }

    pub(crate) fn empty_panel(&self, lines: &[i64]) -> ScenePanel {
        let groups = usize::try_from(LINE_BITS / self.unit).unwrap_or(1) / self.group;
        ScenePanel {
            row_title: self.row_name.into(),
            col_title: self.col_name.into(),
            row_labels: lines.iter().map(i64::to_string).collect(),
            col_labels: (0..groups).map(|c| c.to_string()).collect(),
            col_group: self.group,
            ..ScenePanel::default()
        }
    }

    /// Columns that one element covers.
    pub(crate) fn element_columns(&self) -> i64 {
        self.bits / self.unit
    }

    /// The address that covers a column of a line.
    pub(crate) fn address_at(&self, line: i64, col: i64) -> i64 {
        let bit =
            i128::from(line) * i128::from(LINE_BITS) + i128::from(col) * i128::from(self.unit);
        i64::try_from(bit.div_euclid(self.bits.into())).unwrap_or(line)
    }

    /// The pieces of an address: line, first column and columns of each.
    pub(crate) fn address_pieces(&self, address: i64) -> Vec<(i64, i64, i64)> {
        let (bits, unit) = (i128::from(self.bits), i128::from(self.unit));
        let start = i128::from(address) * bits;
        let columns = |bits: i128| i64::try_from(bits / unit).unwrap_or(0);
        (self.line_of(address)..=self.last_line_of(address))
            .map(|line| {
                let base = i128::from(line) * i128::from(LINE_BITS);
                // Cut at the ends of the line, since the rest of the element is on the next one.
                let (from, to) =
                    (start.max(base), (start + bits).min(base + i128::from(LINE_BITS)));
                (line, columns(from - base), columns(to - from))
            })
            .collect()
    }

    /// Puts a cell at an address: one piece per drawn line that it touches.
    fn place_cell(&self, cell: &SceneCell, address: i64, lines: &[i64], panel: &mut ScenePanel) {
        for (line, col, span) in self.address_pieces(address) {
            let Ok(row) = lines.binary_search(&line) else { continue };
            let int = |v: i64| usize::try_from(v).unwrap_or(0);
            panel.cells.push(SceneCell { row, col: int(col), span: int(span), ..cell.clone() });
        }
    }

    /// Lines that the budget of cells allows.
    fn line_budget(&self, context: &SceneContext<'_>) -> usize {
        let per_line = usize::try_from(LINE_BITS / self.bits).unwrap_or(1).max(1);
        // At least one line, as the caller's budget may be below its cells.
        (context.options.max_cells / per_line).clamp(1, 128)
    }
}

/// The lines that are drawn of a layout on `m` alone.
pub(crate) fn drawn_lines(layout: &Layout, grid: &MemoryGrid) -> Result<AxisTicks> {
    Ok(match AxisTicks::for_mapped_axis(layout, Axis::M, |a| grid.line_of(a))? {
        // A range ends with the line of the last bit, not of the last address.
        AxisTicks::Range { min, .. } => {
            AxisTicks::Range { min, max: grid.last_line_of(layout.axis_bounds(Axis::M)?.max) }
        }
        used @ AxisTicks::Used { .. } => used,
    })
}

/// The memory that the layout fills.
fn device_panel(
    context: &SceneContext<'_>,
    grid: &MemoryGrid,
) -> Result<(ScenePanel, Option<String>)> {
    let bounds = context.layout.axis_bounds(Axis::M)?;
    let ticks = drawn_lines(context.layout, grid)?;
    let lines = ticks.first_values(grid.line_budget(context));
    let addresses: BTreeSet<i64> = lines
        .iter()
        .flat_map(|line| grid.line_addresses(*line))
        .filter(|a| (bounds.min..=bounds.max).contains(a))
        .collect();
    let addresses: Vec<i64> = addresses.into_iter().collect();
    let wanted = if context.axes().is_empty() { Vec::new() } else { vec![addresses.clone()] };
    let occupants = PlaceOccupants::new(elements_at(context.layout, &wanted, hit_limit(context)));
    let mut panel = grid.empty_panel(&lines);
    if context.options.sticks {
        panel.caption = "device sticks".into();
    }
    panel.clip =
        clip::clip_sentence([ticks.clip_note(&format!("{}s", grid.row_name), lines.len())]);
    for (i, address) in addresses.iter().enumerate() {
        let (at, place) =
            if context.axes().is_empty() { (vec![], vec![]) } else { (vec![i], vec![*address]) };
        let cell = occupants.place_cell(context, &at, place);
        grid.place_cell(&cell, *address, &lines, &mut panel);
    }
    panel.cells.sort_by_key(|c| (c.row, c.col));
    trim_columns(&mut panel);
    Ok((panel, occupants.crowded_note()))
}

/// The row-major memory of the host, coloured by the place of each element on the device.
fn host_panel(context: &SceneContext<'_>, grid: &MemoryGrid) -> Result<ScenePanel> {
    let size = context.layout.size();
    let total = grid.last_line_of(size - 1) + 1;
    let shown = total.min(i64::try_from(grid.line_budget(context)).unwrap_or(total));
    let lines: Vec<i64> = (0..shown).collect();
    let mut panel = ScenePanel {
        caption: "host memory, row-major".into(),
        row_title: "128-byte line".into(),
        clip: clip::clip_sentence([clip::clip_phrase("lines", 0, lines.len(), total.into())]),
        ..grid.empty_panel(&lines)
    };
    for flat in 0..=(*grid.line_addresses(shown - 1).end()).min(size - 1) {
        let mut cell = context.host_cell(flat)?;
        cell.colors = context.place_colors(&cell.places);
        grid.place_cell(&cell, flat, &lines, &mut panel);
    }
    trim_columns(&mut panel);
    Ok(panel)
}

/// Leaves out the columns behind the last element, when the memory is shorter than a line, and adds a note.
fn trim_columns(panel: &mut ScenePanel) {
    let end = panel.cells.iter().map(|c| c.col + c.span).max().unwrap_or(0);
    let (all, used) = (panel.col_labels.len(), end.div_ceil(panel.col_group.max(1)));
    if used < all {
        panel.col_labels.truncate(used);
        let text = format!("{}s {used}..{all} of the line are past the end", panel.col_title);
        panel.clip = Some(match panel.clip.take() {
            Some(clip) => format!("{clip}; {text}"),
            None => text,
        });
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
