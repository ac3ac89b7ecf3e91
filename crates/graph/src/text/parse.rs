//! Reading the text of a graph.

use crate::graph::{InputRole, RequestedMemory, SliceHints};
use crate::source::{GraphSource, SizeSymbol, SourceInput, SourceOp, SourceOutput, SymbolicSize};
use serde_json::{Map, Value};
use zellige_float::Dtype;
use zellige_notation::Diagnostic;
use zellige_notation::cursor::{Spanned, TextCursor};
use zellige_stick::LayoutRequest;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Reads a graph with its symbols unbound.
///
/// # Errors
/// A diagnostic that underlines the place.
pub fn parse_source(text: &str) -> Result<GraphSource> {
    let mut c = TextCursor::with_comments(text);
    if !c.eat_word("graph") {
        return Err(c.refuse_next_token("`graph NAME(..) { .. }`"));
    }
    let name = parse_name(&mut c, "the name of the graph")?.value.to_string();
    let mut source = GraphSource { name, ..GraphSource::default() };
    if c.eat_char('[') {
        while !c.eat_char(']') {
            source.symbols.push(parse_symbol(&mut c)?);
            eat_comma(&mut c, ']')?;
        }
    }
    c.expect_char('(', "before the inputs")?;
    while !c.eat_char(')') {
        source.inputs.push(parse_input(&mut c, text)?);
        eat_comma(&mut c, ')')?;
    }
    c.expect_char('{', "before the operations")?;
    loop {
        if c.eat_word("return") {
            loop {
                let name = parse_name(&mut c, "the name of an output")?;
                let (value, span) = (name.value.to_string(), name.span);
                source.outputs.push(SourceOutput { name: value, span });
                if !c.eat_char(',') {
                    break;
                }
            }
            c.expect_char('}', "after the outputs")?;
            break;
        }
        if c.peek_char() == Some('}') || c.peek_char().is_none() {
            return Err(c.refuse_next_token("an operation, or `return` with the outputs"));
        }
        source.ops.push(parse_op(&mut c, text)?);
    }
    c.expect_end("the graph")?;
    Ok(source)
}

fn eat_comma(c: &mut TextCursor<'_>, close: char) -> Result<()> {
    if c.eat_char(',') || c.peek_char() == Some(close) {
        return Ok(());
    }
    Err(c.refuse_next_token(&format!("`,` or `{close}`")))
}

/// A name; dots may be part of it, as in names of parameters.
fn parse_name<'a>(c: &mut TextCursor<'a>, what: &str) -> Result<Spanned<&'a str>> {
    c.read_dotted_word().ok_or_else(|| c.refuse_next_token(what))
}

fn parse_symbol(c: &mut TextCursor<'_>) -> Result<SizeSymbol> {
    let name = parse_name(c, "the name of a symbol")?;
    if !c.eat_word("in") {
        return Err(c.refuse_next_token("`in MIN..MAX`"));
    }
    let min = c.read_integer("the smallest value")?;
    c.expect_char('.', "of `..`")?;
    c.expect_char('.', "of `..`")?;
    let max = c.read_integer("the largest value")?;
    let step = if c.eat_word("step") { c.read_integer("the step")?.value } else { 1 };
    if min.value < 0 || max.value < min.value || step < 1 || max.value % step != 0 {
        let message = "a symbol has 0 <= MIN <= MAX, and MAX is a multiple of the step";
        return Err(Diagnostic::syntax_error(name.span.start..max.span.end, message, "this range"));
    }
    Ok(SizeSymbol { name: name.value.into(), min: min.value, max: max.value, step })
}

fn parse_input(c: &mut TextCursor<'_>, text: &str) -> Result<SourceInput> {
    let name = parse_name(c, "the name of an input")?;
    c.expect_char(':', "before the dtype")?;
    let dtype_word = parse_name(c, "a dtype, such as float16")?;
    let dtype = Dtype::from_name(dtype_word.value)
        .map_err(|e| Diagnostic::meaning_error(dtype_word.span.clone(), e))?;
    c.expect_char('[', "before the size")?;
    let mut size = Vec::new();
    while !c.eat_char(']') {
        // A size is a number or a symbol, and the first character tells which.
        if c.peek_char().is_some_and(|ch| ch.is_alphabetic()) {
            size.push(SymbolicSize::Symbol(parse_name(c, "a size")?.value.into()));
        } else {
            let n = c.read_integer("a size")?;
            if n.value < 0 {
                let message = "a size is 0 or more";
                return Err(Diagnostic::syntax_error(n.span, message, "negative"));
            }
            size.push(SymbolicSize::Fixed(n.value));
        }
        eat_comma(c, ']')?;
    }
    let mut role = InputRole::Input;
    if c.eat_char('@') {
        let w = parse_name(c, "`weight`, `state` or `input`")?;
        role = InputRole::from_name(w.value).ok_or_else(|| {
            Diagnostic::syntax_error(w.span, "unknown role", "expected weight, state or input")
        })?;
    }
    let pin = parse_pin(c, text)?;
    if pin.is_some() && c.clone().eat_word("pin") {
        return Err(second_pin_error(c));
    }
    let place = if c.eat_word("place") { Some(parse_memory(c)?) } else { None };
    let span = name.span.start..c.last_token_end();
    Ok(SourceInput { name: name.value.into(), dtype, size, role, pin, place, span })
}

/// The memory after the word `place`.
fn parse_memory(c: &mut TextCursor<'_>) -> Result<RequestedMemory> {
    let w = parse_name(c, "`lx` or `memory`")?;
    RequestedMemory::from_name(w.value)
        .ok_or_else(|| Diagnostic::syntax_error(w.span, "unknown memory", "expected lx or memory"))
}

/// Whether a word that comes next is the name of a result.
fn names_a_result(c: &TextCursor<'_>, word: &str) -> bool {
    ['=', ','].into_iter().any(|sign| c.clone().word_follows(word, sign))
}

/// The refusal of a second pin, which comes next.
fn second_pin_error(c: &mut TextCursor<'_>) -> Diagnostic {
    let start = c.next_token_start();
    c.eat_word("pin");
    let message = "a tensor has one pin";
    Diagnostic::syntax_error(start..c.last_token_end(), message, "it is pinned already")
}

fn parse_pin(c: &mut TextCursor<'_>, text: &str) -> Result<Option<LayoutRequest>> {
    if !c.eat_word("pin") {
        return Ok(None);
    }
    if c.eat_word("stick") {
        let d = c.read_integer("a dimension")?;
        if d.value < 0 {
            return Err(Diagnostic::syntax_error(d.span, "a dimension is 0 or more", "negative"));
        }
        return Ok(Some(LayoutRequest::Stick(d.value)));
    }
    if c.eat_word("sparse") {
        return Ok(Some(LayoutRequest::Sparse));
    }
    if c.eat_word("order") {
        return Ok(Some(LayoutRequest::Order(c.read_int_list("dimensions")?.value)));
    }
    let start = c.next_token_start();
    if text[start..].starts_with("SpyreTensorLayout(") {
        let len = text[start..].find(')').map_or(text.len() - start, |i| i + 1);
        let layout = zellige_notation::spyre::parse(&text[start..start + len]).map_err(|d| {
            let span = d.span.start + start..d.span.end + start;
            Diagnostic { span, ..d }
        })?;
        c.skip_to_place(start + len);
        return Ok(Some(LayoutRequest::Exactly(layout)));
    }
    Err(c.refuse_next_token("`stick D`, `sparse`, `order [..]` or `SpyreTensorLayout(..)`"))
}

fn parse_op(c: &mut TextCursor<'_>, text: &str) -> Result<SourceOp> {
    let first = parse_name(c, "the name of a result")?;
    let start = first.span.start;
    let mut outputs = vec![first.value.to_string()];
    while c.eat_char(',') {
        outputs.push(parse_name(c, "the name of a result")?.value.to_string());
    }
    c.expect_char('=', "after the results")?;
    let op = parse_name(c, "the name of an operation")?.value.to_string();
    c.expect_char('(', "before the operands")?;
    let (mut inputs, mut attributes) = (Vec::new(), Map::new());
    while !c.eat_char(')') {
        let named = c.peek_char().is_some_and(|ch| ch.is_alphabetic() || ch == '_');
        if named {
            let w = parse_name(c, "an operand")?;
            if c.eat_char('=') {
                let value = parse_json(c, text)?;
                if attributes.insert(w.value.into(), value).is_some() {
                    let message = format!("`{}` is given twice", w.value);
                    return Err(Diagnostic::syntax_error(w.span, message, "already given"));
                }
            } else if attributes.is_empty() {
                inputs.push(Value::from(w.value));
            } else {
                let message = "an operand after an attribute";
                return Err(Diagnostic::syntax_error(w.span, message, "operands come first"));
            }
        } else {
            let at = c.next_token_start();
            // JSON has no infinities, so that they are read before a JSON value is tried.
            let infinity = ["+inf", "-inf"].into_iter().find(|w| text[at..].starts_with(w));
            if let Some(word) = infinity {
                c.skip_to_place(at + word.len());
                inputs.push(Value::from(word));
                eat_comma(c, ')')?;
                continue;
            }
            let value = parse_json(c, text)?;
            if !value.is_number() {
                let message = "an operand is a name or a number";
                return Err(Diagnostic::syntax_error(at..c.last_token_end(), message, "not this"));
            }
            inputs.push(value);
        }
        eat_comma(c, ')')?;
    }
    let (mut pinned, mut placed, mut hint, mut at) = (None, None, SliceHints::new(), None);
    loop {
        let next = c.clone().read_word().map(|w| w.value);
        match next {
            // `pin`, `place`, `split` and `at` are words and no keywords: graphs from models have tensors of such
            // names, and a line has no end mark.
            // A result of the next line may be called so.
            Some("pin") if pinned.is_none() && !names_a_result(c, "pin") => {
                pinned = parse_pin(c, text)?;
            }
            Some("pin") if !names_a_result(c, "pin") => return Err(second_pin_error(c)),
            Some("place") if !names_a_result(c, "place") => {
                let start = c.next_token_start();
                c.eat_word("place");
                if placed.is_some() {
                    let message = "a tensor has one place";
                    return Err(Diagnostic::syntax_error(
                        start..c.last_token_end(),
                        message,
                        "it is placed already",
                    ));
                }
                placed = Some(parse_memory(c)?);
            }
            Some("split") if hint.is_empty() && c.clone().word_follows("split", '{') => {
                c.eat_word("split");
                hint = parse_splits(c)?;
            }
            Some("at") if at.is_none() && c.clone().word_follows("at", '"') => {
                c.eat_word("at");
                let from = c.next_token_start();
                let value = parse_json(c, text)?;
                let Value::String(place) = value else {
                    let message = "a place is a text, such as \"model.py:17\"";
                    return Err(Diagnostic::syntax_error(
                        from..c.last_token_end(),
                        message,
                        "not a text",
                    ));
                };
                at = Some(place);
            }
            _ => break,
        }
    }
    let span = start..c.last_token_end();
    let (pin, place) = (pinned, placed);
    Ok(SourceOp { op, inputs, outputs, attributes, pin, place, hint, at, span })
}

fn parse_splits(c: &mut TextCursor<'_>) -> Result<SliceHints> {
    c.expect_char('{', "before the splits")?;
    let mut hint = SliceHints::new();
    while !c.eat_char('}') {
        let dim = parse_name(c, "a dimension of the iteration space, such as c0 or M")?;
        c.expect_char(':', "before the number of slices")?;
        let n = c.read_integer("the number of slices")?;
        let slices = usize::try_from(n.value).ok().filter(|n| *n > 0).ok_or_else(|| {
            Diagnostic::syntax_error(
                n.span.clone(),
                "a dimension has 1 or more slices",
                "not this many",
            )
        })?;
        if hint.iter().any(|(d, _)| d == dim.value) {
            let message = format!("`{}` is given twice", dim.value);
            return Err(Diagnostic::syntax_error(dim.span, message, "already given"));
        }
        hint.push((dim.value.into(), slices));
        eat_comma(c, '}')?;
    }
    Ok(hint)
}

/// One JSON value; a bare word is a text.
fn parse_json(c: &mut TextCursor<'_>, text: &str) -> Result<Value> {
    let start = c.next_token_start();
    if c.peek_char() == Some('[') {
        c.eat_char('[');
        let mut list = Vec::new();
        while !c.eat_char(']') {
            list.push(parse_json(c, text)?);
            eat_comma(c, ']')?;
        }
        return Ok(Value::Array(list));
    }
    if c.peek_char().is_some_and(|ch| ch.is_alphabetic() || ch == '_') {
        let w = parse_name(c, "a value")?;
        return Ok(match w.value {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            other => Value::from(other),
        });
    }
    // The token by itself: what follows a number here is no JSON.
    let rest = &text[start..];
    let len = match rest.bytes().next() {
        Some(b'"') => {
            let mut escaped = false;
            let close = rest.char_indices().skip(1).find(|(_, ch)| {
                let end = *ch == '"' && !escaped;
                escaped = *ch == '\\' && !escaped;
                end
            });
            close.map_or(rest.len(), |(i, _)| i + 1)
        }
        _ => rest
            .find(|ch: char| !(ch.is_ascii_alphanumeric() || "+-.".contains(ch)))
            .unwrap_or(rest.len()),
    };
    match serde_json::from_str(&rest[..len]) {
        Ok(value) => {
            c.skip_to_place(start + len);
            Ok(value)
        }
        Err(_) => Err(c.refuse_next_token("a number, a text, true, false, null or a list")),
    }
}
