//! `zellige show`

use crate::common::{LayoutArgs, print_coloured, print_json, print_text, wants_color};
use crate::exit_code::ExitCode;
use anyhow::Result;
use std::path::PathBuf;
use zellige_files::write_bytes;
use zellige_notation::tirx;
use zellige_view::{DrawOptions, Scene, png, svg, terminal};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige show mma-m16n8-cd
  zellige show 'S[(8,64):(64,1)]' --dtype float16 --swizzle 128B --color-by bank
  zellige show spyre-2d --svg sticks.svg --png sticks.png
  zellige show 'S[(2,4):(1@lx,2@lx)]' --axis lx=memory")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    layout: LayoutArgs,
    /// Also write a drawing as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write a drawing as PNG
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Pixels per unit of the SVG, for --png
    #[arg(long, default_value_t = 2.0, allow_negative_numbers = true)]
    scale: f32,
    /// Colour by an axis, or by line, bank or stick
    #[arg(long, value_name = "WHAT")]
    color_by: Option<String>,
    /// Draw memory as 128-byte sticks (default for Spyre layouts)
    #[arg(long)]
    sticks: bool,
    /// Columns of the terminal drawing (default: $COLUMNS, else 100)
    #[arg(long)]
    width: Option<usize>,
    /// Cells drawn at most in each view; a note counts what is cut
    #[arg(long, default_value_t = 1024)]
    max_cells: usize,
}

pub(crate) fn run_show(args: &ShowArgs) -> Result<ExitCode> {
    let loaded = args.layout.load_layout()?;
    let element = loaded.element;
    let options = DrawOptions {
        title: loaded.title.clone(),
        caption: Some(tirx::print_tirx(&loaded.layout)),
        dtype_bits: element.bits,
        dtype_assumed: element.known_bits().is_none(),
        color_by: args.color_by.clone(),
        sticks: args.sticks || loaded.parsed.stick_layout().is_some(),
        max_cells: args.max_cells,
    };
    let scene = Scene::new(&loaded.layout, &loaded.shape, &options)?;
    if let Some(path) = &args.svg {
        write_bytes(path, svg::render_scene_svg(&scene).as_bytes())?;
    }
    if let Some(path) = &args.png {
        write_bytes(path, &png::render_scene_png(&scene, args.scale)?)?;
    }
    if args.layout.json {
        print_json(&serde_json::to_string(&scene)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    // Few shells export COLUMNS; a hundred columns fit on most terminals.
    let width = args.width.or(columns).unwrap_or(100);
    let colour = wants_color(&std::io::stdout());
    let text = terminal::render_scene_text(&scene, width, colour);
    if colour { print_coloured(&text) } else { print_text(&text) }?;
    Ok(ExitCode::SUCCESS)
}
