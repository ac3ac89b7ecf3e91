//! Random numbers by place: Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror and Shaw, "Parallel random
//! numbers: as easy as 1, 2, 3", SC 2011).
//!
//! **Law**: the words of an element are `philox(counter, key)` with its row-major index as the low and
//! 0 as the high half of the counter, and the seed as the key. They depend on nothing else: not on
//! the layout, the division over cores, the host's threads or the machine.
//!
//! | from the words | is |
//! |---|---|
//! | uniform | `(w0 >> 8) / 2^24`: 0 included, 1 not |
//! | normal | `sqrt(-2 ln u) cos(2 pi v)`, `u = ((w0 >> 8) + 1) / 2^24`, `v = (w1 >> 8) / 2^24` |
//! | below n | `w0 * n >> 32`: each of n numbers, within `n / 2^32` equally often |

use super::{log, multiversion, pow, trig};

/// The four words of a counter.
#[inline(always)]
pub fn philox_words(counter: u64, seed: u64) -> [u32; 4] {
    let halves = |x: u64| (low_word(x), low_word(x >> 32));
    let ((mut c0, mut c1), (mut k0, mut k1)) = (halves(counter), halves(seed));
    let (mut c2, mut c3) = (0u32, 0u32);
    // Ten rounds, as the name Philox4x32-10 says; its authors' constants.
    for _ in 0..10 {
        let (a, b) = (u64::from(c0) * 0xD251_1F53, u64::from(c2) * 0xCD9E_8D57);
        (c0, c1, c2, c3) =
            (low_word(b >> 32) ^ c1 ^ k0, low_word(b), low_word(a >> 32) ^ c3 ^ k1, low_word(a));
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [c0, c1, c2, c3]
}

#[allow(clippy::cast_possible_truncation, reason = "the low half is meant")]
#[inline(always)]
fn low_word(x: u64) -> u32 {
    x as u32
}

/// The 24 high bits of a word as a fraction; exact.
#[inline(always)]
fn word_to_fraction(word: u32) -> f32 {
    (word >> 8).cast_signed() as f32 / 16_777_216.0
}

/// Uniform in 0 .. 1.
#[inline(always)]
pub fn random_uniform(index: u64, seed: u64) -> f32 {
    word_to_fraction(philox_words(index, seed)[0])
}

/// Normal with mean 0 and deviation 1.
#[inline(always)]
pub fn random_normal(index: u64, seed: u64) -> f32 {
    let w = philox_words(index, seed);
    // Never 0, whose logarithm is infinite.
    let u = word_to_fraction(w[0]) + 1.0 / 16_777_216.0;
    let turn = std::f32::consts::TAU * word_to_fraction(w[1]);
    pow::sqrt(-2.0 * log::log(u)) * trig::cos(turn)
}

/// One of `0 .. n`.
#[inline(always)]
pub fn random_below(index: u64, seed: u64, n: u64) -> u64 {
    let drawn = philox_words(index, seed);
    if n <= 1 << 32 {
        return (u64::from(drawn[0]) * n) >> 32;
    }
    // More numbers than 32 bits distinguish: another word of the same draw becomes the upper half.
    let wide = u64::from(drawn[1]) << 32 | u64::from(drawn[0]);
    #[allow(clippy::cast_possible_truncation, reason = "the quotient is below n")]
    let below = ((u128::from(wide) * u128::from(n)) >> 64) as u64;
    below
}

multiversion! {
    /// `low + uniform * width` of the elements `first`, `first + step`, ...
    pub fn fill_uniform(
        first: u64, step: u64, seed: u64, low: f32, width: f32, out: &mut [f32],
    ) {
        let mut index = first;
        for out in out.iter_mut() {
            *out = low + random_uniform(index, seed) * width;
            index += step;
        }
    }
}

multiversion! {
    /// `mean + normal * std` of the elements `first`, `first + step`, ...
    pub fn fill_normal(
        first: u64, step: u64, seed: u64, mean: f32, std: f32, out: &mut [f32],
    ) {
        let mut index = first;
        for out in out.iter_mut() {
            *out = mean + random_normal(index, seed) * std;
            index += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The vectors of the Random123 distribution with zero in the counter's high half.
        assert_eq!(philox_words(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_ne!(philox_words(1, 0), philox_words(0, 1));
    }
}
