//! The language-neutral door: JSON Lines in, JSON Lines out.
//!
//! One request per line, `{"id":..,"op":..,...}`; one answer, `{"id":..,"ok":{...}}` or
//! `{"id":..,"error":{"kind":..,"message":..,"witness":..}}`. Scripts, tests, the explorer and
//! other languages drive the engine through it. A bad line answers with an error, and the next
//! line is read as if nothing had happened; so does one that takes too long or too much memory, and
//! one that finds a mistake in the engine.
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

mod conversions;
mod explain;
mod fault;
mod fields;
mod free;
mod json;
mod metered;
mod ops;
mod request;
mod steps;
mod words;

pub use conversions::{Converted, conversions, converted};
pub use explain::{Explanation, explain};
pub use fault::Fault;
pub use ops::{MoveRequest, OPERATIONS, Operation};
pub use zellige_guard::CallLimits;

use fields::Fields;
use metered::{Metered, read};
use request::Request;
use serde_json::Value;
use std::cell::RefCell;
use zellige_guard::run_guarded_call;

/// The answer to one request, as one line without the newline, within [`Limits::REQUEST`]. Never
/// fails: what is wrong with the request is in the answer.
pub fn answer(line: &str) -> String {
    answer_within(line, CallLimits::REQUEST)
}

/// The answer to one request, within limits of its own. A request that passes one, and a mistake in
/// the engine, are answered as errors of the kinds `over_time`, `over_memory` and `internal`.
pub fn answer_within(line: &str, limits: CallLimits) -> String {
    answer_by(line, limits, ops::run)
}

/// The answer that `run` finds.
fn answer_by(
    line: &str,
    limits: CallLimits,
    run: impl FnOnce(&Request) -> Result<Value, Fault>,
) -> String {
    // What is known of the request if answering it does not end by itself.
    let id = RefCell::new(None);
    let answered = run_guarded_call(limits, || {
        let outcome = request(line.trim_end_matches(['\n', '\r'])).and_then(|request| {
            id.replace(Some(request.id()));
            run(&request)
        });
        reply(id.borrow().as_ref().unwrap_or(&Value::Null), outcome)
    });
    answered.unwrap_or_else(|stopped| {
        let id = id.take().or_else(|| fields::id(line)).unwrap_or(Value::Null);
        reply(&id, Err(stopped.into()))
    })
}

/// The line of an answer. It is written part by part: a tree of the whole would cost as much as finding
/// what is in it.
fn reply(id: &Value, outcome: Result<Value, Fault>) -> String {
    let mut out = Metered::default();
    out.text("{\"id\":");
    out.json(id);
    match outcome {
        Ok(ok) => {
            out.text(",\"ok\":");
            out.json(&ok);
        }
        Err(fault) => {
            out.text(",\"error\":");
            out.json(&fault.to_json());
        }
    }
    out.text("}");
    out.finish()
}

/// The move that a request `move` describes; `op` may be left out. Without limits.
pub fn move_request(line: &str) -> Result<MoveRequest, Fault> {
    ops::move_request(&request(line)?)
}

/// The bytes of a window of a drawing, one per cell: the fields of the request `cells`; see
/// [`zellige_view::atlas::Atlas::paint`].
pub fn paint(line: &str) -> Result<Vec<u8>, Fault> {
    ops::paint(&request(line)?)
}

fn request(line: &str) -> Result<Request, Fault> {
    if line.trim_start().starts_with('{') {
        let fields = read::<Fields>(line).map_err(|e| Fault::json(&e))?;
        return Ok(Request::new(fields));
    }
    Err(match read::<Value>(line) {
        Ok(other) => Fault::expected("a request", "an object {\"id\":.., \"op\":.., ..}", &other),
        Err(e) => Fault::json(&e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(reply: &str) -> Value {
        serde_json::from_str(reply).expect("an answer is JSON")
    }

    #[test]
    fn a_mistake_in_the_engine_is_an_answer() {
        zellige_guard::silence_call_panics();
        let reply = parsed(&answer_by(r#"{"id":7,"op":"any"}"#, CallLimits::REQUEST, |_| {
            panic!("oh {}", 3)
        }));
        assert_eq!(reply["id"], 7);
        assert_eq!(reply["error"]["kind"], "internal");
        let message = reply["error"]["message"].as_str().expect("a text");
        assert!(message.contains("oh 3") && message.contains("report"), "{message}");
        let place = reply["error"]["witness"]["place"].as_str().expect("a place");
        assert!(place.contains("lib.rs:"), "{place}");
        // The next request is answered as if nothing had happened.
        assert_eq!(parsed(&answer(r#"{"id":8,"op":"span","layout":"S[4:1]"}"#))["id"], json!(8));
    }

    #[test]
    fn long_lines_are_read_as_short_ones_are() {
        for line in [
            r#"{"op":"apply","layout":"S[4]","coords":[[1],[2]]}"#.to_string(),
            r#"{"op":"apply","op":"apply"}"#.to_string(),
            "[1,2]".to_string(),
        ] {
            let long = format!("{line}{}", " ".repeat(2 << 20));
            assert_eq!(answer(&long), answer(&line));
        }
    }
}
