//! Reductions over any set of dimensions.
//!
//! # Order of arithmetic
//! Numbers are float32, or int32 that wraps where operand or result are integers (an int64 result is
//! stored in 32 bits: it is exact modulo 2^32).
//! - **The lanes are not reduced**: a result takes its numbers in row-major order of the reduced
//!   coordinates, in runs of 64; each run starts anew and then joins the ones before it.
//! - **The lanes are reduced**: a result has 32 accumulators; the number with coordinate `c` along
//!   the lanes goes to accumulator `c mod 32`. Lines are taken in row-major order of the other
//!   reduced coordinates, in runs of 2048 numbers; each run starts 32 accumulators anew, which then
//!   join the ones before. In the end accumulator `i` takes in `i + 16`, then `i + 8`, 4, 2, 1.
//! - **Split over cores**: each core does so on its slice, coordinates counted from where the slice
//!   begins; parts are joined from the first core of a group to the last.
//!
//! What the numbers and the joins are is said per operation in [`Reduction`](zellige_op::Reduction). The result rounds once.
//!
//! | file | holds |
//! |---|---|
//! | `fold` | the loops |
//! | `order`, `moments` | extremes with places; reductions in two passes |
//! | `plan` | slices of cores and what they cost |
//! | `task` | the passes and phases |

mod bind;
mod fold;
mod moments;
pub(crate) mod order;
mod plan;
mod task;
#[cfg(test)]
mod tests;

use super::dims::{plain, without};
use super::{Follows, Kernel, KernelLayouts, LayoutNeed, Task};
use crate::error::Result;
use crate::error::refuse;
use crate::run::division::{Division, Span};
use crate::tensor::result_layout::{arranged, form, result_format, with_order};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_machine::OperationCharges;
use zellige_op::{Dims, Reduce, TensorType};
use zellige_stick::{DataFormat, StickLayout};

impl Kernel for Reduce {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let (lead, want) = settled(&inputs[0], Lies::Any)?;
        let mut wants = vec![want];
        for other in &inputs[1..] {
            wants.push(settled(other, lead.stick.map_or(Lies::Sparse, Lies::Along))?.1);
        }
        let gone = self.gone(lead.rank())?;
        let left = without(&lead, &gone, self.keepdim);
        let layouts = outputs
            .iter()
            .map(|meta| arranged(&left, result_format(inputs, meta.dtype)?))
            .collect::<Result<_>>()?;
        Ok(KernelLayouts { inputs: wants, outputs: layouts })
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        let (ins, outs) = (plains(inputs), plains(outputs));
        self.gone(ins[0].rank()).map_or(Vec::new(), |gone| plan::space(&ins, &outs, &gone))
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        let (rank, outer) = (inputs[0].rank(), outputs[0].rank());
        let gone = self.gone(rank).ok()?;
        let kept: Dims<usize> = (0..rank).filter(|d| !gone.contains(d)).collect();
        let of_input = |d: usize| match gone.iter().position(|g| *g == d) {
            Some(i) => Some(outer + i),
            None if outer == rank => Some(d),
            None => kept.iter().position(|k| *k == d),
        };
        let own = |t: &Sticks| (0..t.rank()).map(of_input).collect();
        let results = outputs.iter().map(|t| (0..t.rank()).map(Some).collect());
        Some(inputs.iter().map(own).chain(results).collect())
    }

    fn charges(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<OperationCharges> {
        let (x, rank) = (plain(&inputs[0]), inputs[0].rank());
        let gone = self.gone(rank).ok()?;
        let formats = |list: &[Sticks]| list.iter().map(|t| t.format).collect::<Vec<Format>>();
        // The task would be made for this cost.
        let mut asked = None;
        let ask = |cost| {
            asked = Some(cost);
            Err(refuse(self.name, None, "only its cost is asked for"))
        };
        drop(bind::bind(self.what, ask, &formats(inputs), &formats(outputs)));
        // A second pass reads again where a group needs it, which is no plain function of the slices.
        let cost = asked.filter(|c| c.passes == 1)?;
        Some(cost.charges(plan::kind(&x, &gone), outputs[0].rank(), gone.len()))
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let (ins, outs) = (plains(inputs), plains(outputs));
        let gone = self.gone(ins[0].rank())?;
        let formats = |list: &[Sticks]| list.iter().map(|t| t.format).collect::<Vec<Format>>();
        let (from, to) = (formats(inputs), formats(outputs));
        let make = |cost| {
            plan::Plan::new(&ins, &outs, &gone, division, cost).map_err(|_| {
                refuse(
                    self.name,
                    None,
                    "operands and results do not have their lanes along one dimension",
                )
            })
        };
        bind::bind(self.what, make, &from, &to)
    }
}

fn plains(list: &[Sticks]) -> Vec<Sticks> {
    list.iter().map(plain).collect()
}

/// Where the lanes of an operand have to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lies {
    /// Anywhere.
    Any,
    /// Along a dimension, if it has more than one element.
    Along(usize),
    /// Nowhere: one element in each stick.
    Sparse,
}

/// How an operand will lie: as it does if that will do, else in a layout of its own, with its
/// dimensions in order and the one of the lanes last.
pub(crate) fn settled(t: &TensorLayout, wanted: Lies) -> Result<(Sticks, LayoutNeed)> {
    if let Ok(lies) = t.sticks() {
        let lies = plain(&lies);
        let fits = match wanted {
            Lies::Any => true,
            Lies::Along(d) => lies.stick == Some(d) || lies.size[d] == 1,
            Lies::Sparse => lies.stick.is_none(),
        };
        if fits || lies.numel() == 0 {
            return Ok((lies, LayoutNeed::AsIs));
        }
    }
    let format: DataFormat = t.layout().device_dtype();
    let host = StridedLayout::new_contiguous(t.size())?;
    let plain_order: Vec<usize> = (0..host.rank()).collect();
    let layout = match wanted {
        Lies::Any => StickLayout::default_in_format(t.size(), None, format)?,
        Lies::Along(d) => {
            let order = plain_order.into_iter().filter(|k| *k != d).chain([d]);
            let order: Vec<i64> = order.map(|k| i64::try_from(k).unwrap_or(0)).collect();
            StickLayout::with_dim_order_in_format(t.size(), None, format, &order)?
        }
        Lies::Sparse => with_order(&host, &plain_order, None, format)?,
    };
    Ok((plain(&form(&layout)?), LayoutNeed::Layout(layout)))
}
