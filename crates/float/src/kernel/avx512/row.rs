//! A row times a panel: codes are widened in registers and multiplied there.

use std::arch::x86_64::*;

use crate::format::Format;
use crate::row::{PANEL_COLUMNS, RowKernel};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// The kernel of a format.
pub(in crate::kernel) fn select_row_kernel(format: Format) -> Option<RowKernel> {
    Some(match format {
        Format::DL16 => multiply_panel::<Avx512Dl16Codes<DL16_MERGED>>,
        Format::DL16INF => multiply_panel::<Avx512Dl16Codes<DL16_INFINITE>>,
        Format::F16 => multiply_panel::<Avx512F16Codes>,
        Format::BF16 => multiply_panel::<Avx512Bf16Codes>,
        _ => return None,
    })
}

/// How 32 codes become numbers. The numbers come in the order of `_mm512_unpacklo_epi16` and `_mm512_unpackhi_epi16`: fours
/// of a vector by turns.
pub(super) trait Avx512PanelCodes {
    /// # Safety
    /// The machine has AVX-512.
    unsafe fn widen_codes(codes: __m512i, largest: &mut __m512i) -> [__m512; 2];

    /// Whether the largest magnitude seen is that of a number.
    ///
    /// # Safety
    /// The machine has AVX-512.
    unsafe fn are_numbers(largest: __m512i) -> bool;
}

/// DL16 whose magnitudes from `SPECIAL` on are no numbers.
///
/// The upper and the lower half of a binary32 are made for 32 codes at once, in 16-bit lanes.
pub(super) struct Avx512Dl16Codes<const SPECIAL: u32>;

impl<const SPECIAL: u32> Avx512PanelCodes for Avx512Dl16Codes<SPECIAL> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn widen_codes(codes: __m512i, largest: &mut __m512i) -> [__m512; 2] {
        const UP: u32 = 16 - DL16_DROPPED;
        let magnitude = _mm512_and_si512(codes, broadcast_u32(0x7fff));
        *largest = _mm512_max_epu16(*largest, magnitude);
        let nonzero = _mm512_test_epi16_mask(magnitude, magnitude);
        let upper = _mm512_srli_epi16::<UP>(magnitude);
        let upper = _mm512_maskz_add_epi16(nonzero, upper, broadcast_u32(DL16_REBIAS >> 16));
        // upper | (codes & 0x8000)
        let upper = _mm512_ternarylogic_epi32::<0b1111_1000>(upper, codes, broadcast_u32(0x8000));
        interleave_halves(_mm512_slli_epi16::<DL16_DROPPED>(codes), upper)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn are_numbers(largest: __m512i) -> bool {
        _mm512_cmpge_epu16_mask(largest, broadcast_u32(SPECIAL)) == 0
    }
}

struct Avx512F16Codes;

impl Avx512PanelCodes for Avx512F16Codes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn widen_codes(codes: __m512i, _: &mut __m512i) -> [__m512; 2] {
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

struct Avx512Bf16Codes;

impl Avx512PanelCodes for Avx512Bf16Codes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn widen_codes(codes: __m512i, _: &mut __m512i) -> [__m512; 2] {
        interleave_halves(_mm512_setzero_si512(), codes)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn are_numbers(_: __m512i) -> bool {
        true
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn broadcast_u32(value: u32) -> __m512i {
    #[allow(clippy::cast_possible_truncation, reason = "constants of 16 bits")]
    _mm512_set1_epi16((value as u16).cast_signed())
}

/// Binary32 numbers of their lower and upper halves.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleave_halves(lower: __m512i, upper: __m512i) -> [__m512; 2] {
    [
        _mm512_castsi512_ps(_mm512_unpacklo_epi16(lower, upper)),
        _mm512_castsi512_ps(_mm512_unpackhi_epi16(lower, upper)),
    ]
}

/// As [`RowKernel`] says.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn multiply_panel<C: Avx512PanelCodes>(
    depth: usize,
    row: *const f32,
    panel: *const u8,
    sums: *mut f32,
) -> bool {
    const HALF: usize = PANEL_COLUMNS / 2;
    // SAFETY: the caller's promise; the sums are four vectors, a depth of the panel is two.
    unsafe {
        let [mut a, mut b] = load_in_code_order(sums);
        let [mut c, mut d] = load_in_code_order(sums.add(HALF));
        let mut largest = _mm512_setzero_si512();
        for p in 0..depth {
            let left = _mm512_set1_ps(*row.add(p));
            let codes = panel.add(p * PANEL_COLUMNS * 2);
            let [low, high] = C::widen_codes(_mm512_loadu_si512(codes.cast()), &mut largest);
            a = _mm512_fmadd_ps(left, low, a);
            b = _mm512_fmadd_ps(left, high, b);
            let codes = codes.add(HALF * 2);
            let [low, high] = C::widen_codes(_mm512_loadu_si512(codes.cast()), &mut largest);
            c = _mm512_fmadd_ps(left, low, c);
            d = _mm512_fmadd_ps(left, high, d);
        }
        if !C::are_numbers(largest) {
            return false;
        }
        store_from_code_order(sums, a, b);
        store_from_code_order(sums.add(HALF), c, d);
        true
    }
}

/// 32 sums in the order of widened codes.
///
/// # Safety
/// `sums` is valid for 32 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_in_code_order(sums: *const f32) -> [__m512; 2] {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { (_mm512_loadu_ps(sums), _mm512_loadu_ps(sums.add(16))) };
    [
        _mm512_shuffle_f32x4::<0b10_00_10_00>(low, high),
        _mm512_shuffle_f32x4::<0b11_01_11_01>(low, high),
    ]
}

/// Stores what [`load_in_code_order`] has loaded.
///
/// # Safety
/// `sums` is valid for 32 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store_from_code_order(sums: *mut f32, even: __m512, odd: __m512) {
    let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(even, odd);
    let high = _mm512_shuffle_f32x4::<0b11_10_11_10>(even, odd);
    // SAFETY: the caller's promise.
    unsafe {
        _mm512_storeu_ps(sums, _mm512_shuffle_f32x4::<0b11_01_10_00>(low, low));
        _mm512_storeu_ps(sums.add(16), _mm512_shuffle_f32x4::<0b11_01_10_00>(high, high));
    }
}
