//! Symbols in a layout and their values: `S[(32,k):(1@TLane,1@TCol)] where k=4`.
//!
//! A symbol is a name in the place of a number. It is replaced by its value before the text is parsed, and
//! the spans of errors are translated back to the text as it was written.

use crate::Diagnostic;
use crate::cursor::TextCursor;
use std::borrow::Cow;
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Words of the grammar, which cannot be symbols.
const RESERVED: [&str; 5] = ["S", "R", "o", "valid", "axes"];

/// A text in which symbols are replaced by their values.
pub(crate) struct ResolvedText<'t> {
    pub(crate) text: Cow<'t, str>,
    /// The spans of the numbers in this text, and of the symbols in the text as it was written.
    replaced: Vec<(Range<usize>, Range<usize>)>,
    written: &'t str,
}

/// Parses the values after `where`, and replaces the symbols by them.
pub(crate) fn resolve_symbols(written: &str) -> Result<ResolvedText<'_>> {
    // An axis, an extent or an element of a list may also be named `where`.
    let is_clause = |name: &Range<usize>| {
        let before = written[..name.start].trim_end();
        &written[name.clone()] == "where" && !before.ends_with(['@', '.', '[', '(', ','])
    };
    let Some(start) = find_names(written).find(is_clause).map(|name| name.start) else {
        return Ok(ResolvedText { text: written.into(), replaced: Vec::new(), written });
    };
    let values = read_symbol_values(written, start)?;
    let mut used = vec![false; values.len()];
    let (mut text, mut replaced, mut done) = (String::new(), Vec::new(), 0);
    for name in find_names(&written[..start]) {
        // The name of an axis is not a number, even if it equals that of a symbol.
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
    // A value without a symbol is most likely a misspelling, which would otherwise go unnoticed.
    if let Some(k) = used.iter().position(|used| !used) {
        let message = format!("the layout has no symbol `{}`", crate::make_visible(values[k].name));
        return Err(Diagnostic::syntax_error(values[k].span.clone(), message, "not used"));
    }
    Ok(ResolvedText { text: text.into(), replaced, written })
}

struct SymbolValue<'t> {
    name: &'t str,
    value: i64,
    span: Range<usize>,
}

/// The values from `where` on.
fn read_symbol_values(written: &str, start: usize) -> Result<Vec<SymbolValue<'_>>> {
    let mut c = TextCursor::new(written);
    c.skip_to_place(start);
    c.eat_word("where");
    let mut values: Vec<SymbolValue<'_>> = Vec::new();
    loop {
        let Some(name) = c.read_word() else {
            return Err(c.refuse_next_token("a symbol, such as `k=4`"));
        };
        let refuse = |message: String, label: &str| {
            Err(Diagnostic::syntax_error(name.span.clone(), message, label))
        };
        if RESERVED.contains(&name.value) {
            return refuse(format!("`{}` is a word of the notation", name.value), "no symbol");
        }
        if values.iter().any(|v| v.name == name.value) {
            let message = format!("`{}` has two values", crate::make_visible(name.value));
            return refuse(message, "given twice");
        }
        c.expect_char('=', "between a symbol and its value")?;
        let value = c.read_integer("the value of a symbol")?.value;
        values.push(SymbolValue { name: name.value, value, span: name.span });
        if !c.eat_char(',') {
            break;
        }
    }
    c.expect_end("the values of the symbols")?;
    Ok(values)
}

/// The names in a text: letters, digits and `_` that do not begin with a digit.
fn find_names(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
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

impl ResolvedText<'_> {
    /// An error of the text with numbers as one of the text as it was written.
    pub(crate) fn place_in_written_text(&self, mut error: Diagnostic) -> Diagnostic {
        let span = self.written_offset_of(error.span.start, false)
            ..self.written_offset_of(error.span.end, true);
        error.span = span;
        // The hint about symbols is given only where a number was expected: the variant of a swizzle, for
        // example, is also a name.
        let expected = error.message.starts_with("expected");
        let mut named =
            find_names(self.written).filter(|name| expected && name.start == error.span.start);
        match named.next() {
            Some(name) if self.is_in_number_place(&name) && error.help.is_none() => {
                let name = crate::make_visible(&self.written[name]).into_owned();
                error
                    .with_help(format!("a symbol needs a value: write `where {name}=4` at the end"))
            }
            _ => error,
        }
    }

    /// Whether a number could stand where the name does: after a bracket, a comma or a colon.
    fn is_in_number_place(&self, name: &Range<usize>) -> bool {
        self.written[..name.start].trim_end().ends_with(['(', '[', ',', ':'])
    }

    fn written_offset_of(&self, at: usize, is_end: bool) -> usize {
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
