//! Operations that only move elements: a list of copies from operands into views of results.
//!
//! The device writes into a slice of the target (or reads from a slice of the source) with its moves;
//! there is nothing to compute. A copy plans its own bursts, so that what is charged is what it does.

use super::{KernelLayouts, KernelTask, LayoutNeed, OpKernel};
use crate::error::Result;
use crate::error::refuse_operand;
use crate::run::division::{LoopSpan, WorkDivision};
use crate::tensor::Tensor;
use crate::tensor::sticks::StickForm;
use crate::tensor::tensor_layout::TensorLayout;
use crate::tensor::transfer::MoveTraffic;
use std::ops::Deref;
use zellige_layout::StridedLayout;
use zellige_machine::account::{CoreWork, OperationWork, WorkKind};
use zellige_op::{HostScalar, MoveForm, MoveRule, TensorType};
use zellige_stick::StickLayout;

/// Whose memory a piece is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceOwner {
    /// Operand number.
    Input(usize),
    /// Result number.
    Output(usize),
    /// Scratch of the operation, by number.
    Scratch(usize),
}

/// A view of an operand, of a result, or of scratch.
#[derive(Debug, Clone)]
pub struct TensorPiece {
    /// Whose memory it is in.
    pub of: PieceOwner,
    /// The layout of its elements in it.
    pub laid: TensorLayout,
}

impl TensorPiece {
    /// Scratch in the default layout of a tensor's size.
    pub(crate) fn scratch_like(number: usize, like: &TensorPiece) -> Result<TensorPiece> {
        let format = like.stick_layout().device_dtype();
        let layout = StickLayout::default_in_format(like.size(), None, format)?;
        let laid = TensorLayout::new(like.storage_policy(), like.dtype(), &layout)?;
        Ok(TensorPiece { of: PieceOwner::Scratch(number), laid })
    }

    /// Another view of the same memory.
    pub(crate) fn view_piece(
        &self,
        f: impl FnOnce(&StridedLayout) -> zellige_layout::Result<StridedLayout>,
    ) -> Result<TensorPiece> {
        Ok(TensorPiece { of: self.of, laid: self.laid.view_layout(f)? })
    }
}

impl Deref for TensorPiece {
    type Target = TensorLayout;
    fn deref(&self) -> &TensorLayout {
        &self.laid
    }
}

/// One step of such an operation.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "an operation has a few, and nearly all of them copy"
)]
pub enum ElementMove {
    /// Copies elements between two views of one size.
    Copy {
        /// Read.
        from: TensorPiece,
        /// Written.
        to: TensorPiece,
    },
    /// Sets all elements of a view.
    Fill {
        /// Written.
        to: TensorPiece,
        /// What.
        value: HostScalar,
    },
}

/// Tensors of one operation.
struct MoveTensors<'a> {
    inputs: &'a [Tensor],
    outputs: &'a [Tensor],
    scratch: Vec<(usize, Tensor)>,
}

impl MoveTensors<'_> {
    fn resolve_piece(&mut self, piece: &TensorPiece) -> Result<Tensor> {
        let whole = match piece.of {
            PieceOwner::Input(i) => self.inputs[i].clone(),
            PieceOwner::Output(i) => self.outputs[i].clone(),
            // Made when the first step asks for it, because most operations need no scratch memory.
            PieceOwner::Scratch(n) => match self.scratch.iter().find(|(k, _)| *k == n) {
                Some((_, t)) => t.clone(),
                None => {
                    let card = self.outputs[0].card();
                    let made = Tensor::zeros(card, piece.dtype(), piece.stick_layout())?;
                    self.scratch.push((n, made.clone()));
                    made
                }
            },
        };
        Ok(whole.with_layout(&piece.laid))
    }

    fn run_move(&mut self, step: &ElementMove) -> Result<MoveTraffic> {
        match step {
            ElementMove::Copy { from, to } => {
                let (from, to) = (self.resolve_piece(from)?, self.resolve_piece(to)?);
                to.copy_from(&from)
            }
            ElementMove::Fill { to, value } => {
                let written = self.resolve_piece(to)?.fill(*value)?;
                // The move writes a number that no memory holds, so that nothing is charged for reading.
                Ok(MoveTraffic { read: 0, read_runs: Vec::new(), ..written })
            }
        }
    }
}

/// Does the moves in their order, each shared by the cores.
///
/// # Errors
/// What a copy refuses; earlier ones are done then.
pub(crate) fn perform_moves(
    name: &str,
    moves: &[ElementMove],
    inputs: &[Tensor],
    outputs: &[Tensor],
    cores: usize,
) -> Result<OperationWork> {
    let mut tensors = MoveTensors { inputs, outputs, scratch: Vec::new() };
    let done: Vec<MoveTraffic> =
        moves.iter().map(|m| tensors.run_move(m)).collect::<Result<_>>()?;
    Ok(combine_move_work(name, &done, cores))
}

/// What the moves would take.
///
/// # Errors
/// What a copy refuses.
pub(crate) fn estimate_moves(
    name: &str,
    moves: &[ElementMove],
    cores: usize,
) -> Result<OperationWork> {
    let plan = |step: &ElementMove| match step {
        ElementMove::Copy { from, to } => from.laid.plan_copy_to(&to.laid),
        ElementMove::Fill { to, .. } => to.laid.plan_fill(),
    };
    let list: Vec<MoveTraffic> = moves.iter().map(plan).collect::<Result<_>>()?;
    Ok(combine_move_work(name, &list, cores))
}

fn combine_move_work(name: &str, moves: &[MoveTraffic], cores: usize) -> OperationWork {
    let mut all = OperationWork::uniform_cores(name, WorkKind::Copy, cores, CoreWork::default());
    for moved in moves {
        let work = moved.device_work(name, WorkKind::Copy, cores);
        for (sum, core) in all.cores.iter_mut().zip(&work.cores) {
            sum.reads.merge_traffic(&core.reads);
            sum.writes.merge_traffic(&core.writes);
            sum.padding_bytes += core.padding_bytes;
            sum.lx_bytes += core.lx_bytes;
            // Moves run one after the other, so that the scratchpad is free again before the next one: the peak is
            // the largest, while traffic adds up.
            sum.lx_peak = sum.lx_peak.max(core.lx_peak);
        }
    }
    all
}

/// Part of a dimension of a view.
pub(crate) fn slice_piece(
    t: &TensorPiece,
    dim: usize,
    start: i64,
    len: i64,
) -> Result<TensorPiece> {
    let d = i64::try_from(dim).unwrap_or(i64::MAX);
    t.view_piece(|v| v.slice_dim(d, Some(start), Some(start + len), 1))
}

/// The rule of an operation that only moves.
pub(crate) trait MoveKernel: MoveRule {
    /// The copies.
    fn list_moves(&self, inputs: &[TensorPiece], output: &TensorPiece) -> Result<Vec<ElementMove>>;
}

impl<M: MoveKernel> OpKernel for MoveForm<M> {
    /// A result has the layout of its first regular operand; dimensions that this operand lacks come first.
    fn plan_layouts(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorType],
    ) -> Result<KernelLayouts> {
        let out = &outputs[0];
        let format = crate::tensor::result_layout::result_format(inputs, out.dtype)?;
        let size: Vec<usize> = out.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        // Following an operand makes most pieces copies of whole sticks. An empty operand (as of a concatenation)
        // says nothing about the layout.
        let form = inputs.iter().find_map(|t| t.stick_form().ok().filter(|s| s.numel() > 0));
        let layout = match form {
            Some(form) => {
                let mut own = StickForm { size: size.as_slice().into(), ..form.clone() };
                own.stride = smallvec::SmallVec::from_elem(0, size.len());
                own.stick = form.stick.map(|s| self.rule.result_dim(s, form.rank()));
                for d in 0..form.rank() {
                    own.stride[self.rule.result_dim(d, form.rank())] = form.stride[d];
                }
                crate::tensor::result_layout::layout_in_form_order(&own, format)?
            }
            None => StickLayout::default_in_format(&out.size, None, format)?,
        };
        // Any layout will do, because the planner of moves reads every one: asking for another would copy the
        // operand twice.
        Ok(KernelLayouts { inputs: vec![LayoutNeed::Any; inputs.len()], outputs: vec![layout] })
    }

    fn iteration_space(&self, _: &[StickForm], outputs: &[StickForm]) -> Vec<LoopSpan> {
        super::pointwise::result_spans(&[], &outputs[0])
    }

    fn plan_moves(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<ElementMove>>> {
        if outputs[0].numel() == 0 {
            return Ok(Some(Vec::new()));
        }
        // Views share the memory of their tensor, so that a step never copies more than it moves.
        let piece = |of: PieceOwner, laid: &TensorLayout| TensorPiece { of, laid: laid.clone() };
        let list = inputs.iter().enumerate();
        let inputs: Vec<TensorPiece> = list.map(|(i, t)| piece(PieceOwner::Input(i), t)).collect();
        self.rule.list_moves(&inputs, &piece(PieceOwner::Output(0), &outputs[0])).map(Some)
    }

    fn bind_task(
        &self,
        _: &[StickForm],
        _: &[StickForm],
        _: &WorkDivision,
    ) -> Result<Box<dyn KernelTask>> {
        Err(refuse_operand(self.name, None, "it is made of moves and has no task"))
    }
}
