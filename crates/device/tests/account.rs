//! Latencies: the published checks of the `ktir` model, and the `card` model by hand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use zellige_device::RunOp;
use zellige_device::{Card, Tensor};
use zellige_float::Dtype;
use zellige_machine::account::{
    Bottleneck, CoreWork, MemoryTraffic, OperationWork, RingMove, WorkKind,
};
use zellige_machine::{Hardware, SimulatedTime};
use zellige_op::TensorOp;

fn moves(reads: (u64, u64), writes: (u64, u64)) -> CoreWork {
    CoreWork {
        reads: MemoryTraffic::from_bursts(reads.0, reads.1),
        writes: MemoryTraffic::from_bursts(writes.0, writes.1),
        ..CoreWork::default()
    }
}

#[test]
fn the_ktir_model_gives_its_three_published_latencies() {
    let ktir = Hardware::ktir_preset();
    // 4096 float16 on 32 cores: 128 elements each.
    let add = CoreWork { sfu: 128, ..moves((256, 2), (256, 1)) };
    let add =
        ktir.operation_latency(&OperationWork::uniform_cores("add", WorkKind::Pointwise, 32, add));
    assert_eq!((add.cores[0].memory, add.cores[0].sfu, add.cycles), (192, 2, 194));
    assert_eq!(add.time, SimulatedTime::from_nanoseconds(194));

    // (64, 2048) x (2048, 8192) on a grid of (2, 16): tiles of 32 rows and 512 columns, and
    // 262,144 bytes over a link of the ring.
    let (m, k, n) = (32, 2048, 512);
    let mut matmul = CoreWork { macs: m * k * n, macs_valid: m * k * n, ..CoreWork::default() };
    matmul.reads.add_bursts(2 * k, m);
    matmul.reads.add_bursts(2 * n, k);
    matmul.writes.add_bursts(2 * n, m);
    matmul.ring.push(RingMove { bytes: 262_144, hops: 1 });
    let matmul = ktir.operation_latency(&OperationWork::uniform_cores(
        "matmul",
        WorkKind::Matmul,
        32,
        matmul,
    ));
    let core = matmul.cores[0];
    assert_eq!((core.memory, core.pt, core.ring), (565_248, 65_536, 4_096));
    assert_eq!(matmul.cycles, 634_880);

    // softmax of 4096 x 1024: max, subtract, sum, divide, and one exponential.
    let n = 128 * 1024;
    let softmax = CoreWork { sfu: 4 * n, sfu_transcendental: n, ..moves((2048, 128), (2048, 128)) };
    let softmax = ktir.operation_latency(&OperationWork::uniform_cores(
        "softmax",
        WorkKind::RowReduction,
        32,
        softmax,
    ));
    assert_eq!(softmax.cycles, 147_456);
}

#[test]
fn ktir_charges_different_sticks_once() {
    let ktir = Hardware::ktir_preset();
    let twice = CoreWork { unique_sticks: Some(3), ..moves((200, 4), (0, 0)) };
    let cycles = |core| {
        ktir.operation_latency(&OperationWork::uniform_cores("x", WorkKind::Other, 1, core)).cycles
    };
    assert_eq!(cycles(twice), 3);
    assert_eq!(cycles(moves((200, 4), (0, 0))), 8, "a burst takes whole sticks");
}

#[test]
fn the_card_overlaps_memory_with_compute() {
    let card = Hardware::built_in_preset("card-2026-05").unwrap();
    // Reading 150 GB takes a second, at the measured rate of one direction.
    let read = |core| {
        card.operation_latency(&OperationWork::uniform_cores("x", WorkKind::Pointwise, 1, core))
    };
    assert_eq!(read(moves((1_000_000_000, 150), (0, 0))).time.to_string(), "1.00 s");
    let balanced = moves((500_000_000, 105), (500_000_000, 105));
    assert_eq!(read(balanced).time.to_string(), "1.00 s");
    // Short bursts at their share of the peak: 128 bytes at 0.35 x 204.8 GB/s.
    let short = read(moves((128, 71_680_000 / 128), (0, 0)));
    assert_eq!(short.time, SimulatedTime::from_nanoseconds(1_000_000));
    // One core, one second of the PT array under the same second of memory.
    let mut both = moves((1_000_000_000, 150), (0, 0));
    both.macs = 1_140_000_000_000;
    let both = read(both);
    assert_eq!((both.time.to_string().as_str(), both.cores[0].pt), ("1.00 s", 1_500_000_000));
    // The ring comes after.
    let mut ring = CoreWork { macs: 760, ..CoreWork::default() };
    ring.ring.push(RingMove { bytes: 128, hops: 3 });
    assert_eq!(read(ring).cycles, 1 + 3);
}

#[test]
fn operations_with_measured_rates_take_them() {
    let card = Hardware::built_in_preset("card-2026-05").unwrap();
    let second = |kind, cores: usize, gigabytes: u64| {
        let bytes = gigabytes * 1_000_000_000 / cores as u64;
        let work =
            OperationWork::uniform_cores("x", kind, cores, moves((bytes / 2, 1), (bytes / 2, 1)));
        (card.operation_latency(&work).time.seconds() * 1e4).round() / 1e4
    };
    assert_eq!(second(WorkKind::Restickify, 32, 116), 1.0);
    assert_eq!(second(WorkKind::CrossRowReduction, 32, 113), 1.0);
    assert_eq!(second(WorkKind::RowReduction, 32, 105), 1.0);
    assert_eq!(second(WorkKind::RowReduction, 1, 105), (1.0 / 0.11_f64 * 1e4).round() / 1e4);
    assert_eq!(second(WorkKind::RowReduction, 3, 105), (1.0 / 0.325_f64 * 1e4).round() / 1e4);
    let pt = |kind| {
        let core = CoreWork { macs: 1_140_000, ..CoreWork::default() };
        card.operation_latency(&OperationWork::uniform_cores("x", kind, 1, core)).time.nanoseconds()
    };
    assert_eq!(pt(WorkKind::Matmul), 1000.0);
    assert_eq!(pt(WorkKind::BatchMatmulDefault { batch: 3 }), 1000.0);
    assert!((pt(WorkKind::BatchMatmulDefault { batch: 4 }) - 1000.0 * 1140.0 / 160.0).abs() < 1.0);
}

#[test]
fn a_cost_line_names_time_bound_bytes_cores_and_padding() {
    let card = Hardware::built_in_preset("card-2026-05").unwrap();
    let each = CoreWork { padding_bytes: 2752, ..moves((4096, 11), (4096, 5)) };
    let work = OperationWork::uniform_cores("x", WorkKind::Pointwise, 32, each);
    assert_eq!(
        card.operation_cost(&work).to_string(),
        // 0.786 MB at 150 GB/s, and twice 0.655 MB at 105 GB/s.
        "17.7 us, memory bound, 1.44 MB in, 655 kB out, 32 cores, padding 4.2%"
    );
    let upload = CoreWork { host_in: 63_000_000, ..moves((0, 0), (4096, 15_381)) };
    let upload = card.operation_cost(&OperationWork::new("x", WorkKind::Upload, vec![upload]));
    assert_eq!(
        upload.to_string(),
        "1.00 ms, host link bound, 63.0 MB from the host, 0 B in, 63.0 MB out, padding 0.0%"
    );
    let nothing = card.operation_cost(&OperationWork::new("x", WorkKind::Pointwise, vec![]));
    assert_eq!(nothing.to_string(), "0 ps, nothing to do, 0 B in, 0 B out, 0 cores, padding 0.0%");
    assert_eq!(nothing.latency.bottleneck, Bottleneck::Nothing);
}

#[test]
fn the_slowest_core_decides_and_idle_cores_share_nothing() {
    let ktir = Hardware::ktir_preset();
    let mut cores = vec![CoreWork::default(); 32];
    cores[5] = moves((128, 10), (0, 0));
    cores[9] = moves((128, 20), (0, 0));
    let latency = ktir.operation_latency(&OperationWork::new("x", WorkKind::Other, cores));
    assert_eq!((latency.critical_core, latency.cycles), (Some(9), 2 * 20));
}

proptest! {
    #[test]
    fn more_work_never_takes_less_time_and_nothing_overflows(
        bursts in prop::collection::vec((any::<u64>(), any::<u64>()), 0..4),
        macs in any::<u64>(), sfu in any::<u64>(), ring in any::<u64>(), cores in 1_usize..40,
    ) {
        let mut core = CoreWork { macs, sfu, ..CoreWork::default() };
        for name in Hardware::preset_names() {
            let hardware = Hardware::built_in_preset(name).unwrap();
            let mut last = 0;
            let mut check = |core: &CoreWork| {
                let work = OperationWork::uniform_cores("x", WorkKind::Copy, cores, core.clone());
                let latency = hardware.operation_latency(&work);
                assert!(latency.cycles >= last, "{work:?}");
                assert_eq!(latency, hardware.operation_latency(&work));
                last = latency.cycles;
            };
            check(&core);
            for (bytes, count) in &bursts {
                core.reads.add_bursts(*bytes, *count);
                check(&core);
            }
            core.ring.push(RingMove { bytes: ring, hops: ring });
            check(&core);
        }
    }
}

/// The totals of an operation on empty tensors of these sizes in float16, with the default division.
fn totals(op: &str, sizes: &[&[i64]]) -> (Vec<usize>, zellige_machine::account::WorkTotals) {
    let card = Card::builder().build().unwrap();
    let make = |size: &&[i64]| Tensor::empty(&card, size, Dtype::Float16).unwrap();
    let inputs: Vec<Tensor> = sizes.iter().map(make).collect();
    let attributes = match op {
        "rms_norm" => serde_json::json!({ "normalized_shape": sizes[1] }),
        _ => serde_json::Value::Null,
    };
    let ran = TensorOp::new(op, &attributes).unwrap().run_op(&card, &inputs).unwrap();
    (ran.division.splits().to_vec(), ran.step_costs().pop().unwrap().totals)
}

#[test]
fn operands_that_cores_share_are_read_once_for_eight() {
    // Rows on 32 cores: each group of eight reads the right matrix once.
    let (m, k, n) = (512, 1024, 1024);
    for (op, weight) in [("matmul", [1024, 1024]), ("linear", [1024, 1024])] {
        let (splits, t) = totals(op, &[&[512, 1024], &weight]);
        assert_eq!(splits, [32, 1, 1], "{op}");
        assert_eq!(t.bytes_in, 2 * (m * k + 4 * k * n), "{op}");
        assert_eq!(t.ring_in, 2 * 28 * k * n, "{op}");
    }
    let (splits, t) = totals("addmm", &[&[1024], &[512, 1024], &[1024, 1024]]);
    assert_eq!((splits, t.bytes_in), (vec![32, 1, 1], 2 * (m * k + 4 * (k * n + n))));
    // Every batch has its own: nothing is shared.
    let (splits, t) = totals("bmm", &[&[32, 16, 64], &[32, 64, 64]]);
    assert_eq!((splits[0], t.ring_in), (32, 0));
    // One head: its rows are on 32 cores, which all need the keys and the values.
    let (splits, t) = totals("scaled_dot_product_attention", &[&[256, 64], &[128, 64], &[128, 64]]);
    assert_eq!((splits, t.bytes_in), (vec![32, 1], 2 * 64 * (256 + 4 * (128 + 128))));
    // A bias and the weight of a norm are the same for all rows.
    let (splits, t) = totals("add", &[&[64, 4096], &[4096]]);
    assert_eq!((splits, t.bytes_in), (vec![32, 1], 2 * 4096 * (64 + 4)));
    let (_, t) = totals("rms_norm", &[&[64, 4096], &[4096]]);
    assert_eq!((t.bytes_in, t.ring_in), (2 * 4096 * (64 + 4), 2 * 4096 * 28));
}
