//! Any layout of the algebra as a CuTe text.

use super::modes::{Look, Mode, Modes, axis_basis};
use super::nest::{Nest, tuple_of};
use super::text::{CuteText, Int, LayoutText, SwizzleOf, SwizzleText};
use crate::WrittenLayout;
use crate::convert::{Refusal, no, without_padding};
use zellige_layout::{Axis, Difference, Error, Layout};

/// The CuTe text of a layout over a shape: one mode for each dimension, of several modes where one
/// stride does not do.
///
/// A layout that does not begin at 0 is written behind the swizzle that moves nothing:
/// `Sw<0,4,3> o 5 o 8:1`.
pub fn express(layout: &Layout, shape: &[i64]) -> Result<String, Refusal> {
    let elements = without_padding(layout, shape, "CuTe has no padding")?;
    let layout = elements.as_ref();
    let tile = layout.tile().canonical();
    if let Some(axis) = tile.axes().iter().find(|a| axis_basis(**a).is_none()) {
        let reason =
            format!("a CuTe layout gives one offset or coordinate; this one also uses `{axis}`");
        return no(reason, None);
    }
    if !tile.replica().is_empty() && layout.size() > 0 && layout.image()?.copies > 1 {
        return no("an element has several places, and a CuTe layout gives one", Some(0));
    }
    let grouped = match tile.group(shape) {
        Ok(grouped) => grouped,
        Err(e @ Error::NotGroupable { .. }) => {
            // The first element past the boundary that is not met.
            let witness = match &e {
                Error::NotGroupable { boundary, .. } => Some(*boundary),
                _ => None,
            };
            let reason = format!("a mode of CuTe has strides of its own: {e}");
            return no(reason, witness.filter(|w| *w < layout.size()));
        }
        Err(e) => return Err(e.into()),
    };
    let (grouped, seps) = grouped;
    let mut modes = Vec::with_capacity(shape.len());
    for ends in seps.windows(2) {
        let mut leaves = Vec::new();
        for it in grouped.shard()[ends[0]..ends[1]].iter().rev() {
            let basis = axis_basis(it.axis).unwrap_or_default();
            leaves.push(match it.extent {
                1 => Mode::unit(),
                _ if it.stride == 0 => Mode::new(it.extent, 0),
                _ => Mode { extent: it.extent, stride: it.stride, basis },
            });
        }
        modes.push(tuple_of(leaves, Mode::unit()));
    }
    // One dimension of several modes is a tuple of one, so that it stays one dimension.
    let modes: Modes = match modes.as_mut_slice() {
        [leaf @ Nest::Leaf(_)] => leaf.clone(),
        _ => Nest::Tuple(modes),
    };
    let offset = if layout.size() > 0 { tile.offset() } else { &[] };
    let swizzle = match (layout.swizzle(), offset) {
        (sw, []) if sw.is_none_or(|sw| sw.is_identity()) => None,
        (_, offsets) => {
            if let Some((axis, _)) = offsets.iter().find(|(a, _)| *a != Axis::M) {
                let reason =
                    format!("CuTe's coordinates begin at 0; this layout has an offset on `{axis}`");
                return no(reason, Some(0));
            }
            let offset = tile.offset_on(Axis::M);
            if offset < 0 {
                return no(format!("the offset {offset} is below 0"), Some(0));
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
            Some((sw, SwizzleOf::Elements(Some(Int::Bare(offset)))))
        }
    };
    let text = LayoutText { engine: None, swizzle, modes: modes.written(Look::Bare) };
    let text = CuteText::Layout(Box::new(text));
    let again = WrittenLayout::layout(&text, Some(shape)).map_err(|d| match d.cause {
        Some(cause) => Refusal::Error(*cause),
        None => Refusal::NotExpressible(crate::convert::NotExpressible {
            reason: d.message,
            witness: None,
        }),
    })?;
    match again.difference(layout)? {
        None => Ok(text.text()),
        Some(Difference::At { index, .. }) => {
            no("nested strides put the element elsewhere", Some(index))
        }
        Some(Difference::Size(..)) => no("the sizes differ", None),
    }
}
