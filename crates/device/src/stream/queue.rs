//! The queues of a card, and which thread may take which work from them, and when.

use super::event::EventMark;
use super::{STREAM_COUNT, StreamId};
use crate::error::{DeviceError, Result};
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

pub(super) type StreamJob = Box<dyn FnOnce() -> Result<()> + Send>;

/// One entry of a stream.
pub(super) enum StreamStep {
    /// Work for the worker.
    Run(String, StreamJob),
    /// Work that the thread which submitted it does itself when its turn comes.
    Own,
    /// The event happens.
    Record(Arc<EventMark>),
    /// Nothing further until the event has happened.
    Wait(Arc<EventMark>),
}

struct StreamEntry {
    /// The order of submission over all streams.
    number: u64,
    step: StreamStep,
}

#[derive(Default)]
struct StreamQueue {
    entries: VecDeque<StreamEntry>,
    /// Whether the first entry is being worked on.
    busy: bool,
    /// Entries submitted and entries done, ever.
    submitted: u64,
    done: u64,
    failure: Option<StreamFailure>,
}

struct StreamFailure {
    op: String,
    error: DeviceError,
    skipped: u64,
    /// Entries done when it happened, itself included.
    at: u64,
}

impl StreamFailure {
    fn to_error(&self, stream: StreamId) -> DeviceError {
        DeviceError::StreamFailed {
            stream: stream.number(),
            op: self.op.clone(),
            skipped: self.skipped,
            error: Box::new(self.error.clone()),
        }
    }
}

#[derive(Default)]
pub(super) struct QueueState {
    queues: Vec<StreamQueue>,
    submitted: u64,
    closing: bool,
}

/// What the worker, the submitting threads and events share.
pub(super) struct SharedQueues {
    pub(super) card: usize,
    state: Mutex<QueueState>,
    /// Something changed: every waiting thread looks again.
    changed: Condvar,
}

thread_local! {
    /// The queues whose work this thread is doing, by address; 0 for none.
    static WORKING_FOR: Cell<usize> = const { Cell::new(0) };
}

impl SharedQueues {
    pub(super) fn new(card: usize) -> SharedQueues {
        let queues = (0..STREAM_COUNT).map(|_| StreamQueue::default()).collect();
        let state = Mutex::new(QueueState { queues, submitted: 0, closing: false });
        SharedQueues { card, state, changed: Condvar::new() }
    }

    // Jobs run outside the lock, so a poisoned lock is still consistent.
    fn lock_state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_change<'s>(&self, state: MutexGuard<'s, QueueState>) -> MutexGuard<'s, QueueState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn queues_address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether the calling thread is doing work of these queues.
    pub(super) fn is_working_thread(&self) -> bool {
        WORKING_FOR.get() == self.queues_address()
    }

    /// Appends to a stream; gives the number of entries of that stream with it.
    pub(super) fn submit_step(&self, stream: StreamId, step: StreamStep) -> u64 {
        let mut state = self.lock_state();
        let number = state.submitted;
        state.submitted += 1;
        let queue = &mut state.queues[stream.index()];
        queue.entries.push_back(StreamEntry { number, step });
        queue.submitted += 1;
        let position = queue.submitted;
        state.settle_events();
        drop(state);
        self.changed.notify_all();
        position
    }

    /// Waits until entry `position` of a stream (or all of now) is done, then raises and clears
    /// what failed up to there.
    pub(super) fn synchronize_stream(&self, stream: StreamId, position: Option<u64>) -> Result<()> {
        let position =
            position.unwrap_or_else(|| self.lock_state().queues[stream.index()].submitted);
        self.wait_for_entries(std::iter::once((stream, position)))?;
        let mut state = self.lock_state();
        let failure = &mut state.queues[stream.index()].failure;
        match failure.take_if(|f| f.at <= position) {
            Some(failure) => Err(failure.to_error(stream)),
            None => Ok(()),
        }
    }

    /// Waits until these entries are done.
    pub(super) fn wait_for_entries(
        &self,
        entries: impl Iterator<Item = (StreamId, u64)>,
    ) -> Result<()> {
        let mut state = self.lock_state();
        for (stream, position) in entries {
            while state.queues[stream.index()].done < position {
                if self.is_working_thread() {
                    let (card, stream) = (self.card, stream.number());
                    return Err(DeviceError::WaitsForItself { card, stream });
                }
                state = self.wait_for_change(state);
            }
        }
        Ok(())
    }

    /// Does work in the calling thread when its turn in the stream comes, which is entry
    /// `position`. An error of earlier work is raised instead, and cleared; its own error is
    /// returned and not kept for later work.
    pub(super) fn run_in_turn<T>(
        &self,
        stream: StreamId,
        position: u64,
        job: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock_state();
        loop {
            let queue = &mut state.queues[stream.index()];
            // Entries end in the order of their stream, so that the number of those done says whose turn it is.
            if queue.done + 1 == position && !queue.busy {
                break;
            }
            state = self.wait_for_change(state);
        }
        let queue = &mut state.queues[stream.index()];
        queue.busy = true;
        // Work of a stream relies on the work before it, so that it does not run after a failure.
        let earlier = queue.failure.take();
        drop(state);
        let result = match earlier {
            Some(failure) => Err(failure.to_error(stream)),
            None => self.run_guarded(job),
        };
        self.finish_entry(stream, None);
        result
    }

    /// Does work until the queues are closed and empty.
    pub(super) fn work_until_closed(&self) {
        let mut state = self.lock_state();
        loop {
            match state.take_next_job() {
                Some((stream, op, job)) => {
                    drop(state);
                    let failed = self.run_guarded(job).err();
                    self.finish_entry(stream, failed.map(|error| (op, error)));
                    state = self.lock_state();
                }
                None if state.closing && state.is_empty() => return,
                None => state = self.wait_for_change(state),
            }
        }
    }

    /// No more work will come.
    pub(super) fn close_queues(&self) {
        self.lock_state().closing = true;
        self.changed.notify_all();
    }

    /// Runs a job as work of these queues; a panic is an error.
    fn run_guarded<T>(&self, job: impl FnOnce() -> Result<T>) -> Result<T> {
        // Restored and not cleared afterwards, because work of one card may run work of another one.
        let before = WORKING_FOR.replace(self.queues_address());
        let result = catch_unwind(AssertUnwindSafe(job));
        WORKING_FOR.set(before);
        result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(DeviceError::Panicked { message: text.unwrap_or_else(|| "no message".into()) })
        })
    }

    /// The first entry of a stream is done.
    fn finish_entry(&self, stream: StreamId, failed: Option<(String, DeviceError)>) {
        let mut state = self.lock_state();
        let queue = &mut state.queues[stream.index()];
        queue.busy = false;
        queue.pop_entry();
        if let Some((op, error)) = failed {
            let at = queue.done;
            // The first failure is kept, because later ones usually follow from it.
            queue.failure.get_or_insert(StreamFailure { op, error, skipped: 0, at });
        }
        state.settle_events();
        drop(state);
        self.changed.notify_all();
    }
}

impl StreamQueue {
    fn pop_entry(&mut self) {
        self.done += 1;
        self.entries.pop_front();
    }
}

impl QueueState {
    /// Handles all entries at the front of streams that need no work: events.
    fn settle_events(&mut self) {
        let mut moved = true;
        // Until nothing changes, because an event that happens in one stream may let others continue.
        while std::mem::take(&mut moved) {
            for (number, queue) in (0..).zip(&mut self.queues) {
                let stream = StreamId::new(number).expect("there is a queue for each stream");
                while !queue.busy
                    && let Some(entry) = queue.entries.front()
                {
                    let failure = queue.failure.as_mut();
                    match (&entry.step, failure) {
                        (StreamStep::Record(mark), failure) => {
                            mark.mark_happened(failure.map(|f| f.to_error(stream)));
                        }
                        // A failed stream runs nothing that would have to wait.
                        (StreamStep::Wait(_), Some(_)) => {}
                        (StreamStep::Wait(mark), None) => match mark.outcome_if_happened() {
                            None => break,
                            Some(None) => {}
                            Some(Some(error)) => {
                                let (op, at) = ("wait for an event".into(), queue.done + 1);
                                let error = error.clone();
                                queue.failure = Some(StreamFailure { op, error, skipped: 0, at });
                            }
                        },
                        (StreamStep::Run(..) | StreamStep::Own, _) => break,
                    }
                    queue.pop_entry();
                    moved = true;
                }
            }
        }
    }

    /// The work to do next: of the highest priority, the oldest. Its stream is busy from now on.
    fn take_next_job(&mut self) -> Option<(StreamId, String, StreamJob)> {
        let mut best: Option<(super::StreamPriority, std::cmp::Reverse<u64>, StreamId)> = None;
        for (number, queue) in (0..).zip(&self.queues) {
            if let (false, Some(StreamEntry { number: at, step: StreamStep::Run(..) })) =
                (queue.busy, queue.entries.front())
            {
                let stream = StreamId::new(number).expect("there is a queue for each stream");
                best = best.max(Some((stream.priority(), std::cmp::Reverse(*at), stream)));
            }
        }
        // Of equal priorities the oldest, so that a busy stream cannot hold up the others of its priority forever.
        let stream = best?.2;
        let queue = &mut self.queues[stream.index()];
        let step = &mut queue.entries.front_mut()?.step;
        // The entry stays at the front as the one being worked on.
        let StreamStep::Run(op, job) = std::mem::replace(step, StreamStep::Own) else {
            return None;
        };
        queue.busy = true;
        match &mut queue.failure {
            None => Some((stream, op, job)),
            // Skipped, which means dropped with all that it holds before it counts as done.
            Some(failure) => {
                failure.skipped += 1;
                let skip = move || {
                    drop(job);
                    Ok(())
                };
                Some((stream, op, Box::new(skip)))
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.entries.is_empty())
    }
}
