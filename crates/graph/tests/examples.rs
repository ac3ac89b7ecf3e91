//! The graphs in `examples/`: well-typed, and the same after a round trip.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use std::path::Path;
use zellige_graph::{json, text};

#[test]
fn every_example_is_a_graph() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "graph") {
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let graph = text::parse(&source)
            .unwrap_or_else(|e| panic!("{}: {}", path.display(), e.render(&source, false)));
        assert_eq!(text::parse(&text::print_graph(&graph)).unwrap(), graph, "{}", path.display());
        assert_eq!(json::parse(&json::print_graph(&graph)).unwrap(), graph, "{}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn the_large_model_has_the_published_sizes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/granite-8b-decode.graph");
    let graph = text::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let weights = graph.tensors().filter(|(_, t)| {
        t.def == zellige_graph::TensorOrigin::Input(zellige_graph::InputRole::Weight)
    });
    let parameters: i64 = weights.map(|(_, t)| t.size.iter().product::<i64>()).sum();
    let (hidden, mlp, vocab, kv) = (4096, 12800, 49159, 8 * 128);
    let layer = 2 * hidden * hidden + 2 * kv * hidden + 3 * mlp * hidden + 2 * hidden;
    // The embedding is counted once: it is also the output's. 8.17 billion.
    assert_eq!(parameters, vocab * hidden + 40 * layer + hidden);
    assert_eq!(graph.tensor("logits").unwrap().size, [1, 49159]);
    assert_eq!(graph.outputs().len(), 1 + 2 * 40);
}

/// Checks a value against the part of JSON Schema that the published schema uses.
fn conforms(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let part = name.strip_prefix("#/$defs/").unwrap();
        return conforms(value, &root["$defs"][part], root).map_err(|e| format!("{part}: {e}"));
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = any.iter().any(|s| conforms(value, s, root).is_ok());
        return if fits { Ok(()) } else { Err(format!("{value} is none of those accepted")) };
    }
    let right = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        _ => true,
    };
    if !right {
        return Err(format!("{value} is no {}", schema["type"]));
    }
    if let Some(object) = value.as_object() {
        for name in schema["required"].as_array().into_iter().flatten() {
            object.get(name.as_str().unwrap()).ok_or_else(|| format!("{name} is missing"))?;
        }
        for (name, field) in object {
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => return Err(format!("unknown field {name}")),
                (Value::Null, Value::Object(_)) => {
                    conforms(field, &schema["additionalProperties"], root)?;
                }
                (Value::Null, _) => {}
                (known, _) => conforms(field, known, root).map_err(|e| format!("{name}: {e}"))?,
            }
        }
    }
    for item in value.as_array().into_iter().flatten() {
        conforms(item, &schema["items"], root)?;
    }
    Ok(())
}

#[test]
fn what_is_written_follows_the_published_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let schema = std::fs::read_to_string(root.join("docs/schemas/graph.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let check = |text: &str| conforms(&serde_json::from_str(text).unwrap(), &schema, &schema);
    for name in ["llama-block-decode", "conv-net", "granite-8b-prefill"] {
        let source = std::fs::read_to_string(root.join(format!("examples/{name}.graph"))).unwrap();
        check(&json::print_graph(&text::parse(&source).unwrap())).unwrap();
    }
    // Every field at once.
    let all = "graph g[s in 64..128 step 64](x: float16[s, 64] @state pin order [1, 0]) {
        y = add(x, 1) pin sparse split {c0: 2} at \"m.py:1\"
        z = mul(y, 2.5) pin stick 1
        return z }";
    check(&json::print_source(&text::parse_source(all).unwrap())).unwrap();
    // And the schema refuses what the reader refuses.
    for bad in [r#"{"name":"g"}"#, r#"{"name":"g","inputs":[],"ops":[],"outputs":[],"more":1}"#] {
        assert!(check(bad).is_err() && json::parse_source(bad).is_err());
    }
}
