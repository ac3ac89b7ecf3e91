//! Tensors out of nothing: constants, sequences, random numbers.
//!
//! A value is a function of the row-major index, computed in float64 (random ones in float32) and
//! rounded once to the stored format; integers lose their fraction, uint8 keeps the lowest 8 bits.

use super::cast::{held, stored};
use super::counter::{counter, lane, row_major};
use super::io::Store;
use super::pointwise::{cut, spans};
use super::random::{below, normal, uniform};
use super::walk::Walk;
use super::{Kernel, Lay, Meta, Pointers, Task, Want};
use crate::account::{CoreWork, Kind};
use crate::division::{Division, Span};
use crate::error::{DeviceError, Result};
use crate::sticks::Sticks;
use crate::tensor::Tensor;
use zellige_layout::{Dtype, StickLayout};

/// The value of an element by its row-major index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    /// The same everywhere.
    Full(f64),
    /// `start + i * step`.
    Arange { start: f64, step: f64 },
    /// From `start` to `end` in even steps, counted from the nearer end.
    Linspace { start: f64, end: f64, steps: u64 },
    /// 1 on the diagonal of a matrix of so many columns.
    Eye { columns: u64 },
    /// Uniform in `low .. high`.
    Uniform { low: f32, high: f32, seed: u64 },
    /// Normal.
    Normal { mean: f32, std: f32, seed: u64 },
    /// A whole number of `low .. low + count`.
    Integer { low: f64, count: u64, seed: u64 },
    /// 0 with probability `p`, else 1.
    Kept { p: f32, seed: u64 },
}

impl Value {
    fn at(self, i: u64) -> f64 {
        match self {
            Value::Full(v) => v,
            Value::Arange { start, step } => start + i as f64 * step,
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
            Value::Integer { low, count, seed } => low + below(i, seed, count) as f64,
            Value::Kept { p, seed } => f64::from(uniform(i, seed) >= p),
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
    /// Whether float32 is stored in 32 bits.
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
        self.dtype.device_format()?;
        Ok(vec![Meta { size: self.size.clone(), dtype: self.dtype }])
    }

    fn lay(&self, _: &[Tensor], _: &[Meta]) -> Result<Lay> {
        let format = stored(&[], self.dtype, self.wide)?;
        let layout = StickLayout::default_in(&self.size, None, format)?;
        Ok(Lay { inputs: Vec::new(), outputs: vec![layout] })
    }

    fn space(&self, _: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        spans(&[], &outputs[0])
    }

    fn suit(&self, _: &[Tensor], _: &[Sticks]) -> Option<Vec<Want>> {
        Some(Vec::new())
    }

    fn task(&self, _: &[Sticks], outputs: &[Sticks], division: &Division) -> Result<Box<dyn Task>> {
        let out = &outputs[0];
        let weight = row_major(&out.size);
        let counters = [counter(out, &weight)];
        let slices = cut(self.name, &[], &counters, out, division, self.value.is_transcendental())?;
        let (value, dtype, store) = (self.value, self.dtype, Store::new(out.format));
        Ok(Box::new(Making { value, dtype, lane: lane(out, &weight), store, slices }))
    }
}

struct Making {
    value: Value,
    dtype: Dtype,
    lane: usize,
    store: Store<f64>,
    slices: Vec<(Walk, CoreWork)>,
}

impl Task for Making {
    fn kind(&self) -> Kind {
        Kind::Pointwise
    }

    fn work(&self, core: usize) -> CoreWork {
        self.slices[core].1.clone()
    }

    unsafe fn run(&self, _: usize, core: usize, memory: &Pointers) {
        let walk = &self.slices[core].0;
        let most = (1024 / walk.lanes).max(1);
        let mut numbers = vec![0.0; most * walk.lanes];
        if let Value::Full(v) = self.value {
            numbers.fill(held(v, self.dtype));
        }
        walk.run(most, |rows| {
            if !matches!(self.value, Value::Full(_)) {
                for (row, numbers) in numbers.chunks_mut(rows.lanes).take(rows.count).enumerate() {
                    let first = rows.start[1] + row * rows.step[1];
                    for (l, number) in numbers.iter_mut().enumerate() {
                        let value = self.value.at((first + l * self.lane) as u64);
                        *number = held(value, self.dtype);
                    }
                }
            }
            let numbers = &numbers[..rows.count * rows.lanes];
            // SAFETY: by the contract of `Task::run`; the walk was made for this tensor.
            unsafe { rows.store(&self.store, memory.outputs[0], walk.kind(0), numbers) };
        });
    }
}
