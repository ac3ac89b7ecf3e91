//! What is proved about layouts.

use super::OpAnswer;
use crate::RequestFault;
use crate::free::{FreePlaces, classify_place};
use crate::json::{per_axis_json, points_json};
use crate::request::{Request, parse_int};
use serde_json::{Value, json};
use zellige_layout::{
    Axis, InverseLayout, Layout, LayoutDifference, PhysicalCoordinate, PlaceContent,
    find_common_refinement, unflatten_index,
};
use zellige_notation::{ParsedText, choose_shared_shape, sharding};

pub(super) fn answer_compose(r: &Request) -> OpAnswer {
    let (a, b) = (r.require_operand("a")?, r.require_operand("b")?);
    Ok(json!({"layout": r.print_layout(&a.compose(&b)?)?}))
}

fn inverse_json(r: &Request, found: &InverseLayout) -> OpAnswer {
    let axes: Vec<&str> = found.axes.iter().map(Axis::name).collect();
    Ok(json!({"layout": r.print_layout(&found.layout)?, "axes": axes, "shape": found.shape}))
}

pub(super) fn answer_inverse(r: &Request) -> OpAnswer {
    inverse_json(r, &r.require_layout("layout")?.exact_inverse()?)
}

pub(super) fn answer_right_inverse(r: &Request) -> OpAnswer {
    inverse_json(r, &r.require_layout("layout")?.right_inverse()?)
}

pub(super) fn answer_left_inverse(r: &Request) -> OpAnswer {
    inverse_json(r, &r.require_layout("layout")?.left_inverse()?)
}

pub(super) fn answer_complement(r: &Request) -> OpAnswer {
    let found = r.require_operand("layout")?.complement(r.require_int("cosize")?)?;
    Ok(json!({"layout": r.print_layout(&found.into())?}))
}

/// Two texts as layouts to compare: shardings over numbered devices, others as they are.
fn lower_compared(
    r: &Request,
    a: &ParsedText,
    b: &ParsedText,
    shape: Option<&[i64]>,
) -> Result<(Layout, Layout), RequestFault> {
    let (left, right) = (r.lower_layout("a", a, shape)?, r.lower_layout("b", b, shape)?);
    // A mesh axis has a name in one notation and none in another; numbered devices are what both mean.
    let numbered = shape.and_then(|shape| sharding::on_numbered_devices(a, b, shape));
    Ok(numbered.unwrap_or((left, right)))
}

/// The shape over which two texts are compared where none is given.
fn own_shape(a: &ParsedText, b: &ParsedText) -> Option<Vec<i64>> {
    match (a.default_shape(), b.default_shape()) {
        (Some(x), Some(y)) => {
            Some(choose_shared_shape((a, x.as_slice()), (b, y.as_slice())).to_vec())
        }
        (x, y) => x.or(y),
    }
}

pub(super) fn answer_equal(r: &Request) -> OpAnswer {
    let (pa, pb) = (r.parse_layout("a")?, r.parse_layout("b")?);
    let given = r.optional_ints("shape")?;
    let own = given.clone().or_else(|| own_shape(&pa, &pb));
    let (a, b) = lower_compared(r, &pa, &pb, own.as_deref())?;
    if let Some(shape) = &given {
        a.check_shape_size(shape)?;
        b.check_shape_size(shape)?;
    }
    let shape = own.unwrap_or_else(|| vec![a.size()]);
    Ok(match a.find_difference(&b)? {
        None => json!({"equal": true, "witness": null}),
        Some(LayoutDifference::Size(x, y)) => json!({"equal": false, "witness": {"sizes": [x, y]}}),
        Some(LayoutDifference::At { index, left, right }) => json!({
            "equal": false,
            "witness": {
                "index": index,
                "coord": unflatten_index(&shape, index),
                "a": points_json(&left),
                "b": points_json(&right),
            },
        }),
    })
}

/// Elements compared one by one after the first difference.
const MAX_COMPARED_ELEMENTS: i64 = 1 << 20;

pub(super) fn answer_differences(r: &Request) -> OpAnswer {
    let (pa, pb) = (r.parse_layout("a")?, r.parse_layout("b")?);
    let given = r.optional_ints("shape")?;
    let own = given.clone().or_else(|| own_shape(&pa, &pb));
    let (a, b) = lower_compared(r, &pa, &pb, own.as_deref())?;
    let shape = own.unwrap_or_else(|| a.default_shape());
    a.check_shape_size(&shape)?;
    b.check_shape_size(&shape)?;
    // Clamped and not refused, because `complete` says whether there are more.
    let most = usize::try_from(r.optional_int("count")?.unwrap_or(256).clamp(1, 4096)).unwrap_or(1);
    let Some(LayoutDifference::At { index: first, .. }) = a.find_difference(&b)? else {
        return Ok(json!({"equal": true, "differences": [], "complete": true}));
    };
    // The proof finds the first; those after it are found by looking.
    let end = a.size().min(first.saturating_add(MAX_COMPARED_ELEMENTS));
    let mut found = Vec::new();
    let mut index = first;
    while index < end && found.len() < most {
        let (left, right) = (
            a.physical_coordinates(index)?.sorted_coordinates(),
            b.physical_coordinates(index)?.sorted_coordinates(),
        );
        let same = left
            .iter()
            .map(PhysicalCoordinate::without_zero_entries)
            .eq(right.iter().map(PhysicalCoordinate::without_zero_entries));
        if !same {
            let coord = unflatten_index(&shape, index);
            found.push(json!({"coord": coord, "a": points_json(&left), "b": points_json(&right)}));
        }
        index += 1;
    }
    Ok(json!({"equal": false, "differences": found, "complete": index == a.size()}))
}

pub(super) fn answer_refine(r: &Request) -> OpAnswer {
    let layouts = r
        .require_list("layouts")?
        .iter()
        .map(|v| r.lower_layout("layouts", &r.parse_layout_value("layouts", v)?, None))
        .collect::<Result<Vec<Layout>, RequestFault>>()?;
    let (extents, split) = find_common_refinement(&layouts, &r.require_ints("shape")?)?;
    let texts =
        split.iter().map(|l| r.print_layout(l)).collect::<Result<Vec<_>, RequestFault>>()?;
    Ok(json!({"extents": extents, "layouts": texts}))
}

pub(super) fn answer_lookup(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let (layout, shape) = r.layout_and_shape("layout")?;
    let v = r.require_field("place")?;
    let object = v
        .as_object()
        .ok_or_else(|| RequestFault::wrong_type("`place`", "an object axis -> coordinate", v))?;
    let axes = r.axis_table()?;
    let mut place = Vec::new();
    for (name, value) in object {
        place.push((axes.get(name)?, parse_int("place", value)?));
    }
    Ok(match classify_place(&parsed, &layout, &shape, &place)? {
        PlaceContent::Elements(found) => {
            let coords: Vec<_> = found.iter().map(|i| unflatten_index(&shape, *i)).collect();
            json!({"state": "element", "coords": coords})
        }
        PlaceContent::Padding => json!({"state": "padding", "padding": true, "coords": []}),
        PlaceContent::Gap => json!({"state": "gap", "padding": true, "gap": true, "coords": []}),
        PlaceContent::Outside => json!({"state": "outside", "outside": true, "coords": []}),
    })
}

pub(super) fn answer_facts(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let shape = r.optional_ints("shape")?;
    let layout = r.lower_layout("layout", &parsed, shape.as_deref())?;
    if let Some(shape) = &shape {
        layout.check_shape_size(shape)?;
    }
    let image = layout.analyze_image()?;
    let shape = shape.or_else(|| parsed.default_shape()).unwrap_or_else(|| layout.default_shape());
    let free = FreePlaces::count_free_places(&parsed, &layout, &shape)?;
    let mut clash = Value::Null;
    if let Some((a, b, place)) = &image.clash {
        clash = json!({"pair": [a, b], "place": crate::json::place_json(place)});
    }
    Ok(json!({
        "injective": image.is_injective(),
        "surjective": image.is_surjective(),
        "bijective": image.is_bijective(),
        "size": layout.size(),
        "span": per_axis_json(&layout, |a| layout.axis_span(a))?,
        "extent": per_axis_json(&layout, |a| layout.axis_extent(a))?,
        "size_on": per_axis_json(&layout, |a| Ok(layout.tile().size_on(a)))?,
        "padding": {"valid": layout.size(), "padded": free.positions, "count": free.places},
        "gaps": free.gaps,
        "contiguous": layout.is_contiguous()?,
        "replicas": image.copies,
        "scope": scope_of(&layout),
        "clash": clash,
        "unused": image.unused.as_ref().map(crate::json::place_json),
        "gap": layout.find_gap()?.as_ref().map(crate::json::place_json),
    }))
}

/// The scope pair, or the reason why there is none.
fn scope_of(layout: &Layout) -> Value {
    match layout.tile().thread_scopes() {
        Ok(None) => Value::Null,
        Ok(Some((of, within))) => json!([of.name(), within.name()]),
        Err(e) => json!({"error": e.to_string()}),
    }
}

pub(super) fn answer_span(r: &Request) -> OpAnswer {
    let layout = r.require_layout("layout")?;
    let extent = |a: Axis| layout.axis_extent(a);
    if r.get("axis").is_some() {
        let axis = r.require_axis("axis")?;
        return Ok(json!({"span": layout.axis_span(axis)?, "extent": extent(axis)?}));
    }
    Ok(
        json!({"span": per_axis_json(&layout, |a| layout.axis_span(a))?, "extent": per_axis_json(&layout, extent)?}),
    )
}

pub(super) fn answer_scope(r: &Request) -> OpAnswer {
    let layout = r.require_layout("layout")?;
    let pair = layout.tile().thread_scopes()?;
    Ok(json!({"scope": pair.map(|(of, within)| [of.name(), within.name()])}))
}
