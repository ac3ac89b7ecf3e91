//! Convolutions: sizes, layouts, accounts.

use super::super::matmul::account::padded_extent;
use super::super::matmul::form::insert_unit_dim;
use super::super::share::CoreShare;
use super::super::{
    FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, charge_shared_streams,
};
use super::implicit;
use crate::error::Result;
use crate::error::refuse_operand;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::{layout_in_order, result_format};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use std::ops::Range;
use zellige_layout::StridedLayout;
use zellige_machine::account::{CoreWork, saturating_product};
use zellige_machine::{KERNEL_SCRATCHPAD, STREAMED_TENSOR_BYTES};
use zellige_op::{ConvolutionOp, KernelWindow, TensorType};

impl OpKernel for ConvolutionOp {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let channel = inputs[0].size().len() - self.rank - 1;
        let mut wants = vec![LayoutNeed::Along(channel), LayoutNeed::Along(0)];
        if inputs.len() > 2 {
            wants.push(LayoutNeed::Along(0));
        }
        let layout = layout_along_channels(&outputs[0], channel, &inputs[..1])?;
        Ok(KernelLayouts { inputs: wants, outputs: vec![layout] })
    }

    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        let out = &outputs[0];
        let channel = out.rank() - self.rank - 1;
        // Channels are cut in whole sticks of the tensor with the longest ones, as a core cannot begin inside of a
        // stick.
        let eps = inputs.iter().chain(outputs).map(|t| t.eps).max().unwrap_or(1);
        let unit = |d: usize| if d == channel { eps } else { 1 };
        let mut space: Vec<LoopSpan> =
            (0..out.rank()).map(|d| LoopSpan::for_output(out.size[d], unit(d))).collect();
        // The channels of a sum stay on one core.
        let depth = inputs[1].size[1];
        space.push(LoopSpan::for_reduction(depth, depth.max(1)));
        space
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        let out = &outputs[0];
        let channel = out.rank() - self.rank - 1;
        let depth = out.rank();
        let windows = self.kernel_windows(&inputs[1].size);
        let image = |d: usize| match d.checked_sub(channel) {
            None => Some(d),
            // With groups a channel of the result needs some channels of the image only, which are no slice of the
            // summed loop.
            Some(0) => (self.groups == 1).then_some(depth),
            // Windows of neighbouring cores overlap, so that an image dimension follows its loop only where each
            // window is one place.
            Some(i) => windows[2 - self.rank + i - 1].is_identity().then_some(d),
        };
        let weight = |d: usize| [Some(channel), Some(depth)].get(d).copied().flatten();
        let mut all: Vec<FollowedLoops> = vec![
            (0..inputs[0].rank()).map(image).collect(),
            (0..inputs[1].rank()).map(weight).collect(),
        ];
        all.extend(inputs.get(2).map(|_| FollowedLoops::from_slice(&[Some(channel)])));
        all.push((0..out.rank()).map(Some).collect());
        Some(all)
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let (x, out) = (as_image(self, &inputs[0]), as_image(self, &outputs[0]));
        let windows = self.kernel_windows(&inputs[1].size);
        let mut w = inputs[1].clone();
        if self.rank == 1 {
            w = insert_unit_dim(&w, 2);
        }
        let lies = |t: &StickForm, d: usize| {
            t.numel() == 0 || t.stick == Some(d) || (t.stick.is_none() && t.size[d] == 1)
        };
        if !lies(&x, 1) || !lies(&w, 0) || !lies(&out, 1) {
            let reason = "images have to be stickified along their channels, weights along their output channels";
            return Err(refuse_operand(self.name, None, reason));
        }
        let bias = inputs.get(2).map(|b| {
            let b = insert_unit_dim(&insert_unit_dim(b, 1), 2);
            b.expand_to(&out.size).unwrap_or(b)
        });
        let space = self.iteration_space(inputs, outputs);
        let work = (0..division.core_count()).map(|core| {
            let mut ranges: Vec<Range<usize>> = division.core_slice(core, &space).to_vec();
            // The summed loop is never split, see `iteration_space`.
            ranges.truncate(outputs[0].rank());
            if ranges.len() == self.rank + 1 {
                ranges.insert(0, 0..1);
            }
            if self.rank == 1 {
                ranges.insert(2, 0..1);
            }
            // Channels of the result share the images, everything else shares the weights.
            let channel = outputs[0].rank() - self.rank - 1;
            let images = CoreShare::from_division(division, core, |l| l == channel);
            let weights = CoreShare::from_division(division, core, |l| l != channel);
            charge_convolution(&x, &w, bias.as_ref(), &out, &windows, (&ranges, images, weights))
        });
        let work = work.collect();
        Ok(Box::new(implicit::ConvolutionTask::new(
            &x,
            &w,
            bias.as_ref(),
            &out,
            windows,
            self.groups,
            work,
        )))
    }
}

/// The layout of a result along its channels: rows of images outermost, as a weight's are read.
pub(super) fn layout_along_channels(
    out: &TensorType,
    channel: usize,
    operands: &[TensorLayout],
) -> Result<zellige_stick::StickLayout> {
    let format = result_format(operands, out.dtype)?;
    let host = StridedLayout::new_contiguous(&out.size)?;
    // Batch, then sticks of channels, then the image: rows of it are runs of sticks.
    let order: Vec<usize> = (0..out.size.len()).collect();
    let stick = (out.size[channel] != 1).then_some(channel);
    layout_in_order(&host, &order, stick, format)
}

/// What a core does for a part of the result: its windows' part of the images once, and the weights
/// of its channels once for every part of the images that fits into the scratchpad.
fn charge_convolution(
    x: &StickForm,
    w: &StickForm,
    bias: Option<&StickForm>,
    out: &StickForm,
    windows: &[KernelWindow; 2],
    (ranges, image_share, weight_share): (&[Range<usize>], CoreShare, CoreShare),
) -> CoreWork {
    let mut images = x.slice_dim(0, ranges[0].clone());
    for (d, window) in windows.iter().enumerate() {
        // Only what the windows of this part reach is streamed; the padding around an image is in no memory.
        images = images.slice_dim(2 + d, window.window_reach(&ranges[2 + d], x.size[2 + d]));
    }
    let weights = w.slice_dim(0, ranges[1].clone());
    let part = (0..4).fold(out.clone(), |t, d| t.slice_dim(d, ranges[d].clone()));
    let (reads, writes) = (std::slice::from_ref(&images), std::slice::from_ref(&part));
    let mut work = charge_shared_streams(reads, &[image_share], writes);
    let (bursts, padding) = weights.stick_traffic();
    let room = KERNEL_SCRATCHPAD - 2 * STREAMED_TENSOR_BYTES;
    // An image that does not fit is taken in parts, and each part needs all weights again.
    let times = images.stick_traffic().0.total_bytes().div_ceil(room).max(1);
    weight_share.charge_reads(&mut work, &bursts, times);
    work.padding_bytes += padding * times;
    work.lx_peak = (images.stick_traffic().0.total_bytes().min(room) + 2 * STREAMED_TENSOR_BYTES)
        .min(KERNEL_SCRATCHPAD);
    let pixels = (part.size[0] * part.size[2] * part.size[3]) as u64;
    let positions = (w.size[2] * w.size[3]) as u64;
    let unit = x.eps.max(1);
    let depth = (w.size[1].div_ceil(unit) * unit) as u64;
    work.macs = saturating_product([pixels, positions, depth, padded_extent(&part, 1)]);
    work.macs_valid =
        saturating_product([pixels, positions, w.size[1] as u64, part.size[1] as u64]);
    if let Some(bias) = bias {
        let (bursts, padding) = bias.slice_dim(1, ranges[1].clone()).stick_traffic();
        weight_share.charge_reads(&mut work, &bursts, 1);
        work.padding_bytes += padding;
        work.sfu = pixels * padded_extent(&part, 1);
    }
    work.lx_bytes = work.reads.total_bytes() + work.writes.total_bytes();
    work
}

/// A tensor with a batch and two dimensions of an image.
fn as_image(op: &ConvolutionOp, t: &StickForm) -> StickForm {
    let t = if t.rank() == op.rank + 1 { insert_unit_dim(t, 0) } else { t.clone() };
    if op.rank == 1 { insert_unit_dim(&t, 2) } else { t }
}
