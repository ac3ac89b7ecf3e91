//! Numbers: bits of elements, and rounding to an element type.

use crate::ir::Literal;
use crate::types::Elem;
use zellige_float::{Bf16, Dl16, Element, F8E4M3Fn, F8E5M2, F16};

/// The bits of a number in an element type, rounded once.
pub(crate) fn bits_of(value: f64, elem: Elem) -> u64 {
    match elem {
        Elem::F16 => u64::from(F16::cast_from(value).0),
        Elem::BF16 => u64::from(Bf16::cast_from(value).0),
        Elem::DF16 => u64::from(Dl16::cast_from(value).0),
        Elem::F8E4M3 => u64::from(F8E4M3Fn::cast_from(value).0),
        Elem::F8E5M2 => u64::from(F8E5M2::cast_from(value).0),
        Elem::F32 => u64::from(f32::cast_from(value).to_bits()),
        #[allow(clippy::cast_sign_loss, reason = "the bits are asked for")]
        _ => i64::cast_from(value) as u64,
    }
}

/// The float of some bits, exactly.
#[allow(clippy::cast_possible_truncation, reason = "the low bits are the element")]
pub(crate) fn of_bits(bits: u64, elem: Elem) -> f32 {
    match elem {
        Elem::F16 => F16(bits as u16).to_f32(),
        Elem::BF16 => Bf16(bits as u16).to_f32(),
        Elem::DF16 => Dl16(bits as u16).to_f32(),
        Elem::F8E4M3 => F8E4M3Fn(bits as u8).to_f32(),
        Elem::F8E5M2 => F8E5M2(bits as u8).to_f32(),
        _ => f32::from_bits(bits as u32),
    }
}

/// A literal of a float type.
pub(crate) fn float_of(literal: Literal, elem: Elem) -> f32 {
    match literal {
        Literal::Int(n) => of_bits(bits_of(n as f64, elem), elem),
        Literal::Float(bits) => of_bits(bits_of(f64::from_bits(bits), elem), elem),
        Literal::Bits(bits) => of_bits(bits, elem),
    }
}
