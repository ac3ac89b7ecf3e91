//! Calls to the operating system that the standard library lacks.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;

/// The user whose rights this process has, and to whom the files that it creates belong.
pub fn effective_user() -> u32 {
    // SAFETY: `geteuid` has no preconditions and always succeeds.
    unsafe { libc::geteuid() }
}

/// Reserves blocks on the disk for the first `len` bytes of a file, so that they need not be found while the file is
/// written. Its length and its bytes stay as they are.
///
/// # Errors
/// A full disk, and a system or a file without such a call.
#[cfg(target_os = "linux")]
pub fn reserve_file_space(file: &File, len: u64) -> io::Result<()> {
    let len = i64::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open while the file is borrowed, and the call has no other preconditions.
    match unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Refused: there is no such call on this system.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn reserve_file_space(_: &File, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
