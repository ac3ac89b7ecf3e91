//! `zellige ask`

use crate::common::{OutputError, print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::{Context, Result};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use zellige_ask::CallLimits;

#[derive(clap::Args)]
#[command(after_help = "\
One request per line, one answer per line; a bad line answers with an error and the next is read. So
does one that passes a limit (`over_time`, `over_memory`) or finds a mistake in the engine (`internal`).

Examples:
  echo '{\"id\":1,\"op\":\"apply\",\"layout\":\"S[(8,64)]\",\"shape\":[8,64],\"coords\":[[1,2]]}' | zellige ask
  zellige ask requests.jsonl > answers.jsonl
  zellige ask --list")]
pub(crate) struct AskArgs {
    /// Requests (default: standard input)
    file: Option<PathBuf>,
    /// List the requests with their fields
    #[arg(long)]
    list: bool,
    /// With --list: write JSON instead of text (answers are always JSON)
    #[arg(long)]
    json: bool,
}

/// Longest line that is read; a longer one answers with an error.
// 64 MiB, so that a request may hold a tensor of some million numbers, and a stream without a line break still
// cannot take all memory.
const MAX_LINE: usize = 64 << 20;

/// Answers requests, each within the limits.
pub(crate) fn run_ask(args: &AskArgs, limits: CallLimits) -> Result<ExitCode> {
    if args.list {
        return list_requests(args.json);
    }
    let out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    match &args.file {
        Some(path) => {
            let file =
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            serve_requests(BufReader::with_capacity(1 << 16, file), out, limits)?;
        }
        None => {
            serve_requests(
                BufReader::with_capacity(1 << 16, std::io::stdin().lock()),
                out,
                limits,
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Answers every line. Output is flushed whenever the next line has not arrived yet, so that a
/// program on the other end of a pipe gets its answer before it asks again.
fn serve_requests(
    mut input: BufReader<impl Read>,
    mut out: impl Write,
    limits: CallLimits,
) -> Result<()> {
    let mut line = Vec::new();
    loop {
        // A flush costs a call to the system. While further requests are already in the buffer nobody waits for
        // this answer, so that a file of a million requests is not flushed a million times.
        if !input.buffer().contains(&b'\n') {
            out.flush().map_err(OutputError)?;
        }
        line.clear();
        // One byte more than the limit, because otherwise a line of exactly the limit could not be told from a
        // longer one.
        let read = (&mut input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            out.flush().map_err(OutputError)?;
            return Ok(());
        }
        // The last line of a file may end without a line break, and is answered all the same.
        let complete = line.last() == Some(&b'\n');
        if !complete && line.len() > MAX_LINE {
            // The rest of the line is not kept: it may be longer than memory, and the next request begins behind
            // it.
            skip_line(&mut input)?;
            write_fault(
                &mut out,
                "line_too_long",
                &format!("a line has at most {MAX_LINE} bytes"),
            )?;
            continue;
        }
        match std::str::from_utf8(&line) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                let answer = zellige_ask::answer_line_within(text, limits) + "\n";
                out.write_all(answer.as_bytes()).map_err(OutputError)?;
            }
            Err(e) => {
                let message = format!("the line is not UTF-8 (byte {})", e.valid_up_to());
                write_fault(&mut out, "json", &message)?;
            }
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (used, done) = match buffer.iter().position(|b| *b == b'\n') {
            Some(i) => (i + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(used);
        if done {
            return Ok(());
        }
    }
}

// The number of the request is unknown here, because the line that would hold it was not read.
fn write_fault(out: &mut impl Write, kind: &str, message: &str) -> Result<()> {
    let answer = json!({"id": null, "error": {"kind": kind, "message": message, "witness": null}});
    writeln!(out, "{answer}").map_err(OutputError)?;
    Ok(())
}

fn list_requests(as_json: bool) -> Result<ExitCode> {
    let operations = zellige_ask::OPERATIONS;
    if as_json {
        let list: Vec<_> = operations
            .iter()
            .map(|o| json!({"op": o.name, "fields": o.fields, "answers": o.answers}))
            .collect();
        print_json(&json!({"requests": list}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for o in operations {
        let _ = writeln!(text, "{:<20} {}\n{:<20} -> {}", o.name, o.fields, "", o.answers);
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}
