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

pub use explain::{Explanation, explain};
pub use fault::Fault;
pub use ops::{OPERATIONS, Operation};

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

/// The `id` of a request and what came of it.
fn respond(line: &str) -> (Value, Result<Value, Fault>) {
    if line.trim_start().starts_with('{') {
        return match serde_json::from_str::<Fields>(line) {
            Ok(fields) => {
                let id = fields.get("id").cloned().unwrap_or(Value::Null);
                (id, ops::run(&Request::new(fields)))
            }
            Err(e) => (Value::Null, Err(Fault::json(&e))),
        };
    }
    let fault = match serde_json::from_str::<Value>(line) {
        Ok(other) => Fault::expected("a request", "an object {\"id\":.., \"op\":.., ..}", &other),
        Err(e) => Fault::json(&e),
    };
    (Value::Null, Err(fault))
}
