//! What collectives between cards need of a card: its clock, its account, and elements that the host carries without a
//! charge, as the cards would send them to each other.

use super::cards::find_card;
use super::handle::{SeenTensor, see_tensor};
use super::{held, store, stream};
use crate::error::{self, DeviceFault};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zellige_device::DeviceError;
use zellige_layout::StridedLayout;
use zellige_machine::{CardCollective, SimulatedTime};

/// The simulated moment, in picoseconds, at which the stream of this thread on a card is done.
#[pyfunction]
pub(super) fn stream_clock(index: usize) -> PyResult<u64> {
    let card = find_card(index).map_err(|e| error::device_error(&e))?;
    Ok(card.stream_time(stream::current_stream_id(index)).picoseconds())
}

fn parse_collective(name: &str) -> PyResult<CardCollective> {
    CardCollective::from_name(name).ok_or_else(|| {
        let known = CardCollective::ALL.map(CardCollective::name).join(", ");
        PyValueError::new_err(format!("no collective is called `{name}`; accepted: {known}"))
    })
}

/// What a collective of a group takes on the links of a card: messages one after the other, bytes on the busiest link,
/// picoseconds.
#[pyfunction]
pub(super) fn collective_cost(
    index: usize,
    name: &str,
    ranks: u64,
    bytes: u64,
) -> PyResult<(u64, u64, u64)> {
    let card = find_card(index).map_err(|e| error::device_error(&e))?;
    let cost = card.hardware().collective_cost(parse_collective(name)?, ranks, bytes);
    Ok((cost.messages, cost.bytes, cost.time.picoseconds()))
}

/// Enters a collective that was just done into the account of a card, in the stream of this thread: it begins when
/// the last process of its group is ready, a moment in picoseconds. The start and the end, in picoseconds.
#[pyfunction]
pub(super) fn account_collective(
    index: usize,
    name: &str,
    ranks: u64,
    bytes: u64,
    ready: u64,
    dtype: &str,
    size: Vec<i64>,
) -> PyResult<(u64, u64)> {
    let card = find_card(index).map_err(|e| error::device_error(&e))?;
    let cost = card.hardware().collective_cost(parse_collective(name)?, ranks, bytes);
    let args = vec![("ranks", ranks.into()), ("dtype", dtype.into()), ("size", size.into())];
    let (stream, ready) =
        (stream::current_stream_id(index), SimulatedTime::from_picoseconds(ready));
    let span = card.account_exchange(stream, name, cost, ready, &args);
    Ok((span.start.picoseconds(), span.end.picoseconds()))
}

/// Copies elements between a tensor of a card and one of the host, without a charge. The host may have 16-bit floats as
/// float32, which holds every number of the card's formats.
#[pyfunction]
pub(super) fn stage<'py>(
    py: Python<'py>,
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let (from, to) = (held::as_integers(see_tensor(src)?), held::as_integers(see_tensor(dst)?));
    if from.size != to.size {
        return Err(DeviceFault::new_err(format!(
            "elements of size {:?} are not those of size {:?}",
            from.size.as_slice(),
            to.size.as_slice()
        )));
    }
    if to.numel() == 0 {
        return Ok(());
    }
    let strided = |seen: &SeenTensor| {
        StridedLayout::new(&seen.size, &seen.stride, 0).map_err(|e| error::layout_error(&e))
    };
    let refused = |e: DeviceError| error::device_error(&e);
    match (from.card, to.card) {
        (None, Some(_)) => {
            let (tensor, host) = (store::card_tensor(&to).map_err(refused)?, strided(&from)?);
            let (start, len) = super::transfer::host_memory(&from, &host);
            // SAFETY: the memory of a live host tensor, from its first element to its last.
            let memory = unsafe { std::slice::from_raw_parts(start.cast_const(), len) };
            let work = || tensor.write_from(memory, &host, from.dtype).map(drop);
            py.detach(work).map_err(refused)
        }
        (Some(_), None) => {
            let (tensor, host) = (store::card_tensor(&from).map_err(refused)?, strided(&to)?);
            let (start, len) = super::transfer::host_memory(&to, &host);
            // SAFETY: the memory of a live host tensor, which the caller may write.
            let memory = unsafe { std::slice::from_raw_parts_mut(start, len) };
            let work = || tensor.read_into(memory, &host, to.dtype).map(drop);
            py.detach(work).map_err(refused)
        }
        _ => Err(DeviceFault::new_err(
            "one of the tensors has to be on the device, the other on the host",
        )),
    }
}
