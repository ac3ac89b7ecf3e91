//! Memory made for moves: aligned to lines, on huge pages where the system has them.

use crate::kept::{self, FreeMemory};
use crate::pages::{self, HUGE};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of a cache line, the alignment of every buffer.
const LINE: usize = 64;

/// Bytes aligned for whole-line stores, zeroed where nothing else is said; large ones begin on a huge page and
/// ask for such, which spare most TLB misses of strided walks.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// What it lies in; a buffer of no bytes in nothing.
    memory: Option<FreeMemory>,
    /// Whether the memory is kept for another buffer.
    kept: bool,
}

impl Buffer {
    /// A zeroed buffer of `len` bytes.
    pub fn zeroed(len: usize) -> Buffer {
        let refused = || handle_alloc_error(layout(len).expect("a length below 2^63"));
        Buffer::try_zeroed(len).unwrap_or_else(refused)
    }

    /// The same, or nothing where the system has not got so many bytes: for lengths that a user or a
    /// file gives.
    pub fn try_zeroed(len: usize) -> Option<Buffer> {
        if len == 0 {
            return Some(Buffer { start: NonNull::dangling(), len, memory: None, kept: false });
        }
        // SAFETY: the layout has a nonzero size.
        let raw = NonNull::new(unsafe { alloc_zeroed(layout(len)?) })?;
        let memory = FreeMemory { raw, len };
        if len >= HUGE {
            pages::advise(start(&memory).as_ptr(), len);
        }
        Some(Buffer { start: start(&memory), len, memory: Some(memory), kept: false })
    }

    /// The same, but it holds anything: for who writes every byte of it before anybody reads one.
    ///
    /// Where it is large its memory is kept for a while when it is dropped, and serves the next one: pages
    /// that are there already are several times faster to write than fresh ones.
    pub fn try_unset(len: usize) -> Option<Buffer> {
        if let Some(memory) = kept::take(len) {
            return Some(Buffer { start: start(&memory), len, memory: Some(memory), kept: true });
        }
        let mut fresh = Buffer::try_zeroed(len)?;
        fresh.kept = len >= kept::FROM;
        Some(fresh)
    }
}

/// How memory of `len` bytes is allocated. Large memory has room to begin on a huge page, rather than being
/// aligned to one by the allocator: aligned memory is zeroed by writing it, page by page, where the system
/// would give it zeroed.
fn layout(len: usize) -> Option<Layout> {
    match len {
        0..HUGE => Layout::from_size_align(len, LINE).ok(),
        _ => Layout::from_size_align(len.checked_add(HUGE)?, size_of::<usize>()).ok(),
    }
}

/// Where the bytes of an allocation begin.
fn start(memory: &FreeMemory) -> NonNull<u8> {
    let skip = if memory.len < HUGE { 0 } else { memory.raw.addr().get().wrapping_neg() % HUGE };
    // SAFETY: `layout` has made room for less than a huge page in front of large memory.
    unsafe { memory.raw.add(skip) }
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
        let Some(memory) = self.memory.take() else { return };
        if self.kept {
            pages::lend(self.start.as_ptr(), memory.len);
            kept::keep(memory).into_iter().for_each(free);
        } else {
            free(memory);
        }
    }
}

/// Frees the memory of a buffer.
#[allow(clippy::needless_pass_by_value, reason = "nobody has it any more")]
fn free(memory: FreeMemory) {
    let layout = layout(memory.len).expect("the layout that it was allocated with");
    // SAFETY: allocated by `try_zeroed` with the same layout, and this is the only way to it.
    unsafe { dealloc(memory.raw.as_ptr(), layout) };
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
            let align = if len < HUGE { LINE } else { HUGE };
            assert!(len == 0 || b.as_ptr().addr().is_multiple_of(align));
            if let Some(x) = b.last_mut() {
                *x = 1;
            }
        }
        assert!(Buffer::try_zeroed(usize::MAX).is_none());
        assert!(Buffer::try_unset(usize::MAX).is_none());
        assert!(Buffer::try_zeroed(isize::MAX.unsigned_abs() - HUGE).is_none());
    }

    #[test]
    fn unset_buffers_are_as_long_and_as_aligned_as_others() {
        for len in [0, 1, 4096, kept::FROM - 1, kept::FROM, kept::FROM + 12345, 3 * kept::FROM] {
            for round in 0..3u8 {
                let mut b = Buffer::try_unset(len).expect("a few megabytes");
                assert_eq!(b.len(), len);
                assert!(len == 0 || b.as_ptr().addr().is_multiple_of(LINE));
                b.fill(round);
                assert!(b.iter().all(|x| *x == round));
            }
        }
        // Others stay zeroed, whatever was kept.
        assert!(Buffer::zeroed(kept::FROM).iter().all(|x| *x == 0));
    }
}
