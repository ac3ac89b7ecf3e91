//! Parsing, applying, and the operators.

use super::OpAnswer;
use crate::RequestFault;
use crate::fault::clip_text;
use crate::json::{axes_json, per_axis_json, places_json};
use crate::request::{Request, parse_ints};
use serde_json::{Value, json};
use zellige_layout::{Axis, Layout, LayoutError};
use zellige_notation::Notation;

pub(super) fn answer_parse(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let shape = r.optional_ints("shape")?;
    let bound = parsed.layout_over_shape(shape.as_deref());
    let notation = parsed.notation().name();
    let text = match parsed.algebra_layout() {
        Some(layout) => r.print_layout(layout)?,
        None if r.get("as").is_none() => json!(parsed.notation_text()),
        None => r.print_layout(&r.lower_layout("layout", &parsed, shape.as_deref())?)?,
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
            let layout = r.lower_layout("layout", &parsed, shape.as_deref())?;
            let mut answer = json!({
                "layout": text,
                "notation": notation,
                "size": layout.size(),
                "axes": axes_json(&layout),
                "span": per_axis_json(&layout, |a| layout.axis_span(a))?,
            });
            if let Some(note) = parsed.reading_note() {
                answer["note"] = json!(note);
            }
            Ok(answer)
        }
    }
}

/// More replicas than this are not listed in one answer.
// A replica is some dozens of bytes of JSON, so this bounds an answer to some megabytes.
const MAX_LISTED: i64 = 1 << 18;

pub(super) fn answer_apply(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let given = r.optional_ints("shape")?;
    let mut layout = r.lower_layout("layout", &parsed, given.as_deref())?;
    let coords = r.require_list("coords")?;
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
                    layout = r.lower_layout("layout", &parsed, Some(&shape))?;
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
        // A request may name a million coordinates, and each counts against its time.
        zellige_guard::count_step();
        let coordinate = parse_ints("coords", c)?;
        let found = layout
            .physical_coordinates(zellige_layout::flatten_coordinate(&shape, &coordinate)?)?;
        out.push(places_json(&found));
    }
    Ok(json!({"points": out}))
}

pub(super) fn answer_canonicalize(r: &Request) -> OpAnswer {
    let layout = r.require_layout("layout")?;
    let canonical = match r.optional_str("target")? {
        None => layout.canonical_form()?,
        Some("cuda") => layout.canonical_form_on_cuda()?,
        Some(other) => {
            let message = format!("unknown target `{}`; known: cuda", clip_text(other, 60));
            return Err(RequestFault {
                kind: "bad_request",
                message,
                witness: json!({"field": "target"}),
            });
        }
    };
    Ok(json!({"layout": r.print_layout(&canonical)?}))
}

pub(super) fn answer_group(r: &Request) -> OpAnswer {
    let (layout, seps) = r.require_operand("layout")?.group(&r.require_ints("shape")?)?;
    Ok(json!({"layout": r.print_layout(&layout)?, "seps": seps}))
}

pub(super) fn answer_group_many(r: &Request) -> OpAnswer {
    let (layout, seps) =
        r.require_operand("layout")?.group_many(&r.require_int_lists("shapes")?)?;
    Ok(json!({"layout": r.print_layout(&layout)?, "seps": seps}))
}

pub(super) fn answer_tile(r: &Request) -> OpAnswer {
    // Both names are accepted, because the other operators call their operand `layout`.
    let inner = if r.get("layout").is_some() { "layout" } else { "inner" };
    let (inner, outer) = (r.require_operand(inner)?, r.require_operand("outer")?);
    let tiled =
        inner.tile_by(&outer, &r.require_ints("outer_shape")?, &r.require_ints("inner_shape")?)?;
    Ok(json!({"layout": r.print_layout(&tiled)?}))
}

/// A factor that may not exist.
fn answer_factor(r: &Request, found: Option<Layout>) -> OpAnswer {
    match found {
        Some(l) => Ok(json!({"layout": r.print_layout(&l)?})),
        None => Ok(json!({"layout": null})),
    }
}

pub(super) fn answer_is_tile_inner(r: &Request) -> OpAnswer {
    let (inner, tiled) = (r.require_operand("layout")?, r.require_operand("tiled")?);
    answer_factor(
        r,
        inner.is_tile_inner(
            &tiled,
            &r.require_ints("tiled_shape")?,
            &r.require_ints("inner_shape")?,
        )?,
    )
}

pub(super) fn answer_is_tile_outer(r: &Request) -> OpAnswer {
    let (outer, tiled) = (r.require_operand("layout")?, r.require_operand("tiled")?);
    answer_factor(
        r,
        outer.is_tile_outer(
            &tiled,
            &r.require_ints("tiled_shape")?,
            &r.require_ints("outer_shape")?,
        )?,
    )
}

pub(super) fn answer_direct_sum(r: &Request) -> OpAnswer {
    let (right, left) = (r.require_operand("right")?, r.require_operand("left")?);
    let sum =
        right.direct_sum(&left, &r.require_ints("left_shape")?, &r.require_ints("right_shape")?)?;
    Ok(json!({"layout": r.print_layout(&sum)?}))
}

/// The interleaved shape, checked against `other_shape` where that is given.
fn interleaved_shape(r: &Request, given: &[i64], odd: bool) -> Result<Vec<i64>, RequestFault> {
    if let Some(other) = r.optional_ints("other_shape")? {
        // The interleaved shape alternates between the two operands, so the other operand has every second extent.
        let found: Vec<i64> = given.iter().skip(usize::from(odd)).step_by(2).copied().collect();
        if found != other {
            let message =
                format!("`other_shape` is {other:?}, but the interleaved shape says {found:?}");
            return Err(RequestFault {
                kind: "size_mismatch",
                message,
                witness: json!({"field": "other_shape"}),
            });
        }
    }
    Ok(given.to_vec())
}

pub(super) fn answer_is_direct_sum_right(r: &Request) -> OpAnswer {
    let (right, sum) = (r.require_operand("layout")?, r.require_operand("sum")?);
    let shape = interleaved_shape(r, &r.require_ints("shape")?, true)?;
    answer_factor(r, right.is_direct_sum_right(&sum, &shape)?)
}

pub(super) fn answer_is_direct_sum_left(r: &Request) -> OpAnswer {
    let (left, sum) = (r.require_operand("layout")?, r.require_operand("sum")?);
    let shape = interleaved_shape(r, &r.require_ints("shape")?, false)?;
    answer_factor(r, left.is_direct_sum_left(&sum, &shape)?)
}

pub(super) fn answer_slice(r: &Request) -> OpAnswer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let region = r.require_region("region")?;
    match layout.slice_region(&shape, &region) {
        Ok(found) => Ok(json!({"layout": r.print_layout(&found)?})),
        Err(e @ (LayoutError::NotExpressible { .. } | LayoutError::TooLarge { .. })) => {
            // The region has no layout of the same form, but it is a window of the whole: the user gets that beside
            // the proof that nothing simpler exists.
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

pub(super) fn answer_permute_dims(r: &Request) -> OpAnswer {
    let layout = r.require_operand("layout")?.permute_dims(&r.require_indices("perm")?)?;
    Ok(json!({"layout": r.print_layout(&layout)?}))
}

pub(super) fn answer_permute_by_groups(r: &Request) -> OpAnswer {
    let layout = r
        .require_operand("layout")?
        .permute_by_groups(&r.require_indices("seps")?, &r.require_indices("perm")?)?;
    Ok(json!({"layout": r.print_layout(&layout)?}))
}

pub(super) fn answer_storage(r: &Request) -> OpAnswer {
    let layout = r.require_operand("layout")?.storage_layout()?;
    Ok(json!({"layout": r.print_layout(&layout)?}))
}

pub(super) fn answer_pack(r: &Request) -> OpAnswer {
    let layout = r.require_operand("layout")?;
    let axis = packed_axis(r)?;
    Ok(json!({"layout": r.print_layout(&layout.pack_elements_on(r.require_int("num")?, axis)?)?}))
}

/// The axis on which elements are packed: `axis`, or memory, as TIRx packs.
fn packed_axis(r: &Request) -> Result<Axis, RequestFault> {
    if r.get("axis").is_some() { r.require_axis("axis") } else { Ok(Axis::M) }
}

pub(super) fn answer_unpack(r: &Request) -> OpAnswer {
    let layout = r.require_operand("layout")?;
    let axis = packed_axis(r)?;
    Ok(json!({"layout": r.print_layout(&layout.unpack_elements_on(r.require_int("num")?, axis)?)?}))
}

pub(super) fn answer_broadcast(r: &Request) -> OpAnswer {
    let axis = if r.get("axis").is_some() { r.require_axis("axis")? } else { Axis::M };
    let pos = if r.get("position").is_some() {
        r.require_int("position")?
    } else {
        r.require_int("pos")?
    };
    let layout =
        r.require_operand("layout")?.broadcast_elements(r.require_int("num")?, pos, axis)?;
    Ok(json!({"layout": r.print_layout(&layout)?}))
}

pub(super) fn answer_tile_to(r: &Request) -> OpAnswer {
    let layout = r.require_operand("layout")?;
    // With one shape, that is the target, and the layout's own extents are the tile.
    let shape = r.require_ints("shape")?;
    let found = match r.optional_ints("to_shape")? {
        Some(to) => layout.tile_to(&to, &shape)?,
        None => layout.tile_to(&shape, &layout.default_shape())?,
    };
    Ok(json!({"layout": r.print_layout(&found)?}))
}
