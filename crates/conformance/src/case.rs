//! One recorded case: its fields, the request that asks for the same, and what differs.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;

/// How a case that agrees does so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseAgreement {
    /// Our answer is the recorded one.
    Same,
    /// The record says that the other implementation is wrong: our answer is the right one, or a refusal with a witness.
    UpstreamWrong,
    /// The record is about something that no request asks for, named here. It is counted apart, neither passed nor failed.
    LeftOut(&'static str),
}

/// The expected and the actual answer, both short enough for a line or two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseMismatch {
    /// The recorded answer, and the question.
    pub expected: String,
    /// Our answer.
    pub got: String,
}

pub(crate) type CheckedCase = Result<CaseAgreement, CaseMismatch>;

/// Characters of a text that a report shows.
const MAX_SHOWN_CHARS: usize = 240;

pub(crate) fn shorten_text(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text.to_string(),
    }
}

pub(crate) fn mismatch_between(expected: impl Display, got: impl Display) -> CaseMismatch {
    CaseMismatch {
        expected: shorten_text(&expected.to_string()),
        got: shorten_text(&got.to_string()),
    }
}

/// The answer to a request, or its error.
pub(crate) fn ask_engine(request: &Value) -> Result<Value, Value> {
    // Through the text of a request, as another program asks, so that a mistake of the door is found as well.
    let line = zellige_ask::answer_line(&request.to_string());
    let mut reply: Value = serde_json::from_str(&line)
        .map_err(|e| json!({"kind": "json", "message": format!("the answer is not JSON: {e}")}))?;
    match reply.get_mut("ok") {
        Some(ok) => Ok(ok.take()),
        None => Err(reply["error"].take()),
    }
}

/// The answer to a request that must have one.
pub(crate) fn expect_answer(request: &Value) -> Result<Value, CaseMismatch> {
    ask_engine(request)
        .map_err(|e| mismatch_between(format!("an answer to {request}"), refusal_text(&e)))
}

pub(crate) fn refusal_text(error: &Value) -> String {
    let part = |name: &str| error[name].as_str().unwrap_or("?").to_string();
    format!("{}: {}", part("kind"), part("message"))
}

/// A refusal counts only with a proof: it names the index, the pair or the place.
pub(crate) fn expect_witness(request: &Value) -> Result<Value, CaseMismatch> {
    match ask_engine(request) {
        Ok(found) => Err(mismatch_between(format!("a refusal of {request}"), found)),
        // A refusal without a witness could be wrong, and nobody would notice.
        Err(e) if ["index", "pair", "coord"].iter().all(|w| e["witness"].get(w).is_none()) => Err(
            mismatch_between(format!("a refusal of {request} with a witness"), refusal_text(&e)),
        ),
        Err(e) => Ok(e),
    }
}

/// Fails unless both are equal; `what` names the compared property.
pub(crate) fn check_same<A, B>(what: &str, expected: &A, got: &B) -> Result<(), CaseMismatch>
where
    A: PartialEq<B> + ShownValue + ?Sized,
    B: ShownValue + ?Sized,
{
    if expected == got {
        return Ok(());
    }
    Err(mismatch_between(format!("{what} {}", expected.shown_text()), got.shown_text()))
}

/// Written as JSON, whatever it is.
pub(crate) trait ShownValue {
    fn shown_text(&self) -> String;
}

impl ShownValue for Value {
    fn shown_text(&self) -> String {
        self.to_string()
    }
}

impl ShownValue for str {
    fn shown_text(&self) -> String {
        self.to_string()
    }
}

impl ShownValue for String {
    fn shown_text(&self) -> String {
        self.clone()
    }
}

impl ShownValue for i64 {
    fn shown_text(&self) -> String {
        self.to_string()
    }
}

impl<T: std::fmt::Debug> ShownValue for Vec<T> {
    fn shown_text(&self) -> String {
        format!("{self:?}")
    }
}

/// Fails at the first position where two lists of places differ, and names it.
pub(crate) fn check_same_at<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: &[T],
    got: &[T],
) -> Result<(), CaseMismatch> {
    if expected.len() != got.len() {
        return Err(mismatch_between(
            format!("{what}: {} of them", expected.len()),
            format!("{} of them", got.len()),
        ));
    }
    match expected.iter().zip(got).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(i) => Err(mismatch_between(
            format!("{what}: {:?} at element {i}", expected[i]),
            format!("{:?}", got[i]),
        )),
    }
}

fn require_field<'a>(case: &'a Value, name: &str, kind: &str) -> Result<&'a Value, CaseMismatch> {
    case.get(name).ok_or_else(|| mismatch_between(format!("a field `{name}` with {kind}"), case))
}

fn wrong_kind(name: &str, kind: &str, found: &Value) -> CaseMismatch {
    mismatch_between(format!("{kind} in the field `{name}`"), found)
}

pub(crate) fn text_field<'a>(case: &'a Value, name: &str) -> Result<&'a str, CaseMismatch> {
    let found = require_field(case, name, "a text")?;
    found.as_str().ok_or_else(|| wrong_kind(name, "a text", found))
}

pub(crate) fn list_field<'a>(case: &'a Value, name: &str) -> Result<&'a [Value], CaseMismatch> {
    let found = require_field(case, name, "a list")?;
    Ok(found.as_array().ok_or_else(|| wrong_kind(name, "a list", found))?)
}

pub(crate) fn int_field(case: &Value, name: &str) -> Result<i64, CaseMismatch> {
    let found = require_field(case, name, "an integer")?;
    found.as_i64().ok_or_else(|| wrong_kind(name, "an integer", found))
}

pub(crate) fn parse_integers(found: &Value, name: &str) -> Result<Vec<i64>, CaseMismatch> {
    let list = found.as_array().ok_or_else(|| wrong_kind(name, "a list of integers", found))?;
    let all: Option<Vec<i64>> = list.iter().map(Value::as_i64).collect();
    all.ok_or_else(|| wrong_kind(name, "a list of integers", found))
}

pub(crate) fn ints_field(case: &Value, name: &str) -> Result<Vec<i64>, CaseMismatch> {
    parse_integers(require_field(case, name, "a list of integers")?, name)
}

/// Nothing where the field is missing or null.
pub(crate) fn optional_field<'a>(case: &'a Value, name: &str) -> Option<&'a Value> {
    case.get(name).filter(|v| !v.is_null())
}

/// A place on named axes; axes at 0 are left out, as some records have them and others not.
pub(crate) type NamedPlace = BTreeMap<String, i64>;

pub(crate) fn parse_place(v: &Value) -> Result<NamedPlace, CaseMismatch> {
    let entries = v.as_object().ok_or_else(|| wrong_kind("place", "an object", v))?;
    let mut place = NamedPlace::new();
    for (axis, at) in entries {
        let at = at.as_i64().ok_or_else(|| wrong_kind(axis, "an integer", at))?;
        // Places are compared as maps, so an axis at 0 must be written in one way.
        if at != 0 {
            place.insert(axis.clone(), at);
        }
    }
    Ok(place)
}

/// Where a layout puts elements, as the request `apply` answers: for each coordinate its places, sorted.
pub(crate) fn apply_layout(
    layout: &Value,
    shape: &[i64],
    coords: &[Value],
) -> Result<Vec<Vec<NamedPlace>>, CaseMismatch> {
    let mut all = Vec::new();
    // Answers have a limit; a part of the coordinates at a time stays below it.
    for part in coords.chunks(4096) {
        let found = expect_answer(
            &json!({"op": "apply", "layout": layout, "shape": shape, "coords": part}),
        )?;
        for set in list_field(&found, "points")? {
            let set = set.as_array().ok_or_else(|| wrong_kind("points", "lists of places", set))?;
            let mut places =
                set.iter().map(parse_place).collect::<Result<Vec<NamedPlace>, CaseMismatch>>()?;
            places.sort();
            all.push(places);
        }
    }
    Ok(all)
}

/// The addresses of elements of a text that has one memory, by a flat index in the order of its notation.
pub(crate) fn apply_flat(layout: &str, count: usize) -> Result<Vec<i64>, CaseMismatch> {
    let coords: Vec<Value> = (0..count).map(|i| json!([i])).collect();
    let mut all = Vec::new();
    for part in coords.chunks(4096) {
        let found = expect_answer(&json!({"op": "apply", "layout": layout, "coords": part}))?;
        for set in list_field(&found, "points")? {
            let at = set[0]["m"].as_i64();
            all.push(at.ok_or_else(|| mismatch_between("one address in memory", set))?);
        }
    }
    Ok(all)
}

/// The coordinate of a flat index, row-major.
pub(crate) fn unflatten_index(shape: &[i64], mut index: i64) -> Vec<i64> {
    let mut coord = vec![0; shape.len()];
    for (c, n) in coord.iter_mut().zip(shape).rev() {
        (*c, index) = (index % n.max(&1), index / n.max(&1));
    }
    coord
}

pub(crate) fn flatten_coordinate(shape: &[i64], coord: &[i64]) -> i64 {
    shape.iter().zip(coord).fold(0, |at, (n, c)| at * n + c)
}

/// The number of elements of a shape; a record with more than fit in memory is one of its own mistakes.
pub(crate) fn element_count(shape: &[i64]) -> Result<i64, CaseMismatch> {
    let total = shape.iter().try_fold(1i64, |all, n| all.checked_mul(*n).filter(|n| *n >= 0));
    total
        // Each element is a coordinate of a request, so a larger shape would take minutes and gigabytes.
        .filter(|n| *n <= 1 << 24)
        .ok_or_else(|| mismatch_between("a shape of at most 2^24 elements", format!("{shape:?}")))
}

/// Every coordinate of a shape, as JSON, row-major.
pub(crate) fn all_coordinates(shape: &[i64]) -> Result<Vec<Value>, CaseMismatch> {
    Ok((0..element_count(shape)?).map(|i| json!(unflatten_index(shape, i))).collect())
}
