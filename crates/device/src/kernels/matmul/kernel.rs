//! Products as kernels: sizes, layouts, iteration space.

use super::super::{FollowedLoops, KernelLayouts, KernelTask, LayoutNeed, OpKernel, dims};
use super::finish::FinishStep;
use super::form::as_matrix;
use super::matrices::ProductMatrices;
use super::task;
use crate::error::Result;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::{layout_in_form_order, layout_in_order, result_format};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_machine::OperationCharges;
use zellige_op::{MatrixPairing, ProductFactors, ProductOp, TensorType};

/// The further operands in the order of the steps, and the steps.
pub(super) fn finish_steps(product: &ProductOp, given: usize) -> (Vec<usize>, Vec<FinishStep>) {
    // Scales before addends: the sum of scaled codes is what is to be scaled, and a bias is not.
    let mut extras: Vec<usize> = product.roles.scales.to_vec();
    let mut steps: Vec<FinishStep> = (0..extras.len()).map(FinishStep::Times).collect();
    let ProductFactors { alpha, beta } = product.factors;
    if alpha != 1.0 {
        steps.push(FinishStep::Scale(alpha));
    }
    // A factor of zero leaves the addend out, whatever it holds.
    if let Some(addend) = product.roles.addend.filter(|i| *i < given && beta != 0.0) {
        steps.push(FinishStep::Plus { operand: extras.len(), factor: beta });
        extras.push(addend);
    }
    (extras, steps)
}

impl OpKernel for ProductOp {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let sizes: Vec<&[i64]> = inputs.iter().map(TensorLayout::size).collect();
        let meeting = self.matrix_pairing(&sizes)?;
        let (a, b) = (&inputs[self.roles.a], &inputs[self.roles.b]);
        let (rank_a, rank_b) = (a.size().len(), b.size().len());
        let columns = meeting.b.matrix_size(b.size())[meeting.b.matrix_size(b.size()).len() - 1];
        let wants = inputs.iter().enumerate().map(|(i, t)| {
            let along = |dim: Option<usize>| dim.map_or(LayoutNeed::Sparse, LayoutNeed::Along);
            if i == self.roles.a {
                along(meeting.a.source_dim(rank_a, 1))
            } else if i == self.roles.b {
                // One column is stickified along k as A is.
                along(meeting.b.source_dim(rank_b, usize::from(columns != 1)))
            } else {
                match t.size().last() {
                    _ if t.numel() == 1 => LayoutNeed::AsIs,
                    Some(n) if *n != 1 && meeting.keeps[1] => LayoutNeed::Along(t.size().len() - 1),
                    _ => LayoutNeed::Sparse,
                }
            }
        });
        let out = &outputs[0];
        let format = result_format(&[a.clone(), b.clone()], out.dtype)?;
        let layout = match a.stick_form() {
            // The result follows A, because the next product of a chain reads it as its left operand: no copy is
            // needed then.
            Ok(form) => layout_in_form_order(
                &result_form_like(&meeting, &form, &out.size, columns),
                format,
            )?,
            Err(_) => {
                let order: Vec<usize> = (0..out.size.len()).collect();
                let stick = order.last().copied().filter(|_| meeting.keeps[1] && columns != 1);
                layout_in_order(&StridedLayout::new_contiguous(&out.size)?, &order, stick, format)?
            }
        };
        Ok(KernelLayouts { inputs: wants.collect(), outputs: vec![layout] })
    }

    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        let Ok(matrices) = ProductMatrices::new(self, inputs, outputs) else {
            return Vec::new();
        };
        matrices.iteration_space()
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        let sizes: Vec<Vec<i64>> = inputs
            .iter()
            .map(|t| t.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect())
            .collect();
        let sizes: Vec<&[i64]> = sizes.iter().map(Vec::as_slice).collect();
        let meeting = self.matrix_pairing(&sizes).ok()?;
        let out = &outputs[0];
        let [m, n] = meeting.keeps.map(usize::from);
        let outer = out.rank() - m - n;
        let (row, column, depth) = (outer, outer + m, outer + m + n);
        let follows = |i: usize, t: &StickForm| -> FollowedLoops {
            let (turn, roles) = match i {
                _ if i == self.roles.a => (meeting.a, [row, depth]),
                _ if i == self.roles.b => (meeting.b, [depth, column]),
                _ => return dims::follow_loops(t, &out.size),
            };
            let own: [Option<usize>; 2] = [0, 1].map(|which| turn.source_dim(t.rank(), which));
            // Batches count from the back, as sizes broadcast.
            let batches = t.rank() - own.iter().flatten().count();
            let of = |d: usize| match own.iter().position(|o| *o == Some(d)) {
                Some(which) => Some(roles[which]),
                None => (outer + d).checked_sub(batches).filter(|b| t.size[d] == out.size[*b]),
            };
            (0..t.rank()).map(of).collect()
        };
        let operands = inputs.iter().enumerate().map(|(i, t)| follows(i, t));
        Some(operands.chain([(0..out.rank()).map(Some).collect()]).collect())
    }

    fn unit_charges(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<OperationCharges> {
        let matrices = ProductMatrices::new(self, inputs, outputs).ok()?;
        Some(matrices.unit_charges([self.roles.a, self.roles.b], inputs.len()))
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let matrices = ProductMatrices::new(self, inputs, outputs)?;
        matrices.check_layouts(self.name)?;
        if outputs[0].format.is_float() {
            Ok(Box::new(task::ProductTask::<f32>::new(self, &matrices, division)))
        // The format of the result decides: a product of integers has an integer result, and of floats a float one.
        } else if outputs[0].format == Format::I64 {
            Ok(Box::new(task::ProductTask::<i64>::new(self, &matrices, division)))
        } else {
            Ok(Box::new(task::ProductTask::<i32>::new(self, &matrices, division)))
        }
    }
}

/// A form of the result with the order of A's dimensions, n in the place of k.
fn result_form_like(
    meeting: &MatrixPairing,
    a: &StickForm,
    size: &[i64],
    columns: i64,
) -> StickForm {
    let a = as_matrix(meeting.a, a);
    let [m, n] = meeting.keeps;
    let rank = size.len();
    let mut stride: SmallVec<[usize; 6]> = SmallVec::from_elem(0, rank);
    let outer = rank - usize::from(m) - usize::from(n);
    // Batches of A are the last ones of the result.
    let own = a.rank() - 2;
    for d in 0..own.min(outer) {
        stride[outer - 1 - d] = a.stride[own - 1 - d];
    }
    if m {
        stride[outer] = a.stride[own];
    }
    let mut stick = None;
    if n {
        stride[rank - 1] = a.stride[own + 1];
        stick = (columns != 1).then_some(rank - 1);
    }
    let size = size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
    StickForm { size, stride, stick, ..a }
}
