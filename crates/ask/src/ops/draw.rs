//! What a page that shows layouts asks: drawings by the window, one element in detail.

use super::Answer;
use crate::Fault;
use crate::json::{axes, place};
use crate::request::{Request, ints};
use crate::steps::steps;
use serde_json::{Value, json};
use std::ops::Range;
use zellige_float::Dtype;
use zellige_layout::{
    Axis, Layout, PhysicalCoordinate, PlaceContent, Swizzle, flatten_coordinate, unflatten_index,
};
use zellige_notation::{ElementSize, ParsedText, tirx};
use zellige_view::atlas::{Atlas, CellWindow, SheetSide, SpotContent};
use zellige_view::{DrawOptions, Scene, svg};

/// A layout as it was asked for, ready to be drawn.
struct Drawn {
    parsed: ParsedText,
    layout: Layout,
    shape: Vec<i64>,
    element: ElementSize,
    options: DrawOptions,
}

fn drawn(r: &Request) -> Result<Drawn, Fault> {
    let parsed = r.parsed("layout")?;
    let (layout, shape) = r.layout_and_shape("layout")?;
    let element = parsed.element_size(r.opt_dtype()?.map(Dtype::bits));
    let sticks = match r.get("sticks") {
        None => parsed.stick_layout().is_some(),
        Some(Value::Bool(sticks)) => *sticks,
        Some(other) => return Err(Fault::expected("`sticks`", "true or false", other)),
    };
    let color_by = r.opt_str("color_by")?.map(String::from);
    let defaults = DrawOptions::default();
    let (dtype_bits, dtype_assumed) = (element.bits, element.known_bits().is_none());
    let options = DrawOptions { dtype_bits, dtype_assumed, color_by, sticks, ..defaults };
    Ok(Drawn { parsed, layout, shape, element, options })
}

impl Drawn {
    fn atlas(&self) -> Result<Atlas, Fault> {
        Ok(Atlas::new(&self.layout, &self.shape, &self.options)?)
    }
}

pub(super) fn sheets(r: &Request) -> Answer {
    let drawn = drawn(r)?;
    let atlas = drawn.atlas()?;
    Ok(json!({
        "layout": tirx::print_tirx(&drawn.layout),
        "notation": drawn.parsed.notation().name(),
        "note": drawn.parsed.reading_note(),
        "shape": drawn.shape,
        "size": drawn.layout.size(),
        "bits": drawn.options.dtype_bits,
        "element": drawn.element.to_string(),
        "sticks": drawn.options.sticks,
        "swizzled": drawn.layout.swizzle().is_some_and(|s| !s.is_identity()),
        "axes": axes(&drawn.layout),
        "color_by": atlas.color_by(),
        "color_choices": atlas.color_choices(),
        "tones": atlas.tones(),
        "tones_repeat": atlas.tones_repeat(),
        "label_key": atlas.label_key(),
        "sheets": atlas.sheets(),
    }))
}

fn side(r: &Request) -> Result<SheetSide, Fault> {
    let name = r.str("side")?;
    SheetSide::from_name(name).ok_or_else(|| {
        Fault::expected("`side`", "\"logical\", \"physical\" or \"host\"", &json!(name))
    })
}

fn range(r: &Request, field: &'static str) -> Result<Range<i64>, Fault> {
    match r.ints(field)?.as_slice() {
        [begin, end] if begin <= end => Ok(*begin..*end),
        other => Err(Fault::expected(&format!("`{field}`"), "[begin, end]", &json!(other))),
    }
}

fn window(r: &Request) -> Result<CellWindow, Fault> {
    let index = r.opt_int("box")?.unwrap_or(0);
    Ok(CellWindow { index, rows: range(r, "rows")?, cols: range(r, "cols")? })
}

pub(super) fn cells(r: &Request) -> Answer {
    let found = drawn(r)?.atlas()?.cells(side(r)?, &window(r)?)?;
    serde_json::to_value(&found).map_err(|e| Fault::new("bad_request", e.to_string()))
}

/// The bytes of a window: see [`Atlas::paint`].
pub(crate) fn paint(r: &Request) -> Result<Vec<u8>, Fault> {
    let _ = r.get("op");
    let bytes = drawn(r)?.atlas()?.paint(side(r)?, &window(r)?)?;
    r.finish()?;
    Ok(bytes)
}

/// Elements of one place that are described.
const TENANTS: usize = 256;

pub(super) fn inspect(r: &Request) -> Answer {
    let drawn = drawn(r)?;
    let atlas = drawn.atlas()?;
    let (layout, shape) = (&drawn.layout, &drawn.shape);
    let axes = layout.tile().axes();
    let point = |p: &[i64]| PhysicalCoordinate::new(axes.iter().copied().zip(p.iter().copied()));
    let found = match r.get("coord") {
        Some(v) => SpotContent::Element(flatten_coordinate(shape, &ints("coord", v)?)?),
        None => atlas.at(side(r)?, r.opt_int("box")?.unwrap_or(0), r.int("row")?, r.int("col")?)?,
    };
    let (state, at, elements) = match &found {
        SpotContent::Nothing => return Ok(json!({"state": "nothing", "elements": []})),
        SpotContent::Element(flat) => ("element", Value::Null, vec![*flat]),
        SpotContent::Place(values) => {
            let named: Vec<(Axis, i64)> =
                axes.iter().copied().zip(values.iter().copied()).collect();
            let (state, held) = match layout.look_up_place(&named)? {
                PlaceContent::Elements(list) => ("element", list),
                PlaceContent::Padding => ("padding", Vec::new()),
                PlaceContent::Gap | PlaceContent::Outside => ("gap", Vec::new()),
            };
            (state, place(&point(values)), held)
        }
    };
    let total = elements.len();
    let described = elements.iter().take(TENANTS).map(|flat| {
        Ok(json!({
            "coord": unflatten_index(shape, *flat),
            "index": flat,
            "steps": steps(layout, shape, *flat)?,
            "spots": spots(&atlas, *flat)?,
        }))
    });
    Ok(json!({
        "state": state,
        "place": at,
        "elements": described.collect::<Result<Vec<Value>, Fault>>()?,
        "count": total,
    }))
}

/// Elements of an access whose spots are listed.
const TOUCHED: usize = 1024;

pub(super) fn lanes(r: &Request) -> Answer {
    let drawn = drawn(r)?;
    let atlas = drawn.atlas()?;
    let (access, vector) = r.access(r.need("access")?, r.opt_int("vector")?.unwrap_or(1))?;
    let lanes = access.lane_elements(&drawn.shape, vector, drawn.options.dtype_bits)?;
    let total: usize = lanes.iter().map(Vec::len).sum();
    let mut listed = Vec::new();
    let touched = lanes.iter().enumerate().flat_map(|(l, list)| list.iter().map(move |f| (l, *f)));
    for (lane, flat) in touched.take(TOUCHED) {
        listed.push(json!({
            "lane": lane,
            "coord": unflatten_index(&drawn.shape, flat),
            "spots": spots(&atlas, flat)?,
        }));
    }
    Ok(json!({"lanes": lanes.len(), "elements": total, "touched": listed}))
}

/// Where an element is drawn, by side.
fn spots(atlas: &Atlas, flat: i64) -> Result<Value, Fault> {
    let mut sides = serde_json::Map::new();
    for sheet in atlas.sheets() {
        let found = atlas.spots(sheet.side, flat)?;
        sides.insert(json!(sheet.side).as_str().unwrap_or("").into(), json!(found));
    }
    Ok(Value::Object(sides))
}

pub(super) fn swizzle(r: &Request) -> Answer {
    let parsed = r.parsed("layout")?;
    let shape = r.opt_ints("shape")?;
    let layout = r.lower("layout", &parsed, shape.as_deref())?;
    let mode = r.str("mode")?;
    let bytes = match mode.to_ascii_lowercase().as_str() {
        "none" => 0,
        "32b" => 32,
        "64b" => 64,
        "128b" => 128,
        _ => return Err(Fault::expected("`mode`", "none, 32B, 64B or 128B", &json!(mode))),
    };
    let tile = layout.tile().clone();
    let bare = match bytes {
        0 => Layout::from(tile),
        _ => Layout::from_swizzled_tile(
            Swizzle::shared_memory_mode(bytes, r.element_bits(&parsed)?)?,
            tile,
        )?,
    };
    // Known also where it is not needed, so that it may always be named.
    let _ = r.opt_dtype()?;
    let found = match layout.window() {
        Some(window) => bare.with_window(window.clone())?,
        None => bare,
    };
    Ok(json!({"layout": r.print(&found)?}))
}

pub(super) fn scene(r: &Request) -> Answer {
    let mut drawn = drawn(r)?;
    drawn.options.title = r.opt_str("title")?.unwrap_or_default().to_string();
    drawn.options.caption = Some(tirx::print_tirx(&drawn.layout));
    if let Some(most) = r.opt_int("max_cells")? {
        drawn.options.max_cells = usize::try_from(most).unwrap_or(0);
    }
    let scene = Scene::new(&drawn.layout, &drawn.shape, &drawn.options)?;
    Ok(json!({"svg": svg::render(&scene), "notes": scene.notes}))
}
