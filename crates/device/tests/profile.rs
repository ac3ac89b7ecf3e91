//! Coverage profiles: what the host does, what it costs, and that results do not change.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Rng, random, read};
use serde_json::json;
use zellige_device::Card;
use zellige_device::RunOp;
use zellige_float::Dtype;
use zellige_machine::WorkKind;
use zellige_op::{CoverageProfile, OpCoverage, TensorOp, UpstreamLayer};

/// A card under the profile, and two operands of `embedding`, which upstream leaves to the host.
fn embedding(profile: CoverageProfile) -> (Card, zellige_device::OpOutcome) {
    let card = Card::builder().profile(profile).trace_events(1000).build().unwrap();
    let mut rng = Rng::new(7);
    let (weight, _) = random(&mut rng, &card, &[30, 100], Dtype::Float16);
    let index = zellige_device::Tensor::empty(&card, &[5], Dtype::Int64).unwrap();
    index.fill(3.0).unwrap();
    let ran =
        TensorOp::new("embedding", &json!({})).unwrap().run_op(&card, &[weight, index]).unwrap();
    (card, ran)
}

#[test]
fn the_profile_card_charges_the_round_trip() {
    let (card, host) = embedding(CoverageProfile::Card);
    let (_, device) = embedding(CoverageProfile::Full);
    assert_eq!(read(&host.outputs[0]), read(&device.outputs[0]), "results are the same");
    assert_eq!(host.receipts.len(), 1, "nothing is moved on the device");
    let cost = &host.receipts[0].cost;
    assert_eq!((cost.kind, cost.name.as_str()), (WorkKind::Fallback, "embedding on the host"));
    // 30 x 100 numbers of 2 bytes and 5 indices of 8 go down, 5 x 100 numbers come back.
    assert_eq!((cost.totals.host_out, cost.totals.host_in), (30 * 100 * 2 + 5 * 8, 5 * 100 * 2));
    assert_eq!(cost.totals.flops, 0);
    assert!(cost.to_string().ends_with("done by the host"), "{cost}");
    let last = &device.receipts.last().unwrap().cost;
    assert!(last.kind != WorkKind::Fallback && !last.to_string().contains("host"), "{last}");
    let trace = card.recorded_timeline().to_chrome_trace();
    assert!(trace.contains("embedding on the host") && !trace.contains("core 0"), "{trace}");
}

#[test]
fn native_operations_stay_on_the_card() {
    let card = Card::builder().profile(CoverageProfile::Card).build().unwrap();
    let mut rng = Rng::new(8);
    let (a, _) = random(&mut rng, &card, &[3, 70], Dtype::Float16);
    let ran = TensorOp::new("add", &json!({})).unwrap().run_op(&card, &[a.clone(), a]).unwrap();
    assert!(ran.receipts.iter().all(|r| r.cost.kind != WorkKind::Fallback));
    assert_eq!(CoverageProfile::default(), CoverageProfile::Full);
    assert_eq!("card".parse::<CoverageProfile>().unwrap(), CoverageProfile::Card);
    assert_eq!(
        "spyre".parse::<CoverageProfile>().unwrap_err().to_string(),
        "unknown coverage profile `spyre`; accepted are `card` and `full`"
    );
}

#[test]
fn the_matrix_lists_every_operation_with_dtypes() {
    let (full, card) = (
        OpCoverage::under_profile(CoverageProfile::Full),
        OpCoverage::under_profile(CoverageProfile::Card),
    );
    assert_eq!(full.len(), TensorOp::all_rows().count());
    assert!(full.iter().all(|row| !row.on_host));
    for row in &card {
        let falls = matches!(row.layer, UpstreamLayer::Fallback | UpstreamLayer::Missing);
        assert_eq!(row.on_host, falls, "{}", row.name);
        assert_eq!(row.to_json()["runs_on"], if falls { "host" } else { "device" });
    }
    let silent: Vec<&str> = full
        .iter()
        .filter(|r| r.dtypes.is_empty() && !r.operands.is_empty())
        .map(|r| r.name)
        .collect();
    assert!(silent.is_empty(), "no dtype was found for {silent:?}");
    let add = full.iter().find(|r| r.name == "add").unwrap();
    assert!(add.dtypes.contains(&Dtype::Float16) && add.dtypes.contains(&Dtype::Int32));
    assert!(!add.dtypes.contains(&Dtype::Float64));
    assert_eq!(add.dtype_words(), "float float8 int bool quantized");
}
