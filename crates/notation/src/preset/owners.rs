//! Inverses of the thread-value layouts of CuTe's atoms: the lane and register that hold an element.
//!
//! CuTe writes (thread, value) -> element. That is an index in a tile and not memory: banks, sectors and
//! copies are questions about the inverse, element -> (thread, value), which is the owner map that the
//! other notations of fragments write.

use crate::cute::CuteModes;
use crate::cute::atoms::{AtomLayouts, CuteAtom};
use crate::tirx;
use zellige_layout::{Axis, AxisTable, Iter, Layout, TileLayout};

/// Which lane and register holds each element of an operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerMap {
    /// The shape of the operand.
    pub shape: Vec<i64>,
    /// The type of its elements, by its PyTorch name, if the atom's name states one that PyTorch has.
    pub dtype: Option<&'static str>,
    /// The layout, in TIRx.
    pub text: String,
}

/// The lanes of a warp.
const WARP_LANES: i64 = 32;

/// A digit of the index of an element: `extent` values, `step` apart, each of which is `stride` further on an axis.
#[derive(Clone, Copy)]
struct OwnerRun {
    extent: i64,
    step: i64,
    axis: Axis,
    stride: i64,
}

/// The owner maps of the layouts of an atom, in the order of [`CuteAtom::layout_fields`]; `None` for an
/// operand of which no thread holds a part, such as one in shared or tensor memory.
pub(super) fn owner_maps_of_atom(atom: &CuteAtom) -> [Option<OwnerMap>; 3] {
    // In these atoms one thread issues the instruction for the tensor memory of the whole CTA, so threads
    // own nothing.
    if atom.name.contains("SM100_") {
        return [None, None, None];
    }
    let of = |modes: &CuteModes, sizes: [i64; 2], turned: bool, operand: Option<usize>| {
        let layout = invert_to_owner_map(modes, &atom.threads, sizes, turned)?;
        let shape = match (operand, turned) {
            (None, _) => vec![sizes[0]],
            (_, false) => sizes.to_vec(),
            (_, true) => vec![sizes[1], sizes[0]],
        };
        let dtype = operand.and_then(|k| atom.operand_dtype(k));
        Some(OwnerMap { shape, dtype, text: tirx::print_tirx(&layout) })
    };
    match &atom.layouts {
        AtomLayouts::Mma { shape: [m, n, k], a, b, c } => [
            of(a, [*m, *k], false, Some(0)),
            // CuTe writes B as (N, K); as the right factor of a product its shape is [K, N].
            of(b, [*n, *k], true, Some(1)),
            of(c, [*m, *n], false, Some(2)),
        ],
        AtomLayouts::Copy { src, dst, reference } => [src, dst, reference].map(|modes| {
            let bits = modes.cosize().ok()?;
            of(modes, [bits, 1], false, None)
        }),
    }
}

/// The inverse of a thread-value layout onto `rows x columns` elements, the rows fastest; `turned` has the
/// columns as first dimension. `None` if the threads hold nothing, or if some element is held nowhere.
fn invert_to_owner_map(
    modes: &CuteModes,
    threads: &CuteModes,
    sizes: [i64; 2],
    turned: bool,
) -> Option<Layout> {
    let [thread, value] = modes.top_modes() else { return None };
    let mut runs = Vec::new();
    for (extent, step, weight) in weighted_leaves(thread)? {
        runs.extend(split_over_threads(
            OwnerRun { extent, step, axis: Axis::LANEID, stride: weight },
            threads,
        )?);
    }
    if runs.iter().all(|r| r.step == 0) {
        return None;
    }
    for (extent, step, weight) in weighted_leaves(value)? {
        runs.push(OwnerRun { extent, step, axis: Axis::M, stride: weight });
    }
    let (copies, mut runs): (Vec<OwnerRun>, Vec<OwnerRun>) =
        // A step of 0 in the element is a step between copies of it: a replica of the inverse.
        runs.into_iter().partition(|r| r.step == 0);
    runs.sort_by_key(|r| r.step);
    // CuTe's index counts the rows fastest, so the digits below the number of rows belong to the rows.
    let mut dims: [Vec<Iter>; 2] = [Vec::new(), Vec::new()];
    let mut next = 1;
    for run in runs {
        // Sorted by their steps, the digits must continue one another from 1 on. Otherwise some
        // element has no owner, or two.
        if run.step != next {
            return None;
        }
        next *= run.extent;
        let inside = (sizes[0] / run.step).clamp(1, run.extent);
        if run.extent % inside != 0 || (inside < run.extent && run.step * inside % sizes[0] != 0) {
            return None;
        }
        let place = |extent, times| Iter::new(extent, run.stride * times, run.axis);
        if run.step < sizes[0] {
            dims[0].push(place(inside, 1));
            dims[1].extend((inside < run.extent).then(|| place(run.extent / inside, inside)));
        } else {
            dims[1].push(place(run.extent, 1));
        }
    }
    if next != sizes[0] * sizes[1] {
        return None;
    }
    if turned {
        dims.reverse();
    }
    let shard: Vec<Iter> = dims.iter().flat_map(|own| own.iter().rev().copied()).collect();
    let replica = copies.iter().map(|r| Iter::new(r.extent, r.stride, r.axis)).collect();
    Some(Layout::from(TileLayout::new(shard, replica, []).ok()?))
}

/// The leaves of a mode that move: extent, stride, and how many coordinates of the mode one step is.
fn weighted_leaves(mode: &CuteModes) -> Option<Vec<(i64, i64, i64)>> {
    let mut weight = 1i64;
    let mut found = Vec::new();
    for leaf in mode.leaves() {
        if !leaf.basis.is_empty() || leaf.stride < 0 || leaf.extent < 1 {
            return None;
        }
        if leaf.extent > 1 {
            found.push((leaf.extent, leaf.stride, weight));
        }
        weight = weight.checked_mul(leaf.extent)?;
    }
    Some(found)
}

/// A run over the threads of an atom as runs over the lanes of a warp and the warps of a group.
fn split_over_threads(run: OwnerRun, threads: &CuteModes) -> Option<Vec<OwnerRun>> {
    let mut found = Vec::new();
    let mut rest = run;
    for (extent, stride, weight) in weighted_leaves(threads)? {
        let end = weight * extent;
        if rest.extent == 1 || end <= rest.stride {
            continue;
        }
        if rest.stride % weight != 0 || end % rest.stride != 0 {
            return None;
        }
        let taken = rest.extent.min(end / rest.stride);
        if rest.extent % taken != 0 {
            return None;
        }
        found.extend(split_over_warps(OwnerRun {
            extent: taken,
            stride: stride * (rest.stride / weight),
            ..rest
        })?);
        rest.step *= taken;
        rest.stride *= taken;
        rest.extent /= taken;
    }
    (rest.extent == 1).then_some(found)
}

/// A run over the threads of a group as one over lanes and one over warps.
fn split_over_warps(run: OwnerRun) -> Option<Vec<OwnerRun>> {
    let warp = AxisTable::new().get("wid_in_wg").ok()?;
    let (end, on_warp) = (run.stride * run.extent, |r: OwnerRun| OwnerRun {
        axis: warp,
        stride: r.stride / WARP_LANES,
        ..r
    });
    if end <= WARP_LANES {
        return Some(vec![run]);
    }
    if run.stride >= WARP_LANES {
        return (run.stride % WARP_LANES == 0).then(|| vec![on_warp(run)]);
    }
    let lanes = WARP_LANES / run.stride;
    if WARP_LANES % run.stride != 0 || run.extent % lanes != 0 {
        return None;
    }
    let above =
        OwnerRun { extent: run.extent / lanes, step: run.step * lanes, stride: WARP_LANES, ..run };
    Some(vec![OwnerRun { extent: lanes, ..run }, on_warp(above)])
}
