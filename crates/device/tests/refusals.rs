//! Whatever attributes and operands an operation gets, it answers or refuses: nothing panics, and the
//! card stays usable.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, random};
use serde_json::{Map, Value, json};
use zellige_device::PlanOp;
use zellige_device::RunOp;
use zellige_device::{Card, LaunchOutcome, Tensor, TensorLayout};
use zellige_float::Dtype;
use zellige_op::TensorOp;

fn integer(rng: &mut Rng) -> i64 {
    [i64::MIN, i64::MAX, -70, -3, -1, 0, 0, 1, 1, 2, 3, 5, 64, 70][rng.below(14)]
}

fn anything(rng: &mut Rng, name: &str) -> Value {
    let small = |rng: &mut Rng| integer(rng).clamp(-3, 70);
    match (name, rng.below(8)) {
        ("dtype", 0..6) => {
            let names = ["float16", "float32", "int8", "uint8", "bool", "float8_e4m3fn", "float64"];
            json!(names[rng.below(7)])
        }
        ("mode", 0..6) => json!(["constant", "reflect", "replicate", "circular"][rng.below(4)]),
        ("pad", 0..4) => (0..2 * rng.below(3)).map(|_| small(rng).clamp(0, 2)).collect(),
        ("size" | "repeats" | "pad" | "dims" | "shifts", 0..6) => {
            (0..rng.below(4)).map(|_| small(rng)).collect()
        }
        (_, 0) => json!("trunc"),
        (_, 1) => json!("-inf"),
        (_, 2) => json!(true),
        (_, 3) => json!([integer(rng), integer(rng)]),
        (_, 4) => json!(0.5),
        (_, 5) => Value::Null,
        _ => json!(integer(rng)),
    }
}

/// Operands that lie as the operation wants them: what it does is what was planned.
fn as_planned(op: &TensorOp, card: &Card, inputs: &[Tensor]) -> bool {
    let laid: Vec<TensorLayout> = inputs.iter().map(|t| t.tensor_layout().clone()).collect();
    let Ok((results, lay)) = op.plan_layouts(&laid) else { return false };
    let outputs = results.iter().zip(&lay.outputs);
    let outputs =
        outputs.map(|(m, l)| Tensor::zeros(card, m.dtype, l)).collect::<Result<Vec<_>, _>>();
    let Ok(outputs) = outputs else { return false };
    let made: Vec<TensorLayout> = outputs.iter().map(|t| t.tensor_layout().clone()).collect();
    let Ok((_, plan)) = op.plan_work(&laid, &made, None, 32) else { return false };
    let Ok(LaunchOutcome { work, .. }) = op.launch_op(card, inputs, &outputs, None, 32) else {
        return false;
    };
    assert_eq!(work.kind, plan.kind, "{op:?}");
    assert!(
        work.cores == plan.cores,
        "{op:?} of {:?}",
        laid.iter().map(TensorLayout::size).collect::<Vec<_>>()
    );
    true
}

#[test]
fn nothing_panics() {
    let card = common::card();
    let mut rng = Rng::new(31);
    let kinds = [Dtype::Float16, Dtype::Float32, Dtype::Int32, Dtype::Uint8, Dtype::Bool];
    let (mut done, mut planned) = (0, 0);
    for entry in TensorOp::all_rows() {
        for _ in 0..20 {
            let mut attrs = Map::new();
            for (name, _) in entry.attributes {
                if !rng.chance(3) {
                    attrs.insert((*name).to_string(), anything(&mut rng, name));
                }
            }
            let Ok(op) = TensorOp::new(entry.name, &Value::Object(attrs)) else { continue };
            let count = if rng.chance(4) { rng.below(4) } else { entry.operands.len() };
            let rank = rng.below(4);
            let size = rng.size(rank);
            let dtype = kinds[rng.below(5)];
            let inputs: Vec<_> = (0..count)
                .map(|_| {
                    let mut size = size.clone();
                    if rng.chance(6) && rank > 0 {
                        size[0] = i64::try_from(rng.below(3)).unwrap();
                    }
                    let dtype = if rng.chance(5) { kinds[rng.below(5)] } else { dtype };
                    random(&mut rng, &card, &size, dtype).0
                })
                .collect();
            done += usize::from(op.run_op(&card, &inputs).is_ok());
            planned += usize::from(as_planned(&op, &card, &inputs));
            let into = inputs.last().cloned();
            done += usize::from(op.run_into(&card, &inputs, into.as_slice()).is_ok());
        }
    }
    assert!(done > 500, "only {done} ran");
    assert!(planned > 300, "only {planned} ran as planned");
    assert_eq!(card.memory().stats().allocated, 0);
}

/// Borders are read from the result itself, which the card does in place.
#[test]
fn borders_do_what_was_planned() {
    let card = common::card();
    let mut rng = Rng::new(32);
    for mode in ["constant", "reflect", "replicate", "circular"] {
        for size in [&[20][..], &[4, 20], &[2, 4, 70], &[3, 5, 64]] {
            for pad in
                [&[2, 1][..], &[0, 3, 1, 1]].into_iter().filter(|p| p.len() <= 2 * size.len())
            {
                let op = TensorOp::new("pad", &json!({"pad": pad, "mode": mode})).unwrap();
                let (x, _) = random(&mut rng, &card, size, Dtype::Float16);
                assert!(as_planned(&op, &card, &[x]), "{mode} {pad:?} around {size:?}");
            }
        }
    }
}
