//! The options of a drawing.

use serde::{Deserialize, Serialize};
use zellige_layout::{LayoutError, Result};

/// The largest [`DrawOptions::max_cells`].
pub const MAX_CELLS: usize = 1 << 18;

/// How to draw a layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrawOptions {
    /// The heading; none when empty.
    pub title: String,
    /// The line under the heading; by default the layout itself.
    pub caption: Option<String>,
    /// The width of an element in bits, 1 to 1024.
    pub dtype_bits: i64,
    /// The width of an element is not known, and `dtype_bits` is assumed.
    pub dtype_assumed: bool,
    /// What gives a cell its colour: an axis of the layout, or `line`, `bank` or `stick` for a
    /// layout that uses `m`. By default the owner (thread, else device), else the place in memory.
    pub color_by: Option<String>,
    /// Draws memory as 128-byte sticks, beside the row-major memory of the host.
    pub sticks: bool,
    /// Most cells in the logical view and in each physical view, 1 to [`MAX_CELLS`].
    pub max_cells: usize,
}

impl Default for DrawOptions {
    fn default() -> DrawOptions {
        DrawOptions {
            title: String::new(),
            caption: None,
            dtype_bits: 16,
            dtype_assumed: false,
            color_by: None,
            sticks: false,
            max_cells: 4096,
        }
    }
}

impl DrawOptions {
    /// Refuses values that no drawing can honour.
    pub(crate) fn check_ranges(&self) -> Result<()> {
        if !(1..=LINE_BITS).contains(&self.dtype_bits) {
            return Err(LayoutError::BadParameter {
                what: "the element width in bits",
                value: self.dtype_bits,
                accepted: format!("drawings take 1 to {LINE_BITS}"),
            });
        }
        if !(1..=MAX_CELLS).contains(&self.max_cells) {
            return Err(LayoutError::BadParameter {
                what: "the number of cells to draw at most",
                value: i64::try_from(self.max_cells).unwrap_or(i64::MAX),
                accepted: format!("drawings take 1 to {MAX_CELLS}"),
            });
        }
        // An element across two sticks does not exist on the device, so there is nothing to draw.
        if self.sticks && LINE_BITS % self.dtype_bits != 0 {
            return Err(LayoutError::BadParameter {
                what: "the element width in bits",
                value: self.dtype_bits,
                accepted: format!("a stick of {LINE_BITS} bits holds whole elements"),
            });
        }
        Ok(())
    }
}

/// Bits in a memory line, and in a stick: 128 bytes.
pub(crate) const LINE_BITS: i64 = 1024;
/// Bits in the word of one memory bank.
pub(crate) const BANK_BITS: i64 = 32;
