//! Charts of time as standalone SVG documents.

use super::canvas::{SvgCanvas, TextAnchor, text_width};
use super::{GAP, INK, MARGIN, SOFT, SvgDocument, TextMode, WARN};
use crate::chart::{ChartBar, ChartTrack, TimeChart};
use crate::color::distinct_fills;

/// Room for the time axis.
const WIDTH: f64 = 900.0;
/// Bars drawn at most; a sentence counts what is left out.
// A bar is several elements of the document, and a browser slows down with their number.
const MAX_BARS: usize = 20_000;
/// Names in the legend.
const MAX_LEGEND_NAMES: usize = 32;

/// The chart as an SVG document; each bar carries a tooltip with its time and note.
pub fn render_chart_svg(chart: &TimeChart) -> String {
    chart_document(chart, TextMode::Font).text
}

pub(crate) fn chart_document(chart: &TimeChart, text: TextMode) -> SvgDocument {
    let names = chart.bar_names();
    let fills = distinct_fills(names.len());
    let label = chart.tracks.iter().map(|t| text_width(&t.name, 11.0)).fold(40.0, f64::max) + 10.0;
    let (left, width) = (MARGIN + label, WIDTH);
    let scale = TimeScale::new(chart.end_time());
    let mut canvas = SvgCanvas::new(text);
    let mut y = MARGIN;
    if !chart.title.is_empty() {
        y = canvas.draw_paragraph(&chart.title, MARGIN, y, label + width, 18.0, INK, true) + 2.0;
    }
    if !chart.caption.is_empty() {
        y = canvas.draw_paragraph(&chart.caption, MARGIN, y, label + width, 12.0, SOFT, false)
            + 2.0;
    }
    y += GAP * 0.6;
    let top = y;
    let bottom = top + chart.tracks.iter().map(track_height).sum::<f64>();
    for (at, name) in scale.tick_labels() {
        let x = left + at * width;
        canvas.draw_line((x, top), (x, bottom + 4.0), 0.6, "#d8dee4");
        canvas.draw_text(&name, x, bottom + 16.0, 10.0, TextAnchor::Middle, SOFT, false);
    }
    let mut left_out = chart.tracks.iter().map(|t| t.bars.len()).sum::<usize>();
    let mut room = MAX_BARS;
    for track in &chart.tracks {
        let h = track_height(track);
        canvas.draw_text(
            &track.name,
            left - 8.0,
            y + h / 2.0 + 4.0,
            11.0,
            TextAnchor::End,
            INK,
            false,
        );
        for bar in track.bars.iter().take(room) {
            let fill = names.iter().position(|n| *n == bar.name).map_or("", |i| fills[i].as_str());
            draw_chart_bar(&mut canvas, bar, track.labelled, &scale, (left, y, width, h), fill);
        }
        let drawn = track.bars.len().min(room);
        (room, left_out) = (room - drawn, left_out - drawn);
        y += h;
    }
    y = draw_name_legend(&mut canvas, &names, &fills, y + 26.0, label + width);
    if left_out > 0 {
        let note = format!("{left_out} more bars are not drawn; the trace file has them all");
        y = canvas.draw_paragraph(&note, MARGIN, y, label + width, 12.0, WARN, false);
    }
    let (width, height) = (left + width + MARGIN * 1.5, y + MARGIN);
    SvgDocument { text: canvas.finish_document(width, height, &chart.title), width, height }
}

fn track_height(track: &ChartTrack) -> f64 {
    if track.labelled { 24.0 } else { 13.0 }
}

fn draw_chart_bar(
    canvas: &mut SvgCanvas,
    bar: &ChartBar,
    labelled: bool,
    scale: &TimeScale,
    (left, y, width, h): (f64, f64, f64, f64),
    fill: &str,
) {
    let (start, end) = bar.time_span();
    let x = left + scale.x_position(start) * width;
    // Whatever happened is seen, however short it was.
    let w = (scale.x_position(end) * width + left - x).max(0.75);
    let note = if bar.note.is_empty() { String::new() } else { format!(": {}", bar.note) };
    let times = format!("{} to {}", scale.format_time(start), scale.format_time(end));
    canvas.open_group(&format!("{}, {times}{note}", bar.name));
    canvas.draw_stripe(x, y + 1.5, w, h - 3.0, fill);
    if labelled {
        let fits = |text: &str| text_width(text, 10.0) + 6.0 <= w;
        let short: String = bar.name.split(' ').next().unwrap_or("").into();
        if let Some(text) = [&bar.name, &short].into_iter().find(|t| fits(t)) {
            canvas.draw_text(text, x + 4.0, y + h / 2.0 + 3.5, 10.0, TextAnchor::Start, INK, false);
        }
    }
    canvas.close_group();
}

fn draw_name_legend(
    canvas: &mut SvgCanvas,
    names: &[&str],
    fills: &[String],
    y: f64,
    width: f64,
) -> f64 {
    let (mut x, mut y) = (MARGIN, y);
    for (name, fill) in names.iter().zip(fills).take(MAX_LEGEND_NAMES) {
        let length = 18.0 + text_width(name, 11.0) + 14.0;
        if x > MARGIN && x + length > MARGIN + width {
            (x, y) = (MARGIN, y + 18.0);
        }
        canvas.draw_rect(x, y, 13.0, 13.0, fill);
        canvas.draw_text(name, x + 18.0, y + 10.5, 11.0, TextAnchor::Start, INK, false);
        x += length;
    }
    if names.len() > MAX_LEGEND_NAMES {
        let rest = format!("and {} more", names.len() - MAX_LEGEND_NAMES);
        canvas.draw_text(&rest, MARGIN, y + 28.5, 11.0, TextAnchor::Start, SOFT, false);
        y += 18.0;
    }
    y + 22.0
}

/// A time axis from 0 to a round end, in the unit that suits it.
struct TimeScale {
    end: f64,
    step: f64,
    unit: (&'static str, f64),
}

impl TimeScale {
    fn new(end: f64) -> TimeScale {
        const UNITS: [(&str, f64); 4] = [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)];
        let end = if end > 0.0 { end } else { 1.0 };
        let unit = UNITS.into_iter().find(|(_, size)| end >= *size).unwrap_or(("ns", 1.0));
        let raw = end / 8.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw);
        TimeScale { end, step: step.unwrap_or(raw), unit }
    }

    fn x_position(&self, time: f64) -> f64 {
        time / self.end
    }

    fn format_time(&self, time: f64) -> String {
        let value = format!("{:.3}", time / self.unit.1);
        let value = value.trim_end_matches('0').trim_end_matches('.');
        format!("{value} {}", self.unit.0)
    }

    fn tick_labels(&self) -> Vec<(f64, String)> {
        let steps = std::iter::successors(Some(0.0), |n| Some(n + 1.0)).map(|n| n * self.step);
        let inside = steps.take_while(|t| *t <= self.end * 1.000_001);
        inside.map(|t| (self.x_position(t), self.format_time(t))).collect()
    }
}
