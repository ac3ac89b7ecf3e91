//! Padding: what a program needs in it, who puts it there, and what moving it costs. It follows from layouts, so it is
//! no pass but an analysis of a program, which reports and emitters read.
//!
//! A stick that its dimension does not fill has lanes without elements. What they hold matters to the
//! hardware in two places, and nowhere else:
//!
//! - **Products.** A is read stick by stick along k, so that lanes past k meet rows of B past k: B is
//!   padded along k to whole sticks, with zeros. A is not, and the loop still counts k itself. Weights that only
//!   products read are loaded with these rows: what is transferred has zeros wherever there is no element. Every other
//!   B goes through a move that copies its elements and fills the rows; it is made when steps are (`lower`), and a
//!   step like any other.
//! - **Reductions along the stick.** The last stick is masked with the number that changes nothing: 0 of
//!   a sum, -inf of a maximum, +inf of a minimum.
//!
//! Lanes of everything else are computed and ignored. The simulated kernels end with the elements and
//! never read a lane of padding; this analysis says, as data, what a card has to be given, and how many of
//! the bytes that a step moves are padding.

use crate::program::{BufferRead, CompiledProgram, ElementOrigin, ProgramStep, StepId};
use zellige_device::TensorLayout;
use zellige_op::{OpForm, ProductKind, ProductOp};

/// The padding of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepPadding {
    /// The step.
    pub step: StepId,
    /// Dimensions whose extent does not fill sticks.
    pub extents: Vec<PaddedDim>,
    /// Bytes that it moves from and to device memory and that hold no element.
    pub bytes: u64,
}

/// Which tensor of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepTensor {
    /// Operand by number.
    Operand(usize),
    /// Result by number.
    Result(usize),
}

/// A padded dimension of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaddedDim {
    /// The tensor.
    pub side: StepTensor,
    /// The dimension.
    pub dim: usize,
    /// Elements along it.
    pub valid: i64,
    /// Places along it.
    pub padded: i64,
    /// The number that has to be there; none where anything may be.
    pub fill: Option<f64>,
    /// Who sees to that.
    pub by: Option<FilledBy>,
}

/// Who fills padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilledBy {
    /// The kernel that works along it masks the lanes.
    Mask,
    /// The move that made the tensor.
    Step(StepId),
    /// The transfer that wrote the tensor: it writes zeros wherever there is no element.
    Transfer,
}

/// The padding of every step that has some, in order.
pub fn analyze_padding(program: &CompiledProgram) -> Vec<StepPadding> {
    let of = |(i, step): (usize, &ProgramStep)| {
        let padding = StepPadding {
            step: StepId(i),
            extents: find_padded_dims(program, step),
            bytes: step.work.sum_over_cores().padding_bytes,
        };
        (padding.bytes > 0 || !padding.extents.is_empty()).then_some(padding)
    };
    program.steps.iter().enumerate().filter_map(of).collect()
}

fn find_padded_dims(program: &CompiledProgram, step: &ProgramStep) -> Vec<PaddedDim> {
    let mut list = Vec::new();
    let results = step.writes.iter().map(|b| &program.buffer(*b).laid);
    let operands = step.reads.iter().map(|r| &r.laid).enumerate();
    let sides = operands
        .map(|(k, t)| (StepTensor::Operand(k), t))
        .chain(results.enumerate().map(|(k, t)| (StepTensor::Result(k), t)));
    for (side, laid) in sides {
        let Ok(form) = laid.stick_form() else { continue };
        let Some(dim) = form.stick else { continue };
        let fill = find_mask_value(program, step, side, dim);
        let by = fill.and_then(|_| lanes_filled_by(program, step, side));
        let found = PaddedDim::from_layout(side, laid, dim, fill);
        list.extend(found.map(|p| PaddedDim { by, ..p }));
    }
    list.extend(find_padded_product_rows(program, step));
    list
}

impl PaddedDim {
    /// A dimension in sticks of the tensor's format; none where it fills them.
    fn from_layout(
        side: StepTensor,
        laid: &TensorLayout,
        dim: usize,
        fill: Option<f64>,
    ) -> Option<PaddedDim> {
        PaddedDim::with_stick_size(side, laid, dim, laid.stick_layout().elems_per_stick(), fill)
    }

    fn with_stick_size(
        side: StepTensor,
        laid: &TensorLayout,
        dim: usize,
        eps: i64,
        fill: Option<f64>,
    ) -> Option<PaddedDim> {
        let valid = laid.size()[dim];
        let padded = valid + (eps - valid % eps) % eps;
        (valid > 0 && padded != valid).then_some(PaddedDim {
            side,
            dim,
            valid,
            padded,
            fill,
            by: None,
        })
    }
}

/// Rows of B past k. A single column has its lanes along k as A has, and its padding is in its sticks.
fn find_padded_product_rows(program: &CompiledProgram, step: &ProgramStep) -> Option<PaddedDim> {
    let OpForm::Product(product) = program.graph.node(step.node()?).op.form() else { return None };
    let (a, b) = (product.roles.a, product.roles.b);
    let (left, right): (&BufferRead, &BufferRead) = (step.reads.get(a)?, step.reads.get(b)?);
    let k = find_summed_dim(product, right.laid.size().len())?;
    // The sticks of A decide: its lanes past k meet the rows of B past k, however B itself is stickified.
    let eps = left.laid.stick_layout().elems_per_stick();
    let found = PaddedDim::with_stick_size(StepTensor::Operand(b), &right.laid, k, eps, Some(0.0))?;
    Some(PaddedDim { by: rows_filled_by(program, right), ..found })
}

/// Which dimension of B a product sums over; none where A and B are vectors, or nothing is summed.
pub(crate) fn find_summed_dim(product: &ProductOp, rank: usize) -> Option<usize> {
    match product.form {
        ProductKind::Linear => rank.checked_sub(1),
        ProductKind::Dot | ProductKind::Vecdot | ProductKind::Outer => None,
        _ => rank.checked_sub(2),
    }
}

/// Who made the rows of a tensor past its end; none where it has none, or where they are not filled.
fn rows_filled_by(program: &CompiledProgram, read: &BufferRead) -> Option<FilledBy> {
    read.laid.base_layout().rows_past_the_end()?;
    // A transfer writes whole sticks and fills them with zeros, so that an input needs no move for its padding.
    if matches!(program.buffer(read.buffer).origin, ElementOrigin::Input(_)) {
        return Some(FilledBy::Transfer);
    }
    let made = |s: &ProgramStep| s.is_move() && s.writes.contains(&read.buffer);
    program.steps.iter().position(made).map(|i| FilledBy::Step(StepId(i)))
}

/// Who sees to the lanes of an operand past its end: the kernel, but for products, whose vectors have zeros there where
/// they were transferred.
fn lanes_filled_by(
    program: &CompiledProgram,
    step: &ProgramStep,
    side: StepTensor,
) -> Option<FilledBy> {
    let StepTensor::Operand(k) = side else { return None };
    let op = &program.graph.node(step.node()?).op;
    if !matches!(op.form(), OpForm::Product(_)) {
        return Some(FilledBy::Mask);
    }
    let given = matches!(program.buffer(step.reads[k].buffer).origin, ElementOrigin::Input(_));
    given.then_some(FilledBy::Transfer)
}

/// What the lanes of an operand must hold for an operation that works along them; none where it does not.
fn find_mask_value(
    program: &CompiledProgram,
    step: &ProgramStep,
    side: StepTensor,
    dim: usize,
) -> Option<f64> {
    let op = &program.graph.node(step.node()?).op;
    let StepTensor::Operand(operand) = side else { return None };
    let size = step.reads[operand].laid.size();
    if let OpForm::Product(product) = op.form() {
        // Vectors of a dot product have their lanes along k, and so has a vector on the right, which is B: lanes past k
        // are multiplied with each other, and 0 times 0 adds nothing.
        let vector = operand == product.roles.b && size.len() == 1;
        let dots = matches!(product.form, ProductKind::Dot | ProductKind::Vecdot);
        return (dots || vector).then_some(0.0);
    }
    // The column `neutral` of the table, which the kernels read too: 0 of a sum, minus infinity of a maximum.
    let neutral = op.row().neutral.filter(|_| operand == 0)?;
    let size: Vec<usize> = size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
    op.working_dims(&size)?.contains(&dim).then_some(neutral)
}
