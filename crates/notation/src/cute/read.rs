//! Shapes and strides with their spans in the text, so that an error underlines the entry.

use super::nest::NestedTuple;
use super::text::{CuteStride, CuteValue, WrittenMode, WrittenModes};
use crate::Diagnostic;
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A value or layout with its spans in the text.
pub(super) enum SpannedTerm {
    Leaf(CuteValue, Range<usize>),
    Tuple(Vec<SpannedTerm>, Range<usize>),
}

impl SpannedTerm {
    pub(super) fn span(&self) -> Range<usize> {
        match self {
            SpannedTerm::Leaf(_, span) | SpannedTerm::Tuple(_, span) => span.clone(),
        }
    }

    /// The same without spans.
    pub(super) fn into_nested_value(self) -> NestedTuple<CuteValue> {
        match self {
            SpannedTerm::Leaf(value, _) => NestedTuple::Leaf(value),
            SpannedTerm::Tuple(entries, _) => NestedTuple::Tuple(
                entries.into_iter().map(SpannedTerm::into_nested_value).collect(),
            ),
        }
    }
}

/// A shape without strides where a layout is needed.
pub(super) fn missing_strides_error(span: Range<usize>) -> Diagnostic {
    Diagnostic::syntax_error(span, "this has no strides", "expected a layout `shape:stride`")
        .with_help("write (8,4):(1,8): first mode fastest")
}

/// Pairs a shape with its strides, which must have the same nesting.
pub(super) fn pair_shape_and_stride(
    shape: SpannedTerm,
    stride: SpannedTerm,
) -> Result<WrittenModes> {
    match (shape, stride) {
        (SpannedTerm::Leaf(extent, at), SpannedTerm::Leaf(stride, by)) => {
            let CuteValue::Int(extent) = extent else {
                let message = "an extent is an integer";
                return Err(Diagnostic::syntax_error(at, message, "no integer"));
            };
            if let Some(v) = extent.known_value().filter(|v| *v < 0) {
                let message = format!("the extent {v} is below 0");
                return Err(Diagnostic::syntax_error(at, message, "extents are 0 or more"));
            }
            let stride = match stride {
                CuteValue::Int(scale) => CuteStride { scale, basis: Vec::new() },
                CuteValue::Basis(stride) => stride,
                _ => {
                    let message = "a stride is an integer, or one on a basis such as 1@0";
                    return Err(Diagnostic::syntax_error(by, message, "no stride"));
                }
            };
            Ok(NestedTuple::Leaf(WrittenMode { extent, stride }))
        }
        (SpannedTerm::Tuple(extents, _), SpannedTerm::Tuple(strides, by)) => {
            if extents.len() != strides.len() {
                let message = format!("{} extents but {} strides", extents.len(), strides.len());
                return Err(Diagnostic::syntax_error(by, message, "one stride for every extent"));
            }
            let both = extents.into_iter().zip(strides);
            Ok(NestedTuple::Tuple(
                both.map(|(e, s)| pair_shape_and_stride(e, s)).collect::<Result<_>>()?,
            ))
        }
        (shape, stride) => {
            let one = |r: &SpannedTerm| {
                if matches!(r, SpannedTerm::Leaf(..)) { "one number" } else { "a tuple" }
            };
            let message =
                format!("the extent is {}, but its stride is {}", one(&shape), one(&stride));
            Err(Diagnostic::syntax_error(
                stride.span(),
                message,
                "nested differently from the shape",
            )
            .with_help("shape and stride are nested alike: ((2,2),8):((1,16),2)"))
        }
    }
}
