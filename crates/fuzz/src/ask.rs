//! Requests: every line is answered by one line of JSON, with either `ok` or `error`.

use crate::budget::run_bounded;
use serde_json::Value;

/// The memory limit of an answer, in bytes. Answers list up to four million coordinates.
const MAX_ANSWER_BYTES: usize = 2 << 30;

/// Checks that an answer is not an internal error and was not stopped by the limits of a request.
pub(crate) fn check_answer(reply: &Value) {
    let kind = &reply["error"]["kind"];
    // The two limits protect a server from unforeseen requests. Here they count as findings,
    // because each operation has to bound its own work.
    let stopped = ["internal", "over_time", "over_memory"].iter().any(|k| kind == k);
    assert!(!stopped, "{reply}");
}

pub(crate) fn fuzz_ask_line(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else { return };
    let reply = run_bounded("an answer", MAX_ANSWER_BYTES, || zellige_ask::answer_line(line));
    assert!(!reply.contains('\n'));
    let reply: Value = serde_json::from_str(&reply).expect("an answer is JSON");
    let object = reply.as_object().expect("an answer is an object");
    assert!(object.contains_key("ok") != object.contains_key("error"), "{reply}");
    assert!(object.contains_key("id") && object.len() == 2, "{reply}");
    check_answer(&reply);
}
