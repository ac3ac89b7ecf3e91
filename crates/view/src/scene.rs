//! The scene: what a renderer draws, as plain data.

use serde::{Deserialize, Serialize};

/// Everything there is to see of one layout on one shape.
///
/// Made by [`Scene::new`]. Serialises to JSON; renderers and web pages read only this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scene {
    /// The heading; may be empty.
    pub title: String,
    /// The layout in one line.
    pub caption: String,
    /// Shape, element width, copies and axis ranges, in words.
    pub facts: String,
    /// What the letters of the labels stand for.
    pub label_key: String,
    /// The logical shape.
    pub shape: Vec<i64>,
    /// The width of an element in bits.
    pub dtype_bits: i64,
    /// The axes of the places, in the order of [`SceneCell::places`].
    pub axes: Vec<AxisRange>,
    /// What a colour stands for.
    pub color_by: String,
    /// The colours in use; [`SceneCell::colors`] counts in this list.
    pub palette: Vec<ColorSwatch>,
    /// The logical tensor: one grid of the last two dimensions per slab.
    pub logical: Vec<ScenePanel>,
    /// The heading of the physical view.
    pub physical_title: String,
    /// The places: one panel per memory, device or group of threads.
    pub physical: Vec<ScenePanel>,
    /// What is not shown, and other things to know.
    pub notes: Vec<String>,
}

/// An axis and the coordinates that the layout reaches on it, padding included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisRange {
    /// Its name.
    pub name: String,
    /// `memory`, `thread` or `device`.
    pub kind: String,
    /// Smallest coordinate.
    pub min: i64,
    /// Largest coordinate.
    pub max: i64,
}

/// A colour and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColorSwatch {
    /// The owner, line, bank or coordinate.
    pub key: i64,
    /// Its name, such as `T3` or `line 2`.
    pub label: String,
    /// The fill, as `#rrggbb`.
    pub fill: String,
    /// The colour of text on it, as `#rrggbb`.
    pub ink: String,
}

/// One grid of cells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenePanel {
    /// What it shows.
    pub caption: String,
    /// Where it stands among its siblings, as (row, column), when that has a meaning: a mesh.
    pub at: Option<(usize, usize)>,
    /// What the rows count.
    pub row_title: String,
    /// What the columns count.
    pub col_title: String,
    /// One label per row.
    pub row_labels: Vec<String>,
    /// One label per group of columns.
    pub col_labels: Vec<String>,
    /// Columns under one label: the elements (or parts of them) in one bank word.
    pub col_group: usize,
    /// The cells, by row and column; where none is, there is nothing to draw.
    pub cells: Vec<SceneCell>,
    /// How much of the whole this panel shows, when it is not all.
    pub clip: Option<String>,
}

impl ScenePanel {
    /// The number of rows.
    pub fn row_count(&self) -> usize {
        self.row_labels.len()
    }

    /// The number of columns, in units of [`SceneCell::span`].
    pub fn col_count(&self) -> usize {
        self.col_labels.len() * self.col_group
    }
}

/// What a cell holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellKind {
    /// At least one element of the tensor.
    Element,
    /// Padding: an index of the padded domain that is no element.
    Padding,
    /// Nothing maps here, although the place is inside the span.
    Gap,
}

/// One place, or one element, of a panel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SceneCell {
    /// Its row.
    pub row: usize,
    /// Its first column.
    pub col: usize,
    /// How many columns it covers.
    pub span: usize,
    /// What it holds.
    pub kind: CellKind,
    /// Short text: the place in a logical grid, the coordinate in a physical one. Words may be
    /// set on lines of their own.
    pub label: String,
    /// Indices into [`Scene::palette`], one per owner; empty without an element.
    pub colors: Vec<usize>,
    /// The coordinates of the elements here: one in a logical grid, several where places alias.
    pub elements: Vec<Vec<i64>>,
    /// The places drawn here, in the order of [`Scene::axes`]: every copy of the element in a
    /// logical grid, the one place in a physical one.
    pub places: Vec<Vec<i64>>,
}
