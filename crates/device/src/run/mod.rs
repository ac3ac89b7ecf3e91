//! How operations run on a card, and how they would.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | what an operation would do, on tensors without memory |
//! | `loops` | which loop each dimension of each tensor follows, and what the units do for them |
//! | `division` | the slices of the cores |
//! | `eager` | one operation at a time |
//! | `in_place` | results written into tensors that exist |
//! | `prepared` | a launch that runs many times |
//! | `recording` | the launches of one operation, to be repeated |
//! | `recall` | operations that come again |
//! | `host_fallback` | what it costs to let the host do an operation |

pub(crate) mod division;
pub(crate) mod eager;
mod host_fallback;
mod in_place;
pub(crate) mod loops;
mod plan;
pub(crate) mod prepared;
pub(crate) mod recall;
mod recording;

use self::division::{LoopSpan, WorkDivision};
use self::eager::{LaunchOutcome, OpOutcome};
use self::loops::OpLoops;
use crate::card::Card;
use crate::error::Result;
use crate::kernels::KernelLayouts;
use crate::kernels::moves::ElementMove;
use crate::stream::StreamId;
use crate::tensor::Tensor;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_machine::{OperationCharges, OperationWork};
use zellige_op::{TensorOp, TensorType};

/// Operations on tensors of a card.
pub trait RunOp {
    /// Runs on a card with the default division over its cores, in the default stream.
    ///
    /// # Errors
    /// Operands that the operation does not take, tensors of other cards, no room for the results.
    /// Nothing is changed then.
    fn run_op(&self, card: &Card, inputs: &[Tensor]) -> Result<OpOutcome>;

    /// The same on at most `cores` cores.
    ///
    /// # Errors
    /// As [`RunOp::run_op`], and a number of cores that the card does not have.
    fn run_on_cores(&self, card: &Card, inputs: &[Tensor], cores: usize) -> Result<OpOutcome>;

    /// The results of [`RunOp::run_on_cores`] alone. Nothing is entered into the accounts: the caller does that.
    ///
    /// # Errors
    /// As [`RunOp::run_on_cores`].
    fn compute_results(&self, card: &Card, inputs: &[Tensor], cores: usize) -> Result<Vec<Tensor>>;

    /// The same in a stream of the card.
    ///
    /// # Errors
    /// As [`RunOp::run_on_cores`].
    fn run_in_stream(
        &self,
        card: &Card,
        stream: StreamId,
        inputs: &[Tensor],
        cores: usize,
    ) -> Result<OpOutcome>;

    /// Runs with the results in tensors that exist.
    ///
    /// # Errors
    /// As [`RunOp::run_op`], and outputs that are not of the results' size.
    fn run_into(&self, card: &Card, inputs: &[Tensor], outputs: &[Tensor]) -> Result<OpOutcome>;

    /// As [`RunOp::run_in_stream`] on all cores, or [`RunOp::run_into`] where results go into tensors that exist;
    /// what is settled on the way is kept for the next time that this operation meets operands that
    /// lie the same way.
    ///
    /// **Law**: results, receipts and errors are those of the other two.
    ///
    /// # Errors
    /// As the other two.
    fn run_again(
        &self,
        card: &Card,
        stream: StreamId,
        inputs: &[Tensor],
        into: Option<&[Tensor]>,
    ) -> Result<OpOutcome>;

    /// Runs on tensors that lie as [`PlanOp::plan_layouts`] asked, into tensors that lie as it said, with a
    /// division or the default one. Nothing is entered into the accounts.
    ///
    /// # Errors
    /// Tensors of other cards or layouts, divisions that do not fit, indices out of range.
    fn launch_op(
        &self,
        card: &Card,
        inputs: &[Tensor],
        outputs: &[Tensor],
        division: Option<&WorkDivision>,
        cores: usize,
    ) -> Result<LaunchOutcome>;

    /// Whether the host does it under the coverage profile of the card.
    fn runs_on_host(&self, card: &Card) -> bool;
}

/// What operations would do, on tensors without memory.
pub trait PlanOp {
    /// Sizes and dtypes of the results, and the layouts with which the operation runs.
    ///
    /// # Errors
    /// Operands that the operation does not take.
    fn plan_layouts(&self, inputs: &[TensorLayout]) -> Result<(Vec<TensorType>, KernelLayouts)>;

    /// The iteration space; none for an operation that only moves elements.
    ///
    /// # Errors
    /// Tensors that do not lie in whole sticks.
    fn iteration_space(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<LoopSpan>>>;

    /// The division and the work of every core.
    ///
    /// # Errors
    /// As [`RunOp::launch_op`], but for what depends on the elements.
    fn plan_work(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
        division: Option<&WorkDivision>,
        cores: usize,
    ) -> Result<(WorkDivision, OperationWork)>;

    /// Which loop each dimension of each tensor follows; none for an operation whose slices are no boxes of its
    /// tensors.
    ///
    /// # Errors
    /// Tensors that the operation does not take or make, or that do not lie in whole sticks.
    fn tensor_loops(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<OpLoops>>;

    /// What the operation asks of the units, as a function of the slices of its loops; none for one whose work is no
    /// sum of products of their lengths.
    ///
    /// # Errors
    /// As [`PlanOp::tensor_loops`].
    fn unit_charges(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<OperationCharges>>;

    /// The copies and fills that make the results of an operation that only moves elements, in their order; none for
    /// one that computes.
    ///
    /// # Errors
    /// Tensors that the operation does not take or make.
    fn plan_moves(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<ElementMove>>>;

    /// What it takes to let the host do it: operands are downloaded, the host computes, results are
    /// uploaded.
    ///
    /// The bytes cross the link one after the other, as there is nothing to send back before the last
    /// operand has arrived. What the host takes to compute is not charged: no figure describes it.
    ///
    /// # Errors
    /// Dtypes without a host format.
    fn plan_round_trip(
        &self,
        operands: &[TensorLayout],
        results: &[TensorLayout],
    ) -> Result<OperationWork>;
}

impl RunOp for TensorOp {
    fn run_op(&self, card: &Card, inputs: &[Tensor]) -> Result<OpOutcome> {
        self.run_on_cores(card, inputs, card.core_count())
    }

    fn run_on_cores(&self, card: &Card, inputs: &[Tensor], cores: usize) -> Result<OpOutcome> {
        self.run_in_stream(card, StreamId::DEFAULT, inputs, cores)
    }

    fn compute_results(&self, card: &Card, inputs: &[Tensor], cores: usize) -> Result<Vec<Tensor>> {
        eager::compute_op(self, card, inputs, cores).map(|computed| computed.outputs)
    }

    fn run_in_stream(
        &self,
        card: &Card,
        stream: StreamId,
        inputs: &[Tensor],
        cores: usize,
    ) -> Result<OpOutcome> {
        eager::run_in_stream(self, card, stream, inputs, cores)
    }

    fn run_into(&self, card: &Card, inputs: &[Tensor], outputs: &[Tensor]) -> Result<OpOutcome> {
        in_place::run_into(self, card, StreamId::DEFAULT, inputs, outputs)
    }

    fn run_again(
        &self,
        card: &Card,
        stream: StreamId,
        inputs: &[Tensor],
        into: Option<&[Tensor]>,
    ) -> Result<OpOutcome> {
        recall::run_again(self, card, stream, inputs, into)
    }

    fn launch_op(
        &self,
        card: &Card,
        inputs: &[Tensor],
        outputs: &[Tensor],
        division: Option<&WorkDivision>,
        cores: usize,
    ) -> Result<LaunchOutcome> {
        plan::launch_op(self, card, inputs, outputs, division, cores)
    }

    fn runs_on_host(&self, card: &Card) -> bool {
        host_fallback::runs_on_host(self, card)
    }
}

impl PlanOp for TensorOp {
    fn plan_layouts(&self, inputs: &[TensorLayout]) -> Result<(Vec<TensorType>, KernelLayouts)> {
        plan::plan_layouts(self, inputs)
    }

    fn iteration_space(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<LoopSpan>>> {
        plan::plan_space(self, inputs, outputs)
    }

    fn plan_work(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
        division: Option<&WorkDivision>,
        cores: usize,
    ) -> Result<(WorkDivision, OperationWork)> {
        plan::plan_work(self, inputs, outputs, division, cores)
    }

    fn tensor_loops(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<OpLoops>> {
        loops::find_loops(self, inputs, outputs)
    }

    fn unit_charges(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<OperationCharges>> {
        loops::find_charges(self, inputs, outputs)
    }

    fn plan_moves(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<ElementMove>>> {
        loops::check_tensors(self, inputs, outputs)?;
        crate::kernels::find_kernel(self).plan_moves(inputs, outputs)
    }

    fn plan_round_trip(
        &self,
        operands: &[TensorLayout],
        results: &[TensorLayout],
    ) -> Result<OperationWork> {
        host_fallback::plan_round_trip(self, operands, results)
    }
}
