//! Kernels: the arithmetic of every operation on tensors in stick layouts, cut into core slices.
//!
//! **Arithmetic.** Operands widen to float32, an operation computes in float32, its result rounds once
//! to the stored format. Integers compute exactly in 32 bits and wrap. Padding is never an operand:
//! what a kernel reads past the valid lanes of a last stick cannot reach a valid result.
//!
//! **Determinism.** A slice's result depends on the tensors and the division alone. Host threads take
//! slices in any order; the parts of a split reduction are joined in the order of core numbers.
//!
//! | file | holds |
//! |---|---|
//! | `io` | elements to numbers and back |
//! | `walk` | an output and its operands, row by row |
//! | `pointwise` | element by element |
//! | `index` | elements looked up by index, and written by index |
//! | `cast` | another dtype |
//! | `counter`, `factory`, `masked` | what depends on the place of an element |
//! | `moves` | operations that only move elements; `concat`, `pad`, `rearrange` their copies |
//! | `share` | cores that have the same part of an operand |
//! | `dims` | the dimensions that an operation works along |
//! | `reduce` | reductions over dimensions |
//! | `rows` | whole lines: softmax and norms; `scan` and `sort` are such too |
//! | `matmul` | matrix products |
//! | `attention` | scaled dot product attention |
//! | `conv` | convolutions and pooling |

pub(crate) mod attention;
pub(crate) mod cast;
pub(crate) mod concat;
pub(crate) mod conv;
pub(crate) mod counter;
pub(crate) mod dims;
pub(crate) mod factory;
pub(crate) mod index;
pub(crate) mod io;
pub(crate) mod masked;
pub(crate) mod matmul;
pub(crate) mod moves;
pub(crate) mod pad;
pub(crate) mod pointwise;
pub(crate) mod rearrange;
pub(crate) mod reduce;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod share;
pub(crate) mod sort;
mod table;
pub(crate) mod walk;

use self::moves::ElementMove;
use self::share::CoreShare;
use crate::error::Result;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use zellige_host::crew;
use zellige_machine::OperationCharges;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_machine::{STREAMED_TENSOR_BYTES, SumGroup};
use zellige_op::{OpForm, PerDimension, TensorOp, TensorType};
use zellige_stick::StickLayout;

/// The layout that a kernel needs of an operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutNeed {
    /// The one it has, as long as its form is regular.
    AsIs,
    /// Its lanes along this dimension.
    Along(usize),
    /// One element in each stick.
    Sparse,
    /// This one.
    Layout(StickLayout),
    /// The one it has, regular or not: the operation only moves it.
    Any,
}

/// The layouts with which an operation runs.
#[derive(Debug, Clone)]
pub struct KernelLayouts {
    /// For every operand.
    pub inputs: Vec<LayoutNeed>,
    /// Of every result.
    pub outputs: Vec<StickLayout>,
}

/// Per dimension of a tensor, the loop that it follows.
pub(crate) type FollowedLoops = PerDimension<Option<usize>>;

/// One operation with its attributes.
pub(crate) trait OpKernel: fmt::Debug + Send + Sync {
    /// The layouts that operands need, and those of the results, for operands in these layouts.
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts>;

    /// The iteration space, output dimensions first.
    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan>;

    /// The work on tensors in the layouts that [`OpKernel::plan_layouts`] gave.
    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>>;

    /// Which loop of [`OpKernel::iteration_space`] each dimension of each tensor follows, operands first; none
    /// for a dimension that every core needs whole, and none at all where slices of the loops are no
    /// boxes of the tensors. The law is that of [`OpLoops`](crate::OpLoops).
    fn followed_loops(
        &self,
        _inputs: &[StickForm],
        _outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        None
    }

    /// What the units do for slices of the loops; none where that is no sum of products of their lengths.
    fn unit_charges(
        &self,
        _inputs: &[StickForm],
        _outputs: &[StickForm],
    ) -> Option<OperationCharges> {
        None
    }

    /// The layouts that operands need for results in these forms; none where results always have the layouts that
    /// [`OpKernel::plan_layouts`] gives.
    ///
    /// An implementation promises to compute each element of a result from the elements of the operands at the same
    /// coordinates alone, and to read them before it writes: a result may then have the memory of an operand.
    fn operand_needs(
        &self,
        _inputs: &[TensorLayout],
        _outputs: &[StickForm],
    ) -> Option<Vec<LayoutNeed>> {
        None
    }

    /// The copies that make the results, of an operation that only moves elements. They are done one
    /// after the other instead of a task.
    fn plan_moves(
        &self,
        _inputs: &[TensorLayout],
        _outputs: &[TensorLayout],
    ) -> Result<Option<Vec<ElementMove>>> {
        Ok(None)
    }
}

/// The kernel of an operation.
pub(crate) fn find_kernel(op: &TensorOp) -> &dyn OpKernel {
    match op.form() {
        OpForm::Pointwise(op) => op,
        OpForm::Cast(op) => op,
        OpForm::Factory(op) => op,
        OpForm::Masked(op) => op,
        OpForm::Product(op) => op,
        OpForm::Attention(op) => op,
        OpForm::Convolution(op) => op,
        OpForm::Pool(op) => op,
        OpForm::IndexRead(op) => op,
        OpForm::IndexWrite(op) => op,
        OpForm::Reduce(op) => op,
        OpForm::Softmax(op) => op,
        OpForm::Norm(op) => op,
        OpForm::Scan(op) => op,
        OpForm::Pick(op) => op,
        OpForm::Quantile(op) => op,
        OpForm::Concat(op) => op,
        OpForm::SliceScatter(op) => op,
        OpForm::Pad(op) => op,
        OpForm::Flip(op) => op,
        OpForm::Roll(op) => op,
        OpForm::Repeat(op) => op,
        OpForm::Interleave(op) => op,
        OpForm::Diag(op) => op,
    }
}

/// A kernel bound to its tensors.
pub(crate) trait KernelTask: Send + Sync {
    /// Phases: all slices of one are done before the next begins.
    fn phase_count(&self) -> usize {
        1
    }

    /// Whether nothing of one run is left in the task for the next, so that it may run again, also in
    /// several threads at once.
    fn is_stateless(&self) -> bool {
        true
    }

    /// What the operation is, for the accounts.
    fn work_kind(&self) -> WorkKind;

    /// What one core does.
    fn core_work(&self, core: usize) -> CoreWork;

    /// Checks the operands before anything is written: indices out of range are found here.
    ///
    /// # Safety
    /// The pointers are those of the tensors that the task was made for, readable.
    unsafe fn check_operands(&self, _memory: &TensorPointers) -> Result<()> {
        Ok(())
    }

    /// Runs the slice of one core.
    ///
    /// # Safety
    /// The pointers are those of the tensors that the task was made for, readable and writable.
    /// No two calls run the same slice at the same time, and phases do not overlap.
    unsafe fn run_slice(&self, phase: usize, core: usize, memory: &TensorPointers);

    /// Runs the slices of all cores on the calling thread.
    ///
    /// **Law**: the results are those of running every slice on its own.
    ///
    /// # Safety
    /// As [`KernelTask::run_slice`], for the slices of all so many cores.
    unsafe fn run_slices(&self, cores: usize, memory: &TensorPointers) {
        for phase in 0..self.phase_count() {
            for core in 0..cores {
                // SAFETY: by the contract of this function.
                unsafe { self.run_slice(phase, core, memory) };
            }
        }
    }
}

/// The memory side of a kernel that streams these tensors through the scratchpad once.
pub(crate) fn charge_streams(reads: &[StickForm], writes: &[StickForm]) -> CoreWork {
    charge_shared_streams(reads, &[], writes)
}

/// The same with the cores that share each of the reads; those past the list are a core's own.
pub(crate) fn charge_shared_streams(
    reads: &[StickForm],
    shares: &[CoreShare],
    writes: &[StickForm],
) -> CoreWork {
    let mut work = CoreWork::default();
    for (i, t) in reads.iter().chain(writes).enumerate() {
        let (bursts, padding) = t.stick_traffic();
        if i < reads.len() {
            shares.get(i).copied().unwrap_or(CoreShare::ALONE).charge_reads(&mut work, &bursts, 1);
        } else {
            work.writes.merge_traffic(&bursts);
        }
        work.padding_bytes += padding;
        work.lx_bytes += bursts.total_bytes();
        // A streamed tensor needs two buffers of a scratchpad and not more, however large it is.
        work.lx_peak += bursts.total_bytes().min(STREAMED_TENSOR_BYTES);
    }
    work
}

/// Adds what the units of a core do for its slices of the loops.
pub(crate) fn charge_units(
    work: &mut CoreWork,
    charges: &OperationCharges,
    ranges: &[Range<usize>],
    group: SumGroup,
) {
    let units = charges.core_unit_work(|l| ranges[l].len() as u64, group);
    work.macs += units.macs;
    work.macs_valid += units.macs_valid;
    work.sfu += units.sfu;
    work.sfu_transcendental += units.sfu_transcendental;
    work.ring.extend(units.ring);
}

/// The blocks of a kernel's tensors, in order.
#[derive(Debug, Clone)]
pub(crate) struct TensorPointers {
    pub(crate) inputs: SmallVec<[*const u8; 4]>,
    pub(crate) outputs: SmallVec<[*mut u8; 2]>,
}

// SAFETY: the pointers are to blocks that are locked for the whole operation; slices of different
// cores write disjoint elements.
unsafe impl Send for TensorPointers {}
// SAFETY: as above.
unsafe impl Sync for TensorPointers {}

/// Runs every slice of a task with up to `threads` host threads.
///
/// # Safety
/// As [`KernelTask::run_slice`].
pub(crate) unsafe fn execute_task(
    task: &dyn KernelTask,
    cores: usize,
    memory: &TensorPointers,
    threads: usize,
) {
    // All slices in one call, which a task may run faster together than one by one.
    if threads <= 1 {
        // SAFETY: by the contract of this function.
        unsafe { task.run_slices(cores, memory) };
        return;
    }
    // `share_pieces` returns when all pieces are done, which is the barrier that the next phase needs.
    for phase in 0..task.phase_count() {
        // SAFETY: by the contract of this function; every core is taken once.
        crew::share_pieces(threads, cores, &|core| unsafe { task.run_slice(phase, core, memory) });
    }
}
