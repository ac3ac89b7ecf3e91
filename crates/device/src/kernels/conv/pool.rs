//! The largest or the mean of windows of images.

use super::super::io::{Load, Store};
use super::super::matmul::axis::{Axis, Lines};
use super::super::matmul::form::with_one;
use super::super::{Follows, Kernel, KernelLayouts, LayoutNeed, Pointers, Task, streamed};
use super::convolve::by_channel;
use crate::error::Result;
use crate::error::refuse;
use crate::run::division::{Division, Span};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use std::ops::Range;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_math as math;
use zellige_op::{Pool, Pooled, TensorType};

impl Kernel for Pool {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let channel = inputs[0].size().len() - 3;
        let layout = by_channel(&outputs[0], channel, inputs)?;
        Ok(KernelLayouts { inputs: vec![LayoutNeed::Along(channel)], outputs: vec![layout] })
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        let out = &outputs[0];
        let eps = inputs[0].eps.max(out.eps);
        let unit = |d: usize| if d + 3 == out.rank() { eps } else { 1 };
        (0..out.rank()).map(|d| Span::output(out.size[d], unit(d))).collect()
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        let (x, out) = (&inputs[0], &outputs[0]);
        let image = |d: usize| match (d + 2).checked_sub(x.rank()) {
            None => Some(d),
            Some(i) => self.pooled.is_place(i, x.size[d]).then_some(d),
        };
        Some(vec![(0..x.rank()).map(image).collect(), (0..out.rank()).map(Some).collect()])
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let image = |t: &Sticks| if t.rank() == 3 { with_one(t, 0) } else { t.clone() };
        let (x, out) = (image(&inputs[0]), image(&outputs[0]));
        let lies = |t: &Sticks| t.stick == Some(1) || (t.stick.is_none() && t.size[1] == 1);
        if !lies(&x) || !lies(&out) {
            return Err(refuse(self.name, None, "images lie along their channels"));
        }
        let space = self.space(inputs, outputs);
        let slices = (0..division.cores()).map(|core| {
            let mut ranges: Vec<Range<usize>> = division.slice(core, &space).to_vec();
            if ranges.len() == 3 {
                ranges.insert(0, 0..1);
            }
            let mut part = x.slice(0, ranges[0].clone()).slice(1, ranges[1].clone());
            let mut places = 1u64;
            for d in 0..2 {
                let (count, size) = (out.size[2 + d], x.size[2 + d]);
                part = part.slice(2 + d, self.pooled.reach(d, &ranges[2 + d], count, size));
                let all = self.pooled.places_of_all(d, &ranges[2 + d], count, size);
                places = u64::saturating_mul(places, all);
            }
            let own = (0..4).fold(out.clone(), |t, d| t.slice(d, ranges[d].clone()));
            let mut work = streamed(&[part], &[own]);
            let lanes = ranges[1].len().next_multiple_of(out.eps) as u64;
            work.sfu = (ranges[0].len() as u64 * lanes).saturating_mul(places);
            (ranges, work)
        });
        Ok(Box::new(Work {
            pooled: self.pooled,
            load: Load::new(x.format, out.format),
            store: Store::new(out.format),
            slices: slices.collect(),
            x,
            out,
        }))
    }
}

/// Pooling on its tensors.
struct Work {
    pooled: Pooled,
    x: Sticks,
    load: Load<f32>,
    out: Sticks,
    store: Store<f32>,
    slices: Vec<(Vec<Range<usize>>, CoreWork)>,
}

impl Task for Work {
    fn kind(&self) -> WorkKind {
        WorkKind::CrossRowReduction
    }

    fn work(&self, core: usize) -> CoreWork {
        self.slices[core].1.clone()
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        let (x, out) = (&self.x, &self.out);
        let ranges = &self.slices[core].0;
        let channels = ranges[1].clone();
        let (from, to) = (Axis::of(x, 1), Axis::of(out, 1));
        let (from_rows, to_rows) = (Lines::of(x, &[0, 2, 3]), Lines::of(out, &[0, 2, 3]));
        let (mut value, mut best) = (vec![0f32; channels.len()], vec![0f32; channels.len()]);
        let largest = matches!(self.pooled, Pooled::Max(_));
        for n in ranges[0].clone() {
            for oh in ranges[2].clone() {
                let (i0, di, ni, ci) = self.pooled.places(0, oh, out.size[2], x.size[2]);
                for ow in ranges[3].clone() {
                    let (j0, dj, nj, cj) = self.pooled.places(1, ow, out.size[3], x.size[3]);
                    best.fill(if largest { f32::NEG_INFINITY } else { 0.0 });
                    for place in 0..ni * nj {
                        let (i, j) = (i0 + place / nj * di, j0 + place % nj * dj);
                        let row = (n * x.size[2] + i) * x.size[3] + j;
                        let start = x.offset + from_rows.place(row);
                        from.pieces(channels.clone(), |c, at, count| {
                            let value = &mut value[c - channels.start..][..count];
                            // SAFETY: elements of the image, by the contract of `Task::run`.
                            unsafe { self.load.run(memory.inputs[0], start + at, value) };
                        });
                        let step = if largest { math::Binary::Maximum } else { math::Binary::Add };
                        math::update_binary(step, &mut best, &value);
                    }
                    if !largest {
                        #[allow(clippy::cast_precision_loss, reason = "places of a window")]
                        let count = (ci * cj) as f32;
                        best.iter_mut().for_each(|x| *x = math::canonicalize_nan(*x / count));
                    }
                    let row = (n * out.size[2] + oh) * out.size[3] + ow;
                    let start = out.offset + to_rows.place(row);
                    to.pieces(channels.clone(), |c, at, count| {
                        let best = &best[c - channels.start..][..count];
                        // SAFETY: elements of the result that this core alone writes.
                        unsafe { self.store.run(memory.outputs[0], start + at, best) };
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
                let pooled = Pooled::Adaptive([count; 2]);
                for i in 0..count {
                    let (first, end) = (i * size / count, ((i + 1) * size).div_ceil(count));
                    assert_eq!(
                        pooled.places(0, i, count, size),
                        (first, 1, end - first, end - first)
                    );
                    assert_eq!(pooled.reach(0, &(i..i + 1), count, size), first..end);
                }
                for begin in 0..count {
                    let all = begin..count;
                    let places = |i| pooled.places(0, i, count, size).2 as u64;
                    let sum: u64 = all.clone().map(places).sum();
                    assert_eq!(pooled.places_of_all(0, &all, count, size), sum, "{size} {count}");
                }
            }
        }
        let huge = 1 << 50;
        assert_eq!(Pooled::Adaptive([huge; 2]).places_of_all(0, &(0..huge), huge, huge), 1 << 50);
    }
}
