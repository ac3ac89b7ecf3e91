//! `zellige diff`

use crate::common::{IntList, LayoutArgs, LoadedLayout, parse_list, print_json, print_text};
use crate::exit_code::ExitCode;
use anyhow::Result;
use serde_json::{Value, json};
use std::fmt::Write;
use zellige_layout::{
    Layout, LayoutDifference, PhysicalCoordinate, flatten_coordinate, unflatten_index,
};
use zellige_notation::{choose_shared_shape, sharding};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  zellige diff 'S[(8,64):(64,1)]' 'size=[8, 64] stride=[1, 8]'
  zellige diff '(8,64):(64,1)' 'Sw<2,0,3> o (8,64):(64,1)'
Exit code 1 means that they differ.")]
pub(crate) struct DiffArgs {
    /// A layout in any notation, or a preset
    #[arg(value_name = "LAYOUT")]
    a: String,
    /// Another
    #[arg(value_name = "OTHER")]
    b: String,
    /// The logical shape (default: that of the first layout that has one)
    #[arg(long, value_name = "SHAPE", value_parser = parse_list)]
    shape: Option<IntList>,
    /// The notation of both layouts, where their texts have several readings
    #[arg(long, value_name = "NOTATION")]
    notation: Option<String>,
    /// The notation of the second layout, where it is another one
    #[arg(long, value_name = "NOTATION")]
    other_notation: Option<String>,
    /// How many differences are listed at most
    #[arg(long, default_value_t = 8)]
    count: usize,
    /// Write JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Elements that are compared one by one after the first difference.
// The first difference is found by a proof, whatever the size; only the list behind it needs this bound.
const MAX_COMPARED_ELEMENTS: i64 = 1 << 20;

/// Rows and columns of the drawing.
const DRAWN_EXTENT: (i64, i64) = (8, 8);

pub(crate) fn run_diff(args: &DiffArgs) -> Result<ExitCode> {
    let load = |text: &str, notation: Option<&String>, shape: Option<IntList>| {
        LayoutArgs { notation: notation.cloned(), ..LayoutArgs::from_text(text, shape) }
            .load_layout()
    };
    let first = |shape| load(&args.a, args.notation.as_ref(), shape);
    let other = args.other_notation.as_ref().or(args.notation.as_ref());
    let second = |shape| load(&args.b, other, shape);
    // One of the two may say the shape that the other needs.
    let (a, b) = match (first(args.shape.clone()), second(args.shape.clone())) {
        (Ok(a), Ok(b)) => (a, b),
        (Ok(a), Err(_)) => {
            let b = second(Some(IntList(a.shape.clone())))?;
            (a, b)
        }
        (Err(_), Ok(b)) => (first(Some(IntList(b.shape.clone())))?, b),
        // The first layout is reported, because its text comes first on the command line.
        (Err(e), Err(_)) => return Err(e),
    };
    let (a, b) = over_one_shape(a, b);
    let shape = &a.shape;
    // Notations name the axes of a mesh or number its devices. Both mean the same places, so names are replaced by
    // numbers before the comparison.
    let numbered = sharding::on_numbered_devices(&a.parsed, &b.parsed, shape);
    let (left, right) = &numbered.unwrap_or((a.layout, b.layout));
    let first = match left.find_difference(right)? {
        None => {
            let text = "equal: every element has the same places";
            if args.json {
                print_json(&json!({"equal": true}).to_string())?;
            } else {
                print_text(text)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        Some(LayoutDifference::Size(x, y)) => {
            if args.json {
                print_json(&json!({"equal": false, "sizes": [x, y]}).to_string())?;
            } else {
                print_text(&format!("they differ: the first has {x} elements, the second {y}"))?;
            }
            return Ok(ExitCode::from(1));
        }
        Some(LayoutDifference::At { index, .. }) => index,
    };
    let found = find_differences(left, right, first, args.count)?;
    if args.json {
        let one = |(i, l, r): &DifferingElement| json!({"coord": unflatten_index(shape, *i), "a": format_places(l), "b": format_places(r)});
        let list: Vec<Value> = found.iter().map(one).collect();
        print_json(&json!({"equal": false, "differences": list}).to_string())?;
        return Ok(ExitCode::from(1));
    }
    let mut text = String::from("they differ, first at\n");
    for (i, l, r) in &found {
        let at = format!("{:?}", unflatten_index(shape, *i));
        let _ = writeln!(
            text,
            "  {at:<12} {} in the first, {} in the second",
            format_places(l),
            format_places(r)
        );
    }
    if let Some(drawing) = draw_difference(left, right, shape, first) {
        text += &drawing;
    }
    print_text(&text)?;
    Ok(ExitCode::from(1))
}

/// Both layouts over one shape, where they have as many elements: the one that [`choose_shared_shape`] names.
fn over_one_shape(a: LoadedLayout, b: LoadedLayout) -> (LoadedLayout, LoadedLayout) {
    let shape =
        choose_shared_shape((&a.parsed, a.shape.as_slice()), (&b.parsed, b.shape.as_slice()));
    let shape = shape.to_vec();
    let over = |loaded: LoadedLayout| match loaded.parsed.layout_over_shape(Some(&shape)) {
        Ok(layout) if layout.check_shape_size(&shape).is_ok() => {
            LoadedLayout { layout, shape: shape.clone(), ..loaded }
        }
        _ => loaded,
    };
    (over(a), over(b))
}

/// An element, and its places in both layouts.
type DifferingElement = (i64, Vec<PhysicalCoordinate>, Vec<PhysicalCoordinate>);

/// The first elements that differ, with their places in both.
fn find_differences(
    a: &Layout,
    b: &Layout,
    first: i64,
    most: usize,
) -> Result<Vec<DifferingElement>> {
    let mut found = Vec::new();
    let mut index = first;
    let end = a.size().min(first.saturating_add(MAX_COMPARED_ELEMENTS));
    while index < end && found.len() < most.max(1) {
        let (left, right) = (
            // Sorted, because the order in which copies of an element are listed carries no meaning.
            a.physical_coordinates(index)?.sorted_coordinates(),
            b.physical_coordinates(index)?.sorted_coordinates(),
        );
        if !is_same_place_set(&left, &right) {
            found.push((index, left, right));
        }
        index += 1;
    }
    Ok(found)
}

fn is_same_place_set(a: &[PhysicalCoordinate], b: &[PhysicalCoordinate]) -> bool {
    a.iter()
        .map(PhysicalCoordinate::without_zero_entries)
        .eq(b.iter().map(PhysicalCoordinate::without_zero_entries))
}

fn format_places(points: &[PhysicalCoordinate]) -> String {
    points.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// The last two dimensions around the first difference: an equal element is a dot.
fn draw_difference(a: &Layout, b: &Layout, shape: &[i64], first: i64) -> Option<String> {
    let rank = shape.len();
    if rank < 2 {
        return None;
    }
    let origin = unflatten_index(shape, first);
    let (r, c) = (rank - 2, rank - 1);
    // The window begins at a multiple of its size, so that tiles of powers of two are drawn whole.
    let rows = (origin[r] / DRAWN_EXTENT.0 * DRAWN_EXTENT.0)
        ..shape[r].min(origin[r] / DRAWN_EXTENT.0 * DRAWN_EXTENT.0 + DRAWN_EXTENT.0);
    let cols = (origin[c] / DRAWN_EXTENT.1 * DRAWN_EXTENT.1)
        ..shape[c].min(origin[c] / DRAWN_EXTENT.1 * DRAWN_EXTENT.1 + DRAWN_EXTENT.1);
    let cell = |i: i64, j: i64| -> Option<String> {
        let mut at = origin.clone();
        (at[r], at[c]) = (i, j);
        let flat = flatten_coordinate(shape, &at).ok()?;
        let (x, y) = (
            a.physical_coordinates(flat).ok()?.sorted_coordinates(),
            b.physical_coordinates(flat).ok()?.sorted_coordinates(),
        );
        Some(if is_same_place_set(&x, &y) {
            ".".into()
        } else {
            format!("{}|{}", format_first_place(&x), format_first_place(&y))
        })
    };
    let mut grid: Vec<Vec<String>> = Vec::new();
    for i in rows.clone() {
        grid.push(cols.clone().map(|j| cell(i, j)).collect::<Option<Vec<_>>>()?);
    }
    let width = grid.iter().flatten().map(|s| s.chars().count()).max()?.max(3);
    let head: Vec<String> = cols.map(|j| format!("{j:>width$}")).collect();
    let mut text =
        format!("\nfirst|second by the last two dimensions\n{:>6} {}\n", "", head.join(" "));
    for (i, row) in rows.zip(grid) {
        let cells: Vec<String> = row.iter().map(|s| format!("{s:>width$}")).collect();
        let _ = writeln!(text, "{i:>6} {}", cells.join(" "));
    }
    Some(text)
}

/// The coordinates of the first place, without names.
fn format_first_place(points: &[PhysicalCoordinate]) -> String {
    let values = points
        .first()
        .map(|p| p.axis_entries().iter().map(|(_, v)| v.to_string()).collect::<Vec<_>>());
    let all = values.unwrap_or_default().join(",");
    if points.len() > 1 { format!("{all}+") } else { all }
}
