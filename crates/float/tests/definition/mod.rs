//! What every conversion must give, from the definitions of the formats and exact arithmetic alone.
//!
//! A number is `m * 2^e` with whole `m`; the codes of a format, in order, are a sorted list of such
//! numbers; rounding is a search in that list. Nothing here is shared with the crate but the names
//! of the formats.

use std::cmp::Ordering;

use zellige_float::Format;

/// A magnitude, `m * 2^e`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exact {
    pub(crate) m: u128,
    pub(crate) e: i32,
}

impl Exact {
    /// The place above the leading bit; meaningless for zero.
    fn top(self) -> i32 {
        self.e + 128 - i32::try_from(self.m.leading_zeros()).unwrap()
    }

    pub(crate) fn cmp(self, other: Exact) -> Ordering {
        if self.m == 0 || other.m == 0 {
            return self.m.cmp(&other.m);
        }
        self.top().cmp(&other.top()).then_with(|| {
            let e = self.e.min(other.e);
            (self.m << (self.e - e)).cmp(&(other.m << (other.e - e)))
        })
    }

    /// Halfway between two numbers of similar size.
    pub(crate) fn between(self, other: Exact) -> Exact {
        let e = self.e.min(other.e);
        Exact { m: (self.m << (self.e - e)) + (other.m << (other.e - e)), e: e - 1 }
    }

    /// The whole part, at most 2^100.
    pub(crate) fn whole(self) -> i128 {
        let most = 1 << 100;
        if self.m == 0 || self.top() <= 0 {
            0
        } else if self.top() > 100 {
            most
        } else if self.e >= 0 {
            i128::try_from(self.m << self.e).unwrap()
        } else {
            i128::try_from(self.m >> -self.e).unwrap()
        }
    }
}

/// Exponent bits, fraction bits, bias.
fn shape(format: Format) -> (u32, u32, i32) {
    match format {
        Format::F64 => (11, 52, 1023),
        Format::F32 => (8, 23, 127),
        Format::F16 => (5, 10, 15),
        Format::BF16 => (8, 7, 127),
        Format::DL16 | Format::DL16INF => (6, 9, 31),
        Format::F8E4M3FN => (4, 3, 7),
        Format::F8E5M2 => (5, 2, 15),
        Format::F8E5M2FNUZ => (5, 2, 16),
        _ => panic!("{format} is no float"),
    }
}

fn is_dl16(format: Format) -> bool {
    matches!(format, Format::DL16 | Format::DL16INF)
}

fn is_ieee(format: Format) -> bool {
    matches!(format, Format::F64 | Format::F32 | Format::F16 | Format::BF16 | Format::F8E5M2)
}

pub(crate) fn sign_bit(format: Format) -> u64 {
    1 << (format.byte_size() * 8 - 1)
}

/// The first magnitude that is past the finite numbers.
pub(crate) fn past(format: Format) -> u64 {
    let (exponent, fraction, _) = shape(format);
    match format {
        Format::DL16 | Format::F8E4M3FN => (1 << (exponent + fraction)) - 1,
        // 2^31 (1 + 510/512).
        Format::DL16INF => (62 << 9) | 510,
        Format::F8E5M2FNUZ => 1 << (exponent + fraction),
        _ => ((1 << exponent) - 1) << fraction,
    }
}

/// The number that a magnitude would be if it were no special code. For DL16, code 0 is 2^-31.
pub(crate) fn number(format: Format, magnitude: u64) -> Exact {
    let (_, fraction, bias) = shape(format);
    let fraction = i32::try_from(fraction).unwrap();
    let e = i32::try_from(magnitude >> fraction).unwrap();
    let f = magnitude & ((1 << fraction) - 1);
    if e == 0 && !is_dl16(format) {
        Exact { m: u128::from(f), e: 1 - bias - fraction }
    } else {
        Exact { m: u128::from(f | 1 << fraction), e: e - bias - fraction }
    }
}

/// What a code stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    Number(bool, Exact),
    Infinity(bool),
    /// The sign and the payload, its first bit first.
    Nan(bool, u64),
}

pub(crate) fn meaning(format: Format, code: u64) -> Meaning {
    if !format.is_float() {
        let value = integer(format, code);
        return Meaning::Number(value < 0, Exact { m: value.unsigned_abs(), e: 0 });
    }
    if format == Format::F8E5M2FNUZ && code == 0x80 {
        return Meaning::Nan(false, 0);
    }
    let negative = code & sign_bit(format) != 0;
    let magnitude = code & !sign_bit(format);
    let (_, fraction, _) = shape(format);
    match magnitude.cmp(&past(format)) {
        _ if format == Format::DL16INF && magnitude == 0x7fff => Meaning::Nan(negative, 0),
        Ordering::Greater if format == Format::DL16INF => Meaning::Infinity(negative),
        Ordering::Less if is_dl16(format) && magnitude == 0 => {
            Meaning::Number(negative, Exact { m: 0, e: 0 })
        }
        Ordering::Less => Meaning::Number(negative, number(format, magnitude)),
        Ordering::Equal if is_ieee(format) || format == Format::DL16INF => {
            Meaning::Infinity(negative)
        }
        Ordering::Equal => Meaning::Nan(negative, 0),
        Ordering::Greater => Meaning::Nan(negative, (magnitude - past(format)) << (64 - fraction)),
    }
}

/// The value of an integer or a boolean.
fn integer(format: Format, code: u64) -> i128 {
    let bits = format.byte_size() * 8;
    match format {
        Format::Bool => i128::from(code != 0),
        Format::U8 | Format::U32 => i128::from(code),
        _ if code & sign_bit(format) != 0 => i128::from(code) - (1 << bits),
        _ => i128::from(code),
    }
}

fn range(format: Format) -> (i128, i128) {
    let bits = format.byte_size() * 8;
    match format {
        Format::U8 | Format::U32 => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

fn wrap(format: Format, value: i128) -> u64 {
    let bits = format.byte_size() * 8;
    u64::try_from(value.rem_euclid(1 << bits)).unwrap()
}

/// The magnitude of a float format that a number rounds to, [`overflow_bits`] where it overflows.
fn nearest(format: Format, x: Exact) -> u64 {
    // The greatest code whose number is not above x.
    let (mut low, mut high) = (0, past(format));
    if x.cmp(number(format, 0)) == Ordering::Less {
        return 0;
    }
    if x.cmp(number(format, high)) != Ordering::Less {
        return high;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if number(format, middle).cmp(x) == Ordering::Greater {
            high = middle;
        } else {
            low = middle;
        }
    }
    match x.cmp(number(format, low).between(number(format, high))) {
        Ordering::Less => low,
        Ordering::Greater => high,
        Ordering::Equal if is_dl16(format) => high,
        Ordering::Equal => low + low % 2,
    }
}

/// The conversion of one code.
pub(crate) fn expected(src: Format, code: u64, dst: Format) -> u64 {
    if src == dst {
        return code;
    }
    let value = meaning(src, code);
    if dst == Format::Bool {
        return u64::from(!matches!(value, Meaning::Number(_, Exact { m: 0, .. })));
    }
    if !dst.is_float() {
        if !src.is_float() {
            return wrap(dst, integer(src, code));
        }
        let (least, most) = range(dst);
        let whole = match value {
            Meaning::Nan(..) => 0,
            Meaning::Infinity(negative) => {
                if negative {
                    least
                } else {
                    most
                }
            }
            Meaning::Number(true, x) => -x.whole(),
            Meaning::Number(false, x) => x.whole(),
        };
        return wrap(dst, whole.clamp(least, most));
    }
    let (_, fraction, _) = shape(dst);
    // E4M3 saturates: its largest number stands for everything past it.
    let most = if dst == Format::F8E4M3FN { past(dst) - 1 } else { past(dst) };
    let (negative, magnitude) = match value {
        Meaning::Number(negative, x) => (negative, nearest(dst, x).min(most)),
        Meaning::Infinity(negative) => (negative, most),
        Meaning::Nan(negative, _) if dst == Format::DL16INF => (negative, 0x7fff),
        Meaning::Nan(negative, _) if !is_ieee(dst) => (negative, past(dst)),
        Meaning::Nan(negative, payload) => {
            (negative, past(dst) | (1 << 63 | payload) >> (64 - fraction))
        }
    };
    if dst == Format::F8E5M2FNUZ && (magnitude == 0 || magnitude == past(dst)) {
        return magnitude;
    }
    magnitude | if negative { sign_bit(dst) } else { 0 }
}

/// The code of a number, where a format has it or one near it.
pub(crate) fn code_near(format: Format, negative: bool, x: Exact) -> u64 {
    if format.is_float() {
        nearest(format, x) | if negative { sign_bit(format) } else { 0 }
    } else {
        let (least, most) = range(format);
        wrap(format, (if negative { -x.whole() } else { x.whole() }).clamp(least, most))
    }
}

/// The codes of a format in memory.
pub(crate) fn bytes(format: Format, codes: &[u64]) -> Vec<u8> {
    codes.iter().flat_map(|code| code.to_le_bytes()[..format.byte_size()].to_vec()).collect()
}

/// The codes in memory.
pub(crate) fn codes(format: Format, bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks(format.byte_size())
        .map(|chunk| {
            let mut code = [0; 8];
            code[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(code)
        })
        .collect()
}
