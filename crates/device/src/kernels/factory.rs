//! Tensors out of nothing: constants, sequences, random numbers.
//!
//! A value is a function of the row-major index, computed in float64 (random ones in float32, whole ones
//! in int64) and rounded once to the stored format; integers lose their fraction, uint8 keeps the lowest
//! 8 bits.

use super::cast::stored;
use super::counter::{counter, lane, row_major};
use super::io::{Number, Store};
use super::pointwise::{by_element, cut, spans};
use super::walk::Walk;
use super::{Follows, Kernel, Lay, Meta, Pointers, Task, Want, dims};
use crate::division::{Division, Span};
use crate::error::{DeviceError, Result};
use crate::laid::Laid;
use crate::lay::is_float;
use crate::narrow;
use crate::scalar::Scalar;
use crate::sticks::Sticks;
use zellige_float::Format;
use zellige_layout::{Dtype, StickLayout};
use zellige_machine::Charges;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_math::random::{below, fill_normal, fill_uniform, normal, uniform};

/// The value of an element by its row-major index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// The same everywhere.
    Full(Scalar),
    /// `start + i * step`.
    Arange { start: Scalar, step: Scalar },
    /// From `start` to `end` in even steps, counted from the nearer end.
    Linspace { start: f64, end: f64, steps: u64 },
    /// 1 on the diagonal of a matrix of so many columns.
    Eye { columns: u64 },
    /// Uniform in `low .. high`.
    Uniform { low: f32, high: f32, seed: u64 },
    /// Normal.
    Normal { mean: f32, std: f32, seed: u64 },
    /// A whole number of `low .. low + count`.
    Integer { low: i64, count: u64, seed: u64 },
    /// 0 with probability `p`, else 1.
    Kept { p: f32, seed: u64 },
}

impl Value {
    fn at(self, i: u64) -> f64 {
        match self {
            Value::Full(v) => v.float(),
            Value::Arange { start, step } => start.float() + i as f64 * step.float(),
            Value::Linspace { start, steps: 0 | 1, .. } => start,
            Value::Linspace { start, end, steps } => {
                let step = (end - start) / (steps - 1) as f64;
                if i < steps / 2 {
                    start + step * i as f64
                } else {
                    end - step * (steps - 1).saturating_sub(i) as f64
                }
            }
            Value::Eye { columns } => f64::from(i / columns == i % columns),
            Value::Uniform { low, high, seed } => f64::from(low + uniform(i, seed) * (high - low)),
            Value::Normal { mean, std, seed } => f64::from(mean + normal(i, seed) * std),
            Value::Integer { .. } => self.whole().map_or(0.0, |f| f(i) as f64),
            Value::Kept { p, seed } => f64::from(uniform(i, seed) >= p),
        }
    }

    /// The function of the index where all values are whole numbers, which wrap at 64 bits.
    fn whole(self) -> Option<impl Fn(u64) -> i64 + Copy + Send + Sync + 'static> {
        let (start, step, draws) = match self {
            Value::Full(Scalar::Int(n)) => (n, 0, None),
            Value::Arange { start: Scalar::Int(start), step: Scalar::Int(step) } => {
                (start, step, None)
            }
            Value::Integer { low, count, seed } => (low, 0, Some((count, seed))),
            _ => return None,
        };
        Some(move |i: u64| {
            let drawn = draws.map_or(0, |(count, seed)| below(i, seed, count));
            start.wrapping_add(step.wrapping_mul(i.cast_signed())).wrapping_add(drawn.cast_signed())
        })
    }

    /// The least and the greatest value of a tensor with so many elements, in some order; none where
    /// it has no elements, or where no value is large.
    fn ends(self, count: u64) -> Option<[Scalar; 2]> {
        let last = count.checked_sub(1)?;
        Some(match self {
            Value::Integer { low, count, .. } => {
                let most = count.saturating_sub(1);
                [low.into(), low.checked_add_unsigned(most).unwrap_or(i64::MAX).into()]
            }
            Value::Full(_) | Value::Arange { .. } | Value::Linspace { .. } => match self.whole() {
                Some(whole) => [whole(0).into(), whole(last).into()],
                None => [self.at(0).into(), self.at(last).into()],
            },
            Value::Uniform { low, high, .. } => [f64::from(low).into(), f64::from(high).into()],
            Value::Eye { .. } | Value::Normal { .. } | Value::Kept { .. } => return None,
        })
    }

    /// A row of float32: random numbers as they come.
    fn floats(self, first: u64, step: u64, out: &mut [f32]) {
        match self {
            Value::Uniform { low, high, seed } => {
                fill_uniform(first, step, seed, low, high - low, out);
            }
            Value::Normal { mean, std, seed } => fill_normal(first, step, seed, mean, std, out),
            Value::Kept { p, seed } => {
                fill_uniform(first, step, seed, 0.0, 1.0, out);
                out.iter_mut().for_each(|u| *u = if *u < p { 0.0 } else { 1.0 });
            }
            _ => {}
        }
    }

    /// Whether [`Value::floats`] gives what [`Value::at`] gives in a tensor of the dtype.
    fn is_float(self, dtype: Dtype) -> bool {
        match self {
            Value::Uniform { .. } | Value::Normal { .. } => is_float(dtype),
            Value::Kept { .. } => true,
            _ => false,
        }
    }

    fn is_transcendental(self) -> bool {
        matches!(self, Value::Normal { .. })
    }
}

/// An operation without operands.
#[derive(Debug, Clone)]
pub(crate) struct Factory {
    pub(crate) name: &'static str,
    pub(crate) size: Vec<i64>,
    pub(crate) dtype: Dtype,
    /// Whether float32 and int64 are stored as they are.
    pub(crate) wide: bool,
    pub(crate) value: Value,
}

impl Kernel for Factory {
    fn infer(&self, inputs: &[Meta]) -> Result<Vec<Meta>> {
        if !inputs.is_empty() {
            return Err(DeviceError::BadOperand {
                op: self.name.into(),
                operand: Some(0),
                reason: "it takes no operands".into(),
            });
        }
        let format = zellige_movement::device_format_of(stored(&[], self.dtype, self.wide)?);
        let count = self.size.iter().try_fold(1u64, |all, n| all.checked_mul(n.unsigned_abs()));
        for end in self.value.ends(count.unwrap_or(u64::MAX)).into_iter().flatten() {
            narrow::number_fits(end, format.unwrap_or(Format::F32))?;
        }
        Ok(vec![Meta { size: self.size.clone(), dtype: self.dtype }])
    }

    fn lay(&self, _: &[Laid], _: &[Meta]) -> Result<Lay> {
        let format = stored(&[], self.dtype, self.wide)?;
        let layout = StickLayout::default_in(&self.size, None, format)?;
        Ok(Lay { inputs: Vec::new(), outputs: vec![layout] })
    }

    fn space(&self, _: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        spans(&[], &outputs[0])
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        Some(dims::follow_result(inputs, outputs))
    }

    fn charges(&self, _: &[Sticks], outputs: &[Sticks]) -> Option<Charges> {
        Some(by_element(&outputs[0], self.value.is_transcendental()))
    }

    fn suit(&self, _: &[Laid], _: &[Sticks]) -> Option<Vec<Want>> {
        Some(Vec::new())
    }

    fn task(&self, _: &[Sticks], outputs: &[Sticks], division: &Division) -> Result<Box<dyn Task>> {
        let out = &outputs[0];
        let weight = row_major(&out.size);
        let counters = [counter(out, &weight)];
        let slices = cut(self.name, &[], &counters, out, division, self.value.is_transcendental())?;
        let (value, dtype, lane) = (self.value, self.dtype, lane(out, &weight) as u64);
        Ok(if value.is_float(dtype) {
            let row = move |first: u64, row: &mut [f32]| value.floats(first, lane, row);
            Box::new(Making { row, constant: false, store: Store::new(out.format), slices })
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
            let constant = matches!(value, Value::Full(_));
            Box::new(Making { row, constant, store: Store::new(out.format), slices })
        } else {
            let row = move |first: u64, row: &mut [f64]| {
                for (l, number) in row.iter_mut().enumerate() {
                    let value = Scalar::Float(value.at(first + l as u64 * lane));
                    *number = value.held(dtype).float();
                }
            };
            let constant = matches!(value, Value::Full(_));
            Box::new(Making { row, constant, store: Store::new(out.format), slices })
        })
    }
}

/// Rows of numbers by the index of their first one.
struct Making<T, F> {
    row: F,
    /// Whether all rows are alike.
    constant: bool,
    store: Store<T>,
    slices: Vec<(Walk, CoreWork)>,
}

impl<T: Number, F: Fn(u64, &mut [T]) + Send + Sync> Task for Making<T, F> {
    fn kind(&self) -> WorkKind {
        WorkKind::Pointwise
    }

    fn work(&self, core: usize) -> CoreWork {
        self.slices[core].1.clone()
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        let walk = &self.slices[core].0;
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
