//! How near moves come to a plain copy of the same size, measured in the same run.
//!
//! `cargo run --release -p zellige-bench --bin moves [-- WORDS]` prints one Markdown table of the
//! cases whose name holds every word. All movers and copies take turns on the same buffers; a ratio
//! is the median of the move beside the best median of a plain copy (`memcpy`, or our streaming
//! one) of as many bytes with as many threads.

#![forbid(unsafe_code)]

use std::time::Instant;
use zellige_float::Format;
use zellige_layout::{Dtype, Iter, Layout, StickLayout, Swizzle, TileLayout};
use zellige_movement::{Buffer, Fill, Mover, Plan};

fn strided(size: &[i64], stride: &[i64]) -> Layout {
    TileLayout::strided(size, stride, 0).expect("a layout").into()
}

fn row_major(size: &[i64]) -> Layout {
    TileLayout::row_major(size).expect("a layout").into()
}

/// Row-major source, destination whose dimension `i` is the source's `perm[i]`.
fn permuted(size: &[i64], perm: &[usize]) -> Layout {
    let mut stride = vec![0; size.len()];
    let mut next = 1;
    for p in perm.iter().rev() {
        stride[*p] = next;
        next *= size[*p];
    }
    strided(size, &stride)
}

struct Case {
    name: &'static str,
    goal: f64,
    from: Format,
    to: Format,
    shape: Vec<i64>,
    src: Layout,
    dst: Layout,
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

const F16: Format = Format::F16;
const F32: Format = Format::F32;

fn sticks(size: &[i64]) -> Layout {
    StickLayout::default(size, Dtype::Float16).and_then(|s| s.lower()).expect("sticks")
}

fn on_dim_0(size: &[i64]) -> Layout {
    let stick = StickLayout::with_dim_order(size, None, Dtype::Float16, &[1, 0]);
    stick.and_then(|s| s.lower()).expect("sticks")
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, goal, from, to, shape: &[i64], src: Layout, dst: Layout| {
        cases.push(Case { name, goal, from, to, shape: shape.to_vec(), src, dst });
    };
    let (sq, big, padded) = ([4096, 4096], [8192, 8192], [4095, 4097]);
    for (name, goal, size) in [
        ("to sticks 4096x4096 f16", 0.95, vec![4096i64, 4096]),
        ("to sticks 16384x4096 f16", 0.95, vec![16384, 4096]),
        ("to sticks 128x256x512 f16", 0.95, vec![128, 256, 512]),
        ("to sticks 8x32x2048x128 f16", 0.95, vec![8, 32, 2048, 128]),
        ("to sticks 4x8x16x128x256 f16", 0.95, vec![4, 8, 16, 128, 256]),
        ("to sticks, padded 4095x4097 f16", 0.92, vec![4095, 4097]),
        ("to sticks, in cache 1000x200 f16", 0.85, vec![1000, 200]),
        ("to sticks, in cache 5x100x150 f16", 0.85, vec![5, 100, 150]),
    ] {
        add(name, goal, F16, F16, &size, row_major(&size), sticks(&size));
    }
    add("from sticks 4096x4096 f16", 0.90, F16, F16, &sq, sticks(&sq), row_major(&sq));
    add("to sticks 4096x4096 f32 -> f16", 0.90, F32, F16, &sq, row_major(&sq), sticks(&sq));
    let tall = [16384, 4096];
    add("to sticks 16384x4096 f32 -> f16", 0.90, F32, F16, &tall, row_major(&tall), sticks(&tall));
    add(
        "to sticks, padded f32 -> f16",
        0.90,
        F32,
        F16,
        &padded,
        row_major(&padded),
        sticks(&padded),
    );
    add("restickify 4096x4096 f16", 0.85, F16, F16, &sq, sticks(&sq), on_dim_0(&sq));
    add("restickify 8192x8192 f16", 0.85, F16, F16, &big, sticks(&big), on_dim_0(&big));
    add("to sticks on dim 0, 4096x4096 f16", 0.75, F16, F16, &sq, row_major(&sq), on_dim_0(&sq));
    for (name, goal, f, size) in [
        ("transpose 4096x4096 f16", 0.70, F16, sq),
        ("transpose 8192x8192 f16", 0.70, F16, big),
        ("transpose 4096x4096 f32", 0.80, F32, sq),
        ("transpose 8192x8192 f32", 0.80, F32, big),
        ("transpose 4096x4096 int8", 0.0, Format::I8, sq),
        ("transpose 2048x2048 f64", 0.0, Format::F64, [2048, 2048]),
        ("transpose 64x64 f16, in cache", 0.0, F16, [64, 64]),
    ] {
        add(name, goal, f, f, &size, row_major(&size), permuted(&size, &[1, 0]));
    }
    for (name, goal, f, n, perm) in [
        ("permute (0,2,1) 512^3 f16", 0.75, F16, 512, [0, 2, 1]),
        ("permute (2,1,0) 512^3 f16", 0.60, F16, 512, [2, 1, 0]),
        ("permute (1,2,0) 512^3 f16", 0.75, F16, 512, [1, 2, 0]),
        ("permute (0,2,1) 256^3 f32", 0.80, F32, 256, [0, 2, 1]),
        ("permute (2,1,0) 256^3 f32", 0.65, F32, 256, [2, 1, 0]),
        ("permute (1,2,0) 256^3 f32", 0.80, F32, 256, [1, 2, 0]),
    ] {
        let size = [n, n, n];
        add(name, goal, f, f, &size, row_major(&size), permuted(&size, &perm));
    }
    let image = [32, 256, 56, 56];
    let nhwc = || permuted(&image, &[0, 2, 3, 1]);
    add("NCHW -> NHWC 32x256x56x56 f32", 0.88, F32, F32, &image, row_major(&image), nhwc());
    add("NHWC -> NCHW 32x256x56x56 f32", 0.88, F32, F32, &image, nhwc(), row_major(&image));
    add("NCHW -> NHWC 32x256x56x56 f16", 0.70, F16, F16, &image, row_major(&image), nhwc());
    let blocked = TileLayout::of(vec![
        Iter::mem(32, 256 * 3136),
        Iter::mem(16, 16 * 3136),
        Iter::mem(16, 1),
        Iter::mem(3136, 16),
    ]);
    let blocked = blocked.expect("a layout").into();
    add("NCHW -> nChw16c f32", 0.95, F32, F32, &image, row_major(&image), blocked);
    let tile = TileLayout::row_major(&sq).expect("a layout");
    let swizzled =
        Layout::swizzled(Swizzle::mode(128, 16).expect("a mode"), tile).expect("a layout");
    add("128-byte swizzle 4096x4096 f16", 0.95, F16, F16, &sq, row_major(&sq), swizzled);
    cases
}

/// The median seconds of one call of each of several things, taken in turns.
fn turns(reps: usize, things: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let mut times = vec![Vec::new(); things.len()];
    for round in 0..8 {
        for (thing, times) in things.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..reps {
                thing();
            }
            // The first round warms up.
            if round > 0 {
                times.push(start.elapsed().as_secs_f64() / reps as f64);
            }
        }
    }
    times.into_iter().map(median).collect()
}

/// Median nanoseconds of a short call.
fn nanoseconds(mut call: impl FnMut()) -> f64 {
    let rounds = (0..31).map(|_| {
        let start = Instant::now();
        for _ in 0..1000 {
            call();
        }
        start.elapsed().as_secs_f64() * 1e6
    });
    median(rounds.collect())
}

/// What a move costs before its first byte: planning, and a call of a planned move of 64 bytes.
fn overhead() {
    let size = [8, 32, 2048, 128];
    let pairs = [
        ("planning, 2-D to sticks, padded", vec![4095i64, 4097]),
        ("planning, 4-D to sticks", size.to_vec()),
        ("planning, 6-D to sticks, padded", vec![2, 3, 4, 5, 6, 100]),
    ];
    println!("\n| overhead | goal | median |\n|---|---:|---:|");
    for (name, size) in pairs {
        let (src, dst) = (row_major(&size), sticks(&size));
        let time = nanoseconds(|| {
            let plan = Plan::between(&src, &dst, &size, Fill::Padding);
            std::hint::black_box(plan.expect("a plan"));
        });
        println!("| {name} | 20 us | {:.1} us |", time / 1e3);
    }
    let (src, dst) = (row_major(&[8, 4]), permuted(&[8, 4], &[1, 0]));
    let plan = Plan::between(&src, &dst, &[8, 4], Fill::Leave).expect("a plan");
    let mover = Mover::new(&plan, 2).expect("a mover");
    let (from, mut to) = (Buffer::zeroed(64), Buffer::zeroed(64));
    let time = nanoseconds(|| {
        mover.run(&from, &mut to, None, 1).expect("long enough");
        std::hint::black_box(&mut to);
    });
    println!("| call of a planned 8x4 f16 transpose | 150 ns | {time:.0} ns |");
}

fn main() {
    if cfg!(debug_assertions) {
        eprintln!("warning: a debug build; run with --release");
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "| case | goal | one thread | GB/s | two threads | best copy GB/s, one / two threads |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for c in cases().iter().filter(|c| words.iter().all(|w| c.name.contains(w.as_str()))) {
        let plan = Plan::between(&c.src, &c.dst, &c.shape, Fill::Padding).expect("a plan");
        let mover = Mover::converting(&plan, c.from, c.to).expect("a mover");
        let elements = usize::try_from(plan.elements()).expect("small");
        // As many bytes read and written as the move.
        let bytes = elements * (c.from.size() + c.to.size()) / 2;
        let n = i64::try_from(bytes).expect("small");
        let line = row_major(&[n]);
        let copy = Plan::between(&line, &line, &[n], Fill::Leave).expect("a plan");
        let copier = Mover::new(&copy, 1).expect("a mover");
        let mut from = Buffer::zeroed(mover.src_bytes().max(bytes));
        for (i, b) in from.iter_mut().enumerate() {
            *b = (i * 31).to_le_bytes()[0] & 0x3f;
        }
        let mut to = Buffer::zeroed(mover.dst_bytes().max(bytes));
        to.fill(1);
        let fill = vec![0u8; c.to.size()];
        let reps = (50_000_000 / bytes.max(1)).clamp(1, 20_000);
        let to = std::cell::RefCell::new(to);
        let run = |m: &Mover, threads: usize, fill: Option<&[u8]>| {
            m.run(&from, &mut to.borrow_mut(), fill, threads).expect("long enough");
        };
        let medians = turns(
            reps,
            &mut [
                &mut || run(&mover, 1, Some(&fill)),
                &mut || run(&mover, 2, Some(&fill)),
                &mut || run(&copier, 1, None),
                &mut || run(&copier, 2, None),
                &mut || to.borrow_mut()[..bytes].copy_from_slice(&from[..bytes]),
            ],
        );
        let gb = |t: f64| 2.0 * bytes as f64 / t / 1e9;
        let ceiling = gb(medians[2]).max(gb(medians[4]));
        let ceiling_of_two = gb(medians[3]).max(ceiling);
        let (one, two) = (gb(medians[0]), gb(medians[1]));
        let goal = if c.goal > 0.0 { format!("{:.2}", c.goal) } else { String::new() };
        println!(
            "| {} | {goal} | {:.2} | {one:.1} | {:.2} | {ceiling:.1} / {ceiling_of_two:.1} |",
            c.name,
            one / ceiling,
            two / ceiling_of_two
        );
    }
    if words.is_empty() {
        overhead();
    }
}
