//! Random pairs of layouts over a megabyte: what the table does not name.

use super::layouts::{permuted_strides, row_major, sticks, sticks_in_order, strided};
use super::{Case, Elements};
use zellige_float::Dtype;
use zellige_layout::Layout;
use zellige_movement::PaddingFill;

/// `count` cases of a seed; a longer list begins with the shorter one.
pub fn random(count: usize, seed: u64) -> Vec<Case> {
    let mut rng = Rng(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    (0..count).map(|i| case(&mut rng, i)).collect()
}

/// SplitMix64: the same cases on every machine, without a dependency.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In `low..=high`.
    fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = u64::try_from(high - low + 1).expect("low <= high");
        low + i64::try_from(self.next() % span).expect("below the span")
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("below n")
    }

    fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut perm: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            perm.swap(i, self.below(i + 1));
        }
        perm
    }

    /// Extents whose elements take 1 to 8 MiB.
    fn shape(&mut self, rank: usize, width: i64) -> Vec<i64> {
        let least = (1 << 20) / width;
        let mut left = self.between(least, 8 * least);
        let mut shape = Vec::new();
        for dims_left in (2..=u32::try_from(rank).expect("small")).rev() {
            let high = 2 << (left.max(1).ilog2() / dims_left);
            let extent = self.between((high / 4).max(2), high);
            shape.push(extent);
            left /= extent;
        }
        let others: i64 = shape.iter().product();
        shape.push(left.max((least + others - 1) / others).max(2));
        let perm = self.permutation(rank);
        perm.into_iter().map(|p| shape[p]).collect()
    }
}

/// A dense array in some order of dimensions.
fn dense(rng: &mut Rng, shape: &[i64]) -> Layout {
    let perm = rng.permutation(shape.len());
    strided(shape, &permuted_strides(shape, &perm), 0)
}

/// A box inside a larger dense array; with `steps`, only every second or third element of one or
/// two dimensions is taken.
fn view(rng: &mut Rng, shape: &[i64], steps: bool) -> Layout {
    let perm = rng.permutation(shape.len());
    let mut step = vec![1; shape.len()];
    if steps {
        for d in [rng.below(shape.len()), rng.below(shape.len())] {
            step[d] = rng.between(2, 3);
        }
    }
    let whole: Vec<i64> =
        shape.iter().zip(&step).map(|(n, s)| n * s + rng.between(0, 9.min(n / 4 + 1))).collect();
    let stride = permuted_strides(&whole, &perm);
    let offset: i64 = shape
        .iter()
        .zip(&step)
        .zip(whole.iter().zip(&stride))
        .map(|((n, s), (w, stride))| rng.between(0, w - n * s) * stride)
        .sum();
    let stride: Vec<i64> = stride.iter().zip(&step).map(|(a, b)| a * b).collect();
    strided(shape, &stride, offset)
}

/// A dense array of which some dimensions run backwards.
fn backwards(rng: &mut Rng, shape: &[i64]) -> Layout {
    let perm = rng.permutation(shape.len());
    let mut stride = permuted_strides(shape, &perm);
    let mut offset = 0;
    let always = rng.below(shape.len());
    for d in 0..shape.len() {
        if d == always || rng.below(3) == 0 {
            offset += (shape[d] - 1) * stride[d];
            stride[d] = -stride[d];
        }
    }
    strided(shape, &stride, offset)
}

/// A dense array that is the same along one dimension.
fn repeated(rng: &mut Rng, shape: &[i64]) -> Layout {
    let still = rng.below(shape.len());
    let mut size = shape.to_vec();
    size[still] = 1;
    let perm = rng.permutation(shape.len());
    let mut stride = permuted_strides(&size, &perm);
    stride[still] = 0;
    strided(shape, &stride, 0)
}

/// Sticks on some dimension, for the widths that have them.
fn stick(rng: &mut Rng, shape: &[i64], dtype: Dtype) -> Layout {
    let mut order: Vec<i64> = (0..).take(shape.len()).collect();
    let last = order.len() - 1;
    let swapped = rng.below(order.len());
    order.swap(swapped, last);
    if rng.below(2) == 0 { sticks(shape, dtype) } else { sticks_in_order(shape, dtype, &order) }
}

fn case(rng: &mut Rng, number: usize) -> Case {
    let width = [1, 2, 4, 8, 16][number % 5];
    let rank = usize::try_from(rng.between(2, 5)).expect("small");
    let shape = rng.shape(rank, width);
    let dtype = [Dtype::Int8, Dtype::Float16, Dtype::Float32];
    let with_sticks = dtype.get(number % 5).copied();
    let kinds = if with_sticks.is_some() { 10 } else { 7 };
    let dtype = with_sticks.unwrap_or(Dtype::Float32);
    let (kind, src, dst) = match rng.below(kinds) {
        0 => ("permute", row_major(&shape), dense(rng, &shape)),
        1 => ("permute", dense(rng, &shape), row_major(&shape)),
        2 => ("box -> dense", view(rng, &shape, false), dense(rng, &shape)),
        3 => ("dense -> box", dense(rng, &shape), view(rng, &shape, false)),
        4 => ("steps -> dense", view(rng, &shape, true), dense(rng, &shape)),
        5 => ("backwards -> dense", backwards(rng, &shape), dense(rng, &shape)),
        6 => ("repeated -> dense", repeated(rng, &shape), dense(rng, &shape)),
        7 => ("dense -> sticks", row_major(&shape), stick(rng, &shape, dtype)),
        8 => ("sticks -> dense", stick(rng, &shape, dtype), row_major(&shape)),
        _ => ("sticks -> sticks", stick(rng, &shape, dtype), stick(rng, &shape, dtype)),
    };
    let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
    let name = format!("{number}: {kind}, {}, {width} B", extents.join("x"));
    let elements = Elements::Plain(usize::try_from(width).expect("small"));
    Case { name, goal: None, elements, shape, src, dst, fill: PaddingFill::Padding }
}

#[cfg(test)]
mod tests {
    use super::super::CaseError;
    use super::*;

    #[test]
    fn random_cases_are_those_of_their_seed_and_over_a_megabyte() {
        let cases = random(60, 1);
        assert_eq!(random(3, 1)[2].name, cases[2].name);
        assert_ne!(random(1, 2)[0].name, cases[0].name);
        let mut refused = 0;
        for case in &cases {
            match case.mover() {
                Ok((plan, _)) => assert!(case.bytes(&plan) >= 1 << 20, "{}", case.name),
                Err(CaseError::Layout(e)) if e.kind() == "too_large" => refused += 1,
                Err(e) => panic!("{}: {e}", case.name),
            }
        }
        // The planner may find the padding of two stick layouts too scattered; that is rare.
        assert!(refused <= 2, "{refused} of 60 have no plan");
    }
}
