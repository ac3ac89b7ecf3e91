//! Conversions from one notation to another, or the reason why there is none.
//!
//! A conversion builds the only candidate that the target notation allows and then compares it with the
//! layout as a function: the answer is proved, and a refusal names the first element with another place in
//! the candidate. The file of the notation builds the candidate. The proof is about its text: every text is
//! parsed again and compared with the layout before it is returned, so that an error in printing cannot
//! produce a wrong answer.

use crate::blocked::prove_candidate;
use crate::notation::{Notation, parse_as};
use crate::{Diagnostic, ParsedText};
use std::borrow::Cow;
use zellige_float::Dtype;
use zellige_layout::{Axis, AxisTable, Layout, LayoutError, PhysicalCoordinate};
use zellige_stick::StickError;

/// Why a layout has no text in a notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotExpressible {
    /// The rule that fails.
    pub reason: String,
    /// A flat index that shows it, where there is one.
    pub witness: Option<i64>,
}

/// A conversion that was refused: the input is wrong, or the notation has no text for the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversionRefusal {
    /// The layout has no text in that notation.
    NotExpressible(NotExpressible),
    /// The request itself is wrong.
    Error(StickError),
}

impl<E: Into<StickError>> From<E> for ConversionRefusal {
    fn from(e: E) -> ConversionRefusal {
        ConversionRefusal::Error(e.into())
    }
}

/// The text of a layout over a shape, in another notation. Some notations need the type of the
/// elements ([`Notation::needs_dtype`]).
///
/// **Law**: the text is read as a layout that has the same places for every coordinate of the shape.
pub fn convert_layout(
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
    to: Notation,
) -> Result<String, ConversionRefusal> {
    layout.check_shape_size(shape)?;
    let text = (to.table_row().express)(layout, shape, dtype)?;
    // Parsing a text takes memory in proportion to its length.
    zellige_guard::reserve_memory(text.len());
    let found = match parse_as(&text, to, &axis_table_of(layout))
        .and_then(|p| p.layout_over_shape(Some(shape)))
    {
        Ok(found) => found,
        Err(refused) => return refuse_unread_text(&text, &refused),
    };
    // Structural equality is quick and usual; only different iters need the comparison of
    // functions.
    if found != *layout {
        prove_candidate(&found, layout, &shorten_text(&text))?;
    }
    Ok(text)
}

/// The text of a parsed layout in its own notation, if parsing that gives the same layout again.
///
/// # Errors
/// [`NotExpressible`] where it does not.
pub fn text_in_own_notation(
    parsed: &ParsedText,
    layout: &Layout,
) -> Result<String, ConversionRefusal> {
    let text = parsed.notation_text();
    zellige_guard::reserve_memory(text.len());
    match parse_as(&text, parsed.notation(), &axis_table_of(layout)) {
        Ok(again) if again == *parsed => Ok(text),
        Ok(_) => not_expressible(
            format!("the text {} is read as another layout", shorten_text(&text)),
            None,
        ),
        Err(refused) => refuse_unread_text(&text, &refused),
    }
}

/// The axes that a text of a layout may name.
fn axis_table_of(layout: &Layout) -> AxisTable {
    let mut axes = AxisTable::new();
    for axis in layout.tile().axes() {
        // The names in one layout are distinct, so that no declaration fails.
        let _ = axes.declare_axis(axis.name(), axis.kind());
    }
    axes
}

fn refuse_unread_text<T>(text: &str, refused: &Diagnostic) -> Result<T, ConversionRefusal> {
    not_expressible(
        format!("{} would be the text, which is not read: {}", shorten_text(text), refused.message),
        None,
    )
}

/// The beginning of a text, for a message.
fn shorten_text(text: &str) -> String {
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A layout in another notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotationConversion {
    /// A text that has the same places for every coordinate of the shape.
    Equal(String),
    /// A text over a finer shape: the same places for every element in row-major order, with dimensions split.
    Refined {
        /// The text.
        text: String,
        /// Its shape, of which every dimension of the requested shape is a product of neighbours.
        shape: Vec<i64>,
        /// Why there is no text over the given shape.
        because: NotExpressible,
    },
}

impl NotationConversion {
    /// The text.
    pub fn converted_text(&self) -> &str {
        match self {
            NotationConversion::Equal(text) | NotationConversion::Refined { text, .. } => text,
        }
    }
}

/// The text of a layout over a shape; where there is none, one over the coarsest shape whose dimensions split those
/// of the shape, so that every dimension is one loop.
///
/// # Errors
/// As [`convert_layout`], with the reason that holds for the shape as it was given.
pub fn convert_or_refine(
    parsed: &ParsedText,
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
    to: Notation,
) -> Result<NotationConversion, ConversionRefusal> {
    let because = match translate_notation(parsed, shape, dtype, to) {
        Ok(text) => return Ok(NotationConversion::Equal(text)),
        // The layout came from a text of this notation, which is then its text.
        Err(ConversionRefusal::NotExpressible(_)) if to == parsed.notation() => {
            return text_in_own_notation(parsed, layout).map(NotationConversion::Equal);
        }
        Err(ConversionRefusal::NotExpressible(because)) => because,
        Err(other) => return Err(other),
    };
    let finer = match layout.window() {
        // Another shape would change which elements are padding.
        Some(_) => return Err(ConversionRefusal::NotExpressible(because)),
        None => layout.tile().group(shape).map(|(tile, _)| {
            let extents = tile.shard().iter().map(|it| it.extent);
            extents.collect::<Vec<i64>>()
        }),
    };
    match finer {
        Ok(finer) if finer != shape => match convert_layout(layout, &finer, dtype, to) {
            Ok(text) => Ok(NotationConversion::Refined { text, shape: finer, because }),
            Err(_) => Err(ConversionRefusal::NotExpressible(because)),
        },
        _ => Err(ConversionRefusal::NotExpressible(because)),
    }
}

/// The text of a parsed layout, over a shape, in another notation. As [`convert_layout`], except between two
/// notations of shardings, which both state how the devices of a mesh are numbered: the algebra does not.
pub fn translate_notation(
    parsed: &ParsedText,
    shape: &[i64],
    dtype: Option<Dtype>,
    to: Notation,
) -> Result<String, ConversionRefusal> {
    if to != parsed.notation()
        && let Some(Ok(sharding)) = crate::sharding::sharding_of_parsed(parsed, shape)
        && let Some(text) = crate::sharding::write_sharding(&sharding, shape, to)
    {
        return text;
    }
    match parsed.layout_over_shape(Some(shape)) {
        Ok(layout) => convert_layout(&layout, shape, dtype, to),
        Err(refused) => match refused.cause {
            Some(cause) => Err(ConversionRefusal::Error(*cause)),
            None => not_expressible(refused.message, None),
        },
    }
}

/// A layout that a notation cannot express, and the first element that shows it.
pub(crate) fn not_expressible<T>(
    reason: impl Into<String>,
    witness: Option<i64>,
) -> Result<T, ConversionRefusal> {
    Err(ConversionRefusal::NotExpressible(NotExpressible { reason: reason.into(), witness }))
}

/// The layout without its window, if iters alone give every element its place. `why` begins the refusal.
pub(crate) fn without_window<'a>(
    layout: &'a Layout,
    shape: &[i64],
    why: &str,
) -> Result<Cow<'a, Layout>, ConversionRefusal> {
    if layout.window().is_none() {
        return Ok(Cow::Borrowed(layout));
    }
    let all: Vec<(i64, i64)> = shape.iter().map(|size| (0, *size)).collect();
    match layout.slice_region(shape, &all) {
        Ok(found) => Ok(Cow::Owned(found)),
        Err(LayoutError::NotExpressible { reason, index }) => {
            not_expressible(format!("{why}, and no strides leave it out: {reason}"), Some(index))
        }
        Err(e) => Err(e.into()),
    }
}

/// The memory coordinate of the first place of an element.
pub(crate) fn first_memory_coordinate(points: &[PhysicalCoordinate]) -> i64 {
    points.first().map_or(0, |p| p.get(Axis::M))
}
