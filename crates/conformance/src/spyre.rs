//! Device layouts of Spyre and transfers to and from them.

use crate::case::{
    CaseAgreement, CaseMismatch, CheckedCase, ask_engine, check_same, check_same_at, expect_answer,
    int_field, ints_field, list_field, mismatch_between, optional_field, parse_integers,
    refusal_text, text_field,
};
use crate::{CaseTally, list_cases};
use serde_json::{Value, json};

/// A request with these fields of a case, those that are null left out.
fn request_with_fields(case: &Value, op: &str, fields: &[(&str, &str)]) -> Value {
    let mut request = json!({ "op": op });
    for (from, to) in fields {
        if let Some(value) = optional_field(case, from) {
            request[*to] = value.clone();
        }
    }
    request
}

fn check_same_layout(case: &Value, found: &Value) -> Result<(), CaseMismatch> {
    check_same("device_size", &case["device_size"], &found["device_size"])?;
    check_same("stride_map", &case["stride_map"], &found["stride_map"])
}

/// Every element of the host on the card: pairs of a host address and a device address that loops copy.
fn copied_pairs(nests: &[Value], names: [&str; 5]) -> Result<Vec<(i64, i64)>, CaseMismatch> {
    let mut all = Vec::new();
    for nest in nests {
        let [sizes, from, to, first, second] = names;
        let (from, to) = (ints_field(nest, from)?, ints_field(nest, to)?);
        let mut pairs = vec![(int_field(nest, first)?, int_field(nest, second)?)];
        for ((n, s), d) in ints_field(nest, sizes)?.into_iter().zip(from).zip(to) {
            // Every pair is listed: two nests may cut the same copies in different ways, and only the pairs are the
            // same.
            let steps = |(a, b): (i64, i64)| (0..n).map(move |i| (a + i * s, b + i * d));
            pairs = pairs.into_iter().flat_map(steps).collect();
        }
        all.extend(pairs);
    }
    all.sort_unstable();
    Ok(all)
}

const RECORDED: [&str; 5] = ["size", "stride_src", "stride_dst", "offset_src", "offset_dst"];
const ANSWERED: [&str; 5] = ["size_", "stride_src_", "stride_dst_", "offset_src_", "offset_dst_"];
const NESTS: [&str; 5] =
    ["ranges", "host_strides", "device_strides", "host_offset", "device_offset"];

/// The device address of every element of a host without gaps, straight from the definition: the `stride_map` gives the
/// host address of a device coordinate, and along a dimension of -1 only the first coordinate has one. What is past the host, and
/// what runs over the end of its dimension into the next, is padding.
fn defined_pairs(case: &Value, sizes: &[i64], first: i64) -> Option<Vec<(i64, i64)>> {
    let (device, map) =
        (ints_field(case, "device_size").ok()?, ints_field(case, "stride_map").ok()?);
    let elements: i64 = sizes.iter().product();
    let positions: i64 = device.iter().product();
    // The definition visits every position of the device; larger cases are compared by their loops alone.
    if !(0..=1 << 20).contains(&positions) || map.len() != device.len() {
        return None;
    }
    let mut found: Vec<Option<i64>> = vec![None; usize::try_from(elements).ok()?];
    for p in 0..positions {
        let at = crate::case::unflatten_index(&device, p);
        if at.iter().zip(&map).any(|(c, w)| *w < 0 && *c > 0) {
            continue;
        }
        let element: i64 = at.iter().zip(&map).map(|(c, w)| c * w.max(&0)).sum();
        if let Some(slot) = usize::try_from(element).ok().and_then(|e| found.get_mut(e)) {
            // Two positions of one element: which of them is padding needs the dimensions of the host.
            if slot.is_some() {
                return None;
            }
            *slot = Some(p);
        }
    }
    let pairs = (first..).zip(&found).map(|(host, p)| p.map(|p| (host, p)));
    pairs.collect()
}

fn check_layout(case: &Value) -> CheckedCase {
    if case["kind"] != "explicit" {
        let fields = [
            ("size", "size"),
            ("stride", "stride"),
            ("dtype", "dtype"),
            ("dim_order", "dim_order"),
        ];
        let mut request = request_with_fields(case, "spyre_layout", &fields);
        let sizes = ints_field(case, "size")?;
        let mut differs = false;
        if optional_field(case, "dim_order").is_none() && sizes.contains(&1) {
            // The documents say that dimensions of size 1 do not contribute, and the other implementation keeps them:
            // our default follows the documents, and an explicit order gives the other answer.
            let found = expect_answer(&request)?;
            let squeezed: Vec<i64> = sizes.iter().copied().filter(|n| *n != 1).collect();
            let without = expect_answer(
                &json!({"op": "spyre_layout", "size": squeezed, "dtype": case["dtype"]}),
            )?;
            check_same("the layout without dimensions of size 1", &without, &found)?;
            request["dim_order"] = (0..sizes.len()).collect();
            differs = true;
        }
        let found = expect_answer(&request)?;
        check_same_layout(case, &found)?;
        if let Some(bytes) = optional_field(case, "nbytes") {
            check_same("bytes", bytes, &found["bytes"])?;
        }
        return Ok(if differs { CaseAgreement::UpstreamWrong } else { CaseAgreement::Same });
    }
    // A layout that is given: its text is read and printed, and it moves every element of its host once.
    let format = optional_field(case, "device_dtype").and_then(Value::as_str);
    if let Some(message) = optional_field(case, "error").and_then(Value::as_str) {
        let request = json!({"op": "spyre_dtype", "device_size": case["device_size"], "stride_map": case["stride_map"], "dtype": case["dtype"], "to_dtype": case["dtype"]});
        return match ask_engine(&request) {
            Err(e) if refusal_text(&e).contains(message) => Ok(CaseAgreement::Same),
            Err(e) => Err(mismatch_between(message, refusal_text(&e))),
            Ok(found) => Err(mismatch_between(message, found)),
        };
    }
    let usual =
        expect_answer(&json!({"op": "spyre_layout", "size": [64], "dtype": case["dtype"]}))?;
    let printed = format!(
        "SpyreTensorLayout(device_size={:?}, stride_map ={:?}, device_dtype=DataFormats.{})",
        ints_field(case, "device_size")?,
        ints_field(case, "stride_map")?,
        // The record names a format that is not the one of the dtype.
        format.or(usual["device_dtype"].as_str()).unwrap_or("?")
    );
    let mut request = json!({"op": "parse", "layout": printed});
    if optional_field(case, "size").is_some() {
        request["shape"] = case["size"].clone();
    }
    let parsed = expect_answer(&request)?;
    check_same("the text", &json!(printed), &parsed["layout"])?;
    check_same("the notation", &json!("spyre"), &parsed["notation"])?;
    if format.is_some() || optional_field(case, "size").is_none() {
        return Ok(CaseAgreement::Same);
    }
    check_transfers(case, "size", "stride")?;
    Ok(CaseAgreement::Same)
}

/// Moves to and from the device copy every element once, to the place of the definition.
pub(crate) fn check_transfers(case: &Value, size: &str, stride: &str) -> Result<(), CaseMismatch> {
    let fields = [
        (size, "size"),
        (stride, "stride"),
        ("offset", "offset"),
        ("dtype", "dtype"),
        ("device_size", "device_size"),
        ("stride_map", "stride_map"),
    ];
    let mut request = request_with_fields(case, "dma", &fields);
    if let Some(dtype) = request["dtype"].as_str() {
        let full = match dtype {
            "fp16" => "float16",
            "fp32" => "float32",
            other => other,
        };
        request["dtype"] = json!(full);
    }
    let there = copied_pairs(list_field(&expect_answer(&request)?, "nests")?, NESTS)?;
    let sizes = ints_field(case, size)?;
    let row_major = contiguous_strides(&sizes);
    let strides = match optional_field(case, stride) {
        Some(s) => parse_integers(s, stride)?,
        None => row_major.clone(),
    };
    let first = optional_field(case, "offset").and_then(Value::as_i64).unwrap_or(0);
    let mut addresses = element_addresses(&sizes, &strides, first);
    // Only then is the host address of an element its index, which the definition needs.
    if strides == row_major {
        // The way back reads each element once, from one of its places.
        request["direction"] = json!("d2h");
        let back = copied_pairs(list_field(&expect_answer(&request)?, "nests")?, NESTS)?;
        let own: Vec<i64> = back.iter().map(|(host, _)| *host).collect();
        check_same_at("host addresses of the way back", &addresses, &own)?;
        if let Some(pair) = back.iter().find(|pair| there.binary_search(pair).is_err()) {
            return Err(mismatch_between(
                "a way back from the places of the way there",
                format!("{pair:?}"),
            ));
        }
        if let Some(want) = defined_pairs(case, &sizes, first) {
            check_same_at("pairs of addresses", &want, &there)?;
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    let mut hosts: Vec<i64> = there.iter().map(|(host, _)| *host).collect();
    hosts.dedup();
    check_same_at("host addresses", &addresses, &hosts)?;
    let mut places: Vec<i64> = there.iter().map(|(_, device)| *device).collect();
    places.sort_unstable();
    let all = places.len();
    places.dedup();
    check_same("places, each written once:", &json!(all), &json!(places.len()))
}

/// Strides of a host without gaps.
fn contiguous_strides(sizes: &[i64]) -> Vec<i64> {
    let mut run = 1;
    let mut strides: Vec<i64> = sizes.iter().rev().map(|n| (run, run *= n).0).collect();
    strides.reverse();
    strides
}

/// The address of every element, row-major.
fn element_addresses(sizes: &[i64], strides: &[i64], first: i64) -> Vec<i64> {
    let address = |i| {
        let coord = crate::case::unflatten_index(sizes, i);
        first + coord.iter().zip(strides).map(|(c, s)| c * s).sum::<i64>()
    };
    (0..sizes.iter().product()).map(address).collect()
}

/// A view that other implementations move wrongly: each of its elements has the place of the same element of a tensor
/// without gaps.
fn check_view(case: &Value) -> CheckedCase {
    let mut case = case.clone();
    case["dtype"] = json!("float16");
    check_transfers(&case, "size", "cpu_stride")?;
    let (sizes, strides) = (ints_field(&case, "size")?, ints_field(&case, "cpu_stride")?);
    let first = optional_field(&case, "offset").and_then(Value::as_i64).unwrap_or(0);
    let fields = [
        ("size", "size"),
        ("dtype", "dtype"),
        ("device_size", "device_size"),
        ("stride_map", "stride_map"),
    ];
    let plain = request_with_fields(&case, "dma", &fields);
    let own = element_addresses(&sizes, &strides, first);
    let mut want = copied_pairs(list_field(&expect_answer(&plain)?, "nests")?, NESTS)?;
    for (element, _) in &mut want {
        let at = usize::try_from(*element).ok().and_then(|at| own.get(at));
        *element = *at.ok_or_else(|| mismatch_between("elements of the host", *element))?;
    }
    want.sort_unstable();
    let mut request = plain;
    request["stride"] = json!(strides);
    request["offset"] = json!(first);
    check_same_at(
        "pairs of addresses",
        &want,
        &copied_pairs(list_field(&expect_answer(&request)?, "nests")?, NESTS)?,
    )?;
    Ok(CaseAgreement::UpstreamWrong)
}

pub(crate) fn check_layouts(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        let name = format!("{i}: {} of {} on {}", case["kind"], case["size"], case["device_size"]);
        tally.count_case(name, check_layout(case));
    }
    Ok(())
}

/// A descriptor has the recorded loops, and copies the pairs that these copy.
fn check_descriptor(case: &Value) -> CheckedCase {
    let fields = [
        ("host_size", "size"),
        ("dtype", "dtype"),
        ("device_size", "device_size"),
        ("stride_map", "stride_map"),
        ("dma_stride", "tensor_stride"),
    ];
    for (direction, stride, offset) in
        [("h2d", "host_stride", &case["host_offset"]), ("d2h", "dma_stride", &json!(0))]
    {
        let mut request = request_with_fields(case, "dma", &fields);
        request["direction"] = json!(direction);
        request["stride"] = case[stride].clone();
        request["offset"] = offset.clone();
        let found = expect_answer(&request)?;
        let (made, want) = (&found["dci"], &case[direction]);
        // The names of fields are those of torch-spyre's descriptor.
        for field in ["isHostToSen_", "input_shape_", "output_shape_"] {
            check_same(&format!("{direction} {field}"), &want[field], &made[field])?;
        }
        let (loops, recorded) = (list_field(made, "dcsi_")?, list_field(want, "dcsi_")?);
        let own: Vec<Vec<&Value>> =
            loops.iter().map(|l| ANSWERED.iter().map(|f| &l[*f]).collect()).collect();
        let theirs: Vec<Vec<&Value>> =
            recorded.iter().map(|l| RECORDED.iter().map(|f| &l[*f]).collect()).collect();
        check_same_at(&format!("{direction} loops"), &theirs, &own)?;
        let pairs = copied_pairs(recorded, RECORDED)?;
        let mut nests = copied_pairs(list_field(&found, "nests")?, NESTS)?;
        if direction == "d2h" {
            nests.iter_mut().for_each(|(host, device)| std::mem::swap(host, device));
            nests.sort_unstable();
        }
        check_same_at(&format!("{direction} pairs"), &pairs, &nests)?;
    }
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_descriptors(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        let name = format!("{i}: {} on {}", case["host_size"], case["device_size"]);
        tally.count_case(name, check_descriptor(case));
    }
    Ok(())
}

fn check_restickified(case: &Value) -> CheckedCase {
    let restickify = |device: &str, map: &str, to: &str| {
        let fields = [
            ("size", "size"),
            ("stride", "stride"),
            ("dtype", "dtype"),
            (device, "device_size"),
            (map, "stride_map"),
            (to, "to_dim"),
        ];
        expect_answer(&request_with_fields(case, "restickify_layout", &fields))
    };
    let there = restickify("in_device_size", "in_stride_map", "to_stick")?;
    check_same("device_size", &case["out_device_size"], &there["device_size"])?;
    check_same("stride_map", &case["out_stride_map"], &there["stride_map"])?;
    // Restickifying back must give the first layout, which no record is needed for.
    let back = restickify("out_device_size", "out_stride_map", "from_stick")?;
    check_same("device_size of the way back", &case["in_device_size"], &back["device_size"])?;
    check_same("stride_map of the way back", &case["in_stride_map"], &back["stride_map"])?;
    Ok(CaseAgreement::Same)
}

fn check_rescaled(case: &Value) -> CheckedCase {
    // The dtype whose format on the card this is.
    let dtype = |format: &Value| match format.as_str() {
        Some("IEEE_FP32") => Ok("float32"),
        Some("SEN169_FP16") => Ok("float16"),
        Some("SEN143_FP8") => Ok("float8_e4m3fn"),
        _ => Err(mismatch_between("a format that a dtype has", format)),
    };
    let src = &case["src"];
    let mut request = json!({"op": "spyre_dtype", "device_size": src["device_size"], "stride_map": src["stride_map"], "dtype": dtype(&src["fmt"])?, "to_dtype": dtype(&case["dst"])?});
    if let Some(extent) = optional_field(case, "stick_extent") {
        request["stick_extent"] = extent.clone();
    }
    match (optional_field(case, "error").and_then(Value::as_str), ask_engine(&request)) {
        (Some(message), Err(e)) if refusal_text(&e).contains(message) => {}
        (Some(message), Err(e)) => return Err(mismatch_between(message, refusal_text(&e))),
        (Some(message), Ok(found)) => return Err(mismatch_between(message, found)),
        (None, found) => {
            let found =
                found.map_err(|e| mismatch_between(&case["device_size"], refusal_text(&e)))?;
            check_same_layout(case, &found)?;
            if let Some(name) = optional_field(case, "element_arrangement").and_then(Value::as_str)
            {
                let printed = text_field(&found, "text")?;
                if !printed.contains(name) {
                    return Err(mismatch_between(format!("the arrangement {name}"), printed));
                }
            }
        }
    }
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_extras(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_field(data, "restickify")?.iter().enumerate() {
        tally.count_case(format!("restickify {i}: {}", case["size"]), check_restickified(case));
    }
    for (i, case) in list_field(data, "rescale_dtype_asserted")?.iter().enumerate() {
        tally.count_case(
            format!("rescale_dtype {i}: {} to {}", case["src"], case["dst"]),
            check_rescaled(case),
        );
    }
    for (i, case) in list_field(data, "known_bad_h2d_june")?.iter().enumerate() {
        tally.count_case(format!("known_bad_h2d {i}: {}", case["expr"]), check_view(case));
    }
    for (kind, why) in [
        ("data_formats", "data formats"),
        ("torch_to_format", "formats of dtypes"),
        ("dci_supported_pairs_src_to_dst", "pairs of formats"),
        ("resize_june", "resized tensors"),
        ("device_coordinates_asserted", "coordinates of accesses"),
    ] {
        for _ in data[kind].as_array().into_iter().flatten() {
            tally.count_case(kind, Ok(CaseAgreement::LeftOut(why)));
        }
    }
    Ok(())
}
