//! Conversions between number formats as device functions.
//!
//! The rules and the resulting bits are those of `zellige_float`: floats narrower than 32 bits are widened to
//! binary32 exactly and rounded from it once; wider sources are rounded to odd first, because a second rounding of such
//! a value gives the result of a single one (Boldo and Melquiond, IEEE Transactions on Computers 57, 2008). The functions
//! take and return codes as integers. Arithmetic on floats is used only where it is exact or rounds to nearest even as
//! the rule does, and never on a NaN, whose payload the hardware may change.

use crate::description::{BlockProgram, KernelStmt};
use std::fmt::Write;
use zellige_float::Format;

/// The name of the function that converts.
pub(crate) fn conversion_name(from: Format, to: Format) -> String {
    format!("{from}_to_{to}")
}

/// The conversions of some parts, each once, in the order of their use.
pub(crate) fn used_conversions(parts: &[BlockProgram]) -> Vec<(Format, Format)> {
    fn collect_conversions(body: &[KernelStmt], pairs: &mut Vec<(Format, Format)>) {
        for stmt in body {
            match stmt {
                KernelStmt::For(_, _, inner) | KernelStmt::Loop(_, _, inner) => {
                    collect_conversions(inner, pairs);
                }
                KernelStmt::If(_, then, otherwise) => {
                    collect_conversions(then, pairs);
                    collect_conversions(otherwise, pairs);
                }
                KernelStmt::Put { kind, .. }
                | KernelStmt::Copy { kind, .. }
                | KernelStmt::Convert { kind, .. } => {
                    pairs.extend(kind.convert.filter(|p| !pairs.contains(p)));
                }
                _ => {}
            }
        }
    }
    let mut all = Vec::new();
    parts.iter().for_each(|p| collect_conversions(&p.body, &mut all));
    all
}

/// The functions of some pairs of formats, with all that they call.
pub(crate) fn conversion_source(pairs: &[(Format, Format)]) -> String {
    let mut text = String::new();
    if pairs.is_empty() {
        return text;
    }
    let uses = |f: fn(Format, Format) -> bool| pairs.iter().any(|(a, b)| f(*a, *b));
    text.push_str(
        "\n// Conversions: codes in, codes out; the bits are those of the engine for the CPU.\n",
    );
    // Only conversions that are used are printed: NVRTC takes longer for a longer text.
    let odd = |a: Format, b: Format| {
        is_small_float(b) && matches!(a, Format::F64 | Format::I64 | Format::I32 | Format::U32)
    };
    if uses(odd) {
        text.push_str(F64_TO_ODD);
    }
    let narrow = Format::ALL.into_iter().filter(|f| is_small_float(*f));
    for f in narrow {
        if pairs.iter().any(|(a, _)| *a == f) {
            text.push_str(&write_decoder(f));
        }
        if pairs.iter().any(|(_, b)| *b == f) {
            text.push_str(&write_encoder(f));
        }
    }
    for (from, to) in pairs {
        let _ = writeln!(
            text,
            "static __device__ __forceinline__ u64 {}(u64 x) {{\n{}}}",
            conversion_name(*from, *to),
            conversion_body(*from, *to)
        );
    }
    text
}

/// Floats that are widened to binary32 exactly.
fn is_small_float(f: Format) -> bool {
    f.is_float() && f.byte_size() <= 2
}

const F64_TO_ODD: &str = "\
// Binary64 to binary32 bits, rounded to odd: what was cut off sets the last bit.
static __device__ __forceinline__ u32 double_to_odd(u64 bits) {
  const u32 sign = (u32)(bits >> 32) & 0x80000000u;
  const u64 magnitude = bits & 0x7fffffffffffffffull, fraction = bits & 0xfffffffffffffull;
  const u32 exponent = (u32)(magnitude >> 52);
  if (magnitude > 0x7ff0000000000000ull) return sign | 0x7fc00000u | (u32)(fraction >> 29);
  if (magnitude == 0x7ff0000000000000ull) return sign | 0x7f800000u;
  u64 finite;
  if (exponent < 897) {  // below 2^-126: subnormal in binary32
    const u32 shift = min(29 + (897 - exponent), 63u);
    const u64 whole = fraction | 1ull << 52;
    finite = magnitude == 0 ? 0 : whole >> shift | ((whole & ((1ull << shift) - 1)) != 0);
  } else {
    finite = (magnitude - (896ull << 52)) >> 29 | ((magnitude & 0x1fffffff) != 0);
  }
  return sign | (u32)min(finite, (u64)0x7f7fffff);
}
// A 64-bit integer to binary32 bits, rounded to odd.
static __device__ __forceinline__ u32 int_to_odd(i64 value) {
  const u64 magnitude = value < 0 ? 0 - (u64)value : (u64)value;
  const u64 high = magnitude >> 11 | ((magnitude & 0x7ff) != 0);
  const double odd = magnitude < 1ull << 53 ? (double)magnitude : (double)high * 2048.0;
  return (value < 0 ? 0x80000000u : 0) | double_to_odd((u64)__double_as_longlong(odd));
}
";

/// A format with subnormals: the position of the sign, fraction bits, bias, and the largest finite code.
fn minifloat_shape(f: Format) -> Option<(u32, u32, u32, u32)> {
    match f {
        Format::F16 => Some((15, 10, 15, 0x7bff)),
        Format::F8E4M3FN => Some((7, 3, 7, 0x7e)),
        Format::F8E5M2 => Some((7, 2, 15, 0x7b)),
        Format::F8E5M2FNUZ => Some((7, 2, 16, 0x7f)),
        _ => None,
    }
}

fn write_decoder(f: Format) -> String {
    let head = format!("static __device__ __forceinline__ u32 {f}_decode(u32 code) {{\n");
    let body = match f {
        Format::BF16 => "\
  const u32 bits = code << 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : bits;
"
        .to_string(),
        // DLFloat16 has no subnormals, and only the variant with `INF` has infinities; the largest code is its NaN.
        Format::DL16 | Format::DL16INF => {
            let infinite = if f == Format::DL16INF {
                "  if (magnitude >= 0x7dfe && magnitude != 0x7fff) return sign | 0x7f800000u;\n"
            } else {
                ""
            };
            format!(
                "  const u32 sign = code << 16 & 0x80000000u, magnitude = code & 0x7fff;\n{infinite}  \
                 if (magnitude == 0x7fff) return sign | 0x7fc00000u;\n  \
                 return sign | (magnitude == 0 ? 0 : (magnitude << 14) + {:#x}u);\n",
                (127 - 31) << 23
            )
        }
        _ => {
            let (sign_at, fraction, bias, max) = minifloat_shape(f).unwrap_or_default();
            // Subnormal codes are multiples of the smallest one, so a product with that is exact in binary32.
            let dropped = 23 - fraction;
            let rebias = (127 - bias) << 23;
            let unit = (127 + 1 - bias - fraction) << 23;
            let finite = format!(
                "  const u32 sign = code << {} & 0x80000000u, magnitude = code & {:#x};\n  \
                 const u32 wide = magnitude << {dropped};\n  \
                 const u32 subnormal = __float_as_uint((float)magnitude * __uint_as_float({unit:#x}u));\n  \
                 const u32 finite = magnitude < {} ? subnormal : wide + {rebias:#x}u;\n",
                31 - sign_at,
                (1u32 << sign_at) - 1,
                1 << fraction
            );
            let special = match f {
                Format::F8E4M3FN => {
                    format!("  return sign | (magnitude > {max:#x} ? 0x7fc00000u : finite);\n")
                }
                Format::F8E5M2FNUZ => {
                    "  return code == 0x80 ? 0x7fc00000u : sign | finite;\n".to_string()
                }
                _ => format!(
                    "  const u32 quiet = magnitude > {:#x} ? 0x400000u : 0;\n  \
                     return sign | (magnitude > {max:#x} ? 0x7f800000u | wide | quiet : finite);\n",
                    max + 1
                ),
            };
            finite + &special
        }
    };
    format!("{head}{body}}}\n")
}

fn write_encoder(f: Format) -> String {
    let head = format!("static __device__ __forceinline__ u32 {f}_encode(u32 bits) {{\n");
    let body = match f {
        Format::BF16 => "\
  const u32 rounded = bits + 0x7fff + (bits >> 16 & 1);
  return ((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded) >> 16;
"
        .to_string(),
        Format::DL16 | Format::DL16INF => {
            let rebias = (127 - 31) << 23;
            let head = format!(
                "  const u32 sign = bits >> 16 & 0x8000, rounded = (bits & 0x7fffffffu) + 0x2000;\n  \
                 const u32 code = min((max(rounded, {rebias:#x}u) - {rebias:#x}u) >> 14, 0x7fffu);\n"
            );
            let tail = if f == Format::DL16INF {
                "  return sign | ((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fff : min(code, 0x7dfeu));\n"
            } else {
                "  return sign | code;\n"
            };
            head + tail
        }
        _ => {
            let (sign_at, fraction, bias, max) = minifloat_shape(f).unwrap_or_default();
            let dropped = 23 - fraction;
            let rebias = (127 - bias) << 23;
            // Adding a number whose last bit weighs as much as the smallest subnormal rounds to a multiple of that, to nearest
            // even, as the addition of binary32 does; the fraction bits of the sum are the code.
            let magic = (127 + 24 - bias - fraction) << 23;
            let code = format!(
                "  const u32 sign = (bits & 0x80000000u) >> {}, magnitude = bits & 0x7fffffffu;\n  \
                 const u32 rounded = magnitude + {:#x} + (magnitude >> {dropped} & 1);\n  \
                 const u32 normal = (rounded - {rebias:#x}u) >> {dropped};\n  \
                 const u32 subnormal = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float({magic:#x}u)) - {magic:#x}u;\n  \
                 const u32 code = min(magnitude < {:#x}u ? subnormal : normal, {:#x}u);\n",
                31 - sign_at,
                (1u32 << (dropped - 1)) - 1,
                rebias + (1 << 23),
                max + 1
            );
            let special = match f {
                Format::F8E4M3FN => format!(
                    "  return sign | (magnitude > 0x7f800000u ? {:#x}u : min(code, {max:#x}u));\n",
                    max + 1
                ),
                Format::F8E5M2FNUZ => {
                    format!("  return code == 0 || code > {max:#x} ? code : sign | code;\n")
                }
                _ => format!(
                    "  const u32 nan = {:#x} | (magnitude >> {dropped} & {:#x});\n  \
                     return sign | (magnitude > 0x7f800000u ? nan : code);\n",
                    (max + 1) | 1 << (fraction - 1),
                    (1 << fraction) - 1
                ),
            };
            code + &special
        }
    };
    format!("{head}{body}}}\n")
}

/// The C++ type that holds an integer of the format.
fn c_integer_type(f: Format) -> &'static str {
    match f {
        Format::I64 => "i64",
        Format::I32 => "int",
        Format::I16 => "short",
        Format::I8 => "signed char",
        Format::U32 => "u32",
        _ => "u8",
    }
}

fn conversion_body(from: Format, to: Format) -> String {
    if is_small_float(to) {
        return format!("  return {to}_encode({});\n", write_hub_bits(from));
    }
    match to {
        Format::F32 => convert_to_f32(from),
        Format::F64 => convert_to_f64(from),
        Format::Bool => match from {
            // Both zeros are false, so the sign is shifted out; of the format without a negative zero no bit is.
            Format::F64 => "  return x << 1 != 0;\n".into(),
            Format::F32 => "  return (u32)x << 1 != 0;\n".into(),
            Format::F8E5M2FNUZ => "  return x != 0;\n".into(),
            f if f.is_float() => {
                format!("  return (x & {:#x}) != 0;\n", (1u32 << (8 * f.byte_size() - 1)) - 1)
            }
            _ => "  return x != 0;\n".into(),
        },
        _ => convert_to_int(from, to),
    }
}

/// Binary32 bits, rounded to odd where 24 bits do not hold the value.
fn write_hub_bits(from: Format) -> String {
    match from {
        Format::F64 => "double_to_odd(x)".into(),
        Format::F32 => "(u32)x".into(),
        Format::I64 => "int_to_odd((i64)x)".into(),
        Format::I32 | Format::U32 => {
            format!("double_to_odd((u64)__double_as_longlong((double)({})x))", c_integer_type(from))
        }
        Format::Bool => "x != 0 ? 0x3f800000u : 0".into(),
        f if is_small_float(f) => format!("{f}_decode((u32)x)"),
        f => format!("__float_as_uint((float)({})x)", c_integer_type(f)),
    }
}

fn convert_to_f32(from: Format) -> String {
    match from {
        // A NaN is converted by its bits: the conversion of the hardware need not keep the payload.
        Format::F64 => "\
  if ((x & 0x7fffffffffffffffull) > 0x7ff0000000000000ull)
    return ((u32)(x >> 32) & 0x80000000u) | 0x7fc00000u | ((u32)(x >> 29) & 0x7fffff);
  return __float_as_uint((float)__longlong_as_double((i64)x));
"
        .into(),
        Format::I64 | Format::I32 | Format::U32 => {
            format!("  return __float_as_uint((float)({})x);\n", c_integer_type(from))
        }
        f => format!("  return {};\n", write_hub_bits(f)),
    }
}

fn convert_to_f64(from: Format) -> String {
    if !from.is_float() {
        return match from {
            Format::Bool => "  return x != 0 ? 0x3ff0000000000000ull : 0;\n".into(),
            f => format!("  return (u64)__double_as_longlong((double)({})x);\n", c_integer_type(f)),
        };
    }
    format!(
        "  const u32 bits = {};\n  \
         if ((bits & 0x7fffffffu) > 0x7f800000u)\n    \
         return (u64)(bits & 0x80000000u) << 32 | 0x7ff8000000000000ull | (u64)(bits & 0x7fffff) << 29;\n  \
         return (u64)__double_as_longlong((double)__uint_as_float(bits));\n",
        write_hub_bits(from)
    )
}

/// Floats are truncated toward zero and saturated, and a NaN becomes 0; of an integer the low bits are taken.
fn convert_to_int(from: Format, to: Format) -> String {
    if !from.is_float() {
        return match from {
            Format::Bool => "  return x != 0;\n".into(),
            f => format!("  return (u64)({})({})x;\n", c_integer_type(to), c_integer_type(f)),
        };
    }
    let value = match from {
        Format::F64 => "const double v = __longlong_as_double((i64)x);".to_string(),
        f => format!("const float v = __uint_as_float({});", write_hub_bits(f)),
    };
    let (low, high, past) = match to {
        Format::I64 => {
            ("-0x7fffffffffffffffll - 1", "0x7fffffffffffffffll", "9223372036854775808.0")
        }
        Format::I32 => ("-0x7fffffff - 1", "0x7fffffff", "2147483648.0"),
        Format::I16 => ("-32768", "32767", "32768.0"),
        Format::I8 => ("-128", "127", "128.0"),
        Format::U32 => ("0", "0xffffffffu", "4294967296.0"),
        _ => ("0", "255", "256.0"),
    };
    let suffix = if from == Format::F64 { "" } else { "f" };
    // Bounds are powers of two, so that they are exact in the float that they are compared with; the comparison is negated
    // so that a NaN fails it.
    let floor =
        if matches!(to, Format::U32 | Format::U8) { "0.0".to_string() } else { format!("-{past}") };
    let ty = c_integer_type(to);
    format!(
        "  {value}\n  if (!(v > {floor}{suffix})) return v == v ? (u64)({ty})({low}) : 0;\n  \
         if (v >= {past}{suffix}) return (u64)({ty})({high});\n  return (u64)({ty})v;\n"
    )
}
