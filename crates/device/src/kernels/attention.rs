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
//! Q, V and the result are stickified along their last dimension. K is too, and is then transposed tile by tile
//! in the scratchpad; or it is stickified along the keys, as the transpose of a matrix is.

mod account;
mod task;

use super::io::{ElementLoader, ElementStorer};
use super::matmul::axis::{MatrixAxis, MatrixLines};
use super::matmul::finish::ExtraOperand;
use super::matmul::form::insert_unit_dim;
use super::matmul::micro::{Isa, ProductNumber};
use super::matmul::task::product_work_kind;
use super::share::{CoreShare, moves_along};
use super::{FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel};
use crate::error::Result;
use crate::error::refuse_operand;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::{layout_in_form_order, result_format};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use account::{AttentionShares, charge_attention};
use task::{AttentionTask, AttentionTensor};
use zellige_machine::account::CoreWork;
use zellige_op::{AttentionOp, TensorType};

const NAME: &str = "scaled_dot_product_attention";

impl OpKernel for AttentionOp {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let wants = inputs.iter().enumerate().map(|(i, t)| {
            let last = t.size().len().saturating_sub(1);
            match i {
                // K is read along its depth or along the keys, so that a K that was transposed before needs no
                // copy.
                1 if t.stick_form().is_ok_and(|s| s.stick == Some(last - 1)) => LayoutNeed::AsIs,
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
        if let Ok(q) = inputs[0].stick_form() {
            // The order of Q's dimensions, slowest first; those that only others have come before.
            let lead = rank - q.rank();
            order.sort_by_key(|d| {
                std::cmp::Reverse(d.checked_sub(lead).map_or(usize::MAX, |d| q.stride[d]))
            });
        }
        let mut form = StickForm {
            size: size.into(),
            stride: smallvec::SmallVec::from_elem(1, rank),
            stick: (out.size[rank - 1] != 1).then_some(rank - 1),
            eps: 1,
            offset: 0,
            format: zellige_float::Format::F32,
            truth: false,
            float16: false,
        };
        // Only the order of strides matters to the layout that is made from this form, so that they are numbered.
        order.iter().rev().enumerate().for_each(|(place, d)| form.stride[*d] = place + 1);
        Ok(KernelLayouts {
            inputs: wants.collect(),
            outputs: vec![layout_in_form_order(&form, format)?],
        })
    }

    fn iteration_space(&self, _: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        let out = &outputs[0];
        let rank = out.rank();
        let outer = out.size[..rank - 1].iter().map(|n| LoopSpan::for_output(*n, 1));
        // A core has whole rows: half a row would need all of its scores too.
        let row = out.size[rank - 1];
        outer.chain([LoopSpan::for_output(row, row.max(1))]).collect()
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        let out = &outputs[0];
        let (row, last) = (out.rank() - 2, out.rank() - 1);
        let follows = |i: usize, t: &StickForm| -> FollowedLoops {
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

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let sizes = |t: &StickForm| -> Vec<i64> {
            t.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect()
        };
        // Grouped heads become a dimension of their own, along which K and V do not move: then they are read as if
        // they were expanded, and nothing is copied.
        let group = self.head_group(&sizes(&inputs[0]), &sizes(&inputs[1]));
        let group = group.map_err(|r| refuse_operand(NAME, Some(1), r))?;
        let group = usize::try_from(group).unwrap_or(1);
        let heads = HeadGroups { group, grouped: self.grouped };
        let out = heads.split_query_heads(&outputs[0]);
        let rank = out.rank();
        let outer = &out.size[..rank - 2];
        let widen = |i: usize, t: StickForm| {
            let mut size = outer.to_vec();
            size.extend(&t.size[t.rank() - 2..]);
            let reason = || format!("its batches are not those of {:?}", outputs[0].size);
            t.expand_to(&size).ok_or_else(|| refuse_operand(NAME, Some(i), reason()))
        };
        let q = widen(0, heads.split_query_heads(&inputs[0]))?;
        let k = widen(1, heads.split_key_heads(&inputs[1]))?;
        let v = widen(2, heads.split_key_heads(&inputs[2]))?;
        let keys = k.size[rank - 2];
        let mask = match inputs.get(3) {
            None => None,
            Some(t) => {
                let mut size = outputs[0].size.clone();
                size[outputs[0].rank() - 1] = keys;
                let reason = || format!("size {:?} does not broadcast to {size:?}", t.size);
                let wide =
                    t.expand_to(&size).ok_or_else(|| refuse_operand(NAME, Some(3), reason()))?;
                Some(heads.split_query_heads(&wide))
            }
        };
        let (row, column) = (rank - 2, rank - 1);
        let lies =
            |t: &StickForm, d: usize| t.stick == Some(d) || (t.stick.is_none() && t.size[d] <= 1);
        for (i, t, fits) in [
            (Some(0), &q, lies(&q, column)),
            (Some(1), &k, lies(&k, column) || lies(&k, row)),
            (Some(2), &v, lies(&v, column)),
            (None, &out, lies(&out, column)),
        ] {
            if t.numel() > 0 && !fits {
                return Err(refuse_operand(
                    NAME,
                    i,
                    "it is not stickified along its last dimension",
                ));
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "extents of a head are small")]
        let scale = self.scale.unwrap_or_else(|| 1.0 / (q.size[column] as f64).sqrt());
        // The keys of one batch, and whole rows of everything else, for the accounts.
        let one = |t: &StickForm| {
            (0..rank - 2).fold(t.clone(), |t, d| t.slice_dim(d, 0..1.min(t.size[d])))
        };
        let (one_k, one_v) = (one(&k), one(&v));
        let mut rows = outputs[0].size.clone();
        let last = rows.len() - 1;
        rows[last] = inputs[0].size[inputs[0].rank() - 1];
        let queries = inputs[0].expand_to(&rows).unwrap_or_else(|| inputs[0].clone());
        rows[last] = keys;
        let masks = inputs.get(3).and_then(|t| t.expand_to(&rows));
        let space = self.iteration_space(inputs, outputs);
        let parts: Vec<CoreWork> = (0..division.core_count())
            .map(|core| {
                let ranges = division.core_slice(core, &space);
                let cut = |t: &StickForm| {
                    (0..last).fold(t.clone(), |t, d| t.slice_dim(d, ranges[d].clone()))
                };
                let mask = masks.as_ref().map(cut);
                // Loops along which a tensor does not move; along the heads, K and V move by groups.
                let still = |t: &StickForm| {
                    CoreShare::from_division(division, core, |l| l < last && !moves_along(t, l))
                };
                let shares = AttentionShares {
                    q: still(&queries),
                    mask: masks.as_ref().map_or(CoreShare::ALONE, still),
                    keys: heads.find_key_sharers(&k, division, core),
                    values: heads.find_key_sharers(&v, division, core),
                };
                let own = (&cut(&queries), &cut(&outputs[0]), mask.as_ref());
                charge_attention(own, (&one_k, &one_v), &shares)
            })
            .collect();
        let batch: Vec<usize> = (0..rank - 2).collect();
        let side = |t: &StickForm| AttentionTensor {
            load: ElementLoader::new(t.format, out.format),
            start: t.offset,
            batch: MatrixLines::from_dims(t, &batch),
            rows: MatrixLines::from_dims(t, &[row]),
            row: MatrixAxis::from_dim(t, row),
            column: MatrixAxis::from_dim(t, column),
        };
        Ok(Box::new(AttentionTask {
            isa: Isa::process_isa(),
            scale: f32::from_f64(scale),
            causal: self.causal,
            // A bool mask says which keys stay; a mask of numbers is added, even if its numbers are 0 and 1.
            keep: mask.as_ref().is_some_and(|t| t.truth),
            mask: mask.as_ref().map(|t| ExtraOperand {
                // A mask needs its infinities: a row of nothing else has no key.
                load: ElementLoader::with_infinities(t.format),
                start: t.offset,
                batch: MatrixLines::from_dims(t, &batch),
                rows: MatrixLines::from_dims(t, &[row]),
                columns: MatrixAxis::from_dim(t, column),
                input: 3,
            }),
            kind: product_work_kind(&q, &k, &out),
            q: side(&q),
            k: side(&k),
            v: side(&v),
            out: side(&out),
            store: ElementStorer::new(out.format),
            width: if v.stick == Some(column) { v.eps.max(32) } else { 32 },
            cores: division.core_count(),
            parts,
        }))
    }
}

/// Grouped heads as a dimension of their own: `[.., heads, ..]` is `[.., heads / group, group, ..]`.
struct HeadGroups {
    group: usize,
    grouped: bool,
}

impl HeadGroups {
    /// Q, the mask and the result: their heads split in two.
    fn split_query_heads(&self, t: &StickForm) -> StickForm {
        let Some(d) = t.rank().checked_sub(3).filter(|_| self.grouped) else {
            return t.clone();
        };
        let mut t = insert_unit_dim(t, d + 1);
        (t.size[d], t.size[d + 1]) = (t.size[d] / self.group, self.group);
        (t.stride[d], t.stride[d + 1]) = (t.stride[d] * self.group, t.stride[d]);
        t
    }

    /// The cores that have the same keys: those that differ in rows alone, in batches that share them, or
    /// in heads of one group. `t` is K or V for all batches.
    fn find_key_sharers(&self, t: &StickForm, division: &WorkDivision, core: usize) -> CoreShare {
        let (digits, splits) = (division.core_digits(core), division.splits());
        // The loops of the result: batches, heads, rows, columns.
        let rows = splits.len() - 2;
        let mut share = CoreShare::ALONE;
        for (l, split) in splits.iter().enumerate().take(rows + 1) {
            let (split, digit) = (*split as u64, digits[l] as u64);
            let head = self.grouped && l + 1 == rows;
            // Heads of a group that are on different cores.
            let apart = || {
                let heads = (t.size[l] * self.group) as u64;
                let each = heads / split.max(1);
                // Where groups are cut unevenly, cores with the same keys do not repeat at a fixed distance. They
                // are charged as if they did not share, which is never too little.
                let even = heads.is_multiple_of(split) && each > 0;
                let group = self.group as u64;
                if even && group.is_multiple_of(each) { group / each } else { 1 }
            };
            share = match l == rows || !moves_along(t, l) {
                true => share.with_loop(split, digit),
                false if head => share.with_loop(apart(), digit),
                false => share,
            };
        }
        share
    }

    /// K and V: one for each group.
    fn split_key_heads(&self, t: &StickForm) -> StickForm {
        match t.rank().checked_sub(3).filter(|_| self.grouped) {
            Some(d) => insert_unit_dim(t, d + 1),
            None => t.clone(),
        }
    }
}
