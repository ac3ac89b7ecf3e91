//! `zellige map`

use crate::common::{IntList, LayoutArgs, parse_list, print_as};
use crate::exit_code::ExitCode;
use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use std::fmt::Write;
use zellige_layout::{Axis, AxisTable, PlaceContent, unflatten_index};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige map two-warps 0,0 7,15
  zellige map 'S[(8,64):(64,1)]' --place m=66
  zellige map spyre-2d --place m=360
  zellige map demo-lanes --all")]
pub(crate) struct MapArgs {
    #[command(flatten)]
    layout: LayoutArgs,
    /// Coordinates, such as 7,15
    #[arg(value_parser = parse_list, allow_negative_numbers = true)]
    coords: Vec<IntList>,
    /// A place to look up, such as laneid=3,m=1 (axes left out are 0); may be repeated
    #[arg(long, value_name = "PLACE")]
    place: Vec<String>,
    /// Every element, in row-major order
    #[arg(long)]
    all: bool,
}

/// More elements than this are not listed by --all.
// Every element is a line of the answer, which is built in memory before it is printed.
const MAX_LISTED_ELEMENTS: i64 = 1 << 20;

pub(crate) fn run_map(args: &MapArgs) -> Result<ExitCode> {
    let loaded = args.layout.load_layout()?;
    let axes = args.layout.axis_table()?;
    let mut coords: Vec<Vec<i64>> = args.coords.iter().map(|l| l.0.clone()).collect();
    if args.all {
        let size = loaded.layout.size();
        if size > MAX_LISTED_ELEMENTS {
            bail!(
                "--all lists at most {MAX_LISTED_ELEMENTS} elements, and this layout has {size}; name coordinates instead"
            );
        }
        coords.extend((0..size).map(|i| unflatten_index(&loaded.shape, i)));
    }
    if coords.is_empty() && args.place.is_empty() && !args.all {
        bail!("name coordinates (7,15), a place (--place m=66), or --all");
    }
    let (mut text, mut points, mut lookups) = (String::new(), Vec::new(), Vec::new());
    for c in &coords {
        // Sorted, so that two layouts that hold the same copies print the same lines.
        let places = loaded.layout.apply_to_coordinate(&loaded.shape, c)?.sorted_coordinates();
        let shown: Vec<String> = places.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "{} -> {}", format_tuple(c), shown.join(" "));
        let entries = |p: &zellige_layout::PhysicalCoordinate| -> Value {
            p.axis_entries()
                .iter()
                .map(|(a, v)| (a.name().to_string(), json!(v)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        if args.layout.json {
            points.push(
                json!({"coord": c, "places": places.iter().map(entries).collect::<Vec<_>>()}),
            );
        }
    }
    for place in &args.place {
        let at = parse_place(place, &axes)?;
        let (state, found) = match loaded.layout.look_up_place(&at)? {
            PlaceContent::Elements(list) => {
                ("element", list.iter().map(|i| unflatten_index(&loaded.shape, *i)).collect())
            }
            PlaceContent::Padding => ("padding", Vec::new()),
            PlaceContent::Gap => ("gap", Vec::new()),
            PlaceContent::Outside => ("outside", Vec::new()),
        };
        let shown: Vec<String> = found.iter().map(|c| format_tuple(c)).collect();
        let answer = if found.is_empty() { state.to_string() } else { shown.join(" ") };
        let _ = writeln!(text, "{place} <- {answer}");
        lookups.push(json!({"place": place, "state": state, "coords": found}));
    }
    if args.layout.json {
        text = json!({"points": points, "lookups": lookups}).to_string();
    }
    print_as(args.layout.json, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn format_tuple(c: &[i64]) -> String {
    let parts: Vec<String> = c.iter().map(ToString::to_string).collect();
    format!("({})", parts.join(", "))
}

/// `laneid=3,m=1`
fn parse_place(text: &str, axes: &AxisTable) -> Result<Vec<(Axis, i64)>> {
    let part = |p: &str| {
        let bad = || anyhow!("--place {text}: write AXIS=NUMBER, such as laneid=3,m=1");
        let (name, value) = p.split_once('=').ok_or_else(bad)?;
        Ok((axes.get(name.trim())?, value.trim().parse::<i64>().map_err(|_| bad())?))
    };
    text.split(',').map(part).collect()
}
