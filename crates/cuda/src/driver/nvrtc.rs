//! NVRTC, NVIDIA's compiler of CUDA C++ at run time.

use super::error::DriverError;
use super::library::{SharedLibrary, functions};
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

type NvrtcProgram = *mut c_void;

functions! {
    struct NvrtcFunctions {
        version = c"nvrtcVersion" (*mut c_int, *mut c_int);
        arch_count = c"nvrtcGetNumSupportedArchs" (*mut c_int);
        archs = c"nvrtcGetSupportedArchs" (*mut c_int);
        create = c"nvrtcCreateProgram" (
            *mut NvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
        );
        destroy = c"nvrtcDestroyProgram" (*mut NvrtcProgram);
        compile = c"nvrtcCompileProgram" (NvrtcProgram, c_int, *const *const c_char);
        log_size = c"nvrtcGetProgramLogSize" (NvrtcProgram, *mut usize);
        log = c"nvrtcGetProgramLog" (NvrtcProgram, *mut c_char);
        cubin_size = c"nvrtcGetCUBINSize" (NvrtcProgram, *mut usize);
        cubin = c"nvrtcGetCUBIN" (NvrtcProgram, *mut c_char);
        ptx_size = c"nvrtcGetPTXSize" (NvrtcProgram, *mut usize);
        ptx = c"nvrtcGetPTX" (NvrtcProgram, *mut c_char);
    }
}

/// The compiler.
#[derive(Debug)]
pub struct Nvrtc {
    call: NvrtcFunctions,
    describe: unsafe extern "C" fn(c_int) -> *const c_char,
    version: (i32, i32),
    /// Architectures that it writes machine code for, as `90` for sm_90; rising.
    archs: Vec<i32>,
}

const LIBRARY_NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// Folders that are searched after the loader's own.
static SEARCH_FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Adds folders that may hold NVRTC, such as those of Python packages. Where `ZELLIGE_NVRTC` names a file or a folder,
/// only that is searched; otherwise the path of the loader, then these folders.
pub fn add_search_folders(folders: impl IntoIterator<Item = PathBuf>) {
    let mut known = SEARCH_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in folders {
        if !known.contains(&folder) {
            known.push(folder);
        }
    }
}

/// The files to try, in order. Numbered names come first, because an unnumbered one is part of a development package and
/// may be of any version.
fn candidate_files(named: Option<OsString>, folders: &[PathBuf]) -> Vec<OsString> {
    let within = |folder: &PathBuf| LIBRARY_NAMES.map(|name| folder.join(name));
    match named.filter(|name| !name.is_empty()).map(PathBuf::from) {
        Some(path) if path.is_dir() => within(&path).map(OsString::from).to_vec(),
        Some(path) => vec![path.into()],
        None => {
            let inside = folders.iter().flat_map(within).filter(|path| path.exists());
            LIBRARY_NAMES.iter().map(OsString::from).chain(inside.map(OsString::from)).collect()
        }
    }
}

impl Nvrtc {
    /// The compiler, loaded at the first use. A failure is not remembered, because folders may be added later.
    ///
    /// # Errors
    /// [`DriverError::NoNvrtc`] where it is not found.
    pub fn load_once() -> Result<&'static Nvrtc, DriverError> {
        static NVRTC: OnceLock<Nvrtc> = OnceLock::new();
        if let Some(found) = NVRTC.get() {
            return Ok(found);
        }
        let folders = SEARCH_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut failed = Vec::new();
        for name in candidate_files(std::env::var_os("ZELLIGE_NVRTC"), &folders) {
            match Nvrtc::load_library(&name) {
                Ok(found) => return Ok(NVRTC.get_or_init(|| found)),
                Err(why) => failed.push(why),
            }
        }
        Err(DriverError::NoNvrtc(failed.join("; ")))
    }

    fn load_library(name: &OsString) -> Result<Nvrtc, String> {
        let library = SharedLibrary::open_library(name)?;
        let call =
            NvrtcFunctions::load(&library).map_err(|e| format!("{}: {e}", name.display()))?;
        let found = library.find_symbol(c"nvrtcGetErrorString")?;
        // SAFETY: the header declares a function of this name and type.
        let describe = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> *const c_char>(found)
        };
        // Before the first compilation, which would look for it by name and fail.
        load_builtins(&library);
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: both write the integers that they are given.
        let known = unsafe {
            (call.version)(&raw mut major, &raw mut minor) == 0
                && (call.arch_count)(&raw mut count) == 0
        };
        let mut archs = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: it writes as many integers as were just counted.
        if !known || unsafe { (call.archs)(archs.as_mut_ptr()) } != 0 {
            return Err(format!(
                "{}: it does not report the architectures that it compiles for",
                name.display()
            ));
        }
        archs.sort_unstable();
        Ok(Nvrtc { call, describe, version: (major, minor), archs })
    }

    /// Its version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// The target for a device of an architecture (`90` for sm_90): its own machine code, or PTX, which the driver
    /// translates, where the device is newer than the compiler.
    pub fn target_option(&self, arch: i32) -> String {
        if self.archs.contains(&arch) {
            return format!("sm_{arch}");
        }
        let older = self.archs.iter().rev().find(|a| **a < arch).or(self.archs.first());
        format!("compute_{}", older.unwrap_or(&arch))
    }

    /// Compiles a text. The result is machine code for a target `sm_..`, and PTX for `compute_..`.
    ///
    /// # Errors
    /// [`DriverError::Compile`] with the compiler's messages.
    pub fn compile_source(&self, source: &str, options: &[String]) -> Result<Vec<u8>, DriverError> {
        let lost = |_| DriverError::Nvrtc { call: "a text", what: "it has a zero byte".into() };
        let text = CString::new(source).map_err(lost)?;
        let options: Vec<CString> = options
            .iter()
            .map(|o| CString::new(o.as_str()))
            .collect::<Result<_, _>>()
            .map_err(lost)?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program = NvrtcCompilation { nvrtc: self, handle: std::ptr::null_mut() };
        // SAFETY: the texts end in zero and live during the call, which copies them; there are no headers.
        self.check_call("nvrtcCreateProgram", unsafe {
            let none = std::ptr::null();
            (self.call.create)(
                &raw mut program.handle,
                text.as_ptr(),
                c"move.cu".as_ptr(),
                0,
                none,
                none,
            )
        })?;
        let count = c_int::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: a program that was just made, and as many texts as are given.
        let code = unsafe { (self.call.compile)(program.handle, count, pointers.as_ptr()) };
        if code != 0 {
            let log =
                program.take_result("nvrtcGetProgramLog", self.call.log_size, self.call.log)?;
            let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned();
            let target = options.iter().map(|o| o.to_string_lossy()).collect::<Vec<_>>().join(" ");
            let log = if log.is_empty() { self.describe_error(code) } else { log };
            return Err(DriverError::Compile { target, log });
        }
        // A virtual architecture has no machine code.
        if options.iter().any(|o| o.to_string_lossy().contains("=compute_")) {
            return program.take_result("nvrtcGetPTX", self.call.ptx_size, self.call.ptx);
        }
        program.take_result("nvrtcGetCUBIN", self.call.cubin_size, self.call.cubin)
    }

    fn describe_error(&self, code: c_int) -> String {
        // SAFETY: it takes any number and gives a text of the library, or null.
        let text = unsafe { (self.describe)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: a text that ends in zero and is never freed.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn check_call(&self, call: &'static str, code: c_int) -> Result<(), DriverError> {
        match code {
            0 => Ok(()),
            code => Err(DriverError::Nvrtc { call, what: self.describe_error(code) }),
        }
    }
}

/// Loads the second library of NVRTC. NVRTC loads it by name alone, and in the folder of a Python package, which has no
/// run path, the loader finds it only when it is loaded already.
fn load_builtins(library: &SharedLibrary) {
    let Some(folder) = library.library_folder(c"nvrtcVersion") else { return };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("libnvrtc-builtins.so") {
            // Where it does not load, the first compilation reports it.
            let _ = SharedLibrary::open_library(entry.path().as_os_str());
        }
    }
}

/// A compilation, which is destroyed when it is dropped.
struct NvrtcCompilation<'a> {
    nvrtc: &'a Nvrtc,
    handle: NvrtcProgram,
}

impl NvrtcCompilation<'_> {
    /// A result of the compilation, of the size that the compiler reports.
    fn take_result(
        &self,
        call: &'static str,
        size: unsafe extern "C" fn(NvrtcProgram, *mut usize) -> c_int,
        take: unsafe extern "C" fn(NvrtcProgram, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, DriverError> {
        let mut bytes = 0;
        // SAFETY: the program lives, and one number is written.
        self.nvrtc.check_call(call, unsafe { size(self.handle, &raw mut bytes) })?;
        let mut found = vec![0u8; bytes];
        // SAFETY: as many bytes are written as were just reported.
        self.nvrtc.check_call(call, unsafe { take(self.handle, found.as_mut_ptr().cast()) })?;
        Ok(found)
    }
}

impl Drop for NvrtcCompilation<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: a program that was made and is not used after this.
            unsafe { (self.nvrtc.call.destroy)(&raw mut self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_is_the_only_one() {
        let folder = std::env::temp_dir();
        let names = candidate_files(Some("/x/libnvrtc.so".into()), std::slice::from_ref(&folder));
        assert_eq!(names, ["/x/libnvrtc.so"]);
        assert_eq!(candidate_files(Some(folder.clone().into()), &[]).len(), 3);
        // Folders without the file are not tried, so that the message has no noise.
        assert_eq!(candidate_files(None, std::slice::from_ref(&folder)), LIBRARY_NAMES);
        assert_eq!(candidate_files(Some("".into()), &[folder]), LIBRARY_NAMES);
    }
}
