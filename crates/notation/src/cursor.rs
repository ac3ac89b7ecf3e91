//! A cursor over a text: the lexer of every notation, and of other texts with diagnostics.

use crate::Diagnostic;
use std::ops::Range;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A parsed value with its span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

/// A position in a text. White space is skipped everywhere; so are comments, in texts that have them: from
/// a mark (`#`, or a given one) to the end of the line.
#[derive(Debug, Clone)]
pub struct TextCursor<'a> {
    text: &'a str,
    at: usize,
    comment: Option<&'static str>,
}

impl<'a> TextCursor<'a> {
    /// The beginning of a text.
    pub fn new(text: &'a str) -> TextCursor<'a> {
        TextCursor { text, at: 0, comment: None }
    }

    /// The beginning of a text with comments.
    pub fn with_comments(text: &'a str) -> TextCursor<'a> {
        TextCursor::with_comments_from(text, "#")
    }

    /// The beginning of a text whose comments begin with `mark`.
    pub fn with_comments_from(text: &'a str, mark: &'static str) -> TextCursor<'a> {
        TextCursor { text, at: 0, comment: Some(mark) }
    }

    /// The position at which the next token begins.
    pub fn next_token_start(&mut self) -> usize {
        self.skip_white_space();
        self.at
    }

    /// The end of the last token, before any white space.
    pub fn last_token_end(&self) -> usize {
        self.at
    }

    fn remaining_text(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_white_space(&mut self) {
        loop {
            let rest = self.remaining_text();
            if self.comment.is_some_and(|mark| rest.starts_with(mark)) {
                self.at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            match rest.bytes().next() {
                None => return,
                // ASCII first, because the general test for white space decodes a character and
                // this runs before every token.
                Some(b) if b.is_ascii_graphic() => return,
                Some(_) => {
                    let space = rest.len() - rest.trim_start().len();
                    if space == 0 {
                        return;
                    }
                    self.at += space;
                }
            }
        }
    }

    /// The next character that is not white space.
    pub fn peek_char(&mut self) -> Option<char> {
        self.skip_white_space();
        self.remaining_text().chars().next()
    }

    /// Eats a character if it comes next.
    pub fn eat_char(&mut self, c: char) -> bool {
        let found = self.peek_char() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    /// The span and the text of the next token, for messages.
    pub fn next_token(&mut self) -> (Range<usize>, String) {
        self.skip_white_space();
        let rest = self.remaining_text();
        let Some(first) = rest.chars().next() else { return (self.at..self.at, "the end".into()) };
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let len = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        // The text is user input, and a message repeats only enough of it to recognise the token.
        let shown: String = rest[..len].chars().take(40).collect();
        (self.at..self.at + len, format!("`{shown}`"))
    }

    /// An error at the next token.
    pub fn refuse_next_token(&mut self, what: &str) -> Diagnostic {
        let (span, found) = self.next_token();
        Diagnostic::syntax_error(
            span,
            format!("expected {what}, found {found}"),
            format!("expected {what}"),
        )
    }

    /// Eats a character, or returns an error at the token that is there instead.
    pub fn expect_char(&mut self, c: char, what: &str) -> Result<()> {
        if self.eat_char(c) {
            Ok(())
        } else {
            Err(self.refuse_next_token(&format!("`{c}` {what}")))
        }
    }

    /// A signed 64-bit integer.
    pub fn read_integer(&mut self, what: &str) -> Result<Spanned<i64>> {
        self.skip_white_space();
        let start = self.at;
        let rest = self.remaining_text();
        // Digits are taken as they are and parsed as one number, so that a number that is too large
        // is refused whole and not cut.
        let sign = usize::from(rest.starts_with('-') || rest.starts_with('+'));
        let digits = rest[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(self.refuse_next_token(what));
        }
        let span = start..start + sign + digits;
        let text = &self.text[span.clone()];
        let Ok(value) = text.parse::<i64>() else {
            // `what` is phrased for "expected ..", so its example is left out of this message.
            let name = what.split(" such as").next().unwrap_or(what);
            let message = format!("{name} does not fit in 64 bits");
            let label = "integers are from -2^63 to 2^63 - 1";
            return Err(Diagnostic::syntax_error(span, message, label).with_id("Z003"));
        };
        self.at = span.end;
        Ok(Spanned { value, span })
    }

    /// An identifier.
    pub fn read_word(&mut self) -> Option<Spanned<&'a str>> {
        self.skip_white_space();
        let rest = self.remaining_text();
        let first = rest.chars().next().filter(|c| c.is_alphabetic() || *c == '_')?;
        let len = rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| !(c.is_alphanumeric() || *c == '_'))
            .map_or(rest.len(), |(i, _)| i)
            .max(first.len_utf8());
        let span = self.at..self.at + len;
        self.at = span.end;
        Some(Spanned { value: &self.text[span.clone()], span })
    }

    /// An identifier of which dots may be part, as in the names of a model's parameters.
    pub fn read_dotted_word(&mut self) -> Option<Spanned<&'a str>> {
        let first = self.read_word()?;
        let mut end = first.span.end;
        while self.text[end..].starts_with('.') {
            let tail = &self.text[end + 1..];
            let len = tail.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(tail.len());
            if len == 0 {
                break;
            }
            end += 1 + len;
        }
        self.at = end;
        let span = first.span.start..end;
        Some(Spanned { value: &self.text[span.clone()], span })
    }

    /// Whether the next token is this word, followed by this character.
    pub fn word_follows(mut self, word: &str, then: char) -> bool {
        self.eat_word(word) && self.peek_char() == Some(then)
    }

    /// The text from a position up to the cursor.
    pub(crate) fn text_since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Moves forward to a position up to which something else has parsed the text.
    pub fn skip_to_place(&mut self, at: usize) {
        self.at = at.max(self.at).min(self.text.len());
    }

    /// Moves back to a position inside the last token: `x6xf32` is one word here, of which MLIR's grammar
    /// takes the first letter.
    pub(crate) fn return_to_place(&mut self, at: usize) {
        self.at = at.min(self.at);
    }

    /// Eats a word if it is the one given.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.read_word().is_some_and(|w| w.value == word) {
            return true;
        }
        self.at = before;
        false
    }

    /// `[1, 2, 3]` or `(1, 2, 3)`, possibly empty.
    pub fn read_int_list(&mut self, what: &str) -> Result<Spanned<Vec<i64>>> {
        let start = self.next_token_start();
        let close = if self.eat_char('[') {
            ']'
        } else if self.eat_char('(') {
            ')'
        } else {
            return Err(self.refuse_next_token(&format!("a list of {what}, such as [4, 6]")));
        };
        let mut list = Vec::new();
        while !self.eat_char(close) {
            if !list.is_empty() {
                if !self.eat_char(',') {
                    return Err(self.refuse_next_token(&format!("`,` or `{close}`")));
                }
                if self.eat_char(close) {
                    break;
                }
            }
            list.push(self.read_integer(what)?.value);
        }
        Ok(Spanned { value: list, span: start..self.at })
    }

    /// Returns an error if any token is left.
    pub fn expect_end(&mut self, what: &str) -> Result<()> {
        if self.peek_char().is_none() {
            return Ok(());
        }
        let (span, found) = self.next_token();
        Err(Diagnostic::syntax_error(
            span,
            format!("unexpected {found} after {what}"),
            "nothing more fits here",
        ))
    }
}
