//! Limits of time and memory, as a person sets them.

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn zellige(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zellige"))
        .args(args)
        .env("ZELLIGE_CACHE", "off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_string();
    // A program that does not read its input closes the pipe.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let out = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    out
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_request_past_its_limit_is_refused_and_the_next_is_answered() {
    let coordinates = vec!["[1]"; 1 << 20].join(",");
    let large = format!(r#"{{"id":1,"op":"apply","layout":"S[4]","coords":[{coordinates}]}}"#);
    let small = r#"{"id":2,"op":"span","layout":"S[4:2]"}"#;
    for (limit, kind) in
        [(["--limit-memory", "64MiB"], "over_memory"), (["--limit-time", "10ms"], "over_time")]
    {
        let out = zellige(&["ask", limit[0], limit[1]], &format!("{large}\n{small}\n"));
        assert!(out.status.success(), "{}", text(&out.stderr));
        let replies: Vec<Value> = text(&out.stdout)
            .lines()
            .map(|l| serde_json::from_str(l).expect("an answer is JSON"))
            .collect();
        assert_eq!(replies[0]["error"]["kind"], kind, "{}", replies[0]);
        assert_eq!(replies[1]["ok"]["span"]["m"], 7, "{}", replies[1]);
        assert!(out.stderr.is_empty(), "{}", text(&out.stderr));
    }
}

#[test]
fn a_command_past_its_limit_says_so_and_exits_with_4() {
    let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/llama-block.graph");
    for (limit, words) in [
        (["--limit-memory", "64KiB"], "past the limit of 65536"),
        (["--limit-time", "1ms"], "time limit of 0.001 s"),
    ] {
        let out = zellige(&["compile", graph, limit[0], limit[1]], "");
        assert_eq!(out.status.code(), Some(4), "{}", text(&out.stderr));
        let said = text(&out.stderr);
        assert!(said.starts_with("error: stopped at") && said.contains(words), "{said}");
        assert!(said.contains(limit[0]), "it names the flag: {said}");
    }
    let out = zellige(&["compile", graph, "--limit-time", "none", "--limit-memory", "none"], "");
    assert!(out.status.success(), "{}", text(&out.stderr));
}

#[test]
fn limits_that_cannot_be_read_are_refused() {
    for (flag, value, accepted) in [
        ("--limit-time", "soon", "seconds such as"),
        ("--limit-time", "-1", "seconds such as"),
        ("--limit-memory", "2GB", "a number with `KiB`"),
    ] {
        let out = zellige(&["presets", &format!("{flag}={value}")], "");
        assert_eq!(out.status.code(), Some(2));
        let said = text(&out.stderr);
        assert!(said.contains(accepted) && said.contains(value), "{said}");
    }
}
