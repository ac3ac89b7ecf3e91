//! Events: places in a stream to wait for.

use super::StreamId;
use super::queue::SharedQueues;
use crate::error::{DeviceError, Result};
use std::fmt;
use std::sync::{Arc, OnceLock};
use zellige_machine::SimulatedTime;

/// The moment when everything submitted to a stream so far is done.
#[derive(Clone)]
pub struct CardEvent {
    pub(super) shared: Arc<SharedQueues>,
    pub(super) mark: Arc<EventMark>,
    pub(super) stream: StreamId,
    /// Entries of the stream up to this one.
    pub(super) position: u64,
    pub(super) time: SimulatedTime,
}

/// Whether an event has happened, and whether its stream had failed by then.
#[derive(Debug, Default)]
pub(super) struct EventMark(OnceLock<Option<DeviceError>>);

impl EventMark {
    pub(super) fn mark_happened(&self, failure: Option<DeviceError>) {
        // An event is recorded once, so the first value is the only one.
        let _ = self.0.set(failure);
    }

    pub(super) fn outcome_if_happened(&self) -> Option<&Option<DeviceError>> {
        self.0.get()
    }
}

impl CardEvent {
    /// The stream it was recorded in.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// When it happens, in simulated time.
    pub fn simulated_time(&self) -> SimulatedTime {
        self.time
    }

    /// Simulated time from this event to a later one; an error if that one is earlier, or of another card.
    pub fn elapsed_until(&self, later: &CardEvent) -> Result<SimulatedTime> {
        self.check_same_card(later)?;
        if later.time < self.time {
            return Err(DeviceError::EventsReversed { first: self.time, second: later.time });
        }
        Ok(later.time - self.time)
    }

    /// Whether the work before it is done (or was skipped).
    pub fn query(&self) -> bool {
        self.mark.outcome_if_happened().is_some()
    }

    /// Waits until it has happened; raises and clears the error of its stream.
    pub fn synchronize(&self) -> Result<()> {
        self.shared.synchronize_stream(self.stream, Some(self.position))
    }

    fn check_same_card(&self, other: &CardEvent) -> Result<()> {
        let [a, b] = [&self.shared, &other.shared].map(|s| s.card);
        if Arc::ptr_eq(&self.shared, &other.shared) {
            return Ok(());
        }
        Err(DeviceError::EventOfAnotherCard { event: b, card: a })
    }
}

impl fmt::Debug for CardEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({} of card {}, at {})", self.stream, self.shared.card, self.time)
    }
}
