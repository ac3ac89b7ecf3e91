//! Sums, differences and products of DL16 in registers.

use std::arch::x86_64::*;

use super::lanes::{both, broadcast_u32, mask_nans};
use super::row::{Avx512Dl16Codes, Avx512PanelCodes};
use super::{Avx512, store_register};
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

/// An operation on 16 pairs.
trait Avx512PairOperation {
    /// # Safety
    /// The machine has AVX-512.
    unsafe fn apply_lanes(a: __m512, b: __m512) -> __m512;
}

macro_rules! operations {
    ($($name:ident $instruction:ident)*) => {$(
        struct $name;

        impl Avx512PairOperation for $name {
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn apply_lanes(a: __m512, b: __m512) -> __m512 {
                $instruction(a, b)
            }
        }
    )*};
}

operations! {
    Add _mm512_add_ps
    Sub _mm512_sub_ps
    Mul _mm512_mul_ps
}

/// As [`PairKernel`] says.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run_pairs<F: Avx512PairOperation>(
    a: *const u8,
    b: *const u8,
    dst: *mut u8,
    count: usize,
) {
    type Avx512MergedDl16 = Avx512Dl16Codes<DL16_MERGED>;
    for at in (0..count).step_by(STEP_ELEMENTS) {
        // SAFETY: the caller's promise; 32 codes are one vector.
        unsafe {
            let (a, b, dst) = (a.add(at * 2), b.add(at * 2), dst.add(at * 2));
            let mut largest = _mm512_setzero_si512();
            let x = Avx512MergedDl16::widen_codes(_mm512_loadu_si512(a.cast()), &mut largest);
            let y = Avx512MergedDl16::widen_codes(_mm512_loadu_si512(b.cast()), &mut largest);
            if Avx512MergedDl16::are_numbers(largest) {
                store_register::<false>(
                    dst,
                    narrow_to_dl16_inf([F::apply_lanes(x[0], y[0]), F::apply_lanes(x[1], y[1])]),
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn run_any_codes<F: Avx512PairOperation>(a: *const u8, b: *const u8, dst: *mut u8) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        let ([a, c], [b, d]) = (
            <Avx512 as ReadFormat<Dl16>>::read_lanes(a),
            <Avx512 as ReadFormat<Dl16>>::read_lanes(b),
        );
        let of = |(a, b)| {
            _mm512_castps_si512(F::apply_lanes(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)))
        };
        let lanes = both!([(a, b), (c, d)], of);
        let lanes = both!(lanes, |bits| _mm512_mask_mov_epi32(
            bits,
            mask_nans(bits),
            broadcast_u32(F32_NAN)
        ));
        <Avx512 as WriteFormat<Dl16Inf>>::write_lanes::<false>(dst, lanes);
    }
}

/// What the writer of [`Dl16Inf`] does, of numbers in the order of [`Avx512PanelCodes::widen_codes`], none of which is a NaN: packing undoes that
/// order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn narrow_to_dl16_inf(numbers: [__m512; 2]) -> __m512i {
    let [low, high] = both!(numbers, |number| _mm512_castps_si512(number));
    let code = |bits| {
        let magnitude = _mm512_and_si512(bits, broadcast_u32(!F32_SIGN));
        let half = 1_u32 << (DL16_DROPPED - 1);
        let rounded = _mm512_add_epi32(magnitude, broadcast_u32(half.wrapping_sub(DL16_REBIAS)));
        let rounded = _mm512_max_epi32(rounded, _mm512_setzero_si512());
        _mm512_srli_epi32::<DL16_DROPPED>(rounded)
    };
    // Past 16 bits packing saturates, which is past the numbers too.
    let codes = _mm512_packus_epi32(code(low), code(high));
    #[allow(clippy::cast_possible_truncation, reason = "a code")]
    let codes = _mm512_min_epu16(codes, _mm512_set1_epi16((DL16_INFINITE as u16).cast_signed()));
    let signs = _mm512_packus_epi32(_mm512_srli_epi32::<16>(low), _mm512_srli_epi32::<16>(high));
    // codes | (signs & 0x8000)
    _mm512_ternarylogic_epi32::<0b1111_1000>(codes, signs, _mm512_set1_epi16(i16::MIN))
}
