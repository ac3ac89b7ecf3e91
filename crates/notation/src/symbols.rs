//! Symbols in a layout and their values: `S[(32,k):(1@TLane,1@TCol)] where k=4`.
//!
//! A symbol is a name where a number stands. The values are put in its place before the text is read, and
//! the places of errors are those of the text as it was written.

use crate::Diagnostic;
use crate::cursor::Cursor;
use std::borrow::Cow;
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Words that a text already has another use for.
const RESERVED: [&str; 5] = ["S", "R", "o", "valid", "axes"];

/// A text with numbers in the place of its symbols.
pub(crate) struct Resolved<'t> {
    pub(crate) text: Cow<'t, str>,
    /// Where the numbers are, and where the symbols were.
    replaced: Vec<(Range<usize>, Range<usize>)>,
    written: &'t str,
}

/// Reads the values after `where`, and puts them in the place of their symbols.
pub(crate) fn resolve(written: &str) -> Result<Resolved<'_>> {
    // An axis may have that name too.
    let is_clause = |name: &Range<usize>| {
        let before = written[..name.start].trim_end();
        &written[name.clone()] == "where" && !before.ends_with(['@', '.', '[', '(', ','])
    };
    let Some(start) = names(written).find(is_clause).map(|name| name.start) else {
        return Ok(Resolved { text: written.into(), replaced: Vec::new(), written });
    };
    let values = values(written, start)?;
    let mut used = vec![false; values.len()];
    let (mut text, mut replaced, mut done) = (String::new(), Vec::new(), 0);
    for name in names(&written[..start]) {
        // An axis is no number, whatever its name.
        if written[..name.start].trim_end().ends_with(['@', '.']) {
            continue;
        }
        let Some(k) = values.iter().position(|v| v.name == &written[name.clone()]) else {
            continue;
        };
        used[k] = true;
        text += &written[done..name.start];
        let from = text.len();
        text += &values[k].value.to_string();
        replaced.push((from..text.len(), name.clone()));
        done = name.end;
    }
    text += &written[done..start];
    if let Some(k) = used.iter().position(|used| !used) {
        let message = format!("the layout has no symbol `{}`", crate::visible(values[k].name));
        return Err(Diagnostic::syntax(values[k].span.clone(), message, "not used"));
    }
    Ok(Resolved { text: text.into(), replaced, written })
}

struct SymbolValue<'t> {
    name: &'t str,
    value: i64,
    span: Range<usize>,
}

/// The values from `where` on.
fn values(written: &str, start: usize) -> Result<Vec<SymbolValue<'_>>> {
    let mut c = Cursor::new(written);
    c.skip_to(start);
    c.eat_word("where");
    let mut values: Vec<SymbolValue<'_>> = Vec::new();
    loop {
        let Some(name) = c.word() else { return Err(c.expected("a symbol, such as `k=4`")) };
        let refuse = |message: String, label: &str| {
            Err(Diagnostic::syntax(name.span.clone(), message, label))
        };
        if RESERVED.contains(&name.value) {
            return refuse(format!("`{}` is a word of the notation", name.value), "no symbol");
        }
        if values.iter().any(|v| v.name == name.value) {
            let message = format!("`{}` has two values", crate::visible(name.value));
            return refuse(message, "given twice");
        }
        c.expect('=', "between a symbol and its value")?;
        let value = c.int("the value of a symbol")?.value;
        values.push(SymbolValue { name: name.value, value, span: name.span });
        if !c.eat(',') {
            break;
        }
    }
    c.finish("the values of the symbols")?;
    Ok(values)
}

/// The names in a text: letters, digits and `_` that do not begin with a digit.
fn names(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + bytes.get(at..)?.iter().position(|b| inside(*b))?;
            let len = bytes[start..].iter().take_while(|b| inside(**b)).count();
            at = start + len;
            if !bytes[start].is_ascii_digit() {
                return Some(start..at);
            }
        }
    })
}

impl Resolved<'_> {
    /// An error of the text with numbers as one of the text as it was written.
    pub(crate) fn place(&self, mut error: Diagnostic) -> Diagnostic {
        let span = self.back(error.span.start, false)..self.back(error.span.end, true);
        error.span = span;
        // Where something else than a number was expected, as the variant of a swizzle is, a value would not help.
        let expected = error.message.starts_with("expected");
        let mut named =
            names(self.written).filter(|name| expected && name.start == error.span.start);
        match named.next() {
            Some(name) if self.is_in_number_place(&name) && error.help.is_none() => {
                let name = crate::visible(&self.written[name]).into_owned();
                error.help(format!("a symbol needs a value: write `where {name}=4` at the end"))
            }
            _ => error,
        }
    }

    /// Whether a number could stand where the name does: after a bracket, a comma or a colon.
    fn is_in_number_place(&self, name: &Range<usize>) -> bool {
        self.written[..name.start].trim_end().ends_with(['(', '[', ',', ':'])
    }

    fn back(&self, at: usize, is_end: bool) -> usize {
        let (mut shift, mut from) = (0, 0);
        for (new, old) in &self.replaced {
            if at < new.start || (at == new.start && !is_end) {
                break;
            }
            if at < new.end || (at == new.end && is_end) {
                return if is_end { old.end } else { old.start };
            }
            (shift, from) = (new.end, old.end);
        }
        from + (at - shift)
    }
}
