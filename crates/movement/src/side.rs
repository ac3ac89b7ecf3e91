//! One side of a move, dimension by dimension.

use crate::cover::Breaks;
use zellige_layout::{Axis, Error, Extent, Iter, Layout, Result, Swizzle};

/// A mixed-radix function of the index of one dimension: the address it contributes.
#[derive(Debug, Clone)]
pub(crate) struct Dim {
    /// (extent, stride), innermost first, adjacent ones fused.
    digits: Vec<(i64, i64)>,
    /// Where the valid elements begin in the padded dimension.
    begin: i64,
}

impl Dim {
    fn new(iters: &[Iter], begin: i64) -> Dim {
        let mut digits: Vec<(i64, i64)> = Vec::with_capacity(iters.len());
        for it in iters.iter().rev().filter(|it| it.extent != 1) {
            match digits.last_mut() {
                Some((e, s)) if e.checked_mul(*s) == Some(it.stride) => *e *= it.extent,
                _ => digits.push((it.extent, it.stride)),
            }
        }
        Dim { digits, begin }
    }

    /// The address of an index, counted from the first valid one.
    pub(crate) fn value(&self, index: i64) -> i64 {
        let mut rest = index + self.begin;
        let mut address = 0;
        for (i, (extent, stride)) in self.digits.iter().enumerate() {
            let last = i + 1 == self.digits.len();
            address += if last { rest } else { rest % extent } * stride;
            rest = if last { 0 } else { rest / extent };
        }
        address
    }

    /// Where it stops being linear, and where a swizzle of its addresses does.
    pub(crate) fn breaks(&self, swizzle: Option<Swizzle>, out: &mut Vec<Breaks>) {
        let mut weight = 1i64;
        for (i, (extent, stride)) in self.digits.iter().enumerate() {
            let phase = |modulus: i64| Breaks { modulus, phase: (-self.begin).rem_euclid(modulus) };
            if let Some(sw) = swizzle {
                // The low bits stay, the middle bits move, the high bits stay.
                for unit in [1i64 << sw.per_element(), 1i64 << sw.bits()] {
                    let stride = stride.abs();
                    if stride > 0 && stride < unit && unit % stride == 0 && unit / stride < *extent
                    {
                        out.push(phase(weight * (unit / stride)));
                    }
                }
            }
            weight = weight.saturating_mul(*extent);
            if i + 1 < self.digits.len() {
                out.push(phase(weight));
            }
        }
    }
}

/// A layout that lands on one memory, split over the dimensions of the move.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) dims: Vec<Dim>,
    pub(crate) swizzle: Option<Swizzle>,
    /// The constant address.
    pub(crate) offset: i64,
    /// Replicas as (extent, stride).
    pub(crate) replica: Vec<(i64, i64)>,
}

impl Side {
    /// Splits a layout over valid extents; `None` where its iters do not follow them.
    pub(crate) fn new(layout: &Layout, shape: &[i64]) -> Result<Option<Side>> {
        let axis = memory_axis(layout)?;
        let dims = match layout.window() {
            Some(w) => w.dims().to_vec(),
            None => shape.iter().map(|e| Extent::full(*e)).collect(),
        };
        if dims.iter().map(|d| d.valid).ne(shape.iter().copied()) {
            return Ok(None);
        }
        let tile = layout.tile();
        let padded: Vec<i64> = dims.iter().map(|d| d.padded).collect();
        let split = if padded.len() == 1 {
            vec![Dim::new(tile.shard(), dims[0].begin)]
        } else {
            match tile.group(&padded) {
                Ok((grouped, seps)) => seps
                    .windows(2)
                    .zip(&dims)
                    .map(|(w, d)| Dim::new(&grouped.shard()[w[0]..w[1]], d.begin))
                    .collect(),
                Err(Error::NotGroupable { .. }) => return Ok(None),
                Err(e) => return Err(e),
            }
        };
        let moving = |it: &&Iter| it.extent > 1 && it.stride != 0;
        Ok(Some(Side {
            dims: split,
            swizzle: layout.swizzle().filter(|s| !s.is_identity()),
            offset: axis.map_or(0, |a| tile.offset_on(a)),
            replica: tile
                .replica()
                .iter()
                .filter(moving)
                .map(|it| (it.extent, it.stride))
                .collect(),
        }))
    }
}

/// The one memory axis of a layout, if it mentions any axis at all.
pub(crate) fn memory_axis(layout: &Layout) -> Result<Option<Axis>> {
    match layout.tile().axes() {
        [] => Ok(None),
        [one] if one.is_memory() => Ok(Some(*one)),
        all => {
            let found: Vec<String> = all.iter().map(|a| format!("`{a}`")).collect();
            Err(Error::NotOneAxis { op: "move", axis: "m".into(), found: found.join(", ") })
        }
    }
}
