//! The values of attribute dictionaries: `{key = 1, other = [[0, 1]], parent = #ttg.blocked<..>}`.

use super::attribute::{Attribute, Bases};
use crate::Diagnostic;
use crate::cursor::{Cursor, Spanned};
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A value with its place.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Int(i64),
    Bool(bool),
    List(Vec<Spanned<Value>>),
    Dict(Dict),
    Attribute(Box<Attribute>),
    /// A word, such as one of a few choices.
    Word(String),
    /// A key without a value, or a text in quotes: nothing here takes one, but an ignored key may have it.
    Other,
}

/// A dictionary: its keys in order, and its place. What was asked for is known.
#[derive(Debug, Clone)]
pub(super) struct Dict {
    pub(super) entries: Vec<(Spanned<String>, Spanned<Value>)>,
    pub(super) span: Range<usize>,
}

/// Lists and dictionaries deeper than this are refused.
const DEEPEST: usize = 64;

/// No attribute has more fields than this.
const MOST_FIELDS: usize = 64;

/// What a dictionary is read with: the aliases of a module.
pub(super) trait Aliases {
    fn find(&self, name: &str) -> Option<Attribute>;
    fn names(&self) -> Vec<String>;
}

/// `{key = value, ..}`: no trailing comma, no key twice.
pub(super) fn dict(c: &mut Cursor<'_>, aliases: &dyn Aliases, depth: usize) -> Result<Dict> {
    let start = c.at();
    c.expect('{', "before the fields")?;
    let mut entries: Vec<(Spanned<String>, Spanned<Value>)> = Vec::new();
    if c.eat('}') {
        return Ok(Dict { entries, span: start..c.here() });
    }
    loop {
        if entries.len() == MOST_FIELDS {
            let message = format!("more than {MOST_FIELDS} fields");
            return Err(Diagnostic::syntax(start..c.here(), message, "too many"));
        }
        let Some(key) = c.dotted() else { return Err(c.expected("the name of a field")) };
        if entries.iter().any(|(k, _)| k.value == key.value) {
            let message = format!("`{}` is given twice", shorten(key.value));
            return Err(Diagnostic::syntax(key.span, message, "already given"));
        }
        let key = Spanned { value: key.value.to_string(), span: key.span };
        let value = if c.eat('=') {
            value(c, aliases, depth + 1)?
        } else {
            Spanned { value: Value::Other, span: key.span.clone() }
        };
        entries.push((key, value));
        if c.eat('}') {
            return Ok(Dict { entries, span: start..c.here() });
        }
        c.expect(',', "between fields, or `}`")?;
    }
}

pub(super) fn value(
    c: &mut Cursor<'_>,
    aliases: &dyn Aliases,
    depth: usize,
) -> Result<Spanned<Value>> {
    let start = c.at();
    if depth > DEEPEST {
        let message = format!("more than {DEEPEST} brackets inside one another");
        return Err(Diagnostic::syntax(start..start, message, "too deep"));
    }
    let value = match c.peek() {
        Some('[') => Value::List(list(c, aliases, depth)?),
        Some('{') => Value::Dict(dict(c, aliases, depth)?),
        Some('#') => Value::Attribute(Box::new(super::parse::attribute(c, aliases, depth)?)),
        Some('"') => {
            string(c)?;
            Value::Other
        }
        Some(ch) if ch.is_ascii_digit() || ch == '-' => {
            let int = c.int("a number")?.value;
            if c.eat(':') && c.word().is_none() {
                return Err(c.expected("a type, such as i32"));
            }
            Value::Int(int)
        }
        _ => match c.word() {
            Some(w) if w.value == "true" => Value::Bool(true),
            Some(w) if w.value == "false" => Value::Bool(false),
            Some(w) => {
                let message = format!("unexpected `{}`", shorten(w.value));
                let label = "expected a number, true, false, a list or an attribute";
                return Err(Diagnostic::syntax(w.span, message, label));
            }
            None => return Err(c.expected("a value")),
        },
    };
    Ok(Spanned { value, span: start..c.here() })
}

fn list(c: &mut Cursor<'_>, aliases: &dyn Aliases, depth: usize) -> Result<Vec<Spanned<Value>>> {
    c.expect('[', "before a list")?;
    let mut items = Vec::new();
    if c.eat(']') {
        return Ok(items);
    }
    loop {
        items.push(value(c, aliases, depth + 1)?);
        if c.eat(']') {
            return Ok(items);
        }
        c.expect(',', "between values, or `]`")?;
    }
}

/// A text in quotes, skipped.
fn string(c: &mut Cursor<'_>) -> Result<()> {
    let start = c.at();
    c.expect('"', "before a text")?;
    while !c.eat('"') {
        if c.peek().is_none() {
            let message = "a text without an end";
            return Err(Diagnostic::syntax(start..c.here(), message, "expected `\"`"));
        }
        let (span, _) = c.next_token();
        c.skip_to(span.end);
    }
    Ok(())
}

pub(super) fn shorten(name: &str) -> String {
    name.chars().take(40).collect()
}

impl Dict {
    pub(super) fn get(&self, key: &str) -> Option<&Spanned<Value>> {
        self.entries.iter().find(|(k, _)| k.value == key).map(|(_, v)| v)
    }

    /// Refuses a key that is not known.
    pub(super) fn known(&self, name: &str, keys: &[&str]) -> Result<()> {
        match self.entries.iter().find(|(k, _)| !keys.contains(&k.value.as_str())) {
            None => Ok(()),
            Some((key, _)) => {
                let message = format!("`{name}` has no field `{}`", shorten(&key.value));
                let help = match key.value.as_str() {
                    "CTAsPerCGA" | "CTASplitNum" | "CTAOrder" if keys.contains(&"CGALayout") => {
                        "Triton 3.6 and later write CGALayout instead: the bases of `block` in units of a CTA's part, as in [[1, 0]]"
                            .to_string()
                    }
                    _ => format!("its fields are {}", keys.join(", ")),
                };
                Err(Diagnostic::syntax(key.span.clone(), message, "unknown field").help(help))
            }
        }
    }

    /// A field that must be there.
    pub(super) fn need(&self, name: &str, key: &str) -> Result<&Spanned<Value>> {
        self.get(key).ok_or_else(|| {
            let message = format!("`{name}` needs `{key}`");
            Diagnostic::syntax(self.span.clone(), message, format!("expected `{key} = ..` here"))
        })
    }

    /// A number, 0 or more and below 2^31; 0 where it is left out.
    pub(super) fn int(&self, key: &str) -> Result<i64> {
        self.get(key).map_or(Ok(0), |v| int(key, v))
    }

    /// `true` or `false`; `false` where it is left out.
    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None => Ok(false),
            Some(Spanned { value: Value::Bool(b), .. }) => Ok(*b),
            Some(v) => Err(wrong(key, "true or false", v)),
        }
    }

    /// A list of numbers; empty where it is left out.
    pub(super) fn ints(&self, key: &str) -> Result<Vec<i64>> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(v) => ints(key, v),
        }
    }

    /// A list of bases; empty where it is left out.
    pub(super) fn bases(&self, key: &str) -> Result<Bases> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Spanned { value: Value::List(items), .. }) => {
                items.iter().map(|v| ints(key, v)).collect()
            }
            Some(v) => Err(wrong(key, "a list of bases such as [[0, 1]]", v)),
        }
    }

    /// An attribute.
    pub(super) fn attribute(&self, name: &str, key: &str) -> Result<&Attribute> {
        match self.need(name, key)? {
            Spanned { value: Value::Attribute(a), .. } => Ok(a),
            v => Err(wrong(key, "an attribute such as #ttg.blocked<{..}>", v)),
        }
    }

    /// The place of a field, or of the whole where it is left out.
    pub(super) fn place(&self, key: &str) -> Range<usize> {
        self.get(key).map_or_else(|| self.span.clone(), |v| v.span.clone())
    }
}

fn int(key: &str, v: &Spanned<Value>) -> Result<i64> {
    match v.value {
        Value::Int(i) if (0..1 << 31).contains(&i) => Ok(i),
        _ => Err(wrong(key, "a number from 0 to 2^31 - 1", v)),
    }
}

fn ints(key: &str, v: &Spanned<Value>) -> Result<Vec<i64>> {
    match &v.value {
        Value::List(items) => items.iter().map(|v| int(key, v)).collect(),
        _ => Err(wrong(key, "a list of numbers", v)),
    }
}

fn wrong(key: &str, expected: &str, found: &Spanned<Value>) -> Diagnostic {
    let message = format!("`{key}` must be {expected}");
    Diagnostic::syntax(found.span.clone(), message, format!("expected {expected}"))
}
