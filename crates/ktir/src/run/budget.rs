//! What a run may take: steps and bytes, both counted, so that a run ends alike on every machine.
//!
//! A kernel of a few lines can ask for loops of 10^18 rounds and for tiles on thousands of cores. Every
//! loop over an extent takes its steps before it begins, and everything that stays in memory takes its
//! bytes, so a run that would take more ends with the operation and the core that asked for it.

use super::error::Fault;
use crate::ir::{Function, Op};
use crate::types::{Elem, Type};
use std::cell::Cell;
use std::rc::Rc;

/// Steps of a run unless it is told otherwise: minutes of work.
pub const DEFAULT_STEPS: u64 = 1 << 30;

/// Bytes of a run unless it is told otherwise.
pub const DEFAULT_BYTES: u64 = 4 << 30;

/// Elements, or products that are added up, that an operation works on in one step.
pub(super) const ELEMENTS: u64 = 64;

/// What is left of both.
#[derive(Debug)]
pub(super) struct Meter {
    steps: Cell<u64>,
    max_steps: u64,
    bytes: Cell<u64>,
    max_bytes: u64,
}

/// Bytes that are given back in the end.
#[derive(Debug)]
pub(super) struct Held {
    meter: Rc<Meter>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.meter.bytes.set(self.meter.bytes.get().saturating_sub(self.bytes));
    }
}

impl Meter {
    pub(super) fn new(max_steps: u64, max_bytes: u64) -> Rc<Meter> {
        Rc::new(Meter { steps: Cell::new(0), max_steps, bytes: Cell::new(0), max_bytes })
    }

    /// Takes steps.
    pub(super) fn steps(&self, n: u64) -> Result<(), Fault> {
        zellige_guard::count_many_steps(usize::try_from(n).unwrap_or(usize::MAX));
        let now = self.steps.get().saturating_add(n);
        self.steps.set(now);
        if now > self.max_steps { Err(Fault::TooLong(self.max_steps)) } else { Ok(()) }
    }

    /// Takes the steps of work on so many elements.
    pub(super) fn elements(&self, n: u64) -> Result<(), Fault> {
        self.steps(n / ELEMENTS)
    }

    /// Refuses what there is no room for.
    pub(super) fn fits(&self, bytes: u64) -> Result<(), Fault> {
        let (used, limit) = (self.bytes.get(), self.max_bytes);
        if used.saturating_add(bytes) > limit {
            return Err(Fault::OutOfMemory { bytes, used, limit });
        }
        Ok(())
    }

    /// Takes bytes until the end of the run.
    pub(super) fn keep(&self, bytes: u64) -> Result<(), Fault> {
        self.fits(bytes)?;
        self.bytes.set(self.bytes.get() + bytes);
        Ok(())
    }

    /// Takes bytes for as long as what is returned lives.
    pub(super) fn hold(self: &Rc<Meter>, bytes: u64) -> Result<Held, Fault> {
        self.keep(bytes)?;
        Ok(Held { meter: self.clone(), bytes })
    }
}

/// Bytes of the host that elements take while a kernel runs.
pub(super) fn host_bytes(elem: Elem, n: u64) -> u64 {
    n.saturating_mul(if elem.is_float() { 4 } else { 8 })
}

/// Elements of a type; one that is no tile has one.
pub(super) fn elements(ty: &Type) -> u64 {
    match ty {
        Type::Tensor(shape, _) => shape
            .iter()
            .fold(1, |n: u64, d| n.saturating_mul(u64::try_from(*d).unwrap_or(u64::MAX))),
        _ => 1,
    }
}

/// Steps of an operation by itself: one, and those of the elements that it takes and gives. What its
/// loops take beyond that is counted where they are.
pub(super) fn steps(f: &Function, op: &Op) -> u64 {
    let values = op.operands.iter().chain(&op.results);
    let touched = values.fold(0, |n: u64, v| n.saturating_add(elements(f.ty(*v))));
    1 + touched / ELEMENTS
}
