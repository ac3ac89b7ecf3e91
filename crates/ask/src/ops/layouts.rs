//! The layouts of a text that holds several: a module or a line of TTGIR, a printed atom of CuTe.

use super::OpAnswer;
use crate::RequestFault;
use crate::request::Request;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use zellige_notation::cute::{self, CuteText, print_modes};
use zellige_notation::triton::TritonAttribute;
use zellige_notation::triton::ttgir::{self, TtgirTensorType};
use zellige_notation::{Diagnostic, Notation, WrittenLayout};

pub(super) fn answer_layouts(r: &Request) -> OpAnswer {
    let text = r.require_str("text")?;
    if let Ok(CuteText::Atom(atom)) = cute::parse(text) {
        let list: Vec<Value> = atom
            .layouts_by_name()
            .map(|(name, modes)| {
                let layout = print_modes(modes);
                let shape = cute::parse(&layout).ok().and_then(|read| read.default_shape());
                json!({
                    "name": name,
                    "layout": layout,
                    "notation": Notation::CUTE.name(),
                    "uses": [{"shape": shape, "element": null, "dtype": null}],
                })
            })
            .collect();
        return Ok(json!({"layouts": list, "refused": []}));
    }
    let found = ttgir::survey_layouts(text);
    let mut list: Vec<PickedLayout<'_>> = Vec::new();
    let mut by_text: BTreeMap<String, usize> = BTreeMap::new();
    for d in &found.definitions {
        zellige_guard::count_step();
        // Two aliases may have the same attribute. The first keeps the uses, since a type names the attribute and
        // not the alias.
        by_text.entry(d.attribute.to_string()).or_insert(list.len());
        list.push(PickedLayout { name: Some(&d.name), attribute: &d.attribute, uses: Vec::new() });
    }
    for t in &found.types {
        zellige_guard::count_step();
        let at = *by_text.entry(t.attribute.to_string()).or_insert(list.len());
        match list.get_mut(at) {
            Some(layout) => layout.uses.push(t),
            // A layout that is written inside of a type has no alias.
            None => list.push(PickedLayout { name: None, attribute: &t.attribute, uses: vec![t] }),
        }
    }
    if list.is_empty() {
        return Err(match found.refused.first() {
            Some(refused) => RequestFault::unreadable_text("text", text, refused),
            None => RequestFault::unreadable_text("text", text, &no_layout_found(text)),
        });
    }
    let layouts: Vec<Value> = list.iter().map(PickedLayout::to_json).collect();
    let refused: Vec<Value> = found
        .refused
        .iter()
        .take(MAX_LISTED_REFUSALS)
        .map(|d| json!({"message": d.to_string(), "span": [d.span.start, d.span.end]}))
        .collect();
    Ok(json!({"layouts": layouts, "refused": refused}))
}

/// Refusals that an answer lists at most.
const MAX_LISTED_REFUSALS: usize = 20;

/// A layout with the types that have it.
struct PickedLayout<'a> {
    name: Option<&'a str>,
    attribute: &'a TritonAttribute,
    uses: Vec<&'a TtgirTensorType>,
}

impl PickedLayout<'_> {
    fn to_json(&self) -> Value {
        // A tensor and a memory descriptor may differ in what is no part of a layout.
        let mut seen = BTreeSet::new();
        let new = |t: &&&TtgirTensorType| seen.insert((t.layout_shape(), t.element.clone()));
        let shown = |t: &&TtgirTensorType| json!({"shape": t.layout_shape(), "element": t.element, "dtype": dtype_of_element(&t.element)});
        let uses: Vec<Value> = self.uses.iter().filter(new).map(shown).collect();
        json!({
            "name": self.name.map(|n| format!("#{n}")),
            "layout": self.attribute.to_string(),
            "notation": Notation::TRITON.name(),
            "uses": uses,
        })
    }
}

/// The dtype of an element type of MLIR; a pointer is 64 bits wide.
fn dtype_of_element(element: &str) -> Option<&'static str> {
    Some(match element {
        "f64" => "float64",
        "f32" => "float32",
        "f16" => "float16",
        "bf16" => "bfloat16",
        "f8E4M3FN" => "float8_e4m3fn",
        "f8E5M2" => "float8_e5m2",
        "i64" => "int64",
        "i32" => "int32",
        "i16" => "int16",
        "i8" => "int8",
        "i1" => "bool",
        _ if element.starts_with("!tt.ptr<") => "int64",
        _ => return None,
    })
}

fn no_layout_found(text: &str) -> Diagnostic {
    Diagnostic::syntax_error(0..text.len(), "no layout in this text", "expected layouts").with_help(
        "paste TTGIR (a module, or a line with #ttg.. attributes), or an atom that CuTe printed",
    )
}
