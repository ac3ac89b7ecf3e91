//! The driver's functions that a launch needs.

use super::error::DriverError;
use super::library::{SharedLibrary, functions};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::sync::LazyLock;

/// A context, a module or a function of the driver.
pub(super) type DriverHandle = *mut c_void;

pub(super) const SUCCESS: c_int = 0;

/// `CU_DEVICE_ATTRIBUTE_*`. These numbers, and the suffixes of functions below, are of the stable interface in NVIDIA's
/// `cuda.h`, which is not needed to build.
pub(super) const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
pub(super) const COMPUTE_CAPABILITY_MINOR: c_int = 76;
pub(super) const MULTIPROCESSOR_COUNT: c_int = 16;
pub(super) const MAX_SHARED_MEMORY_PER_BLOCK: c_int = 8;
pub(super) const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: c_int = 97;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub(super) const MAX_DYNAMIC_SHARED: c_int = 8;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
pub(super) const POINTER_DEVICE_ORDINAL: c_int = 9;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub(super) const CAPTURE_RELAXED: c_int = 2;

functions! {
    /// The driver.
    struct CudaDriver {
        init = c"cuInit" (c_uint);
        error_name = c"cuGetErrorName" (c_int, *mut *const c_char);
        error_string = c"cuGetErrorString" (c_int, *mut *const c_char);
        device_count = c"cuDeviceGetCount" (*mut c_int);
        device_get = c"cuDeviceGet" (*mut c_int, c_int);
        device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
        device_name = c"cuDeviceGetName" (*mut c_char, c_int, c_int);
        primary_context = c"cuDevicePrimaryCtxRetain" (*mut DriverHandle, c_int);
        current_context = c"cuCtxGetCurrent" (*mut DriverHandle);
        push_context = c"cuCtxPushCurrent_v2" (DriverHandle);
        pop_context = c"cuCtxPopCurrent_v2" (*mut DriverHandle);
        load_module = c"cuModuleLoadDataEx" (*mut DriverHandle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
        function = c"cuModuleGetFunction" (*mut DriverHandle, DriverHandle, *const c_char);
        set_function = c"cuFuncSetAttribute" (DriverHandle, c_int, c_int);
        launch = c"cuLaunchKernel" (
            DriverHandle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, DriverHandle, *mut *mut c_void, *mut *mut c_void,
        );
        pointer = c"cuPointerGetAttribute" (*mut c_void, c_int, u64);
        capture_mode = c"cuThreadExchangeStreamCaptureMode" (*mut c_int);
    }
}

/// The driver, loaded and initialised at the first use.
pub(super) fn load_driver() -> Result<&'static CudaDriver, DriverError> {
    static CUDA: LazyLock<Result<CudaDriver, DriverError>> = LazyLock::new(|| {
        let load = || CudaDriver::load(&SharedLibrary::open_library(OsStr::new("libcuda.so.1"))?);
        let cuda = load().map_err(DriverError::NoDriver)?;
        // SAFETY: it may be called at any time and any number of times, with 0.
        let code = unsafe { (cuda.init)(0) };
        match code {
            SUCCESS => Ok(cuda),
            code => Err(DriverError::NoDriver(cuda.describe_error(code))),
        }
    });
    CUDA.as_ref().map_err(Clone::clone)
}

impl CudaDriver {
    /// The driver's message for an error.
    fn describe_error(&self, code: c_int) -> String {
        let text = |ask: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut found = std::ptr::null();
            // SAFETY: it writes one pointer, to a text of the library that is never freed, or null.
            let known = unsafe { ask(code, &raw mut found) } == SUCCESS && !found.is_null();
            // SAFETY: as above.
            known.then(|| unsafe { CStr::from_ptr(found) }.to_string_lossy().into_owned())
        };
        match (text(self.error_name), text(self.error_string)) {
            (Some(name), Some(words)) => format!("{words} ({name})"),
            _ => format!("error {code}"),
        }
    }

    /// The result of a call.
    pub(super) fn check_call(&self, call: &'static str, code: c_int) -> Result<(), DriverError> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(DriverError::Driver { call, what: self.describe_error(code) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a driver the error names that; with a driver, every function is found.
    #[test]
    fn a_missing_driver_is_one_sentence() {
        let Err(error) = load_driver() else { return };
        let said = error.to_string();
        assert!(said.contains("NVIDIA's driver") && !said.contains('\n'), "{said}");
        assert!(!said.contains("it has no function"), "{said}");
    }
}
