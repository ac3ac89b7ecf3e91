//! The kernels of one program on one device.

use super::cuda::{CAPTURE_RELAXED, DriverHandle, MAX_DYNAMIC_SHARED};
use super::device::CudaDevice;
use super::error::DriverError;
use crate::KernelLaunch;
use std::ffi::{CString, c_uint, c_void};

/// The launches of a program, ready for a device.
#[derive(Debug)]
pub struct LoadedKernels {
    device: &'static CudaDevice,
    launches: Vec<ReadyLaunch>,
}

#[derive(Debug)]
struct ReadyLaunch {
    function: DriverHandle,
    grid: c_uint,
    block: c_uint,
    shared: c_uint,
}

// SAFETY: functions of a module may be launched by any thread whose current context is theirs, and `launch` makes it so.
unsafe impl Send for LoadedKernels {}
// SAFETY: as above.
unsafe impl Sync for LoadedKernels {}

/// Blocks of a launch in x.
const MOST_BLOCKS: u64 = 2_147_483_647;

impl LoadedKernels {
    pub(super) fn load_in_context(
        device: &'static CudaDevice,
        image: &[u8],
        launches: &[KernelLaunch],
    ) -> Result<LoadedKernels, DriverError> {
        let cuda = device.cuda;
        device.with_current_context(|| {
            // The driver refuses to load a module while a stream of this thread is captured, unless the mode is relaxed.
            // Loading does not use the stream, so the captured graph is not affected.
            let mut mode = CAPTURE_RELAXED;
            // SAFETY: it exchanges one number.
            unsafe { (cuda.capture_mode)(&raw mut mode) };
            let loaded = LoadedKernels::load_module(device, image, launches);
            // SAFETY: as above.
            unsafe { (cuda.capture_mode)(&raw mut mode) };
            loaded
        })
    }

    fn load_module(
        device: &'static CudaDevice,
        image: &[u8],
        launches: &[KernelLaunch],
    ) -> Result<LoadedKernels, DriverError> {
        let cuda = device.cuda;
        let mut module: DriverHandle = std::ptr::null_mut();
        let (no_options, no_values) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the image is machine code, or PTX that ends in zero, and is copied; there are no options.
        cuda.check_call("cuModuleLoadDataEx", unsafe {
            (cuda.load_module)(&raw mut module, image.as_ptr().cast(), 0, no_options, no_values)
        })?;
        let ready = |launch: &KernelLaunch| {
            let name = CString::new(launch.name.as_str()).unwrap_or_default();
            let mut function: DriverHandle = std::ptr::null_mut();
            // SAFETY: the module was just loaded, and the name ends in zero.
            cuda.check_call("cuModuleGetFunction", unsafe {
                (cuda.function)(&raw mut function, module, name.as_ptr())
            })?;
            // More shared memory than every device has must be allowed for each function before it is launched.
            if i64::from(launch.shared) > i64::from(device.default_shared_bytes()) {
                let bytes = i32::try_from(launch.shared).unwrap_or(i32::MAX);
                // SAFETY: a function of a loaded module.
                let code = unsafe { (cuda.set_function)(function, MAX_DYNAMIC_SHARED, bytes) };
                cuda.check_call("cuFuncSetAttribute", code)?;
            }
            let grid = c_uint::try_from(launch.grid).ok().filter(|_| launch.grid <= MOST_BLOCKS);
            let grid = grid.ok_or(DriverError::TooManyBlocks(launch.grid))?;
            Ok(ReadyLaunch { function, grid, block: launch.block, shared: launch.shared })
        };
        let launches = launches.iter().map(ready).collect::<Result<_, DriverError>>()?;
        Ok(LoadedKernels { device, launches })
    }

    /// The device on which they are loaded.
    pub fn device(&self) -> &'static CudaDevice {
        self.device
    }

    /// Puts the launches on a stream, a handle of the driver, and returns at once.
    ///
    /// # Errors
    /// What the driver refuses; errors of work that was launched before may be reported as well.
    ///
    /// # Safety
    /// The stream is one of the device's context, or null for the default one. Until its work is done, the memory
    /// at `src` may be read and that at `dst` written by the plan of the program, they have the alignment for which it
    /// was made, and they do not overlap.
    pub unsafe fn launch_all(
        &self,
        src: u64,
        dst: u64,
        stream: *mut c_void,
    ) -> Result<(), DriverError> {
        let cuda = self.device.cuda;
        self.device.with_current_context(|| {
            let (mut src, mut dst) = (src, dst);
            let mut arguments = [(&raw mut src).cast::<c_void>(), (&raw mut dst).cast::<c_void>()];
            for ready in &self.launches {
                // SAFETY: every kernel takes two pointers, which are copied during the call; the rest is the
                // contract of this function.
                let code = unsafe {
                    (cuda.launch)(
                        ready.function,
                        ready.grid,
                        1,
                        1,
                        ready.block,
                        1,
                        1,
                        ready.shared,
                        stream,
                        arguments.as_mut_ptr(),
                        std::ptr::null_mut(),
                    )
                };
                cuda.check_call("cuLaunchKernel", code)?;
            }
            Ok(())
        })
    }
}
