//! Every example, in every form: valid by the published schemas, and nothing left out silently.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use zellige_compile::emit::{self, BufferAddress, KernelAddressing, MemoryMap};
use zellige_compile::{CompiledProgram, CompilerOptions, StepAction, compile_graph};
use zellige_device::KeptDtypes;
use zellige_device::PlanOp;
use zellige_device::TensorLayout;
use zellige_op::CoverageProfile;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn examples() -> Vec<(String, zellige_graph::Graph)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "graph") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        all.push((name, zellige_graph::text::parse(&text).unwrap()));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn schema(name: &str) -> Value {
    let path = root().join(format!("docs/schemas/{name}.schema.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Checks a value against the part of JSON Schema that the published schemas use.
fn conforms(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let part = name.strip_prefix("#/$defs/").unwrap();
        return conforms(value, &root["$defs"][part], root).map_err(|e| format!("{part}: {e}"));
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = any.iter().any(|s| conforms(value, s, root).is_ok());
        return if fits { Ok(()) } else { Err("it is none of those accepted".into()) };
    }
    if let Some(list) = schema["enum"].as_array() {
        return if list.contains(value) { Ok(()) } else { Err(format!("not one of {list:?}")) };
    }
    let right = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some(other) => return Err(format!("a schema of type {other}")),
        None => true,
    };
    if !right {
        return Err(format!("it is no {}", schema["type"]));
    }
    if let (Some(least), Some(n)) = (schema["minimum"].as_i64(), value.as_i64())
        && n < least
    {
        return Err(format!("{n} is below {least}"));
    }
    let length = value.as_array().map(Vec::len).or(value.as_object().map(serde_json::Map::len));
    for (key, ok) in
        [("min", |n: u64, m: u64| n >= m), ("max", |n, m| n <= m)] as [(_, fn(u64, u64) -> bool); 2]
    {
        let what = if value.is_array() { "Items" } else { "Properties" };
        if let (Some(limit), Some(n)) = (schema[format!("{key}{what}")].as_u64(), length)
            && !ok(n as u64, limit)
        {
            return Err(format!("it has {n} entries"));
        }
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            object.get(name.as_str().unwrap()).ok_or_else(|| format!("{name} is missing"))?;
        }
        for (name, field) in object {
            let place = |e| format!("{name}: {e}");
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => return Err(format!("unknown field {name}")),
                (Value::Null, more @ Value::Object(_)) => {
                    conforms(field, more, root).map_err(place)?;
                }
                (Value::Null, _) => {}
                (known, _) => conforms(field, known, root).map_err(place)?,
            }
        }
    }
    for item in value.as_array().into_iter().flatten() {
        conforms(item, &schema["items"], root)?;
    }
    Ok(())
}

/// Emits, and checks the files against the schemas and the refusals against the steps.
fn check(name: &str, program: &CompiledProgram, addresses: KernelAddressing) {
    let schemas = ["superdsc", "dci", "host-program"].map(schema);
    let options = emit::EmitOptions { addresses, ..Default::default() };
    let emitted = emit::emit_program(program, &options).unwrap();
    let mut paths = BTreeSet::new();
    for file in &emitted.files {
        assert!(paths.insert(&file.path), "{name}: {} twice", file.path);
        let schema = match file.path.split('/').next().unwrap() {
            "ktir" => {
                let module = zellige_ktir::text::parse(&file.text)
                    .unwrap_or_else(|e| panic!("{name}: {}: {e}", file.path));
                assert_eq!(module.functions.len(), 1);
                continue;
            }
            // The report has a schema and tests of its own.
            "report.json" => continue,
            "graph.json" => {
                let again = zellige_graph::json::parse(&file.text)
                    .unwrap_or_else(|e| panic!("{name}: graph.json: {e}"));
                assert_eq!(zellige_graph::json::print_graph(&again), file.text, "{name}");
                continue;
            }
            _ if file.path.ends_with("bundle.mlir") => continue,
            "superdsc" => &schemas[0],
            "dci" => &schemas[1],
            _ => &schemas[2],
        };
        let value: Value = serde_json::from_str(&file.text).unwrap();
        conforms(&value, schema, schema).unwrap_or_else(|e| panic!("{name}: {}: {e}", file.path));
    }
    // Every step is a kernel or is listed, in both forms.
    let host: Value = serde_json::from_str(emitted.file_text("host.json").unwrap()).unwrap();
    let mut seen = 0;
    for phase in ["load", "run"] {
        for launch in host[phase]["steps"].as_array().unwrap() {
            let id = usize::try_from(launch["step"].as_u64().unwrap()).unwrap();
            let listed = |ktir: bool| {
                let of = |r: &&emit::EmitRefusal| r.step.0 == id && (r.target == "ktir") == ktir;
                emitted.refused.iter().filter(of).count()
            };
            let kernels = launch["kernels"].as_array().unwrap().iter();
            let kernels: Vec<&str> = kernels.map(|k| k.as_str().unwrap()).collect();
            let tiles: Vec<&str> = launch["ktir"].as_str().into_iter().collect();
            for (files, ktir) in [(kernels, false), (tiles, true)] {
                assert_eq!(
                    listed(ktir),
                    usize::from(files.is_empty()),
                    "{name}: step {id}, {ktir}"
                );
                for file in files {
                    assert!(emitted.file_text(file).is_some(), "{name}: step {id}: no {file}");
                }
            }
            for before in launch["after"].as_array().unwrap() {
                let before = &program.steps[usize::try_from(before.as_u64().unwrap()).unwrap()];
                let end = before.end_time().picoseconds();
                assert!(
                    end <= launch["start_ps"].as_u64().unwrap(),
                    "{name}: step {id} begins before what it waits for ends"
                );
            }
            seen += 1;
        }
    }
    assert_eq!(seen, program.steps.len());
    let (inputs, outputs) = (program.inputs.len(), program.outputs.len());
    let dci = emitted.files.iter().filter(|f| f.path.starts_with("dci/")).count();
    assert_eq!(dci, inputs + outputs);
}

/// A core's slice of every tensor begins where the device's own loops say it does.
fn check_starts(name: &str, program: &CompiledProgram) {
    let map = MemoryMap::new(program);
    for bundle in emit::superdsc::build_bundles(program, &map, KernelAddressing::Concrete) {
        for kernel in &bundle.kernels {
            let step = &program.steps[kernel.step.0];
            let StepAction::Op(_, op) = &step.action else { continue };
            let ins: Vec<TensorLayout> = step.reads.iter().map(|r| r.laid.clone()).collect();
            let outs: Vec<TensorLayout> =
                step.writes.iter().map(|b| program.buffer(*b).laid.clone()).collect();
            let Some(loops) = op.tensor_loops(&ins, &outs).unwrap() else { continue };
            let (_, top) = kernel.json.as_object().unwrap().iter().next().unwrap();
            let (_, dsc) = top["dscs_"][0].as_object().unwrap().iter().next().unwrap();
            let nodes = dsc["scheduleTree_"].as_array().unwrap();
            // Steps of several kernels are read back as a whole, in `reader.rs`.
            let alone = bundle.kernels.iter().filter(|k| k.step == kernel.step).count() == 1;
            if nodes.len() != ins.len() + 1 || !alone {
                continue;
            }
            let buffers = step.reads.iter().map(|r| r.buffer).chain(step.writes.iter().copied());
            for (t, (buffer, laid)) in buffers.zip(ins.iter().chain(&outs)).enumerate() {
                let form = laid.stick_form().unwrap();
                let data = &nodes[t]["startAddressCoreCorelet_"]["data_"];
                for core in 0..step.division.core_count() {
                    let region = loops.core_region(t, core, &step.division);
                    let first: Vec<usize> = region.iter().map(|r| r.start).collect();
                    let byte = form.element_offset(&first) * form.format.byte_size();
                    let want = match map.buffer_address(buffer) {
                        BufferAddress::Lx(at) => at,
                        other => other.planned_address().unwrap() + byte as u64,
                    };
                    let found = data[format!("[{}, 0, 0]", step.first_core + core)].as_str();
                    assert_eq!(
                        found,
                        Some(want.to_string().as_str()),
                        "{name}: step {}, tensor {t}, core {core}",
                        kernel.step.0
                    );
                }
            }
        }
    }
}

/// With float32 and int64 in the formats that the card's own kernels have.
fn as_stored(mut options: CompilerOptions) -> CompilerOptions {
    options.storage.keep = KeptDtypes::NONE;
    options
}

#[test]
fn every_example_follows_the_schemas() {
    for (name, graph) in examples() {
        let program = compile_graph(&graph, &as_stored(CompilerOptions::baseline())).unwrap();
        check(&name, &program, KernelAddressing::Concrete);
        check_starts(&name, &program);
        if name.contains("8b") {
            continue;
        }
        check(&name, &program, KernelAddressing::Symbolic);
        let program = compile_graph(&graph, &as_stored(CompilerOptions::default())).unwrap();
        check(&name, &program, KernelAddressing::Concrete);
        check_starts(&name, &program);
    }
}

/// What the bundles of a program leave out, a line for each step.
fn left_out(name: &str, program: &CompiledProgram) -> Vec<String> {
    let emitted = emit::emit_program(program, &emit::EmitOptions::default()).unwrap();
    // Copies between scratchpads have no kernel; the launch lists who sends what to whom instead.
    let is_copy = |r: &&emit::EmitRefusal| program.steps[r.step.0].scratchpad_copy().is_some();
    let refused = emitted.refused.iter().filter(|r| r.target != "ktir").filter(|r| !is_copy(r));
    refused.map(|r| format!("{name}: step {}, {}: {}", r.step.0, r.name, r.reason)).collect()
}

#[test]
fn every_step_of_every_example_is_in_its_bundle() {
    let mut list = Vec::new();
    for (name, graph) in examples() {
        let mut all = vec![("baseline", CompilerOptions::baseline())];
        if !name.contains("8b") {
            all.push(("best", CompilerOptions::default()));
        }
        for (policy, options) in all {
            let program = compile_graph(&graph, &options).unwrap();
            list.extend(left_out(&format!("{name}, {policy}"), &program));
        }
    }
    assert!(list.is_empty(), "{} steps are left out:\n{}", list.len(), list.join("\n"));
}

/// The bytes of a tensor from the first that a core of a kernel touches to the last, by the file alone.
fn reached(dsc: &Value, tensor: usize) -> u64 {
    let node = &dsc["scheduleTree_"][tensor];
    let lds = &dsc["labeledDs_"][tensor];
    let info = &dsc["primaryDsInfo_"][lds["dsType_"].as_str().unwrap()];
    let eps = info["stickSize_"][0].as_u64().unwrap();
    let own = &dsc["dataStageParam_"]["0"]["ss_"];
    let (mut run, mut last) = (eps, 0);
    for d in node["layoutDimOrder_"].as_array().unwrap() {
        let name = d.as_str().unwrap();
        let gap: i64 = node["backGapCore_"][name]["-1"].as_str().map_or(0, |g| g.parse().unwrap());
        let sticks = if info["stickDimOrder_"][0] == *d { eps } else { 1 };
        let all = dsc["N_"][format!("{name}_")].as_u64().unwrap().checked_add_signed(gap).unwrap();
        last += (own[format!("{name}_")].as_u64().unwrap().div_ceil(sticks) - 1) * run;
        run *= all.div_ceil(sticks);
    }
    (last + eps) * lds["wordLength"].as_u64().unwrap()
}

#[test]
fn tensors_above_8_gib_are_gone_through_in_rounds() {
    let span = 256 << 20;
    let text =
        "graph g(x: float16[70000, 65536], y: float16[70000, 65536]) { z = add(x, y) return z }";
    for options in [CompilerOptions::baseline(), CompilerOptions::default()] {
        let graph = zellige_graph::text::parse(text).unwrap();
        let program = compile_graph(&graph, &options).unwrap();
        let (_, rounds) = program.steps[0].rounds.unwrap();
        let map = MemoryMap::new(&program);
        assert!(program.buffers[0].bytes() > 32 * span && rounds == 2);
        let all = emit::superdsc::build_bundles(&program, &map, KernelAddressing::Concrete);
        let bundle = all.iter().find(|b| !b.load).unwrap();
        assert!(bundle.refused.is_empty(), "{:?}", bundle.refused);
        assert!(bundle.kernels.len() >= rounds);
        let mut elements = 0;
        for kernel in &bundle.kernels {
            let (_, top) = kernel.json.as_object().unwrap().iter().next().unwrap();
            let (_, dsc) = top["dscs_"][0].as_object().unwrap().iter().next().unwrap();
            for tensor in 0..3 {
                assert!(reached(dsc, tensor) <= span, "{} bytes", reached(dsc, tensor));
            }
            let n = &dsc["N_"];
            elements += n["mb_"].as_u64().unwrap() * n["out_"].as_u64().unwrap();
        }
        assert_eq!(elements, 70000 * 65536);
        // Smaller ones go at once; what cannot be cut is refused as before.
        let strict = CompilerOptions { strict: true, ..options };
        assert_eq!(compile_graph(&graph, &strict).unwrap_err().kind(), "span_limit");
    }
}

#[test]
fn schemas_refuse_what_is_not_said() {
    let text = "graph g(x: float16[64, 64]) { z = exp(x) return z }";
    let program =
        compile_graph(&zellige_graph::text::parse(text).unwrap(), &CompilerOptions::baseline())
            .unwrap();
    let emitted = emit::emit_program(&program, &emit::EmitOptions::default()).unwrap();
    let refuses = |schema: &Value, value: &Value| conforms(value, schema, schema).is_err();
    let (sdsc, host) = (schema("superdsc"), schema("host-program"));
    let mut kernel: Value =
        serde_json::from_str(emitted.file_text("superdsc/bundle_0/sdsc_0.json").unwrap()).unwrap();
    kernel["0_exp"]["more"] = Value::Null;
    assert!(refuses(&sdsc, &kernel));
    let mut program: Value = serde_json::from_str(emitted.file_text("host.json").unwrap()).unwrap();
    program["run"]["steps"][0]["kind"] = "other".into();
    assert!(refuses(&host, &program));
    assert!(refuses(&schema("dci"), &json!({"dci_dsName_": "x"})));
}

#[test]
fn what_cannot_be_expressed_is_said_in_the_bundle() {
    let text = "graph g(x: float16[64, 64]) { y = exp(x) z = cumsum(y, dim=1) return z }";
    let program =
        compile_graph(&zellige_graph::text::parse(text).unwrap(), &CompilerOptions::baseline())
            .unwrap();
    let emitted = emit::emit_program(&program, &emit::EmitOptions::default()).unwrap();
    let bundle = emitted.file_text("superdsc/bundle_0/bundle.mlir").unwrap();
    assert!(bundle.contains("sdscbundle.sdsc_execute () {sdsc_filename=\"sdsc_0.json\"}"));
    assert!(
        bundle.contains("// step 1, z, is not in this bundle: the card leaves cumsum to the host")
    );
    let refused: Vec<_> = emitted.refused.iter().map(|r| (r.target, r.step.0)).collect();
    assert_eq!(refused, [("superdsc", 1), ("ktir", 1)]);
    // Seven dimensions are the most.
    let size = "2, 2, 2, 2, 2, 2, 2, 2";
    let text = format!("graph g(x: float16[{size}]) {{ y = exp(x) return y }}");
    let program =
        compile_graph(&zellige_graph::text::parse(&text).unwrap(), &CompilerOptions::baseline())
            .unwrap();
    let emitted = emit::emit_program(&program, &emit::EmitOptions::default()).unwrap();
    assert!(emitted.refused[0].reason.contains("8 dimensions"), "{:?}", emitted.refused);
}

/// What the host does is a bundle of its own, without a program.
#[test]
fn steps_of_the_host_have_no_folder() {
    let text =
        "graph g(x: float16[64, 64]) { y = exp(x) z = cumsum(y, dim=1) a = neg(z) return a }";
    let options =
        CompilerOptions { coverage: CoverageProfile::Card, ..CompilerOptions::baseline() };
    let program = compile_graph(&zellige_graph::text::parse(text).unwrap(), &options).unwrap();
    let emitted = emit::emit_program(&program, &emit::EmitOptions::default()).unwrap();
    let host: Value = serde_json::from_str(emitted.file_text("host.json").unwrap()).unwrap();
    let bundles = host["run"]["bundles"].as_array().unwrap();
    let seen: Vec<_> = bundles.iter().map(|b| (&b["kind"], &b["steps"], &b["folder"])).collect();
    let (device, own) =
        (json!("device"), ["superdsc/bundle_0", "superdsc/bundle_2"].map(Value::from));
    assert_eq!(
        seen,
        [
            (&device, &json!([0]), &own[0]),
            (&json!("host"), &json!([1]), &Value::Null),
            (&device, &json!([2]), &own[1]),
        ]
    );
    for (bundle, folder) in [(0, "superdsc/bundle_0"), (2, "superdsc/bundle_2")] {
        assert!(bundles[bundle]["launch_ps"].is_u64());
        assert!(emitted.file_text(&format!("{folder}/bundle.mlir")).is_some());
    }
    assert!(bundles[1]["launch_ps"].is_null());
    assert!(emitted.files.iter().all(|f| !f.path.starts_with("superdsc/bundle_1/")));
    let reason = host["run"]["steps"][1]["no_kernel"].as_str().unwrap();
    assert!(reason.contains("the host does it"), "{reason}");
}

#[test]
fn odd_tensors_are_emitted_or_refused() {
    let graphs = [
        "graph g(x: float16[]) { z = exp(x) return z }",
        "graph g(x: float16[1]) { z = exp(x) return z }",
        "graph g(x: float16[0, 64]) { z = exp(x) return z }",
        "graph g(x: float16[127]) { z = sum(x) return z }",
        "graph g(x: float16[1, 1, 1]) { z = sum(x, dim=1) return z }",
        "graph g(x: float16[7, 11, 13]) { z = mean(x, dim=[0, 1, 2], keepdim=true) return z }",
        "graph g(x: float16[1, 67], y: float16[67, 1]) { z = mm(x, y) return z }",
        "graph g(x: float16[5], y: float16[5, 3]) { z = matmul(x, y) return z }",
        "graph g(x: float16[3, 5], y: float16[5]) { z = matmul(x, y) return z }",
        "graph g(x: int64[9, 9], y: int64[9, 9]) { z = add(x, y) return z }",
        "graph g(x: bool[9, 9]) { z = cast(x, dtype=\"float16\") return z }",
        "graph g(x: int8[9, 9]) { z = abs(x) return z }",
        "graph g() { z = ones(size=[8, 8]) return z }",
        "graph g(x: float16[4, 6]) { v = transpose(x, dim0=0, dim1=1) return v, x }",
        "graph g(x: float16[9, 130], y: float16[9, 130]) { z = cat(x, y, dim=1) return z }",
        "graph g(x: float16[9, 5]) { v, i = sort(x) return v, i }",
    ];
    for text in graphs {
        for coverage in CoverageProfile::ALL {
            let graph = zellige_graph::text::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let options = CompilerOptions { coverage, ..CompilerOptions::baseline() };
            let program = compile_graph(&graph, &options).unwrap_or_else(|e| panic!("{text}: {e}"));
            for addresses in [KernelAddressing::Concrete, KernelAddressing::Symbolic] {
                check(text, &program, addresses);
            }
            check_starts(text, &program);
        }
    }
}
