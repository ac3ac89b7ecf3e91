//! Other libraries, in a Python process that answers one line per line.

use super::case::Padded;
use super::run::median;
use super::{Elements, Options, Prepared};
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
pub enum Peer {
    /// Median seconds of one call; the result was right.
    Seconds(f64),
    /// Why there are none: `not installed`, `-` for a move that it does not have, or an error.
    Not(String),
}

/// What every peer did with one case, in the order of [`PEERS`].
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Median seconds of the best plain copy in the same process.
    pub copy: Option<f64>,
    /// The peers.
    pub peers: Vec<Peer>,
}

impl Answer {
    /// The fastest peer and its seconds.
    pub fn best(&self) -> Option<(&'static str, f64)> {
        let timed = PEERS.iter().zip(&self.peers).filter_map(|(name, peer)| match peer {
            Peer::Seconds(s) => Some((*name, *s)),
            Peer::Not(_) => None,
        });
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The median of several answers to one case, of which there is at least one.
    pub fn median(answers: &[Answer]) -> Answer {
        let middle = |of: &dyn Fn(&Answer) -> Option<f64>| {
            let times: Vec<f64> = answers.iter().filter_map(of).collect();
            (!times.is_empty()).then(|| median(times))
        };
        let peers = (0..PEERS.len()).map(|i| {
            let seconds = middle(&|a| match a.peers[i] {
                Peer::Seconds(s) => Some(s),
                Peer::Not(_) => None,
            });
            seconds.map_or_else(|| answers[0].peers[i].clone(), Peer::Seconds)
        });
        Answer { peers: peers.collect(), copy: middle(&|a| a.copy) }
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
struct Request<'a> {
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
    padded: Option<Padded>,
}

/// What the peers did with one case, on one thread and on several.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// On one thread.
    pub one: Answer,
    /// On as many threads as our own second figure has.
    pub many: Option<Answer>,
}

impl Answers {
    /// The median of several answers to one case, of which there is at least one.
    pub fn median(answers: &[Answers]) -> Answers {
        let one: Vec<Answer> = answers.iter().map(|a| a.one.clone()).collect();
        let many: Vec<Answer> = answers.iter().filter_map(|a| a.many.clone()).collect();
        Answers {
            one: Answer::median(&one),
            many: (!many.is_empty()).then(|| Answer::median(&many)),
        }
    }
}

/// The peers on one thread and on several: a process each, as libraries choose their threads when
/// they start.
pub struct Peers {
    one: PeerProcess,
    many: Option<PeerProcess>,
}

impl Peers {
    /// Starts the Python of `ZELLIGE_PYTHON`, or `python3`, once for one thread and, where `threads`
    /// is more, once for that many.
    pub fn start(threads: usize) -> Result<Peers, PeerError> {
        let many = (threads > 1).then(|| PeerProcess::start(threads)).transpose()?;
        Ok(Peers { one: PeerProcess::start(1)?, many })
    }

    /// What is installed, with versions, for the report.
    pub fn versions(&self) -> &Value {
        &self.one.versions
    }

    /// Checks every peer on a case, bit for bit, and times those that are right. `only` names the
    /// peers to ask; the others are left out of the answer's times.
    pub fn measure(
        &mut self,
        case: &Prepared<'_>,
        options: Options,
        only: &[&str],
    ) -> Result<Answers, PeerError> {
        self.each(|process| process.measure(case, options, only))
    }

    /// Times the same case once more.
    pub fn again(&mut self) -> Result<Answers, PeerError> {
        self.each(PeerProcess::again)
    }

    fn each(
        &mut self,
        mut ask: impl FnMut(&mut PeerProcess) -> Result<Answer, PeerError>,
    ) -> Result<Answers, PeerError> {
        let many = self.many.as_mut().map(&mut ask).transpose()?;
        Ok(Answers { one: ask(&mut self.one)?, many })
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
    fn start(threads: usize) -> Result<PeerProcess, PeerError> {
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
        process.versions = process.read()?;
        Ok(process)
    }

    fn measure(
        &mut self,
        case: &Prepared<'_>,
        options: Options,
        only: &[&str],
    ) -> Result<Answer, PeerError> {
        let (src_bytes, dst_bytes) = case.lengths();
        let plan = case.plan();
        let (from, to) = match case.case().elements {
            Elements::Plain(width) => (width.to_string(), width.to_string()),
            Elements::Convert(from, to) => (from.name().into(), to.name().into()),
        };
        self.ask(&Request {
            from,
            to,
            bytes: case.case().bytes(plan),
            src_bytes,
            dst_bytes,
            crc: case.checksum(),
            rounds: options.rounds,
            only,
            shape: &case.case().shape,
            plan,
            padded: case.case().padded(),
        })
    }

    fn again(&mut self) -> Result<Answer, PeerError> {
        self.ask(&json!({"again": true}))
    }

    fn ask(&mut self, request: &impl Serialize) -> Result<Answer, PeerError> {
        let Some(stdin) = &mut self.stdin else {
            return Err(PeerError::Stopped("its input is closed".into()));
        };
        // Through a text: a plan may have millions of starts, and a tree of them would not fit.
        serde_json::to_string(request)
            .map_err(std::io::Error::from)
            .and_then(|line| writeln!(stdin, "{line}"))
            .and_then(|()| stdin.flush())
            .map_err(|e| PeerError::Stopped(e.to_string()))?;
        let answer = self.read()?;
        let peers = PEERS.iter().map(|name| match &answer["peers"][name] {
            Value::Number(seconds) => Peer::Seconds(seconds.as_f64().unwrap_or(f64::NAN)),
            Value::String(why) => Peer::Not(why.clone()),
            _ => Peer::Not("-".into()),
        });
        Ok(Answer { peers: peers.collect(), copy: answer["copy"].as_f64() })
    }

    fn read(&mut self) -> Result<Value, PeerError> {
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
