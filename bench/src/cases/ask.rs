//! Requests: in this process, and through the program.

use super::FRAGMENT;
use crate::harness::{BenchHarness, SpeedGoal, as_divisor, as_nanoseconds};
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const GOAL: SpeedGoal = SpeedGoal::Rate(200_000.0);
const REQUESTS: usize = 1_000_000;
const ROUNDS: usize = 7;

pub(crate) fn run_request_cases(bench: &mut BenchHarness) -> Result<()> {
    let lines: Vec<String> = (0..256).map(apply_request).collect();
    bench.bench_short("ask apply, in process", GOAL, |i| {
        zellige_ask::answer_line(&lines[i % lines.len()])
    });
    let equal = format!(r#"{{"id":1,"op":"equal","a":"{FRAGMENT}","b":"{FRAGMENT}"}}"#);
    bench.bench_short("ask equal, in process", SpeedGoal::None, |_| {
        zellige_ask::answer_line(&equal)
    });

    let (file, pipe) =
        ("ask apply, program, 1M lines from a file", "ask apply, program, 1M lines through a pipe");
    if bench.wants_case(file) || bench.wants_case(pipe) {
        match find_program() {
            Err(why) => {
                bench.add_samples(file, GOAL, Err(why.clone()));
                bench.add_samples(pipe, GOAL, Err(why));
            }
            Ok(program) => {
                let requests = RequestFile::write_requests()?;
                let from_file = time_requests(|| serve_file(&program, &requests.path))?;
                bench.add_samples(file, GOAL, Ok(from_file));
                let piped = time_requests(|| serve_pipe(&program, &requests.text))?;
                bench.add_samples(pipe, GOAL, Ok(piped));
            }
        }
    }
    Ok(())
}

fn apply_request(i: usize) -> String {
    let (row, column) = (i * 7 % 16, i * 3 % 8);
    format!(
        r#"{{"id":{i},"op":"apply","layout":"{FRAGMENT}","shape":[16,8],"coords":[[{row},{column}]]}}"#
    )
}

/// The program beside this one, as `cargo build --release -p zellige-cli` leaves it.
fn find_program() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let path = here.with_file_name(format!("zellige{}", std::env::consts::EXE_SUFFIX));
    let help = "no `zellige` beside this program; run `cargo build --release -p zellige-cli`";
    if path.is_file() { Ok(path) } else { Err(help.into()) }
}

/// A million lines, in memory and in a temporary file.
struct RequestFile {
    text: String,
    path: PathBuf,
}

impl RequestFile {
    fn write_requests() -> Result<RequestFile> {
        let mut text = String::with_capacity(REQUESTS * 120);
        for i in 0..REQUESTS {
            let _ = writeln!(text, "{}", apply_request(i));
        }
        let path = std::env::temp_dir().join(format!("zellige-bench-{}.jsonl", std::process::id()));
        std::fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(RequestFile { text, path })
    }
}

impl Drop for RequestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Nanoseconds a request, start of the program included, one sample a round.
fn time_requests(serve: impl Fn() -> Result<()>) -> Result<Vec<f64>> {
    serve()?;
    let mut samples = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        serve()?;
        samples.push(as_nanoseconds(start.elapsed()) / as_divisor(REQUESTS));
    }
    Ok(samples)
}

fn serve_file(program: &Path, requests: &Path) -> Result<()> {
    let mut ask = Command::new(program);
    ask.arg("ask").stdin(File::open(requests)?).stdout(Stdio::null());
    ensure!(ask.status()?.success(), "the program failed");
    Ok(())
}

fn serve_pipe(program: &Path, requests: &str) -> Result<()> {
    let mut ask = Command::new(program);
    let mut child = ask.arg("ask").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut pipe = child.stdin.take().context("a pipe was asked for")?;
    pipe.write_all(requests.as_bytes())?;
    drop(pipe);
    ensure!(child.wait()?.success(), "the program failed");
    Ok(())
}
