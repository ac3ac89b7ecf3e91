//! What an operation would do, on tensors without memory.

use crate::card::Card;
use crate::division::{Division, Span};
use crate::eager;
use crate::error::{DeviceError, Result};
use crate::kernels::{Lay, Meta, moves};
use crate::laid::Laid;
use crate::ops::Op;
use crate::sticks::Sticks;
use crate::tensor::Tensor;
use zellige_machine::account::{CoreWork, Work, WorkKind};

impl Op {
    /// How operands must lie, and how results will, for operands that lie as given.
    ///
    /// # Errors
    /// Operands that the operation does not take.
    pub fn lay(&self, inputs: &[Laid]) -> Result<(Vec<Meta>, Lay)> {
        let metas: Vec<Meta> = inputs.iter().map(Meta::of).collect();
        let results = self.infer(&metas)?;
        let lay = self.kernel().lay(inputs, &results)?;
        Ok((results, lay))
    }

    /// The iteration space on tensors that lie as [`Op::lay`] asked; none of an operation that only
    /// moves elements, which the cores share evenly.
    ///
    /// # Errors
    /// Tensors that kernels cannot read as they lie.
    pub fn space(&self, inputs: &[Laid], outputs: &[Laid]) -> Result<Option<Vec<Span>>> {
        if self.kernel().moves(inputs, outputs)?.is_some() {
            return Ok(None);
        }
        Ok(Some(self.kernel().space(&forms(inputs)?, &forms(outputs)?)))
    }

    /// What every core would do with this division.
    ///
    /// **Law**: equal to the work that [`Op::launch`] returns.
    ///
    /// # Errors
    /// As [`Op::launch`], but for what depends on the elements.
    pub fn work(
        &self,
        inputs: &[Laid],
        outputs: &[Laid],
        division: Option<&Division>,
        cores: usize,
    ) -> Result<(Division, Work)> {
        // As long as some dozens of plain steps.
        zellige_guard::steps(64);
        if let Some(list) = self.kernel().moves(inputs, outputs)? {
            let one = Division::one(outputs.first().map_or(0, |t| t.size().len()));
            return Ok((one, moves::planned(self.name(), &list, cores)?));
        }
        let (ins, outs) = (forms(inputs)?, forms(outputs)?);
        let division = settled(self, &ins, &outs, division, cores)?;
        if outs.iter().all(|o| o.numel() == 0) {
            return Ok((division, Work::new(self.name(), WorkKind::Other, Vec::new())));
        }
        let task = self.kernel().task(&ins, &outs, &division)?;
        let slices: Vec<CoreWork> = (0..division.cores()).map(|core| task.work(core)).collect();
        if let Some(core) = slices.iter().position(|work| !work.is_countable()) {
            return Err(DeviceError::BadOperand {
                op: self.name().into(),
                operand: None,
                reason: format!("the work of core {core} is more than 64 bits can count"),
            });
        }
        Ok((division, Work::new(self.name(), task.kind(), slices)))
    }

    /// Runs on tensors that lie as [`Op::lay`] asked, into tensors that lie as it said, with a
    /// division or the default one. Nothing is entered into the accounts.
    ///
    /// # Errors
    /// Tensors of other cards or that do not lie so, divisions that do not fit, indices out of range.
    pub fn launch(
        &self,
        card: &Card,
        inputs: &[Tensor],
        outputs: &[Tensor],
        division: Option<&Division>,
        cores: usize,
    ) -> Result<(Division, Work)> {
        let made = self.settle(card, inputs, cores)?;
        let same = made.len() == outputs.len()
            && made.iter().zip(outputs).all(|(m, t)| *m == Meta::of(t) && t.card() == card);
        if !same {
            return Err(DeviceError::BadOperand {
                op: self.name().into(),
                operand: None,
                reason: "results of other sizes, dtypes or cards".into(),
            });
        }
        eager::launch(self, inputs, outputs, division, cores)
    }
}

fn forms(list: &[Laid]) -> Result<Vec<Sticks>> {
    list.iter().map(Laid::sticks).collect()
}

/// The division given, checked against the space, or the default one.
pub(crate) fn settled(
    op: &Op,
    inputs: &[Sticks],
    outputs: &[Sticks],
    division: Option<&Division>,
    cores: usize,
) -> Result<Division> {
    let space = op.kernel().space(inputs, outputs);
    match division {
        Some(d) => Division::new(d.splits(), &space, cores),
        None => Ok(Division::distribute(&space, cores, false)),
    }
}
