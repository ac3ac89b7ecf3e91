//! The two layouts of a move, from the words of the command line.

use anyhow::{Result, anyhow};
use zellige_float::Dtype;
use zellige_layout::{AxisTable, Layout, StridedLayout};
use zellige_notation::parse;
use zellige_stick::StickLayout;

/// A side of the move: its layout, and the shape of an array that holds its memory.
pub(super) struct MoveSide {
    pub(super) layout: Layout,
    pub(super) image: Vec<i64>,
}

pub(super) fn parse_move_side(text: &str, shape: &[i64], dtype: Dtype) -> Result<MoveSide> {
    let dense = |first_fastest: bool| -> Result<Layout> {
        Ok(StridedLayout::new(shape, &dense_strides(shape, first_fastest), 0)?.to_layout()?)
    };
    match text {
        "row-major" => Ok(MoveSide { layout: dense(false)?, image: shape.to_vec() }),
        "column-major" => {
            let layout = dense(true)?;
            // Flat, because the output is the memory image: a header that says Fortran order would give the tensor back
            // instead, and .safetensors has no such field.
            Ok(MoveSide { image: vec![layout.size()], layout })
        }
        "spyre" => {
            let stick = StickLayout::default_for_dtype(shape, dtype)?;
            Ok(MoveSide { layout: stick.lower_to_layout()?, image: stick.storage_size().to_vec() })
        }
        text => {
            let parsed =
                parse(text, &AxisTable::new()).map_err(|d| anyhow!("{}", d.render(text, false)))?;
            let layout = parsed
                .layout_over_shape(Some(shape))
                .map_err(|d| anyhow!("{}", d.render(text, false)))?;
            if let Some(stick) = parsed.stick_layout() {
                return Ok(MoveSide { layout, image: stick.storage_size().to_vec() });
            }
            let axis = layout.memory_axis();
            // The padded domain, because padding behind the last element belongs to the memory image too.
            let span = layout.padded_domain().axis_span(axis)?;
            Ok(MoveSide { layout, image: vec![span] })
        }
    }
}

/// The layout of one side alone.
pub(crate) fn side_layout(text: &str, shape: &[i64], dtype: Dtype) -> Result<Layout> {
    Ok(parse_move_side(text, shape, dtype)?.layout)
}

/// Dense strides, last dimension fastest, or first.
fn dense_strides(shape: &[i64], first_fastest: bool) -> Vec<i64> {
    let mut out = vec![1i64; shape.len()];
    let mut next = 1i64;
    let order: Vec<usize> =
        if first_fastest { (0..shape.len()).collect() } else { (0..shape.len()).rev().collect() };
    for d in order {
        out[d] = next;
        next = next.saturating_mul(shape[d].max(1));
    }
    out
}
