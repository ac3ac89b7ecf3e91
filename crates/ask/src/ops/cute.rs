//! CuTe's operators: texts in, the nesting that CuTe promises out.
//!
//! Operands that are written in CuTe keep their nesting, and their indices are CuTe's (the first mode
//! is fastest), also in the requests that other notations share. An operand in another notation is
//! written in CuTe first.

use super::{OpAnswer, algebra, proof};
use crate::RequestFault;
use crate::request::{Request, refuse_conversion};
use serde_json::{Value, json};
use zellige_layout::{Axis, InverseLayout, Layout, LayoutError};
use zellige_notation::convert::convert_layout;
use zellige_notation::cute::operators::{self, TileArrangement, Tiler, require_plain_layout};
use zellige_notation::cute::{CuteModes, CuteText, IntegerStyle, LayoutText, NestedTuple};
use zellige_notation::{Diagnostic, Notation, ParsedText, cute as notation};

pub(super) fn answer_coalesce(r: &Request) -> OpAnswer {
    let Some(a) = shared_operand(r, "layout")? else { return algebra::answer_canonicalize(r) };
    // A target is a question of TIRx, which CuTe has no word for.
    if r.get("target").is_some() {
        return algebra::answer_canonicalize(r);
    }
    let found = operators::coalesce(&a.modes);
    Ok(json!({"layout": a.print_modes(&found, Notation::TIRX, r)?}))
}

pub(super) fn answer_compose(r: &Request) -> OpAnswer {
    let Some(a) = shared_operand(r, "a")? else { return proof::answer_compose(r) };
    let Some(b) = shared_operand(r, "b")?.filter(|b| b.text.swizzle.is_none()) else {
        // What `b` gives is an index of `a`, and CuTe counts that.
        let parsed = r.parse_layout("b")?;
        let b = r.lower_layout("b", &parsed, None)?;
        let shape = parsed.default_shape().unwrap_or_else(|| b.default_shape());
        return Ok(json!({"layout": print_over_shape(r, &a.by_index(r)?.compose(&b)?, &shape)?}));
    };
    let tiler = Tiler::Layout(b.modes.clone());
    let found = operators::composition(&a.modes, &tiler)?;
    Ok(json!({"layout": a.join_look(&b).print_modes(&found, Notation::TIRX, r)?}))
}

pub(super) fn answer_complement(r: &Request) -> OpAnswer {
    let Some(a) = shared_operand(r, "layout")? else { return proof::answer_complement(r) };
    let found = operators::complement(&a.require_plain("layout")?.modes, r.require_int("cosize")?)?;
    Ok(json!({"layout": a.print_modes(&found, Notation::TIRX, r)?}))
}

pub(super) fn answer_right_inverse(r: &Request) -> OpAnswer {
    match shared_operand(r, "layout")? {
        Some(a) if a.text.swizzle.is_none() => answer_inverse_by(r, &a, operators::right_inverse),
        Some(a) => print_inverse(r, &a.by_index(r)?.right_inverse()?),
        None => proof::answer_right_inverse(r),
    }
}

pub(super) fn answer_left_inverse(r: &Request) -> OpAnswer {
    match shared_operand(r, "layout")? {
        Some(a) if a.text.swizzle.is_none() => answer_inverse_by(r, &a, operators::left_inverse),
        Some(a) => print_inverse(r, &a.by_index(r)?.left_inverse()?),
        None => proof::answer_left_inverse(r),
    }
}

pub(super) fn answer_inverse(r: &Request) -> OpAnswer {
    match shared_operand(r, "layout")? {
        Some(a) => print_inverse(r, &a.by_index(r)?.exact_inverse()?),
        None => proof::answer_inverse(r),
    }
}

/// An inverse of a layout by CuTe's index, as a layout by CuTe's index.
fn print_inverse(r: &Request, found: &InverseLayout) -> OpAnswer {
    let axes: Vec<&str> = found.axes.iter().map(Axis::name).collect();
    let size = found.layout.size();
    if read_answer_notation(r)? != Some(Notation::CUTE) {
        let text = r.print_layout(&found.layout)?;
        return Ok(json!({"layout": text, "axes": axes, "shape": found.shape}));
    }
    let text =
        convert_layout(&found.layout, &[size], None, Notation::CUTE).map_err(refuse_conversion)?;
    let refused = |d: Diagnostic| unreadable_operand("layout", &d);
    let mut text =
        notation::parse(&text).and_then(|t| t.as_layout_text().cloned()).map_err(refused)?;
    // One dimension of several modes is written as these modes.
    if let [only @ NestedTuple::Tuple(_)] = text.modes.top_modes() {
        text.modes = only.clone();
    }
    let text = text.print_cute_text();
    Ok(json!({"layout": text, "axes": axes, "shape": found.shape}))
}

/// A layout over a shape, in the notation of the answer.
fn print_over_shape(r: &Request, layout: &Layout, shape: &[i64]) -> Result<Value, RequestFault> {
    let to = read_answer_notation(r)?.unwrap_or(Notation::TIRX);
    convert_layout(layout, shape, r.optional_dtype()?, to)
        .map(Value::String)
        .map_err(refuse_conversion)
}

/// The notation of the answer, where it is named.
fn read_answer_notation(r: &Request) -> Result<Option<Notation>, RequestFault> {
    Ok(r.notation_field("as")?.or(r.notation_field("notation")?))
}

fn answer_inverse_by(
    r: &Request,
    a: &CuteOperand,
    f: fn(&CuteModes) -> Result<CuteModes, LayoutError>,
) -> OpAnswer {
    let found = f(&a.require_plain("layout")?.modes)?;
    let shape = vec![found.size()?];
    Ok(json!({"layout": a.print_modes(&found, Notation::TIRX, r)?, "axes": ["m"], "shape": shape}))
}

pub(super) fn answer_composition(r: &Request) -> OpAnswer {
    by_tiler(r, operators::composition)
}

macro_rules! arranged {
    ($($name:ident, $f:path, $arrange:ident;)*) => {
        $(pub(super) fn $name(r: &Request) -> OpAnswer {
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

pub(super) fn answer_blocked_product(r: &Request) -> OpAnswer {
    by_layout(r, operators::blocked_product)
}

pub(super) fn answer_raked_product(r: &Request) -> OpAnswer {
    by_layout(r, operators::raked_product)
}

fn by_layout(
    r: &Request,
    f: fn(&CuteModes, &CuteModes) -> Result<CuteModes, LayoutError>,
) -> OpAnswer {
    let (a, b) = (read_operand(r, "a")?, read_operand(r, "b")?);
    let found = f(&a.modes, &b.require_plain("b")?.modes)?;
    Ok(json!({"layout": a.join_look(&b).print_modes(&found, Notation::CUTE, r)?}))
}

fn by_tiler(
    r: &Request,
    f: impl Fn(&CuteModes, &Tiler) -> Result<CuteModes, LayoutError>,
) -> OpAnswer {
    let mut a = read_operand(r, "a")?;
    let tiler = match (r.get("b"), r.get("tiler")) {
        (Some(_), Some(_)) => {
            let message =
                "both `b` and `tiler` are given; `tiler` is a list of layouts, one for each mode";
            return Err(RequestFault {
                kind: "bad_request",
                message: message.into(),
                witness: json!({"field": "tiler"}),
            });
        }
        (Some(v), None) => read_tiler(r, "b", v, &mut a.look)?,
        (None, _) => read_tiler(
            r,
            "tiler",
            r.require_field("tiler").map_err(|_| missing_tiler())?,
            &mut a.look,
        )?,
    };
    let found = f(&a.modes, &tiler)?;
    Ok(json!({"layout": a.print_modes(&found, Notation::CUTE, r)?}))
}

fn missing_tiler() -> RequestFault {
    RequestFault {
        kind: "bad_request",
        message:
            "`b` is missing; give a layout `b`, or a list of layouts `tiler`, one for each mode"
                .into(),
        witness: json!({"field": "b"}),
    }
}

/// A layout in CuTe's terms.
struct CuteOperand {
    text: LayoutText,
    modes: CuteModes,
    look: IntegerStyle,
}

impl CuteOperand {
    fn new(field: &'static str, text: LayoutText) -> Result<CuteOperand, RequestFault> {
        let modes = text.modes_with_numbers(None).map_err(|d| unreadable_operand(field, &d))?;
        let look = text.integer_style();
        Ok(CuteOperand { text, modes, look })
    }

    /// The same without anything before the modes, which some operators are not defined on.
    fn require_plain(&self, field: &'static str) -> Result<&CuteOperand, RequestFault> {
        require_plain_layout(&self.text).map_err(|d| unreadable_operand(field, &d))?;
        Ok(self)
    }

    /// The layout of the algebra whose flat index is CuTe's.
    fn by_index(&self, r: &Request) -> Result<Layout, RequestFault> {
        let parsed =
            ParsedText::from_written(Notation::CUTE, CuteText::Layout(Box::new(self.text.clone())));
        r.lower_layout("layout", &parsed, Some(&[self.modes.size()?]))
    }

    /// The style of integers in a result of both.
    fn join_look(self, other: &CuteOperand) -> CuteOperand {
        // CuTe prints an integer that is known when compiling as `_8`. A result is static only where both operands
        // are, as in C++.
        let look = if other.look == IntegerStyle::Static { self.look } else { IntegerStyle::Bare };
        CuteOperand { look, ..self }
    }

    /// Other modes behind the same swizzle, in the notation of the answer.
    fn print_modes(
        &self,
        modes: &CuteModes,
        unnamed: Notation,
        r: &Request,
    ) -> Result<Value, RequestFault> {
        let text = LayoutText { modes: modes.written_in_style(self.look), ..self.text.clone() };
        let text = CuteText::Layout(Box::new(text));
        if read_answer_notation(r)?.unwrap_or(unnamed) == Notation::CUTE {
            return Ok(json!(text.print_cute_text()));
        }
        let parsed = ParsedText::from_written(Notation::CUTE, text);
        let layout = r.lower_layout("layout", &parsed, None)?;
        print_over_shape(
            r,
            &layout,
            &parsed.default_shape().unwrap_or_else(|| layout.default_shape()),
        )
    }
}

/// The operand of a request that other notations share, where it is written in CuTe.
fn shared_operand(r: &Request, field: &'static str) -> Result<Option<CuteOperand>, RequestFault> {
    let parsed = r.parse_layout(field)?;
    let Some(text) = parsed.written_layout::<CuteText>() else { return Ok(None) };
    let text = text.as_layout_text().map_err(|d| unreadable_operand(field, &d))?;
    CuteOperand::new(field, text.clone()).map(Some)
}

fn read_operand(r: &Request, field: &'static str) -> Result<CuteOperand, RequestFault> {
    CuteOperand::new(field, layout_text(r, field, &r.parse_layout(field)?)?)
}

/// The layout of a parsed text in CuTe's terms.
fn layout_text(
    r: &Request,
    field: &'static str,
    parsed: &ParsedText,
) -> Result<LayoutText, RequestFault> {
    let refused = |d: Diagnostic| unreadable_operand(field, &d);
    if let Some(text) = parsed.written_layout::<CuteText>() {
        return text.as_layout_text().cloned().map_err(refused);
    }
    let layout = r.lower_layout(field, parsed, None)?;
    let shape = parsed.default_shape().unwrap_or_else(|| layout.default_shape());
    let text = convert_layout(&layout, &shape, None, Notation::CUTE).map_err(refuse_conversion)?;
    notation::parse(&text).and_then(|t| t.as_layout_text().cloned()).map_err(refused)
}

/// A tiler: a text, a size, or a list of these.
fn read_tiler(
    r: &Request,
    field: &'static str,
    v: &Value,
    look: &mut IntegerStyle,
) -> Result<Tiler, RequestFault> {
    match v {
        Value::Array(parts) => {
            let parts = parts.iter().map(|p| read_tiler(r, field, p, look));
            Ok(Tiler::ByMode(parts.collect::<Result<_, RequestFault>>()?))
        }
        // CuTe's underscore keeps a mode as it is.
        Value::String(text) if text.trim() == "_" => Ok(Tiler::Keep),
        Value::Number(n) => {
            let size =
                notation::parse(&n.to_string()).map_err(|d| unreadable_operand(field, &d))?;
            Tiler::from_cute_text(&size).map_err(|d| unreadable_operand(field, &d))
        }
        _ => {
            let parsed = r.parse_layout_value(field, v)?;
            if let Some(text @ CuteText::Value(_)) = parsed.written_layout::<CuteText>() {
                return Tiler::from_cute_text(text).map_err(|d| unreadable_operand(field, &d));
            }
            let b = CuteOperand::new(field, layout_text(r, field, &parsed)?)?;
            // One dynamic part of a tiler makes the result dynamic.
            if b.look == IntegerStyle::Bare {
                *look = IntegerStyle::Bare;
            }
            Ok(Tiler::Layout(b.require_plain(field)?.modes.clone()))
        }
    }
}

/// A text without something that the operator needs, or with something that it does not take.
fn unreadable_operand(field: &'static str, d: &Diagnostic) -> RequestFault {
    match &d.cause {
        Some(cause) => RequestFault::from((**cause).clone()),
        None => RequestFault {
            kind: "bad_request",
            message: match &d.help {
                Some(help) => format!("`{field}`: {}; {help}", d.message),
                None => format!("`{field}`: {}", d.message),
            },
            witness: json!({"field": field}),
        },
    }
}
