//! One recorded case: its fields, the request that asks for the same, and what differs.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;

/// How a case that agrees does so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// Our answer is the recorded one.
    Same,
    /// The record says that the other implementation is wrong: our answer is the right one, or a refusal with a witness.
    UpstreamWrong,
    /// The record is about something that no request asks for, named here. It is counted apart, neither passed nor failed.
    LeftOut(&'static str),
}

/// What was expected and what came, both short enough for a line or two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// What the record says, and of what.
    pub expected: String,
    /// Our answer.
    pub got: String,
}

pub(crate) type Checked = Result<Agreement, Mismatch>;

/// Characters of a text that a report shows.
const SHOWN: usize = 240;

pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ..", &text[..end]),
        None => text.to_string(),
    }
}

pub(crate) fn mismatch(expected: impl Display, got: impl Display) -> Mismatch {
    Mismatch { expected: short(&expected.to_string()), got: short(&got.to_string()) }
}

/// The answer to a request, or what it says is wrong.
pub(crate) fn ask(request: &Value) -> Result<Value, Value> {
    let line = zellige_ask::answer(&request.to_string());
    let mut reply: Value = serde_json::from_str(&line)
        .map_err(|e| json!({"kind": "json", "message": format!("the answer is not JSON: {e}")}))?;
    match reply.get_mut("ok") {
        Some(ok) => Ok(ok.take()),
        None => Err(reply["error"].take()),
    }
}

/// The answer to a request that must have one.
pub(crate) fn ok(request: &Value) -> Result<Value, Mismatch> {
    ask(request).map_err(|e| mismatch(format!("an answer to {request}"), refusal(&e)))
}

pub(crate) fn refusal(error: &Value) -> String {
    let part = |name: &str| error[name].as_str().unwrap_or("?").to_string();
    format!("{}: {}", part("kind"), part("message"))
}

/// A refusal counts only if it proves what it says: it names the index, the pair or the place.
pub(crate) fn with_witness(request: &Value) -> Result<Value, Mismatch> {
    match ask(request) {
        Ok(found) => Err(mismatch(format!("a refusal of {request}"), found)),
        Err(e) if ["index", "pair", "coord"].iter().all(|w| e["witness"].get(w).is_none()) => {
            Err(mismatch(format!("a refusal of {request} with a witness"), refusal(&e)))
        }
        Err(e) => Ok(e),
    }
}

/// Fails unless both are equal; `what` says of what.
pub(crate) fn same<A, B>(what: &str, expected: &A, got: &B) -> Result<(), Mismatch>
where
    A: PartialEq<B> + Shown + ?Sized,
    B: Shown + ?Sized,
{
    if expected == got {
        return Ok(());
    }
    Err(mismatch(format!("{what} {}", expected.shown()), got.shown()))
}

/// Written as JSON, whatever it is.
pub(crate) trait Shown {
    fn shown(&self) -> String;
}

impl Shown for Value {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for str {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for String {
    fn shown(&self) -> String {
        self.clone()
    }
}

impl Shown for i64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl<T: std::fmt::Debug> Shown for Vec<T> {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

/// Fails at the first position where two lists of places differ, and names it.
pub(crate) fn same_at<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: &[T],
    got: &[T],
) -> Result<(), Mismatch> {
    if expected.len() != got.len() {
        return Err(mismatch(
            format!("{what}: {} of them", expected.len()),
            format!("{} of them", got.len()),
        ));
    }
    match expected.iter().zip(got).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(i) => Err(mismatch(
            format!("{what}: {:?} at element {i}", expected[i]),
            format!("{:?}", got[i]),
        )),
    }
}

fn field<'a>(case: &'a Value, name: &str, kind: &str) -> Result<&'a Value, Mismatch> {
    case.get(name).ok_or_else(|| mismatch(format!("a field `{name}` with {kind}"), case))
}

fn other(name: &str, kind: &str, found: &Value) -> Mismatch {
    mismatch(format!("{kind} in the field `{name}`"), found)
}

pub(crate) fn text<'a>(case: &'a Value, name: &str) -> Result<&'a str, Mismatch> {
    let found = field(case, name, "a text")?;
    found.as_str().ok_or_else(|| other(name, "a text", found))
}

pub(crate) fn list<'a>(case: &'a Value, name: &str) -> Result<&'a [Value], Mismatch> {
    let found = field(case, name, "a list")?;
    Ok(found.as_array().ok_or_else(|| other(name, "a list", found))?)
}

pub(crate) fn int(case: &Value, name: &str) -> Result<i64, Mismatch> {
    let found = field(case, name, "an integer")?;
    found.as_i64().ok_or_else(|| other(name, "an integer", found))
}

pub(crate) fn integers(found: &Value, name: &str) -> Result<Vec<i64>, Mismatch> {
    let list = found.as_array().ok_or_else(|| other(name, "a list of integers", found))?;
    let all: Option<Vec<i64>> = list.iter().map(Value::as_i64).collect();
    all.ok_or_else(|| other(name, "a list of integers", found))
}

pub(crate) fn ints(case: &Value, name: &str) -> Result<Vec<i64>, Mismatch> {
    integers(field(case, name, "a list of integers")?, name)
}

/// Nothing where the field is missing or null.
pub(crate) fn maybe<'a>(case: &'a Value, name: &str) -> Option<&'a Value> {
    case.get(name).filter(|v| !v.is_null())
}

/// A place on named axes; axes at 0 are left out, as some records have them and others not.
pub(crate) type Place = BTreeMap<String, i64>;

pub(crate) fn place(v: &Value) -> Result<Place, Mismatch> {
    let entries = v.as_object().ok_or_else(|| other("place", "an object", v))?;
    let mut place = Place::new();
    for (axis, at) in entries {
        let at = at.as_i64().ok_or_else(|| other(axis, "an integer", at))?;
        if at != 0 {
            place.insert(axis.clone(), at);
        }
    }
    Ok(place)
}

/// Where a layout puts elements, as the request `apply` answers: for each coordinate its places, sorted.
pub(crate) fn applied(
    layout: &Value,
    shape: &[i64],
    coords: &[Value],
) -> Result<Vec<Vec<Place>>, Mismatch> {
    let mut all = Vec::new();
    // Answers have a limit; a part of the coordinates at a time stays below it.
    for part in coords.chunks(4096) {
        let found = ok(&json!({"op": "apply", "layout": layout, "shape": shape, "coords": part}))?;
        for set in list(&found, "points")? {
            let set = set.as_array().ok_or_else(|| other("points", "lists of places", set))?;
            let mut places = set.iter().map(place).collect::<Result<Vec<Place>, Mismatch>>()?;
            places.sort();
            all.push(places);
        }
    }
    Ok(all)
}

/// The addresses of elements of a text that has one memory, by a flat index in the order of its notation.
pub(crate) fn applied_flat(layout: &str, count: usize) -> Result<Vec<i64>, Mismatch> {
    let coords: Vec<Value> = (0..count).map(|i| json!([i])).collect();
    let mut all = Vec::new();
    for part in coords.chunks(4096) {
        let found = ok(&json!({"op": "apply", "layout": layout, "coords": part}))?;
        for set in list(&found, "points")? {
            let at = set[0]["m"].as_i64();
            all.push(at.ok_or_else(|| mismatch("one address in memory", set))?);
        }
    }
    Ok(all)
}

/// The coordinate of a flat index, row-major.
pub(crate) fn unflatten(shape: &[i64], mut index: i64) -> Vec<i64> {
    let mut coord = vec![0; shape.len()];
    for (c, n) in coord.iter_mut().zip(shape).rev() {
        (*c, index) = (index % n.max(&1), index / n.max(&1));
    }
    coord
}

pub(crate) fn flatten(shape: &[i64], coord: &[i64]) -> i64 {
    shape.iter().zip(coord).fold(0, |at, (n, c)| at * n + c)
}

/// The number of elements of a shape; a record with more than fit in memory is one of its own mistakes.
pub(crate) fn size(shape: &[i64]) -> Result<i64, Mismatch> {
    let total = shape.iter().try_fold(1i64, |all, n| all.checked_mul(*n).filter(|n| *n >= 0));
    total
        .filter(|n| *n <= 1 << 24)
        .ok_or_else(|| mismatch("a shape of at most 2^24 elements", format!("{shape:?}")))
}

/// Every coordinate of a shape, as JSON, row-major.
pub(crate) fn coordinates(shape: &[i64]) -> Result<Vec<Value>, Mismatch> {
    Ok((0..size(shape)?).map(|i| json!(unflatten(shape, i))).collect())
}
