//! Storages: addresses that PyTorch holds, and the tensors of the card behind them.
//!
//! Addresses come from a range in which nothing is mapped, so host code that follows one faults
//! instead of reading bytes that are not the tensor's. A storage is known by the address of its
//! element 0, which all its views share whatever PyTorch does with them.

use super::cards::card;
use super::handle::{Seen, see};
use super::held;
use crate::error::{self, DeviceFault};
use crate::stick::PyStickLayout;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use zellige_device::{DeviceError, Tensor, default_layout};
use zellige_layout::Strided;
use zellige_op::OpError;

/// The live storages.
static STORAGES: LazyLock<Mutex<HashMap<usize, Tensor>>> = LazyLock::new(Mutex::default);

// Nothing of a user runs while the map is locked.
fn storages() -> MutexGuard<'static, HashMap<usize, Tensor>> {
    STORAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs something with the lock of the storages held.
pub(super) fn with_lock(work: impl FnOnce()) {
    let _storages = storages();
    work();
}

/// Host elements are at most twice as wide as what the device stores for them.
const SPREAD: usize = 2;
/// Addresses of one card: its memory, spread.
const RANGE: usize = SPREAD << 37;

/// The start of a card's addresses.
fn range(index: usize) -> Result<usize, DeviceError> {
    static STARTS: [OnceLock<usize>; 16] = [const { OnceLock::new() }; 16];
    let slot = &STARTS[index];
    if let Some(start) = slot.get() {
        return Ok(*start);
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh range that may not be touched; it costs no memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), RANGE, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        let reason = std::io::Error::last_os_error().to_string();
        return Err(DeviceError::HostMemory { asked: RANGE as u64, reason });
    }
    Ok(*slot.get_or_init(|| start as usize))
}

/// Gives a tensor of the card an address; 0 where it has no bytes.
pub(super) fn keep(tensor: &Tensor) -> Result<usize, DeviceError> {
    if tensor.block().bytes() == 0 {
        return Ok(0);
    }
    let at = usize::try_from(tensor.block().address()).unwrap_or(usize::MAX / SPREAD);
    let address = range(tensor.card().index())? + at * SPREAD;
    storages().insert(address, tensor.base());
    Ok(address)
}

/// Forgets a storage: its memory goes back to the card.
pub(super) fn forget(address: usize) {
    if address != 0 {
        let gone = storages().remove(&address);
        // Freed outside the lock.
        drop(gone);
    }
}

/// The tensor of the card that a PyTorch tensor is.
pub(super) fn tensor(seen: &Seen) -> Result<Tensor, DeviceError> {
    let Some(index) = seen.card else {
        return Err(OpError::BadOperand {
            op: "a tensor".into(),
            operand: None,
            reason: "it is not on the device".into(),
        }
        .into());
    };
    if held::integers(seen.dtype).is_some() {
        return Err(OpError::BadOperand {
            op: "the card".into(),
            operand: None,
            reason: format!("it holds {}, and does not compute with it", seen.dtype),
        }
        .into());
    }
    if seen.numel() == 0 || seen.address == 0 {
        let card = card(index)?;
        let layout = default_layout(&seen.size, None, seen.dtype, card.keeps())?;
        return Tensor::zeros(card, seen.dtype, &layout);
    }
    let found = storages().get(&seen.base()).cloned();
    let Some(base) = found else {
        return Err(OpError::BadOperand {
            op: "a tensor".into(),
            operand: None,
            reason: format!("its address {:#x} belongs to no storage of the device", seen.address),
        }
        .into());
    };
    if base.dtype() != seen.dtype {
        return Err(OpError::BadOperand {
            op: "a view".into(),
            operand: None,
            reason: format!(
                "the bits of {} on the device are not those of the host, and cannot be read as {}",
                base.dtype(),
                seen.dtype
            ),
        }
        .into());
    }
    let view = base.view();
    let whole = seen.offset == view.offset()
        && seen.size.as_slice() == view.size()
        && seen.stride.as_slice() == view.stride();
    if whole {
        return Ok(base);
    }
    base.viewed(|_| Strided::new(&seen.size, &seen.stride, seen.offset))
}

/// The layout of a tensor's storage on the device; `None` for a tensor of another device.
#[pyfunction]
pub(super) fn tensor_layout(object: &Bound<'_, PyAny>) -> PyResult<Option<PyStickLayout>> {
    let seen = held::as_integers(see(object)?);
    if seen.card.is_none() {
        return Ok(None);
    }
    let tensor = tensor(&seen).map_err(|e| error::device(&e))?;
    Ok(Some(PyStickLayout(tensor.layout().clone())))
}

/// The tensor behind a Python object, which must be on the device.
pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let seen = see(object)?;
    if seen.card.is_none() {
        return Err(DeviceFault::new_err("Expected a tensor on the device spyre"));
    }
    tensor(&seen).map_err(|e| error::device(&e))
}
