//! Memory made for moves: aligned to lines, on huge pages where the system has them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of a cache line, the alignment of every buffer.
const LINE: usize = 64;
/// Bytes of a huge page; buffers at least this long begin on one.
const HUGE: usize = 2 << 20;

/// Zeroed bytes, aligned for whole-line stores; large ones ask for huge pages, which spare most
/// TLB misses of strided walks.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
}

impl Buffer {
    /// A zeroed buffer of `len` bytes.
    pub fn zeroed(len: usize) -> Buffer {
        let refused = || handle_alloc_error(Buffer::layout(len).expect("a length below 2^63"));
        Buffer::try_zeroed(len).unwrap_or_else(refused)
    }

    /// The same, or nothing where the system has not got so many bytes: for lengths that a user or a
    /// file gives.
    pub fn try_zeroed(len: usize) -> Option<Buffer> {
        if len == 0 {
            return Some(Buffer { start: NonNull::dangling(), len });
        }
        let layout = Buffer::layout(len)?;
        // SAFETY: the layout has a nonzero size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        #[cfg(all(target_os = "linux", not(miri)))]
        if len >= HUGE {
            // SAFETY: the range was just allocated and begins on a page; the advice changes no
            // contents, and a refusal changes nothing.
            unsafe {
                libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE);
            }
        }
        Some(Buffer { start, len })
    }

    fn layout(len: usize) -> Option<Layout> {
        let align = if len >= HUGE { HUGE } else { LINE };
        Layout::from_size_align(len, align).ok()
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes that this buffer owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, borrowed mutably with the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.len > 0 {
            let layout = Buffer::layout(self.len).expect("the layout that it was allocated with");
            // SAFETY: allocated by `try_zeroed` with the same layout, and not used after this.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

// SAFETY: a buffer owns its bytes and shares nothing.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer is only read.
unsafe impl Sync for Buffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_and_aligned() {
        for len in [0, 1, 63, 64, 4096, HUGE, HUGE + 1] {
            let mut b = Buffer::zeroed(len);
            assert_eq!(b.len(), len);
            assert!(b.iter().all(|x| *x == 0));
            assert!(len == 0 || b.as_ptr().addr().is_multiple_of(LINE));
            if let Some(x) = b.last_mut() {
                *x = 1;
            }
        }
        assert!(Buffer::try_zeroed(usize::MAX).is_none());
        assert!(Buffer::try_zeroed(isize::MAX.unsigned_abs() - HUGE).is_none());
    }
}
