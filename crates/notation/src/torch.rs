//! PyTorch host layouts, with the terms of `Tensor.as_strided`: `size=[4, 6] stride=[6, 1] offset=2`.
//!
//! `stride` left out is row-major, `offset` left out is 0. Lists take square or round brackets.

use crate::convert::{ConversionRefusal, first_memory_coordinate, not_expressible};
use crate::cursor::TextCursor;
use crate::notation::{NotationRow, first_word};
use crate::{Diagnostic, ParsedText};
use zellige_layout::{Axis, Layout, LayoutDifference, StridedLayout};

type Result<T, E = Diagnostic> = std::result::Result<T, E>;

/// The row of the table of notations.
pub(crate) static ROW: NotationRow = NotationRow {
    name: "torch",
    doc: "PyTorch size and stride",
    example: "size=[4, 6] stride=[1, 4] offset=2",
    recognises: |text| matches!(first_word(text), Some("size" | "stride" | "offset")),
    parse: |text, _| parse(text).map(ParsedText::from),
    print: |parsed| parsed.host_layout().map_or_else(String::new, print_torch_layout),
    express: |layout, shape, _| Ok(print_torch_layout(&express_as_strided_layout(layout, shape)?)),
    needs_dtype: false,
};

/// Reads a host layout.
pub fn parse(text: &str) -> Result<StridedLayout> {
    let mut c = TextCursor::new(text);
    let (mut size, mut stride, mut offset) = (None, None, None);
    while let Some(key) = c.read_word() {
        let repeated = |given: bool| {
            if !given {
                return Ok(());
            }
            let message = format!("`{}` is given twice", key.value);
            Err(Diagnostic::syntax_error(key.span.clone(), message, "already given"))
        };
        match key.value {
            "size" => {
                repeated(size.is_some())?;
                c.expect_char('=', "after `size`")?;
                size = Some(c.read_int_list("sizes")?);
            }
            "stride" => {
                repeated(stride.is_some())?;
                c.expect_char('=', "after `stride`")?;
                stride = Some(c.read_int_list("strides")?);
            }
            "offset" => {
                repeated(offset.is_some())?;
                c.expect_char('=', "after `offset`")?;
                offset = Some(c.read_integer("an offset")?.value);
            }
            other => {
                let message =
                    format!("unknown field `{}`", other.chars().take(40).collect::<String>());
                let label = "expected `size`, `stride` or `offset`";
                return Err(Diagnostic::syntax_error(key.span, message, label));
            }
        }
        let _ = c.eat_char(',');
    }
    c.expect_end("the layout")?;
    let Some(size) = size else { return Err(c.refuse_next_token("`size=[..]`")) };
    let whole = 0..text.len();
    let offset = offset.unwrap_or(0);
    match stride {
        Some(stride) => StridedLayout::new(&size.value, &stride.value, offset)
            .map_err(|e| Diagnostic::meaning_error(stride.span, e)),
        None => StridedLayout::new_contiguous(&size.value)
            .and_then(|s| StridedLayout::new(s.size(), s.stride(), offset))
            .map_err(|e| {
                Diagnostic::meaning_error(if size.span.is_empty() { whole } else { size.span }, e)
            }),
    }
}

/// The text of a host layout.
pub fn print_torch_layout(host: &StridedLayout) -> String {
    let mut out = format!("size={:?} stride={:?}", host.size(), host.stride());
    if host.offset() != 0 {
        out += &format!(" offset={}", host.offset());
    }
    out
}

/// The host layout with one stride per dimension, if the layout has that form.
pub fn express_as_strided_layout(
    layout: &Layout,
    shape: &[i64],
) -> Result<StridedLayout, ConversionRefusal> {
    if let Some(axis) = layout.tile().axes().iter().find(|a| **a != Axis::M) {
        return not_expressible(
            format!("strides address one memory; the layout also uses `{axis}`"),
            None,
        );
    }
    if layout.size() == 0 {
        return Ok(StridedLayout::new_contiguous(shape)?);
    }
    if layout.tile().replica_count() > 1 && layout.analyze_image()?.copies > 1 {
        return not_expressible("an element has several places, and a stride gives one", Some(0));
    }
    let at = |flat: i64| -> Result<i64, ConversionRefusal> {
        Ok(layout
            .physical_coordinates(flat)?
            .sorted_coordinates()
            .first()
            .map_or(0, |p| p.get(Axis::M)))
    };
    let base = at(0)?;
    let mut stride = vec![1; shape.len()];
    let mut weight = 1;
    for d in (0..shape.len()).rev() {
        if shape[d] > 1 {
            // The first step along a dimension fixes its stride, so this is the only candidate; the
            // comparison below decides.
            stride[d] = at(weight)? - base;
        // No element depends on the stride of a dimension of size 1; PyTorch gives it the row-major
        // value.
        } else if let Some(next) = stride.get(d + 1) {
            stride[d] = next.saturating_mul(shape[d + 1].max(1));
        }
        weight *= shape[d];
    }
    let candidate = StridedLayout::new(shape, &stride, base)?;
    match candidate.to_layout()?.find_difference(layout)? {
        None => Ok(candidate),
        Some(LayoutDifference::At { index, left, right }) => {
            let (left, right) = (first_memory_coordinate(&left), first_memory_coordinate(&right));
            let reason = format!(
                "one stride per dimension, {stride:?}, puts the element at {left}, but it is at {right}"
            );
            not_expressible(reason, Some(index))
        }
        Some(LayoutDifference::Size(..)) => not_expressible("the sizes differ", None),
    }
}
