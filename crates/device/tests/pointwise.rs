//! Pointwise kernels against a plain loop in float64.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, broadcast_index, check, random, run};
use serde_json::Value;
use zellige_device::Card;
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
    let card = Card::new(0);
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
