//! Which part of every tensor a core has: the loops that dimensions of tensors follow.

use crate::division::{Division, Span};
use crate::error::{DeviceError, Result};
use crate::kernels::{Follows, Meta};
use crate::laid::Laid;
use crate::ops::Op;
use crate::sticks::{Dims, Sticks};
use std::ops::Range;
use zellige_machine::Charges;

/// The loops of an operation, and which of them each dimension of each tensor follows.
///
/// **Law**: where no reduction is split, core `c` of a division writes exactly the elements of its
/// [regions](Loops::region) of the results, and what it writes depends on no element of an operand outside
/// its region of that operand. With a split reduction, the cores of a group have one region of the
/// results together, and each of them reads its region of the operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loops {
    spans: Vec<Span>,
    tensors: Vec<Follows>,
    sizes: Vec<Dims<usize>>,
}

impl Loops {
    /// The iteration space, dimensions of the results first.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many tensors there are: operands, then results.
    pub fn tensors(&self) -> usize {
        self.tensors.len()
    }

    /// Per dimension of a tensor the number of the loop that it follows; none for one that every core
    /// has whole. The dimension is as long as its loop.
    pub fn follows(&self, tensor: usize) -> &[Option<usize>] {
        &self.tensors[tensor]
    }

    /// The part of a tensor that a core has, as a range of every dimension.
    pub fn region(&self, tensor: usize, core: usize, division: &Division) -> Vec<Range<usize>> {
        let slice = division.slice(core, &self.spans);
        let dims = self.tensors[tensor].iter().zip(&self.sizes[tensor]);
        dims.map(|(follows, size)| follows.map_or(0..*size, |l| slice[l].clone())).collect()
    }
}

impl Op {
    /// The loops of the operation on tensors that lie so; none for an operation whose slices are no
    /// boxes of its tensors, and for one that only moves elements.
    ///
    /// # Errors
    /// Operands that it does not take, results of other sizes than it gives, tensors that kernels cannot
    /// read as they lie.
    pub fn loops(&self, inputs: &[Laid], outputs: &[Laid]) -> Result<Option<Loops>> {
        self.check_tensors(inputs, outputs)?;
        let forms = |list: &[Laid]| list.iter().map(Laid::sticks).collect::<Result<Vec<Sticks>>>();
        let (ins, outs) = (forms(inputs)?, forms(outputs)?);
        let Some(tensors) = self.kernel().loops(&ins, &outs) else {
            return Ok(None);
        };
        let sizes = ins.iter().chain(&outs).map(|t| t.size.clone()).collect();
        Ok(Some(Loops { spans: self.kernel().space(&ins, &outs), tensors, sizes }))
    }

    /// Refuses tensors that are not those of the operation.
    pub(crate) fn check_tensors(&self, inputs: &[Laid], outputs: &[Laid]) -> Result<()> {
        let given = self.infer(&inputs.iter().map(Meta::of).collect::<Vec<_>>())?;
        let own: Vec<&[i64]> = given.iter().map(|m| m.size.as_slice()).collect();
        let laid: Vec<&[i64]> = outputs.iter().map(Laid::size).collect();
        if own != laid {
            let reason = format!("its results have sizes {own:?}, not {laid:?}");
            return Err(DeviceError::BadOperand { op: self.name().into(), operand: None, reason });
        }
        Ok(())
    }
}

impl Op {
    /// What the operation asks of the units on tensors that lie so; none for one whose work is no plain function
    /// of its slices.
    ///
    /// # Errors
    /// As [`Op::loops`].
    pub fn charges(&self, inputs: &[Laid], outputs: &[Laid]) -> Result<Option<Charges>> {
        self.check_tensors(inputs, outputs)?;
        let forms = |list: &[Laid]| list.iter().map(Laid::sticks).collect::<Result<Vec<Sticks>>>();
        Ok(self.kernel().charges(&forms(inputs)?, &forms(outputs)?))
    }
}
