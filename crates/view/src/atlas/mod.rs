//! Drawings of a whole layout, computed one window at a time.
//!
//! A [`Scene`](crate::Scene) shows only as many cells as fit on a page of paper. An [`Atlas`] has no such limit: its
//! sheets have as many rows and columns as the layout needs. The cost of a window depends on the number of cells in
//! the window and not on the size of the tensor. A place is a physical coordinate, one number per axis of the layout.

mod logical;
mod memory;
mod paint;
mod palette;
mod table;

pub use paint::{NOTHING, PADDING, UNUSED};
pub use palette::OwnerTone;

use crate::cell_label;
use crate::color::ColorBy;
use crate::options::DrawOptions;
use crate::physical::PlaceOccupants;
use crate::scene::{CellKind, SceneCell};
use crate::scene_builder::SceneContext;
use memory::{HostSheet, MemorySheet};
use palette::AtlasPalette;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use table::PlaceTable;
use zellige_layout::{Axis, Layout, LayoutError, Result, flatten_coordinate};

/// The largest number of cells of one window.
// A screen of 4096 by 2160 pixels with cells of a dozen pixels has fewer, so no page needs more at once.
pub const MAX_WINDOW: i64 = 1 << 16;

/// The drawings that an atlas can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SheetSide {
    /// The tensor: grids of its last two dimensions, one box per slab.
    Logical,
    /// The places: lines of memory, sticks, or a table with one box per owner (a core or a thread, for example).
    Physical,
    /// The row-major memory of the host. Only drawings of sticks have it.
    Host,
}

impl SheetSide {
    /// The side of that name.
    pub fn from_name(name: &str) -> Option<SheetSide> {
        match name {
            "logical" => Some(SheetSide::Logical),
            "physical" => Some(SheetSide::Physical),
            "host" => Some(SheetSide::Host),
            _ => None,
        }
    }
}

/// One drawing: equal grids of cells, side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AtlasSheet {
    /// Which drawing this is.
    pub side: SheetSide,
    /// Its heading.
    pub title: String,
    /// What the rows count; may be empty.
    pub row_title: String,
    /// What the columns count; may be empty.
    pub col_title: String,
    /// Rows of each box.
    pub rows: i64,
    /// Columns of each box.
    pub cols: i64,
    /// The number of columns that share one label.
    pub col_group: i64,
    /// The number of columns that every element covers.
    pub span: i64,
    /// The axes that number the boxes, slowest first: name and extent.
    pub sliders: Vec<(String, i64)>,
    /// How many boxes there are.
    pub boxes: i64,
    /// The position of every box, as (row, column), if the boxes are the devices of a mesh.
    pub mesh: Option<Vec<(i64, i64)>>,
    /// Sentences about what the drawing leaves out.
    pub notes: Vec<String>,
}

/// A rectangle of cells in one box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellWindow {
    /// Which box.
    pub index: i64,
    /// Its rows.
    pub rows: Range<i64>,
    /// Its columns.
    pub cols: Range<i64>,
}

/// The cells of a window, with their labels at the edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WindowCells {
    /// The caption of the box; may be empty.
    pub caption: String,
    /// One label per row of the window.
    pub row_labels: Vec<String>,
    /// One label per group of columns that begins in the window.
    pub col_labels: Vec<String>,
    /// The cells, with rows and columns counted from the start of the box.
    pub cells: Vec<SceneCell>,
    /// A sentence for the reader if more elements share the places than the cells list.
    pub note: Option<String>,
}

/// Neighbouring columns of one row of a box, where an element or a place is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CellSpot {
    /// Which box.
    #[serde(rename = "box")]
    pub index: i64,
    /// Its row.
    pub row: i64,
    /// Its first column.
    pub col: i64,
    /// How many columns it covers.
    pub span: i64,
}

/// What is drawn at one cell of a sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpotContent {
    /// The flat index of an element.
    Element(i64),
    /// A place, in the order of the axes of the layout.
    Place(Vec<i64>),
    /// Nothing: past the end of a row that is not full.
    Nothing,
}

/// The drawings of one layout on one shape.
///
/// **Law**: a cell of a window agrees with [`Layout::physical_coordinates`] and [`Layout::look_up_place`], and
/// [`Atlas::element_spots`] of an element are exactly the cells that name it.
pub struct Atlas {
    layout: Layout,
    shape: Vec<i64>,
    options: DrawOptions,
    color: ColorBy,
    palette: AtlasPalette,
    /// The layout whose places give the elements their colours, where it is another one than the one that is drawn.
    colored_layout: Option<Layout>,
    logical: logical::LogicalSheet,
    places: Option<PlaceSheet>,
    host: Option<HostSheet>,
}

enum PlaceSheet {
    Memory(MemorySheet),
    Table(PlaceTable),
}

impl Atlas {
    /// The drawings of a layout.
    ///
    /// Errors: those of [`Scene::new`](crate::Scene::new).
    pub fn new(layout: &Layout, shape: &[i64], options: &DrawOptions) -> Result<Atlas> {
        options.check_ranges()?;
        layout.check_shape_size(shape)?;
        // The layout is checked here, so that later a window can only fail because of its own range.
        crate::physical::check_sticks(layout, options)?;
        let color = ColorBy::choose_rule(layout, options)?;
        let palette = AtlasPalette::new(&color, layout)?;
        let memory_only = layout.tile().axes().iter().all(|a| *a == Axis::M);
        let mut atlas = Atlas {
            logical: logical::LogicalSheet::new(shape),
            layout: layout.clone(),
            shape: shape.to_vec(),
            options: options.clone(),
            color,
            palette,
            colored_layout: None,
            places: None,
            host: None,
        };
        // A layout without elements has no bounds of places, so only the logical sheet is drawn, as an empty grid.
        if layout.size() > 0 {
            atlas.places = Some(if memory_only {
                PlaceSheet::Memory(MemorySheet::new(layout, options)?)
            } else {
                PlaceSheet::Table(PlaceTable::new(layout, shape)?)
            });
            atlas.host = options.sticks.then(|| HostSheet::new(layout.size(), options));
        }
        Ok(atlas)
    }

    /// The same drawings, in which every element has the colour of its place in another layout of the same shape. So an
    /// element has one colour in the drawings of both ends of a move, and can be followed from one to the other.
    ///
    /// `options` are those of the other layout: its element size, and `color_by`.
    /// Errors: those of [`Atlas::new`] for the other layout.
    pub fn color_as_in(mut self, other: &Layout, options: &DrawOptions) -> Result<Atlas> {
        options.check_ranges()?;
        other.check_shape_size(&self.shape)?;
        self.color = ColorBy::choose_rule(other, options)?;
        self.palette = AtlasPalette::new(&self.color, other)?;
        self.colored_layout = Some(other.clone());
        Ok(self)
    }

    /// The rule that gives a cell its colour.
    pub fn color_by(&self) -> String {
        self.color.describe_rule()
    }

    /// The names that the option `color_by` accepts for this layout.
    pub fn color_choices(&self) -> Vec<String> {
        ColorBy::rule_choices(self.colored_layout.as_ref().unwrap_or(&self.layout))
    }

    /// The colours. Cells and [`Atlas::paint_window`] refer to them by their index in this list.
    pub fn tones(&self) -> &[OwnerTone] {
        self.palette.tones()
    }

    /// Whether colours repeat, because there are more owners than colours.
    pub fn tones_repeat(&self) -> bool {
        self.palette.has_repeats()
    }

    /// The meaning of the letters in the labels.
    pub fn label_key(&self) -> String {
        cell_label::code_key(self.layout.tile().axes())
    }

    /// The drawings: the tensor, the places, and for sticks the memory of the host.
    pub fn sheets(&self) -> Vec<AtlasSheet> {
        let mut sheets = vec![self.logical.describe_sheet(&self.shape)];
        match &self.places {
            Some(PlaceSheet::Memory(memory)) => sheets.push(memory.describe_sheet()),
            Some(PlaceSheet::Table(table)) => sheets.push(table.describe_sheet(&self.layout)),
            None => {}
        }
        sheets.extend(self.host.as_ref().map(HostSheet::describe_sheet));
        sheets
    }

    /// The cells of a window; rows and columns past the end of the sheet are left out.
    pub fn window_cells(&self, side: SheetSide, window: &CellWindow) -> Result<WindowCells> {
        let window = self.clip_window(side, window)?;
        let context = SceneContext::new(&self.layout, &self.shape, &self.options)?;
        let mut found = match (side, &self.places, &self.host) {
            (SheetSide::Logical, _, _) => self.logical.window_cells(&context, &window)?,
            (SheetSide::Physical, Some(PlaceSheet::Memory(memory)), _) => {
                memory.window_cells(&context, &window)
            }
            (SheetSide::Physical, Some(PlaceSheet::Table(table)), _) => {
                table.window_cells(&context, &window)
            }
            (SheetSide::Host, _, Some(host)) => host.window_cells(&context, &window)?,
            _ => return Err(no_sheet()),
        };
        for cell in &mut found.cells {
            // A scene numbers its colours in the order in which owners appear in it. An atlas has one palette for all
            // windows, so that a cell keeps its colour when the page scrolls.
            cell.colors.clear();
            if cell.kind == CellKind::Element {
                match &self.colored_layout {
                    None => cell.colors.extend(cell.places.iter().map(|p| self.place_tone(p))),
                    Some(other) => {
                        for coord in &cell.elements {
                            let flat = flatten_coordinate(&self.shape, coord)?;
                            let places = other.physical_coordinates(flat)?;
                            cell.colors
                                .extend(places.coordinate_rows().map(|p| self.place_tone(p)));
                        }
                    }
                }
                cell.colors.sort_unstable();
                cell.colors.dedup();
            }
        }
        Ok(found)
    }

    /// Where the element of a flat index is drawn.
    pub fn element_spots(&self, side: SheetSide, flat: i64) -> Result<Vec<CellSpot>> {
        let context = SceneContext::new(&self.layout, &self.shape, &self.options)?;
        let mut spots = match (side, &self.host) {
            (SheetSide::Logical, _) => {
                // Only its error is needed: an index outside the tensor gives the same message on every side.
                self.layout.physical_coordinates(flat)?;
                vec![self.logical.element_spot(flat)]
            }
            (SheetSide::Physical, _) => {
                context.element_places(flat)?.iter().flat_map(|p| self.place_spots(p)).collect()
            }
            (SheetSide::Host, Some(host)) => {
                self.layout.physical_coordinates(flat)?;
                host.element_spots(flat)
            }
            (SheetSide::Host, None) => return Err(no_sheet()),
        };
        spots.sort_unstable();
        // Two copies of an element at one place would give the same spot twice.
        spots.dedup();
        Ok(spots)
    }

    /// The spots where a place (in the order of the axes of the layout) is drawn; none if no sheet shows it.
    pub fn place_spots(&self, place: &[i64]) -> Vec<CellSpot> {
        match &self.places {
            Some(PlaceSheet::Memory(memory)) => {
                memory.address_spots(place.first().copied().unwrap_or_default())
            }
            Some(PlaceSheet::Table(table)) => table.place_spot(place).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// What is drawn at a spot.
    pub fn content_at(
        &self,
        side: SheetSide,
        index: i64,
        row: i64,
        col: i64,
    ) -> Result<SpotContent> {
        let window = CellWindow {
            index,
            rows: row..row.saturating_add(1),
            cols: col..col.saturating_add(1),
        };
        let window = self.clip_window(side, &window)?;
        if window.rows.is_empty() || window.cols.is_empty() {
            return Ok(SpotContent::Nothing);
        }
        Ok(match (side, &self.places, &self.host) {
            (SheetSide::Logical, _, _) => self
                .logical
                .element_at(index, row, col)
                .map_or(SpotContent::Nothing, SpotContent::Element),
            (SheetSide::Physical, Some(PlaceSheet::Memory(memory)), _) => {
                let place = |a: i64| {
                    if self.layout.tile().axes().is_empty() { Vec::new() } else { vec![a] }
                };
                memory
                    .spot_address(row, col)
                    .map_or(SpotContent::Nothing, |a| SpotContent::Place(place(a)))
            }
            (SheetSide::Physical, Some(PlaceSheet::Table(table)), _) => {
                table.place_at(index, row, col).map_or(SpotContent::Nothing, SpotContent::Place)
            }
            (SheetSide::Host, _, Some(host)) => {
                host.element_at(row, col).map_or(SpotContent::Nothing, SpotContent::Element)
            }
            _ => return Err(no_sheet()),
        })
    }

    fn place_tone(&self, place: &[i64]) -> usize {
        self.palette.owner_rank(self.color.owner_key(place))
    }

    /// The part of a window that is on its sheet. A box that the sheet does not have, or a window of more than
    /// [`MAX_WINDOW`] cells, is an error.
    fn clip_window(&self, side: SheetSide, window: &CellWindow) -> Result<CellWindow> {
        let size = match (side, &self.places, &self.host) {
            (SheetSide::Logical, _, _) => Some(self.logical.sheet_size()),
            (SheetSide::Physical, Some(PlaceSheet::Memory(memory)), _) => Some(memory.sheet_size()),
            (SheetSide::Physical, Some(PlaceSheet::Table(table)), _) => Some(table.sheet_size()),
            (SheetSide::Host, _, Some(host)) => Some(host.sheet_size()),
            _ => None,
        };
        let (boxes, rows, cols) = size.ok_or_else(no_sheet)?;
        if !(0..boxes).contains(&window.index) {
            return Err(LayoutError::BadParameter {
                what: "the box",
                value: window.index,
                accepted: format!("this sheet has {boxes} boxes, counted from 0"),
            });
        }
        // Clamped rather than refused, because a page requests the rectangle that it shows, which may extend past
        // the end of the sheet.
        let cut = |r: &Range<i64>, end: i64| r.start.clamp(0, end)..r.end.clamp(0, end);
        let cut = CellWindow {
            index: window.index,
            rows: cut(&window.rows, rows),
            cols: cut(&window.cols, cols),
        };
        let cells = window_area(&cut)?;
        if cells == 0 {
            // Without columns, iterating over the rows would only cost time.
            return Ok(CellWindow { index: cut.index, rows: 0..0, cols: 0..0 });
        }
        Ok(cut)
    }
}

/// The number of cells of a window; more than [`MAX_WINDOW`] are an error.
fn window_area(window: &CellWindow) -> Result<i64> {
    // In 128 bits, because the caller chooses the ends and their difference may not fit in 64 bits.
    let length = |r: &Range<i64>| (i128::from(r.end) - i128::from(r.start)).max(0);
    let cells = length(&window.rows) * length(&window.cols);
    let limit = MAX_WINDOW.cast_unsigned();
    i64::try_from(cells)
        .ok()
        .filter(|c| *c <= MAX_WINDOW)
        .ok_or(LayoutError::TooLarge { what: "drawing this window", limit })
}

fn no_sheet() -> LayoutError {
    LayoutError::BadParameter {
        what: "the number of drawings on this side",
        value: 0,
        accepted: "choose a side that the list of drawings names".into(),
    }
}

/// The note for a window whose places hold more elements than are listed.
fn crowded_note(occupants: &PlaceOccupants) -> Option<String> {
    occupants.crowded_note()
}

/// How many elements are listed for a window: a few for every cell.
fn occupant_limit(window: &CellWindow) -> usize {
    let rows = usize::try_from(window.rows.end - window.rows.start).unwrap_or(0);
    let cols = usize::try_from(window.cols.end - window.cols.start).unwrap_or(0);
    // Four for each cell, because most shared places hold a few elements. Where more share them, the note says that
    // the list is a lower bound. At least 64, so that a small window lists many elements of a crowded place.
    rows.saturating_mul(cols).saturating_mul(4).max(64)
}
