//! What happened when, as plain data: bars on tracks over one time axis.

use serde::Serialize;

/// A drawing of time: one row per track, time from left to right.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TimeChart {
    /// The heading.
    pub title: String,
    /// A sentence below it.
    pub caption: String,
    /// The rows, from the top.
    pub tracks: Vec<ChartTrack>,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ChartTrack {
    /// Whose row it is.
    pub name: String,
    /// What it did; bars do not overlap.
    pub bars: Vec<ChartBar>,
    /// Whether its bars carry their names, which makes the row higher.
    pub labelled: bool,
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ChartBar {
    /// What; bars of one name have one colour.
    pub name: String,
    /// From when on, in nanoseconds; negative and infinite times are drawn at 0.
    pub start: f64,
    /// How long, in nanoseconds.
    pub length: f64,
    /// More about it, for a tooltip.
    pub note: String,
}

impl ChartBar {
    /// When it begins and ends, finite and in order.
    pub(crate) fn time_span(&self) -> (f64, f64) {
        // A chart may come from a file, and one NaN would make every coordinate of the drawing NaN.
        let real = |x: f64| if x.is_finite() { x.max(0.0) } else { 0.0 };
        (real(self.start), real(self.start) + real(self.length))
    }
}

impl TimeChart {
    /// When the last bar ends.
    pub(crate) fn end_time(&self) -> f64 {
        self.tracks.iter().flat_map(|t| &t.bars).fold(0.0, |end, b| b.time_span().1.max(end))
    }

    /// The names of bars in the order they appear.
    pub(crate) fn bar_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for bar in self.tracks.iter().flat_map(|t| &t.bars) {
            if !names.contains(&bar.name.as_str()) {
                names.push(&bar.name);
            }
        }
        names
    }
}
