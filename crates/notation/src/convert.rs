//! From one notation to another, or the reason why not.
//!
//! A conversion builds the only candidate that the target notation allows and then compares it
//! with the layout as a function: the answer is proved, and a refusal carries the first element
//! that the candidate would put elsewhere. The candidate is built by the file of the notation. What is said to be equal is its text:
//! every text is read again, and compared with the layout, before anybody sees it.

use crate::blocked::prove;
use crate::notation::{Notation, parse_as};
use crate::{Diagnostic, Parsed};
use std::borrow::Cow;
use zellige_float::Dtype;
use zellige_layout::{Axis, AxisTable, Error, Layout, Point};
use zellige_stick::StickError;

/// Why a layout has no text in a notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotExpressible {
    /// The rule that fails.
    pub reason: String,
    /// A flat index that shows it, where there is one.
    pub witness: Option<i64>,
}

/// A conversion that was refused: bad input, or an honest no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The layout has no text in that notation.
    NotExpressible(NotExpressible),
    /// The request itself is wrong.
    Error(StickError),
}

impl<E: Into<StickError>> From<E> for Refusal {
    fn from(e: E) -> Refusal {
        Refusal::Error(e.into())
    }
}

/// The text of a layout over a shape, in another notation. Some notations need the type of the
/// elements ([`Notation::needs_dtype`]).
///
/// **Law**: the text is read as a layout that has the same places for every coordinate of the shape.
pub fn convert(
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
    to: Notation,
) -> Result<String, Refusal> {
    layout.admit(shape)?;
    let text = (to.row().express)(layout, shape, dtype)?;
    // Reading a text takes about as much as it is long.
    zellige_guard::reserve(text.len());
    let found = match parse_as(&text, to, &axes_of(layout)).and_then(|p| p.layout(Some(shape))) {
        Ok(found) => found,
        Err(refused) => return not_read(&text, &refused),
    };
    if found != *layout {
        prove(&found, layout, &shortened(&text))?;
    }
    Ok(text)
}

/// The text of what was read, in its own notation, where reading that gives the same again.
///
/// # Errors
/// [`NotExpressible`] where it does not.
pub fn own_text(parsed: &Parsed, layout: &Layout) -> Result<String, Refusal> {
    let text = parsed.text();
    zellige_guard::reserve(text.len());
    match parse_as(&text, parsed.notation(), &axes_of(layout)) {
        Ok(again) if again == *parsed => Ok(text),
        Ok(_) => no(format!("the text {} is read as another layout", shortened(&text)), None),
        Err(refused) => not_read(&text, &refused),
    }
}

/// The axes that a text of a layout may name.
fn axes_of(layout: &Layout) -> AxisTable {
    let mut axes = AxisTable::new();
    for axis in layout.tile().axes() {
        // The names in one layout differ, so that none is declared twice.
        let _ = axes.declare(axis.name(), axis.kind());
    }
    axes
}

fn not_read<T>(text: &str, refused: &Diagnostic) -> Result<T, Refusal> {
    no(
        format!("{} would be the text, which is not read: {}", shortened(text), refused.message),
        None,
    )
}

/// The beginning of a text, for a message.
fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// A layout in another notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversion {
    /// A text that has the same places for every coordinate of the shape.
    Equal(String),
    /// A text over a finer shape: the same places for every element in row-major order, with dimensions split.
    Refined {
        /// The text.
        text: String,
        /// Its shape, of which every dimension of the asked shape is a product of neighbours.
        shape: Vec<i64>,
        /// Why the shape as it was given has no text.
        because: NotExpressible,
    },
}

impl Conversion {
    /// The text.
    pub fn text(&self) -> &str {
        match self {
            Conversion::Equal(text) | Conversion::Refined { text, .. } => text,
        }
    }
}

/// The text of a layout over a shape; where there is none, one over the coarsest shape whose dimensions split those
/// of the shape, so that every dimension is one loop.
///
/// # Errors
/// As [`convert`], with the reason that holds for the shape as it was given.
pub fn convert_or_refine(
    parsed: &Parsed,
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
    to: Notation,
) -> Result<Conversion, Refusal> {
    let because = match translate(parsed, shape, dtype, to) {
        Ok(text) => return Ok(Conversion::Equal(text)),
        // A text of this notation is itself what the layout is written as.
        Err(Refusal::NotExpressible(_)) if to == parsed.notation() => {
            return own_text(parsed, layout).map(Conversion::Equal);
        }
        Err(Refusal::NotExpressible(because)) => because,
        Err(other) => return Err(other),
    };
    let finer = match layout.window() {
        // What is padding depends on the dimensions that were padded.
        Some(_) => return Err(Refusal::NotExpressible(because)),
        None => layout.tile().group(shape).map(|(tile, _)| {
            let extents = tile.shard().iter().map(|it| it.extent);
            extents.collect::<Vec<i64>>()
        }),
    };
    match finer {
        Ok(finer) if finer != shape => match convert(layout, &finer, dtype, to) {
            Ok(text) => Ok(Conversion::Refined { text, shape: finer, because }),
            Err(_) => Err(Refusal::NotExpressible(because)),
        },
        _ => Err(Refusal::NotExpressible(because)),
    }
}

/// The text of what was read, over a shape, in another notation. As [`convert`], but for two notations that both know more than the
/// algebra: how the devices of a mesh are numbered.
pub fn translate(
    parsed: &Parsed,
    shape: &[i64],
    dtype: Option<Dtype>,
    to: Notation,
) -> Result<String, Refusal> {
    if to != parsed.notation()
        && let Some(Ok(sharding)) = crate::sharding::sharding_of(parsed, shape)
        && let Some(text) = crate::sharding::write(&sharding, shape, to)
    {
        return text;
    }
    match parsed.layout(Some(shape)) {
        Ok(layout) => convert(&layout, shape, dtype, to),
        Err(refused) => match refused.cause {
            Some(cause) => Err(Refusal::Error(*cause)),
            None => no(refused.message, None),
        },
    }
}

/// A layout that a notation cannot express, and the first element that shows it.
pub(crate) fn no<T>(reason: impl Into<String>, witness: Option<i64>) -> Result<T, Refusal> {
    Err(Refusal::NotExpressible(NotExpressible { reason: reason.into(), witness }))
}

/// The layout without its window: the same places for every element, where iters alone say them. `why` begins the refusal.
pub(crate) fn without_padding<'a>(
    layout: &'a Layout,
    shape: &[i64],
    why: &str,
) -> Result<Cow<'a, Layout>, Refusal> {
    if layout.window().is_none() {
        return Ok(Cow::Borrowed(layout));
    }
    let all: Vec<(i64, i64)> = shape.iter().map(|size| (0, *size)).collect();
    match layout.slice(shape, &all) {
        Ok(found) => Ok(Cow::Owned(found)),
        Err(Error::NotExpressible { reason, index }) => {
            no(format!("{why}, and no strides leave it out: {reason}"), Some(index))
        }
        Err(e) => Err(e.into()),
    }
}

/// The memory coordinate of the first of an element's places.
pub(crate) fn first_m(points: &[Point]) -> i64 {
    points.first().map_or(0, |p| p.get(Axis::M))
}
