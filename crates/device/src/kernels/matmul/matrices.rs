//! The tensors of a product as batches of matrices.

use super::super::share::{CoreShare, moves_along};
use super::finish::FinishStep;
use super::form::{as_matrix, result_as_matrices};
use super::kernel::finish_steps;
use super::task::product_work_kind;
use crate::error::Result;
use crate::error::refuse_operand;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::sticks::StickForm;
use zellige_machine::{LoopCharge, OperationCharges, PartialSums};
use zellige_op::{OperandRoles, ProductOp};

/// The tensors of a product as batches of matrices of one rank, operands expanded to the batches.
#[derive(Debug, Clone)]
pub(super) struct ProductMatrices {
    pub(super) a: StickForm,
    pub(super) b: StickForm,
    pub(super) c: StickForm,
    pub(super) extras: Vec<(usize, StickForm)>,
    pub(super) steps: Vec<FinishStep>,
    keeps: [bool; 2],
}

impl ProductMatrices {
    pub(super) fn new(
        product: &ProductOp,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Result<ProductMatrices> {
        let sizes: Vec<Vec<i64>> = inputs
            .iter()
            .map(|t| t.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect())
            .collect();
        let sizes: Vec<&[i64]> = sizes.iter().map(Vec::as_slice).collect();
        let meeting = product.matrix_pairing(&sizes)?;
        let OperandRoles { a, b, .. } = product.roles;
        let c = result_as_matrices(&meeting, &outputs[0]);
        let outer = c.rank() - 2;
        let widen = |i: usize, t: StickForm| {
            let mut size: Vec<usize> = c.size[..outer].to_vec();
            size.extend(&t.size[t.rank() - 2..]);
            t.expand_to(&size).ok_or_else(|| {
                refuse_operand(
                    product.name,
                    Some(i),
                    format!("its batches are not those of {:?}", c.size),
                )
            })
        };
        let (left, right) = (as_matrix(meeting.a, &inputs[a]), as_matrix(meeting.b, &inputs[b]));
        // Further operands broadcast to the result before dimensions are inserted, as PyTorch's rule for them is
        // that of the result.
        let (extras, steps) = finish_steps(product, inputs.len());
        let extras = extras.into_iter().map(|i| {
            let expanded = inputs[i].expand_to(&outputs[0].size);
            let wide = expanded.ok_or_else(|| {
                let reason = format!("size {:?} does not broadcast", inputs[i].size);
                refuse_operand(product.name, Some(i), reason)
            })?;
            Ok((i, result_as_matrices(&meeting, &wide)))
        });
        Ok(ProductMatrices {
            a: widen(a, left)?,
            b: widen(b, right)?,
            extras: extras.collect::<Result<_>>()?,
            c,
            steps,
            keeps: meeting.keeps,
        })
    }

    /// Refuses tensors whose sticks do not run as a product needs them.
    pub(super) fn check_layouts(&self, op: &str) -> Result<()> {
        let rank = self.c.rank();
        let (m, n) = (rank - 2, rank - 1);
        let lies = |t: &StickForm, dim: usize| {
            t.stick == Some(dim) || (t.stick.is_none() && t.size[dim] <= 1)
        };
        if self.a.numel() > 0 && !lies(&self.a, n) {
            return Err(refuse_operand(
                op,
                Some(0),
                "the left matrix is not stickified along the summed dimension",
            ));
        }
        // The dot product: a single column would have one element per stick if it were laid out along the columns.
        let column = self.b.size[n] == 1 && self.b.stick == Some(m);
        if self.b.numel() > 0 && !lies(&self.b, n) && !column {
            return Err(refuse_operand(
                op,
                Some(1),
                "the right matrix is not stickified along its columns",
            ));
        }
        if self.c.numel() > 0 && !lies(&self.c, n) {
            return Err(refuse_operand(op, None, "the result is not stickified along its columns"));
        }
        Ok(())
    }

    /// Output dimensions, then the summed one. Sticks stay whole in every tensor.
    pub(super) fn iteration_space(&self) -> Vec<LoopSpan> {
        let rank = self.c.rank();
        let tensors =
            || [&self.a, &self.b, &self.c].into_iter().chain(self.extras.iter().map(|e| &e.1));
        let eps = |t: &StickForm, dim: usize| if t.stick == Some(dim) { t.eps } else { 1 };
        let mut space: Vec<LoopSpan> =
            (0..rank - 2).map(|d| LoopSpan::for_output(self.c.size[d], 1)).collect();
        if self.keeps[0] {
            space.push(LoopSpan::for_output(self.c.size[rank - 2], 1));
        }
        if self.keeps[1] {
            let right = tensors().skip(1).map(|t| eps(t, rank - 1));
            space.push(LoopSpan::for_output(self.c.size[rank - 1], right.max().unwrap_or(1)));
        }
        // A range of the sum begins with a whole stick in both operands, otherwise a core would read parts of
        // sticks.
        let unit = eps(&self.a, rank - 1).max(eps(&self.b, rank - 2));
        space.push(LoopSpan::for_reduction(self.a.size[rank - 1], unit));
        space
    }

    /// The part of the space that a core has: batches, rows, columns, depth.
    pub(super) fn core_part(&self, core: usize, division: &WorkDivision) -> ProductMatrices {
        let ranges = division.core_slice(core, &self.iteration_space());
        let outer = self.c.rank() - 2;
        let (m, n) = (outer, outer + 1);
        let mut part = self.clone();
        // Loops in the order of `iteration_space`; those that the pairing leaves out have no range.
        let mut rest = ranges.iter().cloned();
        for d in 0..outer {
            let range = rest.next().unwrap_or(0..0);
            part.a = part.a.slice_dim(d, range.clone());
            part.b = part.b.slice_dim(d, range.clone());
            part.result_forms().for_each(|t| *t = t.slice_dim(d, range.clone()));
        }
        if self.keeps[0] {
            let range = rest.next().unwrap_or(0..0);
            part.a = part.a.slice_dim(m, range.clone());
            part.result_forms().for_each(|t| *t = t.slice_dim(m, range.clone()));
        }
        if self.keeps[1] {
            let range = rest.next().unwrap_or(0..0);
            part.b = part.b.slice_dim(n, range.clone());
            part.result_forms().for_each(|t| *t = t.slice_dim(n, range.clone()));
        }
        let range = rest.next().unwrap_or(0..0);
        part.a = part.a.slice_dim(n, range.clone());
        part.b = part.b.slice_dim(m, range);
        part
    }

    /// What the units do: multiply-adds in whole sticks, then the steps that finish a sum.
    pub(super) fn unit_charges(&self, product: [usize; 2], inputs: usize) -> OperationCharges {
        let read = |i: &usize| product.contains(i) || self.extras.iter().any(|e| e.0 == *i);
        let unread = (0..inputs).filter(|i| !read(i)).collect();
        let rank = self.c.rank();
        let (m, n) = (rank - 2, rank - 1);
        let eps = |t: &StickForm, dim: usize| if t.stick == Some(dim) { t.eps } else { 1 };
        let mut outer: Vec<(usize, usize)> = (0..m).map(|d| (d, 1)).collect();
        let mut sides = [None; 2];
        if self.keeps[0] {
            sides[0] = Some(outer.len());
            outer.push((outer.len(), 1));
        }
        if self.keeps[1] {
            sides[1] = Some(outer.len());
            outer.push((outer.len(), eps(&self.b, n).max(eps(&self.c, n))));
        }
        let depth = (outer.len(), eps(&self.a, n).max(eps(&self.b, m)));
        let all: Vec<(usize, usize)> = outer.iter().copied().chain([depth]).collect();
        let products =
            // The units multiply whole sticks, so that padding costs what elements cost.
            LoopCharge { loops: all, macs: 1, sfu: 0, transcendental: 0, finishing: false };
        let steps = LoopCharge {
            loops: outer.clone(),
            macs: 0,
            sfu: self.steps.len() as u64,
            finishing: true,
            ..products.clone()
        };
        OperationCharges {
            kind: product_work_kind(&self.a, &self.b, &self.c),
            each: vec![products, steps],
            partial: PartialSums { loops: outer, bytes: 4 },
            product: Some(product),
            sides,
            unread,
        }
    }

    /// The cores that share A, B and the further operands with a core. Of the cores that split a sum, one alone reads
    /// the further operands.
    pub(super) fn operand_shares(&self, core: usize, division: &WorkDivision) -> Vec<CoreShare> {
        let outer = self.c.rank() - 2;
        let depth = division.splits().len() - 1;
        let columns = depth - usize::from(self.keeps[1]);
        // The dimension of the result that a loop runs along.
        let along = |l: usize| match l {
            _ if l < outer => l,
            _ if l >= columns => outer + 1,
            _ => outer,
        };
        let of = |t: &StickForm, other: Option<usize>| {
            CoreShare::from_division(division, core, |l| {
                // Cores that split the sum have different depths of B, and only one of them finishes the sum with
                // the further operands.
                l != depth && (other == Some(along(l)) || !moves_along(t, along(l)))
            })
        };
        // A has the depth where B and the result have columns, B where A and the result have rows.
        let a = CoreShare::from_division(division, core, |l| match along(l) {
            _ if l == depth => false,
            d if d > outer => true,
            d => !moves_along(&self.a, d),
        });
        let b = of(&self.b, Some(outer));
        [a, b].into_iter().chain(self.extras.iter().map(|e| of(&e.1, None))).collect()
    }

    /// The result and the further operands, which have its size.
    fn result_forms(&mut self) -> impl Iterator<Item = &mut StickForm> {
        std::iter::once(&mut self.c).chain(self.extras.iter_mut().map(|e| &mut e.1))
    }
}
