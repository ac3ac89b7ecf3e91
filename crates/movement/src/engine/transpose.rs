//! Tiles in which the source is adjacent along one loop and the destination along the other.
//!
//! A register holds a stretch of one source row, 16 bytes in each lane. `16 / E` such registers, from
//! as many rows, are transposed lane by lane with rounds of interleaving: each round interleaves the
//! first half of the registers with the second, and after `log2` of their number every lane holds
//! columns. So each cache line of the source is read once, whole, however far apart the rows are
//! (rows a power of two apart fall into few sets of the caches).
//!
//! Streamed stores must be whole lines: the columns are gathered in a buffer that stays in the first
//! level cache, and leave it as rows of up to [`ROW`] bytes.

use super::cell::{Lane, Plain, copy, prefetch};
use crate::buffer::Buffer;

/// Transposes a tile: `na` steps of `sa` bytes in the source (adjacent in the destination), `nb`
/// adjacent elements in the source, `db` bytes apart in the destination.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    pub(super) na: usize,
    pub(super) sa: isize,
    pub(super) nb: usize,
    pub(super) db: isize,
    /// Where the next tile begins in the source: asked for while this one is written.
    pub(super) next: *const u8,
    /// For streamed tiles.
    pub(super) scratch: *mut Scratch,
}

/// A transpose of one tile for one element width.
pub(super) type Transpose = unsafe fn(src: *const u8, dst: *mut u8, tile: Tile);

/// Bytes of a destination row that one tile writes, at most.
pub(super) const ROW: usize = 512;

/// Distance between rows of the buffer: not a power of two, so that columns spread over the sets.
const PITCH: usize = ROW + 64;

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
    /// # Safety
    /// `p` is readable for `16 * COUNT` bytes, and the machine has the instructions.
    unsafe fn load(p: *const u8) -> Self;
    /// Interleaves elements of `E` bytes of the low and of the high half of each lane.
    /// # Safety
    /// The machine has the instructions.
    unsafe fn interleave<const E: usize>(a: Self, b: Self) -> (Self, Self);
    /// Stores lane `k` at `p + k * step`.
    /// # Safety
    /// All of them are writable for 16 bytes, and the machine has the instructions.
    unsafe fn scatter(self, p: *mut u8, step: isize);
}

/// One register block: `R = 16 / E` rows of as many elements in every lane.
///
/// # Safety
/// `R` rows of `16 * COUNT` bytes, `sa` apart, are readable at `src`; `R * COUNT` rows of 16 bytes,
/// `pitch` apart, are writable at `out`.
#[inline(always)]
unsafe fn block<V: Lanes, const E: usize, const R: usize>(
    src: *const u8,
    sa: isize,
    out: *mut u8,
    pitch: isize,
) {
    // SAFETY: by the contract of this function.
    unsafe {
        let mut v: [V; R] = std::array::from_fn(|k| V::load(src.offset(k.cast_signed() * sa)));
        let mut round = 1;
        while round < R {
            let old = v;
            for i in 0..R / 2 {
                (v[2 * i], v[2 * i + 1]) = V::interleave::<E>(old[i], old[i + R / 2]);
            }
            round *= 2;
        }
        for (k, r) in v.into_iter().enumerate() {
            r.scatter(out.offset(k.cast_signed() * pitch), R.cast_signed() * pitch);
        }
    }
}

/// Bytes of a source row that are staged at a time: whole lines, and a good burst for memory.
const STAGE: usize = 512;
/// Rows nearer than this are read where they are.
const NEAR: usize = 1024;
/// Distance between staged rows: not a power of two.
const STAGE_PITCH: usize = STAGE + 64;

const STAGE_BYTES: usize = ROW * STAGE_PITCH;
const COLUMNS_BYTES: usize = 64 * PITCH;

/// What streamed tiles share from one to the next: a stage of source rows, two sets of gathered
/// columns, and the set that is still on its way to memory.
///
/// Streamed stores queue up behind memory. Handing them over a few at a time, between the blocks of
/// the next columns, lets registers and memory work at once.
#[derive(Debug)]
pub(super) struct Scratch {
    memory: Buffer,
    pending: Pending,
    /// Which set of columns is gathered next.
    second: bool,
}

/// Columns that are gathered and not yet written.
#[derive(Debug, Clone, Copy)]
struct Pending {
    from: *const u8,
    to: *mut u8,
    step: isize,
    bytes: usize,
    left: usize,
}

impl Scratch {
    /// Scratch for a job; without memory where its tiles are not streamed.
    pub(super) fn new(streamed: bool) -> Scratch {
        let bytes = if streamed { STAGE_BYTES + 2 * COLUMNS_BYTES } else { 0 };
        let (from, to) = (std::ptr::null(), std::ptr::null_mut());
        let pending = Pending { from, to, step: 0, bytes: 0, left: 0 };
        Scratch { memory: Buffer::zeroed(bytes), pending, second: false }
    }

    /// Writes what is still pending.
    ///
    /// # Safety
    /// The destination of the tiles that ran with it is still writable.
    pub(super) unsafe fn finish(&mut self) {
        // SAFETY: by the contract of this function.
        unsafe { flush::<Plain>(&mut self.pending, usize::MAX) };
    }
}

/// Writes up to `rows` pending columns.
///
/// # Safety
/// The pending destination is writable, and the machine has the instructions of `L`.
#[inline(always)]
unsafe fn flush<L: Lane>(p: &mut Pending, rows: usize) {
    for _ in 0..rows.min(p.left) {
        // SAFETY: `from` holds `left` columns at its pitch, and their places are writable.
        unsafe {
            copy::<L, true>(p.from, p.to, p.bytes);
            p.from = p.from.add(PITCH);
            p.to = p.to.wrapping_offset(p.step);
        }
        p.left -= 1;
    }
}

/// Copies `bytes` of every row of a tile into the stage, four rows at a time: their misses overlap.
///
/// # Safety
/// `na` rows of `bytes` are readable at `src`, and `stage` holds as many at its pitch.
#[inline(always)]
unsafe fn gather_rows<L: Lane>(src: *const u8, t: Tile, bytes: usize, stage: *mut u8) {
    // SAFETY: every access is inside a row, and rows inside the tile.
    unsafe {
        let mut a = 0usize;
        while a + 4 <= t.na && bytes >= L::BYTES {
            let rows: [*const u8; 4] =
                std::array::from_fn(|k| src.offset((a + k).cast_signed() * t.sa));
            let mut at = 0;
            loop {
                let v = rows.map(|r| L::load(r.add(at)));
                for (k, v) in v.into_iter().enumerate() {
                    v.store(stage.add((a + k) * STAGE_PITCH + at));
                }
                if at + L::BYTES >= bytes {
                    break;
                }
                at = (at + L::BYTES).min(bytes - L::BYTES);
            }
            a += 4;
        }
        for a in a..t.na {
            let row = src.offset(a.cast_signed() * t.sa);
            copy::<L, false>(row, stage.add(a * STAGE_PITCH), bytes);
        }
    }
}

/// A tile through the buffers.
///
/// Rows that are a power of two apart share few sets of the caches, so their lines would drive one
/// another out between one block and the next. A stretch of every row is therefore copied first, in
/// bursts; blocks then read it from a compact place, and the columns leave as long streamed rows.
///
/// # Safety
/// As [`sized`]; `na >= 16 / E` and `nb >= 16 / E * COUNT`.
#[inline(always)]
unsafe fn streamed<V: Lanes, L: Lane, const E: usize, const R: usize>(
    src: *const u8,
    dst: *mut u8,
    t: Tile,
) {
    let rows = R;
    let wide = rows * V::COUNT;
    // SAFETY: `na <= ROW / E` rows of `STAGE` bytes fit the stage, and `wide <= 64` columns of
    // `na * E <= ROW` bytes fit the columns. Only what was written is read: a stretch of `len` bytes
    // of each row is copied before its blocks run, and the blocks of a piece cover all of its columns
    // before these leave. The last block of each direction is moved back to end with the tile.
    unsafe {
        let scratch = &mut *t.scratch;
        let stage = scratch.memory.as_mut_ptr();
        let share = wide.div_ceil(t.na.div_ceil(rows));
        let per_stage = (STAGE / E).max(wide);
        // Rows near one another share no sets.
        let staged = t.sa.unsigned_abs() >= NEAR;
        let mut b = 0usize;
        loop {
            let count = per_stage.min(t.nb - b);
            let from = src.add(b * E);
            let (at, pitch) = if staged {
                gather_rows::<L>(from, t, count * E, stage);
                (stage.cast_const(), STAGE_PITCH.cast_signed())
            } else {
                (from, t.sa)
            };
            let ahead = if b + count < t.nb { from.wrapping_add(count * E) } else { t.next };
            let mut c = 0usize;
            loop {
                let set = if scratch.second { COLUMNS_BYTES } else { 0 };
                let columns = stage.add(STAGE_BYTES + set);
                let mut a = 0usize;
                loop {
                    // The same lines of the next stretch, while this one is in registers.
                    let next = ahead.wrapping_add(c * E).wrapping_offset(a.cast_signed() * t.sa);
                    for k in 0..rows {
                        prefetch(next.wrapping_offset(k.cast_signed() * t.sa));
                    }
                    block::<V, E, R>(
                        at.add(c * E).offset(a.cast_signed() * pitch),
                        pitch,
                        columns.add(a * E),
                        PITCH.cast_signed(),
                    );
                    flush::<L>(&mut scratch.pending, share);
                    if a + rows >= t.na {
                        break;
                    }
                    a = (a + rows).min(t.na - rows);
                }
                flush::<L>(&mut scratch.pending, usize::MAX);
                scratch.pending = Pending {
                    from: columns,
                    to: dst.offset((b + c).cast_signed() * t.db),
                    step: t.db,
                    bytes: t.na * E,
                    left: wide,
                };
                scratch.second = !scratch.second;
                if c + wide >= count {
                    break;
                }
                c = (c + wide).min(count - wide);
            }
            if b + count >= t.nb {
                return;
            }
            // A last stretch shorter than a block would not fill the registers.
            b = (b + count).min(t.nb - wide);
        }
    }
}

/// # Safety
/// The tile is readable at `src` and writable at `dst`, `na * E <= ROW`, the two do not overlap,
/// `scratch` has memory where tiles are streamed, and the machine has the instructions of `V` and
/// `L`. A streamed tile is complete only after [`Scratch::finish`].
#[inline(always)]
unsafe fn sized<V: Lanes, L: Lane, const E: usize, const R: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: Tile,
) {
    let rows = R;
    let wide = rows * V::COUNT;
    if t.na < rows || t.nb < wide {
        // SAFETY: by the contract of this function.
        unsafe { by_element::<E>(src, dst, t) };
        return;
    }
    if STREAM {
        // SAFETY: by the contract of this function; the tile is wide enough.
        unsafe { streamed::<V, L, E, R>(src, dst, t) };
        return;
    }
    // SAFETY: rows `a .. a + rows` and columns `b .. b + wide` stay inside the tile: the last block
    // of each direction is moved back to end with it, and writes the same bytes again.
    unsafe {
        let mut b = 0usize;
        loop {
            let from = src.add(b * E);
            let to = dst.offset(b.cast_signed() * t.db);
            let mut a = 0usize;
            loop {
                block::<V, E, R>(from.offset(a.cast_signed() * t.sa), t.sa, to.add(a * E), t.db);
                if a + rows >= t.na {
                    break;
                }
                a = (a + rows).min(t.na - rows);
            }
            if b + wide >= t.nb {
                return;
            }
            b = (b + wide).min(t.nb - wide);
        }
    }
}

/// # Safety
/// As [`sized`].
#[inline(always)]
unsafe fn body<V: Lanes, L: Lane, const E: usize, const STREAM: bool>(
    src: *const u8,
    dst: *mut u8,
    t: Tile,
) {
    // SAFETY: by the contract of this function. `E` is one of these widths.
    unsafe {
        match E {
            1 => sized::<V, L, E, 16, STREAM>(src, dst, t),
            2 => sized::<V, L, E, 8, STREAM>(src, dst, t),
            4 => sized::<V, L, E, 4, STREAM>(src, dst, t),
            8 => sized::<V, L, E, 2, STREAM>(src, dst, t),
            _ => sized::<V, L, E, 1, STREAM>(src, dst, t),
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
use portable::plain;

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    //! One lane of plain bytes: what every machine has, and compilers know how to widen.
    use super::{Lanes, Plain, Tile, body};

    #[derive(Clone, Copy)]
    struct Bytes([u8; 16]);

    impl Lanes for Bytes {
        const COUNT: usize = 1;
        #[inline(always)]
        unsafe fn load(p: *const u8) -> Bytes {
            // SAFETY: by the contract of `Lanes`; the access is unaligned.
            Bytes(unsafe { p.cast::<[u8; 16]>().read_unaligned() })
        }
        #[inline(always)]
        unsafe fn interleave<const E: usize>(a: Bytes, b: Bytes) -> (Bytes, Bytes) {
            let half = |from: usize| {
                let mut out = [0u8; 16];
                for (k, pair) in out.chunks_exact_mut(2 * E).enumerate() {
                    pair[..E].copy_from_slice(&a.0[from + k * E..][..E]);
                    pair[E..].copy_from_slice(&b.0[from + k * E..][..E]);
                }
                Bytes(out)
            };
            (half(0), half(8))
        }
        #[inline(always)]
        unsafe fn scatter(self, p: *mut u8, _: isize) {
            // SAFETY: by the contract of `Lanes`; the access is unaligned.
            unsafe { p.cast::<[u8; 16]>().write_unaligned(self.0) };
        }
    }

    /// # Safety
    /// As [`super::sized`].
    pub(super) unsafe fn plain<const E: usize, const STREAM: bool>(
        src: *const u8,
        dst: *mut u8,
        t: Tile,
    ) {
        // SAFETY: the caller's contract is that of `body`.
        unsafe { body::<Bytes, Plain, E, STREAM>(src, dst, t) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The portable kernels give what the machine's own do; elsewhere only they run.
    #[test]
    fn portable_tiles_are_transposes() {
        fn check<const E: usize>() {
            let (na, nb) = (37, 45);
            let src: Vec<u8> = (0..na * nb * E).map(|i| (i % 251).to_le_bytes()[0]).collect();
            for stream in [false, true] {
                let mut dst = vec![0u8; na * nb * E];
                let mut scratch = Scratch::new(true);
                let t = Tile {
                    na,
                    sa: (nb * E).cast_signed(),
                    nb,
                    db: (na * E).cast_signed(),
                    next: src.as_ptr(),
                    scratch: &raw mut scratch,
                };
                // SAFETY: both buffers hold the whole tile, `na * E <= ROW`, and the scratch lives
                // until it is finished.
                unsafe {
                    if na * E > ROW {
                        return;
                    }
                    if stream {
                        portable::plain::<E, true>(src.as_ptr(), dst.as_mut_ptr(), t);
                    } else {
                        portable::plain::<E, false>(src.as_ptr(), dst.as_mut_ptr(), t);
                    }
                    scratch.finish();
                }
                for a in 0..na {
                    for b in 0..nb {
                        assert_eq!(dst[(b * na + a) * E..][..E], src[(a * nb + b) * E..][..E]);
                    }
                }
            }
        }
        check::<1>();
        check::<2>();
        check::<4>();
        check::<8>();
        check::<16>();
    }
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
        unsafe fn load(p: *const u8) -> __m128i {
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
        unsafe fn scatter(self, p: *mut u8, _: isize) {
            // SAFETY: by the contract of `Lanes`.
            unsafe { _mm_storeu_si128(p.cast(), self) };
        }
    }

    impl Lanes for __m256i {
        const COUNT: usize = 2;
        #[inline(always)]
        unsafe fn load(p: *const u8) -> __m256i {
            // SAFETY: by the contract of `Lanes`.
            unsafe { _mm256_loadu_si256(p.cast()) }
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
        unsafe fn scatter(self, p: *mut u8, step: isize) {
            // SAFETY: by the contract of `Lanes`.
            unsafe {
                _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(self));
                _mm_storeu_si128(p.offset(step).cast(), _mm256_extracti128_si256::<1>(self));
            }
        }
    }

    impl Lanes for __m512i {
        const COUNT: usize = 4;
        #[inline(always)]
        unsafe fn load(p: *const u8) -> __m512i {
            // SAFETY: by the contract of `Lanes`.
            unsafe { _mm512_loadu_si512(p.cast()) }
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
        unsafe fn scatter(self, p: *mut u8, step: isize) {
            // SAFETY: by the contract of `Lanes`.
            unsafe {
                _mm_storeu_si128(p.cast(), _mm512_castsi512_si128(self));
                _mm_storeu_si128(p.offset(step).cast(), _mm512_extracti32x4_epi32::<1>(self));
                _mm_storeu_si128(p.offset(2 * step).cast(), _mm512_extracti32x4_epi32::<2>(self));
                _mm_storeu_si128(p.offset(3 * step).cast(), _mm512_extracti32x4_epi32::<3>(self));
            }
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
            if t.nb >= 4 * (16 / E) {
                body::<__m512i, Avx512, E, STREAM>(src, dst, t);
            } else if t.nb >= 2 * (16 / E) {
                body::<__m256i, Avx512, E, STREAM>(src, dst, t);
            } else {
                body::<__m128i, Avx512, E, STREAM>(src, dst, t);
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
            if t.nb >= 2 * (16 / E) {
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
