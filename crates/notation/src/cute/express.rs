//! Any layout of the algebra as a CuTe text.

use super::modes::{CuteMode, CuteModes, IntegerStyle, mode_basis_of_axis};
use super::nest::{NestedTuple, tuple_of_leaves};
use super::text::{CuteInt, CuteText, LayoutText, SwizzleTarget, SwizzleText};
use crate::WrittenLayout;
use crate::convert::{ConversionRefusal, not_expressible, without_window};
use zellige_layout::{Axis, Layout, LayoutDifference, LayoutError};

/// The CuTe text of a layout over a shape: one mode for each dimension, nested where one stride is not enough.
///
/// CuTe writes an offset only behind a swizzle, so a layout that does not begin at 0 is written behind the
/// identity swizzle: `Sw<0,4,3> o 5 o 8:1`.
pub fn express_as_cute(layout: &Layout, shape: &[i64]) -> Result<String, ConversionRefusal> {
    let elements = without_window(layout, shape, "CuTe has no padding")?;
    let layout = elements.as_ref();
    let tile = layout.tile().canonical_form();
    if let Some(axis) = tile.axes().iter().find(|a| mode_basis_of_axis(**a).is_none()) {
        let reason =
            format!("a CuTe layout gives one offset or coordinate; this one also uses `{axis}`");
        return not_expressible(reason, None);
    }
    if !tile.replica().is_empty() && layout.size() > 0 && layout.analyze_image()?.copies > 1 {
        return not_expressible(
            "an element has several places, and a CuTe layout gives one",
            Some(0),
        );
    }
    let grouped = match tile.group(shape) {
        Ok(grouped) => grouped,
        Err(e @ LayoutError::NotGroupable { .. }) => {
            // The first element past the boundary that cuts an iter.
            let witness = match &e {
                LayoutError::NotGroupable { boundary, .. } => Some(*boundary),
                _ => None,
            };
            let reason = format!("a mode of CuTe has strides of its own: {e}");
            return not_expressible(reason, witness.filter(|w| *w < layout.size()));
        }
        Err(e) => return Err(e.into()),
    };
    let (grouped, seps) = grouped;
    let mut modes = Vec::with_capacity(shape.len());
    for ends in seps.windows(2) {
        let mut leaves = Vec::new();
        for it in grouped.shard()[ends[0]..ends[1]].iter().rev() {
            let basis = mode_basis_of_axis(it.axis).unwrap_or_default();
            leaves.push(match it.extent {
                1 => CuteMode::unit_mode(),
                _ if it.stride == 0 => CuteMode::new(it.extent, 0),
                _ => CuteMode { extent: it.extent, stride: it.stride, basis },
            });
        }
        modes.push(tuple_of_leaves(leaves, CuteMode::unit_mode()));
    }
    // A single dimension of several modes is wrapped in a tuple, because its modes at the top level would
    // be dimensions.
    let modes: CuteModes = match modes.as_mut_slice() {
        [leaf @ NestedTuple::Leaf(_)] => leaf.clone(),
        _ => NestedTuple::Tuple(modes),
    };
    let offset = if layout.size() > 0 { tile.offset() } else { &[] };
    let swizzle = match (layout.swizzle(), offset) {
        (sw, []) if sw.is_none_or(|sw| sw.is_identity()) => None,
        (_, offsets) => {
            if let Some((axis, _)) = offsets.iter().find(|(a, _)| *a != Axis::M) {
                let reason =
                    format!("CuTe's coordinates begin at 0; this layout has an offset on `{axis}`");
                return not_expressible(reason, Some(0));
            }
            let offset = tile.offset_on(Axis::M);
            if offset < 0 {
                return not_expressible(format!("the offset {offset} is below 0"), Some(0));
            }
            let sw = match layout.swizzle() {
                Some(sw) => SwizzleText {
                    bits: sw.swizzle_len().into(),
                    base: sw.per_element().into(),
                    shift: if sw.is_inner() { 1 } else { -1 } * i64::from(sw.atom_len()),
                    dsl: false,
                },
                None => SwizzleText { bits: 0, base: 4, shift: 3, dsl: false },
            };
            Some((sw, SwizzleTarget::Elements(Some(CuteInt::Bare(offset)))))
        }
    };
    let text =
        LayoutText { engine: None, swizzle, modes: modes.written_in_style(IntegerStyle::Bare) };
    let text = CuteText::Layout(Box::new(text));
    // CuTe's index order is colexicographic inside a mode, so the text is lowered again and
    // compared instead of trusted.
    let again =
        WrittenLayout::layout_over_shape(&text, Some(shape)).map_err(|d| match d.cause {
            Some(cause) => ConversionRefusal::Error(*cause),
            None => ConversionRefusal::NotExpressible(crate::convert::NotExpressible {
                reason: d.message,
                witness: None,
            }),
        })?;
    match again.find_difference(layout)? {
        None => Ok(text.print_cute_text()),
        Some(LayoutDifference::At { index, .. }) => {
            not_expressible("nested strides give the element another place", Some(index))
        }
        Some(LayoutDifference::Size(..)) => not_expressible("the sizes differ", None),
    }
}
