//! Operations on whole lines: softmax, norms, scans and sorts.
//!
//! A line is what lies along some dimensions; it is read as float32 (or int32 or int64), computed whole, and
//! its results round once. Lines of different places never meet, so that the division over cores
//! cuts the other dimensions only and no result depends on it.

mod lines;
pub(crate) mod norm;
pub(crate) mod softmax;
mod task;

use super::dims::{self, plain};
use super::io::Number;
use super::reduce::{Lies, settled};
use super::{Follows, Kernel, KernelLayouts, Task};
use crate::error::Result;
use crate::error::refuse;
use crate::run::division::{Division, Span};
use crate::tensor::result_layout::{arranged, result_format};
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use std::sync::Arc;
use zellige_float::Format;
use zellige_machine::account::WorkKind;
use zellige_machine::{LoopCharge, OperationCharges};
use zellige_op::{Dims, LineOperation, LineResults, Lines, TensorType};

/// One line of results from one line of operands.
pub(crate) trait Line<T>: Send + Sync {
    /// Computes `values` and `indices` from the first operand `x`, which it may change, and the
    /// lines of the others.
    fn run(&self, x: &mut [T], others: &[&[T]], values: &mut [T], indices: &mut [i32]);

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

/// How the tensors of an operation lie in one set of dimensions: operands, then results.
pub(crate) struct Wide {
    pub(crate) inputs: Vec<Sticks>,
    pub(crate) outputs: Vec<Sticks>,
    /// The dimensions of a line, the last fastest.
    pub(crate) along: Dims<usize>,
}

/// An operation on lines.
pub(crate) trait LineOp: LineOperation {
    /// Where the lanes of a first operand of this size have to run.
    fn lanes(&self, size: &[usize]) -> Result<Lies> {
        let _ = size;
        Ok(Lies::Any)
    }

    /// Where the lanes of the others have to run, for those of the first along this dimension.
    fn others(&self, lanes: Option<usize>) -> Lies {
        let _ = lanes;
        Lies::Any
    }

    /// All tensors in the dimensions of the first operand.
    fn wide(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Result<Wide> {
        let x = &inputs[0];
        let along = self.along(&x.size)?;
        let fit = |t: &Sticks| t.expand(&x.size).unwrap_or_else(|| t.clone());
        Ok(Wide {
            inputs: inputs.iter().map(fit).collect(),
            outputs: outputs.iter().map(|o| dims::with(o, &along, x.rank())).collect(),
            along,
        })
    }

    /// Which dimension of the first operand dimension `dim` of another one runs along; none where the
    /// slices of cores are no ranges of dimensions.
    fn meets(&self, first: &Sticks, other: &Sticks, dim: usize) -> Option<usize> {
        (first.rank() + dim).checked_sub(other.rank())
    }

    /// What a line of `n` elements costs.
    fn cost(&self, n: usize) -> LineCost;

    /// The function on float32.
    fn float(&self) -> Option<Arc<dyn Line<f32>>>;

    /// Whether it tells infinities from numbers, also of a format where numbers stand for them.
    fn infinities(&self) -> bool {
        false
    }

    /// The function on int32.
    fn int(&self) -> Option<Arc<dyn Line<i32>>> {
        None
    }

    /// The function on int64.
    fn long(&self) -> Option<Arc<dyn Line<i64>>> {
        None
    }

    /// Whether it computes in integers for these operands and results.
    fn exact(&self, input: &Sticks, output: &Sticks) -> bool {
        let _ = output;
        !input.format.is_float()
    }
}

fn plains(list: &[Sticks]) -> Vec<Sticks> {
    list.iter().map(plain).collect()
}

/// The dimensions that are not of a line, in order.
fn outer(wide: &Wide) -> Dims<usize> {
    (0..wide.inputs[0].rank()).filter(|d| !wide.along.contains(d)).collect()
}

/// What the accounts call it: whether lines run along the lanes.
fn kind(wide: &Wide) -> WorkKind {
    let along = wide.inputs[0].stick.is_none_or(|s| wide.along.contains(&s));
    if along { WorkKind::RowReduction } else { WorkKind::CrossRowReduction }
}

fn spans(wide: &Wide) -> Vec<Span> {
    let all = || wide.inputs.iter().chain(&wide.outputs);
    let span = |d: &usize| Span::output(wide.inputs[0].size[*d], dims::unit(all(), *d));
    outer(wide).iter().map(span).collect()
}

impl<K: LineOp> Kernel for Lines<K> {
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let whole = |n: &i64| usize::try_from(*n).unwrap_or(0);
        let size: Vec<usize> = inputs[0].size().iter().map(whole).collect();
        let (lead, want) = settled(&inputs[0], self.0.lanes(&size)?)?;
        let mut wants = vec![want];
        for other in &inputs[1..] {
            wants.push(settled(other, self.0.others(lead.stick))?.1);
        }
        let along = self.0.along(&size)?;
        let mut layouts = Vec::with_capacity(outputs.len());
        for meta in outputs {
            let mut lies = lead.clone();
            if self.0.drops() && meta.size.len() < lies.rank() {
                lies = dims::without(&lies, &along, false);
            }
            lies.size = meta.size.iter().map(whole).collect();
            layouts.push(arranged(&plain(&lies), result_format(inputs, meta.dtype)?)?);
        }
        Ok(KernelLayouts { inputs: wants, outputs: layouts })
    }

    fn space(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        wide(&self.0, inputs, outputs).map_or(Vec::new(), |wide| spans(&wide))
    }

    fn loops(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<Vec<Follows>> {
        let x = &inputs[0];
        let along = self.0.along(&x.size).ok()?;
        let outer: Dims<usize> = (0..x.rank()).filter(|d| !along.contains(d)).collect();
        let of = |d: usize| outer.iter().position(|o| *o == d);
        let mut all: Vec<Follows> = Vec::with_capacity(inputs.len() + outputs.len());
        for t in inputs {
            let mut own = Follows::new();
            for d in 0..t.rank() {
                let meets = self.0.meets(x, t, d)?;
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

    fn charges(&self, inputs: &[Sticks], outputs: &[Sticks]) -> Option<OperationCharges> {
        let wide = wide(&self.0, inputs, outputs).ok()?;
        Some(charges(&self.0, &wide))
    }

    fn task(
        &self,
        inputs: &[Sticks],
        outputs: &[Sticks],
        division: &Division,
    ) -> Result<Box<dyn Task>> {
        let wide = wide(&self.0, inputs, outputs)?;
        let exact = self.0.exact(&inputs[0], &outputs[0]);
        // Indices are counted apart, and do not make the numbers wide.
        let wide_result =
            self.0.gives() != LineResults::Indices && outputs[0].format == Format::I64;
        if exact
            && (inputs[0].format == Format::I64 || wide_result)
            && let Some(line) = self.0.long()
        {
            return Ok(bind(&self.0, line, &wide, division));
        }
        match (self.0.float(), self.0.int()) {
            (_, Some(line)) if exact => Ok(bind(&self.0, line, &wide, division)),
            (Some(line), _) => Ok(bind(&self.0, line, &wide, division)),
            _ => Err(refuse(self.0.name(), Some(0), "it is for integers only")),
        }
    }
}

/// All tensors in the dimensions of the first operand.
fn wide(op: &impl LineOp, inputs: &[Sticks], outputs: &[Sticks]) -> Result<Wide> {
    op.wide(&plains(inputs), &plains(outputs))
}

/// The cost of every line, for all of them.
fn charges(op: &impl LineOp, wide: &Wide) -> OperationCharges {
    let n = wide.along.iter().map(|d| wide.inputs[0].size[*d]).product();
    let LineCost { plain, transcendental } = op.cost(n);
    let charge = LoopCharge {
        loops: (0..outer(wide).len()).map(|l| (l, 1)).collect(),
        macs: 0,
        sfu: plain,
        transcendental,
        finishing: false,
    };
    OperationCharges::single_charge(kind(wide), charge)
}

fn bind<T: Number>(
    op: &impl LineOp,
    line: Arc<dyn Line<T>>,
    wide: &Wide,
    division: &Division,
) -> Box<dyn Task> {
    let charges = charges(op, wide);
    Box::new(task::LineTask::new(line, op.gives(), &charges, wide, division, op.infinities()))
}
