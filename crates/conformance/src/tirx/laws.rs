//! Operators of TIRx: the recorded result where it is right, and always the law of the operator.

use super::check_same_function;
use super::spec::{RecordedSpec, answered_places, sample_indices, sort_places};
use crate::case::{
    CaseAgreement, CaseMismatch, CheckedCase, NamedPlace, ask_engine, check_same, check_same_at,
    expect_answer, flatten_coordinate, int_field, ints_field, list_field, mismatch_between,
    optional_field, refusal_text, text_field, unflatten_index,
};
use serde_json::{Value, json};

/// A request with the fields of a record.
fn record_request(op: &str, record: &Value, fields: &[(&str, &str)]) -> Value {
    let mut request = json!({ "op": op });
    for (from, to) in fields {
        request[*to] = record[*from].clone();
    }
    request
}

/// The layout of an answer.
fn layout_of(request: &Value) -> Result<Value, CaseMismatch> {
    Ok(expect_answer(request)?["layout"].clone())
}

fn upstream_refused(record: &Value) -> CaseAgreement {
    match record["result"].get("error") {
        Some(_) => CaseAgreement::UpstreamWrong,
        None => CaseAgreement::Same,
    }
}

/// One recorded operator on a layout.
pub(super) fn check_operator(layout: &Value, spec: &RecordedSpec, record: &Value) -> CheckedCase {
    let op = text_field(record, "op")?;
    let want = optional_field(&record["result"], "layout").map(RecordedSpec::new).transpose()?;
    match op {
        "group" | "group_many" => return check_grouped(layout, spec, record, want.as_ref()),
        "slice" => return check_sliced(layout, spec, record, want.as_ref()),
        "tile" => return check_tiled(layout, spec, record, want.as_ref()),
        "pack" => return check_packed(layout, spec, record),
        "unpack" => return check_unpacked(layout, spec, record),
        "is_tile_inner" | "is_tile_outer" => {
            return check_untiled(layout, spec, record, want.as_ref());
        }
        "is_direct_sum_right" | "is_direct_sum_left" => {
            return check_summand(layout, record, want.as_ref());
        }
        _ => {}
    }
    let mut asked = match op {
        "permute_dims" => record_request(op, record, &[("perm", "perm")]),
        "permute_by_groups" => {
            record_request(op, record, &[("layout", "layout"), ("seps", "seps"), ("perm", "perm")])
        }
        "storage" => json!({ "op": op }),
        "broadcast" => {
            record_request(op, record, &[("num", "num"), ("position", "pos"), ("axis", "axis")])
        }
        "direct_sum" => {
            let shapes = [("left_shape", "left_shape"), ("right_shape", "right_shape")];
            let mut asked = record_request(op, record, &shapes);
            asked["left"] = record["left"].clone();
            asked["right"] = layout.clone();
            asked
        }
        _ => return Ok(CaseAgreement::LeftOut("to_psum")),
    };
    if !matches!(op, "permute_by_groups" | "direct_sum") {
        asked["layout"] = layout.clone();
    }
    let got = layout_of(&asked)?;
    if let Some(want) = &want {
        check_same_function(op, want, &got)?;
    }
    Ok(upstream_refused(record))
}

/// Grouping changes no place, and cuts where it is asked to.
fn check_grouped(
    layout: &Value,
    spec: &RecordedSpec,
    record: &Value,
    want: Option<&RecordedSpec>,
) -> CheckedCase {
    let many = record["op"] == "group_many";
    let (op, shapes) = if many { ("group_many", "shapes") } else { ("group", "shape") };
    let mut asked = record_request(op, record, &[(shapes, shapes)]);
    asked["layout"] = layout.clone();
    let found = match ask_engine(&asked) {
        Ok(found) => found,
        Err(e) if e["kind"] == "not_groupable" && want.is_none() => return Ok(CaseAgreement::Same),
        Err(e) => {
            return Err(mismatch_between(
                format!("a grouping: {}", record["result"]),
                refusal_text(&e),
            ));
        }
    };
    check_same_function(op, spec, &found["layout"])?;
    // Unit iters of the layout are carried along upstream; ours drops them.
    let units = many && spec.shard.iter().any(|it| it.0 == 1);
    if let Some(seps) = record["result"].get("seps").filter(|_| !units) {
        check_same("where groups are cut", seps, &found["seps"])?;
    }
    if let Some(want) = want {
        check_same_function(op, want, &found["layout"])?;
    }
    Ok(upstream_refused(record))
}

/// A slice has the places of the elements of its region.
fn check_sliced(
    layout: &Value,
    spec: &RecordedSpec,
    record: &Value,
    want: Option<&RecordedSpec>,
) -> CheckedCase {
    let mut asked = record_request("slice", record, &[("shape", "shape"), ("region", "region")]);
    asked["layout"] = layout.clone();
    let found = expect_answer(&asked)?;
    let (got, expressed) = match optional_field(&found, "layout") {
        Some(got) => (got, true),
        None => (&found["general"], false),
    };
    if want.is_some() && !expressed {
        return Err(mismatch_between("a slice of iters", &found));
    }
    let shape = ints_field(record, "shape")?;
    let region =
        list_field(record, "region")?.iter().map(|r| crate::case::parse_integers(r, "region"));
    let region = region.collect::<Result<Vec<_>, CaseMismatch>>()?;
    let size: Vec<i64> = region.iter().map(|r| r[1] - r[0]).collect();
    // A sample, because each place is asked through a request; strides of a layout repeat, so a few hundred places
    // show a wrong one.
    let at = sample_indices(size.iter().product(), 300);
    let places = |i: &i64| {
        let inside = unflatten_index(&size, *i);
        let coord: Vec<i64> = inside.iter().zip(&region).map(|(c, r)| c + r[0]).collect();
        spec.element_places(flatten_coordinate(&shape, &coord))
    };
    let expected: Vec<Vec<NamedPlace>> = at.iter().map(places).collect();
    check_same_at(
        "places of the slice",
        &expected,
        &answered_places(got, size.iter().product(), &at)?,
    )?;
    if let Some(want) = want {
        check_same_function("slice", want, got)?;
    }
    let upstream = upstream_refused(record);
    // Upstream has no layout for some slices that iters do express.
    let missed = expressed && want.is_none() && record["result"].get("error").is_none();
    Ok(if missed { CaseAgreement::UpstreamWrong } else { upstream })
}

/// `tile(x, y) = span * outer(x) + inner(y)` on every axis, before the swizzle.
fn check_tile_law(
    inner: &RecordedSpec,
    outer: &RecordedSpec,
    tiled: &Value,
    os: &[i64],
    is: &[i64],
) -> Result<(), CaseMismatch> {
    let shape: Vec<i64> = os.iter().zip(is).map(|(o, i)| o * i).collect();
    let total = shape.iter().product();
    let inner = inner.without_swizzle();
    // The law is stated before the swizzle, which the text has in front.
    let plain = match tiled.as_str().and_then(|t| t.split_once(" o ")) {
        Some((_, rest)) => json!(rest),
        None => tiled.clone(),
    };
    let at = sample_indices(total, 60);
    let mut axes: Vec<&String> = outer.shard.iter().chain(&outer.replica).map(|it| &it.2).collect();
    axes.extend(outer.offset.iter().map(|(axis, _)| axis));
    axes.sort();
    axes.dedup();
    let spans: Vec<(&String, i64)> = axes.into_iter().map(|a| (a, inner.axis_span(a))).collect();
    let mut expected = Vec::new();
    for i in &at {
        let z = unflatten_index(&shape, *i);
        let x: Vec<i64> = z.iter().zip(is).map(|(z, n)| z / n.max(&1)).collect();
        let y: Vec<i64> = z.iter().zip(is).map(|(z, n)| z % n.max(&1)).collect();
        let mut points = Vec::new();
        for a in outer.element_places(flatten_coordinate(os, &x)) {
            for b in inner.element_places(flatten_coordinate(is, &y)) {
                let mut sum = b.clone();
                for (axis, span) in &spans {
                    *sum.entry((*axis).clone()).or_default() +=
                        span * a.get(*axis).copied().unwrap_or(0);
                }
                points.push(sum);
            }
        }
        expected.push(sort_places(points));
    }
    check_same_at("span * outer + inner", &expected, &answered_places(&plain, total, &at)?)
}

fn check_tiled(
    layout: &Value,
    spec: &RecordedSpec,
    record: &Value,
    want: Option<&RecordedSpec>,
) -> CheckedCase {
    let shapes =
        [("outer", "outer"), ("outer_shape", "outer_shape"), ("inner_shape", "inner_shape")];
    let mut asked = record_request("tile", record, &shapes);
    asked["inner"] = layout.clone();
    let got = layout_of(&asked)?;
    let outer = RecordedSpec::new(&record["outer"])?;
    check_tile_law(
        spec,
        &outer,
        &got,
        &ints_field(record, "outer_shape")?,
        &ints_field(record, "inner_shape")?,
    )?;
    let Some(want) = want else { return Ok(upstream_refused(record)) };
    // The span of an axis that only replicas mention is 1 upstream, so its tiles overlap.
    let overlaps = spec.replica.iter().any(|r| {
        let on = |its: &[(i64, i64, String)]| its.iter().any(|it| it.2 == r.2);
        on(&outer.shard) && !on(&spec.shard)
    });
    if outer.is_plain() && !overlaps && !spec.has_negative_strides() {
        check_same_function("tile", want, &got)?;
        return Ok(CaseAgreement::Same);
    }
    let wrong = check_same_function("tile", want, &got).is_err();
    Ok(if wrong { CaseAgreement::UpstreamWrong } else { CaseAgreement::Same })
}

/// What `tile` was called with: tiling with the answer gives the tiled layout again.
fn check_untiled(
    layout: &Value,
    spec: &RecordedSpec,
    record: &Value,
    want: Option<&RecordedSpec>,
) -> CheckedCase {
    let inner = record["op"] == "is_tile_inner";
    let (op, part, other) = if inner {
        ("is_tile_inner", "inner_shape", "inner")
    } else {
        ("is_tile_outer", "outer_shape", "outer")
    };
    let given = if inner { layout } else { &record["layout"] };
    let mut asked = record_request(
        op,
        record,
        &[("tiled", "tiled"), ("tiled_shape", "tiled_shape"), (part, part)],
    );
    asked["layout"] = given.clone();
    let got = layout_of(&asked)?;
    let tiled = RecordedSpec::new(&record["tiled"])?;
    let known = ints_field(record, part)?;
    let shape = ints_field(record, "tiled_shape")?;
    let rest: Vec<i64> = shape.iter().zip(&known).map(|(t, n)| t / n.max(&1)).collect();
    if !got.is_null() {
        let mut again = json!({"op": "tile"});
        again[other] = given.clone();
        again[if inner { "outer" } else { "inner" }] = got.clone();
        again[part] = json!(known);
        again[if inner { "outer_shape" } else { "inner_shape" }] = json!(rest);
        check_same_function("tiled again", &tiled, &layout_of(&again)?)?;
    }
    // With replicas, offsets or negative strides the recorded answers follow another span, so only the law is
    // checked.
    let plain = tiled.is_plain() && !spec.has_negative_strides();
    match (want, got.is_null()) {
        (Some(want), false) if plain => {
            check_same_function(op, want, &got)?;
            Ok(CaseAgreement::Same)
        }
        (Some(_), true) if plain => Err(mismatch_between("a layout", &got)),
        (None, false) if plain && inner => Err(mismatch_between("no layout", &got)),
        (Some(want), false) if check_same_function(op, want, &got).is_ok() => {
            Ok(CaseAgreement::Same)
        }
        (None, true) => Ok(CaseAgreement::Same),
        _ => Ok(CaseAgreement::UpstreamWrong),
    }
}

/// What `direct_sum` was called with: the sum with the answer is the sum again.
fn check_summand(layout: &Value, record: &Value, want: Option<&RecordedSpec>) -> CheckedCase {
    let right = record["op"] == "is_direct_sum_right";
    let op = text_field(record, "op")?;
    let given = if right { layout } else { &record["layout"] };
    let mut asked = record_request(op, record, &[("sum", "sum"), ("interleaved_shape", "shape")]);
    asked["layout"] = given.clone();
    let got = layout_of(&asked)?;
    if got.is_null() {
        return match want {
            Some(_) => Err(mismatch_between("a layout", &got)),
            None => Ok(CaseAgreement::Same),
        };
    }
    let shape = ints_field(record, "interleaved_shape")?;
    let (lefts, rights): (Vec<_>, Vec<_>) = (
        shape.iter().step_by(2).copied().collect(),
        shape.iter().skip(1).step_by(2).copied().collect(),
    );
    let (left, other) = if right { (&got, given) } else { (given, &got) };
    let again = json!({"op": "direct_sum", "left": left, "right": other, "left_shape": lefts, "right_shape": rights});
    check_same_function("the sum again", &RecordedSpec::new(&record["sum"])?, &layout_of(&again)?)?;
    match want {
        Some(want) => check_same_function(op, want, &got).map(|()| CaseAgreement::Same),
        // Upstream gives up on sums through a swizzle.
        None => Ok(CaseAgreement::UpstreamWrong),
    }
}

/// `narrow(q * num + j) = wide(q) * num + j` on memory, the same on every other axis.
fn check_packing_law(
    wide: impl Fn(&[i64]) -> Result<Vec<Vec<NamedPlace>>, CaseMismatch>,
    narrow: impl Fn(&[i64]) -> Result<Vec<Vec<NamedPlace>>, CaseMismatch>,
    size: i64,
    num: i64,
) -> Result<(), CaseMismatch> {
    let at = sample_indices(size, 200);
    let wider = wide(&at)?;
    for j in 0..num {
        let want: Vec<Vec<NamedPlace>> = wider
            .iter()
            .map(|set| {
                let moved = set.iter().map(|p| {
                    let mut p = p.clone();
                    let m = p.get("m").copied().unwrap_or(0) * num + j;
                    p.insert("m".into(), m);
                    p
                });
                sort_places(moved.collect())
            })
            .collect();
        let indices: Vec<i64> = at.iter().map(|q| q * num + j).collect();
        check_same_at(&format!("places of part {j}"), &want, &narrow(&indices)?)?;
    }
    Ok(())
}

fn by_definition(
    spec: &RecordedSpec,
) -> impl Fn(&[i64]) -> Result<Vec<Vec<NamedPlace>>, CaseMismatch> {
    |at: &[i64]| Ok(at.iter().map(|i| spec.element_places(*i)).collect())
}

/// Whether the recorded answer obeys the law, by the record itself.
fn by_record(record: &Value, refused: bool) -> CaseAgreement {
    let wrong = record["law"] == false || (!refused && record["result"].get("error").is_some());
    if wrong { CaseAgreement::UpstreamWrong } else { CaseAgreement::Same }
}

fn check_packed(layout: &Value, spec: &RecordedSpec, record: &Value) -> CheckedCase {
    let num = int_field(record, "num")?;
    match ask_engine(&json!({"op": "pack", "layout": layout, "num": num})) {
        Ok(found) => {
            let (size, got) = (spec.size() / num.max(1), found["layout"].clone());
            check_packing_law(
                |at| answered_places(&got, size, at),
                by_definition(spec),
                size,
                num,
            )?;
            Ok(by_record(record, false))
        }
        Err(e) => {
            // Only what is not aligned is refused: some group of neighbours is not one.
            let too_fine = e["kind"] == "bad_parameter";
            let broken = || {
                (0..spec.size() / num).any(|q| {
                    let first = spec.element_places(q * num);
                    (0..num).any(|j| {
                        let other = |p: &NamedPlace| {
                            let mut p = p.clone();
                            p.remove("m");
                            p
                        };
                        let m = |p: &NamedPlace| p.get("m").copied().unwrap_or(0);
                        let places = spec.element_places(q * num + j);
                        places.len() != first.len()
                            || places.iter().zip(&first).any(|(p, f)| {
                                m(f) % num != 0 || m(p) != m(f) + j || other(p) != other(f)
                            })
                    })
                })
            };
            if too_fine || spec.size() % num != 0 || broken() {
                return Ok(by_record(record, true));
            }
            Err(mismatch_between("a packing: neighbours are aligned", refusal_text(&e)))
        }
    }
}

fn check_unpacked(layout: &Value, spec: &RecordedSpec, record: &Value) -> CheckedCase {
    let num = int_field(record, "num")?;
    let got = layout_of(&json!({"op": "unpack", "layout": layout, "num": num}))?;
    let total = spec.size() * num;
    check_packing_law(
        by_definition(spec),
        |at| answered_places(&got, total, at),
        spec.size(),
        num,
    )?;
    let again = layout_of(&json!({"op": "pack", "layout": got, "num": num}))?;
    check_same_function("packed again", spec, &again)?;
    check_same(
        "the size",
        &json!(total),
        &expect_answer(&json!({"op": "parse", "layout": got}))?["size"],
    )?;
    Ok(by_record(record, false))
}
