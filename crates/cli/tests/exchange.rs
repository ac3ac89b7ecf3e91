//! `zellige exchange` as a person runs it: what it prints and draws, and bad input.

use std::path::Path;
use std::process::{Command, Output};

fn zellige(args: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zellige"));
    command.args(args).current_dir(root).env_remove("COLUMNS").output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn the_page_shows_what_the_program_prints() {
    let out = zellige(&["exchange", "examples/exchange.json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exchange.md");
    let page = std::fs::read_to_string(page).expect("docs/exchange.md");
    let shown = format!("$ zellige exchange examples/exchange.json\n{}", text(&out.stdout));
    assert!(page.contains(&shown), "docs/exchange.md is stale; the program prints\n{shown}");
}

#[test]
fn sends_are_listed_and_drawn() {
    let svg = std::env::temp_dir().join(format!("zellige-exchange-{}.svg", std::process::id()));
    let drawn = svg.to_str().expect("a path in UTF-8");
    let out = zellige(&["exchange", "examples/exchange.json", "--sends", "--svg", drawn]);
    assert!(text(&out.stdout).contains("0  1  mb [0, 32) out [1024, 2048)  65536\n"));
    let picture = std::fs::read_to_string(&svg).expect("the drawing");
    std::fs::remove_file(&svg).expect("the drawing");
    assert!(picture.contains("65536 bytes go from core 0 to core 1"));
    assert!(picture.contains("65536 bytes stay on core 0"));
}

#[test]
fn bad_files_are_refused_with_what_is_wrong() {
    let refused = |content: &str| {
        let path =
            std::env::temp_dir().join(format!("zellige-exchange-{}.json", std::process::id()));
        std::fs::write(&path, content).expect("written");
        let out = zellige(&["exchange", path.to_str().expect("a path in UTF-8")]);
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(out.status.code(), Some(2), "{content}: {}", text(&out.stdout));
        text(&out.stderr)
    };
    assert!(refused("[1]").contains("is not a JSON object"));
    assert!(refused("{}").contains("`shape` is missing"));
    assert!(refused(r#"{"op":"move"}"#).contains("`exchange` is expected"));
    let whole =
        r#"{"shape":[8],"dtype":"float16","source":{"0":[]},"destination":{"1":[["0",0,9]]}}"#;
    assert!(refused(whole).contains("core 1: [0, 9) is no part of dimension 0"));
    let out = zellige(&["exchange", "no-such-file.json"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("no-such-file.json"));
}
