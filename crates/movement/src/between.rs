//! The planner: two layouts in, loop nests out.

use crate::cover::{Breaks, Piece, cover};
use crate::plan::{FillNest, Loop, Nest, Plan};
use crate::side::{Side, memory_axis};
use std::collections::HashMap;
use zellige_layout::{Axis, Error, Layout, Result, Swizzle};

/// What to write into the padding of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Nothing: padding keeps what it holds.
    Leave,
    /// The executor writes its fill value to every padding position.
    Padding,
}

/// Starts listed before a move is refused as too irregular.
const MAX_STARTS: usize = 1 << 22;

impl Plan {
    /// The plan that moves a tensor of `shape` from `src` to `dst`.
    ///
    /// Both layouts land on one memory each. Every place of an element is written (replicas of
    /// `dst`), one is read. Two elements that share a place of `dst` are [`Error::Aliased`] with
    /// both: the result would depend on the order of the copies.
    pub fn between(src: &Layout, dst: &Layout, shape: &[i64], fill: Fill) -> Result<Plan> {
        src.admit(shape)?;
        dst.admit(shape)?;
        memory_axis(src)?;
        memory_axis(dst)?;
        if let Some((a, b, place)) = dst.clash()? {
            return Err(Error::Aliased { a, b, place: Box::new(place) });
        }
        let mut builder = Builder::default();
        let dims = common_dims(src, dst);
        match (Side::new(src, &dims)?, Side::new(dst, &dims)?) {
            _ if dst.size() == 0 => {}
            (Some(s), Some(d)) => {
                if !builder.copy(&s, &d, &dims) {
                    builder = Builder::default();
                    builder.walk(src, dst)?;
                }
            }
            _ => builder.walk(src, dst)?,
        }
        if fill == Fill::Padding {
            builder.fill(dst)?;
        }
        builder.finish(dst)
    }
}

/// The dimensions to plan over: those of a window, or one flat dimension where neither layout has
/// padding, which lets digits of different dimensions fuse.
fn common_dims(src: &Layout, dst: &Layout) -> Vec<i64> {
    match dst.window().or(src.window()) {
        Some(w) => w.shape(),
        None => vec![dst.size()],
    }
}

/// Nests with equal loops share one table of starts.
#[derive(Default)]
struct Builder {
    nests: HashMap<Vec<Loop>, Vec<(i64, i64)>>,
    order: Vec<Vec<Loop>>,
    fills: Vec<FillNest>,
    starts: usize,
}

impl Builder {
    fn push(&mut self, loops: Vec<Loop>, starts: impl IntoIterator<Item = (i64, i64)>) -> bool {
        if !self.nests.contains_key(&loops) {
            self.order.push(loops.clone());
        }
        let table = self.nests.entry(loops).or_default();
        let before = table.len();
        table.extend(starts);
        self.starts += table.len() - before;
        self.starts <= MAX_STARTS
    }

    /// Every combination of the pieces of the dimensions; false where there are too many.
    fn copy(&mut self, src: &Side, dst: &Side, dims: &[i64]) -> bool {
        let mut pieces: Vec<Vec<Piece>> = Vec::with_capacity(dims.len());
        let mut total = 1usize;
        for (d, extent) in dims.iter().enumerate() {
            let mut breaks: Vec<Breaks> = Vec::new();
            src.dims[d].breaks(src.swizzle, &mut breaks);
            dst.dims[d].breaks(dst.swizzle, &mut breaks);
            let Some(found) = cover(0, *extent, &breaks) else { return false };
            total = total.saturating_mul(found.len());
            pieces.push(found);
        }
        if total > MAX_STARTS {
            return false;
        }
        let mut choice = vec![0usize; dims.len()];
        loop {
            let (mut a, mut b) = (src.offset, dst.offset);
            let mut loops = Vec::new();
            for (d, k) in choice.iter().enumerate() {
                let piece = &pieces[d][*k];
                let (s, t) = (src.dims[d].value(piece.start), dst.dims[d].value(piece.start));
                a += s;
                b += t;
                for (count, weight) in &piece.loops {
                    let at = piece.start + if *count > 1 { *weight } else { 0 };
                    let (src_step, dst_step) =
                        (src.dims[d].value(at) - s, dst.dims[d].value(at) - t);
                    loops.push(Loop { range: *count, src: src_step, dst: dst_step });
                }
            }
            loops.extend(dst.replica.iter().map(|(range, stride)| Loop {
                range: *range,
                src: 0,
                dst: *stride,
            }));
            let Some((loops, starts)) = tabulate(&loops, a, b, src.swizzle, dst.swizzle) else {
                return false;
            };
            if !self.push(tidy(loops), starts) {
                return false;
            }
            let mut d = dims.len();
            loop {
                if d == 0 {
                    return true;
                }
                d -= 1;
                choice[d] += 1;
                if choice[d] < pieces[d].len() {
                    break;
                }
                choice[d] = 0;
            }
        }
    }

    /// Element by element: for padding that does not follow the iters, and for splits so irregular
    /// that their pieces are not worth listing as loops. Equal runs are still found.
    fn walk(&mut self, src: &Layout, dst: &Layout) -> Result<()> {
        let size = dst.size();
        if usize::try_from(size).map_or(true, |n| n > 4 * MAX_STARTS) {
            let limit = 4 * MAX_STARTS as u64;
            return Err(Error::TooLarge {
                what: "a move whose padding does not follow its iters",
                limit,
            });
        }
        let one =
            |l: &Layout| -> Result<Vec<i64>> { l.offsets(memory_axis(l)?.unwrap_or(Axis::M)) };
        let (from, to) = (one(src)?, one(dst)?);
        let mut at = 0;
        while at < from.len() {
            let (a, b) = (from[at], to[at]);
            let mut run = 1;
            while at + run < from.len()
                && from[at + run] - a == run as i64
                && to[at + run] - b == run as i64
            {
                run += 1;
            }
            let mut loops = vec![Loop { range: run as i64, src: 1, dst: 1 }];
            let mut starts = vec![(a, b)];
            if dst.tile().copies() > 1 {
                // With several places, list them: they may be swizzled.
                loops.clear();
                starts.clear();
                for k in 0..run {
                    let flat = i64::try_from(at + k).unwrap_or(i64::MAX);
                    let axis = memory_axis(dst)?.unwrap_or(Axis::M);
                    let points = dst.places(flat)?.points();
                    starts.extend(points.iter().map(|p| (from[at + k], p.get(axis))));
                }
            }
            if !self.push(tidy(loops), starts) {
                let limit = MAX_STARTS as u64;
                return Err(Error::TooLarge { what: "a move of scattered elements", limit });
            }
            at += run;
        }
        Ok(())
    }

    /// The padding of the destination: in each dimension in turn what lies outside its valid part,
    /// earlier dimensions valid, later ones padded.
    fn fill(&mut self, dst: &Layout) -> Result<()> {
        let Some(window) = dst.window() else { return Ok(()) };
        let padded = window.padded_shape();
        let Some(side) = Side::new(&dst.padded(), &padded)? else {
            return self.fill_by_listing(dst);
        };
        let dims = window.dims();
        for d in 0..dims.len() {
            let before = (0, dims[d].begin);
            let after = (dims[d].begin + dims[d].valid, dims[d].padded);
            for outside in [before, after].into_iter().filter(|(lo, hi)| lo < hi) {
                let ranges: Vec<(i64, i64)> = (0..dims.len())
                    .map(|k| match k.cmp(&d) {
                        std::cmp::Ordering::Less => (dims[k].begin, dims[k].begin + dims[k].valid),
                        std::cmp::Ordering::Equal => outside,
                        std::cmp::Ordering::Greater => (0, dims[k].padded),
                    })
                    .collect();
                if ranges.iter().all(|(lo, hi)| lo < hi) && !self.fill_box(&side, &ranges) {
                    return self.fill_by_listing(dst);
                }
            }
        }
        Ok(())
    }

    fn fill_box(&mut self, side: &Side, ranges: &[(i64, i64)]) -> bool {
        let mut combined: Vec<(i64, Vec<Loop>)> = vec![(side.offset, Vec::new())];
        for (dim, (lo, hi)) in side.dims.iter().zip(ranges) {
            let mut breaks = Vec::new();
            dim.breaks(side.swizzle, &mut breaks);
            let Some(pieces) = cover(*lo, *hi, &breaks) else { return false };
            if combined.len().saturating_mul(pieces.len()) > MAX_STARTS {
                return false;
            }
            combined = combined
                .iter()
                .flat_map(|(at, loops)| {
                    pieces.iter().map(move |p| {
                        let base = dim.value(p.start);
                        let mut loops = loops.clone();
                        for (count, weight) in &p.loops {
                            let next = p.start + if *count > 1 { *weight } else { 0 };
                            loops.push(Loop { range: *count, src: 0, dst: dim.value(next) - base });
                        }
                        (at + base, loops)
                    })
                })
                .collect();
        }
        for (at, mut loops) in combined {
            loops.extend(side.replica.iter().map(|(range, stride)| Loop {
                range: *range,
                src: 0,
                dst: *stride,
            }));
            let Some((loops, starts)) = tabulate(&loops, 0, at, None, side.swizzle) else {
                return false;
            };
            let loops = tidy(loops).into_iter().map(|l| (l.range, l.dst)).collect();
            let starts: Vec<i64> = starts.into_iter().map(|(_, b)| b).collect();
            match self.fills.iter_mut().find(|f| f.loops == loops) {
                Some(f) => f.starts.extend(starts),
                None => self.fills.push(FillNest { loops, starts }),
            }
        }
        true
    }

    /// Lists every padding position: for windows that do not follow the iters.
    fn fill_by_listing(&mut self, dst: &Layout) -> Result<()> {
        self.fills.clear();
        let axis = memory_axis(dst)?.unwrap_or(Axis::M);
        let whole = dst.padded();
        if usize::try_from(whole.size()).map_or(true, |n| n > MAX_STARTS) {
            let limit = MAX_STARTS as u64;
            return Err(Error::TooLarge { what: "listing the padding", limit });
        }
        let valid: std::collections::HashSet<i64> = dst.offsets(axis)?.into_iter().collect();
        let mut starts: Vec<i64> =
            whole.offsets(axis)?.into_iter().filter(|p| !valid.contains(p)).collect();
        starts.sort_unstable();
        starts.dedup();
        if !starts.is_empty() {
            self.fills.push(FillNest { loops: Vec::new(), starts });
        }
        Ok(())
    }

    fn finish(mut self, dst: &Layout) -> Result<Plan> {
        let mut nests = Vec::with_capacity(self.order.len());
        for loops in self.order {
            if let Some(starts) = self.nests.remove(&loops) {
                nests.push(Nest { loops, starts });
            }
        }
        // Long runs first; the rest in the order of the dimensions.
        nests.sort_by_key(|n| std::cmp::Reverse(n.elements()));
        let src_range = Plan::range(&nests, |s| s.0, |l| l.src);
        let mut dst_range = Plan::range(&nests, |s| s.1, |l| l.dst);
        for f in &self.fills {
            let reach: i64 = f.loops.iter().map(|(r, s)| ((r - 1) * s).max(0)).sum();
            let back: i64 = f.loops.iter().map(|(r, s)| ((r - 1) * s).min(0)).sum();
            for s in &f.starts {
                let (lo, hi) = (s + back, s + reach);
                dst_range = Some(dst_range.map_or((lo, hi), |(a, b)| (a.min(lo), b.max(hi))));
            }
        }
        let lowest = [
            ("the lowest source address", src_range),
            ("the lowest destination address", dst_range),
        ];
        for (what, range) in lowest {
            if let Some((low, _)) = range.filter(|(low, _)| *low < 0) {
                return Err(Error::BadParameter {
                    what,
                    value: low,
                    accepted: "buffers begin at address 0; give the layout an offset".into(),
                });
            }
        }
        Ok(Plan {
            elements: dst.size(),
            copies: nests.iter().map(Nest::elements).sum::<i64>() / dst.size().max(1),
            nests,
            fills: self.fills,
            src_range,
            dst_range,
        })
    }
}

/// Turns loops that a swizzle does not leave linear into a table of starts.
///
/// `a` and `b` are the addresses before the swizzle. A loop stays where the stride on a swizzled
/// side is a multiple of the period of the swizzle, or where it moves only the low bits that the
/// swizzle leaves alone and never carries out of them. `None` where the table would be too large.
#[allow(clippy::type_complexity, reason = "loops and their table, taken apart at once")]
fn tabulate(
    loops: &[Loop],
    a: i64,
    b: i64,
    src: Option<Swizzle>,
    dst: Option<Swizzle>,
) -> Option<(Vec<Loop>, Vec<(i64, i64)>)> {
    if src.is_none() && dst.is_none() {
        return Some((loops.to_vec(), vec![(a, b)]));
    }
    let free =
        |sw: Option<Swizzle>, stride: i64| sw.is_none_or(|sw| stride % (1 << sw.bits()) == 0);
    let low = |sw: Option<Swizzle>, stride: i64| {
        sw.is_none_or(|sw| {
            stride % (1 << sw.bits()) == 0 || (stride > 0 && stride < 1 << sw.per_element())
        })
    };
    let (mut kept, mut listed): (Vec<Loop>, Vec<Loop>) = (Vec::new(), Vec::new());
    for l in loops {
        if low(src, l.src) && low(dst, l.dst) { kept.push(*l) } else { listed.push(*l) }
    }
    // The low bits of every start must leave room for what the kept loops add to them.
    let fits = |sw: Option<Swizzle>, at: i64, stride: fn(&Loop) -> i64| {
        let Some(sw) = sw else { return true };
        let unit = 1i64 << sw.per_element();
        let reach: i64 = kept
            .iter()
            .filter(|l| !free(Some(sw), stride(l)))
            .map(|l| (l.range - 1) * stride(l))
            .sum();
        at % unit + reach < unit && listed.iter().all(|l| stride(l) % unit == 0)
    };
    if !(fits(src, a, |l| l.src) && fits(dst, b, |l| l.dst)) {
        let all = std::mem::take(&mut kept);
        for l in all {
            if free(src, l.src) && free(dst, l.dst) { kept.push(l) } else { listed.push(l) }
        }
    }
    let count = listed.iter().try_fold(1i64, |n, l| n.checked_mul(l.range))?;
    if usize::try_from(count).map_or(true, |n| n > MAX_STARTS) {
        return None;
    }
    let mut starts = vec![(a, b)];
    for l in &listed {
        starts = starts
            .iter()
            .flat_map(|(a, b)| (0..l.range).map(move |i| (a + i * l.src, b + i * l.dst)))
            .collect();
    }
    let moved = |sw: Option<Swizzle>, at: i64| sw.map_or(at, |sw| sw.apply(at));
    for (a, b) in &mut starts {
        (*a, *b) = (moved(src, *a), moved(dst, *b));
    }
    Some((kept, starts))
}

/// Drops unit loops, sorts by falling destination stride, fuses loops that continue one another.
fn tidy(mut loops: Vec<Loop>) -> Vec<Loop> {
    loops.retain(|l| l.range != 1);
    loops.sort_by_key(|l| std::cmp::Reverse((l.dst.abs(), l.src.abs())));
    let mut fused: Vec<Loop> = Vec::with_capacity(loops.len());
    for inner in loops {
        match fused.last_mut() {
            Some(outer)
                if outer.src == inner.range * inner.src && outer.dst == inner.range * inner.dst =>
            {
                *outer = Loop { range: outer.range * inner.range, ..inner };
            }
            _ => fused.push(inner),
        }
    }
    fused
}
