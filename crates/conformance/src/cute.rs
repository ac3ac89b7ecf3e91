//! CuTe: operators, print forms, atoms.

use crate::case::{
    Agreement, Checked, Mismatch, applied_flat, ask, int, ints, maybe, mismatch, ok, refusal, same,
    same_at, text, with_witness,
};
use crate::{Tally, cases};
use serde_json::{Value, json};

/// The numbers of a tuple in order, whatever its nesting: `(8,(_2,4))` is 8, 2, 4.
fn leaves(tuple: &str) -> Option<Vec<i64>> {
    let parts = tuple.split(['(', ')', ',']).map(|p| p.trim().trim_start_matches('_'));
    parts.filter(|p| !p.is_empty()).map(|p| p.parse().ok()).collect()
}

/// Extents and strides of `shape:stride`, in order.
fn modes(layout: &str) -> Option<Vec<(i64, i64)>> {
    let (shape, stride) = layout.split_once(':')?;
    let (shape, stride) = (leaves(shape)?, leaves(stride)?);
    (shape.len() == stride.len()).then(|| shape.into_iter().zip(stride).collect())
}

/// The offset at an index by CuTe's definition: the index is split over the leaves, the first fastest, and the last
/// leaf goes on past its extent.
fn offset(modes: &[(i64, i64)], index: i64) -> i64 {
    let (mut rest, mut at) = (index, 0);
    for (k, (extent, stride)) in modes.iter().enumerate() {
        let last = k + 1 == modes.len();
        let digit = if last { rest } else { rest % extent.max(&1) };
        rest = if last { 0 } else { rest / extent.max(&1) };
        at += digit * stride;
    }
    at
}

fn offsets(modes: &[(i64, i64)]) -> Vec<i64> {
    let size: i64 = modes.iter().map(|(n, _)| *n).product();
    (0..size).map(|i| offset(modes, i)).collect()
}

fn known(layout: &str) -> Result<Vec<(i64, i64)>, Mismatch> {
    modes(layout).ok_or_else(|| mismatch("a text `shape:stride` of integers", layout))
}

/// The request of a recorded operator.
fn request(case: &Value) -> Result<Value, Mismatch> {
    let op = text(case, "op")?;
    let a = &case["a"];
    Ok(match op {
        "coalesce" | "right_inverse" | "left_inverse" => {
            json!({"op": op, "layout": a, "notation": "cute"})
        }
        "complement" => {
            json!({"op": op, "layout": a, "cosize": int(case, "cotarget")?, "notation": "cute"})
        }
        _ => match maybe(case, "tiler") {
            Some(tiler) => json!({"op": op, "a": a, "tiler": tiler, "notation": "cute"}),
            None => json!({"op": op, "a": a, "b": case["b"], "notation": "cute"}),
        },
    })
}

/// What is verified comes out as a library prints it, with the recorded offsets; what is not is right or refused.
fn operator(case: &Value) -> Checked {
    let request = request(case)?;
    if case["class"] == "verified" {
        let answer = ok(&request)?;
        let found = text(&answer, "layout")?;
        let libraries = ["pycute", "tensor_layouts", "cutegen", "cute"];
        let texts: Vec<&str> = libraries.iter().filter_map(|l| case[*l].as_str()).collect();
        if !texts.contains(&found) {
            return Err(mismatch(format!("{request} is {}", texts.join(" or ")), found));
        }
        if case["op"] == "left_inverse" {
            // Past the image of the layout an inverse is free, so its offsets are not compared; its law is.
            let (a, inverse) = (known(text(case, "a")?)?, known(found)?);
            let back: Vec<i64> = offsets(&a).iter().map(|at| offset(&inverse, *at)).collect();
            same_at("the index back", &(0..).take(back.len()).collect::<Vec<i64>>(), &back)?;
        } else if maybe(case, "offsets").is_some() {
            let want = ints(case, "offsets")?;
            same_at("offsets", &want, &applied_flat(found, want.len())?)?;
            same_at("offsets by the definition", &want, &offsets(&known(found)?))?;
        }
        return Ok(Agreement::Same);
    }
    let Some(truth) = case["truth_layout"].as_str() else {
        with_witness(&request)?;
        return Ok(Agreement::UpstreamWrong);
    };
    let answer = ok(&request)?;
    let found = text(&answer, "layout")?;
    let want = match maybe(case, "truth_offsets") {
        Some(_) => ints(case, "truth_offsets")?,
        None => offsets(&known(truth)?),
    };
    same_at(&format!("{request} is {truth}"), &want, &offsets(&known(found)?))?;
    same_at(&format!("{request} is {truth}"), &want, &applied_flat(found, want.len())?)?;
    Ok(Agreement::UpstreamWrong)
}

pub(crate) fn operators(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        let b = maybe(case, "tiler").or(maybe(case, "b")).or(maybe(case, "cotarget"));
        let b = b.map(|b| format!(", {b}")).unwrap_or_default();
        tally.case(format!("{i}: {} of {}{b}", case["op"], case["a"]), operator(case));
    }
    Ok(())
}

/// Offsets of elements of a text by the definition: the swizzle acts on the address, in bytes if a pointer says how
/// many bits an element has.
fn positions(written: &str, case: &Value) -> Result<Option<Vec<i64>>, Mismatch> {
    let layout = format!("{}:{}", text(case, "shape")?, text(case, "stride")?);
    let Some(modes) = modes(&layout) else { return Ok(None) };
    let mut plain = offsets(&modes);
    let Some(swizzle) = maybe(case, "swizzle") else { return Ok(Some(plain)) };
    let swizzle = crate::case::integers(swizzle, "swizzle")?;
    let [bits, base, shift] = swizzle[..] else {
        return Err(mismatch("three numbers in the field `swizzle`", format!("{swizzle:?}")));
    };
    // A pointer behind the swizzle: `Sw<..> o smem_ptr[16b](..) o ..`, or `Sw<..>_smem_ptr[16b](..) o ..`.
    let at = written.find('>').unwrap_or(0);
    let pointer = written[at..].split_once("ptr[").and_then(|(_, rest)| rest.split_once("b]"));
    let base = match pointer.and_then(|(bits, _)| bits.parse::<i64>().ok()) {
        // Bits of an address in elements: 8 bits are a byte, and addresses of bytes are swizzled.
        Some(width) => base + 3 - i64::from(width.ilog2()),
        None => base,
    };
    let start = written.split(" o ").nth(1).and_then(leaves).map_or(0, |l| l[0]);
    for p in &mut plain {
        let (x, mask) = (*p + start, (1 << bits) - 1);
        let moved = if shift >= 0 {
            ((x >> (base + shift)) & mask) << base
        } else {
            ((x >> base) & mask) << (base - shift)
        };
        *p = x ^ moved;
    }
    Ok(Some(plain))
}

/// A text is printed as it is read; one that is a layout has the recorded offsets, and another says that it is none.
fn print_form(case: &Value) -> Checked {
    let written = text(case, "text")?;
    let request = json!({"op": "parse", "layout": written, "notation": "cute"});
    if maybe(case, "shape").is_none() {
        return match ask(&request) {
            Ok(found) => Err(mismatch(format!("{written} is no layout"), found)),
            Err(e) if e["message"].is_string() && e["kind"] != "internal" => Ok(Agreement::Same),
            Err(e) => Err(mismatch(format!("{written} is no layout"), refusal(&e))),
        };
    }
    let found = ok(&request)?;
    same("the text", &found["layout"], &json!(written))?;
    same("the notation", &found["notation"], &json!("cute"))?;
    let detected = ok(&json!({"op": "parse", "layout": written}))?;
    same("the notation that is recognised", &detected["notation"], &json!("cute"))?;
    if let Some(want) = positions(written, case)? {
        same_at(written, &want, &applied_flat(written, want.len())?)?;
    }
    Ok(Agreement::Same)
}

pub(crate) fn texts(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        tally.case(format!("{i}: {}", case["text"]), print_form(case));
    }
    Ok(())
}

/// Extents and strides in order, whatever the nesting: one header nests the two differently.
fn flat(layout: &str) -> Vec<String> {
    let parts = layout.split(['(', ')', ',']).map(|s| s.trim_matches(':').to_string());
    parts.filter(|s| !s.is_empty()).collect()
}

/// Whether shape and stride are nested alike.
fn is_congruent(layout: &str) -> bool {
    let nesting = |s: &str| s.replace(|c: char| c.is_ascii_digit() || c == '_', "");
    layout.split_once(':').is_some_and(|(shape, stride)| nesting(shape) == nesting(stride))
}

/// Elements of an operand that a check counts.
const COUNTED: i64 = 1 << 20;

/// An atom is found by its name, with the recorded layouts; every element of an operand is held as often as recorded.
fn atom(case: &Value) -> Checked {
    let name = text(case, "name")?;
    let found = ok(&json!({"op": "presets", "name": name}))?;
    let atom = &found["atom"];
    same("the kind", &case["kind"], &atom["kind"])?;
    same("the thread ids", &case["thr_id"], &atom["thr_id"])?;
    let is_mma = case["kind"] == "mma";
    let parts: &[&str] = if is_mma { &["A", "B", "C"] } else { &["src", "dst", "ref"] };
    let sizes = match maybe(case, "shape_mnk") {
        Some(shape) => {
            same("the shape", shape, &atom["shape_mnk"])?;
            let [m, n, k] = ints(case, "shape_mnk")?[..] else {
                return Err(mismatch("three numbers in the field `shape_mnk`", shape));
            };
            vec![m * k, n * k, m * n]
        }
        None => Vec::new(),
    };
    for (k, part) in parts.iter().enumerate() {
        let lower = part.to_lowercase();
        let (want, own) = (text(case, &lower)?, text(atom, &lower)?);
        if want != own && (is_congruent(want) || flat(want) != flat(own)) {
            return Err(mismatch(format!("{part} is {want}"), own));
        }
        let preset = ok(&json!({"op": "presets", "name": format!("{name}.{part}")}))?;
        same("the preset", &json!(own), &preset["presets"][0]["layout"])?;
        let parsed = ok(&json!({"op": "parse", "layout": own}))?;
        let modes = known(own)?;
        let size: i64 = modes.iter().map(|(n, _)| *n).product();
        same("the size", &json!(size), &parsed["size"])?;
        let (Some(times), Some(elements)) = (case["cover"][&lower].as_i64(), sizes.get(k)) else {
            continue;
        };
        if size > COUNTED || *elements > COUNTED {
            continue;
        }
        let mut held = vec![0i64; usize::try_from(*elements).unwrap_or(0)];
        for at in offsets(&modes) {
            match usize::try_from(at).ok().and_then(|at| held.get_mut(at)) {
                Some(count) => *count += 1,
                None => return Err(mismatch(format!("{part} has {elements} elements"), at)),
            }
        }
        same_at(&format!("how often {part} is held"), &vec![times; held.len()], &held)?;
    }
    Ok(Agreement::Same)
}

pub(crate) fn atoms(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for case in cases(data)? {
        tally.case(&case["name"], atom(case));
    }
    Ok(())
}
