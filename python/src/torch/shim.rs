//! The stable C functions of libtorch, found in the library that `import torch` loaded.
//!
//! Nothing is linked: a libtorch that lacks a function is refused with its name.

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

/// A tensor of libtorch.
pub(super) type Handle = *mut c_void;
/// A slot of the dispatcher's stack.
pub(super) type Slot = u64;

macro_rules! functions {
    ($($name:ident ( $($type:ty),* ) -> $result:ty;)*) => {
        /// The functions in use.
        pub(super) struct Shim {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl Shim {
            /// # Safety
            /// `library` is libtorch, as `dlopen` gave it.
            unsafe fn find(library: *mut c_void) -> Result<Shim, String> {
                $(
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: the library is open, and the name ends in a zero.
                    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                    if found.is_null() {
                        return Err(format!(
                            "this PyTorch lacks {}; the device \"spyre\" needs torch 2.15 or later",
                            stringify!($name)
                        ));
                    }
                    // SAFETY: the function of that name has this type in the stable interface.
                    let $name = unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($type),*) -> $result,
                        >(found)
                    };
                )*
                Ok(Shim { $($name),* })
            }
        }
    };
}

functions! {
    aoti_torch_abi_version() -> u64;
    aoti_torch_device_type_privateuse1() -> i32;
    aoti_torch_get_dim(Handle, *mut i64) -> i32;
    aoti_torch_get_sizes(Handle, *mut *mut i64) -> i32;
    aoti_torch_get_strides(Handle, *mut *mut i64) -> i32;
    aoti_torch_get_storage_offset(Handle, *mut i64) -> i32;
    aoti_torch_get_dtype(Handle, *mut i32) -> i32;
    aoti_torch_get_device_type(Handle, *mut i32) -> i32;
    aoti_torch_get_device_index(Handle, *mut i32) -> i32;
    torch_get_const_data_ptr(Handle, *mut *const c_void) -> i32;
    aoti_torch_delete_tensor_object(Handle) -> i32;
    torch_call_dispatcher(*const c_char, *const c_char, *mut Slot, u64) -> i32;
    torch_new_list_reserve_size(usize, *mut Handle) -> i32;
    torch_list_push_back(Handle, Slot) -> i32;
    torch_new_stable_ivalue(*mut *mut Slot) -> i32;
    torch_exception_get_what_without_backtrace() -> *const c_char;
    torch_tensor_from_pyobject(*mut c_void, *mut Handle) -> i32;
    torch_is_tensor_pyobject(*mut c_void, *mut bool) -> i32;
    torch_tensor_to_pyobject(Handle, *mut c_void, *mut *mut c_void) -> i32;
}

static SHIM: OnceLock<Shim> = OnceLock::new();

/// Finds the functions in the libtorch at `path`, which must be loaded already.
pub(super) fn load_shim(path: &str) -> Result<(), String> {
    if SHIM.get().is_some() {
        return Ok(());
    }
    let name = CString::new(path).map_err(|_| "the path of libtorch has a zero in it")?;
    // SAFETY: the name ends in a zero; nothing is loaded anew.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return Err(format!("{path} is not loaded; import torch first"));
    }
    // SAFETY: the library is the one that PyTorch itself uses.
    let found = unsafe { Shim::find(library)? };
    let _ = SHIM.set(found);
    Ok(())
}

/// The functions; [`load_shim`] comes before everything that calls this.
pub(super) fn loaded_shim() -> &'static Shim {
    SHIM.get().expect("the device is registered after `load`")
}

/// The outcome of a function of libtorch.
pub(super) fn check_code(code: i32) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: a text that libtorch keeps until the next error of this thread, or null.
    let text = unsafe {
        let text = (loaded_shim().torch_exception_get_what_without_backtrace)();
        if text.is_null() { c"PyTorch gave no reason" } else { CStr::from_ptr(text) }
    };
    Err(text.to_string_lossy().into_owned())
}
