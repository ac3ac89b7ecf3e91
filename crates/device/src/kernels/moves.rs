//! Operations that only move elements: a list of copies from operands into views of results.
//!
//! The device writes into a slice of the target (or reads from a slice of the source) with its moves;
//! there is nothing to compute. A copy plans its own bursts, so that what is charged is what it does.

use super::{Kernel, KernelLayouts, LayoutNeed, Task};
use crate::error::Result;
use crate::error::refuse;
use crate::run::division::{Division, Span};
use crate::tensor::Tensor;
use crate::tensor::sticks::Sticks;
use crate::tensor::tensor_layout::TensorLayout;
use crate::tensor::transfer::Moved;
use std::ops::Deref;
use zellige_layout::StridedLayout;
use zellige_machine::account::{CoreWork, OperationWork, WorkKind};
use zellige_op::{MoveRule, Moving, Scalar, TensorType};
use zellige_stick::StickLayout;

/// Whose memory a piece is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceOf {
    /// Operand number.
    Input(usize),
    /// Result number.
    Output(usize),
    /// Scratch of the operation, by number.
    Scratch(usize),
}

/// A view of an operand, of a result, or of scratch.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Whose memory it is in.
    pub of: PieceOf,
    /// How its elements lie in it.
    pub laid: TensorLayout,
}

impl Piece {
    /// Scratch in the default layout of a tensor's size.
    pub(crate) fn scratch(number: usize, like: &Piece) -> Result<Piece> {
        let format = like.layout().device_dtype();
        let layout = StickLayout::default_in_format(like.size(), None, format)?;
        let laid = TensorLayout::new(like.storage(), like.dtype(), &layout)?;
        Ok(Piece { of: PieceOf::Scratch(number), laid })
    }

    /// Another view of the same memory.
    pub(crate) fn viewed(
        &self,
        f: impl FnOnce(&StridedLayout) -> zellige_layout::Result<StridedLayout>,
    ) -> Result<Piece> {
        Ok(Piece { of: self.of, laid: self.laid.seen(f)? })
    }
}

impl Deref for Piece {
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
pub enum Move {
    /// Copies elements between two views of one size.
    Copy {
        /// Read.
        from: Piece,
        /// Written.
        to: Piece,
    },
    /// Sets all elements of a view.
    Fill {
        /// Written.
        to: Piece,
        /// What.
        value: Scalar,
    },
}

/// Tensors of one operation.
struct Tensors<'a> {
    inputs: &'a [Tensor],
    outputs: &'a [Tensor],
    scratch: Vec<(usize, Tensor)>,
}

impl Tensors<'_> {
    fn tensor(&mut self, piece: &Piece) -> Result<Tensor> {
        let whole = match piece.of {
            PieceOf::Input(i) => self.inputs[i].clone(),
            PieceOf::Output(i) => self.outputs[i].clone(),
            PieceOf::Scratch(n) => match self.scratch.iter().find(|(k, _)| *k == n) {
                Some((_, t)) => t.clone(),
                None => {
                    let card = self.outputs[0].card();
                    let made = Tensor::zeros(card, piece.dtype(), piece.layout())?;
                    self.scratch.push((n, made.clone()));
                    made
                }
            },
        };
        Ok(whole.laid_as(&piece.laid))
    }

    fn run(&mut self, step: &Move) -> Result<Moved> {
        match step {
            Move::Copy { from, to } => {
                let (from, to) = (self.tensor(from)?, self.tensor(to)?);
                to.copy_from(&from)
            }
            Move::Fill { to, value } => {
                let written = self.tensor(to)?.fill(*value)?;
                Ok(Moved { read: 0, read_runs: Vec::new(), ..written })
            }
        }
    }
}

/// Does the moves in their order, each shared by the cores.
///
/// # Errors
/// What a copy refuses; earlier ones are done then.
pub(crate) fn perform(
    name: &str,
    moves: &[Move],
    inputs: &[Tensor],
    outputs: &[Tensor],
    cores: usize,
) -> Result<OperationWork> {
    let mut tensors = Tensors { inputs, outputs, scratch: Vec::new() };
    let done: Vec<Moved> = moves.iter().map(|m| tensors.run(m)).collect::<Result<_>>()?;
    Ok(together(name, &done, cores))
}

/// What the moves would take.
///
/// # Errors
/// What a copy refuses.
pub(crate) fn planned(name: &str, moves: &[Move], cores: usize) -> Result<OperationWork> {
    let plan = |step: &Move| match step {
        Move::Copy { from, to } => from.laid.moved_to(&to.laid),
        Move::Fill { to, .. } => to.laid.filled(),
    };
    let list: Vec<Moved> = moves.iter().map(plan).collect::<Result<_>>()?;
    Ok(together(name, &list, cores))
}

fn together(name: &str, moves: &[Moved], cores: usize) -> OperationWork {
    let mut all = OperationWork::uniform_cores(name, WorkKind::Copy, cores, CoreWork::default());
    for moved in moves {
        let work = moved.work(name, WorkKind::Copy, cores);
        for (sum, core) in all.cores.iter_mut().zip(&work.cores) {
            sum.reads.merge_traffic(&core.reads);
            sum.writes.merge_traffic(&core.writes);
            sum.padding_bytes += core.padding_bytes;
            sum.lx_bytes += core.lx_bytes;
            sum.lx_peak = sum.lx_peak.max(core.lx_peak);
        }
    }
    all
}

/// Part of a dimension of a view.
pub(crate) fn part(t: &Piece, dim: usize, start: i64, len: i64) -> Result<Piece> {
    let d = i64::try_from(dim).unwrap_or(i64::MAX);
    t.viewed(|v| v.slice_dim(d, Some(start), Some(start + len), 1))
}

/// The rule of an operation that only moves.
pub(crate) trait Moves: MoveRule {
    /// The copies.
    fn moves(&self, inputs: &[Piece], output: &Piece) -> Result<Vec<Move>>;
}

impl<M: Moves> Kernel for Moving<M> {
    /// A result lies as its first regular operand does; dimensions that this has not come first.
    fn lay(&self, inputs: &[TensorLayout], outputs: &[TensorType]) -> Result<KernelLayouts> {
        let out = &outputs[0];
        let format = crate::tensor::result_layout::result_format(inputs, out.dtype)?;
        let size: Vec<usize> = out.size.iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let form = inputs.iter().find_map(|t| t.sticks().ok().filter(|s| s.numel() > 0));
        let layout = match form {
            Some(form) => {
                let mut own = Sticks { size: size.as_slice().into(), ..form.clone() };
                own.stride = smallvec::SmallVec::from_elem(0, size.len());
                own.stick = form.stick.map(|s| self.rule.place(s, form.rank()));
                for d in 0..form.rank() {
                    own.stride[self.rule.place(d, form.rank())] = form.stride[d];
                }
                crate::tensor::result_layout::arranged(&own, format)?
            }
            None => StickLayout::default_in_format(&out.size, None, format)?,
        };
        Ok(KernelLayouts { inputs: vec![LayoutNeed::Any; inputs.len()], outputs: vec![layout] })
    }

    fn space(&self, _: &[Sticks], outputs: &[Sticks]) -> Vec<Span> {
        super::pointwise::spans(&[], &outputs[0])
    }

    fn moves(
        &self,
        inputs: &[TensorLayout],
        outputs: &[TensorLayout],
    ) -> Result<Option<Vec<Move>>> {
        if outputs[0].numel() == 0 {
            return Ok(Some(Vec::new()));
        }
        let piece = |of: PieceOf, laid: &TensorLayout| Piece { of, laid: laid.clone() };
        let list = inputs.iter().enumerate();
        let inputs: Vec<Piece> = list.map(|(i, t)| piece(PieceOf::Input(i), t)).collect();
        self.rule.moves(&inputs, &piece(PieceOf::Output(0), &outputs[0])).map(Some)
    }

    fn task(&self, _: &[Sticks], _: &[Sticks], _: &Division) -> Result<Box<dyn Task>> {
        Err(refuse(self.name, None, "it is made of moves and has no task"))
    }
}
