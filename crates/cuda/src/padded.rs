//! Padding behind the rows of a nest, written by the blocks that write the rows.
//!
//! The last stick of a row has its data from one nest and its padding from a fill. Written by different blocks, the sector
//! between them is written in two parts, which costs the memory a read. So a nest, the nest of its last rows and the
//! fill behind those become one nest over a box that includes the padding, with a bound that separates data and padding.

use zellige_movement::{CopyLoop, CopyNest, FillNest, MovePlan};

/// A nest over a box of which the source has a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaddedNest {
    /// The whole box.
    pub(crate) nest: CopyNest,
    /// The part of the box that the source has; all of it where there is none.
    pub(crate) bound: Option<PaddingBound>,
    /// Elements that are read.
    pub(crate) elements: i64,
}

impl From<&CopyNest> for PaddedNest {
    fn from(nest: &CopyNest) -> PaddedNest {
        PaddedNest { nest: nest.clone(), bound: None, elements: nest.element_count() }
    }
}

/// The positions of a box at which the sum of digits times weights is less than `end`: the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaddingBound {
    /// The weight of each loop of the nest, 0 for those that do not count.
    pub(crate) weights: Vec<i64>,
    /// The sum at the first position of padding.
    pub(crate) end: i64,
}

/// The nests of a plan with the padding behind their rows, and the fills that are left.
///
/// **Law**: the boxes of the nests and the fills are the addresses that the plan writes, each once; the bound divides a
/// box into what the nests of the plan write and what its fills write.
pub(crate) fn fold_padding(plan: &MovePlan) -> (Vec<PaddedNest>, Vec<FillNest>) {
    let mut nests: Vec<PaddedNest> = plan.nests().iter().map(PaddedNest::from).collect();
    let mut left = Vec::new();
    for fill in plan.fills() {
        let found = (0..nests.len()).find_map(|t| extend_with_fill(&nests, t, fill));
        match found {
            // The nests that were joined leave the list, so that no other fill is joined to one of them.
            Some((padded, used)) => {
                let mut k = 0;
                nests.retain(|_| {
                    k += 1;
                    !used.contains(&(k - 1))
                });
                nests.push(padded);
            }
            None => left.push(fill.clone()),
        }
    }
    (nests, left)
}

/// Nest `t` with this fill behind its rows, and with the nest of the whole rows before them; and the numbers of the nests
/// that it replaces.
fn extend_with_fill(
    nests: &[PaddedNest],
    t: usize,
    fill: &FillNest,
) -> Option<(PaddedNest, Vec<usize>)> {
    let (tail, &[begin]) = (unpadded_nest(&nests[t])?, fill.starts.as_slice()) else { return None };
    let start = tail.starts[0];
    // The digit whose last values are padding. It is a loop of the tail, unless the tail has one value of it; then the
    // stride of the fill names it.
    let mut rows: Vec<CopyLoop> = tail.loops.iter().copied().filter(|l| l.range > 1).collect();
    let own = rows.iter().position(|l| l.dst > 0 && begin == start.1 + l.range * l.dst);
    let (valid, stride, step) = match own {
        Some(i) => {
            let l = rows.remove(i);
            (l.range, l.dst, Some(l.src))
        }
        None => (1, begin - start.1, None),
    };
    let (mut padding, mut others) = (1, Vec::new());
    for (range, dst) in &fill.loops {
        // The fill's loop along the digit gives the width of the padding; one position of it is no loop.
        if *dst == stride && padding == 1 { padding = *range } else { others.push((*range, *dst)) }
    }
    let places: Vec<(i64, i64)> = rows.iter().map(|l| (l.range, l.dst)).collect();
    // The fill has to repeat over the same rows as the tail, in whichever loops either is written.
    if stride <= 0 || join_loops(places) != join_loops(others) {
        return None;
    }
    let width = valid + padding;
    // Whole rows that the tail continues make one longer digit; otherwise the tail and its padding are a nest by
    // themselves.
    for (m, whole) in nests.iter().enumerate().filter(|(m, _)| *m != t) {
        let Some((inner, outer)) =
            unpadded_nest(whole).and_then(|w| match_preceding_rows(w, tail, &rows, stride, width))
        else {
            continue;
        };
        // The tail continues the rows only if it also reads on at the same distance.
        if step.is_some_and(|s| s != inner.src) {
            continue;
        }
        let row = BoundedLoops {
            loops: [(outer, width), (inner, 1)].into(),
            end: width * (outer.range - 1) + valid,
        };
        let elements = whole.elements + nests[t].elements;
        return Some((
            row.into_padded_nest(&rows, unpadded_nest(whole)?.starts[0], elements),
            vec![m, t],
        ));
    }
    let inner = CopyLoop { range: width, src: step?, dst: stride };
    let row = BoundedLoops { loops: [(inner, 1)].into(), end: valid };
    Some((row.into_padded_nest(&rows, start, nests[t].elements), vec![t]))
}

/// The loops that a bound counts, with their weights.
struct BoundedLoops {
    loops: Vec<(CopyLoop, i64)>,
    end: i64,
}

impl BoundedLoops {
    fn into_padded_nest(self, rows: &[CopyLoop], start: (i64, i64), elements: i64) -> PaddedNest {
        let mut weights = vec![0; rows.len()];
        let mut loops = rows.to_vec();
        for (l, weight) in self.loops {
            loops.push(l);
            weights.push(weight);
        }
        let nest = CopyNest { loops, starts: vec![start] };
        PaddedNest { nest, bound: Some(PaddingBound { weights, end: self.end }), elements }
    }
}

/// A nest with one start that has no padding yet.
fn unpadded_nest(padded: &PaddedNest) -> Option<&CopyNest> {
    (padded.bound.is_none() && padded.nest.starts.len() == 1).then_some(&padded.nest)
}

/// Where `whole` has the rows of `width` elements that come before those of `tail`: the loop of a row, and the loop over
/// rows with that of the tail behind them. `rows` are the tail's other loops.
fn match_preceding_rows(
    whole: &CopyNest,
    tail: &CopyNest,
    rows: &[CopyLoop],
    stride: i64,
    width: i64,
) -> Option<(CopyLoop, CopyLoop)> {
    let mut others: Vec<CopyLoop> = whole.loops.iter().copied().filter(|l| l.range > 1).collect();
    let inner = others.iter().position(|l| l.dst == stride && l.range == width)?;
    let inner = others.remove(inner);
    let (from, to) = (whole.starts[0], tail.starts[0]);
    let apart = (to.0 - from.0, to.1 - from.1);
    let same = |a: &[CopyLoop]| {
        let key = |l: &CopyLoop| (l.dst, l.src, l.range);
        let (mut a, mut b) = (a.to_vec(), rows.to_vec());
        a.sort_by_key(key);
        b.sort_by_key(key);
        a == b
    };
    // The planner drops loops of one step, so a nest of one whole row has no loop over rows; it and the tail are two steps.
    if same(&others) && apart.1 > 0 {
        return Some((inner, CopyLoop { range: 2, src: apart.0, dst: apart.1 }));
    }
    (0..others.len()).find_map(|i| {
        let mut rest = others.clone();
        let l = rest.remove(i);
        let behind = l.dst > 0 && apart == (l.range * l.src, l.range * l.dst);
        (behind && same(&rest)).then_some((inner, CopyLoop { range: l.range + 1, ..l }))
    })
}

/// Ranges and strides in a canonical form: rising, without loops of one step, and fused where one continues another.
fn join_loops(mut loops: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    loops.retain(|l| l.0 != 1);
    loops.sort_by_key(|l| l.1);
    let mut kept: Vec<(i64, i64)> = Vec::new();
    for (range, stride) in loops {
        match kept.last_mut() {
            Some(k) if stride == k.0 * k.1 => k.0 *= range,
            _ => kept.push((range, stride)),
        }
    }
    kept
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use zellige_layout::StridedLayout;
    use zellige_movement::PaddingFill;
    use zellige_stick::StickLayout;

    /// Every place that is written, with the place of the source, or none where it is filled.
    fn list_written_addresses(
        nests: &[PaddedNest],
        fills: &[FillNest],
    ) -> BTreeMap<i64, Option<i64>> {
        let mut all = BTreeMap::new();
        let mut write = |to: i64, from: Option<i64>| assert!(all.insert(to, from).is_none());
        for p in nests {
            let mut at: Vec<(i64, i64, i64)> =
                p.nest.starts.iter().map(|s| (s.0, s.1, 0)).collect();
            for (k, l) in p.nest.loops.iter().enumerate() {
                let weight = p.bound.as_ref().map_or(0, |b| b.weights[k]);
                let step = |(a, b, s): (i64, i64, i64)| {
                    (0..l.range).map(move |i| (a + i * l.src, b + i * l.dst, s + i * weight))
                };
                at = at.into_iter().flat_map(step).collect();
            }
            let end = p.bound.as_ref().map_or(1, |b| b.end);
            at.iter().for_each(|(a, b, s)| write(*b, (*s < end).then_some(*a)));
            assert_eq!(p.elements, at.iter().filter(|x| x.2 < end).count() as i64);
        }
        for f in fills {
            let mut at = f.starts.clone();
            for (range, stride) in &f.loops {
                at = at.iter().flat_map(|b| (0..*range).map(move |i| b + i * stride)).collect();
            }
            at.into_iter().for_each(|b| write(b, None));
        }
        all
    }

    #[test]
    fn a_folded_plan_writes_the_same() {
        let shapes: [&[i64]; 10] = [
            &[40],
            &[1000],
            &[5, 100],
            &[7, 129],
            &[3, 64],
            &[4, 5, 200],
            &[2, 3, 65],
            &[3, 63],
            &[6, 1],
            &[2, 2, 3, 130],
        ];
        for shape in shapes {
            let host = StridedLayout::new_contiguous(shape).and_then(|s| s.to_layout()).unwrap();
            let sticks =
                StickLayout::default_for_dtype(shape, zellige_float::Dtype::Float16).unwrap();
            let plan = MovePlan::between(
                &host,
                &sticks.lower_to_layout().unwrap(),
                shape,
                PaddingFill::Padding,
            )
            .unwrap();
            let before: Vec<PaddedNest> = plan.nests().iter().map(PaddedNest::from).collect();
            let (nests, fills) = fold_padding(&plan);
            assert_eq!(
                list_written_addresses(&nests, &fills),
                list_written_addresses(&before, plan.fills()),
                "{shape:?}\n{plan}"
            );
            let padded = shape[shape.len() - 1] % 64 > 1;
            assert!(!padded || (fills.is_empty() && nests.len() == 1), "{shape:?}\n{plan}");
        }
    }
}
