//! Transfers that other implementations get wrong: each is an ordinary move, and exact.

#![allow(clippy::cast_possible_truncation, reason = "the low bits of a number are the value")]

use zellige_float::Dtype;
use zellige_layout::{Axis, Layout, StridedLayout};
use zellige_movement::{MovePlan, Mover, PaddingFill, reference};
use zellige_stick::StickLayout;

/// Elements that a buffer of a layout holds, padding included.
fn elements(l: &Layout) -> usize {
    usize::try_from(l.padded_domain().axis_span(Axis::M).expect("small").max(0)).expect("small")
}

const STALE: u16 = 0x5a5a;

/// The destination after a move of numbered elements, by the engine; it equals the reference.
fn moved(src: &Layout, dst: &Layout, shape: &[i64], room: usize) -> (MovePlan, Vec<u16>) {
    let from: Vec<u16> = (0..elements(src)).map(|i| i as u16).collect();
    let mut want = vec![STALE; room.max(elements(dst))];
    reference::move_elements(src, dst, &from, &mut want, None).expect("small");
    let plan = MovePlan::between(src, dst, shape, PaddingFill::Leave).expect("a plan");
    let bytes = |v: &[u16]| -> Vec<u8> { v.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let mut got = bytes(&vec![STALE; want.len()]);
    let mover = Mover::new(&plan, 2).expect("a width");
    mover.run_on_slices(&bytes(&from), &mut got, None, 1).expect("long enough");
    assert!(got == bytes(&want), "{src:?} -> {dst:?}\n{plan}");
    (plan, want)
}

fn host(size: &[i64], stride: &[i64], offset: i64) -> Layout {
    StridedLayout::new(size, stride, offset).and_then(|s| s.to_layout()).expect("a host")
}

fn sticks(size: &[i64]) -> Layout {
    StickLayout::default_for_dtype(size, Dtype::Float16)
        .and_then(|s| s.lower_to_layout())
        .expect("a layout")
}

fn ordered(size: &[i64], order: &[i64]) -> Layout {
    let stick = StickLayout::with_dim_order(size, None, Dtype::Float16, order);
    stick.and_then(|s| s.lower_to_layout()).expect("a layout")
}

#[test]
fn first_strided_and_expanded_sticks_over_several_sticks() {
    // arange(200)[::2]
    let (_, image) = moved(&host(&[100], &[2], 0), &sticks(&[100]), &[100], 0);
    assert_eq!((image[63], image[64], image[99], image[100]), (126, 128, 198, STALE));
    // rand(40, 1).expand(40, 130)
    let (_, image) = moved(&host(&[40, 130], &[1, 0], 0), &sticks(&[40, 130]), &[40, 130], 0);
    assert_eq!(
        (image[5 * 64], image[40 * 64 + 5 * 64 + 63], image[2 * 40 * 64 + 39 * 64]),
        (5, 5, 39)
    );
}

#[test]
fn second_inexact_stride_ratios() {
    // rand(40, 120)[:, :50]
    let (_, image) = moved(&host(&[40, 50], &[120, 1], 0), &sticks(&[40, 50]), &[40, 50], 0);
    assert_eq!((image[7 * 64 + 49], image[7 * 64 + 50]), (7 * 120 + 49, STALE));
}

#[test]
fn third_back_into_destinations_that_are_not_contiguous() {
    let size = [40, 100];
    // A transpose, and a slice of a wider tensor: the elements between stay unchanged.
    moved(&sticks(&size), &host(&size, &[1, 40], 0), &size, 0);
    let (_, image) = moved(&sticks(&size), &host(&size, &[120, 1], 10), &size, 40 * 120);
    assert_eq!((image[9], image[110], image[10]), (STALE, STALE, 0));
    assert_eq!(image[120 + 10], 64, "row 1 begins in the second stick of the image");
}

#[test]
fn fourth_into_a_part_of_a_device_tensor() {
    let whole = sticks(&[8, 128]);
    let rows = whole.slice_region(&[8, 128], &[(3, 5), (0, 128)]).expect("rows of sticks");
    let (_, image) = moved(&host(&[2, 128], &[128, 1], 0), &rows, &[2, 128], elements(&whole));
    assert_eq!((image[0], image[2 * 64], image[3 * 64], image[4 * 64 + 1]), (STALE, STALE, 0, 129));
    assert_eq!(image.iter().filter(|v| **v != STALE).count(), 256);
}

#[test]
fn fifth_another_size_in_flat_order() {
    // resize_([4, 128] -> [2, 128]) keeps the first 256 elements in flat order.
    let old = sticks(&[4, 128]);
    let kept = old.slice_region(&[4, 128], &[(0, 2), (0, 128)]).expect("the first rows");
    let (_, image) = moved(&kept, &sticks(&[2, 128]), &[2, 128], 0);
    assert_eq!((image[64], image[128], image[3 * 64]), (64, 4 * 64, 5 * 64));
}

#[test]
fn sixth_from_one_device_layout_to_another() {
    let size = [100, 70];
    moved(&sticks(&size), &ordered(&size, &[1, 0]), &size, 0);
    moved(&ordered(&size, &[1, 0]), &sticks(&size), &size, 0);
}

#[test]
fn seventh_a_row_moves_only_its_own_sticks() {
    let whole = sticks(&[64, 256]);
    let row = whole.slice_region(&[64, 256], &[(17, 18), (0, 256)]).expect("one row");
    let (plan, _) = moved(&row, &host(&[1, 256], &[256, 1], 0), &[1, 256], 0);
    let cost = plan.cost_in_bytes(2, 2);
    assert_eq!((cost.bytes_read, cost.runs), (4 * 128, 4), "four sticks of 128 bytes");
}

#[test]
fn eighth_nothing_at_all() {
    for size in [[4, 0], [0, 4], [0, 0]] {
        let (plan, image) = moved(&host(&size, &[1, 1], 0), &sticks(&size), &size, 0);
        assert_eq!((plan.nests().len(), plan.element_count(), image.len()), (0, 0, 0), "{size:?}");
        let mover = Mover::new(&plan, 2).expect("a width");
        mover.run_on_slices(&[], &mut [], None, 8).expect("nothing is enough");
    }
}

#[test]
fn ninth_sparse_to_dense_and_back() {
    let size = [6, 70];
    let sparse = ordered(&size, &[0, 1, -1]);
    moved(&sparse, &sticks(&size), &size, 0);
    let (_, image) = moved(&sticks(&size), &sparse, &size, 0);
    assert_eq!(image.iter().filter(|v| **v != STALE).count(), 420);
}
