//! Storages: addresses that PyTorch holds, and the tensors of the card behind them.
//!
//! Addresses come from a range in which nothing is mapped, so host code that follows one faults
//! instead of reading bytes that are not the tensor's. A storage is known by the address of its
//! element 0, which all its views share whatever PyTorch does with them.
//!
//! What was computed from the elements of a storage, such as the weights of a compiled program, holds for as long as
//! [`read_write_stamps`] answers the same: versions of PyTorch's tensors are not enough, because `.data` and its
//! relatives write without changing them.

use super::cards::find_card;
use super::handle::{SeenTensor, see_tensor};
use super::held;
use crate::error::{self, DeviceFault};
use crate::stick::PyStickLayout;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use zellige_device::{Card, DeviceError, Tensor, TensorLayout, WriteStamp, default_layout};
use zellige_layout::StridedLayout;
use zellige_op::OpError;

/// What stands behind the address of a storage that PyTorch holds.
enum CardStorage {
    /// The tensor of the card that the storage was made with.
    Held(Tensor),
    /// `resize_(0)` gave the memory back. What is needed to allocate it again is kept: the card, and the layout.
    Freed { card: &'static Card, layout: Box<TensorLayout> },
}

/// The live storages.
static STORAGES: LazyLock<Mutex<HashMap<usize, CardStorage>>> = LazyLock::new(Mutex::default);

// Nothing of a user runs while the map is locked.
fn lock_storages() -> MutexGuard<'static, HashMap<usize, CardStorage>> {
    STORAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs something with the lock of the storages held.
pub(super) fn with_lock(work: impl FnOnce()) {
    let _storages = lock_storages();
    work();
}

/// Host elements are at most twice as wide as what the device stores for them.
const SPREAD: usize = 2;
/// Addresses of one card: its memory, spread.
const CARD_RANGE_BYTES: usize = SPREAD << 37;
/// Addresses for tensors whose own address is still held by a freed storage. They are given out once and never again.
const SPARE_RANGE: usize = 1 << 44;

/// A range of addresses at which nothing is mapped.
fn reserve_addresses(bytes: usize) -> Result<usize, DeviceError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh range that may not be touched; it costs no memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        let reason = std::io::Error::last_os_error().to_string();
        return Err(DeviceError::HostMemory { asked: bytes as u64, reason });
    }
    Ok(start as usize)
}

/// The start of a card's addresses.
fn card_range(index: usize) -> Result<usize, DeviceError> {
    static STARTS: [OnceLock<usize>; 16] = [const { OnceLock::new() }; 16];
    let slot = &STARTS[index];
    if let Some(start) = slot.get() {
        return Ok(*start);
    }
    let start = reserve_addresses(CARD_RANGE_BYTES)?;
    Ok(*slot.get_or_init(|| start))
}

/// An address of the spare range for a tensor of so many bytes.
fn spare_address(bytes: usize) -> Result<usize, DeviceError> {
    static NEXT: Mutex<Option<(usize, usize)>> = Mutex::new(None);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let (start, used) = match *next {
        Some(range) => range,
        None => (reserve_addresses(SPARE_RANGE)?, 0),
    };
    let asked = (bytes * SPREAD).next_multiple_of(128);
    if asked > SPARE_RANGE - used {
        let reason = "the addresses beside freed storages are used up".into();
        return Err(DeviceError::HostMemory { asked: asked as u64, reason });
    }
    *next = Some((start, used + asked));
    Ok(start + used)
}

/// Gives a tensor of the card an address; 0 where it has no bytes.
pub(super) fn keep_tensor(tensor: &Tensor) -> Result<usize, DeviceError> {
    if tensor.block().requested_bytes() == 0 {
        return Ok(0);
    }
    let at = usize::try_from(tensor.block().address()).unwrap_or(usize::MAX / SPREAD);
    let usual = card_range(tensor.card().index())? + at * SPREAD;
    let mut storages = lock_storages();
    // A freed storage keeps its address, because PyTorch may allocate it again, while the memory of the card behind
    // that address may belong to another tensor by now.
    let address = match storages.contains_key(&usual) {
        false => usual,
        true => spare_address(tensor.block().requested_bytes())?,
    };
    storages.insert(address, CardStorage::Held(tensor.base()));
    Ok(address)
}

/// Forgets a storage: its memory is free on the card again.
pub(super) fn forget_storage(address: usize) {
    if address != 0 {
        let gone = lock_storages().remove(&address);
        // Freed outside the lock.
        drop(gone);
    }
}

/// Whether the memory of a storage was given back by [`free_storage`].
#[pyfunction]
pub(super) fn is_storage_freed(address: usize) -> bool {
    matches!(lock_storages().get(&address), Some(CardStorage::Freed { .. }))
}

/// Gives the memory of a storage back to the card; the address stays its own. A storage that is freed already, or that
/// has no bytes, stays what it is.
#[pyfunction]
pub(super) fn free_storage(address: usize) -> PyResult<()> {
    let gone = {
        let mut storages = lock_storages();
        let Some(CardStorage::Held(tensor)) = storages.get(&address) else { return Ok(()) };
        let card = find_card(tensor.card().index()).map_err(|e| error::device_error(&e))?;
        let layout = Box::new(tensor.tensor_layout().clone());
        storages.insert(address, CardStorage::Freed { card, layout })
    };
    // Freed outside the lock.
    drop(gone);
    Ok(())
}

/// Allocates the memory of a freed storage again, as zeros in the layout that it had; one that has memory stays what it
/// is.
#[pyfunction]
pub(super) fn allocate_storage(address: usize) -> PyResult<()> {
    let mut storages = lock_storages();
    let Some(CardStorage::Freed { card, layout }) = storages.get(&address) else { return Ok(()) };
    let made = Tensor::zeros(card, layout.dtype(), layout.stick_layout());
    let made = made.map_err(|e| error::device_error(&e))?;
    storages.insert(address, CardStorage::Held(made));
    Ok(())
}

/// A text of bytes that differs from an earlier one if anything was written into the storage of one of these tensors
/// since, by whatever way, or if a tensor has another storage. Tensors without elements have nothing to be written.
#[pyfunction]
pub(super) fn read_write_stamps<'py>(
    py: Python<'py>,
    tensors: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut addresses: SmallVec<[usize; 16]> = SmallVec::with_capacity(tensors.len());
    for tensor in &tensors {
        let seen = see_tensor(tensor)?;
        addresses.push(if seen.address == 0 { 0 } else { seen.base_address() });
    }
    let mut text = Vec::with_capacity(16 * tensors.len());
    let storages = lock_storages();
    for address in addresses {
        let stamp = match storages.get(&address) {
            Some(CardStorage::Held(tensor)) => tensor.block().write_stamp(),
            Some(CardStorage::Freed { .. }) | None => WriteStamp { block: 0, writes: 0 },
        };
        text.extend_from_slice(&stamp.block.to_le_bytes());
        text.extend_from_slice(&stamp.writes.to_le_bytes());
    }
    Ok(PyBytes::new(py, &text))
}

/// The tensor of the card that a PyTorch tensor is.
pub(super) fn card_tensor(seen: &SeenTensor) -> Result<Tensor, DeviceError> {
    let Some(index) = seen.card else {
        return Err(OpError::BadOperand {
            op: "a tensor".into(),
            operand: None,
            reason: "it is not on the device".into(),
        }
        .into());
    };
    if held::holding_integers(seen.dtype).is_some() {
        return Err(OpError::BadOperand {
            op: "the card".into(),
            operand: None,
            reason: format!("it holds {}, and does not compute with it", seen.dtype),
        }
        .into());
    }
    if seen.numel() == 0 || seen.address == 0 {
        let card = find_card(index)?;
        let layout = default_layout(&seen.size, None, seen.dtype, card.kept_dtypes())?;
        return Tensor::zeros(card, seen.dtype, &layout);
    }
    let found = match lock_storages().get(&seen.base_address()) {
        Some(CardStorage::Held(tensor)) => Ok(tensor.clone()),
        Some(CardStorage::Freed { .. }) => {
            Err("its storage was freed by `untyped_storage().resize_(0)`".to_string())
        }
        None => Err(format!("its address {:#x} belongs to no storage of the device", seen.address)),
    };
    let base = found.map_err(|reason| OpError::BadOperand {
        op: "a tensor".into(),
        operand: None,
        reason,
    })?;
    let base = if base.dtype() == seen.dtype {
        base
    } else {
        base.reinterpret_as(seen.dtype).map_err(|_| OpError::BadOperand {
            op: "a view".into(),
            operand: None,
            reason: format!(
                "{} cannot be read as {} on the device: both must be stored there in the host's bits, and be of one width; \
                 x.cpu().view(dtype) reads them on the host",
                base.dtype(),
                seen.dtype
            ),
        })?
    };
    let view = base.view();
    let whole = seen.offset == view.offset()
        && seen.size.as_slice() == view.size()
        && seen.stride.as_slice() == view.stride();
    if whole {
        return Ok(base);
    }
    base.view_with(|_| StridedLayout::new(&seen.size, &seen.stride, seen.offset))
}

/// The layout of a tensor's storage on the device; `None` for a tensor of another device.
#[pyfunction]
pub(super) fn tensor_layout(object: &Bound<'_, PyAny>) -> PyResult<Option<PyStickLayout>> {
    let seen = see_tensor(object)?;
    if seen.card.is_none() {
        return Ok(None);
    }
    let dtype = seen.dtype;
    let tensor = card_tensor(&held::as_integers(seen)).map_err(|e| error::device_error(&e))?;
    let named = held::name_elements(dtype, tensor.stick_layout());
    Ok(Some(PyStickLayout(named.map_err(|e| error::device_error(&e.into()))?)))
}

/// The tensor behind a Python object, which must be on the device.
pub(super) fn tensor_of_object(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let seen = see_tensor(object)?;
    if seen.card.is_none() {
        return Err(DeviceFault::new_err("Expected a tensor on the device spyre"));
    }
    card_tensor(&seen).map_err(|e| error::device_error(&e))
}
