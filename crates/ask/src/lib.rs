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
//! assert_eq!(zellige_ask::answer_line(line), r#"{"id":1,"ok":{"points":[[{"m":66}]]}}"#);
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

pub use conversions::{ConvertedLayout, convert_layout, convert_to_all};
pub use explain::{Explanation, explain_layout};
pub use fault::RequestFault;
pub use ops::{MoveRequest, OPERATIONS, RequestOperation};
pub use zellige_guard::CallLimits;

use fields::RequestFields;
use metered::{MeteredAnswer, read_json};
use request::Request;
use serde_json::Value;
use std::cell::RefCell;
use zellige_guard::run_guarded_call;

/// The answer to one request, as one line without the newline, within [`CallLimits::REQUEST`](zellige_guard::CallLimits::REQUEST). Never
/// fails: what is wrong with the request is in the answer.
pub fn answer_line(line: &str) -> String {
    answer_line_within(line, CallLimits::REQUEST)
}

/// The answer to one request, within limits of its own. A request that passes one, and a mistake in
/// the engine, are answered as errors of the kinds `over_time`, `over_memory` and `internal`.
pub fn answer_line_within(line: &str, limits: CallLimits) -> String {
    answer_line_by(line, limits, ops::answer_operation)
}

/// The answer that `run` finds.
fn answer_line_by(
    line: &str,
    limits: CallLimits,
    run: impl FnOnce(&Request) -> Result<Value, RequestFault>,
) -> String {
    // What is known of the request if answering it does not end by itself.
    let id = RefCell::new(None);
    let answered = run_guarded_call(limits, || {
        let outcome = read_request(line.trim_end_matches(['\n', '\r'])).and_then(|request| {
            id.replace(Some(request.id()));
            run(&request)
        });
        format_reply(id.borrow().as_ref().unwrap_or(&Value::Null), outcome)
    });
    answered.unwrap_or_else(|stopped| {
        // The request may have been stopped before its number was read; a program that waits for the answer still
        // needs the number, so the line is searched for it.
        let id = id.take().or_else(|| fields::read_line_id(line)).unwrap_or(Value::Null);
        format_reply(&id, Err(stopped.into()))
    })
}

/// The line of an answer. It is written part by part: a tree of the whole would cost as much as finding
/// what is in it.
fn format_reply(id: &Value, outcome: Result<Value, RequestFault>) -> String {
    let mut out = MeteredAnswer::default();
    out.write_text("{\"id\":");
    out.write_json(id);
    match outcome {
        Ok(ok) => {
            out.write_text(",\"ok\":");
            out.write_json(&ok);
        }
        Err(fault) => {
            out.write_text(",\"error\":");
            out.write_json(&fault.to_json());
        }
    }
    out.write_text("}");
    out.into_text()
}

/// The move that a request `move` describes; `op` may be left out. Without limits.
pub fn move_request(line: &str) -> Result<MoveRequest, RequestFault> {
    ops::move_request(&read_request(line)?)
}

/// What the request `predict` answers; `op` may be left out. Without limits.
pub fn predict_time(line: &str) -> Result<Value, RequestFault> {
    let request = read_request(line)?;
    let answer = ops::predict_time(&request)?;
    request.refuse_unknown_fields()?;
    Ok(answer)
}

/// The bytes of a window of a drawing, one per cell: the fields of the request `cells`; see
/// [`zellige_view::atlas::Atlas::paint_window`].
pub fn paint_window(line: &str) -> Result<Vec<u8>, RequestFault> {
    ops::paint_cells(&read_request(line)?)
}

fn read_request(line: &str) -> Result<Request, RequestFault> {
    // An object is read field by field, so that a field that is given twice is noticed; serde_json's own map would
    // keep the last one.
    if line.trim_start().starts_with('{') {
        let fields =
            read_json::<RequestFields>(line).map_err(|e| RequestFault::invalid_json(&e))?;
        return Ok(Request::new(fields));
    }
    Err(match read_json::<Value>(line) {
        Ok(other) => {
            RequestFault::wrong_type("a request", "an object {\"id\":.., \"op\":.., ..}", &other)
        }
        Err(e) => RequestFault::invalid_json(&e),
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
        let reply = parsed(&answer_line_by(r#"{"id":7,"op":"any"}"#, CallLimits::REQUEST, |_| {
            panic!("oh {}", 3)
        }));
        assert_eq!(reply["id"], 7);
        assert_eq!(reply["error"]["kind"], "internal");
        let message = reply["error"]["message"].as_str().expect("a text");
        assert!(message.contains("oh 3") && message.contains("report"), "{message}");
        let place = reply["error"]["witness"]["place"].as_str().expect("a place");
        assert!(place.contains("lib.rs:"), "{place}");
        // The next request is answered as if nothing had happened.
        assert_eq!(
            parsed(&answer_line(r#"{"id":8,"op":"span","layout":"S[4:1]"}"#))["id"],
            json!(8)
        );
    }

    #[test]
    fn long_lines_are_read_as_short_ones_are() {
        for line in [
            r#"{"op":"apply","layout":"S[4]","coords":[[1],[2]]}"#.to_string(),
            r#"{"op":"apply","op":"apply"}"#.to_string(),
            "[1,2]".to_string(),
        ] {
            let long = format!("{line}{}", " ".repeat(2 << 20));
            assert_eq!(answer_line(&long), answer_line(&line));
        }
    }
}
