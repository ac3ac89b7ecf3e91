//! Attention: `softmax(scale * Q K^T + mask) V`, some rows of Q at a time.
//!
//! # Arithmetic
//! In float32, for a row `l` of a query and every key `j`:
//!
//! ```text
//! s[j] = +0.0; for e in 0..E: s[j] = fma(q[l][e], k[j][e], s[j])
//! s[j] = s[j] * scale                      scale is rounded to float32
//! s[j] = s[j] + mask[l][j]                 or -inf where a bool mask is false
//! s[j] = -inf                              where the attention is causal and j > l
//! p[j] = exp(s[j] - max(s)) * (1 / sum)    the order of this sum is that of `math::reduce`
//! o[x] = +0.0; for j in 0..S: o[x] = fma(p[j], v[j][x], o[x])
//! ```
//!
//! and `o` rounds once to the stored format. A row without any key left (all are -inf) gives zeros, as
//! PyTorch's does. The scores of a block of rows are all that is held at once: no tensor of all scores.
//!
//! # Layout
//! Q, V and the result lie along their last dimension. K does too, or lies along the keys, as the
//! transpose of a matrix does that lies along its columns; the first is turned tile by tile in the
//! scratchpad.

mod account;
mod task;

use super::io::{Load, Store};
use super::matmul::axis::{Axis, Lines};
use super::matmul::finish::Extra;
use super::matmul::form::with_one;
use super::matmul::micro::{Cell, Isa};
use super::matmul::task::kind;
use super::share::{Share, moves_along};
use super::{Follows, Kernel, KernelLayouts, LayoutNeed, Task};
use crate::error::Result;
use crate::error::refuse;
use crate::run::division::{Division, Span};
use crate::tensor::result_layout::{arranged, result_format};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use account::{Shares, work};
use task::{Side, Work};
use zellige_machine::account::CoreWork;
use zellige_op::{Attention, TensorType};

const NAME: &str = "scaled_dot_product_attention";

impl Kernel for Attention {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let wants = inputs.iter().enumerate().map(|(i, t)| {
            let last = t.size().len().saturating_sub(1);
            match i {
                1 if t.sticks().is_ok_and(|s| s.stick == Some(last - 1)) => LayoutNeed::AsIs,
                3 if t.numel() == 1 => LayoutNeed::AsIs,
                3 if t.size().last() == Some(&1) => LayoutNeed::Sparse,
                _ => LayoutNeed::Along(last),
            }
        });
        let out = &outputs[0];
        let format = result_format(&inputs[..3], out.dtype)?;
        let size: Vec<usize> = out.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let rank = size.len();
        let mut order: Vec<usize> = (0..rank).collect();
        if let Ok(q) = inputs[0].sticks() {
            // The order of Q's dimensions, slowest first; those that only others have come before.
            let lead = rank - q.rank();
            order.sort_by_key(|d| {
                std::cmp::Reverse(d.checked_sub(lead).map_or(usize::MAX, |d| q.stride[d]))
            });
        }
        let mut form = Sticks {
            size: size.into(),
            stride: smallvec::SmallVec::from_elem(1, rank),
            stick: (out.size[rank - 1] != 1).then_some(rank - 1),
            eps: 1,
            offset: 0,
            format: zellige_float::Format::F32,
            truth: false,
            float16: false,
        };
        order.iter().rev().enumerate().for_each(|(place, d)| form.stride[*d] = place + 1);
        Ok(KernelLayouts { inputs: wants.collect(), outputs: vec![arranged(&form, format)?] })
    }

    fn space(&self, _: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        let out = &outputs[0];
        let rank = out.rank();
        let outer = out.size[..rank - 1].iter().map(|n| Span::output(*n, 1));
        // A core has whole rows: half a row would need all of its scores too.
        let row = out.size[rank - 1];
        outer.chain([Span::output(row, row.max(1))]).collect()
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        let out = &outputs[0];
        let (row, last) = (out.rank() - 2, out.rank() - 1);
        let follows = |i: usize, t: &Sticks| -> Follows {
            let lead = out.rank().saturating_sub(t.rank());
            let of = |d: usize| match lead + d {
                // Depths of Q and K, and keys, are summed over.
                at if at == last => (i == 2).then_some(last),
                at if at == row => (i == 0 || i == 3).then_some(row),
                at => Some(at),
            };
            let meets = |d: usize| of(d).filter(|at| t.size[d] == out.size[*at]);
            (0..t.rank()).map(meets).collect()
        };
        let operands = inputs.iter().enumerate().map(|(i, t)| follows(i, t));
        Some(operands.chain([(0..out.rank()).map(Some).collect()]).collect())
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let sizes = |t: &Sticks| -> Vec<i64> {
            t.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect()
        };
        let group = self.group(&sizes(&inputs[0]), &sizes(&inputs[1]));
        let group = group.map_err(|r| refuse(NAME, Some(1), r))?;
        let group = usize::try_from(group).unwrap_or(1);
        let heads = Heads { group, grouped: self.grouped };
        let out = heads.of_queries(&outputs[0]);
        let rank = out.rank();
        let outer = &out.size[..rank - 2];
        let widen = |i: usize, t: Sticks| {
            let mut size = outer.to_vec();
            size.extend(&t.size[t.rank() - 2..]);
            let reason = || format!("its batches are not those of {:?}", outputs[0].size);
            t.expand(&size).ok_or_else(|| refuse(NAME, Some(i), reason()))
        };
        let q = widen(0, heads.of_queries(&inputs[0]))?;
        let k = widen(1, heads.of_keys(&inputs[1]))?;
        let v = widen(2, heads.of_keys(&inputs[2]))?;
        let keys = k.size[rank - 2];
        let mask = match inputs.get(3) {
            None => None,
            Some(t) => {
                let mut size = outputs[0].size.clone();
                size[outputs[0].rank() - 1] = keys;
                let reason = || format!("size {:?} does not broadcast to {size:?}", t.size);
                let wide = t.expand(&size).ok_or_else(|| refuse(NAME, Some(3), reason()))?;
                Some(heads.of_queries(&wide))
            }
        };
        let (row, column) = (rank - 2, rank - 1);
        let lies =
            |t: &Sticks, d: usize| t.stick == Some(d) || (t.stick.is_none() && t.size[d] <= 1);
        for (i, t, fits) in [
            (Some(0), &q, lies(&q, column)),
            (Some(1), &k, lies(&k, column) || lies(&k, row)),
            (Some(2), &v, lies(&v, column)),
            (None, &out, lies(&out, column)),
        ] {
            if t.numel() > 0 && !fits {
                return Err(refuse(NAME, i, "it does not lie along its last dimension"));
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "extents of a head are small")]
        let scale = self.scale.unwrap_or_else(|| 1.0 / (q.size[column] as f64).sqrt());
        // The keys of one batch, and whole rows of everything else, for the accounts.
        let one =
            |t: &Sticks| (0..rank - 2).fold(t.clone(), |t, d| t.slice(d, 0..1.min(t.size[d])));
        let (one_k, one_v) = (one(&k), one(&v));
        let mut rows = outputs[0].size.clone();
        let last = rows.len() - 1;
        rows[last] = inputs[0].size[inputs[0].rank() - 1];
        let queries = inputs[0].expand(&rows).unwrap_or_else(|| inputs[0].clone());
        rows[last] = keys;
        let masks = inputs.get(3).and_then(|t| t.expand(&rows));
        let space = self.space(inputs, outputs);
        let parts: Vec<CoreWork> = (0..division.cores())
            .map(|core| {
                let ranges = division.slice(core, &space);
                let cut =
                    |t: &Sticks| (0..last).fold(t.clone(), |t, d| t.slice(d, ranges[d].clone()));
                let mask = masks.as_ref().map(cut);
                // Loops along which a tensor does not move; along the heads, K and V move by groups.
                let still =
                    |t: &Sticks| Share::of(division, core, |l| l < last && !moves_along(t, l));
                let shares = Shares {
                    q: still(&queries),
                    mask: masks.as_ref().map_or(Share::ALONE, still),
                    keys: heads.sharers(&k, division, core),
                    values: heads.sharers(&v, division, core),
                };
                let own = (&cut(&queries), &cut(&outputs[0]), mask.as_ref());
                work(own, (&one_k, &one_v), &shares)
            })
            .collect();
        let batch: Vec<usize> = (0..rank - 2).collect();
        let side = |t: &Sticks| Side {
            load: Load::new(t.format, out.format),
            start: t.offset,
            batch: Lines::of(t, &batch),
            rows: Lines::of(t, &[row]),
            row: Axis::of(t, row),
            column: Axis::of(t, column),
        };
        Ok(Box::new(Work {
            isa: Isa::process_isa(),
            scale: f32::from_f64(scale),
            causal: self.causal,
            keep: mask.as_ref().is_some_and(|t| t.truth),
            mask: mask.as_ref().map(|t| Extra {
                // A mask tells infinities: a row that has nothing else has no key.
                load: Load::exact(t.format),
                start: t.offset,
                batch: Lines::of(t, &batch),
                rows: Lines::of(t, &[row]),
                columns: Axis::of(t, column),
                input: 3,
            }),
            kind: kind(&q, &k, &out),
            q: side(&q),
            k: side(&k),
            v: side(&v),
            out: side(&out),
            store: Store::new(out.format),
            width: if v.stick == Some(column) { v.eps.max(32) } else { 32 },
            cores: division.cores(),
            parts,
        }))
    }
}

/// Grouped heads as a dimension of their own: `[.., heads, ..]` is `[.., heads / group, group, ..]`.
struct Heads {
    group: usize,
    grouped: bool,
}

impl Heads {
    /// Q, the mask and the result: their heads split in two.
    fn of_queries(&self, t: &Sticks) -> Sticks {
        let Some(d) = t.rank().checked_sub(3).filter(|_| self.grouped) else {
            return t.clone();
        };
        let mut t = with_one(t, d + 1);
        (t.size[d], t.size[d + 1]) = (t.size[d] / self.group, self.group);
        (t.stride[d], t.stride[d + 1]) = (t.stride[d] * self.group, t.stride[d]);
        t
    }

    /// The cores that have the same keys: those that differ in rows alone, in batches that share them, or
    /// in heads of one group. `t` is K or V for all batches.
    fn sharers(&self, t: &Sticks, division: &Division, core: usize) -> Share {
        let (digits, splits) = (division.digits(core), division.splits());
        // The loops of the result: batches, heads, rows, columns.
        let rows = splits.len() - 2;
        let mut share = Share::ALONE;
        for (l, split) in splits.iter().enumerate().take(rows + 1) {
            let (split, digit) = (*split as u64, digits[l] as u64);
            let head = self.grouped && l + 1 == rows;
            // Heads of a group that are on different cores.
            let apart = || {
                let heads = (t.size[l] * self.group) as u64;
                let each = heads / split.max(1);
                let even = heads.is_multiple_of(split) && each > 0;
                let group = self.group as u64;
                if even && group.is_multiple_of(each) { group / each } else { 1 }
            };
            share = match l == rows || !moves_along(t, l) {
                true => share.and(split, digit),
                false if head => share.and(apart(), digit),
                false => share,
            };
        }
        share
    }

    /// K and V: one for each group.
    fn of_keys(&self, t: &Sticks) -> Sticks {
        match t.rank().checked_sub(3).filter(|_| self.grouped) {
            Some(d) => with_one(t, d + 1),
            None => t.clone(),
        }
    }
}
