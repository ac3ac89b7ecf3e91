//! Tensors out of nothing: constants, sequences, random numbers.
//!
//! A value is a function of the row-major index, computed in float64 (random ones in float32, whole ones
//! in int64) and rounded once to the stored format; integers lose their fraction, uint8 keeps the lowest
//! 8 bits.

use super::cast::stored;
use super::counter::{counter, lane, row_major};
use super::io::{Number, Store};
use super::pointwise::{WalkTask, Walks, by_element, cut, spans};
use super::walk::Walk;
use super::{Follows, Kernel, KernelLayouts, LayoutNeed, Pointers, Task, dims};
use crate::error::Result;
use crate::run::division::{Division, Span};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_float::Dtype;
use zellige_machine::OperationCharges;
use zellige_math::random::{
    fill_normal, fill_uniform, random_below, random_normal, random_uniform,
};
use zellige_op::is_float;
use zellige_op::{Factory, FactoryValue, Scalar, TensorType};
use zellige_stick::StickLayout;

/// The numbers of a tensor that is made of nothing.
trait FactoryNumbers: Copy {
    fn at(self, i: u64) -> f64;

    /// The function of the index where all values are whole numbers, which wrap at 64 bits.
    fn whole(self) -> Option<impl Fn(u64) -> i64 + Copy + Send + Sync + 'static>;

    /// A row of float32: random numbers as they come.
    fn floats(self, first: u64, step: u64, out: &mut [f32]);

    /// Whether [`Value::floats`] gives what [`Value::at`] gives in a tensor of the dtype.
    fn is_float(self, dtype: Dtype) -> bool;

    fn is_transcendental(self) -> bool;
}

impl FactoryNumbers for FactoryValue {
    fn at(self, i: u64) -> f64 {
        match self {
            FactoryValue::Uniform { low, high, seed } => {
                f64::from(low + random_uniform(i, seed) * (high - low))
            }
            FactoryValue::Normal { mean, std, seed } => {
                f64::from(mean + random_normal(i, seed) * std)
            }
            FactoryValue::Integer { .. } => self.whole().map_or(0.0, |f| f(i) as f64),
            FactoryValue::Kept { p, seed } => f64::from(random_uniform(i, seed) >= p),
            _ => self.number(i).float(),
        }
    }

    fn whole(self) -> Option<impl Fn(u64) -> i64 + Copy + Send + Sync + 'static> {
        let (start, step, draws) = match self {
            FactoryValue::Full(Scalar::Int(n)) => (n, 0, None),
            FactoryValue::Arange { start: Scalar::Int(start), step: Scalar::Int(step) } => {
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

    fn floats(self, first: u64, step: u64, out: &mut [f32]) {
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

impl Kernel for Factory {
    fn lay(&self, _: &[TensorLayout], _: &[TensorType]) -> Result<KernelLayouts> {
        let format = stored(&[], self.dtype, self.wide)?;
        let layout = StickLayout::default_in_format(&self.size, None, format)?;
        Ok(KernelLayouts { inputs: Vec::new(), outputs: vec![layout] })
    }

    fn space(&self, _: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        spans(&[], &outputs[0])
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        Some(dims::follow_result(inputs, outputs))
    }

    fn charges(&self, _: &[Sticks], outputs: &[Sticks]) -> Option<OperationCharges> {
        Some(by_element(&outputs[0], self.value.is_transcendental()))
    }

    fn suit(&self, _: &[TensorLayout], _: &[Sticks]) -> Option<Vec<LayoutNeed>> {
        Some(Vec::new())
    }

    fn task(&self, _: &[Sticks], outputs: &[Sticks], division: &Division) -> Result<Box<dyn Task>> {
        let out = &outputs[0];
        let weight = row_major(&out.size);
        let counters = [counter(out, &weight)];
        let walks = cut(self.name, &[], &counters, out, division, self.value.is_transcendental())?;
        let (value, dtype, lane) = (self.value, self.dtype, lane(out, &weight) as u64);
        Ok(if value.is_float(dtype) {
            let row = move |first: u64, row: &mut [f32]| value.floats(first, lane, row);
            Box::new(Making { row, constant: false, store: Store::new(out.format), walks })
        } else if let Some(whole) = value.whole() {
            let truth = dtype == Dtype::Bool;
            let byte = matches!(dtype, Dtype::Uint8 | Dtype::Quint8);
            let row = move |first: u64, row: &mut [i64]| {
                for (l, number) in row.iter_mut().enumerate() {
                    let n = whole(first + l as u64 * lane);
                    *number = if truth { i64::from(n != 0) } else { n };
                    *number &= if byte { 0xff } else { -1 };
                }
            };
            let constant = matches!(value, FactoryValue::Full(_));
            Box::new(Making { row, constant, store: Store::new(out.format), walks })
        } else {
            let row = move |first: u64, row: &mut [f64]| {
                for (l, number) in row.iter_mut().enumerate() {
                    let value = Scalar::Float(value.at(first + l as u64 * lane));
                    *number = value.held(dtype).float();
                }
            };
            let constant = matches!(value, FactoryValue::Full(_));
            Box::new(Making { row, constant, store: Store::new(out.format), walks })
        })
    }
}

/// Rows of numbers by the index of their first one.
struct Making<T, F> {
    row: F,
    /// Whether all rows are alike.
    constant: bool,
    store: Store<T>,
    walks: Walks,
}

impl<T: Number, F: Fn(u64, &mut [T]) + Send + Sync> WalkTask for Making<T, F> {
    fn walks(&self) -> &Walks {
        &self.walks
    }

    unsafe fn run_walk(&self, walk: &Walk, memory: &Pointers) {
        let most = walk.rows(1024);
        let mut numbers = vec![T::default(); most * walk.lanes];
        if self.constant {
            (self.row)(0, &mut numbers);
        }
        walk.run(most, |rows| {
            let numbers = &mut numbers[..rows.count * rows.lanes];
            if !self.constant {
                for (row, numbers) in numbers.chunks_mut(rows.lanes).enumerate() {
                    (self.row)((rows.start[1] + row * rows.step[1]) as u64, numbers);
                }
            }
            // SAFETY: by the contract of `Task::run`; the walk was made for this tensor.
            unsafe { rows.store(&self.store, memory.outputs[0], walk.kind(0), numbers) };
        });
    }
}
