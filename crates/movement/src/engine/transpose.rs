//! Tiles in which the source is adjacent along one loop and the destination along the other.
//!
//! A block of `16 / E` rows and columns is transposed in registers by rounds of interleaving: each
//! round interleaves the first half of the rows with the second, and after `log2` of their number
//! the matrix is transposed. Wider registers hold several such blocks side by side, one per 16-byte
//! lane, so that a row of the result is 32 or 64 adjacent bytes.

use super::cell::{Lane, Plain, copy, prefetch};

/// Transposes a tile: `na` steps of `sa` bytes in the source (adjacent in the destination), `nb`
/// adjacent elements in the source, `db` bytes apart in the destination.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    pub(super) na: usize,
    pub(super) sa: isize,
    pub(super) nb: usize,
    pub(super) db: isize,
}

/// A transpose of one tile for one element width.
pub(super) type Transpose = unsafe fn(src: *const u8, dst: *mut u8, tile: Tile);

/// Bytes of a destination row that one tile writes, at most.
pub(super) const ROW: usize = 512;

/// Most rows in one register block: 16 of one byte.
const BLOCK: usize = 16;

/// The fastest version for this machine and element width (1, 2, 4, 8 or 16 bytes).
pub(super) fn select(width: usize, stream: bool) -> Transpose {
    macro_rules! widths {
        ($f:ident) => {
            match (width, stream) {
                (1, false) => $f::<1, false>,
                (1, true) => $f::<1, true>,
                (2, false) => $f::<2, false>,
                (2, true) => $f::<2, true>,
                (4, false) => $f::<4, false>,
                (4, true) => $f::<4, true>,
                (8, false) => $f::<8, false>,
                (8, true) => $f::<8, true>,
                (_, false) => $f::<16, false>,
                (_, true) => $f::<16, true>,
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") {
            return widths!(avx512);
        }
        if is_x86_feature_detected!("avx2") {
            return widths!(avx2);
        }
        widths!(sse2)
    }
    #[cfg(not(target_arch = "x86_64"))]
    widths!(plain)
}

/// Registers made of 16-byte lanes.
trait Lanes: Copy {
    /// Lanes in a register.
    const COUNT: usize;
    /// 16 bytes from `p + lane * step` for every lane.
    /// # Safety
    /// All of them are readable, and the machine has the instructions.
    unsafe fn gather(p: *const u8, step: isize) -> Self;
    /// Interleaves elements of `E` bytes of the low and of the high half of each lane.
    /// # Safety
    /// The machine has the instructions.
    unsafe fn interleave<const E: usize>(a: Self, b: Self) -> (Self, Self);
    /// # Safety
    /// `p` is writable for `16 * COUNT` bytes, and the machine has the instructions.
    unsafe fn store(self, p: *mut u8);
}

/// One register block: `16 / E` rows in every lane.
///
/// # Safety
/// `16 / E * COUNT` rows of 16 bytes, `sa` apart, are readable at `src`; `16 / E` rows of
/// `16 * COUNT` bytes, `pitch` apart, are writable at `out`.
#[inline(always)]
unsafe fn block<V: Lanes, const E: usize>(src: *const u8, sa: isize, out: *mut u8, pitch: isize) {
    let rows = BLOCK / E;
    // SAFETY: by the contract of this function.
    unsafe {
        let first = V::gather(src, rows.cast_signed() * sa);
        let mut v = [first; BLOCK];
        for (k, r) in v.iter_mut().enumerate().take(rows).skip(1) {
            *r = V::gather(src.offset(k.cast_signed() * sa), rows.cast_signed() * sa);
        }
        let mut round = 1;
        while round < rows {
            let old = v;
            for i in 0..rows / 2 {
                (v[2 * i], v[2 * i + 1]) = V::interleave::<E>(old[i], old[i + rows / 2]);
            }
            round *= 2;
        }
        for (k, r) in v.iter().enumerate().take(rows) {
            r.store(out.offset(k.cast_signed() * pitch));
        }
    }
}

/// A row buffer that streamed stores are written from.
#[repr(align(64))]
struct Buffer([u8; BLOCK * ROW]);

/// # Safety
/// The tile is readable at `src` and writable at `dst`, `na * E <= ROW`, the two do not overlap, and
/// the machine has the instructions of `V` and `L`.
#[inline(always)]
unsafe fn body<V: Lanes, L: Lane, const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: Tile,
) {
    let rows = BLOCK / E;
    let wide = rows * V::COUNT;
    if t.na < wide || t.nb < rows {
        // SAFETY: by the contract of this function.
        unsafe { by_element::<E>(src, dst, t) };
        return;
    }
    let mut buffer = Buffer([0; BLOCK * ROW]);
    // SAFETY: rows `a .. a + wide` and columns `b .. b + rows` stay inside the tile: the last block
    // of each direction is moved back to end with it, and writes the same bytes again.
    unsafe {
        let mut b = 0usize;
        loop {
            let from = src.add(b * E);
            let to = dst.offset(b.cast_signed() * t.db);
            let (out, pitch) =
                if STREAM { (buffer.0.as_mut_ptr(), ROW.cast_signed()) } else { (to, t.db) };
            let mut a = 0usize;
            loop {
                let at = from.offset(a.cast_signed() * t.sa);
                if STREAM && (b * E) % 64 == 0 {
                    for k in 0..wide {
                        prefetch(at.wrapping_offset(k.cast_signed() * t.sa).wrapping_add(64));
                    }
                }
                block::<V, E>(at, t.sa, out.add(a * E), pitch);
                if a + wide >= t.na {
                    break;
                }
                a = (a + wide).min(t.na - wide);
            }
            if STREAM {
                for k in 0..rows {
                    copy::<L, true>(out.add(k * ROW), to.offset(k.cast_signed() * t.db), t.na * E);
                }
            }
            if b + rows >= t.nb {
                return;
            }
            b = (b + rows).min(t.nb - rows);
        }
    }
}

/// Tiles too narrow for a register block.
///
/// # Safety
/// The tile is readable at `src` and writable at `dst`, and the two do not overlap.
unsafe fn by_element<const E: usize>(src: *const u8, dst: *mut u8, t: Tile) {
    for b in 0..t.nb {
        for a in 0..t.na {
            // SAFETY: `a` and `b` are inside the tile.
            unsafe {
                let s = src.add(b * E).offset(a.cast_signed() * t.sa).cast::<[u8; E]>();
                let d = dst.add(a * E).offset(b.cast_signed() * t.db).cast::<[u8; E]>();
                d.write_unaligned(s.read_unaligned());
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn plain<const E: usize, const STREAM: bool>(src: *const u8, dst: *mut u8, t: Tile) {
    // SAFETY: the caller's contract is that of `by_element`.
    unsafe { by_element::<E>(src, dst, t) };
}

#[cfg(target_arch = "x86_64")]
use x86::{avx2, avx512, sse2};

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! One, two and four lanes on x86-64.
    use super::super::cell::x86::{Avx, Avx512};
    use super::{Lanes, Plain, Tile, body};
    use std::arch::x86_64::*;

    macro_rules! unpack {
        ($a:expr, $b:expr, $e:expr, $lo8:ident, $hi8:ident, $lo16:ident, $hi16:ident, $lo32:ident, $hi32:ident, $lo64:ident, $hi64:ident) => {
            match $e {
                1 => ($lo8($a, $b), $hi8($a, $b)),
                2 => ($lo16($a, $b), $hi16($a, $b)),
                4 => ($lo32($a, $b), $hi32($a, $b)),
                _ => ($lo64($a, $b), $hi64($a, $b)),
            }
        };
    }

    impl Lanes for __m128i {
        const COUNT: usize = 1;
        #[inline(always)]
        unsafe fn gather(p: *const u8, _: isize) -> __m128i {
            // SAFETY: by the contract of `Lanes`.
            unsafe { _mm_loadu_si128(p.cast()) }
        }
        #[inline(always)]
        unsafe fn interleave<const E: usize>(a: __m128i, b: __m128i) -> (__m128i, __m128i) {
            // SAFETY: SSE2 is part of the x86-64 baseline.
            unsafe {
                unpack!(
                    a,
                    b,
                    E,
                    _mm_unpacklo_epi8,
                    _mm_unpackhi_epi8,
                    _mm_unpacklo_epi16,
                    _mm_unpackhi_epi16,
                    _mm_unpacklo_epi32,
                    _mm_unpackhi_epi32,
                    _mm_unpacklo_epi64,
                    _mm_unpackhi_epi64
                )
            }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut u8) {
            // SAFETY: by the contract of `Lanes`.
            unsafe { _mm_storeu_si128(p.cast(), self) };
        }
    }

    impl Lanes for __m256i {
        const COUNT: usize = 2;
        #[inline(always)]
        unsafe fn gather(p: *const u8, step: isize) -> __m256i {
            // SAFETY: by the contract of `Lanes`.
            unsafe {
                let low = _mm256_castsi128_si256(_mm_loadu_si128(p.cast()));
                _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(p.offset(step).cast()))
            }
        }
        #[inline(always)]
        unsafe fn interleave<const E: usize>(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
            // SAFETY: by the contract of `Lanes`.
            unsafe {
                unpack!(
                    a,
                    b,
                    E,
                    _mm256_unpacklo_epi8,
                    _mm256_unpackhi_epi8,
                    _mm256_unpacklo_epi16,
                    _mm256_unpackhi_epi16,
                    _mm256_unpacklo_epi32,
                    _mm256_unpackhi_epi32,
                    _mm256_unpacklo_epi64,
                    _mm256_unpackhi_epi64
                )
            }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut u8) {
            // SAFETY: by the contract of `Lanes`.
            unsafe { _mm256_storeu_si256(p.cast(), self) };
        }
    }

    impl Lanes for __m512i {
        const COUNT: usize = 4;
        #[inline(always)]
        unsafe fn gather(p: *const u8, step: isize) -> __m512i {
            // SAFETY: by the contract of `Lanes`.
            unsafe {
                let lane = |k: isize| _mm_loadu_si128(p.offset(k * step).cast());
                let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(lane(0)), lane(1));
                let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(lane(2)), lane(3));
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
            }
        }
        #[inline(always)]
        unsafe fn interleave<const E: usize>(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
            // SAFETY: by the contract of `Lanes`.
            unsafe {
                unpack!(
                    a,
                    b,
                    E,
                    _mm512_unpacklo_epi8,
                    _mm512_unpackhi_epi8,
                    _mm512_unpacklo_epi16,
                    _mm512_unpackhi_epi16,
                    _mm512_unpacklo_epi32,
                    _mm512_unpackhi_epi32,
                    _mm512_unpacklo_epi64,
                    _mm512_unpackhi_epi64
                )
            }
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut u8) {
            // SAFETY: by the contract of `Lanes`.
            unsafe { _mm512_storeu_si512(p.cast(), self) };
        }
    }

    /// Narrow tiles use the widest register that they fill.
    #[target_feature(enable = "avx512f,avx512bw,avx2")]
    pub(super) unsafe fn avx512<const E: usize, const STREAM: bool>(
        src: *const u8,
        dst: *mut u8,
        t: Tile,
    ) {
        // SAFETY: the caller's contract is that of `body`; the features are enabled here.
        unsafe {
            if t.na >= 4 * (16 / E) {
                body::<__m512i, Avx512, E, STREAM>(src, dst, t);
            } else if t.na >= 2 * (16 / E) {
                body::<__m256i, Avx, E, STREAM>(src, dst, t);
            } else {
                body::<__m128i, Plain, E, STREAM>(src, dst, t);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2<const E: usize, const STREAM: bool>(
        src: *const u8,
        dst: *mut u8,
        t: Tile,
    ) {
        // SAFETY: the caller's contract is that of `body`; the feature is enabled here.
        unsafe {
            if t.na >= 2 * (16 / E) {
                body::<__m256i, Avx, E, STREAM>(src, dst, t);
            } else {
                body::<__m128i, Plain, E, STREAM>(src, dst, t);
            }
        }
    }

    pub(super) unsafe fn sse2<const E: usize, const STREAM: bool>(
        src: *const u8,
        dst: *mut u8,
        t: Tile,
    ) {
        // SAFETY: the caller's contract is that of `body`; SSE2 is part of the baseline.
        unsafe { body::<__m128i, Plain, E, STREAM>(src, dst, t) };
    }
}
