//! Draws a scatter plot of predicted against measured times, both on logarithmic axes.

use super::FidelityComparison;
use super::case::{Category, MeasuredQuantity};
use std::fmt::Write;

/// The side of the square plot area, in units of the SVG.
const SIDE: f64 = 560.0;
/// The widths left of the plot (labels of the axis) and right of it (legend), and the height above it (title).
const LEFT: f64 = 70.0;
const TOP: f64 = 48.0;
const LEGEND: f64 = 190.0;

/// One colour per category, used on a light and on a dark page. The first six are from Okabe and Ito's palette, without
/// its black and its yellow; the palette has no more, so the others are further hues.
const COLORS: [&str; 18] = [
    "#0072b2", "#d55e00", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#8a6d00", "#7a5195",
    "#bc5090", "#2f9e44", "#ef5675", "#ff764a", "#3b8ea5", "#a05195", "#6b8e23", "#8b4513",
    "#708090", "#4682b4",
];

/// Draws all rows whose measured quantity is a time. Rates are left out because they have another unit. The colours of
/// the page follow the reader's light or dark scheme.
pub fn draw_scatter(comparison: &FidelityComparison) -> String {
    let points: Vec<(f64, f64, Category, String)> = comparison
        .rows
        .iter()
        .filter(|r| {
            r.case.quantity == MeasuredQuantity::Time && r.measured > 0.0 && r.predicted > 0.0
        })
        .map(|r| (r.measured, r.predicted, r.case.category, format!("{}: {}", r.id, r.what)))
        .collect();
    let all = points.iter().flat_map(|p| [p.0, p.1]);
    // The axes cover whole decades around all points, from 1e-3 to 1e9 us at most. The limits also apply if there are
    // no points: both folds return their initial value then.
    let low = all.clone().fold(f64::MAX, f64::min).clamp(1e-3, 1e6).log10().floor();
    let high = all.fold(f64::MIN, f64::max).clamp(1.0, 1e9).log10().ceil().max(low + 1.0);
    let at = |us: f64| (us.log10() - low) / (high - low) * SIDE;
    let (x, y) = (|us: f64| LEFT + at(us), |us: f64| TOP + SIDE - at(us));
    let (width, height) = (LEFT + SIDE + LEGEND, TOP + SIDE + 56.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Predicted beside measured kernel times</title>\n<style>\n\
         .page{{fill:#fff}}.ink{{fill:#24292f}}.soft{{fill:#57606a}}.grid{{stroke:#d8dee4}}.line{{stroke:#57606a;fill:none}}\n\
         @media(prefers-color-scheme:dark){{.page{{fill:#14171a}}.ink{{fill:#e6e8ea}}.soft{{fill:#98a2ac}}.grid{{stroke:#30363c}}.line{{stroke:#98a2ac}}}}\n\
         </style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n"
    );
    let _ = writeln!(
        out,
        "<text class=\"ink\" x=\"{LEFT}\" y=\"24\" font-size=\"16\">Predicted beside measured kernel times, preset {}: {} rows</text>",
        comparison.hardware,
        points.len()
    );
    #[expect(clippy::cast_possible_truncation, reason = "whole numbers between -3 and 9")]
    for decade in low as i32..=high as i32 {
        let us = 10_f64.powi(decade);
        let (px, py) = (x(us), y(us));
        let name = match decade {
            d if d < 0 => format!("{us} us"),
            d if d < 3 => format!("{us:.0} us"),
            d if d < 6 => format!("{:.0} ms", us / 1e3),
            _ => format!("{:.0} s", us / 1e6),
        };
        let (bottom, right) = (TOP + SIDE, LEFT + SIDE);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{px:.1} {TOP}V{bottom}M{LEFT} {py:.1}H{right}\"/>\
             <text class=\"soft\" x=\"{px:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>\
             <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            bottom + 18.0,
            LEFT - 6.0,
            py + 4.0
        );
    }
    let (first, last) = (10_f64.powf(low), 10_f64.powf(high));
    // Three lines: the diagonal, and beside it predictions that are 15 % too slow or too fast.
    for (factor, dash) in [
        (1.0_f64, ""),
        (1.15, " stroke-dasharray=\"3 3\""),
        (1.0 / 1.15, " stroke-dasharray=\"3 3\""),
    ] {
        let (from, to) = (first * factor.recip().max(1.0), last * factor.recip().min(1.0));
        let _ = writeln!(
            out,
            "<path class=\"line\"{dash} d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            x(from),
            y(from * factor),
            x(to),
            y(to * factor)
        );
    }
    for (i, category) in Category::ALL.iter().enumerate() {
        let list: Vec<_> = points.iter().filter(|p| p.2 == *category).collect();
        if list.is_empty() {
            continue;
        }
        let color = COLORS[i % COLORS.len()];
        let _ = writeln!(out, "<g fill=\"{color}\" fill-opacity=\"0.6\">");
        for (measured, predicted, _, what) in list {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\"><title>{}, measured {measured:.1} us, predicted {predicted:.1} us</title></circle>",
                x(*measured),
                y(*predicted),
                escape_xml(what)
            );
        }
        out += "</g>\n";
    }
    let mut py = TOP + 10.0;
    for (i, category) in Category::ALL.iter().enumerate() {
        let count = points.iter().filter(|p| p.2 == *category).count();
        if count > 0 {
            let px = LEFT + SIDE + 20.0;
            let color = COLORS[i % COLORS.len()];
            let _ = writeln!(
                out,
                "<circle cx=\"{px}\" cy=\"{:.1}\" r=\"5\" fill=\"{color}\"/><text class=\"ink\" x=\"{}\" y=\"{py:.1}\">{} ({count})</text>",
                py - 4.0,
                px + 12.0,
                category.name()
            );
            py += 19.0;
        }
    }
    let (middle, bottom) = (LEFT + SIDE / 2.0, TOP + SIDE + 42.0);
    let _ = writeln!(
        out,
        "<text class=\"ink\" x=\"{middle}\" y=\"{bottom}\" text-anchor=\"middle\">measured</text>\
         <text class=\"ink\" x=\"16\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {0})\">predicted</text>\n</svg>",
        TOP + SIDE / 2.0
    );
    out
}

/// Escapes text for use inside an XML element. Control characters become spaces, because most are not allowed in XML.
fn escape_xml(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut out = String::with_capacity(text.len());
    for c in visible {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            c => out.push(c),
        }
    }
    out
}
