//! Python values as JAX and PyTorch print them: strings, tuples, nested lists.

use crate::Diagnostic;
use crate::cursor::{Spanned, TextCursor};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// `'x'` or `"x"`. No escapes: names of axes need none.
pub(crate) fn read_python_string(
    c: &mut TextCursor<'_>,
    text: &str,
    what: &str,
) -> Result<Spanned<String>> {
    let start = c.next_token_start();
    let quote = match c.peek_char() {
        Some(q @ ('\'' | '"')) => q,
        _ => return Err(c.refuse_next_token(what)),
    };
    let inside = &text[start + 1..];
    let Some(len) = inside.find(quote) else {
        let message = "a text that does not end";
        return Err(Diagnostic::syntax_error(
            start..text.len(),
            message,
            format!("expected `{quote}`"),
        ));
    };
    // Interpreting escapes would need a second, resolved text, and no library prints them in these
    // places.
    if let Some(at) = inside[..len].find(['\\', '\n']) {
        let at = start + 1 + at;
        return Err(Diagnostic::syntax_error(
            at..at + 1,
            "an escape in a name",
            "plain names only",
        ));
    }
    c.skip_to_place(start + len + 2);
    Ok(Spanned { value: inside[..len].to_string(), span: start..start + len + 2 })
}

/// Numbers in nested lists, or one number: the extents of the lists, and the numbers in order. `array(..)`
/// around them is how NumPy prints them.
pub(crate) fn read_nested_lists(
    c: &mut TextCursor<'_>,
    what: &str,
) -> Result<Spanned<(Vec<i64>, Vec<i64>)>> {
    let start = c.next_token_start();
    let named = c.eat_word("array");
    if named {
        c.expect_char('(', "after `array`")?;
    }
    let mut flat = Vec::new();
    let shape = read_list_level(c, what, 0, &mut flat)?;
    if named {
        c.expect_char(')', "at the end of `array(`")?;
    }
    Ok(Spanned { value: (shape, flat), span: start..c.last_token_end() })
}

fn read_list_level(
    c: &mut TextCursor<'_>,
    what: &str,
    depth: usize,
    flat: &mut Vec<i64>,
) -> Result<Vec<i64>> {
    let start = c.next_token_start();
    if !c.eat_char('[') {
        flat.push(c.read_integer(what)?.value);
        return Ok(Vec::new());
    }
    // The parser recurses, and no mesh has that many dimensions.
    if depth > 32 {
        return Err(Diagnostic::syntax_error(
            start..start + 1,
            "lists in lists, too deep",
            "too deep",
        ));
    }
    let mut inner: Option<Vec<i64>> = None;
    let mut count = 0;
    while !c.eat_char(']') {
        if count > 0 {
            if !c.eat_char(',') {
                return Err(c.refuse_next_token("`,` or `]`"));
            }
            if c.eat_char(']') {
                break;
            }
        }
        let at = c.next_token_start();
        let found = read_list_level(c, what, depth + 1, flat)?;
        if inner.as_ref().is_some_and(|i| *i != found) {
            let message = "lists of different lengths";
            return Err(Diagnostic::syntax_error(
                at..c.last_token_end(),
                message,
                "not as long as those before",
            ));
        }
        inner = Some(found);
        count += 1;
    }
    let mut shape = vec![count];
    shape.extend(inner.unwrap_or_default());
    Ok(shape)
}
