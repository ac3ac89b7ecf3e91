//! What several tests share.

/// Numbers between -2 and 2 that depend on the seed alone.
pub(crate) fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 4096) as f32 / 1024.0 - 2.0
    };
    (0..n).map(|_| next()).collect()
}
