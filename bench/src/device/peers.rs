//! Times operations of numpy and PyTorch in a Python process that reads one request per line and writes one answer
//! per line.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("../../peers_device.py");

/// A running Python process, or the reason why there is none.
pub(super) struct DevicePeers {
    process: Result<DevicePeerProcess, String>,
    versions: Value,
}

struct DevicePeerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl DevicePeers {
    /// Starts the Python of `ZELLIGE_PYTHON`, or `python3`. If it cannot be started, the table shows `not installed`
    /// instead of times.
    pub(super) fn start_python() -> DevicePeers {
        let python = std::env::var("ZELLIGE_PYTHON").unwrap_or_else(|_| "python3".into());
        let child = Command::new(&python)
            .args(["-c", SCRIPT])
            // numpy and PyTorch allocate a result in every round. With these settings glibc takes it from a heap that
            // stays mapped and has huge pages, so that the times contain no page faults.
            .env("MALLOC_MMAP_MAX_", "0")
            .env("MALLOC_TRIM_THRESHOLD_", "9000000000000000000")
            .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let process = child.map_err(|_| "not installed".to_string()).map(|mut child| {
            let stdin = child.stdin.take();
            let stdout = BufReader::new(child.stdout.take().expect("piped"));
            DevicePeerProcess { child, stdin, stdout }
        });
        let mut peers = DevicePeers { process, versions: Value::Null };
        peers.versions = peers.read_answer().unwrap_or(Value::Null);
        peers
    }

    /// The seconds that numpy and torch take for an operation, or the reason why there is no time.
    pub(super) fn time_operation(
        &mut self,
        op: &str,
        sizes: &[Vec<i64>],
        rounds: usize,
    ) -> [Result<f64, String>; 2] {
        let request = json!({"op": op, "sizes": sizes, "rounds": rounds});
        let answer = self.write_request(&request).and_then(|()| self.read_answer());
        ["numpy", "torch"].map(|name| match &answer {
            Err(why) => Err(why.clone()),
            Ok(answer) => match &answer[name] {
                Value::Number(seconds) => Ok(seconds.as_f64().unwrap_or(f64::NAN)),
                Value::String(why) => Err(why.clone()),
                _ => Err("no answer".into()),
            },
        })
    }

    /// The versions of numpy and torch, in one line.
    pub(super) fn library_versions(&self) -> String {
        let of = |name: &str| self.versions[name].as_str().unwrap_or("not installed").to_owned();
        format!("numpy {}, torch {}", of("numpy"), of("torch"))
    }

    fn write_request(&mut self, request: &Value) -> Result<(), String> {
        let process = self.process.as_mut().map_err(|why| why.clone())?;
        let stdin = process.stdin.as_mut().ok_or("Python stopped")?;
        let sent = writeln!(stdin, "{request}").and_then(|()| stdin.flush());
        sent.map_err(|e| e.to_string())
    }

    fn read_answer(&mut self) -> Result<Value, String> {
        let process = self.process.as_mut().map_err(|why| why.clone())?;
        let mut line = String::new();
        match process.stdout.read_line(&mut line) {
            Ok(0) => Err("Python stopped".into()),
            Ok(_) => serde_json::from_str(&line).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl Drop for DevicePeerProcess {
    fn drop(&mut self) {
        // Python leaves its loop at the end of its input. Without this, `wait` would never return.
        self.stdin = None;
        let _ = self.child.wait();
    }
}
