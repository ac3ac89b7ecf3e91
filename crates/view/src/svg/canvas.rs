//! The pen: rectangles, hatching and text as SVG elements.

use crate::font;
use crate::scene::CellKind;
use crate::text_width::wrap_text;
use std::fmt::Write;

/// How text gets onto the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextMode {
    /// `<text>` in the reader's monospace font.
    Font,
    /// Strokes of the built-in font, for a rasteriser without fonts.
    #[cfg_attr(not(feature = "png"), allow(dead_code))]
    Strokes,
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextAnchor {
    Start,
    Middle,
    End,
}

/// Most tooltips and cells end up here: one growing string.
pub(super) struct SvgCanvas {
    out: String,
    mode: TextMode,
}

impl SvgCanvas {
    pub(super) fn new(mode: TextMode) -> SvgCanvas {
        SvgCanvas { out: String::new(), mode }
    }

    /// A filled rectangle with a thin outline.
    pub(super) fn draw_rect(&mut self, x: f64, y: f64, w: f64, h: f64, fill: &str) {
        let (x, y, w, h) = (format_number(x), format_number(y), format_number(w), format_number(h));
        let fill = escape_xml(fill);
        self.push_formatted(format_args!(
            r##"<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{fill}" stroke="#5b6570" stroke-width="0.6"/>"##
        ));
    }

    /// A filled rectangle without an outline.
    pub(super) fn draw_stripe(&mut self, x: f64, y: f64, w: f64, h: f64, fill: &str) {
        let (x, y, w, h) = (format_number(x), format_number(y), format_number(w), format_number(h));
        let fill = escape_xml(fill);
        self.push_formatted(format_args!(
            r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{fill}"/>"#
        ));
    }

    /// A cell that holds no element: hatched padding, or an empty dotted frame.
    pub(super) fn draw_hatch(&mut self, x: f64, y: f64, w: f64, h: f64, kind: CellKind) {
        let (x, y, w, h) = (format_number(x), format_number(y), format_number(w), format_number(h));
        let style = match kind {
            CellKind::Padding => r##"fill="url(#padding)" stroke="#8c959f" stroke-width="0.6""##,
            _ => r##"fill="#f6f8fa" stroke="#8c959f" stroke-width="0.6" stroke-dasharray="2 2""##,
        };
        self.push_formatted(format_args!(
            r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" {style}/>"#
        ));
    }

    /// A straight line.
    pub(super) fn draw_line(&mut self, from: (f64, f64), to: (f64, f64), width: f64, color: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(format_number);
        let width = format_number(width);
        self.push_formatted(format_args!(
            r#"<path d="M{x1} {y1}L{x2} {y2}" stroke="{color}" stroke-width="{width}" fill="none"/>"#
        ));
    }

    /// One line of text on a baseline.
    #[allow(clippy::too_many_arguments, reason = "a pen stroke has as many parameters")]
    pub(super) fn draw_text(
        &mut self,
        text: &str,
        x: f64,
        y: f64,
        size: f64,
        anchor: TextAnchor,
        color: &str,
        bold: bool,
    ) {
        if text.trim().is_empty() {
            return;
        }
        let color = escape_xml(color);
        match self.mode {
            TextMode::Font => {
                let anchor = match anchor {
                    TextAnchor::Start => "",
                    TextAnchor::Middle => r#" text-anchor="middle""#,
                    TextAnchor::End => r#" text-anchor="end""#,
                };
                let weight = if bold { r#" font-weight="600""# } else { "" };
                let (x, y, size, text) =
                    (format_number(x), format_number(y), format_number(size), escape_xml(text));
                self.push_formatted(format_args!(
                    r#"<text x="{x}" y="{y}" font-size="{size}" fill="{color}"{anchor}{weight}>{text}</text>"#
                ));
            }
            TextMode::Strokes => {
                let length = text_width(text, size);
                let left = match anchor {
                    TextAnchor::Start => x,
                    TextAnchor::Middle => x - length / 2.0,
                    TextAnchor::End => x - length,
                };
                let d = font::text_path(text, left, y, size);
                let width = format_number(size * if bold { 0.125 } else { 0.085 });
                self.push_formatted(format_args!(
                    r#"<path d="{d}" fill="none" stroke="{color}" stroke-width="{width}" stroke-linecap="round" stroke-linejoin="round"/>"#
                ));
            }
        }
    }

    /// Text wrapped to a width, the top of its first line at `y`; returns the bottom.
    #[allow(clippy::too_many_arguments, reason = "a pen stroke has as many parameters")]
    pub(super) fn draw_paragraph(
        &mut self,
        text: &str,
        x: f64,
        y: f64,
        width: f64,
        size: f64,
        color: &str,
        bold: bool,
    ) -> f64 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small and positive"
        )]
        let columns = (width / (size * font::ADVANCE)).floor().max(8.0) as usize;
        let mut y = y;
        for line in wrap_text(text, columns) {
            self.draw_text(&line, x, y + size * 0.95, size, TextAnchor::Start, color, bold);
            y += size * 1.4;
        }
        y
    }

    /// Opens a group with a tooltip; close it with [`SvgCanvas::close_group`].
    pub(super) fn open_group(&mut self, tooltip: &str) {
        match self.mode {
            TextMode::Font => {
                let tooltip = escape_xml(tooltip);
                self.push_formatted(format_args!("<g><title>{tooltip}</title>"));
            }
            TextMode::Strokes => self.push_formatted(format_args!("<g>")),
        }
    }

    pub(super) fn close_group(&mut self) {
        self.out.push_str("</g>\n");
    }

    /// The whole document.
    pub(super) fn finish_document(self, width: f64, height: f64, title: &str) -> String {
        let (w, h, title, body) =
            (format_number(width), format_number(height), escape_xml(title), self.out);
        let title =
            if title.is_empty() { String::new() } else { format!("<title>{title}</title>\n") };
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace">
{title}<defs><pattern id="padding" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="#eef0f2"/><path d="M-1 1L1 -1M0 6L6 0M5 7L7 5" stroke="#a3acb5" stroke-width="1"/></pattern></defs>
<rect width="{w}" height="{h}" fill="#fdfdfb"/>
{body}</svg>
"##
        )
    }

    fn push_formatted(&mut self, args: std::fmt::Arguments<'_>) {
        // A failed write to a string cannot happen.
        let _ = self.out.write_fmt(args);
    }
}

/// The width of a text in a monospace font.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a line of text is short")]
    let count = text.chars().count() as f64;
    count * size * font::ADVANCE
}

/// At most two decimals, and no trailing zeros.
fn format_number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// Text that may stand in XML, in an attribute too.
pub(crate) fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            // XML 1.0 has no way to write these.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape_xml("a<b & \"c\"\u{1}"), "a&lt;b &amp; &quot;c&quot;\u{fffd}");
        assert_eq!(
            [format_number(1.0), format_number(-0.001), format_number(2.345)],
            ["1", "0", "2.35"]
        );
    }
}
