//! Numbers: bits of elements, and rounding to an element type.

use crate::ir::KtirLiteral;
use crate::types::KtirElem;
use zellige_float::{Bf16, Dl16, Element, F8E4M3Fn, F8E5M2, F16};

/// Converts a number to the bits of an element type, rounding once.
pub(crate) fn encode_bits(value: f64, elem: KtirElem) -> u64 {
    match elem {
        // Every literal and every float32 is exact in float64, so the conversion to the element is
        // the only rounding. Going through float32 first would round some literals twice.
        KtirElem::F16 => u64::from(F16::cast_from(value).0),
        KtirElem::BF16 => u64::from(Bf16::cast_from(value).0),
        KtirElem::DF16 => u64::from(Dl16::cast_from(value).0),
        KtirElem::F8E4M3 => u64::from(F8E4M3Fn::cast_from(value).0),
        KtirElem::F8E5M2 => u64::from(F8E5M2::cast_from(value).0),
        KtirElem::F32 => u64::from(f32::cast_from(value).to_bits()),
        #[allow(clippy::cast_sign_loss, reason = "the bits are asked for")]
        _ => i64::cast_from(value) as u64,
    }
}

/// Converts the bits of an element to float32, exactly.
#[allow(clippy::cast_possible_truncation, reason = "the low bits are the element")]
pub(crate) fn decode_bits(bits: u64, elem: KtirElem) -> f32 {
    match elem {
        KtirElem::F16 => F16(bits as u16).to_f32(),
        KtirElem::BF16 => Bf16(bits as u16).to_f32(),
        KtirElem::DF16 => Dl16(bits as u16).to_f32(),
        KtirElem::F8E4M3 => F8E4M3Fn(bits as u8).to_f32(),
        KtirElem::F8E5M2 => F8E5M2(bits as u8).to_f32(),
        _ => f32::from_bits(bits as u32),
    }
}

/// The value of a literal in a float type.
pub(crate) fn literal_to_float(literal: KtirLiteral, elem: KtirElem) -> f32 {
    match literal {
        KtirLiteral::Int(n) => decode_bits(encode_bits(n as f64, elem), elem),
        KtirLiteral::Float(bits) => decode_bits(encode_bits(f64::from_bits(bits), elem), elem),
        // MLIR's hexadecimal float literals are the bits of the element itself, which is the only
        // way to write an infinity or a NaN with its payload.
        KtirLiteral::Bits(bits) => decode_bits(bits, elem),
    }
}
