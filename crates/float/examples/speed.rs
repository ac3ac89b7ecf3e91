//! Measures conversions beside a plain copy of the same number of bytes.
//!
//! ```text
//! cargo run --release -p zellige-float --example speed [-- --all]
//! ```
//!
//! GB/s count bytes read and written, one thread, medians of rounds in which all take their turn. The
//! copy moves as many bytes in total, half in and half out.

use std::hint::black_box;
use std::time::Instant;

use zellige_float::{Converter, Format, Isa, IsaKind};

const BUFFER_SIZES: [(usize, &str); 3] =
    [(16 << 10, "16 KiB"), (1 << 20, "1 MiB"), (64 << 20, "64 MiB")];
const ROUNDS: usize = 11;

fn main() {
    use Format::{BF16, Bool, DL16, F8E4M3FN, F8E5M2, F16, F32, F64, I32, I64};
    let mut pairs =
        vec![(F32, F16), (F16, F32), (F32, BF16), (BF16, F32), (F32, DL16), (DL16, F32)];
    pairs.extend([(F16, DL16), (DL16, F16), (BF16, DL16), (DL16, BF16), (F16, BF16), (BF16, F16)]);
    pairs.extend([(F32, F8E4M3FN), (F8E4M3FN, F32), (F32, F8E5M2), (F8E5M2, F32)]);
    pairs.extend([(F16, F8E4M3FN), (F8E4M3FN, F16), (I64, I32), (I32, I64), (Bool, DL16)]);
    pairs.extend([(DL16, Bool), (F64, F32), (F32, F64), (F64, DL16), (I32, F32), (F32, I32)]);
    // The ceiling: a copy that streams where conversions do.
    pairs.extend([(F32, F32), (F16, F16)]);
    if std::env::args().any(|arg| arg == "--all") {
        pairs.clear();
        pairs.extend(Format::ALL.into_iter().flat_map(|s| Format::ALL.map(|d| (s, d))));
    }

    println!(
        "GB/s read + written, one thread, bytes in total per row; copy = memcpy of as many bytes"
    );
    print!("{:<32}", "");
    for (_, name) in BUFFER_SIZES {
        print!("{name:>32}");
    }
    print!("\n{:<32}", "source -> destination");
    for _ in BUFFER_SIZES {
        for isa in IsaKind::ALL {
            print!("{:>8}", isa.name());
        }
        print!("{:>8}", "copy");
    }
    println!();
    for (src, dst) in pairs {
        print!("{:<32}", format!("{src} -> {dst}"));
        for (total, _) in BUFFER_SIZES {
            let count = total / (src.byte_size() + dst.byte_size());
            // Numbers of ordinary size in every format: ones with random low bits.
            let input = sample_numbers(src, count);
            let mut output = vec![0_u8; count * dst.byte_size()];
            let converters = IsaKind::ALL
                .map(|kind| Isa::if_available(kind).map(|isa| Converter::with_isa(src, dst, isa)));
            let plain = vec![1_u8; total / 2];
            let mut copy = vec![0_u8; total / 2];
            // All in turn, so that whatever else the machine does disturbs all alike.
            let mut speeds = [const { Vec::new() }; IsaKind::ALL.len() + 1];
            for round in 0..=ROUNDS {
                for (i, converter) in converters.iter().enumerate() {
                    let Some(converter) = converter else { continue };
                    let speed = measure_throughput(total, || {
                        converter
                            .convert(black_box(&input), black_box(&mut output), count)
                            .expect("the buffers hold the elements");
                    });
                    if round > 0 {
                        speeds[i].push(speed);
                    }
                }
                let speed = measure_throughput(total, || {
                    black_box(&mut copy).copy_from_slice(black_box(&plain));
                });
                if round > 0 {
                    speeds[IsaKind::ALL.len()].push(speed);
                }
            }
            for mut speeds in speeds {
                speeds.sort_by(f64::total_cmp);
                match speeds.get(ROUNDS / 2) {
                    Some(speed) => print!("{speed:>8.1}"),
                    None => print!("{:>8}", "-"),
                }
            }
        }
        println!();
    }
    measure_rows();
}

/// What a caller pays that converts row by row: nanoseconds per call on data in the first cache.
fn measure_rows() {
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
            let input = sample_numbers(src, length);
            let mut output = vec![0_u8; length * dst.byte_size()];
            let best = (0..ROUNDS)
                .map(|_| {
                    measure_throughput(1, || {
                        let (input, output) = (black_box(&input), black_box(&mut output));
                        // SAFETY: both buffers hold `length` elements, and they are apart.
                        unsafe {
                            converter.convert_raw(input.as_ptr(), output.as_mut_ptr(), length);
                        }
                    })
                })
                .fold(0.0, f64::max);
            print!("{:>8.1}", 1.0 / best);
        }
        println!();
    }
}

/// Values between -4 and 4, most of them with a fraction, as elements of a format.
fn sample_numbers(format: Format, count: usize) -> Vec<u8> {
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
    let mut bytes = vec![0; count * format.byte_size()];
    Converter::new(Format::F32, format)
        .convert(&values, &mut bytes, count)
        .expect("the buffers hold the elements");
    bytes
}

/// GB/s over at least half a millisecond of calls.
fn measure_throughput(total: usize, mut call: impl FnMut()) -> f64 {
    let started = Instant::now();
    let mut calls = 0;
    loop {
        // The clock is read once per 32 KiB or so.
        for _ in 0..(1 + (32 << 10) / total.max(1)).min(1000) {
            call();
            calls += 1;
        }
        let seconds = started.elapsed().as_secs_f64();
        if seconds > 5e-4 {
            return total as f64 * f64::from(calls) / seconds / 1e9;
        }
    }
}
