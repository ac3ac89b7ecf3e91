//! Device dimensions of stride 0: replicas of every element, unless a broadcast host takes them.

use std::collections::{BTreeMap, BTreeSet};
use zellige_layout::{Axis, unflatten_index};
use zellige_stick::{DataFormat, StickError, StickLayout};

/// A generator of small numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).expect("31 bits") % n
    }

    fn of(&mut self, list: &[i64]) -> i64 {
        list[self.below(list.len())]
    }
}

/// A random host and a device layout that may hold it: sizes of the host, cut here and there, in some
/// order, with synthetic dimensions and dimensions of stride 0 between them.
fn case(random: &mut Random) -> (Vec<i64>, Vec<i64>, StickLayout) {
    let size: Vec<i64> = (0..1 + random.below(3)).map(|_| random.of(&[1, 2, 3, 5, 9])).collect();
    let mut own = vec![1; size.len()];
    for d in (1..size.len()).rev() {
        own[d - 1] = own[d] * size[d];
    }
    let mut stride = own.clone();
    if random.below(2) == 0 {
        stride[random.below(size.len())] = 0;
    }
    let read = if random.below(2) == 0 { &own } else { &stride };
    let mut dims: Vec<(i64, i64)> = Vec::new();
    for (n, s) in size.iter().zip(read) {
        let cut = random.of(&[1, 1, 2, 3]);
        dims.push((cut, if *s == 0 { 0 } else { s * ((n + cut - 1) / cut) }));
        dims.push(((n + cut - 1) / cut, *s));
    }
    for _ in 0..random.below(3) {
        dims.push((random.of(&[1, 2, 3]), random.of(&[0, 0, -1])));
    }
    for i in (1..dims.len()).rev() {
        let j = random.below(i + 1);
        dims.swap(i, j);
    }
    dims.push((32, random.of(&[0, -1, 1, 1])));
    let (sizes, map): (Vec<i64>, Vec<i64>) = dims.into_iter().unzip();
    let layout = StickLayout::from_size_and_stride_map(&sizes, &map, DataFormat::IEEE_FP32)
        .expect("well-formed");
    (size, stride, layout)
}

/// Every element of a layout that lowers is alone at the position of the identity, and in every coordinate of
/// each dimension of stride 0 that no broadcast host dimension takes.
#[test]
fn dimensions_of_stride_0_hold_every_element() {
    let mut random = Random(12);
    let (mut lowered, mut replicated) = (0, 0);
    for _ in 0..4_000 {
        let (size, stride, device) = case(&mut random);
        if device.count_positions() > 3_000 {
            continue;
        }
        let bound = device.with_host(&size, Some(&stride)).expect("bound");
        let Ok(layout) = bound.lower_to_layout() else { continue };
        lowered += 1;
        let host = bound.host().expect("bound");
        let shown = || format!("{size:?} {stride:?} own {:?} into {device:?}", host.stride());
        let broadcast = size.iter().zip(host.stride()).any(|(n, s)| *n > 1 && *s == 0);
        let (sizes, map) = (device.device_size(), device.stride_map());
        let free: Vec<usize> = (0..sizes.len()).filter(|j| map[*j] == 0 && sizes[*j] > 1).collect();
        let map_back = bound.build_padding_map().expect("lowered");
        let mut held: BTreeMap<i64, i64> = BTreeMap::new();
        for flat in 0..layout.size() {
            let coordinate = unflatten_index(&size, flat);
            let offset: i64 = coordinate.iter().zip(host.stride()).map(|(c, s)| c * s).sum();
            let places: BTreeSet<i64> = layout
                .physical_coordinates(flat)
                .expect("inside")
                .sorted_coordinates()
                .iter()
                .map(|p| p.get(Axis::M))
                .collect();
            for place in &places {
                let at = unflatten_index(sizes, *place);
                assert_eq!(bound.own_stride_offset(&at), Ok(offset), "{}", shown());
                assert!((0..at.len()).all(|j| map[j] != -1 || at[j] == 0), "{}", shown());
                assert_eq!(held.insert(*place, flat), None, "{}", shown());
                assert_eq!(map_back.element_at(*place), Ok(Some(flat)), "{}", shown());
            }
            if !broadcast {
                let want: i64 = free.iter().map(|j| sizes[*j]).product();
                assert_eq!(i64::try_from(places.len()), Ok(want), "{}", shown());
                for place in &places {
                    for j in &free {
                        for value in 0..sizes[*j] {
                            let mut at = unflatten_index(sizes, *place);
                            at[*j] = value;
                            let flat = at.iter().zip(sizes).fold(0, |f, (c, n)| f * n + c);
                            assert!(places.contains(&flat), "{}", shown());
                        }
                    }
                }
                replicated += i32::from(want > 1);
            }
        }
        let padding = (0..bound.count_positions()).filter(|p| !held.contains_key(p)).count();
        assert_eq!(i64::try_from(padding), Ok(map_back.count_padding()), "{}", shown());
    }
    assert!(lowered > 300 && replicated > 300, "{lowered} {replicated}");
}

/// A broadcast host for which the dimensions of stride 0 have no room is read in its own strides.
#[test]
fn a_broadcast_host_without_a_broadcast_dimension_has_its_own_strides() {
    let device = StickLayout::from_size_and_stride_map(
        &[2, 2, 1, 2, 128],
        &[63, 0, 128, 0, 1],
        DataFormat::SENINT8,
    )
    .expect("well-formed");
    let bound = device.with_host(&[2, 63], Some(&[1, 0])).expect("bound");
    assert_eq!(bound.host().map(|h| h.stride().to_vec()), Some(vec![63, 1]));
    let layout = bound.lower_to_layout().expect("lowers");
    let points =
        layout.apply_to_coordinate(&[2, 63], &[1, 5]).expect("inside").sorted_coordinates();
    let places: Vec<i64> = points.iter().map(|p| p.get(Axis::M)).collect();
    assert_eq!(places, [512 + 5, 512 + 128 + 5, 512 + 256 + 5, 512 + 384 + 5]);
    // Where there is room, the broadcast is taken.
    let room =
        StickLayout::from_size_and_stride_map(&[63, 2, 128], &[0, 1, -1], DataFormat::SENINT8);
    let bound = room.and_then(|d| d.with_host(&[2, 63], Some(&[1, 0]))).expect("bound");
    assert_eq!(bound.host().map(|h| h.stride().to_vec()), Some(vec![1, 0]));
    // And where neither reading does, the refusal names the broadcast.
    let none =
        StickLayout::from_size_and_stride_map(&[2, 2, 128], &[7, 0, -1], DataFormat::SENINT8);
    let bound = none.and_then(|d| d.with_host(&[2, 63], Some(&[1, 0]))).expect("bound");
    assert!(
        matches!(bound.lower_to_layout(), Err(StickError::HostNotCovered { .. })),
        "{:?}",
        bound.lower_to_layout()
    );
}
