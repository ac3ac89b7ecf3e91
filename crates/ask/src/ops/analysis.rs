//! Costs, explanations and conversions.

use super::OpAnswer;
use crate::RequestFault;
use crate::fault::clip_text;
use crate::json::{conflicts_json, lints_json, vector_json};
use crate::request::{Request, refuse_conversion};
use serde_json::{Value, json};
use zellige_layout::int::checked_product;
use zellige_layout::{Axis, ConflictRemedy, LaneAccessPattern};
use zellige_notation::convert::{
    ConversionRefusal, NotExpressible, NotationConversion, convert_or_refine,
};
use zellige_notation::cute::atoms::{self, AtomLayouts};
use zellige_notation::cute::{CuteModes, IntegerStyle};
use zellige_notation::index_code::{CodeLanguage, print_index_code};
use zellige_notation::{Notation, preset};

/// The access of a request, or a row where none is named, with its vector width.
fn read_access(r: &Request) -> Result<(LaneAccessPattern, i64), RequestFault> {
    let vector = r.optional_int("vector")?.unwrap_or(1);
    match r.get("access") {
        Some(v) => r.parse_access(v, vector),
        None => Ok((LaneAccessPattern::Row { index: 0 }, vector)),
    }
}

pub(super) fn answer_analyze(r: &Request) -> OpAnswer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let bits = r.element_bits(&r.parse_layout("layout")?)?;
    let (access, width) = read_access(r)?;
    // Banks and sectors are those of one memory; an element in a register of a lane is in none.
    let in_memory = layout.tile().axes() == [Axis::M] && layout.size() > 0;
    let (mut sectors, mut per_warp, mut banks) = (Value::Null, Value::Null, Value::Null);
    if in_memory {
        let warps = layout.count_sectors(&shape, bits, &access, width)?;
        sectors = json!(warps.iter().sum::<usize>());
        per_warp = json!(warps.iter().max());
        banks = conflicts_json(&layout.find_bank_conflicts(&shape, bits, &access, width)?);
    }
    Ok(json!({
        "vector": vector_json(layout.vector_width(&shape, bits)?),
        "sectors": sectors,
        "sectors_per_warp": per_warp,
        "banks": banks,
        "owners": layout.analyze_image()?.copies,
        "lints": lints_json(&layout.find_lints(&shape, Some(bits))?),
    }))
}

pub(super) fn answer_conflicts(r: &Request) -> OpAnswer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let bits = r.element_bits(&r.parse_layout("layout")?)?;
    // `analyze` may assume a row, because it answers more than this; a request about conflicts alone would mislead
    // with an access that nobody named.
    r.require_field("access")?;
    let (access, width) = read_access(r)?;
    Ok(conflicts_json(&layout.find_bank_conflicts(&shape, bits, &access, width)?))
}

pub(super) fn answer_swizzle_for(r: &Request) -> OpAnswer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let bits = r.element_bits(&r.parse_layout("layout")?)?;
    let width = r.optional_int("vector")?.unwrap_or(1);
    let accesses = r
        .require_list("accesses")?
        .iter()
        .map(|v| r.parse_access(v, width))
        .collect::<Result<Vec<_>, _>>()?;
    let choice = layout.find_least_conflict_swizzle(&shape, bits, &accesses)?;
    let remedy = match choice.remedy {
        ConflictRemedy::None => json!({"kind": "none"}),
        ConflictRemedy::Swizzle(sw) => json!({"kind": "swizzle", "swizzle": format!("{sw:?}")}),
        ConflictRemedy::Padding { stride, by } => {
            json!({"kind": "padding", "stride": stride, "by": by})
        }
    };
    Ok(json!({
        "layout": r.print_layout(&choice.layout)?,
        "ways": choice.ways,
        "before": choice.before,
        "remedy": remedy,
    }))
}

pub(super) fn answer_explain(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let (layout, shape) = r.layout_and_shape("layout")?;
    let explanation = crate::explain_layout(&parsed, &layout, &shape, r.optional_dtype()?)?;
    Ok(json!({
        "text": explanation.text,
        "words": explanation.words,
        "padding_bytes": explanation.padding_bytes,
        "lints": lints_json(&explanation.lints),
    }))
}

/// The most positions of one answer: about 8 MB of text.
const MAX_LISTED: i64 = 1 << 20;

/// Refuses a tensor whose positions are too many for one answer; a shape that fits in no number is refused elsewhere.
fn refuse_unlistable(shape: Option<Vec<i64>>) -> Result<(), RequestFault> {
    // A product past 64 bits becomes zero here and passes, because reading the layout refuses it with a better
    // message.
    let count = checked_product(shape.unwrap_or_default(), "the number of elements").unwrap_or(0);
    if count <= MAX_LISTED {
        return Ok(());
    }
    let message = format!(
        "a physical order lists the positions of at most {MAX_LISTED} elements, and there are {count}; `convert` gives them as a \
         formula, and `apply` those of single coordinates"
    );
    Err(RequestFault {
        kind: "too_large",
        message,
        witness: json!({"limit": MAX_LISTED, "size": count}),
    })
}

pub(super) fn answer_physical_order(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let _ = r.optional_dtype()?;
    let shape = r.optional_ints("shape")?;
    refuse_unlistable(shape.clone().or_else(|| parsed.default_shape()))?;
    // A notation that defines positions by itself also knows what the algebra has no layout for.
    if let Some(stored) = parsed.stored_elements(shape.as_deref()) {
        let stored = stored.map_err(|d| r.refused_text("layout", &d))?;
        if let Some(shape) = shape {
            stored.check_shape_size(&shape)?;
        }
        zellige_guard::reserve_memory(stored.order.len().saturating_mul(60));
        return Ok(json!({"order": stored.order, "padded_elements": stored.positions}));
    }
    let (layout, _) = r.layout_and_shape("layout")?;
    if let Some(other) = layout.tile().axes().iter().find(|a| **a != Axis::M) {
        let message =
            format!("a physical order is a position on `m`; the layout also uses `{other}`");
        return Err(RequestFault {
            kind: "not_one_axis",
            message,
            witness: json!({"name": other.name()}),
        });
    }
    // The order is a permutation with gaps, and a replicated element would be in it several times.
    if layout.analyze_image()?.copies > 1 {
        let message = "an element has several places, and a physical order names one";
        return Err(RequestFault::new("not_expressible", message));
    }
    if layout.size() > 0 && layout.axis_bounds(Axis::M)?.min < 0 {
        return Err(RequestFault::new(
            "not_expressible",
            "positions are counted from 0, and some are negative",
        ));
    }
    // Again, now with the size of the layout: a text may have a shape only after it was read.
    refuse_unlistable(Some(vec![layout.size()]))?;
    let padded = match parsed.stick_layout() {
        Some(stick) => stick.count_positions(),
        None => layout.padded_domain().axis_span(Axis::M)?,
    };
    // As a table, as JSON, and as the text of it.
    zellige_guard::reserve_memory(
        usize::try_from(layout.size()).unwrap_or(usize::MAX).saturating_mul(60),
    );
    Ok(json!({"order": layout.offset_table(Axis::M)?, "padded_elements": padded}))
}

pub(super) fn answer_convert(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let (layout, shape) = r.layout_and_shape("layout")?;
    let name = r.require_str("to")?;
    let Some(to) = Notation::from_name(name) else {
        let known = Notation::list_names(Notation::all_notations());
        let message = format!("unknown notation `{}`; known: {known}", clip_text(name, 60));
        return Err(RequestFault { kind: "bad_request", message, witness: json!({"field": "to"}) });
    };
    let dtype = r.optional_dtype()?;
    if to.needs_dtype() && dtype.is_none() {
        let message = "`dtype` is missing: it gives the elements of a stick";
        return Err(RequestFault {
            kind: "bad_request",
            message: message.into(),
            witness: json!({"field": "dtype"}),
        });
    }
    let why_not = |n: &NotExpressible| {
        json!({"reason": n.reason, "witness": n.witness.map(|i| json!({
            "index": i,
            "coord": zellige_layout::unflatten_index(&shape, i),
        }))})
    };
    match convert_or_refine(&parsed, &layout, &shape, dtype, to) {
        Ok(NotationConversion::Equal(text)) => {
            Ok(json!({"text": text, "notation": to.name(), "relation": "equal"}))
        }
        Ok(NotationConversion::Refined { text, shape, because }) => Ok(json!({
            "not_expressible": why_not(&because),
            "relation": "refined",
            "refined": {"text": text, "shape": shape, "notation": to.name()},
        })),
        Err(ConversionRefusal::NotExpressible(n)) => {
            Ok(json!({"not_expressible": why_not(&n), "relation": "not_expressible"}))
        }
        Err(e) => Err(refuse_conversion(e)),
    }
}

pub(super) fn answer_conversions(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let (layout, shape) = r.layout_and_shape("layout")?;
    let dtype = r.optional_dtype()?;
    let all = match r.notation_field("to")? {
        Some(to) => vec![(to, crate::convert_layout(&parsed, &layout, &shape, dtype, to))],
        None => crate::convert_to_all(&parsed, &layout, &shape, dtype),
    };
    let list: Vec<Value> = all.iter().map(|(n, found)| found.to_json(*n)).collect();
    Ok(json!({"shape": shape, "notation": parsed.notation().name(), "conversions": list}))
}

pub(super) fn answer_notations(_: &Request) -> OpAnswer {
    let one = |n: Notation| json!({"name": n.name(), "doc": n.short_description(), "example": n.example_text()});
    Ok(json!({"notations": Notation::all_notations().map(one).collect::<Vec<_>>()}))
}

pub(super) fn answer_presets(r: &Request) -> OpAnswer {
    let name = r.optional_str("name")?;
    if let Some(atom) = name.and_then(atoms::find_atom) {
        return Ok(atom_json(&atom));
    }
    let list = match name {
        None => preset::all_presets(),
        Some(name) => vec![preset::find_preset(name).ok_or_else(|| {
            let shown: String = name.chars().take(60).collect();
            let message = format!("no preset `{shown}`; the request without `name` lists them");
            RequestFault { kind: "unknown_preset", message, witness: json!({"name": shown}) }
        })?],
    };
    let presets: Vec<Value> = list.iter().map(preset_json).collect();
    match name {
        Some(_) => Ok(json!({"presets": presets})),
        None => Ok(json!({"presets": presets, "atoms": atoms::list_atom_names()})),
    }
}

fn preset_json(p: &preset::LayoutPreset) -> Value {
    json!({"name": p.name, "title": p.title, "group": p.group, "shape": p.shape, "dtype": p.dtype, "layout": p.text})
}

/// An MMA or copy atom of CuTe: the block that CuTe prints, its layouts, and each as a preset.
fn atom_json(atom: &atoms::CuteAtom) -> Value {
    let text = |m: &CuteModes| m.print_cute_text(IntegerStyle::Bare);
    let mut found = json!({"name": atom.name, "text": atom.print_block().print_cute_text(), "thr_id": text(&atom.threads)});
    match &atom.layouts {
        AtomLayouts::Mma { shape, a, b, c } => {
            found["kind"] = json!("mma");
            found["shape_mnk"] = json!(shape);
            for (name, modes) in [("a", a), ("b", b), ("c", c)] {
                found[name] = json!(text(modes));
            }
        }
        AtomLayouts::Copy { src, dst, reference } => {
            found["kind"] = json!("copy");
            found["unit_bits"] = json!(1);
            for (name, modes) in [("src", src), ("dst", dst), ("ref", reference)] {
                found[name] = json!(text(modes));
            }
        }
    }
    let presets: Vec<Value> = preset::presets_of_atom(atom).iter().map(preset_json).collect();
    json!({"presets": presets, "atom": found})
}

pub(super) fn answer_index_code(r: &Request) -> OpAnswer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let name = r.require_str("language")?;
    let language = CodeLanguage::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = CodeLanguage::NAMES.iter().map(|(n, _)| *n).collect();
        RequestFault::wrong_type("`language`", &names.join(", "), &json!(name))
    })?;
    Ok(json!({"code": print_index_code(&layout, &shape, language)?}))
}
