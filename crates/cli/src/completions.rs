//! `zellige completions`
//!
//! Written from the parser's own description of commands and options, so that a new option is completed without a change
//! here.

use crate::common::print_text;
use crate::exit_code::ExitCode;
use anyhow::Result;
use clap::{Arg, Command, CommandFactory, ValueEnum};
use std::fmt::Write;
use zellige_float::Dtype;
use zellige_notation::{Notation, preset};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige completions bash > ~/.local/share/bash-completion/completions/zellige
  zellige completions zsh > ~/.zfunc/_zellige          with fpath+=~/.zfunc before compinit in ~/.zshrc
  zellige completions fish > ~/.config/fish/completions/zellige.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn print_completions(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut program = crate::Cli::command();
    // Options of the whole program are options of every command once it is built.
    program.build();
    let mut contexts = Vec::new();
    collect_contexts(&program, &mut Vec::new(), &mut contexts);
    print_text(&match args.shell {
        Shell::Bash => bash_script(&contexts),
        Shell::Zsh => zsh_script(&contexts),
        Shell::Fish => fish_script(&contexts),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A command, and the names that lead to it: none for the program itself.
struct Context<'c> {
    path: Vec<String>,
    command: &'c Command,
}

impl Context<'_> {
    fn options(&self) -> impl Iterator<Item = &Arg> {
        self.command.get_arguments().filter(|a| a.get_long().is_some() && !a.is_hide_set())
    }

    fn subcommands(&self) -> impl Iterator<Item = &Command> {
        self.command.get_subcommands().filter(|c| !c.is_hide_set())
    }
}

fn collect_contexts<'c>(
    command: &'c Command,
    path: &mut Vec<String>,
    contexts: &mut Vec<Context<'c>>,
) {
    contexts.push(Context { path: path.clone(), command });
    for sub in command.get_subcommands() {
        // `help` completes to the names of commands, which every shell is given with the program itself.
        if sub.get_name() != "help" {
            path.push(sub.get_name().into());
            collect_contexts(sub, path, contexts);
            path.pop();
        }
    }
}

/// The words that an option accepts, where they are a list.
fn accepted_words(arg: &Arg) -> Vec<String> {
    let listed: Vec<String> =
        arg.get_possible_values().iter().map(|v| v.get_name().to_string()).collect();
    if !listed.is_empty() {
        return listed;
    }
    // Options that also accept other spellings, which the parser therefore has no list for.
    let words = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    match arg.get_long().unwrap_or_default() {
        "dtype" | "to-dtype" => Dtype::ALL.iter().map(|d| d.name().to_string()).collect(),
        "swizzle" => words(&["none", "32B", "64B", "128B"]),
        "policy" => words(&["best", "baseline"]),
        "profile" => words(&["full", "card"]),
        "mode" => words(&["dl16", "ieee"]),
        "fp32" | "int64" => words(&["keep", "cast"]),
        "notation" | "other-notation" => notation_names(),
        // `--to` names a notation in one command and a layout in others.
        _ if has_value_name(arg, "NOTATION") => notation_names(),
        _ => Vec::new(),
    }
}

fn notation_names() -> Vec<String> {
    Notation::all_notations().map(|n| n.name().to_string()).collect()
}

fn has_value_name(arg: &Arg, wanted: &str) -> bool {
    arg.get_value_names().is_some_and(|names| names.iter().any(|n| n.as_str() == wanted))
}

/// The names of layouts, for a command that takes one.
fn layout_names(command: &Command) -> Option<Vec<String>> {
    let takes_layout = command.get_positionals().any(|a| has_value_name(a, "LAYOUT"));
    takes_layout.then(|| preset::all_presets().into_iter().map(|p| p.name).collect())
}

/// Whether a word follows the option.
fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// A description in one line, without what a shell would read as the end of a quoted word.
fn describe(help: Option<&clap::builder::StyledStr>) -> String {
    let text = help.map(ToString::to_string).unwrap_or_default();
    let first = text.lines().next().unwrap_or("").replace(['\'', '`', '"', '\\'], "");
    first.replace(['[', '{'], "(").replace([']', '}'], ")").replace([':', '$'], " ")
}

fn bash_script(contexts: &[Context<'_>]) -> String {
    let mut words = String::new();
    let mut values = String::new();
    let mut layouts = Vec::new();
    for context in contexts {
        if layout_names(context.command).is_some() {
            layouts.push(format!("'{}'", context.path.join(" ")));
        }
        let key = context.path.join(" ");
        let mut offered: Vec<String> = context.subcommands().map(|c| c.get_name().into()).collect();
        offered.extend(context.options().filter_map(|a| Some(format!("--{}", a.get_long()?))));
        let _ = writeln!(words, "    '{key}') words='{}' ;;", offered.join(" "));
        for arg in context.options().filter(|a| takes_value(a)) {
            let long = arg.get_long().unwrap_or_default();
            // Without a list the value is a file or something else of the user's; files are the better guess.
            let _ = writeln!(
                values,
                "    '{key} --{long}') values='{}' ;;",
                accepted_words(arg).join(" ")
            );
        }
    }
    let commands: Vec<String> = contexts
        .iter()
        .filter(|c| !c.path.is_empty())
        .map(|c| format!("'{}'", c.path.join(" ")))
        .collect();
    let names = contexts.iter().find_map(|c| layout_names(c.command)).unwrap_or_default().join(" ");
    let layouts = layouts.join(" | ");
    format!(
        "# Completions of zellige for bash.
_zellige() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} path='' word words='' values=-
  # The command is made of the words before the current one that are commands.
  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do
    case \"${{path:+$path }}$word\" in
    {}) path=\"${{path:+$path }}$word\" ;;
    esac
  done
  case \"$path\" in
{words}  esac
  case \"$path $previous\" in
{values}  esac
  if [ \"$values\" != - ] && [ -n \"$values\" ]; then
    COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))
  elif [ \"$values\" = - ] && {{ [ \"${{current:0:1}}\" = - ] || [ -z \"$path\" ] || [ \"$path\" = ktir ] || [ \"$path\" = bench ]; }}; then
    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))
  else
    # A layout has a name or is in a file.
    case \"$path\" in
    {layouts}) words='{names}' ;;
    *) words='' ;;
    esac
    COMPREPLY=($(compgen -W \"$words\" -- \"$current\") $(compgen -f -- \"$current\"))
  fi
}}
complete -o filenames -o bashdefault -F _zellige zellige
",
        commands.join(" | ")
    )
}

fn zsh_script(contexts: &[Context<'_>]) -> String {
    let mut text = String::from("#compdef zellige\n# Completions of zellige for zsh.\n\n");
    // Inner commands first: a function is defined before the one that calls it is read.
    for context in contexts.iter().rev() {
        let name = function_name(&context.path);
        let _ = writeln!(text, "{name}() {{");
        let subcommands: Vec<&Command> = context.subcommands().collect();
        if !subcommands.is_empty() {
            let _ = writeln!(text, "  local -a commands=(");
            for sub in &subcommands {
                let _ = writeln!(text, "    '{}:{}'", sub.get_name(), describe(sub.get_about()));
            }
            let _ = writeln!(text, "  )");
        }
        let _ = writeln!(text, "  _arguments -C -s -S \\");
        for arg in context.options() {
            let (long, help) = (arg.get_long().unwrap_or_default(), describe(arg.get_help()));
            let words = accepted_words(arg);
            let value = match (takes_value(arg), words.is_empty()) {
                (false, _) => String::new(),
                (true, true) => ":value:_files".into(),
                (true, false) => format!(":value:({})", words.join(" ")),
            };
            let equals = if takes_value(arg) { "=" } else { "" };
            let _ = writeln!(text, "    '*--{long}{equals}[{help}]{value}' \\");
        }
        if subcommands.is_empty() {
            let _ = match layout_names(context.command) {
                Some(names) => {
                    let names = names.join(" ");
                    writeln!(
                        text,
                        "    '*:layout:_alternative \"names:name:({names})\" \"files:file:_files\"'"
                    )
                }
                None => writeln!(text, "    '*:file:_files'"),
            };
        } else {
            let _ = writeln!(text, "    '1:command:->command' '*::argument:->argument'");
            let _ = writeln!(text, "  case $state in");
            let _ = writeln!(text, "  command) _describe command commands ;;");
            let _ = writeln!(text, "  argument) case $words[1] in");
            for sub in subcommands.iter().filter(|s| s.get_name() != "help") {
                let mut path = context.path.clone();
                path.push(sub.get_name().into());
                let _ = writeln!(text, "    {}) {} ;;", sub.get_name(), function_name(&path));
            }
            let _ = writeln!(text, "    esac ;;\n  esac");
        }
        let _ = writeln!(text, "}}\n");
    }
    text + "_zellige \"$@\"\n"
}

fn function_name(path: &[String]) -> String {
    std::iter::once("_zellige").chain(path.iter().map(String::as_str)).collect::<Vec<_>>().join("_")
}

fn fish_script(contexts: &[Context<'_>]) -> String {
    let mut text = String::from("# Completions of zellige for fish.\n");
    for context in contexts {
        let condition = match &context.path[..] {
            [] => "__fish_use_subcommand".to_string(),
            path => path
                .iter()
                .map(|p| format!("__fish_seen_subcommand_from {p}"))
                .collect::<Vec<_>>()
                .join("; and "),
        };
        for sub in context.subcommands() {
            let (name, help) = (sub.get_name(), describe(sub.get_about()));
            let _ = writeln!(text, "complete -c zellige -n '{condition}' -f -a {name} -d '{help}'");
        }
        if let Some(names) = layout_names(context.command) {
            let _ = writeln!(text, "complete -c zellige -n '{condition}' -a '{}'", names.join(" "));
        }
        for arg in context.options() {
            let (long, help) = (arg.get_long().unwrap_or_default(), describe(arg.get_help()));
            let words = accepted_words(arg);
            let value = match (takes_value(arg), words.is_empty()) {
                (false, _) => String::new(),
                (true, true) => " -r".into(),
                (true, false) => format!(" -x -a '{}'", words.join(" ")),
            };
            let _ =
                writeln!(text, "complete -c zellige -n '{condition}' -l {long}{value} -d '{help}'");
        }
    }
    text
}
