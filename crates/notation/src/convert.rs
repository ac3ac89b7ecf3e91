//! From one notation to another, or the reason why not.
//!
//! A conversion builds the only candidate that the target notation allows and then compares it
//! with the layout as a function: the answer is proved, and a refusal carries the first element
//! that the candidate would put elsewhere. The candidate is built by the file of the notation.

use crate::notation::Notation;
use zellige_layout::{Axis, Layout, Point};
use zellige_stick::{DataFormat, StickError};

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
    /// The notation is not supported yet.
    Unsupported(Notation),
    /// The request itself is wrong.
    Error(StickError),
}

impl<E: Into<StickError>> From<E> for Refusal {
    fn from(e: E) -> Refusal {
        Refusal::Error(e.into())
    }
}

/// The text of a layout over a shape, in another notation. Some notations need the format of the
/// elements ([`Notation::needs_format`]).
pub fn convert(
    layout: &Layout,
    shape: &[i64],
    format: Option<DataFormat>,
    to: Notation,
) -> Result<String, Refusal> {
    layout.admit(shape)?;
    let functions = to.functions().ok_or(Refusal::Unsupported(to))?;
    (functions.express)(layout, shape, format)
}

/// A layout that a notation cannot express, and the first element that shows it.
pub(crate) fn no<T>(reason: impl Into<String>, witness: Option<i64>) -> Result<T, Refusal> {
    Err(Refusal::NotExpressible(NotExpressible { reason: reason.into(), witness }))
}

/// The memory coordinate of the first of an element's places.
pub(crate) fn first_m(points: &[Point]) -> i64 {
    points.first().map_or(0, |p| p.get(Axis::M))
}
