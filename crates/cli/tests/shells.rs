//! What shells and people see around the commands: completions, manual pages, colour, the version, layouts from files.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn zellige(args: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_zellige"));
    program
        .args(args)
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn stdout(args: &[&str]) -> String {
    let out = zellige(args);
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("zellige-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What Bash offers for words of which the last is being typed.
fn complete_in_bash(script: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|w| format!("'{w}'")).collect();
    let run = format!(
        "set -eu; source '{script}'; COMP_WORDS=({}); COMP_CWORD={}; _zellige || true; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1
    );
    let out = Command::new("bash").args(["-c", &run]).current_dir("/").output().expect("bash");
    assert!(out.status.success(), "{words:?}: {}", text(&out.stderr));
    text(&out.stdout).lines().filter(|l| !l.is_empty()).map(str::to_string).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let folder = Folder::new("bash");
    let script = folder.path("zellige");
    fs::write(&script, stdout(&["completions", "bash"])).unwrap();
    let commands = complete_in_bash(&script, &["zellige", ""]);
    for command in ["show", "compile", "ktir", "completions", "--version"] {
        assert!(commands.iter().any(|c| c == command), "{command}: {commands:?}");
    }
    assert_eq!(complete_in_bash(&script, &["zellige", "sho"]), ["show"]);
    assert_eq!(complete_in_bash(&script, &["zellige", "ktir", "r"]), ["run"]);
    let options = complete_in_bash(&script, &["zellige", "show", "S[4]", "--s"]);
    assert!(
        ["--shape", "--svg", "--sticks"].iter().all(|o| options.iter().any(|x| x == o)),
        "{options:?}"
    );
    assert_eq!(complete_in_bash(&script, &["zellige", "show", "--color", "a"]), ["auto", "always"]);
    assert_eq!(complete_in_bash(&script, &["zellige", "dma", "--direction", ""]), ["h2d", "d2h"]);
    assert_eq!(complete_in_bash(&script, &["zellige", "show", "x", "--dtype", "bf"]), ["bfloat16"]);
    assert_eq!(complete_in_bash(&script, &["zellige", "check", "smem-8x64-"]), ["smem-8x64-128b"]);
    assert!(
        complete_in_bash(&script, &["zellige", "upload", "smem-8x64-"]).is_empty(),
        "no layout stands there"
    );
    // Where a file may stand, files are offered.
    assert!(complete_in_bash(&script, &["zellige", "upload", "/tm"]).contains(&"/tmp".to_string()));
}

/// Zsh and fish may not be here; what they are given names every command and option, and quotes are closed.
#[test]
fn zsh_and_fish_are_given_every_command_and_option() {
    for shell in ["zsh", "fish"] {
        let script = stdout(&["completions", shell]);
        let help = stdout(&["--help"]);
        let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        for line in list.lines().filter(|l| l.starts_with("  ") && !l.starts_with("   ")) {
            let name = line.split_whitespace().next().unwrap();
            let named = match shell {
                "zsh" => script.contains(&format!("'{name}:")),
                _ => script.contains(&format!(" -a {name} ")),
            };
            assert!(named, "{shell} does not know {name}");
        }
        assert!(script.contains("swizzle"), "{shell} does not know --swizzle");
        for line in script.lines() {
            assert_eq!(line.matches('\'').count() % 2, 0, "{shell}: {line}");
        }
        if Command::new(shell).arg("--version").output().is_ok() {
            let folder = Folder::new(shell);
            let file = folder.path("script");
            fs::write(&file, &script).unwrap();
            let read = Command::new(shell).args(["-n", &file]).output().unwrap();
            assert!(read.status.success(), "{shell}: {}", text(&read.stderr));
        }
    }
    let refused = zellige(&["completions", "powershell"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("bash, zsh, fish"));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new("man");
    stdout(&["man", &folder.path("pages")]);
    let page = fs::read_to_string(folder.path("pages/zellige-show.1")).unwrap();
    for part in
        [".TH \"ZELLIGE-SHOW\" 1", ".SH SYNOPSIS", ".SH OPTIONS", "\\-\\-color\\-by", ".SH NOTES"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let pages = fs::read_dir(folder.path("pages")).unwrap().count();
    assert!(pages >= 30, "{pages} pages");
    // A line that begins with a point would be a request to the formatter.
    let requests = ["TH", "SH", "TP", "B", "BR", "nf", "fi"];
    for entry in fs::read_dir(folder.path("pages")).unwrap() {
        let page = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in page.lines().filter_map(|l| l.strip_prefix('.')) {
            let word = line.split(' ').next().unwrap();
            assert!(requests.contains(&word), ".{line}");
        }
    }
    let refused = zellige(&["man", "/dev/null/pages"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
}

#[test]
fn colour_follows_the_option_and_the_variable() {
    let escape = '\u{1b}';
    for args in [&["--color", "always", "show", "S[4]"][..], &["show", "S[4]", "--color=always"]] {
        assert!(stdout(args).contains(escape), "{args:?}");
    }
    assert!(!stdout(&["show", "S[4]"]).contains(escape), "a file gets no colour");
    let refused = zellige(&["check", "S[4", "--color", "always"]);
    assert!(text(&refused.stderr).contains(escape));
    let refused = zellige(&["check", "--nope", "--color", "always"]);
    assert!(text(&refused.stderr).contains(escape), "the parser's own messages follow it, too");
    assert!(!text(&zellige(&["check", "S[4"]).stderr).contains(escape));
    let sure = Command::new(env!("CARGO_BIN_EXE_zellige"))
        .args(["show", "S[4]", "--color", "always"])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(text(&sure.stdout).contains(escape), "an option is more particular than a variable");
    assert_eq!(zellige(&["show", "S[4]", "--color", "blue"]).status.code(), Some(2));
}

#[test]
fn the_version_is_json_where_that_is_wanted() {
    let value: serde_json::Value = serde_json::from_str(&stdout(&["--version", "--json"])).unwrap();
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
    for field in ["instruction_set", "system", "architecture", "build"] {
        assert!(value[field].is_string(), "{field}: {value}");
    }
    assert!(stdout(&["-V"]).starts_with(&format!("zellige {}\n", env!("CARGO_PKG_VERSION"))));
    for incomplete in [&["--json"][..], &["--color", "never"], &["--json", "presets"]] {
        assert_eq!(zellige(incomplete).status.code(), Some(2), "{incomplete:?}");
    }
    assert!(text(&zellige(&["--color", "never"]).stderr).contains("a command is missing"));
}

#[test]
fn a_layout_may_be_a_file() {
    let folder = Folder::new("layouts");
    let (good, bad) = (folder.path("good.txt"), folder.path("bad.txt"));
    fs::write(&good, "S[(8,64):(64,1)]\n").unwrap();
    fs::write(&bad, "S[(8,64):(64\n").unwrap();
    assert_eq!(stdout(&["convert", &good, "--to", "cute"]), "(8,64):(64,1)\n");
    let refused = zellige(&["check", &bad]);
    let said = text(&refused.stderr);
    assert!(
        refused.status.code() == Some(2)
            && said.contains("S[(8,64):(64")
            && said.contains("bad.txt"),
        "{said}"
    );
    // A file that names itself is read once.
    let circle = folder.path("circle");
    fs::write(&circle, &circle).unwrap();
    assert_eq!(zellige(&["check", &circle]).status.code(), Some(2));
    assert_eq!(
        zellige(&["check", &folder.path("")]).status.code(),
        Some(2),
        "a folder is no layout"
    );
    let missing = zellige(&["convert", "aBcd16b"]);
    assert!(text(&missing.stderr).contains("--shape"), "{}", text(&missing.stderr));
}
