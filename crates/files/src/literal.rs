//! Parses the part of Python's literal syntax that headers of `.npy` files use.
//!
//! NumPy evaluates the header as a Python literal. Here it is parsed: strings, integers, `True`,
//! `False`, `None`, tuples, lists and dictionaries with string keys. Nothing is ever evaluated.

/// The largest depth of nested brackets, because the parser is recursive.
// A header of NumPy has depth 2: the dictionary and the shape. Records add a few levels and are
// refused anyway.
const MAX_DEPTH: usize = 16;

/// A value and the byte at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PythonLiteral {
    pub(crate) at: usize,
    pub(crate) value: LiteralValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LiteralValue {
    Text(String),
    Int(i128),
    Bool(bool),
    None,
    Tuple(Vec<PythonLiteral>),
    List(Vec<PythonLiteral>),
    Dict(Vec<(PythonLiteral, PythonLiteral)>),
}

impl PythonLiteral {
    /// Its kind, for a message.
    pub(crate) fn describe_kind(&self) -> &'static str {
        match &self.value {
            LiteralValue::Text(_) => "a string",
            LiteralValue::Int(_) => "an integer",
            LiteralValue::Bool(_) => "a boolean",
            LiteralValue::None => "None",
            LiteralValue::Tuple(_) => "a tuple",
            LiteralValue::List(_) => "a list",
            LiteralValue::Dict(_) => "a dictionary",
        }
    }
}

/// A refused text: the byte, what was found, what would be accepted.
#[derive(Debug, PartialEq)]
pub(crate) struct RefusedLiteral {
    pub(crate) at: usize,
    pub(crate) what: String,
    pub(crate) accepted: &'static str,
}

/// Parses the only literal of `text`; only blanks may surround it.
pub(crate) fn parse_literal(text: &[u8]) -> Result<PythonLiteral, RefusedLiteral> {
    let mut parser = LiteralParser { text, at: 0 };
    let literal = parser.parse_value(0)?;
    parser.skip_blanks();
    if parser.at < text.len() {
        return Err(parser.refuse_next("blanks up to the end of the header"));
    }
    Ok(literal)
}

struct LiteralParser<'a> {
    text: &'a [u8],
    at: usize,
}

impl LiteralParser<'_> {
    fn parse_value(&mut self, depth: usize) -> Result<PythonLiteral, RefusedLiteral> {
        self.skip_blanks();
        let at = self.at;
        if depth > MAX_DEPTH {
            return Err(self.refuse_next("at most 16 brackets inside each other"));
        }
        let value = match self.peek_byte() {
            Some(b'\'' | b'"') => LiteralValue::Text(self.parse_string()?),
            Some(b'-' | b'+' | b'0'..=b'9') => LiteralValue::Int(self.parse_integer()?),
            Some(b'(') => self.parse_tuple(depth)?,
            Some(b'[') => LiteralValue::List(self.parse_items(b']', depth)?.0),
            Some(b'{') => LiteralValue::Dict(self.parse_pairs(depth)?),
            Some(b'A'..=b'Z' | b'a'..=b'z' | b'_') => self.parse_word()?,
            _ => return Err(self.refuse_next("a string, number, True, False, None, (, [ or {")),
        };
        Ok(PythonLiteral { at, value })
    }

    /// Parses a tuple, or a value in parentheses: `(3)` is 3 and `(3,)` is a tuple.
    fn parse_tuple(&mut self, depth: usize) -> Result<LiteralValue, RefusedLiteral> {
        let (mut items, comma) = self.parse_items(b')', depth)?;
        match items.pop() {
            Some(only) if items.is_empty() && !comma => Ok(only.value),
            Some(last) => {
                items.push(last);
                Ok(LiteralValue::Tuple(items))
            }
            None => Ok(LiteralValue::Tuple(items)),
        }
    }

    /// Parses values between brackets, and whether a comma follows the last one.
    fn parse_items(
        &mut self,
        close: u8,
        depth: usize,
    ) -> Result<(Vec<PythonLiteral>, bool), RefusedLiteral> {
        self.at += 1;
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            self.skip_blanks();
            if self.take_byte(close) {
                return Ok((items, comma));
            }
            if !items.is_empty() && !comma {
                return Err(self.refuse_next("a comma or the closing bracket"));
            }
            items.push(self.parse_value(depth + 1)?);
            self.skip_blanks();
            comma = self.take_byte(b',');
        }
    }

    fn parse_pairs(
        &mut self,
        depth: usize,
    ) -> Result<Vec<(PythonLiteral, PythonLiteral)>, RefusedLiteral> {
        self.at += 1;
        let mut pairs: Vec<(PythonLiteral, PythonLiteral)> = Vec::new();
        let mut comma = true;
        loop {
            self.skip_blanks();
            if self.take_byte(b'}') {
                return Ok(pairs);
            }
            if !comma {
                return Err(self.refuse_next("a comma or }"));
            }
            let key = self.parse_value(depth + 1)?;
            self.skip_blanks();
            if !self.take_byte(b':') {
                return Err(self.refuse_next("a colon after the key"));
            }
            pairs.push((key, self.parse_value(depth + 1)?));
            self.skip_blanks();
            comma = self.take_byte(b',');
        }
    }

    fn parse_string(&mut self) -> Result<String, RefusedLiteral> {
        let quote = self.text[self.at];
        self.at += 1;
        let from = self.at;
        while let Some(byte) = self.peek_byte() {
            match byte {
                // NumPy writes no escapes for the types that are accepted, and decoding them would
                // be a second parser.
                b'\\' => return Err(self.refuse_next("strings without escapes")),
                b'\n' => return Err(self.refuse_next("a closing quote in the same line")),
                _ if byte == quote => {
                    let text = String::from_utf8_lossy(&self.text[from..self.at]).into_owned();
                    self.at += 1;
                    return Ok(text);
                }
                _ => self.at += 1,
            }
        }
        Err(self.refuse_next("a closing quote"))
    }

    fn parse_integer(&mut self) -> Result<i128, RefusedLiteral> {
        let from = self.at;
        let negative = self.take_byte(b'-');
        if !negative {
            self.take_byte(b'+');
        }
        let digits = self.at;
        let mut value: i128 = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek_byte() {
            let next = value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit - b'0')));
            value = next.ok_or(RefusedLiteral {
                at: from,
                what: "an integer of more than 127 bits".to_string(),
                accepted: "integers of 64 bits",
            })?;
            self.at += 1;
        }
        if self.at == digits {
            return Err(self.refuse_next("a digit"));
        }
        // Python 2 marked long integers by an `L`, and its files still exist.
        self.take_byte(b'L');
        Ok(if negative { -value } else { value })
    }

    fn parse_word(&mut self) -> Result<LiteralValue, RefusedLiteral> {
        let from = self.at;
        while let Some(b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'0'..=b'9') = self.peek_byte() {
            self.at += 1;
        }
        let known = match &self.text[from..self.at] {
            b"True" => LiteralValue::Bool(true),
            b"False" => LiteralValue::Bool(false),
            b"None" => LiteralValue::None,
            other => {
                let word = crate::error::quote_start(&String::from_utf8_lossy(other));
                let what = format!("the word `{word}`");
                return Err(RefusedLiteral { at: from, what, accepted: "True, False and None" });
            }
        };
        Ok(known)
    }

    fn peek_byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take_byte(&mut self, byte: u8) -> bool {
        let there = self.peek_byte() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r' | b'\x0c') = self.peek_byte() {
            self.at += 1;
        }
    }

    fn refuse_next(&self, accepted: &'static str) -> RefusedLiteral {
        let what = match self.peek_byte() {
            None => "the header ends".to_string(),
            Some(byte) if byte.is_ascii_graphic() => format!("found `{}`", char::from(byte)),
            Some(byte) => format!("found byte 0x{byte:02x}"),
        };
        RefusedLiteral { at: self.at, what, accepted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(literal: &PythonLiteral) -> String {
        let list = |items: &[PythonLiteral]| items.iter().map(show).collect::<Vec<_>>().join(" ");
        match &literal.value {
            LiteralValue::Text(text) => format!("'{text}'"),
            LiteralValue::Int(n) => n.to_string(),
            LiteralValue::Bool(b) => b.to_string(),
            LiteralValue::None => "none".to_string(),
            LiteralValue::Tuple(items) => format!("({})", list(items)),
            LiteralValue::List(items) => format!("[{}]", list(items)),
            LiteralValue::Dict(pairs) => {
                let pairs = pairs.iter().map(|(k, v)| format!("{}:{}", show(k), show(v)));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn literals_are_read() {
        for (text, expected) in [
            (" 'a' \n", "'a'"),
            ("\"it's\"", "'it's'"),
            ("-12", "-12"),
            ("3L", "3"),
            ("()", "()"),
            ("(3)", "3"),
            ("(3,)", "(3)"),
            ("((1, 2), (3,),)", "((1 2) (3))"),
            ("[ ('a', '<f4', (2,)), ]", "[('a' '<f4' (2))]"),
            ("{'a': True, \"b\": None,}", "{'a':true 'b':none}"),
            ("{}", "{}"),
        ] {
            assert_eq!(show(&parse_literal(text.as_bytes()).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_literal_is_refused_where_it_stands() {
        for (text, at) in [
            ("", 0),
            ("(1 2)", 3),
            ("(,)", 1),
            ("(1,,)", 3),
            ("{'a' 1}", 5),
            ("{'a': 1 'b': 2}", 8),
            ("{,}", 1),
            ("'abc", 4),
            ("'a\\x41'", 2),
            ("__import__('os')", 0),
            ("1 + 1", 2),
            ("--1", 1),
            ("1.5", 1),
            ("999999999999999999999999999999999999999999", 0),
            ("True True", 5),
            ("\u{e9}", 0),
        ] {
            assert_eq!(parse_literal(text.as_bytes()).map_err(|e| e.at), Err(at), "{text}");
        }
        assert!(parse_literal("(".repeat(100_000).as_bytes()).is_err());
    }
}
