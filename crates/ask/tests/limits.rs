//! Requests that ask for too much: they are refused within their limits, and the next one is answered.

use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zellige_ask::{CallLimits, answer_line, answer_line_within};
use zellige_guard::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn error(reply: &str) -> Value {
    let reply: Value = serde_json::from_str(reply).expect("an answer is JSON");
    assert_eq!(reply["id"], 9, "{reply}");
    reply["error"].clone()
}

/// A line of `count` coordinates.
fn coordinates(count: usize) -> String {
    let list = vec!["[1]"; count].join(",");
    format!(r#"{{"id":9,"op":"apply","layout":"S[4:1]","shape":[4],"coords":[{list}]}}"#)
}

/// Tests one at a time: the bytes in use are those of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_request_that_needs_too_much_memory_is_stopped() {
    let _alone = alone();
    let line = coordinates(1 << 20);
    let limit = 64 << 20;
    let small = CallLimits { time: None, memory: Some(limit) };
    let before = CountingAllocator::bytes_in_use();
    let fault = error(&answer_line_within(&line, small));
    assert_eq!(fault["kind"], "over_memory", "{fault}");
    assert_eq!(fault["witness"]["limit_bytes"], limit);
    assert!(fault["message"].as_str().is_some_and(|m| m.contains("--limit-memory")), "{fault}");
    // What it had is given back.
    assert!(CountingAllocator::bytes_in_use() < before + (1 << 20));
    // The same line is answered where it may have what it needs.
    let reply: Value = serde_json::from_str(&answer_line(&line)).expect("an answer is JSON");
    assert_eq!(reply["ok"]["points"].as_array().map(Vec::len), Some(1 << 20));
}

#[test]
fn a_line_whose_tree_is_too_large_is_stopped_while_it_is_read() {
    let _alone = alone();
    let line = format!(r#"{{"id":9,"op":"parse","layout":[{}]}}"#, vec!["[]"; 2 << 20].join(","));
    let small = CallLimits { time: None, memory: Some(32 << 20) };
    assert_eq!(error(&answer_line_within(&line, small))["kind"], "over_memory");
}

#[test]
fn a_request_that_takes_too_long_is_stopped() {
    let _alone = alone();
    let line = coordinates(1 << 19);
    let limit = Duration::from_millis(20);
    let short = CallLimits { time: Some(limit), memory: None };
    let begin = Instant::now();
    let fault = error(&answer_line_within(&line, short));
    assert_eq!(fault["kind"], "over_time", "{fault}");
    assert_eq!(fault["witness"]["limit_s"], 0.02);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

/// Every position of a large tensor is no answer; what says them all in a line is.
#[test]
fn a_physical_order_has_an_end() {
    let _alone = alone();
    for layout in [
        r#""S[(4096,4096):(1,4096)]""#,
        r#""f32[3000,3001]{0,1:T(8,128)}""#,
        r#""f32[1000000000,1000000000]{1,0}""#,
        r#""size=[1048577]""#,
    ] {
        let line = format!(r#"{{"id":9,"op":"physical_order","layout":{layout}}}"#);
        let begin = Instant::now();
        let fault = error(&answer_line(&line));
        assert_eq!(fault["kind"], "too_large", "{fault}");
        assert_eq!(fault["witness"]["limit"], 1 << 20);
        assert!(fault["message"].as_str().is_some_and(|m| m.contains("`apply`")), "{fault}");
        assert!(begin.elapsed() < Duration::from_secs(1), "{line}");
    }
    let line = r#"{"id":9,"op":"physical_order","layout":"size=[1024, 1024]"}"#;
    let reply: Value = serde_json::from_str(&answer_line(line)).expect("an answer is JSON");
    assert_eq!(reply["ok"]["order"].as_array().map(Vec::len), Some(1 << 20));
}

/// Operations on tensors far larger than any memory: each class of kernel, with the long extent in each
/// place. They are planned or refused by formulas, in milliseconds and without lists.
#[test]
fn graphs_of_huge_extents_are_answered_soon() {
    let _alone = alone();
    let one = |op: &str| format!("y = {op}");
    let two = |op: &str| format!("y, i = {op}");
    let rows = [
        one("softmax(x, dim=-1)"),
        one("softmax(x, dim=0)"),
        one("cumsum(x, dim=-1)"),
        two("sort(x, dim=0)"),
        two("topk(x, k=1, dim=-1)"),
        two("max(x, dim=-1)"),
        one("quantile(x, q=0.5, dim=-1)"),
        one("median(x)"),
        one("sum(x)"),
        one("argmax(x)"),
        one("relu(x)"),
        one("tril(x)"),
        one("pad(x, pad=[1, 1], mode=\"replicate\")"),
        one("pad(x, pad=[1, 1], mode=\"circular\")"),
        one("flip(x, dims=[0])"),
        one("roll(x, shifts=[1], dims=[1])"),
        one("repeat_interleave(x, repeats=2, dim=0)"),
        one("cat(x, x, dim=0)"),
        one("group_norm(x, num_groups=1)"),
        "t = transpose(x, dim0=0, dim1=1) y = clone(t)".to_string(),
    ];
    let mut graphs: Vec<String> = Vec::new();
    let huge = [200_000_001i64, 1_000_000_000, 100_000_000_000_000, i64::MAX / 2];
    for n in huge {
        for size in [format!("4096, {n}"), format!("1, {n}"), format!("{n}, 1"), format!("{n}, 3")]
        {
            for body in &rows {
                graphs.push(format!("graph g(x: float16[{size}]) {{ {body} return y }}"));
            }
        }
        for (inputs, body) in [
            (
                format!("x: float16[2, 3, 4, {n}]"),
                format!("adaptive_avg_pool2d(x, output_size=[4, {n}])"),
            ),
            (format!("x: float16[2, 3, {n}, 4]"), "max_pool2d(x, kernel_size=[1, 1])".to_string()),
            (format!("x: float16[2, 3, 4, {n}]"), format!("avg_pool2d(x, kernel_size=[1, {n}])")),
            (format!("x: float16[2, {n}, 7], w: float16[4, {n}, 3]"), "conv1d(x, w)".to_string()),
            (
                format!("x: float16[2, 3, 4, {n}], w: float16[4, 3, 4, {n}]"),
                "conv2d(x, w)".to_string(),
            ),
            (
                "x: float16[2, 3, 4, 4], w: float16[4, 3, 1, 1]".to_string(),
                format!("conv2d(x, w, padding=[1, {n}])"),
            ),
            (format!("x: float16[4, {n}], w: float16[{n}]"), "mv(x, w)".to_string()),
            (format!("x: float16[4, {n}], w: float16[8, {n}]"), "linear(x, w)".to_string()),
            (format!("x: float16[{n}, 4], w: float16[4, 8]"), "matmul(x, w)".to_string()),
            (format!("x: float16[{n}, 4, 4], w: float16[{n}, 4, 4]"), "bmm(x, w)".to_string()),
            (
                format!("q: float16[2, 2, {n}, 64]"),
                "scaled_dot_product_attention(q, q, q)".to_string(),
            ),
            (format!("w: float16[{n}, 4], i: int64[{n}]"), "embedding(w, i)".to_string()),
            (format!("x: float16[{n}, 4], i: int64[{n}, 4]"), "gather(x, i, dim=0)".to_string()),
            ("x: float16[1]".to_string(), format!("arange(end={n})")),
            ("x: float16[1]".to_string(), format!("eye(n={n}, m=2)")),
            ("x: float16[2, 2]".to_string(), format!("repeat(x, repeats=[1, {n}])")),
            ("x: float16[2, 2]".to_string(), format!("pad(x, pad=[{n}, 1], mode=\"replicate\")")),
        ] {
            graphs.push(format!("graph g({inputs}) {{ y = {body} return y }}"));
        }
    }
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 2 });
    let limits = CallLimits { time: Some(limit), memory: Some(128 << 20) };
    for graph in &graphs {
        for options in [r#"{}"#, r#"{"policy":"baseline","coverage":"card"}"#] {
            let graph = Value::from(graph.as_str());
            let line = format!(r#"{{"id":9,"op":"compile","graph":{graph},"options":{options}}}"#);
            let begin = Instant::now();
            let reply: Value =
                serde_json::from_str(&answer_line_within(&line, limits)).expect("JSON");
            let kind = reply["error"]["kind"].as_str().unwrap_or("ok");
            assert!(!["over_time", "over_memory", "internal"].contains(&kind), "{line}: {reply}");
            assert!(begin.elapsed() < limit, "{line}: {:?}", begin.elapsed());
        }
    }
}
