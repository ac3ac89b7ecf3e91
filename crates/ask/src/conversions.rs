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
pub enum Converted {
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

impl Converted {
    /// `equal`, `refined` or `not_expressible`.
    pub fn relation(&self) -> &'static str {
        match self {
            Converted::Equal(_) => "equal",
            Converted::Refined { .. } => "refined",
            Converted::NotExpressible(_) => "not_expressible",
        }
    }

    /// As an object with the name of the notation.
    pub fn to_json(&self, notation: Notation) -> Value {
        let mut value = json!({"notation": notation.name(), "title": notation.short_description(), "relation": self.relation()});
        match self {
            Converted::Equal(text) => value["text"] = json!(text),
            Converted::Refined { text, shape, why } => {
                value["text"] = json!(text);
                value["shape"] = json!(shape);
                value["reason"] = json!(why);
            }
            Converted::NotExpressible(why) => value["reason"] = json!(why),
        }
        value
    }
}

/// A layout over a shape in a notation.
pub fn converted(
    parsed: &ParsedText,
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
    to: Notation,
) -> Converted {
    if to == parsed.notation()
        && let Ok(text) = text_in_own_notation(parsed, layout)
    {
        return Converted::Equal(text);
    }
    if dtype.is_none() && to.needs_dtype() {
        let why = "a dtype is needed: it says how elements are stored";
        return Converted::NotExpressible(why.into());
    }
    let shown = |n: &NotExpressible| match n.witness {
        Some(i) => format!("{} (at {:?})", n.reason, unflatten_index(shape, i)),
        None => n.reason.clone(),
    };
    match convert_or_refine(parsed, layout, shape, dtype, to) {
        Ok(NotationConversion::Equal(text)) => Converted::Equal(text),
        Ok(NotationConversion::Refined { text, shape, because }) => {
            Converted::Refined { text, shape, why: shown(&because) }
        }
        Err(ConversionRefusal::NotExpressible(n)) => Converted::NotExpressible(shown(&n)),
        Err(ConversionRefusal::Error(e)) => Converted::NotExpressible(e.to_string()),
    }
}

/// A layout over a shape in every notation.
pub fn conversions(
    parsed: &ParsedText,
    layout: &Layout,
    shape: &[i64],
    dtype: Option<Dtype>,
) -> Vec<(Notation, Converted)> {
    Notation::all_notations().map(|n| (n, converted(parsed, layout, shape, dtype, n))).collect()
}
