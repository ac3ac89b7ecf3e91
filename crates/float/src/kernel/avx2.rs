//! AVX2 with F16C: float16 by the conversion instructions, all else by the compiler.
//!
//! The instructions lead from float16 to float32 and back. Other pairs with a float16 go that way
//! too, a few hundred elements at a time, through a buffer that stays in the first cache.

use std::mem::MaybeUninit;

use std::arch::x86_64::{
    _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_loadu_ps, _mm256_storeu_ps,
};

use super::{Kernel, Pair, portable};
use crate::element::Element;
use crate::format::Format;
use crate::small::{Bf16, Dl16, Dl16Inf, F8E4M3Fn, F8E5M2, F8E5M2Fnuz, F16};

/// The pairs that use the conversion instructions.
pub(super) fn select(src: Format, dst: Format) -> Option<Pair> {
    let kernel: Kernel = match (src, dst) {
        (Format::F32, Format::F16) => f32_to_f16,
        (Format::F16, Format::F32) => f16_to_f32,
        (Format::F16, Format::F64) => from_f16::<f64>,
        (Format::F16, Format::BF16) => from_f16::<Bf16>,
        (Format::F16, Format::DL16) => from_f16::<Dl16>,
        (Format::F16, Format::DL16INF) => from_f16::<Dl16Inf>,
        (Format::F16, Format::F8E4M3FN) => from_f16::<F8E4M3Fn>,
        (Format::F16, Format::F8E5M2) => from_f16::<F8E5M2>,
        (Format::F16, Format::F8E5M2FNUZ) => from_f16::<F8E5M2Fnuz>,
        (Format::BF16, Format::F16) => to_f16::<Bf16>,
        (Format::DL16, Format::F16) => to_f16::<Dl16>,
        (Format::DL16INF, Format::F16) => to_f16::<Dl16Inf>,
        (Format::F8E4M3FN, Format::F16) => to_f16::<F8E4M3Fn>,
        (Format::F8E5M2, Format::F16) => to_f16::<F8E5M2>,
        (Format::F8E5M2FNUZ, Format::F16) => to_f16::<F8E5M2Fnuz>,
        (Format::I16, Format::F16) => to_f16::<i16>,
        (Format::I8, Format::F16) => to_f16::<i8>,
        (Format::U8, Format::F16) => to_f16::<u8>,
        _ => return None,
    };
    Some(Pair::one(kernel))
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

/// Elements in the buffer: 2 KiB of float32.
const BLOCK: usize = 512;

/// From float16, which is exact as float32.
#[target_feature(enable = "avx2,f16c")]
unsafe fn from_f16<D: Element>(src: *const u8, dst: *mut u8, count: usize) {
    let mut buffer = [const { MaybeUninit::<f32>::uninit() }; BLOCK];
    let buffer = buffer.as_mut_ptr().cast::<u8>();
    for at in (0..count).step_by(BLOCK) {
        let part = BLOCK.min(count - at);
        // SAFETY: elements `at..at + part` are inside both ranges, and the buffer holds as many.
        unsafe {
            f16_to_f32(src.add(at * 2), buffer, part);
            portable::run::<f32, D>(buffer, dst.add(at * D::FORMAT.size()), part);
        }
    }
}

/// To float16 from a source that is exact as float32, so that it is rounded once.
#[target_feature(enable = "avx2,f16c")]
unsafe fn to_f16<S: Element>(src: *const u8, dst: *mut u8, count: usize) {
    let mut buffer = [const { MaybeUninit::<f32>::uninit() }; BLOCK];
    let buffer = buffer.as_mut_ptr().cast::<u8>();
    for at in (0..count).step_by(BLOCK) {
        let part = BLOCK.min(count - at);
        // SAFETY: elements `at..at + part` are inside both ranges, and the buffer holds as many.
        unsafe {
            portable::run::<S, f32>(src.add(at * S::FORMAT.size()), buffer, part);
            f32_to_f16(buffer, dst.add(at * 2), part);
        }
    }
}
