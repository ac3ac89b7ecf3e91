//! The worked kernels of the form, field by field.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use zellige_compile::emit::superdsc::{SdscBundle, build_bundles};
use zellige_compile::emit::{KernelAddressing, MemoryMap};
use zellige_compile::{CompiledProgram, CompilerOptions, compile_graph};
use zellige_device::WorkDivision;

const SEGMENT: u64 = 0x4_0000_0000;

fn program(text: &str) -> CompiledProgram {
    compile_graph(&zellige_graph::text::parse(text).unwrap(), &CompilerOptions::baseline()).unwrap()
}

fn run(program: &CompiledProgram, addresses: KernelAddressing) -> SdscBundle {
    let all = build_bundles(program, &MemoryMap::new(program), addresses);
    let [run] =
        <[SdscBundle; 1]>::try_from(all.into_iter().filter(|b| !b.load).collect::<Vec<_>>())
            .expect("what the host does not cut is one bundle");
    run
}

/// The only kernel of a program: its name, and what stands below it.
fn only(program: &CompiledProgram) -> (String, Value) {
    let all = run(program, KernelAddressing::Concrete);
    assert_eq!((all.kernels.len(), all.refused.as_slice()), (1, &[][..]));
    let (name, top) = all.kernels[0].json.as_object().unwrap().iter().next().unwrap();
    (name.clone(), top.clone())
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn factor(n: usize, label: &str) -> Value {
    json!({"factor_": n, "label_": label})
}

/// The fold of one dimension: alphas, factors with their labels.
fn coordinate(alphas: &[usize], factors: &[usize]) -> Value {
    let labels: &[&str] = match factors.len() {
        4 => &["core_fold", "corelet_fold", "row_fold", "elem_arr_0"],
        _ => &["core_fold", "corelet_fold", "row_fold", "elem_arr_1", "elem_arr_0"],
    };
    let affine = |a: &usize| json!({"Affine": {"alpha_": a, "beta_": 0}});
    json!({
        "spatial": 3,
        "temporal": 0,
        "elemArr": factors.len() - 3,
        "padding": "nopad",
        "folds": {
            "dim_prop_func": alphas.iter().map(affine).collect::<Vec<_>>(),
            "dim_prop_attr":
                factors.iter().zip(labels).map(|(n, l)| factor(*n, l)).collect::<Vec<_>>(),
        },
    })
}

/// The start addresses of an allocation, core by core.
fn starts(dsc: &Value, tensor: usize) -> Vec<u64> {
    let data = &dsc["scheduleTree_"][tensor]["startAddressCoreCorelet_"]["data_"];
    let data = data.as_object().unwrap();
    (0..data.len())
        .map(|c| data[&format!("[{c}, 0, 0]")].as_str().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn an_addition_on_32_cores() {
    let p =
        program("graph g(x: float16[512, 256], y: float16[512, 256]) { z = add(x, y) return z }");
    assert_eq!(p.steps[0].division.splits(), [32, 1]);
    let (name, top) = only(&p);
    assert_eq!(name, "0_add");
    assert_eq!(
        keys(&top),
        [
            "sdscFoldProps_",
            "sdscFolds_",
            "coreFoldProp_",
            "coreletFoldProp_",
            "numCoresUsed_",
            "coreIdToDsc_",
            "numWkSlicesPerDim_",
            "coreIdToWkSlice_",
            "coreIdToDscSchedule",
            "dscs_"
        ]
    );
    assert_eq!(top["sdscFoldProps_"], json!([factor(1, "time")]));
    assert_eq!(
        top["sdscFolds_"],
        json!({
            "dim_prop_func": [{"Affine": {"alpha_": 1, "beta_": 0}}],
            "dim_prop_attr": [factor(1, "time")],
            "data_": {"[0]": "0"},
        })
    );
    assert_eq!(top["coreFoldProp_"], factor(32, "core"));
    assert_eq!(top["coreletFoldProp_"], factor(1, "corelet"));
    assert_eq!(top["numCoresUsed_"], 32);
    assert_eq!(top["coreIdToDsc_"].as_object().unwrap().len(), 32);
    assert_eq!(top["coreIdToDsc_"]["31"], 0);
    assert_eq!(top["numWkSlicesPerDim_"], json!({"mb": 32, "out": 1}));
    assert_eq!(top["coreIdToWkSlice_"]["7"], json!({"mb": 7, "out": 0}));
    assert_eq!(top["coreIdToDscSchedule"]["0"], json!([[-1, 0, 0, 0]]));
    let dsc = &top["dscs_"][0]["add"];
    assert_eq!(
        keys(dsc),
        [
            "numCoresUsed_",
            "numCoreletsUsed_",
            "coreIdsUsed_",
            "N_",
            "coordinateMasking_",
            "maskingConstId_",
            "dataStageParam_",
            "primaryDsInfo_",
            "scheduleTree_",
            "labeledDs_",
            "constantInfo_",
            "computeOp_"
        ]
    );
    assert_eq!(dsc["coreIdsUsed_"], json!((0..32).collect::<Vec<_>>()));
    assert_eq!(dsc["N_"], json!({"name_": "n", "mb_": 512, "out_": 256}));
    assert_eq!((&dsc["coordinateMasking_"], &dsc["maskingConstId_"]), (&json!({}), &json!(-1)));
    let slice = json!({"name_": "core", "mb_": 16, "out_": 256});
    assert_eq!(dsc["dataStageParam_"], json!({"0": {"ss_": slice, "el_": slice}}));
    let layout = json!({
        "layoutDimOrder_": ["mb", "out"], "stickDimOrder_": ["out"], "stickSize_": [64],
    });
    assert_eq!(dsc["primaryDsInfo_"], json!({"OUTPUT": layout}));
    for (tensor, base) in [SEGMENT, 2 * SEGMENT, 0].into_iter().enumerate() {
        let node = &dsc["scheduleTree_"][tensor];
        assert_eq!(
            keys(node),
            [
                "nodeType_",
                "name_",
                "prev_",
                "ldsIdx_",
                "component_",
                "layoutDimOrder_",
                "maxDimSizes_",
                "indirectAllocType_",
                "startAddressCoreCorelet_",
                "coordinates_"
            ]
        );
        assert_eq!(node["name_"], format!("allocate-Tensor{tensor}_hbm"));
        assert_eq!(node["layoutDimOrder_"], json!(["mb", "out"]));
        assert_eq!(node["maxDimSizes_"], json!([-1, -1]));
        assert_eq!(starts(dsc, tensor), (0..32).map(|c| base + 2048 * c).collect::<Vec<_>>());
        let info = &node["coordinates_"]["coordInfo"];
        assert_eq!(info["mb"], coordinate(&[16, 0, 0, 1], &[32, 1, 1, 16]));
        assert_eq!(info["out"], coordinate(&[256, 0, 0, 64, 1], &[1, 1, 1, 4, 64]));
        assert_eq!(node["coordinates_"]["coreIdToWkSlice_"], json!({}));
        assert_eq!(
            dsc["labeledDs_"][tensor],
            json!({
                "ldsIdx_": tensor,
                "dsName_": format!("Tensor{tensor}"),
                "dsType_": "OUTPUT",
                "scale_": [1, 1],
                "wordLength": 2,
                "dataFormat_": "SEN169_FP16",
                "memOrg_": {"hbm": {"isPresent": 1}, "lx": {"isPresent": 1}},
            })
        );
    }
    assert_eq!(dsc["constantInfo_"], "{}");
    assert_eq!(
        dsc["computeOp_"],
        json!([{
            "exUnit": "sfp",
            "opFuncName": "add",
            "attributes_": {"dataFormat_": "SEN169_FP16", "fidelity_": "regular"},
            "location": "Inner",
            "inputLabeledDs": ["Tensor0-idx0", "Tensor1-idx1"],
            "outputLabeledDs": ["Tensor2-idx2"],
        }])
    );
}

#[test]
fn a_product_that_splits_its_sum() {
    let mut p = program(
        "graph g(x: float16[8192, 32768], y: float16[32768, 4096]) { z = mm(x, y) return z }",
    );
    let space = p.steps[0].space.clone().unwrap();
    p.steps[0].division = WorkDivision::new(&[16, 1, 2], &space, 32).unwrap();
    let (name, top) = only(&p);
    assert_eq!(name, "0_batchmatmul");
    assert_eq!(top["numWkSlicesPerDim_"], json!({"mb": 16, "out": 1, "in": 2}));
    for c in 0..32 {
        let slice = json!({"mb": c / 2, "out": 0, "in": c % 2});
        assert_eq!(top["coreIdToWkSlice_"][c.to_string()], slice);
    }
    let dsc = &top["dscs_"][0]["batchmatmul"];
    assert_eq!(dsc["N_"], json!({"name_": "n", "mb_": 8192, "out_": 4096, "in_": 32768}));
    assert_eq!(
        dsc["dataStageParam_"]["0"]["ss_"],
        json!({"name_": "core", "mb_": 512, "out_": 4096, "in_": 16384})
    );
    let layout = |order: [&str; 2], stick: &str| json!({"layoutDimOrder_": order, "stickDimOrder_": [stick], "stickSize_": [64]});
    assert_eq!(
        dsc["primaryDsInfo_"],
        json!({
            "INPUT": layout(["mb", "in"], "in"),
            "KERNEL": layout(["in", "out"], "out"),
            "OUTPUT": layout(["mb", "out"], "out"),
        })
    );
    for (i, label) in ["INPUT", "KERNEL", "OUTPUT"].into_iter().enumerate() {
        assert_eq!(dsc["labeledDs_"][i]["dsType_"], label);
        assert_eq!(dsc["labeledDs_"][i]["scale_"], json!([1, 1]));
    }
    // A core's rows and depths of the left matrix; its depths of the right one; its rows of the result.
    let left = |c: u64| SEGMENT + (c / 2) * 512 * 128 + (c % 2) * 256 * 8192 * 128;
    assert_eq!(starts(dsc, 0), (0..32).map(left).collect::<Vec<_>>());
    let right = |c: u64| 2 * SEGMENT + (c % 2) * 16384 * 128;
    assert_eq!(starts(dsc, 1), (0..32).map(right).collect::<Vec<_>>());
    assert_eq!(starts(dsc, 2), (0..32).map(|c| (c / 2) * 512 * 128).collect::<Vec<_>>());
    let op = &dsc["computeOp_"][0];
    assert_eq!((&op["exUnit"], &op["opFuncName"]), (&json!("pt"), &json!("batchmatmul")));
    assert_eq!(op["inputLabeledDs"], json!(["Tensor0-idx0", "Tensor1-idx1"]));
}

/// Of rows and columns the rows count fastest, and where the sum is split its parts count before both; the addresses
/// of a core are those of its slices.
#[test]
fn cores_of_two_splits_count_the_first_dimension_fastest() {
    let text = "graph g(x: float16[512, 256], y: float16[256, 512]) { z = mm(x, y) return z }";
    for (splits, sum) in [([4usize, 8, 1], 1), ([2, 4, 2], 2), ([4, 2, 4], 4)] {
        let mut p = program(text);
        let space = p.steps[0].space.clone().unwrap();
        p.steps[0].division = WorkDivision::new(&splits, &space, 32).unwrap();
        let (_, top) = only(&p);
        let dsc = &top["dscs_"][0]["batchmatmul"];
        let cores: usize = splits.iter().product();
        let mut results = Vec::new();
        for c in 0..cores {
            let (row, column) = (c / sum % splits[0], c / sum / splits[0]);
            let slice = json!({"mb": row, "out": column, "in": c % sum});
            assert_eq!(top["coreIdToWkSlice_"][c.to_string()], slice, "{splits:?}");
            // Columns in sticks, in each of them all rows of 128 bytes.
            let (rows, sticks) = (512 / splits[0], 8 / splits[1]);
            results.push(((column * sticks * 512 + row * rows) * 128) as u64);
        }
        assert_eq!(starts(dsc, 2), results, "{splits:?}");
    }
}

#[test]
fn a_sum_along_padded_sticks() {
    let p = program("graph g(x: float16[512, 250]) { z = sum(x, dim=1) return z }");
    let steps: Vec<&str> = p.steps.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(steps[0], "z");
    let all = run(&p, KernelAddressing::Concrete);
    let top = &all.kernels[0].json["0_sum"];
    let dsc = &top["dscs_"][0]["sum"];
    assert_eq!(dsc["N_"], json!({"name_": "n", "mb_": 512, "out_": 256}));
    assert_eq!(dsc["coordinateMasking_"], json!({"out": [[250, 6]]}));
    assert_eq!(dsc["maskingConstId_"], 0);
    let cores = top["numCoresUsed_"].as_u64().unwrap();
    assert_eq!(
        dsc["constantInfo_"],
        json!({"0": {
            "dataFormat_": "SEN169_FP16",
            "name_": "samv-maskvalue",
            "data_": {
                "dim_prop_func": [{"Const": {}}, {"Const": {}}, {"Map": {}}],
                "dim_prop_attr": [
                    {"factor_": cores, "label_": "core"}, factor(1, "corelet"), factor(1, "time"),
                ],
                "data_": {"[0, 0, 0]": [0]},
            },
        }})
    );
    assert_eq!(dsc["labeledDs_"][0]["scale_"], json!([1, 1]));
    assert_eq!(dsc["labeledDs_"][1]["scale_"], json!([1, -2]));
    assert_eq!(dsc["scheduleTree_"][1]["layoutDimOrder_"], json!(["mb", "out"]));
    let out = &dsc["scheduleTree_"][1]["coordinates_"]["coordInfo"]["out"];
    assert_eq!(*out, coordinate(&[64, 0, 0, 64, 0], &[1, 1, 1, 1, 64]));
    let op = &dsc["computeOp_"][0];
    assert_eq!(op["inputLabeledDs"], json!(["Tensor0-idx0", "Tensor1-idx1"]));
    assert_eq!(op["outputLabeledDs"], json!(["Tensor1-idx1"]));
    assert_eq!(op["exUnit"], "sfp");
}

#[test]
fn other_reductions() {
    // Over rows: the sticks stay, nothing is masked.
    let p = program("graph g(x: float16[512, 250]) { z = sum(x, dim=0) return z }");
    let (name, top) = only(&p);
    assert_eq!(name, "0_sumnonstick");
    let dsc = &top["dscs_"][0]["sumnonstick"];
    assert_eq!(dsc["maskingConstId_"], -1);
    // The first loop is the result's, which has the sticks.
    assert_eq!(dsc["N_"], json!({"name_": "n", "mb_": 256, "out_": 512}));
    assert_eq!(dsc["primaryDsInfo_"]["OUTPUT"]["stickDimOrder_"], json!(["mb"]));
    assert_eq!(dsc["labeledDs_"][1]["scale_"], json!([-1, 1]));
    // The padding of a maximum is minus infinity, which the device's format has merged with NaN.
    for (op, code) in [("amax", 0xFFFF), ("amin", 0x7FFF), ("mean", 0)] {
        let text = format!("graph g(x: float16[64, 250]) {{ z = {op}(x, dim=1) return z }}");
        let all = run(&program(&text), KernelAddressing::Concrete);
        let (_, top) = all.kernels[0].json.as_object().unwrap().iter().next().unwrap();
        let (_, dsc) = top["dscs_"][0].as_object().unwrap().iter().next().unwrap();
        assert_eq!(dsc["constantInfo_"]["0"]["data_"]["data_"]["[0, 0, 0]"], json!([code]), "{op}");
    }
}

#[test]
fn constants_past_the_format_are_stored_as_tensors_are() {
    let p = program("graph g(x: float16[64, 256]) { z = clamp(x, min=-1e20, max=2) return z }");
    let (_, top) = only(&p);
    let (_, dsc) = top["dscs_"][0].as_object().unwrap().iter().next().unwrap();
    let code = |i: &str| dsc["constantInfo_"][i]["data_"]["data_"]["[0, 0, 0]"].clone();
    // The encoding of minus infinity, and no NaN; two is 1.0 times 2^1 with a bias of 31.
    assert_eq!((code("0"), code("1")), (json!([0xFDFE]), json!([32 << 9])));
}

#[test]
fn a_restickify() {
    let p = program("graph g(x: float16[250, 96]) { z = add(x, 0) pin stick 0 return z }");
    let all = run(&p, KernelAddressing::Concrete);
    let at = p.steps.iter().position(zellige_compile::ProgramStep::is_move).unwrap();
    let kernel = all.kernels.iter().find(|k| k.step.0 == at).unwrap();
    let (name, top) = kernel.json.as_object().unwrap().iter().next().unwrap();
    assert!(name.ends_with("_ReStickifyOpHBM"));
    // Both dimensions are padded, so no core but one has work.
    assert_eq!(top["numWkSlicesPerDim_"], json!({"mb": 1, "out": 1}));
    let dsc = &top["dscs_"][0]["ReStickifyOpHBM"];
    assert_eq!(dsc["N_"], json!({"name_": "n", "mb_": 256, "out_": 128}));
    let layout = |order: [&str; 2], stick: &str| json!({"layoutDimOrder_": order, "stickDimOrder_": [stick], "stickSize_": [64]});
    let info = &dsc["primaryDsInfo_"];
    assert_eq!(info["OUTPUT"], layout(["mb", "out"], "out"));
    assert_eq!(info["KERNEL"]["stickDimOrder_"], json!(["mb"]));
    // The source has 250 rows where the loop has 256; the copy 96 columns where it has 128.
    assert_eq!(dsc["scheduleTree_"][0]["backGapCore_"], json!({"mb": {"-1": "-6"}}));
    assert_eq!(dsc["scheduleTree_"][1]["backGapCore_"], json!({"out": {"-1": "-32"}}));
    assert_eq!(dsc["computeOp_"][0]["exUnit"], "sfp");
    // Whole sticks both ways are divided.
    let p = program("graph g(x: float16[256, 1024]) { z = add(x, 0) pin stick 0 return z }");
    let all = run(&p, KernelAddressing::Concrete);
    let at = p.steps.iter().position(zellige_compile::ProgramStep::is_move).unwrap();
    let kernel = all.kernels.iter().find(|k| k.step.0 == at).unwrap();
    let (_, top) = kernel.json.as_object().unwrap().iter().next().unwrap();
    assert_eq!(top["numWkSlicesPerDim_"], json!({"mb": 2, "out": 16}));
    let dsc = &top["dscs_"][0]["ReStickifyOpHBM"];
    assert!(dsc["scheduleTree_"].as_array().unwrap().iter().all(|n| n["backGapCore_"].is_null()));
}

/// What stands below the name of a function, in kernel `k`.
fn dsc(bundle: &SdscBundle, k: usize) -> (&Value, &Value) {
    let (_, top) = bundle.kernels[k].json.as_object().unwrap().iter().next().unwrap();
    let (_, dsc) = top["dscs_"][0].as_object().unwrap().iter().next().unwrap();
    (top, dsc)
}

#[test]
fn broadcast_operands_stand_still() {
    let p = program("graph g(x: float16[512, 256], b: float16[256]) { z = add(x, b) return z }");
    let all = run(&p, KernelAddressing::Concrete);
    let (_, add) = dsc(&all, 0);
    assert_eq!(add["labeledDs_"][1]["scale_"], json!([-1, 1]));
    assert_eq!(add["labeledDs_"][1]["dsType_"], "OUTPUT");
    assert_eq!(add["scheduleTree_"][1]["layoutDimOrder_"], json!(["out", "mb"]));
    // Every core reads all of it.
    assert!(starts(add, 1).iter().all(|a| *a == 2 * SEGMENT));
    // A number has one element for all iterations, in the first lane of a stick.
    let p = program("graph g(x: float16[512, 256]) { z = mul(x, 2) return z }");
    let all = run(&p, KernelAddressing::Concrete);
    let (_, mul) = dsc(&all, 0);
    assert_eq!(mul["labeledDs_"][1]["scale_"], json!([-1, -2]));
    let info = &mul["scheduleTree_"][1]["coordinates_"]["coordInfo"];
    assert_eq!(info["mb"], coordinate(&[1, 0, 0, 1], &[1, 1, 1, 1]));
    assert_eq!(info["out"], coordinate(&[64, 0, 0, 64, 0], &[1, 1, 1, 1, 64]));
}

#[test]
fn unused_lanes_are_a_dimension() {
    let p = program("graph g(x: float16[512] pin sparse) { z = exp(x) return z }");
    let all = run(&p, KernelAddressing::Concrete);
    let (top, exp) = dsc(&all, 0);
    assert_eq!(exp["N_"], json!({"name_": "n", "out_": 512, "x_": 64}));
    assert_eq!(top["numWkSlicesPerDim_"]["x"], 1);
    assert_eq!(exp["labeledDs_"][0]["scale_"], json!([1, 1]));
    assert_eq!(exp["primaryDsInfo_"]["OUTPUT"]["stickDimOrder_"], json!(["x"]));
    let info = &exp["scheduleTree_"][0]["coordinates_"]["coordInfo"]["x"];
    assert_eq!(*info, coordinate(&[64, 0, 0, 64, 1], &[1, 1, 1, 1, 64]));
}

#[test]
fn functions_have_constants_and_operands_of_their_own() {
    let p = program(
        "graph g(x: float16[64, 64]) { a = clamp(x, min=-1, max=2) b = square(a) return b }",
    );
    let all = run(&p, KernelAddressing::Concrete);
    let (_, clip) = dsc(&all, 0);
    let constant = |i: &str| {
        let c = &clip["constantInfo_"][i];
        (c["name_"].as_str().unwrap(), c["data_"]["data_"]["[0, 0, 0]"][0].as_u64().unwrap())
    };
    // 1 is 0x3E00 in the device's format, 2 is 0x4000.
    assert_eq!((constant("0"), constant("1")), (("clipMin", 0xBE00), ("clipMax", 0x4000)));
    assert_eq!(clip["maskingConstId_"], -1);
    let (_, square) = dsc(&all, 1);
    assert_eq!(square["computeOp_"][0]["opFuncName"], "mul");
    assert_eq!(square["computeOp_"][0]["inputLabeledDs"], json!(["Tensor0-idx0", "Tensor1-idx1"]));
    assert_eq!(starts(square, 0), starts(square, 1));
}

#[test]
fn a_conversion_of_a_vector_has_a_row_around_it() {
    let mut options = CompilerOptions::baseline();
    options.storage.keep.float32 = true;
    let graph = zellige_graph::text::parse(
        "graph g(x: float16[4096]) { z = cast(x, dtype=\"float32\") return z }",
    );
    let p = compile_graph(&graph.unwrap(), &options).unwrap();
    let all = run(&p, KernelAddressing::Concrete);
    assert_eq!(all.refused, []);
    let (top, cast) = dsc(&all, 0);
    assert_eq!(cast["computeOp_"][0]["opFuncName"], "dl16tofp32");
    assert_eq!(cast["N_"], json!({"name_": "n", "mb_": 1, "out_": 4096}));
    assert_eq!(top["numWkSlicesPerDim_"]["mb"], 1);
    let info = &cast["primaryDsInfo_"];
    assert_eq!(info["OUTPUT"]["stickSize_"], json!([64]));
    assert_eq!(info["KERNEL"]["stickSize_"], json!([32]));
    assert_eq!(cast["labeledDs_"][1]["wordLength"], 4);
}

#[test]
fn views_have_gaps() {
    let p = program(
        "graph g(x: float16[512, 256]) { v = slice(x, dim=1, start=64, end=192) z = exp(v) return z }",
    );
    let all = run(&p, KernelAddressing::Concrete);
    let (_, exp) = dsc(&all, 0);
    let node = &exp["scheduleTree_"][0];
    assert_eq!(node["backGapCore_"], json!({"out": {"-1": "128"}}));
    // The second stick of every row: 512 sticks behind the first.
    assert_eq!(starts(exp, 0)[0], SEGMENT + 512 * 128);
    assert!(exp["scheduleTree_"][1]["backGapCore_"].is_null());
    // Every second stick: the lanes are part of a dimension of two sticks.
    let p = program(
        "graph g(x: float16[1, 4096]) {
            h = reshape(x, size=[32, 128])
            v = slice(h, dim=1, start=64, end=128)
            z = neg(v)
            return z }",
    );
    let all = run(&p, KernelAddressing::Concrete);
    assert_eq!(all.refused, []);
    let (_, neg) = dsc(&all, 0);
    let node = &neg["scheduleTree_"][0];
    assert_eq!(node["layoutDimOrder_"], json!(["out", "mb"]));
    assert_eq!(node["backGapCore_"], json!({"out": {"-1": "64"}}));
    assert_eq!(starts(neg, 0)[..2], [SEGMENT + 128, SEGMENT + 128 + 256]);
}

#[test]
fn addresses_can_be_arguments_of_the_bundle() {
    let p =
        program("graph g(x: float16[512, 256], y: float16[512, 256]) { z = add(x, y) return z }");
    let all = run(&p, KernelAddressing::Symbolic);
    let (_, add) = dsc(&all, 0);
    for tensor in 0..3 {
        assert_eq!(add["scheduleTree_"][tensor]["isStartAddrSymbolic_"], 1);
        let data = &add["scheduleTree_"][tensor]["startAddressCoreCorelet_"]["data_"];
        let first = tensor * 32 + 1;
        assert_eq!(data["[0, 0, 0]"], format!("-{first}"));
        assert_eq!(data["[31, 0, 0]"], format!("-{}", first + 31));
    }
    let lines: Vec<&str> = all.mlir.lines().map(str::trim).collect();
    assert_eq!(
        lines[1],
        "func.func @sdsc_bundle(%pool_base_addr: !sdscbundle.input_arg<index>, \
         %arg_0_base_addr: !sdscbundle.input_arg<index>, \
         %arg_1_base_addr: !sdscbundle.input_arg<index>) {"
    );
    assert_eq!(
        lines[3],
        "%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : \
         !sdscbundle.input_arg<index> -> index"
    );
    assert!(
        lines.contains(&"%arg_1_core_2048 = arith.addi %arg_1, %arg_1_core_offset_2048 : index")
    );
    let execute = lines.iter().find(|l| l.starts_with("sdscbundle.sdsc_execute")).unwrap();
    assert!(execute.starts_with("sdscbundle.sdsc_execute (%arg_0, %arg_0_core_2048, "));
    assert!(execute.contains("{sdsc_filename=\"sdsc_0.json\", \"symbol_ids\"=[-1, -2, "));
    // Every value is made before it is used, once.
    for value in execute.split(['(', ')', ',']).map(str::trim).filter(|v| v.starts_with('%')) {
        let made = format!("{value} = ");
        assert_eq!(lines.iter().filter(|l| l.starts_with(&made)).count(), 1, "{value}");
    }
}

#[test]
fn tensors_in_scratchpads_have_one_address() {
    let mut p = program("graph g(x: float16[512, 256]) { y = exp(x) z = neg(y) return z }");
    let y = p.buffers.iter().position(|b| b.name == "y").unwrap();
    p.buffers[y].place = zellige_compile::BufferLocation::Lx(4096);
    let all = run(&p, KernelAddressing::Symbolic);
    let (_, neg) = dsc(&all, 1);
    let node = &neg["scheduleTree_"][0];
    assert_eq!(node["name_"], "allocate-Tensor0_lx");
    assert!(node["isStartAddrSymbolic_"].is_null());
    assert!(starts(neg, 0).iter().all(|a| *a == 4096));
    assert_eq!(neg["labeledDs_"][0]["memOrg_"], json!({"lx": {"isPresent": 1}}));
}

#[test]
fn slices_of_different_lengths_are_kernels_of_their_own() {
    let mut p = program("graph g(x: float16[10, 256]) { z = exp(x) return z }");
    let space = p.steps[0].space.clone().unwrap();
    p.steps[0].division = WorkDivision::new(&[4, 1], &space, 32).unwrap();
    let all = run(&p, KernelAddressing::Concrete);
    assert_eq!((all.kernels.len(), all.refused.len()), (2, 0));
    // Three rows on each of the first two cores, two on the others.
    let (first, second) = (dsc(&all, 0), dsc(&all, 1));
    assert_eq!(first.1["N_"], json!({"name_": "n", "mb_": 6, "out_": 256}));
    assert_eq!(first.1["coreIdsUsed_"], json!([0, 1]));
    assert_eq!(second.1["N_"], json!({"name_": "n", "mb_": 4, "out_": 256}));
    assert_eq!(second.1["coreIdsUsed_"], json!([2, 3]));
    assert_eq!(second.0["coreIdToWkSlice_"]["3"], json!({"mb": 1, "out": 0}));
    let data = &second.1["scheduleTree_"][0]["startAddressCoreCorelet_"]["data_"];
    assert_eq!(data["[3, 0, 0]"], (SEGMENT + 8 * 128).to_string());
    // The rows that are left out are behind those of every stick.
    assert_eq!(second.1["scheduleTree_"][0]["backGapCore_"], json!({"mb": {"-1": "6"}}));
}

#[test]
fn a_sum_over_a_dimension_that_is_not_whole_sticks_has_rows_of_zeros() {
    let p = program("graph g(x: float16[64, 67], y: float16[67, 64]) { z = mm(x, y) return z }");
    assert!(p.steps[0].is_move() && p.steps.len() == 2);
    let padded = p.buffer(p.steps[0].writes[0]).laid.stick_layout();
    assert_eq!(padded.device_size(), [1, 128, 64]);
    let all = run(&p, KernelAddressing::Concrete);
    assert_eq!((all.kernels.len(), all.refused.as_slice()), (3, &[][..]));
    let names: Vec<String> = all
        .kernels
        .iter()
        .map(|k| k.json.as_object().unwrap().keys().next().unwrap().clone())
        .collect();
    assert_eq!(names, ["0_identity", "1_identity", "2_batchmatmul"]);
    // The second one fills rows 67 to 127, behind what the first one copies.
    let (_, fill) = dsc(&all, 1);
    assert_eq!(fill["N_"], json!({"name_": "n", "mb_": 61, "out_": 64}));
    assert_eq!(starts(fill, 1)[0] - starts(dsc(&all, 0).1, 1)[0], 67 * 128);
    let (_, product) = dsc(&all, 2);
    assert_eq!(product["N_"], json!({"name_": "n", "mb_": 64, "out_": 64, "in_": 128}));
    // Weights have these rows when they are loaded.
    let text =
        "graph g(x: float16[64, 67], w: float16[64, 67] @weight) { z = linear(x, w) return z }";
    let p = compile_graph(&zellige_graph::text::parse(text).unwrap(), &CompilerOptions::default())
        .unwrap();
    assert_eq!(p.steps.len(), 1);
    assert_eq!(p.buffer(p.inputs[1]).laid.stick_layout().device_size(), [1, 128, 64]);
    assert!(run(&p, KernelAddressing::Concrete).refused.is_empty());
}

#[test]
fn other_cores_than_the_first_keep_their_numbers() {
    let mut p = program("graph g(x: float16[8, 64]) { z = exp(x) return z }");
    let space = p.steps[0].space.clone().unwrap();
    p.steps[0].division = WorkDivision::new(&[8, 1], &space, 32).unwrap();
    p.steps[0].first_core = 16;
    let all = run(&p, KernelAddressing::Concrete);
    let (top, exp) = dsc(&all, 0);
    assert_eq!(exp["coreIdsUsed_"], json!((16..24).collect::<Vec<_>>()));
    assert_eq!(top["coreIdToWkSlice_"]["17"], json!({"mb": 1, "out": 0}));
    let data = &exp["scheduleTree_"][0]["startAddressCoreCorelet_"]["data_"];
    assert_eq!(data["[17, 0, 0]"], (SEGMENT + 128).to_string());
}

/// Layers that differ in their addresses alone are one file for each operation, where addresses are arguments.
#[test]
fn kernels_with_the_same_content_are_one_file() {
    let text = "graph g(x: float16[64, 128], y: float16[64, 128], z: float16[64, 128]) {
        a = add(x, y) b = add(y, z) c = exp(a) d = exp(b) e = mul(c, d) return e, c, d
    }";
    // In scratchpads, addresses are no arguments.
    let options = CompilerOptions { scratchpads: None, ..CompilerOptions::baseline() };
    let p = compile_graph(&zellige_graph::text::parse(text).unwrap(), &options).unwrap();
    for addresses in [KernelAddressing::Symbolic, KernelAddressing::Concrete] {
        let all = run(&p, addresses);
        let files: Vec<&str> = all.kernels.iter().map(|k| k.file.as_str()).collect();
        let emitted = all.emitted_files();
        let texts: std::collections::BTreeSet<&str> =
            emitted.iter().map(|f| f.text.as_str()).collect();
        assert_eq!(texts.len(), emitted.len(), "no file is there twice");
        // Each execution names its file and binds its own addresses.
        let lines: Vec<&str> =
            all.mlir.lines().filter(|l| l.contains("sdscbundle.sdsc_execute")).collect();
        assert_eq!(lines.len(), files.len());
        for (line, file) in lines.iter().zip(&files) {
            assert!(line.contains(&format!("sdsc_filename=\"{file}\"")), "{line}");
        }
        match addresses {
            KernelAddressing::Concrete => assert_eq!(emitted.len(), 1 + 5, "{files:?}"),
            KernelAddressing::Symbolic => {
                let [zero, two, four] = ["sdsc_0.json", "sdsc_2.json", "sdsc_4.json"];
                assert_eq!(files, [zero, zero, two, two, four]);
                assert_eq!(emitted.len(), 1 + 3);
                let of = |file: &str| lines.iter().filter(|l| l.contains(file)).collect::<Vec<_>>();
                assert!(of(zero)[0] != of(zero)[1] && of(zero)[0].contains("[-1, -2, "));
            }
        }
    }
}
