//! Many rules and many tensors: the time grows with their sum, not with their product.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod folders;

use folders::{Folder, write};
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use zellige_reshard::checkpoint::{CheckpointJob, JobLimits};

const LIMITS: JobLimits = JobLimits { memory: 1 << 20, threads: 2 };

const SIDES: &str =
    "[from]\nfiles = \"one.safetensors\"\n[to]\nmesh = \"tp=2\"\nfiles = \"r{tp}.safetensors\"\n";

/// A folder with a file of so many small tensors.
fn input(folder: &Folder, count: usize) {
    let names: Vec<String> = (0..count).map(|k| format!("layer.{k}.w")).collect();
    let all: Vec<(&str, &[i64], &[u16])> =
        names.iter().map(|n| (n.as_str(), &[2][..], &[1, 2][..])).collect();
    write(&folder.at("one.safetensors"), &all);
}

/// A rule for each tensor, by its name or by a pattern.
fn rules(count: usize, name: impl Fn(usize) -> String) -> String {
    let mut text = SIDES.to_string();
    for k in 0..count {
        write!(text, "[[tensor]]\nname = \"{}\"\nto = \"P('tp')\"\n", name(k)).unwrap();
    }
    text
}

/// Seconds for a count, and for four times as many: the quickest of three runs each, as others use the machine, and no two tests at once.
fn seconds(run: impl Fn(usize) -> f64, count: usize) -> (f64, f64) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let quickest = |count| run(count).min(run(count)).min(run(count));
    (quickest(count), quickest(4 * count))
}

#[test]
fn time_grows_as_rules_and_tensors_do() {
    let names: [fn(usize) -> String; 3] =
        [|k| format!("layer.{k}.w"), |k| format!("*.{k}.w"), |k| format!("layer.{k}.{{i}}*")];
    for (which, name) in names.iter().enumerate() {
        let run = |count: usize| {
            let folder = Folder::new(&format!("rules-{which}-{count}"));
            input(&folder, count);
            let mut text = rules(count, name);
            text += "[[tensor]]\nname = \"*\"\n";
            let started = Instant::now();
            let job = CheckpointJob::new(&folder.0, &text).unwrap();
            assert_eq!(job.tensor_count(), count);
            started.elapsed().as_secs_f64()
        };
        let (few, many) = seconds(run, 4_000);
        println!("rules {which}: {few:.2} s, four times as many {many:.2} s");
        assert!(many < 10.0 * few, "pattern {which}: {few} s, and {many} s for four times as many");
    }
}

#[test]
fn writing_and_comparing_grow_as_tensors_do() {
    let text = format!("{SIDES}[[tensor]]\nname = \"*\"\nto = \"P('tp')\"\n");
    let run = |count: usize| {
        let folder = Folder::new(&format!("tensors-{count}"));
        input(&folder, count);
        let started = Instant::now();
        let job = CheckpointJob::new(&folder.0, &text).unwrap();
        let read = started.elapsed().as_secs_f64();
        job.write_output(folder.at("out"), LIMITS, |_| {}).unwrap();
        let written = started.elapsed().as_secs_f64();
        assert_eq!(job.verify_output(folder.at("out"), LIMITS, |_| {}).unwrap().len(), count);
        let compared = started.elapsed().as_secs_f64();
        println!("{count} tensors: read {read:.2}, written {written:.2}, compared {compared:.2} s");
        compared
    };
    let (few, many) = seconds(run, 5_000);
    assert!(many < 6.5 * few, "{few} s, and {many} s for four times as many");
}
