//! Shardings: which device holds which element, and where.

use crate::case::{
    Agreement, Checked, Mismatch, Place, applied, coordinates, flatten, integers, ints, list,
    mismatch, ok, same, same_at, text, unflatten,
};
use crate::{Tally, cases};
use serde_json::{Value, json};

/// An entry of a spec: nothing, an axis, or several.
fn entry(v: &Value) -> String {
    match v {
        Value::Null => "None".to_string(),
        Value::Array(axes) => {
            let names: Vec<String> = axes.iter().map(entry).collect();
            format!("({})", names.join(", "))
        }
        other => format!("'{}'", other.as_str().unwrap_or("?")),
    }
}

fn nested(sizes: &[i64], flat: &[i64]) -> String {
    let Some((first, rest)) = sizes.split_first() else {
        return flat.first().map(ToString::to_string).unwrap_or_default();
    };
    let step = flat.len() / usize::try_from(*first).unwrap_or(1).max(1);
    let parts: Vec<String> = flat.chunks(step.max(1)).map(|part| nested(rest, part)).collect();
    format!("[{}]", parts.join(", "))
}

/// Who holds each element: sorted pairs of a device and the address there.
type Holders = Vec<Vec<(i64, i64)>>;

fn holders(places: &[Vec<Place>], device: impl Fn(&Place) -> Option<i64>) -> Option<Holders> {
    let one = |set: &Vec<Place>| {
        let pairs = set.iter().map(|p| Some((device(p)?, p.get("m").copied().unwrap_or(0))));
        let mut pairs: Vec<(i64, i64)> = pairs.collect::<Option<_>>()?;
        pairs.sort_unstable();
        Some(pairs)
    };
    places.iter().map(one).collect()
}

/// The definition: a device holds the elements of its slices, row-major.
fn by_slices(case: &Value, shape: &[i64], elements: usize) -> Result<Holders, Mismatch> {
    let mut all: Holders = vec![Vec::new(); elements];
    let slices = case["device_slices"].as_object();
    let slices = slices.ok_or_else(|| mismatch("an object in the field `device_slices`", case))?;
    for (device, ranges) in slices {
        let device: i64 = device.parse().map_err(|_| mismatch("the number of a device", device))?;
        let ranges = ranges.as_array().map_or(&[][..], Vec::as_slice).iter();
        let ranges = ranges.map(|r| integers(r, "device_slices"));
        let ranges = ranges.collect::<Result<Vec<_>, Mismatch>>()?;
        if ranges.len() != shape.len() || ranges.iter().any(|r| r.len() != 2) {
            return Err(mismatch("a range for every dimension", format!("{ranges:?}")));
        }
        let shard: Vec<i64> = ranges.iter().map(|r| r[1] - r[0]).collect();
        same("the shape of a shard", &ints(case, "shard_shape")?, &shard)?;
        for i in 0..shard.iter().product() {
            let inside = unflatten(&shard, i);
            let coord: Vec<i64> = inside.iter().zip(&ranges).map(|(c, r)| c + r[0]).collect();
            let at = usize::try_from(flatten(shape, &coord)).ok().filter(|at| *at < elements);
            let at =
                at.ok_or_else(|| mismatch("slices inside of the tensor", format!("{coord:?}")))?;
            all[at].push((device, i));
        }
    }
    all.iter_mut().for_each(|set| set.sort_unstable());
    Ok(all)
}

fn sharding(case: &Value) -> Checked {
    let names = list(case, "mesh_axes")?.iter().map(|n| n.as_str().unwrap_or("?"));
    let names: Vec<&str> = names.collect();
    let (sizes, shape) = (ints(case, "mesh_shape")?, ints(case, "shape")?);
    let numbers = ints(case, "device_order")?;
    let spec: Vec<String> = list(case, "spec")?.iter().map(entry).collect();
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
        nested(&sizes, &numbers),
        quoted.join(", ")
    );
    let coords = coordinates(&shape)?;
    let want = by_slices(case, &shape, coords.len())?;
    let of_mesh = |p: &Place| {
        // The axis of memory is `m`: a mesh axis of that name has another one.
        let at = |name: &&str| p.get(if *name == "m" { "mesh_m" } else { name }).copied();
        let at: Vec<i64> = names.iter().map(|n| at(n).unwrap_or(0)).collect();
        numbers.get(usize::try_from(flatten(&sizes, &at)).ok()?).copied()
    };
    for written in [&plain, &named, &numbered] {
        let parsed = ok(&json!({"op": "parse", "layout": written, "shape": shape}))?;
        same("the text", &json!(written), &parsed["layout"])?;
        same("the notation", &json!("jax"), &parsed["notation"])?;
        let found = holders(&applied(&json!(written), &shape, &coords)?, of_mesh);
        let found = found.ok_or_else(|| mismatch("devices of the mesh", written))?;
        same_at(&format!("{written}: devices and addresses"), &want, &found)?;
    }
    // The text of HLO is the same over the devices counted in the order of the mesh.
    let hlo = text(case, "hlo_sharding")?;
    let convert = json!({"op": "convert", "layout": numbered, "shape": shape, "to": "hlo"});
    same("the HLO text", &json!(hlo), &ok(&convert)?["text"])?;
    if hlo != "{replicated}" {
        let found = applied(&json!(hlo), &shape, &coords)?;
        let number = |p: &Place| p.get("pid").copied().unwrap_or(0);
        let found = holders(&found, |p| numbers.get(usize::try_from(number(p)).ok()?).copied());
        same_at("devices and addresses of the HLO text", &want, &found.unwrap_or_default())?;
    }
    Ok(Agreement::Same)
}

pub(crate) fn jax(data: &Value, tally: &mut Tally) -> Result<(), Mismatch> {
    for (i, case) in cases(data)?.iter().enumerate() {
        let name =
            format!("{i}: {} over {} {}", case["spec"], case["mesh_axes"], case["mesh_shape"]);
        tally.case(name, sharding(case));
    }
    Ok(())
}
