//! The JSON schema of a type, as this project publishes it.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// The schema of what serde writes: each field is required, as each is written.
pub(super) fn generate_schema<T: JsonSchema>() -> Value {
    // The schema of what is written and not of what is accepted: serde would also read a report without an optional
    // field, but none is ever written so.
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(simplify_schema);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Leaves out `format`, whose values (`uint`, `double`) are no part of JSON Schema, puts each description on
/// one line, and begins with what a reader looks for first.
fn simplify_schema(schema: &mut Schema) {
    transform_subschemas(&mut simplify_schema, schema);
    let Some(old) = schema.as_object_mut() else { return };
    let mut new = Map::new();
    let first = ["$schema", "title", "description", "type"].map(String::from);
    let rest = old.keys().filter(|k| *k != "format" && *k != "$defs").cloned().collect::<Vec<_>>();
    for key in first.into_iter().chain(rest).chain(["$defs".into()]) {
        let Some(value) = old.get(&key) else { continue };
        // Doc comments are wrapped for the source; in the schema a description is one paragraph.
        let value = match value.as_str().filter(|_| key == "description") {
            Some(text) => text.split_whitespace().collect::<Vec<_>>().join(" ").into(),
            None => value.clone(),
        };
        new.insert(key, value);
    }
    *old = new;
}

/// The longest line of [`format_json`].
const WIDTH: usize = 120;

/// JSON whose values are on one line each, as far as they fit.
pub(super) fn format_json(value: &Value, indent: usize) -> String {
    let line = format_on_one_line(value);
    // Room for the name of the field and the comma.
    // The name of a field is printed before the value, and this function does not know it.
    if line.len() + indent + 24 <= WIDTH {
        return line;
    }
    let (open, items, close): (_, Vec<String>, _) = match value {
        Value::Object(fields) => {
            let field =
                |(k, v): (&String, &Value)| format!("\"{k}\": {}", format_json(v, indent + 2));
            ('{', fields.iter().map(field).collect(), '}')
        }
        Value::Array(items) => {
            ('[', items.iter().map(|v| format_json(v, indent + 2)).collect(), ']')
        }
        _ => return line,
    };
    let pad = " ".repeat(indent);
    let inner = items.join(&format!(",\n{pad}  "));
    format!("{open}\n{pad}  {inner}\n{pad}{close}")
}

fn format_on_one_line(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let field = |(k, v): (&String, &Value)| format!("\"{k}\": {}", format_on_one_line(v));
            format!("{{ {} }}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(format_on_one_line).collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}
