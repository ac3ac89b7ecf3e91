//! Products as kernels: sizes, layouts, iteration space.

use super::super::{Follows, Kernel, KernelLayouts, LayoutNeed, Task, dims};
use super::finish::Step;
use super::form::as_matrix;
use super::matrices::Matrices;
use super::task;
use crate::error::Result;
use crate::run::division::{Division, Span};
use crate::tensor::result_layout::{arranged, result_format, with_order};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use smallvec::SmallVec;
use zellige_float::Format;
use zellige_layout::StridedLayout;
use zellige_machine::OperationCharges;
use zellige_op::{Factors, Meeting, Product, TensorType};

/// The further operands in the order of the steps, and the steps.
pub(super) fn steps(product: &Product, given: usize) -> (Vec<usize>, Vec<Step>) {
    let mut extras: Vec<usize> = product.roles.scales.to_vec();
    let mut steps: Vec<Step> = (0..extras.len()).map(Step::Times).collect();
    let Factors { alpha, beta } = product.factors;
    if alpha != 1.0 {
        steps.push(Step::Scale(alpha));
    }
    // A factor of zero leaves the addend out, whatever it holds.
    if let Some(addend) = product.roles.addend.filter(|i| *i < given && beta != 0.0) {
        steps.push(Step::Plus { operand: extras.len(), factor: beta });
        extras.push(addend);
    }
    (extras, steps)
}

impl Kernel for Product {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let sizes: Vec<&[i64]> = inputs.iter().map(TensorLayout::size).collect();
        let meeting = self.meeting(&sizes)?;
        let (a, b) = (&inputs[self.roles.a], &inputs[self.roles.b]);
        let (rank_a, rank_b) = (a.size().len(), b.size().len());
        let columns = meeting.b.size(b.size())[meeting.b.size(b.size()).len() - 1];
        let wants = inputs.iter().enumerate().map(|(i, t)| {
            let along = |dim: Option<usize>| dim.map_or(LayoutNeed::Sparse, LayoutNeed::Along);
            if i == self.roles.a {
                along(meeting.a.origin(rank_a, 1))
            } else if i == self.roles.b {
                // One column lies along k as A does.
                along(meeting.b.origin(rank_b, usize::from(columns != 1)))
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
        let layout = match a.sticks() {
            Ok(form) => arranged(&beside(&meeting, &form, &out.size, columns), format)?,
            Err(_) => {
                let order: Vec<usize> = (0..out.size.len()).collect();
                let stick = order.last().copied().filter(|_| meeting.keeps[1] && columns != 1);
                with_order(&StridedLayout::new_contiguous(&out.size)?, &order, stick, format)?
            }
        };
        Ok(KernelLayouts { inputs: wants.collect(), outputs: vec![layout] })
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        let Ok(matrices) = Matrices::new(self, inputs, outputs) else {
            return Vec::new();
        };
        matrices.space()
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        let sizes: Vec<Vec<i64>> = inputs
            .iter()
            .map(|t| t.size.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect())
            .collect();
        let sizes: Vec<&[i64]> = sizes.iter().map(Vec::as_slice).collect();
        let meeting = self.meeting(&sizes).ok()?;
        let out = &outputs[0];
        let [m, n] = meeting.keeps.map(usize::from);
        let outer = out.rank() - m - n;
        let (row, column, depth) = (outer, outer + m, outer + m + n);
        let follows = |i: usize, t: &Sticks| -> Follows {
            let (turn, roles) = match i {
                _ if i == self.roles.a => (meeting.a, [row, depth]),
                _ if i == self.roles.b => (meeting.b, [depth, column]),
                _ => return dims::follow(t, &out.size),
            };
            let own: [Option<usize>; 2] = [0, 1].map(|which| turn.origin(t.rank(), which));
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

    fn charges(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<OperationCharges> {
        let matrices = Matrices::new(self, inputs, outputs).ok()?;
        Some(matrices.charges([self.roles.a, self.roles.b], inputs.len()))
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let matrices = Matrices::new(self, inputs, outputs)?;
        matrices.check(self.name)?;
        if outputs[0].format.is_float() {
            Ok(Box::new(task::Work::<f32>::new(self, &matrices, division)))
        } else if outputs[0].format == Format::I64 {
            Ok(Box::new(task::Work::<i64>::new(self, &matrices, division)))
        } else {
            Ok(Box::new(task::Work::<i32>::new(self, &matrices, division)))
        }
    }
}

/// A form of the result with the order of A's dimensions, n in the place of k.
fn beside(meeting: &Meeting, a: &Sticks, size: &[i64], columns: i64) -> Sticks {
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
    Sticks { size, stride, stick, ..a }
}
