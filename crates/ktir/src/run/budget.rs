//! The budget of a run: steps and bytes. Both are counted, so that a run ends in the same place on
//! every machine.
//!
//! A kernel of a few lines can contain loops of 10^18 rounds and tiles on thousands of cores. Every
//! loop over an extent charges its steps before it begins, and everything that stays in memory
//! charges its bytes, so a run that would exceed the budget ends with the operation and the core
//! that did.

use super::error::KtirFault;
use crate::ir::{KtirFunction, KtirOp};
use crate::types::{KtirElem, KtirType};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The default number of steps of a run: minutes of work.
pub const DEFAULT_STEPS: u64 = 1 << 30;

/// The default number of bytes of a run.
// Half of the memory of a machine of 8 GB.
pub const DEFAULT_BYTES: u64 = 4 << 30;

/// The number of elements, or of multiply-adds, that count as one step.
// The device's vector unit works on 64 elements per cycle, so a step is about one of its cycles; a
// limit in operations alone would let one operation on a huge tile cost nothing.
pub(super) const ELEMENTS_PER_STEP: u64 = 64;

/// Ends a run from another thread: with [`KtirFault::Stopped`], at the next operation.
#[derive(Debug, Clone, Default)]
pub struct KtirStopFlag(Arc<AtomicBool>);

impl KtirStopFlag {
    /// Asks the run to end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The used and the allowed steps and bytes.
#[derive(Debug)]
pub(super) struct KtirRunBudget {
    steps: Cell<u64>,
    max_steps: u64,
    bytes: Cell<u64>,
    max_bytes: u64,
    stop: KtirStopFlag,
}

/// Bytes that are released when this value is dropped.
#[derive(Debug)]
pub(super) struct KtirHeldBytes {
    meter: Rc<KtirRunBudget>,
    bytes: u64,
}

impl Drop for KtirHeldBytes {
    fn drop(&mut self) {
        self.meter.bytes.set(self.meter.bytes.get().saturating_sub(self.bytes));
    }
}

impl KtirRunBudget {
    pub(super) fn new(max_steps: u64, max_bytes: u64, stop: &KtirStopFlag) -> Rc<KtirRunBudget> {
        let (steps, bytes, stop) = (Cell::new(0), Cell::new(0), stop.clone());
        Rc::new(KtirRunBudget { steps, max_steps, bytes, max_bytes, stop })
    }

    /// Charges steps.
    pub(super) fn take_steps(&self, n: u64) -> Result<(), KtirFault> {
        // The request around this run has a budget of its own, which counts the same steps.
        zellige_guard::count_many_steps(usize::try_from(n).unwrap_or(usize::MAX));
        if self.stop.0.load(Ordering::Relaxed) {
            return Err(KtirFault::Stopped);
        }
        let now = self.steps.get().saturating_add(n);
        self.steps.set(now);
        if now > self.max_steps { Err(KtirFault::TooLong(self.max_steps)) } else { Ok(()) }
    }

    /// Charges the steps of work on `n` elements.
    pub(super) fn take_element_steps(&self, n: u64) -> Result<(), KtirFault> {
        self.take_steps(n / ELEMENTS_PER_STEP)
    }

    /// Refuses an allocation that exceeds the budget.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), KtirFault> {
        let (used, limit) = (self.bytes.get(), self.max_bytes);
        // Refused before anything is allocated, because a failed allocation would end the process.
        if used.saturating_add(bytes) > limit {
            return Err(KtirFault::OutOfMemory { bytes, used, limit });
        }
        Ok(())
    }

    /// Charges bytes until the end of the run.
    pub(super) fn take_bytes(&self, bytes: u64) -> Result<(), KtirFault> {
        self.check_room(bytes)?;
        self.bytes.set(self.bytes.get() + bytes);
        Ok(())
    }

    /// Gives bytes back that were charged.
    pub(super) fn return_bytes(&self, bytes: u64) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// The steps that were charged.
    pub(super) fn steps_taken(&self) -> u64 {
        self.steps.get()
    }

    /// Charges bytes until the returned value is dropped.
    pub(super) fn hold_bytes(
        self: &Rc<KtirRunBudget>,
        bytes: u64,
    ) -> Result<KtirHeldBytes, KtirFault> {
        self.take_bytes(bytes)?;
        Ok(KtirHeldBytes { meter: self.clone(), bytes })
    }
}

/// The bytes of host memory that `n` elements take while a kernel runs.
pub(super) fn host_bytes(elem: KtirElem, n: u64) -> u64 {
    // The interpreter's own representation, float32 or 64-bit integers, whatever the element type
    // is.
    n.saturating_mul(if elem.is_float() { 4 } else { 8 })
}

/// The number of elements of a type; 1 for a type that is not a tile.
pub(super) fn count_elements(ty: &KtirType) -> u64 {
    match ty {
        KtirType::Tensor(shape, _) => shape
            .iter()
            .fold(1, |n: u64, d| n.saturating_mul(u64::try_from(*d).unwrap_or(u64::MAX))),
        _ => 1,
    }
}

/// The steps of an operation by itself: one, and those of the elements of its operands and results.
/// Its loops charge their own steps.
pub(super) fn op_steps(f: &KtirFunction, op: &KtirOp) -> u64 {
    let values = op.operands.iter().chain(&op.results);
    let touched = values.fold(0, |n: u64, v| n.saturating_add(count_elements(f.value_type(*v))));
    // At least one step, so that a loop without any tile comes to an end too.
    1 + touched / ELEMENTS_PER_STEP
}
