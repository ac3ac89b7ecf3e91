//! Any line: one line of JSON comes back, with one `ok` or one `error`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|line: &str| {
    let reply = zellige_ask::answer(line);
    assert!(!reply.contains('\n'));
    let reply: Value = serde_json::from_str(&reply).expect("an answer is JSON");
    let object = reply.as_object().expect("an answer is an object");
    assert!(object.contains_key("ok") != object.contains_key("error"), "{reply}");
    assert!(object.contains_key("id") && object.len() == 2, "{reply}");
});
