//! Layouts and requests whose shapes fit each other, so that they get past the parsers.

use crate::rng::Rng;
use crate::seeds::SEEDS;
use serde_json::{Value, json};
use zellige_notation::Notation;

/// Numbers where arithmetic goes wrong, as they are written.
pub(crate) const EXTREMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "7",
    "31",
    "32",
    "33",
    "64",
    "100",
    "127",
    "128",
    "255",
    "4096",
    "65536",
    "1048576",
    "4194304",
    "4194305",
    "16777216",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967296",
    "1099511627776",
    "4503599627370497",
    "2305843009213693951",
    "4611686018427387903",
    "4611686018427387904",
    "-4611686018427387904",
    "6074001000",
    "9223372036854775806",
    "9223372036854775807",
    "-9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e400",
    "1e300",
    "1.5",
    "-0",
    "-0.0",
];

pub(crate) const FRAGMENTS: &[&str] = &[
    "S[",
    "R[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "@",
    "m",
    "laneid",
    "pid",
    "tid",
    "reg",
    " + ",
    " - ",
    "-",
    "valid[",
    "..",
    "/",
    "Swizzle(",
    " o ",
    "∘",
    "inner",
    "outer",
    "size=",
    "stride=",
    "offset=",
    "host_size=[",
    "element_arrangement=QFP8WT",
    "element_arrangement=DL16_TO_FP32",
    "S[]",
    "R[1:0]",
    "\u{0}",
    "\n",
    "\t",
    "\u{7f}",
    "\u{202e}",
    "é",
    "\u{1f4a9}",
    "\u{feff}",
    "\\",
    "\"",
    "{",
    "}",
    "[",
    "null",
    "\u{a0}",
    "٣",
    "+5@warpid",
    " valid[1/1]",
    "S[0:0]",
    "R[1048576:0]",
    "S[2:0]",
];

pub(crate) fn extreme(rng: &mut Rng) -> &'static str {
    rng.pick(EXTREMES)
}

/// An integer that a well-formed layout may well have.
pub(crate) fn plausible(rng: &mut Rng) -> i64 {
    if rng.one_in(6) {
        return rng.pick(EXTREMES).parse().unwrap_or(1);
    }
    let small = i64::try_from(rng.below(17)).unwrap_or(0);
    if rng.one_in(3) { 1 << (rng.below(44)) } else { small }
}

/// A layout whose extents multiply to something that fits, and its extents.
pub(crate) fn layout_text(rng: &mut Rng) -> (String, Vec<i64>) {
    let axes = ["", "", "", "@laneid", "@warpid", "@pid", "@TCol"];
    let iters = |rng: &mut Rng, most: usize, low: i64| {
        let (mut extents, mut strides, mut total) = (Vec::new(), Vec::new(), 1i64);
        for _ in 0..rng.below(most + 1) {
            let e = plausible(rng).max(low);
            let Some(t) = total.checked_mul(e.max(1)) else { continue };
            total = t;
            extents.push(e);
            let s = match rng.below(4) {
                0 => total / e.max(1),
                1 => -plausible(rng).saturating_abs(),
                _ => plausible(rng),
            };
            strides.push(format!("{s}{}", rng.pick(&axes)));
        }
        (extents, strides)
    };
    let text = |letter: char, extents: &[i64], strides: &[String]| {
        let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
        format!("{letter}[({}):({})]", extents.join(","), strides.join(","))
    };
    let low = i64::from(!rng.one_in(8));
    let (mut shape, strides) = iters(rng, 5, low);
    let mut out = text('S', &shape, &strides);
    if rng.one_in(3) {
        let (extents, strides) = iters(rng, 2, 1);
        out = format!("{out} + {}", text('R', &extents, &strides));
    }
    if rng.one_in(3) {
        out = format!("{out} + {}{}", plausible(rng), rng.pick(&axes));
    }
    if rng.one_in(4) {
        let (b, s) = (rng.below(6), rng.below(30));
        let outer = if rng.one_in(4) { ",outer" } else { "" };
        out = format!("Swizzle({},{b},{}{outer}) o {out}", rng.below(12), b + s);
    }
    if rng.one_in(4) && !shape.is_empty() {
        let dims: Vec<String> = shape
            .iter_mut()
            .map(|e| {
                let padded = *e;
                let begin = (plausible(rng).saturating_abs()).min(padded);
                let end = begin.saturating_add(plausible(rng).saturating_abs()).min(padded);
                *e = end - begin;
                format!("{begin}..{end}/{padded}")
            })
            .collect();
        out = format!("{out} valid[{}]", dims.join(","));
    }
    (out, shape)
}

/// Iters of one small extent each, in an order of memory that is none of their own: what notations of tiles and blocks take
/// many of.
pub(crate) fn scattered_text(rng: &mut Rng) -> (String, Vec<i64>) {
    let extents: Vec<i64> = (0..1 + rng.below(40)).map(|_| rng.pick(&[2, 2, 2, 3])).collect();
    let mut order: Vec<usize> = (0..extents.len()).collect();
    if rng.one_in(2) {
        order.reverse();
    } else {
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
    }
    let (mut strides, mut next) = (vec![0i64; extents.len()], 1i64);
    let axis = rng.pick(&["", "", "@pid"]);
    for k in order.into_iter().rev() {
        strides[k] = next;
        next = next.saturating_mul(extents[k]);
    }
    let list =
        |v: &[i64], end: &str| v.iter().map(|x| format!("{x}{end}")).collect::<Vec<_>>().join(",");
    (format!("S[({}):({})]", list(&extents, ""), list(&strides, axis)), extents)
}

/// The same number of elements in another shape.
pub(crate) fn reshaped(rng: &mut Rng, shape: &[i64]) -> Vec<i64> {
    let total = shape.iter().try_fold(1i64, |t, e| t.checked_mul(*e));
    match (rng.below(4), total) {
        (0, Some(t)) => vec![t],
        (1, Some(t)) => {
            let d = [2, 3, 8, 32, 64, 1 << 20].into_iter().find(|d| t % d == 0).unwrap_or(1);
            if rng.one_in(2) { vec![t / d, d] } else { vec![d, t / d] }
        }
        _ => shape.to_vec(),
    }
}

/// A seed with layouts and shapes that fit each other.
pub(crate) fn generate(rng: &mut Rng) -> Value {
    let mut request: Value = serde_json::from_str(rng.pick(SEEDS)).expect("seeds are JSON");
    let object = request.as_object_mut().expect("seeds are objects");
    let (text, shape) = if rng.one_in(6) { scattered_text(rng) } else { layout_text(rng) };
    let notations: Vec<Notation> = Notation::all_notations().collect();
    let keys: Vec<String> = object.keys().cloned().collect();
    for key in keys {
        let own = shape.clone();
        let value =
            match key.as_str() {
                "layout" => json!(text),
                "to" if object.get("op").is_some_and(|op| op != "reshard") => {
                    json!(rng.pick(&notations).name())
                }
                "a" | "b" | "inner" | "outer" | "tiled" | "sum" | "left" | "right" => {
                    if rng.one_in(2) { json!(layout_text(rng).0) } else { json!(text) }
                }
                "layouts" => json!([text, text]),
                "shape" => json!(reshaped(rng, &own)),
                "shapes" => json!([reshaped(rng, &own), own]),
                "tiled_shape" | "outer_shape" | "inner_shape" | "to_shape" | "left_shape"
                | "right_shape" => {
                    if rng.one_in(2) {
                        continue;
                    } else {
                        json!(reshaped(rng, &own))
                    }
                }
                "region" => json!(
                    own.iter()
                        .map(|e| {
                            let b = plausible(rng).saturating_abs().min(*e);
                            let end = b.saturating_add(plausible(rng).saturating_abs()).min(*e);
                            [b, end]
                        })
                        .collect::<Vec<_>>()
                ),
                "coords" => {
                    let c: Vec<i64> = own.iter().map(|e| plausible(rng).min(e - 1)).collect();
                    json!([c])
                }
                "perm" => json!((0..own.len()).rev().collect::<Vec<_>>()),
                "num" | "cosize" => json!(plausible(rng)),
                "place" => json!({"m": plausible(rng)}),
                "size" | "device_size" | "stride" | "stride_map" => {
                    let list = value_list(&object[&key]);
                    json!(
                        list.iter()
                            .map(|v| if rng.one_in(3) { plausible(rng) } else { *v })
                            .collect::<Vec<_>>()
                    )
                }
                _ => continue,
            };
        object.insert(key, value);
    }
    request
}

pub(crate) fn value_list(v: &Value) -> Vec<i64> {
    v.as_array().map(|l| l.iter().filter_map(Value::as_i64).collect()).unwrap_or_default()
}

pub(crate) fn count(v: &Value) -> usize {
    1 + match v {
        Value::Array(list) => list.iter().take(64).map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}
