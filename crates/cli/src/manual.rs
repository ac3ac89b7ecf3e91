//! `zellige man`
//!
//! Manual pages in the language of `man(7)`, written from the parser's description of the program.

use crate::common::{print_text, printable_path};
use crate::exit_code::ExitCode;
use anyhow::Result;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;
use std::path::PathBuf;
use zellige_files::{make_folder, write_bytes};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige man ~/.local/share/man/man1
  zellige man pages && man pages/zellige-show.1")]
pub(crate) struct ManualArgs {
    /// The folder for the pages; it is made where it is missing
    folder: PathBuf,
}

pub(crate) fn write_manual(args: &ManualArgs) -> Result<ExitCode> {
    let mut program = crate::Cli::command();
    program.build();
    make_folder(&args.folder)?;
    let mut pages = Vec::new();
    collect_pages(&program, "zellige", &mut pages);
    for (name, page) in &pages {
        write_bytes(args.folder.join(format!("{name}.1")), page.as_bytes())?;
    }
    print_text(&format!("{} pages in {}", pages.len(), printable_path(&args.folder)))?;
    Ok(ExitCode::SUCCESS)
}

fn collect_pages(command: &Command, name: &str, pages: &mut Vec<(String, String)>) {
    pages.push((name.into(), manual_page(command, name)));
    for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
        collect_pages(sub, &format!("{name}-{}", sub.get_name()), pages);
    }
}

/// One page: name, synopsis, description, options, examples, and the pages that belong to it.
fn manual_page(command: &Command, name: &str) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH {} 1 \"\" \"zellige {version}\"\n", quote(&name.to_uppercase()));
    let _ = writeln!(page, ".SH NAME\n{} \\- {}", escape(name), escape(&about));
    let _ = write!(page, ".SH SYNOPSIS\n.B {}\n", escape(&name.replace('-', " ")));
    let arguments: Vec<&Arg> = command.get_arguments().filter(|a| !a.is_hide_set()).collect();
    if arguments.iter().any(|a| !a.is_positional()) {
        let _ = writeln!(page, "[OPTIONS]");
    }
    for arg in arguments.iter().filter(|a| a.is_positional()) {
        let value = value_names(arg);
        let shown = if arg.is_required_set() { value } else { format!("[{value}]") };
        let _ = writeln!(page, "{}", escape(&shown));
    }
    let subcommands: Vec<&Command> =
        command.get_subcommands().filter(|s| s.get_name() != "help" && !s.is_hide_set()).collect();
    if !subcommands.is_empty() {
        let _ = writeln!(page, "COMMAND");
    }
    let _ = writeln!(page, ".SH DESCRIPTION\n{}.", escape(about.trim_end_matches('.')));
    for (title, positional) in [("ARGUMENTS", true), ("OPTIONS", false)] {
        let listed: Vec<&&Arg> =
            arguments.iter().filter(|a| a.is_positional() == positional).collect();
        if listed.is_empty() {
            continue;
        }
        let _ = writeln!(page, ".SH {title}");
        for arg in listed {
            let _ =
                writeln!(page, ".TP\n.B {}\n{}", escape(&spelling(arg)), escape(&explanation(arg)));
        }
    }
    if !subcommands.is_empty() {
        let _ = writeln!(page, ".SH COMMANDS");
        for sub in &subcommands {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(
                page,
                ".TP\n.BR {} (1)\n{}",
                escape(&format!("{name}-{}", sub.get_name())),
                escape(&about)
            );
        }
    }
    if let Some(after) = command.get_after_help() {
        // Examples are lines of their own, which a formatter must not fill.
        let _ = writeln!(page, ".SH NOTES\n.nf\n{}\n.fi", escape(&after.to_string()));
    }
    page
}

/// `-o, --output FOLDER`, or the name of a positional argument.
fn spelling(arg: &Arg) -> String {
    if arg.is_positional() {
        return value_names(arg);
    }
    let short = arg.get_short().map(|s| format!("-{s}"));
    let long = arg.get_long().map(|l| format!("--{l}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let value = if arg.get_action().takes_values() {
        format!(" {}", value_names(arg))
    } else {
        String::new()
    };
    names.join(", ") + &value
}

fn value_names(arg: &Arg) -> String {
    match arg.get_value_names() {
        Some(names) => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        None => arg.get_id().to_string().to_uppercase(),
    }
}

fn explanation(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let words = arg.get_possible_values();
    if !words.is_empty() && arg.get_action().takes_values() {
        let names: Vec<&str> = words.iter().map(|w| w.get_name()).collect();
        let _ = write!(text, " [possible values: {}]", names.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|d| d.to_string_lossy()).collect();
    // A flag is false without being given, which nobody needs to be told.
    if !defaults.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " [default: {}]", defaults.join(" "));
    }
    text
}

/// A text whose characters mean themselves: a backslash begins a request to the formatter, and so does a point or a quote
/// at the beginning of a line.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_string(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}
