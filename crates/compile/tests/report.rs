//! The report of every example: as published, and adding up.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use zellige_compile::report::{self, explain_layout, report_compared, report_program};
use zellige_compile::{CompiledProgram, CompilerOptions, compile_graph};
use zellige_graph::text;
use zellige_op::CoverageProfile;
use zellige_report::{Report, StepKind};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn program(name: &str, options: &CompilerOptions) -> CompiledProgram {
    let source =
        std::fs::read_to_string(root().join(format!("examples/{name}.graph"))).expect("an example");
    compile_graph(&text::parse(&source).expect("a graph"), options).expect("it compiles")
}

/// Checks a value against the part of JSON Schema that the published schema uses.
fn conforms(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let part = name.strip_prefix("#/$defs/").expect("a part of this schema");
        return conforms(value, &root["$defs"][part], root).map_err(|e| format!("{part}: {e}"));
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = any.iter().any(|s| conforms(value, s, root).is_ok());
        return if fits { Ok(()) } else { Err("none of those accepted".into()) };
    }
    if let Some(words) = schema["oneOf"].as_array() {
        let fits = words.iter().any(|word| word["const"] == *value);
        return if fits { Ok(()) } else { Err(format!("{value} is no word")) };
    }
    let is = |name: &Value| match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("no type is called {other}"),
    };
    let right = match &schema["type"] {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    };
    let constant = &schema["const"];
    if !right || !(constant.is_null() || constant == value) {
        return Err(format!("no {}", schema["type"]));
    }
    if schema["minimum"].as_i64().zip(value.as_i64()).is_some_and(|(least, n)| n < least) {
        return Err(format!("{value} is less than {}", schema["minimum"]));
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            object
                .get(name.as_str().expect("a name"))
                .ok_or_else(|| format!("{name} is missing"))?;
        }
        for (name, field) in object {
            let known = &schema["properties"][name];
            if known.is_null() {
                return Err(format!("unknown field {name}"));
            }
            conforms(field, known, root).map_err(|e| format!("{name}: {e}"))?;
        }
    }
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    match schema["prefixItems"].as_array() {
        Some(parts) if parts.len() != items.len() => Err(format!("no {} items", parts.len())),
        Some(parts) => items.iter().zip(parts).try_for_each(|(i, part)| conforms(i, part, root)),
        None => items.iter().try_for_each(|item| conforms(item, &schema["items"], root)),
    }
}

#[test]
fn reports_follow_the_published_schema() {
    let schema = std::fs::read_to_string(root().join("docs/schemas/report.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let card = CompilerOptions { coverage: CoverageProfile::Card, ..CompilerOptions::baseline() };
    for name in ["transposed-sum", "softmax", "llama-block", "conv-net"] {
        let best = program(name, &CompilerOptions::default());
        let baseline = program(name, &card);
        for report in [report_compared(&best, &baseline), report_program(&baseline)] {
            let value = serde_json::to_value(&report).unwrap();
            conforms(&value, &schema, &schema).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(serde_json::from_value::<Report>(value).unwrap(), report, "{name}");
        }
    }
    let good = serde_json::to_value(report_program(&program("softmax", &card))).unwrap();
    for (path, wrong) in [
        ("/version", json!(1)),
        ("/summary", json!({})),
        ("/summary/bytes", json!(-1)),
        ("/options/policy", json!("worst")),
        ("/options/scratchpads", json!(1)),
        ("/pool/points", json!([[0.0, 1, 2]])),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).expect("a part of a report") = wrong;
        assert!(conforms(&bad, &schema, &schema).is_err(), "{path}");
    }
    let mut more = good.clone();
    more["summary"]["more"] = json!(1);
    assert!(conforms(&more, &schema, &schema).is_err());
}

/// The totals are those of the lists.
#[test]
fn totals_are_sums_of_what_is_listed() {
    for name in ["transposed-sum", "attention", "llama-block", "llama-block-decode"] {
        let r = report_program(&program(name, &CompilerOptions::default()));
        let run = || r.steps.iter().filter(|s| !s.load);
        let bytes: u64 = run().map(|s| s.bytes_in + s.bytes_out).sum();
        assert_eq!(r.summary.bytes, bytes, "{name}");
        assert_eq!(r.summary.flops, run().map(|s| s.flops).sum::<u64>(), "{name}");
        let moves: Vec<_> = r.moves.iter().filter(|m| !m.load).collect();
        assert_eq!(r.summary.moves, moves.len(), "{name}");
        assert!((r.summary.move_us - moves.iter().map(|m| m.us).sum::<f64>()).abs() < 1e-6);
        let last = run().map(|s| s.start_us + s.us).fold(0.0, f64::max);
        assert!((r.summary.latency_us - last).abs() < 1e-6, "{name}");
        assert!((0.0..=1.0).contains(&r.summary.balance) && r.summary.utilisation <= 1.0);
        assert!(r.summary.cores <= r.machine.cores, "{name}: {} cores", r.summary.cores);
        // Who writes and who reads are two views of the same.
        for (i, t) in r.tensors.iter().enumerate() {
            for step in &t.read_by {
                assert!(r.steps[*step].reads.iter().any(|o| o.buffer == i), "{name}: {}", t.name);
            }
        }
        // No point is above the roof.
        for s in run().filter(|s| s.kind == StepKind::Op) {
            let roof = s.intensity.map_or(f64::MAX, |x| x * r.machine.memory_gb_s / 1e3);
            let roof = roof.min(r.machine.peak_tflops);
            assert!(s.tflops <= roof * 1.0001, "{name}: {} at {} of {roof}", s.name, s.tflops);
        }
    }
}

#[test]
fn the_work_of_the_host_is_listed_with_its_round_trip() {
    let card = CompilerOptions { decompose: Some(false), ..CompilerOptions::default() }
        .with_profile(CoverageProfile::Card);
    let text = "graph g(x: float32[64, 64]) { a = sin(x) at \"m.py:3\" y = add(a, 1) return y }";
    let graph = text::parse(text).unwrap();
    let r = report_program(&compile_graph(&graph, &card).unwrap());
    assert_eq!(r.fallbacks.len(), 1);
    assert_eq!((r.fallbacks[0].op.as_str(), r.fallbacks[0].at.as_deref()), ("sin", Some("m.py:3")));
    assert!(r.fallbacks[0].us > 0.0 && r.summary.host_us == r.fallbacks[0].us);
    assert!(r.notes.iter().any(|n| n.kind == "graph_break"));
    // float32 is stored in 16 bits, unless it is kept.
    assert!(r.casts.iter().any(|c| c.tensor == "x" && c.remedy.contains("--fp32 keep")));
    let mut keep = card;
    keep.storage.keep.float32 = true;
    assert!(report_program(&compile_graph(&graph, &keep).unwrap()).casts.is_empty());
}

/// The chosen layout is the cheapest, and its plan is the program's.
#[test]
fn explanations_price_every_layout() {
    let program = program("transposed-sum", &CompilerOptions::default());
    for (id, t) in program.graph.tensors() {
        let e = explain_layout(&program, &t.name).unwrap();
        assert_eq!(e.view.is_some(), program.graph.base_and_view(id).0 != id, "{}", t.name);
        let chosen: Vec<_> = e.options.iter().filter(|o| o.chosen).collect();
        assert_eq!(chosen.len(), 1, "{}", t.name);
        assert_eq!(chosen[0].cost, Some(program.assignment.cost), "{}", t.name);
        assert!(e.options.iter().all(|o| o.cost >= chosen[0].cost), "{}", t.name);
    }
    let e = explain_layout(&program, "p").unwrap();
    assert!(e.options.len() > 1 && e.decided_by == "choice", "{}", e.why);
    let missing = explain_layout(&program, "nothing").unwrap_err();
    assert!(missing.to_string().contains("no such tensor"));
}

#[test]
fn refusals_say_what_to_do() {
    let text = "graph g(x: float16[64, 64]) { y = add(x, 1) split {c9: 2} at \"m.py:1\" return y }";
    let graph = text::parse(text).unwrap();
    let bad = CompilerOptions { cores: 77, ..CompilerOptions::default() };
    let note = report::report_refusal(&compile_graph(&graph, &bad).unwrap_err(), &graph);
    assert_eq!(note.kind, "bad_cores");
    assert!(note.remedy.unwrap().contains("SENCORES"));
}

/// What a bundle has in memory, from the lists of steps and tensors alone: of every byte that it names, who else does.
#[test]
fn bundles_list_their_steps_launches_and_memory() {
    let graph = "graph g(x: float16[64, 256], w: float16[256, 256] @weight) {
        a = linear(x, w)
        b = softmax(a, dim=1)
        c = cumsum(b, dim=1)
        d = mul(c, b)
        e = sum(d, dim=[0])
        return e, a
    }";
    let graph = text::parse(graph).unwrap();
    for scratchpads in [None, CompilerOptions::default().scratchpads] {
        for stack in ["card-2026-05", "card-2026-09"] {
            let hardware = zellige_machine::Hardware::built_in_preset(stack).unwrap();
            let options = CompilerOptions { hardware, scratchpads, ..CompilerOptions::default() };
            let options = CompilerOptions { coverage: CoverageProfile::Card, ..options };
            let r = report_program(&compile_graph(&graph, &options).unwrap());
            check_bundles_of_report(stack, &r);
        }
    }
}

fn check_bundles_of_report(stack: &str, r: &Report) {
    use zellige_report::{BufferPlace, BundleWorker};
    let run: f64 = r.bundles.iter().filter(|b| !b.load).map(|b| b.us).sum();
    assert!((run - r.summary.latency_us).abs() < 1e-6, "{stack}");
    let launched = r.bundles.iter().filter(|b| !b.load && b.launched);
    assert_eq!(launched.clone().count(), r.summary.launches);
    assert!((launched.map(|b| b.launch_us).sum::<f64>() - r.summary.launch_us).abs() < 1e-6);
    // In whose place a tensor is, at the end of all replacements.
    let root = |mut at: usize| loop {
        match &r.tensors[at].over {
            Some(name) => at = r.tensors.iter().position(|t| t.name == *name).expect("a tensor"),
            None => break at,
        }
    };
    let uses = |step: usize| -> Vec<usize> {
        let s = &r.steps[step];
        s.reads.iter().chain(&s.writes).map(|o| root(o.buffer)).collect()
    };
    let outputs: Vec<usize> =
        (0..r.tensors.len()).filter(|t| r.tensors[*t].output).map(root).collect();
    let mut next = 0;
    for b in &r.bundles {
        assert_eq!(b.first_step, next, "{stack}");
        next += b.steps;
        let own = b.first_step..next;
        let kinds = r.steps[own.clone()].iter().map(|s| s.kind == StepKind::Host);
        assert!(kinds.into_iter().all(|host| host == (b.worker == BundleWorker::Host)));
        let outside = |t: usize| {
            let others = (0..r.steps.len()).filter(|s| !own.contains(s));
            outputs.contains(&t) || others.into_iter().any(|s| uses(s).contains(&t))
        };
        let mut arguments: Vec<usize> = own.clone().flat_map(uses).collect();
        arguments.sort_unstable();
        arguments.dedup();
        let of = |place: BufferPlace| {
            arguments.iter().copied().filter(move |t| r.tensors[*t].place == place)
        };
        assert_eq!(b.arguments, of(BufferPlace::Own).collect::<Vec<_>>(), "{stack}");
        let shared: u64 =
            of(BufferPlace::Pool).filter(|t| outside(*t)).map(|t| r.tensors[t].bytes).sum();
        assert_eq!(b.shared_pool_bytes, shared, "{stack}");
        let alive = |step: usize| -> u64 {
            let used_until = |t: usize, steps: std::ops::Range<usize>| {
                steps.into_iter().any(|s| uses(s).contains(&t))
            };
            of(BufferPlace::Pool)
                .filter(|t| !outside(*t))
                .filter(|t| used_until(*t, own.start..step + 1) && used_until(*t, step..own.end))
                .map(|t| r.tensors[t].bytes)
                .sum()
        };
        assert_eq!(b.pool_bytes, own.clone().map(alive).max().expect("a step"), "{stack}");
        assert!(b.pool_bytes <= r.summary.pool_peak, "{stack}: one pool holds them all");
    }
    assert_eq!(next, r.steps.len());
    assert!(stack == "card-2026-05" || r.bundles.iter().any(|b| b.shared_pool_bytes > 0));
}
