//! Errors in texts: the expected syntax or meaning, and the span of the text.

use crate::visible::{is_shown_as_is, make_lines_visible, make_visible};
use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use zellige_stick::StickError;

/// An error in a text: an identifier, a message, the span in the text, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// A stable identifier: `Z001`.
    pub id: &'static str,
    /// What is wrong, in one line.
    pub message: String,
    /// The bytes of the text that it is about.
    pub span: Range<usize>,
    /// What to write under the span.
    pub label: String,
    /// What would be accepted.
    pub help: Option<String>,
    /// The refusal of the algebra behind it, where the text itself is fine.
    pub cause: Option<Box<StickError>>,
}

impl Diagnostic {
    /// A text that does not follow the grammar.
    pub fn syntax_error(
        span: Range<usize>,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic {
            id: "Z001",
            message: message.into(),
            span,
            label: label.into(),
            help: None,
            cause: None,
        }
    }

    /// A text with valid syntax and an impossible meaning.
    pub fn meaning_error(span: Range<usize>, cause: impl Into<StickError>) -> Diagnostic {
        let cause = cause.into();
        Diagnostic {
            id: "Z002",
            message: cause.to_string(),
            span,
            label: "here".into(),
            help: None,
            cause: Some(Box::new(cause)),
        }
    }

    /// The same under another identifier.
    pub fn with_id(self, id: &'static str) -> Diagnostic {
        Diagnostic { id, ..self }
    }

    /// The same with a line about what would be accepted.
    pub fn with_help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic { help: Some(help.into()), ..self }
    }

    /// The text is a layout of any shape, or of another shape than the one that was given.
    pub fn is_unshaped(&self) -> bool {
        self.id == "Z005"
    }

    /// The text is valid, but the algebra has no layout for it.
    pub fn is_beyond_algebra(&self) -> bool {
        self.id == "Z008" || self.kind() == "not_expressible"
    }

    /// The kind for programs: that of the cause, or `syntax`.
    pub fn kind(&self) -> &'static str {
        self.cause.as_ref().map_or("syntax", |c| c.kind())
    }

    /// The message with the text, in which the span is underlined.
    ///
    /// Of a long text only the surroundings of the span are shown, with `…` for the rest. An error about
    /// the text as a whole underlines its first line.
    pub fn render(&self, text: &str, color: bool) -> String {
        // Of a text of several lines, only the line in which the span begins.
        let floor = |i: usize| (0..=i.min(text.len())).rev().find(|k| text.is_char_boundary(*k));
        let start = floor(self.span.start).unwrap_or(0);
        let from = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let to = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let line = 1 + text[..start].matches('\n').count();
        let place = match text[from..to].trim_end().len() {
            length if self.span == (0..0) && length > 0 => 0..length,
            _ => start - from..self.span.end.clamp(start, to) - from,
        };
        let (shown, span) = excerpt_around(&text[from..to], &place);
        let (message, label) = (make_visible(&self.message), make_visible(&self.label));
        let mut group = Level::ERROR.primary_title(message.as_ref()).id(self.id).element(
            Snippet::source(shown.as_str())
                .line_start(line)
                .annotation(AnnotationKind::Primary.span(span).label(label.as_ref())),
        );
        let help = self.help.as_ref().map(|help| make_lines_visible(help, false));
        if let Some(help) = &help {
            group = group.element(Level::HELP.message(help.as_ref()));
        }
        let renderer = if color {
            Renderer::styled().decor_style(DecorStyle::Unicode)
        } else {
            Renderer::plain().decor_style(DecorStyle::Ascii)
        };
        renderer.render(&[group])
    }
}

/// Bytes of context on each side of the span.
const CONTEXT_BYTES: usize = 100;

/// The surroundings of a span, on one line, and the span in them.
fn excerpt_around(text: &str, span: &Range<usize>) -> (String, Range<usize>) {
    let floor =
        |i: usize| (0..=i.min(text.len())).rev().find(|k| text.is_char_boundary(*k)).unwrap_or(0);
    let start = floor(span.start);
    let end = floor(span.end).max(start).min(floor(start + 2 * CONTEXT_BYTES));
    let from = floor(start.saturating_sub(CONTEXT_BYTES));
    let to = floor(end + CONTEXT_BYTES);
    let mut shown = String::new();
    if from > 0 {
        shown.push('…');
    }
    // One character is replaced by one character, so that the underline stays below its text.
    let clean = |s: &str| -> String {
        s.chars().map(|c| if is_shown_as_is(c) { c } else { ' ' }).collect()
    };
    shown += &clean(&text[from..start]);
    let at = shown.len();
    shown += &clean(&text[start..end]);
    let until = shown.len().max(at);
    shown += &clean(&text[end..to]);
    if to < text.len() {
        shown.push('…');
    }
    if until == at {
        // The span is empty because something is missing: a space is inserted that can be underlined.
        shown.insert(at, ' ');
        return (shown, at..at + 1);
    }
    (shown, at..until)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, label) = (make_visible(&self.message), make_visible(&self.label));
        write!(f, "{message} (at byte {}: {label})", self.span.start)?;
        match &self.help {
            Some(help) => write!(f, "; {}", make_lines_visible(help, false)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// A refusal about the whole text.
impl<E: Into<StickError>> From<E> for Diagnostic {
    fn from(cause: E) -> Diagnostic {
        Diagnostic::meaning_error(0..0, cause)
    }
}
