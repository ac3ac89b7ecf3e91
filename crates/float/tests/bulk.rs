//! Every kernel on every length, alignment and kind of store: the same bits as the definition in
//! the crate, and not one byte more.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zellige_float::{ConvertError, Converter, Element, F16, Format, Isa, RowStrides, fence_stores};

/// Random bits, so that all kinds of numbers occur. Some are ordinary: neighbouring formats share
/// them, and kernels have separate ways for the rest.
fn random(format: Format, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed * 2 + 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    if seed.is_multiple_of(2) {
        return (0..count * format.byte_size()).map(|_| next().to_le_bytes()[3]).collect();
    }
    let values: Vec<u8> =
        (0..count).flat_map(|_| ((next() >> 40) as f32 / 4e6 - 2.0).to_le_bytes()).collect();
    let mut bytes = vec![0; count * format.byte_size()];
    let portable = Converter::with_isa(Format::F32, format, Isa::BASELINE);
    portable.convert(&values, &mut bytes, count).unwrap();
    bytes
}

fn converters(src: Format, dst: Format) -> impl Iterator<Item = Converter> {
    Isa::all_available().map(move |isa| Converter::with_isa(src, dst, isa))
}

fn pairs() -> impl Iterator<Item = (Format, Format)> {
    Format::ALL.into_iter().flat_map(|src| Format::ALL.map(|dst| (src, dst)))
}

#[test]
fn every_length_at_every_alignment() {
    const MOST: usize = 130;
    const GUARD: u8 = 0x5a;
    for (src, dst) in pairs() {
        let portable = Converter::with_isa(src, dst, Isa::BASELINE);
        for count in 0..=MOST {
            let (from, to) = (count * 7 % 67, count * 5 % 71);
            // The source ends where its allocation ends, so that a checker of memory sees a read
            // past it.
            let mut input = vec![0; from];
            input.extend(random(src, count, count as u64));
            let input = input.into_boxed_slice();
            let mut want = vec![GUARD; to + count * dst.byte_size() + 70];
            portable.convert(&input[from..], &mut want[to..], count).unwrap();
            for converter in converters(src, dst) {
                for streaming in [false, true] {
                    let mut got = vec![GUARD; want.len()];
                    let (input, output) = (&input[from..], &mut got[to..]);
                    assert!(output.len() >= count * dst.byte_size());
                    // SAFETY: both slices hold `count` elements and are different allocations.
                    unsafe {
                        if streaming {
                            converter.convert_streaming_raw(
                                input.as_ptr(),
                                output.as_mut_ptr(),
                                count,
                            );
                            fence_stores();
                        } else {
                            converter.convert_raw(input.as_ptr(), output.as_mut_ptr(), count);
                        }
                    }
                    assert!(got == want, "{converter:?}, {count} elements, streaming {streaming}");
                }
            }
        }
    }
}

#[test]
fn streaming_at_every_offset_from_a_cache_line() {
    for (src, dst) in pairs() {
        let count = 1000;
        let input = random(src, count, 1);
        let mut want = vec![0; count * dst.byte_size()];
        Converter::with_isa(src, dst, Isa::BASELINE).convert(&input, &mut want, count).unwrap();
        let converter = Converter::new(src, dst);
        for offset in 0..64 {
            let mut got = vec![0x5a; want.len() + 128];
            let output = &mut got[offset..];
            assert!(output.len() >= count * dst.byte_size());
            // SAFETY: both slices hold `count` elements and are different allocations.
            unsafe { converter.convert_streaming_raw(input.as_ptr(), output.as_mut_ptr(), count) };
            fence_stores();
            assert!(got[offset..offset + want.len()] == want, "{converter:?} at {offset}");
            assert!(got[offset + want.len()..].iter().all(|&byte| byte == 0x5a), "{converter:?}");
            assert!(got[..offset].iter().all(|&byte| byte == 0x5a), "{converter:?}");
        }
    }
}

/// Rows of any length, apart or not, on lines or not, are what one row after the other is.
#[test]
fn rows_are_those_of_single_calls() {
    const ROWS: usize = 3;
    const GUARD: u8 = 0x5a;
    for (src, dst) in pairs() {
        let portable = Converter::with_isa(src, dst, Isa::BASELINE);
        for (count, apart, offset) in
            [(64, 0, 0), (64, 64, 0), (32, 64, 0), (96, 3, 0), (50, 14, 0), (64, 0, 2)]
        {
            let (from, to) = ((count + apart) * src.byte_size(), (count + apart) * dst.byte_size());
            let input = random(src, ROWS * (count + apart), 1);
            for converter in converters(src, dst) {
                let mut got = vec![GUARD; ROWS * to + 192];
                let mut want = got.clone();
                let begin = got.as_ptr().align_offset(64) + offset;
                for i in 0..ROWS {
                    let row = &mut want[begin + i * to..];
                    portable.convert(&input[i * from..], row, count).unwrap();
                }
                let rows =
                    RowStrides { count: ROWS, src: from.cast_signed(), dst: to.cast_signed() };
                assert!(input.len() >= ROWS * from && got.len() >= begin + ROWS * to);
                // SAFETY: both hold every row, as was just seen, and are different allocations.
                unsafe {
                    let output = got.as_mut_ptr().add(begin);
                    converter.convert_streaming_rows_raw(input.as_ptr(), output, count, rows);
                }
                fence_stores();
                assert!(got == want, "{converter:?}, rows of {count}, {apart} apart, at {offset}");
            }
        }
    }
}

#[test]
fn random_bits_of_every_pair() {
    for (src, dst) in pairs() {
        for seed in 0..4 {
            let count = 100_003;
            let input = random(src, count, seed);
            let mut want = vec![0; count * dst.byte_size()];
            let mut got = want.clone();
            Converter::with_isa(src, dst, Isa::BASELINE).convert(&input, &mut want, count).unwrap();
            for converter in converters(src, dst) {
                converter.convert(&input, &mut got, count).unwrap();
                assert!(got == want, "{converter:?}");
            }
        }
    }
}

/// Above the size where [`Converter::convert`] streams.
#[test]
fn large_arrays() {
    let count = (5 << 20) + 3;
    let input = random(Format::F32, count, 1);
    for dst in [Format::F16, Format::DL16, Format::F8E4M3FN] {
        let (mut want, mut got) =
            (vec![0; count * dst.byte_size() + 1], vec![0; count * dst.byte_size() + 1]);
        let portable = Converter::with_isa(Format::F32, dst, Isa::BASELINE);
        portable.convert(&input, &mut want[1..], count).unwrap();
        Converter::new(Format::F32, dst).convert(&input, &mut got[1..], count).unwrap();
        assert!(got == want, "{dst}");
    }
}

#[test]
fn short_buffers_are_refused_untouched() {
    let converter = Converter::new(Format::F32, Format::DL16);
    let mut output = [0x5a; 8];
    let error = converter.convert(&[0; 15], &mut output, 4).unwrap_err();
    let text = "the source holds 15 bytes, but 4 elements of float32 need 16";
    assert_eq!(error.to_string(), text);
    let error = converter.convert(&[0; 64], &mut output, 5).unwrap_err();
    let ConvertError::TooShort { buffer, bytes, .. } = error else {
        unreachable!("the only error")
    };
    assert_eq!((buffer, bytes), ("destination", 8));
    let error = converter.convert(&[0; 64], &mut output, usize::MAX).unwrap_err();
    assert!(error.to_string().contains("73786976294838206460"), "{error}");
    assert_eq!(output, [0x5a; 8]);
    converter.convert(&[0; 64], &mut output, 3).unwrap();
    assert_eq!(output, [0, 0, 0, 0, 0, 0, 0x5a, 0x5a]);
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "the first of two roundings")]
fn one_rounding_where_two_differ() {
    // Just above a tie of float16, but a tie once rounded to float32.
    let above = 1.0 + 2_f64.powi(-11) + 2_f64.powi(-40);
    assert_eq!(F16::from_f32(above as f32), F16(0x3c00));
    assert_eq!(F16::cast_from(above), F16(0x3c01));
    // Just below the tie that would go to infinity.
    let below = 65520.0 - 2_f64.powi(-20);
    assert_eq!(F16::from_f32(below as f32), F16(0x7c00));
    assert_eq!(F16::cast_from(below), F16(0x7bff));
    // An integer: 2^24 and 2^13 and 1.
    let integer = (1_i32 << 24) + (1 << 16) + 1;
    assert_eq!(zellige_float::Bf16::from_f32(integer as f32).0, 0x4b80);
    assert_eq!(zellige_float::Bf16::cast_from(integer).0, 0x4b81);
}
