//! Layouts of the cases, by what they are called.
//!
//! They panic on sizes that no layout has: the cases are written down, not given.

use zellige_float::Dtype;
use zellige_layout::{Layout, TileLayout};
use zellige_stick::StickLayout;

/// A strided view of memory, its first element at `offset`.
pub fn strided_view(size: &[i64], stride: &[i64], offset: i64) -> Layout {
    TileLayout::from_strides(size, stride, offset).expect("the cases are small").into()
}

/// A dense array, the last dimension fastest.
pub fn row_major(size: &[i64]) -> Layout {
    TileLayout::row_major(size).expect("the cases are small").into()
}

/// The strides of a dense array whose dimension `i` in memory is `perm[i]` of the logical shape.
pub fn permuted_strides(size: &[i64], perm: &[usize]) -> Vec<i64> {
    let mut stride = vec![0; size.len()];
    let mut next = 1;
    for p in perm.iter().rev() {
        stride[*p] = next;
        next *= size[*p];
    }
    stride
}

/// A dense array whose dimension `i` in memory is `perm[i]` of the logical shape.
pub fn permuted_layout(size: &[i64], perm: &[usize]) -> Layout {
    strided_view(size, &permuted_strides(size, perm), 0)
}

/// The default device layout.
pub fn stick_layout(size: &[i64], dtype: Dtype) -> Layout {
    StickLayout::default_for_dtype(size, dtype)
        .and_then(|s| s.lower_to_layout())
        .expect("the dtype has sticks")
}

/// The device layout whose last dimension in `order` is the one in sticks.
pub fn sticks_in_order(size: &[i64], dtype: Dtype, order: &[i64]) -> Layout {
    let stick = StickLayout::with_dim_order(size, None, dtype, order);
    stick.and_then(|s| s.lower_to_layout()).expect("an order of the dimensions")
}
