//! Arrays for kernels, and references of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may stop")]
#![allow(dead_code, reason = "each test file uses some of these")]

use zellige_float::{Element, F16};
use zellige_ktir::{KtirArray, KtirElem, KtirModule, KtirRunOutcome, text};

pub(crate) fn kernel(name: &str) -> (String, KtirModule) {
    let path = format!("{}/tests/kernels/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let module = module(&text);
    (text, module)
}

pub(crate) fn module(text: &str) -> KtirModule {
    text::parse(text).unwrap_or_else(|d| panic!("{}", d.render(text, false)))
}

/// The nearest binary16.
pub(crate) fn half(x: f32) -> f32 {
    F16::cast_from(x).to_f32()
}

pub(crate) fn halves(shape: &[i64], values: &[f32]) -> KtirArray {
    let bytes = values.iter().flat_map(|x| F16::cast_from(*x).0.to_le_bytes()).collect();
    KtirArray { elem: KtirElem::F16, shape: shape.to_vec(), bytes }
}

pub(crate) fn floats(shape: &[i64], values: &[f32]) -> KtirArray {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    KtirArray { elem: KtirElem::F32, shape: shape.to_vec(), bytes }
}

pub(crate) fn ints(shape: &[i64], values: &[i32]) -> KtirArray {
    let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    KtirArray { elem: KtirElem::I32, shape: shape.to_vec(), bytes }
}

pub(crate) fn read(outcome: &KtirRunOutcome, name: &str) -> Vec<f32> {
    let array = &outcome.arrays[name];
    match array.elem {
        KtirElem::F16 => array
            .bytes
            .chunks_exact(2)
            .map(|c| F16(u16::from_le_bytes([c[0], c[1]])).to_f32())
            .collect(),
        KtirElem::F32 => array
            .bytes
            .chunks_exact(4)
            .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
            .collect(),
        other => panic!("{other} are no floats"),
    }
}

/// Numbers between -1 and 1 that binary16 has, the same in every run.
pub(crate) fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            half((state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0)
        })
        .collect()
}

/// Checks that two lists have the same bits.
pub(crate) fn same(have: &[f32], want: &[f32]) {
    assert_eq!(have.len(), want.len());
    if let Some(i) = (0..have.len()).find(|i| have[*i].to_bits() != want[*i].to_bits()) {
        panic!("element {i} is {:e}, not {:e}", have[i], want[i]);
    }
}
