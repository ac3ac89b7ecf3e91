//! Costs, explanations and conversions.

use super::Answer;
use crate::Fault;
use crate::fault::clip;
use crate::json::{conflicts as conflicts_json, lints, vector};
use crate::request::{Request, device_format, refused, unsupported_notation};
use serde_json::{Value, json};
use zellige_layout::{Access, Axis, Remedy};
use zellige_notation::convert::Refusal;
use zellige_notation::{Notation, preset};

/// The access of a request, or a row where none is named, with its vector width.
fn access(r: &Request) -> Result<(Access, i64), Fault> {
    let vector = r.opt_int("vector")?.unwrap_or(1);
    match r.get("access") {
        Some(v) => r.access(v, vector),
        None => Ok((Access::Row { index: 0 }, vector)),
    }
}

pub(super) fn analyze(r: &Request) -> Answer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let bits = r.dtype()?.bits();
    let (access, width) = access(r)?;
    let in_memory = layout.tile().axes() == [Axis::M] && layout.size() > 0;
    let (mut sectors, mut banks) = (Value::Null, Value::Null);
    if in_memory {
        let per_warp = layout.sectors(&shape, bits, &access, width)?;
        sectors = json!(per_warp.iter().sum::<usize>());
        banks = conflicts_json(&layout.conflicts(&shape, bits, &access, width)?);
    }
    Ok(json!({
        "vector": vector(layout.vector_width(&shape, bits)?),
        "sectors": sectors,
        "banks": banks,
        "owners": layout.image()?.copies,
        "lints": lints(&layout.lints(&shape, Some(bits))?),
    }))
}

pub(super) fn conflicts(r: &Request) -> Answer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let bits = r.dtype()?.bits();
    r.need("access")?;
    let (access, width) = access(r)?;
    Ok(conflicts_json(&layout.conflicts(&shape, bits, &access, width)?))
}

pub(super) fn swizzle_for(r: &Request) -> Answer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let bits = r.dtype()?.bits();
    let width = r.opt_int("vector")?.unwrap_or(1);
    let accesses =
        r.list("accesses")?.iter().map(|v| r.access(v, width)).collect::<Result<Vec<_>, _>>()?;
    let choice = layout.swizzle_for(&shape, bits, &accesses)?;
    let remedy = match choice.remedy {
        Remedy::None => json!({"kind": "none"}),
        Remedy::Swizzle(sw) => json!({"kind": "swizzle", "swizzle": format!("{sw:?}")}),
        Remedy::Padding { stride, by } => json!({"kind": "padding", "stride": stride, "by": by}),
    };
    Ok(json!({
        "layout": r.print(&choice.layout)?,
        "ways": choice.ways,
        "before": choice.before,
        "remedy": remedy,
    }))
}

pub(super) fn explain(r: &Request) -> Answer {
    let parsed = r.parsed("layout")?;
    let (layout, shape) = r.layout_and_shape("layout")?;
    let explanation = crate::explain(&parsed, &layout, &shape, r.opt_dtype()?)?;
    Ok(json!({
        "text": explanation.text,
        "padding_bytes": explanation.padding_bytes,
        "lints": lints(&explanation.lints),
    }))
}

pub(super) fn physical_order(r: &Request) -> Answer {
    let parsed = r.parsed("layout")?;
    let (layout, _) = r.layout_and_shape("layout")?;
    let _ = r.opt_dtype()?;
    if let Some(other) = layout.tile().axes().iter().find(|a| **a != Axis::M) {
        let message =
            format!("a physical order is a position on `m`; the layout also uses `{other}`");
        return Err(Fault {
            kind: "not_one_axis",
            message,
            witness: json!({"name": other.name()}),
        });
    }
    if layout.image()?.copies > 1 {
        let message = "an element has several places, and a physical order names one";
        return Err(Fault::new("not_expressible", message));
    }
    if layout.size() > 0 && layout.bounds(Axis::M)?.min < 0 {
        return Err(Fault::new(
            "not_expressible",
            "positions are counted from 0, and some are negative",
        ));
    }
    if layout.size() > 1 << 24 {
        let message = "listing more than 2^24 positions in one answer";
        return Err(Fault::new("too_large", message));
    }
    let padded = match parsed.stick() {
        Some(stick) => stick.positions(),
        None => layout.padded().span(Axis::M)?,
    };
    // As a table, as JSON, and as the text of it.
    zellige_guard::reserve(usize::try_from(layout.size()).unwrap_or(usize::MAX).saturating_mul(60));
    Ok(json!({"order": layout.offsets(Axis::M)?, "padded_elements": padded}))
}

pub(super) fn convert(r: &Request) -> Answer {
    let (layout, shape) = r.layout_and_shape("layout")?;
    let name = r.str("to")?;
    let Some(to) = Notation::from_name(name) else {
        let known = Notation::list(Notation::all());
        let message = format!("unknown notation `{}`; known: {known}", clip(name, 60));
        return Err(Fault { kind: "bad_request", message, witness: json!({"field": "to"}) });
    };
    let dtype = r.opt_dtype()?;
    if to.needs_format() && dtype.is_none() {
        let message = "`dtype` is missing: it gives the elements of a stick";
        return Err(Fault {
            kind: "bad_request",
            message: message.into(),
            witness: json!({"field": "dtype"}),
        });
    }
    let format = device_format(dtype, to)?;
    match zellige_notation::convert::convert(&layout, &shape, format, to) {
        Ok(text) => Ok(json!({"text": text, "notation": to.name()})),
        Err(Refusal::NotExpressible(n)) => Ok(json!({
            "not_expressible": {"reason": n.reason, "witness": n.witness.map(|i| json!({
                "index": i,
                "coord": zellige_layout::unflatten(&shape, i),
            }))},
        })),
        Err(Refusal::Unsupported(n)) => Err(unsupported_notation(n)),
        Err(e) => Err(refused(e)),
    }
}

pub(super) fn presets(r: &Request) -> Answer {
    let list = match r.opt_str("name")? {
        None => preset::all(),
        Some(name) => vec![preset::find(name).ok_or_else(|| {
            let shown: String = name.chars().take(60).collect();
            let message = format!("no preset `{shown}`; the request without `name` lists them");
            Fault { kind: "unknown_preset", message, witness: json!({"name": shown}) }
        })?],
    };
    let list: Vec<_> = list
        .iter()
        .map(|p| {
            json!({"name": p.name, "title": p.title, "shape": p.shape, "dtype": p.dtype, "layout": p.text})
        })
        .collect();
    Ok(json!({"presets": list}))
}
