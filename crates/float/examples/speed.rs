//! Measures conversions beside a plain copy of the same number of bytes.
//!
//! ```text
//! cargo run --release -p zellige-float --example speed [-- --all]
//! ```
//!
//! GB/s count bytes read and written, one thread, the median of several rounds. The copy moves as
//! many bytes in total, half in and half out.

use std::hint::black_box;
use std::time::Instant;

use zellige_float::{Converter, Format, Isa};

const SIZES: [(usize, &str); 3] = [(16 << 10, "16 KiB"), (1 << 20, "1 MiB"), (64 << 20, "64 MiB")];
const ROUNDS: usize = 11;

fn main() {
    use Format::{BF16, Bool, DL16, F8E4M3FN, F8E5M2, F16, F32, F64, I32, I64};
    let mut pairs =
        vec![(F32, F16), (F16, F32), (F32, BF16), (BF16, F32), (F32, DL16), (DL16, F32)];
    pairs.extend([(F16, DL16), (DL16, F16), (BF16, DL16), (DL16, BF16), (F16, BF16), (BF16, F16)]);
    pairs.extend([(F32, F8E4M3FN), (F8E4M3FN, F32), (F32, F8E5M2), (F8E5M2, F32)]);
    pairs.extend([(F16, F8E4M3FN), (F8E4M3FN, F16), (I64, I32), (I32, I64), (Bool, DL16)]);
    pairs.extend([(DL16, Bool), (F64, F32), (F32, F64), (F64, DL16), (I32, F32), (F32, I32)]);
    if std::env::args().any(|arg| arg == "--all") {
        pairs.clear();
        pairs.extend(Format::ALL.into_iter().flat_map(|s| Format::ALL.map(|d| (s, d))));
    }

    println!(
        "GB/s read + written, one thread, bytes in total per row; copy = memcpy of as many bytes"
    );
    print!("{:<32}", "");
    for (_, name) in SIZES {
        print!("{:>30}", format!("{name}: "));
    }
    print!("\n{:<32}", "source -> destination");
    for _ in SIZES {
        for isa in Isa::ALL {
            print!("{:>8}", format!("{isa:?}"));
        }
        print!("{:>6}", "copy");
    }
    println!();
    for (src, dst) in pairs {
        print!("{:<32}", format!("{src} -> {dst}"));
        for (total, _) in SIZES {
            let count = total / (src.size() + dst.size());
            // Numbers of ordinary size in every format: ones with random low bits.
            let input = numbers(src, count);
            let mut output = vec![0_u8; count * dst.size()];
            for isa in Isa::ALL {
                let Some(converter) = Converter::with_isa(src, dst, isa) else {
                    print!("{:>8}", "-");
                    continue;
                };
                let speed = measure(total, || {
                    converter
                        .convert(black_box(&input), black_box(&mut output), count)
                        .expect("the buffers hold the elements");
                });
                print!("{speed:>8.1}");
            }
            let input = vec![1_u8; total / 2];
            let mut output = vec![0_u8; total / 2];
            let speed =
                measure(total, || black_box(&mut output).copy_from_slice(black_box(&input)));
            print!("{speed:>6.0}");
        }
        println!();
    }
    rows();
}

/// What a caller pays that converts row by row: nanoseconds per call on data in the first cache.
fn rows() {
    use Format::{DL16, F16, F32, I32, I64};
    const LENGTHS: [usize; 7] = [1, 8, 31, 32, 64, 100, 1024];
    print!("\n{:<32}", "ns per row of elements");
    for length in LENGTHS {
        print!("{length:>8}");
    }
    println!();
    for (src, dst) in [(F32, F16), (F32, DL16), (F16, DL16), (DL16, F16), (I64, I32), (F16, F16)] {
        print!("{:<32}", format!("{src} -> {dst}"));
        let converter = Converter::new(src, dst);
        for length in LENGTHS {
            let input = numbers(src, length);
            let mut output = vec![0_u8; length * dst.size()];
            let speed = measure(1, || {
                let (input, output) = (black_box(&input), black_box(&mut output));
                // SAFETY: both buffers hold `length` elements, and they are apart.
                unsafe { converter.convert_raw(input.as_ptr(), output.as_mut_ptr(), length) };
            });
            print!("{:>8.1}", 1.0 / speed);
        }
        println!();
    }
}

/// Values between -4 and 4, most of them with a fraction, as elements of a format.
fn numbers(format: Format, count: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let values: Vec<u8> = (0..count)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let unit = (state >> 40) as f32 / (1 << 24) as f32;
            (unit * 8.0 - 4.0).to_le_bytes()
        })
        .collect();
    let mut bytes = vec![0; count * format.size()];
    Converter::new(Format::F32, format)
        .convert(&values, &mut bytes, count)
        .expect("the buffers hold the elements");
    bytes
}

/// The median over rounds of at least two milliseconds each.
fn measure(total: usize, mut call: impl FnMut()) -> f64 {
    call();
    let started = Instant::now();
    call();
    let once = started.elapsed().as_secs_f64().max(1e-9);
    #[allow(clippy::cast_possible_truncation, reason = "between 1 and a million")]
    let calls = (2e-3 / once).ceil().clamp(1.0, 1e6) as u32;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..calls {
                call();
            }
            started.elapsed().as_secs_f64() / f64::from(calls)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    total as f64 / rounds[ROUNDS / 2] / 1e9
}
