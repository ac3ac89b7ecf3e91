//! The tensor behind a device layout: its strides, the box it is a corner of, and elements that no device
//! position holds.

use crate::common::{check_laws, f16, fields};
use zellige_float::Dtype;
use zellige_stick::{DataFormat, StickError, StickLayout};

#[test]
fn uncovered_hosts_have_a_witness() {
    let short = f16(&[1, 30, 64], &[64, 60, 1]).with_host(&[40, 60], None).unwrap();
    match short.lower_to_layout() {
        Err(StickError::HostNotCovered { index, .. }) => assert_eq!(index, 39 * 60),
        other => panic!("{other:?}"),
    }
    // Rows of 70 on sticks that are 70 apart: lanes 64 to 69 are nowhere.
    let gap = f16(&[40, 64], &[70, 1]).with_host(&[40, 70], None).unwrap();
    match gap.lower_to_layout() {
        Err(StickError::HostNotCovered { index, .. }) => assert!((64..70).contains(&(index % 70))),
        other => panic!("{other:?}"),
    }
    let coarse = f16(&[2, 64], &[128, 2]).with_host(&[128], None).unwrap();
    assert_eq!(coarse.lower_to_layout().unwrap_err().kind(), "host_not_covered");
    // 100 elements in rows of 60: the last row is short.
    check_laws(&f16(&[2, 64], &[60, 1]).with_host(&[100], None).unwrap());
    // 130 elements in rows of 100, each cut into sticks: the elements are no box.
    let ragged = f16(&[2, 2, 64], &[64, 100, 1]).with_host(&[130], None).unwrap();
    assert_eq!(ragged.lower_to_layout().unwrap_err().kind(), "bad_stick");
}

#[test]
fn own_strides_may_have_gaps() {
    let l = f16(&[20, 2, 13, 64], &[128, 64, 4096, 1]);
    check_laws(&l.with_own_strides(&[10, 20, 100], &[4096, 128, 1]).unwrap());
    // A contiguous tensor of that size does not fit these strides.
    assert!(l.with_host(&[10, 20, 100], None).unwrap().lower_to_layout().is_err());
    let overlap = l.with_own_strides(&[4, 4], &[2, 1]).unwrap();
    assert_eq!(overlap.lower_to_layout().unwrap_err().kind(), "bad_parameter");
    assert!(l.with_own_strides(&[4, 4], &[-4, 1]).is_err());
    // A reversed host is not dense in the forward sense, so it is read row-major.
    check_laws(&f16(&[1, 40, 64], &[64, 60, 1]).with_host(&[40, 60], Some(&[-60, 1])).unwrap());
}

/// The padded example of the device's documents: `[100, 200, 500]` in the layout of `[128, 256, 512]`. Element
/// `(i, j, k)` is at device coordinate `(j, k / 64, i, k % 64)`.
#[test]
fn a_corner_of_a_padded_box_keeps_the_strides_of_the_box() {
    let l = f16(&[256, 8, 128, 64], &[512, 64, 131_072, 1]);
    let (size, padded) = ([100, 200, 500], [131_072, 512, 1]);
    let given = l.with_own_strides(&size, &padded).unwrap();
    for bound in [
        given.clone(),
        // A contiguous host, one in the memory of the padded tensor, one in memory with other gaps.
        l.with_host(&size, None).unwrap(),
        l.with_host(&size, Some(&padded)).unwrap(),
        l.with_host(&size, Some(&[200_000, 1000, 1])).unwrap(),
        // What was given stays.
        given.with_host(&size, None).unwrap(),
        given.with_host(&size, Some(&[100_000, 500, 1])).unwrap(),
    ] {
        assert_eq!(bound.host().unwrap().stride(), padded);
        let map = bound.build_padding_map().unwrap();
        for c in [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 499], [99, 199, 499], [37, 101, 257]] {
            let device = [c[1], c[2] / 64, c[0], c[2] % 64];
            assert_eq!(map.device_coordinate_of(&c).unwrap(), device, "{c:?}");
            assert_eq!(map.host_coordinate_at(&device).unwrap(), Some(c.to_vec()));
        }
        // A lane past the row, a row past the columns, a step past the first dimension: padding, not the
        // next element.
        for device in [[0, 7, 0, 52], [200, 0, 0, 0], [0, 0, 100, 0], [255, 7, 127, 63]] {
            assert_eq!(map.host_coordinate_at(&device).unwrap(), None, "{device:?}");
        }
        assert_eq!(map.count_padding(), 256 * 8 * 128 * 64 - 100 * 200 * 500);
    }
    // The sizes decide whether the strides of the tensor itself are those of the map, in whole or in part.
    let whole = l.with_host(&[128, 256, 512], None).unwrap();
    assert!(whole.host().unwrap().is_row_major());
    let rows = l.with_host(&[100, 256, 512], None).unwrap();
    assert_eq!(rows.host().unwrap().stride(), padded);
    let part = l.with_host(&[100, 200, 512], None).unwrap();
    assert_eq!(part.host().unwrap().stride(), padded);
    // Dimensions of size 1 take nothing of the box.
    let one = l.with_host(&[100, 1, 200, 500], None).unwrap();
    assert_eq!(&one.host().unwrap().stride()[2..], [512, 1]);
    check_laws(&f16(&[6, 2, 5, 64], &[128, 64, 768, 1]).with_host(&[4, 5, 100], None).unwrap());
    // A transposed host has the strides of the transposed box.
    let turned = f16(&[6, 2, 64], &[128, 64, 1]).with_host(&[100, 5], Some(&[1, 100])).unwrap();
    assert_eq!(turned.host().unwrap().stride(), [1, 128]);
    check_laws(&turned);
    // A tensor that was declared as folded over the sticks stays so, although it would fit into the box.
    let flat = f16(&[40, 64], &[64, 1]);
    let said = flat.with_own_strides(&[40, 60], &[60, 1]).unwrap();
    assert_eq!(said.with_host(&[40, 60], None).unwrap().host(), said.host());
    let found = flat.with_host(&[40, 60], None).unwrap();
    assert_eq!(found.host().unwrap().stride(), [64, 1]);
    assert_eq!([said.tells_its_strides(), found.tells_its_strides()], [false, false]);
    assert!(whole.tells_its_strides() && !part.tells_its_strides() && flat.tells_its_strides());
    // What does not fit into the box is folded over the sticks, as before.
    let folded = f16(&[38, 64], &[64, 1]).with_host(&[40, 60], None).unwrap();
    assert_eq!(folded.host().unwrap().stride(), [60, 1]);
    check_laws(&folded);
}

#[test]
fn broadcast_hosts_keep_their_own_places() {
    let l = StickLayout::with_dim_order(&[4, 6], Some(&[0, 1]), Dtype::Float16, &[0, 1]).unwrap();
    assert_eq!(fields(&l), (vec![1, 4, 64], vec![64, 0, 1]));
    check_laws(&l);
    check_laws(&f16(&[1, 4, 64], &[64, 0, 1]).with_host(&[4, 6], Some(&[0, 1])).unwrap());
    // An order of dimensions takes the strides as they are; the default layout of a host that is not
    // dense is that of its own strides, as the recorded transfers have it.
    let order = &[0, 1];
    let stick =
        StickLayout::with_dim_order(&[4, 130], Some(&[1, 0]), Dtype::Float16, order).unwrap();
    assert_eq!(fields(&stick), (vec![3, 4, 64], vec![0, 1, 0]));
    check_laws(&stick);
    let own =
        StickLayout::default_in_format(&[40, 130], Some(&[1, 0]), DataFormat::SEN169_FP16).unwrap();
    assert_eq!(fields(&own), (vec![3, 40, 64], vec![64, 130, 1]));
    check_laws(&own);
    let order = &[0, 1, 2];
    check_laws(
        &StickLayout::with_dim_order(&[3, 5, 7], Some(&[0, 0, 1]), Dtype::Float16, order).unwrap(),
    );
    // An expanded host on a layout without broadcast dimensions is read row-major.
    check_laws(&f16(&[3, 40, 64], &[64, 130, 1]).with_host(&[40, 130], Some(&[1, 0])).unwrap());
    let missing = l.with_own_strides(&[4, 9, 6], &[0, 0, 1]).unwrap();
    assert_eq!(missing.lower_to_layout().unwrap_err().kind(), "host_not_covered");
}

#[test]
fn permuted_hosts_fold_where_the_device_is_one_line() {
    check_laws(&f16(&[38, 64], &[64, 1]).with_host(&[40, 60], Some(&[1, 40])).unwrap());
    check_laws(&f16(&[1, 60, 64], &[64, 40, 1]).with_host(&[40, 60], Some(&[1, 40])).unwrap());
    check_laws(&f16(&[2, 20, 64], &[1280, 64, 1]).with_host(&[64, 40], Some(&[1, 64])).unwrap());
    // Blocks of two host rows: the outer host dimension is left with a digit above the stick.
    check_laws(&f16(&[5, 64], &[64, 1]).with_host(&[32, 10], Some(&[1, 32])).unwrap());
    check_laws(&f16(&[20, 2, 64], &[32, 640, 1]).with_host(&[32, 40], Some(&[1, 32])).unwrap());
}
