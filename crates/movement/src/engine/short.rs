//! Rows of a few registers: how many is decided once, not for every row.

use super::cell::{Lane, Plain};
use super::job::ByteLoop;
use super::rows::Rows;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use zellige_isa::Isa;

/// The version for rows of `bytes`, if they are short enough for one.
pub(super) fn select(bytes: usize) -> Option<Rows> {
    Some(match bytes {
        2..=3 => body::<Word<u16>, 2>,
        4..=7 => body::<Word<u32>, 2>,
        8..=15 => body::<Word<u64>, 2>,
        16 => body::<Plain, 1>,
        17..=32 => body::<Plain, 2>,
        33..=64 => wider(bytes).unwrap_or(body::<Plain, 4>),
        65..=256 => return wider(bytes),
        _ => return None,
    })
}

#[cfg(target_arch = "x86_64")]
fn wider(bytes: usize) -> Option<Rows> {
    if bytes <= 64 {
        return Isa::best().has_avx2().then_some(avx::<2> as Rows);
    }
    if bytes <= 128 && Isa::best().has_avx512() {
        return Some(avx512::<2>);
    }
    if bytes <= 128 {
        return Isa::best().has_avx2().then_some(avx::<4> as Rows);
    }
    Isa::best().has_avx512().then_some(avx512::<4> as Rows)
}

#[cfg(target_arch = "aarch64")]
fn wider(bytes: usize) -> Option<Rows> {
    use super::cell::neon::Neon;
    let run: Rows = match bytes {
        ..=64 => body::<Neon, 2>,
        65..=128 => body::<Neon, 4>,
        _ => body::<Neon, 8>,
    };
    Isa::best().has_neon().then_some(run)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn wider(_: usize) -> Option<Rows> {
    None
}

/// Rows of more than `N / 2` registers and at most `N`: half of them from the front, half of them up
/// to the end. Where these overlap, the same bytes come twice.
///
/// # Safety
/// Every row of the two loops is readable at `src` and writable at `dst`, the two do not overlap, rows
/// have that length, and the machine has the instructions of `L`.
#[inline(always)]
unsafe fn body<L: Lane, const N: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    let half = (N / 2).max(1);
    let back = bytes - (N - N / 2) * L::BYTES;
    let place = |k: usize| if k < half { k * L::BYTES } else { back + (k - half) * L::BYTES };
    // SAFETY: offsets are those of the loops, which the caller vouches for; both halves lie inside a
    // row, and together they cover it. A row is read before it is written.
    unsafe {
        for i in 0..x.n {
            let (mut s, mut d) = (src.offset(i * x.src), dst.offset(i * x.dst));
            for _ in 0..y.n {
                let v: [L; N] = std::array::from_fn(|k| L::load(s.add(place(k))));
                for (k, v) in v.into_iter().enumerate() {
                    v.store(d.add(place(k)));
                }
                s = s.wrapping_offset(y.src);
                d = d.wrapping_offset(y.dst);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn avx<const N: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: the caller's contract is that of `body`; the feature is enabled here.
    unsafe { body::<super::cell::x86::Avx, N>(src, dst, bytes, x, y) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512<const N: usize>(
    src: *const u8,
    dst: *mut u8,
    bytes: usize,
    x: ByteLoop,
    y: ByteLoop,
) {
    // SAFETY: the caller's contract is that of `body`; the feature is enabled here.
    unsafe { body::<super::cell::x86::Avx512, N>(src, dst, bytes, x, y) };
}

/// An integer as a register. It is never streamed: it is no line.
#[derive(Clone, Copy)]
struct Word<T>(T);

impl<T: Copy> Lane for Word<T> {
    const BYTES: usize = size_of::<T>();
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Word<T> {
        // SAFETY: readable by the contract; the access is unaligned.
        Word(unsafe { p.cast::<T>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: writable by the contract; the access is unaligned.
        unsafe { p.cast::<T>().write_unaligned(self.0) };
    }
    #[inline(always)]
    unsafe fn stream(self, p: *mut u8) {
        // SAFETY: writable by the contract.
        unsafe { self.store(p) };
    }
}
