//! Sums, means and extremes, a result or a row of results at a time.

use super::frame::{Frame, int, place};
use super::pointwise::width;
use super::rows::{ROW, row, total};
use zellige_ktir::{Elem, Kind, Value};

/// Adds the body of a reduction.
pub(super) fn body(f: &mut Frame, name: &str) -> Result<(), String> {
    let (kind, start) = match name {
        "amax" => (Kind::MaximumF, f64::NEG_INFINITY),
        "amin" => (Kind::MinimumF, f64::INFINITY),
        _ => (Kind::AddF, 0.0),
    };
    let gone: Vec<usize> = (0..f.spans.len()).filter(|l| f.spans[*l].reduced).collect();
    let group: usize = gone.iter().map(|l| f.splits[*l]).product();
    let count: f64 = gone.iter().map(|l| f.spans[*l].size as f64).product();
    let (x, out) = (&f.tensors[0], f.out());
    let lanes = x.form.stick.and_then(|d| x.follows[d]);
    let reduced = lanes.filter(|l| gone.contains(l));
    let kept = lanes.filter(|l| !gone.contains(l));
    let result = out.form.stick.filter(|d| out.form.size[*d] > 1).and_then(|d| out.follows[d]);
    if result != kept && kept.is_some_and(|l| f.spans[l].size > 1) {
        return Err("the lanes of its operand and of its result are not the same".into());
    }
    if reduced.is_some_and(|l| f.splits[l] > 1) {
        return Err("cores share a row".into());
    }
    if reduced.is_some_and(|l| f.spans[l].size > ROW) {
        return Err("a row does not stay in the scratchpad".into());
    }
    let same = kept.is_none_or(|_| x.form.eps == out.form.eps);
    if !same {
        return Err("operand and result have sticks of different lengths".into());
    }
    let outer: Vec<usize> =
        (0..f.spans.len()).filter(|l| !gone.contains(l) && Some(*l) != kept).collect();
    let inner: Vec<usize> = gone.iter().copied().filter(|l| Some(*l) != reduced).collect();
    let wide = kept.map_or(1, |l| width(f.slices[l].units));
    let eps = int(x.form.eps);
    let shape = kept.map_or(vec![1], |_| vec![wide * eps]);
    let mean = name == "mean";
    f.nest(&outer, &mut Vec::new(), &mut |f, at| {
        let one = |f: &mut Frame, stick: Value| -> Result<(), String> {
            let init = f.b.float_tile(start, &shape, Elem::F32);
            let mut place_of = at.to_vec();
            let how = ReductionLoop {
                kind,
                start,
                stick,
                wide,
                reduced: reduced.is_some(),
                shape: &shape,
            };
            let mut acc = fold(f, &inner, &mut place_of, init, &how);
            if group > 1 {
                acc = f.join(kind, acc, init, group);
            }
            if mean {
                let n = f.b.float_tile(count, &shape, Elem::F32);
                acc = f.b.binary(Kind::DivF, acc, n);
            }
            let k = f.tensors.len() - 1;
            let (follows, zero) = (f.tensors[k].follows.clone(), f.zero);
            let lanes = if kept.is_some() { None } else { Some(1) };
            let sticks = if kept.is_some() { (stick, wide) } else { (zero, 1) };
            f.first_core(&gone, |f| {
                let (tile, _) = f.tile(k, &|d| (place(at, follows[d], zero), 1), sticks, lanes);
                f.store(acc, tile);
            });
            Ok(())
        };
        let Some(l) = kept else { return one(f, f.zero) };
        let slice = f.slices[l];
        let step = f.index(wide);
        f.each((slice.first, slice.last, step), one)
    })
}

/// How numbers of one result are combined.
struct ReductionLoop<'a> {
    kind: Kind,
    start: f64,
    stick: Value,
    wide: i64,
    reduced: bool,
    shape: &'a [i64],
}

fn fold(
    f: &mut Frame,
    loops: &[usize],
    at: &mut Vec<(usize, Value)>,
    acc: Value,
    how: &ReductionLoop<'_>,
) -> Value {
    if let Some((l, rest)) = loops.split_first() {
        let slice = f.slices[*l];
        let range = (slice.first, slice.last, f.one);
        return f.carry(range, &[acc], |f, i, inner| {
            at.push((*l, i));
            let acc = fold(f, rest, at, inner[0], how);
            at.pop();
            vec![acc]
        })[0];
    }
    let next = if how.reduced {
        let whole = row(f, 0, at);
        total(f, how.kind, whole, how.start)
    } else {
        let (follows, zero, elem) = (f.tensors[0].follows.clone(), f.zero, f.tensors[0].elem);
        let kept = how.shape[0] > 1;
        let lanes = if kept { None } else { Some(1) };
        let sticks = if kept { (how.stick, how.wide) } else { (zero, 1) };
        let (tile, _) = f.tile(0, &|d| (place(at, follows[d], zero), 1), sticks, lanes);
        f.load(tile, how.shape, elem)
    };
    f.b.binary(how.kind, acc, next)
}
