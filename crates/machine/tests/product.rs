//! Products by measured mechanisms: the same numbers as the model that was fitted, and laws of the tiles.

use serde_json::Value;
use zellige_machine::account::{BlockLimits, plan_tile_passes};
use zellige_machine::{
    CoreWork, Hardware, Key, MemoryTraffic, OperationWork, ProductTile, Ratio, TileOperand,
    WorkKind,
};

/// A product of float16 matrices whose cores all have equal parts.
fn divided_product(
    sizes: [u64; 4],
    division: [u64; 4],
    shared: bool,
    outer: [bool; 2],
) -> OperationWork {
    let [batches, rows, columns, depth] = [0, 1, 2, 3].map(|i| sizes[i].div_ceil(division[i]));
    let columns = columns.next_multiple_of(64);
    let [b, m, n, k] = division;
    let operand = |elements: u64, cores: u64, outer: bool| TileOperand {
        bytes: 2 * elements * batches,
        cores,
        interleaved: sizes[0] > 1 && !outer,
        resident: false,
    };
    let tile = ProductTile {
        rows,
        columns,
        depth,
        batches,
        all_batches: sizes[0],
        shared_weight: shared && sizes[0] > 1,
        depth_split: k,
        operands: [
            operand(rows * depth, n, outer[0]),
            operand(columns * depth, if shared { m * b } else { m }, outer[1] || shared),
        ],
    };
    let core = |i: u64| CoreWork {
        macs: 1,
        // One core of those that split a sum writes it.
        writes: match i % k {
            0 => MemoryTraffic::from_bursts(2 * rows * columns * batches, 1),
            _ => MemoryTraffic::new(),
        },
        tile: Some(tile),
        ..CoreWork::default()
    };
    OperationWork::new("product", WorkKind::Matmul, (0..b * m * n * k).map(core).collect())
}

fn numbers<const N: usize>(value: &Value) -> [u64; N] {
    std::array::from_fn(|i| value[i].as_u64().expect("a number"))
}

#[test]
fn the_account_computes_what_the_fitted_model_does() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("data/product_model.json")).unwrap();
    assert!(cases.len() > 50);
    let card = Hardware::built_in_preset("card-2026-09").unwrap();
    let staged = card.clone().with_rate(Key::ProductScratchpadShare, "0.8", "what if").unwrap();
    for case in &cases {
        let outer = [0, 1].map(|i| case["outer"][i].as_bool().unwrap());
        let shared = case["shared"].as_bool().unwrap();
        let work =
            divided_product(numbers(&case["sizes"]), numbers(&case["division"]), shared, outer);
        let hardware = if case["fraction"] == 0.2 { &card } else { &staged };
        let latency = hardware.operation_latency(&work);
        let (ours, model) = (latency.time.microseconds(), case["us"].as_f64().unwrap());
        assert!((ours / model - 1.0).abs() < 0.005, "{case}: {ours} us, {:?}", latency.cores[0]);
        let terms = hardware.list_time_terms(&latency);
        assert_eq!(
            terms.iter().map(|t| t.counted).sum::<zellige_machine::SimulatedTime>(),
            latency.time
        );
    }
}

#[test]
fn presets_without_measured_products_ignore_tiles() {
    let work = divided_product([1, 512, 512, 512], [1, 4, 8, 1], false, [true; 2]);
    let mut plain = work.clone();
    plain.cores.iter_mut().for_each(|core| core.tile = None);
    for name in ["card-2026-05", "ktir"] {
        let hardware = Hardware::built_in_preset(name).unwrap();
        assert_eq!(hardware.operation_latency(&work), hardware.operation_latency(&plain), "{name}");
    }
}

#[test]
fn blocks_fit_and_cover_the_tile() {
    let limits = BlockLimits { area: 40960, rows: 256, columns: 320, spare_shared: true };
    for rows in [1, 2, 63, 64, 100, 128, 192, 509, 1024, 4096] {
        for columns in [64, 128, 320, 576, 768, 1600, 4096, 12800] {
            for shares in [[1, 32], [8, 4], [4, 8], [16, 2]] {
                let [a, b] = plan_tile_passes([rows, columns], shares, limits, Ratio::new(3, 2));
                assert!(columns.div_ceil(64).is_multiple_of(a), "{rows} {columns}: {a}");
                let height = rows.div_ceil(b);
                assert!(height <= 256 && columns / a <= 320 && height * (columns / a) <= 40960);
            }
        }
    }
    // As measured: 1024 rows by 256 columns on 2 x 16 cores read B eight times and A once.
    assert_eq!(plan_tile_passes([1024, 256], [16, 2], limits, Ratio::new(3, 2)), [1, 8]);
    assert_eq!(plan_tile_passes([512, 1024], [2, 16], limits, Ratio::new(3, 2)), [8, 2]);
    // Blocks of 64 x 128 and of 128 x 64 move the same bytes into a core that has 256 x 128. A single product spares A,
    // which more cores share here, and a batch B.
    for (spare_shared, expected) in [(true, [1, 4]), (false, [2, 2])] {
        let limits = BlockLimits { area: 8192, rows: 128, columns: 128, spare_shared };
        assert_eq!(plan_tile_passes([256, 128], [8, 4], limits, Ratio::new(3, 2)), expected);
    }
}
