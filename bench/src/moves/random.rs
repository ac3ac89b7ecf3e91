//! Random pairs of layouts over a megabyte: what the table does not name.

use super::layouts::{permuted_strides, row_major, stick_layout, sticks_in_order, strided_view};
use super::{MoveCase, MovedElements};
use zellige_float::Dtype;
use zellige_layout::Layout;
use zellige_movement::PaddingFill;

/// `count` cases of a seed; a longer list begins with the shorter one.
pub fn random_cases(count: usize, seed: u64) -> Vec<MoveCase> {
    let mut rng = SplitMix64(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    (0..count).map(|i| random_case(&mut rng, i)).collect()
}

/// SplitMix64: the same cases on every machine, without a dependency.
struct SplitMix64(u64);

impl SplitMix64 {
    fn draw_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `low..=high`.
    fn draw_between(&mut self, low: i64, high: i64) -> i64 {
        let span = u64::try_from(high - low + 1).expect("low <= high");
        low + i64::try_from(self.draw_bits() % span).expect("below the span")
    }

    fn draw_below(&mut self, n: usize) -> usize {
        usize::try_from(self.draw_bits() % n as u64).expect("below n")
    }

    fn draw_permutation(&mut self, n: usize) -> Vec<usize> {
        let mut perm: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            perm.swap(i, self.draw_below(i + 1));
        }
        perm
    }

    /// Extents whose elements take 1 to 8 MiB.
    fn draw_shape(&mut self, rank: usize, width: i64) -> Vec<i64> {
        let least = (1 << 20) / width;
        let mut left = self.draw_between(least, 8 * least);
        let mut shape = Vec::new();
        for dims_left in (2..=u32::try_from(rank).expect("small")).rev() {
            // Around the root of what is left, so that no dimension takes nearly all elements.
            let high = 2 << (left.max(1).ilog2() / dims_left);
            let extent = self.draw_between((high / 4).max(2), high);
            shape.push(extent);
            left /= extent;
        }
        let others: i64 = shape.iter().product();
        // The last extent makes up for what the divisions above lost, since a case below a megabyte would measure
        // the cache.
        shape.push(left.max((least + others - 1) / others).max(2));
        let perm = self.draw_permutation(rank);
        perm.into_iter().map(|p| shape[p]).collect()
    }
}

/// A dense array in some order of dimensions.
fn random_dense_layout(rng: &mut SplitMix64, shape: &[i64]) -> Layout {
    let perm = rng.draw_permutation(shape.len());
    strided_view(shape, &permuted_strides(shape, &perm), 0)
}

/// A box inside a larger dense array; with `steps`, only every second or third element of one or
/// two dimensions is taken.
fn random_view_layout(rng: &mut SplitMix64, shape: &[i64], steps: bool) -> Layout {
    // The order in memory is drawn apart from the shape, so that any dimension may be the fastest.
    let perm = rng.draw_permutation(shape.len());
    let mut step = vec![1; shape.len()];
    if steps {
        for d in [rng.draw_below(shape.len()), rng.draw_below(shape.len())] {
            step[d] = rng.draw_between(2, 3);
        }
    }
    let whole: Vec<i64> = shape
        .iter()
        .zip(&step)
        .map(|(n, s)| n * s + rng.draw_between(0, 9.min(n / 4 + 1)))
        .collect();
    let stride = permuted_strides(&whole, &perm);
    let offset: i64 = shape
        .iter()
        .zip(&step)
        .zip(whole.iter().zip(&stride))
        .map(|((n, s), (w, stride))| rng.draw_between(0, w - n * s) * stride)
        .sum();
    let stride: Vec<i64> = stride.iter().zip(&step).map(|(a, b)| a * b).collect();
    strided_view(shape, &stride, offset)
}

/// A dense array of which some dimensions run backwards.
fn random_reversed_layout(rng: &mut SplitMix64, shape: &[i64]) -> Layout {
    let perm = rng.draw_permutation(shape.len());
    let mut stride = permuted_strides(shape, &perm);
    let mut offset = 0;
    // At least one dimension runs backwards, since otherwise the case would be a plain permutation.
    let always = rng.draw_below(shape.len());
    for d in 0..shape.len() {
        if d == always || rng.draw_below(3) == 0 {
            offset += (shape[d] - 1) * stride[d];
            stride[d] = -stride[d];
        }
    }
    strided_view(shape, &stride, offset)
}

/// A dense array that is the same along one dimension.
fn random_repeated_layout(rng: &mut SplitMix64, shape: &[i64]) -> Layout {
    let still = rng.draw_below(shape.len());
    let mut size = shape.to_vec();
    size[still] = 1;
    let perm = rng.draw_permutation(shape.len());
    let mut stride = permuted_strides(&size, &perm);
    stride[still] = 0;
    strided_view(shape, &stride, 0)
}

/// Sticks on some dimension, for the widths that have them.
fn random_stick_layout(rng: &mut SplitMix64, shape: &[i64], dtype: Dtype) -> Layout {
    let mut order: Vec<i64> = (0..).take(shape.len()).collect();
    let last = order.len() - 1;
    let swapped = rng.draw_below(order.len());
    order.swap(swapped, last);
    if rng.draw_below(2) == 0 {
        stick_layout(shape, dtype)
    } else {
        sticks_in_order(shape, dtype, &order)
    }
}

fn random_case(rng: &mut SplitMix64, number: usize) -> MoveCase {
    // By the number and not at random, so that any list of five cases has every width.
    let width = [1, 2, 4, 8, 16][number % 5];
    let rank = usize::try_from(rng.draw_between(2, 5)).expect("small");
    let shape = rng.draw_shape(rank, width);
    let dtype = [Dtype::Int8, Dtype::Float16, Dtype::Float32];
    let with_sticks = dtype.get(number % 5).copied();
    // Elements of 8 and 16 bytes have no sticks on the card.
    let kinds = if with_sticks.is_some() { 10 } else { 7 };
    let dtype = with_sticks.unwrap_or(Dtype::Float32);
    let (kind, src, dst) = match rng.draw_below(kinds) {
        0 => ("permute", row_major(&shape), random_dense_layout(rng, &shape)),
        1 => ("permute", random_dense_layout(rng, &shape), row_major(&shape)),
        2 => (
            "box -> dense",
            random_view_layout(rng, &shape, false),
            random_dense_layout(rng, &shape),
        ),
        3 => (
            "dense -> box",
            random_dense_layout(rng, &shape),
            random_view_layout(rng, &shape, false),
        ),
        4 => (
            "steps -> dense",
            random_view_layout(rng, &shape, true),
            random_dense_layout(rng, &shape),
        ),
        5 => (
            "backwards -> dense",
            random_reversed_layout(rng, &shape),
            random_dense_layout(rng, &shape),
        ),
        6 => (
            "repeated -> dense",
            random_repeated_layout(rng, &shape),
            random_dense_layout(rng, &shape),
        ),
        7 => ("dense -> sticks", row_major(&shape), random_stick_layout(rng, &shape, dtype)),
        8 => ("sticks -> dense", random_stick_layout(rng, &shape, dtype), row_major(&shape)),
        _ => (
            "sticks -> sticks",
            random_stick_layout(rng, &shape, dtype),
            random_stick_layout(rng, &shape, dtype),
        ),
    };
    let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
    let name = format!("{number}: {kind}, {}, {width} B", extents.join("x"));
    let elements = MovedElements::Plain(usize::try_from(width).expect("small"));
    MoveCase { name, goal: None, elements, shape, src, dst, fill: PaddingFill::Padding }
}

#[cfg(test)]
mod tests {
    use super::super::CaseError;
    use super::*;

    #[test]
    fn random_cases_are_those_of_their_seed_and_over_a_megabyte() {
        let cases = random_cases(60, 1);
        assert_eq!(random_cases(3, 1)[2].name, cases[2].name);
        assert_ne!(random_cases(1, 2)[0].name, cases[0].name);
        let mut refused = 0;
        for case in &cases {
            match case.plan_mover() {
                Ok((plan, _)) => assert!(case.copied_bytes(&plan) >= 1 << 20, "{}", case.name),
                Err(CaseError::Layout(e)) if e.kind() == "too_large" => refused += 1,
                Err(e) => panic!("{}: {e}", case.name),
            }
        }
        // The planner may find the padding of two stick layouts too scattered; that is rare.
        assert!(refused <= 2, "{refused} of 60 have no plan");
    }
}
