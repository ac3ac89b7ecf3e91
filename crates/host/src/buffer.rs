//! Memory for bulk data: aligned to cache lines, on huge pages where the system has them.

use crate::kept::{self, FreeMemory};
use crate::pages::{self, HUGE_PAGE_BYTES};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of a cache line, the alignment of every buffer.
const CACHE_LINE_BYTES: usize = 64;

/// Bytes aligned for stores of whole lines, zeroed unless a constructor says otherwise. Large buffers begin on a huge
/// page and request huge pages, which spare most TLB misses of strided accesses.
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
    /// The allocation; none for a buffer of no bytes.
    memory: Option<FreeMemory>,
    /// Whether the memory is kept for another buffer when this one is dropped.
    kept: bool,
}

impl AlignedBuffer {
    /// A zeroed buffer of `len` bytes.
    pub fn new_zeroed(len: usize) -> AlignedBuffer {
        let refused = || handle_alloc_error(allocation_layout(len).expect("a length below 2^63"));
        AlignedBuffer::try_new_zeroed(len).unwrap_or_else(refused)
    }

    /// A zeroed buffer, or none where the system has not so many bytes: for lengths that a user or a file gives.
    pub fn try_new_zeroed(len: usize) -> Option<AlignedBuffer> {
        if len == 0 {
            return Some(AlignedBuffer {
                start: NonNull::dangling(),
                len,
                memory: None,
                kept: false,
            });
        }
        // SAFETY: the layout has a nonzero size.
        let raw = NonNull::new(unsafe { alloc_zeroed(allocation_layout(len)?) })?;
        let memory = FreeMemory { raw, len };
        if len >= HUGE_PAGE_BYTES {
            pages::advise_huge_pages(aligned_start(&memory).as_ptr(), len);
        }
        Some(AlignedBuffer {
            start: aligned_start(&memory),
            len,
            memory: Some(memory),
            kept: false,
        })
    }

    /// A buffer with any contents: for callers that write every byte before they read one.
    ///
    /// The memory of a large one is kept for a while when it is dropped, and is used for the next one: pages that
    /// exist already are several times faster to write than fresh ones.
    pub fn try_new_uninit(len: usize) -> Option<AlignedBuffer> {
        if let Some(memory) = kept::take_free_memory(len) {
            return Some(AlignedBuffer {
                start: aligned_start(&memory),
                len,
                memory: Some(memory),
                kept: true,
            });
        }
        let mut fresh = AlignedBuffer::try_new_zeroed(len)?;
        fresh.kept = len >= kept::MIN_KEPT_BYTES;
        Some(fresh)
    }
}

/// The layout with which memory of `len` bytes is allocated.
fn allocation_layout(len: usize) -> Option<Layout> {
    // Large memory has room to begin on a huge page instead of an alignment to one: allocators zero aligned memory by
    // writing it, page by page, although the system gives fresh pages zeroed.
    match len {
        0..HUGE_PAGE_BYTES => Layout::from_size_align(len, CACHE_LINE_BYTES).ok(),
        _ => Layout::from_size_align(len.checked_add(HUGE_PAGE_BYTES)?, size_of::<usize>()).ok(),
    }
}

/// The first byte of a buffer inside its allocation.
fn aligned_start(memory: &FreeMemory) -> NonNull<u8> {
    let skip = if memory.len < HUGE_PAGE_BYTES {
        0
    } else {
        memory.raw.addr().get().wrapping_neg() % HUGE_PAGE_BYTES
    };
    // SAFETY: `allocation_layout` has made room for less than a huge page in front of large memory.
    unsafe { memory.raw.add(skip) }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` initialised bytes that this buffer owns.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, borrowed mutably with the buffer.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        // The system may take pages of kept memory when it runs short, so that keeping costs nobody anything.
        if self.kept {
            pages::lend_pages_to_system(self.start.as_ptr(), memory.len);
            kept::keep_free_memory(memory).into_iter().for_each(free_buffer_memory);
        } else {
            free_buffer_memory(memory);
        }
    }
}

/// Frees the memory of a buffer.
#[allow(clippy::needless_pass_by_value, reason = "the memory is gone afterwards")]
fn free_buffer_memory(memory: FreeMemory) {
    let layout = allocation_layout(memory.len).expect("the layout that it was allocated with");
    // SAFETY: allocated by `try_new_zeroed` with the same layout, and nothing else refers to it.
    unsafe { dealloc(memory.raw.as_ptr(), layout) };
}

// SAFETY: a buffer owns its bytes and shares nothing.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared buffer is only read.
unsafe impl Sync for AlignedBuffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_and_aligned() {
        for len in [0, 1, 63, 64, 4096, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1] {
            let mut b = AlignedBuffer::new_zeroed(len);
            assert_eq!(b.len(), len);
            assert!(b.iter().all(|x| *x == 0));
            let align = if len < HUGE_PAGE_BYTES { CACHE_LINE_BYTES } else { HUGE_PAGE_BYTES };
            assert!(len == 0 || b.as_ptr().addr().is_multiple_of(align));
            if let Some(x) = b.last_mut() {
                *x = 1;
            }
        }
        assert!(AlignedBuffer::try_new_zeroed(usize::MAX).is_none());
        assert!(AlignedBuffer::try_new_uninit(usize::MAX).is_none());
        assert!(
            AlignedBuffer::try_new_zeroed(isize::MAX.unsigned_abs() - HUGE_PAGE_BYTES).is_none()
        );
    }

    #[test]
    fn unset_buffers_are_as_long_and_as_aligned_as_others() {
        for len in [
            0,
            1,
            4096,
            kept::MIN_KEPT_BYTES - 1,
            kept::MIN_KEPT_BYTES,
            kept::MIN_KEPT_BYTES + 12345,
            3 * kept::MIN_KEPT_BYTES,
        ] {
            for round in 0..3u8 {
                let mut b = AlignedBuffer::try_new_uninit(len).expect("a few megabytes");
                assert_eq!(b.len(), len);
                assert!(len == 0 || b.as_ptr().addr().is_multiple_of(CACHE_LINE_BYTES));
                b.fill(round);
                assert!(b.iter().all(|x| *x == round));
            }
        }
        // Others stay zeroed, whatever was kept.
        assert!(AlignedBuffer::new_zeroed(kept::MIN_KEPT_BYTES).iter().all(|x| *x == 0));
    }
}
