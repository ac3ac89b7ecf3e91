//! Sums, differences and products of DL16 in registers.

use std::arch::x86_64::*;

use super::lanes::{blend_masked, broadcast_u32, each, mask_nans};
use super::row::{Avx2Dl16Codes, Avx2PanelCodes};
use super::{Avx2, load_register, store_register};
use crate::arithmetic::{PairArithmetic, PairKernel};
use crate::format::Format;
use crate::kernel::vector::{ReadFormat, STEP_ELEMENTS, WriteFormat};
use crate::minifloat::{F32_NAN, F32_SIGN};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS, Dl16, Dl16Inf};

/// The kernels of this file: operands in DL16, the result with infinities.
pub(in crate::kernel) fn select_arithmetic_kernel(
    f: PairArithmetic,
    from: Format,
    to: Format,
) -> Option<PairKernel> {
    if (from, to) != (Format::DL16, Format::DL16INF) {
        return None;
    }
    Some(match f {
        PairArithmetic::Add => run_pairs::<Add>,
        PairArithmetic::Sub => run_pairs::<Sub>,
        PairArithmetic::Mul => run_pairs::<Mul>,
    })
}

/// An operation on 8 pairs.
trait Avx2PairOperation {
    /// # Safety
    /// The machine has AVX2.
    unsafe fn apply_lanes(a: __m256, b: __m256) -> __m256;
}

macro_rules! operations {
    ($($name:ident $instruction:ident)*) => {$(
        struct $name;

        impl Avx2PairOperation for $name {
            #[inline]
            #[target_feature(enable = "avx2")]
            unsafe fn apply_lanes(a: __m256, b: __m256) -> __m256 {
                $instruction(a, b)
            }
        }
    )*};
}

operations! {
    Add _mm256_add_ps
    Sub _mm256_sub_ps
    Mul _mm256_mul_ps
}

/// As [`PairKernel`] says.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run_pairs<F: Avx2PairOperation>(a: *const u8, b: *const u8, dst: *mut u8, count: usize) {
    type Avx2MergedDl16 = Avx2Dl16Codes<DL16_MERGED>;
    for at in (0..count).step_by(STEP_ELEMENTS) {
        // SAFETY: the caller's promise; 32 codes are two vectors.
        unsafe {
            let (a, b, dst) = (a.add(at * 2), b.add(at * 2), dst.add(at * 2));
            let mut largest = _mm256_setzero_si256();
            let x = Avx2MergedDl16::widen_codes(load_register(a), &mut largest);
            let y = Avx2MergedDl16::widen_codes(load_register(b), &mut largest);
            let u = Avx2MergedDl16::widen_codes(load_register(a.add(32)), &mut largest);
            let v = Avx2MergedDl16::widen_codes(load_register(b.add(32)), &mut largest);
            if Avx2MergedDl16::are_numbers(largest) {
                store_register::<false>(
                    dst,
                    narrow_to_dl16_inf([F::apply_lanes(x[0], y[0]), F::apply_lanes(x[1], y[1])]),
                );
                store_register::<false>(
                    dst.add(32),
                    narrow_to_dl16_inf([F::apply_lanes(u[0], v[0]), F::apply_lanes(u[1], v[1])]),
                );
            } else {
                run_any_codes::<F>(a, b, dst);
            }
        }
    }
}

/// 32 pairs with a NaN among them.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run_any_codes<F: Avx2PairOperation>(a: *const u8, b: *const u8, dst: *mut u8) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        let (x, y) =
            (<Avx2 as ReadFormat<Dl16>>::read_lanes(a), <Avx2 as ReadFormat<Dl16>>::read_lanes(b));
        let of = |(x, y)| {
            _mm256_castps_si256(F::apply_lanes(_mm256_castsi256_ps(x), _mm256_castsi256_ps(y)))
        };
        let lanes = each!([(x[0], y[0]), (x[1], y[1]), (x[2], y[2]), (x[3], y[3])], of);
        let lanes =
            each!(lanes, |bits| blend_masked(bits, mask_nans(bits), broadcast_u32(F32_NAN)));
        <Avx2 as WriteFormat<Dl16Inf>>::write_lanes::<false>(dst, lanes);
    }
}

/// What the writer of [`Dl16Inf`] does, of numbers in the order of [`Avx2PanelCodes::widen_codes`], none of which is a NaN: packing undoes that
/// order.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow_to_dl16_inf(numbers: [__m256; 2]) -> __m256i {
    let (low, high) = (_mm256_castps_si256(numbers[0]), _mm256_castps_si256(numbers[1]));
    let code = |bits| {
        let magnitude = _mm256_and_si256(bits, broadcast_u32(!F32_SIGN));
        let half = 1_u32 << (DL16_DROPPED - 1);
        let rounded = _mm256_add_epi32(magnitude, broadcast_u32(half.wrapping_sub(DL16_REBIAS)));
        let rounded = _mm256_max_epi32(rounded, _mm256_setzero_si256());
        _mm256_srli_epi32::<{ DL16_DROPPED.cast_signed() }>(rounded)
    };
    // Past 16 bits packing saturates, which is past the numbers too.
    let codes = _mm256_packus_epi32(code(low), code(high));
    #[allow(clippy::cast_possible_truncation, reason = "a code")]
    let codes = _mm256_min_epu16(codes, _mm256_set1_epi16((DL16_INFINITE as u16).cast_signed()));
    let signs = _mm256_packus_epi32(_mm256_srli_epi32::<16>(low), _mm256_srli_epi32::<16>(high));
    _mm256_or_si256(codes, _mm256_and_si256(signs, _mm256_set1_epi16(i16::MIN)))
}
