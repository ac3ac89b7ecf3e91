//! Triton's linear layouts: maps over GF(2) from hardware to tensor, by their bases.
//!
//! The parser accepts three forms; the printer writes the first one:
//!
//! ```text
//! {"in":[["register",[[0,1]]],["lane",[[0,2],[1,0]]]],"out":[["dim0",2],["dim1",4]]}
//! {register: [[0, 1]], lane: [[0, 2], [1, 0]]}       out dims dim0, dim1, ..; the least sizes that hold the bases
//!  - register=1 -> (0, 1)                             as Triton prints it
//!  - lane=1 -> (0, 2)
//!    lane=2 -> (1, 0)
//! where out dims are: [dim0 (size 2), dim1 (size 4)]
//! ```
//!
//! Basis `k` of a dimension is the image of `2^k`, one entry per out dimension (Triton's `LinearLayout.h`).
//! The out dimensions are the dimensions of the tensor, the first one slowest; the in dimensions are the
//! hardware, on these axes of the algebra:
//!
//! | dimension | axis |
//! |---|---|
//! | `register`, or `offset` in shared memory | `m` |
//! | `lane` | `laneid` |
//! | `warp` | `warpid` |
//! | `block` | `cbx`: the CTA in its cluster |
//! | `row`, `col` of tensor memory | `TLane`, `TCol` |
//!
//! Any other dimension is on the axis of its own name.
//!
//! **Law**: `parse(print(l)) == l`.

mod json;
mod text;

pub use json::{linear_from_json, linear_to_json};
pub use text::{parse, print_linear};

use crate::convert::{ConversionRefusal, not_expressible, without_window};
use crate::cursor::TextCursor;
use crate::notation::NotationRow;
use crate::triton::TritonAttribute;
use crate::triton::ttgir::TtgirTensorType;
use crate::{Diagnostic, Notation, ParsedText, WrittenLayout};
use zellige_layout::{Axis, AxisTable, Layout, LayoutError, LinearAxis, LinearLayout};
use zellige_stick::StickError;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "linear",
    doc: "Triton linear layouts",
    example: r#"{"in":[["register",[[0,1]]],["lane",[[0,2],[1,0],[2,0]]],["warp",[[0,0],[4,0]]],["block",[]]],"out":[["dim0",8],["dim1",4]]}"#,
    recognises: recognises_linear,
    parse: |text, _| {
        let layout = parse(text)?;
        Ok(ParsedText::from_written(Notation::LINEAR, WrittenLinear(layout)))
    },
    print: |parsed| parsed.written_notation_text(),
    express: |layout, shape, _| {
        let found = linear_of_layout(layout, shape)?;
        // A text names dimensions and not kinds of axes. An axis that is not built in could not be parsed
        // again, and one with the name of a hardware dimension would be parsed as that one.
        let own = |a: &&Axis| {
            hardware_axis(a.name()) != Ok(**a) || HARDWARE.iter().any(|(dim, _)| *dim == a.name())
        };
        match layout.tile().axes().iter().find(own) {
            Some(a) => not_expressible(
                format!("linear layouts have no dimension for the axis `{a}`"),
                None,
            ),
            None => Ok(print_linear(&found)),
        }
    },
    needs_dtype: false,
};

/// A linear layout as a parsed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenLinear(pub LinearLayout);

impl WrittenLayout for WrittenLinear {
    fn notation_text(&self) -> String {
        print_linear(&self.0)
    }

    fn layout_over_shape(&self, _: Option<&[i64]>) -> Result<Layout, Diagnostic> {
        linear_to_layout(&self.0).map_err(|e| Diagnostic::meaning_error(0..0, e))
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        Some(self.0.out_sizes().map(|(_, size)| size).collect())
    }
}

/// Whether a text begins as one of the three forms do.
fn recognises_linear(text: &str) -> bool {
    let mut c = TextCursor::new(text);
    if c.eat_char('{') {
        let quoted = c.eat_char('"');
        let word = c.read_word().map(|w| w.value);
        let closed = !quoted || c.eat_char('"');
        return word.is_some() && closed && c.eat_char(':') && c.eat_char('[');
    }
    if c.eat_char('-') {
        let Some(_) = c.read_word() else { return false };
        return c.eat_char('=') || c.eat_word("is");
    }
    c.eat_char('(') && c.eat_word("empty") && c.eat_word("layout")
}

/// The axes of in dimensions, in the order of Triton.
const HARDWARE: [(&str, &str); 7] = [
    ("register", "m"),
    ("lane", "laneid"),
    ("warp", "warpid"),
    ("offset", "m"),
    ("block", "cbx"),
    ("row", "TLane"),
    ("col", "TCol"),
];

fn hardware_axis(name: &str) -> Result<Axis, LayoutError> {
    AxisTable::new().get(name)
}

/// The axis of an in dimension.
fn axis_of_in_dim(dim: &str) -> Result<Axis, LayoutError> {
    hardware_axis(HARDWARE.iter().find(|(d, _)| *d == dim).map_or(dim, |(_, a)| *a))
}

/// The axes of the in dimensions of a linear layout.
pub fn axes_of_in_dims(layout: &LinearLayout) -> Result<Vec<LinearAxis>, LayoutError> {
    let on = |dim: &str| Ok(LinearAxis { dim: dim.into(), axis: axis_of_in_dim(dim)? });
    layout.in_dims().map(on).collect()
}

/// The layout of the algebra that equals a linear layout.
pub fn linear_to_layout(layout: &LinearLayout) -> Result<Layout, LayoutError> {
    layout.to_layout(&axes_of_in_dims(layout)?)
}

/// The linear layout of a layout over a shape: with `register`, `lane`, `warp` and `block` where threads
/// hold it, with `row` and `col` in tensor memory, else with `offset` and `block`.
pub fn linear_of_layout(layout: &Layout, shape: &[i64]) -> Result<LinearLayout, ConversionRefusal> {
    // A linear layout maps every place to an element, so padding must be left out where that is possible.
    let elements = without_window(layout, shape, "a linear layout has no padding");
    let layout = elements.as_deref().unwrap_or(layout);
    let used = layout.tile().axes();
    let uses = |names: &[&str]| used.iter().any(|u| names.contains(&u.name()));
    // Triton's linear layouts have one of three sets of in dimensions. The axes of the layout
    // choose it, and dimensions that it does not use get size 1.
    let dims: &[&str] = if uses(&["laneid", "warpid"]) {
        &["register", "lane", "warp", "block"]
    } else if used.iter().any(Axis::is_thread) && !uses(&["cbx"]) {
        &["register", "block"]
    } else if uses(&["TLane", "TCol"]) {
        &["row", "col"]
    } else {
        &["offset", "block"]
    };
    let mut axes = Vec::new();
    for (dim, name) in HARDWARE.iter().filter(|(d, _)| dims.contains(d)) {
        axes.push(LinearAxis { dim: (*dim).into(), axis: hardware_axis(name)? });
    }
    for own in used {
        if !axes.iter().any(|a| a.axis == *own) {
            axes.push(LinearAxis { dim: own.name().into(), axis: *own });
        }
    }
    match LinearLayout::from_layout(layout, shape, &axes) {
        Ok(found) => Ok(found),
        Err(LayoutError::NotExpressible { reason, index }) => not_expressible(reason, Some(index)),
        Err(e @ LayoutError::NotPowerOfTwo { .. }) => {
            not_expressible(format!("linear layouts are over powers of two: {e}"), None)
        }
        Err(e) => Err(ConversionRefusal::Error(StickError::from(e))),
    }
}

/// A linear layout, and the padding of its offsets where the text has one: `(interval, padding)` pairs in elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearFromText {
    /// The linear layout.
    pub linear: LinearLayout,
    /// The padding of a padded shared memory layout.
    pub padding: Option<Vec<(i64, i64)>>,
}

/// The linear layout of any text over a shape.
///
/// # Errors
/// A shape that is missing or does not fit; a layout that is not linear, with an element that shows it.
pub fn linear_of_text(
    parsed: &ParsedText,
    shape: Option<&[i64]>,
) -> Result<LinearFromText, LinearFromTextError> {
    if let Some(WrittenLinear(linear)) = parsed.written_layout() {
        return Ok(LinearFromText { linear: linear.clone(), padding: None });
    }
    let tensor = parsed.written_layout::<TtgirTensorType>();
    if let Some(attribute) =
        parsed.written_layout::<TritonAttribute>().or(tensor.map(|t| &t.attribute))
    {
        let own = tensor.map(TtgirTensorType::layout_shape).or_else(|| attribute.default_shape());
        let Some(shape) = shape.map(<[i64]>::to_vec).or(own) else {
            return Err(LinearFromTextError::Text(Box::new(crate::triton::shape_needed_error())));
        };
        let linear = attribute
            .to_linear_layout(&shape)
            .map_err(|d| LinearFromTextError::Text(Box::new(d)))?;
        return Ok(LinearFromText { linear, padding: attribute.shared_memory_padding() });
    }
    let layout =
        parsed.layout_over_shape(shape).map_err(|d| LinearFromTextError::Text(Box::new(d)))?;
    let own = shape.map(<[i64]>::to_vec).or_else(|| parsed.default_shape());
    let own = own.unwrap_or_else(|| layout.default_shape());
    let linear = linear_of_layout(&layout, &own).map_err(LinearFromTextError::Refused)?;
    Ok(LinearFromText { linear, padding: None })
}

/// Why a text has no linear layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinearFromTextError {
    /// The text needs a shape, or does not fit the one given.
    Text(Box<Diagnostic>),
    /// Its layout is not linear.
    Refused(ConversionRefusal),
}
