//! What the operating system knows and the standard library does not ask.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;

/// The user whose rights this process has: files that it makes belong to that one.
pub fn effective_user() -> u32 {
    // SAFETY: `geteuid` has no preconditions and always succeeds.
    unsafe { libc::geteuid() }
}

/// Copies bytes from a place of one file to a place of another without taking them through this process; fewer than asked for where
/// the source ends.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] where the system or these two files have no such call; what reading and writing refuse.
#[cfg(target_os = "linux")]
pub fn copy_range(
    from: &File,
    from_at: u64,
    to: &File,
    to_at: u64,
    len: usize,
) -> io::Result<usize> {
    let place = |at: u64| i64::try_from(at).map_err(|_| io::ErrorKind::InvalidInput);
    let (mut read, mut written) = (place(from_at)?, place(to_at)?);
    // SAFETY: both descriptors are open while the files are borrowed, and both positions are written to by the call alone.
    let copied = unsafe {
        libc::copy_file_range(from.as_raw_fd(), &mut read, to.as_raw_fd(), &mut written, len, 0)
    };
    usize::try_from(copied).map_err(|_| {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EXDEV | libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP | libc::EPERM) => {
                io::ErrorKind::Unsupported.into()
            }
            _ => error,
        }
    })
}

/// There is no such call.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn copy_range(_: &File, _: u64, _: &File, _: u64, _: usize) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
