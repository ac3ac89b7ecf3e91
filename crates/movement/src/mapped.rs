//! Files as memory, for reading.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

/// A part of a file, mapped for reading.
///
/// The bytes are those of the file as long as nobody shortens it meanwhile; a file that is cut while
/// it is mapped ends the program, as it does for every program that maps files.
#[derive(Debug)]
pub struct Mapped {
    map: Option<NonNull<u8>>,
    mapped: usize,
    skip: usize,
    len: usize,
}

impl Mapped {
    /// Maps `len` bytes from `offset` on; both must lie inside the file.
    pub fn new(file: &File, offset: u64, len: usize) -> io::Result<Mapped> {
        let end = offset
            .checked_add(len as u64)
            .filter(|end| *end <= file.metadata().map_or(0, |m| m.len()));
        if end.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file is shorter than its header says",
            ));
        }
        if len == 0 {
            return Ok(Mapped { map: None, mapped: 0, skip: 0, len });
        }
        // SAFETY: `sysconf` has no preconditions.
        let page =
            u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1);
        let skip = usize::try_from(offset % page).unwrap_or(0);
        let start = i64::try_from(offset - offset % page).map_err(io::Error::other)?;
        let mapped = len + skip;
        // SAFETY: a fresh private read-only mapping of an open file at a page boundary; the kernel
        // chooses the address.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                start,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range was just mapped; the advice changes no contents.
        unsafe { libc::madvise(map, mapped, libc::MADV_SEQUENTIAL) };
        Ok(Mapped { map: NonNull::new(map.cast()), mapped, skip, len })
    }
}

impl Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self.map {
            None => &[],
            // SAFETY: `skip + len` bytes are mapped for reading until `self` is dropped.
            Some(map) => unsafe {
                std::slice::from_raw_parts(map.as_ptr().add(self.skip), self.len)
            },
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if let Some(map) = self.map {
            // SAFETY: mapped by `new` with this length, and not used after this.
            unsafe { libc::munmap(map.as_ptr().cast(), self.mapped) };
        }
    }
}

// SAFETY: the mapping is private and only read.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}
