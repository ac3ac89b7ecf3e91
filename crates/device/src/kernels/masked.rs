//! An operand kept or changed by the place of each element: triangles, dropout, Bernoulli numbers.

use super::counter::{counter, lane, row_major};
use super::io::{Load, Number, Store};
use super::pointwise::{WalkTask, Walks, by_element, cut, lay_around, spans, wants};
use super::walk::Walk;
use super::{Follows, Kernel, KernelLayouts, LayoutNeed, Pointers, Task, dims};
use crate::error::Result;
use crate::run::division::{Division, Span};
use crate::tensor::result_layout::like;
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_float::Format;
use zellige_machine::OperationCharges;
use zellige_math::random::fill_uniform;
use zellige_op::{Dims, MaskRule, Masked, TensorType};

/// The counters that the rule asks: the row-major index, or row and column.
fn weights(op: &Masked, size: &[usize]) -> Vec<Dims<usize>> {
    if op.rule.is_random() {
        return vec![row_major(size)];
    }
    let only = |dim: usize| (0..size.len()).map(|d| usize::from(d == dim)).collect();
    vec![only(size.len() - 2), only(size.len() - 1)]
}

impl Kernel for Masked {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        lay_around(inputs, like(inputs, &outputs[0])?)
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        spans(inputs, &outputs[0])
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        Some(dims::follow_result(inputs, outputs))
    }

    fn charges(&self, _: &[Sticks], outputs: &[Sticks]) -> Option<OperationCharges> {
        Some(by_element(&outputs[0], false))
    }

    fn suit(&self, inputs: &[TensorLayout], outputs: &[Sticks]) -> Option<Vec<LayoutNeed>> {
        Some(wants(inputs, &outputs[0]))
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let out = &outputs[0];
        let weights = weights(self, &out.size);
        let counters: Vec<Sticks> = weights.iter().map(|w| counter(out, w)).collect();
        let walks = cut(self.name, inputs, &counters, out, division, false)?;
        let lanes: Vec<usize> = weights.iter().map(|w| lane(out, w)).collect();
        let from = inputs[0].format;
        Ok(if from.is_float() {
            Box::new(Masking {
                f: float_row,
                rule: self.rule,
                lanes,
                load: Load::<f32>::new(from, out.format),
                store: Store::new(out.format),
                walks,
            })
        } else if from == Format::I64 {
            Box::new(Masking {
                f: triangle::<i64>,
                rule: self.rule,
                lanes,
                load: Load::<i64>::new(from, out.format),
                store: Store::new(out.format),
                walks,
            })
        } else {
            Box::new(Masking {
                f: triangle::<i32>,
                rule: self.rule,
                lanes,
                load: Load::<i32>::new(from, out.format),
                store: Store::new(out.format),
                walks,
            })
        })
    }
}

/// Where a row is: its first counters, and how they move from lane to lane.
struct Place<'a> {
    start: [usize; 2],
    lane: &'a [usize],
}

fn float_row(rule: MaskRule, place: &Place<'_>, x: &mut [f32]) {
    let draw = |seed: u64, drawn: &mut [f32]| {
        fill_uniform(place.start[0] as u64, place.lane[0] as u64, seed, 0.0, 1.0, drawn);
    };
    // A row is a stick, which has at most as many lanes as bytes.
    let mut drawn = [0.0; 128];
    let drawn = &mut drawn[..x.len()];
    match rule {
        MaskRule::Dropout { p, seed } => {
            draw(seed, drawn);
            let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
            for (x, u) in x.iter_mut().zip(drawn) {
                *x = if *u < p { 0.0 } else { *x * scale };
            }
        }
        MaskRule::Bernoulli { seed } => {
            draw(seed, drawn);
            for (x, u) in x.iter_mut().zip(drawn) {
                *x = if *u < *x { 1.0 } else { 0.0 };
            }
        }
        _ => triangle(rule, place, x),
    }
}

/// Zeroes what is outside the triangle. Column minus row moves by -1, 0 or 1 from lane to lane, so
/// that the lanes kept are a range.
fn triangle<T: Number>(rule: MaskRule, place: &Place<'_>, x: &mut [T]) {
    let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let first = signed(place.start[1]) - signed(place.start[0]);
    let step = signed(place.lane[1]) - signed(place.lane[0]);
    let keep = |l: usize| {
        let off = first + signed(l) * step;
        match rule {
            MaskRule::Lower { diagonal } => off <= diagonal,
            MaskRule::Upper { diagonal } => off >= diagonal,
            _ => true,
        }
    };
    if x.is_empty() || (keep(0) && keep(x.len() - 1)) {
        return;
    }
    for (l, x) in x.iter_mut().enumerate() {
        if !keep(l) {
            *x = T::default();
        }
    }
}

struct Masking<T> {
    f: fn(MaskRule, &Place<'_>, &mut [T]),
    rule: MaskRule,
    lanes: Vec<usize>,
    load: Load<T>,
    store: Store<T>,
    walks: Walks,
}

impl<T: Number> WalkTask for Masking<T> {
    fn walks(&self) -> &Walks {
        &self.walks
    }

    unsafe fn run_walk(&self, walk: &Walk, memory: &Pointers) {
        let most = walk.rows(1024);
        let mut numbers = vec![T::default(); most * walk.lanes];
        walk.run(most, |rows| {
            let numbers = &mut numbers[..rows.count * rows.lanes];
            // SAFETY: by the contract of `Task::run`; the walk was made for these tensors.
            unsafe { rows.load(&self.load, memory.inputs[0], 0, walk.kind(1), numbers) };
            for (row, x) in numbers.chunks_mut(rows.lanes).enumerate() {
                let at = |k: usize| rows.start[k] + row * rows.step[k];
                let start = [at(2), if self.lanes.len() > 1 { at(3) } else { 0 }];
                (self.f)(self.rule, &Place { start, lane: &self.lanes }, x);
            }
            // SAFETY: as above; slices of other cores are disjoint.
            unsafe { rows.store(&self.store, memory.outputs[0], walk.kind(0), numbers) };
        });
    }
}
