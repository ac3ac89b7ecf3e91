//! TypeScript types from the part of JSON Schema that the types of a report give.
//!
//! An object becomes an interface, a list of words a union of literals; a description becomes the comment.

use serde_json::Value;

/// The longest line of a comment.
const WIDTH: usize = 110;

/// The types of a schema, the root first.
pub(super) fn generate_typescript(root: &str, schema: &Value) -> String {
    let mut out = String::from(
        "/// The types of a report, generated from crates/report: \
         ZELLIGE_BLESS=1 cargo test -p zellige-report writes this file again.\n",
    );
    let others = schema["$defs"].as_object().expect("the types of the fields");
    let types = std::iter::once((root, schema)).chain(others.iter().map(|(n, s)| (n.as_str(), s)));
    for (name, schema) in types {
        out.push('\n');
        write_comment(&mut out, "", schema);
        if let Some(fields) = schema["properties"].as_object() {
            out.push_str(&format!("export interface {name} {{\n"));
            for (field, schema) in fields {
                write_comment(&mut out, "  ", schema);
                out.push_str(&format!("  {field}: {};\n", type_expression(schema)));
            }
            out.push_str("}\n");
        } else {
            out.push_str(&format!("export type {name} = {};\n", type_expression(schema)));
        }
    }
    out
}

/// The description of a type or a field; that of a list of words also says what each word means.
fn write_comment(out: &mut String, indent: &str, schema: &Value) {
    let text = |s: &Value| s["description"].as_str().expect("a doc comment").to_owned();
    // TypeScript has no doc comment for a member of a union, so that the meanings of the words stand in the comment
    // of the type.
    let words = schema["oneOf"].as_array().into_iter().flatten();
    let meanings = words.map(|word| format!("{}: {}", word["const"], text(word)));
    for paragraph in std::iter::once(text(schema)).chain(meanings) {
        let mut line = format!("{indent}///");
        for word in paragraph.split(' ') {
            if line.len() + 1 + word.len() > WIDTH {
                out.push_str(&line);
                line = format!("\n{indent}///");
            }
            line.push(' ');
            line.push_str(word);
        }
        out.push_str(&format!("{line}\n"));
    }
}

/// A schema as an expression for a type.
fn type_expression(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return reference.strip_prefix("#/$defs/").expect("a type of this schema").into();
    }
    if !schema["const"].is_null() {
        return schema["const"].to_string();
    }
    let list = |key: &str| schema[key].as_array();
    if let Some(any) = list("anyOf").or(list("oneOf")) {
        return any.iter().map(type_expression).collect::<Vec<_>>().join(" | ");
    }
    if let Some(parts) = list("prefixItems") {
        return format!("[{}]", parts.iter().map(type_expression).collect::<Vec<_>>().join(", "));
    }
    let one = |name: &Value| match name.as_str() {
        Some("integer" | "number") => "number".to_owned(),
        Some(plain @ ("string" | "boolean" | "null")) => plain.to_owned(),
        Some("array") => match type_expression(&schema["items"]) {
            // `a | b[]` would be a union with a list; the parentheses make it a list of unions.
            union if union.contains(' ') && !union.starts_with('[') => format!("({union})[]"),
            item => format!("{item}[]"),
        },
        // A panic is right in a test: a new kind of type needs a rule here before it can be published.
        _ => panic!("no TypeScript is known for {schema}"),
    };
    match &schema["type"] {
        Value::Array(names) => names.iter().map(one).collect::<Vec<_>>().join(" | "),
        name => one(name),
    }
}
