//! Sums, differences and products of stored numbers, without a detour through memory.
//!
//! Two operands that are widened to memory, added there and narrowed from there cost several times what the same costs in
//! registers.

use crate::format::Format;
use crate::kernel;
use zellige_isa::Isa;

/// What is done to a pair of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairArithmetic {
    /// The sum.
    Add,
    /// The first less the second.
    Sub,
    /// The product.
    Mul,
}

/// Elements of an array that a [`PairKernel`] takes are a multiple of this.
pub const PAIR_STEP: usize = 32;

/// Two operands, the result, and how many elements.
///
/// **Law**: element `i` of the result is that of the operands as float32, rounded once to float32 and then to the format of
/// the result; a NaN is the positive one.
///
/// Safety: the ranges are valid and `count` is a multiple of [`PAIR_STEP`]; the result may be in the place of an operand, but
/// no range overlaps another in part. The machine has the kernel's instructions.
pub type PairKernel = unsafe fn(*const u8, *const u8, *mut u8, usize);

/// The kernel for operands of one format and a result of another, where the instruction set has one.
#[must_use]
pub fn select_pair_kernel(
    f: PairArithmetic,
    from: Format,
    to: Format,
    isa: Isa,
) -> Option<PairKernel> {
    kernel::select_arithmetic_kernel(f, from, to, isa)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dl16, Dl16Inf};

    fn due(f: PairArithmetic, a: u16, b: u16) -> u16 {
        let (a, b) = (Dl16(a).to_f32(), Dl16(b).to_f32());
        let y = match f {
            PairArithmetic::Add => a + b,
            PairArithmetic::Sub => a - b,
            PairArithmetic::Mul => a * b,
        };
        Dl16Inf::from_f32(if y.is_nan() { f32::NAN.abs() } else { y }).0
    }

    fn compare(a: &[u16], b: &[u16]) {
        for isa in Isa::all_available() {
            for f in [PairArithmetic::Add, PairArithmetic::Sub, PairArithmetic::Mul] {
                let Some(kernel) = select_pair_kernel(f, Format::DL16, Format::DL16INF, isa) else {
                    continue;
                };
                let (mut out, mut place) = (vec![0_u16; a.len()], a.to_vec());
                // SAFETY: three arrays of as many elements; in the second call the first is also the last.
                unsafe {
                    kernel(a.as_ptr().cast(), b.as_ptr().cast(), out.as_mut_ptr().cast(), a.len());
                    let at = place.as_mut_ptr().cast::<u8>();
                    kernel(at, b.as_ptr().cast(), at, a.len());
                }
                assert!(out == place, "{isa:?} {f:?} in place");
                for ((a, b), y) in a.iter().zip(b).zip(&out) {
                    let due = due(f, *a, *b);
                    assert_eq!(*y, due, "{isa:?} {f:?}: {a:#x} and {b:#x}");
                }
            }
        }
    }

    /// Every code beside codes of every kind: zeros, the smallest and largest numbers, the encodings of infinity and NaN.
    #[test]
    fn every_code_follows_the_law() {
        let codes: Vec<u16> = (0..=u16::MAX).collect();
        for other in
            [0, 0x8000, 1, 0x8001, 0x1ff, 0x3e00, 0xbe01, 0x7dfd, 0x7dfe, 0x7ffe, 0x7fff, 0xffff]
        {
            compare(&codes, &vec![other; codes.len()]);
            compare(&vec![other; codes.len()], &codes);
        }
    }

    #[test]
    fn pairs_of_any_codes_follow_the_law() {
        let mut state = 7_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u16::try_from(state >> 48).expect("16 bits")
        };
        for _ in 0..8 {
            let a: Vec<u16> = (0..1 << 13).map(|_| next()).collect();
            // Close to the other, so that sums cancel.
            let b: Vec<u16> = a.iter().map(|a| (a ^ 0x8000).wrapping_add(next() % 1600)).collect();
            compare(&a, &b);
            compare(&a[..PAIR_STEP], &b[..PAIR_STEP]);
            compare(&[], &[]);
        }
    }
}
