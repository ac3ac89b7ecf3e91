//! What happened when, in simulated time, and its export for trace viewers.
//!
//! The export is the Chrome trace format, which Perfetto and `chrome://tracing` open. A card is two
//! processes, its cores and its streams; times are microseconds with all their digits.

use crate::time::Time;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// Where an event is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Track {
    /// A core.
    Core(usize),
    /// The engine that moves bytes between host and device.
    Transfer,
    /// The link to other cards.
    Link,
    /// A stream.
    Stream(u32),
}

impl Track {
    fn process(self) -> u64 {
        u64::from(matches!(self, Track::Stream(_)))
    }

    /// The transfer engine comes first, and the link to other cards last.
    fn thread(self) -> u64 {
        match self {
            Track::Transfer => 0,
            Track::Link => 1 << 20,
            Track::Core(core) => core as u64 + 1,
            Track::Stream(stream) => u64::from(stream),
        }
    }

    /// What to call it.
    pub fn name(self) -> String {
        match self {
            Track::Core(core) => format!("core {core}"),
            Track::Transfer => "transfers".into(),
            Track::Link => "link to other cards".into(),
            Track::Stream(0) => "stream 0 (default)".into(),
            Track::Stream(n @ 1..=32) => format!("stream {n} (low priority)"),
            Track::Stream(n) => format!("stream {n} (high priority)"),
        }
    }
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Where.
    pub track: Track,
    /// What.
    pub name: Arc<str>,
    /// From when on.
    pub start: Time,
    /// How long.
    pub duration: Time,
    /// More about it, by name.
    pub args: Vec<(String, Value)>,
}

impl Event {
    /// When it was over.
    pub fn end(&self) -> Time {
        self.start + self.duration
    }
}

/// The events of a card, up to a number of them; how many more there were is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    card: usize,
    events: Vec<Event>,
    /// A name, a moment, a value from then on.
    counters: Vec<(&'static str, Time, u64)>,
    limit: usize,
    /// Events from which on cores are left out.
    cores: usize,
    dropped: u64,
}

impl Timeline {
    /// A timeline of card `card` that keeps at most `limit` events, and as many counter values.
    pub fn new(card: usize, limit: usize) -> Timeline {
        Timeline { card, events: Vec::new(), counters: Vec::new(), limit, cores: limit, dropped: 0 }
    }

    /// The same, but an event of a core is dropped where so many events were kept already.
    pub fn with_cores_up_to(self, cores: usize) -> Timeline {
        Timeline { cores, ..self }
    }

    /// Whether it keeps anything at all.
    pub fn is_recording(&self) -> bool {
        self.limit > 0
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        let limit = if matches!(event.track, Track::Core(_)) { self.cores } else { self.limit };
        if self.events.len() < limit {
            self.events.push(event);
        } else if self.is_recording() {
            self.dropped += 1;
        }
    }

    /// From `at` on the counter `name` is `value`.
    pub fn count(&mut self, name: &'static str, at: Time, value: u64) {
        let last = self.counters.iter().rev().find(|c| c.0 == name);
        if last.is_some_and(|c| c.2 == value) {
            return;
        }
        if self.counters.len() < self.limit {
            self.counters.push((name, at, value));
        } else if self.is_recording() {
            self.dropped += 1;
        }
    }

    /// The events in the order they were added.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Events and counter values that came after the limit.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.events.clear();
        self.counters.clear();
        self.dropped = 0;
    }

    /// Two events of one track that overlap, if there are any.
    pub fn overlap(&self) -> Option<(&Event, &Event)> {
        let mut sorted: Vec<&Event> =
            self.events.iter().filter(|e| e.duration > Time::ZERO).collect();
        sorted.sort_by_key(|e| (e.track, e.start, e.end()));
        let pair = sorted.windows(2).find(|w| w[0].track == w[1].track && w[0].end() > w[1].start);
        pair.map(|w| (w[0], w[1]))
    }

    /// The Chrome trace of this card; [`chrome_trace`] is that of several.
    pub fn to_chrome_trace(&self) -> String {
        chrome_trace(&[self])
    }

    fn process(&self, which: u64) -> u64 {
        2 * self.card as u64 + which
    }

    fn metadata(&self) -> Vec<Value> {
        let meta = |what: &str, process: u64, thread: u64, args: Value| json!({"name": what, "ph": "M", "pid": process, "tid": thread, "args": args});
        let mut out = Vec::new();
        for (which, what) in ["cores", "streams"].into_iter().enumerate() {
            let (pid, name) = (self.process(which as u64), format!("card {}: {what}", self.card));
            out.push(meta("process_name", pid, 0, json!({"name": name})));
            out.push(meta("process_sort_index", pid, 0, json!({"sort_index": pid})));
        }
        let tracks: BTreeSet<Track> = self.events.iter().map(|e| e.track).collect();
        for track in tracks {
            let (pid, tid) = (self.process(track.process()), track.thread());
            out.push(meta("thread_name", pid, tid, json!({"name": track.name()})));
            out.push(meta("thread_sort_index", pid, tid, json!({"sort_index": tid})));
        }
        out
    }
}

/// The Chrome trace of several cards, one JSON object. Events come ordered by time.
pub fn chrome_trace(cards: &[&Timeline]) -> String {
    let mut lines: Vec<String> =
        cards.iter().flat_map(|t| t.metadata()).map(|v| v.to_string()).collect();
    let mut timed: Vec<(Time, u64, u64, String)> = Vec::new();
    for timeline in cards {
        for event in &timeline.events {
            let (pid, tid) = (timeline.process(event.track.process()), event.track.thread());
            let args: serde_json::Map<String, Value> = event.args.iter().cloned().collect();
            let line = format!(
                r#"{{"name":{},"ph":"X","pid":{pid},"tid":{tid},"ts":{},"dur":{},"args":{}}}"#,
                Value::from(&*event.name),
                microseconds(event.start),
                microseconds(event.duration),
                Value::Object(args)
            );
            timed.push((event.start, pid, tid, line));
        }
        for (name, at, value) in &timeline.counters {
            let pid = timeline.process(0);
            let line = format!(
                r#"{{"name":{},"ph":"C","pid":{pid},"tid":0,"ts":{},"args":{{"value":{value}}}}}"#,
                Value::from(*name),
                microseconds(*at),
            );
            timed.push((*at, pid, 0, line));
        }
    }
    // Stable, so that equal moments keep the order in which they were added.
    timed.sort_by_key(|(at, pid, tid, _)| (*at, *pid, *tid));
    lines.extend(timed.into_iter().map(|(.., line)| line));
    let dropped: u64 = cards.iter().map(|t| t.dropped).sum();
    format!(
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"dropped_events\":{dropped}}},\
         \"traceEvents\":[\n{}\n]}}\n",
        lines.join(",\n")
    )
}

/// Exact: a picosecond is the sixth digit.
fn microseconds(time: Time) -> String {
    let ps = time.picoseconds();
    let mut text = (ps / 1_000_000).to_string();
    if !ps.is_multiple_of(1_000_000) {
        let _ = write!(text, ".{:06}", ps % 1_000_000);
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(track: Track, name: &str, start: u64, duration: u64) -> Event {
        let [start, duration] = [start, duration].map(Time::from_picoseconds);
        let args = vec![("bytes".to_owned(), json!(128))];
        Event { track, name: name.into(), start, duration, args }
    }

    fn example() -> Timeline {
        let mut timeline = Timeline::new(1, 100);
        timeline.push(event(Track::Stream(40), "add \"x\"\n", 2_000_001, 500));
        timeline.push(event(Track::Core(3), "add", 2_000_001, 500));
        timeline.push(event(Track::Core(3), "mul", 2_000_501, 500));
        timeline.push(event(Track::Transfer, "upload", 0, 1_500_000));
        timeline.count("memory", Time::ZERO, 256);
        timeline.count("memory", Time::from_nanoseconds(1), 256);
        timeline.count("memory", Time::from_nanoseconds(2), 512);
        timeline
    }

    #[test]
    fn the_trace_is_json_with_names_and_ordered_times() {
        let trace: Value = serde_json::from_str(&example().to_chrome_trace()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |ph: &'static str| events.iter().filter(move |e| e["ph"] == ph);
        let names: Vec<&str> = of("M")
            .filter(|e| e["name"].as_str().unwrap().ends_with("_name"))
            .map(|e| e["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "card 1: cores",
                "card 1: streams",
                "core 3",
                "transfers",
                "stream 40 (high priority)"
            ]
        );
        let times: Vec<f64> =
            events.iter().filter_map(|e| e.get("ts")).map(|t| t.as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times.len() == 6, "{times:?}");
        let add = of("X").find(|e| e["name"] == "add \"x\"\n").unwrap();
        assert_eq!((add["ts"].as_f64(), add["dur"].as_f64()), (Some(2.000001), Some(0.0005)));
        assert_eq!((add["pid"].as_u64(), add["tid"].as_u64()), (Some(3), Some(40)));
        assert_eq!(add["args"]["bytes"], 128);
        let values: Vec<u64> = of("C").map(|e| e["args"]["value"].as_u64().unwrap()).collect();
        assert_eq!(values, [256, 512], "a value that stays is not repeated");
    }

    #[test]
    fn overlaps_are_found_and_touching_is_none() {
        let mut timeline = example();
        assert_eq!(timeline.overlap(), None);
        timeline.push(event(Track::Core(3), "late", 2_000_600, 1));
        let (a, b) = timeline.overlap().unwrap();
        assert_eq!((&*a.name, &*b.name), ("mul", "late"));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut timeline = Timeline::new(0, 1);
        timeline.push(event(Track::Core(0), "a", 0, 1));
        timeline.push(event(Track::Core(0), "b", 1, 1));
        assert_eq!((timeline.events().len(), timeline.dropped()), (1, 1));
        assert!(timeline.to_chrome_trace().contains("\"dropped_events\":1"));
        let mut off = Timeline::new(0, 0);
        off.push(event(Track::Core(0), "a", 0, 1));
        assert_eq!((off.events().len(), off.dropped(), off.is_recording()), (0, 0, false));
        assert!(serde_json::from_str::<Value>(&off.to_chrome_trace()).is_ok());
    }
}
