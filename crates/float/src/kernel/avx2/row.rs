//! A row times a panel: codes are widened in registers and multiplied there.

use std::arch::x86_64::*;

use super::load_register;
use crate::format::Format;
use crate::row::{PANEL_COLUMNS, RowKernel};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// The kernel of a format.
pub(in crate::kernel) fn select_row_kernel(format: Format) -> Option<RowKernel> {
    Some(match format {
        Format::DL16 => multiply_panel::<Avx2Dl16Codes<DL16_MERGED>>,
        Format::DL16INF => multiply_panel::<Avx2Dl16Codes<DL16_INFINITE>>,
        Format::F16 => multiply_panel::<Avx2F16Codes>,
        Format::BF16 => multiply_panel::<Avx2Bf16Codes>,
        _ => return None,
    })
}

/// How 16 codes become numbers. The numbers come in the order of `_mm256_unpacklo_epi16` and `_mm256_unpackhi_epi16`: fours of
/// a vector by turns.
pub(super) trait Avx2PanelCodes {
    /// # Safety
    /// The machine has AVX2 and F16C.
    unsafe fn widen_codes(codes: __m256i, largest: &mut __m256i) -> [__m256; 2];

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
pub(super) struct Avx2Dl16Codes<const SPECIAL: u32>;

impl<const SPECIAL: u32> Avx2PanelCodes for Avx2Dl16Codes<SPECIAL> {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen_codes(codes: __m256i, largest: &mut __m256i) -> [__m256; 2] {
        const UP: i32 = 16 - DL16_DROPPED.cast_signed();
        let twice = _mm256_add_epi16(codes, codes);
        *largest = _mm256_max_epu16(*largest, twice);
        let zero = _mm256_cmpeq_epi16(twice, _mm256_setzero_si256());
        let rebias = _mm256_andnot_si256(zero, broadcast_u32(DL16_REBIAS >> 16));
        // Copies of the sign come down with the shift; the first stays.
        let upper = _mm256_and_si256(_mm256_srai_epi16::<UP>(codes), broadcast_u32(0x9fff));
        let upper = _mm256_add_epi16(upper, rebias);
        interleave_halves(_mm256_slli_epi16::<{ DL16_DROPPED.cast_signed() }>(codes), upper)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn are_numbers(largest: __m256i) -> bool {
        let special = broadcast_u32(SPECIAL << 1);
        let above = _mm256_cmpeq_epi16(_mm256_max_epu16(largest, special), largest);
        _mm256_testz_si256(above, above) == 1
    }
}

struct Avx2F16Codes;

impl Avx2PanelCodes for Avx2F16Codes {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen_codes(codes: __m256i, _: &mut __m256i) -> [__m256; 2] {
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

struct Avx2Bf16Codes;

impl Avx2PanelCodes for Avx2Bf16Codes {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn widen_codes(codes: __m256i, _: &mut __m256i) -> [__m256; 2] {
        interleave_halves(_mm256_setzero_si256(), codes)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn are_numbers(_: __m256i) -> bool {
        true
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn broadcast_u32(value: u32) -> __m256i {
    #[allow(clippy::cast_possible_truncation, reason = "constants of 16 bits")]
    _mm256_set1_epi16((value as u16).cast_signed())
}

/// Binary32 numbers of their lower and upper halves.
#[inline]
#[target_feature(enable = "avx2")]
fn interleave_halves(lower: __m256i, upper: __m256i) -> [__m256; 2] {
    [
        _mm256_castsi256_ps(_mm256_unpacklo_epi16(lower, upper)),
        _mm256_castsi256_ps(_mm256_unpackhi_epi16(lower, upper)),
    ]
}

/// As [`RowKernel`] says.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn multiply_panel<C: Avx2PanelCodes>(
    depth: usize,
    row: *const f32,
    panel: *const u8,
    sums: *mut f32,
) -> bool {
    const STEP: usize = 16;
    // SAFETY: the caller's promise; the sums are eight vectors, a depth of the panel is four.
    unsafe {
        let mut acc = [[_mm256_setzero_ps(); 2]; PANEL_COLUMNS / STEP];
        for (i, pair) in acc.iter_mut().enumerate() {
            *pair = swap_to_code_order(
                _mm256_loadu_ps(sums.add(i * STEP)),
                _mm256_loadu_ps(sums.add(i * STEP + 8)),
            );
        }
        let mut largest = _mm256_setzero_si256();
        for p in 0..depth {
            let left = _mm256_set1_ps(*row.add(p));
            for (i, [even, odd]) in acc.iter_mut().enumerate() {
                let codes = load_register(panel.add((p * PANEL_COLUMNS + i * STEP) * 2));
                let [low, high] = C::widen_codes(codes, &mut largest);
                *even = _mm256_fmadd_ps(left, low, *even);
                *odd = _mm256_fmadd_ps(left, high, *odd);
            }
        }
        if !C::are_numbers(largest) {
            return false;
        }
        for (i, [even, odd]) in acc.into_iter().enumerate() {
            let [low, high] = swap_to_code_order(even, odd);
            _mm256_storeu_ps(sums.add(i * STEP), low);
            _mm256_storeu_ps(sums.add(i * STEP + 8), high);
        }
        true
    }
}

/// 16 numbers in the order of widened codes, and back.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_to_code_order(low: __m256, high: __m256) -> [__m256; 2] {
    [_mm256_permute2f128_ps::<0x20>(low, high), _mm256_permute2f128_ps::<0x31>(low, high)]
}
