//! The worker of a card.

use super::event::{CardEvent, EventMark};
use super::queue::{SharedQueues, StreamStep};
use super::{STREAM_COUNT, StreamId};
use crate::error::{DeviceError, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use zellige_machine::SimulatedTime;

/// The streams of one card and the thread that does their work, which begins with the first piece.
///
/// Dropping them finishes what was submitted and ends the thread.
pub struct CardStreams {
    shared: Arc<SharedQueues>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl CardStreams {
    /// The streams of card `card`, all empty.
    pub fn new(card: usize) -> CardStreams {
        CardStreams { shared: Arc::new(SharedQueues::new(card)), worker: Mutex::new(None) }
    }

    /// Appends work to a stream. `op` names it in errors.
    pub fn submit_job(
        &self,
        stream: StreamId,
        op: impl Into<String>,
        job: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.start_worker()?;
        self.shared.submit_step(stream, StreamStep::Run(op.into(), Box::new(job)));
        Ok(())
    }

    /// Does work in the calling thread, when everything submitted to the stream before is done.
    ///
    /// An error of earlier work is raised instead, and cleared; an error of this one is returned and
    /// not kept for later work.
    pub fn run_job<T>(&self, stream: StreamId, job: impl FnOnce() -> Result<T>) -> Result<T> {
        self.take_turn(stream)?.run_job(job)
    }

    /// A place in a stream for work that the calling thread will do.
    pub(crate) fn take_turn(&self, stream: StreamId) -> Result<StreamTurn<'_>> {
        if self.shared.is_working_thread() {
            let (card, stream) = (self.shared.card, stream.number());
            return Err(DeviceError::WaitsForItself { card, stream });
        }
        Ok(StreamTurn {
            shared: &self.shared,
            stream,
            position: self.shared.submit_step(stream, StreamStep::Own),
        })
    }

    /// The event that everything submitted to a stream so far is done; `time` is when, simulated.
    pub fn record_event(&self, stream: StreamId, time: SimulatedTime) -> CardEvent {
        let mark = Arc::new(EventMark::default());
        let position = self.shared.submit_step(stream, StreamStep::Record(mark.clone()));
        CardEvent { shared: self.shared.clone(), mark, stream, position, time }
    }

    /// Later work of a stream waits until the event has happened.
    pub fn wait_for_event(&self, stream: StreamId, event: &CardEvent) -> Result<()> {
        // An event of another card has a simulated clock of its own, which cannot be compared with this one.
        if !Arc::ptr_eq(&self.shared, &event.shared) {
            let (event, card) = (event.shared.card, self.shared.card);
            return Err(DeviceError::EventOfAnotherCard { event, card });
        }
        self.shared.submit_step(stream, StreamStep::Wait(event.mark.clone()));
        Ok(())
    }

    /// Waits until everything submitted to a stream so far is done; raises and clears its error.
    pub fn synchronize_stream(&self, stream: StreamId) -> Result<()> {
        self.shared.synchronize_stream(stream, None)
    }

    /// Waits for all streams. Raises and clears the error of the first stream that failed; errors of
    /// others stay for the next call.
    pub fn synchronize_all(&self) -> Result<()> {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        // Everything is done before an error is looked at, so that raising one leaves nothing running.
        let events: Vec<CardEvent> = (0..STREAM_COUNT)
            .map(|n| Ok(self.record_event(StreamId::new(number(n))?, SimulatedTime::ZERO)))
            .collect::<Result<_>>()?;
        self.shared.wait_for_entries(events.iter().map(|e| (e.stream, e.position)))?;
        events.iter().try_for_each(CardEvent::synchronize)
    }

    fn start_worker(&self) -> Result<()> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        // Started with the first background work: many cards only run work in the calling thread.
        if worker.is_none() {
            let shared = self.shared.clone();
            let name = format!("card {}", shared.card);
            let thread = Builder::new().name(name).spawn(move || shared.work_until_closed());
            *worker = Some(thread.map_err(|e| DeviceError::NoWorker {
                card: self.shared.card,
                reason: e.to_string(),
            })?);
        }
        Ok(())
    }
}

/// A place in a stream, which waits until it is [run](StreamTurn::run_job).
#[must_use = "the stream waits for it"]
pub(crate) struct StreamTurn<'s> {
    shared: &'s SharedQueues,
    stream: StreamId,
    position: u64,
}

impl StreamTurn<'_> {
    pub(crate) fn run_job<T>(self, job: impl FnOnce() -> Result<T>) -> Result<T> {
        self.shared.run_in_turn(self.stream, self.position, job)
    }
}

impl Drop for CardStreams {
    fn drop(&mut self) {
        self.shared.close_queues();
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Work may hold the last handle of its own card: then the worker ends by itself.
        if let Some(worker) = worker
            && !self.shared.is_working_thread()
        {
            // Panics of jobs are caught, so the worker itself does not panic.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for CardStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Streams(card {})", self.shared.card)
    }
}
