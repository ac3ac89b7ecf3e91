//! Shardings: which device holds which element, and where.

use crate::case::{
    CaseAgreement, CaseMismatch, CheckedCase, NamedPlace, all_coordinates, apply_layout,
    check_same, check_same_at, expect_answer, flatten_coordinate, ints_field, list_field,
    mismatch_between, parse_integers, text_field, unflatten_index,
};
use crate::{CaseTally, list_cases};
use serde_json::{Value, json};

/// An entry of a spec: nothing, an axis, or several.
fn format_entry(v: &Value) -> String {
    match v {
        Value::Null => "None".to_string(),
        Value::Array(axes) => {
            let names: Vec<String> = axes.iter().map(format_entry).collect();
            format!("({})", names.join(", "))
        }
        other => format!("'{}'", other.as_str().unwrap_or("?")),
    }
}

fn nested_ranks(sizes: &[i64], flat: &[i64]) -> String {
    let Some((first, rest)) = sizes.split_first() else {
        return flat.first().map(ToString::to_string).unwrap_or_default();
    };
    let step = flat.len() / usize::try_from(*first).unwrap_or(1).max(1);
    let parts: Vec<String> =
        flat.chunks(step.max(1)).map(|part| nested_ranks(rest, part)).collect();
    format!("[{}]", parts.join(", "))
}

/// Who holds each element: sorted pairs of a device and the address there.
type ElementHolders = Vec<Vec<(i64, i64)>>;

fn find_holders(
    places: &[Vec<NamedPlace>],
    device: impl Fn(&NamedPlace) -> Option<i64>,
) -> Option<ElementHolders> {
    let one = |set: &Vec<NamedPlace>| {
        let pairs = set.iter().map(|p| Some((device(p)?, p.get("m").copied().unwrap_or(0))));
        let mut pairs: Vec<(i64, i64)> = pairs.collect::<Option<_>>()?;
        pairs.sort_unstable();
        Some(pairs)
    };
    places.iter().map(one).collect()
}

/// The definition: a device holds the elements of its slices, row-major.
fn holders_by_slices(
    case: &Value,
    shape: &[i64],
    elements: usize,
) -> Result<ElementHolders, CaseMismatch> {
    let mut all: ElementHolders = vec![Vec::new(); elements];
    let slices = case["device_slices"].as_object();
    let slices =
        slices.ok_or_else(|| mismatch_between("an object in the field `device_slices`", case))?;
    for (device, ranges) in slices {
        let device: i64 =
            device.parse().map_err(|_| mismatch_between("the number of a device", device))?;
        let ranges = ranges.as_array().map_or(&[][..], Vec::as_slice).iter();
        let ranges = ranges.map(|r| parse_integers(r, "device_slices"));
        let ranges = ranges.collect::<Result<Vec<_>, CaseMismatch>>()?;
        if ranges.len() != shape.len() || ranges.iter().any(|r| r.len() != 2) {
            return Err(mismatch_between("a range for every dimension", format!("{ranges:?}")));
        }
        let shard: Vec<i64> = ranges.iter().map(|r| r[1] - r[0]).collect();
        // JAX divides evenly, so every device has the same shape; a record that says otherwise is broken.
        check_same("the shape of a shard", &ints_field(case, "shard_shape")?, &shard)?;
        for i in 0..shard.iter().product() {
            let inside = unflatten_index(&shard, i);
            let coord: Vec<i64> = inside.iter().zip(&ranges).map(|(c, r)| c + r[0]).collect();
            let at =
                usize::try_from(flatten_coordinate(shape, &coord)).ok().filter(|at| *at < elements);
            let at = at.ok_or_else(|| {
                mismatch_between("slices inside of the tensor", format!("{coord:?}"))
            })?;
            all[at].push((device, i));
        }
    }
    all.iter_mut().for_each(|set| set.sort_unstable());
    Ok(all)
}

fn check_sharding(case: &Value) -> CheckedCase {
    let names = list_field(case, "mesh_axes")?.iter().map(|n| n.as_str().unwrap_or("?"));
    let names: Vec<&str> = names.collect();
    let (sizes, shape) = (ints_field(case, "mesh_shape")?, ints_field(case, "shape")?);
    let numbers = ints_field(case, "device_order")?;
    let spec: Vec<String> = list_field(case, "spec")?.iter().map(format_entry).collect();
    let spec = format!("PartitionSpec({})", spec.join(", "));
    let axes = names.iter().zip(&sizes).map(|(n, s)| format!("'{n}': {s}"));
    let axes: Vec<String> = axes.collect();
    let quoted: Vec<String> = names.iter().map(|n| format!("'{n}'")).collect();
    let comma = if names.len() == 1 { "," } else { "" };
    // The same sharding as three texts: axes and sizes, the print form of JAX, the numbers of the devices.
    let plain = format!("Mesh({}) {spec}", axes.join(", "));
    let named =
        format!("NamedSharding(mesh=Mesh({}), spec={spec}, memory_kind=device)", axes.join(", "));
    let numbered = format!(
        "Mesh(device_ids={}, axis_names=({}{comma})) {spec}",
        nested_ranks(&sizes, &numbers),
        quoted.join(", ")
    );
    let coords = all_coordinates(&shape)?;
    let want = holders_by_slices(case, &shape, coords.len())?;
    let of_mesh = |p: &NamedPlace| {
        // The axis of memory is `m`: a mesh axis of that name has another one.
        let at = |name: &&str| p.get(if *name == "m" { "mesh_m" } else { name }).copied();
        let at: Vec<i64> = names.iter().map(|n| at(n).unwrap_or(0)).collect();
        numbers.get(usize::try_from(flatten_coordinate(&sizes, &at)).ok()?).copied()
    };
    for written in [&plain, &named, &numbered] {
        let parsed = expect_answer(&json!({"op": "parse", "layout": written, "shape": shape}))?;
        check_same("the text", &json!(written), &parsed["layout"])?;
        check_same("the notation", &json!("jax"), &parsed["notation"])?;
        let found = find_holders(&apply_layout(&json!(written), &shape, &coords)?, of_mesh);
        let found = found.ok_or_else(|| mismatch_between("devices of the mesh", written))?;
        check_same_at(&format!("{written}: devices and addresses"), &want, &found)?;
    }
    // The text of HLO is the same over the devices counted in the order of the mesh.
    let hlo = text_field(case, "hlo_sharding")?;
    let convert = json!({"op": "convert", "layout": numbered, "shape": shape, "to": "hlo"});
    check_same("the HLO text", &json!(hlo), &expect_answer(&convert)?["text"])?;
    // Replication is over all devices and names none, so the text has no devices to compare.
    if hlo != "{replicated}" {
        let found = apply_layout(&json!(hlo), &shape, &coords)?;
        let number = |p: &NamedPlace| p.get("pid").copied().unwrap_or(0);
        let found =
            find_holders(&found, |p| numbers.get(usize::try_from(number(p)).ok()?).copied());
        check_same_at("devices and addresses of the HLO text", &want, &found.unwrap_or_default())?;
    }
    Ok(CaseAgreement::Same)
}

pub(crate) fn check_jax(data: &Value, tally: &mut CaseTally) -> Result<(), CaseMismatch> {
    for (i, case) in list_cases(data)?.iter().enumerate() {
        let name =
            format!("{i}: {} over {} {}", case["spec"], case["mesh_axes"], case["mesh_shape"]);
        tally.count_case(name, check_sharding(case));
    }
    Ok(())
}
