//! Operations on tensors of a card.

use crate::card::Card;
use crate::error::{Result, refuse_operand};
use crate::run::compute::{OpOutcome, compute_op, settle_results};
use crate::run::division::WorkDivision;
use crate::run::launch::{LaunchOutcome, launch_kernel};
use crate::run::{in_place, recall};
use crate::stream::StreamId;
use crate::tensor::Tensor;
use zellige_op::TensorOp;

/// Operations on tensors of a card.
pub trait RunOp {
    /// Runs on a card with the default division over its cores, in the default stream.
    ///
    /// # Errors
    /// Operands that the operation does not take, tensors of other cards, no room for the results.
    /// Nothing is changed then.
    fn run_op(&self, card: &Card, inputs: &[Tensor]) -> Result<OpOutcome> {
        self.run_on_cores(card, inputs, card.core_count())
    }

    /// The same on at most `cores` cores.
    ///
    /// # Errors
    /// As [`RunOp::run_op`], and a number of cores that the card does not have.
    fn run_on_cores(&self, card: &Card, inputs: &[Tensor], cores: usize) -> Result<OpOutcome> {
        self.run_in_stream(card, StreamId::DEFAULT, inputs, cores)
    }

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
    /// layouts, division and tasks are kept for the next run of this operation on operands of the same layouts.
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

    /// Runs on operands and into results in the layouts that [`PlanOp::plan_layouts`](super::plan::PlanOp::plan_layouts)
    /// gave, with a division or the default one. Nothing is entered into the accounts.
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

impl RunOp for TensorOp {
    fn compute_results(&self, card: &Card, inputs: &[Tensor], cores: usize) -> Result<Vec<Tensor>> {
        compute_op(self, card, inputs, cores).map(|computed| computed.outputs)
    }

    fn run_in_stream(
        &self,
        card: &Card,
        stream: StreamId,
        inputs: &[Tensor],
        cores: usize,
    ) -> Result<OpOutcome> {
        compute_op(self, card, inputs, cores)?.enter_accounts(card, stream)
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
        zellige_calls::record_call!();
        // The caller chose the results, so that they are compared with those that the operation gives: a kernel writes
        // by the size that it was bound to and does not look at the tensor again.
        let made = settle_results(self, card, inputs, cores)?;
        let same = made.len() == outputs.len()
            && made.iter().zip(outputs).all(|(m, t)| *m == t.tensor_type() && t.card() == card);
        if !same {
            return Err(refuse_operand(
                self.name(),
                None,
                "results of other sizes, dtypes or cards",
            ));
        }
        launch_kernel(self, inputs, outputs, division, cores)
    }

    fn runs_on_host(&self, card: &Card) -> bool {
        card.profile().runs_on_host(self.layer())
    }
}
