//! Elementwise loops over tiles, compiled for every instruction set.
//!
//! Every loop computes what `pointwise` does: one operation in float32, NaN made the canonical one, and one rounding to
//! the element type. Both happen in one pass, because a second pass over a tile costs as much as the operation.

#![allow(clippy::inline_always, reason = "a formula must join the loop to be vectorised with it")]

use super::super::pointwise::round_elements;
use crate::op::KtirOpKind;
use crate::types::KtirElem;
use zellige_float::Isa;
use zellige_math::{IsaLoop, canonicalize_nan, run_for_isa};

/// The lanes of an operand: one number for each element, or the same for all.
#[derive(Debug, Clone, Copy)]
pub(super) enum LaneOperand<'a> {
    Each(&'a [f32]),
    Same(f32),
}

/// Operations of two floats that have a loop of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneBinary {
    Add,
    Sub,
    Mul,
    Div,
    Maximum,
    Minimum,
    MaxNum,
    MinNum,
}

impl LaneBinary {
    pub(super) fn from_kind(kind: KtirOpKind) -> Option<LaneBinary> {
        Some(match kind {
            KtirOpKind::AddF => LaneBinary::Add,
            KtirOpKind::SubF => LaneBinary::Sub,
            KtirOpKind::MulF => LaneBinary::Mul,
            KtirOpKind::DivF | KtirOpKind::SpyreRealDiv => LaneBinary::Div,
            KtirOpKind::MaximumF => LaneBinary::Maximum,
            KtirOpKind::MinimumF => LaneBinary::Minimum,
            KtirOpKind::MaxNumF => LaneBinary::MaxNum,
            KtirOpKind::MinNumF => LaneBinary::MinNum,
            _ => return None,
        })
    }

    /// Whether a result is one of the operands, so that it needs no rounding.
    fn selects(self) -> bool {
        matches!(self, LaneBinary::MaxNum | LaneBinary::MinNum)
    }
}

/// One operation of two floats.
trait LaneFormula {
    fn apply(a: f32, b: f32) -> f32;
}

macro_rules! formulas {
    ($($name:ident |$a:ident, $b:ident| $body:expr;)*) => {
        $(
            struct $name;
            impl LaneFormula for $name {
                #[inline(always)]
                fn apply($a: f32, $b: f32) -> f32 { $body }
            }
        )*
    };
}

formulas! {
    AddLanes |a, b| a + b;
    SubLanes |a, b| a - b;
    MulLanes |a, b| a * b;
    DivLanes |a, b| a / b;
    MaximumLanes |a, b| zellige_math::round::maximum(a, b);
    MinimumLanes |a, b| zellige_math::round::minimum(a, b);
    // A NaN gives way to the other operand, and equal numbers are the first: as `pointwise` has it.
    MaxNumLanes |a, b| if a.is_nan() || b > a { b } else { a };
    MinNumLanes |a, b| if a.is_nan() || b < a { b } else { a };
}

/// One rounding, after which a NaN is the canonical one.
trait LaneRound {
    fn round(x: f32) -> f32;
}

/// Float32, where every result is exact already.
struct SingleLanes;
/// Binary16.
struct HalfLanes;
/// A result that is one of the operands, bit for bit.
struct SelectedLanes;

impl LaneRound for SingleLanes {
    #[inline(always)]
    fn round(x: f32) -> f32 {
        canonicalize_nan(x)
    }
}

impl LaneRound for HalfLanes {
    #[inline(always)]
    fn round(x: f32) -> f32 {
        round_half(x)
    }
}

impl LaneRound for SelectedLanes {
    #[inline(always)]
    fn round(x: f32) -> f32 {
        x
    }
}

/// The nearest binary16, ties to even, with the canonical NaN: `round_f16` of `canonicalize_nan` in fewer steps.
#[inline(always)]
fn round_half(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // A power of two 2^13 times that of the number, but at least 2^-1: adding it leaves the bits that binary16 has, of
    // normal numbers and of subnormal ones, rounded to even by the addition itself.
    let large = (magnitude & 0x7f80_0000).max(113 << 23).wrapping_add(13 << 23);
    let (magnitude_f, large) = (f32::from_bits(magnitude), f32::from_bits(large));
    let kept = ((magnitude_f + large) - large).to_bits() | bits & 0x8000_0000;
    let infinite = 0x7f80_0000 | bits & 0x8000_0000;
    // Numbers from 65520 on round to infinity.
    let finite = if magnitude >= 0x477f_f000 { infinite } else { kept };
    f32::from_bits(if magnitude > 0x7f80_0000 { 0x7fc0_0000 } else { finite })
}

struct BinaryLoop<'a, O, R> {
    a: LaneOperand<'a>,
    b: LaneOperand<'a>,
    out: &'a mut [f32],
    formula: std::marker::PhantomData<(O, R)>,
}

impl<O: LaneFormula, R: LaneRound> IsaLoop for BinaryLoop<'_, O, R> {
    type Out = ();

    #[inline(always)]
    fn run_loop(self) {
        match (self.a, self.b) {
            (LaneOperand::Each(a), LaneOperand::Each(b)) => {
                for ((out, &a), &b) in self.out.iter_mut().zip(a).zip(b) {
                    *out = R::round(O::apply(a, b));
                }
            }
            (LaneOperand::Each(a), LaneOperand::Same(b)) => {
                for (out, &a) in self.out.iter_mut().zip(a) {
                    *out = R::round(O::apply(a, b));
                }
            }
            (LaneOperand::Same(a), LaneOperand::Each(b)) => {
                for (out, &b) in self.out.iter_mut().zip(b) {
                    *out = R::round(O::apply(a, b));
                }
            }
            (LaneOperand::Same(a), LaneOperand::Same(b)) => {
                self.out.fill(R::round(O::apply(a, b)));
            }
        }
    }
}

/// Halves folded onto each other until one slice is left of each group.
struct TreeLoop<'a, O, R> {
    /// Groups of `count` slices of `inner` numbers each; the result is the first slice of each group.
    data: &'a mut [f32],
    count: usize,
    inner: usize,
    formula: std::marker::PhantomData<(O, R)>,
}

impl<O: LaneFormula, R: LaneRound> IsaLoop for TreeLoop<'_, O, R> {
    type Out = ();

    #[inline(always)]
    fn run_loop(self) {
        for group in self.data.chunks_exact_mut(self.count * self.inner) {
            let mut left = self.count;
            while left > 1 {
                let half = left / 2;
                let (low, high) = group.split_at_mut(half * self.inner);
                for (a, &b) in low.iter_mut().zip(high.iter()) {
                    *a = R::round(O::apply(*a, b));
                }
                if left % 2 == 1 {
                    // The odd tail waits for the next level behind the folded half.
                    let tail = 2 * half * self.inner;
                    group.copy_within(tail..tail + self.inner, half * self.inner);
                }
                left = half + left % 2;
            }
        }
    }
}

macro_rules! for_formula {
    ($f:expr, $half:expr, $run:ident, $($field:ident: $value:expr),*) => {{
        macro_rules! with {
            ($O:ty) => {
                if $half {
                    run_for_isa(Isa::process_isa(), $run::<$O, HalfLanes> {
                        $($field: $value,)* formula: std::marker::PhantomData })
                } else {
                    run_for_isa(Isa::process_isa(), $run::<$O, SingleLanes> {
                        $($field: $value,)* formula: std::marker::PhantomData })
                }
            };
        }
        match $f {
            LaneBinary::Add => with!(AddLanes),
            LaneBinary::Sub => with!(SubLanes),
            LaneBinary::Mul => with!(MulLanes),
            LaneBinary::Div => with!(DivLanes),
            LaneBinary::Maximum => with!(MaximumLanes),
            LaneBinary::Minimum => with!(MinimumLanes),
            // Selections are not rounded, so one instance serves every element type.
            LaneBinary::MaxNum => run_for_isa(Isa::process_isa(), $run::<MaxNumLanes, SelectedLanes> {
                $($field: $value,)* formula: std::marker::PhantomData }),
            LaneBinary::MinNum => run_for_isa(Isa::process_isa(), $run::<MinNumLanes, SelectedLanes> {
                $($field: $value,)* formula: std::marker::PhantomData }),
        }
    }};
}

/// `out[i] = round(f(a[i], b[i]))`.
pub(super) fn apply_binary(
    f: LaneBinary,
    a: LaneOperand<'_>,
    b: LaneOperand<'_>,
    out: &mut [f32],
    elem: KtirElem,
) {
    let half = elem == KtirElem::F16;
    for_formula!(f, half, BinaryLoop, a: a, b: b, out: &mut *out);
    if !half && elem != KtirElem::F32 && !f.selects() {
        round_elements(out, elem);
    }
}

/// Folds `count` slices of `inner` numbers in each group into the first one, halves onto halves.
pub(super) fn fold_tree(
    f: LaneBinary,
    data: &mut [f32],
    count: usize,
    inner: usize,
    elem: KtirElem,
) {
    if count == 0 || inner == 0 || data.is_empty() {
        return;
    }
    let half = elem == KtirElem::F16;
    for_formula!(f, half, TreeLoop, data: data, count: count, inner: inner);
}

/// Whether [`fold_tree`] rounds to this element type.
pub(super) fn has_tree(f: LaneBinary, elem: KtirElem) -> bool {
    f.selects() || matches!(elem, KtirElem::F16 | KtirElem::F32)
}

struct RoundLoop<'a>(&'a mut [f32]);

impl IsaLoop for RoundLoop<'_> {
    type Out = ();

    #[inline(always)]
    fn run_loop(self) {
        self.0.iter_mut().for_each(|x| *x = round_half(*x));
    }
}

/// Rounds numbers to an element type; NaNs are the canonical one.
pub(super) fn round_lanes(values: &mut [f32], elem: KtirElem) {
    if elem == KtirElem::F16 {
        run_for_isa(Isa::process_isa(), RoundLoop(values));
    } else {
        round_elements(values, elem);
    }
}

/// 2^112: the exponents of binary16 and binary32 differ by so much.
const HALF_SCALE: f32 = f32::from_bits((127 + 112) << 23);

/// The number of binary16 bits.
#[inline(always)]
fn widen_half(h: u16) -> f32 {
    let magnitude = u32::from(h & 0x7fff);
    // The product is exact for subnormal numbers too.
    let scaled = (f32::from_bits(magnitude << 13) * HALF_SCALE).to_bits();
    // Infinities and NaNs have the largest exponent in both formats; a NaN becomes a quiet one.
    let special = 0x7f80_0000 | magnitude << 13 | if magnitude > 0x7c00 { 0x0040_0000 } else { 0 };
    let bits = if magnitude >= 0x7c00 { special } else { scaled };
    f32::from_bits(bits | u32::from(h & 0x8000) << 16)
}

/// The binary16 bits of a number that binary16 has.
#[inline(always)]
fn narrow_half(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal = magnitude.wrapping_sub(112 << 23) >> 13;
    // Multiples of 2^-24 are the last bits of a number from 0.5 on.
    let small = (f32::from_bits(magnitude) + 0.5).to_bits() & 0x7fff;
    let finite = if magnitude < 0x3880_0000 { small } else { normal };
    let special =
        0x7c00 | if magnitude > 0x7f80_0000 { 0x200 | magnitude >> 13 & 0x3ff } else { 0 };
    let out = if magnitude >= 0x7f80_0000 { special } else { finite };
    #[allow(clippy::cast_possible_truncation, reason = "the format has 16 bits")]
    let half = (out | bits >> 16 & 0x8000) as u16;
    half
}

struct WidenLoop<'a>(&'a [[u8; 2]], &'a mut [f32]);

impl IsaLoop for WidenLoop<'_> {
    type Out = ();

    #[inline(always)]
    fn run_loop(self) {
        for (out, raw) in self.1.iter_mut().zip(self.0) {
            *out = widen_half(u16::from_le_bytes(*raw));
        }
    }
}

struct NarrowLoop<'a>(&'a [f32], &'a mut [[u8; 2]]);

impl IsaLoop for NarrowLoop<'_> {
    type Out = ();

    #[inline(always)]
    fn run_loop(self) {
        for (out, x) in self.1.iter_mut().zip(self.0) {
            *out = narrow_half(*x).to_le_bytes();
        }
    }
}

/// Reads the binary16 numbers of some bytes.
pub(super) fn read_halves(raw: &[u8], out: &mut [f32]) {
    run_for_isa(Isa::process_isa(), WidenLoop(raw.as_chunks().0, out));
}

/// Writes numbers that binary16 has.
pub(super) fn write_halves(values: &[f32], raw: &mut [u8]) {
    run_for_isa(Isa::process_isa(), NarrowLoop(values, raw.as_chunks_mut().0));
}

#[cfg(test)]
mod tests {
    use super::super::super::memory::{decode_elements, encode_elements};
    use super::super::super::value::KtirElements;
    use super::*;

    #[test]
    fn fused_rounding_is_that_of_the_plain_interpreter() {
        use super::super::super::pointwise::round_f16;
        // Every upper half of a float32, with lower halves around the ties.
        for high in 0..=u16::MAX {
            for low in [0_u16, 1, 0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0xffff] {
                let x = f32::from_bits(u32::from(high) << 16 | u32::from(low));
                let want = round_f16(canonicalize_nan(x));
                assert_eq!(round_half(x).to_bits(), want.to_bits(), "{x:e}");
            }
        }
    }

    #[test]
    fn halves_are_read_and_written_as_the_converter_does() {
        let raw: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut wide = vec![0.0; 1 << 16];
        read_halves(&raw, &mut wide);
        let KtirElements::F(want) = decode_elements(&raw, KtirElem::F16) else { unreachable!() };
        for (i, (have, want)) in wide.iter().zip(&want).enumerate() {
            assert_eq!(have.to_bits(), want.to_bits(), "{i:#x}");
        }
        let want = encode_elements(&KtirElements::F(wide.clone()), KtirElem::F16);
        let mut back = vec![0; raw.len()];
        write_halves(&wide, &mut back);
        assert!(back == want, "the bits written");
    }
}
