//! Sums, differences and products of DL16 in registers.

use std::arch::x86_64::*;

use super::reader::{self, Reader};
use super::row::{Codes, Dl16};
use super::through::{both, is_nan, set};
use super::writer::{self, Writer};
use super::{STEP, put};
use crate::arithmetic::{Arithmetic, PairKernel};
use crate::format::Format;
use crate::minifloat::{F32_NAN, F32_SIGN};
use crate::small::{DL16_DROPPED, DL16_INFINITE, DL16_MERGED, DL16_REBIAS};

/// The kernels of this file: operands in DL16, the result with infinities.
pub(in crate::kernel) fn select(f: Arithmetic, from: Format, to: Format) -> Option<PairKernel> {
    if (from, to) != (Format::DL16, Format::DL16INF) {
        return None;
    }
    Some(match f {
        Arithmetic::Add => run::<Add>,
        Arithmetic::Sub => run::<Sub>,
        Arithmetic::Mul => run::<Mul>,
    })
}

/// An operation on 16 pairs.
trait Operation {
    /// # Safety
    /// The machine has AVX-512.
    unsafe fn of(a: __m512, b: __m512) -> __m512;
}

macro_rules! operations {
    ($($name:ident $instruction:ident)*) => {$(
        struct $name;

        impl Operation for $name {
            #[inline]
            #[target_feature(enable = "avx512f")]
            unsafe fn of(a: __m512, b: __m512) -> __m512 {
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
unsafe fn run<F: Operation>(a: *const u8, b: *const u8, dst: *mut u8, count: usize) {
    type Numbers = Dl16<DL16_MERGED>;
    for at in (0..count).step_by(STEP) {
        // SAFETY: the caller's promise; 32 codes are one vector.
        unsafe {
            let (a, b, dst) = (a.add(at * 2), b.add(at * 2), dst.add(at * 2));
            let mut largest = _mm512_setzero_si512();
            let x = Numbers::widen(_mm512_loadu_si512(a.cast()), &mut largest);
            let y = Numbers::widen(_mm512_loadu_si512(b.cast()), &mut largest);
            if Numbers::are_numbers(largest) {
                put::<false>(dst, narrow([F::of(x[0], y[0]), F::of(x[1], y[1])]));
            } else {
                any_codes::<F>(a, b, dst);
            }
        }
    }
}

/// 32 pairs with a NaN among them.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn any_codes<F: Operation>(a: *const u8, b: *const u8, dst: *mut u8) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        let ([a, c], [b, d]) = (reader::Dl16::read(a), reader::Dl16::read(b));
        let of =
            |(a, b)| _mm512_castps_si512(F::of(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
        let lanes = both!([(a, b), (c, d)], of);
        let lanes = both!(lanes, |bits| _mm512_mask_mov_epi32(bits, is_nan(bits), set(F32_NAN)));
        writer::Dl16Inf::write::<false>(dst, lanes);
    }
}

/// What [`writer::Dl16Inf`] does, of numbers in the order of [`Codes::widen`], none of which is a NaN: packing undoes that
/// order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn narrow(numbers: [__m512; 2]) -> __m512i {
    let [low, high] = both!(numbers, |number| _mm512_castps_si512(number));
    let code = |bits| {
        let magnitude = _mm512_and_si512(bits, set(!F32_SIGN));
        let half = 1_u32 << (DL16_DROPPED - 1);
        let rounded = _mm512_add_epi32(magnitude, set(half.wrapping_sub(DL16_REBIAS)));
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
