//! A launch that is prepared once and runs many times.
//!
//! What a launch settles before it computes (division, the task of every core, threads) follows from the layouts of its
//! tensors and not from their elements, and takes longer than a small operation itself.

use crate::card::Card;
use crate::error::Result;
use crate::kernels::{self, Pointers, Task};
use crate::memory::Guards;
use crate::tensor::Tensor;
use crate::tensor::tensor_layout::TensorLayout;
use std::fmt;
use std::sync::Arc;

/// An operation on tensors of known layouts, ready to run.
pub struct PreparedLaunch {
    pub(super) inputs: Vec<Arc<TensorLayout>>,
    pub(super) outputs: Vec<Arc<TensorLayout>>,
    /// One bit for every operand that is in the block of a result.
    pub(super) shared: u64,
    pub(super) task: Box<dyn Task>,
    pub(super) cores: usize,
    pub(super) threads: usize,
}

impl fmt::Debug for PreparedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedLaunch")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .field("cores", &self.cores)
            .finish_non_exhaustive()
    }
}

impl PreparedLaunch {
    /// Runs on these tensors, where they have the layouts that it was prepared for and share memory as then; `false`
    /// where they do not, and then nothing was done. Nothing is entered into the accounts.
    ///
    /// # Errors
    /// Indices out of range.
    pub fn run(&self, card: &Card, inputs: &[Tensor], outputs: &[Tensor]) -> Result<bool> {
        let fits = have_layouts(&self.inputs, inputs, card)
            && have_layouts(&self.outputs, outputs, card)
            && self.shared == shared_operands(inputs, outputs);
        if fits {
            // SAFETY: the tensors have the layouts that the task was made for, and share blocks as then.
            unsafe { run_task(self.task.as_ref(), self.cores, self.threads, inputs, outputs)? };
        }
        Ok(fits)
    }
}

/// Runs a task on tensors.
///
/// # Safety
/// The task was made for tensors of these layouts; results are blocks of their own, or share those of operands as they
/// did then.
pub(super) unsafe fn run_task(
    task: &dyn Task,
    cores: usize,
    threads: usize,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<()> {
    let reads: smallvec::SmallVec<[_; 4]> = inputs.iter().map(Tensor::block).collect();
    let writes: smallvec::SmallVec<[_; 2]> = outputs.iter().map(Tensor::block).collect();
    let guards = Guards::lock(&reads, &writes);
    let memory = Pointers {
        inputs: reads.iter().map(|b| guards.ptr(b)).collect(),
        outputs: writes.iter().map(|b| guards.mut_ptr(b)).collect(),
    };
    // SAFETY: the blocks are locked until the end of this function, and the task is for these tensors.
    unsafe { task.check(&memory)? };
    // SAFETY: as above, and the caller answers for the blocks that are shared.
    unsafe { kernels::execute(task, cores, &memory, threads) };
    Ok(())
}

/// One bit for every operand that is in the block of a result.
pub(super) fn shared_operands(inputs: &[Tensor], outputs: &[Tensor]) -> u64 {
    let at = |t: &Tensor| outputs.iter().any(|o| o.block() == t.block());
    inputs.iter().enumerate().fold(0, |bits, (i, t)| bits | u64::from(at(t)) << i.min(63))
}

/// Whether tensors of this card have these layouts. Layouts are equal by their fields alone, so the sizes that they
/// are bound to are compared beside.
pub(super) fn have_layouts(kept: &[Arc<TensorLayout>], now: &[Tensor], card: &Card) -> bool {
    let same = |kept: &Arc<TensorLayout>, now: &Tensor| {
        let alike = || **kept == **now && kept.layout().host() == now.layout().host();
        now.card() == card && (Arc::ptr_eq(kept, now.shared_laid()) || alike())
    };
    kept.len() == now.len() && kept.iter().zip(now).all(|(k, t)| same(k, t))
}
