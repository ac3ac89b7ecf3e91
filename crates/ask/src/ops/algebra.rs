//! Parsing, applying, and the operators.

use super::Answer;
use crate::Fault;
use crate::fault::clip;
use crate::json::{axes, per_axis, places};
use crate::request::{Request, ints};
use serde_json::{Value, json};
use zellige_layout::{Axis, Layout, LayoutError};
use zellige_notation::Notation;

pub(super) fn parse(r: &Request) -> Answer {
    let parsed = r.parsed("layout")?;
    let shape = r.opt_ints("shape")?;
    let bound = parsed.layout_over_shape(shape.as_deref());
    let notation = parsed.notation().name();
    let text = match parsed.algebra_layout() {
        Some(layout) => r.print(layout)?,
        None if r.get("as").is_none() => json!(parsed.notation_text()),
        None => r.print(&r.lower("layout", &parsed, shape.as_deref())?)?,
    };
    match (parsed.stick_layout(), bound) {
        // Without its host a device layout has places, but no known elements.
        (Some(stick), Err(_)) if stick.host().is_none() && shape.is_none() => Ok(json!({
            "layout": text,
            "notation": notation,
            "size": stick.count_positions(),
            "axes": [{"name": "m", "kind": "memory"}],
            "span": {"m": stick.count_positions()},
        })),
        // Read, and without a layout of the algebra: of any shape yet, or beyond what the algebra expresses.
        (None, Err(d)) if d.is_beyond_algebra() || (shape.is_none() && d.is_unshaped()) => {
            let own = shape.or_else(|| parsed.default_shape());
            let size = own.and_then(|s| s.iter().try_fold(1i64, |all, n| all.checked_mul(*n)));
            Ok(json!({
                "layout": text,
                "notation": notation,
                "size": size,
                "axes": null,
                "span": null,
                "note": d.message,
            }))
        }
        _ => {
            let layout = r.lower("layout", &parsed, shape.as_deref())?;
            let mut answer = json!({
                "layout": text,
                "notation": notation,
                "size": layout.size(),
                "axes": axes(&layout),
                "span": per_axis(&layout, |a| layout.axis_span(a))?,
            });
            if let Some(note) = parsed.reading_note() {
                answer["note"] = json!(note);
            }
            Ok(answer)
        }
    }
}

/// More replicas than this are not listed in one answer.
const MAX_LISTED: i64 = 1 << 18;

pub(super) fn apply(r: &Request) -> Answer {
    let parsed = r.parsed("layout")?;
    let given = r.opt_ints("shape")?;
    let mut layout = r.lower("layout", &parsed, given.as_deref())?;
    let coords = r.list("coords")?;
    let shape = match given {
        Some(s) => s,
        None => {
            // A coordinate of rank 1 is a flat index, unless the layout says otherwise.
            let own = parsed.default_shape().unwrap_or_else(|| layout.default_shape());
            let rank = coords.first().and_then(Value::as_array).map(Vec::len);
            if rank == Some(1) && own.len() != 1 {
                let shape = vec![layout.size()];
                if parsed.notation() == Notation::CUTE {
                    // CuTe's index counts the first mode fastest.
                    layout = r.lower("layout", &parsed, Some(&shape))?;
                }
                shape
            } else {
                own
            }
        }
    };
    layout.check_shape_size(&shape)?;
    let total = i64::try_from(coords.len())
        .unwrap_or(i64::MAX)
        .saturating_mul(layout.tile().replica_count());
    if total > MAX_LISTED && layout.tile().replica_count() > 1 {
        return Err(LayoutError::TooLarge {
            what: "listing the replicas of so many coordinates",
            limit: MAX_LISTED.cast_unsigned(),
        }
        .into());
    }
    let mut out = Vec::new();
    for c in coords {
        zellige_guard::count_step();
        let coordinate = ints("coords", c)?;
        let found = layout
            .physical_coordinates(zellige_layout::flatten_coordinate(&shape, &coordinate)?)?;
        out.push(places(&found));
    }
    Ok(json!({"points": out}))
}

pub(super) fn canonicalize(r: &Request) -> Answer {
    let layout = r.layout("layout")?;
    let canonical = match r.opt_str("target")? {
        None => layout.canonical_form()?,
        Some("cuda") => layout.canonical_form_on_cuda()?,
        Some(other) => {
            let message = format!("unknown target `{}`; known: cuda", clip(other, 60));
            return Err(Fault {
                kind: "bad_request",
                message,
                witness: json!({"field": "target"}),
            });
        }
    };
    Ok(json!({"layout": r.print(&canonical)?}))
}

pub(super) fn group(r: &Request) -> Answer {
    let (layout, seps) = r.operand("layout")?.group(&r.ints("shape")?)?;
    Ok(json!({"layout": r.print(&layout)?, "seps": seps}))
}

pub(super) fn group_many(r: &Request) -> Answer {
    let (layout, seps) = r.operand("layout")?.group_many(&r.int_lists("shapes")?)?;
    Ok(json!({"layout": r.print(&layout)?, "seps": seps}))
}

pub(super) fn tile(r: &Request) -> Answer {
    let inner = if r.get("layout").is_some() { "layout" } else { "inner" };
    let (inner, outer) = (r.operand(inner)?, r.operand("outer")?);
    let tiled = inner.tile_by(&outer, &r.ints("outer_shape")?, &r.ints("inner_shape")?)?;
    Ok(json!({"layout": r.print(&tiled)?}))
}

/// A factor that may not exist.
fn maybe(r: &Request, found: Option<Layout>) -> Answer {
    match found {
        Some(l) => Ok(json!({"layout": r.print(&l)?})),
        None => Ok(json!({"layout": null})),
    }
}

pub(super) fn is_tile_inner(r: &Request) -> Answer {
    let (inner, tiled) = (r.operand("layout")?, r.operand("tiled")?);
    maybe(r, inner.is_tile_inner(&tiled, &r.ints("tiled_shape")?, &r.ints("inner_shape")?)?)
}

pub(super) fn is_tile_outer(r: &Request) -> Answer {
    let (outer, tiled) = (r.operand("layout")?, r.operand("tiled")?);
    maybe(r, outer.is_tile_outer(&tiled, &r.ints("tiled_shape")?, &r.ints("outer_shape")?)?)
}

pub(super) fn direct_sum(r: &Request) -> Answer {
    let (right, left) = (r.operand("right")?, r.operand("left")?);
    let sum = right.direct_sum(&left, &r.ints("left_shape")?, &r.ints("right_shape")?)?;
    Ok(json!({"layout": r.print(&sum)?}))
}

/// The interleaved shape, checked against `other_shape` where that is given.
fn interleaved(r: &Request, given: &[i64], odd: bool) -> Result<Vec<i64>, Fault> {
    if let Some(other) = r.opt_ints("other_shape")? {
        let found: Vec<i64> = given.iter().skip(usize::from(odd)).step_by(2).copied().collect();
        if found != other {
            let message =
                format!("`other_shape` is {other:?}, but the interleaved shape says {found:?}");
            return Err(Fault {
                kind: "size_mismatch",
                message,
                witness: json!({"field": "other_shape"}),
            });
        }
    }
    Ok(given.to_vec())
}

pub(super) fn is_direct_sum_right(r: &Request) -> Answer {
    let (right, sum) = (r.operand("layout")?, r.operand("sum")?);
    let shape = interleaved(r, &r.ints("shape")?, true)?;
    maybe(r, right.is_direct_sum_right(&sum, &shape)?)
}

pub(super) fn is_direct_sum_left(r: &Request) -> Answer {
    let (left, sum) = (r.operand("layout")?, r.operand("sum")?);
    let shape = interleaved(r, &r.ints("shape")?, false)?;
    maybe(r, left.is_direct_sum_left(&sum, &shape)?)
}

pub(super) fn slice(r: &Request) -> Answer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let region = r.region("region")?;
    match layout.slice_region(&shape, &region) {
        Ok(found) => Ok(json!({"layout": r.print(&found)?})),
        Err(e @ (LayoutError::NotExpressible { .. } | LayoutError::TooLarge { .. })) => {
            let general = layout.slice_as_window(&shape, &region)?;
            let index = match &e {
                LayoutError::NotExpressible { index, .. } => json!({"index": index}),
                _ => Value::Null,
            };
            Ok(json!({
                "layout": null,
                "reason": e.to_string(),
                "witness": index,
                "general": zellige_notation::tirx::print_tirx(&general),
            }))
        }
        Err(e) => Err(e.into()),
    }
}

pub(super) fn permute_dims(r: &Request) -> Answer {
    let layout = r.operand("layout")?.permute_dims(&r.indices("perm")?)?;
    Ok(json!({"layout": r.print(&layout)?}))
}

pub(super) fn permute_by_groups(r: &Request) -> Answer {
    let layout =
        r.operand("layout")?.permute_by_groups(&r.indices("seps")?, &r.indices("perm")?)?;
    Ok(json!({"layout": r.print(&layout)?}))
}

pub(super) fn storage(r: &Request) -> Answer {
    let layout = r.operand("layout")?.storage_layout()?;
    Ok(json!({"layout": r.print(&layout)?}))
}

pub(super) fn pack(r: &Request) -> Answer {
    let layout = r.operand("layout")?;
    let axis = packed_axis(r)?;
    Ok(json!({"layout": r.print(&layout.pack_elements_on(r.int("num")?, axis)?)?}))
}

/// The axis on which elements are packed: `axis`, or memory, as TIRx packs.
fn packed_axis(r: &Request) -> Result<Axis, Fault> {
    if r.get("axis").is_some() { r.axis("axis") } else { Ok(Axis::M) }
}

pub(super) fn unpack(r: &Request) -> Answer {
    let layout = r.operand("layout")?;
    let axis = packed_axis(r)?;
    Ok(json!({"layout": r.print(&layout.unpack_elements_on(r.int("num")?, axis)?)?}))
}

pub(super) fn broadcast(r: &Request) -> Answer {
    let axis = if r.get("axis").is_some() { r.axis("axis")? } else { Axis::M };
    let pos = if r.get("position").is_some() { r.int("position")? } else { r.int("pos")? };
    let layout = r.operand("layout")?.broadcast_elements(r.int("num")?, pos, axis)?;
    Ok(json!({"layout": r.print(&layout)?}))
}

pub(super) fn tile_to(r: &Request) -> Answer {
    let layout = r.operand("layout")?;
    // With one shape, that is the target, and the layout's own extents are the tile.
    let shape = r.ints("shape")?;
    let found = match r.opt_ints("to_shape")? {
        Some(to) => layout.tile_to(&to, &shape)?,
        None => layout.tile_to(&shape, &layout.default_shape())?,
    };
    Ok(json!({"layout": r.print(&found)?}))
}
