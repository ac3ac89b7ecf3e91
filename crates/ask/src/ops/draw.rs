//! The requests of a page that shows layouts: windows of drawings, one element in detail.

use super::OpAnswer;
use crate::RequestFault;
use crate::json::{axes_json, place_json};
use crate::request::{Request, parse_int, parse_ints};
use crate::steps::explain_forward_map;
use serde_json::{Value, json};
use std::ops::Range;
use zellige_float::Dtype;
use zellige_layout::{
    Axis, Layout, LayoutError, PhysicalCoordinate, PlaceContent, Swizzle, flatten_coordinate,
    unflatten_index,
};
use zellige_notation::{ElementSize, ElementSource, ParsedText, tirx};
use zellige_view::atlas::{Atlas, CellWindow, SheetSide, SpotContent};
use zellige_view::{DrawOptions, Scene, svg};

/// The layout of a request, ready to be drawn.
struct DrawnLayout {
    parsed: ParsedText,
    layout: Layout,
    shape: Vec<i64>,
    element: ElementSize,
    options: DrawOptions,
    /// The layout whose places give the elements their colours, with its options.
    colored_layout: Option<(Layout, DrawOptions)>,
}

fn read_drawn_layout(r: &Request) -> Result<DrawnLayout, RequestFault> {
    let parsed = r.parse_layout("layout")?;
    let (layout, shape) = r.layout_and_shape("layout")?;
    let element = parsed.element_size(r.optional_dtype()?.map(Dtype::bits));
    let sticks = match r.get("sticks") {
        // A device layout is drawn by sticks unless the page asks otherwise, because padding and order are only
        // visible there.
        None => parsed.stick_layout().is_some(),
        Some(Value::Bool(sticks)) => *sticks,
        Some(other) => return Err(RequestFault::wrong_type("`sticks`", "true or false", other)),
    };
    let color_by = r.optional_str("color_by")?.map(String::from);
    let draw_options =
        |element: &ElementSize, color_by: Option<String>, sticks: bool| DrawOptions {
            dtype_bits: element.bits,
            dtype_assumed: element.known_bits().is_none(),
            color_by,
            sticks,
            ..DrawOptions::default()
        };
    let colored_layout = match r.get("color_layout") {
        None => None,
        Some(_) => {
            let other = r.parse_layout("color_layout")?;
            let lowered = r.lower_layout("color_layout", &other, Some(&shape))?;
            let size = other.element_size(r.optional_dtype()?.map(Dtype::bits));
            let sticks = other.stick_layout().is_some();
            Some((lowered, draw_options(&size, color_by.clone(), sticks)))
        }
    };
    // Colours are those of the other layout, so their rule need not exist for the one that is drawn.
    let own_rule = if colored_layout.is_some() { None } else { color_by };
    let options = draw_options(&element, own_rule, sticks);
    Ok(DrawnLayout { parsed, layout, shape, element, options, colored_layout })
}

impl DrawnLayout {
    fn build_atlas(&self) -> Result<Atlas, RequestFault> {
        let atlas = Atlas::new(&self.layout, &self.shape, &self.options)?;
        Ok(match &self.colored_layout {
            None => atlas,
            Some((other, options)) => atlas.color_as_in(other, options)?,
        })
    }
}

pub(super) fn answer_sheets(r: &Request) -> OpAnswer {
    let drawn = read_drawn_layout(r)?;
    let atlas = drawn.build_atlas()?;
    Ok(json!({
        "layout": tirx::print_tirx(&drawn.layout),
        "notation": drawn.parsed.notation().name(),
        "note": drawn.parsed.reading_note(),
        "shape": drawn.shape,
        "size": drawn.layout.size(),
        "bits": drawn.options.dtype_bits,
        "element": drawn.element.to_string(),
        "element_from_text": drawn.element.source == ElementSource::Text,
        "sticks": drawn.options.sticks,
        "swizzled": drawn.layout.swizzle().is_some_and(|s| !s.is_identity()),
        "axes": axes_json(&drawn.layout),
        "color_by": atlas.color_by(),
        "color_choices": atlas.color_choices(),
        "tones": atlas.tones(),
        "tones_repeat": atlas.tones_repeat(),
        "label_key": atlas.label_key(),
        "sheets": atlas.sheets(),
    }))
}

fn read_side(r: &Request) -> Result<SheetSide, RequestFault> {
    let name = r.require_str("side")?;
    SheetSide::from_name(name).ok_or_else(|| {
        RequestFault::wrong_type("`side`", "\"logical\", \"physical\" or \"host\"", &json!(name))
    })
}

fn read_range(r: &Request, field: &'static str) -> Result<Range<i64>, RequestFault> {
    match r.require_ints(field)?.as_slice() {
        [begin, end] if begin <= end => Ok(*begin..*end),
        other => {
            Err(RequestFault::wrong_type(&format!("`{field}`"), "[begin, end]", &json!(other)))
        }
    }
}

fn read_window(r: &Request) -> Result<CellWindow, RequestFault> {
    let index = r.optional_int("box")?.unwrap_or(0);
    Ok(CellWindow { index, rows: read_range(r, "rows")?, cols: read_range(r, "cols")? })
}

pub(super) fn answer_cells(r: &Request) -> OpAnswer {
    let found =
        read_drawn_layout(r)?.build_atlas()?.window_cells(read_side(r)?, &read_window(r)?)?;
    serde_json::to_value(&found).map_err(|e| RequestFault::new("bad_request", e.to_string()))
}

/// The bytes of a window: see [`Atlas::paint_cells`].
pub(crate) fn paint_cells(r: &Request) -> Result<Vec<u8>, RequestFault> {
    let _ = r.get("op");
    let bytes =
        read_drawn_layout(r)?.build_atlas()?.paint_window(read_side(r)?, &read_window(r)?)?;
    r.refuse_unknown_fields()?;
    Ok(bytes)
}

/// Elements of one place that are described.
// A broadcast place may hold all elements of a tensor; the page shows a few and the count.
const MAX_LISTED_TENANTS: usize = 256;

pub(super) fn answer_inspect(r: &Request) -> OpAnswer {
    let drawn = read_drawn_layout(r)?;
    let atlas = drawn.build_atlas()?;
    let (layout, shape) = (&drawn.layout, &drawn.shape);
    let axes = layout.tile().axes();
    let point = |p: &[i64]| PhysicalCoordinate::new(axes.iter().copied().zip(p.iter().copied()));
    let found = match r.get("coord") {
        Some(v) => SpotContent::Element(flatten_coordinate(shape, &parse_ints("coord", v)?)?),
        None => atlas.content_at(
            read_side(r)?,
            r.optional_int("box")?.unwrap_or(0),
            r.require_int("row")?,
            r.require_int("col")?,
        )?,
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
                // A place that is drawn and outside of the layout's span belongs to the rest of a row or stick,
                // which is a gap to the reader.
                PlaceContent::Gap | PlaceContent::Outside => ("gap", Vec::new()),
            };
            (state, place_json(&point(values)), held)
        }
    };
    let total = elements.len();
    let described = elements.iter().take(MAX_LISTED_TENANTS).map(|flat| {
        Ok(json!({
            "coord": unflatten_index(shape, *flat),
            "index": flat,
            "steps": explain_forward_map(layout, shape, *flat)?,
            "spots": spots_json(&atlas, *flat)?,
        }))
    });
    Ok(json!({
        "state": state,
        "place": at,
        "elements": described.collect::<Result<Vec<Value>, RequestFault>>()?,
        "count": total,
    }))
}

/// Elements that one answer of `find` lists at most.
const MAX_LISTED_FOUND: usize = 1024;
/// Elements that `find` looks at. Each is mapped on its own, so this is a second at most.
const MAX_SEARCHED: i64 = 1 << 20;

/// All elements that have a copy with these coordinates; axes that are not named may have any.
pub(super) fn answer_find(r: &Request) -> OpAnswer {
    let drawn = read_drawn_layout(r)?;
    let atlas = drawn.build_atlas()?;
    let axes = drawn.layout.tile().axes();
    let v = r.require_field("place")?;
    let object = v
        .as_object()
        .filter(|o| !o.is_empty())
        .ok_or_else(|| RequestFault::wrong_type("`place`", "an object axis -> coordinate", v))?;
    let mut wanted = Vec::new();
    for (name, value) in object {
        let Some(slot) = axes.iter().position(|a| a.name() == name) else {
            let known: Vec<&str> = axes.iter().map(|a| a.name()).collect();
            let name = name.chars().take(64).collect();
            return Err(LayoutError::UnknownAxis { name, known: known.join(", ") }.into());
        };
        wanted.push((slot, parse_int("place", value)?));
    }
    if drawn.layout.size() > MAX_SEARCHED {
        let limit = MAX_SEARCHED.cast_unsigned();
        return Err(
            LayoutError::TooLarge { what: "finding elements by a coordinate", limit }.into()
        );
    }
    let (mut listed, mut total) = (Vec::new(), 0_usize);
    for flat in 0..drawn.layout.size() {
        let places = drawn.layout.physical_coordinates(flat)?;
        let is_there = |p: &[i64]| wanted.iter().all(|(slot, value)| p.get(*slot) == Some(value));
        if !places.coordinate_rows().any(is_there) {
            continue;
        }
        total += 1;
        if listed.len() < MAX_LISTED_FOUND {
            listed.push(json!({
                "coord": unflatten_index(&drawn.shape, flat),
                "spots": spots_json(&atlas, flat)?,
            }));
        }
    }
    Ok(json!({"count": total, "elements": listed}))
}

/// Elements of an access whose spots are listed.
const MAX_LISTED_TOUCHED: usize = 1024;

pub(super) fn answer_lanes(r: &Request) -> OpAnswer {
    let drawn = read_drawn_layout(r)?;
    let atlas = drawn.build_atlas()?;
    let (access, vector) =
        r.parse_access(r.require_field("access")?, r.optional_int("vector")?.unwrap_or(1))?;
    let lanes = access.lane_elements(&drawn.shape, vector, drawn.options.dtype_bits)?;
    // The count is of all, so that the page can say how many are not listed.
    let total: usize = lanes.iter().map(Vec::len).sum();
    let mut listed = Vec::new();
    let touched = lanes.iter().enumerate().flat_map(|(l, list)| list.iter().map(move |f| (l, *f)));
    for (lane, flat) in touched.take(MAX_LISTED_TOUCHED) {
        listed.push(json!({
            "lane": lane,
            "coord": unflatten_index(&drawn.shape, flat),
            "spots": spots_json(&atlas, flat)?,
        }));
    }
    Ok(json!({"lanes": lanes.len(), "elements": total, "touched": listed}))
}

/// Where an element is drawn, by side.
fn spots_json(atlas: &Atlas, flat: i64) -> Result<Value, RequestFault> {
    let mut sides = serde_json::Map::new();
    for sheet in atlas.sheets() {
        let found = atlas.element_spots(sheet.side, flat)?;
        sides.insert(json!(sheet.side).as_str().unwrap_or("").into(), json!(found));
    }
    Ok(Value::Object(sides))
}

pub(super) fn answer_swizzle(r: &Request) -> OpAnswer {
    let parsed = r.parse_layout("layout")?;
    let shape = r.optional_ints("shape")?;
    let layout = r.lower_layout("layout", &parsed, shape.as_deref())?;
    let mode = r.require_str("mode")?;
    let bytes = match mode.to_ascii_lowercase().as_str() {
        "none" => 0,
        "32b" => 32,
        "64b" => 64,
        "128b" => 128,
        _ => {
            return Err(RequestFault::wrong_type("`mode`", "none, 32B, 64B or 128B", &json!(mode)));
        }
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
    let _ = r.optional_dtype()?;
    let found = match layout.window() {
        Some(window) => bare.with_window(window.clone())?,
        None => bare,
    };
    Ok(json!({"layout": r.print_layout(&found)?}))
}

pub(super) fn answer_draw(r: &Request) -> OpAnswer {
    let mut drawn = read_drawn_layout(r)?;
    drawn.options.title = r.optional_str("title")?.unwrap_or_default().to_string();
    drawn.options.caption = Some(tirx::print_tirx(&drawn.layout));
    if let Some(most) = r.optional_int("max_cells")? {
        drawn.options.max_cells = usize::try_from(most).unwrap_or(0);
    }
    let scene = Scene::new(&drawn.layout, &drawn.shape, &drawn.options)?;
    Ok(json!({"svg": svg::render_scene_svg(&scene), "notes": scene.notes}))
}
