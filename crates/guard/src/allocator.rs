//! The system allocator, counting the bytes in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes in use. A process has one global allocator, so it has one count.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The system allocator, counting the bytes in use, and requesting huge pages for long memory: a vector of a hundred
/// megabytes is then written several times faster for the first time.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: zellige_guard::CountingAllocator = zellige_guard::CountingAllocator;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

impl CountingAllocator {
    /// Bytes in use by the whole process; 0 where this is not its allocator.
    pub fn bytes_in_use() -> usize {
        IN_USE.load(Ordering::Relaxed)
    }
}

// All four methods are passed on: the provided `alloc_zeroed` would touch every page of memory that the system gives
// zeroed, and the provided `realloc` would copy what the system can remap.
//
// SAFETY: every call is passed on as it came; the count never decides what is returned, and advice changes no contents.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract of this method.
        let made = unsafe { System.alloc(layout) };
        if !made.is_null() {
            zellige_host::prefer_huge_pages(made, layout.size());
            IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        }
        made
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract of this method.
        let made = unsafe { System.alloc_zeroed(layout) };
        if !made.is_null() {
            zellige_host::prefer_huge_pages(made, layout.size());
            IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        }
        made
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: by the contract of this method.
        unsafe { System.dealloc(memory, layout) };
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by the contract of this method.
        let made = unsafe { System.realloc(memory, layout, size) };
        if !made.is_null() {
            zellige_host::prefer_huge_pages(made, size);
            // One addition, so that no thread sees the count without the bytes: where the new size is smaller the
            // difference wraps around, and so does the sum.
            IN_USE.fetch_add(size.wrapping_sub(layout.size()), Ordering::Relaxed);
        }
        made
    }
}
