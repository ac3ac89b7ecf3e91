//! PyTorch host layouts: `size=[4, 6] stride=[6, 1] offset=2`.
//!
//! `stride` left out is row-major, `offset` left out is 0. Lists take square or round brackets.

use crate::convert::{Refusal, first_m, no};
use crate::cursor::Cursor;
use crate::notation::{NotationRow, first_word};
use crate::{Diagnostic, Parsed};
use zellige_layout::{Axis, Difference, Layout, Strided};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "torch",
    doc: "PyTorch size and stride",
    example: "size=[4, 6] stride=[1, 4] offset=2",
    recognises: |text| matches!(first_word(text), Some("size" | "stride" | "offset")),
    parse: |text, _| parse(text).map(Parsed::from),
    print: |parsed| parsed.host().map_or_else(String::new, print),
    express: |layout, shape, _| Ok(print(&to_strided(layout, shape)?)),
    needs_dtype: false,
};

/// Reads a host layout.
pub fn parse(text: &str) -> Result<Strided> {
    let mut c = Cursor::new(text);
    let (mut size, mut stride, mut offset) = (None, None, None);
    while let Some(key) = c.word() {
        let repeated = |given: bool| {
            if !given {
                return Ok(());
            }
            let message = format!("`{}` is given twice", key.value);
            Err(Diagnostic::syntax(key.span.clone(), message, "already given"))
        };
        match key.value {
            "size" => {
                repeated(size.is_some())?;
                c.expect('=', "after `size`")?;
                size = Some(c.int_list("sizes")?);
            }
            "stride" => {
                repeated(stride.is_some())?;
                c.expect('=', "after `stride`")?;
                stride = Some(c.int_list("strides")?);
            }
            "offset" => {
                repeated(offset.is_some())?;
                c.expect('=', "after `offset`")?;
                offset = Some(c.int("an offset")?.value);
            }
            other => {
                let message =
                    format!("unknown field `{}`", other.chars().take(40).collect::<String>());
                let label = "expected `size`, `stride` or `offset`";
                return Err(Diagnostic::syntax(key.span, message, label));
            }
        }
        let _ = c.eat(',');
    }
    c.finish("the layout")?;
    let Some(size) = size else { return Err(c.expected("`size=[..]`")) };
    let whole = 0..text.len();
    let offset = offset.unwrap_or(0);
    match stride {
        Some(stride) => Strided::new(&size.value, &stride.value, offset)
            .map_err(|e| Diagnostic::meaning(stride.span, e)),
        None => Strided::contiguous(&size.value)
            .and_then(|s| Strided::new(s.size(), s.stride(), offset))
            .map_err(|e| {
                Diagnostic::meaning(if size.span.is_empty() { whole } else { size.span }, e)
            }),
    }
}

/// The text of a host layout.
pub fn print(host: &Strided) -> String {
    let mut out = format!("size={:?} stride={:?}", host.size(), host.stride());
    if host.offset() != 0 {
        out += &format!(" offset={}", host.offset());
    }
    out
}

/// The host layout with one stride per dimension, where the layout is one.
pub fn to_strided(layout: &Layout, shape: &[i64]) -> Result<Strided, Refusal> {
    if let Some(axis) = layout.tile().axes().iter().find(|a| **a != Axis::M) {
        return no(format!("strides address one memory; the layout also uses `{axis}`"), None);
    }
    if layout.size() == 0 {
        return Ok(Strided::contiguous(shape)?);
    }
    if layout.tile().copies() > 1 && layout.image()?.copies > 1 {
        return no("an element has several places, and a stride gives one", Some(0));
    }
    let at = |flat: i64| -> Result<i64, Refusal> {
        Ok(layout.places(flat)?.points().first().map_or(0, |p| p.get(Axis::M)))
    };
    let base = at(0)?;
    let mut stride = vec![1; shape.len()];
    let mut weight = 1;
    for d in (0..shape.len()).rev() {
        if shape[d] > 1 {
            stride[d] = at(weight)? - base;
        } else if let Some(next) = stride.get(d + 1) {
            stride[d] = next.saturating_mul(shape[d + 1].max(1));
        }
        weight *= shape[d];
    }
    let candidate = Strided::new(shape, &stride, base)?;
    match candidate.to_layout()?.difference(layout)? {
        None => Ok(candidate),
        Some(Difference::At { index, left, right }) => {
            let (left, right) = (first_m(&left), first_m(&right));
            let reason = format!(
                "one stride per dimension, {stride:?}, puts the element at {left}, but it is at {right}"
            );
            no(reason, Some(index))
        }
        Some(Difference::Size(..)) => no("the sizes differ", None),
    }
}
