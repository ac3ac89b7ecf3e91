//! CuTe's operators: texts in, the nesting that CuTe promises out.
//!
//! Operands that are written in CuTe keep their nesting, and their indices are CuTe's (the first mode
//! is fastest), also in the requests that other notations share. An operand in another notation is
//! written in CuTe first.

use super::{Answer, algebra, proof};
use crate::Fault;
use crate::request::{Request, refused};
use serde_json::{Value, json};
use zellige_layout::{Axis, Error, Inverse, Layout};
use zellige_notation::convert::convert;
use zellige_notation::cute::operators::{self, Arrange, Tiler, plain};
use zellige_notation::cute::{CuteText, LayoutText, Look, Modes, Nest};
use zellige_notation::{Diagnostic, Notation, Parsed, cute as notation};

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
        Some(a) => index_of(r, &a.by_index(r)?.inverse()?),
        None => proof::inverse(r),
    }
}

/// An inverse of a layout by CuTe's index, as a layout by CuTe's index.
fn index_of(r: &Request, found: &Inverse) -> Answer {
    let axes: Vec<&str> = found.axes.iter().map(Axis::name).collect();
    let size = found.layout.size();
    if named(r)? != Some(Notation::CUTE) {
        let text = r.print(&found.layout)?;
        return Ok(json!({"layout": text, "axes": axes, "shape": found.shape}));
    }
    let text = convert(&found.layout, &[size], None, Notation::CUTE).map_err(refused)?;
    let said = |d: Diagnostic| said("layout", &d);
    let mut text = notation::parse(&text).and_then(|t| t.as_layout().cloned()).map_err(said)?;
    // One dimension of several modes is written as these modes.
    if let [only @ Nest::Tuple(_)] = text.modes.modes() {
        text.modes = only.clone();
    }
    let text = text.text();
    Ok(json!({"layout": text, "axes": axes, "shape": found.shape}))
}

/// A layout over a shape, in the notation that is asked for.
fn printed(r: &Request, layout: &Layout, shape: &[i64]) -> Result<Value, Fault> {
    let to = named(r)?.unwrap_or(Notation::TIRX);
    convert(layout, shape, r.opt_dtype()?, to).map(Value::String).map_err(refused)
}

/// The notation of the answer, where it is named.
fn named(r: &Request) -> Result<Option<Notation>, Fault> {
    Ok(r.notation_field("as")?.or(r.notation_field("notation")?))
}

fn inverted(r: &Request, a: &Operand, f: fn(&Modes) -> Result<Modes, Error>) -> Answer {
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
            by_tiler(r, |a, b| $f(a, b, Arrange::$arrange))
        })*
    };
}

arranged! {
    logical_divide, operators::divide, Logical;
    zipped_divide, operators::divide, Zipped;
    tiled_divide, operators::divide, Tiled;
    flat_divide, operators::divide, Flat;
    logical_product, operators::product, Logical;
    zipped_product, operators::product, Zipped;
    tiled_product, operators::product, Tiled;
    flat_product, operators::product, Flat;
}

pub(super) fn blocked_product(r: &Request) -> Answer {
    by_layout(r, operators::blocked_product)
}

pub(super) fn raked_product(r: &Request) -> Answer {
    by_layout(r, operators::raked_product)
}

fn by_layout(r: &Request, f: fn(&Modes, &Modes) -> Result<Modes, Error>) -> Answer {
    let (a, b) = (operand(r, "a")?, operand(r, "b")?);
    let found = f(&a.modes, &b.plain("b")?.modes)?;
    Ok(json!({"layout": a.and(&b).with(&found, Notation::CUTE, r)?}))
}

fn by_tiler(r: &Request, f: impl Fn(&Modes, &Tiler) -> Result<Modes, Error>) -> Answer {
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
    modes: Modes,
    look: Look,
}

impl Operand {
    fn new(field: &'static str, text: LayoutText) -> Result<Operand, Fault> {
        let modes = text.numbers(None).map_err(|d| said(field, &d))?;
        let look = text.look();
        Ok(Operand { text, modes, look })
    }

    /// The same without anything before the modes, which some operators are not defined on.
    fn plain(&self, field: &'static str) -> Result<&Operand, Fault> {
        plain(&self.text).map_err(|d| said(field, &d))?;
        Ok(self)
    }

    /// The layout of the algebra whose flat index is CuTe's.
    fn by_index(&self, r: &Request) -> Result<Layout, Fault> {
        let parsed =
            Parsed::of_written(Notation::CUTE, CuteText::Layout(Box::new(self.text.clone())));
        r.lower("layout", &parsed, Some(&[self.modes.size()?]))
    }

    /// The look of a result of both.
    fn and(self, other: &Operand) -> Operand {
        let look = if other.look == Look::Static { self.look } else { Look::Bare };
        Operand { look, ..self }
    }

    /// Other modes behind the same swizzle, in the notation that is asked for.
    fn with(&self, modes: &Modes, unnamed: Notation, r: &Request) -> Result<Value, Fault> {
        let text = LayoutText { modes: modes.written(self.look), ..self.text.clone() };
        let text = CuteText::Layout(Box::new(text));
        if named(r)?.unwrap_or(unnamed) == Notation::CUTE {
            return Ok(json!(text.text()));
        }
        let parsed = Parsed::of_written(Notation::CUTE, text);
        let layout = r.lower("layout", &parsed, None)?;
        printed(r, &layout, &parsed.default_shape().unwrap_or_else(|| layout.default_shape()))
    }
}

/// The operand of a request that other notations share, where it is written in CuTe.
fn shared(r: &Request, field: &'static str) -> Result<Option<Operand>, Fault> {
    let parsed = r.parsed(field)?;
    let Some(text) = parsed.written::<CuteText>() else { return Ok(None) };
    let text = text.as_layout().map_err(|d| said(field, &d))?;
    Operand::new(field, text.clone()).map(Some)
}

fn operand(r: &Request, field: &'static str) -> Result<Operand, Fault> {
    Operand::new(field, layout_text(r, field, &r.parsed(field)?)?)
}

/// The layout of a parsed text in CuTe's terms.
fn layout_text(r: &Request, field: &'static str, parsed: &Parsed) -> Result<LayoutText, Fault> {
    let said = |d: Diagnostic| said(field, &d);
    if let Some(text) = parsed.written::<CuteText>() {
        return text.as_layout().cloned().map_err(said);
    }
    let layout = r.lower(field, parsed, None)?;
    let shape = parsed.default_shape().unwrap_or_else(|| layout.default_shape());
    let text = convert(&layout, &shape, None, Notation::CUTE).map_err(refused)?;
    notation::parse(&text).and_then(|t| t.as_layout().cloned()).map_err(said)
}

/// A tiler: a text, a size, or a list of these.
fn tiler(r: &Request, field: &'static str, v: &Value, look: &mut Look) -> Result<Tiler, Fault> {
    match v {
        Value::Array(parts) => {
            let parts = parts.iter().map(|p| tiler(r, field, p, look));
            Ok(Tiler::ByMode(parts.collect::<Result<_, Fault>>()?))
        }
        Value::String(text) if text.trim() == "_" => Ok(Tiler::Keep),
        Value::Number(n) => {
            let size = notation::parse(&n.to_string()).map_err(|d| said(field, &d))?;
            Tiler::of_text(&size).map_err(|d| said(field, &d))
        }
        _ => {
            let parsed = r.parsed_value(field, v)?;
            if let Some(text @ CuteText::Value(_)) = parsed.written::<CuteText>() {
                return Tiler::of_text(text).map_err(|d| said(field, &d));
            }
            let b = Operand::new(field, layout_text(r, field, &parsed)?)?;
            if b.look == Look::Bare {
                *look = Look::Bare;
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
