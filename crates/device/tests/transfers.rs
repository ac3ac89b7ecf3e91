//! Tensors in and out of the card: every layout, every view, every dtype.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, bytes_of, card, holds, random, read, rounded, tensor, values};
use zellige_device::Tensor;
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_stick::StickLayout;

const STORED: [Dtype; 11] = [
    Dtype::Float32,
    Dtype::Float16,
    Dtype::Bfloat16,
    Dtype::Float8E4m3fn,
    Dtype::Float8E5m2,
    Dtype::Int64,
    Dtype::Int32,
    Dtype::Int16,
    Dtype::Int8,
    Dtype::Uint8,
    Dtype::Bool,
];

#[test]
fn every_dtype_comes_back_as_stored() {
    let card = card();
    let mut rng = Rng::new(1);
    for round in 0..400 {
        let dtype = STORED[round % STORED.len()];
        let rank = rng.below(5);
        let size = rng.size(rank);
        let values = values(&mut rng, size.iter().product(), dtype);
        let t = tensor(&mut rng, &card, &size, dtype, &values);
        let host = zellige_device::host_format(dtype).unwrap();
        let want: Vec<f64> =
            values.iter().map(|v| rounded(rounded(*v, host), t.format())).collect();
        holds(&t, &want);
    }
    assert_eq!(card.memory().stats().allocated, 0);
}

#[test]
fn a_host_tensor_may_have_any_strides() {
    let card = card();
    let mut rng = Rng::new(2);
    for _ in 0..200 {
        let base = StridedLayout::new_contiguous(&[7, 5, 90]).unwrap();
        let host = match rng.below(5) {
            0 => base.permute(&[2, 0, 1]).unwrap(),
            1 => base.slice_dim(2, Some(3), None, 2).unwrap(),
            2 => base
                .select(1, 3)
                .and_then(|v| v.unsqueeze(1))
                .and_then(|v| v.expand(&[7, 6, 90]))
                .unwrap(),
            3 => base.flip(&[0, 2]).unwrap(),
            _ => base.transpose(0, 2).and_then(|v| v.slice_dim(1, Some(1), Some(4), 1)).unwrap(),
        };
        let values = values(&mut rng, base.numel(), Dtype::Float16);
        let bytes = bytes_of(&values, Dtype::Float16);
        let (t, moved) = Tensor::upload(&card, &bytes, &host, Dtype::Float16, None).unwrap();
        assert_eq!(moved.read, host.numel().unsigned_abs() * 2);
        let flat = StridedLayout::new_contiguous(host.size()).unwrap();
        let want: Vec<f64> = (0..host.numel())
            .map(|i| {
                let c = zellige_layout::unflatten_index(flat.size(), i);
                let at = usize::try_from(host.element_address(&c).unwrap()).unwrap();
                rounded(values[at], t.format())
            })
            .collect();
        holds(&t, &want);
        // And back into a destination with the same strides, where no two elements share a place.
        let mut back = vec![0xaau8; bytes.len()];
        match t.read_into(&mut back, &host, Dtype::Float16) {
            Err(e) => assert_eq!(e.kind(), "aliased"),
            Ok(_) => {
                let mut expected = vec![0xaau8; bytes.len()];
                let halves = bytes_of(&want, Dtype::Float16);
                for i in 0..host.numel() {
                    let c = zellige_layout::unflatten_index(flat.size(), i);
                    let at = usize::try_from(host.element_address(&c).unwrap()).unwrap() * 2;
                    let i = usize::try_from(i).unwrap() * 2;
                    expected[at..at + 2].copy_from_slice(&halves[i..i + 2]);
                }
                assert!(back == expected, "{host:?}");
            }
        }
    }
}

#[test]
fn views_share_memory_and_move_only_their_own() {
    let card = card();
    let mut rng = Rng::new(3);
    for _ in 0..150 {
        let size = [4, 9, 140];
        let (t, held) = random(&mut rng, &card, &size, Dtype::Float16);
        let part = t
            .view_with(|v| {
                v.slice_dim(2, Some(60), Some(135), 1)?
                    .slice_dim(1, Some(2), None, 3)?
                    .transpose(0, 2)
            })
            .unwrap();
        let fresh = values(&mut rng, part.numel(), Dtype::Float16);
        let host = StridedLayout::new_contiguous(part.size()).unwrap();
        let moved =
            part.write_from(&bytes_of(&fresh, Dtype::Float16), &host, Dtype::Float16).unwrap();
        assert_eq!(moved.written, part.valid_bytes());
        let mut want = held.clone();
        for (i, v) in fresh.iter().enumerate() {
            let (c, r, a) = (i / 12, i / 4 % 3, i % 4);
            want[(a * 9 + 2 + 3 * r) * 140 + 60 + c] = rounded(*v, t.format());
        }
        holds(&t, &want);
        // A row view of a base moves its own sticks.
        let base = Tensor::empty(&card, &[40, 128], Dtype::Float16).unwrap();
        let row = base.view_with(|v| v.slice_dim(0, Some(3), Some(4), 1)).unwrap();
        let moved = row.fill(1.5).unwrap();
        assert_eq!(moved.written, 2 * 128);
        assert_eq!(read(&base).iter().filter(|v| **v == 1.5).count(), 128);
    }
}

#[test]
fn copies_between_any_two_layouts_on_the_device() {
    let card = card();
    let mut rng = Rng::new(4);
    for _ in 0..300 {
        let rank = 1 + rng.below(4);
        let size = rng.size(rank);
        let dtype = [Dtype::Float16, Dtype::Int32, Dtype::Int8][rng.below(3)];
        let (src, held) = random(&mut rng, &card, &size, dtype);
        let zeros = vec![0.0; held.len()];
        let dst = tensor(&mut rng, &card, &size, dtype, &zeros);
        dst.copy_from(&src).unwrap();
        holds(&dst, &held);
        // Within one block, through a transposition.
        if rank == 2 && size[0] == size[1] {
            let turned = src.view_with(|v| v.transpose(0, 1)).unwrap();
            src.copy_from(&turned).unwrap();
        }
        let to = [Dtype::Float32, Dtype::Float16, Dtype::Int64][rng.below(3)];
        let layout = StickLayout::default_for_dtype(&size, to).unwrap();
        let (cast, _) = src.to_dtype(to, &layout).unwrap();
        let now = read(&src);
        let want: Vec<f64> = now.iter().map(|v| rounded(*v, cast.format())).collect();
        holds(&cast, &want);
    }
}

#[test]
fn resizing_keeps_the_flat_order() {
    let card = card();
    let mut rng = Rng::new(5);
    for (from, to) in
        [([4, 128], [2, 128]), ([4, 128], [8, 64]), ([3, 70], [5, 100]), ([0, 4], [2, 2])]
    {
        let (t, held) = random(&mut rng, &card, &from, Dtype::Float16);
        let mut want = held.clone();
        want.resize(usize::try_from(to[0] * to[1]).unwrap(), 0.0);
        holds(&t.resized_to(&to).unwrap(), &want);
    }
}

#[test]
fn bad_input_is_refused_and_nothing_is_left_behind() {
    let card = card();
    let host = StridedLayout::new_contiguous(&[4, 64]).unwrap();
    let up = |bytes: usize, dtype, layout: Option<&StickLayout>| {
        Tensor::upload(&card, &vec![0; bytes], &host, dtype, layout).map(|(t, _)| t)
    };
    let kind = |r: Result<Tensor, zellige_device::DeviceError>| r.map(|_| ()).unwrap_err();
    assert_eq!(
        kind(up(511, Dtype::Float16, None)).to_string(),
        "the host source holds 511 bytes, and the tensor needs 512"
    );
    assert_eq!(kind(up(4096, Dtype::Float64, None)).kind(), "unsupported_dtype");
    assert_eq!(kind(up(4096, Dtype::Complex64, None)).kind(), "unsupported_dtype");
    let other = StickLayout::default_for_dtype(&[5, 64], Dtype::Float16).unwrap();
    assert_eq!(kind(up(512, Dtype::Float16, Some(&other))).kind(), "size_mismatch");
    let wrong = StickLayout::default_for_dtype(&[4, 64], Dtype::Int8).unwrap();
    assert!(up(512, Dtype::Float16, Some(&wrong)).is_ok(), "stored as int8: a conversion");
    let huge = StickLayout::default_for_dtype(&[100_000, 1_000_000], Dtype::Float16).unwrap();
    let e = Tensor::zeros(&card, Dtype::Float16, &huge).unwrap_err().to_string();
    assert!(e.contains("split the tensor"), "{e}");
    let t = up(512, Dtype::Float16, None).unwrap();
    assert!(t.view_with(|v| v.as_strided(&[4, 65], &[64, 1], Some(0), None)).is_err());
    assert!(t.view_with(|v| v.select(0, 4)).is_err());
    assert_eq!(t.read_into(&mut [0; 4], &host, Dtype::Float16).unwrap_err().kind(), "host_bytes");
    let before = StridedLayout::new(&[4, 64], &[-64, 1], 0).unwrap();
    assert!(t.write_from(&[0; 4096], &before, Dtype::Float16).is_err());
    drop(t);
    assert_eq!(card.memory().stats().allocated, 0);
}

#[test]
fn a_large_view_is_few_nests() {
    let card = card();
    let t = Tensor::empty(&card, &[4096, 4100], Dtype::Float16).unwrap();
    let part = t
        .view_with(|v| v.slice_dim(1, Some(60), Some(4000), 1)?.slice_dim(0, Some(1), None, 2))
        .unwrap();
    let layout = part.element_layout().unwrap();
    let host = StridedLayout::new_contiguous(part.size()).unwrap().to_layout().unwrap();
    for (a, b) in [(&host, &layout), (&layout, &host)] {
        let plan = zellige_movement::MovePlan::between(
            a,
            b,
            part.size(),
            zellige_movement::PaddingFill::Leave,
        )
        .unwrap();
        assert!(plan.nests().len() <= 3, "{plan}");
        assert!(plan.nests().iter().all(|n| n.starts.len() == 1), "{plan}");
    }
}

#[test]
fn the_ieee_mode_keeps_every_bit() {
    let card = zellige_device::Card::builder()
        .float_mode(zellige_device::FloatMode::Ieee)
        .build()
        .unwrap();
    // Every code of 16 bits, NaNs and subnormals included, comes back as it was.
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let host = StridedLayout::new_contiguous(&[512, 128]).unwrap();
    for dtype in [Dtype::Float16, Dtype::Bfloat16] {
        let (t, _) = Tensor::upload(&card, &bytes, &host, dtype, None).unwrap();
        assert!(t.download(dtype).unwrap() == bytes, "{dtype}");
        let turned = t.view_with(|v| v.transpose(0, 1)).unwrap();
        let copy = Tensor::empty(&card, &[128, 512], dtype).unwrap();
        copy.copy_from(&turned).unwrap();
        assert!(copy.view_with(|v| v.transpose(0, 1)).unwrap().download(dtype).unwrap() == bytes);
    }
    // Arithmetic rounds to float16 there: 2049 is no float16, and a tie goes to even.
    let two = |v: f64| {
        let t = Tensor::empty(&card, &[3], Dtype::Float16).unwrap();
        t.fill(v).unwrap();
        t
    };
    let out = common::run(&card, "add", &serde_json::Value::Null, &[two(2048.0), two(1.0)]);
    holds(&out[0], &[2048.0; 3]);
}
