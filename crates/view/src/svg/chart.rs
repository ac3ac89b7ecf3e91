//! Charts of time as standalone SVG documents.

use super::canvas::{Anchor, Canvas, text_width};
use super::{Document, GAP, INK, MARGIN, SOFT, Text, WARN};
use crate::chart::{Bar, Chart, ChartTrack};
use crate::color::swatches;

/// Room for the time axis.
const WIDTH: f64 = 900.0;
/// Bars drawn at most; what is left out is said.
const MAX_BARS: usize = 20_000;
/// Names in the legend.
const LEGEND: usize = 32;

/// The chart as an SVG document; each bar carries a tooltip with its time and note.
pub fn render(chart: &Chart) -> String {
    document(chart, Text::Font).text
}

pub(crate) fn document(chart: &Chart, text: Text) -> Document {
    let names = chart.names();
    let fills = swatches(names.len());
    let label = chart.tracks.iter().map(|t| text_width(&t.name, 11.0)).fold(40.0, f64::max) + 10.0;
    let (left, width) = (MARGIN + label, WIDTH);
    let scale = TimeScale::new(chart.end());
    let mut canvas = Canvas::new(text);
    let mut y = MARGIN;
    if !chart.title.is_empty() {
        y = canvas.paragraph(&chart.title, MARGIN, y, label + width, 18.0, INK, true) + 2.0;
    }
    if !chart.caption.is_empty() {
        y = canvas.paragraph(&chart.caption, MARGIN, y, label + width, 12.0, SOFT, false) + 2.0;
    }
    y += GAP * 0.6;
    let top = y;
    let bottom = top + chart.tracks.iter().map(height).sum::<f64>();
    for (at, name) in scale.ticks() {
        let x = left + at * width;
        canvas.line((x, top), (x, bottom + 4.0), 0.6, "#d8dee4");
        canvas.text(&name, x, bottom + 16.0, 10.0, Anchor::Middle, SOFT, false);
    }
    let mut left_out = chart.tracks.iter().map(|t| t.bars.len()).sum::<usize>();
    let mut room = MAX_BARS;
    for track in &chart.tracks {
        let h = height(track);
        canvas.text(&track.name, left - 8.0, y + h / 2.0 + 4.0, 11.0, Anchor::End, INK, false);
        for bar in track.bars.iter().take(room) {
            let fill = names.iter().position(|n| *n == bar.name).map_or("", |i| fills[i].as_str());
            draw(&mut canvas, bar, track.labelled, &scale, (left, y, width, h), fill);
        }
        let drawn = track.bars.len().min(room);
        (room, left_out) = (room - drawn, left_out - drawn);
        y += h;
    }
    y = legend(&mut canvas, &names, &fills, y + 26.0, label + width);
    if left_out > 0 {
        let note = format!("{left_out} more bars are not drawn; the trace file has them all");
        y = canvas.paragraph(&note, MARGIN, y, label + width, 12.0, WARN, false);
    }
    let (width, height) = (left + width + MARGIN * 1.5, y + MARGIN);
    Document { text: canvas.finish(width, height, &chart.title), width, height }
}

fn height(track: &ChartTrack) -> f64 {
    if track.labelled { 24.0 } else { 13.0 }
}

fn draw(
    canvas: &mut Canvas,
    bar: &Bar,
    labelled: bool,
    scale: &TimeScale,
    (left, y, width, h): (f64, f64, f64, f64),
    fill: &str,
) {
    let (start, end) = bar.span();
    let x = left + scale.at(start) * width;
    // Whatever happened is seen, however short it was.
    let w = (scale.at(end) * width + left - x).max(0.75);
    let note = if bar.note.is_empty() { String::new() } else { format!(": {}", bar.note) };
    let times = format!("{} to {}", scale.time(start), scale.time(end));
    canvas.open(&format!("{}, {times}{note}", bar.name));
    canvas.stripe(x, y + 1.5, w, h - 3.0, fill);
    if labelled {
        let fits = |text: &str| text_width(text, 10.0) + 6.0 <= w;
        let short: String = bar.name.split(' ').next().unwrap_or("").into();
        if let Some(text) = [&bar.name, &short].into_iter().find(|t| fits(t)) {
            canvas.text(text, x + 4.0, y + h / 2.0 + 3.5, 10.0, Anchor::Start, INK, false);
        }
    }
    canvas.close();
}

fn legend(canvas: &mut Canvas, names: &[&str], fills: &[String], y: f64, width: f64) -> f64 {
    let (mut x, mut y) = (MARGIN, y);
    for (name, fill) in names.iter().zip(fills).take(LEGEND) {
        let length = 18.0 + text_width(name, 11.0) + 14.0;
        if x > MARGIN && x + length > MARGIN + width {
            (x, y) = (MARGIN, y + 18.0);
        }
        canvas.rect(x, y, 13.0, 13.0, fill);
        canvas.text(name, x + 18.0, y + 10.5, 11.0, Anchor::Start, INK, false);
        x += length;
    }
    if names.len() > LEGEND {
        let rest = format!("and {} more", names.len() - LEGEND);
        canvas.text(&rest, MARGIN, y + 28.5, 11.0, Anchor::Start, SOFT, false);
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

    fn at(&self, time: f64) -> f64 {
        time / self.end
    }

    fn time(&self, time: f64) -> String {
        let value = format!("{:.3}", time / self.unit.1);
        let value = value.trim_end_matches('0').trim_end_matches('.');
        format!("{value} {}", self.unit.0)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let steps = std::iter::successors(Some(0.0), |n| Some(n + 1.0)).map(|n| n * self.step);
        let inside = steps.take_while(|t| *t <= self.end * 1.000_001);
        inside.map(|t| (self.at(t), self.time(t))).collect()
    }
}
