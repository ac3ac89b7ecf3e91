//! Tiled and blocked formats: XLA, oneDNN, linalg.pack.

use crate::case::{
    Agreement, Checked, Mismatch, flatten, int, ints, list, maybe, mismatch, ok, same, same_at,
    size, text, unflatten,
};
use crate::{Tally, cases};
use serde_json::{Value, json};

/// What a record says of positions: all of them, or some; and all of them again by the definition of the format.
fn positions(
    case: &Value,
    shape: &[i64],
    found: &[i64],
    definition: impl Fn(&[i64]) -> Option<i64>,
) -> Result<(), Mismatch> {
    if maybe(case, "phys_rowmajor_order").is_some() {
        same_at("positions", &ints(case, "phys_rowmajor_order")?, found)?;
    }
    if maybe(case, "phys_samples").is_some() {
        for sample in list(case, "phys_samples")? {
            let coord = crate::case::integers(&sample[0], "phys_samples")?;
            let at = usize::try_from(flatten(shape, &coord)).unwrap_or(usize::MAX);
            let own = found.get(at).map_or(Value::Null, |p| json!(p));
            same(&format!("the position of {coord:?}"), &sample[1], &own)?;
        }
    }
    let all = (0..size(shape)?).map(|i| definition(&unflatten(shape, i)));
    let all: Option<Vec<i64>> = all.collect();
    let all = all.ok_or_else(|| mismatch("parameters of the format", case))?;
    same_at("positions by the definition", &all, found)
}

/// The order of a text: with and without saying its notation, the same.
fn order(written: &str, notation: &str, shape: &[i64]) -> Result<(Vec<i64>, i64), Mismatch> {
    let mut request = json!({"op": "physical_order", "layout": written, "shape": shape});
    let found = ok(&request)?;
    request["notation"] = json!(notation);
    same("the answer without the notation", &ok(&request)?, &found)?;
    Ok((ints(&found, "order")?, int(&found, "padded_elements")?))
}

/// Where the layout is one of the algebra, `apply` puts every element where `physical_order` does.
fn algebra(written: &str, shape: &[i64], found: &[i64]) -> Result<(), Mismatch> {
    let parsed = ok(&json!({"op": "parse", "layout": written, "shape": shape}))?;
    if parsed["axes"].is_null() {
        return Ok(());
    }
    let coords = crate::case::coordinates(shape)?;
    let places = crate::case::applied(&json!(written), shape, &coords)?;
    let addresses = places.iter().map(|set| set.first().and_then(|p| p.get("m")).copied());
    same_at("addresses", found, &addresses.map(Option::unwrap_or_default).collect::<Vec<i64>>())
}

/// The definition of XLA's tiles: each cuts the last physical dimensions into blocks and positions inside; `*` (written
/// -1) merges a dimension into the next more minor one first.
fn xla_position(case: &Value, shape: &[i64], coord: &[i64]) -> Option<(Vec<i64>, i64)> {
    let order = ints(case, "minor_to_major").ok()?;
    let (mut dims, mut at) = (Vec::new(), Vec::new());
    for d in order.iter().rev() {
        let d = usize::try_from(*d).ok()?;
        dims.push(*shape.get(d)?);
        at.push(*coord.get(d)?);
    }
    for tile in list(case, "tiles").ok()? {
        let tile = crate::case::integers(tile, "tiles").ok()?;
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

fn xla_case(case: &Value) -> Checked {
    let (written, shape) = (text(case, "text")?, ints(case, "shape")?);
    let (found, padded) = order(written, "xla", &shape)?;
    same("padded elements", &int(case, "padded_elements")?, &padded)?;
    positions(case, &shape, &found, |c| xla_position(case, &shape, c).map(|(_, at)| at))?;
    if let Some((dims, _)) = xla_position(case, &shape, &vec![0; shape.len()]) {
        same("the tiled shape", &ints(case, "tiled_shape")?, &dims)?;
    }
    // The layout alone, of a shape that is given.
    let Some(brace) = written.find('{') else {
        return Err(mismatch("a layout in braces", written));
    };
    same("positions of the layout alone", &found, &order(&written[brace..], "xla", &shape)?.0)?;
    let parsed = ok(&json!({"op": "parse", "layout": written}))?;
    let print = maybe(case, "xla_parser_roundtrip").unwrap_or(&case["text"]);
    same("the text", print, &parsed["layout"])?;
    algebra(written, &shape, &found)?;
    Ok(Agreement::Same)
}

pub(crate) fn xla(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        tally.case(format!("{i}: {}", case["text"]), xla_case(case));
    }
    Ok(())
}

/// The definition of oneDNN's blocks: the innermost first, then the outer strides.
fn onednn_position(strides: &[i64], blocks: &[i64], dims: &[i64], coord: &[i64]) -> Option<i64> {
    let mut c = coord.to_vec();
    let (mut run, mut at) = (1, 0);
    for (block, dim) in blocks.iter().zip(dims).rev() {
        let index = c.get_mut(usize::try_from(*dim).ok()?)?;
        at += *index % block * run;
        *index /= block;
        run *= block;
    }
    Some(at + c.iter().zip(strides).map(|(c, s)| c * s).sum::<i64>())
}

fn onednn_case(case: &Value) -> Checked {
    let (tag, dims) = (text(case, "tag")?, ints(case, "dims")?);
    let (found, padded) = order(tag, "onednn", &dims)?;
    let (strides, blocks, of) =
        (ints(case, "strides")?, ints(case, "inner_blks")?, ints(case, "inner_idxs")?);
    positions(case, &dims, &found, |c| onednn_position(&strides, &blocks, &of, c))?;
    same("padded elements", &ints(case, "padded_dims")?.iter().product::<i64>(), &padded)?;
    same("bytes of float32", &int(case, "size_bytes")?, &(4 * padded))?;
    same("padding", &int(case, "padding_zeroed")?, &(padded - size(&dims)?))?;
    let with_dims = format!("dims={dims:?} tag={tag}");
    let parsed = ok(&json!({"op": "parse", "layout": with_dims}))?;
    same("the text", &json!(with_dims), &parsed["layout"])?;
    algebra(tag, &dims, &found)?;
    for alias in list(case, "aliases")? {
        let alias = alias.as_str().unwrap_or("");
        same(&format!("positions of {alias}"), &found, &order(alias, "onednn", &dims)?.0)?;
    }
    Ok(Agreement::Same)
}

/// A name stands for a tag: over a shape that tells dimensions apart they are one function.
fn alias(name: &str, tag: &Value) -> Checked {
    let letters = tag.as_str().unwrap_or("").to_lowercase();
    let rank = letters.bytes().filter(u8::is_ascii_lowercase).max().map_or(0, |c| c - b'a' + 1);
    let shape: Vec<i64> = [2, 3, 2, 3].iter().cycle().take(usize::from(rank)).copied().collect();
    let request = json!({"op": "equal", "a": name, "b": tag, "shape": shape, "notation": "onednn"});
    let found = ok(&request)?;
    same(&format!("{name} is {tag}:"), &json!(true), &found["equal"])?;
    let parsed = ok(&json!({"op": "parse", "layout": name}))?;
    same("the notation", &json!("onednn"), &parsed["notation"])?;
    same("the text", &json!(name), &parsed["layout"])?;
    Ok(Agreement::Same)
}

pub(crate) fn onednn(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        tally.case(format!("{i}: {} of {}", case["tag"], case["dims"]), onednn_case(case));
    }
    let aliases = data["aliases"].as_object().into_iter().flatten();
    for (name, tag) in aliases {
        tally.case(format!("the name {name}"), alias(name, tag));
    }
    Ok(())
}

/// The definition of linalg.pack: blocks in the order of `outer_dims_perm`, then positions inside of them.
fn pack_position(case: &Value, coord: &[i64]) -> Option<i64> {
    let index = |n: &i64| usize::try_from(*n).ok();
    let (pos, tiles) = (ints(case, "inner_dims_pos").ok()?, ints(case, "inner_tiles").ok()?);
    let tile = |d: usize| pos.iter().position(|p| index(p) == Some(d)).map_or(1, |k| tiles[k]);
    let perm = match maybe(case, "outer_dims_perm") {
        Some(_) => ints(case, "outer_dims_perm").ok()?,
        None => (0..).take(coord.len()).collect(),
    };
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
    let packed = ints(case, "packed_shape").ok()?;
    (packed.len() == at.len()).then(|| flatten(&packed, &at))
}

fn pack_case(case: &Value) -> Checked {
    let (op, shape) = (text(case, "op")?, ints(case, "shape")?);
    let (found, padded) = order(op, "pack", &shape)?;
    positions(case, &shape, &found, |c| pack_position(case, c))?;
    same("padded elements", &ints(case, "packed_shape")?.iter().product::<i64>(), &padded)?;
    let parsed = ok(&json!({"op": "parse", "layout": op}))?;
    same("the text", &json!(op), &parsed["layout"])?;
    let perm = maybe(case, "outer_dims_perm").map(|p| format!(" outer_dims_perm={p}"));
    let short = format!(
        "inner_dims_pos={} inner_tiles={}{}",
        case["inner_dims_pos"],
        case["inner_tiles"],
        perm.unwrap_or_default()
    );
    same("positions of the attributes alone", &found, &order(&short, "pack", &shape)?.0)?;
    algebra(op, &shape, &found)?;
    Ok(Agreement::Same)
}

pub(crate) fn pack(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        tally.case(format!("{i}: {}", case["op"]), pack_case(case));
    }
    Ok(())
}
