//! The three texts of a linear layout.

use crate::Diagnostic;
use crate::cursor::{Spanned, TextCursor};
use std::ops::Range;
use zellige_layout::{LayoutError, LinearLayout};

type Result<T> = std::result::Result<T, Diagnostic>;

/// An in dimension as written: its name, its bases and their spans.
struct WrittenDim {
    name: Spanned<String>,
    bases: Vec<Spanned<Vec<i64>>>,
}

/// The most dimensions of a text. With at most 62 bits, all others could only be of size 1.
const MOST_DIMS: usize = 256;

/// The text of a linear layout: JSON without spaces.
pub fn print_linear(layout: &LinearLayout) -> String {
    super::linear_to_json(layout).to_string()
}

/// Reads a linear layout in any of its three forms.
pub fn parse(text: &str) -> Result<LinearLayout> {
    let mut c = TextCursor::new(text);
    let layout = match c.peek_char() {
        Some('{') => read_braced_form(&mut c, text)?,
        Some('-' | '(') => read_triton_form(&mut c)?,
        _ => {
            let example = r#"{"in":[["register",[[0,1]]]],"out":[["dim0",1],["dim1",2]]}"#;
            return Err(c
                .refuse_next_token("a linear layout")
                .with_help(format!("write {example}, or {{register: [[0, 1]]}}")));
        }
    };
    c.expect_end("the linear layout")?;
    Ok(layout)
}

/// `{"in":..,"out":..}` or `{register: [..], ..}`.
fn read_braced_form(c: &mut TextCursor<'_>, text: &str) -> Result<LinearLayout> {
    let start = c.next_token_start();
    c.expect_char('{', "at the beginning of a linear layout")?;
    let mut dims: Vec<WrittenDim> = Vec::new();
    let (mut ins, mut outs): (Option<Vec<WrittenDim>>, Option<OutSizes>) = (None, None);
    let mut first = true;
    while !c.eat_char('}') {
        if !first {
            c.expect_char(',', "between dimensions, or `}`")?;
        }
        first = false;
        if dims.len() == MOST_DIMS {
            let message = format!("more than {MOST_DIMS} dimensions");
            return Err(Diagnostic::syntax_error(start..c.last_token_end(), message, "too many"));
        }
        let name = read_dim_name(c, text)?;
        c.expect_char(':', "after the name")?;
        let again = |given: bool| match given {
            false => Ok(()),
            true => {
                let message = format!("`{}` is given twice", name.value);
                Err(Diagnostic::syntax_error(name.span.clone(), message, "already given"))
            }
        };
        match name.value.as_str() {
            "in" => {
                again(ins.is_some())?;
                ins = Some(read_in_dims(c, text)?);
            }
            "out" => {
                again(outs.is_some())?;
                outs = Some(read_out_dims(c, text)?);
            }
            _ => {
                again(dims.iter().any(|d| d.name.value == name.value))?;
                dims.push(WrittenDim { name, bases: read_bases(c)? });
            }
        }
    }
    let whole = start..c.last_token_end();
    match (ins, outs) {
        (None, None) => build_linear_layout(&dims, None, whole),
        (Some(ins), Some(outs)) => match dims.into_iter().next() {
            None => build_linear_layout(&ins, Some(&outs), whole),
            Some(extra) => {
                let message = format!("unknown field `{}`", extra.name.value);
                Err(Diagnostic::syntax_error(extra.name.span, message, "expected `in` and `out`"))
            }
        },
        (ins, _) => {
            let missing = if ins.is_some() { "out" } else { "in" };
            let message = format!("`{missing}` is missing");
            let help = "a linear layout in this form has `in`, the bases of every dimension, and `out`, the sizes of the tensor";
            Err(Diagnostic::syntax_error(whole, message, format!("expected `{missing}`"))
                .with_help(help))
        }
    }
}

/// Out dimensions with the spans of their sizes.
type OutSizes = Vec<(Spanned<String>, Spanned<i64>)>;

/// A name: a word, or any text in quotes as JSON writes it.
fn read_dim_name(c: &mut TextCursor<'_>, text: &str) -> Result<Spanned<String>> {
    let start = c.next_token_start();
    if !c.eat_char('"') {
        let Some(word) = c.read_word() else {
            return Err(c.refuse_next_token("the name of a dimension"));
        };
        return Ok(Spanned { value: word.value.to_string(), span: word.span });
    }
    let mut escaped = false;
    let end = text[start + 1..].char_indices().find(|(_, ch)| {
        let closes = *ch == '"' && !escaped;
        // A backslash escapes the next character only, so `\\"` ends the string.
        escaped = *ch == '\\' && !escaped;
        closes
    });
    let read = end.and_then(|(i, _)| {
        let span = start..start + i + 2;
        let value = serde_json::from_str(&text[span.clone()]).ok()?;
        Some(Spanned { value, span })
    });
    let Some(read) = read else {
        let message = "a name without an end";
        return Err(Diagnostic::syntax_error(start..start + 1, message, "expected `\"` after it"));
    };
    c.skip_to_place(read.span.end);
    Ok(read)
}

/// `[["register", [..]], ..]`.
fn read_in_dims(c: &mut TextCursor<'_>, text: &str) -> Result<Vec<WrittenDim>> {
    let mut dims = Vec::new();
    read_named_pairs(c, text, "in dimensions", |c, name| {
        dims.push(WrittenDim { name, bases: read_bases(c)? });
        Ok(())
    })?;
    Ok(dims)
}

/// `[["dim0", 4], ..]`.
fn read_out_dims(c: &mut TextCursor<'_>, text: &str) -> Result<OutSizes> {
    let mut dims = Vec::new();
    read_named_pairs(c, text, "out dimensions", |c, name| {
        dims.push((name, c.read_integer("a size")?));
        Ok(())
    })?;
    Ok(dims)
}

/// `[[name, ..], ..]`; `second` parses the rest of each pair.
fn read_named_pairs(
    c: &mut TextCursor<'_>,
    text: &str,
    what: &str,
    mut second: impl FnMut(&mut TextCursor<'_>, Spanned<String>) -> Result<()>,
) -> Result<()> {
    c.expect_char('[', &format!("before the {what}"))?;
    let mut first = true;
    while !c.eat_char(']') {
        if !first {
            c.expect_char(',', &format!("between the {what}, or `]`"))?;
        }
        first = false;
        c.expect_char('[', "before the name of a dimension")?;
        let name = read_dim_name(c, text)?;
        c.expect_char(',', "after the name of a dimension")?;
        second(c, name)?;
        c.expect_char(']', "after the dimension")?;
    }
    Ok(())
}

/// `[[0, 1], [1, 0]]`.
fn read_bases(c: &mut TextCursor<'_>) -> Result<Vec<Spanned<Vec<i64>>>> {
    c.expect_char('[', "before the bases")?;
    let mut bases = Vec::new();
    while !c.eat_char(']') {
        if !bases.is_empty() {
            c.expect_char(',', "between bases, or `]`")?;
        }
        bases.push(c.read_int_list("a basis")?);
    }
    Ok(bases)
}

/// The form that Triton prints.
fn read_triton_form(c: &mut TextCursor<'_>) -> Result<LinearLayout> {
    let start = c.next_token_start();
    if c.eat_char('(') {
        return read_empty_layout(c, start);
    }
    let mut dims: Vec<WrittenDim> = Vec::new();
    loop {
        let bullet = c.eat_char('-');
        let line = c.next_token_start();
        let Some(word) = c.read_word() else {
            return Err(c.refuse_next_token("a dimension, as in `register=1 -> (0, 1)`"));
        };
        if !bullet && word.value == "where" {
            break;
        }
        let name = Spanned { value: word.value.to_string(), span: word.span };
        // Triton prints a dimension without bases in words, because it has no line for a basis.
        if bullet && c.eat_word("is") {
            let size_1 = c.eat_word("a")
                && c.eat_word("size")
                && c.read_integer("the size 1")?.value == 1
                && c.eat_word("dimension");
            if !size_1 {
                return Err(c.refuse_next_token("`is a size 1 dimension`"));
            }
            dims.push(WrittenDim { name, bases: Vec::new() });
            continue;
        }
        c.expect_char('=', "after the name of a dimension")?;
        let input = c.read_integer("a power of two")?;
        // The cursor reads single characters, so `->` is two tokens.
        c.expect_char('-', "in `->`")?;
        c.expect_char('>', "in `->`")?;
        let basis = c.read_int_list("a basis")?;
        if bullet {
            dims.push(WrittenDim { name: name.clone(), bases: Vec::new() });
        }
        let Some(dim) = dims.last_mut().filter(|d| d.name.value == name.value) else {
            let message = format!("`{}` does not begin with ` - `", name.value);
            return Err(Diagnostic::syntax_error(
                line..c.last_token_end(),
                message,
                "expected ` - ` before it",
            ));
        };
        let expected = 1i64.checked_shl(u32::try_from(dim.bases.len()).unwrap_or(64));
        // Triton prints one line for each power of two in order, so a gap means that a line is
        // missing.
        if Some(input.value) != expected {
            let message = format!("the bases of `{}` go 1, 2, 4, ..", name.value);
            let label = match expected {
                Some(next) => format!("expected {next}"),
                None => "too many".into(),
            };
            return Err(Diagnostic::syntax_error(input.span, message, label));
        }
        dim.bases.push(basis);
    }
    for word in ["out", "dims", "are"] {
        if !c.eat_word(word) {
            return Err(c.refuse_next_token("`where out dims are:`"));
        }
    }
    c.expect_char(':', "after `where out dims are`")?;
    let outs = read_printed_outs(c)?;
    build_linear_layout(&dims, Some(&outs), start..c.last_token_end())
}

/// `(empty layout)`, or `(empty layout with out-dims [dim0 (size 1)])`.
fn read_empty_layout(c: &mut TextCursor<'_>, start: usize) -> Result<LinearLayout> {
    if !(c.eat_word("empty") && c.eat_word("layout")) {
        return Err(c.refuse_next_token("`(empty layout)`"));
    }
    let mut outs = Vec::new();
    if c.eat_word("with") {
        let dims = c.eat_word("out") && c.eat_char('-') && c.eat_word("dims");
        if !dims {
            return Err(c.refuse_next_token("`out-dims`"));
        }
        outs = read_printed_outs(c)?;
    }
    c.expect_char(')', "after the empty layout")?;
    build_linear_layout(&[], Some(&outs), start..c.last_token_end())
}

/// `[dim0 (size 4), dim1 (size 8)]`.
fn read_printed_outs(c: &mut TextCursor<'_>) -> Result<OutSizes> {
    c.expect_char('[', "before the out dimensions")?;
    let mut outs: OutSizes = Vec::new();
    while !c.eat_char(']') {
        if !outs.is_empty() {
            c.expect_char(',', "between out dimensions, or `]`")?;
        }
        let Some(word) = c.read_word() else {
            return Err(c.refuse_next_token("the name of an out dimension"));
        };
        c.expect_char('(', "before the size")?;
        if !c.eat_word("size") {
            return Err(c.refuse_next_token("`size`"));
        }
        let size = c.read_integer("a size")?;
        c.expect_char(')', "after the size")?;
        outs.push((Spanned { value: word.value.to_string(), span: word.span }, size));
    }
    Ok(outs)
}

/// The layout of the parsed dimensions; an error of the algebra underlines the basis or size that caused it.
fn build_linear_layout(
    dims: &[WrittenDim],
    outs: Option<&OutSizes>,
    whole: Range<usize>,
) -> Result<LinearLayout> {
    let ins: Vec<(String, Vec<Vec<i64>>)> = dims
        .iter()
        .map(|d| (d.name.value.clone(), d.bases.iter().map(|b| b.value.clone()).collect()))
        .collect();
    let built = match outs {
        Some(outs) => {
            let sizes: Vec<(String, i64)> =
                outs.iter().map(|(n, s)| (n.value.clone(), s.value)).collect();
            LinearLayout::new(&ins, &sizes)
        }
        None => {
            // The short form names no out dimensions. Their number is the length of the first
            // basis, and wrong lengths of others are reported by the constructor.
            let rank = ins.iter().flat_map(|(_, b)| b).map(Vec::len).next().unwrap_or(0);
            let names: Vec<String> = (0..rank).map(|d| format!("dim{d}")).collect();
            LinearLayout::with_inferred_sizes(&ins, &names)
        }
    };
    built.map_err(|e| {
        let place = match &e {
            LayoutError::BadBasis { dim, index, .. } => dims
                .iter()
                .find(|d| d.name.value == *dim)
                .and_then(|d| d.bases.get(*index))
                .map(|b| b.span.clone()),
            LayoutError::NotPowerOfTwo { what, .. } => {
                let size = outs.into_iter().flatten().find(|(n, _)| n.value == *what);
                size.map(|(_, s)| s.span.clone())
            }
            _ => None,
        };
        Diagnostic::meaning_error(place.unwrap_or(whole), e)
    })
}
