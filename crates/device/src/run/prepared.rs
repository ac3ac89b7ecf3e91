//! A launch that is prepared once and runs many times.
//!
//! What a launch settles before it computes (division, the task of every core, threads, plans of copies) follows from
//! the layouts of its tensors and not from their elements, and takes longer than a small operation itself.

use crate::card::Card;
use crate::error::Result;
use crate::kernels::moves::{ElementMove, PieceOwner, TensorPiece};
use crate::kernels::{self, KernelTask, TensorPointers};
use crate::memory::{BlockGuards, MemoryBlock};
use crate::tensor::Tensor;
use crate::tensor::planned_move::{MoveSource, PlannedMove};
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use std::fmt;
use std::slice;
use std::sync::Arc;

/// An operation on tensors of known layouts, ready to run.
pub struct PreparedLaunch {
    inputs: Vec<Arc<TensorLayout>>,
    outputs: Vec<Arc<TensorLayout>>,
    /// One bit for every operand that is in the block of a result.
    shared: u64,
    body: LaunchBody,
}

/// What a launch does.
enum LaunchBody {
    /// A task, the slices of whose cores are run by so many threads of the host.
    Task { task: Box<dyn KernelTask>, cores: usize, threads: usize },
    /// Copies and fills, one after the other.
    Moves { moves: Vec<PreparedMove>, threads: usize },
}

/// A planned move between blocks of the operands and results.
struct PreparedMove {
    /// The operand or result that is read; none where a number is written.
    from: Option<PieceOwner>,
    to: usize,
    planned: PlannedMove,
}

impl fmt::Debug for PreparedLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedLaunch")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

fn shared_layouts(tensors: &[Tensor]) -> Vec<Arc<TensorLayout>> {
    tensors.iter().map(|t| t.shared_layout().clone()).collect()
}

impl PreparedLaunch {
    /// A task on these tensors; none where the task holds something of its run.
    pub(super) fn from_task(
        task: Box<dyn KernelTask>,
        cores: usize,
        threads: usize,
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Option<PreparedLaunch> {
        task.is_stateless().then(|| PreparedLaunch {
            inputs: shared_layouts(inputs),
            outputs: shared_layouts(outputs),
            shared: shared_operands(inputs, outputs),
            body: LaunchBody::Task { task, cores, threads },
        })
    }

    /// The moves of an operation on these tensors. None where an operand is in the block of a result (a copy inside
    /// one block goes through a buffer), where a move needs scratch memory, or where it cannot be planned without the
    /// elements.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(super) fn from_moves(
        moves: &[ElementMove],
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Result<Option<PreparedLaunch>> {
        let shared = shared_operands(inputs, outputs);
        // A copy inside of one block would need a buffer, whose size depends on how the views overlap.
        let Some(first) = outputs.first().filter(|_| shared == 0) else { return Ok(None) };
        let mut prepared = Vec::with_capacity(moves.len());
        for step in moves {
            let (from, to, planned) = match step {
                ElementMove::Copy { from, to } => {
                    (Some(from.of), to.of, PlannedMove::plan_copy(&from.laid, &to.laid)?)
                }
                ElementMove::Fill { to, value } => {
                    (None, to.of, PlannedMove::plan_fill(&to.laid, *value)?)
                }
            };
            let (Some(planned), PieceOwner::Output(to)) = (planned, to) else { return Ok(None) };
            // A result that is also read would be locked for both.
            if !matches!(from, None | Some(PieceOwner::Input(_))) {
                return Ok(None);
            }
            prepared.push(PreparedMove { from, to, planned });
        }
        Ok(Some(PreparedLaunch {
            inputs: shared_layouts(inputs),
            outputs: shared_layouts(outputs),
            shared,
            body: LaunchBody::Moves { moves: prepared, threads: first.card().host_threads() },
        }))
    }

    /// The copy of a tensor into another one of the same size.
    ///
    /// # Errors
    /// As [`PreparedLaunch::from_moves`].
    pub(super) fn from_copy(from: &Tensor, to: &Tensor) -> Result<Option<PreparedLaunch>> {
        PreparedLaunch::from_moves(
            &[copy_move(from, to)],
            slice::from_ref(from),
            slice::from_ref(to),
        )
    }

    /// The same as [`Tensor::copy_and_pad`]: the rows of the target past its end are set to a number. None where it
    /// cannot be planned without the elements.
    ///
    /// # Errors
    /// What the planner refuses.
    pub fn from_padded_copy(
        from: &Tensor,
        to: &Tensor,
        value: f64,
    ) -> Result<Option<PreparedLaunch>> {
        let mut moves = vec![copy_move(from, to)];
        if let Some(rows) = to.tensor_layout().rows_past_the_end() {
            let to = TensorPiece { of: PieceOwner::Output(0), laid: rows };
            moves.push(ElementMove::Fill { to, value: value.into() });
        }
        PreparedLaunch::from_moves(&moves, slice::from_ref(from), slice::from_ref(to))
    }

    /// The layouts of the results.
    pub(super) fn output_layouts(&self) -> &[Arc<TensorLayout>] {
        &self.outputs
    }

    /// Runs on these tensors, where they have the layouts that it was prepared for and share memory as then; `false`
    /// where they do not, and then nothing was done. Nothing is entered into the accounts.
    ///
    /// # Errors
    /// Indices out of range.
    pub fn run_launch(&self, card: &Card, inputs: &[Tensor], outputs: &[Tensor]) -> Result<bool> {
        let fits = have_layouts(&self.inputs, inputs, card)
            && have_layouts(&self.outputs, outputs, card)
            && self.shared == shared_operands(inputs, outputs);
        if fits {
            // SAFETY: the tensors have the layouts that it was prepared for, and share blocks as then.
            unsafe { self.run_unchecked(inputs, outputs)? };
        }
        Ok(fits)
    }

    /// As [`PreparedLaunch::run_launch`], on tensors that are known to fit.
    ///
    /// # Safety
    /// The tensors have the layouts that it was prepared for, and share blocks as then.
    ///
    /// # Errors
    /// Indices out of range.
    pub(super) unsafe fn run_unchecked(&self, inputs: &[Tensor], outputs: &[Tensor]) -> Result<()> {
        match &self.body {
            // SAFETY: by the contract of this function.
            LaunchBody::Task { task, cores, threads } => unsafe {
                run_task(task.as_ref(), *cores, *threads, inputs, outputs)
            },
            LaunchBody::Moves { moves, threads } => run_moves(moves, *threads, inputs, outputs),
        }
    }
}

fn copy_move(from: &Tensor, to: &Tensor) -> ElementMove {
    let piece = |of, t: &Tensor| TensorPiece { of, laid: t.tensor_layout().clone() };
    ElementMove::Copy {
        from: piece(PieceOwner::Input(0), from),
        to: piece(PieceOwner::Output(0), to),
    }
}

fn run_moves(
    moves: &[PreparedMove],
    threads: usize,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<()> {
    let reads: SmallVec<[&MemoryBlock; 4]> = inputs.iter().map(Tensor::block).collect();
    let writes: SmallVec<[&MemoryBlock; 2]> = outputs.iter().map(Tensor::block).collect();
    let guards = BlockGuards::lock_blocks(&reads, &writes);
    for step in moves {
        let to = writes[step.to];
        // SAFETY: the block is locked for writing until the end of this function and no operand is in it, so this is
        // the only reference to its bytes.
        let memory =
            unsafe { slice::from_raw_parts_mut(guards.write_pointer(to), to.requested_bytes()) };
        let source = match step.from {
            Some(PieceOwner::Input(i)) => MoveSource::Bytes(guards.locked_bytes(reads[i])),
            _ => MoveSource::Number,
        };
        step.planned.run_move(source, memory, threads)?;
    }
    Ok(())
}

/// Runs a task on tensors.
///
/// # Safety
/// The task was made for tensors of these layouts; results are blocks of their own, or share those of operands as they
/// did then.
pub(super) unsafe fn run_task(
    task: &dyn KernelTask,
    cores: usize,
    threads: usize,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<()> {
    let reads: SmallVec<[_; 4]> = inputs.iter().map(Tensor::block).collect();
    let writes: SmallVec<[_; 2]> = outputs.iter().map(Tensor::block).collect();
    let guards = BlockGuards::lock_blocks(&reads, &writes);
    let memory = TensorPointers {
        inputs: reads.iter().map(|b| guards.read_pointer(b)).collect(),
        outputs: writes.iter().map(|b| guards.write_pointer(b)).collect(),
    };
    // SAFETY: the blocks are locked until the end of this function, and the task is for these tensors.
    unsafe { task.check_operands(&memory)? };
    // SAFETY: as above, and the caller promised the same of blocks that are shared.
    unsafe { kernels::execute_task(task, cores, &memory, threads) };
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
        let alike = || **kept == **now && kept.stick_layout().host() == now.stick_layout().host();
        // The same pointer first: clones and repeated results share their layout, and comparing it takes longer.
        now.card() == card && (Arc::ptr_eq(kept, now.shared_layout()) || alike())
    };
    kept.len() == now.len() && kept.iter().zip(now).all(|(k, t)| same(k, t))
}
