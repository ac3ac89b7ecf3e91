//! TIRx: layouts with the answers of Apache TVM's `tvm.tirx`.
//!
//! Results are compared as functions, by an evaluator of its own: how a result is split into iters is free.

mod laws;
mod spec;

use crate::case::{
    CaseAgreement, CaseMismatch, CheckedCase, NamedPlace, ask_engine, check_same, check_same_at,
    expect_answer, int_field, ints_field, list_field, mismatch_between, optional_field,
    parse_place, refusal_text, text_field,
};
use crate::{CaseTally, list_cases};
use serde_json::{Value, json};
use spec::{RecordedSpec, answered_places, sample_indices, sort_places};

/// Places of a layout that a case compares.
// Each place is a part of a request, and there are thousands of cases.
const MAX_COMPARED_PLACES: i64 = 512;

/// A layout that was answered is a recorded function, place by place.
fn check_same_function(what: &str, want: &RecordedSpec, got: &Value) -> Result<(), CaseMismatch> {
    let parsed = expect_answer(&json!({"op": "parse", "layout": got}))?;
    check_same(&format!("{what}: the size of {got}"), &json!(want.size()), &parsed["size"])?;
    let at = sample_indices(want.size(), MAX_COMPARED_PLACES);
    let expected: Vec<Vec<NamedPlace>> = at.iter().map(|i| want.element_places(*i)).collect();
    check_same_at(&format!("{what}: places"), &expected, &answered_places(got, want.size(), &at)?)
}

fn check_apply(record: &Value, spec: &RecordedSpec) -> CheckedCase {
    check_same("the size", &record["size"], &json!(spec.size()))?;
    let parsed = expect_answer(&json!({"op": "parse", "layout": record["text"]}))?;
    check_same("the size", &record["size"], &parsed["size"])?;
    check_same_function("the text", spec, &record["text"])?;
    let shape = ints_field(record, "shape")?;
    let recorded = list_field(record, "apply")?;
    let coords: Vec<Value> = recorded.iter().map(|a| a["coord"].clone()).collect();
    for layout in [&record["text"], &record["spec"]] {
        let found = crate::case::apply_layout(layout, &shape, &coords)?;
        for (a, found) in recorded.iter().zip(&found) {
            let want = match a.get("set").and_then(Value::as_array) {
                Some(set) => {
                    set.iter().map(parse_place).collect::<Result<Vec<_>, CaseMismatch>>()?
                }
                None => vec![parse_place(&a["out"])?],
            };
            check_same(&format!("the places of {}", a["coord"]), &sort_places(want), found)?;
            check_same(
                "places by the definition",
                &spec.element_places(int_field(a, "flat")?),
                found,
            )?;
        }
    }
    Ok(CaseAgreement::Same)
}

/// The shard of a text: what is in the brackets of `S[..]`.
fn shard_text(layout: &Value) -> Option<&str> {
    let text = layout.as_str()?;
    let start = text.find("S[")?;
    text[start..].split_once(']').map(|(shard, _)| shard)
}

/// Thread axes as numbers of threads, so that other names for the same threads are the same places.
fn number_threads(p: &NamedPlace) -> NamedPlace {
    let mut out = NamedPlace::new();
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

fn check_canonical(record: &Value, spec: &RecordedSpec) -> CheckedCase {
    let request = json!({"op": "canonicalize", "layout": record["spec"]});
    let found = expect_answer(&request)?["layout"].clone();
    check_same_function("the canonical form", spec, &found)?;
    // A canonical form that changes under canonicalisation is none.
    let again = expect_answer(&json!({"op": "canonicalize", "layout": found}))?;
    check_same("the canonical form of itself", &found, &again["layout"])?;
    let Some(want) = record["canonical"].get("text") else {
        return Ok(CaseAgreement::UpstreamWrong);
    };
    // The shard is unique. Replicas are compared as sets of places: they are neither fused nor dropped upstream.
    check_same("the shard", &json!(shard_text(want)), &json!(shard_text(&found)))?;
    Ok(CaseAgreement::Same)
}

fn check_canonical_cuda(record: &Value, spec: &RecordedSpec) -> CheckedCase {
    let request = json!({"op": "canonicalize", "layout": record["spec"], "target": "cuda"});
    let found = expect_answer(&request)?["layout"].clone();
    let at = sample_indices(spec.size(), MAX_COMPARED_PLACES);
    let numbered = |sets: Vec<Vec<NamedPlace>>| -> Vec<Vec<NamedPlace>> {
        sets.iter().map(|set| sort_places(set.iter().map(number_threads).collect())).collect()
    };
    let want = numbered(at.iter().map(|i| spec.element_places(*i)).collect());
    check_same_at("threads", &want, &numbered(answered_places(&found, spec.size(), &at)?))?;
    let recorded = &record["canonical_cuda"];
    if recorded["law"] != true {
        return Ok(CaseAgreement::UpstreamWrong);
    }
    check_same("the shard", &json!(shard_text(&recorded["text"])), &json!(shard_text(&found)))?;
    check_same_function(
        "the canonical form for cuda",
        &RecordedSpec::new(&recorded["layout"])?,
        &found,
    )?;
    Ok(CaseAgreement::Same)
}

fn check_facts(record: &Value, spec: &RecordedSpec) -> CheckedCase {
    let mut wrong = false;
    let tile = if spec.is_swizzled() { &record["spec"]["tile"] } else { &record["spec"] };
    let spans = expect_answer(&json!({"op": "span", "layout": tile}))?["span"].clone();
    for (axis, recorded) in record["span_by_axis"].as_object().into_iter().flatten() {
        let own = spans.get(axis).cloned().unwrap_or(json!(1));
        if spec.size() <= 1 << 16 {
            check_same(
                &format!("the span on {axis}"),
                &json!(spec.without_swizzle().axis_span(axis)),
                &own,
            )?;
        }
        // Strides are added with their sign upstream, which is wrong for negative ones.
        match optional_field(recorded, "value") {
            Some(value) if *value == own => {}
            Some(value) if !spec.has_negative_strides() => {
                return Err(mismatch_between(format!("the span {value} on {axis}"), own));
            }
            _ => wrong = true,
        }
    }
    if let Some(scope) = record.get("scope").and_then(|s| optional_field(s, "value")) {
        let found = expect_answer(&json!({"op": "scope", "layout": record["spec"]}))?;
        check_same("the scope", scope, &found["scope"])?;
    }
    Ok(if wrong { CaseAgreement::UpstreamWrong } else { CaseAgreement::Same })
}

pub(crate) fn check_records(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for record in list_cases(data)? {
        let id = record["id"].as_str().unwrap_or("?");
        let spec = match RecordedSpec::new(&record["spec"]) {
            Ok(spec) => spec,
            Err(e) => {
                tally.count_case(id, Err(e));
                continue;
            }
        };
        tally.count_case(format!("{id} apply"), check_apply(record, &spec));
        tally.count_case(format!("{id} canonical"), check_canonical(record, &spec));
        if record.get("canonical_cuda").is_some() {
            tally.count_case(
                format!("{id} canonical for cuda"),
                check_canonical_cuda(record, &spec),
            );
        }
        tally.count_case(format!("{id} facts"), check_facts(record, &spec));
        for (k, op) in list_field(record, "ops")?.iter().enumerate() {
            let name = format!("{id} {k}: {} of {}", op["op"], record["text"]);
            tally.count_case(name, laws::check_operator(&record["spec"], &spec, op));
        }
    }
    Ok(())
}

/// A wrong answer of `tvm.tirx`: ours is the right one.
fn check_mistake(case: &Value) -> CheckedCase {
    let (call, expected) = (&case["call"], text_field(case, "expected")?);
    let Some(op) = call["op"].as_str() else {
        // A bare text: the builder must refuse it, or keep everything that was written.
        let request = json!({"op": "parse", "layout": call});
        return match ask_engine(&request) {
            Err(e) if e["kind"] == "syntax" => Ok(CaseAgreement::UpstreamWrong),
            Err(e) => Err(mismatch_between("a refusal with its place", refusal_text(&e))),
            Ok(found) => Err(mismatch_between("a refusal", &found["layout"])),
        };
    };
    let mut request = call.clone();
    match op {
        "get_scope" => {
            request["op"] = json!("scope");
            let scope = expect_answer(&request)?["scope"].to_string().replace('"', "'");
            check_same(
                "the scope",
                expected,
                format!("({})", scope.replace(['[', ']'], "")).as_str(),
            )?;
        }
        "span" => {
            let first = expected.split(' ').next().and_then(|n| n.parse::<i64>().ok());
            check_same("the span", &json!(first), &expect_answer(&request)?["span"]["m"])?;
        }
        // Under our law an outer replica is scaled by the span of the inner layout, so a stride of 2 under a span of 4
        // has no outer layout. The law of `tvm.tirx` leaves replicas alone.
        "is_tile_inner" => {
            check_same("no layout:", &Value::Null, &expect_answer(&request)?["layout"])?;
        }
        _ if expected == "error" => {
            if let Ok(found) = ask_engine(&request) {
                return Err(mismatch_between("a refusal", found));
            }
        }
        _ => {
            let want = if expected == "itself" { call["layout"].clone() } else { json!(expected) };
            check_same("the layout", &want, &expect_answer(&request)?["layout"])?;
        }
    }
    Ok(CaseAgreement::UpstreamWrong)
}

pub(crate) fn check_mistakes(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for case in list_cases(data)? {
        tally.count_case(case["title"].as_str().unwrap_or("?"), check_mistake(case));
    }
    Ok(())
}
