//! CuTe: operators, print forms, atoms.

use crate::case::{
    CaseAgreement, CaseMismatch, CheckedCase, apply_flat, ask_engine, check_same, check_same_at,
    expect_answer, expect_witness, int_field, ints_field, mismatch_between, optional_field,
    refusal_text, text_field,
};
use crate::{CaseTally, list_cases};
use serde_json::{Value, json};

/// The numbers of a tuple in order, whatever its nesting: `(8,(_2,4))` is 8, 2, 4.
fn tuple_leaves(tuple: &str) -> Option<Vec<i64>> {
    let parts = tuple.split(['(', ')', ',']).map(|p| p.trim().trim_start_matches('_'));
    parts.filter(|p| !p.is_empty()).map(|p| p.parse().ok()).collect()
}

/// Extents and strides of `shape:stride`, in order.
fn parse_modes(layout: &str) -> Option<Vec<(i64, i64)>> {
    let (shape, stride) = layout.split_once(':')?;
    let (shape, stride) = (tuple_leaves(shape)?, tuple_leaves(stride)?);
    (shape.len() == stride.len()).then(|| shape.into_iter().zip(stride).collect())
}

/// The offset at an index by CuTe's definition: the index is split over the leaves, the first fastest, and the last
/// leaf continues past its extent.
fn offset_at(modes: &[(i64, i64)], index: i64) -> i64 {
    let (mut rest, mut at) = (index, 0);
    for (k, (extent, stride)) in modes.iter().enumerate() {
        let last = k + 1 == modes.len();
        let digit = if last { rest } else { rest % extent.max(&1) };
        rest = if last { 0 } else { rest / extent.max(&1) };
        at += digit * stride;
    }
    at
}

fn all_offsets(modes: &[(i64, i64)]) -> Vec<i64> {
    let size: i64 = modes.iter().map(|(n, _)| *n).product();
    (0..size).map(|i| offset_at(modes, i)).collect()
}

fn require_modes(layout: &str) -> Result<Vec<(i64, i64)>, CaseMismatch> {
    parse_modes(layout).ok_or_else(|| mismatch_between("a text `shape:stride` of integers", layout))
}

/// The request of a recorded operator.
fn operator_request(case: &Value) -> Result<Value, CaseMismatch> {
    let op = text_field(case, "op")?;
    let a = &case["a"];
    Ok(match op {
        "coalesce" | "right_inverse" | "left_inverse" => {
            json!({"op": op, "layout": a, "notation": "cute"})
        }
        "complement" => {
            json!({"op": op, "layout": a, "cosize": int_field(case, "cotarget")?, "notation": "cute"})
        }
        _ => match optional_field(case, "tiler") {
            Some(tiler) => json!({"op": op, "a": a, "tiler": tiler, "notation": "cute"}),
            None => json!({"op": op, "a": a, "b": case["b"], "notation": "cute"}),
        },
    })
}

/// What is verified comes out as a library prints it, with the recorded offsets; what is not is right or refused.
fn check_operator(case: &Value) -> CheckedCase {
    let request = operator_request(case)?;
    if case["class"] == "verified" {
        let answer = expect_answer(&request)?;
        let found = text_field(&answer, "layout")?;
        // The libraries print the same function in different forms, so each of the recorded texts is right.
        let libraries = ["pycute", "tensor_layouts", "cutegen", "cute"];
        let texts: Vec<&str> = libraries.iter().filter_map(|l| case[*l].as_str()).collect();
        if !texts.contains(&found) {
            return Err(mismatch_between(format!("{request} is {}", texts.join(" or ")), found));
        }
        if case["op"] == "left_inverse" {
            // Past the image of the layout an inverse is free, so its offsets are not compared; its law is.
            let (a, inverse) = (require_modes(text_field(case, "a")?)?, require_modes(found)?);
            let back: Vec<i64> =
                all_offsets(&a).iter().map(|at| offset_at(&inverse, *at)).collect();
            check_same_at("the index back", &(0..).take(back.len()).collect::<Vec<i64>>(), &back)?;
        } else if optional_field(case, "offsets").is_some() {
            let want = ints_field(case, "offsets")?;
            check_same_at("offsets", &want, &apply_flat(found, want.len())?)?;
            check_same_at(
                "offsets by the definition",
                &want,
                &all_offsets(&require_modes(found)?),
            )?;
        }
        return Ok(CaseAgreement::Same);
    }
    // The record says that no layout exists; only a refusal that proves it is right.
    let Some(truth) = case["truth_layout"].as_str() else {
        expect_witness(&request)?;
        return Ok(CaseAgreement::UpstreamWrong);
    };
    let answer = expect_answer(&request)?;
    let found = text_field(&answer, "layout")?;
    let want = match optional_field(case, "truth_offsets") {
        Some(_) => ints_field(case, "truth_offsets")?,
        None => all_offsets(&require_modes(truth)?),
    };
    check_same_at(&format!("{request} is {truth}"), &want, &all_offsets(&require_modes(found)?))?;
    check_same_at(&format!("{request} is {truth}"), &want, &apply_flat(found, want.len())?)?;
    Ok(CaseAgreement::UpstreamWrong)
}

pub(crate) fn check_operators(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        let b = optional_field(case, "tiler")
            .or(optional_field(case, "b"))
            .or(optional_field(case, "cotarget"));
        let b = b.map(|b| format!(", {b}")).unwrap_or_default();
        tally.count_case(format!("{i}: {} of {}{b}", case["op"], case["a"]), check_operator(case));
    }
    Ok(())
}

/// Offsets of elements of a text by the definition: the swizzle acts on the address, in bytes if a pointer has the
/// width of an element.
fn defined_offsets(written: &str, case: &Value) -> Result<Option<Vec<i64>>, CaseMismatch> {
    let layout = format!("{}:{}", text_field(case, "shape")?, text_field(case, "stride")?);
    let Some(modes) = parse_modes(&layout) else { return Ok(None) };
    let mut plain = all_offsets(&modes);
    let Some(swizzle) = optional_field(case, "swizzle") else { return Ok(Some(plain)) };
    let swizzle = crate::case::parse_integers(swizzle, "swizzle")?;
    let [bits, base, shift] = swizzle[..] else {
        return Err(mismatch_between(
            "three numbers in the field `swizzle`",
            format!("{swizzle:?}"),
        ));
    };
    // A pointer behind the swizzle: `Sw<..> o smem_ptr[16b](..) o ..`, or `Sw<..>_smem_ptr[16b](..) o ..`.
    let at = written.find('>').unwrap_or(0);
    let pointer = written[at..].split_once("ptr[").and_then(|(_, rest)| rest.split_once("b]"));
    let base = match pointer.and_then(|(bits, _)| bits.parse::<i64>().ok()) {
        // Bits of an address in elements: 8 bits are a byte, and addresses of bytes are swizzled.
        // The logarithm of the width: an element of 16 bits is one bit of address above a byte.
        Some(width) => base + 3 - i64::from(width.ilog2()),
        None => base,
    };
    // The offset between swizzle and layout is added before the swizzle, so it changes which bits are exchanged.
    let start = written.split(" o ").nth(1).and_then(tuple_leaves).map_or(0, |l| l[0]);
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

/// A text is printed as it is read. A layout has the recorded offsets; any other text is refused.
fn check_print_form(case: &Value) -> CheckedCase {
    let written = text_field(case, "text")?;
    let request = json!({"op": "parse", "layout": written, "notation": "cute"});
    if optional_field(case, "shape").is_none() {
        return match ask_engine(&request) {
            Ok(found) => Err(mismatch_between(format!("{written} is no layout"), found)),
            Err(e) if e["message"].is_string() && e["kind"] != "internal" => {
                Ok(CaseAgreement::Same)
            }
            Err(e) => Err(mismatch_between(format!("{written} is no layout"), refusal_text(&e))),
        };
    }
    let found = expect_answer(&request)?;
    check_same("the text", &found["layout"], &json!(written))?;
    check_same("the notation", &found["notation"], &json!("cute"))?;
    let detected = expect_answer(&json!({"op": "parse", "layout": written}))?;
    check_same("the notation that is recognised", &detected["notation"], &json!("cute"))?;
    if let Some(want) = defined_offsets(written, case)? {
        check_same_at(written, &want, &apply_flat(written, want.len())?)?;
    }
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_texts(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        tally.count_case(format!("{i}: {}", case["text"]), check_print_form(case));
    }
    Ok(())
}

/// Extents and strides in order, whatever the nesting: one header nests the two differently.
fn flat_leaves(layout: &str) -> Vec<String> {
    let parts = layout.split(['(', ')', ',']).map(|s| s.trim_matches(':').to_string());
    parts.filter(|s| !s.is_empty()).collect()
}

/// Whether shape and stride are nested alike.
fn is_congruent(layout: &str) -> bool {
    let nesting = |s: &str| s.replace(|c: char| c.is_ascii_digit() || c == '_', "");
    layout.split_once(':').is_some_and(|(shape, stride)| nesting(shape) == nesting(stride))
}

/// Elements of an operand that a check counts.
const MAX_COUNTED_ELEMENTS: i64 = 1 << 20;

/// An atom is found by its name, with the recorded layouts; every element of an operand is held as often as recorded.
fn check_atom(case: &Value) -> CheckedCase {
    let name = text_field(case, "name")?;
    let found = expect_answer(&json!({"op": "presets", "name": name}))?;
    let atom = &found["atom"];
    check_same("the kind", &case["kind"], &atom["kind"])?;
    check_same("the thread ids", &case["thr_id"], &atom["thr_id"])?;
    let is_mma = case["kind"] == "mma";
    let parts: &[&str] = if is_mma { &["A", "B", "C"] } else { &["src", "dst", "ref"] };
    let sizes = match optional_field(case, "shape_mnk") {
        Some(shape) => {
            check_same("the shape", shape, &atom["shape_mnk"])?;
            let [m, n, k] = ints_field(case, "shape_mnk")?[..] else {
                return Err(mismatch_between("three numbers in the field `shape_mnk`", shape));
            };
            vec![m * k, n * k, m * n]
        }
        None => Vec::new(),
    };
    for (k, part) in parts.iter().enumerate() {
        let lower = part.to_lowercase();
        let (want, own) = (text_field(case, &lower)?, text_field(atom, &lower)?);
        // Where the header nests shape and stride differently, the text has no single reading, and only the numbers
        // are compared.
        if want != own && (is_congruent(want) || flat_leaves(want) != flat_leaves(own)) {
            return Err(mismatch_between(format!("{part} is {want}"), own));
        }
        let preset = expect_answer(&json!({"op": "presets", "name": format!("{name}.{part}")}))?;
        check_same("the preset", &json!(own), &preset["presets"][0]["layout"])?;
        let parsed = expect_answer(&json!({"op": "parse", "layout": own}))?;
        let modes = require_modes(own)?;
        let size: i64 = modes.iter().map(|(n, _)| *n).product();
        check_same("the size", &json!(size), &parsed["size"])?;
        let (Some(times), Some(elements)) = (case["cover"][&lower].as_i64(), sizes.get(k)) else {
            continue;
        };
        if size > MAX_COUNTED_ELEMENTS || *elements > MAX_COUNTED_ELEMENTS {
            continue;
        }
        let mut held = vec![0i64; usize::try_from(*elements).unwrap_or(0)];
        for at in all_offsets(&modes) {
            match usize::try_from(at).ok().and_then(|at| held.get_mut(at)) {
                Some(count) => *count += 1,
                None => {
                    return Err(mismatch_between(format!("{part} has {elements} elements"), at));
                }
            }
        }
        check_same_at(&format!("how often {part} is held"), &vec![times; held.len()], &held)?;
    }
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_atoms(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for case in list_cases(data)? {
        tally.count_case(&case["name"], check_atom(case));
    }
    Ok(())
}
