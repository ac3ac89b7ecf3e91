//! Tensors without operands: constants, sequences, random numbers.
//!
//! A value is a function of the row-major index, computed in float64 (random ones in float32, whole ones
//! in int64) and rounded once to the stored format; integers lose their fraction, uint8 keeps the lowest
//! 8 bits.

use super::cast::format_for_dtype;
use super::counter::{lane_step, linear_counter, row_major_weights};
use super::io::{ElementStorer, KernelNumber};
use super::pointwise::{CoreWalks, WalkTask, cut_walks, elementwise_charges, result_spans};
use super::walk::StickWalk;
use super::{FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, TensorPointers, dims};
use crate::error::Result;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_float::Dtype;
use zellige_machine::OperationCharges;
use zellige_math::random::{
    fill_normal, fill_uniform, random_below, random_normal, random_uniform,
};
use zellige_op::is_float;
use zellige_op::{FactoryOp, FactoryValue, HostScalar, TensorType};
use zellige_stick::StickLayout;

/// The numbers of a tensor without operands.
trait FactoryNumbers: Copy {
    fn number_at(self, i: u64) -> f64;

    /// The function of the index where all values are whole numbers, which wrap at 64 bits.
    fn whole_numbers(self) -> Option<impl Fn(u64) -> i64 + Copy + Send + Sync + 'static>;

    /// A row of float32: random numbers as they are drawn.
    fn fill_floats(self, first: u64, step: u64, out: &mut [f32]);

    /// Whether [`FactoryNumbers::fill_floats`] gives what [`FactoryNumbers::number_at`] gives in a tensor of the dtype.
    fn is_float(self, dtype: Dtype) -> bool;

    fn is_transcendental(self) -> bool;
}

impl FactoryNumbers for FactoryValue {
    fn number_at(self, i: u64) -> f64 {
        match self {
            FactoryValue::Uniform { low, high, seed } => {
                f64::from(low + random_uniform(i, seed) * (high - low))
            }
            FactoryValue::Normal { mean, std, seed } => {
                f64::from(mean + random_normal(i, seed) * std)
            }
            // Drawn as integers and then rounded: a draw in float64 would not reach every number of a range past
            // 2^53.
            FactoryValue::Integer { .. } => self.whole_numbers().map_or(0.0, |f| f(i) as f64),
            FactoryValue::Kept { p, seed } => f64::from(random_uniform(i, seed) >= p),
            _ => self.scalar_at(i).to_f64(),
        }
    }

    fn whole_numbers(self) -> Option<impl Fn(u64) -> i64 + Copy + Send + Sync + 'static> {
        let (start, step, draws) = match self {
            FactoryValue::Full(HostScalar::Int(n)) => (n, 0, None),
            FactoryValue::Arange { start: HostScalar::Int(start), step: HostScalar::Int(step) } => {
                (start, step, None)
            }
            FactoryValue::Integer { low, count, seed } => (low, 0, Some((count, seed))),
            _ => return None,
        };
        Some(move |i: u64| {
            let drawn = draws.map_or(0, |(count, seed)| random_below(i, seed, count));
            start.wrapping_add(step.wrapping_mul(i.cast_signed())).wrapping_add(drawn.cast_signed())
        })
    }

    fn fill_floats(self, first: u64, step: u64, out: &mut [f32]) {
        match self {
            FactoryValue::Uniform { low, high, seed } => {
                fill_uniform(first, step, seed, low, high - low, out);
            }
            FactoryValue::Normal { mean, std, seed } => {
                fill_normal(first, step, seed, mean, std, out);
            }
            FactoryValue::Kept { p, seed } => {
                fill_uniform(first, step, seed, 0.0, 1.0, out);
                out.iter_mut().for_each(|u| *u = if *u < p { 0.0 } else { 1.0 });
            }
            _ => {}
        }
    }

    fn is_float(self, dtype: Dtype) -> bool {
        match self {
            FactoryValue::Uniform { .. } | FactoryValue::Normal { .. } => is_float(dtype),
            FactoryValue::Kept { .. } => true,
            _ => false,
        }
    }

    fn is_transcendental(self) -> bool {
        matches!(self, FactoryValue::Normal { .. })
    }
}

impl OpKernel for FactoryOp {
    fn plan_layouts(&self, _: &[TensorLayout], _: &[TensorType]) -> Result<KernelLayouts> {
        let format = format_for_dtype(&[], self.dtype, self.wide)?;
        let layout = StickLayout::default_in_format(&self.size, None, format)?;
        Ok(KernelLayouts { inputs: Vec::new(), outputs: vec![layout] })
    }

    fn iteration_space(&self, _: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        result_spans(&[], &outputs[0])
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        Some(dims::follow_result_loops(inputs, outputs))
    }

    fn unit_charges(&self, _: &[StickForm], outputs: &[StickForm]) -> Option<OperationCharges> {
        Some(elementwise_charges(&outputs[0], self.value.is_transcendental()))
    }

    fn operand_needs(&self, _: &[TensorLayout], _: &[StickForm]) -> Option<Vec<LayoutNeed>> {
        Some(Vec::new())
    }

    fn bind_task(
        &self,
        _: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let out = &outputs[0];
        let weight = row_major_weights(&out.size);
        let counters = [linear_counter(out, &weight)];
        let walks =
            cut_walks(self.name, &[], &counters, out, division, self.value.is_transcendental())?;
        let (value, dtype, lane) = (self.value, self.dtype, lane_step(out, &weight) as u64);
        // Random numbers are drawn in float32; whole numbers in 64 bits, because float64 does not hold every int64;
        // everything else in float64.
        Ok(if value.is_float(dtype) {
            let row = move |first: u64, row: &mut [f32]| value.fill_floats(first, lane, row);
            Box::new(FactoryTask {
                row,
                constant: false,
                store: ElementStorer::new(out.format),
                walks,
            })
        } else if let Some(whole) = value.whole_numbers() {
            let truth = dtype == Dtype::Bool;
            let byte = matches!(dtype, Dtype::Uint8 | Dtype::Quint8);
            let row = move |first: u64, row: &mut [i64]| {
                for (l, number) in row.iter_mut().enumerate() {
                    let n = whole(first + l as u64 * lane);
                    *number = if truth { i64::from(n != 0) } else { n };
                    // A uint8 is stored in 32 bits here, so that storing it would not wrap it.
                    *number &= if byte { 0xff } else { -1 };
                }
            };
            let constant = matches!(value, FactoryValue::Full(_));
            Box::new(FactoryTask { row, constant, store: ElementStorer::new(out.format), walks })
        } else {
            let row = move |first: u64, row: &mut [f64]| {
                for (l, number) in row.iter_mut().enumerate() {
                    let value = HostScalar::Float(value.number_at(first + l as u64 * lane));
                    *number = value.held_as_dtype(dtype).to_f64();
                }
            };
            let constant = matches!(value, FactoryValue::Full(_));
            Box::new(FactoryTask { row, constant, store: ElementStorer::new(out.format), walks })
        })
    }
}

/// Rows of numbers by the index of their first one.
struct FactoryTask<T, F> {
    row: F,
    /// Whether all rows hold the same numbers.
    constant: bool,
    store: ElementStorer<T>,
    walks: CoreWalks,
}

impl<T: KernelNumber, F: Fn(u64, &mut [T]) + Send + Sync> WalkTask for FactoryTask<T, F> {
    fn core_walks(&self) -> &CoreWalks {
        &self.walks
    }

    unsafe fn run_walk(&self, walk: &StickWalk, memory: &TensorPointers) {
        let most = walk.rows_for_numbers(1024);
        let mut numbers = vec![T::default(); most * walk.lanes];
        // Rows of a constant are computed once and stored many times.
        if self.constant {
            (self.row)(0, &mut numbers);
        }
        walk.for_each_rows(most, |rows| {
            let numbers = &mut numbers[..rows.count * rows.lanes];
            if !self.constant {
                for (row, numbers) in numbers.chunks_mut(rows.lanes).enumerate() {
                    (self.row)((rows.start[1] + row * rows.step[1]) as u64, numbers);
                }
            }
            // SAFETY: by the contract of `KernelTask::run_slice`; the walk was made for this tensor.
            unsafe { rows.store_rows(&self.store, memory.outputs[0], walk.row_lanes(0), numbers) };
        });
    }
}
