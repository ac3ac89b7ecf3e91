//! The `zellige` program: one file per subcommand, no logic of its own.
//!
//! A library, so that the binary `zellige` and the Python package (`python -m zellige`) are the same program.

#![forbid(unsafe_code)]

mod ask;
mod bench;
mod bench_fidelity;
mod bench_ktir;
mod cache;
mod card;
mod chart;
mod check;
mod common;
mod compile;
mod completions;
mod conformance;
mod convert;
mod cuda;
mod device;
mod diff;
mod dma;
mod exchange;
mod exit_code;
mod explain;
mod explain_time;
mod explore;
mod graph;
mod interrupt;
mod ktir;
mod limits;
mod manual;
mod map;
mod moves;
mod near_misses;
mod notations;
mod ops;
mod presets;
mod profile;
mod progress;
mod reshard;
mod run;
mod scale_factors;
mod show;
mod single_operation;
mod upload;
mod version;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::io::Write;

pub use exit_code::ExitCode;

/// Tensor layouts: where every element lives, proved, drawn and explained.
#[derive(Parser)]
#[command(name = "zellige", max_term_width = 100, after_help = AFTER_HELP)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print the version, and with it what a report of a defect needs: instruction set, system, cores
    #[arg(long, short = 'V')]
    version: bool,
    /// With --version: write JSON instead of text
    #[arg(long, requires = "version")]
    json: bool,
    /// Print the crates of others in this program, with their licences and the texts of them
    #[arg(long)]
    licenses: bool,
    #[command(subcommand)]
    command: Option<CliCommand>,
    /// Colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = common::ColorWhen::Auto)]
    #[arg(hide_possible_values = true)]
    color: common::ColorWhen,
    #[command(flatten)]
    limits: limits::LimitArgs,
}

/// Made by the tests of `crates/notices` from the lock file. The file in the folder of this crate is a link to it, so that
/// a package of the crate has it.
const NOTICES: &str = include_str!("../THIRD-PARTY-NOTICES");

const AFTER_HELP: &str = "\
Examples:
  zellige show mma-m16n8-cd                     a fragment over lanes and registers
  zellige show 'S[(8,64):(64,1)]' --dtype float16 --swizzle 128B
  zellige check 'S[(8,64):(64,1)]' --dtype float16
  zellige map two-warps 7,15                    one element to all its places
  zellige convert '(8,64):(64,1)'               the same layout in other notations
  zellige explain 'f32[16,256]{1,0:T(8,128)}'   what a layout does, in words
  zellige diff 'S[(8,64):(64,1)]' '(8,64):(1,8)'
  zellige presets                               every layout with a name
  zellige conformance cute xla                  recorded answers of other implementations
  zellige explore                               all of it on a web page
  zellige reshard IN/ OUT/ --plan PLAN          a checkpoint, from one sharding to another
  zellige eager add a.npy b.npy -o c.npy        an operation on the simulated card
  zellige run examples/llama-block.graph        a graph, compiled and run
  zellige ktir run add.mlir --input x=a.npy     a tile kernel on the simulated cores
  zellige completions bash                      what a shell needs to complete commands and options

A LAYOUT is the name of a preset, or a text in any notation: TIRx, Spyre, PyTorch, CuTe, Triton, XLA,
oneDNN, linalg.pack, memref, shardings of JAX, HLO, Shardy and DTensor, NumPy (`zellige notations`).
Exit codes: 0 fine; 1 the check found a warning, or a recorded case fails; 2 bad input; 3 a file or standard
output could not be written; 4 a limit was passed; 101 a mistake in the engine; 130 interrupted.
ZELLIGE_ISA=avx512, avx2, neon or baseline lowers the instruction set; results have the same bits on all.
NO_COLOR switches colour off. `zellige completions --help` says how a shell completes all this.";

#[derive(Subcommand)]
enum CliCommand {
    /// Draw a layout: the logical tensor coloured by owner, and where it lives
    Show(show::ShowArgs),
    /// Map coordinates to places, and places back to coordinates
    Map(map::MapArgs),
    /// Report what can be proved: well-formed, injective, padding, conflicts, vector width
    Check(check::CheckArgs),
    /// Say in words what a layout does, what it costs, and how other notations write it
    Explain(explain::ExplainArgs),
    /// Write a layout in another notation, or in all of them
    Convert(convert::ConvertArgs),
    /// Compare two layouts in any notations, and draw where they first differ
    Diff(diff::DiffArgs),
    /// List the notations that layouts are read and written in, each with an example
    Notations(notations::NotationsArgs),
    /// List the layouts that have names
    Presets(presets::PresetsArgs),
    /// Write the layout of a matrix instruction's scale factors in tensor memory, from their counts
    ScaleFactors(scale_factors::Args),
    /// Move a tensor between files into another layout
    Move(moves::MoveArgs),
    /// Plan the copies between the scratchpads of two divisions of a tensor: who sends what to whom
    Exchange(exchange::ExchangeArgs),
    /// Move a checkpoint between shardings: tensor parallel, pipeline, flat shards, one file
    Reshard(reshard::ReshardArgs),
    /// Print the transfer of a host tensor to or from the device: loop nests and descriptor
    Dma(dma::DmaArgs),
    /// Print the CUDA kernel of a move between two layouts: its launch, bytes, expected time, sectors, bank conflicts
    Cuda(cuda::CudaArgs),
    /// Describe the simulated card: segments, cores, scratchpads, figures with their sources
    Device(device::DeviceArgs),
    /// Upload a tensor to the simulated card: its layout, sticks, padding, transfer and cost
    Upload(upload::UploadArgs),
    /// Run one operation on the simulated card and say what every step costs
    Eager(single_operation::EagerArgs),
    /// List the operations of the card: operands, dtypes, and how upstream runs them
    Ops(ops::OpsArgs),
    /// Compile a graph: layouts, moves, work division and memory, with every decision and its cost
    Compile(compile::CompileArgs),
    /// Say how long an operation or a graph takes on the card, term by term
    ExplainTime(explain_time::ExplainTimeArgs),
    /// Compile a graph and run it on the simulated card
    Run(run::RunArgs),
    /// Check a module of tile kernels, or run one of its kernels on the simulated cores
    Ktir(ktir::KtirArgs),
    /// Ask the recorded cases of other implementations, suite by suite, and compare the answers
    Conformance(conformance::ConformanceArgs),
    /// Measure moves beside plain copies, and beside other libraries
    Bench(bench::BenchArgs),
    /// Serve the explorer, a web page that shows layouts, operators and moves
    Explore(explore::ExploreArgs),
    /// Answer JSON requests, one per line, from standard input
    Ask(ask::AskArgs),
    /// Print the completions of a shell
    Completions(completions::CompletionsArgs),
    /// Write the manual pages, one for each command
    Man(manual::ManualArgs),
}

/// Runs the program with these arguments, of which the first is its name, and returns its exit code.
///
/// It is for a process of its own: it may register handlers of signals, and a signal ends the process.
pub fn run_program(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    interrupt::survive_size_limits();
    // Before the arguments are parsed, because the parser's own messages follow it as well.
    let color = common::ColorWhen::named_in_arguments(&arguments);
    common::choose_color(color);
    let program = Cli::command().color(color.of_parser());
    let cli = program.try_get_matches_from(&arguments).and_then(|m| Cli::from_arg_matches(&m));
    let cli = match cli {
        Ok(cli) => cli,
        Err(e) => return refuse_arguments(e, &arguments),
    };
    if (cli.version || cli.licenses) && cli.command.is_some() {
        let e = Cli::command().error(
            clap::error::ErrorKind::ArgumentConflict,
            "--version and --licenses are about the whole program, and no command goes with them",
        );
        return refuse_arguments(e, &arguments);
    }
    if cli.version {
        return finish_with(version::print_version(cli.json));
    }
    if cli.licenses {
        return finish_with(common::print_text(NOTICES.trim_end()).map(|()| ExitCode::SUCCESS));
    }
    let Some(command) = &cli.command else {
        // The parser takes options alone for enough.
        let e = Cli::command().error(
            clap::error::ErrorKind::MissingSubcommand,
            "a command is missing; `zellige --help` lists them",
        );
        return refuse_arguments(e, &arguments);
    };
    if let Err(why) = zellige_float::Isa::requested_by_variable() {
        return finish_with(Err(anyhow::anyhow!(why)));
    }
    if let Err(why) = zellige_movement::ThreadPool::requested_by_variable() {
        return finish_with(Err(anyhow::anyhow!(why)));
    }
    // A panic inside a guarded call is reported as one line below; the usual message of the runtime would come
    // before it a second time.
    zellige_guard::silence_call_panics();
    let limits = match command {
        // Each of its requests has limits of its own.
        CliCommand::Ask(_) | CliCommand::Conformance(_) => zellige_guard::CallLimits::NONE,
        _ => cli.limits.for_command(),
    };
    match zellige_guard::run_guarded_call(limits, || perform_command(command, &cli.limits)) {
        Ok(outcome) => finish_with(outcome),
        Err(stopped) => {
            let _ = writeln!(std::io::stderr(), "error: {stopped}");
            let mistake = matches!(stopped, zellige_guard::StopReason::Panic { .. });
            ExitCode::from(if mistake { 101 } else { 4 })
        }
    }
}

fn perform_command(command: &CliCommand, limits: &limits::LimitArgs) -> anyhow::Result<ExitCode> {
    match command {
        CliCommand::Show(args) => {
            interrupt::watch_signals();
            show::run_show(args)
        }
        CliCommand::Map(args) => map::run_map(args),
        CliCommand::Check(args) => check::run_check(args),
        CliCommand::Explain(args) => explain::run_explain(args),
        CliCommand::ExplainTime(args) => explain_time::explain_time(args),
        CliCommand::Convert(args) => convert::run_convert(args),
        CliCommand::Diff(args) => diff::run_diff(args),
        CliCommand::Notations(args) => notations::run_notations(args),
        CliCommand::Presets(args) => presets::run_presets(args),
        CliCommand::Exchange(args) => exchange::run_exchange(args),
        CliCommand::ScaleFactors(args) => scale_factors::run(args),
        CliCommand::Move(args) => {
            interrupt::watch_signals();
            moves::run_move(args)
        }
        CliCommand::Reshard(args) => {
            interrupt::watch_signals();
            reshard::run_reshard(args)
        }
        CliCommand::Dma(args) => dma::run_dma(args),
        CliCommand::Cuda(args) => cuda::run_cuda(args),
        CliCommand::Device(args) => device::run_device(args),
        CliCommand::Upload(args) => {
            interrupt::watch_signals();
            upload::run_upload(args)
        }
        CliCommand::Eager(args) => {
            interrupt::watch_signals();
            single_operation::run_eager(args)
        }
        CliCommand::Ops(args) => ops::run_ops(args),
        CliCommand::Compile(args) => {
            interrupt::watch_signals();
            compile::run_compile(args)
        }
        CliCommand::Run(args) => {
            interrupt::watch_signals();
            run::run_graph(args)
        }
        CliCommand::Ktir(args) => {
            interrupt::watch_signals();
            ktir::run_ktir(args, limits.memory_limit())
        }
        CliCommand::Conformance(args) => conformance::run_conformance(args),
        CliCommand::Bench(args) => bench::run_bench(args),
        CliCommand::Explore(args) => explore::run_explore(args),
        CliCommand::Ask(args) => ask::run_ask(args, limits.for_request()),
        CliCommand::Completions(args) => completions::print_completions(args),
        CliCommand::Man(args) => manual::write_manual(args),
    }
}

/// Prints the help, the version, or the mistake in the arguments.
fn refuse_arguments(e: clap::Error, arguments: &[OsString]) -> ExitCode {
    let e = near_misses::suggest_subcommand(e, &Cli::command(), arguments);
    match e.print() {
        Err(why) if !e.use_stderr() => finish_with(Err(common::OutputError(why).into())),
        _ => ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2)),
    }
}

/// The exit code of an outcome; an error is printed.
fn finish_with(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(e) if is_closed_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            let text = error_message(&e);
            // A rendered diagnostic already begins with its level.
            let prefix = if text.starts_with("error") { "" } else { "error: " };
            // Messages quote names of files and tensors, which may hold escape sequences of a terminal.
            let text = zellige_notation::make_lines_visible(&text, common::stderr_color());
            let _ = writeln!(std::io::stderr(), "{prefix}{text}");
            ExitCode::from(if is_write_error(&e) { 3 } else { 2 })
        }
    }
}

/// The chain of causes; a cause that ends the message before it is not repeated.
fn error_message(e: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in e.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether a file or standard output could not be written.
fn is_write_error(e: &anyhow::Error) -> bool {
    let file = |c: &zellige_files::FileError| c.is_write();
    e.is::<common::OutputError>() || e.chain().any(|c| c.downcast_ref().is_some_and(file))
}

/// The reader went away (`zellige .. | head`): nothing is wrong.
fn is_closed_pipe(e: &anyhow::Error) -> bool {
    e.downcast_ref().is_some_and(common::OutputError::is_closed_pipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a line as a shell splits it; a comment stands behind three spaces.
    fn split_words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in line.split("   ").next().unwrap_or("").chars() {
            match c {
                '\'' | '"' if quote.is_none_or(|q| q == c) => {
                    quote = if quote.is_none() { Some(c) } else { None };
                    word.get_or_insert_default();
                }
                ' ' if quote.is_none() => words.extend(word.take()),
                _ => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        // What follows is for another program.
        let end = words.iter().position(|w| matches!(w.as_str(), "|" | ">" | "<" | "&&"));
        words.truncate(end.unwrap_or(words.len()));
        words
    }

    /// Looks at every example of a command, and keeps those that are refused.
    fn check_examples(command: &clap::Command, checked: &mut usize, refused: &mut Vec<String>) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().filter_map(|l| l.strip_prefix("  "));
        for line in lines.filter(|l| l.starts_with("zellige ")) {
            *checked += 1;
            if let Err(e) = Cli::command().try_get_matches_from(split_words(line)) {
                refused.push(format!("{line}: {e}"));
            }
        }
        for sub in command.get_subcommands() {
            check_examples(sub, checked, refused);
        }
    }

    #[test]
    fn every_example_of_the_help_is_accepted_by_the_parser() {
        let (mut checked, mut refused) = (0, Vec::new());
        check_examples(&Cli::command(), &mut checked, &mut refused);
        assert!(refused.is_empty(), "{}", refused.join("\n"));
        assert!(checked > 70, "{checked} examples");
    }

    #[test]
    fn the_parser_is_consistent() {
        Cli::command().debug_assert();
    }
}
