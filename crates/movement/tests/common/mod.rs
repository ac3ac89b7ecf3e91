//! Random layouts, and buffers between guard pages.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test file uses a part")]

mod against;
mod layouts;
mod sticks;

pub use against::{check, config};
pub use layouts::*;
pub use sticks::{Random, padded_dims, side};

/// Bytes between two pages that must not be touched; the end (or the start) is at the guard.
pub struct Guarded {
    map: *mut u8,
    mapped: usize,
    start: *mut u8,
    len: usize,
}

impl Guarded {
    pub fn new(len: usize, at_end: bool) -> Guarded {
        // SAFETY: a fresh anonymous mapping with a page made inaccessible at each end; nothing else
        // knows its address, and it is unmapped once, on drop.
        unsafe {
            let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).expect("a page");
            let inner = len.div_ceil(page).max(1) * page;
            let mapped = inner + 2 * page;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            assert_ne!(map, libc::MAP_FAILED);
            let map = map.cast::<u8>();
            assert_eq!(libc::mprotect(map.cast(), page, libc::PROT_NONE), 0);
            assert_eq!(libc::mprotect(map.add(page + inner).cast(), page, libc::PROT_NONE), 0);
            let start = if at_end { map.add(page + inner - len) } else { map.add(page) };
            Guarded { map, mapped, start, len }
        }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `start .. start + len` is inside the mapping and is borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and is not used after this.
        unsafe { libc::munmap(self.map.cast(), self.mapped) };
    }
}
