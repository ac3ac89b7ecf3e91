//! CuTe's operators: texts in, the nesting that CuTe promises out.
//!
//! Operands that are written in CuTe keep their nesting, and their indices are CuTe's (the first mode
//! is fastest), also in the requests that other notations share. An operand in another notation is
//! written in CuTe first.

use super::{Answer, algebra, proof};
use crate::Fault;
use crate::request::{Request, refused};
use serde_json::{Value, json};
use zellige_layout::{Axis, InverseLayout, Layout, LayoutError};
use zellige_notation::convert::convert_layout;
use zellige_notation::cute::operators::{self, TileArrangement, Tiler, require_plain_layout};
use zellige_notation::cute::{CuteModes, CuteText, IntegerStyle, LayoutText, NestedTuple};
use zellige_notation::{Diagnostic, Notation, ParsedText, cute as notation};

pub(super) fn coalesce(r: &Request) -> Answer {
    let Some(a) = shared(r, "layout")? else { return algebra::canonicalize(r) };
    if r.get("target").is_some() {
        return algebra::canonicalize(r);
    }
    let found = operators::coalesce(&a.modes);
    Ok(json!({"layout": a.with(&found, Notation::TIRX, r)?}))
}

pub(super) fn compose(r: &Request) -> Answer {
    let Some(a) = shared(r, "a")? else { return proof::compose(r) };
    let Some(b) = shared(r, "b")?.filter(|b| b.text.swizzle.is_none()) else {
        // What `b` gives is an index of `a`, and CuTe counts that.
        let parsed = r.parsed("b")?;
        let b = r.lower("b", &parsed, None)?;
        let shape = parsed.default_shape().unwrap_or_else(|| b.default_shape());
        return Ok(json!({"layout": printed(r, &a.by_index(r)?.compose(&b)?, &shape)?}));
    };
    let tiler = Tiler::Layout(b.modes.clone());
    let found = operators::composition(&a.modes, &tiler)?;
    Ok(json!({"layout": a.and(&b).with(&found, Notation::TIRX, r)?}))
}

pub(super) fn complement(r: &Request) -> Answer {
    let Some(a) = shared(r, "layout")? else { return proof::complement(r) };
    let found = operators::complement(&a.plain("layout")?.modes, r.int("cosize")?)?;
    Ok(json!({"layout": a.with(&found, Notation::TIRX, r)?}))
}

pub(super) fn right_inverse(r: &Request) -> Answer {
    match shared(r, "layout")? {
        Some(a) if a.text.swizzle.is_none() => inverted(r, &a, operators::right_inverse),
        Some(a) => index_of(r, &a.by_index(r)?.right_inverse()?),
        None => proof::right_inverse(r),
    }
}

pub(super) fn left_inverse(r: &Request) -> Answer {
    match shared(r, "layout")? {
        Some(a) if a.text.swizzle.is_none() => inverted(r, &a, operators::left_inverse),
        Some(a) => index_of(r, &a.by_index(r)?.left_inverse()?),
        None => proof::left_inverse(r),
    }
}

pub(super) fn inverse(r: &Request) -> Answer {
    match shared(r, "layout")? {
        Some(a) => index_of(r, &a.by_index(r)?.exact_inverse()?),
        None => proof::inverse(r),
    }
}

/// An inverse of a layout by CuTe's index, as a layout by CuTe's index.
fn index_of(r: &Request, found: &InverseLayout) -> Answer {
    let axes: Vec<&str> = found.axes.iter().map(Axis::name).collect();
    let size = found.layout.size();
    if named(r)? != Some(Notation::CUTE) {
        let text = r.print(&found.layout)?;
        return Ok(json!({"layout": text, "axes": axes, "shape": found.shape}));
    }
    let text = convert_layout(&found.layout, &[size], None, Notation::CUTE).map_err(refused)?;
    let said = |d: Diagnostic| said("layout", &d);
    let mut text =
        notation::parse(&text).and_then(|t| t.as_layout_text().cloned()).map_err(said)?;
    // One dimension of several modes is written as these modes.
    if let [only @ NestedTuple::Tuple(_)] = text.modes.top_modes() {
        text.modes = only.clone();
    }
    let text = text.print_cute_text();
    Ok(json!({"layout": text, "axes": axes, "shape": found.shape}))
}

/// A layout over a shape, in the notation that is asked for.
fn printed(r: &Request, layout: &Layout, shape: &[i64]) -> Result<Value, Fault> {
    let to = named(r)?.unwrap_or(Notation::TIRX);
    convert_layout(layout, shape, r.opt_dtype()?, to).map(Value::String).map_err(refused)
}

/// The notation of the answer, where it is named.
fn named(r: &Request) -> Result<Option<Notation>, Fault> {
    Ok(r.notation_field("as")?.or(r.notation_field("notation")?))
}

fn inverted(
    r: &Request,
    a: &Operand,
    f: fn(&CuteModes) -> Result<CuteModes, LayoutError>,
) -> Answer {
    let found = f(&a.plain("layout")?.modes)?;
    let shape = vec![found.size()?];
    Ok(json!({"layout": a.with(&found, Notation::TIRX, r)?, "axes": ["m"], "shape": shape}))
}

pub(super) fn composition(r: &Request) -> Answer {
    by_tiler(r, operators::composition)
}

macro_rules! arranged {
    ($($name:ident, $f:path, $arrange:ident;)*) => {
        $(pub(super) fn $name(r: &Request) -> Answer {
            by_tiler(r, |a, b| $f(a, b, TileArrangement::$arrange))
        })*
    };
}

arranged! {
    logical_divide, operators::divide_by_tiler, Logical;
    zipped_divide, operators::divide_by_tiler, Zipped;
    tiled_divide, operators::divide_by_tiler, Tiled;
    flat_divide, operators::divide_by_tiler, Flat;
    logical_product, operators::product_with_tiler, Logical;
    zipped_product, operators::product_with_tiler, Zipped;
    tiled_product, operators::product_with_tiler, Tiled;
    flat_product, operators::product_with_tiler, Flat;
}

pub(super) fn blocked_product(r: &Request) -> Answer {
    by_layout(r, operators::blocked_product)
}

pub(super) fn raked_product(r: &Request) -> Answer {
    by_layout(r, operators::raked_product)
}

fn by_layout(
    r: &Request,
    f: fn(&CuteModes, &CuteModes) -> Result<CuteModes, LayoutError>,
) -> Answer {
    let (a, b) = (operand(r, "a")?, operand(r, "b")?);
    let found = f(&a.modes, &b.plain("b")?.modes)?;
    Ok(json!({"layout": a.and(&b).with(&found, Notation::CUTE, r)?}))
}

fn by_tiler(
    r: &Request,
    f: impl Fn(&CuteModes, &Tiler) -> Result<CuteModes, LayoutError>,
) -> Answer {
    let mut a = operand(r, "a")?;
    let tiler = match (r.get("b"), r.get("tiler")) {
        (Some(_), Some(_)) => {
            let message =
                "both `b` and `tiler` are given; `tiler` is a list of layouts, one for each mode";
            return Err(Fault {
                kind: "bad_request",
                message: message.into(),
                witness: json!({"field": "tiler"}),
            });
        }
        (Some(v), None) => tiler(r, "b", v, &mut a.look)?,
        (None, _) => tiler(r, "tiler", r.need("tiler").map_err(|_| missing())?, &mut a.look)?,
    };
    let found = f(&a.modes, &tiler)?;
    Ok(json!({"layout": a.with(&found, Notation::CUTE, r)?}))
}

fn missing() -> Fault {
    Fault {
        kind: "bad_request",
        message:
            "`b` is missing; give a layout `b`, or a list of layouts `tiler`, one for each mode"
                .into(),
        witness: json!({"field": "b"}),
    }
}

/// A layout in CuTe's terms.
struct Operand {
    text: LayoutText,
    modes: CuteModes,
    look: IntegerStyle,
}

impl Operand {
    fn new(field: &'static str, text: LayoutText) -> Result<Operand, Fault> {
        let modes = text.modes_with_numbers(None).map_err(|d| said(field, &d))?;
        let look = text.integer_style();
        Ok(Operand { text, modes, look })
    }

    /// The same without anything before the modes, which some operators are not defined on.
    fn plain(&self, field: &'static str) -> Result<&Operand, Fault> {
        require_plain_layout(&self.text).map_err(|d| said(field, &d))?;
        Ok(self)
    }

    /// The layout of the algebra whose flat index is CuTe's.
    fn by_index(&self, r: &Request) -> Result<Layout, Fault> {
        let parsed =
            ParsedText::from_written(Notation::CUTE, CuteText::Layout(Box::new(self.text.clone())));
        r.lower("layout", &parsed, Some(&[self.modes.size()?]))
    }

    /// The look of a result of both.
    fn and(self, other: &Operand) -> Operand {
        let look = if other.look == IntegerStyle::Static { self.look } else { IntegerStyle::Bare };
        Operand { look, ..self }
    }

    /// Other modes behind the same swizzle, in the notation that is asked for.
    fn with(&self, modes: &CuteModes, unnamed: Notation, r: &Request) -> Result<Value, Fault> {
        let text = LayoutText { modes: modes.written_in_style(self.look), ..self.text.clone() };
        let text = CuteText::Layout(Box::new(text));
        if named(r)?.unwrap_or(unnamed) == Notation::CUTE {
            return Ok(json!(text.print_cute_text()));
        }
        let parsed = ParsedText::from_written(Notation::CUTE, text);
        let layout = r.lower("layout", &parsed, None)?;
        printed(r, &layout, &parsed.default_shape().unwrap_or_else(|| layout.default_shape()))
    }
}

/// The operand of a request that other notations share, where it is written in CuTe.
fn shared(r: &Request, field: &'static str) -> Result<Option<Operand>, Fault> {
    let parsed = r.parsed(field)?;
    let Some(text) = parsed.written_layout::<CuteText>() else { return Ok(None) };
    let text = text.as_layout_text().map_err(|d| said(field, &d))?;
    Operand::new(field, text.clone()).map(Some)
}

fn operand(r: &Request, field: &'static str) -> Result<Operand, Fault> {
    Operand::new(field, layout_text(r, field, &r.parsed(field)?)?)
}

/// The layout of a parsed text in CuTe's terms.
fn layout_text(r: &Request, field: &'static str, parsed: &ParsedText) -> Result<LayoutText, Fault> {
    let said = |d: Diagnostic| said(field, &d);
    if let Some(text) = parsed.written_layout::<CuteText>() {
        return text.as_layout_text().cloned().map_err(said);
    }
    let layout = r.lower(field, parsed, None)?;
    let shape = parsed.default_shape().unwrap_or_else(|| layout.default_shape());
    let text = convert_layout(&layout, &shape, None, Notation::CUTE).map_err(refused)?;
    notation::parse(&text).and_then(|t| t.as_layout_text().cloned()).map_err(said)
}

/// A tiler: a text, a size, or a list of these.
fn tiler(
    r: &Request,
    field: &'static str,
    v: &Value,
    look: &mut IntegerStyle,
) -> Result<Tiler, Fault> {
    match v {
        Value::Array(parts) => {
            let parts = parts.iter().map(|p| tiler(r, field, p, look));
            Ok(Tiler::ByMode(parts.collect::<Result<_, Fault>>()?))
        }
        Value::String(text) if text.trim() == "_" => Ok(Tiler::Keep),
        Value::Number(n) => {
            let size = notation::parse(&n.to_string()).map_err(|d| said(field, &d))?;
            Tiler::from_cute_text(&size).map_err(|d| said(field, &d))
        }
        _ => {
            let parsed = r.parsed_value(field, v)?;
            if let Some(text @ CuteText::Value(_)) = parsed.written_layout::<CuteText>() {
                return Tiler::from_cute_text(text).map_err(|d| said(field, &d));
            }
            let b = Operand::new(field, layout_text(r, field, &parsed)?)?;
            if b.look == IntegerStyle::Bare {
                *look = IntegerStyle::Bare;
            }
            Ok(Tiler::Layout(b.plain(field)?.modes.clone()))
        }
    }
}

/// What a text does not say, or says otherwise than the operator needs it.
fn said(field: &'static str, d: &Diagnostic) -> Fault {
    match &d.cause {
        Some(cause) => Fault::from((**cause).clone()),
        None => Fault {
            kind: "bad_request",
            message: match &d.help {
                Some(help) => format!("`{field}`: {}; {help}", d.message),
                None => format!("`{field}`: {}", d.message),
            },
            witness: json!({"field": field}),
        },
    }
}
