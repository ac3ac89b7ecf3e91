//! A row times a panel: codes are widened in registers and multiplied there.

use std::arch::x86_64::*;

use super::get;
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

/// How 16 codes become numbers. The numbers come in the order of `_mm256_unpacklo_epi16` and `_mm256_unpackhi_epi16`: fours of
/// a vector by turns.
pub(super) trait Codes {
    /// # Safety
    /// The machine has AVX2 and F16C.
    unsafe fn widen(codes: __m256i, largest: &mut __m256i) -> [__m256; 2];

    /// Whether the largest code seen is that of a number.
    ///
    /// # Safety
    /// The machine has AVX2.
    unsafe fn are_numbers(largest: __m256i) -> bool;
}

/// DL16 whose magnitudes from `SPECIAL` on are no numbers.
///
/// The upper and the lower half of a binary32 are made for 16 codes at once, in 16-bit lanes. The largest code is kept
/// twice as large, which drops its sign.
pub(super) struct Dl16<const SPECIAL: u32>;

impl<const SPECIAL: u32> Codes for Dl16<SPECIAL> {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen(codes: __m256i, largest: &mut __m256i) -> [__m256; 2] {
        const UP: i32 = 16 - DL16_DROPPED.cast_signed();
        let twice = _mm256_add_epi16(codes, codes);
        *largest = _mm256_max_epu16(*largest, twice);
        let zero = _mm256_cmpeq_epi16(twice, _mm256_setzero_si256());
        let rebias = _mm256_andnot_si256(zero, set(DL16_REBIAS >> 16));
        // Copies of the sign come down with the shift; the first stays.
        let upper = _mm256_and_si256(_mm256_srai_epi16::<UP>(codes), set(0x9fff));
        let upper = _mm256_add_epi16(upper, rebias);
        interleave(_mm256_slli_epi16::<{ DL16_DROPPED.cast_signed() }>(codes), upper)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn are_numbers(largest: __m256i) -> bool {
        let special = set(SPECIAL << 1);
        let above = _mm256_cmpeq_epi16(_mm256_max_epu16(largest, special), largest);
        _mm256_testz_si256(above, above) == 1
    }
}

struct F16;

impl Codes for F16 {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen(codes: __m256i, _: &mut __m256i) -> [__m256; 2] {
        let codes = _mm256_permute4x64_epi64::<0b11_01_10_00>(codes);
        [
            _mm256_cvtph_ps(_mm256_castsi256_si128(codes)),
            _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(codes)),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn are_numbers(_: __m256i) -> bool {
        true
    }
}

struct Bf16;

impl Codes for Bf16 {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen(codes: __m256i, _: &mut __m256i) -> [__m256; 2] {
        interleave(_mm256_setzero_si256(), codes)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn are_numbers(_: __m256i) -> bool {
        true
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn set(value: u32) -> __m256i {
    #[allow(clippy::cast_possible_truncation, reason = "constants of 16 bits")]
    _mm256_set1_epi16((value as u16).cast_signed())
}

/// Binary32 numbers of their lower and upper halves.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave(lower: __m256i, upper: __m256i) -> [__m256; 2] {
    [
        _mm256_castsi256_ps(_mm256_unpacklo_epi16(lower, upper)),
        _mm256_castsi256_ps(_mm256_unpackhi_epi16(lower, upper)),
    ]
}

/// As [`RowKernel`] says.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run<C: Codes>(depth: usize, row: *const f32, panel: *const u8, sums: *mut f32) -> bool {
    const STEP: usize = 16;
    // SAFETY: the caller's promise; the sums are eight vectors, a depth of the panel is four.
    unsafe {
        let mut acc = [[_mm256_setzero_ps(); 2]; PANEL / STEP];
        for (i, pair) in acc.iter_mut().enumerate() {
            *pair = in_turns(
                _mm256_loadu_ps(sums.add(i * STEP)),
                _mm256_loadu_ps(sums.add(i * STEP + 8)),
            );
        }
        let mut largest = _mm256_setzero_si256();
        for p in 0..depth {
            let left = _mm256_set1_ps(*row.add(p));
            for (i, [even, odd]) in acc.iter_mut().enumerate() {
                let codes = get(panel.add((p * PANEL + i * STEP) * 2));
                let [low, high] = C::widen(codes, &mut largest);
                *even = _mm256_fmadd_ps(left, low, *even);
                *odd = _mm256_fmadd_ps(left, high, *odd);
            }
        }
        if !C::are_numbers(largest) {
            return false;
        }
        for (i, [even, odd]) in acc.into_iter().enumerate() {
            let [low, high] = in_turns(even, odd);
            _mm256_storeu_ps(sums.add(i * STEP), low);
            _mm256_storeu_ps(sums.add(i * STEP + 8), high);
        }
        true
    }
}

/// 16 numbers in the order of widened codes, and back.
#[inline]
#[target_feature(enable = "avx2")]
fn in_turns(low: __m256, high: __m256) -> [__m256; 2] {
    [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
}
