//! `zellige reshard`

use crate::common::{print_json, print_text, printable_path};
use crate::exit_code::ExitCode;
use crate::progress::ProgressLine;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;
use zellige_reshard::Topology;
use zellige_reshard::checkpoint::{CheckpointJob, JobLimits, RankTraffic};

#[derive(clap::Args)]
#[command(after_help = "\
PLAN is a text in TOML: the mesh and the files of both sides, and rules from names of tensors to layouts.
examples/reshard has plans for Llama, Granite, Mixtral and GPT-2; docs/reshard.md says all of it.
Everything is checked before anything is written. A run that was ended goes on where it was, file by file.

Examples:
  zellige reshard llama/ ranks/ --plan examples/reshard/llama-tp4.toml --verify
  zellige reshard ranks/ one/ --plan examples/reshard/llama-one.toml
  zellige reshard llama/ ranks/ --plan examples/reshard/llama-tp4.toml --dry-run --bandwidth 50GB/s")]
pub(crate) struct ReshardArgs {
    /// The folder of the checkpoint
    input: PathBuf,
    /// The folder to write; made where it is not there
    output: PathBuf,
    /// The rules
    #[arg(long)]
    plan: PathBuf,
    /// Write nothing: print the bytes between ranks, the time they take, and what a chain of collectives would send
    #[arg(long)]
    dry_run: bool,
    /// Links between ranks, in TOML, for --dry-run
    #[arg(long, value_name = "FILE", conflicts_with = "bandwidth")]
    topology: Option<PathBuf>,
    /// The link of every rank in either direction, for --dry-run
    #[arg(long, default_value = "25GB/s")]
    bandwidth: String,
    /// Read input and output again and compare checksums of logical tensors, every copy
    #[arg(long)]
    verify: bool,
    /// Memory for buffers in MiB, about
    #[arg(long, default_value_t = 256)]
    memory: usize,
    /// Threads at most
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

/// The largest text of rules or links.
const MAX_TEXT: u64 = 1 << 24;

/// Ranks up to which the matrix is printed.
// A row of 16 columns still fits on a line of a wide terminal.
const MAX_MATRIX_RANKS: i64 = 16;

pub(crate) fn run_reshard(args: &ReshardArgs) -> Result<ExitCode> {
    let rules = zellige_files::read_text(&args.plan, MAX_TEXT)?;
    let job =
        CheckpointJob::new(&args.input, &rules).with_context(|| printable_path(&args.plan))?;
    if args.dry_run {
        return dry_run(args, &job);
    }
    let started = Instant::now();
    let limits = JobLimits {
        memory: args.memory.max(1).saturating_mul(1 << 20),
        threads: args.threads.clamp(1, 256),
    };
    let bar = ProgressLine::for_bytes(job.output_bytes());
    let done = job.write_output(&args.output, limits, |n| bar.advance_to(n));
    bar.finish_bar();
    let done = done?;
    let seconds = started.elapsed().as_secs_f64();
    let mut sums = None;
    if args.verify {
        let bar = ProgressLine::for_bytes(job.output_bytes());
        let found = job.verify_output(&args.output, limits, |n| bar.advance_to(n));
        bar.finish_bar();
        sums = Some(found?);
    }
    // Behind the verification: the marks that let an ended run continue are removed only when nothing is left to
    // repeat.
    job.close_output(&args.output)?;
    if args.json {
        let sums: Option<serde_json::Map<_, _>> =
            sums.map(|all| all.into_iter().map(|(name, sum)| (name, sum.into())).collect());
        let value = json!({
            "tensors": job.tensor_count(), "files": job.file_count(), "written": done.written,
            "found": done.found, "bytes": done.bytes, "seconds": seconds, "checksums": sums,
        });
        print_json(&value.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!(
        "{} tensors in {} files, {} bytes in {seconds:.2} s",
        job.tensor_count(),
        done.written,
        done.bytes
    );
    if done.found > 0 {
        text += &format!("; {} files were there already", done.found);
    }
    if let Some(sums) = sums {
        text +=
            &format!("\nverified: the checksums of {} tensors are those of the input", sums.len());
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn dry_run(args: &ReshardArgs, job: &CheckpointJob) -> Result<ExitCode> {
    let topology = match &args.topology {
        Some(path) => Topology::parse(&zellige_files::read_text(path, MAX_TEXT)?)
            .with_context(|| printable_path(path))?,
        None => Topology::with_flat_links(parse_bandwidth(&args.bandwidth)?)?,
    };
    let traffic = job.measure_traffic(&topology)?;
    if args.json {
        let pairs: Vec<_> = traffic.pairs.iter().map(|((a, b), n)| json!([a, b, n])).collect();
        let value = json!({
            "ranks": traffic.ranks, "tensors": job.tensor_count(), "files": job.file_count(),
            "sent": traffic.sent_bytes(), "kept": traffic.kept_bytes(), "seconds": traffic.seconds,
            "pairs": pairs, "chain": {
                "received": traffic.chain.received, "collectives": traffic.chain.collectives,
                "gathered": traffic.chain.gathered,
            },
        });
        print_json(&value.to_string())?;
    } else {
        print_text(&traffic_text(job, &traffic, &topology))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn traffic_text(job: &CheckpointJob, traffic: &RankTraffic, topology: &Topology) -> String {
    let mut text = format!(
        "{} tensors, {} files to write, {} bytes; nothing is written\n",
        job.tensor_count(),
        job.file_count(),
        job.output_bytes()
    );
    if traffic.ranks <= MAX_MATRIX_RANKS {
        text += "bytes from rank (row) to rank (column), what stays on the diagonal\n";
        let width = traffic.pairs.values().map(|n| n.to_string().len()).max().unwrap_or(1).max(4);
        let ranks = 0..traffic.ranks;
        let heads: Vec<String> = ranks.clone().map(|r| format!("{r:>width$}")).collect();
        text += &format!("     {}\n", heads.join(" "));
        for from in ranks.clone() {
            let row = ranks.clone().map(|to| {
                let n = traffic.pairs.get(&(from, to)).copied().unwrap_or(0);
                format!("{n:>width$}")
            });
            text += &format!("{from:>4} {}\n", row.collect::<Vec<_>>().join(" "));
        }
    } else {
        text += &format!("{} ranks; --json lists the pairs\n", traffic.ranks);
    }
    text += &format!("sent {} bytes, kept {} bytes\n", traffic.sent_bytes(), traffic.kept_bytes());
    let links: Vec<String> = topology
        .levels()
        .iter()
        .map(|l| format!("{} {:.3} GB/s ({})", l.name, l.bandwidth / 1e9, l.source))
        .collect();
    text += &format!(
        "time {:.6} s, computed: the busiest link, at {}\n",
        traffic.seconds,
        links.join(", ")
    );
    let chain = &traffic.chain;
    text += &format!(
        "a chain of collectives, as DTensor runs it: {} collectives, {} bytes received",
        chain.collectives, chain.received
    );
    if chain.gathered > 0 {
        text += &format!(
            "; {} tensors change their mesh or are divided as no placement says: each rank gathers them whole",
            chain.gathered
        );
    }
    text
}

/// `50GB/s`
fn parse_bandwidth(text: &str) -> Result<f64> {
    // Links of networks are sold in bits, those of memory in bytes, so both spellings are read.
    let units = [("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("Gbit/s", 1.25e8)];
    for (unit, factor) in units {
        if let Some(number) = text.trim().strip_suffix(unit) {
            return Ok(number.trim().parse::<f64>().context("--bandwidth")? * factor);
        }
    }
    bail!("--bandwidth {text}: accepted are numbers with TB/s, GB/s, MB/s or Gbit/s, as 25GB/s")
}
