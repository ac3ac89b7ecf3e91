//! The values of attribute dictionaries: `{key = 1, other = [[0, 1]], parent = #ttg.blocked<..>}`.

use super::attribute::{DimBases, TritonAttribute};
use crate::Diagnostic;
use crate::cursor::{Spanned, TextCursor};
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A value with its span.
#[derive(Debug, Clone)]
pub(super) enum DictValue {
    Int(i64),
    Bool(bool),
    List(Vec<Spanned<DictValue>>),
    Dict(AttributeDict),
    Attribute(Box<TritonAttribute>),
    /// A word, such as one of a few choices.
    Word(String),
    /// A key without a value, or a quoted text: no field here has such a value, but Triton ignores some
    /// fields that may.
    Other,
}

/// A dictionary: its keys in order, and its span.
#[derive(Debug, Clone)]
pub(super) struct AttributeDict {
    pub(super) entries: Vec<(Spanned<String>, Spanned<DictValue>)>,
    pub(super) span: Range<usize>,
}

/// Lists and dictionaries deeper than this are refused.
// The parser recurses, and a text may hold any number of brackets.
const MAX_DEPTH: usize = 64;

/// No attribute has more fields than this.
// Keys are compared pairwise for duplicates, so their number is bounded.
const MOST_FIELDS: usize = 64;

/// Lookup of the aliases of a module while an attribute is parsed.
pub(super) trait AliasLookup {
    fn find_alias(&self, name: &str) -> Option<TritonAttribute>;
    fn alias_names(&self) -> Vec<String>;
}

/// `{key = value, ..}`: no trailing comma, no key twice.
pub(super) fn read_dict(
    c: &mut TextCursor<'_>,
    aliases: &dyn AliasLookup,
    depth: usize,
) -> Result<AttributeDict> {
    let start = c.next_token_start();
    c.expect_char('{', "before the fields")?;
    let mut entries: Vec<(Spanned<String>, Spanned<DictValue>)> = Vec::new();
    if c.eat_char('}') {
        return Ok(AttributeDict { entries, span: start..c.last_token_end() });
    }
    loop {
        if entries.len() == MOST_FIELDS {
            let message = format!("more than {MOST_FIELDS} fields");
            return Err(Diagnostic::syntax_error(start..c.last_token_end(), message, "too many"));
        }
        let Some(key) = c.read_dotted_word() else {
            return Err(c.refuse_next_token("the name of a field"));
        };
        // MLIR refuses duplicate keys too; otherwise it would depend on the reader which value
        // counts.
        if entries.iter().any(|(k, _)| k.value == key.value) {
            let message = format!("`{}` is given twice", shorten_name(key.value));
            return Err(Diagnostic::syntax_error(key.span, message, "already given"));
        }
        let key = Spanned { value: key.value.to_string(), span: key.span };
        // A key alone is a unit attribute of MLIR.
        let value = if c.eat_char('=') {
            read_dict_value(c, aliases, depth + 1)?
        } else {
            Spanned { value: DictValue::Other, span: key.span.clone() }
        };
        entries.push((key, value));
        if c.eat_char('}') {
            return Ok(AttributeDict { entries, span: start..c.last_token_end() });
        }
        c.expect_char(',', "between fields, or `}`")?;
    }
}

pub(super) fn read_dict_value(
    c: &mut TextCursor<'_>,
    aliases: &dyn AliasLookup,
    depth: usize,
) -> Result<Spanned<DictValue>> {
    let start = c.next_token_start();
    if depth > MAX_DEPTH {
        let message = format!("more than {MAX_DEPTH} brackets inside one another");
        return Err(Diagnostic::syntax_error(start..start, message, "too deep"));
    }
    let value = match c.peek_char() {
        Some('[') => DictValue::List(read_value_list(c, aliases, depth)?),
        Some('{') => DictValue::Dict(read_dict(c, aliases, depth)?),
        Some('#') => {
            DictValue::Attribute(Box::new(super::parse::read_attribute(c, aliases, depth)?))
        }
        Some('"') => {
            skip_quoted_text(c)?;
            DictValue::Other
        }
        Some(ch) if ch.is_ascii_digit() || ch == '-' => {
            let int = c.read_integer("a number")?.value;
            // MLIR prints integers with their type, as in `4 : i32`, which does not matter here.
            if c.eat_char(':') && c.read_word().is_none() {
                return Err(c.refuse_next_token("a type, such as i32"));
            }
            DictValue::Int(int)
        }
        _ => match c.read_word() {
            Some(w) if w.value == "true" => DictValue::Bool(true),
            Some(w) if w.value == "false" => DictValue::Bool(false),
            Some(w) => {
                let message = format!("unexpected `{}`", shorten_name(w.value));
                let label = "expected a number, true, false, a list or an attribute";
                return Err(Diagnostic::syntax_error(w.span, message, label));
            }
            None => return Err(c.refuse_next_token("a value")),
        },
    };
    Ok(Spanned { value, span: start..c.last_token_end() })
}

fn read_value_list(
    c: &mut TextCursor<'_>,
    aliases: &dyn AliasLookup,
    depth: usize,
) -> Result<Vec<Spanned<DictValue>>> {
    c.expect_char('[', "before a list")?;
    let mut items = Vec::new();
    if c.eat_char(']') {
        return Ok(items);
    }
    loop {
        items.push(read_dict_value(c, aliases, depth + 1)?);
        if c.eat_char(']') {
            return Ok(items);
        }
        c.expect_char(',', "between values, or `]`")?;
    }
}

/// A text in quotes, skipped.
fn skip_quoted_text(c: &mut TextCursor<'_>) -> Result<()> {
    let start = c.next_token_start();
    c.expect_char('"', "before a text")?;
    while !c.eat_char('"') {
        if c.peek_char().is_none() {
            let message = "a text without an end";
            return Err(Diagnostic::syntax_error(
                start..c.last_token_end(),
                message,
                "expected `\"`",
            ));
        }
        let (span, _) = c.next_token();
        c.skip_to_place(span.end);
    }
    Ok(())
}

pub(super) fn shorten_name(name: &str) -> String {
    name.chars().take(40).collect()
}

impl AttributeDict {
    pub(super) fn get(&self, key: &str) -> Option<&Spanned<DictValue>> {
        self.entries.iter().find(|(k, _)| k.value == key).map(|(_, v)| v)
    }

    /// Refuses a key that is not known.
    pub(super) fn check_known_keys(&self, name: &str, keys: &[&str]) -> Result<()> {
        match self.entries.iter().find(|(k, _)| !keys.contains(&k.value.as_str())) {
            None => Ok(()),
            Some((key, _)) => {
                let message = format!("`{name}` has no field `{}`", shorten_name(&key.value));
                let help = match key.value.as_str() {
                    // Fields of Triton before 3.6, which older dumps still have.
                    "CTAsPerCGA" | "CTASplitNum" | "CTAOrder" if keys.contains(&"CGALayout") => {
                        "Triton 3.6 and later write CGALayout instead: the bases of `block` in units of a CTA's part, as in [[1, 0]]"
                            .to_string()
                    }
                    _ => format!("its fields are {}", keys.join(", ")),
                };
                Err(Diagnostic::syntax_error(key.span.clone(), message, "unknown field")
                    .with_help(help))
            }
        }
    }

    /// A field that must be there.
    pub(super) fn required_field(&self, name: &str, key: &str) -> Result<&Spanned<DictValue>> {
        self.get(key).ok_or_else(|| {
            let message = format!("`{name}` needs `{key}`");
            Diagnostic::syntax_error(
                self.span.clone(),
                message,
                format!("expected `{key} = ..` here"),
            )
        })
    }

    /// A number, 0 or more and below 2^31; 0 where it is left out.
    pub(super) fn integer_field(&self, key: &str) -> Result<i64> {
        self.get(key).map_or(Ok(0), |v| expect_integer(key, v))
    }

    /// `true` or `false`; `false` where it is left out.
    pub(super) fn boolean_field(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(Spanned { value: DictValue::Bool(b), .. }) => Ok(*b),
            Some(v) => Err(wrong_value_error(key, "true or false", v)),
        }
    }

    /// A list of numbers; empty where it is left out.
    pub(super) fn integer_list_field(&self, key: &str) -> Result<Vec<i64>> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(v) => expect_integer_list(key, v),
        }
    }

    /// A list of bases; empty where it is left out.
    pub(super) fn bases_field(&self, key: &str) -> Result<DimBases> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Spanned { value: DictValue::List(items), .. }) => {
                items.iter().map(|v| expect_integer_list(key, v)).collect()
            }
            Some(v) => Err(wrong_value_error(key, "a list of bases such as [[0, 1]]", v)),
        }
    }

    /// An attribute.
    pub(super) fn attribute_field(&self, name: &str, key: &str) -> Result<&TritonAttribute> {
        match self.required_field(name, key)? {
            Spanned { value: DictValue::Attribute(a), .. } => Ok(a),
            v => Err(wrong_value_error(key, "an attribute such as #ttg.blocked<{..}>", v)),
        }
    }

    /// The span of a field, or of the whole dictionary if the field is missing.
    pub(super) fn span_of_field(&self, key: &str) -> Range<usize> {
        self.get(key).map_or_else(|| self.span.clone(), |v| v.span.clone())
    }
}

fn expect_integer(key: &str, v: &Spanned<DictValue>) -> Result<i64> {
    match v.value {
        // Triton's fields are unsigned 32-bit integers, and it refuses larger numbers as well.
        DictValue::Int(i) if (0..1 << 31).contains(&i) => Ok(i),
        _ => Err(wrong_value_error(key, "a number from 0 to 2^31 - 1", v)),
    }
}

fn expect_integer_list(key: &str, v: &Spanned<DictValue>) -> Result<Vec<i64>> {
    match &v.value {
        DictValue::List(items) => items.iter().map(|v| expect_integer(key, v)).collect(),
        _ => Err(wrong_value_error(key, "a list of numbers", v)),
    }
}

fn wrong_value_error(key: &str, expected: &str, found: &Spanned<DictValue>) -> Diagnostic {
    let message = format!("`{key}` must be {expected}");
    Diagnostic::syntax_error(found.span.clone(), message, format!("expected {expected}"))
}
