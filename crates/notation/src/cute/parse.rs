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
//! White space never matters, and `∘` is read as `o`.

use super::atom_text::{self, AtomText};
use super::nest::Nest;
use super::read::{Read, congruent, no_strides};
use super::text::{
    CuteText, Engine, Int, LayoutText, Stride, SwizzleOf, SwizzleText, Value, WrittenModes,
};
use crate::Diagnostic;
use crate::cursor::Cursor;
use std::ops::Range;
use zellige_layout::Swizzle;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Tuples nested deeper than this are refused.
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
    let mut r = Reader { c: Cursor::new(text), text };
    let found = match atom_text::title(&r.c) {
        Some(_) => CuteText::Atom(AtomText::read(&mut r)?),
        None => r.chain()?,
    };
    r.c.finish("the layout")?;
    Ok(found)
}

/// Whether a text looks like CuTe's.
pub(super) fn recognises(text: &str) -> bool {
    let mut c = Cursor::new(text);
    if atom_text::title(&c).is_some() {
        return true;
    }
    let is_static = |text: &str| {
        text.strip_prefix('_').is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(|ch: char| ch.is_ascii_digit() || ch == '-')
        })
    };
    match c.peek() {
        Some('_') if is_static(text.trim()) => true,
        Some('(' | '_' | '?' | '-' | '0'..='9') => {
            let plain = text.replace("{}", "");
            plain.contains(':') && !plain.contains(['{', '[', '=']) || text.contains("?{")
        }
        _ => {
            let word = c.word().map(|w| w.value);
            let next = c.peek();
            match word {
                Some("Sw" | "S" | "Swizzle" | "Int" | "C") => next == Some('<'),
                Some("tensor") => {
                    c.eat('<') && (c.peek() == Some('(') || c.clone().follows("ptr", '<'))
                }
                Some("counting_iter" | "ArithTuple") => next == Some('('),
                Some(word) => POINTERS.contains(&word) && next == Some('['),
                None => false,
            }
        }
    }
}

/// A layout, or something that is none.
pub(super) enum Term {
    Modes(WrittenModes, Range<usize>),
    Value(Read),
}

pub(super) struct Reader<'a> {
    pub(super) c: Cursor<'a>,
    text: &'a str,
}

impl Reader<'_> {
    fn chain(&mut self) -> Result<CuteText> {
        if self.c.clone().follows("tensor", '<') {
            return self.dsl_tensor();
        }
        if self.swizzle_comes() {
            let (sw, span) = self.swizzle()?;
            return match self.behind_swizzle(sw)? {
                Some(layout) => Ok(CuteText::Layout(Box::new(layout))),
                None if self.c.peek().is_none() => Ok(CuteText::Swizzle(sw)),
                None => Err(self.c.expected("`o` and what is swizzled").help(format!(
                    "write {} o 0 o (8,64):(64,1)",
                    self.text.get(span).unwrap_or("Sw<3,3,3>")
                ))),
            };
        }
        if let Some(engine) = self.engine()? {
            self.then("after the pointer, and the layout")?;
            if !self.swizzle_comes() {
                let modes = self.modes()?;
                let engine = Some(engine);
                return Ok(CuteText::Layout(Box::new(LayoutText { engine, swizzle: None, modes })));
            }
            let (sw, span) = self.swizzle()?;
            return match self.behind_swizzle(sw)? {
                Some(LayoutText { engine: None, swizzle, modes })
                    if matches!(swizzle, Some((_, SwizzleOf::Elements(_)))) =>
                {
                    let engine = Some(engine);
                    Ok(CuteText::Layout(Box::new(LayoutText { engine, swizzle, modes })))
                }
                Some(_) => Err(Diagnostic::syntax(
                    span,
                    "a second pointer",
                    "behind a pointer, a swizzle acts on element offsets",
                )),
                None => Err(self.c.expected("`o` and what is swizzled")),
            };
        }
        match self.term(0)? {
            Term::Modes(modes, _) => {
                Ok(CuteText::Layout(Box::new(LayoutText { engine: None, swizzle: None, modes })))
            }
            Term::Value(read) => Ok(CuteText::Value(read.value())),
        }
    }

    /// What follows a swizzle: nothing, or the layout that it acts on.
    fn behind_swizzle(&mut self, sw: SwizzleText) -> Result<Option<LayoutText>> {
        let of = |swizzle, modes| {
            Ok(Some(LayoutText { engine: None, swizzle: Some((sw, swizzle)), modes }))
        };
        if self.c.peek() == Some('_') {
            let Some(engine) = self.pointer("_")? else {
                return Err(self
                    .c
                    .expected("`o`, or `_` and a pointer such as _smem_ptr[16b](..)"));
            };
            self.then("after the pointer, and the layout")?;
            let modes = self.modes()?;
            return of(SwizzleOf::Pointer(engine), modes);
        }
        if !self.eat_then() {
            return Ok(None);
        }
        let at = self.c.at();
        if let Some(engine) = self.pointer("")? {
            let span = at..self.c.here();
            self.then("after the pointer, and the layout")?;
            let modes = self.modes()?;
            if !matches!(&engine, Engine::Pointer { address, .. } if address == "unset") {
                return Err(Diagnostic::syntax(span, "a pointer between swizzle and layout is unset", "here")
                    .help("write smem_ptr[16b](unset), or the pointer first: Sw<3,4,3>_smem_ptr[16b](0x400) o .."));
            }
            return of(SwizzleOf::UnsetPointer(engine), modes);
        }
        match self.term(0)? {
            Term::Modes(modes, _) => of(SwizzleOf::Elements(None), modes),
            Term::Value(Read::Leaf(Value::Int(offset), span)) => {
                if offset.value().is_some_and(|v| v < 0) {
                    let message = "the offset before a swizzle is below 0";
                    return Err(Diagnostic::syntax(span, message, "offsets are 0 or more"));
                }
                self.then("after the offset, and the layout")?;
                let modes = self.modes()?;
                of(SwizzleOf::Elements(Some(offset)), modes)
            }
            Term::Value(other) => Err(Diagnostic::syntax(
                other.span(),
                "a swizzle acts on `offset o layout`",
                "neither an offset nor a layout",
            )
            .help("write Sw<3,3,3> o 0 o (8,64):(64,1)")),
        }
    }

    fn eat_then(&mut self) -> bool {
        self.c.eat('∘') || self.c.eat_word("o")
    }

    pub(super) fn then(&mut self, what: &str) -> Result<()> {
        if self.eat_then() { Ok(()) } else { Err(self.c.expected(&format!("`o` {what}"))) }
    }

    pub(super) fn swizzle_comes(&self) -> bool {
        ["Sw", "S", "Swizzle"].iter().any(|w| self.c.clone().follows(w, '<'))
    }

    pub(super) fn swizzle(&mut self) -> Result<(SwizzleText, Range<usize>)> {
        let start = self.c.at();
        let word = self.c.word().map(|w| w.value);
        self.c.expect('<', "after the name of the swizzle")?;
        let bits = self.c.int("B, the number of bits that are XORed")?.value;
        self.c.expect(',', "after B")?;
        let base = self.c.int("M, the number of low bits that stay")?.value;
        self.c.expect(',', "after M")?;
        let shift = self.c.int("S, the distance between the two bit fields")?.value;
        self.c.expect('>', "at the end of the swizzle")?;
        let span = start..self.c.here();
        self.braces()?;
        let sw = SwizzleText { bits, base, shift, dsl: word == Some("S") };
        Swizzle::new(base, bits, shift.saturating_abs(), shift >= 0).map_err(|e| {
            let help = "Sw<B,M,S> has B and M of 0 or more, and |S| of at least B";
            Diagnostic::meaning(span.clone(), e).help(help)
        })?;
        Ok((sw, span))
    }

    /// `{}`, as C++ writes a value of a type.
    fn braces(&mut self) -> Result<()> {
        if self.c.clone().eat('{') {
            self.c.eat('{');
            self.c.expect('}', "after `{`")?;
        }
        Ok(())
    }

    fn engine(&mut self) -> Result<Option<Engine>> {
        if self.c.clone().follows("counting_iter", '(') {
            self.c.word();
            self.c.expect('(', "after `counting_iter`")?;
            let first = self.c.int("the first integer")?.value;
            self.c.expect(')', "after the first integer")?;
            return Ok(Some(Engine::Counting(first)));
        }
        if self.c.clone().follows("ArithTuple", '(') {
            self.c.word();
            return match self.term(0)? {
                Term::Value(read) => Ok(Some(Engine::Coordinates(read.value()))),
                Term::Modes(_, span) => Err(Diagnostic::syntax(
                    span,
                    "`ArithTuple` begins at a coordinate",
                    "this is a layout",
                )),
            };
        }
        self.pointer("")
    }

    /// A pointer, where one comes; its word may have something before it.
    fn pointer(&mut self, before: &str) -> Result<Option<Engine>> {
        let mut ahead = self.c.clone();
        let word = ahead.word().and_then(|w| w.value.strip_prefix(before));
        let Some(word) = word.filter(|w| POINTERS.contains(w) && ahead.peek() == Some('[')) else {
            return Ok(None);
        };
        let word = word.to_string();
        self.c = ahead;
        self.c.expect('[', "after the pointer")?;
        let bits = self.bits()?;
        self.c.expect(']', "after the bits of an element")?;
        self.c.expect('(', "and the address, or `unset`")?;
        let start = self.c.at();
        let rest = &self.text[start..];
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
            return Err(Diagnostic::syntax(span, "this is no address", "here")
                .help("write (unset), or an address such as (0x7f0000000400)"));
        }
        let address = address.to_string();
        self.c.skip_to(start + len);
        self.c.expect(')', "after the address")?;
        Ok(Some(Engine::Pointer { word, bits, address }))
    }

    /// `16b`.
    pub(super) fn bits(&mut self) -> Result<i64> {
        let bits = self.c.int("the bits of an element")?;
        if !(1..=1 << 20).contains(&bits.value) {
            let message = format!("an element of {} bits", bits.value);
            return Err(Diagnostic::syntax(bits.span, message, "an element has 1 bit or more"));
        }
        if self.c.eat_word("b") { Ok(bits.value) } else { Err(self.c.expected("`b`, for bits")) }
    }

    /// A layout `shape:stride`.
    pub(super) fn modes(&mut self) -> Result<WrittenModes> {
        match self.term(0)? {
            Term::Modes(modes, _) => Ok(modes),
            Term::Value(read) => Err(no_strides(read.span())),
        }
    }

    /// A value that is no layout as a whole.
    pub(super) fn value(&mut self) -> Result<Nest<Value>> {
        match self.term(0)? {
            Term::Modes(modes, _) => Ok(Nest::Leaf(Value::Modes(modes))),
            Term::Value(read) => Ok(read.value()),
        }
    }

    pub(super) fn term(&mut self, depth: usize) -> Result<Term> {
        let shape = self.entries(depth)?;
        if !self.c.eat(':') {
            return Ok(Term::Value(shape));
        }
        let stride = self.entries(depth)?;
        let span = shape.span().start..stride.span().end;
        Ok(Term::Modes(congruent(shape, stride)?, span))
    }

    fn entries(&mut self, depth: usize) -> Result<Read> {
        let start = self.c.at();
        if !self.c.eat('(') {
            let (value, end) = self.leaf()?;
            return Ok(Read::Leaf(value, start..end));
        }
        if depth >= MAX_DEPTH {
            let message = format!("tuples are nested more than {MAX_DEPTH} deep");
            return Err(Diagnostic::syntax(start..start + 1, message, "too deep"));
        }
        let mut found = Vec::new();
        while !self.c.eat(')') {
            if !found.is_empty() {
                if !self.c.eat(',') {
                    return Err(self.c.expected("`,` or `)`"));
                }
                // Python writes a tuple of one entry with a comma.
                if found.len() == 1 && self.c.eat(')') {
                    break;
                }
            }
            found.push(match self.term(depth + 1)? {
                Term::Value(read) => read,
                Term::Modes(modes, span) => Read::Leaf(Value::Modes(modes), span),
            });
        }
        Ok(Read::Tuple(found, start..self.c.here()))
    }

    /// A leaf, and where it ends.
    fn leaf(&mut self) -> Result<(Value, usize)> {
        let start = self.c.at();
        if self.c.peek() == Some('_') {
            let word = self.c.word().map_or("_", |w| w.value);
            let minus = self.c.at() == start + 1 && self.c.peek() == Some('-');
            if word == "_" && !minus {
                return Ok((Value::Wildcard, start + 1));
            }
        }
        self.c = Cursor::new(self.text);
        self.c.skip_to(start);
        let scale = self.int()?;
        let mut end = self.c.here();
        if let (Int::Static(over), Some('/')) = (&scale, self.c.peek()) {
            let over = *over;
            self.c.eat('/');
            let start = self.c.at();
            return match self.int()? {
                Int::Static(under) if under != 0 => Ok((Value::Ratio(over, under), self.c.here())),
                _ => Err(Diagnostic::syntax(
                    start..self.c.here(),
                    "a ratio divides by a static integer other than 0",
                    "here",
                )),
            };
        }
        let mut basis = Vec::new();
        while self.c.eat('@') {
            let mode = self.c.int("the number of a mode")?;
            let Some(at) = usize::try_from(mode.value).ok().filter(|m| *m < 1 << 16) else {
                let message = format!("mode {} of a coordinate", mode.value);
                return Err(Diagnostic::syntax(mode.span, message, "modes are counted from 0"));
            };
            basis.insert(0, at);
            end = mode.span.end;
            if basis.len() > MAX_DEPTH {
                let message = format!("tuples are nested more than {MAX_DEPTH} deep");
                return Err(Diagnostic::syntax(mode.span, message, "too deep"));
            }
        }
        let plain = basis.is_empty();
        let value = if plain { Value::Int(scale) } else { Value::Basis(Stride { scale, basis }) };
        Ok((value, end))
    }

    pub(super) fn int(&mut self) -> Result<Int> {
        const WHAT: &str = "an integer such as 8 or _8, or a tuple";
        match self.c.peek() {
            Some('?') => {
                self.c.eat('?');
                self.unknown()
            }
            Some('_') => {
                // The underscore and the number are one word.
                let start = self.c.at();
                self.c.skip_to(start + 1);
                if self.c.at() != start + 1 {
                    return Err(self.c.expected("the integer, without a space"));
                }
                let value = self.c.int(WHAT)?.value;
                self.braces()?;
                Ok(Int::Static(value))
            }
            Some(c) if c.is_alphabetic() => {
                let named = ["Int", "C"].iter().any(|w| self.c.clone().follows(w, '<'));
                if !named {
                    return Err(self.c.expected(WHAT));
                }
                self.c.word();
                self.c.expect('<', "after the type")?;
                let value = self.c.int("an integer")?.value;
                self.c.expect('>', "after the integer")?;
                self.braces()?;
                Ok(Int::Static(value))
            }
            _ => Ok(Int::Bare(self.c.int(WHAT)?.value)),
        }
    }

    /// What stands in the braces of `?{i64 div=8}`.
    fn unknown(&mut self) -> Result<Int> {
        let (mut width, mut div) = (None, None);
        if self.c.clone().eat('{') {
            self.c.eat('{');
            while !self.c.eat('}') {
                let Some(word) = self.c.word() else {
                    return Err(self.c.expected("`i32`, `i64`, `div=8` or `}`"));
                };
                match word.value {
                    "i32" if width.is_none() => width = Some(32),
                    "i64" if width.is_none() => width = Some(64),
                    "div" if div.is_none() => {
                        self.c.expect('=', "after `div`")?;
                        let by = self.c.int("a divisor")?;
                        if by.value < 1 {
                            let label = "a divisor is 1 or more";
                            return Err(Diagnostic::syntax(by.span, "not a divisor", label));
                        }
                        div = Some(by.value);
                    }
                    _ => {
                        let message = "this is not known of a run-time integer";
                        let label = "expected `i32`, `i64` or `div=8`, each once";
                        return Err(Diagnostic::syntax(word.span, message, label));
                    }
                }
                let _ = self.c.eat(',');
            }
        }
        Ok(Int::Unknown { width, div })
    }
}
