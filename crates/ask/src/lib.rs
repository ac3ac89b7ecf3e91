//! The language-neutral door: JSON Lines in, JSON Lines out.
//!
//! One request per line, `{"id":..,"op":..,...}`; one answer, `{"id":..,"ok":{...}}` or
//! `{"id":..,"error":{"kind":..,"message":..,"witness":..}}`. Scripts, tests, the explorer and
//! other languages drive the engine through it. A bad line answers with an error, and the next
//! line is read as if nothing had happened.
//!
//! ```
//! let line = r#"{"id":1,"op":"apply","layout":"S[(8,64):(64,1)]","shape":[8,64],"coords":[[1,2]]}"#;
//! assert_eq!(zellige_ask::answer(line), r#"{"id":1,"ok":{"points":[[{"m":66}]]}}"#);
//! ```
//!
//! # What it may not do
//! Decide anything: each request is one call of the crates below it, with the arguments checked
//! and the result written as JSON.

#![forbid(unsafe_code)]

mod explain;
mod fault;
mod fields;
mod json;
mod ops;
mod request;
mod steps;

pub use explain::{Explanation, explain};
pub use fault::Fault;
pub use ops::{MoveRequest, OPERATIONS, Operation};

use fields::Fields;
use request::Request;
use serde_json::Value;

/// The answer to one request, as one line without the newline. Never fails: what is wrong with the
/// request is in the answer.
pub fn answer(line: &str) -> String {
    let (id, outcome) = respond(line.trim_end_matches(['\n', '\r']));
    // Written part by part: a tree of the whole answer would cost as much as finding it.
    let mut reply = b"{\"id\":".to_vec();
    write(&mut reply, &id);
    match outcome {
        Ok(ok) => {
            reply.extend_from_slice(b",\"ok\":");
            write(&mut reply, &ok);
        }
        Err(fault) => {
            reply.extend_from_slice(b",\"error\":");
            write(&mut reply, &fault.to_json());
        }
    }
    reply.push(b'}');
    String::from_utf8(reply).expect("JSON is UTF-8")
}

fn write(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("a value is JSON, and memory takes it");
}

/// The move that a request `move` describes; `op` may be left out.
pub fn move_request(line: &str) -> Result<MoveRequest, Fault> {
    ops::move_request(&request(line)?)
}

/// The bytes of a window of a drawing, one per cell: the fields of the request `cells`; see
/// [`zellige_view::atlas::Atlas::paint`].
pub fn paint(line: &str) -> Result<Vec<u8>, Fault> {
    ops::paint(&request(line)?)
}

/// The `id` of a request and what came of it.
fn respond(line: &str) -> (Value, Result<Value, Fault>) {
    match request(line) {
        Ok(request) => (request.id(), ops::run(&request)),
        Err(fault) => (Value::Null, Err(fault)),
    }
}

fn request(line: &str) -> Result<Request, Fault> {
    if line.trim_start().starts_with('{') {
        let fields = serde_json::from_str::<Fields>(line).map_err(|e| Fault::json(&e))?;
        return Ok(Request::new(fields));
    }
    Err(match serde_json::from_str::<Value>(line) {
        Ok(other) => Fault::expected("a request", "an object {\"id\":.., \"op\":.., ..}", &other),
        Err(e) => Fault::json(&e),
    })
}
