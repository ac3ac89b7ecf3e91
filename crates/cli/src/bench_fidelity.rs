//! `zellige bench fidelity`

use crate::common::{print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::{Context, Result, anyhow, bail};
use std::path::{Path, PathBuf};
use zellige_bench::fidelity;
use zellige_machine::Hardware;

/// The measured figures that come with the project.
const MEASURED_FILE: &str = "tests/data/spyre_measured.json";

#[derive(clap::Args)]
#[command(after_help = "\
FILE is a JSON list of rows with id, source, date, op, shapes, dtype, value, unit and kind, and where they are known
cores, work_division, layout_tile_order, stack_conditions, forced_split and the other fields of
tests/data/spyre_measured.json, which is the usual file. Every row becomes a graph, compiled with the division and the
layouts that the row names; rows that cannot be expressed are listed with the reason.

Examples:
  zellige bench fidelity                            the figures of tests/data/spyre_measured.json
  zellige bench fidelity my-card.json --rows        your own figures, row by row
  zellige bench fidelity --svg fidelity.svg         the scatter plot as well
  zellige bench fidelity --write                    write docs/fidelity.md and its picture again")]
pub(crate) struct BenchFidelityArgs {
    /// The measured figures
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Rows to leave out: a JSON list of objects with id and reason; the usual file has its own list
    #[arg(long, value_name = "FILE")]
    exclude: Option<PathBuf>,
    /// The hardware preset that predicts: its name, or a file of your own that ends in .toml
    #[arg(long, value_name = "PRESET", default_value = fidelity::DEFAULT_PRESET)]
    hardware: String,
    /// Print every row
    #[arg(long)]
    rows: bool,
    /// Write the scatter plot into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write docs/fidelity.md and docs/pictures/fidelity.svg in this folder
    #[arg(long, conflicts_with_all = ["json", "rows", "file", "exclude", "hardware"])]
    write: bool,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn bench_fidelity(args: &BenchFidelityArgs) -> Result<ExitCode> {
    let path = args.file.as_deref().unwrap_or(Path::new(MEASURED_FILE));
    let name = path.display();
    let size = std::fs::metadata(path).with_context(|| name.to_string())?.len();
    if size > fidelity::MAX_FILE_BYTES as u64 {
        bail!("{name}: it has {size} bytes; at most {} are read", fidelity::MAX_FILE_BYTES);
    }
    let text = std::fs::read_to_string(path).with_context(|| name.to_string())?;
    let file = fidelity::parse_measured_rows(&text).map_err(|e| anyhow!("{name}: {e}"))?;
    if file.rows.is_empty() {
        bail!("{name}: it has no rows");
    }
    let implausible = match (&args.exclude, &args.file) {
        (Some(list), _) => {
            let text = std::fs::read_to_string(list).with_context(|| list.display().to_string())?;
            fidelity::parse_implausible_rows(&text)
                .map_err(|e| anyhow!("{}: {e}; a list of {{id, reason}} is read", list.display()))?
        }
        (None, None) => fidelity::implausible_rows(),
        // Numbers of another file name other rows.
        (None, Some(_)) => Vec::new(),
    };
    let hardware = Hardware::load_named(&args.hardware)?;
    let comparison = fidelity::compare_measured(&file, hardware, &implausible);
    if let Some(path) = &args.svg {
        write_file(path, &fidelity::draw_scatter(&comparison))?;
    }
    if args.write {
        let folder = Path::new("docs");
        if !folder.join("pictures").is_dir() {
            bail!("docs/pictures is no folder here; run this in the folder of the repository");
        }
        let page = fidelity::write_page(&file)?;
        write_file(&folder.join("fidelity.md"), &page.markdown)?;
        write_file(&folder.join("pictures/fidelity.svg"), &page.scatter)?;
        print_text("wrote docs/fidelity.md and docs/pictures/fidelity.svg\n")?;
    } else if args.json {
        print_json(&fidelity::fidelity_json(&comparison).to_string())?;
    } else {
        print_text(&fidelity::fidelity_text(&comparison, args.rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}
