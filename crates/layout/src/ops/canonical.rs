//! Canonical forms.

use crate::axis::{Axis, AxisKind, AxisTable};
use crate::error::Result;
use crate::layout::Layout;
use crate::tile::{Iter, TileLayout};
use smallvec::SmallVec;

impl TileLayout {
    /// The canonical form: the same function with as few iters as possible.
    ///
    /// Unit shard iters are dropped (one stays if all are unit); adjacent shard iters on one axis fuse
    /// where `s_i = e_(i+1) * s_(i+1)`; zero offsets are dropped; replicas are made to run upwards, lose
    /// unit and broadcast iters, fuse and are sorted. An empty layout becomes `S[0:1]`.
    ///
    /// **Laws**: the result equals `L` as a function; taking it twice changes nothing; the shard of the
    /// result is unique when the strides are nonzero.
    pub fn canonical_form(&self) -> TileLayout {
        const INVARIANT: &str = "fusing keeps size and bounds, which were checked";
        // All empty layouts are the same function.
        if self.size() == 0 {
            return TileLayout::from_shard(vec![Iter::in_memory(0, 1)]).expect(INVARIANT);
        }
        let mut shard: Vec<Iter> = Vec::with_capacity(self.shard().len());
        // One pass from the fastest iter outwards is enough: fusing keeps the stride of the inner
        // iter, so an iter that did not continue its neighbour does not do so later.
        for it in self.shard().iter().rev().filter(|it| it.extent != 1) {
            match shard.last_mut() {
                Some(inner) if continues_iter(inner, it) => inner.extent *= it.extent,
                _ => shard.push(*it),
            }
        }
        shard.reverse();
        if shard.is_empty() {
            shard.extend(self.shard().first());
        }
        let mut offset: SmallVec<[(Axis, i64); 4]> = SmallVec::from_slice(self.offset());
        let mut replica = Vec::with_capacity(self.replica().len());
        for it in self.replica().iter().filter(|it| it.extent != 1 && it.stride != 0) {
            // A replica is a set, and a backwards progression is the same set as a forwards one
            // from its lowest element. The offset takes the difference.
            if it.stride < 0 {
                let lowest = (it.extent - 1) * it.stride;
                match offset.iter_mut().find(|(a, _)| *a == it.axis) {
                    Some((_, sum)) => *sum += lowest,
                    None => offset.push((it.axis, lowest)),
                }
                replica.push(Iter::new(it.extent, -it.stride, it.axis));
            } else {
                replica.push(*it);
            }
        }
        fuse_replica_iters(&mut replica);
        offset.retain(|(_, v)| *v != 0);
        TileLayout::new(shard, replica, offset).expect(INVARIANT)
    }

    /// The canonical form on CUDA hardware: thread axes fuse by the fixed sizes of a warp (32
    /// threads) and a warpgroup (4 warps).
    ///
    /// An axis that counts scope A in B and one that counts B in C become the axis that counts A in C,
    /// where each is the only one to do so; offsets and replicas move with them. An offset carries into the
    /// wider axis, but iters whose steps cover more than a whole B do not fuse, because 64 lanes are not
    /// the lanes of two warps.
    ///
    /// **Law**: with `n` of scope A in B, the coordinates `a` on the narrow axis and `b` on the wide one
    /// become `a + n b` on the fused axis, and distinct physical coordinates stay distinct.
    pub fn canonical_form_on_cuda(&self) -> Result<TileLayout> {
        let mut layout = self.canonical_form();
        while let Some((narrow, wide, fused, ratio)) = find_fusible_axes(&layout) {
            let moved = |it: &Iter| -> Result<Iter> {
                Ok(match it.axis {
                    a if a == narrow => Iter { axis: fused, ..*it },
                    a if a == wide => {
                        Iter { axis: fused, stride: scale_stride(it.stride, ratio)?, ..*it }
                    }
                    _ => *it,
                })
            };
            let shard = layout.shard().iter().map(moved).collect::<Result<_>>()?;
            let replica = layout.replica().iter().map(moved).collect::<Result<_>>()?;
            let mut offset = Vec::new();
            for (axis, v) in layout.offset() {
                offset.push(match *axis {
                    a if a == narrow => (fused, *v),
                    a if a == wide => (fused, scale_stride(*v, ratio)?),
                    a => (a, *v),
                });
            }
            layout = TileLayout::new(shard, replica, offset)?.canonical_form();
        }
        Ok(layout)
    }
}

impl Layout {
    /// The canonical form of its tile layout, with swizzle and window kept.
    pub fn canonical_form(&self) -> Result<Layout> {
        self.with_canonical_tile(self.tile().canonical_form())
    }

    /// The canonical form on CUDA hardware (see [`TileLayout::canonical_form_on_cuda`]).
    pub fn canonical_form_on_cuda(&self) -> Result<Layout> {
        self.with_canonical_tile(self.tile().canonical_form_on_cuda()?)
    }

    fn with_canonical_tile(&self, tile: TileLayout) -> Result<Layout> {
        let plain = self.with_tile_layout(tile)?;
        match self.window() {
            Some(w) if self.tile().size() > 0 => plain.with_window(w.clone()),
            _ => Ok(plain),
        }
    }
}

fn scale_stride(value: i64, by: i64) -> Result<i64> {
    value
        .checked_mul(by)
        .ok_or_else(|| crate::LayoutError::overflow_of("a fused thread coordinate"))
}

/// Whether `outer` continues `inner` (the next faster iter).
fn continues_iter(inner: &Iter, outer: &Iter) -> bool {
    inner.axis == outer.axis
        && i128::from(inner.extent) * i128::from(inner.stride) == i128::from(outer.stride)
}

/// Sorts, and fuses wherever one iter continues another; a replica is a set, so their order is free.
fn fuse_replica_iters(replica: &mut Vec<Iter>) {
    loop {
        replica.sort_unstable_by_key(|it| (it.axis, it.stride, it.extent));
        let pair = (0..replica.len()).find_map(|i| {
            (0..replica.len())
                .find(|j| *j != i && continues_iter(&replica[i], &replica[*j]))
                .map(|j| (i, j))
        });
        let Some((inner, outer)) = pair else { return };
        replica[inner].extent *= replica[outer].extent;
        replica.remove(outer);
    }
}

/// A pair of axes that fuse: the narrow one, the wide one, the fused one and the ratio.
fn find_fusible_axes(layout: &TileLayout) -> Option<(Axis, Axis, Axis, i64)> {
    let axes = layout.axes();
    let scopes = |a: &Axis| match a.kind() {
        AxisKind::Thread { of, within } => Some((of, within)),
        _ => None,
    };
    for narrow in axes {
        let Some((of, middle)) = scopes(narrow) else { continue };
        let Some(ratio) = of.count_in_scope(middle) else { continue };
        // Two narrow coordinates that differ by `ratio` or more would collide with a step of the wide axis.
        let bounds = layout.axis_bounds(*narrow);
        if bounds.max - bounds.min >= ratio {
            continue;
        }
        let counted_in = axes.iter().filter(|a| scopes(a).is_some_and(|(_, w)| w == middle));
        let counting: Vec<_> =
            axes.iter().filter(|a| scopes(a).is_some_and(|(o, _)| o == middle)).collect();
        let ([wide], 1) = (counting.as_slice(), counted_in.count()) else { continue };
        let Some((_, outer)) = scopes(wide) else { continue };
        let kind = AxisKind::Thread { of, within: outer };
        let Some(fused) = AxisTable::new().iter().find(|a| a.kind() == kind) else { continue };
        if !axes.contains(&fused) {
            return Some((*narrow, **wide, fused, ratio));
        }
    }
    None
}
