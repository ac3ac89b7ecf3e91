//! What happened when, in simulated time, and its export for trace viewers.
//!
//! The export is the Chrome trace format, which Perfetto and `chrome://tracing` open. A card is two
//! processes, its cores and its streams; times are microseconds with all their digits.

use crate::time::SimulatedTime;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// Where an event is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimelineTrack {
    /// A core.
    Core(usize),
    /// The engine that moves bytes between host and device.
    Transfer,
    /// The link to other cards.
    Link,
    /// A stream.
    Stream(u32),
}

impl TimelineTrack {
    fn process_id(self) -> u64 {
        u64::from(matches!(self, TimelineTrack::Stream(_)))
    }

    /// The transfer engine comes first, and the link to other cards last.
    fn thread_id(self) -> u64 {
        match self {
            TimelineTrack::Transfer => 0,
            TimelineTrack::Link => 1 << 20,
            TimelineTrack::Core(core) => core as u64 + 1,
            TimelineTrack::Stream(stream) => u64::from(stream),
        }
    }

    /// What to call it.
    pub fn name(self) -> String {
        match self {
            TimelineTrack::Core(core) => format!("core {core}"),
            TimelineTrack::Transfer => "transfers".into(),
            TimelineTrack::Link => "link to other cards".into(),
            TimelineTrack::Stream(0) => "stream 0 (default)".into(),
            TimelineTrack::Stream(n @ 1..=32) => format!("stream {n} (low priority)"),
            TimelineTrack::Stream(n) => format!("stream {n} (high priority)"),
        }
    }
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineEvent {
    /// Where.
    pub track: TimelineTrack,
    /// What.
    pub name: Arc<str>,
    /// From when on.
    pub start: SimulatedTime,
    /// How long.
    pub duration: SimulatedTime,
    /// More about it, by name.
    pub args: Vec<(String, Value)>,
}

impl TimelineEvent {
    /// When it was over.
    pub fn end_time(&self) -> SimulatedTime {
        self.start + self.duration
    }
}

/// The events of a card, up to a number of them; how many more there were is counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    card: usize,
    events: Vec<TimelineEvent>,
    /// A name, a moment, a value from then on.
    counters: Vec<(&'static str, SimulatedTime, u64)>,
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
    pub fn push(&mut self, event: TimelineEvent) {
        let limit =
            if matches!(event.track, TimelineTrack::Core(_)) { self.cores } else { self.limit };
        if self.events.len() < limit {
            self.events.push(event);
        } else if self.is_recording() {
            self.dropped += 1;
        }
    }

    /// From `at` on the counter `name` is `value`.
    pub fn record_counter(&mut self, name: &'static str, at: SimulatedTime, value: u64) {
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
    pub fn events(&self) -> &[TimelineEvent] {
        &self.events
    }

    /// Events and counter values that came after the limit.
    pub fn dropped_count(&self) -> u64 {
        self.dropped
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.events.clear();
        self.counters.clear();
        self.dropped = 0;
    }

    /// Two events of one track that overlap, if there are any.
    pub fn find_overlap(&self) -> Option<(&TimelineEvent, &TimelineEvent)> {
        let mut sorted: Vec<&TimelineEvent> =
            self.events.iter().filter(|e| e.duration > SimulatedTime::ZERO).collect();
        sorted.sort_by_key(|e| (e.track, e.start, e.end_time()));
        let pair =
            sorted.windows(2).find(|w| w[0].track == w[1].track && w[0].end_time() > w[1].start);
        pair.map(|w| (w[0], w[1]))
    }

    /// The Chrome trace of this card; [`chrome_trace`] is that of several.
    pub fn to_chrome_trace(&self) -> String {
        chrome_trace(&[self])
    }

    fn process_number(&self, which: u64) -> u64 {
        2 * self.card as u64 + which
    }

    fn metadata_events(&self) -> Vec<Value> {
        let meta = |what: &str, process: u64, thread: u64, args: Value| json!({"name": what, "ph": "M", "pid": process, "tid": thread, "args": args});
        let mut out = Vec::new();
        for (which, what) in ["cores", "streams"].into_iter().enumerate() {
            let (pid, name) =
                (self.process_number(which as u64), format!("card {}: {what}", self.card));
            out.push(meta("process_name", pid, 0, json!({"name": name})));
            out.push(meta("process_sort_index", pid, 0, json!({"sort_index": pid})));
        }
        let tracks: BTreeSet<TimelineTrack> = self.events.iter().map(|e| e.track).collect();
        for track in tracks {
            let (pid, tid) = (self.process_number(track.process_id()), track.thread_id());
            out.push(meta("thread_name", pid, tid, json!({"name": track.name()})));
            out.push(meta("thread_sort_index", pid, tid, json!({"sort_index": tid})));
        }
        out
    }
}

/// The Chrome trace of several cards, one JSON object. Events come ordered by time.
pub fn chrome_trace(cards: &[&Timeline]) -> String {
    let mut lines: Vec<String> =
        cards.iter().flat_map(|t| t.metadata_events()).map(|v| v.to_string()).collect();
    let mut timed: Vec<(SimulatedTime, u64, u64, String)> = Vec::new();
    for timeline in cards {
        for event in &timeline.events {
            let (pid, tid) =
                (timeline.process_number(event.track.process_id()), event.track.thread_id());
            let args: serde_json::Map<String, Value> = event.args.iter().cloned().collect();
            let line = format!(
                r#"{{"name":{},"ph":"X","pid":{pid},"tid":{tid},"ts":{},"dur":{},"args":{}}}"#,
                Value::from(&*event.name),
                format_microseconds(event.start),
                format_microseconds(event.duration),
                Value::Object(args)
            );
            timed.push((event.start, pid, tid, line));
        }
        for (name, at, value) in &timeline.counters {
            let pid = timeline.process_number(0);
            let line = format!(
                r#"{{"name":{},"ph":"C","pid":{pid},"tid":0,"ts":{},"args":{{"value":{value}}}}}"#,
                Value::from(*name),
                format_microseconds(*at),
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
fn format_microseconds(time: SimulatedTime) -> String {
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

    fn event(track: TimelineTrack, name: &str, start: u64, duration: u64) -> TimelineEvent {
        let [start, duration] = [start, duration].map(SimulatedTime::from_picoseconds);
        let args = vec![("bytes".to_owned(), json!(128))];
        TimelineEvent { track, name: name.into(), start, duration, args }
    }

    fn example() -> Timeline {
        let mut timeline = Timeline::new(1, 100);
        timeline.push(event(TimelineTrack::Stream(40), "add \"x\"\n", 2_000_001, 500));
        timeline.push(event(TimelineTrack::Core(3), "add", 2_000_001, 500));
        timeline.push(event(TimelineTrack::Core(3), "mul", 2_000_501, 500));
        timeline.push(event(TimelineTrack::Transfer, "upload", 0, 1_500_000));
        timeline.record_counter("memory", SimulatedTime::ZERO, 256);
        timeline.record_counter("memory", SimulatedTime::from_nanoseconds(1), 256);
        timeline.record_counter("memory", SimulatedTime::from_nanoseconds(2), 512);
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
        assert_eq!(timeline.find_overlap(), None);
        timeline.push(event(TimelineTrack::Core(3), "late", 2_000_600, 1));
        let (a, b) = timeline.find_overlap().unwrap();
        assert_eq!((&*a.name, &*b.name), ("mul", "late"));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut timeline = Timeline::new(0, 1);
        timeline.push(event(TimelineTrack::Core(0), "a", 0, 1));
        timeline.push(event(TimelineTrack::Core(0), "b", 1, 1));
        assert_eq!((timeline.events().len(), timeline.dropped_count()), (1, 1));
        assert!(timeline.to_chrome_trace().contains("\"dropped_events\":1"));
        let mut off = Timeline::new(0, 0);
        off.push(event(TimelineTrack::Core(0), "a", 0, 1));
        assert_eq!((off.events().len(), off.dropped_count(), off.is_recording()), (0, 0, false));
        assert!(serde_json::from_str::<Value>(&off.to_chrome_trace()).is_ok());
    }
}
