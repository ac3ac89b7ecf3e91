//! Operands of which elements are kept or changed by their coordinates: triangles, dropout, Bernoulli numbers.

use super::counter::{lane_step, linear_counter, row_major_weights};
use super::io::{ElementLoader, ElementStorer, KernelNumber};
use super::pointwise::{
    CoreWalks, WalkTask, broadcast_needs, cut_walks, elementwise_charges, layouts_for_result,
    result_spans,
};
use super::walk::StickWalk;
use super::{FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, TensorPointers, dims};
use crate::error::Result;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::layout_like;
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_float::Format;
use zellige_machine::OperationCharges;
use zellige_math::random::fill_uniform;
use zellige_op::{MaskRule, MaskedOp, PerDimension, TensorType};

/// The counters that the rule needs: the row-major index, or row and column.
fn counter_weights(op: &MaskedOp, size: &[usize]) -> Vec<PerDimension<usize>> {
    if op.rule.is_random() {
        return vec![row_major_weights(size)];
    }
    let only = |dim: usize| (0..size.len()).map(|d| usize::from(d == dim)).collect();
    vec![only(size.len() - 2), only(size.len() - 1)]
}

impl OpKernel for MaskedOp {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        layouts_for_result(inputs, layout_like(inputs, &outputs[0])?)
    }

    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        result_spans(inputs, &outputs[0])
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        Some(dims::follow_result_loops(inputs, outputs))
    }

    fn unit_charges(&self, _: &[StickForm], outputs: &[StickForm]) -> Option<OperationCharges> {
        Some(elementwise_charges(&outputs[0], false))
    }

    fn operand_needs(
        &self,
        inputs: &[TensorLayout],
        outputs: &[StickForm],
    ) -> Option<Vec<LayoutNeed>> {
        Some(broadcast_needs(inputs, &outputs[0]))
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let out = &outputs[0];
        let weights = counter_weights(self, &out.size);
        // Counters are operands of the walk: an element then has the same random number in every layout and on
        // every core.
        let counters: Vec<StickForm> = weights.iter().map(|w| linear_counter(out, w)).collect();
        let walks = cut_walks(self.name, inputs, &counters, out, division, false)?;
        let lanes: Vec<usize> = weights.iter().map(|w| lane_step(out, w)).collect();
        let from = inputs[0].format;
        Ok(if from.is_float() {
            Box::new(MaskTask {
                f: mask_float_row,
                rule: self.rule,
                lanes,
                load: ElementLoader::<f32>::new(from, out.format),
                store: ElementStorer::new(out.format),
                walks,
            })
        } else if from == Format::I64 {
            Box::new(MaskTask {
                f: mask_triangle::<i64>,
                rule: self.rule,
                lanes,
                load: ElementLoader::<i64>::new(from, out.format),
                store: ElementStorer::new(out.format),
                walks,
            })
        } else {
            Box::new(MaskTask {
                f: mask_triangle::<i32>,
                rule: self.rule,
                lanes,
                load: ElementLoader::<i32>::new(from, out.format),
                store: ElementStorer::new(out.format),
                walks,
            })
        })
    }
}

/// Where a row is: its first counters, and how they move from lane to lane.
struct MaskedRow<'a> {
    start: [usize; 2],
    lane: &'a [usize],
}

fn mask_float_row(rule: MaskRule, place: &MaskedRow<'_>, x: &mut [f32]) {
    let draw = |seed: u64, drawn: &mut [f32]| {
        fill_uniform(place.start[0] as u64, place.lane[0] as u64, seed, 0.0, 1.0, drawn);
    };
    // A row is a stick, which has at most as many lanes as bytes.
    // On the stack, because this runs once per row.
    let mut drawn = [0.0; 128];
    let drawn = &mut drawn[..x.len()];
    match rule {
        MaskRule::Dropout { p, seed } => {
            draw(seed, drawn);
            // With p of 1 nothing is kept, and the quotient would be an infinity that makes NaN of zeros.
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
        _ => mask_triangle(rule, place, x),
    }
}

/// Zeroes what is outside the triangle. Column minus row moves by -1, 0 or 1 from lane to lane, so
/// that the lanes kept are a range.
fn mask_triangle<T: KernelNumber>(rule: MaskRule, place: &MaskedRow<'_>, x: &mut [T]) {
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
    // The lanes that are kept are one range, so that both ends tell whether all are. Most rows of a large triangle
    // have no boundary in them.
    if x.is_empty() || (keep(0) && keep(x.len() - 1)) {
        return;
    }
    for (l, x) in x.iter_mut().enumerate() {
        if !keep(l) {
            *x = T::default();
        }
    }
}

struct MaskTask<T> {
    f: fn(MaskRule, &MaskedRow<'_>, &mut [T]),
    rule: MaskRule,
    lanes: Vec<usize>,
    load: ElementLoader<T>,
    store: ElementStorer<T>,
    walks: CoreWalks,
}

impl<T: KernelNumber> WalkTask for MaskTask<T> {
    fn core_walks(&self) -> &CoreWalks {
        &self.walks
    }

    unsafe fn run_walk(&self, walk: &StickWalk, memory: &TensorPointers) {
        let most = walk.rows_for_numbers(1024);
        let mut numbers = vec![T::default(); most * walk.lanes];
        walk.for_each_rows(most, |rows| {
            let numbers = &mut numbers[..rows.count * rows.lanes];
            // SAFETY: by the contract of `KernelTask::run_slice`; the walk was made for these tensors.
            unsafe { rows.load_rows(&self.load, memory.inputs[0], 0, walk.row_lanes(1), numbers) };
            for (row, x) in numbers.chunks_mut(rows.lanes).enumerate() {
                let at = |k: usize| rows.start[k] + row * rows.step[k];
                let start = [at(2), if self.lanes.len() > 1 { at(3) } else { 0 }];
                (self.f)(self.rule, &MaskedRow { start, lane: &self.lanes }, x);
            }
            // SAFETY: as above; slices of other cores are disjoint.
            unsafe { rows.store_rows(&self.store, memory.outputs[0], walk.row_lanes(0), numbers) };
        });
    }
}
