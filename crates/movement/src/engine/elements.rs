//! Two loops around a single element, for strides with nothing adjacent.

use super::job::ByteLoop;

/// Copies one element at every step of `x` and, inside it, of `y`.
pub(super) type ElementsKernel = unsafe fn(src: *const u8, dst: *mut u8, x: ByteLoop, y: ByteLoop);

/// The kernel for elements of `width` bytes: 1, 2, 4, 8 or 16.
pub(super) fn select_elements_kernel(width: usize) -> ElementsKernel {
    match width {
        1 => copy_each_element::<u8>,
        2 => copy_each_element::<u16>,
        4 => copy_each_element::<u32>,
        8 => copy_each_element::<u64>,
        _ => copy_each_element::<u128>,
    }
}

/// # Safety
/// Every element of the two loops is readable at `src` and writable at `dst`, and they do not
/// overlap.
unsafe fn copy_each_element<T: Copy>(src: *const u8, dst: *mut u8, x: ByteLoop, y: ByteLoop) {
    // SAFETY: offsets are those of the loops, which the caller vouches for; accesses are unaligned.
    unsafe {
        for i in 0..x.n {
            let (mut s, mut d) = (src.offset(i * x.src), dst.offset(i * x.dst));
            // Four loads before four stores: strided loads miss the caches each, and so they wait together.
            let mut left = y.n;
            while left >= 4 {
                let v = [0, 1, 2, 3].map(|k| s.offset(k * y.src).cast::<T>().read_unaligned());
                for (k, v) in (0..4).zip(v) {
                    d.offset(k * y.dst).cast::<T>().write_unaligned(v);
                }
                s = s.wrapping_offset(4 * y.src);
                d = d.wrapping_offset(4 * y.dst);
                left -= 4;
            }
            for k in 0..left {
                let v = s.offset(k * y.src).cast::<T>().read_unaligned();
                d.offset(k * y.dst).cast::<T>().write_unaligned(v);
            }
        }
    }
}
