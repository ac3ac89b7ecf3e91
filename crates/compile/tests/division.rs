//! The recorded divisions of torch-spyre, reproduced by the baseline policy.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use zellige_compile::solve::division::{
    AccessRole, DivisionPlan, IterationSpace, LoopDim, OpSizes, PointCost, SplitHint, TensorAccess,
    assign_slice_owners, build_iteration_space, check_division, distribute_cores,
    divide_iterations, map_cores_to_slices, reduce_spans, tensor_span,
};
use zellige_compile::{CompileError, CompilePolicy, RefusalWitness};
use zellige_float::Dtype;
use zellige_machine::{Hardware, Key, WorkKind};
use zellige_stick::StickLayout;

const EFFORT: PointCost =
    PointCost { kind: WorkKind::Pointwise, macs: 0, sfu: 1, transcendental: 0 };

fn vectors(kind: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/data/work_division.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let data: Value = serde_json::from_str(&text).expect("JSON");
    let list = data["vectors"].as_array().expect("a list").iter();
    let found: Vec<Value> = list.filter(|v| v["kind"] == kind).cloned().collect();
    assert!(!found.is_empty(), "no vectors of kind {kind}");
    found
}

fn id(v: &Value) -> &str {
    v["id"].as_str().expect("an id")
}

fn ints(v: &Value) -> Vec<i64> {
    v.as_array().expect("a list").iter().map(|n| n.as_i64().expect("an integer")).collect()
}

fn dtype(v: &Value) -> Dtype {
    match v["dtype"].as_str() {
        Some("fp32") => Dtype::Float32,
        _ => Dtype::Float16,
    }
}

fn split_of(v: &Value, names: &[String]) -> u64 {
    let found = names.iter().find_map(|n| v.get(n));
    found.map_or(1, |n| n.as_u64().expect("a split"))
}

fn baseline(
    space: &IterationSpace,
    cores: i64,
    hints: &[SplitHint],
) -> Result<DivisionPlan, CompileError> {
    let card = Hardware::card_preset();
    let plan = divide_iterations(space, &card, cores, CompilePolicy::Baseline, hints)?;
    check_division(space, &card, 32, &plan)?;
    let best = divide_iterations(space, &card, cores, CompilePolicy::Best, hints)?;
    check_division(space, &card, 32, &best)?;
    assert!(best.latency_us <= plan.latency_us, "{plan:?} {best:?}");
    Ok(plan)
}

/// Law: B has whole sticks of rows, as lanes of A past k meet rows of B past k; so its span counts them, and
/// the loop over k does not.
#[test]
fn spans_count_the_rows_that_pad_b() {
    let card = Hardware::card_preset();
    for (k, rows) in [(128, 128), (67, 128), (1, 64), (130, 192)] {
        let space = build_iteration_space(&OpSizes::matmul(8, 256, k), Dtype::Float16).unwrap();
        let plan = divide_iterations(&space, &card, 1, CompilePolicy::Baseline, &[]).unwrap();
        check_division(&space, &card, 32, &plan).unwrap();
        let b = space.tensors().iter().position(|t| t.name() == "B").unwrap();
        assert_eq!(plan.span_bytes[b], 4 * rows * 128, "k = {k}");
        assert_eq!(space.dims().iter().find(|d| d.reduced).unwrap().size, k.unsigned_abs());
    }
}

/// Law: dimensions of size 1 change no division and no span.
#[test]
fn ones_change_nothing_about_reductions() {
    let card = Hardware::card_preset();
    let plan = |sizes: &[i64]| {
        let form = OpSizes::Reduction { sizes: sizes.to_vec(), reduced: vec![sizes.len() - 1] };
        let space = build_iteration_space(&form, Dtype::Int32).unwrap();
        let plan = divide_iterations(&space, &card, 32, CompilePolicy::Baseline, &[]).unwrap();
        check_division(&space, &card, 32, &plan).unwrap();
        plan
    };
    let (plain, ones) = (plan(&[200, 49159, 3]), plan(&[1, 200, 1, 49159, 3]));
    assert_eq!(plain.splits, [2, 11, 1]);
    assert_eq!(ones.splits, [1, 2, 1, 11, 1]);
    assert_eq!(plain.span_bytes, ones.span_bytes);
}

#[test]
fn pointwise() {
    for v in vectors("pointwise") {
        let sizes = ints(&v["sizes"]);
        let rank = sizes.len();
        let space = build_iteration_space(&OpSizes::Pointwise { sizes }, dtype(&v)).unwrap();
        let plan = baseline(&space, v["cores"].as_i64().unwrap(), &[]).unwrap();
        for d in 0..rank {
            let want = split_of(&v["splits"], &[format!("c{d}"), format!("d{d}")]);
            assert_eq!(plan.splits[d], want, "{}: {plan:?}", id(&v));
        }
        if let Some(starts) = v["start_bytes"].as_object() {
            // [4, 64] of float16: two rows of 128 bytes for each core.
            let map = map_cores_to_slices(&plan.splits, &[]);
            let rows = space.unit_count(0) / plan.splits[0];
            for (i, place) in map.iter().enumerate() {
                assert_eq!(starts[&format!("core{i}")], place[0] * rows * 128, "{}", id(&v));
            }
        }
    }
}

#[test]
fn products() {
    for v in vectors("matmul").into_iter().chain(vectors("bmm")) {
        let size = |name: &str| v[name].as_i64().unwrap();
        let form = OpSizes::Matmul {
            batch: v["B"].as_i64(),
            shared: v["op"].as_str().unwrap().contains("shared"),
            m: size("M"),
            n: size("N"),
            k: size("K"),
        };
        let space = build_iteration_space(&form, dtype(&v)).unwrap();
        let cores = v["cores"].as_u64().unwrap();
        let limit = Hardware::card_preset().figure_count(Key::Span);
        let committed = reduce_spans(&space, cores, limit).unwrap();
        let default = distribute_cores(&space, cores, &committed);
        let plan = baseline(&space, v["cores"].as_i64().unwrap(), &[]).unwrap();
        for (d, dim) in space.dims().iter().enumerate() {
            let name = [dim.name.clone()];
            assert_eq!(plan.splits[d], split_of(&v["splits"], &name), "{}: {plan:?}", id(&v));
            assert_eq!(committed[d], split_of(&v["span_commit"], &name), "{}", id(&v));
            if v.get("default").is_some() {
                assert_eq!(default[d], split_of(&v["default"], &name), "{}", id(&v));
            }
            if let Some(size) = v["per_core"].get(&dim.name) {
                assert_eq!(*size, dim.size / plan.splits[d], "{}", id(&v));
            }
        }
        if let Some(by) = v["decided_by"].as_str() {
            assert_eq!(plan.decided_by, by, "{}: {}", id(&v), plan.reason);
        }
        match v["cost_us"].as_f64() {
            Some(cost) => {
                assert!((plan.cost_us.unwrap() - cost).abs() < 1e-3, "{}: {plan:?}", id(&v));
            }
            None => assert_eq!(plan.cost_us, None, "{}", id(&v)),
        }
    }
}

#[test]
fn spans() {
    let limit = Hardware::card_preset().figure_count(Key::Span);
    for v in vectors("span") {
        if let Some(device) = v["device_size"].as_array() {
            // wd076 (newer): bytes from the first to the last that are touched, 7 * 4 + 2 sticks. The
            // rule of the compiled path takes all of the inner dimensions: 8 * 4 sticks.
            assert_eq!((id(&v), device.len(), v["span_bytes"].as_u64()), ("wd076", 3, Some(3840)));
            let dims =
                vec![LoopDim::output("a", 8), LoopDim::output("b", 4), LoopDim::output("lane", 64)];
            let layout = StickLayout::from_size_and_stride_map(
                &[8, 4, 64],
                &[256, 64, 1],
                zellige_stick::DataFormat::device_format_of(Dtype::Float16).unwrap(),
            );
            let t =
                TensorAccess::new("t", AccessRole::Read, &layout.unwrap(), &dims, &[256, 64, 1])
                    .unwrap();
            let space = IterationSpace::new(dims, vec![t], EFFORT).unwrap();
            assert_eq!(tensor_span(&space, &space.tensors()[0], &[1, 2, 1]), 4096);
            assert_eq!(tensor_span(&space, &space.tensors()[0], &[8, 2, 1]), 256);
            continue;
        }
        let sizes = ints(&v["tensor"]);
        let space = build_iteration_space(&OpSizes::Pointwise { sizes }, dtype(&v)).unwrap();
        let tensor = &space.tensors()[0];
        assert_eq!(tensor_span(&space, tensor, &[1, 1]), v["unsplit_MB"].as_u64().unwrap() << 20);
        assert_eq!(limit, v["limit_MB"].as_u64().unwrap() << 20);
        let least = v["min_split"]["K"].as_u64().unwrap();
        assert_eq!(reduce_spans(&space, 32, limit).unwrap(), [1, least], "{}", id(&v));
    }
}

#[test]
fn distributions() {
    for v in vectors("distribute") {
        let names = v["space"].as_object().unwrap();
        let order = v["output"].as_array().or(v["priority"].as_array()).unwrap();
        let dims = order.iter().map(|name| {
            let name = name.as_str().unwrap();
            let mut dim = LoopDim::output(name, names[name].as_u64().unwrap());
            dim.allowed =
                v["allowed"].get(name).map(|a| ints(a).iter().map(|n| n.unsigned_abs()).collect());
            dim
        });
        let space = IterationSpace::new(dims.collect(), vec![], EFFORT).unwrap();
        let committed: Vec<u64> = space
            .dims()
            .iter()
            .map(|d| split_of(&v["min_splits"], std::slice::from_ref(&d.name)))
            .collect();
        // wd078 (older) gives cores by a priority, not by size; with `k` the largest and a result
        // dimension, sizes would give it 32. As a reduced one it comes last either way.
        let space = if id(&v) == "wd078" {
            let mut dims = space.dims().to_vec();
            dims[2].reduced = true;
            IterationSpace::new(dims, vec![], EFFORT).unwrap()
        } else {
            space
        };
        let splits = distribute_cores(&space, v["cores"].as_u64().unwrap(), &committed);
        if let Some(product) = v["product"].as_u64() {
            assert_eq!(splits.iter().product::<u64>(), product, "{}", id(&v));
        } else {
            for (d, dim) in space.dims().iter().enumerate() {
                let want = split_of(&v["splits"], std::slice::from_ref(&dim.name));
                assert_eq!(splits[d], want, "{}: {splits:?}", id(&v));
            }
        }
    }
}

#[test]
fn core_maps() {
    for v in vectors("core_map") {
        let dims = v["dims"].as_object().unwrap();
        let splits: Vec<u64> = dims.values().map(|n| n.as_u64().unwrap()).collect();
        let cores = v["cores"].as_u64().unwrap();
        let map = assign_slice_owners(&splits, cores).unwrap();
        for (core, place) in (0..cores).zip(&map) {
            // "core c -> (c//8, c%8)" and "core c -> c//8".
            let want = [core / 8, core % 8];
            assert_eq!(place[..], want[..splits.len()], "{}", id(&v));
        }
    }
    assert!(assign_slice_owners(&[3], 32).is_err());
}

/// Core numbers as generated programs of torch-spyre have them: of `mb:2, out:2` the cores are (mb0, out0),
/// (mb1, out0), (mb0, out1), (mb1, out1); of `mb:16, in:2` core c has `in = c % 2` and `mb = c / 2`.
#[test]
fn core_numbers_count_sums_and_then_the_first_dimension_fastest() {
    assert_eq!(map_cores_to_slices(&[2, 2], &[false, false]), [[0, 0], [1, 0], [0, 1], [1, 1]]);
    let map = map_cores_to_slices(&[16, 1, 2], &[false, false, true]);
    for (core, place) in (0u64..).zip(&map) {
        assert_eq!(place[..], [core / 2, 0, core % 2]);
    }
    let map = map_cores_to_slices(&[2, 4, 2], &[false, false, true]);
    for (core, place) in (0u64..).zip(&map) {
        assert_eq!(place[..], [core / 2 % 2, core / 4, core % 2]);
    }
}

#[test]
fn errors() {
    for v in vectors("error") {
        let text = v["error"].as_str().unwrap();
        if let Some(sizes) = v.get("sizes") {
            let space =
                build_iteration_space(&OpSizes::Pointwise { sizes: ints(sizes) }, dtype(&v))
                    .unwrap();
            let error = baseline(&space, v["cores"].as_i64().unwrap(), &[]).unwrap_err();
            assert!(error.to_string().starts_with(text), "{}: {error}", id(&v));
        } else {
            let mut dim = LoopDim::output("s0", 512);
            dim.granularity = Some(16);
            let layout = StickLayout::default_for_dtype(&[512], Dtype::Float16).unwrap();
            let t =
                TensorAccess::new("x", AccessRole::Read, &layout, std::slice::from_ref(&dim), &[1]);
            let error = IterationSpace::new(vec![dim], vec![t.unwrap()], EFFORT).unwrap_err();
            let (start, end) = text.split_once(" ... ").unwrap();
            let message = error.to_string();
            assert!(message.starts_with(start) && message.contains(end), "{}: {error}", id(&v));
            assert_eq!(error.witness(), Some(RefusalWitness::Dim("s0".into())));
        }
    }
}

#[test]
fn hints() {
    for v in vectors("hint").into_iter().chain(vectors("hint_error")) {
        let space =
            build_iteration_space(&OpSizes::Pointwise { sizes: ints(&v["sizes"]) }, dtype(&v))
                .unwrap();
        // M is the user's name of the first dimension.
        let hint = SplitHint { dim: "c0".into(), split: v["hint"]["M"].as_i64().unwrap() };
        let plan = baseline(&space, v["cores"].as_i64().unwrap(), &[hint]);
        match v["error"].as_str() {
            Some(text) => {
                let error = plan.unwrap_err();
                assert!(error.to_string().contains(text), "{}: {error}", id(&v));
                assert_eq!(error.witness(), Some(RefusalWitness::Dim("c0".into())));
            }
            None => {
                let plan = plan.unwrap();
                assert_eq!(plan.splits, [4, 1], "{}", id(&v));
                assert_eq!(plan.decided_by, "hint");
            }
        }
    }
}

/// Beyond what the policies have to reproduce: the divisions that torch-spyre's enumeration lists for one
/// tensor over the span limit are the even ones under it.
#[test]
fn candidates_under_the_span_limit() {
    let v = vectors("candidates").into_iter().find(|v| v["id"] == "wd050").unwrap();
    let space =
        build_iteration_space(&OpSizes::Pointwise { sizes: ints(&v["host"]) }, Dtype::Float16)
            .unwrap();
    let limit = Hardware::card_preset().figure_count(Key::Span);
    let mut found = Vec::new();
    for x in space.even_splits(0, 32) {
        for y in space.even_splits(1, 32 / x) {
            if tensor_span(&space, &space.tensors()[0], &[x, y]) <= limit {
                found.push(serde_json::json!({"x": x, "y": y}));
            }
        }
    }
    assert_eq!(Value::Array(found), v["candidates"]);
}
