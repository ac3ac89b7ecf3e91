//! What must hold of every answer: its form, its time, its memory, and that printed texts are read back.

use crate::ALLOCATOR;
use crate::seeds::SEEDS;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zellige_ask::answer_line;
use zellige_layout::AxisTable;
use zellige_notation::{Notation, ParsedText, json as layout_json, parse, parse_as, preset};

/// An answer may take this long. Unoptimised builds are given more.
pub(crate) const SECONDS: u64 = if cfg!(debug_assertions) { 10 } else { 2 };
/// Bytes of an answer, and of all memory in use while it is made.
pub(crate) const ANSWER_BYTES: usize = 64 << 20;
pub(crate) const MEMORY_BYTES: usize = 1 << 30;

/// What the watchdog prints when a case never ends.
pub(crate) static CURRENT: Mutex<String> = Mutex::new(String::new());
pub(crate) static TURN: Mutex<()> = Mutex::new(());
pub(crate) static STARTED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn watch(began: Instant) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let started = STARTED.load(Ordering::Relaxed);
            let now = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let hung = started != 0 && now.saturating_sub(started) > SECONDS * 10_000;
            if hung || ALLOCATOR.current_usage() > 4 * MEMORY_BYTES {
                let line = CURRENT.lock().map(|l| l.clone()).unwrap_or_default();
                eprintln!(
                    "{}: {}",
                    if hung { "never answers" } else { "eats memory" },
                    shown(&line)
                );
                std::process::abort();
            }
        }
    });
}

pub(crate) fn shown(line: &str) -> String {
    let cut: String = line.chars().take(2000).collect();
    if cut.len() < line.len() { format!("{cut}… ({} bytes)", line.len()) } else { cut }
}

/// How long this thread has run, where the system says.
pub(crate) fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// What is wrong with the answer to a line, if anything is.
pub(crate) fn complaint(line: &str) -> Option<String> {
    // One at a time: the memory in use is counted for the whole process.
    let _turn = TURN.lock();
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let time = |line: &str| {
        let start = Instant::now();
        (answer_line(line), start.elapsed())
    };
    let (reply, took) = time(line);
    let memory = ALLOCATOR.peak_usage().saturating_sub(before);
    // Writing a long answer takes time and room of its own. Another process may have had the
    // machine, so a slow line is tried again and only its own time counts.
    let limit = Duration::from_secs(SECONDS + (reply.len() >> 24) as u64);
    if took > limit {
        let before = thread_time();
        let wall = time(line).1;
        let own = thread_time().zip(before).map_or(wall, |(after, before)| after - before);
        if own > limit {
            return Some(format!("took {own:?}"));
        }
    }
    // A physical order is as long as the tensor, up to its own limit.
    let order = line.contains("physical_order");
    let long = reply.len() > ANSWER_BYTES && reply.len() > 16 * line.len() && !order;
    let memory_limit = MEMORY_BYTES * if order { 2 } else { 1 };
    if long || memory > memory_limit + 4 * reply.len() {
        return Some(format!("answered {} bytes, using {memory} bytes", reply.len()));
    }
    if reply.contains('\n') {
        return Some("answered several lines".into());
    }
    let Ok(Value::Object(reply)) = serde_json::from_str(&reply) else {
        return Some(format!("answered no JSON object: {}", shown(&reply)));
    };
    let id = match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(mut o)) => o.shift_remove("id").unwrap_or(Value::Null),
        _ => Value::Null,
    };
    if reply.get("id") != Some(&id) {
        return Some(format!("answered the id {:?}", reply.get("id")));
    }
    match (reply.len(), reply.get("ok"), reply.get("error")) {
        (2, Some(Value::Object(_)), None) => None,
        // Limits of minutes and gigabytes are for what nobody foresaw; what is known to be large has
        // limits of its own.
        (2, None, Some(Value::Object(e)))
            if ["internal", "over_time", "over_memory"].iter().any(|k| e["kind"] == *k) =>
        {
            Some(format!("answered the error {}", shown(&json!(e).to_string())))
        }
        (2, None, Some(Value::Object(e))) => {
            let fine = e.len() == 3
                && e["kind"].as_str().is_some_and(|k| !k.is_empty())
                && e["message"].as_str().is_some_and(|m| !m.is_empty() && m.len() < 4096)
                && (e["witness"].is_null() || e["witness"].is_object());
            (!fine).then(|| format!("answered the error {}", shown(&json!(e).to_string())))
        }
        _ => Some("answered neither one `ok` nor one `error`".into()),
    }
}

/// **Law**: what a parser accepts, its printer writes back.
pub(crate) fn round_trips(text: &str, axes: &AxisTable) -> Option<String> {
    let parsed = match catch_unwind(AssertUnwindSafe(|| parse(text, axes))) {
        Err(_) => return Some("parsing panicked".into()),
        Ok(Err(d)) => {
            let rendered = catch_unwind(AssertUnwindSafe(|| d.render(text, false)));
            return rendered.is_err().then(|| "rendering panicked".into());
        }
        Ok(Ok(parsed)) => parsed,
    };
    let printed = parsed.notation_text();
    let again = parse_as(&printed, parsed.notation(), axes);
    // Device layouts are equal whatever they are bound to.
    let bound = |p: &ParsedText| p.stick_layout().and_then(|s| s.host().cloned());
    let by_json = parsed.algebra_layout().is_none_or(|layout| {
        layout_json::layout_from_json(&layout_json::layout_to_json(layout), axes).as_ref()
            == Ok(layout)
    });
    let same = by_json && again.is_ok_and(|a| a == parsed && bound(&a) == bound(&parsed));
    (!same).then(|| format!("is printed as {}", shown(&printed)))
}

pub(crate) fn strings(v: &Value, out: &mut Vec<String>) {
    match v {
        Value::String(s) => out.push(s.clone()),
        Value::Array(list) => list.iter().take(64).for_each(|x| strings(x, out)),
        Value::Object(map) => map.values().for_each(|x| strings(x, out)),
        _ => {}
    }
}

pub(crate) fn seed_texts() -> Vec<String> {
    let mut texts: Vec<String> = preset::all_presets().into_iter().map(|p| p.text).collect();
    texts.extend(Notation::all_notations().map(|n| n.example_text().to_string()));
    for seed in SEEDS {
        strings(&serde_json::from_str(seed).expect("seeds are JSON"), &mut texts);
    }
    texts
}

/// Checks a line, with the watchdog looking.
pub(crate) fn check(line: &str, began: Instant) -> Option<String> {
    if let Ok(mut current) = CURRENT.lock() {
        current.clear();
        current.push_str(line);
    }
    let now = u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
    STARTED.store(now.max(1), Ordering::Relaxed);
    let found = complaint(line);
    STARTED.store(0, Ordering::Relaxed);
    found
}
