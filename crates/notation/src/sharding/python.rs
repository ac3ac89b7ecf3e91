//! Python values as JAX and PyTorch print them: strings, tuples, nested lists.

use crate::Diagnostic;
use crate::cursor::{Cursor, Spanned};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// `'x'` or `"x"`. No escapes: names of axes need none.
pub(crate) fn string(c: &mut Cursor<'_>, text: &str, what: &str) -> Result<Spanned<String>> {
    let start = c.at();
    let quote = match c.peek() {
        Some(q @ ('\'' | '"')) => q,
        _ => return Err(c.expected(what)),
    };
    let inside = &text[start + 1..];
    let Some(len) = inside.find(quote) else {
        let message = "a text that does not end";
        return Err(Diagnostic::syntax(start..text.len(), message, format!("expected `{quote}`")));
    };
    if let Some(at) = inside[..len].find(['\\', '\n']) {
        let at = start + 1 + at;
        return Err(Diagnostic::syntax(at..at + 1, "an escape in a name", "plain names only"));
    }
    c.skip_to(start + len + 2);
    Ok(Spanned { value: inside[..len].to_string(), span: start..start + len + 2 })
}

/// Numbers in nested lists, or one number: the extents of the lists, and the numbers in order. `array(..)` around it is NumPy's.
pub(crate) fn nested(c: &mut Cursor<'_>, what: &str) -> Result<Spanned<(Vec<i64>, Vec<i64>)>> {
    let start = c.at();
    let named = c.eat_word("array");
    if named {
        c.expect('(', "after `array`")?;
    }
    let mut flat = Vec::new();
    let shape = level(c, what, 0, &mut flat)?;
    if named {
        c.expect(')', "at the end of `array(`")?;
    }
    Ok(Spanned { value: (shape, flat), span: start..c.here() })
}

fn level(c: &mut Cursor<'_>, what: &str, depth: usize, flat: &mut Vec<i64>) -> Result<Vec<i64>> {
    let start = c.at();
    if !c.eat('[') {
        flat.push(c.int(what)?.value);
        return Ok(Vec::new());
    }
    if depth > 32 {
        return Err(Diagnostic::syntax(start..start + 1, "lists in lists, too deep", "too deep"));
    }
    let mut inner: Option<Vec<i64>> = None;
    let mut count = 0;
    while !c.eat(']') {
        if count > 0 {
            if !c.eat(',') {
                return Err(c.expected("`,` or `]`"));
            }
            if c.eat(']') {
                break;
            }
        }
        let at = c.at();
        let found = level(c, what, depth + 1, flat)?;
        if inner.as_ref().is_some_and(|i| *i != found) {
            let message = "lists of different lengths";
            return Err(Diagnostic::syntax(at..c.here(), message, "not as long as those before"));
        }
        inner = Some(found);
        count += 1;
    }
    let mut shape = vec![count];
    shape.extend(inner.unwrap_or_default());
    Ok(shape)
}
