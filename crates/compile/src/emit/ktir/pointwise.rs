//! Element by element: rows of whole sticks. Lanes of padding are computed too, because a tile has whole sticks; what
//! they hold is never read as an element.

use super::frame::{KtirKernelFrame, loop_index_or_zero, size_to_i64};
use super::math;
use zellige_op::OpRow;

/// Sticks of a tile at most: 64 KiB.
// A stick is 128 bytes. Two tiles of every operand and of the result have to fit into the 2 MiB of a scratchpad, one
// in use and one on its way.
const MAX_TILE_STICKS: i64 = 512;

/// The largest number of sticks of a tile that divides those of a core.
pub(super) fn tile_sticks(units: Option<i64>) -> i64 {
    let Some(n) = units else { return 1 };
    // A divisor, so that all tiles have one shape: a shorter last tile would need a second copy of the body.
    (1..=n.min(MAX_TILE_STICKS)).rev().find(|w| n % w == 0).unwrap_or(1)
}

/// Adds the body of a pointwise operation.
pub(super) fn build_pointwise_body(f: &mut KtirKernelFrame, row: &OpRow) -> Result<(), String> {
    let count = f.tensors.len();
    // The loop along the lanes, if any tensor has them.
    let along = |t: usize| {
        let t = &f.tensors[t];
        t.form.stick.filter(|d| t.form.size[*d] > 1).and_then(|d| t.follows[d])
    };
    let lanes = (0..count).rev().find_map(along);
    let unit = lanes.map_or(1, |l| size_to_i64(f.spans[l].unit));
    for (k, t) in f.tensors.iter().enumerate() {
        let own = along(k);
        if own.is_some() && own != lanes {
            return Err(format!("operand {k} has its lanes along another loop"));
        }
        if let Some(l) = own
            && size_to_i64(t.form.stick_count() * t.form.eps)
                < size_to_i64(f.spans[l].unit_count()) * unit
        {
            return Err(format!("operand {k} has fewer sticks than the padded loop"));
        }
        if own.is_none() && k + 1 == count && lanes.is_some() {
            return Err("its result has one element in each stick, and operands have lanes".into());
        }
    }
    let outer: Vec<usize> = (0..f.spans.len()).filter(|l| Some(*l) != lanes).collect();
    let wide = lanes.map_or(1, |l| tile_sticks(f.slices[l].units));
    let elements = wide * unit;
    f.add_loop_nest(&outer, &mut Vec::new(), &mut |f, at| {
        let tile_at = |f: &mut KtirKernelFrame, k: usize, stick: zellige_ktir::KtirValue| {
            let (follows, form) = (f.tensors[k].follows.clone(), f.tensors[k].form.clone());
            let zero = f.zero;
            let has = form.stick.is_some_and(|d| form.size[d] > 1);
            let (mut first, mut sticks) = (stick, 1);
            if has {
                let eps = size_to_i64(form.eps);
                sticks = elements / eps;
                // Operands of 16 and of 32 bits have 64 and 32 elements in a stick; the loop counts in the longer
                // ones, and the others take several sticks per iteration.
                if unit != eps {
                    let times = f.index_constant(unit / eps);
                    first = f.b.binary_op(zellige_ktir::KtirOpKind::MulI, stick, times);
                }
            } else {
                first = zero;
            }
            let lanes = if has { None } else { Some(1) };
            let (tile, _) = f.operand_access_tile(
                k,
                &|d| (loop_index_or_zero(at, follows[d], zero), 1),
                (first, sticks),
                lanes,
            );
            (tile, has)
        };
        let one = |f: &mut KtirKernelFrame, stick: zellige_ktir::KtirValue| -> Result<(), String> {
            let shape = [elements];
            let mut values = Vec::with_capacity(count - 1);
            for k in 0..count - 1 {
                let elem = f.tensors[k].elem;
                let (tile, has) = tile_at(f, k, stick);
                values.push(if has || elements == 1 {
                    f.load_float32(tile, &shape, elem)
                } else {
                    let single = f.load_float32(tile, &[1], elem);
                    f.broadcast_scalar(single, &shape)
                });
            }
            let result = math::apply_table_op(f, row, &values, &shape)?;
            let (tile, _) = tile_at(f, count - 1, stick);
            f.store_rounded(result, tile);
            Ok(())
        };
        let Some(l) = lanes else { return one(f, f.zero) };
        let slice = f.slices[l];
        if slice.units == Some(wide) {
            return one(f, slice.first);
        }
        let step = f.index_constant(wide);
        f.add_loop((slice.first, slice.last, step), one)
    })
}
