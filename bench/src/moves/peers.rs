//! Other libraries, in a Python process that answers one line per line.

use super::case::PaddedArrayMove;
use super::run::median_time;
use super::{MeasureOptions, MovedElements, PreparedCase};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use zellige_movement::MovePlan;

/// What the tables compare with, as the script names them.
pub const PEERS: [&str; 5] = ["numpy", "torch", "torch.compile", "jax", "oneDNN"];

/// The script is part of the program: it needs no checkout to run.
const SCRIPT: &str = include_str!("../../peers_moves.py");

/// What a peer did with a case.
#[derive(Debug, Clone, PartialEq)]
pub enum PeerOutcome {
    /// Median seconds of one call; the result was right.
    Seconds(f64),
    /// Why there are none: `not installed`, `-` for a move that it does not have, or an error.
    Not(String),
}

/// What every peer did with one case, in the order of [`PEERS`].
#[derive(Debug, Clone, PartialEq)]
pub struct PeerAnswer {
    /// Median seconds of the best plain copy in the same process.
    pub copy: Option<f64>,
    /// The peers.
    pub peers: Vec<PeerOutcome>,
}

impl PeerAnswer {
    /// The fastest peer and its seconds.
    pub fn best_peer(&self) -> Option<(&'static str, f64)> {
        let timed = PEERS.iter().zip(&self.peers).filter_map(|(name, peer)| match peer {
            PeerOutcome::Seconds(s) => Some((*name, *s)),
            PeerOutcome::Not(_) => None,
        });
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The median of several answers to one case, of which there is at least one.
    pub fn median_answer(answers: &[PeerAnswer]) -> PeerAnswer {
        let middle = |of: &dyn Fn(&PeerAnswer) -> Option<f64>| {
            let times: Vec<f64> = answers.iter().filter_map(of).collect();
            (!times.is_empty()).then(|| median_time(times))
        };
        let peers = (0..PEERS.len()).map(|i| {
            let seconds = middle(&|a| match a.peers[i] {
                PeerOutcome::Seconds(s) => Some(s),
                PeerOutcome::Not(_) => None,
            });
            // A peer without times has the same reason in every answer.
            seconds.map_or_else(|| answers[0].peers[i].clone(), PeerOutcome::Seconds)
        });
        PeerAnswer { peers: peers.collect(), copy: middle(&|a| a.copy) }
    }
}

/// The process of the peers could not be used.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It did not start.
    #[error(
        "--peers: cannot start `{python}`: {cause}; ZELLIGE_PYTHON names a Python with numpy, torch \
         and jax"
    )]
    Start {
        /// The program.
        python: String,
        /// Why.
        cause: std::io::Error,
    },
    /// It ended, or answered something else.
    #[error("--peers: the script that runs them stopped: {0}")]
    Stopped(String),
}

/// A case as the script reads it: widths are copied, formats converted.
#[derive(Serialize)]
struct PeerRequest<'a> {
    from: String,
    to: String,
    bytes: usize,
    src_bytes: usize,
    dst_bytes: usize,
    crc: u32,
    rounds: usize,
    only: &'a [&'a str],
    shape: &'a [i64],
    plan: &'a MovePlan,
    padded: Option<PaddedArrayMove>,
}

/// What the peers did with one case, on one thread and on several.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerAnswers {
    /// On one thread.
    pub one: PeerAnswer,
    /// On as many threads as our own second figure has.
    pub many: Option<PeerAnswer>,
}

impl PeerAnswers {
    /// The median of several answers to one case, of which there is at least one.
    pub fn median_answers(answers: &[PeerAnswers]) -> PeerAnswers {
        let one: Vec<PeerAnswer> = answers.iter().map(|a| a.one.clone()).collect();
        let many: Vec<PeerAnswer> = answers.iter().filter_map(|a| a.many.clone()).collect();
        PeerAnswers {
            one: PeerAnswer::median_answer(&one),
            many: (!many.is_empty()).then(|| PeerAnswer::median_answer(&many)),
        }
    }
}

/// The peers on one thread and on several: a process each, as libraries choose their threads when
/// they start.
pub struct PeerPair {
    one: PeerProcess,
    many: Option<PeerProcess>,
}

impl PeerPair {
    /// Starts the Python of `ZELLIGE_PYTHON`, or `python3`, once for one thread and, where `threads`
    /// is more, once for that many.
    pub fn start_both(threads: usize) -> Result<PeerPair, PeerError> {
        // Both processes run from the beginning, so that starting a library falls into no measurement.
        let many = (threads > 1).then(|| PeerProcess::start_process(threads)).transpose()?;
        Ok(PeerPair { one: PeerProcess::start_process(1)?, many })
    }

    /// What is installed, with versions, for the report.
    pub fn library_versions(&self) -> &Value {
        &self.one.versions
    }

    /// Checks every peer on a case, bit for bit, and times those that are right. `only` names the
    /// peers to ask; the others are left out of the answer's times.
    pub fn measure_case(
        &mut self,
        case: &PreparedCase<'_>,
        options: MeasureOptions,
        only: &[&str],
    ) -> Result<PeerAnswers, PeerError> {
        self.ask_each(|process| process.measure_case(case, options, only))
    }

    /// Times the same case once more.
    pub fn measure_again(&mut self) -> Result<PeerAnswers, PeerError> {
        self.ask_each(PeerProcess::measure_again)
    }

    fn ask_each(
        &mut self,
        mut ask: impl FnMut(&mut PeerProcess) -> Result<PeerAnswer, PeerError>,
    ) -> Result<PeerAnswers, PeerError> {
        // One after the other: two processes at once would share the memory bandwidth that is measured.
        let many = self.many.as_mut().map(&mut ask).transpose()?;
        Ok(PeerAnswers { one: ask(&mut self.one)?, many })
    }
}

/// A process that runs the peers on some threads.
struct PeerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// What is installed, with versions, for the report.
    versions: Value,
}

impl PeerProcess {
    fn start_process(threads: usize) -> Result<PeerProcess, PeerError> {
        let python = std::env::var("ZELLIGE_PYTHON").unwrap_or_else(|_| "python3".into());
        let mut child = Command::new(&python)
            .args(["-c", SCRIPT, &threads.to_string()])
            // Libraries that return fresh memory get it from a heap that stays mapped, on huge
            // pages: else they would be timed on page faults.
            .env("MALLOC_MMAP_MAX_", "0")
            .env("MALLOC_TRIM_THRESHOLD_", "9000000000000000000")
            .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|cause| PeerError::Start { python, cause })?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("piped");
        let stdout = BufReader::new(stdout);
        let mut process = PeerProcess { child, stdin, stdout, versions: Value::Null };
        process.versions = process.read_answer()?;
        Ok(process)
    }

    fn measure_case(
        &mut self,
        case: &PreparedCase<'_>,
        options: MeasureOptions,
        only: &[&str],
    ) -> Result<PeerAnswer, PeerError> {
        let (src_bytes, dst_bytes) = case.buffer_lengths();
        let plan = case.plan();
        let (from, to) = match case.case().elements {
            MovedElements::Plain(width) => (width.to_string(), width.to_string()),
            MovedElements::Convert(from, to) => (from.name().into(), to.name().into()),
        };
        self.send_request(&PeerRequest {
            from,
            to,
            bytes: case.case().copied_bytes(plan),
            src_bytes,
            dst_bytes,
            // The script compares the checksum of each peer's result with this one, because a wrong move may be a
            // fast one.
            crc: case.destination_checksum(),
            rounds: options.rounds,
            only,
            shape: &case.case().shape,
            plan,
            padded: case.case().padded_loops(),
        })
    }

    fn measure_again(&mut self) -> Result<PeerAnswer, PeerError> {
        self.send_request(&json!({"again": true}))
    }

    fn send_request(&mut self, request: &impl Serialize) -> Result<PeerAnswer, PeerError> {
        let Some(stdin) = &mut self.stdin else {
            return Err(PeerError::Stopped("its input is closed".into()));
        };
        // Through a text: a plan may have millions of starts, and a tree of them would not fit.
        serde_json::to_string(request)
            .map_err(std::io::Error::from)
            .and_then(|line| writeln!(stdin, "{line}"))
            .and_then(|()| stdin.flush())
            .map_err(|e| PeerError::Stopped(e.to_string()))?;
        let answer = self.read_answer()?;
        let peers = PEERS.iter().map(|name| match &answer["peers"][name] {
            Value::Number(seconds) => PeerOutcome::Seconds(seconds.as_f64().unwrap_or(f64::NAN)),
            Value::String(why) => PeerOutcome::Not(why.clone()),
            _ => PeerOutcome::Not("-".into()),
        });
        Ok(PeerAnswer { peers: peers.collect(), copy: answer["copy"].as_f64() })
    }

    fn read_answer(&mut self) -> Result<Value, PeerError> {
        let mut line = String::new();
        let read = self.stdout.read_line(&mut line);
        match read {
            Ok(0) => Err(PeerError::Stopped("it ended; what it wrote is above".into())),
            Ok(_) => serde_json::from_str(&line)
                .map_err(|e| PeerError::Stopped(format!("it answered no JSON: {e}"))),
            Err(e) => Err(PeerError::Stopped(e.to_string())),
        }
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.stdin = None;
        let _ = self.child.wait();
    }
}
