//! Operations on elements, over whole slices.

use super::error::Fault;
use super::value::Data;
use crate::ir::Op;
use crate::number::{bits_of, of_bits};
use crate::op::Kind;
use crate::types::Elem;
use zellige_float::Element;
use zellige_math::{Binary, Unary, map1, map2};

/// A number in a float type, rounded once.
pub(super) fn rounded(value: f64, elem: Elem) -> f32 {
    of_bits(bits_of(value, elem), elem)
}

/// The low bits of an integer as a number of its type.
pub(super) fn wrap(value: i64, elem: Elem) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "integers wrap")]
    match elem {
        Elem::I1 => value & 1,
        Elem::I8 => i64::from(value as i8),
        Elem::I16 => i64::from(value as i16),
        Elem::I32 => i64::from(value as i32),
        _ => value,
    }
}

/// The same bits without a sign.
#[allow(clippy::cast_sign_loss, reason = "the bits are meant")]
fn unsigned(value: i64, elem: Elem) -> u64 {
    let bits = elem.bits();
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    value as u64 & mask
}

#[allow(clippy::cast_possible_wrap, reason = "the bits are meant")]
fn signed(value: u64, elem: Elem) -> i64 {
    wrap(value as i64, elem)
}

/// Rounds float32 numbers to an element type, in place.
pub(super) fn round(values: &mut [f32], elem: Elem) {
    match elem {
        Elem::F16 => values.iter_mut().for_each(|x| *x = round_f16(*x)),
        Elem::BF16 => values.iter_mut().for_each(|x| *x = round_bf16(*x)),
        Elem::F32 => {}
        _ => values.iter_mut().for_each(|x| *x = of_bits(bits_of(f64::from(*x), elem), elem)),
    }
}

/// The nearest binary16, ties to even, without leaving float32: selections only, so that loops vectorise.
#[inline]
pub(super) fn round_f16(x: f32) -> f32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Normal numbers lose 13 bits; a carry into the exponent is right.
    let kept = magnitude.wrapping_add(0xfff + ((magnitude >> 13) & 1)) & !0x1fff;
    // From 65520 on infinity comes next.
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

/// An operation on elements. Inputs have as many elements as the result, or one; `from` is the type
/// of the first operand (of the choices, for a select), `to` that of the result.
pub(super) fn apply(op: &Op, inputs: &[&Data], from: Elem, to: Elem) -> Result<Data, Fault> {
    let n = inputs.iter().map(|d| d.len()).max().unwrap_or(1);
    // An empty tile has nothing to compute, whatever a scalar beside it holds.
    let n = if inputs.iter().any(|d| d.len() == 0) { 0 } else { n };
    let wide: Vec<Data>;
    let mut inputs: Vec<&Data> = inputs.to_vec();
    if inputs.iter().any(|d| d.len() != n) {
        wide = inputs.iter().map(|d| (*d).clone().spread(n)).collect();
        inputs = wide.iter().collect();
    }
    named(op.kind, op.word("predicate").unwrap_or(""), &inputs, from, to)
}

/// The same by kind, of inputs of equal lengths.
pub(super) fn named(
    kind: Kind,
    predicate: &str,
    inputs: &[&Data],
    from: Elem,
    to: Elem,
) -> Result<Data, Fault> {
    if let Some(f) = unary(kind) {
        let x = inputs[0].floats();
        let mut out = vec![0.0; x.len()];
        map1(f, x, &mut out);
        round(&mut out, to);
        return Ok(Data::F(out));
    }
    if let Some(f) = binary(kind) {
        let (a, b) = (inputs[0].floats(), inputs[1].floats());
        let mut out = vec![0.0; a.len()];
        map2(f, a, b, &mut out);
        round(&mut out, to);
        return Ok(Data::F(out));
    }
    match kind {
        Kind::MaxNumF | Kind::MinNumF => {
            let pick = |a: f32, b: f32| match (a.is_nan(), b.is_nan()) {
                (true, _) => b,
                (_, true) => a,
                _ if kind == Kind::MaxNumF => {
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
            let pairs = inputs[0].floats().iter().zip(inputs[1].floats());
            Ok(Data::F(pairs.map(|(a, b)| pick(*a, *b)).collect()))
        }
        Kind::RSqrt => {
            let mut out = vec![0.0; inputs[0].len()];
            map1(Unary::Sqrt, inputs[0].floats(), &mut out);
            round(&mut out, to);
            out.iter_mut().for_each(|x| *x = 1.0 / *x);
            round(&mut out, to);
            Ok(Data::F(out))
        }
        Kind::Fma => {
            let (a, b, c) = (inputs[0].floats(), inputs[1].floats(), inputs[2].floats());
            let terms = a.iter().zip(b).zip(c);
            let mut out: Vec<f32> = terms.map(|((a, b), c)| a.mul_add(*b, *c)).collect();
            round(&mut out, to);
            Ok(Data::F(out))
        }
        Kind::CmpF => {
            let pairs = inputs[0].floats().iter().zip(inputs[1].floats());
            Ok(Data::I(pairs.map(|(a, b)| i64::from(compare_floats(predicate, *a, *b))).collect()))
        }
        Kind::CmpI => {
            let pairs = inputs[0].ints().iter().zip(inputs[1].ints());
            let holds = |a: i64, b: i64| compare_ints(predicate, a, b, from);
            Ok(Data::I(pairs.map(|(a, b)| i64::from(holds(*a, *b))).collect()))
        }
        Kind::ArithSelect => {
            let c = inputs[0].ints();
            Ok(match (inputs[1], inputs[2]) {
                (Data::F(a), Data::F(b)) => {
                    let each = c.iter().zip(a.iter().zip(b));
                    Data::F(each.map(|(c, (a, b))| if *c != 0 { *a } else { *b }).collect())
                }
                (a, b) => {
                    let each = c.iter().zip(a.ints().iter().zip(b.ints()));
                    Data::I(each.map(|(c, (a, b))| if *c != 0 { *a } else { *b }).collect())
                }
            })
        }
        Kind::AbsI => {
            Ok(Data::I(inputs[0].ints().iter().map(|x| wrap(x.wrapping_abs(), to)).collect()))
        }
        Kind::ExtF
        | Kind::TruncF
        | Kind::SIToFP
        | Kind::UIToFP
        | Kind::FPToSI
        | Kind::FPToUI
        | Kind::IndexCast
        | Kind::IndexCastUI
        | Kind::ExtSI
        | Kind::ExtUI
        | Kind::TruncI
        | Kind::Bitcast
        | Kind::TensorCast => Ok(cast(kind, inputs[0], from, to)),
        _ => {
            let pairs = inputs[0].ints().iter().zip(inputs[1].ints());
            let each = |(a, b): (&i64, &i64)| integer(kind, *a, *b, to);
            Ok(Data::I(pairs.map(each).collect::<Result<_, _>>()?))
        }
    }
}

fn unary(kind: Kind) -> Option<Unary> {
    Some(match kind {
        Kind::NegF | Kind::LinalgNegF => Unary::Neg,
        Kind::Exp | Kind::SpyreExp | Kind::LinalgExp => Unary::Exp,
        Kind::Exp2 => Unary::Exp2,
        Kind::ExpM1 => Unary::Expm1,
        Kind::Log | Kind::LinalgLog => Unary::Log,
        Kind::Log2 => Unary::Log2,
        Kind::Log10 => Unary::Log10,
        Kind::Log1P => Unary::Log1p,
        Kind::Sqrt | Kind::SpyreSqrt | Kind::LinalgSqrt => Unary::Sqrt,
        Kind::Tanh | Kind::LinalgTanh => Unary::Tanh,
        Kind::Erf => Unary::Erf,
        Kind::Sin => Unary::Sin,
        Kind::Cos => Unary::Cos,
        Kind::AbsF | Kind::LinalgAbs => Unary::Abs,
        Kind::Ceil => Unary::Ceil,
        Kind::Floor => Unary::Floor,
        Kind::SpyreGelu => Unary::Gelu,
        Kind::SpyreSigmoid => Unary::Sigmoid,
        Kind::SpyreSilu => Unary::Silu,
        Kind::SpyreReciprocal => Unary::Reciprocal,
        _ => return None,
    })
}

fn binary(kind: Kind) -> Option<Binary> {
    Some(match kind {
        Kind::AddF => Binary::Add,
        Kind::SubF => Binary::Sub,
        Kind::MulF => Binary::Mul,
        Kind::DivF | Kind::SpyreRealDiv => Binary::Div,
        Kind::RemF => Binary::Fmod,
        Kind::MaximumF => Binary::Maximum,
        Kind::MinimumF => Binary::Minimum,
        Kind::PowF => Binary::Pow,
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

fn compare_ints(predicate: &str, a: i64, b: i64, elem: Elem) -> bool {
    let (x, y) = (unsigned(a, elem), unsigned(b, elem));
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

fn integer(kind: Kind, a: i64, b: i64, elem: Elem) -> Result<i64, Fault> {
    let (x, y) = (unsigned(a, elem), unsigned(b, elem));
    let zero = || if b == 0 { Err(Fault::DivisionByZero) } else { Ok(()) };
    let shift = u32::try_from(y).ok().filter(|s| *s < elem.bits());
    let out = match kind {
        Kind::AddI => a.wrapping_add(b),
        Kind::SubI => a.wrapping_sub(b),
        Kind::MulI => a.wrapping_mul(b),
        Kind::DivSI => {
            zero()?;
            a.wrapping_div(b)
        }
        Kind::DivUI => {
            zero()?;
            signed(x / y, elem)
        }
        Kind::CeilDivSI => {
            zero()?;
            let q = a.wrapping_div(b);
            q.wrapping_add(i64::from(a.wrapping_rem(b) != 0 && (a < 0) == (b < 0)))
        }
        Kind::CeilDivUI => {
            zero()?;
            signed(x.div_ceil(y), elem)
        }
        Kind::FloorDivSI => {
            zero()?;
            let q = a.wrapping_div(b);
            q.wrapping_sub(i64::from(a.wrapping_rem(b) != 0 && (a < 0) != (b < 0)))
        }
        Kind::RemSI => {
            zero()?;
            a.wrapping_rem(b)
        }
        Kind::RemUI => {
            zero()?;
            signed(x % y, elem)
        }
        Kind::AndI => a & b,
        Kind::OrI => a | b,
        Kind::XOrI => a ^ b,
        // A shift by all bits or more has no meaning in the text; here nothing is left.
        Kind::ShLI => shift.map_or(0, |s| a.wrapping_shl(s)),
        Kind::ShRSI => shift.map_or(a >> 63, |s| a >> s),
        Kind::ShRUI => shift.map_or(0, |s| signed(x >> s, elem)),
        Kind::MaxSI => a.max(b),
        Kind::MinSI => a.min(b),
        Kind::MaxUI => signed(x.max(y), elem),
        Kind::MinUI => signed(x.min(y), elem),
        _ => return Err(Fault::Invalid(format!("`{}` is no operation on integers", kind.name()))),
    };
    Ok(wrap(out, elem))
}

fn cast(kind: Kind, data: &Data, from: Elem, to: Elem) -> Data {
    let bits = |x: f32| bits_of(f64::from(x), from);
    match (data, to.is_float()) {
        (Data::F(v), true) if kind == Kind::Bitcast => {
            Data::F(v.iter().map(|x| of_bits(bits(*x), to)).collect())
        }
        (Data::F(v), false) if kind == Kind::Bitcast => {
            Data::I(v.iter().map(|x| signed(bits(*x), to)).collect())
        }
        (Data::I(v), true) if kind == Kind::Bitcast => {
            Data::F(v.iter().map(|n| of_bits(unsigned(*n, from), to)).collect())
        }
        (Data::F(v), true) => {
            let mut out = v.clone();
            round(&mut out, to);
            Data::F(out)
        }
        (Data::F(v), false) => {
            let whole = |x: &f32| i64::cast_from(*x);
            let (low, high) = match (kind, to.bits()) {
                (_, 64) => (i64::MIN, i64::MAX),
                (Kind::FPToUI, b) => (0, (1_i64 << b) - 1),
                (_, b) => (-(1_i64 << (b - 1)), (1_i64 << (b - 1)) - 1),
            };
            Data::I(v.iter().map(|x| wrap(whole(x).clamp(low, high), to)).collect())
        }
        (Data::I(v), true) => {
            let wide = |n: i64| match kind {
                Kind::UIToFP => bits_of_unsigned(unsigned(n, from), to),
                // One bit is 0 or 1 here, and -1 as a signed number.
                _ if from == Elem::I1 => bits_of(if n != 0 { -1.0 } else { 0.0 }, to),
                _ => bits_of_int(n, to),
            };
            Data::F(v.iter().map(|n| of_bits(wide(*n), to)).collect())
        }
        (Data::I(v), false) => {
            let one = |n: i64| match kind {
                Kind::ExtUI | Kind::IndexCastUI => signed(unsigned(n, from), to),
                Kind::ExtSI if from == Elem::I1 => wrap(-n, to),
                _ => wrap(n, to),
            };
            Data::I(v.iter().map(|n| one(*n)).collect())
        }
    }
}

/// A whole number in a float type, rounded once: to float64 with a sticky last bit, then on.
fn bits_of_int(n: i64, to: Elem) -> u64 {
    bits_of_unsigned_with(n.unsigned_abs(), n < 0, to)
}

fn bits_of_unsigned(n: u64, to: Elem) -> u64 {
    bits_of_unsigned_with(n, false, to)
}

fn bits_of_unsigned_with(n: u64, negative: bool, to: Elem) -> u64 {
    // 53 bits are exact; below them only whether anything is left matters.
    let extra = (64 - n.leading_zeros()).saturating_sub(53);
    let kept = (n >> extra) << extra;
    let sticky = u64::from(kept != n) << extra;
    let value = (kept | sticky) as f64;
    bits_of(if negative { -value } else { value }, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zellige_float::{Bf16, F16};

    #[test]
    fn rounding_in_float32_is_the_conversion() {
        // Every upper half of a float32, with lower halves around ties.
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
            assert_eq!(of_bits(bits_of_int(n, Elem::F32), Elem::F32), f32::cast_from(n), "{n}");
            assert_eq!(bits_of_int(n, Elem::F16), u64::from(F16::cast_from(n).0), "{n}");
        }
    }
}
