//! Random CuTe layouts, their function by CuTe's definition, and which functions are a layout.

use proptest::prelude::*;
use zellige_notation::cute::{CuteMode, CuteModes, NestedTuple};

pub(crate) fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok());
    let cases = asked.unwrap_or(1000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

pub(crate) fn modes(
    extent: impl Strategy<Value = i64> + Clone + 'static,
    stride: impl Strategy<Value = i64> + Clone + 'static,
) -> impl Strategy<Value = CuteModes> {
    let leaf = (extent, stride).prop_map(|(e, s)| NestedTuple::Leaf(CuteMode::new(e, s)));
    leaf.prop_recursive(2, 5, 3, |inner| {
        prop::collection::vec(inner, 1..4).prop_map(NestedTuple::Tuple)
    })
}

/// Small layouts, often with strides that meet extents.
pub(crate) fn small() -> impl Strategy<Value = CuteModes> {
    let stride = prop_oneof![4 => prop::sample::select(vec![0i64, 1, 2, 3, 4, 6, 8, 12, 16, 24]), 1 => 0i64..30];
    modes(prop_oneof![1i64..5, Just(6), Just(8)], stride)
}

/// The offset at an index, by CuTe's definition: split over the leaves, the first fastest; the last leaf continues.
pub(crate) fn at(m: &CuteModes, index: i64) -> i64 {
    let leaves = m.leaves();
    let (mut rest, mut offset) = (index, 0);
    for (i, leaf) in leaves.iter().enumerate() {
        let last = i + 1 == leaves.len();
        let digit = if last { rest } else { rest % leaf.extent };
        rest = if last { 0 } else { rest / leaf.extent };
        offset += digit * leaf.stride;
    }
    offset
}

pub(crate) fn offsets(m: &CuteModes) -> Vec<i64> {
    (0..m.size().unwrap()).map(|i| at(m, i)).collect()
}

/// Whether values are those of some modes, by trying the first step everywhere it may end.
pub(crate) fn is_layout(values: &[i64]) -> bool {
    if values.len() <= 1 {
        return true;
    }
    let n = values.len();
    (2..=n).filter(|e| n.is_multiple_of(*e)).any(|e| {
        let run = (0..n).all(|i| {
            values[i] == values[i / e * e] + i64::try_from(i % e).unwrap() * (values[1] - values[0])
        });
        run && is_layout(&values.iter().step_by(e).copied().collect::<Vec<_>>())
    })
}
