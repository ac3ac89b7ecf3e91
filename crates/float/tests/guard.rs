//! Kernels between pages that must not be touched: nothing outside the arrays is read or written.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::ffi::{c_int, c_void};

use zellige_float::{Converter, Format, Isa, fence_stores};

unsafe extern "C" {
    fn mmap(
        addr: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn mprotect(addr: *mut c_void, length: usize, protection: c_int) -> c_int;
}

/// Large enough for every page size in use.
const PAGE: usize = 64 << 10;

/// The middle one of three pages, of which the outer ones fault. It lives as long as the process.
fn page() -> *mut u8 {
    const NONE: c_int = 0;
    const READ_WRITE: c_int = 3;
    const PRIVATE_ANONYMOUS: c_int = 0x22;
    // SAFETY: a new mapping, anywhere, touches no other memory.
    let start = unsafe {
        mmap(std::ptr::null_mut(), 3 * PAGE, NONE, PRIVATE_ANONYMOUS, -1, 0).cast::<u8>()
    };
    assert_ne!(start.addr(), usize::MAX, "mmap failed");
    let middle = start.wrapping_add(PAGE);
    // SAFETY: the range is part of the mapping above, and nobody uses it yet.
    assert_eq!(unsafe { mprotect(middle.cast(), PAGE, READ_WRITE) }, 0, "mprotect failed");
    middle
}

#[test]
fn nothing_outside_is_touched() {
    let (src_page, dst_page) = (page(), page());
    for (src, dst) in Format::ALL.into_iter().flat_map(|src| Format::ALL.map(|dst| (src, dst))) {
        let converters: Vec<Converter> =
            Isa::all_available().map(|isa| Converter::with_isa(src, dst, isa)).collect();
        for count in (0..=130).chain([257, 1000]) {
            let (read, written) = (count * src.byte_size(), count * dst.byte_size());
            for (from, to) in [(0, 0), (PAGE - read, PAGE - written), (0, PAGE - written)] {
                for converter in &converters {
                    // SAFETY: both ranges are inside their pages, which are different.
                    unsafe {
                        let (from, to) = (src_page.add(from), dst_page.add(to));
                        converter.convert_raw(from, to, count);
                        converter.convert_streaming_raw(from, to, count);
                    }
                }
            }
        }
    }
    fence_stores();
}
