//! A shared library, and tables of its functions.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A library that stays loaded until the process ends.
#[derive(Debug)]
pub(super) struct SharedLibrary(*mut c_void);

// SAFETY: the handle is only given to `dlsym`, which any thread may call.
unsafe impl Send for SharedLibrary {}
// SAFETY: as above.
unsafe impl Sync for SharedLibrary {}

impl SharedLibrary {
    /// Loads a library by its name on the loader's path, or by the path of its file.
    pub(super) fn open_library(name: &OsStr) -> Result<SharedLibrary, String> {
        let text =
            CString::new(name.as_bytes()).map_err(|_| "a name with a zero byte".to_owned())?;
        // Local symbols: PyTorch may have loaded another version of the same library, and must keep its own.
        // SAFETY: a text that ends in zero. Loading runs the library's own initialisers: it is NVIDIA's, or what
        // the user named.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(
                last_loader_error().unwrap_or_else(|| format!("{}: not found", name.display()))
            );
        }
        Ok(SharedLibrary(handle))
    }

    /// The folder that the library was loaded from, where the loader reports it.
    pub(super) fn library_folder(&self, function: &CStr) -> Option<PathBuf> {
        let inside = self.find_symbol(function).ok()?;
        // SAFETY: a structure of pointers, for which zero is a value.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: it compares the address with those of loaded libraries, and writes the structure.
        if unsafe { libc::dladdr(inside, &raw mut found) } == 0 || found.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the loader's own text, which lives as long as the library is loaded.
        let path = unsafe { CStr::from_ptr(found.dli_fname) };
        Path::new(OsStr::from_bytes(path.to_bytes())).parent().map(Path::to_path_buf)
    }

    /// The address of a function.
    pub(super) fn find_symbol(&self, name: &CStr) -> Result<*mut c_void, String> {
        // SAFETY: the handle is of a loaded library, the name a text that ends in zero.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() {
            return Err(format!("it has no function {}", name.to_string_lossy()));
        }
        Ok(found)
    }
}

/// The loader's message about the last failure of this thread.
fn last_loader_error() -> Option<String> {
    // SAFETY: `dlerror` has no preconditions; its text lives until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    // SAFETY: as above; null where there is none.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A table of functions that return an `int`, looked up by name.
macro_rules! functions {
    ($(#[$doc:meta])* struct $table:ident { $($field:ident = $symbol:literal ($($arg:ty),* $(,)?);)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $table {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> std::ffi::c_int,)*
        }

        impl $table {
            pub(super) fn load(library: &$crate::driver::library::SharedLibrary) -> Result<$table, String> {
                Ok($table {
                    $($field: {
                        let found = library.find_symbol($symbol)?;
                        // SAFETY: the library's header declares a function of this name and this type.
                        unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($arg),*) -> std::ffi::c_int,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let said = SharedLibrary::open_library(OsStr::new("libzellige-is-not-there.so"))
            .expect_err("no such file");
        assert!(said.contains("libzellige-is-not-there.so"), "{said}");
        let libc =
            SharedLibrary::open_library(OsStr::new("libc.so.6")).expect("every process has one");
        assert!(libc.find_symbol(c"strlen").is_ok());
        assert!(
            libc.library_folder(c"strlen").is_some_and(|folder| folder.join("libc.so.6").exists())
        );
        let said = libc.find_symbol(c"zellige_nothing").expect_err("no such function");
        assert!(said.contains("zellige_nothing"), "{said}");
    }
}
