//! Memory whose pages exist once they are touched: an anonymous mapping, or the heap where it is small.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;

/// Owned bytes that read as zero at first, and whose pages exist once they are touched.
#[derive(Debug)]
pub struct LazyMemory {
    start: NonNull<u8>,
    len: usize,
}

impl LazyMemory {
    /// Memory of at least this many bytes is a mapping of its own. Less comes from the heap, because a hundred thousand
    /// mappings are more than systems allow a process (`vm.max_map_count` of Linux is 65530 by default).
    pub const MIN_MAPPED_BYTES: usize = 1 << 20;

    /// The alignment of all such memory, in bytes: two cache lines.
    pub const ALIGNMENT_BYTES: usize = 128;

    /// `len` bytes.
    ///
    /// # Errors
    /// Where the system has not so many.
    pub fn new_zeroed(len: usize) -> io::Result<LazyMemory> {
        if len == 0 {
            return Ok(LazyMemory::default());
        }
        #[cfg(unix)]
        if len >= LazyMemory::MIN_MAPPED_BYTES {
            return Ok(LazyMemory { start: map_zero_pages(len)?, len });
        }
        let layout =
            Layout::from_size_align(len, LazyMemory::ALIGNMENT_BYTES).map_err(io::Error::other)?;
        // SAFETY: the layout has a nonzero size.
        let raw = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(raw)
            .ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "the heap is full"))?;
        Ok(LazyMemory { start, len })
    }

    /// The number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "a length in bytes, not a collection")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Zeroes the first `len` bytes, or all where there are fewer.
    pub fn zero_prefix(&mut self, len: usize) {
        // SAFETY: the range is inside what this memory owns, which nobody else can reach while
        // it is borrowed mutably.
        unsafe { self.start.as_ptr().write_bytes(0, len.min(self.len)) };
    }

    /// The address of the first byte.
    pub fn start_address(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Default for LazyMemory {
    /// No bytes, at an address aligned like every other.
    fn default() -> LazyMemory {
        let start = std::num::NonZeroUsize::new(LazyMemory::ALIGNMENT_BYTES)
            .expect("an alignment is not zero");
        LazyMemory { start: NonNull::without_provenance(start), len: 0 }
    }
}

#[cfg(unix)]
fn map_zero_pages(len: usize) -> io::Result<NonNull<u8>> {
    // Without a reservation: a device has far more memory than is ever touched, and the system would refuse to promise
    // all of it.
    #[cfg(target_os = "linux")]
    const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    #[cfg(not(target_os = "linux"))]
    const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANON;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh anonymous mapping at an address that the kernel chooses.
    let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, access, FLAGS, -1, 0) };
    if raw == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    if len >= crate::pages::HUGE_PAGE_BYTES {
        crate::pages::advise_huge_pages(raw.cast(), len);
    }
    NonNull::new(raw.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

impl Drop for LazyMemory {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        #[cfg(unix)]
        if self.len >= LazyMemory::MIN_MAPPED_BYTES {
            // SAFETY: mapped by `new_zeroed` with this length, and not used after this.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
            return;
        }
        let layout = Layout::from_size_align(self.len, LazyMemory::ALIGNMENT_BYTES)
            .expect("checked when allocated");
        // SAFETY: allocated by `new_zeroed` with the same layout, and not used after this.
        unsafe { dealloc(self.start.as_ptr(), layout) };
    }
}

// SAFETY: it owns its bytes; the users of the address decide who accesses them when.
unsafe impl Send for LazyMemory {}
// SAFETY: as above: `start` gives an address only.
unsafe impl Sync for LazyMemory {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_refused() {
        for len in
            [0, 1, 4097, LazyMemory::MIN_MAPPED_BYTES, LazyMemory::MIN_MAPPED_BYTES + 1, 3 << 20]
        {
            let mut memory = LazyMemory::new_zeroed(len).expect("a few megabytes");
            assert_eq!(memory.len(), len);
            assert!(memory.start_address().addr().is_multiple_of(LazyMemory::ALIGNMENT_BYTES));
            if len > 0 {
                // SAFETY: the last of `len` bytes that nobody else can reach.
                unsafe {
                    let last = memory.start_address().add(len - 1);
                    assert_eq!(last.read(), 0);
                    last.write(7);
                    memory.zero_prefix(len);
                    assert_eq!(last.read(), 0);
                }
            }
        }
        assert!(LazyMemory::new_zeroed(usize::MAX).is_err());
    }
}
