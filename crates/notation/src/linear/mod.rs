//! Triton's linear layouts: maps over GF(2) from hardware to tensor, by their bases.
//!
//! Three texts are read, and the first one is printed:
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
//! Basis `k` of a dimension is the image of `2^k`, one entry per out dimension. The out dimensions are the tensor in order,
//! the first one slowest; the in dimensions are the hardware, on these axes of the algebra:
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

pub use json::{from_json, to_json};
pub use text::{parse, print};

use crate::convert::{Refusal, no, without_padding};
use crate::cursor::Cursor;
use crate::notation::NotationRow;
use crate::triton::Attribute;
use crate::triton::ttgir::TensorType;
use crate::{Diagnostic, Notation, Parsed, WrittenLayout};
use zellige_layout::{Axis, AxisTable, Error, Layout, LinearAxis, LinearLayout};
use zellige_stick::StickError;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "linear",
    doc: "Triton linear layouts",
    example: r#"{"in":[["register",[[0,1]]],["lane",[[0,2],[1,0],[2,0]]],["warp",[[0,0],[4,0]]],["block",[]]],"out":[["dim0",8],["dim1",4]]}"#,
    recognises,
    parse: |text, _| {
        let layout = parse(text)?;
        Ok(Parsed::of_written(Notation::LINEAR, Linear(layout)))
    },
    print: |parsed| parsed.written_text(),
    express: |layout, shape, _| {
        let found = of_layout(layout, shape)?;
        // A text names dimensions, and no kinds of axes: one that is not built in would not be read again, and one with the
        // name of a dimension of the hardware would be read as that.
        let own = |a: &&Axis| {
            axis(a.name()) != Ok(**a) || HARDWARE.iter().any(|(dim, _)| *dim == a.name())
        };
        match layout.tile().axes().iter().find(own) {
            Some(a) => no(format!("linear layouts have no dimension for the axis `{a}`"), None),
            None => Ok(print(&found)),
        }
    },
    needs_dtype: false,
};

/// A linear layout that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linear(pub LinearLayout);

impl WrittenLayout for Linear {
    fn text(&self) -> String {
        print(&self.0)
    }

    fn layout(&self, _: Option<&[i64]>) -> Result<Layout, Diagnostic> {
        to_layout(&self.0).map_err(|e| Diagnostic::meaning(0..0, e))
    }

    fn default_shape(&self) -> Option<Vec<i64>> {
        Some(self.0.out_sizes().map(|(_, size)| size).collect())
    }
}

/// Whether a text begins as one of the three forms do.
fn recognises(text: &str) -> bool {
    let mut c = Cursor::new(text);
    if c.eat('{') {
        let quoted = c.eat('"');
        let word = c.word().map(|w| w.value);
        let closed = !quoted || c.eat('"');
        return word.is_some() && closed && c.eat(':') && c.eat('[');
    }
    if c.eat('-') {
        let Some(_) = c.word() else { return false };
        return c.eat('=') || c.eat_word("is");
    }
    c.eat('(') && c.eat_word("empty") && c.eat_word("layout")
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

fn axis(name: &str) -> Result<Axis, Error> {
    AxisTable::new().get(name)
}

/// The axis of an in dimension.
fn axis_of(dim: &str) -> Result<Axis, Error> {
    axis(HARDWARE.iter().find(|(d, _)| *d == dim).map_or(dim, |(_, a)| *a))
}

/// The axes of the in dimensions of a linear layout.
pub fn axes_of(layout: &LinearLayout) -> Result<Vec<LinearAxis>, Error> {
    let on = |dim: &str| Ok(LinearAxis { dim: dim.into(), axis: axis_of(dim)? });
    layout.in_dims().map(on).collect()
}

/// The layout of the algebra that a linear layout is.
pub fn to_layout(layout: &LinearLayout) -> Result<Layout, Error> {
    layout.to_layout(&axes_of(layout)?)
}

/// The linear layout of a layout over a shape: with `register`, `lane`, `warp` and `block` where threads hold it, with
/// `row` and `col` in tensor memory, else with `offset` and `block`.
pub fn of_layout(layout: &Layout, shape: &[i64]) -> Result<LinearLayout, Refusal> {
    // Padding that can be left out leaves no place without an element.
    let elements = without_padding(layout, shape, "a linear layout has no padding");
    let layout = elements.as_deref().unwrap_or(layout);
    let used = layout.tile().axes();
    let uses = |names: &[&str]| used.iter().any(|u| names.contains(&u.name()));
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
        axes.push(LinearAxis { dim: (*dim).into(), axis: axis(name)? });
    }
    for own in used {
        if !axes.iter().any(|a| a.axis == *own) {
            axes.push(LinearAxis { dim: own.name().into(), axis: *own });
        }
    }
    match LinearLayout::of_layout(layout, shape, &axes) {
        Ok(found) => Ok(found),
        Err(Error::NotExpressible { reason, index }) => no(reason, Some(index)),
        Err(e @ Error::NotPowerOfTwo { .. }) => {
            no(format!("linear layouts are over powers of two: {e}"), None)
        }
        Err(e) => Err(Refusal::Error(StickError::from(e))),
    }
}

/// A linear layout, and the padding of its offsets where the text has one: `(interval, padding)` pairs in elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfText {
    /// The linear layout.
    pub linear: LinearLayout,
    /// The padding of a padded shared memory layout.
    pub padding: Option<Vec<(i64, i64)>>,
}

/// The linear layout of any text over a shape.
///
/// # Errors
/// A shape that is missing or does not fit; a layout that is not linear, with an element that shows it.
pub fn of_text(parsed: &Parsed, shape: Option<&[i64]>) -> Result<OfText, OfTextError> {
    if let Some(Linear(linear)) = parsed.written() {
        return Ok(OfText { linear: linear.clone(), padding: None });
    }
    let tensor = parsed.written::<TensorType>();
    if let Some(attribute) = parsed.written::<Attribute>().or(tensor.map(|t| &t.attribute)) {
        let own = tensor.map(TensorType::layout_shape).or_else(|| attribute.default_shape());
        let Some(shape) = shape.map(<[i64]>::to_vec).or(own) else {
            return Err(OfTextError::Text(Box::new(crate::triton::shape_needed())));
        };
        let linear = attribute.to_linear(&shape).map_err(|d| OfTextError::Text(Box::new(d)))?;
        return Ok(OfText { linear, padding: attribute.padding() });
    }
    let layout = parsed.layout(shape).map_err(|d| OfTextError::Text(Box::new(d)))?;
    let own = shape.map(<[i64]>::to_vec).or_else(|| parsed.default_shape());
    let own = own.unwrap_or_else(|| layout.default_shape());
    let linear = of_layout(&layout, &own).map_err(OfTextError::Refused)?;
    Ok(OfText { linear, padding: None })
}

/// Why a text has no linear layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfTextError {
    /// The text needs a shape, or does not fit the one given.
    Text(Box<Diagnostic>),
    /// Its layout is not linear.
    Refused(Refusal),
}
