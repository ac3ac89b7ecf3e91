//! Sums, means and extremes, a result or a row of results at a time.

use super::frame::{KtirKernelFrame, loop_index_or_zero, size_to_i64};
use super::pointwise::tile_sticks;
use super::rows::{MAX_ROW_ELEMENTS, load_row, reduce_row};
use zellige_ktir::{KtirElem, KtirOpKind, KtirValue};

/// Adds the body of a reduction.
pub(super) fn build_reduction_body(f: &mut KtirKernelFrame, name: &str) -> Result<(), String> {
    let (kind, start) = match name {
        "amax" => (KtirOpKind::MaximumF, f64::NEG_INFINITY),
        "amin" => (KtirOpKind::MinimumF, f64::INFINITY),
        _ => (KtirOpKind::AddF, 0.0),
    };
    let gone: Vec<usize> = (0..f.spans.len()).filter(|l| f.spans[*l].reduced).collect();
    let group: usize = gone.iter().map(|l| f.splits[*l]).product();
    // The mean divides by the elements, not by the lanes: padding is no part of it.
    let count: f64 = gone.iter().map(|l| f.spans[*l].size as f64).product();
    let (x, out) = (&f.tensors[0], f.result_operand());
    let lanes = x.form.stick.and_then(|d| x.follows[d]);
    let reduced = lanes.filter(|l| gone.contains(l));
    let kept = lanes.filter(|l| !gone.contains(l));
    let result = out.form.stick.filter(|d| out.form.size[*d] > 1).and_then(|d| out.follows[d]);
    if result != kept && kept.is_some_and(|l| f.spans[l].size > 1) {
        return Err("the lanes of its operand and of its result are not the same".into());
    }
    // A row along the lanes is reduced by one core: combining parts of it would need a tile per part that no core
    // has.
    if reduced.is_some_and(|l| f.splits[l] > 1) {
        return Err("cores share a row".into());
    }
    if reduced.is_some_and(|l| f.spans[l].size > MAX_ROW_ELEMENTS) {
        return Err("a row does not stay in the scratchpad".into());
    }
    let same = kept.is_none_or(|_| x.form.eps == out.form.eps);
    if !same {
        return Err("operand and result have sticks of different lengths".into());
    }
    let outer: Vec<usize> =
        (0..f.spans.len()).filter(|l| !gone.contains(l) && Some(*l) != kept).collect();
    // The loop along the lanes is no loop of the text: one load has the whole row.
    let inner: Vec<usize> = gone.iter().copied().filter(|l| Some(*l) != reduced).collect();
    let wide = kept.map_or(1, |l| tile_sticks(f.slices[l].units));
    let eps = size_to_i64(x.form.eps);
    let shape = kept.map_or(vec![1], |_| vec![wide * eps]);
    let mean = name == "mean";
    f.add_loop_nest(&outer, &mut Vec::new(), &mut |f, at| {
        let one = |f: &mut KtirKernelFrame, stick: KtirValue| -> Result<(), String> {
            let init = f.b.float_tile(start, &shape, KtirElem::F32);
            let mut place_of = at.to_vec();
            let how = ReductionLoop {
                kind,
                start,
                stick,
                wide,
                reduced: reduced.is_some(),
                shape: &shape,
            };
            let mut acc = fold_loops(f, &inner, &mut place_of, init, &how);
            if group > 1 {
                acc = f.combine_across_cores(kind, acc, init, group);
            }
            if mean {
                let n = f.b.float_tile(count, &shape, KtirElem::F32);
                acc = f.b.binary_op(KtirOpKind::DivF, acc, n);
            }
            let k = f.tensors.len() - 1;
            let (follows, zero) = (f.tensors[k].follows.clone(), f.zero);
            let lanes = if kept.is_some() { None } else { Some(1) };
            let sticks = if kept.is_some() { (stick, wide) } else { (zero, 1) };
            f.run_on_first_core(&gone, |f| {
                let (tile, _) = f.operand_access_tile(
                    k,
                    &|d| (loop_index_or_zero(at, follows[d], zero), 1),
                    sticks,
                    lanes,
                );
                f.store_rounded(acc, tile);
            });
            Ok(())
        };
        let Some(l) = kept else { return one(f, f.zero) };
        let slice = f.slices[l];
        let step = f.index_constant(wide);
        f.add_loop((slice.first, slice.last, step), one)
    })
}

/// How numbers of one result are combined.
struct ReductionLoop<'a> {
    kind: KtirOpKind,
    start: f64,
    stick: KtirValue,
    wide: i64,
    reduced: bool,
    shape: &'a [i64],
}

fn fold_loops(
    f: &mut KtirKernelFrame,
    loops: &[usize],
    at: &mut Vec<(usize, KtirValue)>,
    acc: KtirValue,
    how: &ReductionLoop<'_>,
) -> KtirValue {
    if let Some((l, rest)) = loops.split_first() {
        let slice = f.slices[*l];
        let range = (slice.first, slice.last, f.one);
        return f.add_carrying_loop(range, &[acc], |f, i, inner| {
            at.push((*l, i));
            let acc = fold_loops(f, rest, at, inner[0], how);
            at.pop();
            vec![acc]
        })[0];
    }
    let next = if how.reduced {
        let whole = load_row(f, 0, at);
        reduce_row(f, how.kind, whole, how.start)
    } else {
        let (follows, zero, elem) = (f.tensors[0].follows.clone(), f.zero, f.tensors[0].elem);
        let kept = how.shape[0] > 1;
        let lanes = if kept { None } else { Some(1) };
        let sticks = if kept { (how.stick, how.wide) } else { (zero, 1) };
        let (tile, _) = f.operand_access_tile(
            0,
            &|d| (loop_index_or_zero(at, follows[d], zero), 1),
            sticks,
            lanes,
        );
        f.load_float32(tile, how.shape, elem)
    };
    f.b.binary_op(how.kind, acc, next)
}
