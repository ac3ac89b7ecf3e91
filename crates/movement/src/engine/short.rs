//! Rows of a few registers: their number is a constant of the kernel, not a condition for every row.

use super::cell::{CopyLane, PortableLane};
use super::job::ByteLoop;
use super::rows::RowCopyKernel;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use zellige_isa::Isa;

/// The version for rows of `bytes`, if they are short enough for one.
pub(super) fn select_short_rows(bytes: usize) -> Option<RowCopyKernel> {
    Some(match bytes {
        2..=3 => copy_short_rows::<IntegerLane<u16>, 2>,
        4..=7 => copy_short_rows::<IntegerLane<u32>, 2>,
        8..=15 => copy_short_rows::<IntegerLane<u64>, 2>,
        16 => copy_short_rows::<PortableLane, 1>,
        17..=32 => copy_short_rows::<PortableLane, 2>,
        33..=64 => select_wide_rows(bytes).unwrap_or(copy_short_rows::<PortableLane, 4>),
        65..=256 => return select_wide_rows(bytes),
        _ => return None,
    })
}

#[cfg(target_arch = "x86_64")]
fn select_wide_rows(bytes: usize) -> Option<RowCopyKernel> {
    if bytes <= 64 {
        return Isa::process_isa().has_avx2().then_some(copy_short_rows_avx::<2> as RowCopyKernel);
    }
    if bytes <= 128 && Isa::process_isa().has_avx512() {
        return Some(copy_short_rows_avx512::<2>);
    }
    if bytes <= 128 {
        return Isa::process_isa().has_avx2().then_some(copy_short_rows_avx::<4> as RowCopyKernel);
    }
    Isa::process_isa().has_avx512().then_some(copy_short_rows_avx512::<4> as RowCopyKernel)
}

#[cfg(target_arch = "aarch64")]
fn select_wide_rows(bytes: usize) -> Option<RowCopyKernel> {
    use super::cell::neon::Neon;
    let run: RowCopyKernel = match bytes {
        ..=64 => copy_short_rows::<Neon, 2>,
        65..=128 => copy_short_rows::<Neon, 4>,
        _ => copy_short_rows::<Neon, 8>,
    };
    Isa::process_isa().has_neon().then_some(run)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn select_wide_rows(_: usize) -> Option<RowCopyKernel> {
    None
}

/// Rows of more than `N / 2` registers and at most `N`: half of them from the front, half of them up
/// to the end. Where these overlap, the same bytes are written twice.
///
/// # Safety
/// Every row of the two loops is readable at `src` and writable at `dst`, the two do not overlap, rows
/// have that length, and the machine has the instructions of `L`.
#[inline(always)]
unsafe fn copy_short_rows<L: CopyLane, const N: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // A second set of registers that ends with the row covers every length up to `N` of them without a loop
    // for the remainder.
    let half = (N / 2).max(1);
    let back = bytes - (N - N / 2) * L::BYTES;
    let place = |k: usize| if k < half { k * L::BYTES } else { back + (k - half) * L::BYTES };
    // SAFETY: offsets are those of the loops, which the caller vouches for; both halves are inside a
    // row, and together they cover it. A row is read before it is written.
    unsafe {
        for i in 0..x.n {
            let (mut s, mut d) = (src.offset(i * x.src), dst.offset(i * x.dst));
            for _ in 0..y.n {
                let v: [L; N] = std::array::from_fn(|k| L::load_lane(s.add(place(k))));
                for (k, v) in v.into_iter().enumerate() {
                    v.store_lane(d.add(place(k)));
                }
                s = s.wrapping_offset(y.src);
                d = d.wrapping_offset(y.dst);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_short_rows_avx<const N: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe { copy_short_rows::<super::cell::x86::Avx, N>(src, dst, bytes, x, y) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_short_rows_avx512<const N: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: by the contract of this function, which enables the instructions.
    unsafe { copy_short_rows::<super::cell::x86::Avx512, N>(src, dst, bytes, x, y) };
}

/// An integer as a register. Its stores are never non-temporal, because it is no line.
#[derive(Clone, Copy)]
struct IntegerLane<T>(T);

impl<T: Copy> CopyLane for IntegerLane<T> {
    const BYTES: usize = size_of::<T>();
    #[inline(always)]
    unsafe fn load_lane(p: *const u8) -> IntegerLane<T> {
        // SAFETY: readable by the contract; the access is unaligned.
        IntegerLane(unsafe { p.cast::<T>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store_lane(self, p: *mut u8) {
        // SAFETY: writable by the contract; the access is unaligned.
        unsafe { p.cast::<T>().write_unaligned(self.0) };
    }
    #[inline(always)]
    unsafe fn store_non_temporal(self, p: *mut u8) {
        // SAFETY: writable by the contract.
        unsafe { self.store_lane(p) };
    }
}
