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
mod json;
mod ops;
mod request;

pub use explain::{Explanation, explain};
pub use fault::Fault;
pub use ops::{OPERATIONS, Operation};

use request::Request;
use serde_json::{Map, Value};

/// The answer to one request, as one line without the newline. Never fails: what is wrong with the
/// request is in the answer.
pub fn answer(line: &str) -> String {
    let mut reply = Map::with_capacity(2);
    let outcome = match serde_json::from_str::<Value>(line) {
        Err(e) => {
            reply.insert("id".into(), Value::Null);
            Err(Fault::json(&e))
        }
        Ok(Value::Object(mut object)) => {
            reply.insert("id".into(), object.shift_remove("id").unwrap_or(Value::Null));
            ops::run(&Request::new(object))
        }
        Ok(other) => {
            reply.insert("id".into(), Value::Null);
            Err(Fault::expected("a request", "an object {\"id\":.., \"op\":.., ..}", &other))
        }
    };
    match outcome {
        Ok(ok) => reply.insert("ok".into(), ok),
        Err(fault) => reply.insert("error".into(), fault.to_json()),
    };
    Value::Object(reply).to_string()
}
