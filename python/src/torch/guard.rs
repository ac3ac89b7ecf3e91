//! The current card of a thread, and how PyTorch's C++ code reads it.
//!
//! PyTorch resolves a device without an index in one function: `getDevice` of the device guard that is
//! registered for the kind of device. `Tensor.to`, `torch.tensor`, and every C++ function that completes
//! a device calls it. The guard that a backend written in Python gets is a C++ class whose `getDevice` always
//! gives index 0, and Python can override its `type` alone. So the five functions of that class that are
//! about the current device are replaced in its table of virtual functions.

use super::cards::device_count;
use super::shim::loaded_shim;
use crate::error::DeviceFault;
use pyo3::prelude::*;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Once;

thread_local! {
    /// The index that a device without one means in this thread.
    static CURRENT: Cell<u8> = const { Cell::new(0) };
}

/// The number of the current card of this thread.
#[pyfunction]
pub(super) fn current_device() -> u8 {
    CURRENT.get()
}

/// Makes a card the current one of this thread.
#[pyfunction]
pub(super) fn set_current_device(index: u8) -> PyResult<()> {
    let count = device_count();
    if usize::from(index) >= count {
        return Err(DeviceFault::new_err(format!(
            "Device index {index} out of range [0, {count})"
        )));
    }
    CURRENT.set(index);
    Ok(())
}

/// `c10::C10Device`: a structure of two bytes, which is returned and passed in one register.
#[repr(C)]
#[derive(Clone, Copy)]
struct C10Device {
    kind: i8,
    index: i8,
}

/// The number of the kind of device that PyTorch calls "PrivateUse1".
fn own_kind() -> i8 {
    // SAFETY: the function returns a constant.
    let kind = unsafe { (loaded_shim().aoti_torch_device_type_privateuse1)() };
    i8::try_from(kind).unwrap_or(i8::MAX)
}

/// PyTorch checks no index here. One without a card is refused when something is made on it.
fn set_current(device: C10Device) {
    // A negative index means the current device, which stays.
    if let Ok(index) = u8::try_from(device.index) {
        CURRENT.set(index);
    }
}

extern "C" fn guard_kind(_: *const c_void) -> i8 {
    own_kind()
}

extern "C" fn exchange_device(guard: *const c_void, device: C10Device) -> C10Device {
    let before = get_device(guard);
    set_current(device);
    before
}

extern "C" fn get_device(_: *const c_void) -> C10Device {
    C10Device { kind: own_kind(), index: CURRENT.get().cast_signed() }
}

extern "C" fn set_device(_: *const c_void, device: C10Device) {
    set_current(device);
}

/// The first virtual functions of `c10::impl::DeviceGuardImplInterface`, in the order of their declaration.
#[repr(C)]
struct FirstFunctions {
    kind: extern "C" fn(*const c_void) -> i8,
    exchange_device: extern "C" fn(*const c_void, C10Device) -> C10Device,
    get_device: extern "C" fn(*const c_void) -> C10Device,
    set_device: extern "C" fn(*const c_void, C10Device),
    unchecked_set_device: extern "C" fn(*const c_void, C10Device),
}

const OURS: FirstFunctions = FirstFunctions {
    kind: guard_kind,
    exchange_device,
    get_device,
    set_device,
    unchecked_set_device: set_device,
};

fn refuse_guard(reason: &str) -> PyErr {
    DeviceFault::new_err(format!(
        "this PyTorch has another device guard than torch 2.15 ({reason}): the current card cannot be passed to PyTorch"
    ))
}

/// Replaces the functions of the registered guard that are about the current device.
#[pyfunction]
pub(super) fn install_guard() -> PyResult<()> {
    static DONE: Once = Once::new();
    if DONE.is_completed() {
        return Ok(());
    }
    let table = find_functions()?;
    // SAFETY: `find_functions` gives the table of virtual functions of the registered guard, which lives as long
    // as PyTorch. It has at least the five functions of the interface, so reading them is sound.
    let (kind, device) = unsafe {
        let registered = &*table;
        let guard = registered_guard()?;
        ((registered.kind)(guard), (registered.get_device)(guard))
    };
    if kind != own_kind() || device.kind != own_kind() || device.index != 0 {
        return Err(refuse_guard("its functions give other devices"));
    }
    replace_functions(table)?;
    DONE.call_once(|| {});
    Ok(())
}

/// The guard that is registered for the device.
fn registered_guard() -> PyResult<*const c_void> {
    let name = c"_ZN3c104impl26device_guard_impl_registryE";
    // SAFETY: the name ends in a zero; libc10 is loaded, as PyTorch is.
    let registry = unsafe {
        let library = libc::dlopen(c"libc10.so".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() { std::ptr::null_mut() } else { libc::dlsym(library, name.as_ptr()) }
    };
    if registry.is_null() {
        return Err(refuse_guard("libc10 has no device_guard_impl_registry"));
    }
    let kind = usize::try_from(own_kind()).unwrap_or(0);
    // SAFETY: the registry is an array of pointers, one for each kind of device.
    let guard = unsafe { *registry.cast::<*const c_void>().add(kind) };
    if guard.is_null() { Err(refuse_guard("none is registered")) } else { Ok(guard) }
}

/// The virtual functions of the registered guard.
fn find_functions() -> PyResult<*mut FirstFunctions> {
    let guard = registered_guard()?;
    // SAFETY: an object of a C++ class with virtual functions begins with the address of their table.
    Ok(unsafe { *guard.cast::<*mut FirstFunctions>() })
}

/// Writes our functions into the table. It is on pages that are read-only once the library is loaded. The class
/// is that of guards of backends written in Python alone, of which a process has one.
fn replace_functions(table: *mut FirstFunctions) -> PyResult<()> {
    // SAFETY: a constant of the system.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = table as usize / page * page;
    let length = (table as usize + size_of::<FirstFunctions>()).next_multiple_of(page) - start;
    let protect = |protection: i32| {
        // SAFETY: the pages are mapped, as the table is on them.
        match unsafe { libc::mprotect(start as *mut c_void, length, protection) } {
            0 => Ok(()),
            _ => Err(refuse_guard(&std::io::Error::last_os_error().to_string())),
        }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: the pages are writable now, and each function has the type of the one that it replaces. `install_guard` is
    // called while the device is registered, before any tensor of it is made.
    unsafe { table.write(OURS) };
    protect(libc::PROT_READ)
}
