//! Pointwise kernels against a plain loop in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, broadcast_index, card, check, random, read, run};
use serde_json::Value;
use zellige_device::{Card, Op, Tensor};
use zellige_layout::Dtype;

/// Two sizes that broadcast, and the size they broadcast to.
fn sizes(rng: &mut Rng) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let rank = rng.below(4);
    let full = rng.size(rank);
    let mut shrink = |full: &[i64]| -> Vec<i64> {
        let mut small = full.to_vec();
        for n in &mut small {
            if rng.chance(4) {
                *n = 1;
            }
        }
        if rng.chance(4) {
            small.drain(..rng.below(full.len() + 1));
        }
        small
    };
    let (a, b) = (shrink(&full), shrink(&full));
    let rank = a.len().max(b.len());
    let at = |s: &[i64], d: usize| (d + s.len()).checked_sub(rank).map_or(1, |k| s[k]);
    let full = (0..rank).map(|d| at(&a, d).max(at(&b, d))).collect();
    (a, b, full)
}

#[test]
fn binary_operations_broadcast() {
    let card = card();
    let mut rng = Rng::new(1);
    for _ in 0..500 {
        let (a, b, full) = sizes(&mut rng);
        let kinds = [Dtype::Float16, Dtype::Float16, Dtype::Float32, Dtype::Int32, Dtype::Int8];
        let (da, db) = (kinds[rng.below(5)], kinds[rng.below(5)]);
        let (ta, xa) = random(&mut rng, &card, &a, da);
        let (tb, xb) = random(&mut rng, &card, &b, db);
        let out = run(&card, "add", &Value::Null, &[ta, tb]);
        assert_eq!(out[0].size(), full);
        let want: Vec<f64> = (0..full.iter().product::<i64>())
            .map(|i| {
                let i = usize::try_from(i).unwrap();
                xa[broadcast_index(i, &full, &a)] + xb[broadcast_index(i, &full, &b)]
            })
            .collect();
        check(&out[0], &want, 1e-6, &format!("add {da} {a:?}, {db} {b:?}"));
    }
}

fn costs(ran: &zellige_device::Ran) -> Vec<zellige_device::Cost> {
    ran.receipts.iter().map(|r| r.cost.clone()).collect()
}

#[test]
fn results_do_not_depend_on_cores_and_costs_are_of_the_plan() {
    let card = card();
    let mut rng = Rng::new(2);
    let (a, _) = random(&mut rng, &card, &[37, 5, 200], Dtype::Float16);
    let (b, _) = random(&mut rng, &card, &[37, 1, 200], Dtype::Float16);
    let add = Op::new("add", &Value::Null).unwrap();
    let one = add.run_on(&card, &[a.clone(), b.clone()], 1).unwrap();
    for cores in [2, 5, 32] {
        let many = add.run_on(&card, &[a.clone(), b.clone()], cores).unwrap();
        assert_eq!(read(&one.outputs[0]), read(&many.outputs[0]));
        let again = add.run_on(&card, &[a.clone(), b.clone()], cores).unwrap();
        assert_eq!(costs(&many), costs(&again));
        let (x, y) = (costs(&many).pop().unwrap(), costs(&one).pop().unwrap());
        assert_eq!(x.totals.bytes_out, y.totals.bytes_out);
    }
    // 4096 x 1024: nothing is padded, both operands stream in long bursts.
    let t = Tensor::empty(&card, &[4096, 1024], Dtype::Float16).unwrap();
    let ran = add.run(&card, &[t.clone(), t]).unwrap();
    let cost = ran.receipts.last().unwrap().cost.clone();
    assert_eq!((cost.totals.bytes_in, cost.totals.bytes_out), (16 << 20, 8 << 20));
    assert_eq!((cost.totals.padding_bytes, cost.totals.cores), (0, 32));
    assert_eq!(ran.division.splits(), [32, 1]);
}

#[test]
fn bad_operands_are_refused() {
    let card = card();
    let other = common::card();
    let t = |card: &Card, size: &[i64]| Tensor::empty(card, size, Dtype::Float16).unwrap();
    let add = Op::new("add", &Value::Null).unwrap();
    let say = |inputs: &[Tensor]| add.run(&card, inputs).unwrap_err().to_string();
    assert_eq!(say(&[t(&card, &[3])]), "add: it takes 2 operands, not 1");
    let e = say(&[t(&card, &[3, 4]), t(&card, &[3, 5])]);
    assert!(e.contains("operand 1 of size [3, 5] does not broadcast: dimension 1 has 5"), "{e}");
    let e = say(&[t(&card, &[3]), t(&other, &[3])]);
    assert_eq!(e, "add: operand 1 is on another card 0, and the operation runs on card 0");
    assert!(add.run_on(&card, &[t(&card, &[3]), t(&card, &[3])], 33).is_err());
    assert_eq!(
        Op::new("addd", &Value::Null).unwrap_err().to_string(),
        "there is no operation `addd`; did you mean `add`?"
    );
    let e = Op::new("add", &serde_json::json!({"alpha": 2})).unwrap_err().to_string();
    assert_eq!(e, "add: attribute `alpha`: there is no such attribute; accepted: it has none");
    let empty = add.run(&card, &[t(&card, &[0, 4]), t(&card, &[4])]).unwrap();
    assert_eq!(empty.outputs[0].size(), [0, 4]);
}
