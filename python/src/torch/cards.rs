//! The cards of this process, as the environment asks for them.

use super::handle::dtype_of;
use super::recording::submission_stamp;
use crate::convert::from_json;
use crate::error;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;
use std::sync::{Mutex, OnceLock, PoisonError};
use zellige_device::{Card, CardBuilder, DeviceError, FloatMode, KeptDtypes};
use zellige_machine::{Hardware, Key, Timeline, parse_sencores};
use zellige_op::CoverageProfile;
use zellige_op::OpError;

/// Choices that all cards share, and the cards that exist so far.
struct CardRegistry {
    builder: CardBuilder,
    made: Vec<OnceLock<Card>>,
    /// Held while one is made: recordings under way, by key, with the events that they keep.
    making: Mutex<Vec<(u64, usize)>>,
}

static CARDS: OnceLock<CardRegistry> = OnceLock::new();

/// Most cards of a process.
const MAX_CARDS: usize = 16;

pub(super) fn env_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|v| v.trim().to_string()).filter(|v| !v.is_empty())
}

pub(super) fn refuse_variable(name: &str, value: &str, accepted: &str) -> DeviceError {
    OpError::BadOperand {
        op: format!("the variable {name}"),
        operand: None,
        reason: format!("`{value}` is not accepted; {accepted}"),
    }
    .into()
}

/// Whether a dtype is stored unchanged, by a variable or else by the profile.
fn stores_unchanged(name: &str, usual: bool) -> Result<bool, DeviceError> {
    let Some(word) = env_variable(name) else { return Ok(usual) };
    KeptDtypes::parse_choice(&word)
        .ok_or_else(|| refuse_variable(name, &word, "`keep` or `downcast`"))
}

/// Reads the environment: `SENCORES`, `ZELLIGE_DEVICES`, `ZELLIGE_FP32`, `ZELLIGE_INT64`,
/// `ZELLIGE_FLOAT16`, `ZELLIGE_HARDWARE`, `ZELLIGE_LINK_BANDWIDTH`, `ZELLIGE_LINK_LATENCY`, `ZELLIGE_PROFILE`, `ZELLIGE_THREADS`, `ZELLIGE_TRACE`; what
/// compilations read is checked.
pub(super) fn configure_cards() -> Result<(), DeviceError> {
    if CARDS.get().is_some() {
        return Ok(());
    }
    let mut builder = Card::builder();
    let mut hardware = match env_variable("ZELLIGE_HARDWARE") {
        Some(name) => Hardware::load_named(&name)?,
        None => Hardware::card_preset(),
    };
    for (name, key, unit) in [
        ("ZELLIGE_LINK_BANDWIDTH", Key::LinkBandwidth, "GB/s"),
        ("ZELLIGE_LINK_LATENCY", Key::LinkLatency, "us"),
    ] {
        if let Some(text) = env_variable(name) {
            let accepted = || {
                refuse_variable(name, &text, &format!("a positive number of {unit}, such as 25.6"))
            };
            hardware = hardware.with_rate(key, &text, name).ok_or_else(accepted)?;
        }
    }
    builder = builder.hardware(hardware);
    if let Some(text) = env_variable("SENCORES") {
        builder = builder.core_count(parse_sencores(&text)?);
    }
    if let Some(mode) = env_variable("ZELLIGE_FLOAT16") {
        builder = builder.float_mode(mode.parse::<FloatMode>()?);
    }
    let profile = match env_variable("ZELLIGE_PROFILE") {
        Some(name) => name.parse::<CoverageProfile>()?,
        None => CoverageProfile::default(),
    };
    let usual = KeptDtypes::under_profile(profile);
    let keep = KeptDtypes {
        float32: stores_unchanged("ZELLIGE_FP32", usual.float32)?,
        int64: stores_unchanged("ZELLIGE_INT64", usual.int64)?,
    };
    builder = builder.profile(profile).keep_dtypes(keep);
    let number = |name: &str, least: usize, most: usize| match env_variable(name) {
        None => Ok(None),
        Some(text) => match text.parse::<usize>() {
            Ok(n) if (least..=most).contains(&n) => Ok(Some(n)),
            _ => Err(refuse_variable(name, &text, &format!("{least} to {most}"))),
        },
    };
    if let Some(threads) = number("ZELLIGE_THREADS", 1, 1024)? {
        builder = builder.host_threads(threads);
    }
    if let Some(events) = number("ZELLIGE_TRACE", 0, 1 << 24)? {
        builder = builder.trace_events(events);
    }
    super::program::with_environment(zellige_compile::CompilerOptions::default())?;
    let count = number("ZELLIGE_DEVICES", 1, MAX_CARDS)?.unwrap_or(2);
    let made = (0..count).map(|_| OnceLock::new()).collect();
    let _ = CARDS.set(CardRegistry { builder, made, making: Mutex::default() });
    Ok(())
}

/// Card number `index`, made when it is first used.
pub(super) fn find_card(index: usize) -> Result<&'static Card, DeviceError> {
    let cards = CARDS.get().expect("the device is registered after `configure`");
    let count = cards.made.len();
    let slot = cards.made.get(index).ok_or(DeviceError::NoSuchCard { index, count })?;
    if let Some(card) = slot.get() {
        return Ok(card);
    }
    let making = cards.making.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.get().is_none() {
        let card = cards.builder.clone().index(index).build()?;
        for (key, events) in making.iter() {
            card.start_recording(*key, *events, submission_stamp);
        }
        let _ = slot.set(card);
    }
    Ok(slot.get().expect("it was just made"))
}

/// Begins a recording on every card, also on those that are made later.
pub(super) fn start_recording(key: u64, events: usize) {
    let Some(cards) = CARDS.get() else { return };
    let mut making = cards.making.lock().unwrap_or_else(PoisonError::into_inner);
    making.push((key, events));
    for card in cards.made.iter().filter_map(OnceLock::get) {
        card.start_recording(key, events, submission_stamp);
    }
}

/// Ends a recording: what each card did, in the order of their numbers.
pub(super) fn stop_recording(key: u64) -> Vec<(usize, Timeline)> {
    let Some(cards) = CARDS.get() else { return Vec::new() };
    let mut making = cards.making.lock().unwrap_or_else(PoisonError::into_inner);
    making.retain(|(other, _)| *other != key);
    let made = cards.made.iter().filter_map(OnceLock::get);
    made.filter_map(|card| Some((card.index(), card.stop_recording(key)?))).collect()
}

fn py_card(index: usize) -> PyResult<&'static Card> {
    find_card(index).map_err(|e| error::device_error(&e))
}

/// The number of cards.
#[pyfunction]
pub(super) fn device_count() -> usize {
    CARDS.get().map_or(0, |c| c.made.len())
}

/// Whether tensors of a dtype are stored as they are where the card would use half of their bits.
#[pyfunction]
pub(super) fn keeps(dtype: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(py_card(0)?.kept_dtypes().keeps_dtype(dtype_of(dtype)?))
}

/// Bytes in use on a card: allocated, peak, reserved, free and so on.
#[pyfunction]
pub(super) fn memory_stats<'py>(py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyDict>> {
    let stats = py_card(index)?.memory().stats();
    let held = super::number::kept_bytes(index);
    let dict = PyDict::new(py);
    dict.set_item("allocated", stats.allocated.saturating_sub(held))?;
    dict.set_item("peak", stats.peak.saturating_sub(held))?;
    dict.set_item("reserved", stats.reserved.saturating_sub(held))?;
    dict.set_item("peak_reserved", stats.peak_reserved.saturating_sub(held))?;
    dict.set_item("free", stats.free)?;
    dict.set_item("capacity", stats.capacity)?;
    dict.set_item("largest_hole", stats.largest_hole)?;
    Ok(dict)
}

/// Forgets the peak of a card's memory.
#[pyfunction]
pub(super) fn reset_peak(index: usize) -> PyResult<()> {
    py_card(index)?.memory().reset_peak();
    Ok(())
}

/// A card in figures: its name, cores, formats, and what it did so far.
#[pyfunction]
pub(super) fn card_info<'py>(py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyAny>> {
    let card = py_card(index)?;
    let stats = card.stats();
    let info = json!({
        "name": card.hardware().name(),
        "cores": card.core_count(),
        "mode": card.float_mode().to_string(),
        "keep_fp32": card.kept_dtypes().float32,
        "keep_int64": card.kept_dtypes().int64,
        "total_memory": stats.memory.capacity,
        "operations": stats.operations,
        "busy_us": stats.busy.nanoseconds() / 1000.0,
        "end_us": stats.end.nanoseconds() / 1000.0,
    });
    from_json(py, &info)
}
