//! Numbers that a run loses: those that the card does not hold, and those that became a NaN.

use std::fmt;

/// How numbers were lost.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum NumberLossKind {
    /// The tensor is given to the card, and some of its numbers are past the format that it is stored in:
    /// they are infinities there, or the encoding of one.
    Past {
        /// The first of them.
        value: f64,
    },
    /// A step without a NaN among its operands made some.
    Nan {
        /// The operation of the step.
        op: String,
    },
}

/// Numbers of one tensor that were lost.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberLoss {
    /// The tensor.
    pub tensor: String,
    /// How many.
    pub count: u64,
    /// The place of the first, in row-major order.
    pub first: Vec<i64>,
    /// How they were lost.
    pub kind: NumberLossKind,
}

impl fmt::Display for NumberLoss {
    /// A sentence without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NumberLoss { tensor, count, first, kind } = self;
        let numbers = if *count == 1 { "number" } else { "numbers" };
        match kind {
            #[allow(clippy::cast_possible_truncation, reason = "shown with the digits of float32")]
            NumberLossKind::Past { value } => write!(
                f,
                "`{tensor}` has {count} {numbers} past what its format on the card holds, the first is \
                 {:e} at {first:?}: on the card {} infinite",
                // The number as float32, because that is what the host gave: a float64 would show digits that nobody
                // wrote.
                *value as f32,
                if *count == 1 { "it is" } else { "they are" }
            ),
            NumberLossKind::Nan { op } => write!(
                f,
                "`{tensor}` has {count} NaN{}, the first at {first:?}: {op} made {} of numbers",
                if *count == 1 { "" } else { "s" },
                if *count == 1 { "it" } else { "them" }
            ),
        }
    }
}
