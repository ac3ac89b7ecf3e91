//! Tiled and blocked formats: XLA, oneDNN, linalg.pack.

use crate::case::{
    CaseAgreement, CaseMismatch, CheckedCase, check_same, check_same_at, element_count,
    expect_answer, flatten_coordinate, int_field, ints_field, list_field, mismatch_between,
    optional_field, text_field, unflatten_index,
};
use crate::{CaseTally, list_cases};
use serde_json::{Value, json};

/// Compares the positions that a record lists, and then all positions with the definition of the format.
fn check_positions(
    case: &Value,
    shape: &[i64],
    found: &[i64],
    definition: impl Fn(&[i64]) -> Option<i64>,
) -> Result<(), CaseMismatch> {
    if optional_field(case, "phys_rowmajor_order").is_some() {
        check_same_at("positions", &ints_field(case, "phys_rowmajor_order")?, found)?;
    }
    if optional_field(case, "phys_samples").is_some() {
        for sample in list_field(case, "phys_samples")? {
            let coord = crate::case::parse_integers(&sample[0], "phys_samples")?;
            let at = usize::try_from(flatten_coordinate(shape, &coord)).unwrap_or(usize::MAX);
            let own = found.get(at).map_or(Value::Null, |p| json!(p));
            check_same(&format!("the position of {coord:?}"), &sample[1], &own)?;
        }
    }
    // Also where the record lists every position: a definition that is written down here by hand finds a mistake of
    // the record, too.
    let all = (0..element_count(shape)?).map(|i| definition(&unflatten_index(shape, i)));
    let all: Option<Vec<i64>> = all.collect();
    let all = all.ok_or_else(|| mismatch_between("parameters of the format", case))?;
    check_same_at("positions by the definition", &all, found)
}

/// The order of a text, which must be the same with and without the name of its notation.
fn print_physical_order(
    written: &str,
    notation: &str,
    shape: &[i64],
) -> Result<(Vec<i64>, i64), CaseMismatch> {
    let mut request = json!({"op": "physical_order", "layout": written, "shape": shape});
    let found = expect_answer(&request)?;
    request["notation"] = json!(notation);
    // Recognising the notation is a decision of its own, which may go wrong although the text is read correctly.
    check_same("the answer without the notation", &expect_answer(&request)?, &found)?;
    Ok((ints_field(&found, "order")?, int_field(&found, "padded_elements")?))
}

/// Where the layout is one of the algebra, `apply` puts every element where `physical_order` does.
fn check_algebra(written: &str, shape: &[i64], found: &[i64]) -> Result<(), CaseMismatch> {
    let parsed = expect_answer(&json!({"op": "parse", "layout": written, "shape": shape}))?;
    // Some tags have positions and no layout of the algebra; the request `physical_order` computes those from the
    // tag itself.
    if parsed["axes"].is_null() {
        return Ok(());
    }
    let coords = crate::case::all_coordinates(shape)?;
    let places = crate::case::apply_layout(&json!(written), shape, &coords)?;
    let addresses = places.iter().map(|set| set.first().and_then(|p| p.get("m")).copied());
    check_same_at(
        "addresses",
        found,
        &addresses.map(Option::unwrap_or_default).collect::<Vec<i64>>(),
    )
}

/// The definition of XLA's tiles: each cuts the last physical dimensions into blocks and positions inside; `*` (written
/// -1) merges a dimension into the next more minor one first.
fn xla_position(case: &Value, shape: &[i64], coord: &[i64]) -> Option<(Vec<i64>, i64)> {
    let order = ints_field(case, "minor_to_major").ok()?;
    let (mut dims, mut at) = (Vec::new(), Vec::new());
    for d in order.iter().rev() {
        let d = usize::try_from(*d).ok()?;
        dims.push(*shape.get(d)?);
        at.push(*coord.get(d)?);
    }
    for tile in list_field(case, "tiles").ok()? {
        let tile = crate::case::parse_integers(tile, "tiles").ok()?;
        // A tile of more dimensions than there are acts on leading ones of size 1.
        while dims.len() < tile.len() {
            dims.insert(0, 1);
            at.insert(0, 0);
        }
        let start = dims.len() - tile.len();
        let (mut merged, mut sizes) = (Vec::new(), Vec::new());
        let (mut extent, mut index) = (1, 0);
        for (k, t) in tile.iter().enumerate() {
            (extent, index) = (extent * dims[start + k], index * dims[start + k] + at[start + k]);
            if *t != -1 {
                merged.push((extent, index));
                sizes.push(*t);
                (extent, index) = (1, 0);
            }
        }
        dims.truncate(start);
        at.truncate(start);
        for ((extent, index), t) in merged.iter().zip(&sizes) {
            dims.push((extent + t - 1) / t);
            at.push(index / t);
        }
        for ((_, index), t) in merged.iter().zip(&sizes) {
            dims.push(*t);
            at.push(index % t);
        }
    }
    let flat = dims.iter().zip(&at).fold(0, |flat, (n, i)| flat * n + i);
    Some((dims, flat))
}

fn check_xla_case(case: &Value) -> CheckedCase {
    let (written, shape) = (text_field(case, "text")?, ints_field(case, "shape")?);
    let (found, padded) = print_physical_order(written, "xla", &shape)?;
    check_same("padded elements", &int_field(case, "padded_elements")?, &padded)?;
    check_positions(case, &shape, &found, |c| xla_position(case, &shape, c).map(|(_, at)| at))?;
    if let Some((dims, _)) = xla_position(case, &shape, &vec![0; shape.len()]) {
        check_same("the tiled shape", &ints_field(case, "tiled_shape")?, &dims)?;
    }
    // The layout alone, of a shape that is given.
    let Some(brace) = written.find('{') else {
        return Err(mismatch_between("a layout in braces", written));
    };
    check_same(
        "positions of the layout alone",
        &found,
        &print_physical_order(&written[brace..], "xla", &shape)?.0,
    )?;
    let parsed = expect_answer(&json!({"op": "parse", "layout": written}))?;
    let print = optional_field(case, "xla_parser_roundtrip").unwrap_or(&case["text"]);
    check_same("the text", print, &parsed["layout"])?;
    check_algebra(written, &shape, &found)?;
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_xla(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        tally.count_case(format!("{i}: {}", case["text"]), check_xla_case(case));
    }
    Ok(())
}

/// The definition of oneDNN's blocks: the innermost first, then the outer strides.
fn onednn_position(strides: &[i64], blocks: &[i64], dims: &[i64], coord: &[i64]) -> Option<i64> {
    let mut c = coord.to_vec();
    let (mut run, mut at) = (1, 0);
    // oneDNN lists inner blocks from the outermost to the innermost, and the innermost is the fastest.
    for (block, dim) in blocks.iter().zip(dims).rev() {
        let index = c.get_mut(usize::try_from(*dim).ok()?)?;
        at += *index % block * run;
        *index /= block;
        run *= block;
    }
    Some(at + c.iter().zip(strides).map(|(c, s)| c * s).sum::<i64>())
}

fn check_onednn_case(case: &Value) -> CheckedCase {
    let (tag, dims) = (text_field(case, "tag")?, ints_field(case, "dims")?);
    let (found, padded) = print_physical_order(tag, "onednn", &dims)?;
    let (strides, blocks, of) = (
        ints_field(case, "strides")?,
        ints_field(case, "inner_blks")?,
        ints_field(case, "inner_idxs")?,
    );
    check_positions(case, &dims, &found, |c| onednn_position(&strides, &blocks, &of, c))?;
    check_same(
        "padded elements",
        &ints_field(case, "padded_dims")?.iter().product::<i64>(),
        &padded,
    )?;
    // The descriptors were recorded for float32, four bytes each.
    check_same("bytes of float32", &int_field(case, "size_bytes")?, &(4 * padded))?;
    check_same("padding", &int_field(case, "padding_zeroed")?, &(padded - element_count(&dims)?))?;
    let with_dims = format!("dims={dims:?} tag={tag}");
    let parsed = expect_answer(&json!({"op": "parse", "layout": with_dims}))?;
    check_same("the text", &json!(with_dims), &parsed["layout"])?;
    check_algebra(tag, &dims, &found)?;
    for alias in list_field(case, "aliases")? {
        let alias = alias.as_str().unwrap_or("");
        check_same(
            &format!("positions of {alias}"),
            &found,
            &print_physical_order(alias, "onednn", &dims)?.0,
        )?;
    }
    Ok(CaseAgreement::Same)
}

/// A name is an alias of a tag: over a shape whose dimensions differ they are the same function.
fn check_onednn_alias(name: &str, tag: &Value) -> CheckedCase {
    let letters = tag.as_str().unwrap_or("").to_lowercase();
    let rank = letters.bytes().filter(u8::is_ascii_lowercase).max().map_or(0, |c| c - b'a' + 1);
    // Neighbouring dimensions differ in size, since with equal sizes a tag with two dimensions exchanged would have
    // the same positions.
    let shape: Vec<i64> = [2, 3, 2, 3].iter().cycle().take(usize::from(rank)).copied().collect();
    let request = json!({"op": "equal", "a": name, "b": tag, "shape": shape, "notation": "onednn"});
    let found = expect_answer(&request)?;
    check_same(&format!("{name} is {tag}:"), &json!(true), &found["equal"])?;
    let parsed = expect_answer(&json!({"op": "parse", "layout": name}))?;
    check_same("the notation", &json!("onednn"), &parsed["notation"])?;
    check_same("the text", &json!(name), &parsed["layout"])?;
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_onednn(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        tally.count_case(
            format!("{i}: {} of {}", case["tag"], case["dims"]),
            check_onednn_case(case),
        );
    }
    let aliases = data["aliases"].as_object().into_iter().flatten();
    for (name, tag) in aliases {
        tally.count_case(format!("the name {name}"), check_onednn_alias(name, tag));
    }
    Ok(())
}

/// The definition of linalg.pack: blocks in the order of `outer_dims_perm`, then positions inside of them.
fn pack_position(case: &Value, coord: &[i64]) -> Option<i64> {
    let index = |n: &i64| usize::try_from(*n).ok();
    let (pos, tiles) =
        (ints_field(case, "inner_dims_pos").ok()?, ints_field(case, "inner_tiles").ok()?);
    let tile = |d: usize| pos.iter().position(|p| index(p) == Some(d)).map_or(1, |k| tiles[k]);
    let perm = match optional_field(case, "outer_dims_perm") {
        Some(_) => ints_field(case, "outer_dims_perm").ok()?,
        None => (0..).take(coord.len()).collect(),
    };
    // MLIR prints an absent permutation as an empty list.
    let perm = if perm.is_empty() { (0..).take(coord.len()).collect() } else { perm };
    let mut at = Vec::new();
    for d in &perm {
        let d = index(d)?;
        at.push(coord.get(d)? / tile(d));
    }
    for d in &pos {
        let d = index(d)?;
        at.push(coord.get(d)? % tile(d));
    }
    let packed = ints_field(case, "packed_shape").ok()?;
    (packed.len() == at.len()).then(|| flatten_coordinate(&packed, &at))
}

fn check_pack_case(case: &Value) -> CheckedCase {
    let (op, shape) = (text_field(case, "op")?, ints_field(case, "shape")?);
    let (found, padded) = print_physical_order(op, "pack", &shape)?;
    check_positions(case, &shape, &found, |c| pack_position(case, c))?;
    check_same(
        "padded elements",
        &ints_field(case, "packed_shape")?.iter().product::<i64>(),
        &padded,
    )?;
    let parsed = expect_answer(&json!({"op": "parse", "layout": op}))?;
    check_same("the text", &json!(op), &parsed["layout"])?;
    let perm = optional_field(case, "outer_dims_perm").map(|p| format!(" outer_dims_perm={p}"));
    let short = format!(
        "inner_dims_pos={} inner_tiles={}{}",
        case["inner_dims_pos"],
        case["inner_tiles"],
        perm.unwrap_or_default()
    );
    check_same(
        "positions of the attributes alone",
        &found,
        &print_physical_order(&short, "pack", &shape)?.0,
    )?;
    check_algebra(op, &shape, &found)?;
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_pack(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        tally.count_case(format!("{i}: {}", case["op"]), check_pack_case(case));
    }
    Ok(())
}
