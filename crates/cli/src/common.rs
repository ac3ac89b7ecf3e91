//! What every subcommand reads: a layout, a shape, a dtype.

use crate::near_misses::{self, nearest_name, parse_dtype};
use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;
use zellige_float::Dtype;
use zellige_layout::{AxisKind, AxisTable, ExecutionScope, Layout, Swizzle};
use zellige_notation::cute::atoms;
use zellige_notation::triton::ttgir;
use zellige_notation::{
    Diagnostic, ElementSize, Notation, ParsedText, make_json_visible, make_lines_visible,
    make_visible, parse, parse_as, preset,
};

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What the whole process does about colour; unset, it is that of `auto`.
static COLOR: OnceLock<ColorWhen> = OnceLock::new();

/// Settles when to use colour, for the rest of the process. The first call wins.
pub(crate) fn choose_color(when: ColorWhen) {
    let _ = COLOR.set(when);
}

/// Whether a stream of the process gets colour.
pub(crate) fn wants_color(stream: &impl IsTerminal) -> bool {
    COLOR.get().copied().unwrap_or(ColorWhen::Auto).wants_color(stream)
}

impl ColorWhen {
    /// What `--color` says among arguments that are not parsed yet. A value that is none is refused by the parser.
    pub(crate) fn named_in_arguments(arguments: &[OsString]) -> ColorWhen {
        let mut words = arguments.iter().skip(1).map(|a| a.to_string_lossy());
        while let Some(word) = words.next() {
            let value = match word.strip_prefix("--color=") {
                Some(value) => Some(value.to_string()),
                None if word == "--color" => words.next().map(|v| v.to_string()),
                None if word == "--" => break,
                None => None,
            };
            if let Some(when) = value.and_then(|v| ColorWhen::from_str(&v, false).ok()) {
                return when;
            }
        }
        ColorWhen::Auto
    }

    /// The same for the parser of arguments, which knows NO_COLOR itself.
    pub(crate) fn of_parser(self) -> clap::ColorChoice {
        match self {
            ColorWhen::Auto => clap::ColorChoice::Auto,
            ColorWhen::Always => clap::ColorChoice::Always,
            ColorWhen::Never => clap::ColorChoice::Never,
        }
    }

    fn wants_color(self, stream: &impl IsTerminal) -> bool {
        match self {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            // NO_COLOR in the environment switches colour off: https://no-color.org. An empty value counts here,
            // too.
            ColorWhen::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }
}

/// A layout and how to read it.
#[derive(clap::Args, Clone)]
pub(crate) struct LayoutArgs {
    /// A preset, or a layout in any notation ('S[(8,64):(64,1)]', '(8,64):(64,1)', 'size=[4, 6] stride=[6, 1]', and
    /// those that `zellige notations` lists); a file with one of them, or - for standard input
    pub(crate) layout: String,
    /// The logical shape, such as 8,64 (default: that of the preset or of the layout itself)
    #[arg(long, value_name = "SHAPE", value_parser = parse_list)]
    pub(crate) shape: Option<IntList>,
    /// The element type, by its PyTorch name; a type in the text of the layout wins over it, and without either
    /// 16 bits are assumed
    #[arg(long)]
    pub(crate) dtype: Option<String>,
    /// Swizzle shared memory: none, 32B, 64B or 128B
    #[arg(long, value_name = "MODE")]
    pub(crate) swizzle: Option<String>,
    /// Declare an axis: NAME=memory, NAME=device or NAME=SCOPE/SCOPE (counted/counted in)
    #[arg(long = "axis", value_name = "NAME=KIND")]
    pub(crate) axes: Vec<String>,
    /// The value of a symbol of the layout, such as k=4 for `S[(32,k):(1@TLane,1@TCol)]`
    #[arg(long = "let", value_name = "NAME=VALUE")]
    pub(crate) lets: Vec<String>,
    /// The notation of the layout, where its text can be read in several
    #[arg(long, value_name = "NAME")]
    pub(crate) notation: Option<String>,
    /// Which layout of a Triton module is meant, by its number in the list that is printed without this, or by its alias
    #[arg(long, value_name = "N|ALIAS")]
    pub(crate) pick: Option<String>,
    /// Write JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// A list of integers from the command line.
#[derive(Debug, Clone)]
pub(crate) struct IntList(pub(crate) Vec<i64>);

/// `8,64`, `8x64`, `(8, 64)` or `[]`.
pub(crate) fn parse_list(text: &str) -> Result<IntList, String> {
    let inner = text.trim();
    // Lists are accepted as Python and PyTorch print them, because shapes are pasted from there.
    let inner = inner.strip_prefix(['(', '[']).unwrap_or(inner);
    let inner = inner.strip_suffix([')', ']']).unwrap_or(inner).trim();
    if inner.is_empty() {
        return Ok(IntList(Vec::new()));
    }
    inner
        .split([',', 'x'])
        .map(|part| {
            let part = part.trim();
            part.parse::<i64>().map_err(|_| {
                // Cut, as the text may be a whole file that a shell expanded by mistake.
                let shown: String = part.chars().take(40).collect();
                format!("`{shown}` is not a 64-bit integer; write a list such as 8,64")
            })
        })
        .collect::<Result<Vec<_>, _>>()
        .map(IntList)
}

/// A layout that was read, with everything that is known about it.
pub(crate) struct LoadedLayout {
    pub(crate) title: String,
    pub(crate) parsed: ParsedText,
    pub(crate) layout: Layout,
    pub(crate) shape: Vec<i64>,
    pub(crate) dtype: Option<Dtype>,
    /// The width of an element: that of the text, else that of its dtype.
    pub(crate) element: ElementSize,
    /// The layout of which this is the inverse, where it is one.
    pub(crate) inverse: Option<String>,
}

/// Bytes of the path of a file with a layout at most: that of Linux.
const MAX_PATH_BYTES: usize = 4096;

/// Bytes of a file with a layout at most; a module of Triton is the longest of them.
const MAX_LAYOUT_BYTES: u64 = 64 << 20;

/// The same with the option of the command line that gives the shape, where one is missing.
fn name_shape_option(d: Diagnostic) -> Diagnostic {
    match &d.help {
        Some(help) if d.is_unshaped() && help.contains("give the shape") => {
            let help = format!("{help}\nhere the shape is given as --shape 8,64");
            d.with_help(help)
        }
        _ => d,
    }
}

/// The notation of that name.
pub(crate) fn parse_notation(name: &str) -> Result<Notation> {
    Notation::from_name(name).ok_or_else(|| {
        let hint = near_misses::suggest_notation(name);
        let hint = hint.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
        let name: String = name.chars().take(64).collect();
        anyhow!(
            "there is no notation `{name}`{hint}\nnotations are {}",
            Notation::list_names(Notation::all_notations())
        )
    })
}

impl LayoutArgs {
    /// A layout by its text or name alone.
    pub(crate) fn from_text(layout: &str, shape: Option<IntList>) -> LayoutArgs {
        LayoutArgs {
            layout: layout.into(),
            shape,
            dtype: None,
            swizzle: None,
            axes: Vec::new(),
            lets: Vec::new(),
            notation: None,
            pick: None,
            json: false,
        }
    }

    /// The same of another layout, by its name.
    pub(crate) fn with_name(&self, name: &str) -> LayoutArgs {
        LayoutArgs {
            shape: self.shape.clone(),
            dtype: self.dtype.clone(),
            swizzle: self.swizzle.clone(),
            axes: self.axes.clone(),
            ..LayoutArgs::from_text(name, None)
        }
    }

    pub(crate) fn axis_table(&self) -> Result<AxisTable> {
        let mut table = AxisTable::new();
        for declaration in &self.axes {
            let bad = || {
                anyhow!(
                    "--axis {declaration}: write NAME=memory, NAME=device or NAME=thread/warp \
                     (scopes: kernel, cluster, cta, warpgroup, warp, thread)"
                )
            };
            let (name, kind) = declaration.split_once('=').ok_or_else(bad)?;
            let kind = match kind {
                "memory" => AxisKind::Memory,
                "device" => AxisKind::Device,
                scopes => {
                    let (of, within) = scopes.split_once('/').ok_or_else(bad)?;
                    let scope = |s: &str| ExecutionScope::from_name(s).ok_or_else(bad);
                    AxisKind::Thread { of: scope(of)?, within: scope(within)? }
                }
            };
            table.declare_axis(name, kind)?;
        }
        Ok(table)
    }

    /// Reads the layout and settles shape, dtype and swizzle.
    pub(crate) fn load_layout(&self) -> Result<LoadedLayout> {
        self.load_text_or_file(true)
    }

    /// The same; a layout that was read from a file already is no name of another file.
    fn load_text_or_file(&self, may_be_file: bool) -> Result<LoadedLayout> {
        let axes = self.axis_table()?;
        let preset = preset::find_preset(&self.layout);
        // A thread-value layout of CuTe is about who holds an element, and no memory.
        let owners = preset.as_ref().and_then(|p| p.owners.as_ref());
        let mut text = match &preset {
            Some(preset) => owners.map_or(&preset.text, |o| &o.text).clone(),
            None if self.layout == "-" => std::io::read_to_string(std::io::stdin())
                .context("the layout is read from standard input")?
                // The line break at its end is that of the file or of `echo`, and no part of the layout.
                .trim_end()
                .to_string(),
            None => self.layout.clone(),
        };
        let mut picked = None;
        // Before symbols are bound and the text is read, because a module is no layout: only the picked part is.
        if let Some(which) = &self.pick {
            let choice = ttgir::pick_layout(&text, which)
                .map_err(|d| anyhow!("{}", d.render(&text, stderr_color())))?;
            (text, picked) = (choice.text, choice.shape);
        }
        if !self.lets.is_empty() {
            // Symbols may be bound in the text already; a second `where` would be no syntax.
            let joined = if text.contains(" where ") { ", " } else { " where " };
            text = format!("{}{joined}{}", text.trim_end(), self.lets.join(", "));
        }
        let text = text.as_str();
        let own_dtype = match owners {
            Some(owners) => owners.dtype,
            None => preset.as_ref().map(|p| p.dtype),
        };
        // What the user says wins over what the preset brings.
        let dtype = self.dtype.as_deref().or(own_dtype);
        let dtype = dtype.map(parse_dtype).transpose()?;
        let parsed = match &self.notation {
            // The text of a preset is written in a notation of its own, whatever notation the user names for texts.
            Some(name) if preset.is_none() => parse_as(text, parse_notation(name)?, &axes),
            _ => parse(text, &axes),
        };
        let mut parsed = match parsed {
            Ok(parsed) => parsed,
            // Texts come first, so that a file which happens to be called `abc` does not hide the tag of oneDNN.
            Err(d) => match if may_be_file { self.read_layout_file()? } else { None } {
                Some(held) => {
                    return LayoutArgs { layout: held, ..self.clone() }
                        .load_text_or_file(false)
                        .map_err(|e| anyhow!("{e}\n in the file {}", make_visible(&self.layout)));
                }
                None => return Err(self.explain_error(text, &d)),
            },
        };
        let asked = self.shape.as_ref().map(|l| l.0.clone());
        let named = preset.as_ref().map(|p| owners.map_or(&p.shape, |o| &o.shape).clone());
        // The command line first, then the module that the layout was picked from, then the preset: from the
        // particular to the general.
        let given = asked.or(picked).or(named);
        let mut layout = parsed
            .layout_over_shape(given.as_deref())
            .map_err(|d| anyhow!("{}", name_shape_option(d).render(text, stderr_color())))?;
        let shape =
            given.or_else(|| parsed.default_shape()).unwrap_or_else(|| layout.default_shape());
        // Checked here once, so that no command has to handle a shape with another number of elements.
        layout.check_shape_size(&shape)?;
        let element = parsed.element_size(dtype.map(Dtype::bits));
        if let Some(mode) = &self.swizzle {
            let before = layout.clone();
            layout = swizzle_layout(&layout, mode, parsed.element_bits(dtype.map(Dtype::bits)))?;
            // What is written is the layout with its swizzle, and no longer the text.
            if layout != before {
                parsed = ParsedText::from(layout.clone());
            }
        }
        let inverse = owners.and(preset.as_ref()).map(|p| {
            format!("{} of CuTe is (thread, value) to element; this is the lane and register of each element", p.text)
        });
        let title = preset.map_or_else(String::new, |p| format!("{}: {}", p.name, p.title));
        Ok(LoadedLayout { title, parsed, layout, shape, dtype, element, inverse })
    }

    /// The layout in the file of that name, where there is one.
    fn read_layout_file(&self) -> Result<Option<String>> {
        let path = Path::new(&self.layout);
        // A long text is no path, and some systems take long to say so.
        if self.layout.len() > MAX_PATH_BYTES || self.layout == "-" || !path.is_file() {
            return Ok(None);
        }
        let text = zellige_files::read_text(path, MAX_LAYOUT_BYTES)?;
        Ok(Some(text.trim_end().to_string()))
    }

    /// The underlined text; a lone word is more likely a misspelt preset.
    fn explain_error(&self, text: &str, d: &Diagnostic) -> anyhow::Error {
        // A lone word that was refused is more often a misspelt preset than a layout, although tags of oneDNN are
        // words, too.
        let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !text.is_empty() && text.len() < 60 && text.chars().all(word) {
            if let Some(atom) = atoms::find_atom(text) {
                let parts: Vec<String> =
                    preset::presets_of_atom(&atom).into_iter().map(|p| p.name).collect();
                return anyhow!("an atom has several layouts: {}", parts.join(", "));
            }
            let names: Vec<String> = preset::all_presets().into_iter().map(|p| p.name).collect();
            let near = nearest_name(text, names.iter().map(String::as_str));
            let hint = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            return anyhow!(
                "`{text}` is neither a preset nor a layout{hint}\n`zellige presets` lists the presets"
            );
        }
        anyhow!("{}", d.render(text, stderr_color()))
    }
}

pub(crate) fn stderr_color() -> bool {
    wants_color(&std::io::stderr())
}

fn swizzle_layout(layout: &Layout, mode: &str, bits: Option<i64>) -> Result<Layout> {
    let bytes = match mode.to_ascii_lowercase().as_str() {
        "none" | "0" => 0,
        "32b" | "32" => 32,
        "64b" | "64" => 64,
        "128b" | "128" => 128,
        _ => return Err(anyhow!("--swizzle {mode}: modes are none, 32B, 64B and 128B")),
    };
    let bits =
        bits.ok_or_else(|| anyhow!("--swizzle needs --dtype: the mode moves units of 16 bytes"))?;
    // The composition of two swizzles is no swizzle of this form in general, and silently replacing one would be
    // wrong.
    if layout.swizzle().is_some() {
        return Err(anyhow!("--swizzle: the layout already has a swizzle"));
    }
    if layout.window().is_some() {
        return Err(anyhow!("--swizzle: a layout with padding is not swizzled here"));
    }
    if bytes == 0 {
        return Ok(layout.clone());
    }
    Ok(Layout::from_swizzled_tile(
        Swizzle::shared_memory_mode(bytes, bits)?,
        layout.tile().clone(),
    )?)
}

/// A path for a message, with control characters made visible.
pub(crate) fn printable_path(path: &Path) -> String {
    make_visible(&path.to_string_lossy()).into_owned()
}

/// Writes a text to standard output; the caller sees a closed pipe as an error.
///
/// Everything that the program prints passes one of these functions or the error of `main`, so that names of files, and
/// names in files, cannot send control sequences to a terminal.
pub(crate) fn print_text(text: &str) -> Result<()> {
    // Making control characters visible copies the text, so the copy is counted before it is made.
    zellige_guard::reserve_memory(text.len());
    write_stdout(&make_lines_visible(text, false))
}

/// The same of a text that was coloured here.
pub(crate) fn print_coloured(text: &str) -> Result<()> {
    write_stdout(&make_lines_visible(text, true))
}

/// The same of JSON, whose value does not change.
pub(crate) fn print_json(json: &str) -> Result<()> {
    zellige_guard::reserve_memory(json.len());
    write_stdout(&make_json_visible(json))
}

/// The same of a text that is JSON with `--json`.
pub(crate) fn print_as(json: bool, text: &str) -> Result<()> {
    if json { print_json(text) } else { print_text(text) }
}

fn write_stdout(text: &str) -> Result<()> {
    // An answer counts against the limits before anybody sees a part of it.
    zellige_guard::reserve_memory(text.len());
    let mut out = std::io::stdout().lock();
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    // Flushed, because a buffer that is written when the process ends could not report an error any more.
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end));
    Ok(written.and_then(|()| out.flush()).map_err(OutputError)?)
}

/// Standard output that cannot be written.
#[derive(Debug)]
pub(crate) struct OutputError(pub(crate) std::io::Error);

impl OutputError {
    /// Whether the reader went away.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.0.kind() == std::io::ErrorKind::BrokenPipe
    }
}

impl std::fmt::Display for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot write to standard output: {}", self.0)
    }
}

impl std::error::Error for OutputError {}
