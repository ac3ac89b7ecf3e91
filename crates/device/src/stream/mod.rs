//! Streams: queues of work that a card does in the background.
//!
//! Stream 0 is the default, 1 to 32 have low priority, 33 to 64 high. Within a stream work happens
//! in the order it was submitted; between streams the worker takes high priorities first, then the order of submission, unless
//! an [`CardEvent`] says otherwise. Priorities decide what the host does first, never simulated
//! time, which follows from the order of submissions (see [`CardSchedule`]).
//!
//! An error is sticky: the rest of its stream is skipped, and the next synchronize raises and clears it. A
//! stream that waits for an event of a failed stream fails with it, as what it would read was never
//! written. A panic is an error like any other.
//!
//! Nothing can wait in a circle: an event exists once it is recorded, so work only waits for work
//! submitted before it, and the oldest piece of work can always run. Work that would synchronize
//! with the worker it runs on is refused.

mod event;
mod queue;
mod schedule;
mod worker;

pub use event::CardEvent;
pub use schedule::{CardSchedule, TimeSpan};
pub use worker::CardStreams;

use crate::error::{DeviceError, Result};
use std::fmt;

/// How many streams a card has.
pub const STREAM_COUNT: usize = 65;

/// What the worker prefers; later is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamPriority {
    /// Streams 1 to 32.
    Low,
    /// Stream 0.
    Default,
    /// Streams 33 to 64.
    High,
}

/// A stream that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId(u8);

impl StreamId {
    /// The default stream.
    pub const DEFAULT: StreamId = StreamId(0);

    /// Stream `number`, 0 to 64.
    pub fn new(number: u32) -> Result<StreamId> {
        match u8::try_from(number) {
            Ok(n) if usize::from(n) < STREAM_COUNT => Ok(StreamId(n)),
            _ => Err(DeviceError::NoSuchStream { stream: number }),
        }
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0.into()
    }

    /// Its number, to index with.
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// Its priority for the worker.
    pub fn priority(self) -> StreamPriority {
        match self.0 {
            0 => StreamPriority::Default,
            1..=32 => StreamPriority::Low,
            _ => StreamPriority::High,
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}
