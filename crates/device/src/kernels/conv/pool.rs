//! The largest or the mean of windows of images.

use super::super::io::{ElementLoader, ElementStorer};
use super::super::matmul::axis::{MatrixAxis, MatrixLines};
use super::super::matmul::form::insert_unit_dim;
use super::super::{
    FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, TensorPointers, charge_streams,
};
use super::convolve::layout_along_channels;
use crate::error::Result;
use crate::error::refuse_operand;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use std::ops::Range;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_math as math;
use zellige_op::{PoolingKind, PoolingOp, TensorType};

impl OpKernel for PoolingOp {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let channel = inputs[0].size().len() - 3;
        let layout = layout_along_channels(&outputs[0], channel, inputs)?;
        Ok(KernelLayouts { inputs: vec![LayoutNeed::Along(channel)], outputs: vec![layout] })
    }

    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        let out = &outputs[0];
        let eps = inputs[0].eps.max(out.eps);
        let unit = |d: usize| if d + 3 == out.rank() { eps } else { 1 };
        (0..out.rank()).map(|d| LoopSpan::for_output(out.size[d], unit(d))).collect()
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        let (x, out) = (&inputs[0], &outputs[0]);
        let image = |d: usize| match (d + 2).checked_sub(x.rank()) {
            None => Some(d),
            Some(i) => self.pooled.is_identity(i, x.size[d]).then_some(d),
        };
        Some(vec![(0..x.rank()).map(image).collect(), (0..out.rank()).map(Some).collect()])
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let image = |t: &StickForm| if t.rank() == 3 { insert_unit_dim(t, 0) } else { t.clone() };
        let (x, out) = (image(&inputs[0]), image(&outputs[0]));
        let lies = |t: &StickForm| t.stick == Some(1) || (t.stick.is_none() && t.size[1] == 1);
        if !lies(&x) || !lies(&out) {
            return Err(refuse_operand(
                self.name,
                None,
                "images have to be stickified along their channels",
            ));
        }
        let space = self.iteration_space(inputs, outputs);
        let slices = (0..division.core_count()).map(|core| {
            let mut ranges: Vec<Range<usize>> = division.core_slice(core, &space).to_vec();
            if ranges.len() == 3 {
                ranges.insert(0, 0..1);
            }
            let mut part = x.slice_dim(0, ranges[0].clone()).slice_dim(1, ranges[1].clone());
            let mut places = 1u64;
            for d in 0..2 {
                let (count, size) = (out.size[2 + d], x.size[2 + d]);
                part =
                    // Windows of neighbouring parts overlap, so that both are charged for what they read.
                    part.slice_dim(2 + d, self.pooled.window_reach(d, &ranges[2 + d], count, size));
                let all = self.pooled.count_window_places(d, &ranges[2 + d], count, size);
                places = u64::saturating_mul(places, all);
            }
            let own = (0..4).fold(out.clone(), |t, d| t.slice_dim(d, ranges[d].clone()));
            let mut work = charge_streams(&[part], &[own]);
            let lanes = ranges[1].len().next_multiple_of(out.eps) as u64;
            work.sfu = (ranges[0].len() as u64 * lanes).saturating_mul(places);
            (ranges, work)
        });
        Ok(Box::new(PoolingTask {
            pooled: self.pooled,
            load: ElementLoader::new(x.format, out.format),
            store: ElementStorer::new(out.format),
            slices: slices.collect(),
            x,
            out,
        }))
    }
}

/// Pooling on its tensors.
struct PoolingTask {
    pooled: PoolingKind,
    x: StickForm,
    load: ElementLoader<f32>,
    out: StickForm,
    store: ElementStorer<f32>,
    slices: Vec<(Vec<Range<usize>>, CoreWork)>,
}

impl KernelTask for PoolingTask {
    fn work_kind(&self) -> WorkKind {
        WorkKind::CrossRowReduction
    }

    fn core_work(&self, core: usize) -> CoreWork {
        self.slices[core].1.clone()
    }

    unsafe fn run_slice(&self, _: usize, core: usize, memory: &TensorPointers) {
        let (x, out) = (&self.x, &self.out);
        let ranges = &self.slices[core].0;
        let channels = ranges[1].clone();
        let (from, to) = (MatrixAxis::from_dim(x, 1), MatrixAxis::from_dim(out, 1));
        let (from_rows, to_rows) =
            (MatrixLines::from_dims(x, &[0, 2, 3]), MatrixLines::from_dims(out, &[0, 2, 3]));
        let (mut value, mut best) = (vec![0f32; channels.len()], vec![0f32; channels.len()]);
        let largest = matches!(self.pooled, PoolingKind::Max(_));
        for n in ranges[0].clone() {
            for oh in ranges[2].clone() {
                // The first place, the step to the next, how many are inside of the image, and how many count.
                let (i0, di, ni, ci) = self.pooled.window_places(0, oh, out.size[2], x.size[2]);
                for ow in ranges[3].clone() {
                    let (j0, dj, nj, cj) = self.pooled.window_places(1, ow, out.size[3], x.size[3]);
                    // The neutral number of either, so that the first place needs no case of its own; a window
                    // without places cannot be built.
                    best.fill(if largest { f32::NEG_INFINITY } else { 0.0 });
                    for place in 0..ni * nj {
                        let (i, j) = (i0 + place / nj * di, j0 + place % nj * dj);
                        let row = (n * x.size[2] + i) * x.size[3] + j;
                        let start = x.offset + from_rows.line_offset(row);
                        from.for_each_piece(channels.clone(), |c, at, count| {
                            let value = &mut value[c - channels.start..][..count];
                            // SAFETY: elements of the image, by the contract of `KernelTask::run_slice`.
                            unsafe { self.load.load_adjacent(memory.inputs[0], start + at, value) };
                        });
                        // All channels at once: they are adjacent lanes, while the places of a window are not.
                        let step = if largest { math::Binary::Maximum } else { math::Binary::Add };
                        math::update_binary(step, &mut best, &value);
                    }
                    if !largest {
                        #[allow(clippy::cast_precision_loss, reason = "places of a window")]
                        // Places of padding count too where the operation says so, although they are not read.
                        let count = (ci * cj) as f32;
                        best.iter_mut().for_each(|x| *x = math::canonicalize_nan(*x / count));
                    }
                    let row = (n * out.size[2] + oh) * out.size[3] + ow;
                    let start = out.offset + to_rows.line_offset(row);
                    to.for_each_piece(channels.clone(), |c, at, count| {
                        let best = &best[c - channels.start..][..count];
                        // SAFETY: elements of the result that this core alone writes.
                        unsafe { self.store.store_adjacent(memory.outputs[0], start + at, best) };
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adaptive_windows_are_those_of_the_definition_and_counted_without_visiting_them() {
        for size in 1..20 {
            for count in 1..24 {
                let pooled = PoolingKind::Adaptive([count; 2]);
                for i in 0..count {
                    let (first, end) = (i * size / count, ((i + 1) * size).div_ceil(count));
                    assert_eq!(
                        pooled.window_places(0, i, count, size),
                        (first, 1, end - first, end - first)
                    );
                    assert_eq!(pooled.window_reach(0, &(i..i + 1), count, size), first..end);
                }
                for begin in 0..count {
                    let all = begin..count;
                    let places = |i| pooled.window_places(0, i, count, size).2 as u64;
                    let sum: u64 = all.clone().map(places).sum();
                    assert_eq!(
                        pooled.count_window_places(0, &all, count, size),
                        sum,
                        "{size} {count}"
                    );
                }
            }
        }
        let huge = 1 << 50;
        assert_eq!(
            PoolingKind::Adaptive([huge; 2]).count_window_places(0, &(0..huge), huge, huge),
            1 << 50
        );
    }
}
