//! What is refused, and that the card stays usable; what passes through unharmed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, bytes_of, card, holds, random, read};
use serde_json::{Value, json};
use zellige_device::RunOp;
use zellige_device::{Card, DeviceError, KeptDtypes, StreamId, Tensor};
use zellige_float::Dtype;
use zellige_layout::StridedLayout;
use zellige_op::TensorOp;
use zellige_stick::LayoutRequest;

fn add(card: &Card, inputs: &[Tensor]) -> Result<Tensor, DeviceError> {
    Ok(TensorOp::new("add", &Value::Null)?.run_op(card, inputs)?.outputs.remove(0))
}

/// The card still adds.
fn usable(card: &Card) {
    let x = Tensor::empty(card, &[5, 70], Dtype::Float16).unwrap();
    x.fill(1.5).unwrap();
    holds(&add(card, &[x.clone(), x]).unwrap(), &[3.0; 350]);
}

#[test]
fn a_tensor_of_200_gigabytes_is_refused_at_once() {
    let card = card();
    let error = Tensor::empty(&card, &[100_000_000_000], Dtype::Float16).unwrap_err();
    assert_eq!(error.kind(), "too_large");
    assert!(error.to_string().contains("split the tensor"), "{error}");
    for size in [[i64::MAX, 1], [i64::MAX, 2], [1 << 40, 1 << 40]] {
        assert!(Tensor::empty(&card, &size, Dtype::Float16).is_err(), "{size:?}");
    }
    // A tensor that expands to as much as that has a result that does not fit.
    let x = Tensor::empty(&card, &[1, 64], Dtype::Float16).unwrap();
    let wide = x.view_with(|v| v.expand(&[1 << 31, 64])).unwrap();
    assert_eq!(add(&card, &[wide, x]).unwrap_err().kind(), "too_large");
    assert_eq!(card.stats().memory.blocks, 0);
    usable(&card);
}

#[test]
fn out_of_memory_leaves_the_card_usable() {
    let card = card();
    // Seven segments hold one tensor of 16 GiB each; nothing of them is touched.
    let fill: Vec<Tensor> =
        (0..7).map(|_| Tensor::empty(&card, &[1 << 33], Dtype::Float16).unwrap()).collect();
    let error = Tensor::empty(&card, &[1], Dtype::Float16).unwrap_err();
    assert_eq!(error.kind(), "out_of_memory");
    let text = error.to_string();
    for part in ["asked 128 bytes", "used 112 GiB", "free 0 bytes", "largest hole 0 bytes"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let one = fill[0].view_with(|v| v.slice_dim(0, Some(0), Some(1), 1)).unwrap();
    assert_eq!(add(&card, &[one.clone(), one.clone()]).unwrap_err().kind(), "out_of_memory");
    let before = card.stats().memory.allocated;
    drop(fill);
    assert_eq!(card.stats().memory.allocated, before / 7, "a view still holds its base");
    usable(&card);
    drop(one);
    assert_eq!(card.stats().memory.allocated, 0);
}

#[test]
fn freed_tensors_live_on_where_they_are_used() {
    let card = card();
    let mut rng = Rng::new(1);
    let (x, held) = random(&mut rng, &card, &[6, 130], Dtype::Float16);
    let row = x.view_with(|v| v.select(0, 2)).unwrap();
    let stream = StreamId::new(40).unwrap();
    let inner = x.clone();
    let job = move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        inner.fill(1.0).map(drop)
    };
    let work =
        zellige_machine::OperationWork::new("fill", zellige_machine::WorkKind::Other, Vec::new());
    assert_eq!(read(&row), &held[260..390]);
    card.submit_work(stream, &work, job).unwrap();
    drop(x);
    card.synchronize_stream(stream).unwrap();
    holds(&row, &[1.0; 130]);
    drop(row);
    assert_eq!(card.stats().memory.blocks, 0);
    // Its memory is not to be seen by the next owner.
    let next = Tensor::empty(&card, &[6, 130], Dtype::Float16).unwrap();
    holds(&next, &[0.0; 780]);
}

#[test]
fn a_tensor_dropped_while_an_operation_reads_it_is_no_harm() {
    let card = card();
    let x = Tensor::empty(&card, &[512, 512], Dtype::Float16).unwrap();
    x.fill(2.0).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (card, x) = (card.clone(), x.clone());
            scope.spawn(move || {
                for _ in 0..5 {
                    let sum = add(&card, &[x.clone(), x.clone()]).unwrap();
                    holds(&sum, &[4.0; 512 * 512]);
                }
            });
        }
        drop(x);
    });
    assert_eq!(card.stats().memory.blocks, 0);
}

#[test]
fn tensors_of_other_cards_are_refused() {
    let (one, two) = (card(), Card::builder().index(1).build().unwrap());
    let [a, b] = [&one, &two].map(|c| Tensor::empty(c, &[4], Dtype::Float16).unwrap());
    let error = add(&one, &[a.clone(), b.clone()]).unwrap_err();
    assert_eq!(error.to_string(), "add: operand 1 is on card 1, and the operation runs on card 0");
    // Two cards of one number are still two.
    let twin = Tensor::empty(&card(), &[4], Dtype::Float16).unwrap();
    assert!(add(&one, &[a.clone(), twin]).unwrap_err().to_string().contains("another card 0"));
    // A copy goes from card to card.
    b.fill(7.0).unwrap();
    a.copy_from(&b).unwrap();
    holds(&a, &[7.0; 4]);
    usable(&one);
    usable(&two);
}

#[test]
fn bad_core_counts_are_refused() {
    let card = Card::builder().core_count(8).build().unwrap();
    let x = Tensor::empty(&card, &[4], Dtype::Float16).unwrap();
    let op = TensorOp::new("add", &Value::Null).unwrap();
    for cores in [0, 9, 33, usize::MAX] {
        let error = op.run_on_cores(&card, &[x.clone(), x.clone()], cores).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("a card cannot use {cores} cores; accepted are 1 to 8")
        );
    }
    for bad in ["", "0", "33", "-1", "abc", "4.0", "99999999999999999999"] {
        let error = zellige_machine::parse_sencores(bad).unwrap_err().to_string();
        assert_eq!(error, format!("SENCORES is `{bad}`; accepted are 1 to 32"));
    }
    assert_eq!(zellige_machine::parse_sencores("32").unwrap(), 32);
    usable(&card);
}

#[test]
fn nan_and_infinities_pass_through() {
    for mode in ["dl16", "ieee"] {
        let card = Card::builder()
            .float_mode(mode.parse().unwrap())
            .keep_dtypes(KeptDtypes::ALL)
            .build()
            .unwrap();
        for dtype in [Dtype::Float16, Dtype::Bfloat16, Dtype::Float32] {
            let numbers = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1.0];
            let host = StridedLayout::new_contiguous(&[5]).unwrap();
            let bytes = bytes_of(&numbers, dtype);
            let (x, _) = Tensor::upload(&card, &bytes, &host, dtype, None).unwrap();
            let zero = Tensor::empty(&card, &[], dtype).unwrap();
            let same = read(&add(&card, &[x.clone(), zero]).unwrap());
            let held = read(&x);
            assert!(held[0].is_nan() && same[0].is_nan());
            assert_eq!((&held[1..3], &same[1..3]), (&numbers[1..3], &numbers[1..3]), "{dtype}");
            assert_eq!(same[3..], [0.0, 1.0]);
        }
    }
}

#[test]
fn empty_tensors_go_everywhere() {
    let card = card();
    for size in [vec![0], vec![0, 5], vec![5, 0], vec![3, 0, 64]] {
        let host = StridedLayout::new_contiguous(&size).unwrap();
        let (x, _) = Tensor::upload(&card, &[], &host, Dtype::Float16, None).unwrap();
        let sum = add(&card, &[x.clone(), x.clone()]).unwrap();
        assert_eq!((sum.size(), read(&sum).len()), (size.as_slice(), 0));
        assert!(x.download(Dtype::Float32).unwrap().is_empty());
        x.fill(1.0).unwrap();
        let again = Tensor::empty(&card, &size, Dtype::Float16).unwrap();
        again.copy_from(&x).unwrap();
    }
    assert_eq!(card.stats().memory.peak, 0, "nothing takes no memory");
    usable(&card);
}

#[test]
fn host_memory_and_layouts_that_do_not_fit_leave_nothing_behind() {
    let card = card();
    let host = StridedLayout::new_contiguous(&[4, 100]).unwrap();
    let upload = |bytes: &[u8], dtype, choice: Option<&LayoutRequest>| {
        Tensor::upload_as(&card, bytes, (&host, dtype), dtype, choice).map(drop)
    };
    let full = vec![0u8; 800];
    let default = None;
    assert_eq!(upload(&full[1..], Dtype::Float16, default).unwrap_err().kind(), "host_bytes");
    assert!(upload(&full, Dtype::Float64, default).is_err());
    assert!(upload(&full, Dtype::Complex64, default).is_err());
    for choice in [
        LayoutRequest::Stick(2),
        LayoutRequest::Stick(-3),
        LayoutRequest::Order(vec![0]),
        LayoutRequest::Order(vec![0, 0]),
        LayoutRequest::Order(vec![0, 1, 2]),
    ] {
        assert!(upload(&full, Dtype::Float16, Some(&choice)).is_err(), "{choice:?}");
    }
    upload(&full, Dtype::Float16, Some(&LayoutRequest::Stick(-2))).unwrap();
    assert_eq!(card.stats().memory.blocks, 0);
    usable(&card);
}

/// Every operation with operands of every kind, most of which it cannot take: an answer or an error,
/// never a panic, and a card that works on.
#[test]
fn no_operation_panics_on_what_it_cannot_take() {
    let card = Card::builder().host_threads(1).build().unwrap();
    let mut rng = Rng::new(99);
    let dtypes = [
        Dtype::Float16,
        Dtype::Float32,
        Dtype::Int64,
        Dtype::Bool,
        Dtype::Uint8,
        Dtype::Float8E4m3fn,
    ];
    let values = [
        json!(0),
        json!(-1),
        json!(7),
        json!(1.5),
        json!([0, 0]),
        json!("sum"),
        json!(true),
        json!([]),
        json!(i64::MIN),
        Value::Null,
    ];
    for entry in TensorOp::all_rows() {
        for round in 0..60 {
            let mut attributes = serde_json::Map::new();
            for (name, _) in entry.attributes {
                if rng.chance(2) {
                    attributes.insert((*name).into(), values[rng.below(values.len())].clone());
                }
            }
            let attributes = Value::Object(attributes);
            let count = if round % 2 == 0 { entry.operands.len() } else { rng.below(5) };
            let inputs: Vec<Tensor> = (0..count)
                .map(|_| {
                    let dtype = dtypes[rng.below(dtypes.len())];
                    let rank = rng.below(5);
                    let mut size = rng.size(rank);
                    size.iter_mut().for_each(|n| *n = (*n).min(70));
                    if rng.chance(8) && rank > 0 {
                        size[0] = 0;
                    }
                    let t = Tensor::empty(&card, &size, dtype).unwrap();
                    t.fill(rng.number()).unwrap();
                    t
                })
                .collect();
            let what = format!("{} of {inputs:?} with {attributes}", entry.name);
            let run = || TensorOp::new(entry.name, &attributes)?.run_op(&card, &inputs).map(drop);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let result = outcome.unwrap_or_else(|_| panic!("{what}"));
            if let Err(e) = result {
                assert!(!e.to_string().is_empty(), "{what}");
            }
        }
    }
    assert_eq!(card.stats().memory.blocks, 0);
    usable(&card);
}

/// A view may have more elements than a machine has memory: downloading it is an error, and nothing ends the process.
#[test]
fn a_view_that_no_memory_holds_is_not_downloaded() {
    let card = card();
    let host = StridedLayout::new_contiguous(&[1, 1]).unwrap();
    let x = Tensor::upload(&card, &[0; 4], &host, Dtype::Float32, None).unwrap().0;
    for size in [[1 << 30, 1 << 30], [1 << 31, 1 << 31]] {
        let vast = x.view_with(|v| v.expand(&size)).unwrap();
        let error = vast.download(Dtype::Float32).unwrap_err();
        assert_eq!(error.kind(), "host_memory", "{error}");
    }
}
