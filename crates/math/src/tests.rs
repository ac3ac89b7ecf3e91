//! Accuracy against float64, the same bits on every instruction set, special cases, and speed.
mod accuracy;
mod bits;
mod cases;
mod speed;

/// Numbers of every kind: bit patterns, everyday sizes, and the special ones.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    const SPECIAL: [f32; 12] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        3e9,
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    (0..n)
        .map(|_| match next() % 8 {
            0 => SPECIAL[next() as usize % SPECIAL.len()],
            1..4 => f32::from_bits(next()),
            4 => (next() % 21) as f32 - 10.0,
            _ => (f64::from(next()) / f64::from(u32::MAX) * 20.0 - 10.0) as f32,
        })
        .collect()
}
