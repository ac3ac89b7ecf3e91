//! Operations on whole lines: softmax, norms, scans and sorts.
//!
//! A line is the elements along some dimensions; it is read as float32 (or int32 or int64), computed whole, and
//! its results round once. No line depends on another one, so that the division over cores
//! cuts the other dimensions only and no result depends on it.

mod lines;
pub(crate) mod norm;
pub(crate) mod softmax;
mod task;

use super::dims::{self, drop_unit_stick};
use super::io::KernelNumber;
use super::reduce::{LaneDemand, settle_operand};
use super::{FollowedLoops, KernelLayouts, KernelTask, OpKernel};
use crate::error::Result;
use crate::error::refuse_operand;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::result_layout::{layout_in_form_order, result_format};
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use std::sync::Arc;
use zellige_float::Format;
use zellige_machine::account::WorkKind;
use zellige_machine::{LoopCharge, OperationCharges};
use zellige_op::{LineForm, LineOperation, LineResults, PerDimension, TensorType};

/// One line of results from one line of operands.
pub(crate) trait LineFunction<T>: Send + Sync {
    /// Computes `values` and `indices` from the first operand `x`, which it may change, and the
    /// lines of the others.
    fn run_line(&self, x: &mut [T], others: &[&[T]], values: &mut [T], indices: &mut [i32]);

    /// Whether the values are left in `x`.
    fn in_place(&self) -> bool {
        false
    }
}

/// What an operation does to a line of `n` elements: plain and transcendental element operations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LineCost {
    pub(crate) plain: u64,
    pub(crate) transcendental: u64,
}

/// The forms of the tensors of an operation in one set of dimensions: operands, then results.
pub(crate) struct AlignedForms {
    pub(crate) inputs: Vec<StickForm>,
    pub(crate) outputs: Vec<StickForm>,
    /// The dimensions of a line, the last fastest.
    pub(crate) along: PerDimension<usize>,
}

/// An operation on lines.
pub(crate) trait LineOpKernel: LineOperation {
    /// Where the lanes of a first operand of this size have to run.
    fn first_lane_demand(&self, size: &[usize]) -> Result<LaneDemand> {
        let _ = size;
        Ok(LaneDemand::Any)
    }

    /// Where the lanes of the others have to run, for those of the first along this dimension.
    fn other_lane_demand(&self, lanes: Option<usize>) -> LaneDemand {
        let _ = lanes;
        LaneDemand::Any
    }

    /// All tensors in the dimensions of the first operand.
    fn align_forms(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Result<AlignedForms> {
        let x = &inputs[0];
        let along = self.line_dims(&x.size)?;
        let fit = |t: &StickForm| t.expand_to(&x.size).unwrap_or_else(|| t.clone());
        Ok(AlignedForms {
            inputs: inputs.iter().map(fit).collect(),
            outputs: outputs.iter().map(|o| dims::restore_dims(o, &along, x.rank())).collect(),
            along,
        })
    }

    /// Which dimension of the first operand dimension `dim` of another one runs along; none where the
    /// slices of cores are no ranges of dimensions.
    fn aligned_dim(&self, first: &StickForm, other: &StickForm, dim: usize) -> Option<usize> {
        (first.rank() + dim).checked_sub(other.rank())
    }

    /// What a line of `n` elements costs.
    fn line_cost(&self, n: usize) -> LineCost;

    /// The function on float32.
    fn float_function(&self) -> Option<Arc<dyn LineFunction<f32>>>;

    /// Whether operands are read with infinities, also in a format that encodes them as its largest numbers.
    fn needs_infinities(&self) -> bool {
        false
    }

    /// The function on int32.
    fn int32_function(&self) -> Option<Arc<dyn LineFunction<i32>>> {
        None
    }

    /// The function on int64.
    fn int64_function(&self) -> Option<Arc<dyn LineFunction<i64>>> {
        None
    }

    /// Whether it computes in integers for these operands and results.
    fn uses_integers(&self, input: &StickForm, output: &StickForm) -> bool {
        let _ = output;
        !input.format.is_float()
    }
}

fn drop_unit_sticks(list: &[StickForm]) -> Vec<StickForm> {
    list.iter().map(drop_unit_stick).collect()
}

/// The dimensions that are not of a line, in order.
fn outer_dims(wide: &AlignedForms) -> PerDimension<usize> {
    (0..wide.inputs[0].rank()).filter(|d| !wide.along.contains(d)).collect()
}

/// The kind of work for the accounts: whether lines run along the lanes.
fn line_work_kind(wide: &AlignedForms) -> WorkKind {
    let along = wide.inputs[0].stick.is_none_or(|s| wide.along.contains(&s));
    if along { WorkKind::RowReduction } else { WorkKind::CrossRowReduction }
}

fn outer_spans(wide: &AlignedForms) -> Vec<LoopSpan> {
    let all = || wide.inputs.iter().chain(&wide.outputs);
    let span =
        |d: &usize| LoopSpan::for_output(wide.inputs[0].size[*d], dims::lanes_per_unit(all(), *d));
    outer_dims(wide).iter().map(span).collect()
}

impl<K: LineOpKernel> OpKernel for LineForm<K> {
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let whole = |n: &i64| usize::try_from(*n).unwrap_or(0);
        let size: Vec<usize> = inputs[0].size().iter().map(whole).collect();
        let (lead, want) = settle_operand(&inputs[0], self.0.first_lane_demand(&size)?)?;
        let mut wants = vec![want];
        for other in &inputs[1..] {
            wants.push(settle_operand(other, self.0.other_lane_demand(lead.stick))?.1);
        }
        let along = self.0.line_dims(&size)?;
        let mut layouts = Vec::with_capacity(outputs.len());
        for meta in outputs {
            let mut lies = lead.clone();
            if self.0.drops_line() && meta.size.len() < lies.rank() {
                lies = dims::remove_dims(&lies, &along, false);
            }
            lies.size = meta.size.iter().map(whole).collect();
            layouts.push(layout_in_form_order(
                &drop_unit_stick(&lies),
                result_format(inputs, meta.dtype)?,
            )?);
        }
        Ok(KernelLayouts { inputs: wants, outputs: layouts })
    }

    fn iteration_space(&self, inputs: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        align_operands(&self.0, inputs, outputs).map_or(Vec::new(), |wide| outer_spans(&wide))
    }

    fn followed_loops(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<Vec<FollowedLoops>> {
        let x = &inputs[0];
        // The dimensions of a line belong to one core whole, so that only the others are loops.
        let along = self.0.line_dims(&x.size).ok()?;
        let outer: PerDimension<usize> = (0..x.rank()).filter(|d| !along.contains(d)).collect();
        let of = |d: usize| outer.iter().position(|o| *o == d);
        let mut all: Vec<FollowedLoops> = Vec::with_capacity(inputs.len() + outputs.len());
        for t in inputs {
            let mut own = FollowedLoops::new();
            for d in 0..t.rank() {
                let meets = self.0.aligned_dim(x, t, d)?;
                own.push(of(meets).filter(|_| t.size[d] == x.size[meets]));
            }
            all.push(own);
        }
        for t in outputs {
            // A result that has lost the dimensions of the line has the others in order.
            let whole = t.rank() == x.rank();
            all.push((0..t.rank()).map(|d| if whole { of(d) } else { Some(d) }).collect());
        }
        Some(all)
    }

    fn unit_charges(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
    ) -> Option<OperationCharges> {
        let wide = align_operands(&self.0, inputs, outputs).ok()?;
        Some(line_charges(&self.0, &wide))
    }

    fn bind_task(
        &self,
        inputs: &[StickForm],
        outputs: &[StickForm],
        division: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        let wide = align_operands(&self.0, inputs, outputs)?;
        let exact = self.0.uses_integers(&inputs[0], &outputs[0]);
        // Indices are counted apart, and do not make the numbers wide.
        let wide_result =
            self.0.line_results() != LineResults::Indices && outputs[0].format == Format::I64;
        if exact
            && (inputs[0].format == Format::I64 || wide_result)
            && let Some(line) = self.0.int64_function()
        {
            return Ok(bind_lines(&self.0, line, &wide, division));
        }
        match (self.0.float_function(), self.0.int32_function()) {
            (_, Some(line)) if exact => Ok(bind_lines(&self.0, line, &wide, division)),
            (Some(line), _) => Ok(bind_lines(&self.0, line, &wide, division)),
            _ => Err(refuse_operand(self.0.name(), Some(0), "it is for integers only")),
        }
    }
}

/// All tensors in the dimensions of the first operand.
fn align_operands(
    op: &impl LineOpKernel,
    inputs: &[StickForm],
    outputs: &[StickForm],
) -> Result<AlignedForms> {
    op.align_forms(&drop_unit_sticks(inputs), &drop_unit_sticks(outputs))
}

/// The cost of every line, for all of them.
fn line_charges(op: &impl LineOpKernel, wide: &AlignedForms) -> OperationCharges {
    let n = wide.along.iter().map(|d| wide.inputs[0].size[*d]).product();
    let LineCost { plain, transcendental } = op.line_cost(n);
    let charge = LoopCharge {
        loops: (0..outer_dims(wide).len()).map(|l| (l, 1)).collect(),
        macs: 0,
        sfu: plain,
        transcendental,
        finishing: false,
    };
    OperationCharges::single_charge(line_work_kind(wide), charge)
}

fn bind_lines<T: KernelNumber>(
    op: &impl LineOpKernel,
    line: Arc<dyn LineFunction<T>>,
    wide: &AlignedForms,
    division: &WorkDivision,
) -> Box<dyn KernelTask> {
    let charges = line_charges(op, wide);
    Box::new(task::LineTask::new(
        line,
        op.line_results(),
        &charges,
        wide,
        division,
        op.needs_infinities(),
    ))
}
