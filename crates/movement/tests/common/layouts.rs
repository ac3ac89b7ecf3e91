//! Random layouts, for the tests of every executor of plans.

use zellige_layout::{Axis, Iter, Layout, PaddedExtent, Swizzle, TileLayout, ValidWindow};

/// Random extents of one number, in order.
fn factors(n: i64, seed: u64) -> Vec<i64> {
    let (mut rest, mut seed, mut out) = (n, seed, Vec::new());
    while rest > 1 {
        let divisors: Vec<i64> = (2..=rest).filter(|d| rest % d == 0).collect();
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let pick = divisors[usize::try_from(seed >> 33).expect("small") % divisors.len()];
        out.push(pick);
        rest /= pick;
    }
    out
}

/// An injective layout of `n` elements: permuted nested strides with gaps, reversals, an offset,
/// a replica, a swizzle.
pub fn injective(n: i64, seed: u64) -> Layout {
    let extents = factors(n, seed);
    let mut order: Vec<usize> = (0..extents.len()).collect();
    let mut s = seed ^ 0x9e37;
    for i in (1..order.len()).rev() {
        s = s.wrapping_mul(6364136223846793005).wrapping_add(99);
        order.swap(i, usize::try_from(s >> 40).expect("small") % (i + 1));
    }
    let mut stride = 1;
    let mut offset = i64::try_from((seed >> 7) % 5).expect("small");
    let mut shard: Vec<Iter> = extents.iter().map(|e| Iter::in_memory(*e, 0)).collect();
    for (k, i) in order.iter().enumerate() {
        stride += i64::try_from((seed >> (k + 3)) % 2).expect("small");
        let back = (seed >> (20 + k)).is_multiple_of(4);
        shard[*i].stride = if back { -stride } else { stride };
        if back {
            offset += (extents[*i] - 1) * stride;
        }
        stride *= extents[*i];
    }
    let replica =
        if seed.is_multiple_of(11) { vec![Iter::in_memory(2, stride + 3)] } else { vec![] };
    let tile = TileLayout::new(shard, replica, [(Axis::M, offset)]).expect("small");
    if seed.is_multiple_of(3) {
        let sw = Swizzle::new(
            i64::try_from(seed % 4).expect("small"),
            i64::try_from((seed >> 5) % 3).expect("small"),
            2 + i64::try_from((seed >> 9) % 2).expect("small"),
            seed & 64 == 0,
        );
        return Layout::from_swizzled_tile(sw.expect("well-formed"), tile).expect("0 or more");
    }
    tile.into()
}

/// A layout over a window of a padded shape.
pub fn windowed(shape: &[i64], seed: u64) -> Layout {
    let dims: Vec<PaddedExtent> = shape
        .iter()
        .enumerate()
        .map(|(d, n)| {
            let s = seed >> (d * 8);
            let begin = i64::try_from(s % 3).expect("small");
            let after = i64::try_from((s >> 3) % 5).expect("small");
            PaddedExtent { begin, valid: *n, padded: n + begin + after }
        })
        .collect();
    let mut extents = Vec::new();
    for (d, e) in dims.iter().enumerate() {
        extents.extend(factors(e.padded, seed.rotate_left(u32::try_from(d * 5).expect("small"))));
    }
    let mut stride = 1;
    let mut order: Vec<usize> = (0..extents.len()).collect();
    order.rotate_left(usize::try_from(seed % 7).expect("small") % extents.len().max(1));
    let mut strides = vec![0; extents.len()];
    for i in order {
        strides[i] = stride;
        stride *= extents[i];
    }
    let shard = extents.iter().zip(strides).map(|(e, s)| Iter::in_memory(*e, s)).collect();
    let tile = TileLayout::from_shard(shard).expect("small");
    let layout = if seed % 4 == 1 {
        Layout::from_swizzled_tile(Swizzle::new(1, 2, 2, true).expect("well-formed"), tile)
            .expect("0 or more")
    } else {
        tile.into()
    };
    layout.with_window(ValidWindow::new(dims).expect("well-formed")).expect("fits")
}

/// Elements that a buffer of a layout holds, padding included.
pub fn elements(l: &Layout) -> usize {
    usize::try_from(l.padded_domain().axis_span(Axis::M).expect("small").max(0)).expect("small")
}
