//! Kernels: the maths of every operation on stick layouts as they lie, cut into core slices.
//!
//! **Arithmetic.** Operands widen to float32, an operation computes in float32, its result rounds once
//! to the stored format. Integers compute exactly in 32 bits and wrap. Padding is never an operand:
//! what a kernel reads past the valid lanes of a last stick cannot reach a valid result.
//!
//! **Determinism.** A slice's result depends on the tensors and the division alone. Host threads take
//! slices in any order; where slices meet (a split reduction), they meet in the order of core numbers.
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

use self::moves::Move;
use self::share::Share;
use crate::error::Result;
use crate::run::division::{Division, Span};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use zellige_host::crew;
use zellige_machine::OperationCharges;
use zellige_machine::account::{CoreWork, WorkKind};
use zellige_machine::{STREAMED_TENSOR_BYTES, SumGroup};
use zellige_op::{Dims, Form, Op, TensorType};
use zellige_stick::StickLayout;

/// How an operand has to lie for a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutNeed {
    /// As it is, as long as its form is regular.
    AsIs,
    /// Its lanes along this dimension.
    Along(usize),
    /// One element in each stick.
    Sparse,
    /// Exactly so.
    Layout(StickLayout),
    /// As it is, regular or not: the operation only moves it.
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
pub(crate) type Follows = Dims<Option<usize>>;

/// One operation with its attributes.
pub(crate) trait Kernel: fmt::Debug + Send + Sync {
    /// How operands must lie, and how results will, for operands that lie as given.
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts>;

    /// The iteration space, output dimensions first.
    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span>;

    /// The work on tensors that lie as [`Kernel::lay`] asked.
    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>>;

    /// Which loop of [`Kernel::space`] each dimension of each tensor follows, operands first; none
    /// for a dimension that every core needs whole, and none at all where slices of the loops are no
    /// boxes of the tensors. The law is that of [`Loops`](crate::Loops).
    fn loops(&self, _inputs: &[Sticks], _outputs: &[Sticks]) -> Option<Vec<Follows>> {
        None
    }

    /// What the units do for slices of the loops; none where that is no sum of products of their lengths.
    fn charges(&self, _inputs: &[Sticks], _outputs: &[Sticks]) -> Option<OperationCharges> {
        None
    }

    /// How operands must lie for results that lie as given; none where results always lie as
    /// [`Kernel::lay`] says.
    ///
    /// Who answers computes an element of a result from the elements of the operands at the same
    /// place alone, and reads them before it writes: a result may take the place of an operand.
    fn suit(&self, _inputs: &[TensorLayout], _outputs: &[Sticks]) -> Option<Vec<LayoutNeed>> {
        None
    }

    /// The copies that make the results, of an operation that only moves elements. They are done one
    /// after the other instead of a task.
    fn moves(
        &self,
        _inputs: &[TensorLayout],
        _outputs: &[TensorLayout],
    ) -> Result<Option<Vec<Move>>> {
        Ok(None)
    }
}

/// The kernel of an operation.
pub(crate) fn kernel(op: &Op) -> &dyn Kernel {
    match op.form() {
        Form::Pointwise(op) => op,
        Form::Cast(op) => op,
        Form::Factory(op) => op,
        Form::Masked(op) => op,
        Form::Product(op) => op,
        Form::Attention(op) => op,
        Form::Convolution(op) => op,
        Form::Pool(op) => op,
        Form::IndexRead(op) => op,
        Form::IndexWrite(op) => op,
        Form::Reduce(op) => op,
        Form::Softmax(op) => op,
        Form::Norm(op) => op,
        Form::Scan(op) => op,
        Form::Pick(op) => op,
        Form::Quantile(op) => op,
        Form::Concat(op) => op,
        Form::SliceScatter(op) => op,
        Form::Pad(op) => op,
        Form::Flip(op) => op,
        Form::Roll(op) => op,
        Form::Repeat(op) => op,
        Form::Interleave(op) => op,
        Form::Diag(op) => op,
    }
}

/// A kernel bound to its tensors.
pub(crate) trait Task: Send + Sync {
    /// Phases: all slices of one are done before the next begins.
    fn phases(&self) -> usize {
        1
    }

    /// Whether nothing of one run is left in the task for the next, so that it may run again, also in
    /// several threads at once.
    fn keeps_nothing(&self) -> bool {
        true
    }

    /// What the operation is, for the accounts.
    fn kind(&self) -> WorkKind;

    /// What one core does.
    fn work(&self, core: usize) -> CoreWork;

    /// Looks at the operands before anything is written: indices out of range are found here.
    ///
    /// # Safety
    /// The pointers are those of the tensors that the task was made for, readable.
    unsafe fn check(&self, _memory: &Pointers) -> Result<()> {
        Ok(())
    }

    /// Runs the slice of one core.
    ///
    /// # Safety
    /// The pointers are those of the tensors that the task was made for, readable and writable.
    /// No two calls run the same slice at the same time, and phases do not overlap.
    unsafe fn run(&self, phase: usize, core: usize, memory: &Pointers);

    /// Runs the slices of all cores on the calling thread.
    ///
    /// **Law**: the results are those of running every slice on its own.
    ///
    /// # Safety
    /// As [`Task::run`], for the slices of all so many cores.
    unsafe fn run_all(&self, cores: usize, memory: &Pointers) {
        for phase in 0..self.phases() {
            for core in 0..cores {
                // SAFETY: by the contract of this function.
                unsafe { self.run(phase, core, memory) };
            }
        }
    }
}

/// The memory side of a kernel that streams these tensors through the scratchpad once.
pub(crate) fn streamed(reads: &[Sticks], writes: &[Sticks]) -> CoreWork {
    streamed_with(reads, &[], writes)
}

/// The same with the cores that share each of the reads; those past the list are a core's own.
pub(crate) fn streamed_with(reads: &[Sticks], shares: &[Share], writes: &[Sticks]) -> CoreWork {
    let mut work = CoreWork::default();
    for (i, t) in reads.iter().chain(writes).enumerate() {
        let (bursts, padding) = t.traffic();
        if i < reads.len() {
            shares.get(i).copied().unwrap_or(Share::ALONE).read(&mut work, &bursts, 1);
        } else {
            work.writes.merge_traffic(&bursts);
        }
        work.padding_bytes += padding;
        work.lx_bytes += bursts.total_bytes();
        work.lx_peak += bursts.total_bytes().min(STREAMED_TENSOR_BYTES);
    }
    work
}

/// Adds what the units of a core do for its slices of the loops.
pub(crate) fn charge(
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
pub(crate) struct Pointers {
    pub(crate) inputs: SmallVec<[*const u8; 4]>,
    pub(crate) outputs: SmallVec<[*mut u8; 2]>,
}

// SAFETY: the pointers are to blocks that are locked for the whole operation; slices of different
// cores write disjoint elements.
unsafe impl Send for Pointers {}
// SAFETY: as above.
unsafe impl Sync for Pointers {}

/// Runs every slice of a task with up to `threads` host threads.
///
/// # Safety
/// As [`Task::run`].
pub(crate) unsafe fn execute(task: &dyn Task, cores: usize, memory: &Pointers, threads: usize) {
    if threads <= 1 {
        // SAFETY: by the contract of this function.
        unsafe { task.run_all(cores, memory) };
        return;
    }
    for phase in 0..task.phases() {
        // SAFETY: by the contract of this function; every core is taken once.
        crew::share_pieces(threads, cores, &|core| unsafe { task.run(phase, core, memory) });
    }
}
