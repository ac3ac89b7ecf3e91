//! `zellige bench`

use crate::common::{print_json, print_text};
use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use std::process::ExitCode;
use zellige_bench::compiler;
use zellige_bench::moves::{
    self, BusyNeighbours, MeasureOptions, MoveCase, MoveRow, MoveRowError, PeerPair, report,
};
use zellige_float::Isa;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige bench moves                           every case beside a plain copy
  zellige bench moves transpose f32 --peers     cases whose name holds both words, and other libraries
  zellige bench moves --random 100 --peers      random pairs of layouts beside numpy and PyTorch
  zellige bench moves --busy 8                  one thread and several while 8 processes compute
  zellige bench compile                         the example graphs under both policies
  zellige bench fidelity                        predicted times beside those of real cards")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: BenchSubject,
}

#[derive(clap::Subcommand)]
enum BenchSubject {
    /// Measure moves beside a plain copy of as many bytes
    Moves(BenchMovesArgs),
    /// Compile the graphs of a folder under both policies
    Compile(BenchCompileArgs),
    /// Predict measured kernel times, and say how far off predictions are
    Fidelity(crate::bench_fidelity::BenchFidelityArgs),
    /// Compute until the standard input ends: a neighbour of `--busy`
    #[command(hide = true)]
    Spin,
}

#[derive(clap::Args)]
#[command(after_help = "\
Times of runs are simulated; those of compilations are measured, the shortest of three. Every plan is
checked. The last tables show graphs named granite as torch-spyre would run them.

Examples:
  zellige bench compile
  zellige bench compile --folder my/graphs")]
struct BenchCompileArgs {
    /// Where the .graph files are
    #[arg(long, default_value = "examples")]
    folder: std::path::PathBuf,
}

#[derive(clap::Args)]
#[command(after_help = "\
A ratio is the speed of the move beside that of the best plain copy of as many bytes in the same
run. The peers are numpy, PyTorch, JAX and oneDNN, run by `python3` or by what ZELLIGE_PYTHON names;
one that is not installed is named in the table. ZELLIGE_ISA=avx2, neon or baseline lowers the instruction set;
--sets measures several in one run.

Examples:
  zellige bench moves sticks padded
  zellige bench moves --case '{\"src\":\"S[(64,64):(64,1)]\",\"dst\":\"S[(64,64):(1,64)]\",\"shape\":[64,64],\"dtype\":\"float16\"}'
  ZELLIGE_PYTHON=.venv/bin/python zellige bench moves --peers --sets avx512,avx2
  zellige bench moves --random 100 --seed 7 --peers --json")]
struct BenchMovesArgs {
    /// Only cases whose name holds every word
    words: Vec<String>,
    /// Measure one move, written as the request `move` of `zellige ask`
    #[arg(long, value_name = "JSON", conflicts_with_all = ["words", "random"])]
    case: Option<String>,
    /// Measure so many random pairs of layouts over a megabyte
    #[arg(long, value_name = "N", conflicts_with = "words")]
    random: Option<usize>,
    /// Which random pairs
    #[arg(long, default_value_t = 1, requires = "random")]
    seed: u64,
    /// Measure what threads are worth beside so many busy processes
    #[arg(long, value_name = "N", conflicts_with_all = ["case", "random", "peers"])]
    busy: Option<u8>,
    /// Measure the same in other libraries
    #[arg(long)]
    peers: bool,
    /// Measure on these instruction sets, in turns, instead of the one of the process
    #[arg(long, value_name = "SET,SET", value_delimiter = ',', conflicts_with_all = ["random", "busy"])]
    sets: Vec<String>,
    /// Threads beside one
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Rounds whose median counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1001))]
    rounds: u16,
    /// Write JSON instead of Markdown
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_bench(args: &BenchArgs) -> Result<ExitCode> {
    let args = match &args.what {
        BenchSubject::Moves(args) => args,
        BenchSubject::Compile(args) => return bench_compile(args),
        BenchSubject::Fidelity(args) => return crate::bench_fidelity::bench_fidelity(args),
        BenchSubject::Spin => {
            moves::spin_until_eof();
            return Ok(ExitCode::SUCCESS);
        }
    };
    if let Some(neighbours) = args.busy {
        bench_beside_neighbours(args, neighbours)?;
        return Ok(ExitCode::SUCCESS);
    }
    match (&args.case, args.random) {
        (Some(text), _) => bench_one_move(args, text)?,
        (None, Some(count)) => bench_random_pairs(args, count)?,
        (None, None) => bench_table(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn bench_compile(args: &BenchCompileArgs) -> Result<ExitCode> {
    let graphs = compiler::find_graphs(&args.folder)?;
    if graphs.is_empty() {
        bail!("{}: no .graph files", args.folder.display());
    }
    let rows = graphs.iter().map(|g| compiler::measure_graph(g)).collect::<Result<Vec<_>>>()?;
    print_text(&compiler::policy_table(&rows))?;
    let model = |p: &&std::path::PathBuf| {
        p.file_stem().is_some_and(|n| n.to_string_lossy().starts_with("granite-8b"))
    };
    for path in graphs.iter().filter(model) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        print_text(&format!("\n{name}, baseline policy, coverage card\n\n"))?;
        print_text(&compiler::time_breakdown(&compiler::compile_baseline(
            path,
            compiler::PUBLISHED_STACK,
        )?))?;
    }
    // The published figures are those of the graphs that come with the project.
    if graphs.iter().filter(model).count() == 2 {
        let list = compiler::published_figures(&args.folder)?;
        print_text(&format!(
            "\npublished figures beside predictions\n\n{}",
            compiler::published_table(&list)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl BenchMovesArgs {
    fn measure_options(&self) -> MeasureOptions {
        MeasureOptions {
            rounds: self.rounds.into(),
            threads: self.threads.into(),
            // Some milliseconds at 10 GB/s: long beside the resolution of the clock, and short enough that another
            // process seldom takes the core within a round.
            round_bytes: 50_000_000,
        }
    }

    /// The instruction sets to measure on.
    fn instruction_sets(&self) -> Result<Vec<Isa>> {
        if self.sets.is_empty() {
            return Ok(vec![Isa::process_isa()]);
        }
        let available: Vec<&str> = Isa::all_available().map(Isa::name).collect();
        let find = |name: &String| {
            let found = Isa::all_available().find(|isa| isa.name() == name);
            found.ok_or_else(|| {
                anyhow!("--sets {name}: the sets of this machine are {}", available.join(", "))
            })
        };
        self.sets.iter().map(find).collect()
    }

    /// The peers on one thread and on `threads`, with `--peers`.
    fn start_peers(&self, threads: u16) -> Result<Option<PeerPair>> {
        Ok(if self.peers { Some(PeerPair::start_both(threads.into())?) } else { None })
    }

    /// A line of text, unless JSON is written at the end.
    fn say_line(&self, text: &str) -> Result<()> {
        if self.json || text.is_empty() { Ok(()) } else { print_text(text) }
    }

    /// What figures depend on beside the case: the build, and the instruction set.
    fn say_conditions(&self) -> Result<()> {
        if cfg!(debug_assertions) {
            self.say_line(&format!("{}\n\n", report::DEBUG_WARNING))?;
        }
        self.say_line(&format!("{}\n\n", zellige_bench::describe_conditions()))
    }

    fn finish_report(&self, rows: &[MoveRow], peers: Option<&PeerPair>, more: Value) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let rows: Vec<Value> = rows.iter().map(MoveRow::to_json).collect();
        let mut value = json!({
            "debug_build": cfg!(debug_assertions), "isa": Isa::process_isa().name(),
            "processor": zellige_bench::processor_name(), "threads": self.threads, "rounds": self.rounds,
            "versions": peers.map(PeerPair::library_versions), "rows": rows,
        });
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        print_json(&value.to_string())
    }
}

/// The cases of the table, row by row as they are measured.
fn bench_table(args: &BenchMovesArgs) -> Result<()> {
    let all = moves::table_cases();
    let wanted = |c: &&MoveCase| args.words.iter().all(|w| c.name.contains(w.as_str()));
    let cases: Vec<&MoveCase> = all.iter().filter(wanted).collect();
    if cases.is_empty() {
        let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        let words = args.words.join("`, `");
        bail!("no case has a name that holds `{words}`; the names are\n  {}", names.join("\n  "));
    }
    let sets = args.instruction_sets()?;
    let mut peers = args.start_peers(args.threads)?;
    args.say_conditions()?;
    args.say_line(&report::case_header(args.measure_options(), args.peers))?;
    let mut rows = Vec::new();
    for case in cases {
        for row in moves::measure_case_rows(case, args.measure_options(), &sets, peers.as_mut())? {
            args.say_line(&report::case_line(&row))?;
            rows.push(row);
        }
    }
    if let Some(peers) = &peers {
        args.say_line(&report::peer_notes(peers.library_versions()))?;
    }
    // The overhead of a call belongs to no case. It is measured with the whole table only, so that a question about
    // one case is answered quickly.
    let overhead = if args.words.is_empty() { moves::measure_overhead() } else { Vec::new() };
    if !overhead.is_empty() {
        args.say_line(&report::overhead_table(&overhead))?;
    }
    let lines = overhead
        .iter()
        .map(|o| json!({"name": o.name, "goal_ns": o.goal, "median_ns": o.median}))
        .collect::<Vec<_>>();
    args.finish_report(&rows, peers.as_ref(), json!({"overhead": lines}))
}

/// One move, with its plan and what planning takes.
fn bench_one_move(args: &BenchMovesArgs, text: &str) -> Result<()> {
    let request = zellige_ask::move_request(text).map_err(|fault| {
        // The place is underlined where the fault is one of a layout's text.
        let rendered = fault.witness["rendered"].as_str().map(|r| format!("\n{r}"));
        anyhow!("--case: {}{}", fault.message, rendered.unwrap_or_default())
    })?;
    let case = MoveCase::from_request(request).map_err(|e| anyhow!("--case: {e}"))?;
    // Planned here once, so that a move without a plan is an error of --case and not one of the measurement.
    case.plan_mover().map_err(|e| anyhow!("--case: {e}"))?;
    let sets = args.instruction_sets()?;
    let mut peers = args.start_peers(args.threads)?;
    let rows = moves::measure_case_rows(&case, args.measure_options(), &sets, peers.as_mut())?;
    let planning = moves::planning_nanoseconds(&case);
    args.say_conditions()?;
    args.say_line(&report::case_header(args.measure_options(), args.peers))?;
    for row in &rows {
        args.say_line(&report::case_line(row))?;
    }
    let plan = rows.first().map_or("", |row| row.plan.as_str());
    args.say_line(&format!("\nplanning {}\n{plan}", report::format_time(planning)))?;
    if let Some(peers) = &peers {
        args.say_line(&report::peer_notes(peers.library_versions()))?;
    }
    args.finish_report(&rows, peers.as_ref(), json!({"planning_ns": planning}))
}

/// Moves on one thread and on several while other processes run.
fn bench_beside_neighbours(args: &BenchMovesArgs, neighbours: u8) -> Result<()> {
    let all = moves::busy_cases();
    let wanted = |c: &&MoveCase| args.words.iter().all(|w| c.name.contains(w.as_str()));
    let cases: Vec<&MoveCase> = all.iter().filter(wanted).collect();
    if cases.is_empty() {
        let names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        let words = args.words.join("`, `");
        bail!("no case has a name that holds `{words}`; the names are\n  {}", names.join("\n  "));
    }
    let program = std::env::current_exe()?;
    // Held to the end of the measurement: dropping it ends the processes. They are this program, because another
    // one that computes without pause may not be installed.
    let _neighbours = BusyNeighbours::start_neighbours(neighbours.into(), || {
        let mut command = std::process::Command::new(&program);
        command.args(["bench", "spin"]);
        command
    })?;
    let threads = args.threads.into();
    args.say_conditions()?;
    args.say_line(&report::busy_header(neighbours.into(), threads))?;
    // A fifth of a second for each round, because a scheduler moves processes between cores some hundred times a
    // second: shorter times would show a single decision of it.
    let time = std::time::Duration::from_millis(200 * u64::from(args.rounds));
    let mut rows = Vec::new();
    for case in cases {
        let row = moves::busy_row(case, threads, time)?;
        args.say_line(&report::busy_line(&row))?;
        rows.push(row.to_json());
    }
    if args.json {
        print_json(
            &json!({
                "debug_build": cfg!(debug_assertions), "isa": Isa::process_isa().name(),
                "processor": zellige_bench::processor_name(), "threads": args.threads, "busy": neighbours, "rows": rows,
            })
            .to_string(),
        )?;
    }
    Ok(())
}

/// Random pairs, and how many of them another library moves faster.
fn bench_random_pairs(args: &BenchMovesArgs, count: usize) -> Result<()> {
    if !(1..=10_000).contains(&count) {
        bail!("--random {count}: measure 1 to 10000 pairs");
    }
    // A round takes some milliseconds, as it does for the peers.
    let options = MeasureOptions { threads: 1, round_bytes: 100_000_000, ..args.measure_options() };
    let mut peers = args.start_peers(1)?;
    args.say_conditions()?;
    args.say_line(&report::random_header())?;
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for case in moves::random_cases(count, args.seed) {
        match moves::measure_random_pair(&case, options, peers.as_mut()) {
            Ok(row) => {
                args.say_line(&report::random_line(&row))?;
                rows.push(row);
            }
            // A pair without a plan is a result: it is shown, and the others are measured.
            Err(MoveRowError::Case(e)) => {
                args.say_line(&report::random_refused(&case, &e))?;
                refused.push(json!({"case": case.name, "why": e.to_string()}));
            }
            Err(other) => return Err(other.into()),
        }
    }
    args.say_line(&report::random_summary(&rows, refused.len()))?;
    // Pairs that no peer can express have no ratio and do not count.
    let beside = rows.iter().filter_map(MoveRow::beside_best);
    let slower = beside.filter(|x| *x > moves::MAX_PEER_RATIO).count();
    args.finish_report(
        &rows,
        peers.as_ref(),
        json!({"seed": args.seed, "slower": slower, "refused": refused}),
    )
}
