//! Parts of a plan: what it writes between two addresses of the destination.
//!
//! A destination larger than memory is written slab by slab; each slab is a plan of its own.

use crate::engine::MoveError;
use crate::plan::{CopyLoop, CopyNest, FillNest, MovePlan};

impl MovePlan {
    /// The part that writes destination addresses in `[low, high)`, with `low` as its address 0.
    ///
    /// **Law**: the clips of a partition of the destination write together what the plan writes, and
    /// each writes only its own part.
    ///
    /// Addresses are from 0 to the end of the plan: a part outside is empty.
    pub fn clip_destination(&self, low: i64, high: i64) -> MovePlan {
        let low = low.clamp(0, self.dst_len());
        let high = high.clamp(low, self.dst_len());
        let mut nests = Vec::new();
        for nest in &self.nests {
            for (a, b) in &nest.starts {
                clip_nest(&nest.loops, *a, *b, low, high, &mut nests);
            }
        }
        let mut fills = Vec::new();
        for fill in &self.fills {
            let loops: Vec<CopyLoop> = fill
                .loops
                .iter()
                .map(|(range, dst)| CopyLoop { range: *range, src: 0, dst: *dst })
                .collect();
            let mut parts = Vec::new();
            for b in &fill.starts {
                clip_nest(&loops, 0, *b, low, high, &mut parts);
            }
            fills.extend(parts.into_iter().map(|n| FillNest {
                loops: n.loops.iter().map(|l| (l.range, l.dst)).collect(),
                starts: n.starts.into_iter().map(|(_, b)| b).collect(),
            }));
        }
        let written: i64 = nests.iter().map(CopyNest::element_count).sum();
        let src_range = MovePlan::address_range(&nests, |s| s.0, |l| l.src);
        let mut dst_range = MovePlan::address_range(&nests, |s| s.1, |l| l.dst);
        if !fills.is_empty() {
            // Fills stay inside the slab by construction, so its ends bound them without a look at each.
            let last = (high - low - 1).min(self.dst_len() - 1 - low);
            dst_range = Some(dst_range.map_or((0, last), |(_, hi)| (0, hi.max(last))));
        }
        MovePlan { nests, fills, elements: written, copies: 1, src_range, dst_range }
    }

    /// Plans that together are this one, each reading no more than `most` adjacent source elements
    /// where its loops allow: a source larger than memory is then read part by part.
    ///
    /// Fills go with the first.
    pub fn split_by_source(&self, most: i64) -> Vec<MovePlan> {
        let (low, high) = self.source_window();
        if high - low <= most.max(1) {
            return vec![self.clone()];
        }
        let mut nests = Vec::new();
        for nest in &self.nests {
            for (a, b) in &nest.starts {
                halve_source_reach(&nest.loops, *a, *b, most.max(1), &mut nests);
            }
        }
        // Nests that read the same part of the source are put together, so that it is read once.
        let reads = |nest: &CopyNest| {
            MovePlan::address_range(std::slice::from_ref(nest), |s| s.0, |l| l.src)
        };
        let mut ranges: Vec<((i64, i64), CopyNest)> =
            nests.into_iter().filter_map(|nest| Some((reads(&nest)?, nest))).collect();
        ranges.sort_by_key(|(range, _)| *range);
        let mut parts: Vec<MovePlan> = Vec::new();
        for ((low, high), nest) in ranges {
            let elements = nest.element_count();
            let last = parts.last_mut();
            match last.and_then(|p| Some((p.src_range?, p))).filter(|((l, _), _)| high - l < most) {
                Some(((first, end), part)) => {
                    part.elements += elements;
                    part.src_range = Some((first, end.max(high)));
                    // Halves of one loop are added one behind the other, so the last few nests are enough to look at.
                    match part.nests.iter_mut().rev().take(8).find(|n| n.loops == nest.loops) {
                        Some(same) => same.starts.extend(nest.starts),
                        None => part.nests.push(nest),
                    }
                }
                None => parts.push(MovePlan {
                    nests: vec![nest],
                    fills: Vec::new(),
                    elements,
                    copies: 1,
                    src_range: Some((low, high)),
                    dst_range: self.dst_range,
                }),
            }
        }
        if let Some(first) = parts.first_mut() {
            first.fills.clone_from(&self.fills);
        }
        parts
    }

    /// The source addresses that it reads: from the first to one past the last.
    pub fn source_window(&self) -> (i64, i64) {
        self.src_range.map_or((0, 0), |(low, high)| (low, high + 1))
    }

    /// The same plan for a source buffer that begins at address `low`.
    ///
    /// # Errors
    /// [`MoveError::Begins`] where it reads addresses before that buffer.
    pub fn with_source_at(mut self, low: i64) -> Result<MovePlan, MoveError> {
        let reads = self.src_range.map_or(i64::MAX, |(reads, _)| reads);
        if low < 0 || low > reads {
            return Err(MoveError::Begins { begins: low, reads });
        }
        for (a, _) in self.nests.iter_mut().flat_map(|n| &mut n.starts) {
            *a -= low;
        }
        self.src_range = self.src_range.map(|(lo, hi)| (lo - low, hi - low));
        Ok(self)
    }

    /// The lowest and highest address of one side of some nests.
    pub(crate) fn address_range(
        nests: &[CopyNest],
        offset: fn(&(i64, i64)) -> i64,
        stride: fn(&CopyLoop) -> i64,
    ) -> Option<(i64, i64)> {
        let mut range: Option<(i64, i64)> = None;
        for n in nests {
            let (down, up) = loop_reach(&n.loops, stride);
            for s in &n.starts {
                let (lo, hi) = (offset(s) + down, offset(s) + up);
                range = Some(range.map_or((lo, hi), |(a, b)| (a.min(lo), b.max(hi))));
            }
        }
        range
    }
}

/// Halves the loop with the widest reach in the source until the whole reads at most `most`.
fn halve_source_reach(loops: &[CopyLoop], a: i64, b: i64, most: i64, out: &mut Vec<CopyNest>) {
    let (down, up) = loop_reach(loops, |l| l.src);
    let widest = (0..loops.len()).max_by_key(|i| ((loops[*i].range - 1) * loops[*i].src).abs());
    let widest = widest.filter(|i| loops[*i].range > 1 && loops[*i].src != 0);
    let (true, Some(i)) = (up - down >= most, widest) else {
        let loops = loops.iter().copied().filter(|l| l.range != 1).collect();
        out.push(CopyNest { loops, starts: vec![(a, b)] });
        return;
    };
    let first = loops[i].range / 2;
    for (range, skip) in [(first, 0), (loops[i].range - first, first)] {
        let mut part = loops.to_vec();
        part[i].range = range;
        halve_source_reach(&part, a + skip * loops[i].src, b + skip * loops[i].dst, most, out);
    }
}

/// How far loops reach below and above their start.
fn loop_reach(loops: &[CopyLoop], stride: fn(&CopyLoop) -> i64) -> (i64, i64) {
    loops.iter().fold((0, 0), |(down, up), l| {
        let r = (l.range - 1) * stride(l);
        (down + r.min(0), up + r.max(0))
    })
}

/// Appends the part of one nest that writes `[low, high)`: whole where it fits, else step by step
/// along its outermost loop, steps that fit whole again as one loop.
fn clip_nest(loops: &[CopyLoop], a: i64, b: i64, low: i64, high: i64, out: &mut Vec<CopyNest>) {
    let (down, up) = loop_reach(loops, |l| l.dst);
    if b + up < low || b + down >= high {
        return;
    }
    if b + down >= low && b + up < high {
        let (loops, start) = (loops.to_vec(), (a, b - low));
        match out.last_mut().filter(|n| n.loops == loops) {
            Some(n) => n.starts.push(start),
            None => out.push(CopyNest { loops, starts: vec![start] }),
        }
        return;
    }
    let Some((outer, inner)) = loops.split_first() else { return };
    let (down, up) = loop_reach(inner, |l| l.dst);
    let whole = |i: i64| {
        let at = b + i * outer.dst;
        at + down >= low && at + up < high
    };
    // Steps that write nothing in the range are skipped by a division, because a loop may have as many as the tensor
    // has elements.
    let (mut i, end) = steps_meeting_range(outer, b + down, b + up, low, high);
    while i < end {
        let (at_a, at_b) = (a + i * outer.src, b + i * outer.dst);
        if !whole(i) {
            clip_nest(inner, at_a, at_b, low, high, out);
            i += 1;
            continue;
        }
        // Addresses grow (or fall) with the step, so the steps that fit are one stretch, and its end is found by
        // halving.
        let mut last = end - 1;
        if !whole(last) {
            let mut first_out = last;
            let mut fits = i;
            while first_out - fits > 1 {
                let middle = fits + (first_out - fits) / 2;
                if whole(middle) { fits = middle } else { first_out = middle }
            }
            last = fits;
        }
        let stretch = CopyLoop { range: last - i + 1, ..*outer };
        let mut part = vec![stretch];
        part.extend_from_slice(inner);
        part.retain(|l| l.range != 1);
        clip_nest(&part, at_a, at_b, low, high, out);
        i = last + 1;
    }
}

/// The steps `first..end` of a loop whose addresses, from `from` to `to` at step 0, meet `[low, high)`.
fn steps_meeting_range(l: &CopyLoop, from: i64, to: i64, low: i64, high: i64) -> (i64, i64) {
    if l.dst == 0 {
        return (0, l.range);
    }
    // to + i * dst >= low and from + i * dst < high, of which one bounds `i` from below.
    let (least, most) = (i128::from(low) - i128::from(to), i128::from(high) - 1 - i128::from(from));
    let by = i128::from(l.dst);
    let ceil = |n: i128| n.div_euclid(by) + i128::from(n.rem_euclid(by) > 0 && by > 0);
    let (first, last) = match by > 0 {
        true => (ceil(least), most.div_euclid(by)),
        // Dividing by a negative number exchanges the two bounds, and `div_euclid` rounds up then.
        false => (most.div_euclid(by), least.div_euclid(by) - i128::from(least.rem_euclid(by) > 0)),
    };
    let inside = |n: i128| i64::try_from(n.clamp(0, i128::from(l.range))).unwrap_or(0);
    let (first, end) = (inside(first), inside(last + 1));
    (first, end.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_meet_a_part_are_those_of_the_definition() {
        let mut seen = 0;
        for dst in -7..=7 {
            for range in [1, 2, 5, 9] {
                for from in -20i64..=20 {
                    for reach in [0, 3, 8] {
                        for (low, high) in [(0, 1), (0, 10), (5, 7), (-3, 4), (12, 40), (4, 4)] {
                            let l = CopyLoop { range, src: 1, dst };
                            let meets =
                                |i: &i64| from + reach + i * dst >= low && from + i * dst < high;
                            let slowly: Vec<i64> = (0..range).filter(meets).collect();
                            let (first, end) =
                                steps_meeting_range(&l, from, from + reach, low, high);
                            let found: Vec<i64> = (first..end).collect();
                            if dst == 0 {
                                assert_eq!(found.len() as i64, range, "all, as each is looked at");
                            } else {
                                assert_eq!(found, slowly, "{l:?} {from} {reach} {low}..{high}");
                            }
                            seen += found.len();
                        }
                    }
                }
            }
        }
        assert!(seen > 10_000);
    }
}
