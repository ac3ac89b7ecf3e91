//! Recordings that begin and end while the cards work: what a profiler asks for.

use super::cards;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use zellige_device::RecordingStamp;
use zellige_machine::timeline::{TimelineEvent, TimelineTrack};
use zellige_machine::{SimulatedTime, Timeline};

/// What one card did during a recording.
#[pyclass(module = "zellige", frozen)]
pub(super) struct Recorded(Timeline);

#[pymethods]
impl Recorded {
    /// The events that were kept.
    fn __len__(&self) -> usize {
        self.0.events().len()
    }

    /// Events that came after the limit.
    #[getter]
    fn dropped(&self) -> u64 {
        self.0.dropped_count()
    }

    /// Microseconds of the card's clock at which the first event starts.
    #[getter]
    fn begin_us(&self) -> f64 {
        let starts = self.0.events().iter().map(|e| e.start);
        starts.min().map_or(0.0, SimulatedTime::microseconds)
    }

    /// The operations in their streams: name, stream, start and duration in microseconds of the card,
    /// and when (nanoseconds since 1970) and in which thread the host launched it.
    fn launches(&self) -> Vec<LaunchRow> {
        self.0.events().iter().filter_map(launch_row).collect()
    }

    /// All of it as a Chrome trace in simulated time. An event of a stream says when the host asked
    /// for it (`host ns`, since 1970) and in which thread.
    fn trace(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_chrome_trace())
    }
}

type LaunchRow = (String, u32, f64, f64, u64, u64);

fn launch_row(event: &TimelineEvent) -> Option<LaunchRow> {
    let TimelineTrack::Stream(stream) = event.track else { return None };
    let stamped = |name| event.args.iter().find(|a| a.0 == name).and_then(|a| a.1.as_u64());
    let (start, duration) = (event.start.microseconds(), event.duration.microseconds());
    let (ns, thread) = (stamped("host ns")?, stamped("host thread")?);
    Some((event.name.to_string(), stream, start, duration, ns, thread))
}

/// When and by whom work was submitted: a profiler finds the operator that did so.
pub(super) fn submission_stamp() -> RecordingStamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the call has no arguments and cannot fail.
    let thread = unsafe { libc::gettid() };
    vec![("host ns", ns.into()), ("host thread", thread.into())]
}

/// Begins a recording of all cards, each up to a number of events; the key ends it.
#[pyfunction]
pub(super) fn start_recording(events: usize) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let key = NEXT.fetch_add(1, Ordering::Relaxed);
    cards::start_recording(key, events);
    key
}

/// Ends a recording: the cards that did something, with what they did.
#[pyfunction]
pub(super) fn stop_recording(key: u64) -> Vec<(usize, Recorded)> {
    let kept = cards::stop_recording(key).into_iter().filter(|(_, t)| !t.events().is_empty());
    kept.map(|(index, timeline)| (index, Recorded(timeline))).collect()
}
