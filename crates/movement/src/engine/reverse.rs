//! Rows that are read backwards in the source: sixteen bytes at a time, reversed in a register.

use super::job::ByteLoop;
#[cfg(target_arch = "x86_64")]
use zellige_isa::Isa;

/// Writes `count` elements at every step of `x` and, inside it, of `y`; the source pointer of a row is that of
/// its first element, and those after it are at falling addresses.
pub(super) type ReverseKernel =
    unsafe fn(src: *const u8, dst: *mut u8, count: usize, x: ByteLoop, y: ByteLoop);

/// The fastest kernel for elements of `width` bytes: 1, 2, 4, 8 or 16.
pub(super) fn select_reverse_kernel(width: usize) -> ReverseKernel {
    macro_rules! widths {
        ($f:ident) => {
            match width {
                1 => $f::<u8, 16>,
                2 => $f::<u16, 8>,
                4 => $f::<u32, 4>,
                8 => $f::<u64, 2>,
                _ => $f::<u128, 1>,
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    if Isa::process_isa().has_avx2() {
        return widths!(reverse_rows_avx2);
    }
    widths!(reverse_rows)
}

/// # Safety
/// Every element of the loops is readable before `src` and writable at `dst`, and they do not overlap.
#[inline(always)]
unsafe fn reverse_rows<T: Copy, const N: usize>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: offsets are those of the loops, which the caller vouches for; accesses are unaligned. The
    // last stretch ends with the row, and writes some of it again.
    unsafe {
        for i in 0..x.n {
            for j in 0..y.n {
                let s = src.offset(i * x.src + j * y.src).cast::<T>();
                let d = dst.offset(i * x.dst + j * y.dst).cast::<T>();
                let stretch = |at: usize| {
                    // One shuffle where the target has one for bytes.
                    let mut v = s.sub(at + N - 1).cast::<[T; N]>().read_unaligned();
                    v.reverse();
                    d.add(at).cast::<[T; N]>().write_unaligned(v);
                };
                if count < N {
                    for at in 0..count {
                        d.add(at).write_unaligned(s.sub(at).read_unaligned());
                    }
                    continue;
                }
                let mut at = 0;
                while at + N < count {
                    stretch(at);
                    at += N;
                }
                stretch(count - N);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn reverse_rows_avx2<T: Copy, const N: usize>(
    src: *const u8,
    dst: *mut u8,
    count: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe { reverse_rows::<T, N>(src, dst, count, x, y) };
}
