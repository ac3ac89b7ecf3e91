//! Shapes and strides with their places in the text, so that a refusal names the entry.

use super::nest::Nest;
use super::text::{Stride, Value, WrittenMode, WrittenModes};
use crate::Diagnostic;
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A value or layout with its places in the text.
pub(super) enum Read {
    Leaf(Value, Range<usize>),
    Tuple(Vec<Read>, Range<usize>),
}

impl Read {
    pub(super) fn span(&self) -> Range<usize> {
        match self {
            Read::Leaf(_, span) | Read::Tuple(_, span) => span.clone(),
        }
    }

    /// Without the places.
    pub(super) fn value(self) -> Nest<Value> {
        match self {
            Read::Leaf(value, _) => Nest::Leaf(value),
            Read::Tuple(entries, _) => Nest::Tuple(entries.into_iter().map(Read::value).collect()),
        }
    }
}

/// A shape without strides where a layout is needed.
pub(super) fn no_strides(span: Range<usize>) -> Diagnostic {
    Diagnostic::syntax(span, "this has no strides", "expected a layout `shape:stride`")
        .help("write (8,4):(1,8): first mode fastest")
}

/// Shape and stride as one nest, where both are nested in the same way.
pub(super) fn congruent(shape: Read, stride: Read) -> Result<WrittenModes> {
    match (shape, stride) {
        (Read::Leaf(extent, at), Read::Leaf(stride, by)) => {
            let Value::Int(extent) = extent else {
                let message = "an extent is an integer";
                return Err(Diagnostic::syntax(at, message, "no integer"));
            };
            if let Some(v) = extent.value().filter(|v| *v < 0) {
                let message = format!("the extent {v} is below 0");
                return Err(Diagnostic::syntax(at, message, "extents are 0 or more"));
            }
            let stride = match stride {
                Value::Int(scale) => Stride { scale, basis: Vec::new() },
                Value::Basis(stride) => stride,
                _ => {
                    let message = "a stride is an integer, or one on a basis such as 1@0";
                    return Err(Diagnostic::syntax(by, message, "no stride"));
                }
            };
            Ok(Nest::Leaf(WrittenMode { extent, stride }))
        }
        (Read::Tuple(extents, _), Read::Tuple(strides, by)) => {
            if extents.len() != strides.len() {
                let message = format!("{} extents but {} strides", extents.len(), strides.len());
                return Err(Diagnostic::syntax(by, message, "one stride for every extent"));
            }
            let both = extents.into_iter().zip(strides);
            Ok(Nest::Tuple(both.map(|(e, s)| congruent(e, s)).collect::<Result<_>>()?))
        }
        (shape, stride) => {
            let one = |r: &Read| if matches!(r, Read::Leaf(..)) { "one number" } else { "a tuple" };
            let message =
                format!("the extent is {}, but its stride is {}", one(&shape), one(&stride));
            Err(Diagnostic::syntax(stride.span(), message, "nested otherwise than the shape")
                .help("shape and stride are nested alike: ((2,2),8):((1,16),2)"))
        }
    }
}
