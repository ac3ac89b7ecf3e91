//! Prints how near moves come to a plain copy of the same size, measured in the same run.

use std::time::Instant;
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
    width: usize,
    shape: Vec<i64>,
    src: Layout,
    dst: Layout,
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn main() {
    let only = std::env::args().nth(1);
    let sticks = |size: &[i64]| {
        StickLayout::default(size, Dtype::Float16).and_then(|s| s.lower()).expect("sticks")
    };
    let on_dim = |size: &[i64], order: &[i64]| {
        StickLayout::with_dim_order(size, None, Dtype::Float16, order)
            .and_then(|s| s.lower())
            .expect("sticks")
    };
    let mut cases = Vec::new();
    let mut add = |name, width, shape: &[i64], src: Layout, dst: Layout| {
        cases.push(Case { name, width, shape: shape.to_vec(), src, dst });
    };
    for (name, size) in [
        ("sticks 4096x4096", vec![4096i64, 4096]),
        ("sticks 16384x4096", vec![16384, 4096]),
        ("sticks 128x256x512", vec![128, 256, 512]),
        ("sticks 8x32x2048x128", vec![8, 32, 2048, 128]),
        ("sticks 4095x4097", vec![4095, 4097]),
        ("sticks 1000x200", vec![1000, 200]),
        ("sticks 5x100x150", vec![5, 100, 150]),
    ] {
        add(name, 2, &size, row_major(&size), sticks(&size));
    }
    let sq = [4096, 4096];
    let big = [8192, 8192];
    add("unstick 4096x4096", 2, &sq, sticks(&sq), row_major(&sq));
    add("restickify 4096", 2, &sq, sticks(&sq), on_dim(&sq, &[1, 0]));
    add("restickify 8192", 2, &big, sticks(&big), on_dim(&big, &[1, 0]));
    add("stick on dim 0", 2, &sq, row_major(&sq), on_dim(&sq, &[1, 0]));
    add("transpose 4096 f16", 2, &sq, row_major(&sq), permuted(&sq, &[1, 0]));
    add("transpose 8192 f16", 2, &big, row_major(&big), permuted(&big, &[1, 0]));
    add("transpose 4096 f32", 4, &sq, row_major(&sq), permuted(&sq, &[1, 0]));
    add("transpose 8192 f32", 4, &big, row_major(&big), permuted(&big, &[1, 0]));
    let cube = [512, 512, 512];
    add("permute 021 512 f16", 2, &cube, row_major(&cube), permuted(&cube, &[0, 2, 1]));
    add("permute 210 512 f16", 2, &cube, row_major(&cube), permuted(&cube, &[2, 1, 0]));
    add("permute 120 512 f16", 2, &cube, row_major(&cube), permuted(&cube, &[1, 2, 0]));
    let cube = [256, 256, 256];
    add("permute 021 256 f32", 4, &cube, row_major(&cube), permuted(&cube, &[0, 2, 1]));
    add("permute 210 256 f32", 4, &cube, row_major(&cube), permuted(&cube, &[2, 1, 0]));
    add("permute 120 256 f32", 4, &cube, row_major(&cube), permuted(&cube, &[1, 2, 0]));
    let image = [32, 256, 56, 56];
    add("nchw nhwc f32", 4, &image, row_major(&image), permuted(&image, &[0, 2, 3, 1]));
    add("nhwc nchw f32", 4, &image, permuted(&image, &[0, 2, 3, 1]), row_major(&image));
    add("nchw nhwc f16", 2, &image, row_major(&image), permuted(&image, &[0, 2, 3, 1]));
    let blocked = TileLayout::of(vec![
        Iter::mem(32, 256 * 3136),
        Iter::mem(16, 16 * 3136),
        Iter::mem(16, 1),
        Iter::mem(3136, 16),
    ]);
    add("nchw nChw16c f32", 4, &image, row_major(&image), blocked.expect("a layout").into());
    let sw = Layout::swizzled(
        Swizzle::mode(128, 16).expect("a mode"),
        TileLayout::row_major(&sq).expect("a layout"),
    );
    add("swizzle 4096 f16", 2, &sq, row_major(&sq), sw.expect("a layout"));
    add("transpose 64 f16", 2, &[64, 64], row_major(&[64, 64]), permuted(&[64, 64], &[1, 0]));
    add("transpose 4096 i8", 1, &sq, row_major(&sq), permuted(&sq, &[1, 0]));
    let k2 = [2048, 2048];
    add("transpose 2048 f64", 8, &k2, row_major(&k2), permuted(&k2, &[1, 0]));

    println!("{:<22} {:>8} {:>8} {:>7} {:>7}", "case", "GB/s", "copy", "ratio", "2 thr");
    for c in cases.iter().filter(|c| only.as_ref().is_none_or(|o| c.name.contains(o.as_str()))) {
        let plan = Plan::between(&c.src, &c.dst, &c.shape, Fill::Padding).expect("a plan");
        let mover = Mover::new(&plan, c.width).expect("a mover");
        let bytes = usize::try_from(plan.elements()).expect("small") * c.width;
        let n = i64::try_from(bytes / 2).expect("small");
        let line = row_major(&[n]);
        let copy_plan = Plan::between(&line, &line, &[n], Fill::Leave).expect("a plan");
        let copier = Mover::new(&copy_plan, 2).expect("a mover");
        let mut from = Buffer::zeroed(mover.src_bytes());
        for (i, b) in from.iter_mut().enumerate() {
            *b = (i * 31).to_le_bytes()[0];
        }
        let mut to = Buffer::zeroed(mover.dst_bytes());
        to.fill(1);
        let fill = vec![0u8; c.width];
        let reps = (100_000_000 / bytes.max(1)).clamp(1, 20_000);
        let (mut t1, mut t2, mut tc, mut tm) = (vec![], vec![], vec![], vec![]);
        for _ in 0..7 {
            for (kind, times) in [(0, &mut t1), (1, &mut t2), (2, &mut tc), (3, &mut tm)] {
                let start = Instant::now();
                for _ in 0..reps {
                    match kind {
                        0 => mover.run(&from, &mut to, Some(&fill), 1).expect("long enough"),
                        1 => mover.run(&from, &mut to, Some(&fill), 2).expect("long enough"),
                        2 => copier
                            .run(&from[..bytes], &mut to[..bytes], None, 1)
                            .expect("long enough"),
                        _ => to[..bytes].copy_from_slice(&from[..bytes]),
                    }
                    std::hint::black_box(&mut to);
                }
                times.push(start.elapsed().as_secs_f64() / reps as f64);
            }
        }
        let gb = |t: f64| 2.0 * bytes as f64 / t / 1e9;
        let best_copy = gb(median(tc)).max(gb(median(tm)));
        let (one, two) = (gb(median(t1)), gb(median(t2)));
        println!(
            "{:<22} {one:>8.1} {best_copy:>8.1} {:>7.2} {:>7.2}",
            c.name,
            one / best_copy,
            two / best_copy
        );
    }
}
