//! TIRx: layouts with the answers of Apache TVM's `tvm.tirx`.
//!
//! Results are compared as functions, by an evaluator of its own: how a result is split into iters is free.

mod laws;
mod spec;

use crate::case::{
    Agreement, Checked, Mismatch, Place, ask, int, ints, list, maybe, mismatch, ok, place, refusal,
    same, same_at, text,
};
use crate::{Tally, cases};
use serde_json::{Value, json};
use spec::{Spec, answered, samples, sorted};

/// Places of a layout that a case compares.
const COMPARED: i64 = 512;

/// A layout that was answered is a recorded function, place by place.
fn same_function(what: &str, want: &Spec, got: &Value) -> Result<(), Mismatch> {
    let parsed = ok(&json!({"op": "parse", "layout": got}))?;
    same(&format!("{what}: the size of {got}"), &json!(want.size()), &parsed["size"])?;
    let at = samples(want.size(), COMPARED);
    let expected: Vec<Vec<Place>> = at.iter().map(|i| want.places(*i)).collect();
    same_at(&format!("{what}: places"), &expected, &answered(got, want.size(), &at)?)
}

fn apply(record: &Value, spec: &Spec) -> Checked {
    same("the size", &record["size"], &json!(spec.size()))?;
    let parsed = ok(&json!({"op": "parse", "layout": record["text"]}))?;
    same("the size", &record["size"], &parsed["size"])?;
    same_function("the text", spec, &record["text"])?;
    let shape = ints(record, "shape")?;
    let recorded = list(record, "apply")?;
    let coords: Vec<Value> = recorded.iter().map(|a| a["coord"].clone()).collect();
    for layout in [&record["text"], &record["spec"]] {
        let found = crate::case::applied(layout, &shape, &coords)?;
        for (a, found) in recorded.iter().zip(&found) {
            let want = match a.get("set").and_then(Value::as_array) {
                Some(set) => set.iter().map(place).collect::<Result<Vec<_>, Mismatch>>()?,
                None => vec![place(&a["out"])?],
            };
            same(&format!("the places of {}", a["coord"]), &sorted(want), found)?;
            same("places by the definition", &spec.places(int(a, "flat")?), found)?;
        }
    }
    Ok(Agreement::Same)
}

/// The shard of a text: what is in the brackets of `S[..]`.
fn shard(layout: &Value) -> Option<&str> {
    let text = layout.as_str()?;
    let start = text.find("S[")?;
    text[start..].split_once(']').map(|(shard, _)| shard)
}

/// Thread axes as numbers of threads, so that other names for the same threads are the same places.
fn threads(p: &Place) -> Place {
    let mut out = Place::new();
    for (axis, v) in p {
        let (name, factor) = match axis.as_str() {
            "laneid" | "tid_in_wg" | "tx" | "tid" => ("tx", 1),
            "warpid" | "wid_in_wg" => ("tx", 32),
            "wgid" => ("tx", 128),
            other => (other, 1),
        };
        *out.entry(name.to_string()).or_default() += v * factor;
    }
    out
}

fn canonical(record: &Value, spec: &Spec) -> Checked {
    let request = json!({"op": "canonicalize", "layout": record["spec"]});
    let found = ok(&request)?["layout"].clone();
    same_function("the canonical form", spec, &found)?;
    let again = ok(&json!({"op": "canonicalize", "layout": found}))?;
    same("the canonical form of itself", &found, &again["layout"])?;
    let Some(want) = record["canonical"].get("text") else { return Ok(Agreement::UpstreamWrong) };
    // The shard is unique. Replicas are compared as sets of places: they are neither fused nor dropped upstream.
    same("the shard", &json!(shard(want)), &json!(shard(&found)))?;
    Ok(Agreement::Same)
}

fn canonical_cuda(record: &Value, spec: &Spec) -> Checked {
    let request = json!({"op": "canonicalize", "layout": record["spec"], "target": "cuda"});
    let found = ok(&request)?["layout"].clone();
    let at = samples(spec.size(), COMPARED);
    let numbered = |sets: Vec<Vec<Place>>| -> Vec<Vec<Place>> {
        sets.iter().map(|set| sorted(set.iter().map(threads).collect())).collect()
    };
    let want = numbered(at.iter().map(|i| spec.places(*i)).collect());
    same_at("threads", &want, &numbered(answered(&found, spec.size(), &at)?))?;
    let recorded = &record["canonical_cuda"];
    if recorded["law"] != true {
        return Ok(Agreement::UpstreamWrong);
    }
    same("the shard", &json!(shard(&recorded["text"])), &json!(shard(&found)))?;
    same_function("the canonical form for cuda", &Spec::new(&recorded["layout"])?, &found)?;
    Ok(Agreement::Same)
}

fn facts(record: &Value, spec: &Spec) -> Checked {
    let mut wrong = false;
    let tile = if spec.is_swizzled() { &record["spec"]["tile"] } else { &record["spec"] };
    let spans = ok(&json!({"op": "span", "layout": tile}))?["span"].clone();
    for (axis, recorded) in record["span_by_axis"].as_object().into_iter().flatten() {
        let own = spans.get(axis).cloned().unwrap_or(json!(1));
        if spec.size() <= 1 << 16 {
            same(&format!("the span on {axis}"), &json!(spec.unswizzled().span(axis)), &own)?;
        }
        // Strides are added with their sign upstream, which is wrong for negative ones.
        match maybe(recorded, "value") {
            Some(value) if *value == own => {}
            Some(value) if !spec.has_negative_strides() => {
                return Err(mismatch(format!("the span {value} on {axis}"), own));
            }
            _ => wrong = true,
        }
    }
    if let Some(scope) = record.get("scope").and_then(|s| maybe(s, "value")) {
        let found = ok(&json!({"op": "scope", "layout": record["spec"]}))?;
        same("the scope", scope, &found["scope"])?;
    }
    Ok(if wrong { Agreement::UpstreamWrong } else { Agreement::Same })
}

pub(crate) fn records(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for record in cases(data)? {
        let id = record["id"].as_str().unwrap_or("?");
        let spec = match Spec::new(&record["spec"]) {
            Ok(spec) => spec,
            Err(e) => {
                tally.case(id, Err(e));
                continue;
            }
        };
        tally.case(format!("{id} apply"), apply(record, &spec));
        tally.case(format!("{id} canonical"), canonical(record, &spec));
        if record.get("canonical_cuda").is_some() {
            tally.case(format!("{id} canonical for cuda"), canonical_cuda(record, &spec));
        }
        tally.case(format!("{id} facts"), facts(record, &spec));
        for (k, op) in list(record, "ops")?.iter().enumerate() {
            let name = format!("{id} {k}: {} of {}", op["op"], record["text"]);
            tally.case(name, laws::operator(&record["spec"], &spec, op));
        }
    }
    Ok(())
}

/// A wrong answer of `tvm.tirx`: ours is the right one.
fn mistake(case: &Value) -> Checked {
    let (call, expected) = (&case["call"], text(case, "expected")?);
    let Some(op) = call["op"].as_str() else {
        // A bare text: the builder must refuse it, or keep everything that was written.
        let request = json!({"op": "parse", "layout": call});
        return match ask(&request) {
            Err(e) if e["kind"] == "syntax" => Ok(Agreement::UpstreamWrong),
            Err(e) => Err(mismatch("a refusal with its place", refusal(&e))),
            Ok(found) => Err(mismatch("a refusal", &found["layout"])),
        };
    };
    let mut request = call.clone();
    match op {
        "get_scope" => {
            request["op"] = json!("scope");
            let scope = ok(&request)?["scope"].to_string().replace('"', "'");
            same("the scope", expected, format!("({})", scope.replace(['[', ']'], "")).as_str())?;
        }
        "span" => {
            let first = expected.split(' ').next().and_then(|n| n.parse::<i64>().ok());
            same("the span", &json!(first), &ok(&request)?["span"]["m"])?;
        }
        // Under our law an outer replica is scaled by the span of the inner layout, so a stride of 2 under a span of 4
        // has no outer layout. The law of `tvm.tirx` leaves replicas alone.
        "is_tile_inner" => same("no layout:", &Value::Null, &ok(&request)?["layout"])?,
        _ if expected == "error" => {
            if let Ok(found) = ask(&request) {
                return Err(mismatch("a refusal", found));
            }
        }
        _ => {
            let want = if expected == "itself" { call["layout"].clone() } else { json!(expected) };
            same("the layout", &want, &ok(&request)?["layout"])?;
        }
    }
    Ok(Agreement::UpstreamWrong)
}

pub(crate) fn mistakes(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for case in cases(data)? {
        tally.case(case["title"].as_str().unwrap_or("?"), mistake(case));
    }
    Ok(())
}
