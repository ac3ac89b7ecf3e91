//! The OpenMP runtime that other libraries of the process use.
//!
//! GNU's `libgomp`, Intel's `libiomp5` and LLVM's `libomp` all export `GOMP_parallel`, which runs a function on every
//! thread of the team of the calling thread. PyTorch's wheel has one of them under its own name or under a hashed one.
//! It is looked for among the libraries that are loaded and never loaded from here.
//!
//! A runtime that was found stays loaded: it is opened once more with `RTLD_NODELETE`, so that whoever loaded it may
//! close it and its threads keep their code.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A function that every thread of a team runs.
pub(super) type MemberFunction = extern "C" fn(*mut c_void);

/// The functions of a runtime.
pub(super) struct OpenMpRuntime {
    parallel: unsafe extern "C" fn(MemberFunction, *mut c_void, c_uint, c_uint),
    max_threads: unsafe extern "C" fn() -> c_int,
    in_parallel: unsafe extern "C" fn() -> c_int,
    path: String,
}

/// The beginnings of the file names of runtimes; wheels append a hash.
const RUNTIME_NAMES: [&[u8]; 3] = [b"libgomp", b"libiomp5", b"libomp"];
/// PyTorch's library of CPU kernels. Where a process has several runtimes, that one counts which PyTorch runs on,
/// because its threads spin longest.
const TORCH_NAME: &[u8] = b"libtorch_cpu.so";

static FOUND_RUNTIME: AtomicPtr<OpenMpRuntime> = AtomicPtr::new(std::ptr::null_mut());
/// The libraries of the process when the runtime was looked for; 0 before that.
static SEEN_LIBRARIES: AtomicU64 = AtomicU64::new(0);

impl OpenMpRuntime {
    /// The runtime of this process. It is looked for again whenever a library was loaded or closed.
    pub(super) fn of_process() -> Option<&'static OpenMpRuntime> {
        let libraries = library_changes();
        if SEEN_LIBRARIES.load(Ordering::Acquire) != libraries {
            let before = FOUND_RUNTIME.load(Ordering::Acquire);
            let found = find_runtime();
            // SAFETY: what is stored there was leaked below, so it lives for ever.
            let same = match (unsafe { before.as_ref() }, &found) {
                (Some(before), Some(found)) => before.parallel as usize == found.parallel as usize,
                (before, found) => before.is_none() && found.is_none(),
            };
            if !same {
                // Another thread may still hold the one before, so it is never freed; there are as many as a process
                // loads runtimes.
                let kept = found.map_or(std::ptr::null_mut(), |r| Box::leak(Box::new(r)));
                FOUND_RUNTIME.store(kept, Ordering::Release);
            }
            SEEN_LIBRARIES.store(libraries, Ordering::Release);
        }
        // SAFETY: as above.
        unsafe { FOUND_RUNTIME.load(Ordering::Acquire).as_ref() }
    }

    /// The file of the runtime.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Threads of a team that this thread would lead: what `omp_set_num_threads` (`torch.set_num_threads`) or
    /// `OMP_NUM_THREADS` say, or as many as the machine has.
    pub(super) fn team_size(&self) -> usize {
        // SAFETY: it reads a variable of the calling thread, and has no preconditions.
        usize::try_from(unsafe { (self.max_threads)() }).unwrap_or(1)
    }

    /// Whether this thread is a member of a team that runs.
    pub(super) fn is_in_parallel(&self) -> bool {
        // SAFETY: as above.
        unsafe { (self.in_parallel)() != 0 }
    }

    /// Runs `member(data)` on every thread of the team of this thread, this one among them, and returns when all have.
    ///
    /// The team is always the whole one: libgomp ends threads that a smaller team has no use for, and PyTorch would
    /// have to start them again.
    ///
    /// # Safety
    /// `member` may be called with `data` by several threads at the same time, and does not unwind. This process is no
    /// forked copy of one in which the runtime had threads.
    pub(super) unsafe fn run_team(&self, member: MemberFunction, data: *mut c_void) {
        // SAFETY: by the contract of this function. No number of threads stands for that of the team, and no flags for
        // a plain region.
        unsafe { (self.parallel)(member, data, 0, 0) }
    }
}

/// A runtime that this program has loaded itself, whose operations stand for those of another library: for
/// measurements.
#[doc(hidden)]
pub struct LoadedOpenMp {
    runtime: OpenMpRuntime,
}

impl LoadedOpenMp {
    /// Loads the runtime of a file, or of a name that the system finds.
    ///
    /// # Errors
    /// A file that cannot be loaded or is no runtime.
    pub fn load_file(path: &str) -> Result<LoadedOpenMp, String> {
        let name = CString::new(path).map_err(|_| format!("{path:?} is no name of a file"))?;
        // It is never closed, because its threads run its code.
        // SAFETY: a runtime may be loaded at any time, and its initialization needs nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(format!("{path} cannot be loaded"));
        }
        // SAFETY: the handle is open.
        let parallel = unsafe { libc::dlsym(handle, c"GOMP_parallel".as_ptr()) };
        let runtime = OpenMpRuntime::at_symbol(parallel);
        runtime
            .map(|runtime| LoadedOpenMp { runtime })
            .ok_or_else(|| format!("{path} is no OpenMP runtime with GOMP_parallel"))
    }

    /// Runs `work` on every thread of the team of this thread, as a parallel operation does. A panic of `work` ends
    /// the process, because it may not unwind into the runtime.
    pub fn run_region<F: Fn() + Sync>(&self, work: &F) {
        extern "C" fn run_work<F: Fn() + Sync>(work: *mut c_void) {
            // SAFETY: the region ends before the borrow of `run_region` does.
            unsafe { (*work.cast::<F>())() }
        }
        let data = std::ptr::from_ref(work).cast_mut().cast();
        assert!(
            crate::cores::ProcessStatus::is_original(),
            "a forked process has no threads of its parent's runtime"
        );
        // SAFETY: `work` may be called by several threads, and a panic ends at the border of the function; the process
        // is no copy.
        unsafe { self.runtime.run_team(run_work::<F>, data) }
    }

    /// Threads of a region of this thread.
    pub fn threads(&self) -> usize {
        self.runtime.team_size()
    }
}

/// A number that changes whenever a library is loaded or closed; never 0.
fn library_changes() -> u64 {
    extern "C" fn read_counts(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: the loader calls this with a structure of its own, and with the pointer that is given below.
        let (info, out) = unsafe { (&*info, &mut *out.cast::<u64>()) };
        // Closing leaves one count as it is and moves the other, so both go in; the factor keeps them apart.
        *out = info.dlpi_adds.wrapping_mul(1 << 32).wrapping_add(info.dlpi_subs) | 1 << 63;
        // Every library has the same counts, so the first one is enough.
        1
    }
    let mut counts = 0u64;
    // SAFETY: the function accesses nothing but what it is given, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(read_counts), (&raw mut counts).cast()) };
    counts | 1 << 63
}

/// The paths of libraries that are, or lead to, a runtime: PyTorch's first.
fn candidate_paths() -> Vec<CString> {
    extern "C" fn collect(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: as in `library_changes`.
        let (info, out) = unsafe { (&*info, &mut *out.cast::<Vec<CString>>()) };
        if info.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: the name of a loaded library is a text that ends with a zero byte.
        let path = unsafe { CStr::from_ptr(info.dlpi_name) };
        let name = path.to_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
        if name.starts_with(TORCH_NAME) {
            out.insert(0, path.to_owned());
        } else if RUNTIME_NAMES.iter().any(|known| name.starts_with(known)) {
            out.push(path.to_owned());
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: as in `library_changes`.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut paths).cast()) };
    paths
}

/// The runtime that other libraries of this process are bound to.
fn find_runtime() -> Option<OpenMpRuntime> {
    // What is global is found by every library first: a runtime that was preloaded, the one of the program, or PyTorch's,
    // whose dependencies Python loads globally.
    // SAFETY: it searches the loaded libraries for a name.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"GOMP_parallel".as_ptr()) };
    if let Some(runtime) = OpenMpRuntime::at_symbol(global) {
        return Some(runtime);
    }
    candidate_paths().iter().find_map(|path| {
        // It fails where the library was closed since it was listed.
        let library = LoadedLibrary::open(path, 0)?;
        // Searched in the library and then in those that it depends on, as the loader did for its own calls.
        OpenMpRuntime::at_symbol(library.find_symbol(c"GOMP_parallel"))
    })
}

impl OpenMpRuntime {
    /// The runtime whose `GOMP_parallel` is there; it stays loaded from now on.
    fn at_symbol(parallel: *mut c_void) -> Option<OpenMpRuntime> {
        if parallel.is_null() {
            return None;
        }
        // SAFETY: zeros are a value of this structure of pointers.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: it writes the structure, and accepts any address.
        let known = unsafe { libc::dladdr(parallel, &raw mut found) } != 0;
        if !known || found.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the name of a loaded library, which ends with a zero byte.
        let path = unsafe { CStr::from_ptr(found.dli_fname) }.to_owned();
        let library = LoadedLibrary::open(&path, libc::RTLD_NODELETE)?;
        // Looked up again, because the library may have been closed and loaded elsewhere until it was held.
        let parallel = library.find_symbol(c"GOMP_parallel");
        let max_threads = library.find_symbol(c"omp_get_max_threads");
        let in_parallel = library.find_symbol(c"omp_in_parallel");
        if [parallel, max_threads, in_parallel].iter().any(|f| f.is_null()) {
            return None;
        }
        let path = path.to_string_lossy().into_owned();
        // SAFETY: functions of these names have these types in every OpenMP runtime (OpenMP 5.2, sections 18.2.5 and
        // 18.2.6) and in the interface of GCC to its runtime, which the others copy.
        unsafe {
            Some(OpenMpRuntime {
                parallel: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(MemberFunction, *mut c_void, c_uint, c_uint),
                >(parallel),
                max_threads: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(
                    max_threads,
                ),
                in_parallel: std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(
                    in_parallel,
                ),
                path,
            })
        }
    }
}

/// A library that was loaded already and is held.
struct LoadedLibrary(*mut c_void);

impl LoadedLibrary {
    fn open(path: &CStr, flags: c_int) -> Option<LoadedLibrary> {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | flags;
        // SAFETY: a library that is loaded is not initialized again, so no code of it runs here.
        let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        (!handle.is_null()).then_some(LoadedLibrary(handle))
    }

    fn find_symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

impl Drop for LoadedLibrary {
    fn drop(&mut self) {
        // SAFETY: it was opened once. One that was opened with `RTLD_NODELETE` stays loaded.
        unsafe { libc::dlclose(self.0) };
    }
}
