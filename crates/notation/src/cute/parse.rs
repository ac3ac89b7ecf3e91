//! Reading CuTe texts.
//!
//! ```text
//! text     := atom | chain
//! chain    := tensor of the Python DSL (see the file `dsl`)
//!           | [ engine "o" ] [ swizzle ( "_" pointer | "o" pointer | [ "o" int ] ) "o" ] layout
//!           | swizzle | value
//! layout   := value ":" value
//! value    := leaf | "(" [ entry { "," entry } ] ")"
//! entry    := value | layout
//! leaf     := int { "@" digits } | "_" digits "/" "_" digits | "_"
//! int      := [ "-" ] digits | "_" [ "-" ] digits | "Int" "<" int ">" [ "{}" ] | "?" [ "{" .. "}" ]
//! swizzle  := ( "Sw" | "S" | "Swizzle" ) "<" B "," M "," S ">"
//! engine   := pointer | "counting_iter" "(" int ")" | "ArithTuple" value
//! pointer  := word "[" bits "b" "]" "(" ( "unset" | address ) ")"
//! ```
//!
//! Sources in C++ are read by the file `cpp`. White space never matters, and `∘` is read as `o`.

use super::atom_text::{self, AtomText};
use super::cpp::recognises_cpp;
use super::nest::NestedTuple;
use super::read::{SpannedTerm, missing_strides_error, pair_shape_and_stride};
use super::text::{
    CuteInt, CuteStride, CuteText, CuteValue, LayoutText, SwizzleTarget, SwizzleText, TensorEngine,
    WrittenModes,
};
use crate::Diagnostic;
use crate::cursor::TextCursor;
use std::ops::Range;
use zellige_layout::Swizzle;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Tuples nested deeper than this are refused, because the parser recurses and a text may hold any number
/// of brackets.
const MAX_DEPTH: usize = 64;

/// The words before `[16b](..)`.
const POINTERS: [&str; 9] = [
    "ptr",
    "gmem_ptr",
    "smem_ptr",
    "rmem_ptr",
    "tmem_",
    "subptr",
    "gmem_subptr",
    "smem_subptr",
    "rmem_subptr",
];

/// Reads a text.
pub fn parse(text: &str) -> Result<CuteText> {
    let mut r = CuteReader::new(text);
    let found = match atom_text::find_atom_title(&r.c) {
        Some(_) => CuteText::Atom(AtomText::read_atom(&mut r)?),
        None if recognises_cpp(text) => r.read_cpp_source()?,
        None => r.read_chain()?,
    };
    r.c.expect_end("the layout")?;
    Ok(found)
}

/// Whether a text looks like CuTe's.
pub(super) fn recognises_cute(text: &str) -> bool {
    let mut c = TextCursor::new(text);
    if atom_text::find_atom_title(&c).is_some() || recognises_cpp(text) {
        return true;
    }
    // A single `_`, `_8` or `_-3` is a value of CuTe. Other words with a leading underscore are
    // not.
    let is_static = |text: &str| {
        text.strip_prefix('_').is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(|ch: char| ch.is_ascii_digit() || ch == '-')
        })
    };
    match c.peek_char() {
        Some('_') if is_static(text.trim()) => true,
        Some('(' | '_' | '?' | '-' | '0'..='9') => {
            // Empty braces are C++'s values of types, so they do not make a text JSON or a
            // dictionary.
            let plain = text.replace("{}", "");
            plain.contains(':') && !plain.contains(['{', '[', '=']) || text.contains("?{")
        }
        _ => {
            let word = c.read_word().map(|w| w.value);
            let next = c.peek_char();
            match word {
                Some("Sw" | "S" | "Swizzle" | "Int" | "C") => next == Some('<'),
                Some("tensor") => {
                    c.eat_char('<')
                        && (c.peek_char() == Some('(') || c.clone().word_follows("ptr", '<'))
                }
                Some("counting_iter" | "ArithTuple") => next == Some('('),
                Some(word) => POINTERS.contains(&word) && next == Some('['),
                None => false,
            }
        }
    }
}

/// A layout, or a value that is not a layout.
pub(super) enum CuteTerm {
    Modes(WrittenModes, Range<usize>),
    Value(SpannedTerm),
}

pub(super) struct CuteReader<'a> {
    pub(super) c: TextCursor<'a>,
    text: &'a str,
}

impl<'a> CuteReader<'a> {
    pub(super) fn new(text: &'a str) -> CuteReader<'a> {
        CuteReader { c: TextCursor::new(text), text }
    }
}

impl CuteReader<'_> {
    fn read_chain(&mut self) -> Result<CuteText> {
        // The DSL's tensor is recognised by its first word; every other form may begin with a
        // pointer, a swizzle or a shape, in this order.
        if self.c.clone().word_follows("tensor", '<') {
            return self.read_dsl_tensor();
        }
        if self.swizzle_follows() {
            let (sw, span) = self.read_swizzle()?;
            return match self.read_behind_swizzle(sw)? {
                Some(layout) => Ok(CuteText::Layout(Box::new(layout))),
                None if self.c.peek_char().is_none() => Ok(CuteText::Swizzle(sw)),
                None => {
                    Err(self.c.refuse_next_token("`o` and what is swizzled").with_help(format!(
                        "write {} o 0 o (8,64):(64,1)",
                        self.text.get(span).unwrap_or("Sw<3,3,3>")
                    )))
                }
            };
        }
        if let Some(engine) = self.read_engine()? {
            self.expect_composition_sign("after the pointer, and the layout")?;
            if !self.swizzle_follows() {
                let modes = self.read_modes()?;
                let engine = Some(engine);
                return Ok(CuteText::Layout(Box::new(LayoutText { engine, swizzle: None, modes })));
            }
            let (sw, span) = self.read_swizzle()?;
            return match self.read_behind_swizzle(sw)? {
                Some(LayoutText { engine: None, swizzle, modes })
                    if matches!(swizzle, Some((_, SwizzleTarget::Elements(_)))) =>
                {
                    let engine = Some(engine);
                    Ok(CuteText::Layout(Box::new(LayoutText { engine, swizzle, modes })))
                }
                Some(_) => Err(Diagnostic::syntax_error(
                    span,
                    "a second pointer",
                    "behind a pointer, a swizzle acts on element offsets",
                )),
                None => Err(self.c.refuse_next_token("`o` and what is swizzled")),
            };
        }
        match self.read_term(0)? {
            CuteTerm::Modes(modes, _) => {
                Ok(CuteText::Layout(Box::new(LayoutText { engine: None, swizzle: None, modes })))
            }
            CuteTerm::Value(read) => Ok(CuteText::Value(read.into_nested_value())),
        }
    }

    /// What follows a swizzle: nothing, or the layout that it acts on.
    fn read_behind_swizzle(&mut self, sw: SwizzleText) -> Result<Option<LayoutText>> {
        let of = |swizzle, modes| {
            Ok(Some(LayoutText { engine: None, swizzle: Some((sw, swizzle)), modes }))
        };
        if self.c.peek_char() == Some('_') {
            let Some(engine) = self.read_pointer("_")? else {
                return Err(self
                    .c
                    .refuse_next_token("`o`, or `_` and a pointer such as _smem_ptr[16b](..)"));
            };
            self.expect_composition_sign("after the pointer, and the layout")?;
            let modes = self.read_modes()?;
            return of(SwizzleTarget::Pointer(engine), modes);
        }
        if !self.eat_composition_sign() {
            return Ok(None);
        }
        let at = self.c.next_token_start();
        if let Some(engine) = self.read_pointer("")? {
            let span = at..self.c.last_token_end();
            self.expect_composition_sign("after the pointer, and the layout")?;
            let modes = self.read_modes()?;
            if !matches!(&engine, TensorEngine::Pointer { address, .. } if address == "unset") {
                return Err(Diagnostic::syntax_error(span, "a pointer between swizzle and layout is unset", "here")
                    .with_help("write smem_ptr[16b](unset), or the pointer first: Sw<3,4,3>_smem_ptr[16b](0x400) o .."));
            }
            return of(SwizzleTarget::UnsetPointer(engine), modes);
        }
        match self.read_term(0)? {
            CuteTerm::Modes(modes, _) => of(SwizzleTarget::Elements(None), modes),
            CuteTerm::Value(SpannedTerm::Leaf(CuteValue::Int(offset), span)) => {
                if offset.known_value().is_some_and(|v| v < 0) {
                    let message = "the offset before a swizzle is below 0";
                    return Err(Diagnostic::syntax_error(span, message, "offsets are 0 or more"));
                }
                self.expect_composition_sign("after the offset, and the layout")?;
                let modes = self.read_modes()?;
                of(SwizzleTarget::Elements(Some(offset)), modes)
            }
            CuteTerm::Value(other) => Err(Diagnostic::syntax_error(
                other.span(),
                "a swizzle acts on `offset o layout`",
                "neither an offset nor a layout",
            )
            .with_help("write Sw<3,3,3> o 0 o (8,64):(64,1)")),
        }
    }

    fn eat_composition_sign(&mut self) -> bool {
        self.c.eat_char('∘') || self.c.eat_word("o")
    }

    pub(super) fn expect_composition_sign(&mut self, what: &str) -> Result<()> {
        if self.eat_composition_sign() {
            Ok(())
        } else {
            Err(self.c.refuse_next_token(&format!("`o` {what}")))
        }
    }

    pub(super) fn swizzle_follows(&self) -> bool {
        ["Sw", "S", "Swizzle"].iter().any(|w| self.c.clone().word_follows(w, '<'))
    }

    pub(super) fn read_swizzle(&mut self) -> Result<(SwizzleText, Range<usize>)> {
        let start = self.c.next_token_start();
        let word = self.c.read_word().map(|w| w.value);
        self.c.expect_char('<', "after the name of the swizzle")?;
        let bits = self.c.read_integer("B, the number of bits that are XORed")?.value;
        self.c.expect_char(',', "after B")?;
        let base = self.c.read_integer("M, the number of low bits that stay")?.value;
        self.c.expect_char(',', "after M")?;
        let shift = self.c.read_integer("S, the distance between the two bit fields")?.value;
        self.c.expect_char('>', "at the end of the swizzle")?;
        let span = start..self.c.last_token_end();
        self.read_empty_braces()?;
        let sw = SwizzleText { bits, base, shift, dsl: word == Some("S") };
        Swizzle::new(base, bits, shift.saturating_abs(), shift >= 0).map_err(|e| {
            let help = "Sw<B,M,S> has B and M of 0 or more, and |S| of at least B";
            Diagnostic::meaning_error(span.clone(), e).with_help(help)
        })?;
        Ok((sw, span))
    }

    /// `{}`, as C++ writes a value of a type.
    pub(super) fn read_empty_braces(&mut self) -> Result<()> {
        if self.c.clone().eat_char('{') {
            self.c.eat_char('{');
            self.c.expect_char('}', "after `{`")?;
        }
        Ok(())
    }

    fn read_engine(&mut self) -> Result<Option<TensorEngine>> {
        if self.c.clone().word_follows("counting_iter", '(') {
            self.c.read_word();
            self.c.expect_char('(', "after `counting_iter`")?;
            let first = self.c.read_integer("the first integer")?.value;
            self.c.expect_char(')', "after the first integer")?;
            return Ok(Some(TensorEngine::Counting(first)));
        }
        if self.c.clone().word_follows("ArithTuple", '(') {
            self.c.read_word();
            return match self.read_term(0)? {
                CuteTerm::Value(read) => {
                    Ok(Some(TensorEngine::Coordinates(read.into_nested_value())))
                }
                CuteTerm::Modes(_, span) => Err(Diagnostic::syntax_error(
                    span,
                    "`ArithTuple` begins at a coordinate",
                    "this is a layout",
                )),
            };
        }
        self.read_pointer("")
    }

    /// A pointer, if the next token is one; `before` is the prefix of its word.
    fn read_pointer(&mut self, before: &str) -> Result<Option<TensorEngine>> {
        let mut ahead = self.c.clone();
        let word = ahead.read_word().and_then(|w| w.value.strip_prefix(before));
        let Some(word) = word.filter(|w| POINTERS.contains(w) && ahead.peek_char() == Some('['))
        else {
            return Ok(None);
        };
        let word = word.to_string();
        self.c = ahead;
        self.c.expect_char('[', "after the pointer")?;
        let bits = self.read_element_bits()?;
        self.c.expect_char(']', "after the bits of an element")?;
        self.c.expect_char('(', "and the address, or `unset`")?;
        let start = self.c.next_token_start();
        let rest = &self.text[start..];
        // glibc prints a null pointer as `(nil)`, with the brackets that otherwise end the address.
        let nil = rest.starts_with("(nil)");
        let len = if nil { 5 } else { rest.find(')').unwrap_or(rest.len()) };
        let address = rest[..len].trim_end();
        let hex =
            |s: &str| !s.is_empty() && s.len() <= 16 && s.bytes().all(|b| b.is_ascii_hexdigit());
        let numbers = address.strip_prefix("0x").is_some_and(|a| match a.split_once(['.', '+']) {
            Some((high, low)) => hex(high) && hex(low),
            None => hex(a),
        });
        if !(nil || numbers || matches!(address, "unset" | "nullptr")) {
            let span = start..start + address.len();
            return Err(Diagnostic::syntax_error(span, "this is not an address", "here")
                .with_help("write (unset), or an address such as (0x7f0000000400)"));
        }
        let address = address.to_string();
        self.c.skip_to_place(start + len);
        self.c.expect_char(')', "after the address")?;
        Ok(Some(TensorEngine::Pointer { word, bits, address }))
    }

    /// `16b`.
    pub(super) fn read_element_bits(&mut self) -> Result<i64> {
        let bits = self.c.read_integer("the bits of an element")?;
        // A bound far above any type, so that products with it cannot overflow.
        if !(1..=1 << 20).contains(&bits.value) {
            let message = format!("an element of {} bits", bits.value);
            return Err(Diagnostic::syntax_error(
                bits.span,
                message,
                "an element has 1 bit or more",
            ));
        }
        if self.c.eat_word("b") {
            Ok(bits.value)
        } else {
            Err(self.c.refuse_next_token("`b`, for bits"))
        }
    }

    /// A layout `shape:stride`.
    pub(super) fn read_modes(&mut self) -> Result<WrittenModes> {
        match self.read_term(0)? {
            CuteTerm::Modes(modes, _) => Ok(modes),
            CuteTerm::Value(read) => Err(missing_strides_error(read.span())),
        }
    }

    /// A value that is no layout as a whole.
    pub(super) fn read_value(&mut self) -> Result<NestedTuple<CuteValue>> {
        match self.read_term(0)? {
            CuteTerm::Modes(modes, _) => Ok(NestedTuple::Leaf(CuteValue::Modes(modes))),
            CuteTerm::Value(read) => Ok(read.into_nested_value()),
        }
    }

    pub(super) fn read_term(&mut self, depth: usize) -> Result<CuteTerm> {
        let shape = self.read_entries(depth)?;
        if !self.c.eat_char(':') {
            return Ok(CuteTerm::Value(shape));
        }
        let stride = self.read_entries(depth)?;
        let span = shape.span().start..stride.span().end;
        Ok(CuteTerm::Modes(pair_shape_and_stride(shape, stride)?, span))
    }

    fn read_entries(&mut self, depth: usize) -> Result<SpannedTerm> {
        let start = self.c.next_token_start();
        if !self.c.eat_char('(') {
            let (value, end) = self.read_leaf()?;
            return Ok(SpannedTerm::Leaf(value, start..end));
        }
        if depth >= MAX_DEPTH {
            let message = format!("tuples are nested more than {MAX_DEPTH} deep");
            return Err(Diagnostic::syntax_error(start..start + 1, message, "too deep"));
        }
        let mut found = Vec::new();
        while !self.c.eat_char(')') {
            if !found.is_empty() {
                if !self.c.eat_char(',') {
                    return Err(self.c.refuse_next_token("`,` or `)`"));
                }
                // Python prints a tuple of one entry with a trailing comma.
                if found.len() == 1 && self.c.eat_char(')') {
                    break;
                }
            }
            found.push(match self.read_term(depth + 1)? {
                CuteTerm::Value(read) => read,
                CuteTerm::Modes(modes, span) => SpannedTerm::Leaf(CuteValue::Modes(modes), span),
            });
        }
        Ok(SpannedTerm::Tuple(found, start..self.c.last_token_end()))
    }

    /// A leaf, and where it ends.
    fn read_leaf(&mut self) -> Result<(CuteValue, usize)> {
        let start = self.c.next_token_start();
        if self.c.peek_char() == Some('_') {
            let word = self.c.read_word().map_or("_", |w| w.value);
            let minus = self.c.next_token_start() == start + 1 && self.c.peek_char() == Some('-');
            // `_` is the wildcard unless a minus follows directly: `_-3` is a static integer.
            if word == "_" && !minus {
                return Ok((CuteValue::Wildcard, start + 1));
            }
        }
        self.c = TextCursor::new(self.text);
        self.c.skip_to_place(start);
        let scale = self.read_cute_int()?;
        let mut end = self.c.last_token_end();
        if let (CuteInt::Static(over), Some('/')) = (&scale, self.c.peek_char()) {
            let over = *over;
            self.c.eat_char('/');
            let start = self.c.next_token_start();
            return match self.read_cute_int()? {
                CuteInt::Static(under) if under != 0 => {
                    Ok((CuteValue::Ratio(over, under), self.c.last_token_end()))
                }
                _ => Err(Diagnostic::syntax_error(
                    start..self.c.last_token_end(),
                    "a ratio divides by a static integer other than 0",
                    "here",
                )),
            };
        }
        let mut basis = Vec::new();
        while self.c.eat_char('@') {
            let mode = self.c.read_integer("the number of a mode")?;
            let Some(at) = usize::try_from(mode.value).ok().filter(|m| *m < 1 << 16) else {
                let message = format!("mode {} of a coordinate", mode.value);
                return Err(Diagnostic::syntax_error(
                    mode.span,
                    message,
                    "modes are counted from 0",
                ));
            };
            // `1@0@1` is written from the innermost mode outwards, and a basis is stored from the
            // outermost inwards.
            basis.insert(0, at);
            end = mode.span.end;
            if basis.len() > MAX_DEPTH {
                let message = format!("tuples are nested more than {MAX_DEPTH} deep");
                return Err(Diagnostic::syntax_error(mode.span, message, "too deep"));
            }
        }
        let plain = basis.is_empty();
        let value = if plain {
            CuteValue::Int(scale)
        } else {
            CuteValue::Basis(CuteStride { scale, basis })
        };
        Ok((value, end))
    }

    pub(super) fn read_cute_int(&mut self) -> Result<CuteInt> {
        const WHAT: &str = "an integer such as 8 or _8, or a tuple";
        match self.c.peek_char() {
            Some('?') => {
                self.c.eat_char('?');
                self.read_unknown_int()
            }
            Some('_') => {
                // An underscore and its number are one token of the cursor, so the number is parsed from
                // the byte after the underscore.
                let start = self.c.next_token_start();
                self.c.skip_to_place(start + 1);
                if self.c.next_token_start() != start + 1 {
                    return Err(self.c.refuse_next_token("the integer, without a space"));
                }
                let value = self.c.read_integer(WHAT)?.value;
                self.read_empty_braces()?;
                Ok(CuteInt::Static(value))
            }
            Some(c) if c.is_alphabetic() => {
                let named = ["Int", "C"].iter().any(|w| self.c.clone().word_follows(w, '<'));
                if !named {
                    return Err(self.c.refuse_next_token(WHAT));
                }
                self.c.read_word();
                self.c.expect_char('<', "after the type")?;
                let value = self.c.read_integer("an integer")?.value;
                self.c.expect_char('>', "after the integer")?;
                self.read_empty_braces()?;
                Ok(CuteInt::Static(value))
            }
            _ => Ok(CuteInt::Bare(self.c.read_integer(WHAT)?.value)),
        }
    }

    /// The properties in the braces of `?{i64 div=8}`.
    fn read_unknown_int(&mut self) -> Result<CuteInt> {
        let (mut width, mut div) = (None, None);
        if self.c.clone().eat_char('{') {
            self.c.eat_char('{');
            while !self.c.eat_char('}') {
                let Some(word) = self.c.read_word() else {
                    return Err(self.c.refuse_next_token("`i32`, `i64`, `div=8` or `}`"));
                };
                match word.value {
                    "i32" if width.is_none() => width = Some(32),
                    "i64" if width.is_none() => width = Some(64),
                    "div" if div.is_none() => {
                        self.c.expect_char('=', "after `div`")?;
                        let by = self.c.read_integer("a divisor")?;
                        if by.value < 1 {
                            let label = "a divisor is 1 or more";
                            return Err(Diagnostic::syntax_error(by.span, "not a divisor", label));
                        }
                        div = Some(by.value);
                    }
                    _ => {
                        let message = "unknown property of a run-time integer";
                        let label = "expected `i32`, `i64` or `div=8`, each once";
                        return Err(Diagnostic::syntax_error(word.span, message, label));
                    }
                }
                let _ = self.c.eat_char(',');
            }
        }
        Ok(CuteInt::Unknown { width, div })
    }
}
