//! AVX2 with F16C: float16 by the conversion instructions, all else by the compiler.

use std::arch::x86_64::{
    _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_loadu_ps, _mm256_storeu_ps,
};

use super::{Pair, portable};
use crate::element::Element;
use crate::format::Format;
use crate::small::F16;

/// The pairs that are written by hand.
pub(super) fn select(src: Format, dst: Format) -> Option<Pair> {
    match (src, dst) {
        (Format::F32, Format::F16) => Some(Pair::one(f32_to_f16)),
        (Format::F16, Format::F32) => Some(Pair::one(f16_to_f32)),
        _ => None,
    }
}

/// The portable loop, compiled for AVX2.
///
/// # Safety
/// As for every [`Kernel`](super::Kernel).
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn compiled<S: Element, D: Element>(src: *const u8, dst: *mut u8, count: usize) {
    // SAFETY: the caller's promise is passed on.
    unsafe { portable::run::<S, D>(src, dst, count) }
}

#[target_feature(enable = "avx2,f16c")]
unsafe fn f32_to_f16(src: *const u8, dst: *mut u8, count: usize) {
    const ROUND: i32 = _MM_FROUND_TO_NEAREST_INT;
    let whole = count & !7;
    for at in (0..whole).step_by(8) {
        // SAFETY: elements `at..at + 8` are inside both ranges; the instructions take any address.
        unsafe {
            let value = _mm256_loadu_ps(src.add(at * 4).cast());
            _mm_storeu_si128(dst.add(at * 2).cast(), _mm256_cvtps_ph::<ROUND>(value));
        }
    }
    // SAFETY: the rest of both ranges.
    unsafe { portable::run::<f32, F16>(src.add(whole * 4), dst.add(whole * 2), count - whole) }
}

#[target_feature(enable = "avx2,f16c")]
unsafe fn f16_to_f32(src: *const u8, dst: *mut u8, count: usize) {
    let whole = count & !7;
    for at in (0..whole).step_by(8) {
        // SAFETY: elements `at..at + 8` are inside both ranges; the instructions take any address.
        unsafe {
            let value = _mm_loadu_si128(src.add(at * 2).cast());
            _mm256_storeu_ps(dst.add(at * 4).cast(), _mm256_cvtph_ps(value));
        }
    }
    // SAFETY: the rest of both ranges.
    unsafe { portable::run::<F16, f32>(src.add(whole * 2), dst.add(whole * 4), count - whole) }
}
