//! Runs elementwise operations over whole slices.

use super::error::KtirFault;
use super::value::KtirElements;
use crate::ir::KtirOp;
use crate::number::{decode_bits, encode_bits};
use crate::op::KtirOpKind;
use crate::types::KtirElem;
use zellige_float::Element;
use zellige_math::{Binary, Unary, map1, map2};

/// Rounds a number to a float type, once.
pub(super) fn round_float(value: f64, elem: KtirElem) -> f32 {
    decode_bits(encode_bits(value, elem), elem)
}

/// Wraps an integer to the bits of its type.
pub(super) fn wrap_integer(value: i64, elem: KtirElem) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "integers wrap")]
    match elem {
        KtirElem::I1 => value & 1,
        KtirElem::I8 => i64::from(value as i8),
        KtirElem::I16 => i64::from(value as i16),
        KtirElem::I32 => i64::from(value as i32),
        _ => value,
    }
}

/// The bits of an integer, read as unsigned.
#[allow(clippy::cast_sign_loss, reason = "the bits are meant")]
fn to_unsigned_bits(value: i64, elem: KtirElem) -> u64 {
    let bits = elem.value_bits();
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    value as u64 & mask
}

#[allow(clippy::cast_possible_wrap, reason = "the bits are meant")]
fn to_signed_integer(value: u64, elem: KtirElem) -> i64 {
    wrap_integer(value as i64, elem)
}

/// Rounds float32 numbers to an element type, in place.
pub(super) fn round_elements(values: &mut [f32], elem: KtirElem) {
    match elem {
        KtirElem::F16 => values.iter_mut().for_each(|x| *x = round_f16(*x)),
        KtirElem::BF16 => values.iter_mut().for_each(|x| *x = round_bf16(*x)),
        KtirElem::F32 => {}
        _ => {
            values
                .iter_mut()
                .for_each(|x| *x = decode_bits(encode_bits(f64::from(*x), elem), elem));
        }
    }
}

/// The nearest binary16, ties to even, without leaving float32: selections only, so that loops vectorise.
#[inline(always)]
#[allow(clippy::inline_always, reason = "loops for every instruction set take it in")]
pub(super) fn round_f16(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Normal numbers lose 13 bits; a carry into the exponent is right.
    let kept = magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1)) & !0x1fff;
    // Numbers from 65520 on round to infinity.
    let normal = if kept >= 0x4780_0000 { 0x7f80_0000 } else { kept };
    // Below 2^-14 the spacing is 2^-24: adding 0.75 leaves no finer bits.
    let small = ((f32::from_bits(magnitude) + 0.75) - 0.75).to_bits();
    let finite = if magnitude < 0x3880_0000 { small } else { normal };
    let nan = magnitude > 0x7f80_0000;
    let out = if nan { (magnitude | 0x0040_0000) & !0x1fff } else { finite };
    f32::from_bits(out | (bits & 0x8000_0000))
}

#[inline]
fn round_bf16(x: f32) -> f32 {
    let bits = x.to_bits();
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    let kept = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    f32::from_bits(if nan { (bits | 0x0040_0000) & 0xffff_0000 } else { kept })
}

/// Applies an elementwise operation. Inputs have as many elements as the result, or one; `from` is
/// the type of the first operand (of the choices, for a select), `to` that of the result.
pub(super) fn apply_pointwise(
    op: &KtirOp,
    inputs: &[&KtirElements],
    from: KtirElem,
    to: KtirElem,
) -> Result<KtirElements, KtirFault> {
    let n = inputs.iter().map(|d| d.len()).max().unwrap_or(1);
    // A scalar beside an empty tile must not be repeated, because the result has no element.
    let n = if inputs.iter().any(|d| d.len() == 0) { 0 } else { n };
    let wide: Vec<KtirElements>;
    let mut inputs: Vec<&KtirElements> = inputs.to_vec();
    if inputs.iter().any(|d| d.len() != n) {
        wide = inputs.iter().map(|d| (*d).clone().broadcast_to(n)).collect();
        inputs = wide.iter().collect();
    }
    apply_pointwise_kind(op.kind, op.word_attr("predicate").unwrap_or(""), &inputs, from, to)
}

/// Applies an operation by its kind, to inputs of equal lengths.
pub(super) fn apply_pointwise_kind(
    kind: KtirOpKind,
    predicate: &str,
    inputs: &[&KtirElements],
    from: KtirElem,
    to: KtirElem,
) -> Result<KtirElements, KtirFault> {
    if let Some(f) = find_unary_function(kind) {
        let x = inputs[0].as_floats();
        let mut out = vec![0.0; x.len()];
        map1(f, x, &mut out);
        round_elements(&mut out, to);
        return Ok(KtirElements::F(out));
    }
    if let Some(f) = find_binary_function(kind) {
        let (a, b) = (inputs[0].as_floats(), inputs[1].as_floats());
        let mut out = vec![0.0; a.len()];
        map2(f, a, b, &mut out);
        round_elements(&mut out, to);
        return Ok(KtirElements::F(out));
    }
    match kind {
        KtirOpKind::MaxNumF | KtirOpKind::MinNumF => {
            let pick = |a: f32, b: f32| match (a.is_nan(), b.is_nan()) {
                (true, _) => b,
                (_, true) => a,
                _ if kind == KtirOpKind::MaxNumF => {
                    if b > a {
                        b
                    } else {
                        a
                    }
                }
                _ => {
                    if b < a {
                        b
                    } else {
                        a
                    }
                }
            };
            let pairs = inputs[0].as_floats().iter().zip(inputs[1].as_floats());
            Ok(KtirElements::F(pairs.map(|(a, b)| pick(*a, *b)).collect()))
        }
        KtirOpKind::RSqrt => {
            let mut out = vec![0.0; inputs[0].len()];
            map1(Unary::Sqrt, inputs[0].as_floats(), &mut out);
            round_elements(&mut out, to);
            out.iter_mut().for_each(|x| *x = 1.0 / *x);
            round_elements(&mut out, to);
            Ok(KtirElements::F(out))
        }
        KtirOpKind::Fma => {
            let (a, b, c) = (inputs[0].as_floats(), inputs[1].as_floats(), inputs[2].as_floats());
            let terms = a.iter().zip(b).zip(c);
            let mut out: Vec<f32> = terms.map(|((a, b), c)| a.mul_add(*b, *c)).collect();
            round_elements(&mut out, to);
            Ok(KtirElements::F(out))
        }
        KtirOpKind::CmpF => {
            let pairs = inputs[0].as_floats().iter().zip(inputs[1].as_floats());
            Ok(KtirElements::I(
                pairs.map(|(a, b)| i64::from(compare_floats(predicate, *a, *b))).collect(),
            ))
        }
        KtirOpKind::CmpI => {
            let pairs = inputs[0].as_ints().iter().zip(inputs[1].as_ints());
            let holds = |a: i64, b: i64| compare_ints(predicate, a, b, from);
            Ok(KtirElements::I(pairs.map(|(a, b)| i64::from(holds(*a, *b))).collect()))
        }
        KtirOpKind::ArithSelect => {
            let c = inputs[0].as_ints();
            Ok(match (inputs[1], inputs[2]) {
                (KtirElements::F(a), KtirElements::F(b)) => {
                    let each = c.iter().zip(a.iter().zip(b));
                    KtirElements::F(each.map(|(c, (a, b))| if *c != 0 { *a } else { *b }).collect())
                }
                (a, b) => {
                    let each = c.iter().zip(a.as_ints().iter().zip(b.as_ints()));
                    KtirElements::I(each.map(|(c, (a, b))| if *c != 0 { *a } else { *b }).collect())
                }
            })
        }
        KtirOpKind::AbsI => Ok(KtirElements::I(
            inputs[0].as_ints().iter().map(|x| wrap_integer(x.wrapping_abs(), to)).collect(),
        )),
        KtirOpKind::ExtF
        | KtirOpKind::TruncF
        | KtirOpKind::ConvertF
        | KtirOpKind::SIToFP
        | KtirOpKind::UIToFP
        | KtirOpKind::FPToSI
        | KtirOpKind::FPToUI
        | KtirOpKind::IndexCast
        | KtirOpKind::IndexCastUI
        | KtirOpKind::ExtSI
        | KtirOpKind::ExtUI
        | KtirOpKind::TruncI
        | KtirOpKind::Bitcast
        | KtirOpKind::TensorCast => Ok(cast_elements(kind, inputs[0], from, to)),
        _ => {
            let pairs = inputs[0].as_ints().iter().zip(inputs[1].as_ints());
            let each = |(a, b): (&i64, &i64)| apply_integer_op(kind, *a, *b, to);
            Ok(KtirElements::I(pairs.map(each).collect::<Result<_, _>>()?))
        }
    }
}

pub(super) fn find_unary_function(kind: KtirOpKind) -> Option<Unary> {
    Some(match kind {
        KtirOpKind::NegF | KtirOpKind::LinalgNegF => Unary::Neg,
        KtirOpKind::Exp | KtirOpKind::SpyreExp | KtirOpKind::LinalgExp => Unary::Exp,
        KtirOpKind::Exp2 => Unary::Exp2,
        KtirOpKind::ExpM1 => Unary::Expm1,
        KtirOpKind::Log | KtirOpKind::LinalgLog => Unary::Log,
        KtirOpKind::Log2 => Unary::Log2,
        KtirOpKind::Log10 => Unary::Log10,
        KtirOpKind::Log1P => Unary::Log1p,
        KtirOpKind::Sqrt | KtirOpKind::SpyreSqrt | KtirOpKind::LinalgSqrt => Unary::Sqrt,
        KtirOpKind::Tanh | KtirOpKind::LinalgTanh => Unary::Tanh,
        KtirOpKind::Erf => Unary::Erf,
        KtirOpKind::Sin => Unary::Sin,
        KtirOpKind::Cos => Unary::Cos,
        KtirOpKind::AbsF | KtirOpKind::LinalgAbs => Unary::Abs,
        KtirOpKind::Ceil => Unary::Ceil,
        KtirOpKind::Floor => Unary::Floor,
        KtirOpKind::SpyreGelu => Unary::Gelu,
        KtirOpKind::SpyreSigmoid => Unary::Sigmoid,
        KtirOpKind::SpyreSilu => Unary::Silu,
        KtirOpKind::SpyreReciprocal => Unary::Reciprocal,
        _ => return None,
    })
}

fn find_binary_function(kind: KtirOpKind) -> Option<Binary> {
    Some(match kind {
        KtirOpKind::AddF => Binary::Add,
        KtirOpKind::SubF => Binary::Sub,
        KtirOpKind::MulF => Binary::Mul,
        KtirOpKind::DivF | KtirOpKind::SpyreRealDiv => Binary::Div,
        KtirOpKind::RemF => Binary::Fmod,
        KtirOpKind::MaximumF => Binary::Maximum,
        KtirOpKind::MinimumF => Binary::Minimum,
        KtirOpKind::PowF => Binary::Pow,
        _ => return None,
    })
}

fn compare_floats(predicate: &str, a: f32, b: f32) -> bool {
    let unordered = a.is_nan() || b.is_nan();
    match predicate {
        "oeq" => a == b,
        "ogt" => a > b,
        "oge" => a >= b,
        "olt" => a < b,
        "ole" => a <= b,
        "one" => !unordered && a != b,
        "ord" => !unordered,
        "ueq" => unordered || a == b,
        "ugt" => unordered || a > b,
        "uge" => unordered || a >= b,
        "ult" => unordered || a < b,
        "ule" => unordered || a <= b,
        "une" => a != b,
        "uno" => unordered,
        "true" => true,
        _ => false,
    }
}

fn compare_ints(predicate: &str, a: i64, b: i64, elem: KtirElem) -> bool {
    let (x, y) = (to_unsigned_bits(a, elem), to_unsigned_bits(b, elem));
    match predicate {
        "eq" => a == b,
        "ne" => a != b,
        "slt" => a < b,
        "sle" => a <= b,
        "sgt" => a > b,
        "sge" => a >= b,
        "ult" => x < y,
        "ule" => x <= y,
        "ugt" => x > y,
        _ => x >= y,
    }
}

pub(super) fn apply_integer_op(
    kind: KtirOpKind,
    a: i64,
    b: i64,
    elem: KtirElem,
) -> Result<i64, KtirFault> {
    let (x, y) = (to_unsigned_bits(a, elem), to_unsigned_bits(b, elem));
    let zero = || if b == 0 { Err(KtirFault::DivisionByZero) } else { Ok(()) };
    let shift = u32::try_from(y).ok().filter(|s| *s < elem.value_bits());
    let out = match kind {
        KtirOpKind::AddI => a.wrapping_add(b),
        KtirOpKind::SubI => a.wrapping_sub(b),
        KtirOpKind::MulI => a.wrapping_mul(b),
        KtirOpKind::DivSI => {
            zero()?;
            a.wrapping_div(b)
        }
        KtirOpKind::DivUI => {
            zero()?;
            to_signed_integer(x / y, elem)
        }
        KtirOpKind::CeilDivSI => {
            zero()?;
            let q = a.wrapping_div(b);
            q.wrapping_add(i64::from(a.wrapping_rem(b) != 0 && (a < 0) == (b < 0)))
        }
        KtirOpKind::CeilDivUI => {
            zero()?;
            to_signed_integer(x.div_ceil(y), elem)
        }
        KtirOpKind::FloorDivSI => {
            zero()?;
            let q = a.wrapping_div(b);
            q.wrapping_sub(i64::from(a.wrapping_rem(b) != 0 && (a < 0) != (b < 0)))
        }
        KtirOpKind::RemSI => {
            zero()?;
            a.wrapping_rem(b)
        }
        KtirOpKind::RemUI => {
            zero()?;
            to_signed_integer(x % y, elem)
        }
        KtirOpKind::AndI => a & b,
        KtirOpKind::OrI => a | b,
        KtirOpKind::XOrI => a ^ b,
        // MLIR defines no value for a shift by as many bits as the type has or more. Here all bits
        // are shifted out.
        KtirOpKind::ShLI => shift.map_or(0, |s| a.wrapping_shl(s)),
        KtirOpKind::ShRSI => shift.map_or(a >> 63, |s| a >> s),
        KtirOpKind::ShRUI => shift.map_or(0, |s| to_signed_integer(x >> s, elem)),
        KtirOpKind::MaxSI => a.max(b),
        KtirOpKind::MinSI => a.min(b),
        KtirOpKind::MaxUI => to_signed_integer(x.max(y), elem),
        KtirOpKind::MinUI => to_signed_integer(x.min(y), elem),
        _ => {
            return Err(KtirFault::Invalid(format!(
                "`{}` is not an operation on integers",
                kind.name()
            )));
        }
    };
    Ok(wrap_integer(out, elem))
}

fn cast_elements(
    kind: KtirOpKind,
    data: &KtirElements,
    from: KtirElem,
    to: KtirElem,
) -> KtirElements {
    let bits = |x: f32| encode_bits(f64::from(x), from);
    match (data, to.is_float()) {
        (KtirElements::F(v), true) if kind == KtirOpKind::Bitcast => {
            KtirElements::F(v.iter().map(|x| decode_bits(bits(*x), to)).collect())
        }
        (KtirElements::F(v), false) if kind == KtirOpKind::Bitcast => {
            KtirElements::I(v.iter().map(|x| to_signed_integer(bits(*x), to)).collect())
        }
        (KtirElements::I(v), true) if kind == KtirOpKind::Bitcast => {
            KtirElements::F(v.iter().map(|n| decode_bits(to_unsigned_bits(*n, from), to)).collect())
        }
        (KtirElements::F(v), true) => {
            let mut out = v.clone();
            round_elements(&mut out, to);
            KtirElements::F(out)
        }
        (KtirElements::F(v), false) => {
            let whole = |x: &f32| i64::cast_from(*x);
            let (low, high) = match (kind, to.value_bits()) {
                (_, 64) => (i64::MIN, i64::MAX),
                (KtirOpKind::FPToUI, b) => (0, (1_i64 << b) - 1),
                (_, b) => (-(1_i64 << (b - 1)), (1_i64 << (b - 1)) - 1),
            };
            KtirElements::I(v.iter().map(|x| wrap_integer(whole(x).clamp(low, high), to)).collect())
        }
        (KtirElements::I(v), true) => {
            let wide = |n: i64| match kind {
                KtirOpKind::UIToFP => bits_of_unsigned(to_unsigned_bits(n, from), to),
                // `i1` is held as 0 or 1, and as a signed number of one bit its 1 means -1.
                _ if from == KtirElem::I1 => encode_bits(if n != 0 { -1.0 } else { 0.0 }, to),
                _ => bits_of_int(n, to),
            };
            KtirElements::F(v.iter().map(|n| decode_bits(wide(*n), to)).collect())
        }
        (KtirElements::I(v), false) => {
            let one = |n: i64| match kind {
                KtirOpKind::ExtUI | KtirOpKind::IndexCastUI => {
                    to_signed_integer(to_unsigned_bits(n, from), to)
                }
                KtirOpKind::ExtSI if from == KtirElem::I1 => wrap_integer(-n, to),
                _ => wrap_integer(n, to),
            };
            KtirElements::I(v.iter().map(|n| one(*n)).collect())
        }
    }
}

/// Converts an integer to a float type with one rounding: the conversion to float64 keeps a sticky
/// last bit, so that only the second conversion rounds.
fn bits_of_int(n: i64, to: KtirElem) -> u64 {
    bits_of_unsigned_with(n.unsigned_abs(), n < 0, to)
}

fn bits_of_unsigned(n: u64, to: KtirElem) -> u64 {
    bits_of_unsigned_with(n, false, to)
}

fn bits_of_unsigned_with(n: u64, negative: bool, to: KtirElem) -> u64 {
    // Float64 holds 53 bits exactly. Of the bits below them only whether any is set can change the
    // rounding.
    let extra = (64 - n.leading_zeros()).saturating_sub(53);
    let kept = (n >> extra) << extra;
    let sticky = u64::from(kept != n) << extra;
    let value = (kept | sticky) as f64;
    encode_bits(if negative { -value } else { value }, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_float::{Bf16, F16};

    #[test]
    fn rounding_in_float32_is_the_conversion() {
        // Every upper half of a float32, with lower halves around the ties.
        for high in 0..=u16::MAX {
            for low in [0_u16, 1, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let x = f32::from_bits(u32::from(high) << 16 | u32::from(low));
                let want = F16::cast_from(x).to_f32();
                let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(same(round_f16(x), want), "{x:e}: {:e}, not {want:e}", round_f16(x));
                let want = Bf16::cast_from(x).to_f32();
                assert!(same(round_bf16(x), want), "{x:e}: {:e}, not {want:e}", round_bf16(x));
            }
        }
    }

    #[test]
    fn whole_numbers_round_once() {
        for n in [0, 1, -1, 2049, 65519, 65520, i64::MAX, i64::MIN, (1 << 24) + 1, (1 << 53) + 1] {
            assert_eq!(
                decode_bits(bits_of_int(n, KtirElem::F32), KtirElem::F32),
                f32::cast_from(n),
                "{n}"
            );
            assert_eq!(bits_of_int(n, KtirElem::F16), u64::from(F16::cast_from(n).0), "{n}");
        }
    }
}
