//! Host tensors and their views, against enumeration of the elements.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use zellige_layout::{Axis, Iter, Layout, StridedLayout, TileLayout, unflatten_index};

/// The addresses of all elements in row-major order.
fn addresses(t: &StridedLayout) -> Vec<i64> {
    (0..t.numel()).map(|i| t.element_address(&unflatten_index(t.size(), i)).unwrap()).collect()
}

fn parts(t: &StridedLayout) -> (Vec<i64>, Vec<i64>, i64) {
    (t.size().to_vec(), t.stride().to_vec(), t.offset())
}

fn rm(size: &[i64]) -> StridedLayout {
    StridedLayout::new_contiguous(size).unwrap()
}

#[test]
fn constructors_check() {
    assert_eq!(StridedLayout::new(&[2, 3], &[3], 0).unwrap_err().kind(), "length_mismatch");
    assert_eq!(StridedLayout::new(&[-2], &[1], 0).unwrap_err().kind(), "negative_extent");
    assert_eq!(StridedLayout::new_contiguous(&[3, -1]).unwrap_err().kind(), "negative_extent");
    assert_eq!(StridedLayout::new(&[1 << 40, 1 << 40], &[0, 0], 0).unwrap_err().kind(), "overflow");
    assert_eq!(StridedLayout::new(&[3], &[i64::MAX], 0).unwrap_err().kind(), "overflow");
    assert_eq!(StridedLayout::new(&[2], &[i64::MIN], -1).unwrap_err().kind(), "overflow");
    assert!(StridedLayout::new(&[0, 1 << 40, 1 << 40], &[i64::MAX; 3], i64::MAX).is_ok());
    assert_eq!(rm(&[2, 0, 3]).address_range(), None);
    let range = StridedLayout::new(&[3, 4], &[-10, 2], 5).unwrap().address_range().unwrap();
    assert_eq!((range.min, range.max), (-15, 11));
}

#[test]
fn queries_ignore_the_strides_of_unit_dimensions() {
    let odd = |size: &[i64], stride: &[i64]| StridedLayout::new(size, stride, 0).unwrap();
    assert!(odd(&[1, 3, 1, 4], &[99, 4, -7, 1]).is_row_major());
    assert!(odd(&[3, 1, 4], &[1, 1234, 3]).is_column_major());
    assert!(odd(&[1, 1], &[5, 9]).is_row_major() && odd(&[1, 1], &[5, 9]).is_column_major());
    assert!(!odd(&[2, 2], &[1, 2]).is_row_major());
    assert!(rm(&[0, 5]).is_row_major() && rm(&[]).is_row_major());
    // NCHW with the memory order NHWC, and NCDHW with NDHWC.
    assert!(odd(&[2, 3, 4, 5], &[60, 1, 15, 3]).is_channels_last());
    assert!(odd(&[2, 3, 4, 5, 6], &[360, 1, 90, 18, 3]).is_channels_last());
    assert!(odd(&[2, 1, 4, 5], &[20, 777, 5, 1]).is_channels_last());
    assert!(!rm(&[2, 3, 4, 5]).is_channels_last());
    assert!(!rm(&[3, 4]).is_channels_last());
    assert_eq!(parts(&odd(&[1, 3, 1], &[9, 2, 9]).canonical_form()), (vec![3], vec![2], 0));
}

#[test]
fn own_strides_are_the_hosts_where_it_is_dense() {
    let own =
        |size: &[i64], stride: &[i64]| StridedLayout::new(size, stride, 7).unwrap().own_strides();
    assert_eq!(own(&[40, 60], &[1, 40]), Ok(vec![1, 40]));
    assert_eq!(own(&[40, 60], &[120, 1]), Ok(vec![60, 1]));
    assert_eq!(own(&[40, 130], &[1, 0]), Ok(vec![130, 1]));
    assert_eq!(own(&[2, 2], &[-2, 1]), Ok(vec![2, 1]));
    assert_eq!(own(&[4, 1], &[1, 55]), Ok(vec![1, 55]));
}

#[test]
fn views_are_pytorchs() {
    let x = rm(&[2, 3, 4]);
    assert_eq!(parts(&x.transpose(0, -1).unwrap()), (vec![4, 3, 2], vec![1, 4, 12], 0));
    assert_eq!(parts(&x.permute(&[2, 0, -2]).unwrap()), (vec![4, 2, 3], vec![1, 12, 4], 0));
    assert!(x.permute(&[0, 0, 1]).is_err() && x.permute(&[0, 1]).is_err());
    assert!(x.transpose(0, 3).is_err() && x.transpose(-4, 0).is_err());
    assert_eq!(rm(&[]).transpose(0, -1).unwrap(), rm(&[]));

    let s = |a, b, step| parts(&rm(&[10]).slice_dim(0, a, b, step).unwrap());
    assert_eq!(s(Some(2), Some(9), 3), (vec![3], vec![3], 2));
    assert_eq!(s(Some(-3), None, 1), (vec![3], vec![1], 7));
    assert_eq!(s(Some(-30), Some(30), 1), (vec![10], vec![1], 0));
    assert_eq!(s(Some(8), Some(2), 1), (vec![0], vec![1], 8));
    assert_eq!(s(Some(i64::MIN), Some(i64::MAX), 4), (vec![3], vec![4], 0));
    assert!(rm(&[10]).slice_dim(0, None, None, 0).is_err());
    assert!(rm(&[10]).slice_dim(0, None, None, i64::MAX).is_ok());
    assert!(rm(&[]).slice_dim(0, None, None, 1).is_err());

    assert_eq!(parts(&x.select(1, -1).unwrap()), (vec![2, 4], vec![12, 1], 8));
    assert!(x.select(1, 3).is_err() && x.select(1, -4).is_err() && x.select(0, i64::MIN).is_err());

    let column = rm(&[3, 1]);
    assert_eq!(parts(&column.expand(&[2, -1, 4]).unwrap()), (vec![2, 3, 4], vec![0, 1, 0], 0));
    assert_eq!(parts(&column.expand(&[3, 0]).unwrap()), (vec![3, 0], vec![1, 0], 0));
    assert!(column.expand(&[4, 1]).is_err() && column.expand(&[3]).is_err());
    assert!(column.expand(&[-1, 3, 1]).is_err() && column.expand(&[3, -2]).is_err());

    assert_eq!(parts(&rm(&[1, 3, 1]).squeeze(None).unwrap()), (vec![3], vec![1], 0));
    assert_eq!(rm(&[1, 3, 1]).squeeze(Some(-1)).unwrap().size(), [1, 3]);
    assert_eq!(x.squeeze(Some(0)).unwrap(), x);
    assert_eq!(parts(&x.unsqueeze(-1).unwrap()), (vec![2, 3, 4, 1], vec![12, 4, 1, 1], 0));
    assert_eq!(x.unsqueeze(1).unwrap().stride(), [12, 12, 4, 1]);
    assert!(x.unsqueeze(4).is_err());

    let windows = rm(&[7]).unfold(0, 3, 2).unwrap();
    assert_eq!(parts(&windows), (vec![3, 3], vec![2, 1], 0));
    assert!(rm(&[7]).unfold(0, 8, 1).is_err() && rm(&[7]).unfold(0, 2, 0).is_err());
    assert_eq!(parts(&rm(&[]).unfold(0, 1, 1).unwrap()), (vec![1], vec![1], 0));

    let diagonal = x.as_strided(&[2], &[13], None, Some(24)).unwrap();
    assert_eq!(addresses(&diagonal), [0, 13]);
    assert_eq!(x.as_strided(&[3], &[13], None, Some(24)).unwrap_err().kind(), "out_of_range");
    assert!(x.as_strided(&[2], &[1], Some(-1), Some(24)).is_err());
    assert_eq!(addresses(&rm(&[2, 3]).flip(&[1]).unwrap()), [2, 1, 0, 5, 4, 3]);
    assert!(x.flip(&[0, -3]).is_err());
}

#[test]
fn view_cuts_runs_and_names_what_needs_a_copy() {
    let x = rm(&[4, 6]);
    assert_eq!(parts(&x.view(&[2, -1, 3]).unwrap()), (vec![2, 4, 3], vec![12, 3, 1], 0));
    assert_eq!(x.view(&[5, 5]).unwrap_err().kind(), "size_mismatch");
    assert_eq!(x.view(&[5, -1]).unwrap_err().kind(), "size_mismatch");
    assert!(x.view(&[-1, -1]).is_err() && x.view(&[-2, 12]).is_err());
    let t = x.transpose(0, 1).unwrap();
    assert_eq!(t.view(&[2, 3, 4]).unwrap().stride(), [3, 1, 6]);
    let e = t.view(&[24]).unwrap_err();
    assert_eq!(e.kind(), "needs_copy");
    assert!(e.to_string().contains("dimension 1 (size 4, stride 6)"), "{e}");
    assert!(t.reshape(&[24]).unwrap_err().to_string().starts_with("reshape needs a copy"));
    let narrow = x.slice_dim(1, Some(1), Some(5), 1).unwrap();
    assert_eq!(narrow.view(&[2, 2, 4]).unwrap().stride(), [12, 6, 1]);
    assert_eq!(narrow.view(&[16]).unwrap_err().kind(), "needs_copy");
    assert_eq!(rm(&[]).view(&[1, 1]).unwrap().numel(), 1);
    assert_eq!(rm(&[1]).view(&[]).unwrap().rank(), 0);
    assert_eq!(parts(&rm(&[3, 0]).view(&[0, 5]).unwrap()), (vec![0, 5], vec![5, 1], 0));
    assert!(rm(&[3, 0]).view(&[0, -1]).is_err());
    assert_eq!(rm(&[3, 0]).view(&[-1, 3]).unwrap().size(), [0, 3]);
    let broadcast = rm(&[1]).expand(&[6]).unwrap();
    assert_eq!(broadcast.view(&[2, 3]).unwrap().stride(), [0, 0]);
}

#[test]
fn negative_strides_lower_to_the_algebra() {
    let x = StridedLayout::new(&[3, 4], &[-4, 2], 20).unwrap();
    let layout = x.to_layout().unwrap();
    for (i, a) in (0..).zip(addresses(&x)) {
        assert_eq!(layout.physical_coordinates(i).unwrap().sorted_coordinates()[0].get(Axis::M), a);
    }
}

/// RoPE turns a row `(x1, x2)` into `(x2, x1)`. Splitting the row into its two halves and stepping
/// backwards over them is a view without a copy, and so is its layout.
#[test]
fn the_half_rotation_of_rope_is_a_layout() {
    let (rows, d) = (5, 16);
    let x = rm(&[rows, d]);
    let rotated = x.view(&[rows, 2, d / 2]).unwrap().flip(&[1]).unwrap();
    let tile = TileLayout::new(
        vec![Iter::in_memory(rows, d), Iter::in_memory(2, -d / 2), Iter::in_memory(d / 2, 1)],
        vec![],
        [(Axis::M, d / 2)],
    );
    let layout = Layout::from(tile.unwrap());
    assert_eq!(rotated.to_layout().unwrap(), layout);
    for row in 0..rows {
        for col in 0..d {
            let place =
                layout.apply_to_coordinate(&[rows, d], &[row, col]).unwrap().sorted_coordinates()
                    [0]
                .get(Axis::M);
            assert_eq!(place, row * d + (col + d / 2) % d);
        }
    }
}

/// A tensor of up to four small dimensions, contiguous, permuted and sliced.
fn tensor() -> impl Strategy<Value = StridedLayout> {
    let dims = prop::collection::vec((0i64..5, 1i64..3), 0..4);
    (dims, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(dims, a, b)| {
        let full: Vec<i64> = dims.iter().map(|(n, step)| n * step).collect();
        let mut t = rm(&full);
        for (d, (_, step)) in (0..).zip(&dims) {
            t = t.slice_dim(d, None, None, *step).unwrap();
        }
        if !dims.is_empty() {
            let at = |i: prop::sample::Index| i64::try_from(i.index(dims.len())).unwrap();
            t = t.transpose(at(a), at(b)).unwrap();
        }
        t
    })
}

/// Whether some strides give the elements of `t` the shape: those that the first step of each
/// dimension has are the only candidates.
fn steps_fit(t: &StridedLayout, shape: &[i64]) -> bool {
    let all = addresses(t);
    let mut weight = 1;
    let mut stride = vec![0; shape.len()];
    for (s, n) in stride.iter_mut().zip(shape).rev() {
        if *n > 1 {
            *s = all[usize::try_from(weight).unwrap()] - all[0];
        }
        weight *= n;
    }
    let view = StridedLayout::new(shape, &stride, all[0]).unwrap();
    addresses(&view) == all
}

proptest! {
    /// A view has the elements of its tensor, in the same order; it is refused only where no
    /// strides can say that.
    #[test]
    fn views_keep_the_row_major_order(t in tensor(), cut in 1i64..7) {
        let n = t.numel();
        for shape in [vec![n], vec![n, 1], vec![cut, n / cut], vec![n / cut, 1, cut]] {
            match t.view(&shape) {
                Ok(v) => prop_assert_eq!(addresses(&v), addresses(&t)),
                Err(e) if e.kind() == "size_mismatch" => {}
                Err(e) => {
                    prop_assert_eq!(e.kind(), "needs_copy");
                    prop_assert!(!steps_fit(&t, &shape), "{:?} as {:?}", t, shape);
                }
            }
        }
    }

    /// Dense means: as many addresses as elements, without a gap.
    #[test]
    fn density_is_what_it_says(t in tensor()) {
        let mut a = addresses(&t);
        a.sort_unstable();
        let dense = a.windows(2).all(|w| w[1] == w[0] + 1);
        prop_assert_eq!(t.is_dense_non_overlapping(), dense);
        prop_assert_eq!(t.canonical_form().numel(), t.numel());
        prop_assert_eq!(addresses(&t.canonical_form()), addresses(&t));
    }

    /// Nothing panics, whatever the numbers.
    #[test]
    fn extreme_arguments_are_refused_or_right(
        a in any::<i64>(), b in any::<i64>(), c in any::<i64>(), d in -4i64..4,
    ) {
        let x = rm(&[3, 4]);
        let _ = x.slice_dim(d, Some(a), Some(b), c);
        let _ = x.select(d, a);
        let _ = x.unfold(d, a, b);
        let _ = x.view(&[a, b]);
        let _ = x.expand(&[a, b, c]);
        let _ = x.as_strided(&[3, 4], &[a, b], Some(c), Some(12));
        if let Ok(t) = StridedLayout::new(&[2, 3], &[a, b], c) {
            let _ = (t.own_strides(), t.view(&[6]), t.flip(&[0, 1]), t.unsqueeze(d), t.to_layout());
            let _ = t.slice_dim(0, Some(a), Some(b), 2);
        }
    }
}
