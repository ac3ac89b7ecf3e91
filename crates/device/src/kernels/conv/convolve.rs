//! Convolutions: sizes, layouts, accounts.

use super::super::matmul::account::padded;
use super::super::matmul::form::with_one;
use super::super::share::Share;
use super::super::{Follows, Kernel, KernelLayouts, LayoutNeed, Task, streamed_with};
use super::implicit;
use crate::error::Result;
use crate::error::refuse;
use crate::run::division::{Division, Span};
use crate::tensor::result_layout::{result_format, with_order};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use std::ops::Range;
use zellige_layout::StridedLayout;
use zellige_machine::account::{CoreWork, saturating_product};
use zellige_machine::{KERNEL_SCRATCHPAD, STREAMED_TENSOR_BYTES};
use zellige_op::{Convolution, TensorType, Window};

impl Kernel for Convolution {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let channel = inputs[0].size().len() - self.rank - 1;
        let mut wants = vec![LayoutNeed::Along(channel), LayoutNeed::Along(0)];
        if inputs.len() > 2 {
            wants.push(LayoutNeed::Along(0));
        }
        let layout = by_channel(&outputs[0], channel, &inputs[..1])?;
        Ok(KernelLayouts { inputs: wants, outputs: vec![layout] })
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        let out = &outputs[0];
        let channel = out.rank() - self.rank - 1;
        let eps = inputs.iter().chain(outputs).map(|t| t.eps).max().unwrap_or(1);
        let unit = |d: usize| if d == channel { eps } else { 1 };
        let mut space: Vec<Span> =
            (0..out.rank()).map(|d| Span::output(out.size[d], unit(d))).collect();
        // The channels of a sum stay on one core.
        let depth = inputs[1].size[1];
        space.push(Span::reduced(depth, depth.max(1)));
        space
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        let out = &outputs[0];
        let channel = out.rank() - self.rank - 1;
        let depth = out.rank();
        let windows = self.windows(&inputs[1].size);
        let image = |d: usize| match d.checked_sub(channel) {
            None => Some(d),
            Some(0) => (self.groups == 1).then_some(depth),
            Some(i) => windows[2 - self.rank + i - 1].is_place().then_some(d),
        };
        let weight = |d: usize| [Some(channel), Some(depth)].get(d).copied().flatten();
        let mut all: Vec<Follows> = vec![
            (0..inputs[0].rank()).map(image).collect(),
            (0..inputs[1].rank()).map(weight).collect(),
        ];
        all.extend(inputs.get(2).map(|_| Follows::from_slice(&[Some(channel)])));
        all.push((0..out.rank()).map(Some).collect());
        Some(all)
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let (x, out) = (image(self, &inputs[0]), image(self, &outputs[0]));
        let windows = self.windows(&inputs[1].size);
        let mut w = inputs[1].clone();
        if self.rank == 1 {
            w = with_one(&w, 2);
        }
        let lies = |t: &Sticks, d: usize| {
            t.numel() == 0 || t.stick == Some(d) || (t.stick.is_none() && t.size[d] == 1)
        };
        if !lies(&x, 1) || !lies(&w, 0) || !lies(&out, 1) {
            let reason = "images lie along their channels, weights along their output channels";
            return Err(refuse(self.name, None, reason));
        }
        let bias = inputs.get(2).map(|b| {
            let b = with_one(&with_one(b, 1), 2);
            b.expand(&out.size).unwrap_or(b)
        });
        let space = self.space(inputs, outputs);
        let work = (0..division.cores()).map(|core| {
            let mut ranges: Vec<Range<usize>> = division.slice(core, &space).to_vec();
            ranges.truncate(outputs[0].rank());
            if ranges.len() == self.rank + 1 {
                ranges.insert(0, 0..1);
            }
            if self.rank == 1 {
                ranges.insert(2, 0..1);
            }
            // Channels of the result share the images, everything else shares the weights.
            let channel = outputs[0].rank() - self.rank - 1;
            let images = Share::of(division, core, |l| l == channel);
            let weights = Share::of(division, core, |l| l != channel);
            charge(&x, &w, bias.as_ref(), &out, &windows, (&ranges, images, weights))
        });
        let work = work.collect();
        Ok(Box::new(implicit::Work::new(&x, &w, bias.as_ref(), &out, windows, self.groups, work)))
    }
}

/// The layout of a result along its channels: rows of images outermost, as a weight's are read.
pub(super) fn by_channel(
    out: &TensorType,
    channel: usize,
    operands: &[TensorLayout],
) -> Result<zellige_stick::StickLayout> {
    let format = result_format(operands, out.dtype)?;
    let host = StridedLayout::new_contiguous(&out.size)?;
    // Batch, then sticks of channels, then the image: rows of it are runs of sticks.
    let order: Vec<usize> = (0..out.size.len()).collect();
    let stick = (out.size[channel] != 1).then_some(channel);
    with_order(&host, &order, stick, format)
}

/// What a core does for a part of the result: its windows' part of the images once, and the weights
/// of its channels once for every part of the images that fits into the scratchpad.
fn charge(
    x: &Sticks,
    w: &Sticks,
    bias: Option<&Sticks>,
    out: &Sticks,
    windows: &[Window; 2],
    (ranges, image_share, weight_share): (&[Range<usize>], Share, Share),
) -> CoreWork {
    let mut images = x.slice(0, ranges[0].clone());
    for (d, window) in windows.iter().enumerate() {
        images = images.slice(2 + d, window.reach(&ranges[2 + d], x.size[2 + d]));
    }
    let weights = w.slice(0, ranges[1].clone());
    let part = (0..4).fold(out.clone(), |t, d| t.slice(d, ranges[d].clone()));
    let (reads, writes) = (std::slice::from_ref(&images), std::slice::from_ref(&part));
    let mut work = streamed_with(reads, &[image_share], writes);
    let (bursts, padding) = weights.traffic();
    let room = KERNEL_SCRATCHPAD - 2 * STREAMED_TENSOR_BYTES;
    let times = images.traffic().0.total_bytes().div_ceil(room).max(1);
    weight_share.read(&mut work, &bursts, times);
    work.padding_bytes += padding * times;
    work.lx_peak = (images.traffic().0.total_bytes().min(room) + 2 * STREAMED_TENSOR_BYTES)
        .min(KERNEL_SCRATCHPAD);
    let pixels = (part.size[0] * part.size[2] * part.size[3]) as u64;
    let positions = (w.size[2] * w.size[3]) as u64;
    let unit = x.eps.max(1);
    let depth = (w.size[1].div_ceil(unit) * unit) as u64;
    work.macs = saturating_product([pixels, positions, depth, padded(&part, 1)]);
    work.macs_valid =
        saturating_product([pixels, positions, w.size[1] as u64, part.size[1] as u64]);
    if let Some(bias) = bias {
        let (bursts, padding) = bias.slice(1, ranges[1].clone()).traffic();
        weight_share.read(&mut work, &bursts, 1);
        work.padding_bytes += padding;
        work.sfu = pixels * padded(&part, 1);
    }
    work.lx_bytes = work.reads.total_bytes() + work.writes.total_bytes();
    work
}

/// A tensor with a batch and two dimensions of an image.
fn image(op: &Convolution, t: &Sticks) -> Sticks {
    let t = if t.rank() == op.rank + 1 { with_one(t, 0) } else { t.clone() };
    if op.rank == 1 { with_one(&t, 2) } else { t }
}
