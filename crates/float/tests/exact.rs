//! Conversions against the slow definition: every code of the small formats, and of the wide ones
//! every midpoint of a destination with its neighbours.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod definition;

use definition::{bytes, code_near, codes, expected, meaning, number, past, sign_bit};
use zellige_float::{Converter, Format, Isa};

/// Converts by every instruction set and compares with the definition.
fn check(src: Format, inputs: &[u64], dst: Format) {
    let want: Vec<u64> = inputs.iter().map(|&code| expected(src, code, dst)).collect();
    let input = bytes(src, inputs);
    for isa in Isa::all_available() {
        let converter = Converter::with_isa(src, dst, isa);
        let mut output = vec![0xa5; inputs.len() * dst.byte_size()];
        converter.convert(&input, &mut output, inputs.len()).unwrap();
        for (i, (&got, &want)) in codes(dst, &output).iter().zip(&want).enumerate() {
            assert_eq!(
                got,
                want,
                "{converter:?}: {:#x} gives {got:#x}, not {want:#x}; it is {:?}",
                inputs[i],
                meaning(src, inputs[i])
            );
        }
    }
}

fn every_code(src: Format) {
    let inputs: Vec<u64> = (0..1 << (8 * src.byte_size())).collect();
    for dst in Format::ALL {
        check(src, &inputs, dst);
    }
}

/// For every pair of neighbouring codes of the destination: the two, what is halfway, and its
/// neighbours in the source. Also every exponent of the source with edges and random fractions.
fn every_midpoint(src: Format) {
    let general = general(src);
    for dst in Format::ALL {
        let mut inputs = general.clone();
        if dst.is_float() {
            // Formats of 16 bits and less in full, of the others some twenty thousand codes.
            let step = usize::try_from(past(dst) / 20_000).unwrap().max(1);
            for magnitude in (0..past(dst)).step_by(step) {
                let (low, high) = (number(dst, magnitude), number(dst, magnitude + 1));
                for point in [low, low.between(high), high] {
                    let code = code_near(src, magnitude % 2 == 1, point);
                    let mask = sign_bit(src) | (sign_bit(src) - 1);
                    for near in [code.wrapping_sub(1), code, code.wrapping_add(1)] {
                        inputs.push(near & mask);
                        inputs.push((near ^ sign_bit(src)) & mask);
                    }
                }
            }
        }
        check(src, &inputs, dst);
    }
}

/// Edges and random numbers of a wide format.
fn general(format: Format) -> Vec<u64> {
    let bits = 8 * format.byte_size();
    let mask = u64::MAX >> (64 - bits);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state & mask
    };
    let mut inputs = vec![0, 1, mask];
    for bit in 0..bits {
        for near in [-2_i64, -1, 0, 1, 2] {
            inputs.push((1_u64 << bit).wrapping_add_signed(near) & mask);
            inputs.push((1_u64 << bit).wrapping_neg().wrapping_add_signed(near) & mask);
        }
        // Random numbers of every bit length, of either sign.
        for _ in 0..100 {
            let short = random() >> bit;
            inputs.extend([short, short.wrapping_neg() & mask]);
        }
    }
    let fraction = match format {
        Format::F32 => 23,
        Format::F64 => 52,
        _ => return inputs,
    };
    for top in 0..1_u64 << (bits - fraction) {
        for low in [0, 1, 2, 1 << (fraction - 1), (1 << fraction) - 2, (1 << fraction) - 1] {
            inputs.push(top << fraction | low);
        }
        // Few bits set, so that ties occur, and all bits random.
        for _ in 0..20 {
            let (few, many) = (random() & random() & random() & random(), random());
            let keep = (1 << fraction) - 1;
            inputs.extend([top << fraction | few & keep, top << fraction | many & keep]);
        }
    }
    inputs
}

macro_rules! tests {
    ($test:ident: $($name:ident $format:ident,)*) => {$(
        #[test]
        fn $name() {
            $test(Format::$format);
        }
    )*};
}

tests! { every_code:
    every_code_of_f16 F16,
    every_code_of_bf16 BF16,
    every_code_of_dl16 DL16,
    every_code_of_dl16_inf DL16INF,
    every_code_of_f8e4m3fn F8E4M3FN,
    every_code_of_f8e5m2 F8E5M2,
    every_code_of_f8e5m2fnuz F8E5M2FNUZ,
    every_code_of_i16 I16,
    every_code_of_i8 I8,
    every_code_of_u8 U8,
    every_code_of_bool Bool,
}

tests! { every_midpoint:
    every_midpoint_from_f64 F64,
    every_midpoint_from_f32 F32,
    every_midpoint_from_i64 I64,
    every_midpoint_from_i32 I32,
    every_midpoint_from_u32 U32,
}

/// Every pattern of a float32, on every instruction set, against the portable loop. The midpoints
/// above pin the portable loop down; this rules out that another kernel differs anywhere.
#[test]
#[ignore = "minutes"]
fn every_float32() {
    const BLOCK: usize = 1 << 20;
    let small = Format::ALL.into_iter().filter(|dst| dst.is_float() && dst.byte_size() <= 2);
    for dst in small {
        let portable = Converter::with_isa(Format::F32, dst, Isa::BASELINE);
        let others: Vec<Converter> = Isa::all_available()
            .skip(1)
            .map(|isa| Converter::with_isa(Format::F32, dst, isa))
            .collect();
        let (mut want, mut got) =
            (vec![0; BLOCK * dst.byte_size()], vec![0; BLOCK * dst.byte_size()]);
        for first in (0..=u32::MAX).step_by(1 << 20) {
            let input: Vec<u8> =
                (first..=first + 0xf_ffff).flat_map(|bits| bits.to_le_bytes()).collect();
            portable.convert(&input, &mut want, BLOCK).unwrap();
            for other in &others {
                other.convert(&input, &mut got, BLOCK).unwrap();
                assert!(got == want, "{other:?} differs between {first:#x} and the next {BLOCK}");
            }
        }
    }
}
