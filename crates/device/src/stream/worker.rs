//! The worker of a card.

use super::event::{Event, Mark};
use super::queue::{Shared, Step};
use super::{STREAMS, StreamId};
use crate::error::{DeviceError, Result};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use zellige_machine::SimulatedTime;

/// The streams of one card and the thread that does their work, which begins with the first piece.
///
/// Dropping them finishes what was submitted and ends the thread.
pub struct Streams {
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Streams {
    /// The streams of card `card`, all empty.
    pub fn new(card: usize) -> Streams {
        Streams { shared: Arc::new(Shared::new(card)), worker: Mutex::new(None) }
    }

    /// Appends work to a stream. `op` names it in errors.
    pub fn submit(
        &self,
        stream: StreamId,
        op: impl Into<String>,
        job: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.start()?;
        self.shared.submit(stream, Step::Run(op.into(), Box::new(job)));
        Ok(())
    }

    /// Does work in the calling thread, when everything submitted to the stream before is done.
    ///
    /// An error of earlier work is raised instead, and cleared; an error of this one is the answer and
    /// does not stick.
    pub fn run<T>(&self, stream: StreamId, job: impl FnOnce() -> Result<T>) -> Result<T> {
        self.take_turn(stream)?.run(job)
    }

    /// A place in a stream for work that the calling thread will do.
    pub(crate) fn take_turn(&self, stream: StreamId) -> Result<Turn<'_>> {
        if self.shared.is_mine() {
            let (card, stream) = (self.shared.card, stream.number());
            return Err(DeviceError::WaitsForItself { card, stream });
        }
        Ok(Turn { shared: &self.shared, stream, position: self.shared.submit(stream, Step::Own) })
    }

    /// The event that everything submitted to a stream so far is done; `time` is when, simulated.
    pub fn record(&self, stream: StreamId, time: SimulatedTime) -> Event {
        let mark = Arc::new(Mark::default());
        let position = self.shared.submit(stream, Step::Record(mark.clone()));
        Event { shared: self.shared.clone(), mark, stream, position, time }
    }

    /// Later work of a stream waits until the event has happened.
    pub fn wait(&self, stream: StreamId, event: &Event) -> Result<()> {
        if !Arc::ptr_eq(&self.shared, &event.shared) {
            let (event, card) = (event.shared.card, self.shared.card);
            return Err(DeviceError::EventOfAnotherCard { event, card });
        }
        self.shared.submit(stream, Step::Wait(event.mark.clone()));
        Ok(())
    }

    /// Waits until everything submitted to a stream so far is done; raises and clears its error.
    pub fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.shared.synchronize(stream, None)
    }

    /// Waits for all streams. Raises and clears the error of the first stream that failed; errors of
    /// others stay for the next call.
    pub fn synchronize_all(&self) -> Result<()> {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        // Everything is done before an error is looked at, so that raising one leaves nothing running.
        let events: Vec<Event> = (0..STREAMS)
            .map(|n| Ok(self.record(StreamId::new(number(n))?, SimulatedTime::ZERO)))
            .collect::<Result<_>>()?;
        self.shared.wait_for(events.iter().map(|e| (e.stream, e.position)))?;
        events.iter().try_for_each(Event::synchronize)
    }

    fn start(&self) -> Result<()> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            let shared = self.shared.clone();
            let name = format!("card {}", shared.card);
            let thread = Builder::new().name(name).spawn(move || shared.work());
            *worker = Some(thread.map_err(|e| DeviceError::NoWorker {
                card: self.shared.card,
                reason: e.to_string(),
            })?);
        }
        Ok(())
    }
}

/// A place in a stream, which waits until it is [`run`](Turn::run).
#[must_use = "the stream waits for it"]
pub(crate) struct Turn<'s> {
    shared: &'s Shared,
    stream: StreamId,
    position: u64,
}

impl Turn<'_> {
    pub(crate) fn run<T>(self, job: impl FnOnce() -> Result<T>) -> Result<T> {
        self.shared.run(self.stream, self.position, job)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.shared.close();
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Work may hold the last handle of its own card: then the worker ends by itself.
        if let Some(worker) = worker
            && !self.shared.is_mine()
        {
            // Panics of jobs are caught, so the worker itself does not panic.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Streams(card {})", self.shared.card)
    }
}
