//! A row times a panel: codes are widened in registers and multiplied there.

use std::arch::x86_64::*;

use crate::format::Format;
use crate::row::{PANEL, RowKernel};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// The kernel of a format.
pub(in crate::kernel) fn select(format: Format) -> Option<RowKernel> {
    Some(match format {
        Format::DL16 => run::<Dl16<DL16_MERGED>>,
        Format::DL16INF => run::<Dl16<DL16_INFINITE>>,
        Format::F16 => run::<F16>,
        Format::BF16 => run::<Bf16>,
        _ => return None,
    })
}

/// How 32 codes become numbers. The numbers come in the order of `_mm512_unpacklo_epi16` and `_mm512_unpackhi_epi16`: fours
/// of a vector by turns.
pub(super) trait Codes {
    /// # Safety
    /// The machine has AVX-512.
    unsafe fn widen(codes: __m512i, largest: &mut __m512i) -> [__m512; 2];

    /// Whether the largest magnitude seen is that of a number.
    ///
    /// # Safety
    /// The machine has AVX-512.
    unsafe fn are_numbers(largest: __m512i) -> bool;
}

/// DL16 whose magnitudes from `SPECIAL` on are no numbers.
///
/// The upper and the lower half of a binary32 are made for 32 codes at once, in 16-bit lanes.
pub(super) struct Dl16<const SPECIAL: u32>;

impl<const SPECIAL: u32> Codes for Dl16<SPECIAL> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn widen(codes: __m512i, largest: &mut __m512i) -> [__m512; 2] {
        const UP: u32 = 16 - DL16_DROPPED;
        let magnitude = _mm512_and_si512(codes, set(0x7fff));
        *largest = _mm512_max_epu16(*largest, magnitude);
        let nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
        let upper = _mm512_srli_epi16::<UP>(magnitude);
        let upper = _mm512_maskz_add_epi16(nonzero, upper, set(DL16_REBIAS >> 16));
        // upper | (codes & 0x8000)
        let upper = _mm512_ternarylogic_epi32::<0b1111_1000>(upper, codes, set(0x8000));
        interleave(_mm512_slli_epi16::<DL16_DROPPED>(codes), upper)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn are_numbers(largest: __m512i) -> bool {
        _mm512_cmpge_epu16_mask(largest, set(SPECIAL)) == 0
    }
}

struct F16;

impl Codes for F16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn widen(codes: __m512i, _: &mut __m512i) -> [__m512; 2] {
        let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        let codes = _mm512_permutexvar_epi64(order, codes);
        [
            _mm512_cvtph_ps(_mm512_castsi512_si256(codes)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(codes)),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn are_numbers(_: __m512i) -> bool {
        true
    }
}

struct Bf16;

impl Codes for Bf16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn widen(codes: __m512i, _: &mut __m512i) -> [__m512; 2] {
        interleave(_mm512_setzero_si512(), codes)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn are_numbers(_: __m512i) -> bool {
        true
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn set(value: u32) -> __m512i {
    #[allow(clippy::cast_possible_truncation, reason = "constants of 16 bits")]
    _mm512_set1_epi16((value as u16).cast_signed())
}

/// Binary32 numbers of their lower and upper halves.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave(lower: __m512i, upper: __m512i) -> [__m512; 2] {
    [
        _mm512_castsi512_ps(_mm512_unpacklo_epi16(lower, upper)),
        _mm512_castsi512_ps(_mm512_unpackhi_epi16(lower, upper)),
    ]
}

/// As [`RowKernel`] says.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run<C: Codes>(depth: usize, row: *const f32, panel: *const u8, sums: *mut f32) -> bool {
    const HALF: usize = PANEL / 2;
    // SAFETY: the caller's promise; the sums are four vectors, a depth of the panel is two.
    unsafe {
        let [mut a, mut b] = in_turns(sums);
        let [mut c, mut d] = in_turns(sums.add(HALF));
        let mut largest = _mm512_setzero_si512();
        for p in 0..depth {
            let left = _mm512_set1_ps(*row.add(p));
            let codes = panel.add(p * PANEL * 2);
            let [low, high] = C::widen(_mm512_loadu_si512(codes.cast()), &mut largest);
            a = _mm512_fmadd_ps(left, low, a);
            b = _mm512_fmadd_ps(left, high, b);
            let codes = codes.add(HALF * 2);
            let [low, high] = C::widen(_mm512_loadu_si512(codes.cast()), &mut largest);
            c = _mm512_fmadd_ps(left, low, c);
            d = _mm512_fmadd_ps(left, high, d);
        }
        if !C::are_numbers(largest) {
            return false;
        }
        put_back(sums, a, b);
        put_back(sums.add(HALF), c, d);
        true
    }
}

/// 32 sums in the order of widened codes.
///
/// # Safety
/// `sums` is valid for 32 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn in_turns(sums: *const f32) -> [__m512; 2] {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (_mm512_loadu_ps(sums), _mm512_loadu_ps(sums.add(16))) };
    [
        _mm512_shuffle_f32x4::<0b10_00_10_00>(low, high),
        _mm512_shuffle_f32x4::<0b11_01_11_01>(low, high),
    ]
}

/// Stores what [`in_turns`] has loaded.
///
/// # Safety
/// `sums` is valid for 32 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put_back(sums: *mut f32, even: __m512, odd: __m512) {
    let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(even, odd);
    let high = _mm512_shuffle_f32x4::<0b11_10_11_10>(even, odd);
    // SAFETY: the caller's promise.
    unsafe {
        _mm512_storeu_ps(sums, _mm512_shuffle_f32x4::<0b11_01_10_00>(low, low));
        _mm512_storeu_ps(sums.add(16), _mm512_shuffle_f32x4::<0b11_01_10_00>(high, high));
    }
}
