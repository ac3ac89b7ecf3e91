//! Host memory behind a block.

use super::allocator::GRANULE;
use crate::error::{DeviceError, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// From this many bytes on a block has a mapping of its own, whose pages exist once touched; below,
/// the heap pools it, as a hundred thousand mappings would exceed what systems allow a process.
pub(super) const MAPPED: usize = 1 << 20;
/// Bytes of a huge page: from here on they are asked for.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;
/// Alignment of every backing: a stick, which is two cache lines.
const ALIGN: usize = 128;
const _: () = assert!(ALIGN as u64 == GRANULE);

/// Owned bytes that read as zero at first, at a stick's boundary.
///
#[derive(Debug)]
pub(super) struct Backing {
    start: NonNull<u8>,
    len: usize,
}

impl Backing {
    pub(super) fn zeroed(len: usize) -> Result<Backing> {
        if len == 0 {
            return Ok(Backing::default());
        }
        let refused = |reason: String| DeviceError::HostMemory { asked: len as u64, reason };
        #[cfg(unix)]
        if len >= MAPPED {
            return Ok(Backing { start: map(len).map_err(|e| refused(e.to_string()))?, len });
        }
        let layout = Layout::from_size_align(len, ALIGN).map_err(|e| refused(e.to_string()))?;
        // SAFETY: the layout has a nonzero size.
        let raw = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(raw).ok_or_else(|| refused("the heap is full".into()))?;
        Ok(Backing { start, len })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Zeroes the first `len` bytes, or all where there are fewer.
    pub(super) fn clear(&mut self, len: usize) {
        // SAFETY: the range lies inside what this backing owns, which nobody else can reach while
        // it is borrowed mutably.
        unsafe { self.start.as_ptr().write_bytes(0, len.min(self.len)) };
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Default for Backing {
    /// No bytes, at an address aligned like every other, so that callers need not tell it apart.
    fn default() -> Backing {
        let start = std::num::NonZeroUsize::new(ALIGN).expect("an alignment is not zero");
        Backing { start: NonNull::without_provenance(start), len: 0 }
    }
}

#[cfg(unix)]
fn map(len: usize) -> std::io::Result<NonNull<u8>> {
    #[cfg(target_os = "linux")]
    const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    #[cfg(not(target_os = "linux"))]
    const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANON;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh anonymous mapping at an address that the kernel chooses.
    let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, access, FLAGS, -1, 0) };
    if raw == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    #[cfg(target_os = "linux")]
    if len >= HUGE {
        // SAFETY: the range was just mapped; the advice changes no contents and may be refused.
        unsafe { libc::madvise(raw, len, libc::MADV_HUGEPAGE) };
    }
    NonNull::new(raw.cast()).ok_or_else(|| std::io::Error::other("mapped at address 0"))
}

impl Drop for Backing {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        #[cfg(unix)]
        if self.len >= MAPPED {
            // SAFETY: mapped by `zeroed` with this length, and not used after this.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
            return;
        }
        let layout = Layout::from_size_align(self.len, ALIGN).expect("checked when allocated");
        // SAFETY: allocated by `zeroed` with the same layout, and not used after this.
        unsafe { dealloc(self.start.as_ptr(), layout) };
    }
}

// SAFETY: a backing owns its bytes; who may touch them when is decided by the lock of its block.
unsafe impl Send for Backing {}
// SAFETY: as above: `start` gives an address only.
unsafe impl Sync for Backing {}
