//! A layout in every notation, or why it has no text there.

use serde_json::{Value, json};
use zellige_float::Dtype;
use zellige_layout::{Layout, unflatten_index};
use zellige_notation::convert::{
    ConversionRefusal, NotExpressible, NotationConversion, convert_or_refine, text_in_own_notation,
};
use zellige_notation::{Notation, ParsedText};

/// A layout in one notation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConvertedLayout {
    /// The same places for every coordinate.
    Equal(String),
    /// The same places over a shape whose dimensions are split.
    Refined {
        /// The text.
        text: String,
        /// The shape that it is over.
        shape: Vec<i64>,
        /// Why the shape as it was given has no text.
        why: String,
    },
    /// No text.
    NotExpressible(String),
}

impl ConvertedLayout {
    /// `equal`, `refined` or `not_expressible`.
    pub fn relation(&self) -> &'static str {
        match self {
            ConvertedLayout::Equal(_) => "equal",
            ConvertedLayout::Refined { .. } => "refined",
            ConvertedLayout::NotExpressible(_) => "not_expressible",
        }
    }

    /// As an object with the name of the notation.
    pub fn to_json(&self, notation: Notation) -> Value {
        let mut value = json!({"notation": notation.name(), "title": notation.short_description(), "relation": self.relation()});
        match self {
            ConvertedLayout::Equal(text) => value["text"] = json!(text),
            ConvertedLayout::Refined { text, shape, why } => {
                value["text"] = json!(text);
                value["shape"] = json!(shape);
                value["reason"] = json!(why);
            }
            ConvertedLayout::NotExpressible(why) => value["reason"] = json!(why),
        }
        value
    }
}

/// A layout over a shape in a notation.
pub fn convert_layout(
    parsed: &ParsedText,
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
    to: Notation,
) -> ConvertedLayout {
    // The text as it was written keeps names and nesting that the layout of the algebra does not have.
    if to == parsed.notation()
        && let Ok(text) = text_in_own_notation(parsed, layout)
    {
        return ConvertedLayout::Equal(text);
    }
    if dtype.is_none() && to.needs_dtype() {
        // Asked before the conversion is tried, because an answer for a guessed dtype would look like one for the
        // user's.
        let why = "a dtype is needed: it says how elements are stored";
        return ConvertedLayout::NotExpressible(why.into());
    }
    let shown = |n: &NotExpressible| match n.witness {
        Some(i) => format!("{} (at {:?})", n.reason, unflatten_index(shape, i)),
        None => n.reason.clone(),
    };
    match convert_or_refine(parsed, layout, shape, dtype, to) {
        Ok(NotationConversion::Equal(text)) => ConvertedLayout::Equal(text),
        Ok(NotationConversion::Refined { text, shape, because }) => {
            ConvertedLayout::Refined { text, shape, why: shown(&because) }
        }
        Err(ConversionRefusal::NotExpressible(n)) => ConvertedLayout::NotExpressible(shown(&n)),
        // In a list of all notations a refusal is an entry, so that the others are still answered.
        Err(ConversionRefusal::Error(e)) => ConvertedLayout::NotExpressible(e.to_string()),
    }
}

/// A layout over a shape in every notation.
pub fn convert_to_all(
    parsed: &ParsedText,
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
) -> Vec<(Notation, ConvertedLayout)> {
    Notation::all_notations()
        .map(|n| (n, convert_layout(parsed, layout, shape, dtype, n)))
        .collect()
}
