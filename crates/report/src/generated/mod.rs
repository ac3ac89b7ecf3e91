//! The published schema and the explorer's types, held against the Rust types that they are generated from.
//! `ZELLIGE_BLESS=1 cargo test -p zellige-report` writes them again.

mod schema;
mod typescript;

use crate::{PolicyComparison, Report, ReportedStep, VERSION};
use serde_json::{Value, json};
use std::path::Path;

/// Compares a generated text with the committed file, or writes that file.
fn compare_with_committed(path: &str, generated: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("ZELLIGE_BLESS").is_some() {
        std::fs::write(&file, generated).expect("the file can be written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    // The first difference alone: the whole texts are hundreds of lines, and the command that is printed rewrites the
    // file anyway.
    let first = kept.lines().zip(generated.lines()).find(|(a, b)| a != b);
    assert!(
        kept == generated,
        "{path} is not what the types of crates/report give, first at {first:?}; \
         ZELLIGE_BLESS=1 cargo test -p zellige-report writes it again"
    );
}

#[test]
fn the_schema_is_that_of_the_types() {
    let schema = schema::generate_schema::<Report>();
    let text = schema::format_json(&schema, 0);
    // The text is formatted by this crate's own printer, which must not lose a value.
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), schema);
    compare_with_committed("docs/schemas/report.schema.json", &format!("{text}\n"));
}

#[test]
fn the_typescript_is_that_of_the_types() {
    let text = typescript::generate_typescript("Report", &schema::generate_schema::<Report>());
    compare_with_committed("explorer/src/model/report.ts", &text);
}

/// Every object of the schema is closed: no field may be missing, and none may be added.
#[test]
fn objects_are_closed() {
    fn check_objects_closed(value: &Value, found: &mut usize) {
        if let Some(fields) = value["properties"].as_object() {
            let required = value["required"].as_array().expect("required fields");
            // Closed in both directions: an optional field would let a reader take an old report for a new one.
            assert!(fields.keys().all(|f| required.contains(&json!(f))), "{value}");
            assert!(fields.values().all(|f| f["description"].is_string()), "{value}");
            assert_eq!(value["additionalProperties"], false, "{value}");
            *found += 1;
        }
        value
            .as_object()
            .into_iter()
            .flat_map(|o| o.values())
            .for_each(|v| check_objects_closed(v, found));
    }
    let mut found = 0;
    check_objects_closed(&schema::generate_schema::<Report>(), &mut found);
    assert!(found > 15, "{found} objects");
}

/// A report is read back as it was written, and nothing else is read as one.
#[test]
fn json_is_read_back() {
    let report = Report {
        version: VERSION,
        steps: vec![ReportedStep { us: 0.1, intensity: Some(1.0 / 3.0), ..Default::default() }],
        comparison: Some(PolicyComparison { speedup: 1.5, ..Default::default() }),
        ..Default::default()
    };
    let written = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(serde_json::from_value::<Report>(written.clone()).expect("the same types"), report);
    let changed = |change: fn(&mut Value)| {
        let mut value = written.clone();
        change(&mut value);
        serde_json::from_value::<Report>(value).map_err(|e| e.to_string())
    };
    let refused = changed(|v| v["summary"]["more"] = json!(1)).expect_err("an unknown field");
    assert!(refused.contains("unknown field `more`"), "{refused}");
    let refused = changed(|v| v["options"]["policy"] = json!("worst")).expect_err("another word");
    assert!(refused.contains("expected `best` or `baseline`"), "{refused}");
    let refused = changed(|v| v["graph"] = json!(null)).expect_err("no text");
    assert!(refused.contains("expected a string"), "{refused}");
}
