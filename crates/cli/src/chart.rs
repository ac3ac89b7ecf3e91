//! A timeline of the card as a drawing.

use crate::common::printable_path;
use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use zellige_machine::Timeline;
use zellige_machine::timeline::{TimelineEvent, TimelineTrack};
use zellige_view::{ChartBar, TimeChart, png, svg};

/// The drawing as bytes of the kind that the name of the file announces.
pub(crate) fn render_chart_file(chart: &TimeChart, path: &Path) -> Result<Vec<u8>> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => Ok(svg::chart::render_chart_svg(chart).into_bytes()),
        // Two pixels for a unit, so that labels are readable on a screen of high resolution.
        Some("png") => Ok(png::render_chart_png(chart, 2.0)?),
        _ => bail!(
            "--timeline {}: a name that ends in .svg or .png is accepted",
            printable_path(path)
        ),
    }
}

/// Streams first, then the transfer engine and the link to other cards, then cores.
pub(crate) fn chart_timeline(timeline: &Timeline, title: String, caption: String) -> TimeChart {
    // Keyed by the kind of a track and its number, because the order of the map is the order of the drawing.
    let mut tracks: BTreeMap<(u8, usize), (TimelineTrack, Vec<ChartBar>)> = BTreeMap::new();
    for event in timeline.events() {
        let key = match event.track {
            TimelineTrack::Stream(n) => (0, n as usize),
            TimelineTrack::Transfer => (1, 0),
            TimelineTrack::Link => (2, 0),
            TimelineTrack::Core(n) => (3, n),
        };
        tracks.entry(key).or_insert_with(|| (event.track, Vec::new())).1.push(event_bar(event));
    }
    let tracks = tracks.into_values().map(|(track, bars)| zellige_view::ChartTrack {
        name: track.name(),
        bars,
        // Bars of cores repeat the names of the streams' bars above them, and most are too narrow for a name.
        labelled: matches!(track, TimelineTrack::Stream(_)),
    });
    TimeChart { title, caption, tracks: tracks.collect() }
}

fn event_bar(event: &TimelineEvent) -> ChartBar {
    // The reason of a move stands behind a colon.
    let name = event.name.split(':').next().unwrap_or_default().to_owned();
    let cost = event.args.iter().find(|(name, _)| name == "cost");
    let note = match cost {
        Some((_, cost)) => cost.as_str().unwrap_or_default().to_owned(),
        None => event.args.iter().map(|(n, v)| format!("{v} {n}")).collect::<Vec<_>>().join(", "),
    };
    let (start, length) = (event.start.nanoseconds(), event.duration.nanoseconds());
    ChartBar { name, start, length, note }
}
