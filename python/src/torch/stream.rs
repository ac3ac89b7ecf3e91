//! Streams and events: the order of work in simulated time.

use super::cards::find_card;
use crate::error;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use zellige_device::{Card, CardEvent, StreamId};

thread_local! {
    /// The stream that this thread submits to, by card.
    static CURRENT: RefCell<HashMap<usize, u32>> = RefCell::default();
}

fn require_card(index: usize) -> PyResult<&'static Card> {
    find_card(index).map_err(|e| error::device_error(&e))
}

/// The stream of this thread on a card.
pub(super) fn current_stream_id(index: usize) -> StreamId {
    let number = CURRENT.with_borrow(|map| map.get(&index).copied().unwrap_or(0));
    StreamId::new(number).unwrap_or(StreamId::DEFAULT)
}

/// The number of the stream of this thread on a card.
#[pyfunction]
pub(super) fn current_stream(index: usize) -> u32 {
    current_stream_id(index).number()
}

/// Makes a stream the current one of this thread on a card.
#[pyfunction]
pub(super) fn set_stream(index: usize, number: u32) -> PyResult<()> {
    StreamId::new(number).map_err(|e| error::device_error(&e))?;
    CURRENT.with_borrow_mut(|map| map.insert(index, number));
    Ok(())
}

/// Waits for a stream of a card, or for all of them.
#[pyfunction]
#[pyo3(signature = (index, number=None))]
pub(super) fn synchronize(py: Python<'_>, index: usize, number: Option<u32>) -> PyResult<()> {
    let card = require_card(index)?;
    let wait = || match number {
        Some(n) => StreamId::new(n).and_then(|s| card.synchronize_stream(s)),
        None => card.synchronize_all(),
    };
    py.detach(wait).map_err(|e| error::device_error(&e))
}

/// A moment of a stream.
#[pyclass(module = "zellige", frozen)]
pub(super) struct StreamEvent(CardEvent);

#[pymethods]
impl StreamEvent {
    /// Whether everything before it is done.
    fn query(&self) -> bool {
        self.0.query()
    }

    /// Waits for everything before it.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.synchronize()).map_err(|e| error::device_error(&e))
    }

    /// Simulated milliseconds until a later event.
    fn elapsed_time(&self, later: &StreamEvent) -> PyResult<f64> {
        let time = self.0.elapsed_until(&later.0).map_err(|e| error::device_error(&e))?;
        Ok(time.microseconds() / 1000.0)
    }

    /// Simulated microseconds since the card began.
    #[getter]
    fn time_us(&self) -> f64 {
        self.0.simulated_time().microseconds()
    }
}

/// The event that everything submitted to a stream so far is done.
#[pyfunction]
pub(super) fn record_event(index: usize, number: u32) -> PyResult<StreamEvent> {
    let stream = StreamId::new(number).map_err(|e| error::device_error(&e))?;
    Ok(StreamEvent(require_card(index)?.record_event(stream)))
}

/// Later work of a stream waits for an event.
#[pyfunction]
pub(super) fn wait_event(index: usize, number: u32, event: &StreamEvent) -> PyResult<()> {
    let stream = StreamId::new(number).map_err(|e| error::device_error(&e))?;
    require_card(index)?.wait_for_event(stream, &event.0).map_err(|e| error::device_error(&e))
}

/// What was recorded on a card, as a Chrome trace.
#[pyfunction]
pub(super) fn trace(index: usize) -> PyResult<String> {
    Ok(require_card(index)?.recorded_timeline().to_chrome_trace())
}
