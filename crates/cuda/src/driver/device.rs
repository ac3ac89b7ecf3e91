//! A device, and the kernels that it has loaded.

use super::compile::compile_cached;
use super::cuda::{
    self, COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, CudaDriver, DriverHandle,
    MAX_SHARED_MEMORY_PER_BLOCK, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, MULTIPROCESSOR_COUNT,
    load_driver,
};
use super::error::DriverError;
use super::kernels::LoadedKernels;
use crate::CudaProgram;
use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::sync::{Mutex, OnceLock, PoisonError};
use zellige_files::content_hash;

/// A GPU of this machine, with its primary context.
#[derive(Debug)]
pub struct CudaDevice {
    pub(super) cuda: &'static CudaDriver,
    pub(super) context: DriverHandle,
    ordinal: i32,
    arch: i32,
    name: String,
    multiprocessors: i32,
    shared_per_block: i32,
    most_shared_per_block: i32,
    /// The kernels that are loaded, by the hash of their text and launches.
    kernels: Mutex<HashMap<String, &'static LoadedKernels>>,
}

// SAFETY: a context may be used by any thread, which makes it current first.
unsafe impl Send for CudaDevice {}
// SAFETY: as above.
unsafe impl Sync for CudaDevice {}

/// Devices past this number are refused; a machine has eight or sixteen.
const MAX_DEVICES: usize = 64;

impl CudaDevice {
    /// The device of a number, as PyTorch counts them. Its primary context stays until the process ends.
    ///
    /// # Errors
    /// [`DriverError::NoDriver`] or [`DriverError::NoDevice`].
    pub fn open_cached(ordinal: i32) -> Result<&'static CudaDevice, DriverError> {
        static DEVICES: [OnceLock<CudaDevice>; MAX_DEVICES] =
            [const { OnceLock::new() }; MAX_DEVICES];
        let place = usize::try_from(ordinal).ok().and_then(|i| DEVICES.get(i));
        if let Some(found) = place.and_then(OnceLock::get) {
            return Ok(found);
        }
        let cuda = load_driver()?;
        let mut count = 0;
        // SAFETY: it writes one number.
        cuda.check_call("cuDeviceGetCount", unsafe { (cuda.device_count)(&raw mut count) })?;
        match place {
            Some(place) if ordinal < count => {
                let opened = CudaDevice::open_primary_context(cuda, ordinal)?;
                Ok(place.get_or_init(|| opened))
            }
            _ => Err(DriverError::NoDevice { ordinal, count }),
        }
    }

    fn open_primary_context(
        cuda: &'static CudaDriver,
        ordinal: i32,
    ) -> Result<CudaDevice, DriverError> {
        let mut device: c_int = 0;
        let mut context: DriverHandle = std::ptr::null_mut();
        let mut name = [0; 128];
        // SAFETY: each writes one value; the name gets at most as many bytes as are given, a zero at the end.
        unsafe {
            cuda.check_call("cuDeviceGet", (cuda.device_get)(&raw mut device, ordinal))?;
            cuda.check_call("cuDeviceGetName", (cuda.device_name)(name.as_mut_ptr(), 128, device))?;
            let retained = (cuda.primary_context)(&raw mut context, device);
            cuda.check_call("cuDevicePrimaryCtxRetain", retained)?;
        }
        let ask = |attribute: c_int| {
            let mut value = 0;
            // SAFETY: it writes one number.
            let code = unsafe { (cuda.device_attribute)(&raw mut value, attribute, device) };
            cuda.check_call("cuDeviceGetAttribute", code).map(|()| value)
        };
        Ok(CudaDevice {
            cuda,
            context,
            ordinal,
            arch: ask(COMPUTE_CAPABILITY_MAJOR)? * 10 + ask(COMPUTE_CAPABILITY_MINOR)?,
            // SAFETY: written by the driver with a zero at the end.
            name: unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(),
            multiprocessors: ask(MULTIPROCESSOR_COUNT)?,
            shared_per_block: ask(MAX_SHARED_MEMORY_PER_BLOCK)?,
            most_shared_per_block: ask(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            kernels: Mutex::default(),
        })
    }

    /// Its number.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Its architecture: `90` for sm_90.
    pub fn arch(&self) -> i32 {
        self.arch
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Streaming multiprocessors.
    pub fn multiprocessor_count(&self) -> i32 {
        self.multiprocessors
    }

    /// Bytes of shared memory that a block has without a special request.
    pub fn default_shared_bytes(&self) -> i32 {
        self.shared_per_block
    }

    /// Bytes of shared memory that a block has when its launch requests them.
    pub fn max_shared_bytes(&self) -> i32 {
        self.most_shared_per_block
    }

    /// The kernels of a program, compiled and loaded at most once for this device.
    ///
    /// # Errors
    /// Those of `compile_cached`, and what the driver refuses.
    pub fn load_kernels(
        &'static self,
        program: &CudaProgram,
    ) -> Result<&'static LoadedKernels, DriverError> {
        // Grids are a part of the key, because two programs of one text may differ in nothing else.
        let mut parts = vec![program.source_text().as_bytes().to_vec()];
        for launch in program.launches() {
            parts.push(launch.name.as_bytes().to_vec());
            parts.push(
                [launch.grid, launch.block.into(), launch.shared.into()]
                    .map(u64::to_le_bytes)
                    .concat(),
            );
        }
        let key = content_hash(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let lock = || self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&key) {
            return Ok(found);
        }
        // Compiled outside of the lock, so that other threads need not wait; at worst two threads compile the same text.
        let image = compile_cached(program.source_text(), self.arch)?;
        let loaded = LoadedKernels::load_in_context(self, &image.bytes, program.launches())?;
        // A module is never unloaded: a CUDA graph that was captured may launch its functions at any later time.
        let loaded: &'static LoadedKernels = Box::leak(Box::new(loaded));
        Ok(lock().entry(key).or_insert(loaded))
    }

    /// Whether an address is memory that this device knows, of its own or shared with it.
    pub fn knows_address(&self, address: u64) -> bool {
        let mut ordinal: c_int = -1;
        // SAFETY: it writes one number and does not touch the address.
        let code = unsafe {
            (self.cuda.pointer)((&raw mut ordinal).cast(), cuda::POINTER_DEVICE_ORDINAL, address)
        };
        code == cuda::SUCCESS && ordinal == self.ordinal
    }

    /// Runs `work` with the device's context current, and restores the context that was current before.
    pub(super) fn with_current_context<T>(
        &self,
        work: impl FnOnce() -> Result<T, DriverError>,
    ) -> Result<T, DriverError> {
        let cuda = self.cuda;
        let mut before: DriverHandle = std::ptr::null_mut();
        // SAFETY: it writes one handle.
        cuda.check_call("cuCtxGetCurrent", unsafe { (cuda.current_context)(&raw mut before) })?;
        // The usual case, in which PyTorch has made it current: two calls of the driver less.
        if before == self.context {
            return work();
        }
        // SAFETY: the context was retained when the device was opened, and is never released.
        cuda.check_call("cuCtxPushCurrent", unsafe { (cuda.push_context)(self.context) })?;
        let result = work();
        // SAFETY: pops what was just pushed.
        unsafe { (cuda.pop_context)(&raw mut before) };
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_refused() {
        for ordinal in [-1, 63, 64, i32::MAX] {
            let said = CudaDevice::open_cached(ordinal).expect_err("no machine has it").to_string();
            let named = said.contains("NVIDIA's driver") || said.contains("no CUDA device");
            assert!(named && !said.contains('\n'), "{said}");
        }
    }
}
