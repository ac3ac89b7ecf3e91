//! Nests of short dimensions against their definition: every width, instruction set and way of storing,
//! between guard pages, with every other byte of the destination left alone.

#![allow(clippy::cast_possible_truncation, reason = "the low bits of a mixed number are the value")]

mod common;

use common::Guarded;
use zellige_float::Isa;
use zellige_layout::{Layout, TileLayout};
use zellige_movement::{MoveDtypes, MovePlan, Mover, PaddingFill};

/// A strided view of a tensor.
#[derive(Debug, Clone)]
struct View {
    stride: Vec<i64>,
    offset: i64,
}

impl View {
    fn layout(&self, shape: &[i64]) -> Layout {
        TileLayout::from_strides(shape, &self.stride, self.offset).expect("small").into()
    }

    /// The address of every element, in row-major order.
    fn addresses(&self, shape: &[i64]) -> Vec<usize> {
        let mut all = vec![self.offset];
        for (n, stride) in shape.iter().zip(&self.stride) {
            all = all.iter().flat_map(|a| (0..*n).map(move |i| a + i * stride)).collect();
        }
        all.into_iter().map(|a| usize::try_from(a).expect("0 or more")).collect()
    }
}

/// `dst[d(i)] = src[s(i)]` for every index, and nothing else is written or read outside.
fn check(shape: &[i64], src: &View, dst: &View) {
    let (from, to) = (src.addresses(shape), dst.addresses(shape));
    let plan = MovePlan::between(&src.layout(shape), &dst.layout(shape), shape, PaddingFill::Leave);
    let plan = plan.expect("a plan");
    for width in [1usize, 2, 4, 8, 16] {
        let len = |all: &[usize]| all.iter().max().map_or(0, |last| (last + 1) * width);
        let source: Vec<u8> = (0..len(&from))
            .map(|i| ((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
            .collect();
        // A few bytes more than the elements take: they stay as they are.
        let mut want = vec![0xa5u8; len(&to) + 40];
        for (a, b) in from.iter().zip(&to) {
            want[b * width..][..width].copy_from_slice(&source[a * width..][..width]);
        }
        for isa in Isa::all_available() {
            for (around, at_end, threads) in
                [(false, true, 1), (true, true, 1), (false, false, 1), (true, false, 3)]
            {
                isa.while_lowered(|| {
                    let dtypes = MoveDtypes::Bytes(width);
                    let mover = Mover::with_stores(&plan, dtypes, Some(around)).expect("a width");
                    let mut s = Guarded::new(source.len(), at_end);
                    let mut d = Guarded::new(want.len(), at_end);
                    s.bytes().copy_from_slice(&source);
                    d.bytes().fill(0xa5);
                    mover.run_on_slices(s.bytes(), d.bytes(), None, threads).expect("long enough");
                    assert!(
                        d.bytes() == want,
                        "{isa}, {width} bytes, around {around}: {shape:?} {src:?} -> {dst:?}\n{plan}"
                    );
                });
            }
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 33) as usize % n
    }

    fn extent(&mut self, low: usize, high: usize) -> i64 {
        i64::try_from(low + self.below(high - low + 1)).expect("small")
    }

    /// Two to five dimensions, mostly short ones, of a few thousand elements together.
    fn shape(&mut self) -> Vec<i64> {
        let rank = 2 + self.below(4);
        let mut shape: Vec<i64> = (1..rank).map(|_| self.extent(2, 20)).collect();
        while shape.iter().product::<i64>() > 9000 {
            shape.pop();
        }
        let others: i64 = shape.iter().product();
        shape.push((self.extent(3000, 9000) / others).max(2));
        let last = shape.len() - 1;
        let to = self.below(shape.len());
        shape.swap(last, to);
        shape
    }

    /// Dense in some order of dimensions, then changed: gaps, steps, reversals; a source may also have
    /// strides of 0 or overlap itself.
    fn view(&mut self, shape: &[i64], source: bool) -> View {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        for i in (1..order.len()).rev() {
            let j = self.below(i + 1);
            order.swap(i, j);
        }
        let kind = self.below(if source { 8 } else { 5 });
        let (mut stride, mut next, mut offset) = (vec![0; shape.len()], 1, self.extent(0, 3));
        for (k, d) in order.into_iter().enumerate() {
            if kind == 3 && self.below(3) == 0 {
                next *= self.extent(2, 4);
            }
            stride[d] = next;
            next *= shape[d];
            match kind {
                2 => next += self.extent(0, 5),
                4 if self.below(2) == 0 => {
                    offset += stride[d] * (shape[d] - 1);
                    stride[d] = -stride[d];
                }
                5 if self.below(2) == 0 => stride[d] = 0,
                // A window: the next dimension steps by less than this one takes.
                6 if k > 0 => next = (next / 2).max(1),
                _ => {}
            }
        }
        View { stride, offset }
    }
}

#[test]
fn short_dimensions_of_every_kind() {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse::<u64>().ok());
    for seed in 0..asked.map_or(60, |n| n.clamp(30, 5000)) {
        let mut random = Random(seed);
        let shape = random.shape();
        let (src, dst) = (random.view(&shape, true), random.view(&shape, false));
        check(&shape, &src, &dst);
    }
}

fn dense(shape: &[i64], order: &[usize]) -> View {
    let mut stride = vec![0; shape.len()];
    let mut next = 1;
    for d in order.iter().rev() {
        stride[*d] = next;
        next *= shape[*d];
    }
    View { stride, offset: 0 }
}

/// Everyday moves: interleaved planes, pixel shuffles, windows, steps, repeats.
#[test]
fn everyday_moves_of_short_dimensions() {
    for c in [2, 3, 4, 5, 8, 12, 15, 16, 20] {
        for pixels in [1001, 2048] {
            let shape = [pixels, c];
            check(&shape, &dense(&shape, &[0, 1]), &dense(&shape, &[1, 0]));
            check(&shape, &dense(&shape, &[1, 0]), &dense(&shape, &[0, 1]));
        }
    }
    for r in [2, 3] {
        let shape = [2, 3, r, r, 19, 23];
        check(&shape, &dense(&shape, &[0, 1, 2, 3, 4, 5]), &dense(&shape, &[0, 1, 4, 2, 5, 3]));
        check(&shape, &dense(&shape, &[0, 1, 4, 2, 5, 3]), &dense(&shape, &[0, 1, 2, 3, 4, 5]));
    }
    for step in [2, 3, 4, 7] {
        let shape = [5003];
        let (near, far) =
            (View { stride: vec![1], offset: 1 }, View { stride: vec![step], offset: 2 });
        check(&shape, &far, &near);
        check(&shape, &near, &far);
    }
    // Windows that overlap in the source.
    let (o, c, k, w) = (18, 4, 3, 20);
    let shape = [o, o, c, k, k];
    let windows = View { stride: vec![w, 1, w * w, w, 1], offset: 0 };
    check(&shape, &windows, &dense(&shape, &[0, 1, 2, 3, 4]));
    check(&shape, &windows, &dense(&shape, &[2, 3, 4, 0, 1]));
    // One element, a short row and both planes of a picture over and over.
    for stride in [vec![0, 0, 0], vec![0, 0, 1], vec![17, 1, 0], vec![0, 1, 0]] {
        let shape = [40, 17, 9];
        check(&shape, &View { stride, offset: 0 }, &dense(&shape, &[0, 1, 2]));
    }
    let shape = [6, 7, 8, 10, 12];
    for order in [[4, 3, 2, 1, 0], [4, 2, 0, 1, 3], [2, 4, 1, 3, 0], [3, 0, 4, 1, 2]] {
        check(&shape, &dense(&shape, &[0, 1, 2, 3, 4]), &dense(&shape, &order));
    }
}
